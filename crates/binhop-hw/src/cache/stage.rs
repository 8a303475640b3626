//! `Caches` holds the caches of one stage: of a front or of a back.
//!
//! Every reference touches the *front* ([`Front`](crate::Front)). The *back* ([`Back`](crate::Back)) handles the
//! requests of a front. A front that does not depend on the placement is simulated once; its requests are stored and
//! replayed into many backs.

use binhop_base::{Agent, Kind, LineAddr, Rng, Translation};

use super::{
    Cache,
    access::{Transaction, cache},
    lines::Storage,
};
use crate::{CostRule, Tree, request::Below};

/// `Caches` holds the caches of one stage.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    /// The caches by index in the tree. The caches of the other stage are absent.
    pub(crate) caches: Box<[Option<Cache>]>,
    pub(crate) add_costs: bool,
}

impl Caches {
    pub(crate) fn new(tree: &Tree, front: bool, rng: Rng, storage: Storage) -> Self {
        let build = |number| (tree.in_front(number) == front).then(|| Cache::new(tree, number, rng, storage));
        Self {
            caches: (0..tree.config().caches.len()).map(build).collect(),
            add_costs: tree.config().cost_rule == CostRule::Add,
        }
    }

    /// Begins a transaction of an agent in the caches of this stage.
    #[inline(always)]
    pub(crate) fn transaction<'a, T, B>(
        &'a mut self,
        agent: Agent,
        translation: &'a T,
        below: &'a mut B,
    ) -> Transaction<'a, T, B> {
        Transaction {
            caches: &mut self.caches,
            translation,
            below,
            agent,
            add_costs: self.add_costs,
            made_at: 0,
        }
    }

    /// Returns the cache `number` of the tree, which must belong to this stage.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, number: usize) -> &mut Cache {
        cache(&mut self.caches, number)
    }

    /// Makes an access of the user's program to a cache. The caller counts the access, because it can count a block of
    /// accesses at once. Every reference runs through this function, and a hit ends in it. A transaction is built only
    /// for the few accesses that miss or pass data down.
    #[inline(always)]
    pub(crate) fn access<T: Translation, B: Below>(
        &mut self,
        number: usize,
        kind: Kind,
        at: LineAddr,
        now: u64,
        translation: &T,
        below: &mut B,
    ) -> u64 {
        debug_assert!(matches!(kind, Kind::Fetch | Kind::Load | Kind::Store));
        let asked = self.get_mut(number);
        let place = asked.place_of_mapping(at, translation);
        // The conditions have no short circuits. A branch on the cache's policy can be predicted, and a branch on
        // the kind of access cannot.
        let store = kind == Kind::Store;
        let touched = asked.lines.touch_hot(place.set, place.key, store & asked.write_back);
        if touched == Some(true) {
            asked.counters.dirtied += 1;
        }
        if touched.is_some() & !(store & !asked.write_back) {
            return 0;
        }
        let mut transaction = self.transaction(Agent::User, translation, below);
        transaction.finish_access(number, kind, place, touched.is_some(), 0, now)
    }

    /// Returns a cache of the tree, which must belong to this stage.
    pub(crate) fn get(&self, cache: usize) -> &Cache {
        self.caches[cache].as_ref().expect("the cache belongs to this stage")
    }
}

macro_rules! stage_queries {
    () => {
        /// Returns whether a cache of the tree belongs to this stage.
        #[must_use]
        pub fn has(&self, cache: usize) -> bool {
            self.caches.caches.get(cache).is_some_and(Option::is_some)
        }

        /// Returns what a cache of this stage has counted since the start.
        ///
        /// # Panics
        /// The cache belongs to the other stage: see [`Tree::in_front`].
        #[inline]
        #[must_use]
        pub fn counters(&self, cache: usize) -> &$crate::CacheCounters {
            &self.caches.get(cache).counters
        }

        /// Returns what a cache of this stage holds: for each set, its ways. LRU orders the lines by last access
        /// and FIFO by arrival, the latest first. The other policies keep a line in its way.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn contents(&self, cache: usize) -> Vec<Vec<Option<$crate::Resident>>> {
            self.caches.get(cache).contents()
        }

        /// Returns whether a cache of this stage holds a line, which is named as in
        /// [`RemovedLine::at`]($crate::RemovedLine::at). Nothing changes, and nothing is counted.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn holds_line<T: Translation>(&self, cache: usize, at: LineAddr, translation: &T) -> bool {
            self.caches.get(cache).holds_line(at, translation)
        }

        /// Returns whether a stream buffer of a cache of this stage holds a line, which is named as in
        /// [`RemovedLine::at`]($crate::RemovedLine::at). Nothing changes, and nothing is counted.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn buffers_line(&self, cache: usize, at: LineAddr) -> bool {
            self.caches.get(cache).streams.as_ref().is_some_and(|streams| streams.hold(at))
        }

        /// Returns whether a line is dirty; `None` if the cache does not hold the line. The line is named as in
        /// [`RemovedLine::at`](crate::RemovedLine::at). Nothing changes, and nothing is counted.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn line_state<T: Translation>(
            &self,
            cache: usize,
            at: LineAddr,
            translation: &T,
        ) -> Option<bool> {
            self.caches.get(cache).line_state(at, translation)
        }

        /// Returns every line that a cache of this stage holds and that has this number within its page, and whether
        /// the line is dirty. A line is named as in [`RemovedLine::at`](crate::RemovedLine::at). The search looks at
        /// [`Tree::places_of_line_number`](crate::Tree::places_of_line_number) places. Nothing changes.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        pub fn lines_with_number(
            &self,
            cache: usize,
            line: u32,
        ) -> impl Iterator<Item = (LineAddr, bool)> + '_ {
            self.caches.get(cache).lines_with_number(line)
        }

        /// Lets a cache of this stage count repeated misses by page from now on. A back behind a
        /// [`DirectMappedFilter`](crate::DirectMappedFilter) cannot be watched: its replay does not see single
        /// misses.
        ///
        /// # Panics
        /// The cache belongs to the other stage, or does not count compulsory misses.
        pub fn watch(&mut self, cache: usize) {
            let cache = self.caches.get_mut(cache);
            assert!(cache.counts_compulsory, "a cache without compulsory misses cannot tell a repeated miss");
            cache.repeats = Some(Vec::new());
        }

        /// Returns the demand misses since [`watch`](Self::watch) on lines that were in the cache before, by page.
        /// Pages beyond the end had no such misses.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn repeats(&self, cache: usize) -> &[u64] {
            self.caches.get(cache).repeats.as_deref().unwrap_or_default()
        }

        /// Returns what a cache of this stage has counted of each agent other than the user, in the tree's order of
        /// agents.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn by_agent(&self, cache: usize) -> &[$crate::AgentCounters] {
            &self.caches.get(cache).by_agent
        }

        /// Returns how many lines a cache of this stage holds, and how many of them are dirty.
        ///
        /// # Panics
        /// The cache belongs to the other stage.
        #[must_use]
        pub fn resident(&self, cache: usize) -> (u64, u64) {
            self.caches.get(cache).resident()
        }
    };
}

pub(crate) use stage_queries;
