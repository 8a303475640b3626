//! This part of the filters knows which slots hold lines of pages that the TLBs hold.
//!
//! All references whose lines are the last lines of their slots are skipped by one test. So that the same test says
//! that a page need not be looked up, a slot *sleeps* while the first-level TLB of its port does not hold the page of
//! its line. A slot that is asleep has the time 0, before which no line is trusted, and its time is kept apart. The
//! slow path wakes the slot when its line is accessed, and looks up the page. When a page leaves a TLB, the lower
//! halves of the numbers of mappings, which lie side by side, are searched for its slots, many slots at once.

use std::ops::Range;

use binhop_base::MappingId;

use super::{Filters, Slot};

/// So many slots are compared together. A block of fixed length becomes vector instructions.
const BLOCK: usize = 16;

impl Filters {
    /// Skips an access as [`Filters::drops`] does, also if the slot of its line is asleep. Returns whether the access
    /// was skipped, and whether the slot was asleep. The slot is awake from now on, if it holds the line.
    #[inline(always)]
    pub(in crate::prepare) fn drops_or_wakes(
        &mut self,
        port: usize,
        line: u64,
        store: bool,
        now: u64,
    ) -> (bool, bool) {
        if self.drops(port, line, store, now) {
            return (true, false);
        }
        let is_awake = self.slots[self.slot(port, line)].time > 0;
        if is_awake || !self.wakes(port, line) {
            (false, false)
        } else {
            (self.drops(port, line, store, now), true)
        }
    }

    /// Wakes the slot of a line, if it is asleep and holds the line. Returns whether it did.
    #[inline(never)]
    fn wakes(&mut self, port: usize, line: u64) -> bool {
        let place = self.slot(port, line);
        let Slot { tag, time } = &mut self.slots[place];
        let wakes = self.asleep[place] > 0 && *tag >> 2 == line;
        if wakes {
            *time = std::mem::take(&mut self.asleep[place]);
        }
        wakes
    }

    /// Puts the slots of a port to sleep that hold lines of a mapping's page.
    pub(in crate::prepare) fn sleep(&mut self, port: usize, mapping: MappingId) {
        let places = self.places_of_port(port);
        let Self { slots, asleep, ids, short_ids, .. } = self;
        each_place_of(mapping, &short_ids[places.clone()], &ids[places.clone()], |place| {
            sleep(&mut slots[places.start + place], &mut asleep[places.start + place]);
        });
    }

    /// Puts all slots to sleep.
    pub(in crate::prepare) fn sleep_all(&mut self) {
        self.slots.iter_mut().zip(&mut self.asleep).for_each(|(slot, asleep)| sleep(slot, asleep));
    }

    fn places_of_port(&self, port: usize) -> Range<usize> {
        let table = &self.ports[port];
        table.base..table.base + table.mask as usize + 1
    }
}

#[inline]
fn sleep(slot: &mut Slot, asleep: &mut u64) {
    if slot.time > 0 {
        *asleep = std::mem::take(&mut slot.time);
    }
}

/// Calls `with` with each place of a mapping. Few blocks hold the mapping.
#[inline]
fn each_place_of(mapping: MappingId, short_ids: &[u16], ids: &[u32], mut with: impl FnMut(usize)) {
    let short = mapping.0 as u16;
    let (blocks, rest) = short_ids.as_chunks::<BLOCK>();
    let mut look = |places: Range<usize>| {
        for place in places {
            if ids[place] == mapping.0 {
                with(place);
            }
        }
    };
    for (number, block) in blocks.iter().enumerate() {
        if block.iter().fold(false, |found, &id| found | (id == short)) {
            look(number * BLOCK..(number + 1) * BLOCK);
        }
    }
    look(ids.len() - rest.len()..ids.len());
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    #[test]
    fn mappings_with_equal_lower_halves_are_told_apart() {
        let mut filters = Filters::new([Shape::of_slots(6, 64); 2], true, true);
        filters.pass(1, 3, 7, false, 1);
        filters.pass(1, 4, 7 + (1 << 16), false, 2);
        filters.sleep(1, MappingId(7));
        let time = |line: u64| filters.slots[filters.slot(1, line)].time;
        assert_eq!([time(3), time(4)], [0, 2]);
    }

    #[test]
    fn slots_sleep_until_their_lines_are_accessed() {
        let mut filters = Filters::new([Shape::of_slots(6, 64); 2], true, true);
        filters.trust([1, 1]);
        let awake = |filters: &Filters| -> Vec<u64> {
            filters.slots.iter().map(|slot| slot.time).filter(|&time| time > 0).collect()
        };
        for (line, mapping, now) in [(3, 7, 1), (40, 7, 2), (41, 8, 3)] {
            assert_eq!(filters.drops_or_wakes(1, line, false, now), (false, false));
            assert_eq!(filters.pass(1, line, mapping, false, now), None);
        }
        filters.pass(0, 3, 7, false, 4);
        assert_eq!(awake(&filters), [4, 1, 2, 3]);
        filters.sleep(1, MappingId(7));
        assert_eq!(awake(&filters), [4, 3]);
        assert_eq!(filters.accesses_since(1).map(|(_, time)| time).collect::<Vec<_>>(), [4, 2, 3]);
        assert!(!filters.drops(1, 3, false, 5));
        assert_eq!(filters.drops_or_wakes(1, 3, false, 5), (true, true));
        assert_eq!(filters.drops_or_wakes(1, 3, false, 6), (true, false));
        assert_eq!(awake(&filters), [4, 6, 3]);
        // Another line takes the slot of a line that sleeps, and the time of that line is reported.
        assert_eq!(filters.drops_or_wakes(1, 40 + 64, false, 7), (false, false));
        assert_eq!(filters.pass(1, 40 + 64, 9, false, 7), Some((7, 2)));
        assert_eq!(awake(&filters), [4, 6, 7, 3]);
        filters.sleep_all();
        assert!(awake(&filters).is_empty());
        // A store to a clean line passes, and its slot is awake.
        assert_eq!(filters.drops_or_wakes(1, 41, true, 8), (false, true));
        assert_eq!(awake(&filters), [3]);
    }
}
