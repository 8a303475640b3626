//! The caches of one stage: what front and back have in common.
//!
//! The *front* ([`Front`](crate::Front)) is what every reference touches, the *back* ([`Back`](crate::Back)) what a front
//! lets through. A front that does not depend on the placement is simulated once; its requests are stored and replayed into
//! many backs.

use binhop_base::{Agent, Rng};

use crate::fast::two_phase::Miss;
use crate::{CostRule, Tree, cache::Cache, flow::Flow};

/// The caches of one stage.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    /// By index in the tree; those of the other stage are absent.
    pub(crate) caches: Box<[Option<Cache>]>,
    pub(crate) add_costs: bool,
    /// Room for the misses of some rows, between the two phases that they go through.
    pub(crate) misses: Vec<Miss>,
}

impl Caches {
    pub(crate) fn new(tree: &Tree, front: bool, rng: Rng) -> Self {
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

    pub(crate) fn get(&self, cache: usize) -> &Cache {
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
        pub fn counters(&self, cache: usize) -> &$crate::CacheCounters {
            &self.caches.get(cache).counters
        }

        /// What a cache of this stage holds: for each set, its ways. LRU and FIFO keep the latest (accessed,
        /// arrived) first; the others keep a line in its way.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn contents(&self, cache: usize) -> Vec<Vec<Option<$crate::Resident>>> {
            self.caches.get(cache).contents()
        }

        /// From now on a cache of this stage counts repeated misses by page. Not for a [`DirectMappedFilter`](crate::DirectMappedFilter),
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
        pub fn by_agent(&self, cache: usize) -> &[$crate::AgentCounters] {
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

pub(crate) use cache_views;
