//! The description of a tree of caches, and what every description must hold.
//!
//! Descriptions arrive here checked: the machine parser answers a user's mistake. What is asserted here is what the
//! model cannot live without.

use binhop_base::{Agents, Bytes, PowerOfTwo};

use crate::{CostRule, IndexBy, Origin, Replacement, Rules, TagBy, WritePolicy, WritebackOrder};

/// Where a cache's requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// To another cache of the tree, with a line no smaller.
    Cache(usize),
    /// To memory.
    Memory,
}

/// A write buffer behind a write-through cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBufferConfig {
    /// How many writes it holds, at least 1.
    pub entries: u32,
    /// Cycles each write takes to drain; they drain one after another.
    pub drain_cycles: u64,
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Its name in the machine file.
    pub name: String,
    /// Bytes of data it holds: sets × ways × line, with sets a power of two.
    pub size: Bytes,
    /// Bytes of a line, at most a page and at most 2 GiB.
    pub line: PowerOfTwo,
    /// Lines in a set. A fully associative cache has size / line.
    pub ways: u32,
    /// Which address chooses the set.
    pub index: IndexBy,
    /// Whether the bits above the set index are folded into it by exclusive or, in pieces of its width.
    pub hashed: bool,
    /// Which address a line is recognised by.
    pub tag: TagBy,
    /// What happens to data that is written.
    pub write: WritePolicy,
    /// Whether a store (or data written from above) that misses brings the line in.
    pub allocate: bool,
    /// Which line of a full set leaves.
    pub replacement: Replacement,
    /// Whether a dirty victim is written back before or after the line is read.
    pub writeback_order: WritebackOrder,
    /// Whether a line that leaves takes with it the lines it covers in all caches above.
    pub inclusive: bool,
    /// The buffer its writes wait in, if it has one (write-through only).
    pub write_buffer: Option<WriteBufferConfig>,
    /// Cycles of a demand access that missed above and is served here. The level the processor asks
    /// serves within the instruction's own cycle.
    pub cost: u64,
    /// Where its requests go.
    pub next: Next,
}

/// A tree of caches with memory at its root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// By what rules references become accesses.
    pub rules: Rules,
    /// The caches, in any order.
    pub caches: Vec<CacheConfig>,
    /// Bytes of a page.
    pub page: PowerOfTwo,
    /// The cache the processor asks for instructions.
    pub fetch: usize,
    /// The cache the processor asks for data; may be the same.
    pub data: usize,
    /// Cycles of a demand access that memory serves.
    pub memory_cost: u64,
    /// How the costs of several levels make one.
    pub cost_rule: CostRule,
    /// Who makes accesses. What an agent other than the user does is counted apart; for those that are not here nothing
    /// is counted, or kept.
    pub agents: Agents,
}

impl CacheConfig {
    /// Number of sets.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.size.0 / (u64::from(self.ways) * self.line.bytes())
    }

    /// Whether a hit on the line of a set that was accessed last leaves everything as it is: see
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

    /// Whether it recognises lines by mapping rather than by page.
    pub(crate) fn keyed_by_mapping(&self) -> bool {
        self.tag == TagBy::Asid
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
    /// Panics unless these are two caches that the processor asks, and one cache behind both, as the rules at the top of
    /// `cache/cachegrind.rs` want them.
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
            assert!(cache.replacement == Replacement::Lru, "{name}: LRU");
            assert!(
                cache.index == IndexBy::Physical && cache.tag == TagBy::Physical,
                "{name}: one kind of address"
            );
        }
    }
}
