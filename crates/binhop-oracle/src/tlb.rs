//! `Mmu` holds the TLBs and walk caches of a processor, as the textbook draws them. Every reference asks the TLBs. A
//! slot is empty, or holds a page with the times of its arrival and its last use; a page is looked for in all slots of
//! its set.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Domain, Rng, Stream};

/// The number that stands for all spaces, in a page that all spaces share.
const EVERY_SPACE: u32 = u32::MAX;

/// `VirtualPage` is (space, number of the page at its size, logarithm of its size).
pub type VirtualPage = (u32, u64, u32);

/// `TlbDesign` describes a TLB or a walk cache. Choices have the names that they have in a machine file.
#[derive(Clone, Debug)]
pub struct TlbDesign {
    /// The slots that only wired fills use.
    pub wired: usize,
    /// The number of sets of the other slots.
    pub sets: u64,
    /// The slots of each set.
    pub ways: usize,
    /// `lru`, `fifo`, `random` or `plru`.
    pub replacement: &'static str,
    /// The logarithms of the sizes of pages.
    pub pages: Vec<u32>,
    /// The second-level TLB.
    pub next: Option<usize>,
}

/// `MmuDesign` describes all TLBs and walk caches.
#[derive(Clone, Debug)]
pub struct MmuDesign {
    /// The logarithm of the smallest page's bytes.
    pub base_log2: u32,
    /// Every TLB.
    pub tlbs: Vec<TlbDesign>,
    /// The first-level TLBs of fetches and of data.
    pub ports: [Vec<usize>; 2],
    /// True if entries carry their space.
    pub tagged: bool,
    /// The number of spaces that have tags at once.
    pub spaces: Option<usize>,
    /// The level of each walk cache, with the cache.
    pub walk_caches: Vec<(usize, TlbDesign)>,
}

#[derive(Clone, Copy, Debug)]
struct TlbEntry {
    page: VirtualPage,
    arrived: u64,
    used: u64,
}

/// `Tlb` is one TLB, or one walk cache.
#[derive(Clone, Debug)]
struct Tlb {
    design: TlbDesign,
    number: u64,
    /// For each set, its slots. The last set is the wired slots.
    sets: Vec<Vec<Option<TlbEntry>>>,
    /// For each set, the nodes of its tree (first slot, number of slots) that point to the upper half.
    points_up: Vec<BTreeSet<(usize, usize)>>,
    victims: Vec<u64>,
}

impl Tlb {
    fn new(design: &TlbDesign, number: usize) -> Self {
        let mut sets = vec![vec![None; design.ways]; design.sets as usize];
        sets.push(vec![None; design.wired]);
        let count = sets.len();
        Self {
            design: design.clone(),
            number: number as u64,
            sets,
            points_up: vec![BTreeSet::new(); count],
            victims: vec![0; count],
        }
    }

    fn wired_set(&self) -> usize {
        self.sets.len() - 1
    }

    fn set_of(&self, page: VirtualPage) -> usize {
        (page.1 % self.design.sets) as usize
    }

    /// Looks for a page and uses its entry.
    fn uses(&mut self, page: VirtualPage, time: u64) -> bool {
        for set in [self.set_of(page), self.wired_set()] {
            let holds = |slot: &Option<TlbEntry>| slot.is_some_and(|entry| entry.page == page);
            if let Some(way) = self.sets[set].iter().position(holds) {
                if let Some(entry) = &mut self.sets[set][way] {
                    entry.used = time;
                }
                self.point_away(set, way);
                return true;
            }
        }
        false
    }

    /// Puts a page that the TLB lacks into a slot. Returns whether another page left.
    fn put(&mut self, page: VirtualPage, wired: bool, time: u64) -> bool {
        let set = if wired && self.design.wired > 0 { self.wired_set() } else { self.set_of(page) };
        let vacant = self.sets[set].iter().position(Option::is_none);
        let way = vacant.unwrap_or_else(|| self.victim(set));
        self.sets[set][way] = Some(TlbEntry { page, arrived: time, used: time });
        self.point_away(set, way);
        vacant.is_none()
    }

    fn victim(&mut self, set: usize) -> usize {
        let entries: Vec<TlbEntry> =
            self.sets[set].iter().map(|slot| slot.expect("the set is full")).collect();
        let ways = entries.len();
        match self.design.replacement {
            "lru" => (0..ways).min_by_key(|&way| entries[way].used).expect("a way"),
            "fifo" => (0..ways).min_by_key(|&way| entries[way].arrived).expect("a way"),
            "random" => {
                let stream = Stream::new(Domain::TlbVictim, (self.number << 48) + set as u64);
                self.victims[set] += 1;
                Rng::new(0).below(stream, self.victims[set] - 1, ways as u64) as usize
            }
            "plru" => {
                let (mut first, mut size) = (0, ways);
                while size > 1 {
                    let up = self.points_up[set].contains(&(first, size));
                    size /= 2;
                    first += if up { size } else { 0 };
                }
                first
            }
            other => panic!("the oracle has no rule for the replacement `{other}`: write it here"),
        }
    }

    fn point_away(&mut self, set: usize, way: usize) {
        let (mut first, mut size) = (0, self.sets[set].len());
        while size > 1 && self.design.replacement == "plru" {
            let node = (first, size);
            size /= 2;
            if way >= first + size {
                self.points_up[set].remove(&node);
                first += size;
            } else {
                self.points_up[set].insert(node);
            }
        }
    }

    /// Removes the pages for which `leaves` holds, given the page and whether its slot is wired.
    fn remove(&mut self, leaves: impl Fn(VirtualPage, bool) -> bool) -> u64 {
        let (mut removed, wired) = (0, self.wired_set());
        for (set, slots) in self.sets.iter_mut().enumerate() {
            for slot in slots {
                if slot.is_some_and(|entry| leaves(entry.page, set == wired)) {
                    *slot = None;
                    removed += 1;
                }
            }
        }
        removed
    }

    fn contents(&self) -> Vec<Option<VirtualPage>> {
        let (wired, sets) = self.sets.split_last().expect("the wired slots");
        wired.iter().chain(sets.iter().flatten()).map(|slot| slot.map(|entry| entry.page)).collect()
    }
}

/// `Lookup` says where a lookup found its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// In this first-level TLB.
    First(usize),
    /// In this second-level TLB.
    Second(usize),
    /// Nowhere.
    Nowhere,
}

/// `Mmu` holds TLBs and walk caches.
#[derive(Clone, Debug)]
pub struct Mmu {
    design: MmuDesign,
    tlbs: Vec<Tlb>,
    walk_caches: Vec<Tlb>,
    running: Option<u32>,
    tags: Vec<u32>,
    time: u64,
    /// Every count that is not 0, by its name: `tlb 0 data accesses`, `tlb 1 fills`, `walk cache 0 hits`, `flushes`.
    pub counts: BTreeMap<String, u64>,
}

impl Mmu {
    /// Makes empty TLBs and walk caches.
    #[must_use]
    pub fn new(design: &MmuDesign) -> Self {
        Self {
            tlbs: design.tlbs.iter().enumerate().map(|(number, tlb)| Tlb::new(tlb, number)).collect(),
            walk_caches: design.walk_caches.iter().map(|(_, cache)| Tlb::new(cache, 0)).collect(),
            design: design.clone(),
            running: None,
            tags: Vec::new(),
            time: 0,
            counts: BTreeMap::new(),
        }
    }

    fn count(&mut self, name: String, amount: u64) {
        if amount > 0 {
            *self.counts.entry(name).or_default() += amount;
        }
    }

    /// Asks one TLB on behalf of a port.
    fn ask(&mut self, tlb: usize, port: usize, page: VirtualPage) -> bool {
        self.time += 1;
        let found = self.tlbs[tlb].uses(page, self.time);
        let port = ["fetch", "data"][port];
        self.count(format!("tlb {tlb} {port} accesses"), 1);
        self.count(format!("tlb {tlb} {port} misses"), u64::from(!found));
        found
    }

    fn first_level(&self, port: usize, page: VirtualPage) -> usize {
        let mut tlbs = self.design.ports[port].iter();
        *tlbs
            .find(|&&tlb| self.design.tlbs[tlb].pages.contains(&page.2))
            .expect("a TLB for pages of this size")
    }

    fn second_level(&self, first: usize, page: VirtualPage) -> Option<usize> {
        self.design.tlbs[first].next.filter(|&tlb| self.design.tlbs[tlb].pages.contains(&page.2))
    }

    /// Looks up a page for a reference.
    pub fn look_up(&mut self, port: usize, page: VirtualPage) -> Lookup {
        self.look_up_for(port, page, false)
    }

    /// Looks up a page of a page table. A hit in the second level fills a wired slot of the first level.
    pub fn look_up_wired(&mut self, port: usize, page: VirtualPage) -> Lookup {
        self.look_up_for(port, page, true)
    }

    fn look_up_for(&mut self, port: usize, page: VirtualPage, wired: bool) -> Lookup {
        let first = self.first_level(port, page);
        if self.ask(first, port, page) {
            return Lookup::First(first);
        }
        match self.second_level(first, page) {
            Some(second) if self.ask(second, port, page) => {
                self.put(first, page, wired);
                Lookup::Second(second)
            }
            _ => Lookup::Nowhere,
        }
    }

    fn put(&mut self, tlb: usize, page: VirtualPage, wired: bool) {
        self.time += 1;
        if self.tlbs[tlb].uses(page, self.time) {
            return;
        }
        let evicted = self.tlbs[tlb].put(page, wired, self.time);
        self.count(format!("tlb {tlb} fills"), 1);
        self.count(format!("tlb {tlb} evictions"), u64::from(evicted));
    }

    /// Fills both levels after a walk.
    pub fn fill(&mut self, port: usize, page: VirtualPage, wired: bool) {
        let first = self.first_level(port, page);
        self.put(first, page, wired);
        if let Some(second) = self.second_level(first, page) {
            self.put(second, page, wired);
        }
    }

    /// Notes that another space runs.
    pub fn switch(&mut self, space: u32) {
        let before = self.running.replace(space);
        if before == Some(space) {
            return;
        }
        if !self.design.tagged {
            if before.is_some() {
                self.count("flushes".into(), 1);
                self.flush(|page, wired| page.0 != EVERY_SPACE && !wired);
            }
        } else if let Some(most) = self.design.spaces
            && !self.tags.contains(&space)
        {
            if self.tags.len() == most {
                self.tags.clear();
                self.count("rollovers".into(), 1);
                self.flush(|page, _| page.0 != EVERY_SPACE);
            }
            self.tags.push(space);
        }
    }

    fn flush(&mut self, leaves: impl Fn(VirtualPage, bool) -> bool) {
        self.remove("flushed", leaves, |_| true);
    }

    fn remove(
        &mut self,
        count: &str,
        from_tlbs: impl Fn(VirtualPage, bool) -> bool,
        from_walk_caches: impl Fn(VirtualPage) -> bool,
    ) {
        for tlb in 0..self.tlbs.len() {
            let removed = self.tlbs[tlb].remove(&from_tlbs);
            self.count(format!("tlb {tlb} {count}"), removed);
        }
        for cache in 0..self.walk_caches.len() {
            let removed = self.walk_caches[cache].remove(|page, _| from_walk_caches(page));
            self.count(format!("walk cache {cache} {count}"), removed);
        }
    }

    /// Removes the entries of some base pages of a space, because their mappings change.
    pub fn invalidate(&mut self, space: u32, first: u64, last: u64) {
        let base = self.design.base_log2;
        let leaves = |(owner, number, size): VirtualPage| {
            let pages = 1u128 << (size - base);
            let (start, end) = (u128::from(number) * pages, u128::from(number) * pages + pages - 1);
            owner == space && start <= u128::from(last) && end >= u128::from(first)
        };
        self.remove("invalidated", |page, _| leaves(page), leaves);
    }

    /// Removes the entries of a space that ends.
    pub fn invalidate_space(&mut self, space: u32) {
        self.remove("invalidated", |page, _| page.0 == space, |page| page.0 == space);
    }

    /// Walks for a base page. Returns the number of levels that the walk caches spare, and keeps the entries that
    /// the walk reads in them. `below` has, for each level, the bits of a page's number that are translated below
    /// the level.
    pub fn walk(&mut self, space: u32, base_page: u64, below: &[u32]) -> usize {
        let entry =
            |level: usize| (space, base_page / (1u64 << below[level]), self.design.base_log2 + below[level]);
        let upper: Vec<VirtualPage> = (0..below.len() - 1).map(entry).collect();
        let caches = self.design.walk_caches.clone();
        let cache_of = |level: usize| caches.iter().position(|(of, _)| *of == level);
        let mut spared = 0;
        for level in (0..upper.len()).rev() {
            let Some(cache) = cache_of(level) else { continue };
            self.time += 1;
            self.count(format!("walk cache {cache} accesses"), 1);
            if self.walk_caches[cache].uses(upper[level], self.time) {
                self.count(format!("walk cache {cache} hits"), 1);
                spared = level + 1;
                break;
            }
        }
        for (level, &entry) in upper.iter().enumerate().skip(spared) {
            let Some(cache) = cache_of(level) else { continue };
            self.time += 1;
            if !self.walk_caches[cache].uses(entry, self.time) {
                let evicted = self.walk_caches[cache].put(entry, false, self.time);
                self.count(format!("walk cache {cache} fills"), 1);
                self.count(format!("walk cache {cache} evictions"), u64::from(evicted));
            }
        }
        spared
    }

    /// Returns the slots of each TLB, wired slots first, then set by set.
    #[must_use]
    pub fn contents(&self) -> Vec<Vec<Option<VirtualPage>>> {
        self.tlbs.iter().map(Tlb::contents).collect()
    }

    /// Returns the slots of each walk cache.
    #[must_use]
    pub fn walk_cache_contents(&self) -> Vec<Vec<Option<VirtualPage>>> {
        self.walk_caches.iter().map(Tlb::contents).collect()
    }
}
