//! The general path through the caches: one access at a time, with its answer.
//!
//! `Computer` joins a front, a back and the processor's clock. It takes every tree and every agent, and it is what the
//! oracle is compared with. Every faster way through the same caches must leave what it would have left.

use core::borrow::BorrowMut;
use std::ops::Range;

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, Result, Rng, Translation};

use crate::{Access, Back, CacheCounters, Front, Left, Level, Resident, Rules, Tree, Witness};

/// What becomes of the data of dirty lines that are taken out of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyData {
    /// It goes to memory, as accesses of kind `system`.
    WriteBack,
    /// Nobody wants it: the same bytes are being overwritten in memory. A line that also holds other bytes is written
    /// back all the same.
    Discard,
}

/// What an access comes back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Cycles until the access is done, beyond the instruction's own. The processor waits for them if the agent is one
    /// that is waited for.
    pub cycles: u64,
    /// The level that held the line: see *Served by* at the top of `flow.rs`.
    pub served: Level,
}

/// Front and back with the processor's clock. The two are its own, or borrowed from whoever keeps them apart.
#[derive(Clone, Debug)]
pub struct Computer<F = Front, B = Back> {
    /// The caches the processor asks.
    pub front: F,
    /// What is behind them.
    pub back: B,
    /// Cycles since the start: the caller adds those of its instructions.
    pub now: u64,
}

/// Keeps the first word on who served, and passes on what left.
struct FirstServed<'a, W> {
    served: Option<Level>,
    witness: &'a mut W,
}

impl<W: Witness> Witness for FirstServed<'_, W> {
    fn served(&mut self, by: Level) {
        self.served.get_or_insert(by);
        self.witness.served(by);
    }

    fn left(&mut self, line: Left) {
        self.witness.left(line);
    }
}

impl Computer {
    /// The whole of a tree, empty, at cycle 0.
    #[must_use]
    pub fn new(tree: &Tree, rng: Rng) -> Self {
        Self::over(Front::new(tree, rng), Back::new(tree, rng), 0)
    }
}

impl<F: BorrowMut<Front>, B: BorrowMut<Back>> Computer<F, B> {
    /// A front and a back of one tree, at cycle `now`.
    #[must_use]
    pub fn over(front: F, back: B, now: u64) -> Self {
        Self { front, back, now }
    }

    /// An agent asks the cache that serves this kind (fetch, load or store) for the processor. `at` names a mapping, and
    /// counts lines of that cache. The clock moves on if the processor waits for the agent.
    #[inline]
    pub fn access<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &T,
        witness: &mut W,
    ) -> Answer {
        let cache = self.front.borrow().serving[usize::from(kind != Kind::Fetch)];
        let mut witness = FirstServed { served: None, witness };
        let (front, back) = (self.front.borrow_mut(), self.back.borrow_mut());
        let mut below = back.bind_witnessed(translation, &mut witness);
        let cycles = front.access(cache, kind, at, self.now, translation, &mut below);
        self.answer(agent, cycles, witness.served.unwrap_or(Level::Cache(cache)))
    }

    /// An agent asks any cache of the tree for a line: one fetch, load or store there, as if it were the first level. `at`
    /// names the line as the caches above this one do: by page, or by mapping where all of them know mappings. A cache
    /// that does not serve the processor costs what it costs an access from above.
    pub fn ask<T: Translation, W: Witness>(
        &mut self,
        cache: usize,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &T,
        witness: &mut W,
    ) -> Answer {
        let mut witness = FirstServed { served: None, witness };
        let (front, back) = (self.front.borrow_mut(), self.back.borrow_mut());
        let cycles = if front.has(cache) {
            let mut below = back.bind_witnessed(translation, &mut witness);
            front.ask(cache, kind, at, self.now, translation, &mut below)
        } else {
            back.ask(cache, kind, at, self.now, translation, &mut witness)
        };
        self.answer(agent, cycles, witness.served.unwrap_or(Level::Cache(cache)))
    }

    fn answer(&mut self, agent: Agent, cycles: u64, served: Level) -> Answer {
        if agent.is_waited_for() {
            self.now += cycles;
        }
        Answer { cycles, served }
    }

    /// The processor makes these accesses in order. Before each pass the instructions of `gaps`, at one cycle each; without
    /// gaps no time passes but what the accesses wait for. Returns the cycles waited.
    ///
    /// The result is that of [`Computer::access`] one by one; nobody is told more than the sum, so that fronts with a
    /// faster way take it. Under cachegrind's rules one access may take two rows.
    ///
    /// # Panics
    /// There are gaps, but not one for each row.
    #[must_use = "the processor waited so many cycles"]
    pub fn run<A: Access, T: Translation>(&mut self, rows: &[A], gaps: &[u64], translation: &T) -> u64 {
        let (front, back) = (self.front.borrow_mut(), self.back.borrow_mut());
        if front.tree().config().rules == Rules::Cachegrind {
            let waited = front.refer_all(back, rows, translation);
            self.now += waited;
            return waited;
        }
        let mut below = back.bind(translation);
        if gaps.is_empty() {
            let waited = front.access_all(rows, translation, &mut below);
            self.now += waited;
            return waited;
        }
        assert_eq!(rows.len(), gaps.len(), "one gap before each row");
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

    /// The frame of a page changes hands: its lines leave every cache, dirty ones go to memory. Call it while the
    /// translation still answers the old frame, with every mapping that has led to the page since its last purge.
    pub fn purge<T: Translation, W: Witness>(
        &mut self,
        page: PageId,
        mappings: &[MappingId],
        translation: &T,
        witness: &mut W,
    ) {
        let bytes = 0..self.front.borrow().tree().config().page.bytes();
        self.invalidate(page, mappings, bytes, DirtyData::WriteBack, translation, witness);
    }

    /// The lines that hold any of these bytes of a page leave every cache, without a cycle. `mappings`: every mapping that
    /// has led to the page since its last purge.
    pub fn invalidate<T: Translation, W: Witness>(
        &mut self,
        page: PageId,
        mappings: &[MappingId],
        bytes: Range<u64>,
        data: DirtyData,
        translation: &T,
        witness: &mut W,
    ) {
        let (front, back) = (self.front.borrow_mut(), self.back.borrow_mut());
        let mut below = back.bind_witnessed(translation, witness);
        front.invalidate(page, mappings, &bytes, data, self.now, translation, &mut below);
        back.invalidate(page, mappings, &bytes, data, self.now, translation, witness);
    }

    /// What a cache has counted since the start.
    #[must_use]
    pub fn counters(&self, cache: usize) -> &CacheCounters {
        let (front, back) = (self.front.borrow(), self.back.borrow());
        if front.has(cache) { front.counters(cache) } else { back.counters(cache) }
    }

    /// What a cache holds: see [`Front::contents`].
    #[must_use]
    pub fn contents(&self, cache: usize) -> Vec<Vec<Option<Resident>>> {
        let (front, back) = (self.front.borrow(), self.back.borrow());
        if front.has(cache) { front.contents(cache) } else { back.contents(cache) }
    }

    /// Whether the laws hold: see [`crate::check`].
    ///
    /// # Errors
    /// The law that is broken.
    pub fn check(&self) -> Result<()> {
        let front = self.front.borrow();
        crate::check(front.tree(), front, self.back.borrow())
    }
}
