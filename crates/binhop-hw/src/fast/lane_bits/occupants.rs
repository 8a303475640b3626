//! `Occupants` knows which line lies in each way of a cache, in the lanes and bins in which this matters.
//!
//! # Roomy bins
//! As long as a bin has no more pages than the cache has ways, each set of the bin has room for every line that may
//! come. No line leaves, so it does not matter in which way a line lies. Such a bin is *roomy*: its ways take no
//! memory, and a lane that misses there is not visited. When a further page comes, the bin is *crowded* from then on,
//! and its lines take their ways in the order in which they came. Every lane asks for a line for the first time at the
//! same request, so one order serves all lanes. A lane that loses a page has crowded bins only: in such a lane, lines
//! may come again.

use std::marker::PhantomData;

use binhop_base::PageId;

use super::{
    LinesOf, Mask,
    line_masks::LineMasks,
    page_rows::{Groups, LOADED, PageRows},
};
use crate::{CacheConfig, cache::prefetch::prefetch, replacement::Policy};

/// `Occupants` holds the pages of each bin and the words of each set, in every lane. The words of a set are its ways,
/// and then what the policy keeps beside them. `W` = 0 means a number of ways that is known only at run time.
#[derive(Clone, Debug)]
pub(super) struct Occupants<P, const W: usize> {
    lines_of: LinesOf,
    ways: usize,
    lanes: usize,
    /// The most pages of a roomy bin.
    most_in_roomy: u32,
    /// The bits of a frame that choose the set.
    bin_mask: u32,
    /// The pages of each bin in each lane.
    bins: Vec<BinPages>,
    /// For each page and lane: the place of the page's bin if the bin is crowded, and otherwise the page that came
    /// to the bin before this page.
    pages: Vec<u32>,
    /// For each page, the lanes in which the page has a frame, and the lanes in which the page's bin is crowded.
    placed: Vec<[Mask; 2]>,
    /// The lanes that have lost a page.
    have_lost: Mask,
    /// The lanes' common order in which lines came to roomy bins.
    arrivals: Arrivals,
    /// The crowded bins of all lanes.
    places: usize,
    /// The logarithm of the number of places in a block.
    block_log2: u32,
    blocks: Vec<Block>,
    policy: PhantomData<P>,
}

/// `Block` holds the sets of some crowded bins.
#[derive(Clone, Debug)]
struct Block {
    /// The number of places in this block. It is a power of two, except in the last block.
    places: usize,
    groups: Groups,
    /// For each line number within the page and each place, the words of a set: see [`Groups`]. A way's word is one
    /// more than the number of the page whose line lies there, and 0 for an empty way.
    words: Vec<u32>,
}

impl Block {
    /// Returns the `words` words of a set, by the line number and the place within the block.
    #[inline(always)]
    fn of(&self, number: usize, place: usize, words: usize) -> &[u32] {
        &self.words[self.groups.place(number, self.places, place) * words..][..words]
    }

    /// Returns what [`Block::of`] returns, to be changed.
    #[inline(always)]
    fn of_mut(&mut self, number: usize, place: usize, words: usize) -> &mut [u32] {
        &mut self.words[self.groups.place(number, self.places, place) * words..][..words]
    }
}

/// The number of blocks. It is small, so that the sets of one line number lie together.
const BLOCKS: usize = 16;

/// The fewest lanes whose sets are prefetched.
const FEWEST_PREFETCHED: u32 = 3;

/// `BinPages` says which pages lie in a bin of a lane.
#[derive(Clone, Copy, Debug)]
enum BinPages {
    /// There are so few pages that no set can be too small. `last` is the number of the page that came last, plus 1.
    Roomy { pages: u32, last: u32 },
    /// The bin's sets have this place.
    Crowded { place: u32 },
}

/// `Arrivals` holds for each line the number of lines of its line number that were asked for before.
#[derive(Clone, Debug)]
struct Arrivals {
    before: PageRows<u32>,
    /// The number of lines of each line number that were asked for.
    lines: Vec<u32>,
}

impl<P: Policy, const W: usize> Occupants<P, W> {
    /// Makes the empty sets of a cache with several ways. See [`DirectSets`](super::direct_sets::DirectSets) for a cache
    /// with one way.
    pub(super) fn new(cache: &CacheConfig, lines_of: LinesOf, lanes: usize) -> Self {
        let ways = cache.ways as usize;
        assert!(W == 0 || W == ways);
        let bins = (cache.sets() >> lines_of.log2) as usize;
        Self {
            lines_of,
            ways,
            lanes,
            most_in_roomy: cache.ways,
            bin_mask: bins as u32 - 1,
            bins: vec![BinPages::Roomy { pages: 0, last: 0 }; bins * lanes],
            pages: Vec::new(),
            placed: Vec::new(),
            have_lost: 0,
            arrivals: Arrivals { before: PageRows::new(lines_of), lines: vec![0; 1 << lines_of.log2] },
            places: 0,
            block_log2: (bins * lanes).div_ceil(BLOCKS).next_power_of_two().ilog2(),
            blocks: Vec::new(),
            policy: PhantomData,
        }
    }

    /// Returns the number of ways. The compiler knows it unless `W` is 0.
    #[inline(always)]
    pub(super) fn ways(&self) -> usize {
        if W == 0 { self.ways } else { W }
    }

    /// Returns the number of words of a set.
    #[inline(always)]
    fn set_words(&self) -> usize {
        self.ways() + P::WORDS_BESIDE
    }

    /// Returns the numbering of the sets.
    pub(super) fn sets(&self) -> SetNumbers {
        SetNumbers { bin_mask: self.bin_mask, log2: self.lines_of.log2 }
    }

    /// Places a page in a frame in one lane. `lines` says which lines the lane holds. If the page's bin becomes
    /// crowded, `take` gives each line of the bin its way. `take` gets the ways of a set, the set's number and the
    /// number of a page plus 1.
    pub(super) fn put(
        &mut self,
        (lane, page, lower): (usize, PageId, u32),
        lines: &LineMasks,
        mut take: impl FnMut(&mut [u32], usize, u32),
    ) {
        if page.index() >= self.placed.len() {
            self.placed.resize(page.index() + 1, [0; 2]);
            self.pages.resize((page.index() + 1) * self.lanes, 0);
            self.arrivals.before.make_room(page.index());
        }
        let (bit, bin) = (1 << lane, (lower & self.bin_mask) as usize);
        if self.placed[page.index()][0] & bit != 0 {
            // The page had another frame. The list of its old bin still has it.
            self.lose(lane, lines, &mut take);
        }
        self.placed[page.index()][0] |= bit;
        let (at, of_page) = (bin * self.lanes + lane, page.index() * self.lanes + lane);
        if let BinPages::Roomy { pages, .. } = self.bins[at]
            && (pages >= self.most_in_roomy || self.have_lost & bit != 0)
        {
            self.crowd(lane, bin, lines, &mut take);
        }
        match &mut self.bins[at] {
            BinPages::Crowded { place } => {
                self.pages[of_page] = *place;
                self.placed[page.index()][1] |= bit;
            }
            BinPages::Roomy { pages, last } => {
                self.pages[of_page] = *last;
                (*pages, *last) = (*pages + 1, page.0 + 1);
            }
        }
    }

    /// Prepares for the loss of a page in one lane. The lane's bins are crowded from now on: see
    /// [`Occupants::put`].
    pub(super) fn lose(
        &mut self,
        lane: usize,
        lines: &LineMasks,
        mut take: impl FnMut(&mut [u32], usize, u32),
    ) {
        let bit = 1 << lane;
        if self.have_lost & bit != 0 {
            return;
        }
        self.have_lost |= bit;
        for bin in 0..=self.bin_mask as usize {
            let BinPages::Roomy { pages, .. } = self.bins[bin * self.lanes + lane] else { continue };
            if pages > 0 {
                self.crowd(lane, bin, lines, &mut take);
            }
        }
    }

    /// Makes a roomy bin crowded.
    fn crowd(
        &mut self,
        lane: usize,
        bin: usize,
        lines: &LineMasks,
        take: &mut impl FnMut(&mut [u32], usize, u32),
    ) {
        let pages = self.pages_of(lane, bin);
        let (place, ways, words) = (self.places, self.ways(), self.set_words());
        if self.place(place).0 == self.blocks.len() {
            let places = (self.bins.len() - place).min(1 << self.block_log2);
            let groups = Groups::new(self.lines_of, words * size_of::<u32>());
            let sets = places << self.lines_of.log2;
            self.blocks.push(Block { places, groups, words: vec![0; sets * words] });
        }
        self.places += 1;
        let (block, within) = self.place(place);
        let mut held = Vec::with_capacity(pages.len());
        let numbers = if pages.is_empty() { 0 } else { 1 << self.lines_of.log2 };
        for number in 0..numbers {
            self.hold(lane, number, &pages, lines, &mut held);
            let of_place = &mut self.blocks[block].of_mut(number, within, words)[..ways];
            for page in &held {
                take(of_place, bin << self.lines_of.log2 | number, page.0 + 1);
            }
        }
        for page in pages {
            self.pages[page.index() * self.lanes + lane] = place as u32;
            self.placed[page.index()][1] |= 1 << lane;
        }
        self.bins[bin * self.lanes + lane] = BinPages::Crowded { place: place as u32 };
    }

    /// Returns the block of a place, and the place within the block.
    #[inline(always)]
    fn place(&self, place: usize) -> (usize, usize) {
        (place >> self.block_log2, place & ((1 << self.block_log2) - 1))
    }

    /// Returns the pages of a roomy bin.
    fn pages_of(&self, lane: usize, bin: usize) -> Vec<PageId> {
        let BinPages::Roomy { mut last, .. } = self.bins[bin * self.lanes + lane] else {
            unreachable!("the bin is roomy")
        };
        let mut pages = Vec::new();
        while last != 0 {
            let page = PageId(last - 1);
            pages.push(page);
            last = self.pages[page.index() * self.lanes + lane];
        }
        pages
    }

    /// Fills `held` with the pages of a roomy bin whose line of this number the lane holds, in the order in which
    /// these lines came if the policy depends on this order.
    fn hold(&self, lane: usize, number: usize, pages: &[PageId], lines: &LineMasks, held: &mut Vec<PageId>) {
        let key = |page: PageId| u64::from(page.0) << self.lines_of.log2 | number as u64;
        held.clear();
        held.extend(pages.iter().filter(|&&page| lines.get(key(page))[0] >> lane & 1 == 1));
        if held.len() > 1 {
            held.sort_unstable_by_key(|&page| self.arrivals.before.get(key(page)));
        }
    }

    /// Prefetches the sets that [`Occupants::miss`] will visit, so that the processor waits for the memory of several
    /// lanes at once.
    #[inline]
    pub(super) fn prefetch(&self, key: u64, lanes: Mask) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let mut lanes = lanes & self.placed[page.index()][1];
        if lanes.count_ones() < FEWEST_PREFETCHED {
            return;
        }
        let places = &self.pages[page.index() * self.lanes..][..self.lanes];
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            let (block, within) = self.place(places[lane] as usize);
            let words = self.blocks[block].of(number, within, self.set_words());
            prefetch(&words[0]);
            if !LOADED.is_multiple_of(size_of_val(words)) {
                // The set may lie in two lines of memory. Others lie in one line, where the allocator aligns the block.
                prefetch(&words[words.len() - 1]);
            }
        }
    }

    /// Visits lanes that miss a line. Calls `visit` for each of these lanes in which the page's bin is crowded,
    /// with the lane, the lane's bit, and the words of the set.
    #[inline]
    pub(super) fn miss(&mut self, key: u64, lanes: Mask, mut visit: impl FnMut(usize, Mask, &mut [u32])) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let words = self.set_words();
        let Self { placed, arrivals, pages, blocks, block_log2, .. } = self;
        let [_, crowded] = placed[page.index()];
        if lanes & !crowded != 0 {
            arrivals.before.set(key, arrivals.lines[number]);
            arrivals.lines[number] += 1;
        }
        let places = &pages[page.index() * self.lanes..][..self.lanes];
        let (block_log2, within) = (*block_log2, (1 << *block_log2) - 1);
        let mut lanes = lanes & crowded;
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            let bit = lanes & lanes.wrapping_neg();
            lanes ^= bit;
            let place = places[lane] as usize;
            visit(lane, bit, blocks[place >> block_log2].of_mut(number, place & within, words));
        }
    }

    /// Returns the ways of the set in which a lane that has lost a page holds a line.
    pub(super) fn ways_of(&mut self, key: u64, lane: usize) -> &mut [u32] {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        debug_assert!(self.have_lost >> lane & 1 == 1);
        let (ways, words) = (self.ways(), self.set_words());
        let (block, within) = self.place(self.pages[page.index() * self.lanes + lane] as usize);
        &mut self.blocks[block].of_mut(number, within, words)[..ways]
    }

    /// Calls `visit` with each set of a lane. The pages whose lines lie there come by way if the bin is crowded, and
    /// otherwise in the order in which the lines came.
    pub(super) fn each_set(&self, lane: usize, lines: &LineMasks, mut visit: impl FnMut(usize, SetPages)) {
        let (ways, log2) = (self.ways(), self.lines_of.log2);
        for (bin, of_lanes) in self.bins.chunks(self.lanes).enumerate() {
            match of_lanes[lane] {
                BinPages::Crowded { place } => {
                    let (block, within) = self.place(place as usize);
                    for number in 0..1 << log2 {
                        let (of_place, beside) =
                            self.blocks[block].of(number, within, self.set_words()).split_at(ways);
                        let occupied = of_place.iter().filter(|&&occupant| occupant != 0);
                        let pages = occupied.map(|occupant| PageId(occupant - 1)).collect();
                        visit(bin << log2 | number, SetPages { pages, beside: Some(beside) });
                    }
                }
                BinPages::Roomy { pages: 0, .. } => {}
                BinPages::Roomy { .. } => {
                    let of_bin = self.pages_of(lane, bin);
                    for number in 0..1 << log2 {
                        let mut pages = Vec::new();
                        self.hold(lane, number, &of_bin, lines, &mut pages);
                        visit(bin << log2 | number, SetPages { pages, beside: None });
                    }
                }
            }
        }
    }
}

/// Returns the bytes that [`Occupants`] take for each lane. `loses` says whether a lane may lose a page.
pub(super) fn bytes(cache: &CacheConfig, lines_of: LinesOf, loses: bool) -> SetsBytes {
    let (ways, lines) = (u64::from(cache.ways), 1 << lines_of.log2);
    let of_bins = (cache.sets() >> lines_of.log2) * size_of::<BinPages>() as u64;
    let of_set = (ways + cache.replacement.words_beside() as u64) * size_of::<u32>() as u64;
    let all = cache.sets() * of_set;
    let page = size_of::<u32>() as u64;
    let fixed = of_bins + all * 2 / BLOCKS as u64;
    // A crowded bin has more pages than ways, unless the lane has lost a page.
    let pages = if loses { 1 } else { ways + 1 };
    let crowding = (lines * of_set).div_ceil(pages);
    SetsBytes { fixed, page, crowding, most: all }
}

/// Returns the bytes that [`Occupants`] take for all lanes together.
pub(super) fn shared_bytes(lines_of: LinesOf) -> SetsBytes {
    let arrivals = (size_of::<u32>() as u64) << lines_of.log2;
    SetsBytes { fixed: 0, page: size_of::<[Mask; 2]>() as u64 + arrivals, crowding: 0, most: 0 }
}

/// `SetsBytes` is the memory that the sets of one cache take, for each lane or for all lanes together, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct SetsBytes {
    /// The bytes at the start.
    pub fixed: u64,
    /// The further bytes for each page.
    pub page: u64,
    /// The further bytes that each page may add to crowded bins, to an order of lines, or to sets of wider numbers.
    pub crowding: u64,
    /// The most bytes that all pages add there.
    pub most: u64,
}

/// `SetPages` holds the pages whose lines lie in a set, by way or in the order in which the lines came.
pub(super) struct SetPages<'a> {
    pub(super) pages: Vec<PageId>,
    /// The words that the policy keeps beside the ways, if the pages come by way.
    pub(super) beside: Option<&'a [u32]>,
}

/// `SetNumbers` numbers the sets of a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetNumbers {
    bin_mask: u32,
    log2: u32,
}

impl SetNumbers {
    /// Numbers the sets of a cache with so many bins, a power of two.
    pub(super) fn new(bins: usize, lines_of: LinesOf) -> Self {
        Self { bin_mask: bins as u32 - 1, log2: lines_of.log2 }
    }

    /// Returns the bin of a frame.
    #[inline(always)]
    pub(super) fn bin(self, lower: u32) -> usize {
        (lower & self.bin_mask) as usize
    }

    /// Returns the set for lines of a number, in the pages of a frame. `lower` is the lower half of the frame's number.
    #[inline(always)]
    pub(super) fn of(self, lower: u32, number: usize) -> usize {
        self.bin(lower) << self.log2 | number
    }
}
