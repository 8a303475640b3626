//! These tests compare translation with a slow model: TLBs that are asked at every access, and walks that are made one
//! access after the other.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Event, Fixed, SMALL, batch, event, inclusive, machine, reference, run};
use crate::whole_engine::{Injection, Observer, Slow, World, counts};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_base::{Agent, Asid, Domain, Kind, PageId, PageNo, Result, Rng, Stream};
use binhop_hw::{CacheConfig, Rules};
use binhop_oracle::cache::Name;
use binhop_oracle::cache_tree::CacheTree;
use binhop_oracle::placements::RunPlace;
use binhop_oracle::spaces::{Spaces, Touched};
use binhop_oracle::tlb::{Lookup, Mmu, MmuDesign, TlbDesign};
use binhop_os::page_table::{PageTables, Step, TableConfig, TableKind};
use binhop_sim::occasion::{Lines, Occasion, OccasionKind, Subscription, TouchedLines};
use binhop_sim::unit::{Injector, Unit, Units};
use binhop_sim::{Machine, Outcome, RunOptions, SwitchOptions, simulate};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

const PAGE: u64 = 4096;
const RESERVE: u32 = 64;
/// The number that stands before the number of a page of the MIPS user table.
const OF_TABLE: u64 = 1 << 60;
const KINDS: [&str; 3] = ["fetch", "load", "store"];

/// `Design` is a machine's translation, as the slow model and as settings of a machine.
#[derive(Clone, Debug)]
struct Design {
    mmu: MmuDesign,
    names: Vec<&'static str>,
    kind: TableKind,
    entry: u32,
    software: bool,
    /// The level that a page walker asks first.
    reads: Option<&'static str>,
    handlers: [u64; 2],
    second_level: u64,
    random: bool,
    /// The logarithm of the pages in a huge page, and the fragmentation of memory, if there are huge pages.
    huge: Option<(u32, u32)>,
}

/// The table with huge pages of few pages: 16 entries in a page of the table.
const HUGE_TABLE: (TableKind, u32) = (TableKind::Radix { levels: 5 }, 256);

fn tlb(entries: usize, ways: usize, wired: usize, replacement: &'static str) -> TlbDesign {
    let sets = (entries / ways) as u64;
    let ways = if sets == 1 { ways - wired } else { ways };
    TlbDesign { wired, sets, ways, replacement, pages: vec![12], next: None }
}

fn replacement() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["lru", "fifo", "random"])
}

prop_compose! {
    fn design()(
        first in (1..6usize, replacement()),
        second in prop::option::of((1..4usize, 1..3usize, replacement())),
        split in any::<bool>(),
        wired in 0..3usize,
        tagged in any::<bool>(),
        spaces in prop::option::of(1..4usize),
        table in 0..6usize,
        walk_caches in prop::collection::vec(prop::option::of(1..4usize), 3),
        software in any::<bool>(),
        reads in prop::sample::select(vec![None, Some("l2"), Some("memory")]),
        handlers in [1..20u64, 1..30u64],
        second_level in 0..9u64,
        random in any::<bool>(),
        huge in prop::option::of((prop::sample::select(vec![4, 4, 4, 8]), prop::sample::select(vec![0, 0, 30]))),
    ) -> Design {
        let wired = if second.is_some() { 0 } else { wired };
        let mut tlbs = vec![tlb(first.0 + wired, first.0 + wired, wired, first.1)];
        let mut names = vec!["tlb"];
        if split {
            tlbs.push(tlb(3, 3, 0, "plru"));
            tlbs[1] = tlb(4, 2, 0, "plru");
            names.push("dtlb");
        }
        if let Some((sets, ways, rule)) = second {
            let last = tlbs.len();
            tlbs.iter_mut().for_each(|tlb| tlb.next = Some(last));
            tlbs.push(tlb(sets * ways, ways, 0, rule));
            names.push("stlb");
        }
        let (kind, entry) = [
            (TableKind::Mips, 4),
            (TableKind::Radix { levels: 2 }, 4),
            (TableKind::Radix { levels: 4 }, 8),
            (TableKind::Radix { levels: 5 }, 8),
            (TableKind::Hashed, 16),
            (TableKind::Inverted, 16),
        ][table];
        let (kind, entry) = if huge.is_some() { HUGE_TABLE } else { (kind, entry) };
        let sizes = std::iter::once(12).chain(huge.map(|(log2, _)| 12 + log2)).collect::<Vec<u32>>();
        tlbs.iter_mut().for_each(|tlb| tlb.pages.clone_from(&sizes));
        let levels = if let TableKind::Radix { levels } = kind { levels } else { 0 };
        let caches = (0..levels.saturating_sub(1) as usize).filter(|_| !software).filter_map(|level| {
            let entries = (*walk_caches.get(level)?)?;
            Some((level, tlb(entries, entries, 0, "lru")))
        });
        Design {
            mmu: MmuDesign {
                base_log2: 12,
                ports: if split { [vec![0], vec![1]] } else { [vec![0], vec![0]] },
                tlbs,
                tagged,
                spaces: spaces.filter(|_| tagged),
                walk_caches: caches.collect(),
            },
            names,
            kind,
            entry,
            software,
            reads: reads.filter(|_| !software),
            handlers,
            second_level,
            random,
            huge,
        }
    }
}

impl Design {
    /// Returns the machine with this translation.
    fn of(&self, machine: &Machine) -> Machine {
        let mut settings = vec!["translation=on".to_string()];
        let mut set = |key: String, value: String| settings.push(format!("{key}={value}"));
        let split = self.mmu.ports[0] != self.mmu.ports[1];
        for (number, (tlb, name)) in self.mmu.tlbs.iter().zip(&self.names).enumerate() {
            let key = |what: &str| format!("tlb.{name}.{what}");
            let ways = tlb.ways + if tlb.sets == 1 { tlb.wired } else { 0 };
            set(key("entries"), (ways * tlb.sets as usize).to_string());
            set(key("ways"), ways.to_string());
            set(key("replacement"), tlb.replacement.to_string());
            if tlb.sets == 1 && tlb.wired > 0 {
                set(key("wired"), tlb.wired.to_string());
            }
            if let Some(next) = tlb.next {
                set(key("next"), self.names[next].to_string());
            }
            match (number, split) {
                (0, false) => set(key("serves"), "all".to_string()),
                (0, true) => set(key("serves"), "fetch".to_string()),
                (1, true) => set(key("serves"), "data".to_string()),
                _ => {}
            }
        }
        let (form, levels) = match self.kind {
            TableKind::Mips => ("mips", None),
            TableKind::Radix { levels } => ("radix", Some(levels)),
            TableKind::Hashed => ("hashed", None),
            TableKind::Inverted => ("inverted", None),
        };
        let mut of = |what: &str, value: String| set(format!("translation.{what}"), value);
        of("table", form.to_string());
        levels.iter().for_each(|levels| of("levels", levels.to_string()));
        of("entry", format!("{}B", self.entry));
        of("refill", if self.software { "software" } else { "hardware" }.to_string());
        self.reads.iter().for_each(|reads| of("reads", (*reads).to_string()));
        of("tags", self.mmu.tagged.to_string());
        of("asids", self.mmu.spaces.unwrap_or(0).to_string());
        of("handler", self.handlers[0].to_string());
        of("root-handler", self.handlers[1].to_string());
        of("second-level", self.second_level.to_string());
        of("reserve", format!("{}KiB", RESERVE * 4));
        of("placement", if self.random { "random" } else { "fixed" }.to_string());
        if let Some((log2, fragmentation)) = self.huge {
            of("huge-pages", format!("{}KiB", 4 << log2));
            set("placement.policy".to_string(), "buddy".to_string());
            set("placement.fragmentation".to_string(), fragmentation.to_string());
        }
        for (level, cache) in &self.mmu.walk_caches {
            set(format!("walk-cache.{level}.entries"), cache.ways.to_string());
        }
        Machine::parse(&machine.resolved(), machine.name(), &settings).unwrap()
    }
}

/// `SlowHugePages` knows the runs of huge pages.
#[derive(Default)]
struct SlowHugePages {
    log2: u32,
    /// The run that a space maps by one entry; `None` if it maps pages of the usual size.
    entries: BTreeMap<(Asid, u64), Option<u32>>,
    /// For each page in a run: the run, and the page's number in it.
    places: BTreeMap<PageId, (u32, u64)>,
    /// For each run its first page, and whether a space of its pages was forked.
    runs: Vec<(PageId, bool)>,
}

impl SlowHugePages {
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
}

/// `SlowTranslation` asks its TLBs at every access.
struct SlowTranslation {
    design: Design,
    machine: Machine,
    mmu: Mmu,
    tables: PageTables,
    shifts: Vec<u32>,
    frames: Vec<u64>,
    asid: Asid,
    /// The page to which each page of a space led when it was translated last.
    filled: BTreeMap<(u32, u64), PageId>,
    counts: BTreeMap<String, u64>,
    /// The counts when the measured part began.
    before_measured: BTreeMap<String, u64>,
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
    fn new(design: &Design, machine: &Machine, seed: u64) -> Self {
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
            huge: SlowHugePages {
                log2: design.huge.map_or(63, |(log2, _)| log2),
                ..SlowHugePages::default()
            },
            filled_huge: BTreeMap::new(),
            before: None,
        }
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
        let (log2, _) = self.design.huge?;
        let run = self.huge.entries.get(&(self.asid, page_no.0 >> log2)).copied().flatten();
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
                    let found = self.mmu.look_up(1, entry);
                    root = found == Lookup::Nowhere;
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
        let Some((log2, _)) = self.design.huge else { return };
        let huge = &mut self.huge;
        let place = (asid, page_no.0 >> log2);
        let pages = huge.pages(place.1);
        let in_run = (page_no.0 - pages.start, touched.page);
        match huge.entries.get(&place).copied() {
            Some(None) => {}
            Some(Some(run)) => {
                let known = huge.places.get(&touched.page).map(|place| place.0);
                if touched.new_page && !huge.runs[run as usize].1 {
                    huge.places.insert(in_run.1, (run, in_run.0));
                } else if known != Some(run) {
                    huge.entries.insert(place, None);
                    self.mmu.invalidate(asid.0, pages.start, pages.end - 1);
                }
            }
            None => {
                let begins = touched.new_page
                    && spaces.is_anonymous(asid, pages.clone())
                    && spaces.own_pages(asid, pages) == 1;
                let run = begins.then_some(huge.runs.len() as u32);
                if let Some(run) = run {
                    huge.runs.push((touched.page, false));
                    huge.places.insert(in_run.1, (run, in_run.0));
                }
                huge.entries.insert(place, run);
            }
        }
    }

    fn run_of(&mut self, page: PageId) -> Option<RunPlace> {
        let &(number, index) = self.huge.places.get(&page)?;
        let begins = self.huge.runs[number as usize].0 == page;
        Some(RunPlace { number, index: index as u32, frames_log2: self.huge.log2, begins })
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
                    let huge = &mut self.huge;
                    if op == Op::Protect {
                        // A huge page of which every page is protected stays.
                        for number in [pages[0] >> huge.log2, pages[1] >> huge.log2] {
                            let all = huge.pages(number);
                            if !(pages[0]..=pages[1]).contains(&all.start) || all.end > pages[1] + 1 {
                                huge.entries.entry((self.asid, number)).and_modify(|entry| *entry = None);
                            }
                        }
                    } else {
                        huge.remove(self.asid, pages[0]..=pages[1]);
                    }
                    if op != Op::Protect {
                        self.tables.unmap(self.asid, PageNo(pages[0]), PageNo(pages[1]));
                        if self.design.kind == TableKind::Mips {
                            let of = |page: u64| OF_TABLE | page >> 10;
                            self.mmu.invalidate(self.asid.0, of(pages[0]), of(pages[1]));
                        }
                    }
                }
            }
            Op::Fork => {
                let parent = Asid(events.arg0(row).unwrap() as u32);
                self.huge.remove_all(asid);
                let of_parent: Vec<_> = self.huge.entries.iter().filter(|(at, _)| at.0 == parent).collect();
                let inherited: Vec<_> = of_parent.into_iter().map(|(at, &run)| ((asid, at.1), run)).collect();
                for (at, run) in inherited {
                    run.iter().for_each(|&run| self.huge.runs[run as usize].1 = true);
                    self.huge.entries.insert(at, run);
                }
                self.mmu.invalidate_space(parent.0);
                self.mmu.invalidate_space(asid.0);
            }
            Op::Exec | Op::Exit => {
                self.tables.drop_space(asid);
                self.huge.remove_all(asid);
                self.mmu.invalidate_space(asid.0);
            }
            _ => {}
        }
    }
}

/// Returns the machine with this design, if a machine can have the design.
fn designed(machine: &Machine, design: &Design) -> Option<Machine> {
    if machine.memory().frames.is_none() || machine.tree().config().rules == Rules::Cachegrind {
        return None;
    }
    let begins = |(number, cache): (usize, &CacheConfig)| {
        cache.name == "l2" && !cache.inclusive && !machine.tree().in_front(number)
    };
    if design.reads == Some("l2") && !machine.tree().config().caches.iter().enumerate().any(begins) {
        return None;
    }
    if design.huge.is_some_and(|(log2, _)| machine.memory().frames.unwrap() < 1 << log2) {
        return None;
    }
    Some(design.of(machine))
}

/// Compares a run with the slow model under two seeds. Returns the run.
fn agree(machine: &Machine, design: &Design, events: &EventBatch) -> Outcome {
    let options = RunOptions { seeds: vec![0, 1], ..RunOptions::default() };
    let outcome = run(machine, events, 500, &options);
    for seed in 0..2 {
        let mut slow = Slow::new(machine, seed, SlowTranslation::new(design, machine, seed));
        slow.run(events);
        let mut expected = slow.metrics();
        let runs = slow.run_counts();
        for (name, count) in [
            ("", runs.taken),
            (".fallbacks", runs.fallbacks),
            (".splits", runs.splits),
            (".lost", runs.most_unused * PAGE),
        ] {
            expected.insert(format!("translation.huge-pages{name}"), count as f64);
        }
        let SlowTranslation { counts: of_slow, tables, .. } = slow.observer;
        let walks: u64 =
            KINDS.iter().filter_map(|kind| of_slow.get(&format!("translation.{kind}.walks"))).sum();
        expected.insert("translation.walks".into(), walks as f64);
        let first = |port: usize| design.names[design.mmu.ports[port][0]];
        let of = |(kind, port): (&str, usize)| of_slow.get(&format!("{}.{kind}.misses", first(port)));
        let misses: u64 = [("fetch", 0), ("load", 1), ("store", 1)].into_iter().filter_map(of).sum();
        expected.insert("translation.misses".into(), misses as f64);
        if machine.has_cost() {
            let cycles: u64 = of_slow
                .iter()
                .filter(|(name, _)| name.starts_with("translation.cycles"))
                .map(|(_, n)| n)
                .sum();
            expected.insert("translation.cycles".into(), cycles as f64);
        }
        expected.insert("translation.tables".into(), (u64::from(tables.most_used()) * PAGE) as f64);
        let cost = machine.has_cost();
        let kept = of_slow.into_iter().filter(|(name, _)| cost || !name.starts_with("translation.cycles"));
        expected.extend(kept.map(|(name, count)| (name, count as f64)));
        expected.retain(|_, value| *value > 0.0);
        let mut fast = counts(&outcome, seed as usize, 2);
        fast.remove("translation.cpi");
        let of_faults = |name: &str| name.starts_with("translation.faults.");
        let faults: f64 = fast.iter().filter(|(name, _)| of_faults(name)).map(|(_, count)| count).sum();
        fast.retain(|name, _| !of_faults(name));
        assert_eq!(fast.get("os.faults").copied().unwrap_or(0.0), faults);
        for name in expected.keys().chain(fast.keys()) {
            assert_eq!(fast.get(name), expected.get(name), "{}: {name}, seed {seed}", machine.name());
        }
    }
    outcome
}

fn compare(machine: &Machine, design: &Design, events: &[Event]) {
    let Some(machine) = designed(machine, design) else { return };
    let events = batch(events);
    let fast = agree(&machine, design, &events);
    let options = RunOptions { seeds: vec![0, 1], ..RunOptions::default() };
    for other in [
        run(&machine, &events, 7, &options),
        run(&machine, &events, 500, &RunOptions { threads: 2, ..options.clone() }),
        run(&machine, &events, 500, &RunOptions { share: false, ..options.clone() }),
        run(&machine, &events, 500, &RunOptions { interval: Some(23), ..options.clone() }),
    ] {
        assert_eq!(other.results, fast.results);
    }
}

/// Compares what TLBs, walk caches and caches hold after a run: one further access to a page must find what it finds in the
/// slow model. Every page is tried, each in a run of its own.
fn compare_contents(machine: &Machine, design: &Design, events: &[Event]) {
    let Some(machine) = designed(machine, design) else { return };
    for page in 0..12 {
        let load = Event::Data { op: Op::Load, page, offset: 64 * u16::from(page % 3), size: 4 };
        let fetch = Event::Fetch { page, offset: 64 * u16::from(page % 3), count: 1 };
        let probe = if page % 4 == 3 { fetch } else { load };
        agree(&machine, design, &batch(&[events, &[probe]].concat()));
    }
}

/// Compares the counts of the measured part of a run that has a warm-up, and ends before some instruction.
fn compare_part(machine: &Machine, design: &Design, events: &[Event], warmup: u64, instructions: u64) {
    let Some(machine) = designed(machine, design) else { return };
    let events = batch(events);
    let options =
        RunOptions { seeds: vec![3], warmup, instructions: Some(instructions), ..RunOptions::default() };
    let source = Box::new(Fixed::new(events.clone(), 100));
    // The run may hold nothing behind the warm-up.
    let Ok(outcome) = simulate(&machine, source, &options, None, &mut |_| Ok(())) else { return };
    let mut slow = Slow::new(&machine, 3, SlowTranslation::new(design, &machine, 3));
    (slow.warmup, slow.most_instructions) = (warmup, instructions);
    slow.run(&events);
    let SlowTranslation { counts: whole, before_measured, .. } = slow.observer;
    let results = &outcome.results;
    let column = |name: &str| results.column_by_name(name).unwrap().as_string::<i32>().clone();
    let (phases, names) = (column("phase"), column("metric"));
    let values = results.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    for (name, &count) in &whole {
        let row = (0..results.num_rows())
            .find(|&row| phases.value(row) == "measured" && names.value(row) == name.as_str());
        let Some(row) = row else {
            assert!(!machine.has_cost() || count == 0, "{name}");
            continue;
        };
        let before = before_measured.get(name).copied().unwrap_or(0);
        assert_eq!(values.value(row), (count - before) as f64, "{}: {name}", machine.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn translation_is_that_of_tlbs_asked_at_every_access(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..400),
    ) {
        compare(&machine(number), &design, &events);
    }

    #[test]
    fn translation_above_inclusive_caches(
        machine in inclusive(),
        design in design(),
        events in prop::collection::vec(event(), 1..400),
    ) {
        compare(&machine, &design, &events);
    }

    #[test]
    fn translation_behind_a_warm_up_and_before_a_cut(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..400),
        warmup in 0..300u64,
        instructions in 0..2000u64,
    ) {
        compare_part(&machine(number), &design, &events, warmup, instructions);
    }

    #[test]
    fn translation_under_scarce_memory(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(reference(), 1..600),
    ) {
        compare(&machine(number), &design, &events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "takes minutes: 2,000 cases"]
    fn translation_is_that_of_tlbs_asked_at_every_access_in_many_cases(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..600),
    ) {
        compare(&machine(number), &design, &events);
    }
}

/// Returns a machine with costs, whose page walker asks memory, with tables placed by this rule; without translation if
/// there is no rule.
fn walking_in_memory(policy: &str, memory: &str, rule: Option<&str>) -> Machine {
    let text = format!(
        r#"
memory = {{ page = "4KiB", size = "{memory}" }}
placement = {{ policy = "{policy}", pool = "64KiB" }}
[cache.l1]
serves = "all"
size = "8KiB"
line = "32B"
next = "l2"
[cache.l2]
size = "32KiB"
line = "64B"
ways = 2
replacement = "random"
next = "memory"
[tlb.tlb]
serves = "all"
entries = 3
[translation]
active = {}
table = "radix"
reserve = "256KiB"
reads = "memory"
placement = "{}"
"#,
        rule.is_some(),
        rule.unwrap_or("fixed")
    );
    Machine::parse(&text, policy, &[]).unwrap()
}

/// Checks that pages of the program have the frames, and caches and the operating system the counts, that they have
/// without translation.
fn same_without(policy: &str, memory: &str, rule: &str, events: &EventBatch) {
    let options = RunOptions { seeds: vec![0, 7], log: true, ..RunOptions::default() };
    let [on, off] =
        [Some(rule), None].map(|rule| run(&walking_in_memory(policy, memory, rule), events, 500, &options));
    // The pages of tables have numbers, too, so the program's pages have other numbers.
    let frames = |outcome: &Outcome| {
        let log = outcome.placements.clone().unwrap();
        ["seed", "fault", "asid", "page_no", "frame"].map(|name| log.column_by_name(name).unwrap().clone())
    };
    assert!(frames(&on) == frames(&off), "{policy} in {memory}, tables {rule}");
    for seed in 0..2 {
        let of_user = |outcome| {
            let mut counts = counts(outcome, seed, 2);
            counts.retain(|name, _| {
                !["tlb.", "translation."].iter().any(|of| name.starts_with(of)) && !name.contains(".walk.")
            });
            counts
        };
        let (on, off) = (of_user(&on), of_user(&off));
        assert_eq!(on, off, "{policy} in {memory}, tables {rule}, seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn walks_that_bypass_the_caches_change_nothing_for_the_program(
        events in prop::collection::vec(event(), 1..300),
    ) {
        let events = batch(&events);
        for policy in binhop_os::placement::POLICIES {
            if ["identity", "recorded"].contains(&policy.name) {
                continue;
            }
            for memory in ["96KiB", "4MiB"] {
                for rule in ["random", "fixed", "policy"] {
                    same_without(policy.name, memory, rule, &events);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn contents_are_those_of_tlbs_asked_at_every_access(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..300),
    ) {
        compare_contents(&machine(number), &design, &events);
    }
}

/// Page faults of each cause are counted.
#[test]
fn page_faults_have_causes() {
    let data = |op, page| Event::Data { op, page, offset: 8, size: 4 };
    let of = |memory, events: &[Event]| {
        let machine = walking_in_memory("first", memory, Some("fixed"));
        let counts = counts(&run(&machine, &batch(events), 3, &RunOptions::default()), 0, 1);
        ["first", "unmapped", "copied", "evicted"]
            .map(|cause| counts.get(&format!("translation.faults.{cause}")).copied().unwrap_or(0.0))
    };
    let map = Event::Map { page: 1, pages: 2, segment: None, shared: false };
    // Pages 1 and 2 are mapped, page 9 is not. The child shares page 1 and copies page 2.
    let events = [
        Event::Switch(1),
        map,
        data(Op::Store, 1),
        data(Op::Load, 2),
        data(Op::Load, 9),
        data(Op::Load, 9),
        Event::Fork(2),
        Event::Switch(2),
        data(Op::Load, 1),
        data(Op::Load, 2),
        data(Op::Store, 2),
    ];
    assert_eq!(of("1MiB", &events), [2.0, 1.0, 1.0, 0.0]);
    // Without maps, no page lies outside them.
    assert_eq!(of("1MiB", &[data(Op::Load, 1), data(Op::Load, 9)]), [2.0, 0.0, 0.0, 0.0]);
    // Memory has 24 frames, and 30 pages are referenced twice.
    let twice: Vec<Event> = (0..60).map(|number| data(Op::Load, number % 30)).collect();
    let [first, _, _, evicted] = of("96KiB", &twice);
    assert!(first == 30.0 && (1.0..=30.0).contains(&evicted), "{evicted}");
}

/// A map of a whole page ends the page's translation, even if the page stays what it was.
#[test]
fn a_page_that_is_mapped_again_is_looked_up_again() {
    let machine = walking_in_memory("first", "1MiB", Some("fixed"));
    let map = || Event::Map { page: 1, pages: 1, segment: Some(0), shared: true };
    let load = || Event::Data { op: Op::Load, page: 1, offset: 8, size: 4 };
    let events = batch(&[Event::Switch(1), map(), load(), load(), map(), load()]);
    let counts = counts(&run(&machine, &events, 3, &RunOptions::default()), 0, 1);
    assert_eq!((counts["tlb.load.misses"], counts["os.faults"]), (2.0, 1.0));
}

#[test]
fn what_units_reference_is_not_translated() {
    let machine = walking_in_memory("random", "1MiB", Some("fixed"));
    let settings =
        ["kernel.switch.code=200B", "kernel.switch.data=6KiB", "kernel.fault.data=65B"].map(String::from);
    let machine = Machine::parse(&machine.resolved(), "kernel", &settings).unwrap();
    let data = |page| Event::Data { op: Op::Load, page, offset: 8, size: 4 };
    let events =
        batch(&[Event::Switch(1), data(1), data(2), Event::Switch(2), data(1), Event::Switch(1), data(2)]);
    let of =
        |kernel| counts(&run(&machine, &events, 3, &RunOptions { kernel, ..RunOptions::default() }), 0, 1);
    let (with, without) = (of(true), of(false));
    assert!(with["l1.kernel.load.accesses"] > 100.0 && !without.contains_key("l1.kernel.load.accesses"));
    for (name, count) in &without {
        if name.starts_with("tlb.") || name.starts_with("translation.") && !name.contains("tlb-miss") {
            assert_eq!(with.get(name), Some(count), "{name}");
        }
    }
    assert_eq!(without["tlb.load.misses"], 3.0);
}

#[test]
fn the_number_of_all_spaces_is_refused() {
    let mut events = EventBuilder::default();
    events.push(Op::Load, 4096, 4, 1);
    events.push(Op::Switch, u64::from(u32::MAX), 0, 0);
    events.push(Op::Load, 4096, 4, 1);
    let events = events.finish();
    let of = |rule| {
        let machine = walking_in_memory("random", "1MiB", rule);
        let source = Box::new(Fixed::new(events.clone(), 7));
        simulate(&machine, source, &RunOptions::default(), None, &mut |_| Ok(()))
    };
    of(None).unwrap();
    let problem = of(Some("fixed")).unwrap_err();
    assert_eq!(problem.value, "4294967295");
    assert!(problem.place.ends_with("row 1: asid"), "{problem}");
}

/// `Toucher` is a unit that accesses level 1 on behalf of the kernel at every change of a page.
struct Toucher;

impl Unit for Toucher {
    fn act(&mut self, _: &Occasion, injector: &mut Injector<'_>) -> Result<()> {
        injector.access(Agent::Kernel, Kind::Load, injector.own_page(0), 8).map(|_| ())
    }
}

/// A unit that acts between a walk and the access behind the walk ends the sharing of a front there.
#[test]
fn a_unit_that_ends_sharing_behind_a_walk_moves_no_count() {
    let load = |page, offset| Event::Data { op: Op::Load, page, offset, size: 4 };
    // The pages in a TLB of three entries leave it, and their lines stay in level 1.
    let before: Vec<Event> = (0..6).map(|page| load(page, 256 * u16::from(page))).collect();
    let events = batch(&[&before[..], &before].concat());
    let touched = TouchedLines { fetch: Lines::None, data: Lines::Bytes(8..9) };
    let machine = walking_in_memory("random", "1MiB", Some("fixed"));
    for asked in [OccasionKind::PageChange, OccasionKind::FirstTouch] {
        let subscription = Subscription::new(1, &[Agent::Kernel]).at(asked, touched.clone());
        let units = Units::new(subscription, Arc::new(|_: &Machine, _| Box::new(Toucher)));
        let of = |share| {
            let options =
                RunOptions { seeds: vec![0, 1], units: Some(units.clone()), share, ..RunOptions::default() };
            run(&machine, &events, 100, &options).results
        };
        assert_eq!(of(true), of(false), "{asked:?}");
    }
}

#[test]
fn a_policy_that_places_no_page_tables_is_refused() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("tables.txt");
    std::fs::write(&path, "0x0 0x1000\n").unwrap();
    let settings =
        ["placement.policy=recorded", &format!("placement.file={}", path.display())].map(String::from);
    let of = |rule| {
        let machine = walking_in_memory("random", "1MiB", Some(rule));
        Machine::parse(&machine.resolved(), "recorded", &settings)
    };
    of("fixed").unwrap();
    let problem = of("policy").unwrap_err();
    assert!(problem.place.ends_with("translation.placement"), "{problem}");
    assert!(problem.rule.contains("recording"), "{problem}");
}

#[test]
fn a_policy_of_ones_own_places_no_page_tables() {
    let machine = walking_in_memory("random", "1MiB", Some("policy"));
    let make: binhop_sim::PolicyMaker<'_> = &|_| unreachable!("the machine is refused");
    let source = Box::new(Fixed::new(batch(&[Event::Switch(1)]), 7));
    let problem =
        simulate(&machine, source, &RunOptions::default(), Some(make), &mut |_| Ok(())).unwrap_err();
    assert!(problem.rule.contains("page tables"), "{problem}");
}

#[test]
fn private_caches_and_translation_are_refused_together() {
    let machine = Machine::parse(
        &machine(0).resolved(),
        "both",
        &["translation.table=radix", "translation=on", "tlb.tlb.serves=all", "tlb.tlb.entries=4"]
            .map(String::from),
    );
    let options = RunOptions { switches: Some(SwitchOptions::default()), ..RunOptions::default() };
    let source = Box::new(Fixed::new(batch(&[Event::Switch(1)]), 7));
    let problem = simulate(&machine.unwrap(), source, &options, None, &mut |_| Ok(())).unwrap_err();
    assert!(problem.to_string().contains("translation=off"), "{problem}");
}

/// Returns the counts of a machine of 4 KiB pages with huge pages of so many bytes.
fn with_huge_pages(size: &str, events: &[Event]) -> BTreeMap<String, f64> {
    with_huge_pages_and(size, "placement.fragmentation=0", events)
}

/// Returns the counts of a machine of 4 KiB pages with huge pages of so many bytes and a further setting.
fn with_huge_pages_and(size: &str, setting: &str, events: &[Event]) -> BTreeMap<String, f64> {
    let settings = [
        "translation=on",
        "translation.table=radix",
        "translation.levels=5",
        "translation.entry=256B",
        "placement.policy=buddy",
        "tlb.tlb.serves=all",
        "tlb.tlb.entries=4",
        &format!("translation.huge-pages={size}"),
        setting,
    ];
    let machine = Machine::parse(&machine(0).resolved(), "huge", &settings.map(String::from)).unwrap();
    counts(&run(&machine, &batch(events), 500, &RunOptions::default()), 0, 1)
}

fn store(page: u8) -> Event {
    Event::Data { op: Op::Store, page, offset: 0, size: 8 }
}

/// A table page has 16 entries, so a huge page has 16 pages.
#[test]
fn a_huge_page_is_one_fault_one_walk_and_one_entry_of_the_tlb() {
    let map = Event::Map { page: 0, pages: 40, segment: None, shared: false };
    let sixteen = (0..16).chain(0..16).map(store);
    let events: Vec<Event> = std::iter::once(map).chain(sixteen).chain([store(20), store(35)]).collect();
    let of = |counts: &BTreeMap<String, f64>| {
        let names = [
            "os.faults",
            "translation.walks",
            "translation.misses",
            "translation.entries",
            "translation.huge-pages",
            "translation.huge-pages.lost",
        ];
        names.map(|name| counts.get(name).copied().unwrap_or(0.0))
    };
    assert_eq!(of(&with_huge_pages("4KiB", &events)), [18.0, 34.0, 34.0, 170.0, 0.0, 0.0]);
    // The huge page of page 35 reaches beyond the map, so pages of the usual size are taken there. The first huge page is
    // used as a whole. Of the second, one page is used.
    let pages = 15.0 * PAGE as f64;
    assert_eq!(of(&with_huge_pages("64KiB", &events)), [3.0, 3.0, 3.0, 4.0 + 4.0 + 5.0, 2.0, pages]);
}

/// A fork, a copy on write, an unmap of a part and an exit split huge pages, or end their one entry.
#[test]
fn huge_pages_end_where_a_part_of_them_changes() {
    let splits = |events: &[Event]| {
        let counts = with_huge_pages("64KiB", events);
        ["os.faults", "translation.walks", "translation.huge-pages.splits"]
            .map(|name| counts.get(name).copied().unwrap_or(0.0))
    };
    let two = [store(1), store(2)];
    let with = |events: &[Event]| splits(&[&two[..], events].concat());
    assert_eq!(with(&[]), [1.0, 1.0, 0.0]);
    // The pages of a part are unmapped: the run is split, page 2 keeps its frame, and page 1 is a new page.
    let unmap = Event::Unmap { page: 1, pages: 1 };
    assert_eq!(with(&[unmap, store(2), store(1)]), [2.0, 3.0, 1.0]);
    // The child writes to page 1: it gets a page of the usual size, and maps pages of this size. The parent does not.
    let child = [
        Event::Fork(1),
        Event::Switch(1),
        store(1),
        Event::Data { op: Op::Load, page: 2, offset: 0, size: 8 },
    ];
    assert_eq!(with(&child), [2.0, 3.0, 0.0]);
    let back = [Event::Switch(0), Event::Data { op: Op::Load, page: 2, offset: 0, size: 8 }];
    assert_eq!(with(&[&child[..], &back[..]].concat()), [2.0, 4.0, 0.0]);
    // A protected part ends the one entry, and the run stays whole.
    let protect = Event::Protect { page: 1, pages: 1 };
    assert_eq!(with(&[protect, store(1), store(2)]), [1.0, 3.0, 0.0]);
    assert_eq!(with(&[Event::Exit]), [1.0, 1.0, 1.0]);
}

/// A page that joins a huge page causes no fault. Faults have the causes that they have without huge pages.
#[test]
fn faults_of_huge_pages_have_causes() {
    let of = |size, setting: &str, events: &[Event]| {
        let counts = with_huge_pages_and(size, setting, events);
        ["first", "unmapped", "copied", "evicted"]
            .map(|cause| counts.get(&format!("translation.faults.{cause}")).copied().unwrap_or(0.0))
    };
    let (free, old) = ("placement.fragmentation=0", "placement.fragmentation=100");
    let map = Event::Map { page: 0, pages: 40, segment: None, shared: false };
    // The huge page of pages 48 to 63 lies outside every map.
    let pages = [0, 1, 2, 17, 18, 35, 36, 48, 49, 50].map(store);
    // The child shares page 1, and then copies it.
    let load = Event::Data { op: Op::Load, page: 1, offset: 0, size: 8 };
    let fork = [Event::Fork(1), Event::Switch(1), load, store(1)];
    let events = [&[map][..], &pages, &fork].concat();
    assert_eq!(of("4KiB", free, &events), [7.0, 3.0, 1.0, 0.0]);
    assert_eq!(of("64KiB", free, &events), [4.0, 1.0, 1.0, 0.0]);
    // No run of frames is free, so every page has a fault.
    assert_eq!(of("64KiB", old, &events), [7.0, 3.0, 1.0, 0.0]);
}

/// Where tables lie changes nothing that huge pages do.
#[test]
fn huge_pages_are_the_same_under_every_placement_of_tables() {
    let map = Event::Map { page: 0, pages: 40, segment: None, shared: false };
    let events: Vec<Event> =
        std::iter::once(map).chain((0..80u16).map(|number| store((number * 7 % 40) as u8))).collect();
    let of = |rule: &str| {
        let mut counts = with_huge_pages_and("64KiB", &format!("translation.placement={rule}"), &events);
        let depends = [".cycles", ".cpi", ".tlb-miss"];
        counts.retain(|name, _| {
            ["os.", "tlb.", "translation."].iter().any(|of| name.starts_with(of))
                && !depends.iter().any(|of| name.contains(of))
        });
        counts
    };
    let [random, fixed, policy] = ["random", "fixed", "policy"].map(of);
    assert_eq!(random["translation.huge-pages"], 2.0);
    assert_eq!((&random, &random), (&fixed, &policy));
}

#[test]
fn a_policy_of_ones_own_has_no_huge_pages() {
    let settings = [
        "translation=on",
        "translation.table=radix",
        "translation.levels=5",
        "translation.entry=256B",
        "translation.huge-pages=64KiB",
        "placement.policy=buddy",
        "tlb.tlb.serves=all",
        "tlb.tlb.entries=4",
    ];
    let machine = Machine::parse(&machine(0).resolved(), "huge", &settings.map(String::from)).unwrap();
    let make: binhop_sim::PolicyMaker<'_> = &|_| unreachable!("the machine is refused");
    let source = Box::new(Fixed::new(batch(&[Event::Switch(1)]), 7));
    let problem =
        simulate(&machine, source, &RunOptions::default(), Some(make), &mut |_| Ok(())).unwrap_err();
    assert!(problem.rule.contains("huge pages need runs"), "{problem}");
}
