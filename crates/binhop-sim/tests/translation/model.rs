//! `SlowTranslation` is the slow model of TLBs, page tables and huge pages.

use std::collections::BTreeMap;

use super::design::{Design, KINDS, OF_TABLE, PAGE, RESERVE};
use crate::whole_engine::{Injection, Observer, World};
use binhop_base::{Agent, Asid, Domain, Kind, PageId, PageNo, Rng, Stream};
use binhop_oracle::cache::Name;
use binhop_oracle::cache_tree::CacheTree;
use binhop_oracle::placements::RunPlace;
use binhop_oracle::spaces::{Spaces, Touched};
use binhop_oracle::tlb::{Lookup, Mmu};
use binhop_os::page_table::{PageTables, Step, TableConfig, TableKind};
use binhop_sim::Machine;
use binhop_trace::{EventBatch, Op};

/// `SlowHugePages` knows the runs of huge pages.
#[derive(Default)]
pub struct SlowHugePages {
    log2: u32,
    /// The run that a space maps by one entry; `None` if it maps pages of the usual size.
    entries: BTreeMap<(Asid, u64), Option<u32>>,
    /// For each page in a run: the run, and the page's number in it.
    places: BTreeMap<PageId, (u32, u64)>,
    /// For each run its first page, and whether a space of its pages was forked.
    runs: Vec<(PageId, bool)>,
}

impl SlowHugePages {
    pub fn new(log2: u32) -> Self {
        Self { log2, ..Self::default() }
    }

    /// Returns the pages of a huge page.
    fn pages(&self, number: u64) -> std::ops::Range<u64> {
        number << self.log2..(number + 1) << self.log2
    }

    /// Removes the entries of a space that hold a page of a range.
    fn remove(&mut self, space: Asid, pages: std::ops::RangeInclusive<u64>) {
        let log2 = self.log2;
        self.entries
            .retain(|&(asid, number), _| asid != space || !pages.clone().any(|page| page >> log2 == number));
    }

    fn remove_all(&mut self, space: Asid) {
        self.entries.retain(|&(asid, _), _| asid != space);
    }

    /// Returns the run that a space maps by one entry around a page.
    pub fn mapped(&self, asid: Asid, page_no: PageNo) -> Option<u32> {
        self.entries.get(&(asid, page_no.0 >> self.log2)).copied().flatten()
    }

    /// Notes a touch. Returns the pages of a huge page whose one entry ends.
    pub fn touched(
        &mut self,
        (asid, page_no): (Asid, PageNo),
        touched: &Touched,
        spaces: &Spaces,
    ) -> Option<std::ops::Range<u64>> {
        let place = (asid, page_no.0 >> self.log2);
        let pages = self.pages(place.1);
        let in_run = (page_no.0 - pages.start, touched.page);
        match self.entries.get(&place).copied() {
            Some(None) => {}
            Some(Some(run)) => {
                let known = self.places.get(&touched.page).map(|place| place.0);
                if touched.new_page && !self.runs[run as usize].1 {
                    self.places.insert(in_run.1, (run, in_run.0));
                } else if known != Some(run) {
                    self.entries.insert(place, None);
                    return Some(pages);
                }
            }
            None => {
                let begins = touched.new_page
                    && spaces.is_anonymous(asid, pages.clone())
                    && spaces.own_pages(asid, pages) == 1;
                let run = begins.then_some(self.runs.len() as u32);
                if let Some(run) = run {
                    self.runs.push((touched.page, false));
                    self.places.insert(in_run.1, (run, in_run.0));
                }
                self.entries.insert(place, run);
            }
        }
        None
    }

    /// Returns the place of a page in its run.
    pub fn run_of(&self, page: PageId) -> Option<RunPlace> {
        let &(number, index) = self.places.get(&page)?;
        let begins = self.runs[number as usize].0 == page;
        Some(RunPlace { number, index: index as u32, frames_log2: self.log2, begins })
    }

    /// Follows an event, while a space runs.
    pub fn event(&mut self, running: Asid, events: &EventBatch, row: usize) {
        let op = Op::from_code(events.op()[row]).unwrap();
        let (addr, count) = (events.addr()[row], u64::from(events.count()[row]));
        let asid = Asid(addr as u32);
        let pages = [addr / PAGE, addr / PAGE + count.saturating_sub(1)];
        match op {
            Op::Protect if count > 0 => {
                // A huge page of which every page is protected stays.
                for number in [pages[0] >> self.log2, pages[1] >> self.log2] {
                    let all = self.pages(number);
                    if !(pages[0]..=pages[1]).contains(&all.start) || all.end > pages[1] + 1 {
                        self.entries.entry((running, number)).and_modify(|entry| *entry = None);
                    }
                }
            }
            Op::Map | Op::Unmap if count > 0 => self.remove(running, pages[0]..=pages[1]),
            Op::Fork => {
                let parent = Asid(events.arg0(row).unwrap() as u32);
                self.remove_all(asid);
                let of_parent: Vec<_> = self.entries.iter().filter(|(at, _)| at.0 == parent).collect();
                let inherited: Vec<_> = of_parent.into_iter().map(|(at, &run)| ((asid, at.1), run)).collect();
                for (at, run) in inherited {
                    run.iter().for_each(|&run| self.runs[run as usize].1 = true);
                    self.entries.insert(at, run);
                }
            }
            Op::Exec | Op::Exit => self.remove_all(asid),
            _ => {}
        }
    }
}

/// `SlowTranslation` asks its TLBs at every access.
pub struct SlowTranslation {
    design: Design,
    machine: Machine,
    mmu: Mmu,
    pub tables: PageTables,
    shifts: Vec<u32>,
    frames: Vec<u64>,
    asid: Asid,
    /// The page to which each page of a space led when it was translated last.
    filled: BTreeMap<(u32, u64), PageId>,
    pub counts: BTreeMap<String, u64>,
    /// The counts when the measured part began.
    pub before_measured: BTreeMap<String, u64>,
    /// The lines that were fetched since instructions passed last.
    fetched: u64,
    huge: SlowHugePages,
    /// The run of which TLBs were told last at each huge page of a space.
    filled_huge: BTreeMap<(u32, u64), u32>,
    /// The level-1 misses and memory accesses before the access that a walk precedes, and its kind.
    before: Option<(Kind, [u64; 2])>,
}

/// Returns the user's demand misses of level 1, and the user's demand accesses to memory.
fn demand(machine: &Machine, tree: &CacheTree) -> [u64; 2] {
    let config = machine.tree().config();
    let user = Agent::User.name();
    let of = |cache: usize| -> u64 {
        let counts = &tree.caches[cache].counts;
        let kinds = [Kind::Fetch, Kind::Load, Kind::Store];
        kinds.iter().filter_map(|&kind| counts.get(&(user, "misses", Some(kind.name())))).sum()
    };
    let misses =
        if config.fetch == config.data { of(config.fetch) } else { of(config.fetch) + of(config.data) };
    let reached = KINDS.iter().filter_map(|kind| tree.memory_counts.get(&(user, "accesses", kind))).sum();
    [misses, reached]
}

impl SlowTranslation {
    pub fn new(design: &Design, machine: &Machine, seed: u64) -> Self {
        let above = machine.memory().frames.unwrap();
        let mut frames: Vec<u64> = (0..=u64::from(RESERVE)).map(|frame| above + frame).collect();
        if design.random {
            Rng::new(seed).shuffle(Stream::new(Domain::Table, 0), &mut frames);
        }
        let page = machine.memory().page;
        let config =
            TableConfig { kind: design.kind, page, entry: design.entry, reserve: RESERVE, frames: above };
        let tables = PageTables::new(&config).unwrap();
        let mut mmu = Mmu::new(&design.mmu);
        mmu.switch(0);
        Self {
            design: design.clone(),
            machine: machine.clone(),
            mmu,
            shifts: tables.shifts().to_vec(),
            tables,
            frames,
            asid: Asid(0),
            filled: BTreeMap::new(),
            counts: BTreeMap::new(),
            before_measured: BTreeMap::new(),
            fetched: 0,
            huge: SlowHugePages::new(design.huge.map_or(63, |(log2, _)| log2)),
            filled_huge: BTreeMap::new(),
            before: None,
        }
    }

    /// Notes that a space does not map the pages from the first to the last any more.
    fn unmapped(&mut self, space: Asid, [first, last]: [u64; 2]) {
        self.end_huge_pages(space, [first, last]);
        self.filled.retain(|&(asid, number), _| asid != space.0 || number < first || number > last);
    }

    /// Notes that a space has no huge page any more at the pages from the first to the last.
    fn end_huge_pages(&mut self, Asid(space): Asid, [first, last]: [u64; 2]) {
        let of_huge = |number: u64| {
            let pages = self.huge.pages(number);
            pages.start <= last && first < pages.end
        };
        self.filled_huge.retain(|&(asid, number), _| asid != space || !of_huge(number));
    }

    fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_string()).or_default() += count;
    }

    /// Makes one access of a walk. Returns its cycles.
    fn access(&mut self, kind: Kind, table: u32, byte: u64, tree: &mut CacheTree, world: &World) -> u64 {
        let config = self.machine.tree().config();
        tree.agent = if self.design.software { Agent::Handler } else { Agent::Walk };
        let mut ask = |cache: usize, costs| {
            let by_mapping = self.machine.tree().takes_mapping(cache);
            let name = World::table(table);
            let name = if by_mapping { Name::Mapping(name.0) } else { Name::Page(name.0) };
            let level_1 = cache == config.fetch || cache == config.data;
            tree.ask(cache, kind, name, byte, costs && !level_1, world).0
        };
        let cycles = match self.design.reads {
            Some("memory") => tree.ask_memory(kind),
            Some(_) => ask(config.caches.iter().position(|cache| cache.name == "l2").unwrap(), true),
            None => ask(if kind == Kind::Fetch { config.fetch } else { config.data }, false),
        };
        tree.agent = Agent::User;
        cycles
    }

    /// Returns the run of the huge page around a page, if the space maps it by one entry and the run is whole.
    fn whole_run(&self, page_no: PageNo, world: &World) -> Option<u32> {
        self.design.huge?;
        let run = self.huge.mapped(self.asid, page_no);
        run.filter(|run| world.whole.contains(run))
    }

    fn walk(&mut self, next: &Injection, spared: usize, root: bool, tree: &mut CacheTree, world: &World) {
        let mut steps = Vec::new();
        self.tables.walk(self.asid, next.page_no, &mut steps);
        if self.whole_run(next.page_no, world).is_some() {
            let spared_by_size = self.design.huge.unwrap().0 / 4;
            steps.truncate(5 - spared_by_size as usize);
        }
        self.add(&format!("translation.{}.walks", next.kind.name()), 1);
        self.add("translation.entries.spared", spared as u64);
        self.add("translation.entries.root", u64::from(root));
        let line = {
            let config = self.machine.tree().config();
            config.caches[config.fetch].line.bytes()
        };
        if self.design.software {
            let [first, second] = self.design.handlers;
            let instructions = first + if root { second } else { 0 };
            tree.now += instructions;
            self.add("translation.cycles.handler", instructions);
            let start = (4 * first).next_multiple_of(128);
            let codes = [Some(0..4 * first), root.then_some(start..start + 4 * second)];
            for code in codes.into_iter().flatten() {
                for number in code.start / line..code.end.div_ceil(line) {
                    let cycles = self.access(Kind::Fetch, RESERVE, number * line, tree, world);
                    self.add("translation.cycles.handler-fetch", cycles);
                }
            }
        }
        let skipped = if self.design.kind == TableKind::Mips { usize::from(!root) } else { spared };
        for step in steps.into_iter().skip(skipped) {
            let (table, byte) = match step {
                Step::Entry { table, offset, .. } => (table, u64::from(offset)),
                Step::Frame { page, base } => {
                    let Some(frame) = world.resident_frame(page) else { continue };
                    let byte = frame * u64::from(self.design.entry);
                    (base + (byte / PAGE) as u32, byte % PAGE)
                }
            };
            let cycles = self.access(Kind::Load, table, byte, tree, world);
            self.add("translation.entries", 1);
            self.add("translation.cycles.entries", cycles);
        }
    }
}

impl Observer for SlowTranslation {
    fn inject(&mut self, next: &Injection, tree: &mut CacheTree, world: &mut World) {
        world.place_tables(&self.frames);
        let port = usize::from(next.kind != Kind::Fetch);
        self.tables.map(self.asid, next.page_no, next.page, 12).unwrap();
        let whole = self.whole_run(next.page_no, world);
        let page = match self.design.huge.filter(|_| whole.is_some()) {
            Some((log2, _)) => (self.asid.0, next.page_no.0 >> log2, 12 + log2),
            None => (self.asid.0, next.page_no.0, 12),
        };
        let kind = next.kind.name();
        let first = self.design.mmu.ports[port][0];
        let second = self.design.mmu.tlbs[first].next;
        let names = self.design.names.clone();
        self.add(&format!("{}.{kind}.accesses", names[first]), 1);
        self.fetched += u64::from(port == 0);
        match self.mmu.look_up(port, page) {
            Lookup::First(_) => {}
            Lookup::Second(second) => {
                self.add(&format!("{}.{kind}.misses", names[first]), 1);
                self.add(&format!("{}.{kind}.accesses", names[second]), 1);
                self.add("translation.cycles.second-level", self.design.second_level);
                tree.now += self.design.second_level;
            }
            Lookup::Nowhere => {
                self.add(&format!("{}.{kind}.misses", names[first]), 1);
                if let Some(second) = second {
                    self.add(&format!("{}.{kind}.accesses", names[second]), 1);
                    self.add(&format!("{}.{kind}.misses", names[second]), 1);
                }
                let (mut spared, mut root) = (0, false);
                if self.design.kind == TableKind::Mips {
                    let entry = (self.asid.0, OF_TABLE | next.page_no.0 >> 10, 12);
                    let found = self.mmu.look_up_wired(1, entry);
                    root = found == Lookup::Nowhere;
                    if matches!(found, Lookup::Second(_)) {
                        self.add("translation.cycles.second-level", self.design.second_level);
                        tree.now += self.design.second_level;
                    }
                    let agent = if self.design.software { "handler" } else { "walk" };
                    let of_data = self.design.mmu.ports[1][0];
                    self.add(&format!("{}.{agent}.load.accesses", names[of_data]), 1);
                    if !matches!(found, Lookup::First(_)) {
                        self.add(&format!("{}.{agent}.load.misses", names[of_data]), 1);
                        if let Some(second) = self.design.mmu.tlbs[of_data].next {
                            self.add(&format!("{}.{agent}.load.accesses", names[second]), 1);
                            self.add(&format!("{}.{agent}.load.misses", names[second]), u64::from(root));
                        }
                    }
                    if root {
                        self.mmu.fill(1, entry, true);
                    }
                } else if !self.design.mmu.walk_caches.is_empty() {
                    let read = whole.map_or(0, |_| self.design.huge.unwrap().0 as usize / 4);
                    let shifts = &self.shifts[..self.shifts.len() - read];
                    spared = self.mmu.walk(self.asid.0, next.page_no.0, shifts);
                }
                self.mmu.fill(port, page, false);
                match whole {
                    Some(run) => drop(self.filled_huge.insert((page.0, page.1), run)),
                    None => drop(self.filled.insert((page.0, page.1), next.page)),
                }
                self.walk(next, spared, root, tree, world);
                self.before = Some((next.kind, demand(&self.machine, tree)));
            }
        }
    }

    fn access(&mut self, _: &crate::whole_engine::SlowAccess, tree: &CacheTree, _: &World) {
        if let Some((kind, before)) = self.before.take() {
            let now = demand(&self.machine, tree);
            let level = if now[1] > before[1] {
                "memory"
            } else if now[0] > before[0] {
                "behind"
            } else {
                "level-1"
            };
            self.add(&format!("translation.{}.tlb-miss.{level}", kind.name()), 1);
        }
    }

    fn instructions(&mut self, count: u64) {
        // The other instructions of a run find their page in the TLB.
        let fetched = std::mem::take(&mut self.fetched);
        let first = self.design.names[self.design.mmu.ports[0][0]];
        self.add(&format!("{first}.fetch.accesses"), count.saturating_sub(fetched));
    }

    fn measure(&mut self) {
        self.before_measured.clone_from(&self.counts);
    }

    fn evicted(&mut self, page: PageId, mappings: &[(Asid, PageNo)]) {
        for &(Asid(asid), PageNo(number)) in mappings {
            if self.filled.get(&(asid, number)) == Some(&page) {
                self.mmu.invalidate(asid, number, number);
            }
        }
    }

    fn touched(&mut self, (asid, page_no): (Asid, PageNo), touched: &Touched, spaces: &Spaces) {
        if self.design.huge.is_none() {
            return;
        }
        if let Some(pages) = self.huge.touched((asid, page_no), touched, spaces) {
            self.mmu.invalidate(asid.0, pages.start, pages.end - 1);
            self.end_huge_pages(asid, [pages.start, pages.end - 1]);
        }
    }

    fn run_of(&mut self, page: PageId) -> Option<RunPlace> {
        self.huge.run_of(page)
    }

    fn split(&mut self, run: u32) {
        for (&(asid, number), _) in self.filled_huge.iter().filter(|&(_, told)| *told == run) {
            let pages = self.huge.pages(number);
            self.mmu.invalidate(asid, pages.start, pages.end - 1);
        }
    }

    fn made(&mut self, asid: Asid, page_no: PageNo, page: PageId) {
        let before = self.tables.walk(asid, page_no, &mut Vec::new());
        if before.is_some_and(|before| before.page != page) {
            self.mmu.invalidate(asid.0, page_no.0, page_no.0);
        }
    }

    fn event(&mut self, events: &EventBatch, row: usize) {
        let op = Op::from_code(events.op()[row]).unwrap();
        let (addr, count) = (events.addr()[row], u64::from(events.count()[row]));
        self.huge.event(self.asid, events, row);
        let asid = Asid(addr as u32);
        match op {
            Op::Switch => {
                self.asid = asid;
                self.mmu.switch(asid.0);
            }
            Op::Map | Op::Unmap | Op::Protect => {
                let pages = [addr / PAGE, addr / PAGE + count.saturating_sub(1)];
                if count > 0 {
                    self.mmu.invalidate(self.asid.0, pages[0], pages[1]);
                    self.end_huge_pages(self.asid, pages);
                    if op != Op::Protect {
                        self.tables.unmap(self.asid, PageNo(pages[0]), PageNo(pages[1]));
                        self.unmapped(self.asid, pages);
                        if self.design.kind == TableKind::Mips {
                            let of = |page: u64| OF_TABLE | page >> 10;
                            self.mmu.invalidate(self.asid.0, of(pages[0]), of(pages[1]));
                        }
                    }
                }
            }
            Op::Fork => {
                let parent = Asid(events.arg0(row).unwrap() as u32);
                self.tables.drop_space(asid);
                self.unmapped(asid, [0, u64::MAX]);
                self.mmu.invalidate_space(parent.0);
                self.mmu.invalidate_space(asid.0);
            }
            Op::Exec | Op::Exit => {
                self.tables.drop_space(asid);
                self.unmapped(asid, [0, u64::MAX]);
                self.mmu.invalidate_space(asid.0);
            }
            _ => {}
        }
    }
}
