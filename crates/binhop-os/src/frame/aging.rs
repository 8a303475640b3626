//! Used frames by age, of which only the oldest are ever put into order.
//!
//! The time of a page's last reference is kept outside, in [`Recency`], and changes without a word to us. So
//! frames wait in two heaps of work: a *reserve*, sorted when it was laid in, of those that were oldest then,
//! and the *rest*, in no order. What stands in the reserve and has not been referenced since is older than all
//! the rest, since the rest can only have grown younger. One that has been referenced goes back to the rest.
//!
//! Cost: nothing at a reference. To lay in looks at every frame, for a portion of them; with a portion of an
//! eighth that is O(log P) for each frame taken out. 24 B per frame.

use alloc::vec::Vec;

use binhop_base::PageId;

use super::Recency;

/// A used frame, the page it was last given to, and a time at which that was referenced: the last, or an
/// earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Aged {
    time: u64,
    pub(crate) frame: u32,
    pub(crate) page: PageId,
}

impl Aged {
    #[cfg(test)]
    pub(super) fn at(time: u64, frame: u32, page: PageId) -> Self {
        Self { time, frame, page }
    }

    /// Returns whether the page has not been referenced since this entry's time.
    pub(super) fn is_current(&self, recency: &Recency) -> bool {
        recency.last(self.page) == self.time
    }
}

#[derive(Default)]
pub(crate) struct Aging {
    /// Older than the rest, the oldest last; their times were true when it was laid in.
    reserve: Vec<Aged>,
    /// In no order, with any earlier time.
    rest: Vec<Aged>,
}

impl Aging {
    /// Takes in a frame that was given to a page just now.
    pub(crate) fn add(&mut self, frame: u32, page: PageId) {
        self.rest.push(Aged { time: 0, frame, page });
    }

    /// Takes an entry back in.
    pub(super) fn put_back(&mut self, entry: Aged) {
        self.rest.push(entry);
    }

    /// Takes out the frame whose page was referenced longest ago. A new reserve is a `portion` (at least 1).
    ///
    /// There must be one.
    pub(crate) fn take_oldest(&mut self, recency: &Recency, portion: usize) -> Aged {
        loop {
            let Some(entry) = self.reserve.pop() else {
                self.lay_in(recency, portion);
                continue;
            };
            if entry.is_current(recency) {
                return entry;
            }
            self.rest.push(entry);
        }
    }

    fn lay_in(&mut self, recency: &Recency, portion: usize) {
        for entry in &mut self.rest {
            entry.time = recency.last(entry.page);
        }
        let len = self.rest.len();
        assert!(len > 0, "the oldest of no frames");
        let wanted = portion.clamp(1, len);
        // Youngest first, so that the reserve is the end of both.
        self.rest.select_nth_unstable_by(len - wanted, |a, b| b.cmp(a));
        self.reserve.extend(self.rest.drain(len - wanted..));
        self.reserve.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Forgets the entries that are no longer wanted.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&Aged) -> bool) {
        self.reserve.retain(&mut wanted);
        self.rest.retain(&mut wanted);
    }

    pub(crate) fn len(&self) -> usize {
        self.reserve.len() + self.rest.len()
    }

    /// Every entry, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Aged> {
        self.reserve.iter().chain(&self.rest)
    }

    /// Loses one.
    #[cfg(test)]
    pub(super) fn corrupt_for_test(&mut self) {
        self.rest.pop();
    }
}
