//! A tree of caches: what it is built from, and what follows from that before anything runs.
//!
//! Configurations arrive here checked: the machine parser answers a user's mistake. What is asserted here
//! is what the model cannot live without.

use std::sync::Arc;

use binhop_base::{Agents, Bytes, PowerOfTwo};

use crate::{
    CostRule, IndexBy, Origin, Replacement, Rules, TagBy, WritePolicy, WritebackOrder, cachegrind,
    lines::Lines,
};

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

/// A checked tree with what follows from its configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tree(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: TreeConfig,
    /// For each cache, every cache whose requests reach it, directly or through others.
    above: Vec<Vec<usize>>,
    /// For each cache, whether the caches that ask it name lines by mapping (otherwise by page). The
    /// processor always names a mapping.
    takes_mapping: Vec<bool>,
    in_front: Vec<bool>,
}

impl CacheConfig {
    /// Number of sets.
    #[must_use]
    pub fn sets(&self) -> u64 {
        self.size.0 / (u64::from(self.ways) * self.line.bytes())
    }

    /// The bytes that simulating one such cache takes from the start. What it keeps of each page that was accessed
    /// comes on top: a bit for each line.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        Lines::bytes(self)
    }

    /// Whether a hit on the line of a set that was accessed last leaves everything as it is: see
    /// [`Replacement::rehit_is_neutral`]. With one way there is nothing to remember.
    #[must_use]
    pub fn rehit_is_neutral(&self) -> bool {
        self.ways == 1 || self.replacement.rehit_is_neutral()
    }

    /// Whether it recognises lines by mapping rather than by page.
    pub(crate) fn keyed_by_mapping(&self) -> bool {
        self.tag == TagBy::Asid
    }

    fn assert_sound(&self, page: PowerOfTwo) {
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
        assert!(
            self.replacement != Replacement::Plru || self.ways.is_power_of_two(),
            "{name}: plru needs a power of two of ways"
        );
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

impl Tree {
    /// Takes a checked configuration.
    ///
    /// # Panics
    /// If it is not sound: see the fields of [`CacheConfig`] and [`TreeConfig`]; a cycle of caches, a line
    /// larger than the next cache's, a cache nobody asks, a cache tagged by address space (or indexed
    /// virtually with a physical tag) behind one that knows only pages.
    #[must_use]
    pub fn new(config: TreeConfig) -> Self {
        if config.rules == Rules::Cachegrind {
            cachegrind::assert_sound(&config);
        }
        let caches = &config.caches;
        assert!((1..=255).contains(&caches.len()), "1 to 255 caches");
        for cache in caches {
            cache.assert_sound(config.page);
            if let Next::Cache(next) = cache.next {
                assert!(cache.line <= caches[next].line, "{}: line larger than the next cache's", cache.name);
            }
        }
        let mut above = vec![Vec::new(); caches.len()];
        for sender in 0..caches.len() {
            let mut at = sender;
            while let Next::Cache(next) = caches[at].next {
                assert_ne!(next, sender, "a cycle of caches");
                above[next].push(sender);
                assert!(above[next].len() <= caches.len(), "a cycle of caches");
                at = next;
            }
        }
        let served = |cache: usize| cache == config.fetch || cache == config.data;
        let takes_mapping: Vec<bool> = (0..caches.len())
            .map(|cache| {
                let sends_here = |sender: &CacheConfig| sender.next == Next::Cache(cache);
                assert!(
                    served(cache) || caches.iter().any(sends_here),
                    "{}: nobody asks",
                    caches[cache].name
                );
                !caches.iter().any(|sender| sends_here(sender) && !sender.keyed_by_mapping())
            })
            .collect();
        for (cache, &mapping) in caches.iter().zip(&takes_mapping) {
            let by_page = cache.tag == TagBy::Global || cache.tag == cache_tag_of(cache.index);
            assert!(
                mapping || by_page,
                "{}: needs the address space behind a cache that knows pages",
                cache.name
            );
        }
        let in_front = (0..caches.len())
            .map(|cache| {
                let at_or_above = |c: usize| c == cache || above[c].contains(&cache);
                (0..caches.len()).any(|c| (served(c) || caches[c].inclusive) && at_or_above(c))
            })
            .collect();
        Self(Arc::new(Inner { config, above, takes_mapping, in_front }))
    }

    /// What it was made from.
    #[must_use]
    pub fn config(&self) -> &TreeConfig {
        &self.0.config
    }

    /// Returns whether a cache belongs to the front. The front is the caches that the processor asks, the inclusive
    /// caches, because their evictions reach upwards, and all caches above any of these.
    #[must_use]
    pub fn in_front(&self, cache: usize) -> bool {
        self.0.in_front[cache]
    }

    /// Whether some front cache's set depends on the frame: then a front serves one placement only.
    #[must_use]
    pub fn front_depends_on_placement(&self) -> bool {
        self.front().any(|cache| cache.index == IndexBy::Physical && !self.index_is_inside_page(cache))
    }

    /// Whether some front cache draws random victims: then a front serves one seed only.
    #[must_use]
    pub fn front_depends_on_seed(&self) -> bool {
        self.front().any(|cache| cache.replacement == Replacement::Random && cache.ways > 1)
    }

    /// Whether there is a write buffer: then the time of each request decides counts (stalls), and
    /// requests cannot be recorded without it.
    #[must_use]
    pub fn has_write_buffer(&self) -> bool {
        self.config().caches.iter().any(|cache| cache.write_buffer.is_some())
    }

    /// Whether each request of the front must be answered before its next access: a write buffer stalls, an
    /// inclusive cache takes lines out of those above, or front and back are one loop, as under cachegrind's rules.
    /// Otherwise requests may be recorded and replayed.
    #[must_use]
    pub fn answers_at_once(&self) -> bool {
        self.config().rules == Rules::Cachegrind
            || self.has_write_buffer()
            || self.config().caches.iter().any(|cache| cache.inclusive)
    }

    /// Why the front of another tree is not this one's, asking the same of what stands behind it; `None`: it is, and
    /// one front serves the backs of both.
    #[must_use]
    pub fn front_differs(&self, other: &Self) -> Option<&'static str> {
        let front = |tree: &Self| -> Vec<_> {
            let all = tree.config().caches.iter().enumerate().filter(|&(number, _)| tree.in_front(number));
            all.map(|(number, cache)| (number, cache.clone())).collect()
        };
        let asked = |tree: &Self| -> Vec<_> {
            let behind = |cache: &CacheConfig| match cache.next {
                Next::Cache(next) => Some((tree.config().caches[next].line, tree.takes_mapping(next))),
                Next::Memory => None,
            };
            tree.front().map(behind).collect()
        };
        let rest = |tree: &Self| {
            let config = tree.config();
            (config.rules, config.page, config.fetch, config.data, config.cost_rule)
        };
        if rest(self) != rest(other) || front(self) != front(other) {
            Some("the caches of the front differ, or the rules of counting or of costs")
        } else if asked(self) != asked(other) {
            Some("the front asks for lines of another size")
        } else {
            None
        }
    }

    pub(crate) fn above(&self, cache: usize) -> &[usize] {
        &self.0.above[cache]
    }

    /// The lines of the inclusive caches that this cache's requests reach.
    pub(crate) fn inclusive_behind(&self, cache: usize) -> impl Iterator<Item = PowerOfTwo> {
        let all = self.config().caches.iter().zip(&self.0.above);
        all.filter(move |(behind, above)| behind.inclusive && above.contains(&cache))
            .map(|(behind, _)| behind.line)
    }

    /// Whether those who ask a cache name lines by mapping; otherwise by page. The processor names mappings.
    #[must_use]
    pub fn takes_mapping(&self, cache: usize) -> bool {
        self.0.takes_mapping[cache]
    }

    /// Whether the offset within the page alone chooses the set.
    pub(crate) fn index_is_inside_page(&self, cache: &CacheConfig) -> bool {
        let lines_per_page = self.config().page.bytes() >> cache.line.log2();
        cache.sets() == 1 || (!cache.hashed && cache.sets() <= lines_per_page)
    }

    fn front(&self) -> impl Iterator<Item = &CacheConfig> {
        self.config().caches.iter().enumerate().filter(|&(i, _)| self.in_front(i)).map(|(_, cache)| cache)
    }
}

/// The page-keyed tag that needs no more than a page to be indexed this way.
fn cache_tag_of(index: IndexBy) -> TagBy {
    match index {
        IndexBy::Physical => TagBy::Physical,
        IndexBy::Virtual => TagBy::Global,
    }
}
