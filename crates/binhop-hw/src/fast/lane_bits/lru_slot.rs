//! `LruSlot` holds the lines of one set of a cache that replaces the least recently used line, in every lane.
//!
//! The offset within the page chooses the set, so every lane accesses the same lines of the set in the same order. One
//! order of lines serves all lanes, and lanes differ only in the lines that they hold: a lane that has lost the lines
//! of a page has room, where other lanes lose their oldest line.

use super::{Mask, WrittenBack, slot_lines::Held};

/// The bits of the number of lines that a lane holds.
const PLANES: usize = 5;

/// The most ways that a set may have.
pub(crate) const MOST_WAYS: u32 = (1 << PLANES) - 1;

/// `LruSlot` holds the lines of one set that some lane holds.
#[derive(Clone, Debug, Default)]
pub(super) struct LruSlot {
    /// The lines, the latest accessed first.
    lines: Vec<Held>,
    /// The number of lines that each lane holds. Plane `p` holds bit `p` of the numbers of all lanes.
    held: [Mask; PLANES],
}

impl LruSlot {
    /// Makes a set that holds the same lines in every lane of `lanes`. Each line comes with whether it is dirty, the
    /// latest accessed first.
    pub(super) fn of_lanes(lanes: Mask, lines: impl Iterator<Item = (u64, bool)>) -> Self {
        let mut slot = Self::default();
        for (key, dirty) in lines {
            slot.lines.push(Held { key, resident: lanes, dirty: if dirty { lanes } else { 0 } });
            slot.add(lanes);
        }
        slot
    }

    /// Accesses a line in all lanes, `lanes`. The line is stored in the lanes `stored`. Returns what lanes held of the
    /// line before. [`LruSlot::evict`] must follow for the lanes that lacked it.
    #[inline(always)]
    pub(super) fn touch(&mut self, key: u64, lanes: Mask, stored: Mask) -> Held {
        let own = match self.lines.iter().position(|line| line.key == key) {
            Some(at) => {
                let own = self.lines[at];
                self.lines.copy_within(..at, 1);
                own
            }
            None => {
                let nothing = Held { key, resident: 0, dirty: 0 };
                self.lines.insert(0, nothing);
                nothing
            }
        };
        self.lines[0] = Held { key, resident: lanes, dirty: own.dirty | stored };
        own
    }

    /// Takes the oldest line from each lane of `missed` that has no free way. The line that was touched last has come
    /// to these lanes. Returns the lanes that lose a line, and appends the dirty lines to `written_back`.
    pub(super) fn evict(&mut self, missed: Mask, ways: u32, written_back: &mut Vec<WrittenBack>) -> Mask {
        let full = missed & self.have(ways);
        let (mut left, mut at, mut is_gone) = (full, self.lines.len(), false);
        while left != 0 {
            at -= 1;
            assert!(at > 0, "a full set holds other lines than the line that has come");
            let line = &mut self.lines[at];
            let lose = line.resident & left;
            if line.dirty & lose != 0 {
                written_back.push((line.key, line.dirty & lose));
            }
            (line.resident, line.dirty, left) = (line.resident & !lose, line.dirty & !lose, left & !lose);
            is_gone |= line.resident == 0;
        }
        if is_gone {
            self.lines.retain(|line| line.resident != 0);
        }
        self.add(missed & !full);
        full
    }

    /// Removes a line from a lane. Returns the line as it was, if some lane holds it.
    pub(super) fn remove(&mut self, key: u64, lane: usize) -> Option<Held> {
        let at = self.lines.iter().position(|line| line.key == key)?;
        let (line, bit) = (&mut self.lines[at], 1 << lane);
        let before = *line;
        (line.resident, line.dirty) = (line.resident & !bit, line.dirty & !bit);
        if line.resident == 0 {
            self.lines.remove(at);
        }
        if before.resident & bit != 0 {
            let mut borrowed = bit;
            for plane in &mut self.held {
                (*plane, borrowed) = (*plane ^ borrowed, borrowed & !*plane);
            }
        }
        Some(before)
    }

    /// Returns the lines that some lane holds, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Held> {
        self.lines.iter().rev().copied()
    }

    /// Returns the lanes that hold this number of lines.
    fn have(&self, lines: u32) -> Mask {
        let planes = self.held.iter().enumerate();
        planes
            .fold(Mask::MAX, |have, (bit, &plane)| have & if lines >> bit & 1 == 1 { plane } else { !plane })
    }

    /// Notes a further line in some lanes.
    fn add(&mut self, lanes: Mask) {
        let mut carried = lanes;
        for plane in &mut self.held {
            (*plane, carried) = (*plane ^ carried, *plane & carried);
        }
        debug_assert_eq!(carried, 0, "a set has no more lines than ways");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const LANES: usize = 3;

    proptest! {
        /// Each lane is a list of its lines with whether they are dirty, the latest accessed first.
        #[test]
        fn every_lane_replaces_its_oldest_line(
            ways in prop::sample::select(vec![1_u32, 2, 3, 5, 8, 12, 16, MOST_WAYS]),
            events in prop::collection::vec((0..40_u64, any::<bool>(), prop::option::weighted(0.3, 0..LANES)), 0..400),
        ) {
            let all = (1 << LANES) - 1;
            let mut slot = LruSlot::default();
            let mut lanes: [VecDeque<(u64, bool)>; LANES] = Default::default();
            for (key, stores, removed_from) in events {
                if let Some(lane) = removed_from {
                    let at = lanes[lane].iter().position(|line| line.0 == key);
                    let held = slot.remove(key, lane).map_or(0, |line| line.resident);
                    prop_assert_eq!(held >> lane & 1 == 1, at.is_some());
                    at.and_then(|at| lanes[lane].remove(at));
                    prop_assert!(slot.lines.iter().all(|line| line.resident != 0), "a line that is nowhere is kept");
                    continue;
                }
                let own = slot.touch(key, all, if stores { all } else { 0 });
                let missed = all & !own.resident;
                let mut written_back = Vec::new();
                let lose = slot.evict(missed, ways, &mut written_back);
                for (lane, lines) in lanes.iter_mut().enumerate() {
                    let at = lines.iter().position(|line| line.0 == key);
                    prop_assert_eq!(missed >> lane & 1 == 1, at.is_none());
                    let dirty = at.and_then(|at| lines.remove(at)).is_some_and(|line| line.1);
                    let victim = (lines.len() == ways as usize).then(|| lines.pop_back()).flatten();
                    prop_assert_eq!(lose >> lane & 1 == 1, victim.is_some());
                    let written = written_back.iter().filter(|line| line.1 >> lane & 1 == 1).map(|line| line.0);
                    let expected = victim.filter(|line| line.1).map(|line| line.0);
                    prop_assert_eq!(written.collect::<Vec<_>>(), Vec::from_iter(expected));
                    lines.push_front((key, dirty || stores));
                }
            }
            prop_assert!(slot.lines.iter().all(|line| line.resident != 0), "a line that is nowhere is kept");
            for (lane, lines) in lanes.iter().enumerate() {
                let of_lane = slot.iter().filter(|line| line.resident >> lane & 1 == 1);
                let held: Vec<(u64, bool)> = of_lane.map(|line| (line.key, line.dirty >> lane & 1 == 1)).collect();
                prop_assert_eq!(held, lines.iter().rev().copied().collect::<Vec<_>>());
                prop_assert_eq!(slot.have(lines.len() as u32) >> lane & 1, 1);
            }
        }
    }
}
