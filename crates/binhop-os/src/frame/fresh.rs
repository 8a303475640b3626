//! `Fresh` holds the frames that were never used, in the list's initial order.
//!
//! The initial order is drawn little further than the pool reaches. A frame that is taken leaves a mark at its
//! place in the order ([`Ranks`]). To find the frame at a rank and to take a frame out therefore cost O(log
//! P), whatever the size of the pool. The first question about a frame that was not found by its rank costs O(P).
//!
//! A run often uses few frames of a large memory. Then only the part of the order that was drawn is kept. If the pool
//! reaches further, the order is drawn anew, and kept as a whole from then on. The draws are functions of their places,
//! so the order is the same.

use alloc::{vec, vec::Vec};
use core::cell::{Cell, OnceCell};

use binhop_base::{Rng, Stream};

use super::ranks::Ranks;

/// The number of places that are drawn when the pool reaches a place that is not drawn. Draws together cost less than
/// draws one by one.
const AHEAD: usize = 64;

/// The fewest frames of a memory whose order may be kept in part.
const FEWEST_IN_PART: u64 = 1 << 16;

/// Returns the number of places that are drawn at first for a pool of `size` frames, if the rest of the order is not
/// kept.
pub(crate) fn part_at_start(frames: u64, size: u64) -> Option<u64> {
    let part = size.saturating_add(size / 16);
    (frames >= FEWEST_IN_PART && part <= frames / 2).then_some(part)
}

pub(super) struct Fresh {
    /// The number of frames, including taken frames.
    frames: usize,
    /// The frames in initial order, up to place `drawn` at least. If the order is kept as a whole, further frames
    /// follow, which are not in order yet.
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
        let mut order: Vec<u32> = (0..frames).collect();
        let part = part_at_start(frames.into(), size as u64);
        let drawn = part.map_or(size, |part| part as usize);
        rng.shuffle_places(stream, &mut order, 0..drawn);
        if part.is_some() {
            // The copy takes no more memory than the part, and the next lane draws in the memory of the whole.
            order = order[..drawn].to_vec();
        }
        Self { drawn, reached: size, ..Self::untouched(frames as usize, order, rng, stream) }
    }

    /// Makes all frames in an order of which nothing is drawn yet.
    fn untouched(frames: usize, order: Vec<u32>, rng: Rng, stream: Stream) -> Self {
        let ranks = Ranks::new(frames);
        let (found, places) = (Cell::new(None), OnceCell::new());
        Self { frames, drawn: 0, reached: 0, rng, stream, found, places, ranks, used: 0, order }
    }

    /// Draws the order up to place `end`, or a little further.
    #[cold]
    fn draw(&mut self, end: usize) {
        let end = (end + AHEAD).min(self.frames);
        let mut known = self.drawn;
        if self.order.len() < self.frames {
            // The whole takes the place of the part, and is never beside it.
            self.order = Vec::new();
            self.order = (0..self.frames as u32).collect();
            known = 0;
        }
        self.rng.shuffle_places(self.stream, &mut self.order, known..end);
        if let Some(places) = self.places.get_mut() {
            note_places(places, &self.order, self.drawn..end);
        }
        self.drawn = end;
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
            let mut places = vec![0; self.frames];
            note_places(&mut places, &self.order, 0..self.drawn);
            places
        });
        let place = *places.get(frame as usize)? as usize;
        (place < self.reached && self.order[place] == frame).then_some(place)
    }

    /// Returns the number of frames, including taken frames.
    pub(super) fn frames(&self) -> usize {
        self.frames
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
        (entering < self.frames).then(|| {
            self.reached = entering + 1;
            if self.reached > self.drawn {
                self.draw(self.reached);
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
        let (frames, stream) = (order.len(), Stream::new(binhop_base::Domain::FrameOrder, 0));
        Self { drawn: frames, reached: frames, ..Self::untouched(frames, order, Rng::new(0), stream) }
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::{Domain, Rng, Stream};
    use proptest::prelude::*;

    use super::{Fresh, Vec};

    /// The pool reaches beyond the part that was drawn at first. `asked` says whether frames are sought by their numbers
    /// before.
    #[test]
    fn an_order_of_which_a_part_is_kept_goes_on_as_a_whole() {
        for (asked, size) in [(false, 160), (true, 160), (true, 32_000)] {
            let (frames, rng, stream) = (1 << 16, Rng::new(3), Stream::new(Domain::FrameOrder, 1));
            let mut model: Vec<u32> = (0..frames).collect();
            rng.shuffle(stream, &mut model);
            let mut fresh = Fresh::new(frames, rng, stream, size);
            let part = super::part_at_start(frames.into(), size as u64);
            assert_eq!((part, fresh.order.len() as u64), (part, part.unwrap_or(frames.into())));
            let takes = if part.is_some() { size / 16 + 2 } else { 10 };
            for take in 0..takes {
                let rank = take * 7919 % size;
                let frame = model.remove(rank);
                if asked {
                    assert!(fresh.holds(frame) && !fresh.holds(model[size]));
                }
                assert_eq!(fresh.at(rank), frame);
                assert_eq!(fresh.take(frame, size), Some(model[size - 1]));
                assert!(!asked || fresh.holds(model[size - 1]) && !fresh.holds(frame));
            }
            assert!(fresh.iter().eq(model[..size].iter().copied()));
            assert_eq!(fresh.order.len(), frames as usize);
        }
    }

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
