//! `Happenings` records the lines that one access missed, brought in and removed.

use binhop_base::LineAddr;
use binhop_hw::{MissedLine, RemovalCause, RemovedLine, Witness};

/// `Happenings` records the lines that one access missed, brought in and removed, in all caches.
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

    /// Returns whether no line was missed, and no line came or went.
    pub(super) fn is_empty(&self) -> bool {
        self.missed.is_empty() && self.moved.is_empty()
    }

    /// Returns whether both accesses missed and moved the same lines, and moved each line once. No line that was missed
    /// was evicted.
    pub(super) fn did_the_same_as(&self, other: &Self) -> bool {
        self.moved == other.moved
            && self.missed == other.missed
            && self.moved.iter().enumerate().all(|(place, &(cache, at, how))| {
                let same = |&(of, line): &(usize, LineAddr)| of == cache && line == at;
                let once = self.moved[..place].iter().all(|&(of, line, _)| !same(&(of, line)));
                once && how != Move::Flushed && (how == Move::Filled || !self.missed.iter().any(same))
            })
    }

    /// Returns whether a cache held a line before the access; `None` if the line did not move. A cache holds a line in
    /// one place at most. So if the first move of a line is that it came, the cache did not hold it before.
    pub(super) fn held_before(&self, cache: usize, at: LineAddr) -> Option<bool> {
        let first = self.moved.iter().find(|&&(of, line, _)| of == cache && line == at);
        first.map(|&(_, _, how)| how != Move::Filled)
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
