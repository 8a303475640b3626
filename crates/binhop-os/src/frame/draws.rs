//! `Draws` are the random numbers of one fault.

use binhop_base::{Domain, Rng, Stream};

/// `Draws` are functions of the lane's seed and of the fault's ordinal, so that policies that are compared
/// under one seed get equal draws.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    rng: Rng,
    domain: Domain,
    fault: u64,
}

impl Draws {
    pub(crate) fn new(rng: Rng, fault: u64) -> Self {
        Self { rng, domain: Domain::Placement, fault }
    }

    /// Makes the draws of a wired page. Wired pages have a stream of their own, and are numbered in it.
    pub(crate) fn wired(rng: Rng, ordinal: u64) -> Self {
        Self { rng, domain: Domain::Wired, fault: ordinal }
    }

    /// Returns the draws of a later fault.
    pub(crate) fn later(self, faults: u64) -> Self {
        Self { fault: self.fault + faults, ..self }
    }

    /// Returns the ordinal of the fault in its lane, from 0.
    #[must_use]
    pub fn fault(self) -> u64 {
        self.fault
    }

    /// Draws a number below `n` (at least 1). `sub` tells the draws of one fault apart, such as the levels of
    /// a tree.
    #[inline]
    #[must_use]
    pub fn below(self, sub: u64, n: u64) -> u64 {
        self.rng.below(Stream::new(self.domain, sub), self.fault, n)
    }

    /// Draws 64 fair coins.
    #[inline]
    #[must_use]
    pub fn coins(self) -> u64 {
        self.rng.draw(Stream::new(self.domain, 0), self.fault)
    }

    /// Draws a number below `n` (at least 1) for a thing, such as an address space. The number is the same at
    /// every fault.
    #[inline]
    #[must_use]
    pub fn of(self, thing: u32, n: u64) -> u64 {
        self.rng.below(Stream::new(Domain::PlacementOf, 0), thing.into(), n)
    }
}
