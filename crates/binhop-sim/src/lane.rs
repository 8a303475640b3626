//! A lane: one placement of one seed, with the caches that depend on it.

use std::collections::BTreeMap;

use binhop_base::{FrameNo, Kind, LineAddr, MappingId, PageId, PageNo, Problem, Result, Rng, Translation};
use binhop_hw::{Back, CacheCounters, Front, MemoryCounters, Tree};
use binhop_os::placement::{Placement, policy};
use binhop_os::{Frames, Recency};

use crate::machine::Machine;
use crate::prepare::{Block, Control, Mapped, Mark, Row, Stream, Tape};

/// What the hardware may ask about mappings and pages, the same in every lane. Each worker keeps one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    page: Vec<PageId>,
    virtual_page: Vec<PageNo>,
    /// By page: its first mapping, then the others.
    mappings: Vec<Vec<MappingId>>,
}

impl Tables {
    pub(crate) fn extend(&mut self, new: &[Mapped]) {
        for mapped in new {
            let mapping = MappingId(self.page.len() as u32);
            self.page.push(mapped.page);
            self.virtual_page.push(mapped.virtual_page);
            if mapped.page.index() >= self.mappings.len() {
                self.mappings.resize(mapped.page.index() + 1, Vec::new());
            }
            self.mappings[mapped.page.index()].push(mapping);
        }
    }

    fn mappings_of(&self, page: PageId) -> &[MappingId] {
        &self.mappings[page.index()]
    }
}

/// The tables together with one lane's frames: what its hardware sees of the operating system.
pub(crate) struct View<'a> {
    pub(crate) tables: &'a Tables,
    /// `None` in front of a stage that all placements share: it must not ask.
    pub(crate) frames: Option<(&'a Frames, &'a Ghosts)>,
}

/// Frames whose page died. They are free, but caches still hold the page's lines, which are found by the
/// frame until it changes hands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghosts {
    frame_of: BTreeMap<PageId, FrameNo>,
    page_in: BTreeMap<FrameNo, PageId>,
}

impl Ghosts {
    fn insert(&mut self, page: PageId, frame: FrameNo) {
        self.frame_of.insert(page, frame);
        self.page_in.insert(frame, page);
    }

    /// The dead page whose lines a frame still has, if any: the frame changes hands.
    fn take(&mut self, frame: FrameNo) -> Option<PageId> {
        let page = self.page_in.remove(&frame)?;
        self.frame_of.remove(&page);
        Some(page)
    }
}

impl Translation for View<'_> {
    #[inline]
    fn page(&self, mapping: MappingId) -> PageId {
        self.tables.page[mapping.index()]
    }

    #[inline]
    fn frame(&self, page: PageId) -> FrameNo {
        let (frames, ghosts) = self.frames.expect("a shared front does not ask for frames");
        let frame = frames.frame_of(page).or_else(|| ghosts.frame_of.get(&page).copied());
        frame.expect("a page is placed before its lines are asked for")
    }

    #[inline]
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.tables.virtual_page[mapping.index()]
    }

    #[inline]
    fn global_page(&self, page: PageId) -> PageNo {
        self.tables.virtual_page[self.tables.mappings[page.index()][0].index()]
    }
}

/// What a lane counts between two marks, or up to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) stream: Stream,
    pub(crate) caches: Vec<CacheCounters>,
    pub(crate) memory: MemoryCounters,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    /// Cycles beyond one per instruction.
    pub(crate) waited: u64,
}

impl Tally {
    pub(crate) fn zero(caches: usize) -> Self {
        Self {
            stream: Stream::default(),
            caches: vec![CacheCounters::default(); caches],
            memory: MemoryCounters::default(),
            faults: 0,
            evictions: 0,
            waited: 0,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.stream += other.stream;
        for (mine, theirs) in self.caches.iter_mut().zip(&other.caches) {
            *mine += *theirs;
        }
        self.memory += other.memory;
        self.faults += other.faults;
        self.evictions += other.evictions;
        self.waited += other.waited;
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            stream: self.stream - earlier.stream,
            caches: self.caches.iter().zip(&earlier.caches).map(|(now, then)| *now - *then).collect(),
            memory: self.memory - earlier.memory,
            faults: self.faults - earlier.faults,
            evictions: self.evictions - earlier.evictions,
            waited: self.waited - earlier.waited,
        }
    }
}

/// One interval of a lane's series.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) number: u64,
    pub(crate) instructions: u64,
    /// Demand misses, one for each cache.
    pub(crate) misses: Vec<u64>,
}

/// One placement of one seed and all that depends on it.
pub(crate) struct Lane {
    pub(crate) seed: u64,
    frames: Frames,
    ghosts: Ghosts,
    /// `None` while the front is shared.
    front: Option<Front>,
    back: Back,
    fetch: usize,
    data: usize,
    caches: usize,
    now: u64,
    instructions: u64,
    waited: u64,
    /// Where the last mark of each kind stood.
    at_process: Tally,
    at_interval: Tally,
    at_measured: Option<Tally>,
    at_end: Option<Tally>,
    running: u32,
    interval: u64,
    pub(crate) processes: Vec<Option<Tally>>,
    pub(crate) series: Vec<Interval>,
    wants_series: bool,
}

impl Lane {
    pub(crate) fn new(
        machine: &Machine,
        seed: u64,
        custom: Option<Box<dyn Placement>>,
        shared_front: bool,
        wants_series: bool,
    ) -> Result<Self> {
        let tree = machine.tree();
        let config = tree.config();
        let frames = match machine.memory().frames {
            None => Frames::identity(),
            Some(frames) => {
                let placement = machine.placement();
                let policy = match custom {
                    Some(policy) => policy,
                    None => policy(placement.policy)
                        .and_then(|policy| policy.build())
                        .expect("a checked machine names a policy that chooses from a pool"),
                };
                Frames::new(frames, placement.pool, policy, seed)?
            }
        };
        let caches = config.caches.len();
        Ok(Self {
            seed,
            frames,
            ghosts: Ghosts::default(),
            front: (!shared_front).then(|| Front::new(tree, Rng::new(seed))),
            back: Back::new(tree, Rng::new(seed)),
            fetch: config.fetch,
            data: config.data,
            caches,
            now: 0,
            instructions: 0,
            waited: 0,
            at_process: Tally::zero(caches),
            at_interval: Tally::zero(caches),
            at_measured: None,
            at_end: None,
            running: 0,
            interval: 0,
            processes: Vec::new(),
            series: Vec::new(),
            wants_series,
        })
    }

    /// Simulates the part of a block from control `from` (and the entries before it, from `start`) on, up
    /// to control `to`; returns the entry reached.
    pub(crate) fn run(
        &mut self,
        block: &Block,
        controls: std::ops::Range<usize>,
        entries: std::ops::Range<usize>,
        tables: &Tables,
        recency: &Recency,
        tree: &Tree,
    ) -> Result<()> {
        let mut at = entries.start;
        for (position, control) in &block.controls[controls] {
            self.advance(block, at..*position as usize, tables);
            at = *position as usize;
            self.control(control, tables, recency, tree)?;
        }
        self.advance(block, at..entries.end, tables);
        Ok(())
    }

    fn advance(&mut self, block: &Block, entries: std::ops::Range<usize>, tables: &Tables) {
        if entries.is_empty() {
            return;
        }
        let view = View { tables, frames: Some((&self.frames, &self.ghosts)) };
        match &block.tape {
            Tape::Requests(requests) => self.waited += self.back.replay(&requests[entries], &view),
            Tape::Rows(rows) => {
                let front = self.front.as_mut().expect("rows are for a front of one's own");
                let mut below = self.back.bind(&view);
                let cache_of = [self.fetch, self.data, self.data];
                if block.gaps.is_empty() {
                    for &row in &rows[entries] {
                        let cache = cache_of[row.kind() as usize];
                        self.waited += front.access(cache, row.kind(), at(row), 0, &view, &mut below);
                    }
                } else {
                    for (&row, &gap) in rows[entries.clone()].iter().zip(&block.gaps[entries]) {
                        self.now += u64::from(gap);
                        self.instructions += u64::from(gap);
                        let cache = cache_of[row.kind() as usize];
                        let waits = front.access(cache, row.kind(), at(row), self.now, &view, &mut below);
                        self.now += waits;
                        self.waited += waits;
                    }
                }
            }
        }
    }

    fn control(&mut self, control: &Control, tables: &Tables, recency: &Recency, tree: &Tree) -> Result<()> {
        match control {
            Control::Recency(_) | Control::Evictions => {}
            Control::Place(request) => {
                if self.frames.frame_of(request.page).is_none() {
                    self.place(request, tables, recency)?;
                }
            }
            Control::Died(page) => {
                if let Some(frame) = self.frames.release(*page) {
                    self.ghosts.insert(*page, frame);
                }
            }
            Control::Unshare(front) => self.front = Some(Front::clone(front)),
            Control::Mark(mark, stream, front) => self.mark(*mark, *stream, front.as_deref(), tree),
        }
        Ok(())
    }

    fn place(&mut self, request: &binhop_os::Request, tables: &Tables, recency: &Recency) -> Result<()> {
        let placed = self.frames.place(request, recency)?;
        // The frame changes hands: the lines of what it held leave every level, found by the frame.
        let Some(held) = placed.evicted.or_else(|| self.ghosts.take(placed.frame)) else { return Ok(()) };
        let view = View { tables, frames: Some((&self.frames, &self.ghosts)) };
        let view = Held { view, page: held, frame: placed.frame };
        let mappings = tables.mappings_of(held);
        if let Some(front) = &mut self.front {
            front.purge(held, mappings, self.now, &view, &mut self.back.bind(&view));
        }
        self.back.purge(held, mappings, self.now, &view);
        Ok(())
    }

    /// Everything counted so far.
    fn tally(&mut self, stream: Stream, shared: Option<&Vec<CacheCounters>>, tree: &Tree) -> Tally {
        let mut tally = Tally::zero(self.caches);
        for cache in 0..self.caches {
            tally.caches[cache] = match (&self.front, tree.in_front(cache)) {
                (Some(front), true) => *front.counters(cache),
                (None, true) => shared.expect("a shared front sends its counters with every mark")[cache],
                (_, false) => *self.back.counters(cache),
            };
        }
        // A shared front's counters hold the dropped hits already; ones of the lane's own do not.
        if self.front.is_some() {
            add_dropped(&mut tally.caches, stream, self.fetch, self.data);
        }
        tally.memory = *self.back.memory();
        tally.faults = self.frames.faults();
        tally.evictions = self.frames.evictions();
        tally.waited = self.waited;
        tally.stream = stream;
        tally
    }

    fn mark(&mut self, mark: Mark, stream: Stream, front: Option<&Vec<CacheCounters>>, tree: &Tree) {
        let passed = stream.instructions - self.instructions;
        self.now += passed;
        self.instructions += passed;
        let tally = self.tally(stream, front, tree);
        if !matches!(mark, Mark::Interval(_)) {
            let part = tally.since(&self.at_process);
            let running = self.running as usize;
            if self.processes.len() <= running {
                self.processes.resize(running + 1, None);
            }
            self.processes[running].get_or_insert_with(|| Tally::zero(part.caches.len())).add(&part);
            self.at_process = tally.clone();
        }
        if matches!(mark, Mark::Interval(_) | Mark::End) && self.wants_series {
            let part = tally.since(&self.at_interval);
            if part.stream.instructions > 0 || mark != Mark::End {
                self.series.push(Interval {
                    number: self.interval,
                    instructions: part.stream.instructions,
                    misses: part.caches.iter().map(|cache| cache.misses.demand()).collect(),
                });
            }
            self.at_interval = tally.clone();
        }
        match mark {
            Mark::Process(number) => self.running = number,
            Mark::Interval(number) => self.interval = number,
            Mark::Measured => {
                // What processes did during the warm-up is reported nowhere else.
                self.processes.clear();
                self.at_measured = Some(tally);
            }
            Mark::End => self.at_end = Some(tally),
        }
    }

    /// Counts of the warm-up, if there was one, and of the measured part.
    pub(crate) fn phases(&self) -> (Option<&Tally>, Tally) {
        let end = self.at_end.as_ref().expect("the stream is over");
        match &self.at_measured {
            None => (None, end.clone()),
            Some(warmup) => (Some(warmup), end.since(warmup)),
        }
    }

    /// Every law that must hold after a run. `shared`: the front all lanes shared to the end.
    ///
    /// # Errors
    /// The law that is broken, by name.
    pub(crate) fn check(&mut self, tree: &Tree, shared: Option<&Front>) -> Result<()> {
        self.frames.check()?;
        let end = self.at_end.clone().expect("the stream is over");
        let front = match (&mut self.front, shared) {
            (Some(front), _) => {
                add_hits(front, end.stream, self.fetch, self.data);
                &*front
            }
            (None, Some(front)) => front,
            (None, None) => unreachable!("a front is shared, or the lane's own"),
        };
        binhop_hw::check(tree, front, &self.back)?;
        self.check_stream(&end)?;
        self.check_processes()
    }

    /// The first level saw what the stream held: no reference lost, none twice.
    fn check_stream(&self, end: &Tally) -> Result<()> {
        for (kind, &accesses) in [Kind::Fetch, Kind::Load, Kind::Store].iter().zip(&end.stream.accesses) {
            let cache = if *kind == Kind::Fetch { self.fetch } else { self.data };
            let counted = end.caches[cache].accesses[*kind];
            if counted != accesses {
                return Err(broken(
                    &format!("{counted} {} accesses", kind.name()),
                    &format!("the stream held {accesses}"),
                    self.seed,
                ));
            }
        }
        Ok(())
    }

    /// The sum over processes is the total.
    fn check_processes(&self) -> Result<()> {
        let (_, measured) = self.phases();
        let mut sum = Tally::zero(self.caches);
        for part in self.processes.iter().flatten() {
            sum.add(part);
        }
        if sum != measured {
            let (sum, total) = (sum.memory.accesses.total(), measured.memory.accesses.total());
            return Err(broken(
                &format!("{sum} memory accesses over all processes"),
                &format!("the sum over processes is the total ({total}), for every counter"),
                self.seed,
            ));
        }
        Ok(())
    }
}

fn broken(value: &str, rule: &str, seed: u64) -> Box<Problem> {
    Problem::run(value, &format!("seed {seed}"), rule, "this is a defect of binhop: please report it with the command")
}

/// Adds the accesses that preparation proved to be hits to the first level's counters.
pub(crate) fn add_dropped(caches: &mut [CacheCounters], stream: Stream, fetch: usize, data: usize) {
    caches[fetch].accesses[Kind::Fetch] += stream.dropped[0];
    caches[data].accesses[Kind::Load] += stream.dropped[1];
    caches[data].accesses[Kind::Store] += stream.dropped[2];
}

/// Tells a front of the accesses that preparation proved to be hits, so that the laws hold.
pub(crate) fn add_hits(front: &mut Front, stream: Stream, fetch: usize, data: usize) {
    front.add_hits(fetch, Kind::Fetch, stream.dropped[0]);
    front.add_hits(data, Kind::Load, stream.dropped[1]);
    front.add_hits(data, Kind::Store, stream.dropped[2]);
}

#[inline]
fn at(row: Row) -> LineAddr {
    LineAddr { id: row.mapping().0, line: row.line() }
}

/// A lane's view while a frame changes hands: the page it held is still found there.
struct Held<'a> {
    view: View<'a>,
    page: PageId,
    frame: FrameNo,
}

impl Translation for Held<'_> {
    fn page(&self, mapping: MappingId) -> PageId {
        self.view.page(mapping)
    }

    fn frame(&self, page: PageId) -> FrameNo {
        if page == self.page { self.frame } else { self.view.frame(page) }
    }

    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.view.virtual_page(mapping)
    }

    fn global_page(&self, page: PageId) -> PageNo {
        self.view.global_page(page)
    }
}
