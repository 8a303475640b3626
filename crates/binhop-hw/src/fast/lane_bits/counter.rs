//! `LaneCounter` counts an event in every lane at once.

use super::{MOST_LANES, Mask};

/// The bits of a count that are kept in planes. When they are full, they are added to the totals.
const PLANES: usize = 16;

/// `LaneCounter` holds a count for each lane. Plane `p` holds bit `p` of the counts of all lanes, so that an event in any
/// number of lanes is added with a few operations on words.
#[derive(Clone, Debug)]
pub(super) struct LaneCounter {
    planes: [Mask; PLANES],
    /// The events added since the planes were emptied. No count in the planes is larger.
    added: u32,
    totals: Box<[u64; MOST_LANES]>,
}

impl Default for LaneCounter {
    fn default() -> Self {
        Self { planes: [0; PLANES], added: 0, totals: Box::new([0; MOST_LANES]) }
    }
}

impl LaneCounter {
    /// Counts an event in these lanes.
    #[inline]
    pub(super) fn add(&mut self, lanes: Mask) {
        let mut carry = lanes;
        for plane in &mut self.planes {
            if carry == 0 {
                break;
            }
            (*plane, carry) = (*plane ^ carry, *plane & carry);
        }
        debug_assert_eq!(carry, 0, "the planes are emptied before they overflow");
        self.added += 1;
        if self.added == (1 << PLANES) - 1 {
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
        let bit = |(number, plane): (usize, &Mask)| (plane >> lane & 1) << number;
        self.totals[lane] + self.planes.iter().enumerate().map(bit).sum::<u64>()
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
