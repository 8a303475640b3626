//! `Fresh` holds the frames that were never used, in the list's initial order.
//!
//! The initial order is drawn little further than the pool reaches. A frame that is taken leaves a mark at its
//! place in the order ([`Ranks`]). To find the frame at a rank and to take a frame out therefore cost O(log
//! P), whatever the size of the pool. The first question about a frame that was not found by its rank costs O(P).

use alloc::{vec, vec::Vec};
use core::cell::{Cell, OnceCell};

use binhop_base::{Rng, Stream};

use super::ranks::Ranks;

/// The number of places that are drawn when the pool reaches a place that is not drawn. Draws together cost less than
/// draws one by one.
const AHEAD: usize = 16;

pub(super) struct Fresh {
    /// All frames in initial order. Frames from place `drawn` on are not in order yet.
    order: Vec<u32>,
    drawn: usize,
    /// The number of places that have been within the pool. It is at most `drawn`.
    reached: usize,
    rng: Rng,
    /// The stream that draws the initial order (KH90 §4.1.2).
    stream: Stream,
    /// The frame that was found last by its rank, and its place. If a policy picks by rank, the list asks about
    /// this frame only, and `places` takes no memory.
    found: Cell<Option<(u32, usize)>>,
    /// The place in the order of each frame before `drawn`. The vector is made at the first question about a frame
    /// other than `found`.
    places: OnceCell<Vec<u32>>,
    /// The ranks of the places whose frames were not taken.
    ranks: Ranks,
    /// The number of frames that were taken.
    used: usize,
}

impl Fresh {
    /// Makes all frames, in an order drawn from `rng`, and draws the first `size` frames.
    pub(super) fn new(frames: u32, rng: Rng, stream: Stream, size: usize) -> Self {
        let mut fresh = Self::untouched((0..frames).collect(), rng, stream);
        fresh.draw(size);
        fresh.reached = size;
        fresh
    }

    /// Makes all frames in an order of which nothing is drawn yet.
    fn untouched(order: Vec<u32>, rng: Rng, stream: Stream) -> Self {
        let ranks = Ranks::new(order.len());
        let (found, places) = (Cell::new(None), OnceCell::new());
        Self { drawn: 0, reached: 0, rng, stream, found, places, ranks, used: 0, order }
    }

    /// Draws the order up to place `end`.
    fn draw(&mut self, end: usize) {
        if end > self.drawn {
            self.rng.shuffle_places(self.stream, &mut self.order, self.drawn..end);
            if let Some(places) = self.places.get_mut() {
                note_places(places, &self.order, self.drawn..end);
            }
            self.drawn = end;
        }
    }

    /// Returns the place of a frame in the order, if the frame is or was within the pool.
    #[inline]
    fn place_of(&self, frame: u32) -> Option<usize> {
        if let Some((found, place)) = self.found.get()
            && found == frame
        {
            return Some(place);
        }
        let places = self.places.get_or_init(|| {
            let mut places = vec![0; self.order.len()];
            note_places(&mut places, &self.order, 0..self.drawn);
            places
        });
        let place = *places.get(frame as usize)? as usize;
        (place < self.reached && self.order[place] == frame).then_some(place)
    }

    /// Returns the number of frames, including taken frames.
    pub(super) fn frames(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of frames that were taken.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Returns the first frames of the order, taken or not.
    pub(super) fn first(&self, frames: usize) -> &[u32] {
        debug_assert!(frames <= self.reached);
        &self.order[..frames]
    }

    /// Returns the frame at a rank among the frames that were not taken. The frame must be within the pool.
    pub(super) fn at(&self, rank: usize) -> u32 {
        let place = self.ranks.place(rank);
        let frame = self.order[place];
        self.found.set(Some((frame, place)));
        frame
    }

    /// Returns the frames within the pool that were not taken.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.order[..self.reached]
            .iter()
            .enumerate()
            .filter(|(place, _)| !self.ranks.has_left(*place))
            .map(|(_, &f)| f)
    }

    /// Returns the frames that were taken, in the initial order.
    pub(super) fn iter_used(&self) -> impl Iterator<Item = u32> {
        self.ranks.iter_left().map(|place| self.order[place])
    }

    /// Returns whether a frame is within the pool.
    #[inline]
    pub(super) fn holds(&self, frame: u32) -> bool {
        self.place_of(frame).is_some_and(|place| !self.ranks.has_left(place))
    }

    /// Takes out a frame of the pool. Returns the frame that is the `size`-th from now on, if at least `size` frames
    /// are left.
    pub(super) fn take(&mut self, frame: u32, size: usize) -> Option<u32> {
        self.ranks.leave(self.place_of(frame).expect("the pool holds the frame"));
        self.used += 1;
        // No place from `entering` on was ever within the pool, so no frame there was taken.
        let entering = self.used + size - 1;
        (entering < self.order.len()).then(|| {
            self.reached = entering + 1;
            if self.reached > self.drawn {
                self.draw((entering + AHEAD).min(self.order.len()));
            }
            self.order[entering]
        })
    }
}

/// Notes the frames of some places of an order.
fn note_places(places: &mut [u32], order: &[u32], range: core::ops::Range<usize>) {
    for place in range {
        places[order[place] as usize] = place as u32;
    }
}

#[cfg(test)]
impl Fresh {
    /// Makes all frames in a given order.
    pub(super) fn in_order(order: Vec<u32>) -> Self {
        let mut fresh = Self::untouched(order, Rng::new(0), Stream::new(binhop_base::Domain::FrameOrder, 0));
        (fresh.drawn, fresh.reached) = (fresh.order.len(), fresh.order.len());
        fresh
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::{Domain, Rng, Stream};
    use proptest::prelude::*;

    use super::{Fresh, Vec};

    proptest! {
        #[test]
        fn frames_leave_as_from_a_list(
            frames in 1..400u32,
            part in 0.0..1.0f64,
            seed in any::<u64>(),
            takes in prop::collection::vec(any::<u32>(), 0..500),
            asked in any::<bool>(),
        ) {
            let size = 1 + (f64::from(frames - 1) * part) as usize;
            let (rng, stream) = (Rng::new(seed), Stream::new(Domain::FrameOrder, 0));
            let mut model: Vec<u32> = (0..frames).collect();
            rng.shuffle(stream, &mut model);
            let mut fresh = Fresh::new(frames, rng, stream, size);
            let mut used = Vec::new();
            for take in takes {
                let pool = size.min(model.len());
                prop_assert_eq!(fresh.iter().take(pool).collect::<Vec<_>>(), &model[..pool]);
                for (rank, &frame) in model[..pool].iter().enumerate() {
                    if asked {
                        prop_assert!(fresh.holds(frame));
                    }
                    prop_assert_eq!((fresh.at(rank), fresh.holds(frame)), (frame, true));
                }
                prop_assert!(!asked || used.iter().all(|&frame| !fresh.holds(frame)));
                prop_assert!(!asked || model[pool..].iter().all(|&frame| !fresh.holds(frame)));
                if pool == 0 {
                    break;
                }
                let rank = take as usize % pool;
                prop_assert_eq!(fresh.at(rank), model[rank]);
                let frame = model.remove(rank);
                used.push(frame);
                prop_assert_eq!(fresh.take(frame, size), model.get(size - 1).copied());
                prop_assert_eq!(fresh.used(), used.len());
            }
            used.sort_unstable();
            let mut known: Vec<u32> = fresh.iter_used().collect();
            known.sort_unstable();
            prop_assert_eq!(known, used);
        }
    }
}
