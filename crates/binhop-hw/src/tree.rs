//! `Tree` is a tree of caches with what follows from its description before anything runs.

use std::sync::Arc;

use binhop_base::{Agent, PowerOfTwo};

use crate::{CacheConfig, IndexBy, Next, Rules, TagBy, TreeConfig};

/// `Tree` is a checked tree with what follows from its configuration. It is cheap to clone.
#[derive(Clone, Debug)]
pub struct Tree(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: TreeConfig,
    /// For each cache, every cache whose requests reach it, directly or through others.
    above: Vec<Vec<usize>>,
    /// For each cache, true if the caches that ask it name lines by mapping, false if they name lines by page. The
    /// processor always names a mapping.
    takes_mapping: Vec<bool>,
    in_front: Vec<bool>,
}

impl Tree {
    /// Makes a tree from a checked configuration.
    ///
    /// # Panics
    /// The configuration is not sound. The fields of [`CacheConfig`] and [`TreeConfig`] have their rules. The tree
    /// must have no cycle of caches, no line larger than the next cache's, and no cache that nobody asks. A cache
    /// with a virtual tag, or indexed virtually with a physical tag, must not stand behind a cache that knows
    /// only pages.
    #[must_use]
    pub fn new(config: TreeConfig) -> Self {
        if config.rules == Rules::Cachegrind {
            config.assert_fits_cachegrind();
        }
        let caches = &config.caches;
        assert!((1..=255).contains(&caches.len()), "1 to 255 caches");
        for cache in caches {
            cache.assert_sound(config.page);
            if let Next::Cache(next) = cache.next {
                assert!(cache.line <= caches[next].line, "{}: line larger than the next cache's", cache.name);
            }
        }
        let has_streams = caches.iter().any(|cache| cache.streams.is_some());
        assert!(!has_streams || config.agents.contains(Agent::Prefetch), "stream buffers prefetch");
        let mut above = vec![Vec::new(); caches.len()];
        for sender in 0..caches.len() {
            let mut at = sender;
            while let Next::Cache(next) = caches[at].next {
                assert_ne!(next, sender, "the caches form a cycle");
                above[next].push(sender);
                assert!(above[next].len() <= caches.len(), "the caches form a cycle");
                at = next;
            }
        }
        for (behind, above) in caches.iter().zip(&above).filter(|(behind, _)| behind.inclusive) {
            let streams = above.iter().any(|&cache| caches[cache].streams.is_some());
            assert!(!streams, "{}: an inclusive cache has no stream buffers above it", behind.name);
        }
        let served = |cache: usize| cache == config.fetch || cache == config.data;
        let takes_mapping: Vec<bool> = (0..caches.len())
            .map(|cache| {
                let sends_here = |sender: &CacheConfig| sender.next == Next::Cache(cache);
                assert!(
                    served(cache) || caches.iter().any(sends_here),
                    "{}: no cache asks it, and it does not serve the processor",
                    caches[cache].name
                );
                !caches.iter().any(|sender| sends_here(sender) && !sender.keyed_by_mapping())
            })
            .collect();
        for (cache, &mapping) in caches.iter().zip(&takes_mapping) {
            let by_page = cache.index == IndexBy::Physical && cache.tag == TagBy::Physical;
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

    /// Returns the configuration from which the tree was made.
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

    /// Returns whether some front cache's set depends on the frame. Then a front serves one placement only.
    #[must_use]
    pub fn front_depends_on_placement(&self) -> bool {
        self.front().any(|cache| self.index_depends_on_frame(cache))
    }

    /// Returns whether some cache's set depends on the frame. Otherwise all placements lead to the same hits and
    /// misses, as long as no page is evicted.
    #[must_use]
    pub fn depends_on_placement(&self) -> bool {
        self.config().caches.iter().any(|cache| self.index_depends_on_frame(cache))
    }

    /// Returns whether some cache draws random victims.
    #[must_use]
    pub fn depends_on_seed(&self) -> bool {
        self.config().caches.iter().any(CacheConfig::draws)
    }

    /// Returns whether some front cache draws random victims. Then a front serves one seed only.
    #[must_use]
    pub fn front_depends_on_seed(&self) -> bool {
        self.front().any(CacheConfig::draws)
    }

    /// Returns whether some front cache has stream buffers.
    #[must_use]
    pub fn front_has_streams(&self) -> bool {
        self.front().any(|cache| cache.streams.is_some())
    }

    /// Returns whether there is a write buffer for which the processor may wait. Then stalls depend on the cycle of
    /// each request, and requests cannot be recorded without their cycles.
    #[must_use]
    pub fn has_write_buffer(&self) -> bool {
        self.config().caches.iter().any(|cache| cache.write_buffer.is_some_and(|buffer| buffer.stalls))
    }

    /// Returns whether each request of the front must be answered before the front's next access. That is so where a
    /// write buffer stalls, where an inclusive cache invalidates lines above it, and under cachegrind's rules, where
    /// front and back are one loop. Otherwise requests may be recorded and replayed.
    #[must_use]
    pub fn answers_at_once(&self) -> bool {
        self.config().rules == Rules::Cachegrind
            || self.has_write_buffer()
            || self.config().caches.iter().any(|cache| cache.inclusive)
    }

    /// Returns why one front cannot serve the backs of this tree and of another; `None` if it can. Both fronts must
    /// be equal, and must make the same requests of the levels behind them.
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
            (config.rules, config.page, config.fetch, config.data, config.cost_rule, config.agents)
        };
        if rest(self) != rest(other) || front(self) != front(other) {
            Some("the caches of the front differ, or the rules of counting or of costs, or the agents")
        } else if asked(self) != asked(other) {
            Some("the front asks for lines of another size")
        } else {
            None
        }
    }

    pub(crate) fn above(&self, cache: usize) -> &[usize] {
        &self.0.above[cache]
    }

    /// Returns the line sizes of the inclusive caches that this cache's requests reach.
    pub(crate) fn inclusive_behind(&self, cache: usize) -> impl Iterator<Item = PowerOfTwo> {
        let all = self.config().caches.iter().zip(&self.0.above);
        all.filter(move |(behind, above)| behind.inclusive && above.contains(&cache))
            .map(|(behind, _)| behind.line)
    }

    /// Returns whether the processor or the caches that ask a cache name lines by mapping. Otherwise they name lines
    /// by page.
    #[must_use]
    pub fn takes_mapping(&self, cache: usize) -> bool {
        self.0.takes_mapping[cache]
    }

    /// Returns whether the offset within the page alone chooses the set.
    #[must_use]
    pub fn index_is_inside_page(&self, cache: &CacheConfig) -> bool {
        let lines_per_page = self.config().page.bytes() >> cache.line.log2();
        cache.sets() == 1 || (!cache.hashed && cache.sets() <= lines_per_page)
    }

    /// Returns the number of places at which a cache may hold lines with one number within their pages.
    #[must_use]
    pub fn places_of_line_number(&self, cache: &CacheConfig) -> u64 {
        let lines_per_page = self.config().page.bytes() >> cache.line.log2();
        let sets = if cache.hashed { cache.sets() } else { (cache.sets() / lines_per_page).max(1) };
        sets * u64::from(cache.ways)
    }

    fn index_depends_on_frame(&self, cache: &CacheConfig) -> bool {
        cache.index == IndexBy::Physical && !self.index_is_inside_page(cache)
    }

    fn front(&self) -> impl Iterator<Item = &CacheConfig> {
        self.config().caches.iter().enumerate().filter(|&(i, _)| self.in_front(i)).map(|(_, cache)| cache)
    }
}
