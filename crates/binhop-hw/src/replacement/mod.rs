//! Replacement: which line of a full set leaves. One file per policy.
//!
//! Rules they share
//! - A line that comes takes the lowest empty way; only a full set has a victim.
//! - Every access that finds its line, of whatever kind, is a hit to the policy.
//! - With one way there is nothing to choose, and all policies are the same.

mod fifo;
mod lru;
mod plru;
mod random;
mod srrip;

pub(crate) use fifo::Fifo;
pub(crate) use lru::Lru;
pub(crate) use plru::Plru;
pub(crate) use random::Random;
pub(crate) use srrip::Srrip;

use crate::Replacement;

/// The ways of one set, as [`crate::cache::lines`] stores them. A policy may reorder them; it never looks inside.
pub(crate) type Ways = [u64];

/// A replacement policy with its state for all sets of a cache.
pub(crate) trait Policy {
    /// Whether a hit on the line of a set that was accessed last, by its fill or by another hit, leaves everything as it
    /// is: the policy's state and the order of the ways. Where it does, such hits need not be simulated.
    const REHIT_IS_NEUTRAL: bool;

    /// Whether it keeps the empty ways of a set behind all others.
    const EMPTY_WAYS_ARE_LAST: bool = false;

    /// The line at `way` was accessed.
    fn hit(&mut self, ways: &mut Ways, set: usize, way: usize);

    /// A line has just been put at `way`.
    fn filled(&mut self, ways: &mut Ways, set: usize, way: usize);

    /// The way whose line leaves. The set is full.
    fn victim(&mut self, ways: &Ways, set: usize) -> usize;

    /// The line at `way` was removed; the way is empty.
    fn removed(&mut self, ways: &mut Ways, set: usize, way: usize);
}

/// Up to this many ways (where their number is known to the compiler) work is done on all of them rather
/// than up to a point that no branch predictor knows.
pub(crate) const FEW: usize = 8;

/// Moves the line at `way` to the front; those before it move up by one.
#[inline(always)]
fn move_to_front(ways: &mut Ways, way: usize) {
    if way == 0 {
        return;
    }
    if ways.len() <= FEW {
        let line = ways[way];
        for to in (1..ways.len()).rev() {
            ways[to] = if to <= way { ways[to - 1] } else { ways[to] };
        }
        ways[0] = line;
        return;
    }
    // A chain of swaps: for the ways of a set it beats the `memmove` that a rotation becomes.
    let mut carried = ways[way];
    for slot in &mut ways[..=way] {
        core::mem::swap(slot, &mut carried);
    }
}

/// Moves the way to the end; those behind it move down by one.
fn move_to_back(ways: &mut Ways, way: usize) {
    ways[way..].rotate_left(1);
}

impl Replacement {
    /// Whether a hit on the line of a set that was accessed last, by its fill or by another hit, leaves everything as it
    /// is, so that it need not be simulated.
    #[must_use]
    pub const fn rehit_is_neutral(self) -> bool {
        match self {
            Self::Lru => Lru::REHIT_IS_NEUTRAL,
            Self::Fifo => Fifo::REHIT_IS_NEUTRAL,
            Self::Random => Random::REHIT_IS_NEUTRAL,
            Self::Plru => Plru::REHIT_IS_NEUTRAL,
            Self::Srrip => Srrip::REHIT_IS_NEUTRAL,
        }
    }
}
