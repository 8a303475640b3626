//! `Lane` simulates a whole machine, one reference at a time: address spaces, frames, caches, and a unit that acts
//! between references. Nothing is skipped, shared, gathered into blocks or done ahead.
//!
//! A trace is first expanded to `Steps`, which are the same for every placement. Each lane then takes the steps one
//! by one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use binhop_base::{Agent, Asid, FrameNo, Kind, MappingId, PageId, PageNo, Rng, Translation};

use crate::cache::{Config, Name};
use crate::cache_tree::CacheTree;
use crate::placements::{Memory, PageRequest};
use crate::segments::Segments;
use crate::spaces::Spaces;
use crate::synonyms::{NamedAccess, Synonyms};

/// `Event` is an event of a trace.
#[allow(missing_docs)] // Each variant's sentence tells of its fields.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// `count` instructions in `size` bytes.
    Fetch { addr: u64, size: u64, count: u64 },
    /// A data reference. A modify both loads and stores.
    Data { addr: u64, size: u64, load: bool, store: bool },
    /// Another thread runs.
    Switch { asid: u32 },
    /// A system call of this number.
    Syscall { number: u32 },
    /// A device's request, at virtual addresses of the running space.
    Device { device: u32, writes: bool, request: u64, addr: u64, bytes: u32 },
    /// Pages appear in the running space. They are shared or private, and may lie in a segment, from some byte on.
    Map { start: u64, pages: u64, shared: bool, segment: Option<(u64, u64)> },
    /// Pages of the running space disappear.
    Unmap { start: u64, pages: u64 },
    /// A space is copied.
    Fork { child: u32, parent: u32 },
    /// A space ends, or another program takes it over.
    End { asid: u32 },
}

/// `Occasion` is an event of which a unit is told.
#[allow(missing_docs)] // Each variant's sentence tells of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Another thread runs, in this space.
    Switch { asid: u32 },
    /// A system call of this number.
    Syscall { number: u32 },
    /// The first reference ever to a page.
    FirstTouch { mapping: u32 },
    /// A reference to a page that had left memory.
    Return { mapping: u32 },
    /// A fetch, or a load or store, of another page than the last such reference.
    PageChange { fetch: bool, mapping: u32 },
    /// The first level lacks the line that starts at a byte of a page.
    Miss { kind: Kind, mapping: u32, offset: u64 },
    /// A device reads or writes bytes of a page. The first page of a request tells the bytes of the request.
    Device {
        device: u32,
        writes: bool,
        request: u64,
        mapping: u32,
        offset: u64,
        bytes: u64,
        total: Option<u64>,
    },
}

/// `Unit` acts between references.
pub trait Unit {
    /// Acts on an occasion that has arisen.
    fn act(&mut self, occasion: Occasion, lane: &mut Lane);
}

/// `Step` is one step of every lane.
#[derive(Clone, Debug)]
enum Step {
    /// Instructions pass.
    Instructions(u64),
    /// The processor asks for the line with a first byte `offset` within its page.
    Access { kind: Kind, mapping: u32, offset: u64, request: PageRequest },
    /// Fetches of the line that was asked for just before. The line is surely there, so the fetches are only counted.
    SureFetches(u64),
    /// A page has no mapping any more.
    Died(PageId),
    /// A space or its maps changed.
    Changed,
    /// A device reads or writes bytes of a page.
    Device(Occasion, PageRequest),
    /// An event that is no reference.
    Other(Occasion),
}

/// `PageNames` says by which name caches with virtual tags know a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageNames {
    /// Physical = virtual: the address is the name.
    Physical,
    /// Each mapping is a name.
    Mapping,
    /// The mapping that names the page's global address is the name.
    Global,
}

/// `Steps` is a trace expanded for machines of one page size and one pair of level-1 lines.
#[derive(Clone, Debug)]
pub struct Steps {
    steps: Vec<Step>,
    /// The page and the virtual page number of every mapping.
    mappings: Vec<(u32, u64)>,
    /// True if two different pages had one global address at one time.
    pub conflict: bool,
}

impl Steps {
    /// Expands a trace. `page` is the bytes of a page; `lines` are the bytes of a first-level line for instructions
    /// and for data. A unit owns the first `owned` pages.
    #[must_use]
    pub fn new(events: &[Event], page: u64, lines: [u64; 2], owned: u32, names: PageNames) -> Self {
        let builder = StepsBuilder {
            page,
            lines,
            identity: names == PageNames::Physical,
            owned,
            running: 0,
            spaces: Spaces::new(page, page, 0),
            segments: (names == PageNames::Global).then(|| Segments::new(REGION / page, true)),
            of_memory: BTreeMap::new(),
            in_memory: BTreeMap::new(),
            result: Self { steps: Vec::new(), mappings: Vec::new(), conflict: false },
        };
        builder.all(events)
    }
}

/// The bytes of a region that has one segment.
const REGION: u64 = 1 << 28;

struct StepsBuilder {
    page: u64,
    lines: [u64; 2],
    identity: bool,
    owned: u32,
    running: u32,
    spaces: Spaces,
    /// The segments, if pages are known by their global addresses.
    segments: Option<Segments>,
    /// The number of each page, and of each mapping, where physical = virtual.
    of_memory: BTreeMap<u64, u32>,
    in_memory: BTreeMap<(u32, u64), u32>,
    result: Steps,
}

impl StepsBuilder {
    fn all(mut self, events: &[Event]) -> Steps {
        for number in 0..u64::from(self.owned) {
            let page_no = u64::MAX / self.page - number;
            if self.identity {
                self.find(u32::MAX, page_no, true);
            } else {
                let (page, _, _) = self.spaces.touch_kernel(PageNo(page_no));
                self.result.mappings.push((page.0, page_no));
            }
        }
        for &event in events {
            self.event(event);
        }
        self.result.conflict = self.segments.is_some_and(|segments| segments.conflict);
        self.result
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Fetch { addr, size, count } => {
                let lines = self.access(Kind::Fetch, self.lines[0], addr, size);
                self.result.steps.push(Step::SureFetches(count.saturating_sub(lines)));
                self.result.steps.push(Step::Instructions(count));
            }
            Event::Data { addr, size, load, store } => {
                if load {
                    self.access(Kind::Load, self.lines[1], addr, size);
                }
                if store {
                    self.access(Kind::Store, self.lines[1], addr, size);
                }
            }
            Event::Switch { asid } => {
                if asid != self.running {
                    self.result.steps.push(Step::Changed);
                }
                self.running = asid;
                self.result.steps.push(Step::Other(Occasion::Switch { asid }));
            }
            Event::Syscall { number } => {
                self.result.steps.push(Step::Other(Occasion::Syscall { number }));
            }
            Event::Device { device, writes, request, addr, bytes } => {
                let end = addr + u64::from(bytes);
                let mut first = addr;
                while first < end {
                    let next = end.min((first / self.page + 1) * self.page);
                    let (mapping, place) = self.touch(first, writes);
                    let occasion = Occasion::Device {
                        device,
                        writes,
                        request,
                        mapping,
                        offset: first % self.page,
                        bytes: next - first,
                        total: (first == addr).then_some(u64::from(bytes)),
                    };
                    self.result.steps.push(Step::Device(occasion, place));
                    first = next;
                }
            }
            Event::Map { start, pages, shared, segment } => {
                self.end_pages(start, pages);
                self.spaces.map(Asid(self.running), start, pages, (shared, false), segment);
                self.changed();
            }
            Event::Unmap { start, pages } => {
                self.end_pages(start, pages);
                self.spaces.unmap(Asid(self.running), start, pages);
                self.changed();
            }
            Event::Fork { child, parent } => {
                self.segments.iter_mut().for_each(|segments| segments.drop_space(Asid(child)));
                self.spaces.fork(Asid(child), Asid(parent));
                self.changed();
            }
            Event::End { asid } => {
                self.segments.iter_mut().for_each(|segments| segments.drop_space(Asid(asid)));
                self.spaces.end(Asid(asid));
                self.changed();
            }
        }
    }

    /// Pages of the running space are mapped anew, or unmapped.
    fn end_pages(&mut self, start: u64, pages: u64) {
        if let (Some(segments), 1..) = (&mut self.segments, pages) {
            segments.unmap(Asid(self.running), start / self.page, start / self.page + pages - 1);
        }
    }

    fn changed(&mut self) {
        self.died();
        self.result.steps.push(Step::Changed);
    }

    fn died(&mut self) {
        let dead = self.spaces.dead();
        if !self.identity {
            self.result.steps.extend(dead.into_iter().map(Step::Died));
        }
    }

    /// Adds a step for each line that a reference touches. Returns the number of lines.
    fn access(&mut self, kind: Kind, line: u64, addr: u64, size: u64) -> u64 {
        let (first, last) = (addr / line, (addr + size.max(1) - 1) / line);
        for number in first..=last {
            let byte = number * line;
            let (mapping, request) = self.touch(byte, kind == Kind::Store);
            self.result.steps.push(Step::Access { kind, mapping, offset: byte % self.page, request });
        }
        last - first + 1
    }

    /// Returns the mapping at an address of the running space, and the request for its page.
    fn touch(&mut self, addr: u64, write: bool) -> (u32, PageRequest) {
        let (asid, page_no) = (self.running, addr / self.page);
        let (mapping, page) = self.find(asid, page_no, write);
        self.died();
        let page = PageId(page);
        (
            mapping,
            PageRequest {
                page,
                asid,
                page_no,
                segment: 0,
                segments: Vec::new(),
                run: None,
                in_kernel: false,
            },
        )
    }

    /// Returns the mapping that names a virtual page of a space, and the page.
    fn find(&mut self, asid: u32, page_no: u64, write: bool) -> (u32, u32) {
        let mut name = None;
        let (mapping, page) = if self.identity {
            let next = self.of_memory.len() as u32;
            let page = *self.of_memory.entry(page_no).or_insert(next);
            let next = self.in_memory.len() as u32;
            (*self.in_memory.entry((asid, page_no)).or_insert(next), page)
        } else {
            let touched = self.spaces.touch(Asid(asid), PageNo(page_no), write);
            if let Some(segments) = &mut self.segments {
                let (_, named) = segments.touch(Asid(asid), PageNo(page_no), &touched, &self.spaces);
                name = Some(named.0);
            }
            (touched.mapping.0, touched.page.0)
        };
        let mappings = &mut self.result.mappings;
        if mapping as usize == mappings.len() {
            mappings.push((page, page_no));
        }
        (name.unwrap_or(mapping), page)
    }
}

/// `Os` answers what the caches ask of the operating system.
#[derive(Clone, Debug)]
struct Os {
    mappings: Vec<(u32, u64)>,
    /// The frame in which each page is, or was last.
    frames: BTreeMap<u32, u64>,
}

impl Translation for Os {
    fn page(&self, mapping: MappingId) -> PageId {
        PageId(self.mappings[mapping.index()].0)
    }
    fn frame(&self, page: PageId) -> FrameNo {
        FrameNo(self.frames[&page.0])
    }
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        PageNo(self.mappings[mapping.index()].1)
    }
}

/// `Machine` holds the parts from which a lane is made.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The caches.
    pub caches: Vec<Config>,
    /// The caches that serve instructions and data.
    pub serving: [usize; 2],
    /// Bytes of a page.
    pub page: u64,
    /// Frames of memory; `None`: physical = virtual.
    pub frames: Option<u64>,
    /// Cycles of a demand access that memory serves.
    pub memory_cost: u64,
    /// True if the costs of the levels passed add up.
    pub add_costs: bool,
}

/// `Lane` simulates one placement.
pub struct Lane {
    /// The caches, with the clock and all counts.
    pub tree: CacheTree,
    /// Placements so far.
    pub faults: u64,
    /// Pages that had to leave.
    pub evictions: u64,
    memory: Option<Box<dyn Memory>>,
    os: Os,
    serving: [usize; 2],
    owned: u32,
    /// Pages that were referenced.
    referenced: BTreeSet<u32>,
    /// The pages that died, by the frame that each page had. Caches may still hold their lines under this frame.
    dead_in: BTreeMap<u64, u32>,
    /// The mappings that were referenced last: by instructions, by data.
    last: [Option<u32>; 2],
    /// The copies of memory in caches with virtual tags, if there is such a cache and pages have frames.
    pub synonyms: Option<Synonyms>,
}

impl Lane {
    /// Makes a lane of a machine before the first step. `memory` hands out its frames, unless physical = virtual.
    #[must_use]
    pub fn new(
        machine: &Machine,
        steps: &Steps,
        owned: u32,
        memory: Option<Box<dyn Memory>>,
        seed: u64,
    ) -> Self {
        let Machine { caches, serving, page, frames: _, memory_cost, add_costs } = machine.clone();
        let mut memory = memory;
        // The unit's pages get frames before any other page.
        let mut own = |number: u32| match &mut memory {
            Some(memory) => memory.wire(PageId(number), number.into()).0,
            None => steps.mappings[number as usize].1,
        };
        let frames = (0..owned).map(|number| (number, own(number))).collect();
        let has_virtual_tags = caches.iter().any(|cache| cache.tag != "physical");
        Self {
            synonyms: (has_virtual_tags && memory.is_some()).then(Synonyms::default),
            tree: CacheTree::new(caches, page, memory_cost, add_costs, Rng::new(seed)),
            faults: 0,
            evictions: 0,
            memory,
            os: Os { mappings: steps.mappings.clone(), frames },
            serving,
            owned,
            referenced: BTreeSet::new(),
            dead_in: BTreeMap::new(),
            last: [None; 2],
        }
    }

    /// Takes every step.
    pub fn run(&mut self, steps: &Steps, unit: &mut dyn Unit) {
        for step in &steps.steps {
            match step {
                Step::Instructions(count) => self.tree.now += count,
                Step::SureFetches(count) => {
                    let cache = &mut self.tree.caches[self.serving[0]];
                    cache.count_for(Agent::User, "accesses", Some(Kind::Fetch), *count);
                }
                Step::Died(page) => self.die(*page),
                Step::Changed => self.last = [None; 2],
                Step::Other(occasion) => unit.act(*occasion, self),
                Step::Device(occasion, request) => {
                    let Occasion::Device { mapping, .. } = *occasion else { unreachable!("a device acts") };
                    self.place(mapping, request, unit);
                    unit.act(*occasion, self);
                }
                Step::Access { kind, mapping, offset, request } => {
                    self.reference(*kind, *mapping, *offset, request, unit);
                }
            }
        }
    }

    /// Returns the first-level cache that serves a kind of access.
    #[must_use]
    pub fn serving(&self, kind: Kind) -> usize {
        self.serving[usize::from(kind != Kind::Fetch)]
    }

    /// Returns whether the page that a mapping leads to is in memory.
    #[must_use]
    pub fn is_resident(&self, mapping: u32) -> bool {
        let page = PageId(self.os.mappings[mapping as usize].0);
        page.0 < self.owned
            || match &self.memory {
                Some(memory) => memory.frame_of(page).is_some(),
                None => self.referenced.contains(&page.0),
            }
    }

    /// Asks a cache on behalf of an agent. The cache knows lines by mapping or by page. The clock moves on only if the
    /// processor waits. Returns the cycles.
    pub fn ask(
        &mut self,
        (cache, by_mapping): (usize, bool),
        agent: Agent,
        kind: Kind,
        mapping: u32,
        offset: u64,
    ) -> u64 {
        let (now, page) = (self.tree.now, self.os.mappings[mapping as usize].0);
        let name = if by_mapping { Name::Mapping(mapping) } else { Name::Page(page) };
        let costs = !self.serving.contains(&cache);
        self.tree.agent = agent;
        let (cycles, _) = self.tree.ask(cache, kind, name, offset, costs, &self.os);
        self.tree.agent = Agent::User;
        if !agent.is_waited_for() {
            self.tree.now = now;
        }
        cycles
    }

    /// Removes the lines with these bytes from all caches, on behalf of an agent.
    pub fn invalidate(&mut self, agent: Agent, mapping: u32, bytes: Range<u64>, discard: bool) {
        self.tree.agent = agent;
        self.tree.invalidate(self.os.mappings[mapping as usize].0, bytes, discard, &self.os);
        self.tree.agent = Agent::User;
    }

    /// Makes the lines with these bytes clean in all caches, on behalf of an agent.
    pub fn clean(&mut self, agent: Agent, mapping: u32, bytes: Range<u64>) {
        self.tree.agent = agent;
        self.tree.clean(self.os.mappings[mapping as usize].0, bytes, &self.os);
        self.tree.agent = Agent::User;
    }

    fn die(&mut self, page: PageId) {
        if let Some(memory) = &mut self.memory
            && let Some(frame) = memory.frame_of(page)
        {
            memory.release(page);
            self.dead_in.insert(frame, page.0);
        }
    }

    /// Brings a page into memory if it is not there, and makes it the page used last.
    fn place(&mut self, mapping: u32, request: &PageRequest, unit: &mut dyn Unit) {
        let page = request.page;
        let first = self.referenced.insert(page.0);
        let placed = match &mut self.memory {
            Some(memory) if memory.frame_of(page).is_none() => {
                let (frame, evicted) = memory.place(request);
                self.evictions += u64::from(evicted.is_some());
                if let Some(held) = evicted.map(|page| page.0).or_else(|| self.dead_in.remove(&frame)) {
                    // Caches still find the lines of this page by the frame that it had.
                    self.tree.flush_page(held, &self.os);
                }
                self.os.frames.insert(page.0, frame);
                true
            }
            Some(_) => false,
            None => {
                self.os.frames.insert(page.0, request.page_no);
                first
            }
        };
        self.faults += u64::from(placed);
        if let Some(memory) = &mut self.memory {
            memory.touch(page);
        }
        if first {
            unit.act(Occasion::FirstTouch { mapping }, self);
        } else if placed {
            unit.act(Occasion::Return { mapping }, self);
        }
    }

    fn reference(
        &mut self,
        kind: Kind,
        mapping: u32,
        offset: u64,
        request: &PageRequest,
        unit: &mut dyn Unit,
    ) {
        self.place(mapping, request, unit);
        let port = usize::from(kind != Kind::Fetch);
        if self.last[port] != Some(mapping) {
            self.last[port] = Some(mapping);
            unit.act(Occasion::PageChange { fetch: port == 0, mapping }, self);
        }
        let cache = self.serving[port];
        let access = NamedAccess { kind, cache, mapping, offset };
        self.synonyms.iter_mut().for_each(|all| all.before(&access, &self.tree, &self.os));
        if !self.tree.holds(cache, mapping, offset, &self.os) {
            unit.act(Occasion::Miss { kind, mapping, offset }, self);
        }
        self.tree.access(cache, kind, mapping, offset, &self.os);
        self.synonyms.iter_mut().for_each(|all| all.after(&access, &self.tree, &self.os));
    }
}
