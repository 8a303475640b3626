//! A lane: one placement of one seed, with the caches that depend on it.

use std::ops::Range;

use binhop_base::{Kind, Problem, Result, Rng};
use binhop_hw::{Access, Back, CacheCounters, Front, Next, Request, Tree};
use binhop_os::placement::Placement;
use binhop_os::{Frames, Recency};

use crate::machine::Machine;
use crate::prepare::{Block, Control, Mark, Stream, Tape};
use crate::tally::{Tally, add_dropped, add_hits};
use crate::view::{Tables, View, Whereabouts};

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
    whereabouts: Whereabouts,
    /// `None` while the front is shared.
    front: Option<Front>,
    back: Back,
    /// Whether some cache takes lines out of those above it: then each request must be answered at once.
    reaches_up: bool,
    /// What the front let through of the stretch at hand.
    requests: Vec<Request>,
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
        let caches = config.caches.len();
        Ok(Self {
            seed,
            frames: machine.frames(seed, custom)?,
            whereabouts: Whereabouts::default(),
            front: (!shared_front).then(|| Front::new(tree, Rng::new(seed))),
            back: Back::new(tree, Rng::new(seed)),
            reaches_up: config.caches.iter().any(|cache| cache.inclusive),
            requests: Vec::new(),
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

    /// Simulates a stretch of a block: these entries of its tape, with these controls between them.
    pub(crate) fn run(
        &mut self,
        block: &Block,
        controls: Range<usize>,
        entries: Range<usize>,
        tables: &Tables,
        recency: &Recency,
        tree: &Tree,
    ) -> Result<()> {
        let mut at = entries.start;
        let last = controls.end;
        for stretch in controls {
            let (position, control) = &block.controls[stretch];
            self.advance(block, stretch, at..*position as usize, tables);
            at = *position as usize;
            self.control(control, tables, recency, tree)?;
        }
        self.advance(block, last, at..entries.end, tables);
        Ok(())
    }

    /// Simulates the entries before the control with number `stretch`, or after the last.
    fn advance(&mut self, block: &Block, stretch: usize, entries: Range<usize>, tables: &Tables) {
        let view = View { tables, frames: Some(&self.whereabouts) };
        match &block.tape {
            Tape::Requests(requests) => {
                self.waited += match block.alike.get(stretch) {
                    Some(alike) => self.back.replay_alike(&requests[entries], alike, &view),
                    None => self.back.replay(&requests[entries], &view),
                };
            }
            Tape::Rows(_) if entries.is_empty() => {}
            Tape::Rows(rows) => {
                let front = self.front.as_mut().expect("rows are for a front of one's own");
                if block.gaps.is_empty() && !self.reaches_up {
                    self.requests.clear();
                    self.waited += front.access_all(&rows[entries], &view, &mut self.requests);
                    self.waited += self.back.replay(&self.requests, &view);
                    return;
                }
                let mut below = self.back.bind(&view);
                if block.gaps.is_empty() {
                    self.waited += front.access_all(&rows[entries], &view, &mut below);
                    return;
                }
                let cache_of = [self.fetch, self.data, self.data];
                for (&row, &gap) in rows[entries.clone()].iter().zip(&block.gaps[entries]) {
                    self.now += gap;
                    self.instructions += gap;
                    let cache = cache_of[row.kind() as usize];
                    let waits = front.access(cache, row.kind(), row.at(), self.now, &view, &mut below);
                    self.now += waits;
                    self.waited += waits;
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
                    self.whereabouts.died(*page, frame);
                }
            }
            Control::Unshare(shared) => {
                let (front, fan) = &**shared;
                self.front = Some(front.clone());
                if let Some(fan) = fan {
                    self.back.leave(fan);
                }
            }
            Control::Mark(mark, stream, front) => self.mark(*mark, *stream, front.as_deref(), tree),
        }
        Ok(())
    }

    fn place(&mut self, request: &binhop_os::Request, tables: &Tables, recency: &Recency) -> Result<()> {
        let placed = self.frames.place(request, recency)?;
        // The frame changes hands: the lines of what it held leave every level, found by the frame.
        if let Some(held) = placed.evicted.or_else(|| self.whereabouts.take_dead(placed.frame)) {
            let view = View { tables, frames: Some(&self.whereabouts) };
            let mappings = tables.mappings_of(held);
            if let Some(front) = &mut self.front {
                front.purge(held, mappings, self.now, &view, &mut self.back.bind(&view));
            }
            self.back.purge(held, mappings, self.now, &view);
        }
        self.whereabouts.put(request.page, placed.frame);
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
        self.check_stream(tree, &end)?;
        self.check_processes()
    }

    /// The caches the processor asks saw what the stream held, and what other caches sent them: no reference
    /// lost, none twice.
    fn check_stream(&self, tree: &Tree, end: &Tally) -> Result<()> {
        for (kind, &accesses) in [Kind::Fetch, Kind::Load, Kind::Store].iter().zip(&end.stream.accesses) {
            let cache = if *kind == Kind::Fetch { self.fetch } else { self.data };
            let senders =
                (0..self.caches).filter(|&above| tree.config().caches[above].next == Next::Cache(cache));
            let accesses = accesses + senders.map(|above| end.caches[above].sent[*kind]).sum::<u64>();
            let counted = end.caches[cache].accesses[*kind];
            if counted != accesses {
                return Err(broken(
                    &format!("{counted} {} accesses", kind.name()),
                    &format!(
                        "the stream and the levels above made {accesses} at {}",
                        tree.config().caches[cache].name
                    ),
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
    Problem::run(
        value,
        &format!("seed {seed}"),
        rule,
        "this is a defect of binhop: please report it with the command",
    )
}
