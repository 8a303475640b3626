//! Front and back.
//!
//! The *front* is what every reference touches, the *back* what a front lets through. A front that does not
//! depend on the placement is simulated once; its requests are stored and replayed into many backs.

use binhop_base::{Agent, Agents, Kind, LineAddr, MappingId, PageId, PerKind, PowerOfTwo, Rng, Translation};

use crate::block::Miss;
use crate::{
    Access, AgentCounters, AgentMemoryCounters, CacheCounters, CostRule, Counted, FastPath, FastPaths,
    Invalidation, Left, Level, MemoryCounters, Origin, Tree, TreeConfig, Witness,
    block::{access_all, access_each},
    cache::{Cache, Resident},
    fast::chain,
    flow::{Flow, access, cache},
    leaf,
    request::{Below, MEMORY, Request},
};

/// The caches of one stage.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    /// By index in the tree; those of the other stage are absent.
    pub(crate) caches: Box<[Option<Cache>]>,
    add_costs: bool,
    /// Room for the misses of some rows, between the two phases that they go through.
    pub(crate) misses: Vec<Miss>,
}

impl Caches {
    fn new(tree: &Tree, front: bool, rng: Rng) -> Self {
        let build = |number| (tree.in_front(number) == front).then(|| Cache::new(tree, number, rng));
        Self {
            caches: (0..tree.config().caches.len()).map(build).collect(),
            add_costs: tree.config().cost_rule == CostRule::Add,
            misses: Vec::new(),
        }
    }

    #[inline(always)]
    pub(crate) fn flow<'a, T, B>(
        &'a mut self,
        agent: Agent,
        translation: &'a T,
        below: &'a mut B,
    ) -> Flow<'a, T, B> {
        Flow { caches: &mut self.caches, translation, below, agent, add_costs: self.add_costs }
    }

    fn get(&self, cache: usize) -> &Cache {
        self.caches[cache].as_ref().expect("the cache belongs to this stage")
    }
}

macro_rules! cache_views {
    () => {
        /// Returns whether a cache of the tree belongs to this stage.
        #[must_use]
        pub fn has(&self, cache: usize) -> bool {
            self.caches.caches.get(cache).is_some_and(Option::is_some)
        }

        /// What a cache of this stage has counted since the start.
        ///
        /// # Panics
        /// The cache belongs to the other stage: see [`Tree::in_front`].
        #[inline]
        #[must_use]
        pub fn counters(&self, cache: usize) -> &CacheCounters {
            &self.caches.get(cache).counters
        }

        /// What a cache of this stage holds: for each set, its ways. LRU and FIFO keep the latest (accessed,
        /// arrived) first; the others keep a line in its way.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn contents(&self, cache: usize) -> Vec<Vec<Option<Resident>>> {
            self.caches.get(cache).contents()
        }

        /// From now on a cache of this stage counts repeated misses by page. Not for a [`Fan`](crate::Fan),
        /// which does not look at them one by one.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        pub fn watch(&mut self, cache: usize) {
            self.caches.caches[cache].as_mut().expect("the cache belongs to this stage").repeats =
                Some(Vec::new());
        }

        /// Demand misses on lines that were in the cache before, by page, since [`watch`](Self::watch);
        /// pages that are not listed had none.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn repeats(&self, cache: usize) -> &[u64] {
            self.caches.get(cache).repeats.as_deref().unwrap_or_default()
        }

        /// Returns what a cache of this stage has counted of each agent other than the user, in the tree's order of agents.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn by_agent(&self, cache: usize) -> &[AgentCounters] {
            &self.caches.get(cache).by_agent
        }

        /// How many lines a cache of this stage holds, and how many of them are dirty.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn resident(&self, cache: usize) -> (u64, u64) {
            self.caches.get(cache).resident()
        }
    };
}

/// The caches the processor asks, the inclusive caches, and all caches above these: see [`Tree::in_front`].
#[derive(Clone, Debug)]
pub struct Front {
    pub(crate) caches: Caches,
    /// The caches asked for instructions and for data.
    pub(crate) serving: [usize; 2],
    tree: Tree,
    /// True if the front takes [`FastPath::TwoPhase`].
    two_phase: bool,
}

impl Front {
    /// The front of a tree, empty.
    #[must_use]
    pub fn new(tree: &Tree, rng: Rng) -> Self {
        Self::with(tree, rng, &FastPath::of(tree))
    }

    /// The front of a tree, empty, that takes no other fast paths than these.
    #[must_use]
    pub fn with(tree: &Tree, rng: Rng, paths: &FastPaths) -> Self {
        let serving = [tree.config().fetch, tree.config().data];
        let two_phase = paths.takes(FastPath::TwoPhase) && FastPath::of(tree).takes(FastPath::TwoPhase);
        Self { caches: Caches::new(tree, true, rng), serving, tree: tree.clone(), two_phase }
    }

    /// The processor asks `cache` for a line: one fetch, load or store. `at` names a mapping, and counts
    /// lines of that cache. Returns the cycles the processor waits, with `now` the cycle it asks at.
    #[must_use = "the processor waits so many cycles"]
    #[inline]
    pub fn access<T: Translation, B: Below>(
        &mut self,
        cache: usize,
        kind: Kind,
        at: LineAddr,
        now: u64,
        translation: &T,
        below: &mut B,
    ) -> u64 {
        self.add_hits(cache, kind, 1);
        self.access_uncounted(cache, kind, at, now, translation, below)
    }

    /// [`Front::access`] without counting the access (a miss is counted, and all that follows from it). The
    /// caller counts those of a whole block at once, with [`Front::add_hits`]: a counter in memory that every
    /// access increments costs as much as the access.
    #[must_use = "the processor waits so many cycles"]
    #[inline]
    pub fn access_uncounted<T: Translation, B: Below>(
        &mut self,
        cache: usize,
        kind: Kind,
        at: LineAddr,
        now: u64,
        translation: &T,
        below: &mut B,
    ) -> u64 {
        access(&mut self.caches, cache, kind, at, now, translation, below)
    }

    /// An agent other than the user asks a cache of the front: see [`Computer::ask`](crate::Computer::ask).
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses.
    #[must_use = "the access takes so many cycles"]
    #[expect(clippy::too_many_arguments, reason = "an access, and where it is made")]
    pub fn ask<T: Translation, B: Below>(
        &mut self,
        cache: usize,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        now: u64,
        translation: &T,
        below: &mut B,
    ) -> u64 {
        let serves = self.serving.contains(&cache);
        self.caches.flow(agent, translation, below).ask(cache, kind, at, !serves, now)
    }

    /// The tree whose front this is.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The processor makes the accesses of `rows` in order, each at the cache that serves its kind; returns
    /// the cycles it waits for all. The result is that of [`Front::access`] one by one, got faster where the front
    /// takes [`FastPath::TwoPhase`]. Only for trees without write buffers, whose stalls depend on when each access is made.
    #[must_use = "the processor waits so many cycles"]
    pub fn access_all<A: Access, T: Translation, B: Below>(
        &mut self,
        rows: &[A],
        translation: &T,
        below: &mut B,
    ) -> u64 {
        if self.two_phase {
            access_all(&mut self.caches, self.serving, rows, translation, below)
        } else {
            access_each(&mut self.caches, self.serving, rows, translation, below)
        }
    }

    /// Returns whether a cache holds a line that the processor may ask it for, named as in [`Front::access`]. Nothing changes, and
    /// nothing is counted.
    #[must_use]
    pub fn holds<T: Translation>(&self, cache: usize, at: LineAddr, translation: &T) -> bool {
        self.caches.get(cache).holds(at, translation)
    }

    /// Adds accesses to the count: those made by [`Front::access_uncounted`], and those that the caller proved
    /// to be hits that change nothing (the line was the last one accessed in its set, had been hit since it
    /// came, which SRRIP remembers, and for stores is dirty already and the cache is write-back).
    #[inline]
    pub fn add_hits(&mut self, cache: usize, kind: Kind, hits: u64) {
        let cache = self.caches.caches[cache].as_mut().expect("the cache belongs to the front");
        cache.counters.accesses[kind] += hits;
    }

    /// Lines leave the caches of the front; then [`Back::invalidate`].
    pub fn invalidate<T: Translation, B: Below>(
        &mut self,
        agent: Agent,
        what: &Invalidation<'_>,
        now: u64,
        translation: &T,
        below: &mut B,
    ) {
        self.caches.flow(agent, translation, below).invalidate(what, now);
    }

    /// The frame of a page changes hands, because the user's program asks for another page: its lines leave. Call it while
    /// the translation still answers the old frame, with every mapping that has led to the page since its last purge; then
    /// [`Back::purge`].
    pub fn purge<T: Translation, B: Below>(
        &mut self,
        page: PageId,
        mappings: &[MappingId],
        now: u64,
        translation: &T,
        below: &mut B,
    ) {
        let what = Invalidation::of_page(page, mappings, self.tree.config().page);
        self.invalidate(Agent::User, &what, now, translation, below);
    }

    cache_views!();
}

/// The caches behind the front, and memory.
#[derive(Clone, Debug)]
pub struct Back {
    caches: Caches,
    memory: Memory,
    /// Bytes of a page.
    page: PowerOfTwo,
    /// Its caches in the order in which they ask each other, if it takes [`FastPath::Chain`].
    chain: Option<Box<[usize]>>,
    /// What one level of the chain asks of the next.
    notes: [Vec<Request>; 2],
}

/// Requests that go through all levels of a chain before the next do: they stay in the nearest cache.
const CHUNK: usize = 4096;

/// Memory of a fixed latency.
#[derive(Clone, Debug)]
struct Memory {
    counters: MemoryCounters,
    /// The agents that may be counted here, and the counts of each agent but the user.
    agents: Agents,
    by_agent: Box<[AgentMemoryCounters]>,
    cost: u64,
    /// Every request and its cycle, if someone listens.
    tap: Option<Vec<(Request, u64)>>,
}

impl Witness for Memory {}

impl Below for Memory {
    #[inline]
    fn request(&mut self, request: Request, now: u64) -> u64 {
        debug_assert_eq!(request.to, MEMORY);
        let agent = request.origin.agent();
        if agent == Agent::User {
            self.counters.accesses[request.kind] += 1;
        } else {
            let place = self.agents.place(agent).expect("an agent that makes accesses is one of the tree's");
            self.by_agent[place].accesses[request.kind] += 1;
        }
        if let Some(tap) = &mut self.tap {
            tap.push((request, now));
        }
        if request.kind.is_demand() { self.cost } else { 0 }
    }
}

/// Memory, with someone who wants to know what happens before it.
struct WitnessedMemory<'a, W> {
    memory: &'a mut Memory,
    witness: &'a mut W,
}

impl<W: Witness> Witness for WitnessedMemory<'_, W> {
    fn served(&mut self, by: Level) {
        self.witness.served(by);
    }

    fn left(&mut self, line: Left) {
        self.witness.left(line);
    }
}

impl<W: Witness> Below for WitnessedMemory<'_, W> {
    fn request(&mut self, request: Request, now: u64) -> u64 {
        if request.kind.is_demand() || request.kind == Kind::Write {
            self.witness.served(Level::Memory);
        }
        self.memory.request(request, now)
    }
}

impl Back {
    /// The back of a tree, empty.
    #[must_use]
    pub fn new(tree: &Tree, rng: Rng) -> Self {
        Self::with(tree, rng, &FastPath::of(tree))
    }

    /// The back of a tree, empty, that takes no other fast paths than these.
    #[must_use]
    pub fn with(tree: &Tree, rng: Rng, paths: &FastPaths) -> Self {
        let TreeConfig { page, agents, memory_cost: cost, .. } = *tree.config();
        let memory = Memory {
            counters: MemoryCounters::default(),
            agents,
            by_agent: agents.others().map(|_| AgentMemoryCounters::default()).collect(),
            cost,
            tap: None,
        };
        let caches = Caches::new(tree, false, rng);
        let chain = if paths.takes(FastPath::Chain) { chain(tree).ok() } else { None };
        Self { caches, memory, page, chain, notes: [Vec::new(), Vec::new()] }
    }

    /// Handles a request of the front made at cycle `now`; returns the cycles the processor waits.
    #[must_use = "the processor waits so many cycles"]
    #[inline]
    pub fn request<T: Translation>(&mut self, request: Request, now: u64, translation: &T) -> u64 {
        if request.to == MEMORY {
            return self.memory.request(request, now);
        }
        self.caches.flow(request.origin.agent(), translation, &mut self.memory).serve(request, now)
    }

    /// [`Back::request`] that tells what it does on the way.
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
        self.caches.flow(request.origin.agent(), translation, &mut memory).serve(request, now)
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
        self.caches.flow(agent, translation, &mut memory).ask(cache, kind, at, true, now)
    }

    /// An agent other than the user asks memory itself: see [`Computer::ask_memory`](crate::Computer::ask_memory).
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses, or the kind is none that memory is asked for.
    #[must_use = "the access takes so many cycles"]
    pub fn ask_memory(&mut self, kind: Kind, at: LineAddr, origin: Origin, now: u64) -> u64 {
        assert!(matches!(kind, Kind::Fetch | Kind::Load | Kind::Write), "memory is read or written");
        let place = self.memory.agents.place(origin.agent());
        self.memory.by_agent[place.expect("an agent that makes accesses is one of the tree's")].asked
            [kind] += 1;
        self.memory.request(Request { at, to: MEMORY, kind, origin, data: origin.unit() }, now)
    }

    /// Handles stored requests; returns the cycles the processor waits for all of them. Only for trees
    /// without write buffers, whose stalls depend on when each request is made.
    #[must_use = "the processor waits so many cycles"]
    pub fn replay<T: Translation>(&mut self, requests: &[Request], translation: &T) -> u64 {
        if self.chain.is_none() {
            return requests.iter().map(|&request| self.request(request, 0, translation)).sum();
        }
        self.waiting(|back| {
            for requests in requests.chunks(CHUNK) {
                back.replay_chunk(requests, translation);
            }
        })
    }

    /// Adds accesses that were proved to be hits to the count of the only cache; returns the cycles the
    /// processor waits for them.
    ///
    /// # Panics
    /// There is not one cache.
    #[must_use = "the processor waits so many cycles"]
    pub fn add_hits(&mut self, hits: &PerKind<u64>) -> u64 {
        let cache = self.only().0;
        cache.counters.accesses += *hits;
        hits.demand() * cache.cost
    }

    /// Replays requests level by level.
    fn replay_chunk<T: Translation>(&mut self, requests: &[Request], translation: &T) {
        let Self { caches, memory, chain, notes: [asked, asking], .. } = self;
        let chain = chain.as_deref().expect("called for a chain");
        let (&last, before) = chain.split_last().expect("a chain has a cache");
        let mut first = Some(requests);
        for &number in before {
            asking.clear();
            let requests = first.take().unwrap_or(asked);
            leaf::replay_on(cache(&mut caches.caches, number), number as u8, asking, requests, translation);
            std::mem::swap(asked, asking);
        }
        let requests = first.take().unwrap_or(asked);
        let memory = &mut memory.counters;
        leaf::replay_last(cache(&mut caches.caches, last), last as u8, memory, requests, translation);
    }

    /// Lets a chain do something; returns the cycles the processor waits. They follow from counts: each demand
    /// access waits for the level that serves it, and for those it passed where costs add up.
    pub(crate) fn waiting(&mut self, act: impl FnOnce(&mut Self)) -> u64 {
        let before = self.waited();
        act(self);
        self.waited() - before
    }

    fn waited(&self) -> u64 {
        let add = self.caches.add_costs;
        let levels =
            self.caches.caches.iter().flatten().map(|cache| waited(&cache.counters, cache.cost, add));
        levels.sum::<u64>() + self.memory.counters.accesses.demand() * self.memory.cost
    }

    /// The only cache of the stage, and what memory counts.
    pub(crate) fn only(&mut self) -> (&mut Cache, &mut MemoryCounters) {
        let mut present = self.caches.caches.iter_mut().flatten();
        let (Some(only), None) = (present.next(), present.next()) else { panic!("one cache before memory") };
        (only, &mut self.memory.counters)
    }

    /// From now on the requests that reach memory are kept, with the cycle each is made at, until they are taken
    /// ([`Back::tapped`]). Only for backs that are asked one request at a time ([`Back::request`], [`Back::bind`]): a
    /// replay counts without asking.
    pub fn tap(&mut self) {
        self.memory.tap = Some(Vec::new());
    }

    /// The requests that have reached memory since the last call, in order.
    pub fn tapped(&mut self) -> impl Iterator<Item = (Request, u64)> {
        self.memory.tap.iter_mut().flat_map(|tap| tap.drain(..))
    }

    /// This back as a front sees it.
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

    /// The frame of a page changes hands: see [`Front::purge`].
    pub fn purge<T: Translation>(&mut self, page: PageId, mappings: &[MappingId], now: u64, translation: &T) {
        let what = Invalidation::of_page(page, mappings, self.page);
        self.invalidate(Agent::User, &what, now, translation, &mut ());
    }

    /// Lines leave the caches of the back: see [`Front::invalidate`].
    pub fn invalidate<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        what: &Invalidation<'_>,
        now: u64,
        translation: &T,
        witness: &mut W,
    ) {
        let mut memory = WitnessedMemory { memory: &mut self.memory, witness };
        self.caches.flow(agent, translation, &mut memory).invalidate(what, now);
    }

    /// Returns what memory has counted of each agent other than the user, in the tree's order of agents.
    #[must_use]
    pub fn memory_by_agent(&self) -> &[AgentMemoryCounters] {
        &self.memory.by_agent
    }

    /// What memory has counted since the start.
    #[must_use]
    pub fn memory(&self) -> &MemoryCounters {
        &self.memory.counters
    }

    cache_views!();
}

/// The cycles a processor waits for one level: once for each demand access that it serves, or that it passes on
/// as well where costs add up.
pub(crate) fn waited(cache: &CacheCounters, cost: u64, add_costs: bool) -> u64 {
    let (accesses, misses) = (cache.accesses.demand(), cache.misses.demand());
    cost * if add_costs { accesses } else { accesses - misses }
}

impl Counted for Back {
    fn counters(&self, cache: usize) -> &CacheCounters {
        self.counters(cache)
    }

    fn by_agent(&self, cache: usize) -> &[AgentCounters] {
        self.by_agent(cache)
    }

    fn memory_by_agent(&self) -> &[AgentMemoryCounters] {
        self.memory_by_agent()
    }

    fn resident(&self, cache: usize) -> (u64, u64) {
        self.resident(cache)
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

/// A back with the translation its caches ask, and someone who wants to know what happens on the way.
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

    fn left(&mut self, line: Left) {
        self.witness.left(line);
    }
}

impl<T: Translation, W: Witness> Below for WitnessedBack<'_, T, W> {
    fn request(&mut self, request: Request, now: u64) -> u64 {
        self.back.request_witnessed(request, now, self.translation, self.witness)
    }
}
