//! `BackModel` simulates the levels behind a lane's front for one cell, and keeps what was counted there.

use std::borrow::Cow;

use binhop_base::{Agent, Agents, Asid, FrameNo, Kind, MappingId, PageId, PerKind, Result, Rng, Translation};
use binhop_hw::{
    AgentCounters, AgentMemoryCounters, Back, CacheConfig, CacheCounters, CommonCounts, Computer, Counted,
    CountedCaches, CountsOfLane, DirectMappedFilter, FastPaths, Front, IndexBy, LaneBits, LruStack,
    MemoryCounters, Next, Request, Tree,
};
use binhop_os::RunCounts;
use binhop_trace::export::MemoryAccess;

use super::virtual_caches::VirtualCaches;
use crate::frame_map::LaneTranslation;
use crate::prepare::{Block, FrontCounts, Mark, StreamCounts};
use crate::results::account::{Account, broken};
use crate::results::meter::{Conflicts, OF_STREAM};
use crate::results::tally::{ByAgent, Tally, add_dropped, add_hits};
use crate::softvm::{SoftvmCounts, SweepCounts};
use crate::synonyms::{HeldCopy, Synonym, SynonymCounts, WatchedAccess};
use crate::translation::TranslationCounts;

/// `Common` holds the counters of a lane that are the same for all its cells.
pub(crate) struct Common<'a> {
    /// The lane's own front; `None` while the front is shared.
    pub(crate) front: Option<&'a Front>,
    /// The counts that a shared front sends with every mark.
    pub(crate) shared: Option<&'a FrontCounts>,
    pub(crate) stacks: &'a [LruStack],
    /// The caches of all lanes and the number of this lane among them, if lanes are bits.
    pub(crate) bits: Option<(&'a LaneBits, usize)>,
    pub(crate) stream: StreamCounts,
    /// What the lane's translation has counted, if addresses are translated.
    pub(crate) translation: Option<TranslationCounts>,
    /// What handlers have counted that run when the last level misses.
    pub(crate) at_misses: Option<SoftvmCounts>,
    /// The lines that changes of protection checked and updated.
    pub(crate) sweeps: Option<SweepCounts>,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    /// The runs of huge pages.
    pub(crate) runs: RunCounts,
    /// The cycles waited within the front.
    pub(crate) waited: u64,
}

/// Adds the demand misses of every agent, other than the user, whose misses count in MPI.
fn add_agents(misses: &mut [u64], tree: &Tree, kind_of_back: &BackKind, common: &Common<'_>) {
    for (cache, misses) in misses.iter_mut().enumerate() {
        let of_bits;
        let counts = match (tree.in_front(cache), kind_of_back) {
            (true, _) => {
                of_bits = common.of_agents_in_front(cache);
                &*of_bits
            }
            (false, BackKind::Own { back, .. }) => back.by_agent(cache),
            (false, BackKind::Bits(back)) => {
                let (bits, lane) = common.of_bits();
                of_bits = vec![bits.back_counters_of_agent(lane, *back, cache)].into();
                &*of_bits
            }
            (false, BackKind::Stacked { .. }) => unreachable!("stacks have no agent but the user"),
        };
        let counted = tree.config().agents.others().zip(counts).filter(|(agent, _)| agent.counts_in_mpi());
        *misses += counted.map(|(_, counts)| counts.misses.demand()).sum::<u64>();
    }
}

impl Common<'_> {
    fn of_bits(&self) -> (&LaneBits, usize) {
        self.bits.expect("the bundle of a lane shows its bits at every mark")
    }

    /// Returns the demand misses of a cache of the front.
    fn misses_in_front(&self, cache: usize) -> u64 {
        match (self.front, self.shared) {
            (Some(front), _) => front.counters(cache).misses.demand(),
            (None, Some(shared)) => shared.misses[cache],
            (None, None) => {
                let (bits, lane) = self.of_bits();
                bits.front_misses(lane, cache)
            }
        }
    }

    /// Returns what a cache of the front has counted of each agent other than the user.
    fn of_agents_in_front(&self, cache: usize) -> Cow<'_, [AgentCounters]> {
        match (self.front, self.shared) {
            (Some(front), _) => front.by_agent(cache).into(),
            (None, Some(shared)) => (&*shared.agents[cache]).into(),
            (None, None) => {
                let (bits, lane) = self.of_bits();
                vec![bits.front_counters_of_agent(lane, cache)].into()
            }
        }
    }

    /// Returns what a cache of the front has counted.
    fn counters_in_front(&self, cache: usize) -> CacheCounters {
        match (self.front, self.shared) {
            (Some(front), _) => *front.counters(cache),
            (None, Some(shared)) => shared.caches[cache],
            (None, None) => {
                let (bits, lane) = self.of_bits();
                bits.front_counters(lane, cache)
            }
        }
    }
}

/// `BackModel` is one cell in one lane.
#[derive(Debug)]
pub(crate) struct BackModel {
    /// The machine's place in the list of the run's machines.
    pub(crate) machine: usize,
    tree: Tree,
    kind_of_back: BackKind,
    /// For each cache, how frames divide it; `None` if they do not.
    sets: Vec<Option<Division>>,
    /// The cache whose repeated misses are counted by page.
    watched: Option<usize>,
    pub(crate) account: Account,
    /// The pages in each bin, while a footprint is counted.
    pages: Vec<u64>,
    virtual_caches: VirtualCaches,
    synonyms: SynonymCounts,
}

/// `BackPlace` says where the back of a cell is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BackPlace {
    /// By itself, in its lane.
    Own,
    /// In this stack of its lane, as the cache with this number of ways.
    Stack(usize, u32),
    /// In the bits of its lane's bundle, at this place among the backs there.
    Bits(usize),
}

/// `BackKind` says how the back of a cell is simulated: by itself, in a stack, or in the bits of a bundle.
#[derive(Debug)]
enum BackKind {
    Own {
        back: Box<Back>,
        /// The cycles waited for this back.
        waited: u64,
    },
    /// The back is simulated in a stack of its lane, together with backs of other ways.
    Stacked { stack: usize, ways: u32 },
    /// The back is simulated in the bits of its lane's bundle, at this place among the backs there.
    Bits(usize),
}

/// `Division` states how frames divide a cache: into bins of some ways each.
#[derive(Clone, Copy, Debug)]
struct Division {
    bins: u64,
    ways: u64,
}

impl Division {
    fn of(cache: &CacheConfig, page: u64) -> Option<Self> {
        let way = cache.sets() * cache.line.bytes();
        let divided = cache.index == IndexBy::Physical && !cache.hashed && way >= page;
        divided.then(|| Self { bins: way / page, ways: u64::from(cache.ways) })
    }

    /// Returns the pages in conflict among the pages in these frames (KH90 §2): in each bin the pages
    /// beyond its ways.
    fn conflicts(self, frames: &[FrameNo], counts: &mut Vec<u64>) -> Conflicts {
        counts.clear();
        counts.resize(self.bins as usize, 0);
        for frame in frames {
            counts[(frame.0 & (self.bins - 1)) as usize] += 1;
        }
        let pages = counts.iter().map(|&used| used.saturating_sub(self.ways)).sum();
        Conflicts { pages, fewest: (frames.len() as u64).saturating_sub(self.bins * self.ways) }
    }
}

impl BackModel {
    pub(crate) fn new(
        machine: usize,
        tree: &Tree,
        seed: u64,
        account: Account,
        watched: Option<usize>,
        place: BackPlace,
        paths: &FastPaths,
    ) -> Self {
        let config = tree.config();
        let divide = |cache| Division::of(cache, config.page.bytes());
        let own = || {
            let mut back = Box::new(Back::with(tree, Rng::new(seed), paths));
            if let Some(cache) = watched.filter(|&cache| !tree.in_front(cache)) {
                back.watch(cache);
            }
            BackKind::Own { back, waited: 0 }
        };
        Self {
            machine,
            tree: tree.clone(),
            kind_of_back: match place {
                BackPlace::Own => own(),
                BackPlace::Stack(stack, ways) => BackKind::Stacked { stack, ways },
                BackPlace::Bits(tree) => BackKind::Bits(tree),
            },
            watched,
            sets: config.caches.iter().map(divide).collect(),
            account,
            pages: Vec::new(),
            virtual_caches: VirtualCaches::of(tree),
            synonyms: SynonymCounts::default(),
        }
    }

    /// The tree of the cell's machine.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the back's place among the backs that are simulated in the bits of the lane's bundle, if it is one.
    pub(crate) fn place_in_bits(&self) -> Option<usize> {
        match self.kind_of_back {
            BackKind::Bits(place) => Some(place),
            BackKind::Own { .. } | BackKind::Stacked { .. } => None,
        }
    }

    /// The lane leaves its bundle: a back that was simulated in bits is simulated by itself from now on, and takes
    /// these fast paths.
    pub(crate) fn leave_bits(&mut self, bits: &LaneBits, lane: usize, seed: u64, paths: &FastPaths) {
        if let BackKind::Bits(back) = self.kind_of_back {
            let waited = bits.waited(lane, back);
            let back = Box::new(Back::split_off(bits, lane, back, Rng::new(seed), paths));
            self.kind_of_back = BackKind::Own { back, waited };
        }
    }

    /// Simulates requests that a front has let through. A back in a stack is simulated by the stack.
    pub(crate) fn replay(
        &mut self,
        requests: &[Request],
        common_counts: Option<&CommonCounts>,
        translation: &LaneTranslation<'_>,
    ) {
        if let BackKind::Own { back, waited } = &mut self.kind_of_back {
            *waited += match common_counts {
                Some(common_counts) => back.replay_common(requests, common_counts, translation),
                None => back.replay(requests, translation),
            };
        }
    }

    /// Counts requests that are known to hit here and to change nothing.
    pub(crate) fn add_known_hits(&mut self, hits: &PerKind<u64>) {
        if let BackKind::Own { back, waited } = &mut self.kind_of_back {
            *waited += back.add_hits(hits);
        }
    }

    /// Removes the lines of a page whose frame changes hands from this back.
    pub(crate) fn flush_page(
        &mut self,
        page: PageId,
        mappings: &[MappingId],
        now: u64,
        translation: &LaneTranslation<'_>,
    ) {
        if let BackKind::Own { back, .. } = &mut self.kind_of_back {
            back.flush_page(page, mappings, now, translation);
        }
    }

    /// Removes the lines of a page whose frame changes hands from this back, and from the front whose every
    /// request this back answers at once.
    pub(crate) fn flush_page_everywhere(
        &mut self,
        front: &mut Front,
        page: PageId,
        mappings: &[MappingId],
        now: u64,
        translation: &LaneTranslation<'_>,
    ) {
        Computer::over(front, self.own().0, now).flush_page(
            Agent::User,
            page,
            mappings,
            translation,
            &mut (),
        );
    }

    /// Returns the cache that serves a kind of access for the processor, and the logarithm of its line size.
    pub(crate) fn serving(&self, kind: Kind) -> (usize, u32) {
        let config = self.tree.config();
        let cache = if kind == Kind::Fetch { config.fetch } else { config.data };
        (cache, config.caches[cache].line.log2())
    }

    /// Returns whether some cache has virtual tags.
    pub(crate) fn has_virtual_tags(&self) -> bool {
        !self.virtual_caches.is_empty()
    }

    /// Returns the copies of a byte that a front of the lane's own holds in caches with virtual tags.
    pub(crate) fn copies_in_front(
        &self,
        front: &Front,
        access: &WatchedAccess,
        translation: &LaneTranslation<'_>,
    ) -> Vec<HeldCopy> {
        self.virtual_caches.in_front(front, access, translation)
    }

    /// Looks for two different copies before or after an access. `of_front` are the copies in the front.
    pub(crate) fn watch(
        &mut self,
        access: &WatchedAccess,
        of_front: &[HeldCopy],
        translation: &LaneTranslation<'_>,
    ) {
        let back = || match &self.kind_of_back {
            BackKind::Own { back, .. } => &**back,
            BackKind::Stacked { .. } | BackKind::Bits(_) => {
                unreachable!(
                    "neither stacks nor bits hold lines with virtual tags where copies are looked for"
                )
            }
        };
        let behind = self.virtual_caches.behind(back, access, translation);
        self.synonyms.follow(access, &[of_front, &behind].concat());
    }

    /// Returns the first access that left two different copies.
    pub(crate) fn synonym(&self) -> Option<Synonym> {
        self.synonyms.first
    }

    /// Returns the user's demand accesses to memory.
    pub(crate) fn demand_at_memory(&self) -> u64 {
        match &self.kind_of_back {
            BackKind::Own { back, .. } => Counted::memory(&**back).accesses.demand(),
            BackKind::Stacked { .. } | BackKind::Bits(_) => {
                unreachable!(
                    "stacks do not stand where addresses are translated, and bits count by themselves"
                )
            }
        }
    }

    /// Returns the two things on which a unit acts: the tree, and this back.
    pub(crate) fn parts(&mut self) -> (&Tree, &mut Back) {
        match &mut self.kind_of_back {
            BackKind::Own { back, .. } => (&self.tree, back),
            BackKind::Stacked { .. } | BackKind::Bits(_) => {
                unreachable!("neither stacks nor bits stand where a unit acts")
            }
        }
    }

    /// Returns the cycles waited for this back.
    pub(crate) fn waited(&self) -> u64 {
        match &self.kind_of_back {
            BackKind::Own { waited, .. } => *waited,
            BackKind::Stacked { .. } | BackKind::Bits(_) => {
                unreachable!("a lane of one cell with a front of its own has no stack and no bits")
            }
        }
    }

    pub(crate) fn own(&mut self) -> (&mut Back, &mut u64) {
        match &mut self.kind_of_back {
            BackKind::Own { back, waited } => (back, waited),
            BackKind::Stacked { .. } | BackKind::Bits(_) => {
                unreachable!("neither stacks nor bits answer at once, or stand behind a direct-mapped filter")
            }
        }
    }

    /// Simulates rows whose every request must be answered before the next access, because the machine has a
    /// write buffer or an inclusive cache, or counts by cachegrind's rules. Moves the lane's clock on.
    pub(crate) fn answer(
        &mut self,
        front: &mut Front,
        block: &Block,
        entries: std::ops::Range<usize>,
        clock: &mut Clock,
        translation: &LaneTranslation<'_>,
    ) {
        let gaps = if block.gaps.is_empty() { &[] } else { &block.gaps[entries.clone()] };
        let (back, waited) = self.own();
        let mut computer = Computer::over(front, back, clock.now);
        let waits = computer.run(&block.rows()[entries], gaps, translation);
        clock.come_to(computer.now, waits);
        *waited += waits;
    }

    /// Returns the repeated misses of the watched cache by page, and the number of its bins, if a cache is
    /// watched.
    pub(crate) fn repeats<'a>(&'a self, front: Option<&'a Front>) -> Option<(&'a [u64], u64)> {
        let cache = self.watched?;
        let bins = self.sets[cache].map_or(1, |sets| sets.bins);
        let misses = match (front.filter(|_| self.tree.in_front(cache)), &self.kind_of_back) {
            (Some(front), _) => front.repeats(cache),
            (None, BackKind::Own { back, .. }) => back.repeats(cache),
            (None, BackKind::Stacked { .. } | BackKind::Bits(_)) => {
                unreachable!("a cache that is watched is in no stack and in no bits")
            }
        };
        Some((misses, bins))
    }

    /// Keeps every access that reaches memory from now on.
    pub(crate) fn tap(&mut self) {
        self.own().0.tap();
    }

    /// Takes the accesses that have reached memory since the last call, under the physical addresses that
    /// `translation` still knows.
    pub(crate) fn tapped(&mut self, translation: &LaneTranslation<'_>, out: &mut Vec<MemoryAccess>) {
        let page = self.tree.config().page.log2();
        let physical = |(request, cycle): (Request, u64)| MemoryAccess {
            addr: (translation.frame(PageId(request.at.id)).0 << page)
                + (u64::from(request.at.line) << request.origin.unit()),
            write: matches!(request.kind, Kind::Write | Kind::Writeback | Kind::System),
            cycle,
            of_memory: false,
        };
        out.extend(self.own().0.tapped().map(physical));
    }

    /// Ends the direct-mapped filter that worked for all backs, and takes over the lines that it knows.
    pub(crate) fn continue_alone(&mut self, direct_mapped: &DirectMappedFilter) {
        self.own().0.continue_alone(direct_mapped);
    }

    /// Passes a mark. The meter reads the counts that tables report of the time between marks. Where a phase
    /// ends, every counter is kept.
    pub(crate) fn mark(&mut self, mark: Mark, common: &Common<'_>) -> Result<()> {
        let Self { tree, kind_of_back, account, .. } = self;
        let meter = account.meter();
        let now = meter.now();
        now[0] = common.stream.instructions;
        now[1] = common.stream.references;
        for (cache, misses) in now[OF_STREAM..].iter_mut().enumerate() {
            *misses = match (tree.in_front(cache), &*kind_of_back) {
                (true, _) => common.misses_in_front(cache),
                (false, BackKind::Own { back, .. }) => back.counters(cache).misses.demand(),
                (false, BackKind::Stacked { stack, ways }) => common.stacks[*stack].demand_misses(*ways),
                (false, BackKind::Bits(back)) => {
                    let (bits, lane) = common.of_bits();
                    bits.back_misses(lane, *back, cache)
                }
            };
        }
        if tree.config().agents != Agents::USER {
            add_agents(&mut now[OF_STREAM..], tree, kind_of_back, common);
        }
        meter.mark(mark)?;
        if matches!(mark, Mark::Measured | Mark::End) {
            let tally = self.tally_at(common);
            self.account.end_phase(mark, tally);
        }
        Ok(())
    }

    fn tally_at(&self, common: &Common<'_>) -> Tally {
        match &self.kind_of_back {
            BackKind::Own { back, waited } => {
                let mut tally = self.tally(common, &|cache| *back.counters(cache), back.memory(), *waited);
                let of_agents = |cache| back.by_agent(cache).into();
                tally.agents = self.tally_of_agents(common, &of_agents, back.memory_by_agent());
                tally
            }
            BackKind::Stacked { stack, ways } => {
                let member = common.stacks[*stack].member(*ways, &self.tree);
                self.tally(common, &|cache| *member.counters(cache), member.memory(), member.waited())
            }
            BackKind::Bits(back) => {
                let (bits, lane) = common.of_bits();
                let behind = |cache| bits.back_counters(lane, *back, cache);
                let mut tally =
                    self.tally(common, &behind, &bits.memory(lane, *back), bits.waited(lane, *back));
                let of_agent = |cache| vec![bits.back_counters_of_agent(lane, *back, cache)].into();
                tally.agents = self.tally_of_agents(common, &of_agent, &[bits.memory_of_agent(lane, *back)]);
                tally
            }
        }
    }

    /// Returns everything counted so far, without the counts of agents other than the user. `behind` returns what a
    /// cache behind the front has counted.
    fn tally(
        &self,
        common: &Common<'_>,
        behind: &dyn Fn(usize) -> CacheCounters,
        memory: &MemoryCounters,
        waited: u64,
    ) -> Tally {
        let config = self.tree.config();
        let mut tally = Tally::zero(config.caches.len());
        for cache in 0..config.caches.len() {
            let in_front = self.tree.in_front(cache);
            tally.caches[cache] = if in_front { common.counters_in_front(cache) } else { behind(cache) };
        }
        // The counters of a shared front hold the skipped hits already. The counters of a lane's own front, in bits or
        // not, do not.
        if common.shared.is_none() {
            add_dropped(&mut tally.caches, common.stream, config.fetch, config.data);
        }
        tally.memory = *memory;
        tally.faults = common.faults;
        tally.evictions = common.evictions;
        tally.runs = common.runs;
        tally.waited = common.waited + waited;
        tally.stream = common.stream;
        tally.translation = common.translation.map(|own| own + common.stream.translation);
        tally.at_misses = common.at_misses;
        tally.sweeps = common.sweeps;
        tally.synonyms = self.synonyms.count;
        tally
    }

    /// Returns what agents other than the user have counted so far. `behind` returns what a cache behind the front has
    /// counted of each.
    fn tally_of_agents<'a>(
        &self,
        common: &Common<'_>,
        behind: &dyn Fn(usize) -> Cow<'a, [AgentCounters]>,
        memory: &[AgentMemoryCounters],
    ) -> ByAgent {
        let config = self.tree.config();
        if config.agents == Agents::USER {
            return ByAgent::default();
        }
        let of = |cache: usize| match self.tree.in_front(cache) {
            true => common.of_agents_in_front(cache),
            false => behind(cache),
        };
        let caches: Vec<_> = (0..config.caches.len()).map(of).collect();
        ByAgent::of(config.agents, caches.iter().map(|counts| &**counts), memory)
    }

    /// Notes the pages that an address space has in memory: their frames, and how many of them are shared.
    pub(crate) fn footprint(&mut self, asid: Asid, frames: &[FrameNo], shared: u64) -> Result<()> {
        let Self { sets, account, pages, .. } = self;
        let conflicts = sets.iter().flatten().map(|sets| sets.conflicts(frames, pages));
        account.meter().footprint(asid, frames.len() as u64, shared, conflicts)
    }

    /// Returns for each cache whether footprints tell of conflicts in it.
    pub(crate) fn divided(&self) -> Vec<bool> {
        self.sets.iter().map(Option::is_some).collect()
    }

    /// Adds the hits that preparation skipped to a front, so that the invariants hold.
    pub(crate) fn add_hits(&self, front: &mut Front) {
        let config = self.tree.config();
        add_hits(front, self.account.end().stream, config.fetch, config.data);
    }

    /// Adds the hits that preparation skipped to a front in bits, so that the invariants hold.
    pub(crate) fn add_hits_to_bits(&self, front: &mut CountsOfLane) {
        let (config, dropped) = (self.tree.config(), self.account.end().stream.dropped);
        let caches = [config.fetch, config.data, config.data];
        for (at, kind) in [Kind::Fetch, Kind::Load, Kind::Store].into_iter().enumerate() {
            front.add_hits(caches[at], kind, dropped[at]);
        }
    }

    /// Checks every invariant that must hold after a run. `front` is the front before this back, with all hits added.
    /// `bits` are the final counts of this back where it was simulated in bits.
    ///
    /// # Errors
    /// An invariant is broken; the error names it.
    pub(crate) fn check(
        &self,
        front: &impl CountedCaches,
        stacks: &[LruStack],
        bits: Option<&CountsOfLane>,
        seed: u64,
    ) -> Result<()> {
        match &self.kind_of_back {
            BackKind::Own { back, .. } => binhop_hw::check(&self.tree, front, &**back)?,
            BackKind::Stacked { stack, ways } => {
                binhop_hw::check(&self.tree, front, &stacks[*stack].member(*ways, &self.tree))?;
            }
            BackKind::Bits(_) => {
                binhop_hw::check(&self.tree, front, bits.expect("the bundle has told its final counts"))?;
            }
        }
        self.check_stream(self.account.end(), seed)?;
        self.account.check(seed)
    }

    /// Checks that the caches that the processor accesses have seen what the stream held and what other
    /// caches sent them: no reference is lost, and none is counted twice.
    fn check_stream(&self, end: &Tally, seed: u64) -> Result<()> {
        let config = self.tree.config();
        for (kind, &accesses) in [Kind::Fetch, Kind::Load, Kind::Store].iter().zip(&end.stream.accesses) {
            let cache = if *kind == Kind::Fetch { config.fetch } else { config.data };
            let senders =
                (0..config.caches.len()).filter(|&above| config.caches[above].next == Next::Cache(cache));
            let accesses = accesses + senders.map(|above| end.caches[above].sent[*kind]).sum::<u64>();
            let counted = end.caches[cache].accesses[*kind];
            if counted != accesses {
                return Err(broken(
                    &format!("{counted} {} accesses", kind.name()),
                    &format!(
                        "the stream and the levels above made {accesses} at {}",
                        config.caches[cache].name
                    ),
                    seed,
                ));
            }
        }
        Ok(())
    }
}

/// `Clock` is a lane's clock in cycles, and the instructions that have passed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: u64,
    instructions: u64,
}

impl Clock {
    /// Lets instructions pass, at one cycle each.
    pub(crate) fn pass(&mut self, instructions: u64) {
        self.now += instructions;
        self.instructions += instructions;
    }

    /// Sets the clock to cycle `now`, after instructions have passed and the processor has waited.
    fn come_to(&mut self, now: u64, waited: u64) {
        self.instructions += now - self.now - waited;
        self.now = now;
    }

    /// Brings the clock to the stream's count of instructions.
    pub(crate) fn reach(&mut self, instructions: u64) {
        self.pass(instructions - self.instructions);
    }
}
