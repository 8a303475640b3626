//! `BlockRecency` gives each lane in turn the times of last reference at any position in a block.
//!
//! Lanes process a block one after the other, so that each lane's caches stay in the host's cache. All lanes
//! read one table of times. A lane advances the table only when it places a page, and the next lane starts
//! with those changes undone. A lane that places nothing therefore costs nothing here, and never waits for
//! another lane.

use binhop_base::PageId;
use binhop_os::Recency;

use crate::prepare::Control;

/// `BlockRecency` holds the times of last reference that the lanes of one worker share.
#[derive(Debug, Default)]
pub(crate) struct BlockRecency {
    now: Recency,
    /// The number of the block's controls that the table includes.
    reached: usize,
    /// The moment at the start of the block, and the times overwritten since, oldest change first.
    start: u64,
    before: Vec<(PageId, u64)>,
    /// True if another lane processes the block after this lane.
    again: bool,
}

impl BlockRecency {
    /// Starts the block for a lane. `again` tells whether another lane follows.
    pub(crate) fn begin(&mut self, again: bool) {
        if self.before.is_empty() {
            self.start = self.now.moment();
        } else {
            self.now.go_back(self.start, self.before.drain(..).rev());
        }
        self.reached = 0;
        self.again = again;
    }

    /// Returns the times as they are before the control with this number.
    pub(crate) fn at(&mut self, controls: &[(u32, Control)], number: usize) -> &Recency {
        for (_, control) in &controls[self.reached..number] {
            let Control::Recency(changes) = control else { continue };
            for &(page, time) in changes {
                let before = self.now.note(page, time);
                if self.again {
                    self.before.push((page, before));
                }
            }
        }
        self.reached = number;
        &self.now
    }

    /// Ends the block after its last lane.
    pub(crate) fn end(&mut self, controls: &[(u32, Control)]) {
        debug_assert!(!self.again && self.before.is_empty());
        self.at(controls, controls.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_reads_the_times_of_its_own_position() {
        let changes = |changes: &[(u32, u64)]| {
            let of = |&(page, time)| (PageId(page), time);
            (0, Control::Recency(changes.iter().map(of).collect()))
        };
        let first = [
            changes(&[(0, 1), (1, 2)]),
            (0, Control::Evictions),
            changes(&[(0, 3)]),
            changes(&[(0, 5), (2, 6)]),
        ];
        let second = [changes(&[(2, 7)])];
        let mut recency = BlockRecency::default();
        let times = |recency: &Recency| [0, 1, 2].map(|page| recency.last(PageId(page)));
        // The first lane reads at two positions, the second lane never, the third lane at the start and late.
        recency.begin(true);
        assert_eq!(times(recency.at(&first, 2)), [1, 2, 0]);
        assert_eq!(times(recency.at(&first, 4)), [5, 2, 6]);
        recency.begin(true);
        recency.begin(false);
        assert_eq!(times(recency.at(&first, 0)), [0, 0, 0]);
        assert_eq!(times(recency.at(&first, 3)), [3, 2, 0]);
        recency.end(&first);
        recency.begin(false);
        assert_eq!(times(recency.at(&second, 0)), [5, 2, 6]);
        recency.end(&second);
        recency.begin(false);
        assert_eq!(times(recency.at(&[], 0)), [5, 2, 7]);
    }
}
