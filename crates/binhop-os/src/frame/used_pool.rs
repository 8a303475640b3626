//! `UsedPool` holds the used frames of the pool, least recently used first.
//!
//! Frames join at the young end and leave anywhere. A frame that leaves makes a gap ([`Ranks`]). The gaps are
//! closed when no place is left at the end; this happens at most once while half a pool of frames joins. To
//! find the frame at a rank, to join and to leave therefore cost O(log K) each.

use alloc::vec::Vec;

use binhop_base::PageId;

use super::{Recency, age_queue::UsedFrame, ranks::Ranks};
use crate::table::Table;

pub(super) struct UsedPool {
    /// The frames in order, with gaps.
    entries: Vec<UsedFrame>,
    /// The number of entries at which the gaps are closed.
    limit: usize,
    ranks: Ranks,
    /// The number of frames. Gaps do not count.
    len: usize,
    /// The place of each page's entry.
    places: Table<PageId>,
    /// The moment up to which pages that were referenced have left.
    seen: u64,
}

impl UsedPool {
    /// Makes an empty pool for at most `size` frames.
    pub(super) fn new(size: usize) -> Self {
        let limit = size + size.div_ceil(2);
        Self {
            entries: Vec::with_capacity(limit),
            limit,
            ranks: Ranks::new(limit),
            len: 0,
            places: Table::with_room(size),
            seen: 0,
        }
    }

    /// Returns the number of frames.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the frame at a rank below the length.
    #[inline]
    pub(super) fn frame(&self, rank: usize) -> u32 {
        debug_assert!(rank < self.len);
        self.entries[self.ranks.place(rank)].frame
    }

    /// Returns the frames, least recently used first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let entries = self.entries.iter().enumerate();
        entries.filter(|(place, _)| !self.ranks.has_left(*place)).map(|(_, entry)| entry.frame)
    }

    /// Returns whether a frame, which was last given to `page`, is in the pool.
    pub(super) fn holds(&self, frame: u32, page: PageId) -> bool {
        self.places.get(page).is_some_and(|place| self.entries[place as usize].frame == frame)
    }

    /// Takes out the frame that was last given to `page`. The frame must be in the pool.
    pub(super) fn take(&mut self, page: PageId) {
        let place = self.places.get(page).expect("the frame is in the pool");
        self.leave(place as usize);
    }

    fn leave(&mut self, place: usize) -> UsedFrame {
        let entry = self.entries[place];
        self.ranks.leave(place);
        self.places.remove(entry.page);
        self.len -= 1;
        entry
    }

    /// Adds a frame, as the youngest frame.
    pub(super) fn join(&mut self, entry: UsedFrame) {
        if self.entries.len() == self.limit {
            self.close_gaps();
        }
        self.places.insert(entry.page, self.entries.len() as u32);
        self.entries.push(entry);
        self.len += 1;
    }

    fn close_gaps(&mut self) {
        let Self { entries, ranks, places, .. } = self;
        let mut place = 0;
        entries.retain(|_| {
            place += 1;
            !ranks.has_left(place - 1)
        });
        places.clear();
        for (place, entry) in (0..).zip(&*entries) {
            places.insert(entry.page, place);
        }
        ranks.clear();
    }

    /// Takes out the frames whose pages were referenced since the frames joined, and hands each to `left`.
    ///
    /// The pool looks at the frames of the pages noted since the last call, or at all frames where these are
    /// fewer.
    pub(super) fn validate(&mut self, recency: &Recency, mut left: impl FnMut(UsedFrame)) {
        match recency.notes_since(self.seen).filter(|notes| notes.len() < self.entries.len()) {
            Some(notes) => {
                for &page in notes {
                    let place = self.places.get(page).map(|place| place as usize);
                    if let Some(place) = place.filter(|&place| !self.entries[place].is_current(recency)) {
                        left(self.leave(place));
                    }
                }
            }
            None => {
                for place in 0..self.entries.len() {
                    if !self.ranks.has_left(place) && !self.entries[place].is_current(recency) {
                        left(self.leave(place));
                    }
                }
            }
        }
        self.seen = recency.moment();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PageId, Recency, UsedFrame, UsedPool, Vec};

    #[derive(Clone, Debug)]
    enum Step {
        /// The lane references these pages.
        Note(Vec<u32>),
        /// Another lane references these pages, and the table of recency goes back.
        Elsewhere(Vec<u32>),
        Validate,
        /// This many frames join, each with the page of its number.
        Join(usize),
        Take(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let notes = |most| prop::collection::vec(any::<u32>(), 0..most);
        let step = prop_oneof![
            4 => notes(8).prop_map(Step::Note),
            1 => notes(3000).prop_map(Step::Note),
            1 => notes(20).prop_map(Step::Elsewhere),
            4 => Just(Step::Validate),
            4 => (0..40usize).prop_map(Step::Join),
            4 => any::<usize>().prop_map(Step::Take),
        ];
        prop::collection::vec(step, 1..80)
    }

    proptest! {
        #[test]
        fn frames_join_and_leave_as_in_a_list(size in 1..300usize, steps in steps()) {
            let frames = 2 * size as u32;
            let (mut recency, mut time) = (Recency::new(), 0);
            let (mut pool, mut model) = (UsedPool::new(size), Vec::<UsedFrame>::new());
            for step in steps {
                match step {
                    Step::Note(pages) => {
                        for page in pages {
                            time += 1;
                            recency.note(PageId(page % frames), time);
                        }
                    }
                    Step::Elsewhere(pages) => {
                        let start = recency.moment();
                        let mut before = Vec::new();
                        for page in pages {
                            let page = PageId(page % frames);
                            time += 1;
                            before.push((page, recency.note(page, time)));
                        }
                        recency.go_back(start, before.into_iter().rev());
                    }
                    Step::Validate => {
                        let mut left = Vec::new();
                        pool.validate(&recency, |entry| left.push(entry));
                        left.sort();
                        let (stay, mut leave): (Vec<_>, Vec<_>) =
                            model.iter().partition(|entry| entry.is_current(&recency));
                        leave.sort();
                        prop_assert_eq!(left, leave);
                        model = stay;
                    }
                    Step::Join(count) => {
                        pool.validate(&recency, |_| {});
                        model.retain(|entry| entry.is_current(&recency));
                        let known: Vec<u32> = model.iter().map(|entry| entry.frame).collect();
                        let free = (0..frames).filter(|frame| !known.contains(frame));
                        for frame in free.take(count.min(size - model.len())) {
                            let entry = UsedFrame::at(recency.last(PageId(frame)), frame, PageId(frame));
                            pool.join(entry);
                            model.push(entry);
                        }
                    }
                    Step::Take(rank) if !model.is_empty() => {
                        let rank = rank % model.len();
                        pool.take(model.remove(rank).page);
                    }
                    Step::Take(_) => {}
                }
                prop_assert_eq!(pool.len(), model.len());
                prop_assert_eq!(pool.iter().collect::<Vec<_>>(), model.iter().map(|e| e.frame).collect::<Vec<_>>());
                for (rank, entry) in model.iter().enumerate() {
                    prop_assert_eq!(pool.frame(rank), entry.frame);
                }
                for frame in 0..frames {
                    let held = model.iter().any(|entry| entry.frame == frame);
                    prop_assert_eq!(pool.holds(frame, PageId(frame)), held);
                }
            }
        }
    }
}
