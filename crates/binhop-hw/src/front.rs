//! `Front` simulates the caches that the processor asks, and what they depend on: every reference touches it.

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, Rng, Translation};

use crate::{
    Access, AgentCounters, CacheCounters, CountedCaches, FastPath, FastPaths, Invalidation, LaneBits, Tree,
    cache::{
        lines::Storage,
        stage::{Caches, stage_queries},
    },
    fast::two_phase::{Miss, access_all, access_each},
    request::Below,
};

/// The caches the processor asks, the inclusive caches, and all caches above these: see [`Tree::in_front`].
#[derive(Clone, Debug)]
pub struct Front {
    pub(crate) caches: Caches,
    /// The caches asked for instructions and for data.
    pub(crate) serving: [usize; 2],
    tree: Tree,
    /// True if the front takes [`FastPath::TwoPhase`].
    two_phase: bool,
    /// True if the front takes [`FastPath::TwoLevels`].
    pub(crate) two_levels: bool,
    /// Room for the misses of some rows, between the two phases that they go through.
    misses: Vec<Miss>,
}

impl Front {
    /// The front of a tree, empty.
    #[must_use]
    pub fn new(tree: &Tree, rng: Rng) -> Self {
        Self::with(tree, rng, &FastPath::of(tree))
    }

    /// The front of a tree, empty, that takes no fast paths besides `paths`.
    #[must_use]
    pub fn with(tree: &Tree, rng: Rng, paths: &FastPaths) -> Self {
        let allowed = FastPath::of(tree);
        let [two_phase, two_levels] =
            [FastPath::TwoPhase, FastPath::TwoLevels].map(|path| paths.takes(path) && allowed.takes(path));
        Self { two_phase, two_levels, ..Self::stored(tree, rng, Storage::Dense) }
    }

    /// Returns a front that holds, and has counted, what level 1 in bits holds and has counted in one lane. From now
    /// on, the lane is simulated by itself. The new front takes no fast paths besides `paths`.
    #[must_use]
    pub fn split_off(bits: &LaneBits, lane: usize, tree: &Tree, rng: Rng, paths: &FastPaths) -> Self {
        let mut split = Self::with(tree, rng, paths);
        for number in bits.front_caches() {
            bits.restore_front(lane, number, split.caches.get_mut(number));
        }
        split
    }

    /// Returns level 1 of so many lanes that have shared this front up to now. In each lane it has the lines and the
    /// counts of the front. Each lane simulates its backs, which are those of `trees`: see [`LaneBits::requests`].
    ///
    /// # Panics
    /// There is no tree, no lane, or there are more than [`MOST_LANES`](crate::MOST_LANES) lanes. A tree does not allow
    /// [`FastPath::FrontBits`].
    #[must_use]
    pub fn in_bits(&self, trees: &[&Tree], lanes: usize) -> LaneBits {
        LaneBits::after_shared_front(|number| self.caches.get(number), trees, lanes)
    }

    /// The front of a tree, empty, that takes no fast paths.
    fn stored(tree: &Tree, rng: Rng, storage: Storage) -> Self {
        let serving = [tree.config().fetch, tree.config().data];
        let caches = Caches::new(tree, true, rng, storage);
        let (two_phase, two_levels) = (false, false);
        Self { caches, serving, tree: tree.clone(), two_phase, two_levels, misses: Vec::new() }
    }

    /// The front of a tree, empty, that takes memory for the lines that it holds: the sets of a larger cache are
    /// allocated in chunks, when a line first comes to one of them. No cache counts compulsory misses: they stay 0. A
    /// cache that counts them keeps a bit for each line of each page that it was ever asked for. The front takes no
    /// fast paths.
    #[must_use]
    pub fn sparse(tree: &Tree, rng: Rng) -> Self {
        Self::stored(tree, rng, Storage::Sparse)
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

    /// [`Front::access`] without counting the access. A miss is counted, and all that follows from it. The caller
    /// counts the accesses of a whole block at once with [`Front::add_hits`]: a counter in memory that every access
    /// increments costs as much as the access.
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
        self.caches.access(cache, kind, at, now, translation, below)
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
        self.caches.transaction(agent, translation, below).ask(cache, kind, at, !serves, now)
    }

    /// The tree whose front this is.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The processor makes the accesses of `rows` in order, each at the cache that serves its kind; returns the
    /// cycles the processor waits for all. The result is the same as that of [`Front::access`] for each row, and
    /// comes faster where the front takes [`FastPath::TwoPhase`]. The tree must have no write buffers: their stalls
    /// depend on the cycle at which each access is made.
    #[must_use = "the processor waits so many cycles"]
    pub fn access_all<A: Access, T: Translation, B: Below>(
        &mut self,
        rows: &[A],
        translation: &T,
        below: &mut B,
    ) -> u64 {
        if self.two_phase {
            access_all(&mut self.caches, &mut self.misses, self.serving, rows, translation, below)
        } else {
            access_each(&mut self.caches, self.serving, rows, translation, below)
        }
    }

    /// Returns whether a cache holds a line that the processor may ask it for, named as in [`Front::access`]. Nothing
    /// changes, and nothing is counted.
    #[must_use]
    pub fn holds<T: Translation>(&self, cache: usize, at: LineAddr, translation: &T) -> bool {
        self.caches.get(cache).holds(at, translation)
    }

    /// Counts accesses that [`Front::access_uncounted`] made, and accesses that the caller proved to be hits which
    /// change nothing. Such a hit finds the line that was accessed last in its set and has been hit since it came:
    /// SRRIP remembers whether a line was hit. A store also needs a write-back cache in which the line is dirty
    /// already.
    #[inline]
    pub fn add_hits(&mut self, cache: usize, kind: Kind, hits: u64) {
        self.caches.get_mut(cache).counters.add_hits(kind, hits);
    }

    /// Lines leave the caches of the front. Call [`Back::invalidate`](crate::Back::invalidate) next.
    pub fn invalidate<T: Translation, B: Below>(
        &mut self,
        agent: Agent,
        what: &Invalidation<'_>,
        now: u64,
        translation: &T,
        below: &mut B,
    ) {
        self.caches.transaction(agent, translation, below).invalidate(what, now);
    }

    /// All lines leave the named caches of the front, and the caches above a named inclusive cache. Call
    /// [`Back::flush`](crate::Back::flush) next.
    pub fn flush<T: Translation, B: Below>(
        &mut self,
        agent: Agent,
        caches: &[usize],
        now: u64,
        translation: &T,
        below: &mut B,
    ) {
        let mut transaction = self.caches.transaction(agent, translation, below);
        caches.iter().for_each(|&cache| transaction.flush(cache, now));
    }

    /// The frame of a page changes hands, because the user's program asks for another page: the lines of the page
    /// leave. Call this while the translation still answers the old frame, with every mapping that has led to the
    /// page since its last flush. Call [`Back::flush_page`](crate::Back::flush_page) next.
    pub fn flush_page<T: Translation, B: Below>(
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

    stage_queries!();
}

impl CountedCaches for Front {
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
