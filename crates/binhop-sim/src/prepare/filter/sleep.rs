//! This part of the filters knows which slots hold lines of pages that the TLBs hold.
//!
//! All references whose lines are the last lines of their slots are skipped by one test. So that the same test says
//! that a page need not be looked up, a slot *sleeps* while the first-level TLB of its port does not hold the page of
//! its line. A slot that is asleep has the time 0, before which no line is trusted, and its time is kept apart. The
//! slow path wakes the slot when its line is accessed, and looks up the page. All slots of a page wake together when
//! the page is looked up, and sleep from the time at which it leaves the TLB ([`PagePlaces`]).
//!
//! The times of slots say when the page of a TLB's entry was last used ([`Filters::last_access`]).

use std::ops::Range;

use binhop_base::MappingId;

use super::{Filters, Slot};

/// `PagePlaces` knows in which slots the lines of each page may be.
///
/// The slots of a port stand in at most 64 groups of neighbours, and a mapping has a bit for each group. A bit is set
/// when a line of the mapping's page takes a slot of the group. It is not cleared when another line takes the slot, but
/// when somebody searches the group and finds no such line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PagePlaces {
    /// For each mapping and port, the bits of the groups.
    groups: Vec<[u64; 2]>,
    /// For each port, the logarithm of the number of slots in a group.
    slots_log2: [u32; 2],
}

impl PagePlaces {
    /// Notes that a line of a mapping's page takes a slot of a port.
    #[inline]
    pub(super) fn add(&mut self, port: usize, slot: u32, id: u32) {
        if self.groups.len() <= id as usize {
            self.groups.resize(id as usize + 1, [0; 2]);
        }
        self.groups[id as usize][port] |= 1 << (slot >> self.slots_log2[port]);
    }
}

impl Filters {
    /// From now on slots may sleep.
    pub(in crate::prepare) fn let_slots_sleep(&mut self) {
        debug_assert!(self.timed && self.slots.iter().all(|slot| slot.time == 0));
        let slots_log2 = self.ports.map(|table| (table.mask + 1).ilog2().saturating_sub(u64::BITS.ilog2()));
        self.places = Some(PagePlaces { groups: Vec::new(), slots_log2 });
    }

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
        let wakes = self.asleep[place] > 0 && self.slots[place].tag >> 2 == line;
        if wakes {
            wake(&mut self.slots[place], &mut self.asleep[place]);
        }
        wakes
    }

    /// Wakes the slots of a port that hold lines of a mapping's page.
    pub(in crate::prepare) fn wake(&mut self, port: usize, mapping: MappingId) {
        self.with_places(port, mapping, wake);
    }

    /// Puts the slots of a port to sleep that hold lines of a mapping's page.
    pub(in crate::prepare) fn sleep(&mut self, port: usize, mapping: MappingId) {
        self.with_places(port, mapping, sleep);
    }

    /// Puts all slots to sleep.
    pub(in crate::prepare) fn sleep_all(&mut self) {
        self.slots.iter_mut().zip(&mut self.asleep).for_each(|(slot, asleep)| sleep(slot, asleep));
    }

    /// Returns the time of the last access to a mapping's page through slots of a port that hold lines of the page and
    /// are awake; 0 if there are no such slots.
    #[inline]
    pub(in crate::prepare) fn last_access(&self, port: usize, mapping: MappingId) -> u64 {
        let Some(places) = &self.places else { return 0 };
        let Some(groups) = places.groups.get(mapping.index()) else { return 0 };
        let mut last = 0;
        for group in bits(groups[port]) {
            let places = self.places_of_group(port, group, places.slots_log2[port]);
            for (slot, &id) in self.slots[places.clone()].iter().zip(&self.ids[places]) {
                // A processor cannot predict which slots hold a line of the page.
                let time = if id == mapping.0 { slot.time } else { 0 };
                last = last.max(time);
            }
        }
        last
    }

    /// Calls `change` with the slots of a port that hold lines of a mapping's page, and forgets the groups that hold no
    /// such line any more.
    #[inline]
    fn with_places(&mut self, port: usize, mapping: MappingId, change: impl Fn(&mut Slot, &mut u64)) {
        let Some(places) = &self.places else { return };
        let Some(&groups) = places.groups.get(mapping.index()) else { return };
        let slots_log2 = places.slots_log2[port];
        let mut gone = 0;
        for group in bits(groups[port]) {
            let mut holds = false;
            for place in self.places_of_group(port, group, slots_log2) {
                if self.ids[place] == mapping.0 {
                    holds = true;
                    change(&mut self.slots[place], &mut self.asleep[place]);
                }
            }
            gone |= u64::from(!holds) << group;
        }
        if let (Some(places), 1..) = (&mut self.places, gone) {
            places.groups[mapping.index()][port] &= !gone;
        }
    }

    #[inline]
    fn places_of_group(&self, port: usize, group: u32, slots_log2: u32) -> Range<usize> {
        let first = self.ports[port].base + ((group as usize) << slots_log2);
        first..first + (1 << slots_log2)
    }
}

/// Returns the numbers of the bits that are set.
#[inline]
fn bits(word: u64) -> impl Iterator<Item = u32> {
    let next = |&word: &u64| Some(word & (word - 1)).filter(|&rest| rest != 0);
    std::iter::successors(Some(word).filter(|&word| word != 0), next).map(u64::trailing_zeros)
}

#[inline]
fn sleep(slot: &mut Slot, asleep: &mut u64) {
    if slot.time > 0 {
        *asleep = std::mem::take(&mut slot.time);
    }
}

#[inline]
fn wake(slot: &mut Slot, asleep: &mut u64) {
    if *asleep > 0 {
        slot.time = std::mem::take(asleep);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    fn filters(slots: u64) -> Filters {
        let mut filters = Filters::new([Shape::of_slots(6, slots); 2], true, true);
        filters.let_slots_sleep();
        filters.trust([1, 1]);
        filters
    }

    fn awake(filters: &Filters) -> Vec<u64> {
        filters.slots.iter().map(|slot| slot.time).filter(|&time| time > 0).collect()
    }

    #[test]
    fn slots_sleep_until_their_lines_are_accessed() {
        let mut filters = filters(64);
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

    #[test]
    fn the_slots_of_a_page_sleep_and_wake_together() {
        for slots in [1, 8, 64, 512] {
            let mut filters = filters(slots);
            // The page of mapping 5 is in each third slot, and the pages of other mappings are in the other slots.
            let page_of = |slot: u64| if slot.is_multiple_of(3) { 5 } else { slot as u32 % 3 };
            for slot in 0..slots {
                filters.pass(1, slot, page_of(slot), false, slot + 1);
            }
            let of_page = |is_held: bool| -> Vec<u64> {
                (0..slots).filter(|&slot| (page_of(slot) == 5) == is_held).map(|slot| slot + 1).collect()
            };
            let last = of_page(true).pop().unwrap();
            assert_eq!(filters.last_access(1, MappingId(5)), last);
            assert_eq!(filters.last_access(0, MappingId(5)), 0);
            filters.sleep(1, MappingId(5));
            assert_eq!(awake(&filters), of_page(false));
            assert_eq!(filters.last_access(1, MappingId(5)), 0);
            filters.wake(0, MappingId(5));
            assert_eq!(awake(&filters), of_page(false));
            filters.wake(1, MappingId(5));
            assert_eq!(awake(&filters), (1..=slots).collect::<Vec<_>>());
            // Other lines take the slots, and then the page of mapping 5 takes them back.
            for slot in 0..slots {
                filters.pass(1, slot + slots, 6, false, slots + slot + 1);
            }
            filters.sleep(1, MappingId(5));
            assert_eq!(awake(&filters).len() as u64, slots);
            assert_eq!(filters.last_access(1, MappingId(5)), 0);
            filters.pass(1, slots - 1, 5, false, 3 * slots);
            assert_eq!(filters.last_access(1, MappingId(5)), 3 * slots);
            filters.sleep(1, MappingId(5));
            assert_eq!(awake(&filters).len() as u64, slots - 1);
        }
    }
}
