//! `AgeQueue` holds used frames by age, and sorts only the oldest of them.
//!
//! [`Recency`] keeps the time of each page's last reference, and changes it without telling the queue. The
//! queue therefore has two parts. The *reserve* holds the frames that were oldest when it was filled, in
//! order. The *rest* is in no order. A frame of the reserve whose page has not been referenced since is older
//! than the whole rest, because frames of the rest can only have become younger. A frame of the reserve whose
//! page has been referenced goes back to the rest.
//!
//! # Cost
//! A reference costs nothing. To fill the reserve, the queue looks at every frame of the rest. With a reserve
//! of an eighth of the frames, this costs O(log P) for each frame taken out. The memory is 24 B per frame.

use alloc::vec::Vec;

use binhop_base::PageId;

use super::Recency;

/// `UsedFrame` is a used frame, the page to which it was given last, and a time at which that page was
/// referenced: its last reference, or an earlier reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UsedFrame {
    time: u64,
    pub(crate) frame: u32,
    pub(crate) page: PageId,
}

impl UsedFrame {
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
pub(crate) struct AgeQueue {
    /// Frames that are older than the rest, the oldest frame last. Their times were true when the reserve was
    /// filled.
    reserve: Vec<UsedFrame>,
    /// The frames outside the reserve, in no order. Their times may be too early.
    rest: Vec<UsedFrame>,
}

impl AgeQueue {
    /// Adds a frame that was given to a page just now.
    pub(crate) fn add(&mut self, frame: u32, page: PageId) {
        self.rest.push(UsedFrame { time: 0, frame, page });
    }

    /// Adds an entry that was taken out before.
    pub(super) fn put_back(&mut self, entry: UsedFrame) {
        self.rest.push(entry);
    }

    /// Takes out the frame whose page was referenced longest ago. A new reserve has `portion` frames, but at
    /// least one.
    ///
    /// The queue must hold a frame.
    pub(crate) fn take_oldest(&mut self, recency: &Recency, portion: usize) -> UsedFrame {
        loop {
            let Some(entry) = self.reserve.pop() else {
                self.fill_reserve(recency, portion);
                continue;
            };
            if entry.is_current(recency) {
                return entry;
            }
            self.rest.push(entry);
        }
    }

    fn fill_reserve(&mut self, recency: &Recency, portion: usize) {
        for entry in &mut self.rest {
            entry.time = recency.last(entry.page);
        }
        let len = self.rest.len();
        assert!(len > 0, "the queue holds a frame");
        let wanted = portion.clamp(1, len);
        // The youngest entry comes first, so that the reserve is taken from the end and emptied from the end.
        self.rest.select_nth_unstable_by(len - wanted, |a, b| b.cmp(a));
        self.reserve.extend(self.rest.drain(len - wanted..));
        self.reserve.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Removes the entries that are no longer wanted.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&UsedFrame) -> bool) {
        self.reserve.retain(&mut wanted);
        self.rest.retain(&mut wanted);
    }

    pub(crate) fn len(&self) -> usize {
        self.reserve.len() + self.rest.len()
    }

    /// Returns every entry, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &UsedFrame> {
        self.reserve.iter().chain(&self.rest)
    }

    /// Drops an entry, so that a test can see the check fail.
    #[cfg(test)]
    pub(super) fn corrupt_for_test(&mut self) {
        self.rest.pop();
    }
}
