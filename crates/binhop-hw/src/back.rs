//! `Back` simulates the levels that a front's requests reach, and the memory behind them.

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, PerKind, PowerOfTwo, Rng, Translation};

use crate::{
    AgentCounters, AgentMemoryCounters, CacheCounters, CommonCounts, Counted, CountedCaches,
    DirectMappedFilter, FastPath, FastPaths, Invalidation, LaneBits, Level, MemoryCounters, Origin, Tree,
    Witness,
    cache::{
        Cache,
        lines::Storage,
        stage::{Caches, stage_queries},
    },
    fast::{
        chain,
        chain::{AFTER_WALK, ALONE, MemoryAccesses, OTHER, TWO_AGENTS},
        direct_mapped,
    },
    memory::{Memory, WitnessedMemory},
    request::{Below, MEMORY, Request},
    witness::pass_on_lines,
};

/// The caches behind the front, and memory.
#[derive(Clone, Debug)]
pub struct Back {
    pub(crate) caches: Caches,
    pub(crate) memory: Memory,
    /// Bytes of a page.
    page: PowerOfTwo,
    /// The caches of the back in the order in which they ask each other, if the back takes [`FastPath::Chain`].
    chain: Option<Box<[usize]>>,
    /// The agent beside the user whose requests the chain replays, if there is one.
    other: Option<Agent>,
    /// The requests of one level of the chain to the next level.
    between: [Vec<Request>; 2],
}

/// `ReplayedByAgent` says what the processor waited for in a replay, and which levels served accesses after walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayedByAgent {
    /// The cycles that the processor waits for the user's requests.
    pub user: u64,
    /// The cycles that it waits for the fetches of other agents.
    pub fetches: u64,
    /// The cycles that it waits for all other requests of other agents.
    pub others: u64,
    /// The user's fetches, loads and stores after walks that a cache of the back has served.
    pub behind: [u64; 3],
    /// The user's fetches, loads and stores after walks that memory has served.
    pub in_memory: [u64; 3],
}

/// The number of requests that go through all levels of a chain before further requests do. So few requests stay in
/// the processor's nearest cache.
const CHUNK: usize = 4096;

impl Back {
    /// The back of a tree, empty.
    #[must_use]
    pub fn new(tree: &Tree, rng: Rng) -> Self {
        Self::with(tree, rng, &FastPath::of(tree))
    }

    /// The back of a tree, empty, that takes no fast paths besides `paths`.
    #[must_use]
    pub fn with(tree: &Tree, rng: Rng, paths: &FastPaths) -> Self {
        let chain = if paths.takes(FastPath::Chain) { chain(tree).ok() } else { None };
        let other = tree.config().agents.others().next();
        Self { chain, other, ..Self::stored(tree, rng, Storage::Dense) }
    }

    /// Returns a back that holds, and has counted, what a back in bits holds and has counted in one lane. From now on,
    /// the lane is simulated by itself. `back` is the place of the back among those of `bits`, `rng` is the generator
    /// of the lane, and the new back takes no fast paths besides `paths`.
    #[must_use]
    pub fn split_off(bits: &LaneBits, lane: usize, back: usize, rng: Rng, paths: &FastPaths) -> Self {
        let mut split = Self::with(bits.tree(back), rng, paths);
        for number in bits.caches(back) {
            bits.restore(lane, back, number, split.caches.get_mut(number));
        }
        split.memory.counters = bits.memory(lane, back);
        let of_agent = bits.memory_of_agent(lane, back);
        split.memory.by_agent.iter_mut().for_each(|counters| *counters = of_agent);
        split
    }

    /// The back of a tree, empty, that takes memory for the lines that it holds, and no fast paths: see
    /// [`Front::sparse`](crate::Front::sparse).
    #[must_use]
    pub fn sparse(tree: &Tree, rng: Rng) -> Self {
        Self::stored(tree, rng, Storage::Sparse)
    }

    /// The back of a tree, empty, that takes no fast paths.
    fn stored(tree: &Tree, rng: Rng, storage: Storage) -> Self {
        Self {
            caches: Caches::new(tree, false, rng, storage),
            memory: Memory::new(tree.config()),
            page: tree.config().page,
            chain: None,
            other: None,
            between: [Vec::new(), Vec::new()],
        }
    }

    /// Handles a request of the front made at cycle `now`; returns the cycles the processor waits.
    #[must_use = "the processor waits so many cycles"]
    #[inline]
    pub fn request<T: Translation>(&mut self, request: Request, now: u64, translation: &T) -> u64 {
        if request.to == MEMORY {
            return self.memory.request(request, now);
        }
        self.caches.transaction(request.origin.agent(), translation, &mut self.memory).serve(request, now)
    }

    /// [`Back::request`] that tells a witness what happens on the way.
    #[must_use = "the processor waits so many cycles"]
    pub fn request_witnessed<T: Translation, W: Witness>(
        &mut self,
        request: Request,
        now: u64,
        translation: &T,
        witness: &mut W,
    ) -> u64 {
        let mut memory = WitnessedMemory { memory: &mut self.memory, witness };
        if request.to == MEMORY {
            return memory.request(request, now);
        }
        self.caches.transaction(request.origin.agent(), translation, &mut memory).serve(request, now)
    }

    /// An agent other than the user asks a cache of the back: see [`Computer::ask`](crate::Computer::ask).
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses.
    #[must_use = "the access takes so many cycles"]
    #[expect(clippy::too_many_arguments, reason = "an access, and where it is made")]
    pub fn ask<T: Translation, W: Witness>(
        &mut self,
        cache: usize,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        now: u64,
        translation: &T,
        witness: &mut W,
    ) -> u64 {
        let mut memory = WitnessedMemory { memory: &mut self.memory, witness };
        self.caches.transaction(agent, translation, &mut memory).ask(cache, kind, at, true, now)
    }

    /// An agent other than the user asks memory itself: see [`Computer::ask_memory`](crate::Computer::ask_memory).
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses, or memory is never asked for this kind.
    #[must_use = "the access takes so many cycles"]
    pub fn ask_memory(&mut self, kind: Kind, at: LineAddr, origin: Origin, now: u64) -> u64 {
        assert!(matches!(kind, Kind::Fetch | Kind::Load | Kind::Write), "memory is read or written");
        let place = self.memory.agents.place(origin.agent());
        self.memory.by_agent[place.expect("the tree lists every agent that makes accesses")].asked[kind] += 1;
        self.memory.request(Request { at, to: MEMORY, kind, origin, data: origin.unit() }, now)
    }

    /// Handles stored requests; returns the cycles the processor waits for all of them. The tree must have no write
    /// buffers: their stalls depend on the cycle at which each request is made.
    #[must_use = "the processor waits so many cycles"]
    pub fn replay<T: Translation>(&mut self, requests: &[Request], translation: &T) -> u64 {
        if self.chain.is_none() {
            let wait = |request: &Request| {
                let cycles = self.request(*request, 0, translation);
                if request.origin.agent().is_waited_for() { cycles } else { 0 }
            };
            return requests.iter().map(wait).sum();
        }
        self.waiting(|back| {
            back.replay_levels(requests, translation);
        })
    }

    /// Does what [`Back::replay`] does. Returns the cycles by agent. The origin of a request tells whether the user's
    /// access that made it came after a walk ([`Origin::after_walk`]); one demand request of such an access may say so.
    #[must_use = "the processor waits so many cycles"]
    pub fn replay_by_agent<T: Translation>(
        &mut self,
        requests: &[Request],
        translation: &T,
    ) -> ReplayedByAgent {
        let mut replayed = ReplayedByAgent::default();
        if self.chain.is_some() {
            for request in requests.iter().filter(|request| request.origin.is_after_walk()) {
                replayed.behind[request.kind as usize] += 1;
            }
            let before = self.waited_by_agent();
            replayed.in_memory = self.replay_levels(requests, translation);
            let cycles = self.waited_by_agent();
            let waited: [u64; 3] = std::array::from_fn(|by| cycles[by] - before[by]);
            [replayed.user, replayed.fetches, replayed.others] = waited;
            (0..3).for_each(|kind| replayed.behind[kind] -= replayed.in_memory[kind]);
            return replayed;
        }
        for request in requests {
            let before = self.memory.counters.accesses.demand();
            let cycles = self.request(*request, 0, translation);
            let agent = request.origin.agent();
            if agent == Agent::User {
                replayed.user += cycles;
            } else if agent.is_waited_for() {
                *if request.kind == Kind::Fetch { &mut replayed.fetches } else { &mut replayed.others } +=
                    cycles;
            }
            if request.origin.is_after_walk() {
                let in_memory = self.memory.counters.accesses.demand() > before;
                let served = if in_memory { &mut replayed.in_memory } else { &mut replayed.behind };
                served[request.kind as usize] += 1;
            }
        }
        replayed
    }

    /// Adds accesses that were proved to be hits to the count of the only cache; returns the cycles the
    /// processor waits for them.
    ///
    /// # Panics
    /// The back does not have exactly one cache.
    #[must_use = "the processor waits so many cycles"]
    pub fn add_hits(&mut self, hits: &PerKind<u64>) -> u64 {
        let cache = self.only().0;
        for &kind in Kind::ALL {
            cache.counters.add_hits(kind, hits[kind]);
        }
        hits.demand() * cache.cost
    }

    /// Replays the requests that [`DirectMappedFilter::filter`] left; returns the cycles the processor waits.
    /// `common_counts` are the counts that the filter returned with these requests.
    ///
    /// # Panics
    /// No [`DirectMappedFilter`] serves the tree.
    #[must_use = "the processor waits so many cycles"]
    pub fn replay_common<T: Translation>(
        &mut self,
        requests: &[Request],
        common_counts: &CommonCounts,
        translation: &T,
    ) -> u64 {
        self.waiting(|back| {
            let (cache, memory) = back.only();
            direct_mapped::replay(cache, memory, requests, common_counts, translation);
        })
    }

    /// Ends the replay behind a filter: the back learns which lines were requested so far, and is replayed alone from
    /// now on.
    ///
    /// # Panics
    /// No [`DirectMappedFilter`] serves the tree.
    pub fn continue_alone(&mut self, direct_mapped: &DirectMappedFilter) {
        let cache = self.only().0;
        if cache.counts_compulsory {
            cache.touched.clone_from(direct_mapped.touched());
        }
    }

    /// Replays requests level by level. Returns the user's fetches, loads and stores after walks that memory has
    /// served.
    fn replay_levels<T: Translation>(&mut self, requests: &[Request], translation: &T) -> [u64; 3] {
        if self.other.is_none() {
            let [user] = self.replay_classes::<T, ALONE>(requests, translation);
            self.memory.counters.accesses += user;
            return [0; 3];
        }
        let accesses = self.replay_classes::<T, TWO_AGENTS>(requests, translation);
        let [of_agent] = &mut *self.memory.by_agent else {
            unreachable!("a chain serves the user and one agent")
        };
        for (class, accesses) in accesses.into_iter().enumerate() {
            *if class == OTHER { &mut of_agent.accesses } else { &mut self.memory.counters.accesses } +=
                accesses;
        }
        [Kind::Fetch, Kind::Load, Kind::Store].map(|kind| accesses[AFTER_WALK][kind])
    }

    /// Replays requests of some classes level by level. Returns the accesses to memory, which are not counted yet.
    fn replay_classes<T: Translation, const CLASSES: usize>(
        &mut self,
        requests: &[Request],
        translation: &T,
    ) -> MemoryAccesses<CLASSES> {
        let Self { caches, chain, other, between: [asked, asking], .. } = self;
        let chain = chain.as_deref().expect("only a chain is replayed level by level");
        let (&last, before) = chain.split_last().expect("a chain has a cache");
        let mut accesses = [PerKind::default(); CLASSES];
        for requests in requests.chunks(CHUNK) {
            let mut first = Some(requests);
            for &number in before {
                asking.clear();
                let requests = (first.take().unwrap_or(asked), *other);
                let cache = caches.get_mut(number);
                chain::replay_on::<T, CLASSES>(cache, number as u8, asking, requests, translation);
                std::mem::swap(asked, asking);
            }
            let requests = (first.take().unwrap_or(asked), *other);
            chain::replay_last(caches.get_mut(last), last as u8, &mut accesses, requests, translation);
        }
        accesses
    }

    /// Calls `act`; returns the cycles the processor waits for what `act` replays. The cycles follow from the counts:
    /// each demand access waits for the level that serves it and, where costs add up, for every level it passed.
    pub(crate) fn waiting(&mut self, act: impl FnOnce(&mut Self)) -> u64 {
        let before = self.waited();
        act(self);
        self.waited() - before
    }

    fn waited(&self) -> u64 {
        self.waited_by_agent().iter().sum()
    }

    /// Returns the cycles waited for the user, and for the fetches and for all other accesses of other agents.
    fn waited_by_agent(&self) -> [u64; 3] {
        let add = self.caches.add_costs;
        let mut waited = [self.memory.counters.accesses.demand() * self.memory.cost, 0, 0];
        let mut wait = |accesses: &PerKind<u64>, misses: &PerKind<u64>, cost: u64| {
            for (by, kinds) in [(1, &[Kind::Fetch][..]), (2, &[Kind::Load, Kind::Store])] {
                let of = |counts: &PerKind<u64>| kinds.iter().map(|&kind| counts[kind]).sum::<u64>();
                waited[by] += cost * if add { of(accesses) } else { of(accesses) - of(misses) };
            }
        };
        for cache in self.caches.caches.iter().flatten() {
            cache.by_agent.iter().for_each(|own| wait(&own.accesses, &own.misses, cache.cost));
        }
        let none = PerKind::default();
        self.memory.by_agent.iter().for_each(|own| wait(&own.accesses, &none, self.memory.cost));
        let user = self.caches.caches.iter().flatten().map(|cache| cache.counters.waited(cache.cost, add));
        waited[0] += user.sum::<u64>();
        waited
    }

    /// The only cache of the stage, and the counts of memory.
    pub(crate) fn only(&mut self) -> (&mut Cache, &mut MemoryCounters) {
        let mut present = self.caches.caches.iter_mut().flatten();
        let (Some(only), None) = (present.next(), present.next()) else { panic!("the back has one cache") };
        (only, &mut self.memory.counters)
    }

    /// From now on the back keeps each request that reaches memory, with its cycle, until [`Back::tapped`] takes it.
    /// The back must be asked one request at a time ([`Back::request`], [`Back::bind`]): a replay counts without
    /// asking memory.
    pub fn tap(&mut self) {
        self.memory.tap = Some(Vec::new());
    }

    /// Takes the requests that have reached memory since the last call, in order.
    pub fn tapped(&mut self) -> impl Iterator<Item = (Request, u64)> {
        self.memory.tap.iter_mut().flat_map(|tap| tap.drain(..))
    }

    /// Joins this back and a translation: the result answers the requests of a front.
    #[inline]
    pub fn bind<'a, T: Translation>(&'a mut self, translation: &'a T) -> Bound<'a, T> {
        Bound { back: self, translation }
    }

    /// [`Back::bind`] for a front that tells a witness what happens on the way.
    pub fn bind_witnessed<'a, T: Translation, W: Witness>(
        &'a mut self,
        translation: &'a T,
        witness: &'a mut W,
    ) -> WitnessedBack<'a, T, W> {
        WitnessedBack { back: self, translation, witness }
    }

    /// The frame of a page changes hands: see [`Front::flush_page`](crate::Front::flush_page).
    pub fn flush_page<T: Translation>(
        &mut self,
        page: PageId,
        mappings: &[MappingId],
        now: u64,
        translation: &T,
    ) {
        let what = Invalidation::of_page(page, mappings, self.page);
        self.invalidate(Agent::User, &what, now, translation, &mut ());
    }

    /// Lines leave the caches of the back: see [`Front::invalidate`](crate::Front::invalidate).
    pub fn invalidate<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        what: &Invalidation<'_>,
        now: u64,
        translation: &T,
        witness: &mut W,
    ) {
        let mut memory = WitnessedMemory { memory: &mut self.memory, witness };
        self.caches.transaction(agent, translation, &mut memory).invalidate(what, now);
    }

    /// All lines leave the named caches of the back: see [`Front::flush`](crate::Front::flush).
    pub fn flush<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        caches: &[usize],
        now: u64,
        translation: &T,
        witness: &mut W,
    ) {
        let mut memory = WitnessedMemory { memory: &mut self.memory, witness };
        let mut transaction = self.caches.transaction(agent, translation, &mut memory);
        caches.iter().for_each(|&cache| transaction.flush(cache, now));
    }

    /// Returns what memory has counted of each agent other than the user, in the tree's order of agents.
    #[must_use]
    pub fn memory_by_agent(&self) -> &[AgentMemoryCounters] {
        &self.memory.by_agent
    }

    /// The counts of memory since the start.
    #[must_use]
    pub fn memory(&self) -> &MemoryCounters {
        &self.memory.counters
    }

    stage_queries!();
}

impl CountedCaches for Back {
    fn counters(&self, cache: usize) -> &CacheCounters {
        self.counters(cache)
    }

    fn by_agent(&self, cache: usize) -> &[AgentCounters] {
        self.by_agent(cache)
    }

    fn resident(&self, cache: usize) -> (u64, u64) {
        self.resident(cache)
    }
}

impl Counted for Back {
    fn memory_by_agent(&self) -> &[AgentMemoryCounters] {
        self.memory_by_agent()
    }

    fn memory(&self) -> &MemoryCounters {
        self.memory()
    }
}

/// A back with the translation its caches ask.
#[derive(Debug)]
pub struct Bound<'a, T> {
    back: &'a mut Back,
    translation: &'a T,
}

impl<T> Witness for Bound<'_, T> {}

impl<T: Translation> Below for Bound<'_, T> {
    #[inline]
    fn request(&mut self, request: Request, now: u64) -> u64 {
        self.back.request(request, now, self.translation)
    }
}

/// A back with the translation its caches ask, and a witness of what happens on the way.
#[derive(Debug)]
pub struct WitnessedBack<'a, T, W> {
    back: &'a mut Back,
    translation: &'a T,
    witness: &'a mut W,
}

impl<T, W: Witness> Witness for WitnessedBack<'_, T, W> {
    fn served(&mut self, by: Level) {
        self.witness.served(by);
    }

    pass_on_lines!();
}

impl<T: Translation, W: Witness> Below for WitnessedBack<'_, T, W> {
    fn request(&mut self, request: Request, now: u64) -> u64 {
        self.back.request_witnessed(request, now, self.translation, self.witness)
    }
}
