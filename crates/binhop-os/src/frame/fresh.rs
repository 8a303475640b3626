//! `Fresh` holds the frames that were never used, in the list's initial order.
//!
//! The initial order is drawn little further than the pool reaches. A frame that is taken leaves a mark at its
//! place in the order ([`Ranks`]). To find the frame at a rank and to take a frame out therefore cost O(log
//! P), whatever the size of the pool. The first question about a frame that was not found by its rank costs O(P).
//!
//! A run often uses few frames of a large memory. Then only the part of the order that was drawn is kept. If the pool
//! reaches further, the order is drawn anew, and kept as a whole from then on. The draws are functions of their places,
//! so the order is the same.
//!
//! The list may be told the ranks that placements will pick ([`Fresh::expect`]). It finds their frames together. One by
//! one, each would wait for a place outside the host's caches, because other lanes have placed pages meanwhile.

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

/// The most ranks that are expected together.
const MOST_EXPECTED: usize = 64;

/// `Expected` is what stands at a rank once the entries before it were taken.
#[derive(Clone, Copy)]
struct Expected {
    rank: u32,
    place: u32,
    frame: u32,
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
    /// The frame that was found last by its rank, and its place, until a frame is taken. If a policy picks by rank, the
    /// list asks about this frame only, and `places` takes no memory.
    found: Cell<Option<(u32, usize)>>,
    /// The place in the order of each frame before `drawn`. The vector is made at the first question about a frame
    /// other than `found`.
    places: OnceCell<Vec<u32>>,
    /// The ranks of the places whose frames were not taken.
    ranks: Ranks,
    /// The number of frames that were taken.
    used: usize,
    /// The ranks that placements will pick in turn. The entries from `next` on hold as long as each frame that is taken
    /// is that of the next entry.
    expected: Vec<Expected>,
    next: usize,
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
        let (expected, next) = (Vec::new(), 0);
        Self {
            frames,
            drawn: 0,
            reached: 0,
            rng,
            stream,
            found,
            places,
            ranks,
            used: 0,
            order,
            expected,
            next,
        }
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
        let expected = self.expected.get(self.next).filter(|expected| expected.rank as usize == rank);
        let (frame, place) = expected.map_or_else(
            || {
                let place = self.ranks.place(rank);
                (self.order[place], place)
            },
            |expected| (expected.frame, expected.place as usize),
        );
        self.found.set(Some((frame, place)));
        frame
    }

    /// Returns whether the list could be told which ranks the next placements pick from a pool of `size` frames.
    #[inline]
    pub(super) fn expects_nothing(&self, size: usize) -> bool {
        self.next == self.expected.len() && self.used + size <= self.drawn
    }

    /// Tells the list the ranks that the next placements will probably pick from a pool of `size` frames. Only the
    /// first ranks are asked for.
    pub(super) fn expect(&mut self, size: usize, ranks: impl Iterator<Item = usize>) {
        let most = (self.drawn + 1).saturating_sub(self.used + size).min(MOST_EXPECTED);
        self.next = 0;
        self.expected.clear();
        let mut ranks_among_all = RanksAmongAll::default();
        let mut words = [(0, 0); MOST_EXPECTED];
        for (rank, word) in ranks.take(most).zip(&mut words) {
            *word = self.ranks.word(ranks_among_all.next(rank as u32) as usize);
            self.expected.push(Expected { rank: rank as u32, place: 0, frame: 0 });
        }
        // The host waits for many words at once, and then for many places at once.
        for (expected, word) in self.expected.iter_mut().zip(words) {
            expected.place = self.ranks.place_in(word) as u32;
        }
        for expected in &mut self.expected {
            expected.frame = self.order[expected.place as usize];
        }
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
        // A frame that was found by its rank was not taken since.
        self.found.get().is_some_and(|(found, _)| found == frame)
            || self.place_of(frame).is_some_and(|place| !self.ranks.has_left(place))
    }

    /// Takes out a frame of the pool. Returns the frame that is the `size`-th from now on, if at least `size` frames
    /// are left.
    pub(super) fn take(&mut self, frame: u32, size: usize) -> Option<u32> {
        let place = self.place_of(frame).expect("the pool holds the frame");
        self.ranks.leave(place);
        self.found.set(None);
        self.used += 1;
        if self.expected.get(self.next).is_some_and(|expected| expected.place as usize == place) {
            self.next += 1;
        } else {
            self.expected.clear();
            self.next = 0;
        }
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

/// `RanksAmongAll` turns ranks in a list that lacks the entries of the ranks before into ranks in the whole list.
struct RanksAmongAll {
    /// The ranks so far in the whole list, in order, each less its place here.
    lowered: [u32; MOST_EXPECTED],
    len: usize,
}

impl Default for RanksAmongAll {
    fn default() -> Self {
        Self { lowered: [0; MOST_EXPECTED], len: 0 }
    }
}

impl RanksAmongAll {
    /// Returns the next rank in the whole list.
    fn next(&mut self, rank: u32) -> u32 {
        // An entry at place i of the list here stands before the sought entry if i entries of the whole list stand
        // before it, and at most `rank` others. Numbers beyond `len` do not count.
        let smaller: u32 = self.lowered[..self.len].iter().map(|&lowered| u32::from(lowered <= rank)).sum();
        let at = smaller as usize;
        self.lowered.copy_within(at..self.len, at + 1);
        self.lowered[at] = rank;
        self.len += 1;
        self.lowered[at + 1..self.len].iter_mut().for_each(|lowered| *lowered -= 1);
        rank + smaller
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

    /// The pool reaches beyond the part that was drawn at first. `asked` says whether frames are sought by their
    /// numbers before.
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
            // Says whether the ranks of takes are expected. One take has another rank than is expected.
            expected in any::<bool>(),
            other in 0..100usize,
        ) {
            let size = 1 + (f64::from(frames - 1) * part) as usize;
            let (rng, stream) = (Rng::new(seed), Stream::new(Domain::FrameOrder, 0));
            let mut model: Vec<u32> = (0..frames).collect();
            rng.shuffle(stream, &mut model);
            let mut fresh = Fresh::new(frames, rng, stream, size);
            let (mut used, mut met) = (Vec::new(), false);
            for (number, &take) in takes.iter().enumerate() {
                let pool = size.min(model.len());
                if expected && fresh.expects_nothing(size) {
                    let take = |at: usize| Some(takes.get(at)?.wrapping_add(u32::from(at == other)) as usize);
                    fresh.expect(size, (number..).map_while(take).map(|take| take % size));
                }
                if expected && pool > 0 {
                    prop_assert_eq!(fresh.at(take as usize % pool), model[take as usize % pool]);
                }
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
                met |= fresh.next > 0;
            }
            // The first take has the expected rank, unless it is the take with another rank.
            prop_assert_eq!(met, expected && !used.is_empty() && (other > 0 || met));
            used.sort_unstable();
            let mut known: Vec<u32> = fresh.iter_used().collect();
            known.sort_unstable();
            prop_assert_eq!(known, used);
        }
    }
}
