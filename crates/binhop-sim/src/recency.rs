//! `BlockRecency` tells every lane in turn when pages were last referenced, as of any position in a block.
//!
//! Lanes go through a block one after the other, so that each finds its caches near, and all of them read one table of
//! times. A lane moves the table on only when it places a page, and what it changed is taken back for the next lane: a
//! lane that places nothing costs nothing here, and never waits for a lane that does.

use binhop_base::PageId;
use binhop_os::Recency;

use crate::prepare::Control;

/// The times of last reference that the lanes of one worker share.
#[derive(Debug, Default)]
pub(crate) struct BlockRecency {
    now: Recency,
    /// Controls of the block whose news are in the table.
    reached: usize,
    /// Times that stood in the table where the block begins, oldest change first.
    before: Vec<(PageId, u64)>,
    /// Whether a further lane goes through the block.
    again: bool,
}

impl BlockRecency {
    /// A lane begins the block. `again`: another lane follows.
    pub(crate) fn begin(&mut self, again: bool) {
        for (page, time) in self.before.drain(..).rev() {
            self.now.replace(page, time);
        }
        self.reached = 0;
        self.again = again;
    }

    /// The times as they are before the control with this number.
    pub(crate) fn at(&mut self, controls: &[(u32, Control)], number: usize) -> &Recency {
        for (_, control) in &controls[self.reached..number] {
            let Control::Recency(news) = control else { continue };
            for &(page, time) in news {
                let before = self.now.replace(page, time);
                if self.again {
                    self.before.push((page, before));
                }
            }
        }
        self.reached = number;
        &self.now
    }

    /// The last lane is through the block.
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
        let news = |news: &[(u32, u64)]| {
            let of = |&(page, time)| (PageId(page), time);
            (0, Control::Recency(news.iter().map(of).collect()))
        };
        let first =
            [news(&[(0, 1), (1, 2)]), (0, Control::Evictions), news(&[(0, 3)]), news(&[(0, 5), (2, 6)])];
        let second = [news(&[(2, 7)])];
        let mut recency = BlockRecency::default();
        let times = |recency: &Recency| [0, 1, 2].map(|page| recency.last(PageId(page)));
        // The first lane reads at two positions, the second nowhere, the third at the start and late.
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
