//! This part of the filters skips accesses of walks and handlers.
//!
//! The rule of references holds here, too: a line that was accessed last in its slot, by whomever, hits, and the hit
//! changes nothing. A slot knows such a line by its page of the tables. Pages of tables are wired, so no placement
//! evicts their lines, and no time matters. Upper entries of a table nearly always lie in the line of the last walk.
//!
//! The lines of two levels may share a slot, so that each walk accesses both in turn. A cache that replaces the least
//! recently used line, or its tree-PLRU, keeps both. The same two accesses in the same order hit, and leave the order
//! as it is ([`Filters::drops_pair`]).

use binhop_base::{Agent, Kind, LineAddr, MappingId};
use binhop_hw::Access;

use super::{EMPTY, Filters, NO_LINE, REHIT, Shape};
use crate::prepare::Row;

/// The most entries of a walk in which pairs are looked for: the bits of a mask.
const LONGEST_WITH_PAIRS: usize = u64::BITS as usize;

/// The [`WalkAccess::later`] of an access without a pair.
const NO_LATER: u8 = u8::MAX;
const _: () = assert!(LONGEST_WITH_PAIRS <= NO_LATER as usize);

/// `WalkAccess` is an access of a walk or a handler to a line of a page of its own.
///
/// It takes 16 bytes, because a program walks to thousands of pages in turn: the entries of a walk then lie in one or
/// two lines of the host's caches.
#[derive(Clone, Debug)]
pub(in crate::prepare) struct WalkAccess {
    pub(in crate::prepare) row: Row,
    /// The first slot into which the line may fall.
    slot: u32,
    /// The number of the filter.
    port: u8,
    /// The logarithm of the distance between the slots into which the line may fall.
    step_log2: u8,
    /// True if the line falls into one slot.
    has_one_slot: bool,
    /// The place, among the entries of the walk, of the only later entry that falls into the same slot, if the cache
    /// keeps the two lines that were accessed last in a set; otherwise [`NO_LATER`].
    later: u8,
}

const _: () = assert!(size_of::<WalkAccess>() == 16);

impl WalkAccess {
    /// Makes the access of an agent to a byte of a mapping's page. `port` is the number of the filter, whose cache has
    /// this shape, and 2^`page_log2` are the bytes of a page.
    pub(in crate::prepare) fn new(
        (agent, kind): (Agent, Kind),
        (mapping, byte): (MappingId, u64),
        (port, shape): (usize, &Shape),
        page_log2: u32,
    ) -> Self {
        let line = byte >> shape.line_log2;
        let step_log2 = page_log2 - shape.line_log2;
        let mut slots = shape.slots_of(line, 1 << step_log2);
        let slot = slots.next().expect("a line falls into a slot");
        Self {
            row: Row::new(mapping, line as u32, kind).of_walk(agent),
            slot,
            port: port as u8,
            step_log2: step_log2 as u8,
            has_one_slot: slots.next().is_none(),
            later: NO_LATER,
        }
    }

    /// Returns the tag of the line.
    #[inline(always)]
    fn tag(&self) -> u64 {
        let LineAddr { id, line } = self.row.at();
        NO_LINE | (u64::from(id) << 24 | u64::from(line)) << 2
    }

    /// Finds the entries of a walk that share a slot with one other entry. The cache that is loaded keeps the two lines
    /// that were accessed last in a set.
    pub(in crate::prepare) fn pair(entries: &mut [Self]) {
        // A chain of a hashed table has any length.
        if entries.len() > LONGEST_WITH_PAIRS {
            return;
        }
        let places = |slot: u32| -> Vec<usize> {
            // All entries are read through one port, so lines that share their first slot share all slots.
            (0..entries.len()).filter(|&place| entries[place].slot == slot).collect()
        };
        let pairs: Vec<u8> = entries
            .iter()
            .enumerate()
            .map(|(place, entry)| match *places(entry.slot) {
                [first, later] if first == place && entry.has_one_slot => later as u8,
                _ => NO_LATER,
            })
            .collect();
        entries.iter_mut().zip(pairs).for_each(|(entry, later)| entry.later = later);
    }
}

impl Filters {
    /// Passes the accesses of a walk, from place `from` on, that may not be skipped. Returns the number of accesses
    /// that were skipped.
    #[inline]
    pub(in crate::prepare) fn pass_walk(
        &mut self,
        accesses: &[WalkAccess],
        from: usize,
        mut pass: impl FnMut(&WalkAccess),
    ) -> u64 {
        // The later accesses of pairs that are skipped. A longer walk has no pairs, so the mask stays 0.
        let (mut of_pairs, mut skipped) = (0_u64, 0);
        for (place, access) in accesses.iter().enumerate().skip(from) {
            let later = access.later;
            let drops = if of_pairs != 0 && of_pairs >> place & 1 != 0 {
                true
            } else if later != NO_LATER && self.drops_pair(access, &accesses[usize::from(later)]) {
                of_pairs |= 1 << later;
                true
            } else {
                self.drops_walk(access)
            };
            if drops {
                skipped += 1;
            } else {
                pass(access);
            }
        }
        skipped
    }

    /// Skips an access of a walk if that is exact. Returns true if the access was skipped. Otherwise its line is from
    /// now on the line of its slot.
    fn drops_walk(&mut self, access: &WalkAccess) -> bool {
        let port = usize::from(access.port);
        let table = &self.ports[port];
        if !access.has_one_slot {
            let (base, last) = (table.base, table.mask as usize);
            for slot in (access.slot as usize..=last).step_by(1 << access.step_log2) {
                self.slots[base + slot].tag = EMPTY;
            }
            return false;
        }
        let (place, of_access) = (table.base + access.slot as usize, access.tag());
        let tag = &mut self.slots[place].tag;
        if *tag == of_access | REHIT {
            return true;
        }
        let is_of_walk = *tag & NO_LINE != 0 && *tag != EMPTY;
        self.before[place] = if is_of_walk { *tag & !REHIT } else { 0 };
        *tag = of_access | if *tag == of_access { REHIT } else { table.fresh };
        debug_assert_ne!(*tag, EMPTY);
        false
    }

    /// Skips the accesses of a walk to two lines of one slot, if that is exact: the two lines were accessed last in
    /// their slot, in the same order. Returns true if the accesses were skipped.
    fn drops_pair(&self, first: &WalkAccess, later: &WalkAccess) -> bool {
        let (first, tag) = (first.tag(), later.tag());
        let slot = self.ports[usize::from(later.port)].base + later.slot as usize;
        first != tag && self.slots[slot].tag == tag | REHIT && self.before[slot] == first
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOTS: u64 = 4;
    const LINE_LOG2: u32 = 5;
    const PAGE_LOG2: u32 = 8;

    fn shape(needs_first_hit: bool) -> Shape {
        Shape { line_log2: LINE_LOG2, slots: SLOTS, needs_first_hit, write_back: true, allocate: true }
    }

    /// `Sets` are the sets of a cache of two ways that replaces the least recently used line. A line has the number of
    /// its page and its number there.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Sets([Vec<(u32, u64)>; SLOTS as usize]);

    impl Sets {
        /// Makes an access. Returns whether it hits.
        fn access(&mut self, page: u32, line: u64) -> bool {
            let set = &mut self.0[(line % SLOTS) as usize];
            let hit = set.contains(&(page, line));
            set.retain(|&held| held != (page, line));
            set.insert(0, (page, line));
            set.truncate(2);
            hit
        }
    }

    #[derive(Clone, Debug)]
    enum Event {
        User { line: u64, store: bool },
        Walk { bytes: Vec<u64>, from: usize },
    }

    fn event() -> impl Strategy<Value = Event> {
        let byte = prop_oneof![Just(0), Just(128), 0..256_u64];
        let walk = (prop::collection::vec(byte, 1..5), 0..2_usize);
        prop_oneof![
            1 => (0..8_u64, any::<bool>()).prop_map(|(line, store)| Event::User { line, store }),
            2 => walk.prop_map(|(bytes, from)| Event::Walk { bytes, from }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        /// Accesses that are skipped hit, and a cache without them holds the same lines in the same order.
        #[test]
        fn walks_skip_what_changes_nothing(
            events in prop::collection::vec(event(), 1..60),
            needs_first_hit: bool,
        ) {
            let shape = shape(needs_first_hit);
            let mut filters = Filters::new([shape; 2], false, false);
            filters.trust([0, 0]);
            let (mut all, mut passed, mut now) = (Sets::default(), Sets::default(), 0);
            for event in events {
                now += 1;
                match event {
                    Event::User { line, store } => {
                        let hit = all.access(0, line);
                        if filters.drops(0, line, store, now) {
                            prop_assert!(hit);
                        } else {
                            filters.pass(0, line, 0, store, now);
                            passed.access(0, line);
                        }
                    }
                    Event::Walk { bytes, from } => {
                        let load = |(level, &byte): (u32, &u64)| {
                            let at = (MappingId(level), byte);
                            WalkAccess::new((Agent::Walk, Kind::Load), at, (0, &shape), PAGE_LOG2)
                        };
                        let mut walk: Vec<_> = (1..).zip(&bytes).map(load).collect();
                        // A cache that must see first hits replaces in another way.
                        if !needs_first_hit {
                            WalkAccess::pair(&mut walk);
                        }
                        let from = from.min(walk.len());
                        let name = |access: &WalkAccess| (access.row.at().id, u64::from(access.row.at().line));
                        let mut misses: Vec<(u32, u64)> = Vec::new();
                        for access in &walk[from..] {
                            let (page, line) = name(access);
                            if !all.access(page, line) {
                                misses.push((page, line));
                            }
                        }
                        let mut made = Vec::new();
                        let skipped = filters.pass_walk(&walk, from, |access| made.push(name(access)));
                        prop_assert_eq!(skipped as usize + made.len(), walk.len() - from);
                        for line in misses {
                            prop_assert!(made.contains(&line), "{:?} misses", line);
                        }
                        for (page, line) in made {
                            passed.access(page, line);
                        }
                    }
                }
                prop_assert_eq!(&all, &passed);
            }
        }
    }

    #[test]
    fn two_levels_that_share_a_slot_are_skipped_as_a_pair() {
        let shape = shape(false);
        let mut filters = Filters::new([shape; 2], false, false);
        let walk_to = |byte: u64| {
            let bytes = [0, 128, byte];
            let load = |(level, &byte): (u32, &u64)| {
                WalkAccess::new((Agent::Walk, Kind::Load), (MappingId(level), byte), (0, &shape), PAGE_LOG2)
            };
            let mut walk: Vec<_> = (1..).zip(&bytes).map(load).collect();
            WalkAccess::pair(&mut walk);
            walk
        };
        let mut skips = |byte: u64| filters.pass_walk(&walk_to(byte), 0, |_| {});
        assert_eq!([skips(32), skips(32), skips(64), skips(96), skips(96)], [0, 3, 2, 2, 3]);
        filters.pass(0, 4, 9, false, 1);
        assert_eq!(filters.pass_walk(&walk_to(96), 0, |_| {}), 1);
        assert_eq!(filters.pass_walk(&walk_to(96), 0, |_| {}), 3);
    }

    #[test]
    fn a_long_chain_has_no_pairs() {
        let shape = shape(false);
        for length in [63, 64, 65, 130] {
            let mut filters = Filters::new([shape; 2], false, false);
            let load = |level: u32| {
                let byte = u64::from(level / 2) << LINE_LOG2 & 0xff;
                WalkAccess::new((Agent::Walk, Kind::Load), (MappingId(level), byte), (0, &shape), PAGE_LOG2)
            };
            let mut walk: Vec<_> = (0..length).map(load).collect();
            WalkAccess::pair(&mut walk);
            let mut passed = 0;
            let skipped = filters.pass_walk(&walk, 0, |_| passed += 1);
            assert_eq!((skipped, passed), (0, length));
        }
    }
}
