//! `Computer` is the general path through the caches: it makes one access at a time, and answers each of them.
//!
//! `Computer` joins a front, a back and the processor's clock. It takes every tree and every agent, and the tests
//! compare it with the oracle. Every fast path through the same caches must leave the counts and contents that
//! `Computer` leaves.

use core::borrow::BorrowMut;

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, Result, Rng, Translation};

use crate::{
    Access, AgentCounters, Answer, Back, CacheCounters, Front, Invalidation, Level, Origin, Resident, Rules,
    SparseBytes, Tree, TwoLevels, Witness,
    cache::{Cache, cachegrind},
    witness::pass_on_lines,
};

/// `Computer` holds a front and a back with the processor's clock. It owns its front and back, or borrows them.
#[derive(Clone, Debug)]
pub struct Computer<F = Front, B = Back> {
    /// The front: the caches that the processor asks, and the caches that [`Tree::in_front`] adds.
    pub front: F,
    /// The caches behind the front, and memory.
    pub back: B,
    /// The cycles since the start. The caller adds the cycles of its instructions.
    pub now: u64,
}

/// `FirstServed` keeps the first level that served an access, and passes everything on to another witness.
struct FirstServed<'a, W> {
    served: Option<Level>,
    witness: &'a mut W,
}

impl<W: Witness> Witness for FirstServed<'_, W> {
    fn served(&mut self, by: Level) {
        self.served.get_or_insert(by);
        self.witness.served(by);
    }

    pass_on_lines!();
}

impl Computer {
    /// Makes the whole of a tree, empty, at cycle 0.
    #[must_use]
    pub fn new(tree: &Tree, rng: Rng) -> Self {
        Self::over(Front::new(tree, rng), Back::new(tree, rng), 0)
    }

    /// Makes the whole of a tree, empty, at cycle 0. It takes memory for the lines that it holds: see
    /// [`Front::sparse`].
    #[must_use]
    pub fn sparse(tree: &Tree, rng: Rng) -> Self {
        Self::over(Front::sparse(tree, rng), Back::sparse(tree, rng), 0)
    }

    /// Returns the bytes that [`Computer::sparse`] takes.
    #[must_use]
    pub fn sparse_bytes(tree: &Tree) -> SparseBytes {
        let config = tree.config();
        // Both stages have a place for every cache.
        let places = 2 * config.caches.len() * size_of::<Option<Cache>>();
        let start = SparseBytes { fixed: (size_of::<Self>() + places) as u64, ..SparseBytes::default() };
        let of = config.caches.iter().map(|cache| cache.sparse_bytes(config.page));
        of.fold(start, |sum, of| SparseBytes {
            fixed: sum.fixed.saturating_add(of.fixed),
            page: sum.page.saturating_add(of.page),
            most: sum.most.saturating_add(of.most),
        })
    }
}

impl<F: BorrowMut<Front>, B: BorrowMut<Back>> Computer<F, B> {
    /// Joins a front and a back of one tree, at cycle `now`.
    #[must_use]
    pub fn over(front: F, back: B, now: u64) -> Self {
        Self { front, back, now }
    }

    /// Returns the caches and the clock for accesses of the same results that cost less, if the front takes
    /// [`FastPath::TwoLevels`](crate::FastPath::TwoLevels). The caller sets the computer's clock to the clock of
    /// [`TwoLevels`] when the accesses are made. A back that is tapped takes the general path, because a request that
    /// is kept has its own cycle.
    pub fn two_levels(&mut self) -> Option<TwoLevels<'_>> {
        let (front, back) = (self.front.borrow_mut(), self.back.borrow_mut());
        (front.two_levels && back.memory.tap.is_none()).then_some(TwoLevels {
            serving: front.serving,
            front: &mut front.caches.caches,
            add_costs: back.caches.add_costs,
            back: &mut back.caches.caches,
            memory: &mut back.memory,
            now: self.now,
        })
    }

    /// Makes an access of an agent to the cache that serves the processor's accesses of this kind (fetch, load or
    /// store). `at` names a mapping, and counts lines of that cache. The clock moves on if the processor waits for
    /// the agent.
    #[inline]
    pub fn access<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &T,
        witness: &mut W,
    ) -> Answer {
        let front = self.front.borrow();
        let cache = front.serving[usize::from(kind != Kind::Fetch)];
        if agent == Agent::User {
            return self.access_of_user(cache, kind, at, translation, witness);
        }
        // A cache that is also asked by another cache may know lines by page.
        let at = match front.tree().takes_mapping(cache) {
            true => at,
            false => LineAddr { id: translation.page(MappingId(at.id)).0, ..at },
        };
        self.ask(cache, agent, kind, at, translation, witness)
    }

    /// Makes an access of the program to a cache that serves it.
    #[inline]
    fn access_of_user<T: Translation, W: Witness>(
        &mut self,
        cache: usize,
        kind: Kind,
        at: LineAddr,
        translation: &T,
        witness: &mut W,
    ) -> Answer {
        let mut witness = FirstServed { served: None, witness };
        let (front, back, now) = (self.front.borrow_mut(), self.back.borrow_mut(), self.now);
        let mut below = back.bind_witnessed(translation, &mut witness);
        let cycles = front.access(cache, kind, at, now, translation, &mut below);
        let served = witness.served.unwrap_or(Level::Cache(cache));
        self.answer(Agent::User, cycles, served)
    }

    /// Asks any cache of the tree for a line on behalf of an agent: one fetch, load or store there, as if the cache
    /// were the first level. `at` names the line as the caches above that cache do ([`Tree::takes_mapping`]). At a
    /// cache that does not serve the processor, the access costs what an access from above costs there.
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses, or the user asks a cache that does not serve it.
    pub fn ask<T: Translation, W: Witness>(
        &mut self,
        cache: usize,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &T,
        witness: &mut W,
    ) -> Answer {
        if agent == Agent::User {
            let serves = self.front.borrow().serving.contains(&cache);
            assert!(serves, "the user asks the caches that serve it");
            return self.access_of_user(cache, kind, at, translation, witness);
        }
        let mut witness = FirstServed { served: None, witness };
        let (front, back, now) = (self.front.borrow_mut(), self.back.borrow_mut(), self.now);
        let cycles = if !front.has(cache) {
            back.ask(cache, agent, kind, at, now, translation, &mut witness)
        } else {
            let mut below = back.bind_witnessed(translation, &mut witness);
            front.ask(cache, agent, kind, at, now, translation, &mut below)
        };
        let served = witness.served.unwrap_or(Level::Cache(cache));
        self.answer(agent, cycles, served)
    }

    /// Asks memory itself on behalf of an agent other than the user. The agent reads (fetch, load) or writes
    /// (write) a line of 2^`unit` bytes of a page. No cache is looked at.
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses, or memory is never asked for this kind.
    pub fn ask_memory(&mut self, agent: Agent, kind: Kind, at: LineAddr, unit: u8) -> Answer {
        let cycles = self.back.borrow_mut().ask_memory(kind, at, Origin::new(agent, unit), self.now);
        self.answer(agent, cycles, Level::Memory)
    }

    fn answer(&mut self, agent: Agent, cycles: u64, served: Level) -> Answer {
        if agent.is_waited_for() {
            self.now += cycles;
        }
        Answer { cycles, served }
    }

    /// Makes these accesses of the processor in order, and returns the cycles waited. Before each access the
    /// instructions of its gap pass, at one cycle each. Without gaps no time passes besides the cycles waited.
    ///
    /// The result is the same as that of [`Computer::access`] for each row. Only the sum of the cycles is returned,
    /// so that a front may take its fast path. Under cachegrind's rules one access may take two rows.
    ///
    /// # Panics
    /// There are gaps, but fewer or more than rows.
    #[must_use = "the processor waited so many cycles"]
    pub fn run<A: Access, T: Translation>(&mut self, rows: &[A], gaps: &[u64], translation: &T) -> u64 {
        let (front, back) = (self.front.borrow_mut(), self.back.borrow_mut());
        if front.tree().config().rules == Rules::Cachegrind {
            let waited = back.waiting(|back| {
                cachegrind::refer_all(&mut front.caches, front.serving, back.only(), rows, translation);
            });
            self.now += waited;
            return waited;
        }
        let mut below = back.bind(translation);
        if gaps.is_empty() {
            let waited = front.access_all(rows, translation, &mut below);
            self.now += waited;
            return waited;
        }
        assert_eq!(rows.len(), gaps.len(), "each row has its gap");
        let (serving, mut waited) = (front.serving, 0);
        for (row, &gap) in rows.iter().zip(gaps) {
            self.now += gap;
            let kind = row.kind();
            let cache = serving[usize::from(kind != Kind::Fetch)];
            let waits = front.access(cache, kind, row.at(), self.now, translation, &mut below);
            self.now += waits;
            waited += waits;
        }
        waited
    }

    /// Removes lines from every cache. No time passes. Call this while the translation still answers the frame that the
    /// page had when its lines came.
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses, or the user discards data.
    pub fn invalidate<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        what: &Invalidation<'_>,
        translation: &T,
        witness: &mut W,
    ) {
        let (front, back, now) = (self.front.borrow_mut(), self.back.borrow_mut(), self.now);
        front.invalidate(agent, what, now, translation, &mut back.bind_witnessed(translation, witness));
        back.invalidate(agent, what, now, translation, witness);
    }

    /// Removes all lines from the named caches, and from the caches above a named inclusive cache. No time passes.
    ///
    /// # Panics
    /// The tree does not say that this agent makes accesses.
    pub fn flush<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        caches: &[usize],
        translation: &T,
        witness: &mut W,
    ) {
        let (front, back, now) = (self.front.borrow_mut(), self.back.borrow_mut(), self.now);
        front.flush(agent, caches, now, translation, &mut back.bind_witnessed(translation, witness));
        back.flush(agent, caches, now, translation, witness);
    }

    /// Flushes a page whose frame changes hands, because an agent asks for another page. The lines of the page
    /// leave every cache, and dirty lines go to memory. `mappings` holds every mapping that has led to the page
    /// since its last flush.
    pub fn flush_page<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        page: PageId,
        mappings: &[MappingId],
        translation: &T,
        witness: &mut W,
    ) {
        let size = self.front.borrow().tree().config().page;
        self.invalidate(agent, &Invalidation::of_page(page, mappings, size), translation, witness);
    }

    /// Returns what a cache has counted since the start.
    #[must_use]
    pub fn counters(&self, cache: usize) -> &CacheCounters {
        let (front, back) = (self.front.borrow(), self.back.borrow());
        if front.has(cache) { front.counters(cache) } else { back.counters(cache) }
    }

    /// Returns what a cache has counted of each agent other than the user, in the tree's order of agents.
    #[must_use]
    pub fn by_agent(&self, cache: usize) -> &[AgentCounters] {
        let (front, back) = (self.front.borrow(), self.back.borrow());
        if front.has(cache) { front.by_agent(cache) } else { back.by_agent(cache) }
    }

    /// Returns what a cache holds: see [`Front::contents`].
    #[must_use]
    pub fn contents(&self, cache: usize) -> Vec<Vec<Option<Resident>>> {
        let (front, back) = (self.front.borrow(), self.back.borrow());
        if front.has(cache) { front.contents(cache) } else { back.contents(cache) }
    }

    /// Returns whether a cache holds a line that is named as in [`RemovedLine::at`](crate::RemovedLine::at). Nothing
    /// changes, and nothing is counted.
    #[must_use]
    pub fn holds_line<T: Translation>(&self, cache: usize, at: LineAddr, translation: &T) -> bool {
        let (front, back) = (self.front.borrow(), self.back.borrow());
        if front.has(cache) {
            front.holds_line(cache, at, translation)
        } else {
            back.holds_line(cache, at, translation)
        }
    }

    /// Returns whether a line is dirty; `None` if the cache does not hold the line. The line is named as in
    /// [`Computer::holds_line`].
    #[must_use]
    pub fn line_state<T: Translation>(&self, cache: usize, at: LineAddr, translation: &T) -> Option<bool> {
        let (front, back) = (self.front.borrow(), self.back.borrow());
        if front.has(cache) {
            front.line_state(cache, at, translation)
        } else {
            back.line_state(cache, at, translation)
        }
    }

    /// Checks that the invariants hold: see [`crate::check`].
    ///
    /// # Errors
    /// An invariant does not hold: the problem names the invariant.
    pub fn check(&self) -> Result<()> {
        let front = self.front.borrow();
        crate::check(front.tree(), front, self.back.borrow())
    }
}
