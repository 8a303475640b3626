//! `LruStack` simulates all LRU caches that differ only in their ways in one pass.
//!
//! # Rules
//! - A stack serves the same backs as [`crate::fast::chain`], with one cache before memory and a plain index. The
//!   caches replace the least recently used line, or have one way, for which all policies are the same. Caches of
//!   equal sets and lines share a stack.
//! - LRU has inclusion: a cache of A ways holds the first A positions of each set's stack. A request that finds its
//!   line at position p misses in the caches of fewer than p ways.
//! - A line that is flushed leaves a hole. The hole is a free way in every cache that reaches it. A line that comes
//!   in moves the other lines down only as far as the first hole, or to its own former position. Beyond that position
//!   no line moves, and no line is evicted. A line found behind a hole leaves a hole at its former position.
//! - Each line carries the deepest position it has reached since it was written. Caches of fewer ways have evicted
//!   the line since, and written it back; in the other caches it is dirty. So one number holds the dirty states of
//!   all caches.
//!
//! Source: Mattson et al., "Evaluation techniques for storage hierarchies" (1970); the dirty level after Thompson
//! and Smith, "Efficient (stack) algorithms for analysis of write-back and sector memories" (1989). The holes are
//! binhop's own.
//!
//! # Cost
//! One search of the set serves all caches. The search looks at each position down to the line. A position takes 9 B.

use binhop_base::{Kind, PageId, PerKind, PowerOfTwo, Translation};

use crate::{
    AgentCounters, AgentMemoryCounters, CacheCounters, CostRule, Counted, CountedCaches, MemoryCounters,
    Tree,
    cache::{Cache, Index, is_first},
    fast::{MOST_STACKED, lru_stack},
    request::{MEMORY, Request, is_data},
};

/// The key of a hole: a place without a line.
const HOLE: u64 = u64::MAX;
/// The level of a line that no cache has dirty.
const CLEAN: u8 = u8::MAX;
/// `LruStackShape` holds the properties that caches must have in common to share a stack, besides the front before
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LruStackShape {
    cache: usize,
    sets: u64,
    line: PowerOfTwo,
    page: PowerOfTwo,
    by_frame: bool,
}

impl LruStackShape {
    /// Returns the shape of a tree that allows [`FastPath::LruStack`](crate::FastPath).
    ///
    /// # Errors
    /// The reason why a stack cannot simulate the tree's back.
    pub fn of(tree: &Tree) -> Result<Self, &'static str> {
        let config = tree.config();
        let number = lru_stack(tree)?;
        let cache = &config.caches[number];
        let by_frame = Cache::index_of(tree, number) == Index::Frame;
        Ok(Self { cache: number, sets: cache.sets(), line: cache.line, page: config.page, by_frame })
    }

    /// Returns the bytes that a stack for caches of up to `ways` ways allocates: a key and a byte for each line.
    #[must_use]
    pub fn bytes(&self, ways: u32) -> u64 {
        self.sets.saturating_mul(u64::from(ways)).saturating_mul(size_of::<u64>() as u64 + 1)
    }
}

/// `ByPosition` counts one event by position in the stack, from 1. The last count covers all deeper positions.
type ByPosition = Vec<u64>;

/// `LruStack` holds the stacks of all sets, and the counts by depth.
#[derive(Clone, Debug)]
pub struct LruStack {
    shape: LruStackShape,
    log2: u32,
    ways: usize,
    /// For each set, the most recently used first.
    keys: Vec<u64>,
    /// For each line, the fewest ways of a cache that has it dirty.
    levels: Vec<u8>,
    touched: Vec<u64>,
    accesses: PerKind<u64>,
    compulsory: PerKind<u64>,
    /// Requests that went past this cache to memory.
    passed: PerKind<u64>,
    /// For each position, the requests of each kind that found their line there.
    found: Vec<PerKind<u64>>,
    /// For each position, the requests with data smaller than the line that found their line there. A cache that does
    /// not reach the position reads the rest of the line.
    found_in_part: ByPosition,
    /// For each position, how often it was the first position whose line did not move when a line came in. Caches
    /// that reach this position evicted nothing then.
    stayed: ByPosition,
    /// For each number of ways, the dirty lines that left the cache with this number of ways.
    written_back: ByPosition,
    /// For each number of ways, the writes to a line that was dirty in the caches with at least this number of ways.
    was_dirty: ByPosition,
    /// The flushed lines by position, and by the fewest ways of a cache in which they were dirty.
    purged: ByPosition,
    purged_dirty: ByPosition,
}

impl LruStack {
    /// Makes an empty stack for caches of up to `ways` ways.
    ///
    /// # Panics
    /// The number of ways is 0, or larger than a stack keeps.
    #[must_use]
    pub fn new(shape: LruStackShape, ways: u32) -> Self {
        assert!((1..=MOST_STACKED).contains(&ways), "{ways} ways");
        let ways = ways as usize;
        let positions = shape.sets as usize * ways;
        let by_position = || vec![0; ways + 2];
        Self {
            shape,
            log2: shape.page.log2() - shape.line.log2(),
            ways,
            keys: vec![HOLE; positions],
            levels: vec![CLEAN; positions],
            touched: Vec::new(),
            accesses: PerKind::default(),
            compulsory: PerKind::default(),
            passed: PerKind::default(),
            found: vec![PerKind::default(); ways + 2],
            found_in_part: by_position(),
            stayed: by_position(),
            written_back: by_position(),
            was_dirty: by_position(),
            purged: by_position(),
            purged_dirty: by_position(),
        }
    }

    fn set<T: Translation>(&self, page: PageId, line: u32, translation: &T) -> usize {
        let upper = if self.shape.by_frame { translation.frame(page).0 } else { 0 };
        let set = (upper << self.log2 | u64::from(line)) & (self.shape.sets - 1);
        set as usize * self.ways
    }

    /// Replays requests that a front let through.
    pub fn replay<T: Translation>(&mut self, requests: &[Request], translation: &T) {
        for &request in requests {
            let kind = request.kind;
            if request.to == MEMORY {
                self.passed[kind] += 1;
                continue;
            }
            let key = u64::from(request.at.id) << self.log2 | u64::from(request.at.line);
            let start = self.set(PageId(request.at.id), request.at.line, translation);
            let is_data = is_data(kind);
            let position = self.bring_up(start, key, is_data);
            self.accesses[kind] += 1;
            self.found[position][kind] += 1;
            if is_data && u32::from(request.data) != self.shape.line.log2() {
                self.found_in_part[position] += 1;
            }
            if position > self.ways && is_first(&mut self.touched, key) {
                self.compulsory[kind] += 1;
            }
        }
    }

    /// Adds accesses that were proved to find their line at the top of its set, and to change nothing.
    pub fn add_hits(&mut self, hits: &PerKind<u64>) {
        self.accesses += *hits;
        self.found[1] += *hits;
    }

    /// Brings a line to the top of its set. Returns the position, from 1, at which the line was found, or the position
    /// behind the last if the line was absent.
    fn bring_up(&mut self, start: usize, key: u64, is_data: bool) -> usize {
        let (keys, levels) = (&mut self.keys[start..][..self.ways], &mut self.levels[start..][..self.ways]);
        let deeper = self.ways + 1;
        let mut hole = deeper;
        let mut position = 1;
        while position < deeper && keys[position - 1] != key {
            if keys[position - 1] == HOLE && hole == deeper {
                hole = position;
            }
            position += 1;
        }
        let found = position < deeper;
        let old_level = if found { levels[position - 1] } else { CLEAN };
        let stays = hole.min(position);
        if found && hole < position {
            (keys[position - 1], levels[position - 1]) = (HOLE, CLEAN);
        }
        // The position `stays` held a hole, the line itself, or nothing. The line above it overwrites it.
        for from in (1..stays).rev() {
            let mut level = levels[from - 1];
            if usize::from(level) == from {
                self.written_back[from] += 1;
                level += 1;
            }
            if from < self.ways {
                (keys[from], levels[from]) = (keys[from - 1], level);
            }
        }
        self.stayed[stays] += 1;
        (keys[0], levels[0]) = (key, old_level);
        if is_data {
            self.was_dirty[usize::from(old_level).min(deeper)] += 1;
            levels[0] = 1;
        }
        position
    }

    /// Flushes a page whose frame changes hands: see [`Front::flush_page`](crate::Front::flush_page).
    pub fn flush_page<T: Translation>(&mut self, page: PageId, translation: &T) {
        for line in 0..1 << self.log2 {
            let start = self.set(page, line, translation);
            let key = u64::from(page.0) << self.log2 | u64::from(line);
            let keys = &mut self.keys[start..][..self.ways];
            let Some(at) = keys.iter().position(|&other| other == key) else { continue };
            keys[at] = HOLE;
            let level = std::mem::replace(&mut self.levels[start + at], CLEAN);
            self.purged[at + 1] += 1;
            self.purged_dirty[usize::from(level).min(self.ways + 1)] += 1;
        }
    }

    /// Returns the demand misses of the cache of `ways` ways, as [`LruStack::member`] does, without the other counts.
    ///
    /// # Panics
    /// The stack keeps fewer than `ways` ways.
    #[must_use]
    pub fn demand_misses(&self, ways: u32) -> u64 {
        self.found[ways as usize + 1..=self.ways + 1].iter().map(PerKind::demand).sum()
    }

    /// Returns what the cache of `ways` ways has counted.
    ///
    /// # Panics
    /// The stack keeps fewer than `ways` ways.
    #[must_use]
    pub fn member(&self, ways: u32, tree: &Tree) -> Member<'_> {
        let ways = ways as usize;
        assert!((1..=self.ways).contains(&ways), "a stack of {} ways asked for {ways}", self.ways);
        let deeper = |counts: &ByPosition| counts[ways + 1..].iter().sum::<u64>();
        let within = |counts: &ByPosition| counts[..=ways].iter().sum::<u64>();
        let mut misses = PerKind::default();
        for found in &self.found[ways + 1..] {
            misses += *found;
        }
        let (written_back, purged_dirty) = (self.written_back[ways], within(&self.purged_dirty));
        let mut sent = misses;
        (sent[Kind::Write], sent[Kind::Writeback]) = (0, written_back);
        sent[Kind::Fill] += deeper(&self.found_in_part);
        let mut to_memory = sent;
        to_memory += self.passed;
        sent[Kind::System] += purged_dirty;
        to_memory[Kind::System] += purged_dirty;
        let counters = CacheCounters {
            accesses: self.accesses,
            misses,
            compulsory: self.compulsory,
            sent,
            fills: misses.total(),
            evictions: deeper(&self.stayed),
            evictions_dirty: written_back,
            purged: within(&self.purged),
            purged_dirty,
            dirtied: deeper(&self.was_dirty),
            // No cache of a stack is inclusive, or has a write buffer.
            invalidated: 0,
            invalidated_dirty: 0,
            stream_hits: 0,
            merges: 0,
            stalls: 0,
            stall_cycles: 0,
        };
        let memory = MemoryCounters { accesses: to_memory };
        let config = tree.config();
        let cache = self.shape.cache;
        let add = config.cost_rule == CostRule::Add;
        let waited =
            counters.waited(config.caches[cache].cost, add) + memory.accesses.demand() * config.memory_cost;
        Member { stack: self, ways, counters, memory, waited }
    }

    /// Returns how many lines the cache of `ways` ways holds, and how many of them are dirty.
    fn resident(&self, ways: usize) -> (u64, u64) {
        let (mut resident, mut dirty) = (0, 0);
        for (keys, levels) in self.keys.chunks(self.ways).zip(self.levels.chunks(self.ways)) {
            for (&key, &level) in keys.iter().zip(levels).take(ways) {
                resident += u64::from(key != HOLE);
                dirty += u64::from(key != HOLE && usize::from(level) <= ways);
            }
        }
        (resident, dirty)
    }
}

/// `Member` holds the counts of one cache of a stack, as if the cache had been simulated alone.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    stack: &'a LruStack,
    ways: usize,
    counters: CacheCounters,
    memory: MemoryCounters,
    waited: u64,
}

impl Member<'_> {
    /// Returns the cycles that the processor waited for this cache and the memory behind it.
    #[must_use]
    pub fn waited(&self) -> u64 {
        self.waited
    }
}

impl CountedCaches for Member<'_> {
    fn counters(&self, cache: usize) -> &CacheCounters {
        assert_eq!(cache, self.stack.shape.cache, "the only cache of its stage");
        &self.counters
    }

    fn by_agent(&self, _cache: usize) -> &[AgentCounters] {
        &[]
    }

    fn resident(&self, _cache: usize) -> (u64, u64) {
        self.stack.resident(self.ways)
    }
}

impl Counted for Member<'_> {
    fn memory_by_agent(&self) -> &[AgentMemoryCounters] {
        &[]
    }

    fn memory(&self) -> &MemoryCounters {
        &self.memory
    }
}
