//! `TreeConfig` describes a tree of caches. This file also asserts what every description must hold.
//!
//! The machine parser checks a description first, and reports a user's mistakes. The assertions of this file cover
//! what the model itself requires.

use binhop_base::{Agents, Bytes, PowerOfTwo};

use crate::{CostRule, IndexBy, Origin, Replacement, Rules, TagBy, WritePolicy, WritebackOrder};

/// `Next` is the level to which a cache's requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another cache of the tree, whose lines are at least as large.
    Cache(usize),
    /// Memory.
    Memory,
}

/// `WriteBufferConfig` describes a write buffer behind a write-through cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBufferConfig {
    /// The number of writes that the buffer holds, at least 1.
    pub entries: u32,
    /// The cycles that each write takes to drain. Writes drain one after another.
    pub drain_cycles: u64,
    /// True if a write joins a write to the same line whose drain has not begun.
    pub merge: bool,
    /// False if the processor never waits for room. Then the buffer has no effect.
    pub stalls: bool,
}

/// `StreamConfig` describes the stream buffers of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConfig {
    /// The number of buffers, at least 1.
    pub buffers: u32,
    /// The lines that each buffer holds, at least 1.
    pub depth: u32,
}

/// `CacheConfig` describes one cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The name of the cache in the machine file.
    pub name: String,
    /// The bytes of data that the cache holds: sets × ways × line. The number of sets is a power of two.
    pub size: Bytes,
    /// The bytes of a line: at most a page and at most 2 GiB.
    pub line: PowerOfTwo,
    /// The number of lines in a set. In a fully associative cache it is size / line.
    pub ways: u32,
    /// The address that chooses the set.
    pub index: IndexBy,
    /// True if the bits above the set index are folded into it by exclusive or, in pieces of its width.
    pub hashed: bool,
    /// The address by which a line is recognised.
    pub tag: TagBy,
    /// The treatment of data that is written.
    pub write: WritePolicy,
    /// True if a store (or data written from above) that misses brings the line in.
    pub allocate: bool,
    /// The rule that chooses the line of a full set that leaves.
    pub replacement: Replacement,
    /// The order in which a dirty victim is written back and the line is read.
    pub writeback_order: WritebackOrder,
    /// True if the eviction of a line also invalidates the lines that it covers in all caches above.
    pub inclusive: bool,
    /// The buffer in which the cache's writes wait, if there is a buffer (write-through only).
    pub write_buffer: Option<WriteBufferConfig>,
    /// The buffers that fetch lines ahead for the cache, if there are any. No inclusive cache stands behind such a
    /// cache.
    pub streams: Option<StreamConfig>,
    /// Cycles of a demand access that missed above and that this cache serves. The level that the processor asks serves
    /// within the instruction's own cycle.
    pub cost: u64,
    /// The level to which the cache's requests go.
    pub next: Next,
}

/// `TreeConfig` describes a tree of caches with memory at its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// The rules by which references become accesses.
    pub rules: Rules,
    /// The caches, in any order.
    pub caches: Vec<CacheConfig>,
    /// Bytes of a page.
    pub page: PowerOfTwo,
    /// The cache that the processor asks for instructions.
    pub fetch: usize,
    /// The cache that the processor asks for data. It may also serve instructions.
    pub data: usize,
    /// Cycles of a demand access that memory serves.
    pub memory_cost: u64,
    /// The rule that joins the costs of several levels.
    pub cost_rule: CostRule,
    /// The agents that make accesses. The accesses of each agent other than the user are counted apart. Nothing is
    /// counted or kept for an agent that is absent.
    pub agents: Agents,
}

impl CacheConfig {
    /// Returns the number of sets.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.size.0 / (u64::from(self.ways) * self.line.bytes())
    }

    /// Returns whether a hit on the line that was accessed last in its set leaves everything as it is: see
    /// [`Replacement::rehit_is_neutral`]. With one way there is nothing to remember.
    #[must_use]
    pub fn rehit_is_neutral(&self) -> bool {
        self.ways == 1 || self.replacement.rehit_is_neutral()
    }

    /// Returns whether the cache's victims depend on the seed. With one way there is nothing to draw.
    #[must_use]
    pub fn draws(&self) -> bool {
        self.ways > 1 && self.replacement.draws()
    }

    /// Returns whether the cache recognises lines by mapping rather than by page. Whoever makes accesses names a global
    /// address by one mapping.
    #[must_use]
    pub fn keyed_by_mapping(&self) -> bool {
        self.tag != TagBy::Physical
    }

    pub(crate) fn assert_sound(&self, page: PowerOfTwo) {
        let name = &self.name;
        assert!(self.ways >= 1, "{name}: at least one way");
        assert_eq!(
            self.size.0,
            self.sets() * u64::from(self.ways) * self.line.bytes(),
            "{name}: size = sets × ways × line"
        );
        assert!(self.sets().is_power_of_two(), "{name}: sets must be a power of two");
        assert!(self.line <= page, "{name}: line larger than a page");
        assert!(self.line.log2() <= Origin::LONGEST, "{name}: line longer than 2 GiB");
        assert!(page.log2() - self.line.log2() <= 30, "{name}: more than 2^30 lines in a page");
        let refused = self.replacement.refuses(self.ways);
        assert!(refused.is_none(), "{name}: {}", refused.unwrap_or_default());
        assert!(
            self.tag != TagBy::Global || self.index == IndexBy::Virtual,
            "{name}: a global tag goes with a virtual index"
        );
        if let Some(streams) = self.streams {
            assert!(streams.buffers >= 1 && streams.depth >= 1, "{name}: a stream buffer holds a line");
        }
        if let Some(buffer) = self.write_buffer {
            assert!(buffer.entries >= 1, "{name}: a write buffer has at least one entry");
            assert_eq!(
                self.write,
                WritePolicy::Through,
                "{name}: a write buffer stands behind write-through"
            );
        }
    }
}

impl TreeConfig {
    /// Returns whether a cache has virtual tags, so that a physical address does not find its lines.
    #[must_use]
    pub fn has_virtual_tags(&self) -> bool {
        self.caches.iter().any(|cache| cache.tag != TagBy::Physical)
    }

    /// Panics unless the tree is two caches that the processor asks, and one cache behind both, as the rules at the top
    /// of `cache/cachegrind.rs` require.
    pub(crate) fn assert_fits_cachegrind(&self) {
        let (fetch, data) = (&self.caches[self.fetch], &self.caches[self.data]);
        let apart = self.fetch != self.data && self.caches.len() == 3;
        let Next::Cache(last) = fetch.next else {
            panic!("cachegrind's rules: a level stands behind the first")
        };
        let one_behind = fetch.next == data.next && self.caches[last].next == Next::Memory;
        assert!(apart && one_behind, "cachegrind's rules: two caches of the first level, one behind both");
        assert!(self.agents == Agents::USER, "cachegrind's rules: the program alone makes accesses");
        for cache in &self.caches {
            let name = &cache.name;
            assert!(cache.write == WritePolicy::Back && cache.allocate, "{name}: a store brings its line in");
            assert!(!cache.inclusive && !cache.hashed, "{name}: neither inclusive nor hashed");
            assert!(cache.streams.is_none(), "{name}: nothing is prefetched");
            assert!(cache.replacement == Replacement::Lru, "{name}: LRU");
            assert!(
                cache.index == IndexBy::Physical && cache.tag == TagBy::Physical,
                "{name}: one kind of address"
            );
        }
    }
}

#[cfg(test)]
impl CacheConfig {
    /// Returns a write-back cache before memory, for tests of one cache.
    pub(crate) fn of_tests(size: u64, line: u64, ways: u32, replacement: Replacement) -> Self {
        Self {
            name: "c".into(),
            size: Bytes(size),
            line: PowerOfTwo::new(Bytes(line)).expect("a power of two"),
            ways,
            index: IndexBy::Physical,
            hashed: false,
            tag: TagBy::Physical,
            write: WritePolicy::Back,
            allocate: true,
            replacement,
            writeback_order: WritebackOrder::AfterFill,
            inclusive: false,
            write_buffer: None,
            streams: None,
            cost: 0,
            next: Next::Memory,
        }
    }
}
