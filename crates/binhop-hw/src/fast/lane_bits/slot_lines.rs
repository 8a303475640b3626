//! `SlotLines` holds the lines of one slot of a direct-mapped cache, in every lane.

use super::{Mask, WrittenBack};
use crate::cache::lines::search::{Portable, Search, WORDS};

/// The lines of a group. Where one bit of the frame chooses the set, an access takes every other line of the slot from
/// half of its lanes. So a slot of 64 lanes holds seven or eight lines, and seldom more than a group.
const LINES: usize = WORDS;

/// `LineGroup` holds some lines of a slot. Each property of the lines is an array, so that a processor computes with
/// several lines at once. A place whose line is resident in no lane is free.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct LineGroup {
    keys: [u64; LINES],
    /// The lanes that hold each line. `dirty` has the lanes in which the line is dirty.
    resident: [Mask; LINES],
    dirty: [Mask; LINES],
    /// The bin of each line's page in every lane, where a bin is one bit. A lane that lacks the line may have an older
    /// bit. Where a bin has several bits, the array is room for the lanes in which the line meets the accessed line.
    bins: [Mask; LINES],
}

impl LineGroup {
    /// A group without lines. No line has the key.
    const EMPTY: Self =
        Self { keys: [u64::MAX; LINES], resident: [0; LINES], dirty: [0; LINES], bins: [0; LINES] };

    /// Returns a bit for each place whose line has the key, or had it before the place became free.
    #[inline(always)]
    fn find<S: Search>(&self, key: u64) -> u32 {
        S::find_word(&self.keys, key)
    }

    /// Returns a bit for each free place.
    #[inline(always)]
    fn free<S: Search>(&self) -> u32 {
        S::find_word(&self.resident, 0)
    }

    /// Takes each line from the lanes in which its page has the bin of `bins`. Appends the dirty lines to
    /// `written_back`. The accessed line leaves, too, but it does not count: it lies in the lanes of `own`, and at the
    /// place of `of_own`, which is one bit or 0.
    #[inline(always)]
    fn evict_others<S: Search>(
        &mut self,
        own: Mask,
        of_own: u32,
        bins: Mask,
        written_back: &mut Vec<WrittenBack>,
    ) -> Evicted {
        let mut dirty_of_lines = [0; LINES];
        let lists = [&mut self.resident, &mut self.dirty];
        let [lanes, dirty] = S::clear_equal(lists, &self.bins, bins, &mut dirty_of_lines);
        // A lane that holds the line loses no other line, because one line lies in a set.
        let others = Evicted { lanes: lanes & !own, dirty: dirty & !own };
        if others.dirty != 0 {
            let mut dirty = !S::find_word(&dirty_of_lines, 0) & ((1 << LINES) - 1) & !of_own;
            while dirty != 0 {
                let at = dirty.trailing_zeros() as usize % LINES;
                dirty &= dirty - 1;
                written_back.push((self.keys[at], dirty_of_lines[at]));
            }
        }
        others
    }
}

/// The lanes that lose a line to an access, and the lanes that lose a dirty line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) lanes: Mask,
    pub(super) dirty: Mask,
}

/// `Held` says which lanes hold a line, and in which lanes the line is dirty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) key: u64,
    pub(super) resident: Mask,
    pub(super) dirty: Mask,
}

/// `SlotLines` holds the lines of one slot that some lane holds. Few slots need more than one group.
#[derive(Clone, Debug)]
pub(super) struct SlotLines {
    first: LineGroup,
    more: Vec<LineGroup>,
}

impl Default for SlotLines {
    fn default() -> Self {
        Self { first: LineGroup::EMPTY, more: Vec::new() }
    }
}

/// The place of a line: its group, and its place within the group.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePlace {
    /// 0 is the first group.
    group: usize,
    at: usize,
}

impl SlotLines {
    /// Returns the place of a line, or a free place if no lane holds the line.
    #[inline(always)]
    pub(super) fn place<S: Search>(&mut self, key: u64) -> LinePlace {
        if self.more.is_empty() {
            let found = self.first.find::<S>(key);
            let places = if found == 0 { self.first.free::<S>() } else { found };
            if places != 0 {
                return LinePlace { group: 0, at: places.trailing_zeros() as usize % LINES };
            }
        }
        self.place_in_groups(key)
    }

    #[inline(never)]
    fn place_in_groups(&mut self, key: u64) -> LinePlace {
        let first = |of: fn(&LineGroup, u64) -> u32| {
            let mut groups = self.groups().map(|group| of(group, key)).enumerate();
            groups.find(|(_, places)| *places != 0).map(|(group, places)| (group, places.trailing_zeros()))
        };
        if let Some((group, at)) =
            first(LineGroup::find::<Portable>).or_else(|| first(|group, _| group.free::<Portable>()))
        {
            return LinePlace { group, at: at as usize % LINES };
        }
        self.more.reserve_exact(1);
        self.more.push(LineGroup::EMPTY);
        LinePlace { group: self.more.len(), at: 0 }
    }

    fn groups(&self) -> impl Iterator<Item = &LineGroup> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn groups_mut(&mut self) -> impl Iterator<Item = &mut LineGroup> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    #[inline(always)]
    fn group_mut(&mut self, group: usize) -> &mut LineGroup {
        if group == 0 { &mut self.first } else { &mut self.more[group - 1] }
    }

    /// Returns what lanes hold of the line at a place. If no lane holds the line, the key may be another line's.
    #[inline(always)]
    pub(super) fn held(&self, LinePlace { group, at }: LinePlace) -> Held {
        let group = if group == 0 { &self.first } else { &self.more[group - 1] };
        Held { key: group.keys[at], resident: group.resident[at], dirty: group.dirty[at] }
    }

    /// Notes for each line in which lanes it meets the accessed line, where a bin has several bits. Then
    /// [`Mask::MAX`] stands for the accessed line's bin.
    pub(super) fn note_meeting(&mut self, meets: impl Fn(u64) -> Mask) {
        for group in self.groups_mut() {
            for at in 0..LINES {
                group.bins[at] = if group.resident[at] == 0 { 0 } else { meets(group.keys[at]) };
            }
        }
    }

    /// Takes every line from the lanes in which its page has the bin of `bins`, which is the bin of the line at
    /// `place`. Appends the dirty lines to `written_back`. The line at `place` leaves, too, but it does not count:
    /// `own` says which lanes hold it.
    #[inline(always)]
    pub(super) fn evict<S: Search>(
        &mut self,
        (place, own): (LinePlace, Held),
        bins: Mask,
        written_back: &mut Vec<WrittenBack>,
    ) -> Evicted {
        let of_first = if place.group == 0 { 1 << place.at } else { 0 };
        let mut all = self.first.evict_others::<S>(own.resident, of_first, bins, written_back);
        for (number, group) in (1..).zip(&mut self.more) {
            let of_own = if number == place.group { 1 << place.at } else { 0 };
            let others = group.evict_others::<S>(own.resident, of_own, bins, written_back);
            all = Evicted { lanes: all.lanes | others.lanes, dirty: all.dirty | others.dirty };
        }
        all
    }

    /// Puts a line at a place.
    #[inline(always)]
    pub(super) fn put<S: Search>(&mut self, LinePlace { group, at }: LinePlace, line: Held, bins: Mask) {
        let group = self.group_mut(group);
        S::set_word(&mut group.keys, at, line.key);
        S::set_word(&mut group.resident, at, line.resident);
        S::set_word(&mut group.dirty, at, line.dirty);
        S::set_word(&mut group.bins, at, bins);
    }

    /// Makes a line dirty in some lanes that hold it.
    #[inline(always)]
    pub(super) fn write<S: Search>(&mut self, LinePlace { group, at }: LinePlace, lanes: Mask) {
        let dirty = &mut self.group_mut(group).dirty;
        S::set_word(dirty, at, dirty[at] | lanes);
    }

    /// Removes a line from a lane. Returns the line as it was, if some lane holds it.
    pub(super) fn remove(&mut self, key: u64, lane: usize) -> Option<Held> {
        for group in self.groups_mut() {
            let found = group.find::<Portable>(key);
            if found != 0 {
                let at = found.trailing_zeros() as usize % LINES;
                let line = Held { key, resident: group.resident[at], dirty: group.dirty[at] };
                group.resident[at] &= !(1 << lane);
                group.dirty[at] &= !(1 << lane);
                return Some(line);
            }
        }
        None
    }

    /// Returns the lines that some lane holds.
    pub(super) fn iter(&self) -> impl Iterator<Item = Held> {
        let of_group = |group: &LineGroup| {
            std::array::from_fn::<Held, LINES, _>(|at| Held {
                key: group.keys[at],
                resident: group.resident[at],
                dirty: group.dirty[at],
            })
        };
        self.groups().flat_map(of_group).filter(|line| line.resident != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::cache::lines::search::{Instructions, SearchVisitor};

    /// The lines that one access evicts, and what lanes held of the accessed line.
    type Replaced = (Mask, Evicted, BTreeMap<u64, Mask>);

    /// `SlotAccess` makes an access with the instructions that it is compiled for.
    struct SlotAccess<'a> {
        slot: &'a mut SlotLines,
        key: u64,
        stored: Mask,
        bins: &'a [Vec<Mask>],
        replaced: &'a mut Replaced,
    }

    /// Returns the lanes in which two pages have the same bin.
    fn meeting(bins: &[Vec<Mask>], one: u64, other: u64) -> Mask {
        bins.iter().fold(Mask::MAX, |meeting, bit| meeting & !(bit[one as usize] ^ bit[other as usize]))
    }

    impl SearchVisitor for SlotAccess<'_> {
        #[inline(always)]
        fn visit<S: Search>(self) {
            let Self { slot, key, stored, bins, replaced } = self;
            let place = slot.place::<S>(key);
            let own = slot.held(place);
            let mut written_back = Vec::new();
            let word = match bins {
                [bit] => bit[key as usize],
                _ => {
                    slot.note_meeting(|other| meeting(bins, key, other));
                    Mask::MAX
                }
            };
            let evicted = slot.evict::<S>((place, own), word, &mut written_back);
            slot.put::<S>(place, Held { key, resident: Mask::MAX, dirty: own.dirty | stored }, word);
            *replaced = (own.resident, evicted, written_back.into_iter().collect());
        }
    }

    proptest! {
        /// Compares a slot with a map of bins for each lane, for many pages and every choice of instructions.
        #[test]
        fn a_slot_equals_a_map_of_bins_in_each_lane(
            bins in prop::collection::vec(prop::collection::vec(any::<Mask>(), 40), 1..4),
            accesses in prop::collection::vec((0..40_u64, any::<bool>(), prop::option::of(0..40_u64)), 1..120),
        ) {
            for instructions in Instructions::here() {
                let mut slot = SlotLines::default();
                let mut lanes = vec![BTreeMap::<u64, (u64, bool)>::new(); 64];
                let bin_of = |lane: usize, page: u64| {
                    bins.iter().fold(0, |bin, bit| bin << 1 | bit[page as usize] >> lane & 1)
                };
                for &(key, stores, removed) in &accesses {
                    if let Some(key) = removed {
                        let lane = key as usize;
                        let bin = bin_of(lane, key);
                        let held = lanes[lane].get(&bin).filter(|line| line.0 == key).map(|line| line.1);
                        let bit = |line: Held| (line.resident >> lane & 1 == 1).then_some(line.dirty >> lane & 1 == 1);
                        prop_assert_eq!(slot.remove(key, lane).and_then(bit), held);
                        if held.is_some() {
                            lanes[lane].remove(&bin);
                        }
                    }
                    let mut expected = (0, Evicted::default(), BTreeMap::new());
                    for (lane, lines) in lanes.iter_mut().enumerate() {
                        match lines.insert(bin_of(lane, key), (key, stores)) {
                            Some((other, dirty)) if other == key => {
                                expected.0 |= 1 << lane;
                                lines.insert(bin_of(lane, key), (key, dirty | stores));
                            }
                            Some((other, dirty)) => {
                                expected.1.lanes |= 1 << lane;
                                if dirty {
                                    expected.1.dirty |= 1 << lane;
                                    *expected.2.entry(other).or_insert(0) |= 1 << lane;
                                }
                            }
                            None => {}
                        }
                    }
                    let mut replaced = Replaced::default();
                    let stored = if stores { Mask::MAX } else { 0 };
                    let slot = &mut slot;
                    instructions.run(SlotAccess { slot, key, stored, bins: &bins, replaced: &mut replaced });
                    prop_assert_eq!(replaced, expected);
                }
                let held: usize = slot.iter().map(|line| line.resident.count_ones() as usize).sum();
                prop_assert_eq!(held, lanes.iter().map(BTreeMap::len).sum::<usize>());
            }
        }
    }
}
