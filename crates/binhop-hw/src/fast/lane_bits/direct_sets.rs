//! `DirectSets` knows which line lies in each set of a direct-mapped cache, in every lane.
//!
//! Each lane that misses is visited by itself, and the visit waits for the memory of the set. So the sets take as
//! little memory as the number of pages allows: see [`PagesOfSets`].

use binhop_base::PageId;

use super::{
    LinesOf, Mask,
    frames::LaneFrames,
    line_masks::LineMasks,
    occupants::{SetNumbers, SetsBytes},
    page_rows::{Groups, LOADED},
};
use crate::CacheConfig;

/// The most pages for which a set takes 2 bytes: with a further page, it takes 4 bytes. Tests place few pages, so their
/// sets become wider earlier.
const MOST_PAGES: usize = if cfg!(debug_assertions) { 16 } else { u16::MAX as usize };

/// The neighbouring line numbers whose sets stand together. More neighbours share fewer loads of memory, but then the
/// sets of one line number are spread over more memory than the processor's caches hold. Two are enough, because many
/// accesses of a line number are made together.
const NEIGHBOURS: usize = 2;

/// `DirectSets` holds the sets of one direct-mapped cache in every lane. They have no order of replacement.
#[derive(Clone, Debug)]
pub(super) struct DirectSets {
    lines_of: LinesOf,
    lanes: usize,
    sets: SetNumbers,
    /// The place of each bin in each lane, plus 1; 0 for a bin without a page. Bins get places in the order of their
    /// first pages, so the sets of a page's lines stand together for most lanes.
    bins: Vec<u32>,
    /// The number of bins that have a place.
    places: usize,
    /// The place of each page's bin, for each page and lane.
    pages: Vec<u32>,
    groups: Groups,
    /// By line number within the page and by place: see [`Groups`].
    held: PagesOfSets,
}

/// `PagesOfSets` holds for each set the page whose line lies there. The value is one more than the page's number, and 0
/// for an empty set.
#[derive(Clone, Debug)]
enum PagesOfSets {
    Few(Vec<u16>),
    Many(Vec<u32>),
}

impl PagesOfSets {
    fn get(&self, set: usize) -> u32 {
        match self {
            Self::Few(pages) => pages[set].into(),
            Self::Many(pages) => pages[set],
        }
    }

    fn clear(&mut self, set: usize) {
        match self {
            Self::Few(pages) => pages[set] = 0,
            Self::Many(pages) => pages[set] = 0,
        }
    }

    /// Makes room for the numbers of more pages than 2 bytes can tell apart.
    #[cold]
    fn widen(&mut self) {
        if let Self::Few(pages) = self {
            *self = Self::Many(pages.iter().map(|&page| page.into()).collect());
        }
    }
}

impl DirectSets {
    pub(super) fn new(cache: &CacheConfig, lines_of: LinesOf, lanes: usize) -> Self {
        let bins = (cache.sets() >> lines_of.log2) as usize;
        Self {
            lines_of,
            lanes,
            sets: SetNumbers::new(bins, lines_of),
            bins: vec![0; bins * lanes],
            places: 0,
            pages: Vec::new(),
            groups: Groups::new(lines_of, LOADED / NEIGHBOURS),
            held: PagesOfSets::Few(vec![0; (bins * lanes) << lines_of.log2]),
        }
    }

    /// Returns the bytes that the sets of a cache take for each lane.
    pub(super) fn bytes(cache: &CacheConfig, lines_of: LinesOf) -> SetsBytes {
        let of_bins = (cache.sets() >> lines_of.log2) * size_of::<u32>() as u64;
        let (few, many) = (cache.sets() * size_of::<u16>() as u64, cache.sets() * size_of::<u32>() as u64);
        // With more than `MOST_PAGES` pages, both forms exist for a moment. So many pages add the form of 4 bytes.
        let crowding = many.div_ceil(MOST_PAGES as u64);
        SetsBytes { fixed: of_bins + few, page: size_of::<u32>() as u64, crowding, most: many }
    }

    /// Places a page in a frame in one lane.
    pub(super) fn place(&mut self, lane: usize, page: PageId, lower: u32, _lines: &LineMasks) {
        let of_page = page.index() * self.lanes + lane;
        if of_page >= self.pages.len() {
            self.pages.resize((page.index() + 1) * self.lanes, 0);
            if page.index() >= MOST_PAGES {
                self.held.widen();
            }
        }
        let bin = &mut self.bins[self.sets.bin(lower) * self.lanes + lane];
        if *bin == 0 {
            self.places += 1;
            *bin = self.places as u32;
        }
        self.pages[of_page] = *bin - 1;
    }

    /// Prepares for the loss of a page in one lane.
    pub(super) fn lose(&mut self, _lane: usize, _lines: &LineMasks) {}

    /// Puts a line into its set in some lanes that lack it. Calls `evicted` with the page of each line that must leave,
    /// and the lanes that it must leave. `evicted` may also be called without lanes, and with any page.
    #[inline]
    pub(super) fn put(
        &mut self,
        key: u64,
        lanes: Mask,
        _frames: &LaneFrames,
        evicted: impl FnMut(Mask, PageId),
    ) {
        /// Visits the sets of these lanes, whose places are `places`. `set` returns the set of a place.
        #[inline(always)]
        fn visit<V: Copy + Into<u32>>(
            held: &mut [V],
            (places, set): (&[u32], impl Fn(usize) -> usize),
            (mut lanes, occupant): (Mask, V),
            mut evicted: impl FnMut(Mask, PageId),
        ) {
            while lanes != 0 {
                let bit = lanes & lanes.wrapping_neg();
                let place = places[lanes.trailing_zeros() as usize];
                lanes ^= bit;
                let victim: u32 = std::mem::replace(&mut held[set(place as usize)], occupant).into();
                evicted(if victim == 0 { 0 } else { bit }, PageId(victim.wrapping_sub(1)));
            }
        }

        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let Self { groups, bins, pages, held, .. } = self;
        let set = |place| groups.place(number, bins.len(), place);
        let places = (&pages[page.index() * self.lanes..][..self.lanes], set);
        let occupant = page.0 + 1;
        match held {
            PagesOfSets::Few(held) => visit(held, places, (lanes, occupant as u16), evicted),
            PagesOfSets::Many(held) => visit(held, places, (lanes, occupant), evicted),
        }
    }

    /// Removes a line that a lane holds.
    pub(super) fn remove(&mut self, key: u64, lane: usize, _frames: &LaneFrames) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let place = self.pages[page.index() * self.lanes + lane] as usize;
        let set = self.groups.place(number, self.bins.len(), place);
        assert_eq!(self.held.get(set), page.0 + 1, "the lane holds the line");
        self.held.clear(set);
    }

    /// Notes a request that finds its line in some lanes. Nothing depends on it.
    #[inline(always)]
    pub(super) fn touch(&mut self, _key: u64) {}

    /// Calls `visit` with each set that holds a line in a lane. `visit` also gets the page of the line, and 0, because
    /// no policy chooses victims.
    pub(super) fn each_set(
        &self,
        lane: usize,
        _lines: &LineMasks,
        mut visit: impl FnMut(usize, &[PageId], u64),
    ) {
        for (bin, of_lanes) in self.bins.chunks(self.lanes).enumerate() {
            let Some(place) = of_lanes[lane].checked_sub(1) else { continue };
            for number in 0..1 << self.lines_of.log2 {
                let occupant = self.held.get(self.groups.place(number, self.bins.len(), place as usize));
                if let Some(page) = occupant.checked_sub(1) {
                    visit(bin << self.lines_of.log2 | number, &[PageId(page)], 0);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use binhop_base::{Bytes, FrameNo, PowerOfTwo};
    use proptest::prelude::*;

    use super::*;
    use crate::Replacement;

    const LANES: usize = 3;

    proptest! {
        /// Compares the sets with a map for each lane. A page gets its frame when a line is first put, so the numbers
        /// of pages pass `MOST_PAGES` while sets hold lines.
        #[test]
        fn sets_equal_a_map_in_each_lane(
            accesses in prop::collection::vec((0..2 * MOST_PAGES as u32, 0..4_u64, 1..8_u64, any::<bool>()), 1..200),
            frames in prop::collection::vec(prop::array::uniform3(any::<u32>()), 2 * MOST_PAGES),
        ) {
            // The cache has 8 bins for pages of 4 lines.
            let cache = CacheConfig::of_tests(8 * 4 * 64, 64, 1, Replacement::Lru);
            let lines_of = LinesOf::new(&cache, PowerOfTwo::new(Bytes(256)).expect("a power of two"));
            let (lines, mut of_lanes) = (LineMasks::new(lines_of, LANES), LaneFrames::new(LANES, 0));
            let mut sets = DirectSets::new(&cache, lines_of, LANES);
            let mut maps: [BTreeMap<usize, u32>; LANES] = Default::default();
            let mut known = 0;
            for (page, number, lanes, removes) in accesses {
                // Pages are numbered in the order of their first accesses.
                let page = page.min(known);
                for lane in (0..LANES).filter(|_| page == known) {
                    let frame = frames[page as usize][lane];
                    sets.place(lane, PageId(page), frame, &lines);
                    of_lanes.put(lane, PageId(page), FrameNo(frame.into()));
                }
                known = known.max(page + 1).min(2 * MOST_PAGES as u32 - 1);
                let key = u64::from(page) << lines_of.log2 | number;
                let set = |lane: usize| (frames[page as usize][lane] as usize % 8) << 2 | number as usize;
                let lacks = |lane: &usize| lanes >> lane & 1 == 1 && maps[*lane].get(&set(*lane)) != Some(&page);
                let missed: Vec<usize> = (0..LANES).filter(lacks).collect();
                let mut expected = Vec::new();
                for &lane in &missed {
                    expected.extend(maps[lane].insert(set(lane), page).map(|victim| (1 << lane, victim)));
                }
                let mut evicted = Vec::new();
                let mask = missed.iter().fold(0, |mask, lane| mask | 1 << lane);
                sets.put(key, mask, &of_lanes, |lanes, page| {
                    evicted.extend((lanes != 0).then_some((lanes, page.0)));
                });
                prop_assert_eq!(evicted, expected);
                if removes && let Some(&lane) = missed.first() {
                    sets.remove(key, lane, &of_lanes);
                    maps[lane].remove(&set(lane));
                }
            }
            for (lane, map) in maps.iter().enumerate() {
                let mut held = BTreeMap::new();
                sets.each_set(lane, &lines, |set, pages, victims| {
                    assert_eq!((pages.len(), victims), (1, 0));
                    held.insert(set, pages[0].0);
                });
                prop_assert_eq!(&held, map);
            }
        }
    }
}
