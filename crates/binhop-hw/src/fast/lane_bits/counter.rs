//! `LaneCounter` counts an event in every lane at once.

use super::{MOST_LANES, Mask};

/// The number of events that wait until they are added together: two to the power of [`LOWER`].
const WAITING: usize = 1 << LOWER;
const LOWER: usize = 4;
/// The number of bits of a count that are kept in planes. Full planes are added to the totals.
const PLANES: usize = 16;
/// The number of lists that fill the planes.
const MOST_ADDED: u32 = (1 << (PLANES - LOWER)) - 1;

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
    /// True if a total may differ from 0.
    has_totals: bool,
}

impl Default for LaneCounter {
    fn default() -> Self {
        let totals = Box::new([0; MOST_LANES]);
        Self { waiting: [0; WAITING], waits: 0, planes: [0; PLANES], added: 0, totals, has_totals: false }
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
    /// The bytes that a counter takes.
    pub(super) const BYTES: u64 = (size_of::<Self>() + size_of::<[u64; MOST_LANES]>()) as u64;

    /// Makes a counter that has counted so many events in every lane.
    pub(super) fn of_all(events: u64) -> Self {
        Self { totals: Box::new([events; MOST_LANES]), has_totals: true, ..Self::default() }
    }

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
        if self.added == MOST_ADDED {
            self.empty();
        }
    }

    #[cold]
    fn empty(&mut self) {
        let counts: [u64; MOST_LANES] = std::array::from_fn(|lane| self.get(lane));
        *self.totals = counts;
        (self.planes, self.added, self.has_totals) = ([0; PLANES], 0, true);
    }

    /// Adds the counts of another counter, which has counted few events.
    pub(super) fn add_all(&mut self, other: &Self) {
        debug_assert!(!other.has_totals, "its planes were never full");
        other.waiting[..other.waits].iter().for_each(|&lanes| self.add(lanes));
        if other.added == 0 {
            return;
        }
        if self.added + other.added >= MOST_ADDED {
            // The events that wait stay in the list.
            let waits = std::mem::take(&mut self.waits);
            self.empty();
            self.waits = waits;
        }
        let mut carried = 0;
        for (plane, &word) in self.planes.iter_mut().zip(&other.planes) {
            carried = carry(plane, word, carried);
        }
        debug_assert_eq!(carried, 0, "the planes are emptied before they overflow");
        self.added += other.added;
    }

    /// Forgets all events.
    pub(super) fn clear(&mut self) {
        (self.waits, self.added, self.planes) = (0, 0, [0; PLANES]);
        if std::mem::take(&mut self.has_totals) {
            self.totals.fill(0);
        }
    }

    /// Returns whether no event was counted.
    pub(super) fn is_clear(&self) -> bool {
        self.waits == 0 && self.added == 0 && !self.has_totals
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
        counter.clear();
        assert!(counter.is_clear());
        counter.add(1);
        assert_eq!([0, 63].map(|lane| counter.get(lane)), [1, 0]);
        let mut all = LaneCounter::of_all(5);
        all.add(2);
        assert!(!all.is_clear());
        assert_eq!([0, 1, 63].map(|lane| all.get(lane)), [5, 6, 5]);
    }

    proptest! {
        #[test]
        fn a_counter_takes_the_counts_of_another(
            events in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..300), 1..4),
            before in 0..(2 * MOST_ADDED) << LOWER,
        ) {
            let (mut counter, mut other) = (LaneCounter::default(), LaneCounter::default());
            (0..before).for_each(|_| counter.add(Mask::MAX));
            for events in &events {
                events.iter().for_each(|&lanes| other.add(lanes));
                counter.add_all(&other);
                other.clear();
                prop_assert!(other.is_clear());
            }
            for lane in 0..MOST_LANES {
                let expected = events.iter().flatten().filter(|&&lanes| lanes >> lane & 1 == 1).count();
                prop_assert_eq!(counter.get(lane), u64::from(before) + expected as u64);
            }
        }

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
