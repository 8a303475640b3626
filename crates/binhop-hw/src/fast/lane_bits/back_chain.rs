//! `BackChain` holds the caches behind level 1 of one tree, in every lane.

use binhop_base::{Agent, Kind, PageId, PerKind, Rng};

use super::{
    By, LinesOf, Mask, WrittenBack,
    after_marks::Part,
    back_cache::{BackCache, BitsRequest},
    frames::{LaneFrames, PlacedPage},
    front_requests::{FrontRequest, FrontRequests},
};
use crate::{
    AgentCounters, AgentMemoryCounters, CacheCounters, CostRule, MemoryCounters, Tree, WritebackOrder,
    request::is_data,
};

/// The number of requests by which a cache reads the words of lines ahead. So the processor need not wait for each.
pub(super) const AHEAD: usize = 8;

/// `BackChain` holds caches that ask each other; the last asks memory. Each cache counts the requests of some lanes,
/// and then makes the requests that follow from them of the next cache, in the stepper's order.
#[derive(Clone, Debug)]
pub(super) struct BackChain {
    pub(super) tree: Tree,
    pub(super) levels: Vec<BackLevel>,
    /// True if the agent other than the user asks the first cache itself.
    pub(super) agent_asks: bool,
}

/// A cache of the chain, with room for the lines that it writes back.
#[derive(Clone, Debug)]
pub(super) struct BackLevel {
    pub(super) cache: BackCache,
    writes_first: bool,
    written_back: Vec<WrittenBack>,
    /// The lines written back by the cache above that this cache lacks.
    missing: Vec<WrittenBack>,
}

impl BackChain {
    /// Makes the caches of a tree with these numbers. The caches are empty.
    pub(super) fn new(tree: &Tree, chain: &[usize], seeds: &[Rng], agent_asks: bool) -> Self {
        let agent_counts = tree.config().agents.others().any(Agent::counts_in_mpi);
        let level = |&number: &usize| {
            let cache = &tree.config().caches[number];
            let lines_of = LinesOf::new(cache, tree.config().page);
            BackLevel {
                cache: BackCache::new(number, cache, (lines_of, seeds), agent_counts),
                writes_first: cache.writeback_order == WritebackOrder::BeforeFill,
                written_back: Vec::new(),
                missing: Vec::new(),
            }
        };
        Self { tree: tree.clone(), levels: chain.iter().map(level).collect(), agent_asks }
    }

    /// Handles requests of level 1 in order. `all` are all lanes. Calls `served` with each request that serves an
    /// access after a walk, and the lanes in which memory is read. No replacement of the chain remembers hits, because
    /// level 1 is simulated in bits, too.
    pub(super) fn requests(
        &mut self,
        requests: &FrontRequests,
        all: Mask,
        frames: &LaneFrames,
        mut served: impl FnMut(&FrontRequest, Mask),
    ) {
        let first = &mut self.levels[0].cache;
        first.count_accesses(requests.counts());
        let own = first.lines_of.line_log2;
        let mut left = requests.all();
        loop {
            let first = &self.levels[0].cache;
            let (hits, others) = left.split_at(first.find_change(left));
            if requests.are_after_walks {
                hits.iter().filter(|hit| hit.is_after_walk()).for_each(|hit| served(hit, 0));
            }
            let Some((request, later)) = others.split_first() else { return };
            if let Some(request) = later.get(AHEAD) {
                first.prefetch(request.key(own));
            }
            let &FrontRequest { line_log2, part, lanes, kind, by, .. } = request;
            let is_part = own > u32::from(line_log2);
            let line = BitsRequest { key: request.key(own), kind, by, is_part, part };
            let at_memory = handle(&mut self.levels, line, lanes, all, frames);
            if request.is_after_walk() {
                served(request, at_memory);
            }
            left = later;
        }
    }

    /// Handles a request that every lane, `all`, makes of the first cache. Returns the lanes in which memory is read.
    #[inline]
    pub(super) fn request_in_all(&mut self, request: BitsRequest, all: Mask, frames: &LaneFrames) -> Mask {
        ask(&mut self.levels, request, all, all, frames)
    }

    /// Places pages in frames.
    pub(super) fn place(&mut self, pages: &[PlacedPage]) {
        for level in &mut self.levels {
            pages.iter().for_each(|&page| level.cache.place(page));
        }
    }

    /// Removes the lines of a page from one lane.
    pub(super) fn flush_page(&mut self, lane: usize, page: PageId, frames: &LaneFrames) {
        self.levels.iter_mut().for_each(|level| level.cache.flush_page(lane, page, frames));
    }

    /// Returns the cache with a number.
    ///
    /// # Panics
    /// No cache of the chain has the number.
    pub(super) fn cache(&self, number: usize) -> &BackCache {
        let cache = self.levels.iter().map(|level| &level.cache).find(|cache| cache.number == number);
        cache.expect("the cache belongs to the chain")
    }

    /// Returns what memory has counted in one lane, without what level 1 has written past the chain.
    pub(super) fn memory(&self, lane: usize) -> MemoryCounters {
        let (last, before) = self.levels.split_last().expect("a chain has a cache");
        let mut accesses = last.cache.counters(lane).sent;
        accesses[Kind::System] += before.iter().map(|level| level.cache.purged_dirty(lane)).sum::<u64>();
        MemoryCounters { accesses }
    }

    /// Returns what the agent other than the user has counted in one lane at a cache of the chain.
    pub(super) fn counters_of_agent(&self, lane: usize, number: usize) -> AgentCounters {
        let asks = self.agent_asks && self.levels[0].cache.number == number;
        self.cache(number).counters_of_agent(lane, asks)
    }

    /// Returns what memory has counted of the agent other than the user in one lane.
    pub(super) fn memory_of_agent(&self, lane: usize) -> AgentMemoryCounters {
        let last = self.levels.last().expect("a chain has a cache");
        let accesses = last.cache.counters_of_agent(lane, false).sent;
        AgentMemoryCounters { accesses, asked: PerKind::default() }
    }

    /// Returns the cycles that the processor waited in one lane: for the user, for what the other agent fetched, and
    /// for what the other agent loaded.
    pub(super) fn waited(&self, lane: usize) -> [u64; 3] {
        let config = self.tree.config();
        let user = |level: &BackLevel| {
            let counters: CacheCounters = level.cache.counters(lane);
            counters.waited(config.caches[level.cache.number].cost, config.cost_rule == CostRule::Add)
        };
        let user = self.levels.iter().map(user).sum::<u64>()
            + self.memory(lane).accesses.demand() * config.memory_cost;
        let of_agent = |kinds: &[Kind]| {
            let sum = |counts: PerKind<u64>| kinds.iter().map(|&kind| counts[kind]).sum::<u64>();
            let at = |level: &BackLevel| {
                let counters = level.cache.counters_of_agent(lane, false);
                let passed = if config.cost_rule == CostRule::Add { 0 } else { sum(counters.misses) };
                (sum(counters.accesses) - passed) * config.caches[level.cache.number].cost
            };
            let behind = sum(self.memory_of_agent(lane).accesses) * config.memory_cost;
            self.levels.iter().map(at).sum::<u64>() + behind
        };
        [user, of_agent(&[Kind::Fetch]), of_agent(&[Kind::Load, Kind::Store])]
    }
}

/// Handles a request of some lanes in the first of these caches, and what follows from it in the caches behind. Returns
/// the lanes in which memory is read.
fn ask(levels: &mut [BackLevel], request: BitsRequest, lanes: Mask, all: Mask, frames: &LaneFrames) -> Mask {
    levels[0].cache.count_access(request.kind, request.by, lanes);
    handle(levels, request, lanes, all, frames)
}

/// Does what [`ask`] does, for an access that was counted.
#[inline]
fn handle(
    levels: &mut [BackLevel],
    request: BitsRequest,
    lanes: Mask,
    all: Mask,
    frames: &LaneFrames,
) -> Mask {
    let (level, behind) = levels.split_first_mut().expect("a chain has a cache");
    level.written_back.clear();
    if let Some(next) = behind.first() {
        // The line is requested there soon, if it is missing here.
        next.cache.prefetch(request.key >> (next.cache.lines_of.line_log2 - level.cache.lines_of.line_log2));
    }
    let missed = level.cache.request(request, lanes, all, frames, &mut level.written_back);
    if missed == 0 || behind.is_empty() {
        return missed;
    }
    let (above, by, part) = (level.cache.lines_of, request.by, request.part);
    let writes = |behind: &mut [BackLevel]| {
        if !level.written_back.is_empty() {
            write_back(behind, &level.written_back, (above, by, part), all, frames);
        }
    };
    if level.writes_first {
        writes(behind);
    }
    // A request that brings data reads only the part of the line that it does not bring.
    let read = match is_data(request.kind) {
        false => Some(request.kind),
        true => request.is_part.then_some(Kind::Fill),
    };
    let mut at_memory = 0;
    if let Some(kind) = read {
        let smaller = behind[0].cache.lines_of.line_log2 - above.line_log2;
        let read = BitsRequest { key: request.key >> smaller, kind, by, is_part: false, part };
        at_memory = ask(behind, read, missed, all, frames);
    }
    if !level.writes_first {
        writes(behind);
    }
    at_memory
}

/// Handles the lines that the cache above writes back, at most one line of each lane.
fn write_back(
    levels: &mut [BackLevel],
    lines: &[WrittenBack],
    (above, by, part): (LinesOf, By, Part),
    all: Mask,
    frames: &LaneFrames,
) {
    let level = &mut levels[0];
    let mut missing = std::mem::take(&mut level.missing);
    level.cache.take_data(lines, (above, by), &mut missing);
    let smaller = level.cache.lines_of.line_log2 - above.line_log2;
    for &(key, lanes) in &missing {
        let request =
            BitsRequest { key: key >> smaller, kind: Kind::Writeback, by, is_part: smaller > 0, part };
        handle(levels, request, lanes, all, frames);
    }
    missing.clear();
    levels[0].missing = missing;
}
