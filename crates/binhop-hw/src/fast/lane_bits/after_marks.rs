//! `MissesAfterMarks` counts the misses of a cache apart for each part of a stream between two marks.
//!
//! A mark is a point of the stream at which the misses of every lane are read. Accesses wait for their turn, sorted by
//! line, and accesses from both sides of a mark wait together. So the misses after each mark are counted apart, and
//! what a lane had missed up to a mark is what it has missed so far without them.

use super::{By, Mask, counter::LaneCounter};

/// The most marks that are passed before their counts are read: each takes a counter in every cache. Tests pass few
/// marks.
pub const MOST_MARKS: usize = if cfg!(debug_assertions) { 3 } else { 256 };

/// `Part` is a part of the stream: 0 before the first mark, then the number of marks passed.
pub(super) type Part = u16;

/// `MissesAfterMarks` counts in every lane the demand misses of one cache after each mark, up to the next mark.
#[derive(Clone, Debug, Default)]
pub(super) struct MissesAfterMarks {
    /// For each mark. Nobody asks for the misses before the first mark.
    counters: Vec<LaneCounter>,
    /// The number of marks that were passed.
    passed: usize,
    /// True if the misses of the agent other than the user count, too.
    agent_counts: bool,
}

impl MissesAfterMarks {
    pub(super) fn new(agent_counts: bool) -> Self {
        Self { agent_counts, ..Self::default() }
    }

    /// Returns the bytes that the counters of one cache take at most.
    pub(super) const fn bytes() -> u64 {
        MOST_MARKS as u64 * LaneCounter::BYTES
    }

    /// Passes a mark.
    pub(super) fn pass(&mut self) {
        assert!(
            self.passed < MOST_MARKS,
            "the counts of {MOST_MARKS} marks are read before another mark is passed"
        );
        self.passed += 1;
        if self.counters.len() < self.passed {
            self.counters.reserve_exact(MOST_MARKS - self.counters.len());
            self.counters.push(LaneCounter::default());
        }
    }

    /// Counts a demand miss of some lanes in a part of the stream after a mark.
    #[inline(always)]
    pub(super) fn count(&mut self, part: Part, by: By, lanes: Mask) {
        if self.agent_counts || by.agent() == 0 {
            self.counters[usize::from(part) - 1].add(lanes);
        }
    }

    /// Fills `at_marks` with the misses of a lane up to each mark. The demand misses of the user and of the other agent
    /// up to now are given.
    pub(super) fn at_marks(&self, lane: usize, [user, agent]: [u64; 2], at_marks: &mut [u64]) {
        assert_eq!(at_marks.len(), self.passed, "every mark has a place");
        let mut misses = user + if self.agent_counts { agent } else { 0 };
        for (at_mark, after) in at_marks.iter_mut().zip(&self.counters).rev() {
            misses -= after.get(lane);
            *at_mark = misses;
        }
    }

    /// Forgets the marks.
    pub(super) fn forget(&mut self) {
        self.counters[..self.passed].iter_mut().for_each(LaneCounter::clear);
        self.passed = 0;
    }
}
