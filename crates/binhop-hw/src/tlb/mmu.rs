//! `Mmu` holds the TLBs and walk caches of a processor. The top of `tlb/mod.rs` has its rules.

mod look_up;

use std::collections::BTreeSet;

use super::array::{ArraySize, PageArray, remove_where};
use super::config::{MmuConfig, TlbConfig};
use super::page::{GLOBAL_SPACE, PageKey, TlbPage};
use super::use_times::{LastUses, UseTimes};
use super::walk_caches::WalkCaches;
use crate::counters::{TlbCounters, TlbPortCounters, WalkCacheCounters};

/// The port of instruction fetches.
pub const FETCH_PORT: usize = 0;
/// The port of loads and stores.
pub const DATA_PORT: usize = 1;
const PORTS: usize = 2;

/// `TlbOutcome` says where a lookup found its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlbOutcome {
    /// In this first-level TLB.
    First(usize),
    /// In this second-level TLB.
    Second(usize),
    /// Nowhere: a walk follows.
    Miss,
}

/// `TlbCounts` holds the counts of one TLB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlbCounts {
    /// The lookups of each port.
    pub ports: [TlbPortCounters; PORTS],
    /// What came and left.
    pub entries: TlbCounters,
}

/// `MmuCounts` holds all counts of an [`Mmu`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MmuCounts {
    /// The counts of each TLB, in the order of the description.
    pub tlbs: Vec<TlbCounts>,
    /// The counts of each walk cache, in the order of the description.
    pub walk_caches: Vec<WalkCacheCounters>,
    /// The switches that flushed, because entries carry no tags.
    pub flushes: u64,
    /// The switches that flushed, because the hardware's numbers of address spaces had run out.
    pub rollovers: u64,
}

/// The TLB that holds no page.
const NO_TLB: u8 = u8::MAX;

/// `NOBODY` stands for the running space before the first switch, and for the space of no page.
const NOBODY: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Tlb {
    counts: TlbCounts,
    array: PageArray,
    /// The second-level TLB for each size of page, or [`NO_TLB`].
    next: [u8; 64],
    sizes: Vec<u32>,
    /// True if a port asks this TLB first.
    is_first: bool,
}

/// The last page that a port found or filled in a first-level TLB.
#[derive(Clone, Copy, Debug)]
struct LastPage {
    /// The page's number, or `u64::MAX` if the port has no last page.
    number: u64,
    /// The number of base pages in the page is two to this power.
    shift: u32,
    tlb: u32,
    slot: u32,
    /// The time + 1 of the last use that the TLB does not know of; 0 if there is none.
    pending: u64,
}

const NO_PAGE: LastPage = LastPage { number: u64::MAX, shift: 0, tlb: u32::MAX, slot: u32::MAX, pending: 0 };

#[derive(Clone, Debug)]
struct TlbPort {
    last: LastPage,
    /// The first-level TLB for each size of page, or [`NO_TLB`].
    first: [u8; 64],
}

/// `Mmu` looks up the pages of references in TLBs.
///
/// The caller tells it which space runs ([`Mmu::switch`]), looks up the page of each reference, and after a miss walks
/// its tables and fills. A reference to the last page of a port need not be looked up:
///
/// ```
/// # use binhop_hw::{DATA_PORT, Mmu, MmuConfig, TlbConfig, TlbOutcome, TlbPage, TlbReplacement};
/// let tlb = TlbConfig {
///     name: "tlb".into(),
///     entries: 64,
///     ways: 64,
///     replacement: TlbReplacement::Lru,
///     wired: 0,
///     pages: vec![12],
///     next: None,
/// };
/// let mut mmu = Mmu::new(&MmuConfig {
///     base_log2: 12,
///     tlbs: vec![tlb],
///     fetch: vec![0],
///     data: vec![0],
///     tagged: true,
///     spaces: None,
///     walk_caches: vec![],
/// });
/// mmu.switch(3);
/// let mut walks = 0;
/// for (now, address) in [0x1000, 0x1008, 0x2000, 0x2010, 0x1000_u64].into_iter().enumerate() {
///     let number = address >> 12;
///     if mmu.is_last(DATA_PORT, number) {
///         mmu.note_last_use(DATA_PORT, 1, now as u64);
///         continue;
///     }
///     let page = TlbPage { space: 3, number, size_log2: 12 };
///     if mmu.look_up(DATA_PORT, page) == TlbOutcome::Miss {
///         walks += 1;
///         mmu.fill(DATA_PORT, page);
///     }
/// }
/// assert_eq!(walks, 2);
/// assert_eq!(mmu.counts().tlbs[0].ports[DATA_PORT].accesses, 5);
/// ```
#[derive(Clone, Debug)]
pub struct Mmu {
    tlbs: Vec<Tlb>,
    /// The times of all slots of TLBs and walk caches.
    times: UseTimes,
    /// The numbers of the entries that fills have removed from first-level TLBs, if somebody asks for them.
    left: Option<Vec<u32>>,
    ports: [TlbPort; PORTS],
    /// The space that runs, or [`NOBODY`].
    running: u64,
    /// True if the order between the last uses of the ports matters in some TLB.
    keeps_order: bool,
    tagged: bool,
    spaces: Option<u32>,
    /// The spaces that have a number in the hardware, if the hardware has a limited count of numbers.
    numbered: BTreeSet<u32>,
    walk_caches: WalkCaches,
    base_log2: u32,
    flushes: u64,
    rollovers: u64,
}

impl Mmu {
    /// Makes empty TLBs and walk caches. No space runs.
    ///
    /// # Panics
    /// The description breaks a rule: see [`MmuConfig::broken_rule`].
    #[must_use]
    pub fn new(config: &MmuConfig) -> Self {
        if let Some((name, rule)) = config.broken_rule() {
            panic!("{name}: {rule}");
        }
        let tlb_of_size = |indices: &[usize]| {
            core::array::from_fn(|size| {
                let holds = |&&index: &&usize| config.tlbs[index].holds(size as u32);
                indices.iter().find(holds).map_or(NO_TLB, |&index| index as u8)
            })
        };
        let mut times = UseTimes::new();
        let tlb = |(number, tlb): (usize, &TlbConfig)| {
            let size = ArraySize { entries: tlb.entries, ways: tlb.ways, wired: tlb.wired };
            Tlb {
                counts: TlbCounts::default(),
                array: PageArray::new(size, tlb.replacement, number, &mut times),
                next: tlb_of_size(tlb.next.as_slice()),
                sizes: tlb.pages.clone(),
                is_first: config.fetch.contains(&number) || config.data.contains(&number),
            }
        };
        let tlbs = config.tlbs.iter().enumerate().map(tlb).collect();
        let port = |first: &[usize]| TlbPort { last: NO_PAGE, first: tlb_of_size(first) };
        let walk_caches = WalkCaches::new(config, &mut times);
        Self {
            tlbs,
            times,
            left: None,
            ports: [port(&config.fetch), port(&config.data)],
            running: NOBODY,
            keeps_order: order_matters(config),
            tagged: config.tagged,
            spaces: config.spaces,
            numbered: BTreeSet::new(),
            base_log2: config.base_log2,
            flushes: 0,
            rollovers: 0,
            walk_caches,
        }
    }

    /// Returns whether a first-level TLB of the port holds pages of this size. Other pages must not be looked up.
    #[must_use]
    pub fn holds(&self, port: usize, size_log2: u32) -> bool {
        self.ports[port].first[size_log2 as usize] != NO_TLB
    }

    /// Returns whether a base page of the running space lies in the port's last page, whose entry is still there. A
    /// reference to such a page may be dropped: [`Mmu::note_last_use`] replaces [`Mmu::look_up`].
    #[inline(always)]
    #[must_use]
    pub fn is_last(&self, port: usize, base_page: u64) -> bool {
        let last = &self.ports[port].last;
        base_page >> last.shift == last.number
    }

    /// Counts dropped references to the port's last page as hits. The last of them was made at `now`: a time that the
    /// caller chooses, and that never decreases. One call may count several references, if it comes before the next
    /// call of any other function that changes something. Of two references at one time, the fetch is the earlier
    /// reference.
    #[inline(always)]
    pub fn note_last_use(&mut self, port: usize, references: u64, now: u64) {
        let last = &mut self.ports[port].last;
        if self.keeps_order {
            last.pending = now + 1;
        }
        self.tlbs[last.tlb as usize].counts.ports[port].accesses += references;
    }

    /// Returns the base page that each port referenced last, if the page is as large as a base page and its entry is
    /// still there; `u64::MAX` otherwise. [`Mmu::is_last`] holds for this page.
    #[must_use]
    pub fn last_pages(&self) -> [u64; 2] {
        [FETCH_PORT, DATA_PORT].map(|port| {
            let last = &self.ports[port].last;
            if last.shift == 0 { last.number } else { u64::MAX }
        })
    }

    /// Returns whether a use of an entry in a first-level TLB changes at most the entry's time. Then the caller may
    /// note uses instead of the TLBs: see [`LastUses`].
    #[must_use]
    pub fn uses_are_times(&self) -> bool {
        self.tlbs.iter().all(|tlb| !tlb.is_first || tlb.array.uses_are_times())
    }

    /// Returns whether both ports ask the same TLB for base pages.
    #[must_use]
    pub fn shares_first_level(&self) -> bool {
        let [fetch, data] =
            [FETCH_PORT, DATA_PORT].map(|port| self.ports[port].first[self.base_log2 as usize % 64]);
        fetch == data
    }

    /// Forgets the last page of each port, until the port's next look-up: the uses that the caller notes are later than
    /// the uses of the last pages.
    pub fn forget_last_pages(&mut self) {
        self.note_pending();
        for port in &mut self.ports {
            port.last = NO_PAGE;
        }
    }

    /// Returns the number of the entry of the port's last page, or `None` if the port has no last page.
    #[inline]
    #[must_use]
    pub fn entry_of_last(&self, port: usize) -> Option<u32> {
        let last = &self.ports[port].last;
        let array = &self.tlbs.get(last.tlb as usize)?.array;
        Some(array.number_of(last.slot as usize))
    }

    /// Says that the next look-ups and fills belong to a reference at the time `now` of the clock by which the caller
    /// notes uses. Times begin at 1, and each reference has a later time than the reference before.
    #[inline]
    pub fn advance(&mut self, now: u64) {
        self.times.advance(now);
    }

    /// Takes over the last uses that the caller has noted. The caller may forget them.
    pub fn take_uses(&mut self, uses: &impl LastUses) {
        for tlb in self.tlbs.iter().filter(|tlb| tlb.is_first) {
            tlb.array.update_times(&mut self.times, uses);
        }
        self.times.pass_all();
    }

    /// From now on [`Mmu::take_left`] returns the entries that leave first-level TLBs, or nothing if `report` is false.
    pub fn report_left(&mut self, report: bool) {
        self.left = report.then(Vec::new);
    }

    /// Returns the numbers of the entries that fills have removed from first-level TLBs since the last call. Another
    /// page may have the entry now.
    #[inline]
    pub fn take_left(&mut self) -> impl Iterator<Item = u32> {
        self.left.iter_mut().flat_map(|left| left.drain(..))
    }

    /// From now on `space` runs. Without tags, a switch to another space flushes. With tags, it flushes if the
    /// hardware's numbers have run out. A space keeps its number until then, even if the space ends.
    pub fn switch(&mut self, space: u32) {
        if self.running == u64::from(space) {
            return;
        }
        self.forget_last_pages();
        let is_first = self.running == NOBODY;
        self.running = u64::from(space);
        if !self.tagged {
            if !is_first {
                self.flushes += 1;
                self.flush(true);
            }
            return;
        }
        let Some(spaces) = self.spaces else { return };
        if space == GLOBAL_SPACE || self.numbered.contains(&space) {
            return;
        }
        if self.numbered.len() == spaces as usize {
            self.rollovers += 1;
            self.numbered.clear();
            self.flush(false);
        }
        self.numbered.insert(space);
    }

    /// Removes the entries of a space that cover some of the base pages from `first` to `last`, inclusive, from all
    /// TLBs and walk caches.
    pub fn invalidate(&mut self, space: u32, first: u64, last: u64) {
        self.note_pending();
        let base_log2 = self.base_log2;
        for tlb in 0..self.tlbs.len() {
            let numbers = |size: u32| first >> (size - base_log2)..=last >> (size - base_log2);
            let Tlb { array, sizes, .. } = &self.tlbs[tlb];
            let probes =
                sizes.iter().map(|&size| (last - first) >> (size - base_log2)).fold(0, u64::saturating_add);
            if probes < array.entries() as u64 / 4 {
                for size_log2 in sizes.clone() {
                    for number in numbers(size_log2) {
                        let page = TlbPage { space, number, size_log2 };
                        if let Some(slot) = self.tlbs[tlb].array.find(PageKey::new(page)) {
                            self.invalidate_slot(tlb, slot);
                        }
                    }
                }
            } else {
                self.invalidate_where(tlb, |page| {
                    page.space == space && numbers(page.size_log2).contains(&page.number)
                });
            }
        }
        let covers = |page: TlbPage| {
            let shift = page.size_log2 - base_log2;
            page.space == space && (first >> shift..=last >> shift).contains(&page.number)
        };
        self.walk_caches.invalidate(covers, &mut self.times);
    }

    /// Removes all entries of a space from all TLBs and walk caches.
    pub fn invalidate_space(&mut self, space: u32) {
        self.note_pending();
        for tlb in 0..self.tlbs.len() {
            self.invalidate_where(tlb, |page| page.space == space);
        }
        self.walk_caches.invalidate(|page| page.space == space, &mut self.times);
    }

    /// Looks into the walk caches for the walk of a base page. Returns how many of the upper levels need not be read.
    ///
    /// `shifts` has one number for each level that this walk reads, root first: the bits of the number of a base page
    /// that the levels below use. The last level holds the entry that goes into the TLB, and no walk cache keeps it.
    /// Caches are asked deepest level first, until a cache has the entry above the page.
    pub fn walk_from(&mut self, space: u32, base_page: u64, shifts: &[u32]) -> usize {
        self.walk_caches.walk_from(space, base_page, shifts, &mut self.times)
    }

    /// Puts the upper entries that a walk has read into the walk caches of their levels. `from` is what
    /// [`Mmu::walk_from`] returned for this walk.
    pub fn fill_walk_caches(&mut self, space: u32, base_page: u64, shifts: &[u32], from: usize) {
        self.walk_caches.fill(space, base_page, shifts, from, &mut self.times);
    }

    /// Returns the counts since the start, dropped references included.
    #[must_use]
    pub fn counts(&self) -> MmuCounts {
        MmuCounts {
            tlbs: self.tlbs.iter().map(|tlb| tlb.counts).collect(),
            walk_caches: self.walk_caches.counts(),
            flushes: self.flushes,
            rollovers: self.rollovers,
        }
    }

    /// Returns the slots of each TLB, wired slots first, then set by set.
    #[must_use]
    pub fn contents(&self) -> Vec<Vec<Option<TlbPage>>> {
        self.tlbs.iter().map(|tlb| tlb.array.contents().collect()).collect()
    }

    /// Returns the slots of each walk cache, set by set. An entry is named by all the memory below it.
    #[must_use]
    pub fn walk_cache_contents(&self) -> Vec<Vec<Option<TlbPage>>> {
        self.walk_caches.contents()
    }

    /// Returns the bytes that the entries take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let tlbs: usize = self.tlbs.iter().map(|tlb| tlb.array.bytes()).sum();
        self.times.bytes() + tlbs + self.walk_caches.bytes()
    }

    #[inline(always)]
    fn first_level(&self, port: usize, key: PageKey) -> usize {
        usize::from(self.ports[port].first[key.size_log2() as usize % 64])
    }

    fn second_level(&self, first: usize, key: PageKey) -> Option<usize> {
        let next = self.tlbs[first].next[key.size_log2() as usize % 64];
        (next != NO_TLB).then_some(usize::from(next))
    }

    /// Notes the pending uses of the ports' last pages in the order in which they were made.
    #[inline(always)]
    fn note_pending(&mut self) {
        if self.ports[FETCH_PORT].last.pending | self.ports[DATA_PORT].last.pending != 0 {
            self.note_pending_uses();
        }
    }

    #[inline(never)]
    fn note_pending_uses(&mut self) {
        let data_first = self.ports[DATA_PORT].last.pending < self.ports[FETCH_PORT].last.pending;
        for port in if data_first { [DATA_PORT, FETCH_PORT] } else { [FETCH_PORT, DATA_PORT] } {
            let last = &mut self.ports[port].last;
            if last.pending != 0 {
                last.pending = 0;
                self.tlbs[last.tlb as usize].array.touch(last.slot as usize, &mut self.times);
            }
        }
    }

    #[inline(always)]
    fn set_last(&mut self, port: usize, tlb: usize, slot: usize, key: PageKey) {
        let (tlb, slot) = (tlb as u32, slot as u32);
        self.ports[port].last = if key.space() == self.running {
            LastPage { number: key.number(), shift: key.size_log2() - self.base_log2, tlb, slot, pending: 0 }
        } else {
            NO_PAGE
        };
    }

    fn forget_last(&mut self, tlb: usize, slot: usize) {
        for port in &mut self.ports {
            if (port.last.tlb, port.last.slot) == (tlb as u32, slot as u32) {
                port.last = NO_PAGE;
            }
        }
    }

    fn invalidate_slot(&mut self, tlb: usize, slot: usize) {
        self.tlbs[tlb].array.remove(slot, &mut self.times);
        self.tlbs[tlb].counts.entries.invalidated += 1;
        self.forget_last(tlb, slot);
    }

    fn invalidate_where(&mut self, tlb: usize, leaves: impl Fn(TlbPage) -> bool) {
        for slot in 0..self.tlbs[tlb].array.entries() {
            if self.tlbs[tlb].array.page_at(slot).is_some_and(&leaves) {
                self.invalidate_slot(tlb, slot);
            }
        }
    }

    /// Empties the walk caches, and the TLBs of all entries but global entries and, if `spare_wired`, wired entries.
    fn flush(&mut self, spare_wired: bool) {
        for tlb in &mut self.tlbs {
            tlb.counts.entries.flushed += remove_where(&mut tlb.array, &mut self.times, |is_wired, page| {
                page.space != GLOBAL_SPACE && !(spare_wired && is_wired)
            });
        }
        self.walk_caches.flush(&mut self.times);
    }
}

/// Returns whether some first-level TLB whose replacement notes hits has another user than one port.
fn order_matters(config: &MmuConfig) -> bool {
    let ports = || config.fetch.iter().chain(&config.data);
    let users = |tlb: usize| {
        let as_first = ports().filter(|&&first| first == tlb).count();
        let as_second = ports().filter(|&&first| config.tlbs[first].next == Some(tlb)).count();
        (as_first, as_second)
    };
    (0..config.tlbs.len()).any(|tlb| {
        let (as_first, as_second) = users(tlb);
        config.tlbs[tlb].replacement.notes_hits() && as_first > 0 && as_first + as_second > 1
    })
}
