//! `LaneCounter` counts an event in every lane at once.

use super::{MOST_LANES, Mask};

/// The number of events that wait until they are added together: two to the power of [`LOWER`].
const WAITING: usize = 1 << LOWER;
const LOWER: usize = 4;
/// The number of bits of a count that are kept in planes. Full planes are added to the totals.
const PLANES: usize = 16;

/// `LaneCounter` holds a count for each lane. Plane `p` holds bit `p` of the counts of all lanes. Events wait in a
/// list. When the list is full, carry-save adders add all of its events to the lower planes, without a branch. One
/// word is carried on for the whole list, and goes to the upper planes.
#[derive(Clone, Debug)]
pub(super) struct LaneCounter {
    waiting: [Mask; WAITING],
    /// The number of events in the list.
    waits: usize,
    planes: [Mask; PLANES],
    /// The number of lists added since the planes were emptied.
    added: u32,
    totals: Box<[u64; MOST_LANES]>,
}

impl Default for LaneCounter {
    fn default() -> Self {
        let totals = Box::new([0; MOST_LANES]);
        Self { waiting: [0; WAITING], waits: 0, planes: [0; PLANES], added: 0, totals }
    }
}

/// Adds two words to a plane, and returns the word that is carried to the next plane.
#[inline(always)]
fn carry(plane: &mut Mask, one: Mask, other: Mask) -> Mask {
    let half = *plane ^ one;
    let carried = (*plane & one) | (half & other);
    *plane = half ^ other;
    carried
}

impl LaneCounter {
    /// Counts an event in these lanes.
    #[inline]
    pub(super) fn add(&mut self, lanes: Mask) {
        self.waiting[self.waits] = lanes;
        self.waits += 1;
        if self.waits == WAITING {
            self.add_waiting();
        }
    }

    #[inline(never)]
    fn add_waiting(&mut self) {
        let (lower, upper) = self.planes.split_at_mut(LOWER);
        let mut words = self.waiting;
        let mut left = WAITING;
        for plane in lower {
            left /= 2;
            for at in 0..left {
                words[at] = carry(plane, words[2 * at], words[2 * at + 1]);
            }
        }
        let mut carried = words[0];
        for plane in upper {
            (*plane, carried) = (*plane ^ carried, *plane & carried);
        }
        debug_assert_eq!(carried, 0, "the planes are emptied before they overflow");
        (self.waits, self.added) = (0, self.added + 1);
        if self.added == (1 << (PLANES - LOWER)) - 1 {
            self.empty();
        }
    }

    #[cold]
    fn empty(&mut self) {
        let counts: [u64; MOST_LANES] = std::array::from_fn(|lane| self.get(lane));
        *self.totals = counts;
        (self.planes, self.added) = ([0; PLANES], 0);
    }

    /// Returns the count of a lane.
    pub(super) fn get(&self, lane: usize) -> u64 {
        let waiting = self.waiting[..self.waits].iter().map(|lanes| lanes >> lane & 1).sum::<u64>();
        let bit = |(number, plane): (usize, &Mask)| (plane >> lane & 1) << number;
        self.totals[lane] + waiting + self.planes.iter().enumerate().map(bit).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_beyond_the_planes_are_kept() {
        let mut counter = LaneCounter::default();
        for event in 0..200_000_u64 {
            counter.add(1 | u64::from(event.is_multiple_of(3)) << 63);
        }
        assert_eq!([0, 1, 63].map(|lane| counter.get(lane)), [200_000, 0, 66_667]);
    }

    proptest! {
        #[test]
        fn every_lane_counts_its_own_events(events in prop::collection::vec(any::<u64>(), 0..300)) {
            let mut counter = LaneCounter::default();
            events.iter().for_each(|&lanes| counter.add(lanes));
            for lane in 0..MOST_LANES {
                let expected = events.iter().filter(|&&lanes| lanes >> lane & 1 == 1).count();
                prop_assert_eq!(counter.get(lane), expected as u64);
            }
        }
    }
}
