//! Helpers of the cache tests: a translation, random trees and events, and the fast model beside the oracle.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod for_oracle;
pub mod for_schemes;

use binhop_base::{
    Agent, Agents, Bytes, FrameNo, Kind, LineAddr, MappingId, PageId, PageNo, PowerOfTwo, Rng, Translation,
};
use binhop_hw::{
    AgentCounters, CacheConfig, CacheCounters, Computer, CostRule, DirtyData, IndexBy, Invalidation, Level,
    MissedLine, Next, RemovalCause, RemovedLine, Replacement, Resident, Rules, StreamConfig, TagBy, Tree,
    TreeConfig, Witness, WriteBufferConfig, WritePolicy, WritebackOrder,
};
use binhop_oracle::{
    cache::Name,
    cache_tree::{self as oracle, CacheTree},
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// `World` has pages with frames, and mappings that lead to the pages.
#[derive(Clone, Debug)]
pub struct World {
    /// Frame of each page.
    pub frames: Vec<u64>,
    /// Page and virtual page number of each mapping.
    pub mappings: Vec<(u32, u64)>,
}

impl World {
    /// Every mapping of a page.
    pub fn mappings_of(&self, page: u32) -> Vec<MappingId> {
        let ids = 0..self.mappings.len() as u32;
        ids.filter(|&m| self.mappings[m as usize].0 == page).map(MappingId).collect()
    }

    /// Makes a world with page n in frame n, mapped at virtual page n.
    pub fn identity(pages: u32) -> Self {
        Self {
            frames: (0..u64::from(pages)).collect(),
            mappings: (0..pages).map(|page| (page, u64::from(page))).collect(),
        }
    }
}

impl Translation for World {
    fn page(&self, mapping: MappingId) -> PageId {
        PageId(self.mappings[mapping.index()].0)
    }
    fn frame(&self, page: PageId) -> FrameNo {
        FrameNo(self.frames[page.index()])
    }
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        PageNo(self.mappings[mapping.index()].1)
    }
}

/// Makes a plain cache to start from: write-back, allocating, LRU, physical.
pub fn plain(name: &str, size: u64, line: u64, ways: u32, next: Next) -> CacheConfig {
    CacheConfig {
        name: name.into(),
        size: Bytes(size),
        line: power(line),
        ways,
        index: IndexBy::Physical,
        hashed: false,
        tag: TagBy::Physical,
        write: WritePolicy::Back,
        allocate: true,
        replacement: Replacement::Lru,
        writeback_order: WritebackOrder::AfterFill,
        inclusive: false,
        write_buffer: None,
        streams: None,
        cost: 0,
        next,
    }
}

/// Gives a cache other ways and sets.
pub fn resize(cache: &mut CacheConfig, ways: u32, sets: u64) {
    cache.ways = ways;
    cache.size = Bytes(cache.line.bytes() * u64::from(ways) * sets);
}

/// Makes a tree over pages of `page` bytes. Fetches ask cache `fetch`, and data ask cache `data`.
pub fn tree(caches: Vec<CacheConfig>, page: u64, fetch: usize, data: usize) -> TreeConfig {
    let (memory_cost, cost_rule) = (0, CostRule::Total);
    let (rules, page, agents) = (Rules::Lines, power(page), Agents::USER);
    TreeConfig { rules, caches, page, fetch, data, memory_cost, cost_rule, agents }
}

pub fn power(value: u64) -> PowerOfTwo {
    PowerOfTwo::new(Bytes(value)).expect("a power of two")
}

/// Returns the oracle's model of a tree.
pub fn oracle_of(config: &TreeConfig, rng: Rng) -> CacheTree {
    let add = config.cost_rule == CostRule::Add;
    CacheTree::new(for_oracle::configs(config), config.page.bytes(), config.memory_cost, add, rng)
}

/// Returns the set of all agents.
pub fn everyone() -> Agents {
    Agent::ALL.iter().copied().collect()
}

/// `ByUser` makes accesses of the user, and returns only their cycles.
pub trait ByUser {
    fn user(&mut self, kind: Kind, at: LineAddr, world: &World) -> u64;
}

impl ByUser for Computer {
    fn user(&mut self, kind: Kind, at: LineAddr, world: &World) -> u64 {
        self.access(Agent::User, kind, at, world, &mut ()).cycles
    }
}

/// `Event` is one event of a test.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Instructions pass, then byte `offset` of a mapping is accessed.
    Access { kind: Kind, mapping: u32, offset: u64, instructions: u64 },
    /// A page's frame changes hands on behalf of an agent; the page itself moves to another frame.
    FlushPage { agent: Agent, page: u32 },
    /// An agent asks a cache for byte `offset`. `cache` is the cache's index, modulo the number of caches + 1; the
    /// last value means memory. The user asks the cache that serves it.
    Ask { cache: usize, agent: Agent, kind: Kind, mapping: u32, offset: u64 },
    /// Bytes of a page leave all caches.
    Invalidate { agent: Agent, page: u32, first: u64, bytes: u64, data: DirtyData },
    /// All lines leave some caches: bit n of `caches` stands for cache n.
    Flush { agent: Agent, caches: u8 },
}

/// `Events` keeps everything that a witness is told about lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    pub missed: Vec<MissedLine>,
    pub filled: Vec<(usize, LineAddr)>,
    pub left: Vec<RemovedLine>,
}

impl Witness for Events {
    fn missed(&mut self, line: MissedLine) {
        self.missed.push(line);
    }

    fn filled(&mut self, cache: usize, at: LineAddr) {
        self.filled.push((cache, at));
    }

    fn removed(&mut self, line: RemovedLine) {
        self.left.push(line);
    }
}

/// `Pair` steps the fast model and the oracle together.
pub struct Pair {
    pub config: TreeConfig,
    pub world: World,
    pub fast: Computer,
    pub slow: CacheTree,
    fresh_frame: u64,
}

impl Pair {
    pub fn new(config: TreeConfig, world: World, seed: u64) -> Self {
        let rng = Rng::new(seed);
        let slow = oracle_of(&config, rng);
        let fast = Computer::new(&Tree::new(config.clone()), rng);
        Self { config, world, fast, slow, fresh_frame: 1 << 40 }
    }

    /// Steps both models by one event. Checks that cycles, the serving level, the misses, and the lines that come and
    /// leave are equal.
    pub fn step(&mut self, event: Event) {
        let mut told = Events::default();
        self.slow.moved.clear();
        self.slow.missed.clear();
        match event {
            Event::Access { kind, mapping, offset, instructions } => {
                let asked = if kind == Kind::Fetch { self.config.fetch } else { self.config.data };
                let line = (offset >> self.config.caches[asked].line.log2()) as u32;
                self.fast.now += instructions;
                self.slow.now += instructions;
                let at = LineAddr { id: mapping, line };
                let fast = self.fast.access(Agent::User, kind, at, &self.world, &mut told);
                self.slow.agent = Agent::User;
                let (cycles, served) = self.slow.access(asked, kind, mapping, offset, &self.world);
                assert_eq!((fast.cycles, self.fast.now), (cycles, self.slow.now), "cycles");
                assert_eq!(fast.served, served.map_or(Level::Memory, Level::Cache), "served");
            }
            Event::Ask { cache, agent, kind, mapping, offset } => {
                let page = self.world.mappings[mapping as usize].0;
                let serving = if kind == Kind::Fetch { self.config.fetch } else { self.config.data };
                let cache = match cache % (self.config.caches.len() + 1) {
                    _ if agent == Agent::User => serving,
                    cache if cache == self.config.caches.len() => {
                        return self.ask_memory(agent, kind, page, offset);
                    }
                    cache => cache,
                };
                let line = (offset >> self.config.caches[cache].line.log2()) as u32;
                let by_mapping = self.fast.front.tree().takes_mapping(cache);
                let id = if by_mapping { mapping } else { page };
                let name = if by_mapping { Name::Mapping(mapping) } else { Name::Page(page) };
                let costs = cache != self.config.fetch && cache != self.config.data;
                let at = LineAddr { id, line };
                let fast = self.fast.ask(cache, agent, kind, at, &self.world, &mut told);
                let before = self.slow.now;
                self.slow.agent = agent;
                let (cycles, served) = self.slow.ask(cache, kind, name, offset, costs, &self.world);
                if !agent.is_waited_for() {
                    self.slow.now = before;
                }
                assert_eq!((fast.cycles, self.fast.now), (cycles, self.slow.now), "cycles");
                assert_eq!(fast.served, served.map_or(Level::Memory, Level::Cache), "served");
            }
            Event::FlushPage { agent, page } => {
                self.fast.flush_page(
                    agent,
                    PageId(page),
                    &self.world.mappings_of(page),
                    &self.world,
                    &mut told,
                );
                self.slow.agent = agent;
                self.slow.flush_page(page, &self.world);
                self.fresh_frame += 0x5_0001;
                self.world.frames[page as usize] = self.fresh_frame;
            }
            Event::Flush { agent, caches } => {
                let named: Vec<usize> =
                    (0..self.config.caches.len()).filter(|cache| caches >> cache & 1 == 1).collect();
                self.fast.flush(agent, &named, &self.world, &mut told);
                self.slow.agent = agent;
                self.slow.flush_caches(&named);
            }
            Event::Invalidate { agent, page, first, bytes, data } => {
                let bytes = first..(first + bytes).min(PAGE);
                let mappings = self.world.mappings_of(page);
                let what =
                    Invalidation { page: PageId(page), mappings: &mappings, bytes: bytes.clone(), data };
                self.fast.invalidate(agent, &what, &self.world, &mut told);
                self.slow.agent = agent;
                match data {
                    DirtyData::Clean => self.slow.clean(page, bytes, &self.world),
                    _ => self.slow.invalidate(page, bytes, data == DirtyData::Discard, &self.world),
                }
            }
        }
        self.assert_equal_came(&told);
        self.assert_equal_left(&told.left);
    }

    /// Checks that the same lines were missed, in order, and that the same lines came.
    fn assert_equal_came(&self, told: &Events) {
        let name = |cache: usize, at: LineAddr| {
            let (name, offset, _) =
                for_oracle::line(&self.config.caches[cache], Resident { at, dirty: false });
            (cache, name, offset)
        };
        let missed = |line: &MissedLine| {
            let (cache, name, offset) = name(line.cache, line.at);
            (cache, name, offset, line.kind)
        };
        let fast: Vec<_> = told.missed.iter().map(missed).collect();
        assert_eq!(fast, self.slow.missed, "missed");
        let mut fast: Vec<_> = told.filled.iter().map(|&(cache, at)| name(cache, at)).collect();
        let mut slow = self.slow.came();
        fast.sort_unstable();
        slow.sort_unstable();
        assert_eq!(fast, slow, "came");
    }

    fn ask_memory(&mut self, agent: Agent, kind: Kind, page: u32, offset: u64) {
        let kind = if kind == Kind::Store { Kind::Write } else { kind };
        let at = LineAddr { id: page, line: (offset >> 4) as u32 };
        let before = self.slow.now;
        self.slow.agent = agent;
        let cycles = self.slow.ask_memory(kind);
        if !agent.is_waited_for() {
            self.slow.now = before;
        }
        let fast = self.fast.ask_memory(agent, kind, at, 4);
        assert_eq!((fast.cycles, fast.served), (cycles, Level::Memory));
        assert_eq!(self.fast.now, self.slow.now, "cycles");
    }

    /// Checks that the same lines left, and that the evicted lines left in the same order.
    fn assert_equal_left(&self, left: &[RemovedLine]) {
        let name = |line: &RemovedLine| {
            let held = Resident { at: line.at, dirty: line.dirty };
            let (name, offset, dirty) = for_oracle::line(&self.config.caches[line.cache], held);
            oracle::RemovedLine {
                cache: line.cache,
                name,
                offset,
                dirty,
                why: match line.cause {
                    RemovalCause::Evicted => oracle::RemovalCause::Evicted,
                    RemovalCause::Invalidated => oracle::RemovalCause::Invalidated,
                    RemovalCause::Flushed => oracle::RemovalCause::Flushed,
                },
            }
        };
        let mut fast: Vec<oracle::RemovedLine> = left.iter().map(name).collect();
        let mut slow = self.slow.left();
        let evicted = |left: &[oracle::RemovedLine]| -> Vec<oracle::RemovedLine> {
            left.iter().copied().filter(|line| line.why == oracle::RemovalCause::Evicted).collect()
        };
        assert_eq!(evicted(&fast), evicted(&slow), "evicted in order");
        fast.sort_unstable();
        slow.sort_unstable();
        assert_eq!(fast, slow, "left");
    }

    /// Checks that the contents of every cache are equal, set by set and way by way.
    pub fn assert_equal_contents(&self) {
        for (number, cache) in self.config.caches.iter().enumerate() {
            for (set, ways) in self.fast.contents(number).into_iter().enumerate() {
                let fast: Vec<_> =
                    ways.iter().map(|way| way.map(|line| for_oracle::line(cache, line))).collect();
                assert_eq!(fast, self.slow.caches[number].contents(set as u64), "{} set {set}", cache.name);
            }
        }
    }

    /// Checks that all counts are equal, and that the invariants hold.
    pub fn assert_equal_counts(&self) {
        for number in 0..self.config.caches.len() {
            let by_agent = self.fast.by_agent(number);
            assert_counts(&self.config, number, self.fast.counters(number), by_agent, &self.slow);
        }
        let mut memory = BTreeMap::new();
        let mut note = |agent: Agent, name, kind: Kind, value| {
            if value > 0 {
                memory.insert((agent.name(), name, kind.name()), value);
            }
        };
        for &kind in Kind::ALL {
            note(Agent::User, "accesses", kind, self.fast.back.memory().accesses[kind]);
        }
        for (agent, counters) in self.config.agents.others().zip(self.fast.back.memory_by_agent()) {
            counters.each(|info, kind, value| note(agent, info.name, kind.expect("per kind"), value));
        }
        assert_eq!(memory, self.slow.memory_counts, "memory");
        self.fast.check().expect("the invariants hold");
    }
}

/// Checks that the counts of one cache equal the oracle's, and that the oracle has no further counts.
pub fn assert_counts(
    config: &TreeConfig,
    number: usize,
    counters: &CacheCounters,
    by_agent: &[AgentCounters],
    slow: &CacheTree,
) {
    let mut fast = BTreeMap::new();
    let mut note = |agent: Agent, name, kind: Option<Kind>, value| {
        if value > 0 {
            fast.insert((agent.name(), name, kind.map(Kind::name)), value);
        }
    };
    // A count that belongs to no agent stands under the user.
    counters.each(|info, kind, value| note(Agent::User, info.name, kind, value));
    for (agent, counters) in config.agents.others().zip(by_agent) {
        counters.each(|info, kind, value| note(agent, info.name, kind, value));
    }
    let counts = &slow.caches[number].counts;
    let names: BTreeSet<_> = fast.keys().chain(counts.keys()).collect();
    let of = |counts: &BTreeMap<_, u64>, name| counts.get(name).copied().unwrap_or(0);
    let differ: Vec<_> = (names.into_iter())
        .filter(|name| of(&fast, name) != of(counts, name))
        .map(|name| format!("{name:?} is {}, and {} by the oracle", of(&fast, name), of(counts, name)))
        .collect();
    assert!(
        differ.is_empty(),
        "{}: {}; the oracle counts in {}",
        config.caches[number].name,
        differ.join("; "),
        binhop_oracle::cache_tree::COUNTED_IN
    );
}

/// Checks that a cache has the counts of a stepper's cache. The message names the counts that differ.
pub fn assert_counts_of_stepper(counters: &CacheCounters, stepper: &CacheCounters) {
    if counters == stepper {
        return;
    }
    let mut expected = Vec::new();
    stepper.each(|_, _, value| expected.push(value));
    let (mut expected, mut differ) = (expected.into_iter(), Vec::new());
    counters.each(|info, kind, value| {
        let expected = expected.next().expect("both have every counter");
        if value != expected {
            let kind = kind.map(|kind| format!(" of kind {}", kind.name())).unwrap_or_default();
            differ.push(format!("`{}`{kind} is {value}, and {expected} by the stepper", info.name));
        }
    });
    panic!("{}", differ.join("; "));
}

/// `Raw` holds random choices from which [`build`] makes a cache that fits its place in the tree.
#[derive(Clone, Debug)]
pub struct Raw {
    pub wider: u32,
    pub sets_log2: u32,
    pub ways: usize,
    pub flags: [bool; 6],
    pub tag: usize,
    pub replacement: usize,
    pub buffer: Option<(u32, u64, bool, bool)>,
    pub streams: Option<(u32, u32)>,
    pub cost: u64,
}

pub fn raw() -> impl Strategy<Value = Raw> {
    let flags = prop::array::uniform6(any::<bool>());
    let buffer = prop::option::of((1u32..6, 0u64..24, any::<bool>(), prop::bool::weighted(0.9)));
    let streams = prop::option::weighted(0.3, (1u32..4, 1u32..5));
    let shape = (0u32..3, 0u32..5, 0usize..7);
    (shape, flags, 0usize..3, 0usize..Replacement::ALL.len(), buffer, streams, 0u64..20).prop_map(
        |((wider, sets_log2, ways), flags, tag, replacement, buffer, streams, cost)| Raw {
            wider,
            sets_log2,
            ways,
            flags,
            tag,
            replacement,
            buffer,
            streams,
            cost,
        },
    )
}

/// The shapes of trees: for each cache its next (an index, or none for memory), then fetch and data.
pub const SHAPES: &[(&[Option<usize>], usize, usize)] = &[
    (&[None], 0, 0),
    (&[None, None], 0, 1),
    (&[Some(1), None], 0, 0),
    (&[Some(2), Some(2), None], 0, 1),
    (&[Some(2), Some(2), Some(3), None], 0, 1),
    (&[Some(2), Some(3), Some(4), Some(4), None], 0, 1),
    (&[None, Some(2), None], 0, 1),
    (&[Some(1), None], 1, 0),
    (&[Some(1), Some(2), None], 0, 0),
    // A cache that the processor does not ask stands between the two caches that it asks.
    (&[Some(1), Some(2), Some(3), None], 0, 2),
    (&[Some(1), Some(2), None], 2, 0),
];

/// Bytes of a page in random trees.
pub const PAGE: u64 = 64;

/// Makes a sound tree of one of the shapes.
pub fn build(shape: usize, raw: &[Raw], add_costs: bool, buffers: bool) -> TreeConfig {
    let (nexts, fetch, data) = SHAPES[shape % SHAPES.len()];
    let mut caches: Vec<CacheConfig> = Vec::new();
    for (number, next) in nexts.iter().enumerate() {
        let senders: Vec<&CacheConfig> =
            caches.iter().filter(|above| above.next == Next::Cache(number)).collect();
        let knows_mapping = senders.iter().all(|above| above.tag != TagBy::Physical);
        let raw = &raw[number];
        let [virtually, hashed, through, allocate, evict_first, inclusive] = raw.flags;
        let tags = if knows_mapping { TagBy::ALL } else { &[TagBy::Physical] };
        let tag = tags[raw.tag % tags.len()];
        let index = match tag {
            TagBy::Global => IndexBy::Virtual,
            _ if virtually && knows_mapping => IndexBy::Virtual,
            _ => IndexBy::Physical,
        };
        let replacement = Replacement::ALL[raw.replacement];
        let ways =
            [1, 2, 4, 8, 16, 3, 6][if replacement == Replacement::Plru { raw.ways % 5 } else { raw.ways }];
        let widest = senders.iter().map(|above| above.line.log2()).max().unwrap_or(3);
        let line = PowerOfTwo::from_log2((widest + raw.wider).min(6));
        caches.push(CacheConfig {
            name: format!("c{number}"),
            size: Bytes((u64::from(ways) << raw.sets_log2) * line.bytes()),
            line,
            ways,
            index,
            hashed,
            tag,
            write: if through { WritePolicy::Through } else { WritePolicy::Back },
            allocate,
            replacement,
            writeback_order: WritebackOrder::ALL[usize::from(evict_first)],
            inclusive,
            write_buffer: raw.buffer.filter(|_| through && buffers).map(
                |(entries, drain_cycles, merge, stalls)| WriteBufferConfig {
                    entries,
                    drain_cycles,
                    merge,
                    stalls,
                },
            ),
            streams: raw.streams.map(|(buffers, depth)| StreamConfig { buffers, depth }),
            cost: raw.cost,
            next: next.map_or(Next::Memory, Next::Cache),
        });
    }
    for number in 0..caches.len() {
        let mut at = number;
        while let Next::Cache(next) = caches[at].next {
            at = next;
            if caches[at].inclusive {
                caches[number].streams = None;
            }
        }
    }
    let prefetches = caches.iter().any(|cache| cache.streams.is_some());
    TreeConfig {
        rules: Rules::Lines,
        caches,
        page: power(PAGE),
        fetch,
        data,
        memory_cost: 50,
        cost_rule: if add_costs { CostRule::Add } else { CostRule::Total },
        agents: if prefetches { Agents::USER.with(Agent::Prefetch) } else { Agents::USER },
    }
}

/// Pages in random worlds, and mappings.
pub const PAGES: u32 = 16;
pub const MAPPINGS: u32 = 24;

/// Makes worlds of sixteen pages. The first eight pages are mapped twice.
pub fn world() -> impl Strategy<Value = World> {
    let frames = Just((0..48u64).collect::<Vec<_>>()).prop_shuffle();
    let virtuals = prop::collection::vec(0u64..32, MAPPINGS as usize);
    (frames, virtuals).prop_map(|(frames, virtuals)| World {
        frames: frames[..PAGES as usize].to_vec(),
        mappings: virtuals.iter().enumerate().map(|(m, &vpn)| (m as u32 % PAGES, vpn)).collect(),
    })
}

/// Makes random accesses of the program and, with `injections`, flushes, invalidations and other agents' accesses.
pub fn events(injections: bool) -> impl Strategy<Value = Vec<Event>> {
    let kind = || prop::sample::select(vec![Kind::Fetch, Kind::Load, Kind::Store]);
    let access = (kind(), 0..MAPPINGS, 0..PAGE, 0u64..6).prop_map(|(kind, mapping, offset, instructions)| {
        Event::Access { kind, mapping, offset, instructions }
    });
    let agent = || prop::sample::select(Agent::ALL);
    let injected = prop::sample::select(&Agent::ALL[1..]);
    let flush_page = (agent(), 0..PAGES).prop_map(|(agent, page)| Event::FlushPage { agent, page });
    let ask = (0usize..6, agent(), kind(), 0..MAPPINGS, 0..PAGE)
        .prop_map(|(cache, agent, kind, mapping, offset)| Event::Ask { cache, agent, kind, mapping, offset });
    let data = prop::sample::select(vec![DirtyData::WriteBack, DirtyData::Discard, DirtyData::Clean]);
    let invalidate = (injected, 0..PAGES, 0..PAGE, 1..PAGE, data)
        .prop_map(|(agent, page, first, bytes, data)| Event::Invalidate { agent, page, first, bytes, data });
    let some = u32::from(injections);
    let flush = (agent(), any::<u8>()).prop_map(|(agent, caches)| Event::Flush { agent, caches });
    let event =
        prop_oneof![40 => access, some => flush_page, 8 * some => ask, 2 * some => invalidate, some => flush];
    prop::collection::vec(event, 1..400)
}
