//! `Draws` are the random numbers of one fault.

use binhop_base::{Domain, Rng, Stream};

/// The random numbers of one fault: functions of the lane's seed and of the fault's ordinal, so that
/// policies compared under one seed meet equal luck.
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

    /// Those of a wired page: of a stream of their own, by its ordinal among the wired pages.
    pub(crate) fn wired(rng: Rng, ordinal: u64) -> Self {
        Self { rng, domain: Domain::Wired, fault: ordinal }
    }

    /// The ordinal of the fault in its lane, from 0.
    #[must_use]
    pub fn fault(self) -> u64 {
        self.fault
    }

    /// A number below `n` (at least 1). `sub` tells apart the draws of one fault (a level of a tree, say).
    #[inline]
    #[must_use]
    pub fn below(self, sub: u64, n: u64) -> u64 {
        self.rng.below(Stream::new(self.domain, sub), self.fault, n)
    }

    /// 64 fair coins of this fault.
    #[inline]
    #[must_use]
    pub fn coins(self) -> u64 {
        self.rng.draw(Stream::new(self.domain, 0), self.fault)
    }

    /// A number below `n` (at least 1) that belongs to a thing, such as an address space, and stays its own
    /// from fault to fault.
    #[inline]
    #[must_use]
    pub fn of(self, thing: u32, n: u64) -> u64 {
        self.rng.below(Stream::new(Domain::PlacementOf, 0), thing.into(), n)
    }
}
