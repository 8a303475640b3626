//! `LruSets` knows the order of the last requests for the lines of an LRU cache, in every lane, where all lanes ask for
//! the same lines in the same order.
//!
//! Whether a request hits or misses, the requested line becomes the most recently used line of its set. So every lane
//! that holds a line used it last at the same request, and one order serves all lanes. A list for each line number
//! within the page keeps the lines in this order, each with the lanes that hold it. A request writes its line at the
//! end of the list.
//!
//! In a lane that misses, the victim is the first line of the list that this lane holds in the same set. Lines lie in
//! the same set where the frames of their pages agree in some bits. Each line has a word for each of these bits, with a
//! bit for each lane. So a search of the list finds the victims of all lanes at once, and vectors compare several
//! lines. No lane has a table of its ways.
//!
//! # Cost
//! A search looks at each line that is older than the youngest victim. With random frames, the list has less than twice
//! as many lines as a lane holds, and the search looks at about half of them. A line that was asked for again, or that
//! left every lane, leaves a gap in the list. When a list has too many gaps, they are removed.

use binhop_base::PageId;

use super::{
    LinesOf, MOST_LANES, Mask, all_of, frames::LaneFrames, line_masks::LineMasks, occupants::SetsBytes,
    page_rows::PageRows,
};
use crate::{
    CacheConfig,
    cache::lines::search::{Eight, Instructions, Search, SearchVisitor},
};

/// The number of lines that a search compares at once.
const AT_ONCE: usize = 8;

/// The number of gaps of a list that are never too many. Beyond it, a gap may stand for each [`LINES_TO_GAP`] lines.
const FEW_GAPS: usize = 16;
const LINES_TO_GAP: usize = 4;

/// The bytes that a list takes for each byte of its lines: for gaps, and for the room that a list has in advance.
const ROOM: u64 = 3;

/// A line that leaves some lanes: its page, and the lanes.
type Victim = (u32, Mask);

/// The victims of a request, at most one for each lane. The last place is that of a line which leaves no lane: a search
/// writes each line that it looks at behind the victims before.
type Victims = [Victim; MOST_LANES + 1];

/// `LruSets` holds the order of the lines of one LRU cache.
#[derive(Clone, Debug)]
pub(super) struct LruSets {
    lines_of: LinesOf,
    ways: u32,
    lanes: usize,
    /// The number of bits of a frame that choose the set.
    bits: usize,
    /// For each page and each of these bits, the lanes in which the page's frame has the bit.
    bits_of_pages: Vec<Mask>,
    lists: Vec<LineList>,
    /// For each line, its place in the list of its line number, plus 1; 0 if the list does not have the line.
    places: PageRows<u32>,
    /// For each line number, each combination of bits and each lane, the lines of the set.
    held: Vec<u32>,
    /// For each line number, the sets of all lanes that have an empty way.
    open: Vec<u32>,
    instructions: Instructions,
    /// Room for the victims of one request.
    victims: Box<Victims>,
}

/// `LineList` holds the lines of one line number in the order of their last requests, the oldest first, with gaps.
#[derive(Clone, Debug, Default)]
struct LineList {
    /// The pages of the lines.
    pages: Vec<u32>,
    /// For each [`AT_ONCE`] lines, the lanes that hold each line, and then for each bit the lanes in which the frame of
    /// each line's page has the bit. No lane holds the line of a gap.
    words: Vec<Eight>,
    /// The number of lines that some lane holds.
    lines: usize,
    /// The number of vectors at the start that hold nothing but gaps, at least.
    empty: usize,
}

impl LineList {
    /// Returns the lanes that hold the line of a place, to be changed. `stride` is the number of vectors for
    /// [`AT_ONCE`] lines.
    #[inline(always)]
    fn lanes_mut(&mut self, place: usize, stride: usize) -> &mut Mask {
        &mut self.words[place / AT_ONCE * stride].0[place % AT_ONCE]
    }

    /// Adds a line at the end. Every lane of `lanes` holds it.
    #[inline(always)]
    fn push(&mut self, page: u32, lanes: Mask, bits: &[Mask]) {
        let (place, stride) = (self.pages.len(), bits.len() + 1);
        if place.is_multiple_of(AT_ONCE) {
            self.words.resize(self.words.len() + stride, Eight::default());
        }
        self.pages.push(page);
        self.lines += 1;
        let (held, of_bits) =
            self.words[place / AT_ONCE * stride..][..stride].split_first_mut().expect("there is a vector");
        held.0[place % AT_ONCE] = lanes;
        for (word, &bit) in of_bits.iter_mut().zip(bits) {
            word.0[place % AT_ONCE] = bit;
        }
    }

    /// Removes the gaps. `places` are the places of the lines, by page.
    #[inline(never)]
    fn remove_gaps(&mut self, stride: usize, places: &mut [u32]) {
        let mut end = 0;
        for place in 0..self.pages.len() {
            let (page, lanes) = (self.pages[place], *self.lanes_mut(place, stride));
            let of_page = &mut places[page as usize];
            if lanes == 0 {
                if *of_page == place as u32 + 1 {
                    *of_page = 0;
                }
                continue;
            }
            *of_page = end as u32 + 1;
            self.pages[end] = page;
            let [from, to] = [place, end].map(|place| place / AT_ONCE * stride);
            for word in 0..stride {
                self.words[to + word].0[end % AT_ONCE] = self.words[from + word].0[place % AT_ONCE];
            }
            end += 1;
        }
        self.pages.truncate(end);
        self.words.truncate(end.div_ceil(AT_ONCE) * stride);
        for place in end..end.next_multiple_of(AT_ONCE) {
            *self.lanes_mut(place, stride) = 0;
        }
        debug_assert_eq!(self.lines, end);
        self.empty = 0;
    }
}

impl LruSets {
    pub(super) fn new(cache: &CacheConfig, lines_of: LinesOf, lanes: usize) -> Self {
        Self::of(lines_of, (cache.sets() >> lines_of.log2).ilog2(), cache.ways, lanes)
    }

    /// Makes empty sets of so many ways. So many bits of a frame choose the set.
    fn of(lines_of: LinesOf, bits: u32, ways: u32, lanes: usize) -> Self {
        let (numbers, bins) = (1 << lines_of.log2, 1 << bits);
        Self {
            lines_of,
            ways,
            lanes,
            bits: bits as usize,
            bits_of_pages: Vec::new(),
            lists: vec![LineList::default(); numbers],
            places: PageRows::in_slices(lines_of),
            held: vec![0; numbers * bins * lanes],
            open: vec![(bins * lanes) as u32; numbers],
            instructions: Instructions::here().next().unwrap_or(Instructions::Portable),
            victims: Box::new([(0, 0); MOST_LANES + 1]),
        }
    }

    /// Returns the bytes that the sets take for each lane.
    pub(super) fn bytes(cache: &CacheConfig) -> u64 {
        cache.sets() * size_of::<u32>() as u64
    }

    /// Returns the bytes that the order takes for all lanes together. With random frames, 64 lanes together hold up to
    /// 3.4 times as many lines as a lane does with 2 ways, 2.6 times with 4 ways, and twice as many with 8 ways.
    pub(super) fn shared_bytes(cache: &CacheConfig, lines_of: LinesOf) -> SetsBytes {
        Self::bytes_of_order(lines_of, (cache.sets() >> lines_of.log2).ilog2(), cache.ways)
    }

    fn bytes_of_order(lines_of: LinesOf, bits: u32, ways: u32) -> SetsBytes {
        let (sets, bits) = (1 << (bits + lines_of.log2), u64::from(bits));
        let (word, number) = (size_of::<Mask>() as u64, size_of::<u32>() as u64);
        let of_place = number + (bits + 1) * word;
        let few_places = ROOM * (FEW_GAPS + AT_ONCE) as u64 * of_place;
        let of_all_lanes = match ways {
            0..=2 => 4,
            3..=7 => 3,
            _ => 2,
        };
        SetsBytes {
            fixed: (size_of::<LineList>() as u64 + few_places) << lines_of.log2,
            page: bits * word + (number << lines_of.log2),
            crowding: (ROOM * of_place) << lines_of.log2,
            most: of_all_lanes * sets * u64::from(ways) * ROOM * of_place,
        }
    }

    /// Places a page in a frame in one lane. The lane has not had the page before.
    pub(super) fn place(&mut self, lane: usize, page: PageId, lower: u32, _lines: &LineMasks) {
        self.places.make_room(page.index());
        let first = page.index() * self.bits;
        if self.bits_of_pages.len() < first + self.bits {
            self.bits_of_pages.resize(first + self.bits, 0);
        }
        for (bit, word) in self.bits_of_pages[first..][..self.bits].iter_mut().enumerate() {
            *word = *word & !(1 << lane) | Mask::from(lower >> bit & 1) << lane;
        }
    }

    /// Notes that every lane asks for a line.
    #[inline(always)]
    pub(super) fn touch(&mut self, key: u64) {
        let Self { lines_of, lanes, bits, bits_of_pages, lists, places, .. } = self;
        let (page, number) = (lines_of.page(key), lines_of.line(key) as usize);
        let (list, stride) = (&mut lists[number], *bits + 1);
        let places = places.row_mut(number);
        let place = places[page.index()] as usize;
        if place != 0 {
            if place == list.pages.len() {
                return;
            }
            let held = list.lanes_mut(place - 1, stride);
            list.lines -= usize::from(std::mem::take(held) != 0);
        }
        if list.pages.len() >= list.lines + list.lines / LINES_TO_GAP + FEW_GAPS {
            list.remove_gaps(stride, places);
        }
        list.push(page.0, all_of(*lanes), &bits_of_pages[page.index() * *bits..][..*bits]);
        places[page.index()] = list.pages.len() as u32;
    }

    /// Puts a line into its set in some lanes that lack it. Every lane has just asked for the line. Calls `evicted`
    /// with the page of each line that must leave, and the lanes that it must leave.
    #[inline]
    pub(super) fn put(
        &mut self,
        key: u64,
        lanes: Mask,
        frames: &LaneFrames,
        mut evicted: impl FnMut(Mask, PageId),
    ) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let full = if self.open[number] == 0 { lanes } else { self.fill((page, number), lanes, frames) };
        if full == 0 {
            return;
        }
        let Self { bits, bits_of_pages, lists, instructions, victims, .. } = self;
        let mut found = 0;
        instructions.run(FindVictims {
            list: &mut lists[number],
            bits: &bits_of_pages[page.index() * *bits..][..*bits],
            lanes: full,
            victims,
            found: &mut found,
        });
        for &(page, lanes) in &victims[..found] {
            evicted(lanes, PageId(page));
        }
    }

    /// Puts a line into empty ways. Returns the lanes in which the set is full.
    fn fill(&mut self, (page, number): (PageId, usize), mut lanes: Mask, frames: &LaneFrames) -> Mask {
        let (lower, bin_mask) = (frames.lower(page), (1 << self.bits) - 1);
        let of_number = self.lanes << self.bits;
        let held = &mut self.held[number * of_number..][..of_number];
        let (mut full, mut filled) = (0, 0);
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            let held = &mut held[(lower[lane] as usize & bin_mask) * self.lanes + lane];
            let is_full = *held == self.ways;
            *held += u32::from(!is_full);
            full |= Mask::from(is_full) << lane;
            filled += u32::from(!is_full && *held == self.ways);
        }
        self.open[number] -= filled;
        full
    }

    /// Cannot be called: no lane loses a page.
    pub(super) fn lose(&mut self, _lane: usize, _lines: &LineMasks) {
        unreachable!("lanes stand apart before the first page is flushed")
    }

    /// Cannot be called: no lane loses a line other than a victim.
    pub(super) fn remove(&mut self, _key: u64, _lane: usize, _frames: &LaneFrames) {
        unreachable!("lanes stand apart before the first page is flushed")
    }

    /// Calls `visit` with each set that holds lines in a lane, and the pages whose lines lie there, the least
    /// recently used first.
    pub(super) fn each_set(
        &self,
        lane: usize,
        _lines: &LineMasks,
        mut visit: impl FnMut(usize, &[PageId], u64),
    ) {
        let stride = self.bits + 1;
        let mut sets = vec![Vec::new(); 1 << self.bits];
        for (number, list) in self.lists.iter().enumerate() {
            for (place, &page) in list.pages.iter().enumerate() {
                let words = &list.words[place / AT_ONCE * stride..][..stride];
                let mut bits = words.iter().map(|word| word.0[place % AT_ONCE] >> lane & 1);
                if bits.next() == Some(1) {
                    let bin = bits.rev().fold(0, |bin, bit| bin << 1 | bit as usize);
                    sets[bin].push(PageId(page));
                }
            }
            for (bin, pages) in sets.iter_mut().enumerate().filter(|(_, pages)| !pages.is_empty()) {
                visit(bin << self.lines_of.log2 | number, pages, 0);
                pages.clear();
            }
        }
    }
}

/// `FindVictims` finds the lines that leave full sets, where a line with these `bits` comes in some lanes.
struct FindVictims<'a> {
    list: &'a mut LineList,
    bits: &'a [Mask],
    lanes: Mask,
    victims: &'a mut Victims,
    found: &'a mut usize,
}

impl FindVictims<'_> {
    /// Finds the victims. The compiler knows the number of bits unless `B` is 0.
    #[inline(always)]
    fn find<S: Search, const B: usize>(self) {
        let Self { list, bits, mut lanes, victims, found } = self;
        let bits = if B == 0 { bits } else { &bits[..B] };
        let stride = bits.len() + 1;
        let (mut vector, mut victim) = (list.empty, 0);
        let mut only_gaps = true;
        let mut gone = 0;
        while lanes != 0 {
            let words = &mut list.words[vector * stride..][..stride];
            let (meeting, mut left) = S::meet(words, bits, lanes);
            while left != 0 {
                let at = left.trailing_zeros() as usize % AT_ONCE;
                left &= left - 1;
                let (leaving, held) = (meeting.0[at] & lanes, &mut words[0].0[at]);
                lanes ^= leaving;
                *held ^= leaving;
                gone += usize::from(*held == 0);
                victims[victim] = (list.pages[vector * AT_ONCE + at], leaving);
                victim += usize::from(leaving != 0);
            }
            if only_gaps {
                only_gaps = words[0].0.iter().fold(0, |all, held| all | held) == 0;
                list.empty += usize::from(only_gaps);
            }
            vector += 1;
        }
        list.lines -= gone;
        *found = victim;
    }
}

impl SearchVisitor for FindVictims<'_> {
    #[inline(always)]
    fn visit<S: Search>(self) {
        match self.bits.len() {
            4 => self.find::<S, 4>(),
            5 => self.find::<S, 5>(),
            6 => self.find::<S, 6>(),
            _ => self.find::<S, 0>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::FrameNo;
    use proptest::prelude::*;

    use super::*;

    /// The logarithm of the lines of a page.
    const LINES_LOG2: u32 = 1;

    const LINES_OF: LinesOf = LinesOf { line_log2: 6, log2: LINES_LOG2 };

    /// The pages that leave at a request, by lane.
    type Leaving = Vec<Option<u32>>;

    /// Makes requests for lines, which are named by page and line number. Each page has a frame in each lane. Also
    /// returns the lines of each set of the last lane in the end.
    fn requested(
        sets: &mut LruSets,
        frames: &[Vec<u32>],
        requests: &[(u32, usize)],
    ) -> (Vec<Leaving>, Vec<Vec<u32>>) {
        let lanes = sets.lanes;
        let every = all_of(lanes);
        let mut lane_frames = LaneFrames::new(lanes, 0);
        let mut lines = LineMasks::new(sets.lines_of, lanes);
        for (page, of_lanes) in (0..).map(PageId).zip(frames) {
            lines.make_room(page);
            for (lane, &frame) in of_lanes.iter().enumerate() {
                lane_frames.put(lane, page, FrameNo(frame.into()));
                sets.place(lane, page, frame, &lines);
            }
        }
        let mut all = Vec::new();
        for &(page, number) in requests {
            let key = |page: u32| u64::from(page) << LINES_LOG2 | number as u64;
            sets.touch(key(page));
            let missed = !lines.get(key(page))[0] & every;
            let mut leaving = vec![None; lanes];
            if missed != 0 {
                sets.put(key(page), missed, &lane_frames, |lanes, victim| {
                    let resident = lines.get(key(victim.0))[0];
                    lines.set(key(victim.0), [resident & !lanes, 0]);
                    for (lane, leaving) in leaving.iter_mut().enumerate() {
                        assert!(lanes >> lane & 1 == 0 || leaving.replace(victim.0).is_none());
                    }
                });
            }
            lines.set(key(page), [every, 0]);
            all.push(leaving);
        }
        let mut held = vec![Vec::new(); 2 << sets.bits];
        sets.each_set(lanes - 1, &lines, |set, pages, _| {
            held[set] = pages.iter().map(|page| page.0).collect();
        });
        (all, held)
    }

    /// Compares the victims with those of a model that simulates each lane by itself.
    fn compare((bits, ways): (u32, u32), frames: &[Vec<u32>], requests: &[(u32, usize)]) {
        let lanes = frames[0].len();
        let mut sets = vec![vec![Vec::new(); 2 << bits]; lanes];
        let mut expected: Vec<Leaving> = Vec::new();
        for &(page, number) in requests {
            let leaving = (0..lanes).map(|lane| {
                let bin = frames[page as usize][lane] as usize & ((1 << bits) - 1);
                let set: &mut Vec<u32> = &mut sets[lane][bin << LINES_LOG2 | number];
                let held = set.iter().position(|&held| held == page).map(|at| set.remove(at));
                set.push(page);
                (held.is_none() && set.len() > ways as usize).then(|| set.remove(0))
            });
            expected.push(leaving.collect());
        }
        for instructions in Instructions::here() {
            let mut sets_of = LruSets { instructions, ..LruSets::of(LINES_OF, bits, ways, lanes) };
            let (leaving, held) = requested(&mut sets_of, frames, requests);
            assert_eq!(leaving, expected, "{instructions:?}");
            assert_eq!(held, sets[lanes - 1], "{instructions:?}");
        }
    }

    /// Returns frames of pages in lanes that look random.
    fn random_frames(seed: u32, pages: u32, lanes: u32, bins: u32) -> Vec<Vec<u32>> {
        let mixed = |number: u32| (number ^ number >> 15).wrapping_mul(0x2c1b_3c6d);
        let frame = |page: u32, lane: u32| mixed(mixed(seed ^ page << 8 ^ lane)) >> 12;
        (0..pages).map(|page| (0..lanes).map(|lane| frame(page, lane) % bins).collect()).collect()
    }

    proptest! {
        #[test]
        fn the_line_used_longest_ago_leaves_each_full_set(
            (bits, ways) in (0..7_u32, 2..6_u32),
            (seed, lanes, bins) in (any::<u32>(), prop_oneof![Just(64), 1..64_u32], prop_oneof![Just(64), 1..8_u32]),
            requests in prop::collection::vec((0..40_u32, 0..2_usize), 1..400),
        ) {
            compare((bits, ways), &random_frames(seed, 40, lanes, bins), &requests);
        }
    }

    #[test]
    fn as_many_victims_as_lanes_leave_before_a_further_line_of_a_set() {
        // Line `1 + lane` and a later line share a set in this lane, and no two of the first lines share one.
        let mut frames = vec![vec![1; 64]];
        frames.extend((0..64).map(|page| (0..64).map(|lane| if lane == page { 0 } else { 2 }).collect()));
        frames.extend([vec![0; 64], vec![0; 64]]);
        let requests: Vec<(u32, usize)> = (0..67).map(|page| (page, 0)).collect();
        compare((6, 2), &frames, &requests);
    }

    #[test]
    fn lists_take_what_is_estimated() {
        for (ways, bits) in [(2, 4), (2, 7), (3, 5), (4, 4), (7, 4), (8, 4), (16, 3)] {
            let (pages, lanes) = ((ways << bits) * 12, 64);
            let mut sets = LruSets::of(LINES_OF, bits, ways, lanes);
            let requests: Vec<(u32, usize)> =
                (0..2 * pages).flat_map(|at| [0, 1].map(|number| (at % pages, number))).collect();
            requested(&mut sets, &random_frames(7, pages, lanes as u32, 1 << bits), &requests);
            let of_list = |list: &LineList| {
                size_of::<LineList>()
                    + list.pages.capacity() * size_of::<u32>()
                    + list.words.capacity() * size_of::<Eight>()
            };
            let taken: usize = sets.lists.iter().map(of_list).sum();
            let SetsBytes { fixed, crowding, most, .. } = LruSets::bytes_of_order(LINES_OF, bits, ways);
            let estimated = fixed + most.min(u64::from(pages) * crowding);
            assert!(
                taken as u64 <= estimated,
                "{ways} ways, {bits} bits: {taken} B, estimated {estimated} B"
            );
        }
    }
}
