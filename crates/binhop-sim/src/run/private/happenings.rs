//! `Happenings` are what a witness hears of one access.

use binhop_base::LineAddr;
use binhop_hw::{MissedLine, RemovalCause, RemovedLine, Witness};

/// `Happenings` are what a witness hears of one access.
#[derive(Debug, Default)]
pub(super) struct Happenings {
    pub(super) missed: Vec<(usize, LineAddr)>,
    /// The lines that came and went, in order.
    pub(super) moved: Vec<(usize, LineAddr, Move)>,
    pub(super) stalled: u64,
}

/// `Move` says how a line moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Filled,
    Evicted,
    Flushed,
}

impl Happenings {
    pub(super) fn clear(&mut self) {
        self.missed.clear();
        self.moved.clear();
        self.stalled = 0;
    }
}

impl Witness for Happenings {
    #[inline]
    fn missed(&mut self, line: MissedLine) {
        self.missed.push((line.cache, line.at));
    }

    #[inline]
    fn filled(&mut self, cache: usize, at: LineAddr) {
        self.moved.push((cache, at, Move::Filled));
    }

    #[inline]
    fn removed(&mut self, line: RemovedLine) {
        let how = if line.cause == RemovalCause::Flushed { Move::Flushed } else { Move::Evicted };
        self.moved.push((line.cache, line.at, how));
    }

    #[inline]
    fn stalled(&mut self, cycles: u64) {
        self.stalled += cycles;
    }
}
