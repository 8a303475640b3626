//! These tests compare the whole engine with the slow models put together: every address space, every frame
//! in a plain list at every access, every line of every cache, event by event.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use crate::caches;
use crate::common::{
    Event, Fixed, SMALL, batch, cases, event, flushes, flushes_caches, flushing, machine, reference, run,
};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_base::{Agent, Asid, Domain, FrameNo, Kind, MappingId, PageId, PageNo, Rng, Stream, Translation};
use binhop_hw::TagBy;
use binhop_oracle::placements::{self, Memory, PageRequest, RunCounts, RunPlace};
use binhop_oracle::segments::{Segment, Segments};
use binhop_oracle::spaces::{Spaces, Touched};
use binhop_oracle::synonyms::{NamedAccess, Synonyms};
use binhop_oracle::{cache_tree::CacheTree, frames::Frames};
use binhop_sim::machine::Footprint;
use binhop_sim::{Machine, Outcome, RunOptions, simulate, simulate_all};
use binhop_trace::event::{EventBuilder, map_flags};
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// `Observer` follows a slow run. The functions do nothing unless an observer has its own.
pub trait Observer {
    /// Before an access whose page is in memory: accesses of other agents may come first.
    fn inject(&mut self, _next: &Injection, _tree: &mut CacheTree, _world: &mut World) {}
    /// Returns whether the accesses that come first belong to the access itself, because its line misses.
    fn injects_at_misses(&self) -> bool {
        false
    }
    /// A page has left memory, which had these places in address spaces.
    fn evicted(&mut self, _page: PageId, _mappings: &[(Asid, PageNo)]) {}
    /// A store has made a page.
    fn made(&mut self, _asid: Asid, _page_no: PageNo, _page: PageId) {}
    /// An address space has touched a page, which may need a frame now.
    fn touched(&mut self, _at: (Asid, PageNo), _touched: &Touched, _spaces: &Spaces) {}
    /// Returns the place in a run of frames of a page that is placed for the first time.
    fn run_of(&mut self, _page: PageId) -> Option<RunPlace> {
        None
    }
    /// The run of a huge page was split.
    fn split(&mut self, _run: u32) {}
    /// Before an access that the slow caches are about to make.
    fn before(&mut self, _tree: &CacheTree) {}
    /// After the access, which waited so many cycles for this level.
    fn access(&mut self, _access: &SlowAccess, _tree: &CacheTree, _world: &World) {}
    /// Behind the access: accesses of other agents may follow.
    fn follow(&mut self, _tree: &mut CacheTree, _world: &World) {}
    /// Instructions pass.
    fn instructions(&mut self, _count: u64) {}
    /// The lines of a page leave.
    fn flush(&mut self, _page: PageId, _world: &World) {}
    /// The kernel flushes these caches.
    fn flush_caches(&mut self, _caches: &[usize]) {}
    /// The protection of pages changes.
    fn protect(&mut self, _events: &EventBatch, _row: usize, _tree: &mut CacheTree, _world: &World) {}
    /// The measured part begins.
    fn measure(&mut self) {}
    /// An event that is no reference comes next.
    fn event(&mut self, _events: &EventBatch, _row: usize) {}
}

impl Observer for () {}

/// `Injection` is the access that follows an injection.
pub struct Injection {
    pub kind: Kind,
    pub page_no: PageNo,
    pub page: PageId,
    pub segment: Segment,
    /// The mapping by which the caches know the page.
    pub mapping: u32,
    pub offset: u64,
}

/// `SlowAccess` is an access of the slow caches, with its answer.
pub struct SlowAccess {
    pub cache: usize,
    pub kind: Kind,
    pub mapping: u32,
    pub offset: u64,
    pub answer: (u64, Option<usize>),
}

/// `World` answers the slow caches. It is filled while pages are touched and placed.
#[derive(Default)]
pub struct World {
    mappings: Vec<(PageId, PageNo, Asid)>,
    /// The frame of each page. A dead page keeps its frame until the frame holds another page.
    frames: BTreeMap<PageId, u64>,
    /// The runs of frames that are whole.
    pub whole: BTreeSet<u32>,
}

/// The mapping, and the page, of page 0 of page tables.
const TABLES: u32 = 1 << 30;

impl World {
    /// Returns the mapping of a page of the page tables.
    pub fn table(number: u32) -> MappingId {
        MappingId(TABLES + number)
    }

    /// Gives the pages of page tables their frames.
    pub fn place_tables(&mut self, frames: &[u64]) {
        for (&frame, number) in frames.iter().zip(TABLES..) {
            self.frames.insert(PageId(number), frame);
        }
    }

    /// Returns the frame of a page that is in memory.
    pub fn resident_frame(&self, page: PageId) -> Option<u64> {
        self.frames.get(&page).copied()
    }
}

impl Translation for World {
    fn page(&self, mapping: MappingId) -> PageId {
        if mapping.0 >= TABLES { PageId(mapping.0) } else { self.mappings[mapping.index()].0 }
    }
    fn frame(&self, page: PageId) -> FrameNo {
        FrameNo(self.frames[&page])
    }
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        if mapping.0 >= TABLES {
            // The tables lie at the upper end of the kernel's space.
            return PageNo((u64::MAX >> 12) - u64::from(mapping.0 - TABLES));
        }
        self.mappings[mapping.index()].1
    }
}

/// `Slow` simulates a trace on a machine, event by event.
pub struct Slow<O> {
    pub observer: O,
    /// The references before the measured part.
    pub warmup: u64,
    /// The run ends before the fetch in which a further instruction lies.
    pub most_instructions: u64,
    warms_up: bool,
    machine: Machine,
    seed: u64,
    spaces: Spaces,
    segments: Segments,
    /// True if the caches know pages by their global addresses.
    global: bool,
    /// The accesses to pages that another mapping names.
    renamed: u64,
    /// The copies of memory in caches with virtual tags, if there is such a cache.
    pub synonyms: Option<Synonyms>,
    /// The accesses that had left different copies when the measured part began.
    pub synonyms_before_measured: u64,
    frames: Frames,
    pool: u64,
    /// The memory of the placement `buddy`, which has no pool.
    memory: Option<Box<dyn Memory>>,
    /// The runs that were split so far.
    splits: usize,
    /// The pages that were placed at some time.
    placed: BTreeSet<PageId>,
    world: World,
    held: BTreeMap<u64, PageId>,
    tree: CacheTree,
    asid: Asid,
    instructions: u64,
    references: u64,
    faults: u64,
    evictions: u64,
}

const PAGE: u64 = 4096;
/// The pages in a region of 256 MiB.
const REGION_PAGES: u64 = 1 << 16;

/// Returns the memory of a machine with the placement `buddy`.
fn buddy(machine: &Machine, seed: u64) -> Box<dyn Memory> {
    let settings = &machine.placement().settings;
    let settings = placements::Settings {
        frames: settings.frames,
        pool: 1,
        bins: 1,
        colors: 1,
        by_space: false,
        pid_hash: false,
        fragmentation: settings.fragmentation.into(),
    };
    placements::memory("buddy", &settings, seed).unwrap()
}

/// Returns the segments of a machine's regions.
fn segments_of(machine: &Machine) -> Segments {
    let mut segments = Segments::new(REGION_PAGES, !machine.resolved().contains("sharing = \"aliases\""));
    segments.stated = machine.segments().regions().map(|(asid, region, id)| ((asid, region), id)).collect();
    segments
}

/// Returns the references of an event: each instruction of a fetch is one.
pub fn references(op: Op, count: u32) -> u64 {
    match op {
        Op::Fetch => count.into(),
        Op::Load | Op::Store | Op::Modify => 1,
        _ => 0,
    }
}

impl<O: Observer> Slow<O> {
    pub fn new(machine: &Machine, seed: u64, observer: O) -> Self {
        let config = machine.tree().config();
        let rng = Rng::new(seed);
        let mut order: Vec<u64> = (0..machine.memory().frames.unwrap()).collect();
        rng.shuffle(Stream::new(Domain::FrameOrder, 0), &mut order);
        let pool = machine.placement().settings.pool;
        Self {
            observer,
            warmup: 0,
            most_instructions: u64::MAX,
            warms_up: false,
            machine: machine.clone(),
            seed,
            spaces: Spaces::new(PAGE, PAGE, 8 << 20),
            segments: segments_of(machine),
            global: config.caches.iter().any(|cache| cache.tag == TagBy::Global),
            renamed: 0,
            synonyms: (machine.memory().frames.is_some()
                && config.caches.iter().any(|cache| cache.tag != TagBy::Physical))
            .then(Synonyms::default),
            synonyms_before_measured: 0,
            frames: Frames::new(&order, pool as usize),
            pool,
            memory: (machine.placement().policy == "buddy").then(|| buddy(machine, seed)),
            splits: 0,
            placed: BTreeSet::new(),
            world: World::default(),
            held: BTreeMap::new(),
            tree: caches::oracle_of(config, rng),
            asid: Asid(0),
            instructions: 0,
            references: 0,
            faults: 0,
            evictions: 0,
        }
    }

    pub fn run(&mut self, events: &EventBatch) {
        self.warms_up = self.warmup > 0;
        for row in 0..events.len() {
            let op = Op::from_code(events.op()[row]).unwrap();
            let (addr, size, count) = (events.addr()[row], events.size()[row], events.count()[row]);
            let asid = Asid(addr as u32);
            if op as u8 > Op::Modify as u8 {
                self.observer.event(events, row);
            } else if self.warms_up && self.references + references(op, count) > self.warmup {
                self.warms_up = false;
                self.observer.measure();
                self.synonyms_before_measured = self.synonyms.as_ref().map_or(0, |all| all.synonyms);
            }
            if op == Op::Fetch && self.instructions + u64::from(count) > self.most_instructions {
                return;
            }
            match op {
                Op::Fetch => {
                    self.reference(addr, size, &[Kind::Fetch], u64::from(count));
                    self.tree.now += u64::from(count);
                    self.observer.instructions(u64::from(count));
                    self.instructions += u64::from(count);
                    self.references += u64::from(count) - 1;
                }
                Op::Load => self.reference(addr, size, &[Kind::Load], 1),
                Op::Store => self.reference(addr, size, &[Kind::Store], 1),
                Op::Modify => self.reference(addr, size, &[Kind::Load, Kind::Store], 1),
                Op::Switch => {
                    self.asid = asid;
                    self.flush(self.machine.clone().kernel().switch.as_ref());
                }
                Op::Syscall => self.flush(self.machine.clone().kernel().syscall.as_ref()),
                Op::Map => {
                    self.end_pages(addr, count);
                    let flags = (size & map_flags::SHARED != 0, size & map_flags::GROWS != 0);
                    let segment = events.arg0(row).map(|segment| (segment, events.arg1(row).unwrap_or(0)));
                    self.spaces.map(self.asid, addr, u64::from(count), flags, segment);
                    self.report_dead_pages();
                }
                Op::Unmap => {
                    self.end_pages(addr, count);
                    self.spaces.unmap(self.asid, addr, u64::from(count));
                    self.report_dead_pages();
                }
                Op::Protect => self.observer.protect(events, row, &mut self.tree, &self.world),
                Op::Fork => {
                    // A space that lives under this number ends.
                    self.segments.drop_space(asid);
                    self.spaces.fork(asid, Asid(events.arg0(row).unwrap() as u32));
                    self.report_dead_pages();
                }
                Op::Exec | Op::Exit => {
                    self.segments.drop_space(asid);
                    self.spaces.end(asid);
                    self.report_dead_pages();
                }
                _ => {}
            }
        }
    }

    /// Pages of the running space are mapped anew, or unmapped.
    fn end_pages(&mut self, addr: u64, count: u32) {
        if count > 0 {
            self.segments.unmap(self.asid, addr / PAGE, addr / PAGE + u64::from(count) - 1);
        }
    }

    /// The kernel flushes what it flushes at an occasion.
    fn flush(&mut self, at: Option<&Footprint>) {
        if let Some(caches) = at.map(|footprint| &*footprint.flush) {
            self.tree.agent = Agent::Kernel;
            self.tree.flush_caches(caches);
            self.tree.agent = Agent::User;
            self.observer.flush_caches(caches);
        }
    }

    fn report_dead_pages(&mut self) {
        for page in self.spaces.dead() {
            match &mut self.memory {
                Some(memory) => memory.release(page),
                None => self.frames.release(page),
            }
        }
        self.report_splits();
    }

    fn report_splits(&mut self) {
        let Some(memory) = &self.memory else { return };
        for &run in &memory.splits()[self.splits..] {
            self.world.whole.remove(&run);
            self.observer.split(run);
        }
        self.splits = memory.splits().len();
    }

    /// Returns whether two different pages of regions with one segment id had one global address at one time, although
    /// something names pages by their global addresses.
    pub fn has_conflict(&self) -> bool {
        self.segments.conflict && (self.global || self.machine.softvm().is_some())
    }

    /// Returns the counts of the runs of huge pages.
    pub fn run_counts(&self) -> RunCounts {
        self.memory.as_ref().map_or_else(RunCounts::default, |memory| memory.run_counts())
    }

    fn reference(&mut self, addr: u64, size: u32, kinds: &[Kind], count: u64) {
        self.references += 1;
        for &kind in kinds {
            let config = self.machine.tree().config();
            let cache = if kind == Kind::Fetch { config.fetch } else { config.data };
            let line = config.caches[cache].line.bytes();
            let (first, last) = (addr / line, (addr + u64::from(size) - 1) / line);
            for number in first..=last {
                self.access(cache, kind, number * line);
            }
            let lines = last - first + 1;
            for _ in lines..count {
                // The other instructions of the run fetch from lines that have just been fetched.
                self.tree.caches[cache].count_for(Agent::User, "accesses", Some(kind), 1);
            }
        }
    }

    fn access(&mut self, cache: usize, kind: Kind, addr: u64) {
        let page_no = PageNo(addr / PAGE);
        let touched = self.spaces.touch(self.asid, page_no, kind == Kind::Store);
        if touched.mapping.index() == self.world.mappings.len() {
            self.world.mappings.push((touched.page, page_no, self.asid));
        }
        if touched.new_page && kind == Kind::Store {
            self.observer.made(self.asid, page_no, touched.page);
        }
        self.observer.touched((self.asid, page_no), &touched, &self.spaces);
        self.report_dead_pages();
        let resident = match &self.memory {
            Some(memory) => memory.frame_of(touched.page).is_some(),
            None => self.frames.frame_of(touched.page).is_some(),
        };
        if !resident {
            let faults = self.faults;
            self.place(touched.page);
            if self.faults > faults {
                self.flush(self.machine.clone().kernel().fault.as_ref());
            }
        }
        match &mut self.memory {
            Some(memory) => memory.touch(touched.page),
            None => self.frames.touch(touched.page),
        }
        let (segment, name) = self.segments.touch(self.asid, page_no, &touched, &self.spaces);
        self.renamed += u64::from(name != touched.mapping);
        let mapping = if self.global { name.0 } else { touched.mapping.0 };
        let offset = addr % PAGE;
        let next = Injection { kind, page_no, page: touched.page, segment, mapping, offset };
        let named = NamedAccess { kind, cache, mapping, offset };
        if self.observer.injects_at_misses() {
            self.synonyms.iter_mut().for_each(|all| all.before(&named, &self.tree, &self.world));
            self.observer.inject(&next, &mut self.tree, &mut self.world);
        } else {
            self.observer.inject(&next, &mut self.tree, &mut self.world);
            self.synonyms.iter_mut().for_each(|all| all.before(&named, &self.tree, &self.world));
        }
        self.tree.moved.clear();
        self.tree.missed.clear();
        self.observer.before(&self.tree);
        let answer = self.tree.access(cache, kind, mapping, offset, &self.world);
        let access = SlowAccess { cache, kind, mapping, offset, answer };
        self.observer.access(&access, &self.tree, &self.world);
        self.observer.follow(&mut self.tree, &self.world);
        self.synonyms.iter_mut().for_each(|all| all.after(&named, &self.tree, &self.world));
    }

    fn place(&mut self, page: PageId) {
        if let Some(memory) = &mut self.memory {
            let run = if self.placed.insert(page) { self.observer.run_of(page) } else { None };
            let joins = run.is_some_and(|run| !run.begins && memory.holds_run(run.number));
            let request = PageRequest {
                page,
                asid: 0,
                page_no: 0,
                segment: 0,
                segments: Vec::new(),
                run,
                in_kernel: false,
            };
            let (frame, evicted) = memory.place(&request);
            self.faults += u64::from(!joins);
            self.world.whole.extend(run.map(|run| run.number).filter(|&run| memory.holds_run(run)));
            self.report_splits();
            return self.enter(page, frame, evicted);
        }
        let draw = Rng::new(self.seed).below(Stream::new(Domain::Placement, 0), self.faults, self.pool);
        let rank = if self.machine.placement().policy == "first" { 0 } else { draw };
        let frame = self.frames.pool()[rank as usize].number;
        let evicted = self.frames.place(page, rank as usize);
        self.faults += 1;
        self.enter(page, frame, evicted);
    }

    /// Puts a page into a frame.
    fn enter(&mut self, page: PageId, frame: u64, evicted: Option<PageId>) {
        if let Some(held) = self.held.insert(frame, page) {
            self.observer.flush(held, &self.world);
            self.tree.flush_page(held.0, &self.world);
            self.world.frames.remove(&held);
        }
        if let Some(evicted) = evicted {
            self.evictions += 1;
            let of_page = self.world.mappings.iter().filter(|(page, ..)| *page == evicted);
            let mappings: Vec<_> = of_page.map(|&(_, page_no, asid)| (asid, page_no)).collect();
            self.observer.evicted(evicted, &mappings);
        }
        self.world.frames.insert(page, frame);
    }

    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut metrics = BTreeMap::new();
        let config = self.machine.tree().config();
        for (cache, slow) in config.caches.iter().zip(&self.tree.caches) {
            for (&(agent, name, kind), &value) in &slow.counts {
                let agent = if agent == Agent::User.name() { String::new() } else { format!("{agent}.") };
                let kind = kind.map_or_else(String::new, |kind| format!("{kind}."));
                metrics.insert(format!("{}.{agent}{kind}{name}", cache.name), value as f64);
            }
        }
        for (&(agent, name, kind), &value) in &self.tree.memory_counts {
            let agent = if agent == Agent::User.name() { String::new() } else { format!("{agent}.") };
            metrics.insert(format!("memory.{agent}{kind}.{name}"), value as f64);
        }
        metrics.insert("instructions".into(), self.instructions as f64);
        metrics.insert("references".into(), self.references as f64);
        metrics.insert("os.faults".into(), self.faults as f64);
        metrics.insert("os.evictions".into(), self.evictions as f64);
        if let Some(all) = &self.synonyms {
            metrics.insert("translation.aliases".into(), all.aliases as f64);
            metrics.insert("translation.synonyms".into(), all.synonyms as f64);
        }
        if self.machine.has_cost() {
            metrics.insert("cycles".into(), self.tree.now as f64);
        }
        metrics.retain(|_, value| *value > 0.0);
        metrics
    }
}

/// Returns the counts of one seed that are not zero.
pub fn counts(outcome: &Outcome, seed: usize, seeds: usize) -> BTreeMap<String, f64> {
    let rows = outcome.results.num_rows() / seeds;
    let part = outcome.results.slice(seed * rows, rows);
    let names = part.column_by_name("metric").unwrap().as_string::<i32>();
    let values = part.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    (0..rows)
        .filter(|&row| values.is_valid(row) && values.value(row) > 0.0)
        .map(|row| (names.value(row).to_string(), values.value(row)))
        .filter(|(name, _)| !name.ends_with("mpi") && name != "cpi")
        .collect()
}

fn compare(machine: &Machine, events: &[crate::common::Event]) {
    if machine.memory().frames.is_none() {
        return;
    }
    compare_batch(machine, &batch(events));
}

/// Runs a machine. Returns nothing if the run stops because two different pages have one global address: then the slow
/// model must have found this, too.
pub fn run_without_conflict(machine: &Machine, events: &EventBatch, options: &RunOptions) -> Option<Outcome> {
    let mut slow = Slow::new(machine, 0, ());
    slow.run(events);
    let source = Box::new(Fixed::new(events.clone(), 500));
    match simulate(machine, source, options, None, &mut |_| Ok(())) {
        Ok(outcome) => {
            assert!(!slow.has_conflict(), "two pages have one global address");
            Some(outcome)
        }
        Err(problem) => {
            assert!(problem.place.ends_with(": a global address"), "{problem}");
            assert!(slow.has_conflict(), "{problem}");
            None
        }
    }
}

fn compare_batch(machine: &Machine, events: &EventBatch) {
    let options = RunOptions { seeds: vec![0, 1], kernel: flushes_caches(machine), ..RunOptions::default() };
    let Some(fast) = run_without_conflict(machine, events, &options) else { return };
    for seed in 0..2 {
        let mut slow = Slow::new(machine, seed, ());
        slow.run(events);
        let slow = slow.metrics();
        let mut fast = counts(&fast, seed as usize, 2);
        // The slow model does not know what a mapping allows.
        fast.remove("translation.aliases.writable");
        for name in slow.keys().chain(fast.keys()) {
            assert_eq!(fast.get(name), slow.get(name), "{}: {name}, seed {seed}", machine.name());
        }
    }
}

/// Draws events of address spaces that share the segments of whole regions. The pages from `PRIVATE` on lie in other
/// regions.
pub fn sharing(most: usize) -> impl Strategy<Value = Vec<Event>> {
    const PRIVATE: u8 = 16;
    let map = |page, segment| Event::Map { page, pages: 8, segment: Some(segment), shared: true };
    let start = [map(0, 0), map(8, 1)];
    let switch = (0u8..4).prop_map(Event::Switch);
    let fork = (0u8..4).prop_map(Event::Fork);
    // Most maps and unmaps leave the shared regions alone: a run stops where two regions of a segment differ.
    let rare = prop::bool::weighted(0.1);
    let event =
        (event(), rare, prop::bool::weighted(0.2)).prop_map(move |(event, rare, again)| match event {
            Event::Map { page: 0..PRIVATE, .. } if again => map(8 * (u8::from(rare)), u8::from(rare)),
            Event::Map { page, pages, segment, shared } if !rare => {
                Event::Map { page: page.max(PRIVATE), pages, segment, shared }
            }
            Event::Unmap { page, pages } if !rare => Event::Unmap { page: page.max(PRIVATE), pages },
            Event::Exec if !rare => Event::Fork(2),
            event => event,
        });
    let rest = prop::collection::vec(prop_oneof![10 => event, 1 => switch, 1 => fork], 1..most);
    rest.prop_map(move |rest| [&start[..], &rest].concat())
}

/// Returns events with the pages of each eight in a region of their own.
pub fn apart(events: &[Event]) -> EventBatch {
    let mut rows = EventBuilder::default();
    let events = batch(events);
    for row in 0..events.len() {
        let op = Op::from_code(events.op()[row]).unwrap();
        let mut addr = events.addr()[row];
        if op as u8 <= Op::Modify as u8 || matches!(op, Op::Map | Op::Unmap | Op::Protect) {
            let page = addr / PAGE;
            addr = (page / 8 * REGION_PAGES + page % 8) * PAGE + addr % PAGE;
        }
        let args = [events.arg0(row), events.arg1(row)];
        rows.push_args(op, addr, events.size()[row], events.count()[row], args);
    }
    rows.finish()
}

/// Draws segment ids of regions: the settings that state them. Most ids leave shared memory alone; two regions of
/// different memory seldom have one id.
pub fn stated_ids() -> impl Strategy<Value = Vec<String>> {
    const REGIONS: u32 = 5;
    prop::collection::vec(0..20u8, 4 * REGIONS as usize).prop_map(|choices| {
        let mut regions = Vec::new();
        let mut shared = BTreeSet::new();
        for ((asid, region), choice) in
            (0..4).flat_map(|asid| (0..REGIONS).map(move |region| (asid, region))).zip(choices)
        {
            let id = match choice {
                0..8 => continue,
                8..19 if region < 2 => region,
                8..19 => 8 + asid * REGIONS + region,
                _ => 7,
            };
            if id < 8 {
                shared.insert(id);
            }
            regions.push(format!("{asid}:{:#x}={id}", u64::from(region) << 28));
        }
        let shared: Vec<String> = shared.iter().map(ToString::to_string).collect();
        let setting = |key: &str, list: Vec<String>| {
            (!list.is_empty()).then(|| format!("translation.{key}={}", list.join(", ")))
        };
        [setting("segment-ids", regions), setting("shared-segments", shared)].into_iter().flatten().collect()
    })
}

/// Returns the machine with these settings. Its translation is off, but states segment ids.
fn with_ids(machine: &Machine, ids: &[String]) -> Machine {
    let off = ["table=disjunct", "refill=cache-miss", "active=false"];
    let settings = off.map(|setting| format!("translation.{setting}"));
    Machine::parse(&machine.resolved(), machine.name(), &[&settings, ids].concat()).unwrap()
}

/// Returns a small machine whose virtual caches have tags of a kind: both levels, or level 1 alone.
pub fn virtual_machine(tag: &str, both: bool, ways: [u8; 2], memory: &str) -> Machine {
    let behind = if both { format!("index = \"virtual\"\ntag = \"{tag}\"\n") } else { String::new() };
    let toml = format!(
        "memory = {{ size = \"{memory}\", page = \"4KiB\" }}\nplacement = {{ policy = \"random\", pool = \"32KiB\" }}\n\
         [cache.l1]\nserves = \"all\"\nsize = \"{}KiB\"\nline = \"32B\"\nways = {}\nindex = \"virtual\"\n\
         tag = \"{tag}\"\nnext = \"l2\"\n[cache.l2]\nsize = \"{}KiB\"\nline = \"32B\"\nways = {}\n{behind}\
         next = \"memory\"\n[cost]\nl2 = 10\nmemory = 100\n",
        8 * ways[0],
        ways[0],
        32 * ways[1],
        ways[1],
    );
    Machine::parse(&toml, tag, &[]).unwrap_or_else(|problem| panic!("{toml}\n{problem}"))
}

/// Checks that machines of one run count what each counts alone, without sharing: machines with virtual tags that
/// differ in tags and in what is behind a front, and machines with physical tags that share their preparation.
fn compare_together(ways: [u8; 2], memory: &str, events: &EventBatch) {
    let mut machines: Vec<Machine> = ["global", "asid"]
        .into_iter()
        .flat_map(|tag| {
            let of = |both, second| virtual_machine(tag, both, [ways[0], second], memory);
            [of(true, ways[1]), of(true, 4), of(false, ways[1])]
        })
        .collect();
    let like = virtual_machine("asid", false, ways, memory).resolved();
    for index in ["virtual", "physical"] {
        let settings = ["cache.l1.tag=physical".to_string(), format!("cache.l1.index={index}")];
        machines.push(Machine::parse(&like, index, &settings).unwrap());
    }
    let options = RunOptions { seeds: vec![0, 1, 2], ..RunOptions::default() };
    for threads in [1, 2] {
        let options = RunOptions { threads, ..options.clone() };
        let source = Box::new(Fixed::new(events.clone(), 100));
        let together = match simulate_all(&machines, source, &options, None, &mut |_| Ok(())) {
            Ok(together) => together,
            Err(problem) => {
                assert!(problem.place.ends_with(": a global address"), "{problem}");
                assert!(run_without_conflict(&machines[0], events, &options).is_none());
                return;
            }
        };
        let alone = RunOptions { share: false, ..options };
        for (machine, together) in machines.iter().zip(together) {
            let alone = run(machine, events, 100, &alone);
            assert_eq!(together.results, alone.results, "{}", machine.resolved());
            let synonyms = |outcome: &Outcome| {
                outcome.notes.iter().find(|note| note.contains("two different copies")).cloned()
            };
            assert_eq!(synonyms(&together), synonyms(&alone));
        }
    }
}

/// Drawn spaces do share segments: otherwise the tests of global tags would show nothing.
#[test]
fn drawn_spaces_share_segments() {
    let machine = virtual_machine("global", true, [1, 1], "1MiB");
    let mut runner = TestRunner::deterministic();
    let renames = |_: u32| {
        let events = sharing(600).new_tree(&mut runner).unwrap().current();
        let mut slow = Slow::new(&machine, 0, ());
        slow.run(&apart(&events));
        slow.renamed > 10 && !slow.segments.conflict
    };
    let shared = (0..32).map(renames).filter(|&renames| renames).count();
    assert!(shared >= 16, "{shared} of 32");
}

proptest! {
    #![proptest_config(cases(12, 64))]

    #[test]
    fn virtual_caches_with_tags_of_either_kind(
        both: bool,
        ways in [1..3u8, 1..3u8],
        memory in prop::sample::select(vec!["96KiB", "256KiB", "1MiB"]),
        ids in stated_ids(),
        events in sharing(600),
    ) {
        let events = apart(&events);
        let machine = virtual_machine("global", both, ways, memory);
        compare_batch(&machine, &events);
        compare_batch(&with_ids(&machine, &ids), &events);
        compare_batch(&virtual_machine("asid", both, ways, memory), &events);
    }
}

proptest! {
    #![proptest_config(cases(6, 24))]

    #[test]
    fn virtual_caches_of_several_machines_are_those_of_each_alone(
        ways in [1..3u8, 1..3u8],
        memory in prop::sample::select(vec!["96KiB", "256KiB", "1MiB"]),
        events in sharing(600),
    ) {
        compare_together(ways, memory, &apart(&events));
    }
}

proptest! {
    #![proptest_config(cases(10, 32))]

    #[test]
    fn every_machine_every_event(
        number in 0..SMALL.len(),
        flushes in flushes(),
        events in prop::collection::vec(event(), 1..600),
    ) {
        compare(&flushing(&machine(number), flushes), &events);
    }

    #[test]
    fn references_under_scarce_memory(number in 0..SMALL.len(), events in prop::collection::vec(reference(), 1..1500)) {
        compare(&machine(number), &events);
    }

    #[test]
    fn the_designs_of_mb90_in_little_memory(number in 0..4usize, merge: bool, events in prop::collection::vec(event(), 1..600)) {
        let name = ["mb90-1a", "mb90-1b", "mb90-2a", "mb90-2b"][number];
        let settings = ["memory.size=128KiB", "placement.pool=64KiB", "write-buffer.l1d.drain=20"].map(String::from);
        let settings = [&settings[..], &[format!("write-buffer.l1d.merge={merge}")]].concat();
        compare(&Machine::load(name, &settings).unwrap(), &events);
    }
}
