//! `LaneSets` knows which line lies in each way of a cache, in every lane.

use binhop_base::{PageId, Rng};

use super::{LinesOf, Mask, frames::LaneFrames, lru_sets::LruSets};
use crate::{
    CacheConfig, Replacement,
    cache::lines::put_word,
    replacement::{ArrayShape, Fifo, Policy, Random, each_policy},
};

/// The ways of one cache in every lane, under one policy. `W` = 0 means a number of ways that is known only at run time.
#[derive(Clone, Debug)]
pub(super) struct SetsOf<P, const W: usize> {
    lines_of: LinesOf,
    ways: usize,
    /// The bits of a frame that choose the set.
    bin_mask: u32,
    /// The policy of each lane.
    policies: Vec<P>,
    /// For each line number within the page, each bin, each lane and each way, the page whose line lies there: its number
    /// plus 1, so that the operating system's fresh memory, all zeros, is empty.
    occupants: Vec<u32>,
}

impl<P: Policy, const W: usize> SetsOf<P, W> {
    fn new(number: usize, cache: &CacheConfig, lines_of: LinesOf, seeds: &[Rng]) -> Self {
        let (ways, sets) = (cache.ways as usize, cache.sets() as usize);
        assert!(W == 0 || W == ways);
        let policy = |&rng: &Rng| P::new(&ArrayShape { ways, sets, first: 0, cache: number, rng });
        Self {
            lines_of,
            ways,
            bin_mask: ((cache.sets() >> lines_of.log2) - 1) as u32,
            policies: seeds.iter().map(policy).collect(),
            occupants: vec![0; sets * seeds.len() * ways],
        }
    }

    /// The number of ways. The compiler knows it unless `W` is 0.
    #[inline(always)]
    fn ways(&self) -> usize {
        if W == 0 { self.ways } else { W }
    }

    /// Puts a line into its set in some lanes that lack it. Calls `evicted` with the bit of each lane in which a line has to
    /// leave, and the page of that line.
    #[inline]
    fn put(&mut self, key: u64, mut lanes: Mask, frames: &LaneFrames, mut evicted: impl FnMut(Mask, PageId)) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let (ways, log2, of_bin) = (self.ways(), self.lines_of.log2, self.policies.len() * self.ways());
        let lower = frames.lower(page);
        let Self { bin_mask, policies, occupants, .. } = self;
        let bins = *bin_mask as usize + 1;
        let occupants = &mut occupants[number * bins * of_bin..][..bins * of_bin];
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            let bit = lanes & lanes.wrapping_neg();
            lanes ^= bit;
            let bin = (lower[lane] & *bin_mask) as usize;
            let of_lane = &mut occupants[bin * of_bin + lane * ways..][..ways];
            let victim = put_word(of_lane, &mut policies[lane], bin << log2 | number, page.0 + 1);
            if let Some(victim) = victim {
                evicted(bit, PageId(victim - 1));
            }
        }
    }

    /// Removes a line that a lane holds.
    fn remove(&mut self, key: u64, lane: usize, frames: &LaneFrames) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let (ways, of_bin) = (self.ways(), self.policies.len() * self.ways());
        let bin = (frames.lower(page)[lane] & self.bin_mask) as usize;
        let set = number * (self.bin_mask as usize + 1) + bin;
        let of_lane = &mut self.occupants[set * of_bin + lane * ways..][..ways];
        let way = of_lane.iter().position(|&occupant| occupant == page.0 + 1);
        let way = way.expect("the lane holds the line");
        of_lane[way] = 0;
        self.policies[lane].removed(of_lane, bin << self.lines_of.log2 | number, way);
    }

    /// Makes no room: the sets keep nothing of a page.
    fn make_room(&mut self, _page: PageId) {}

    /// A request finds its line in some lanes. The policy ignores hits.
    #[inline(always)]
    fn touch(&mut self, _key: u64) {}

    /// Calls `visit` with each set that holds lines in a lane, the pages whose lines lie there, in an order in which lines
    /// that come to an empty set lie as they do here, and the victims that the policy has chosen there.
    fn each_set(&self, lane: usize, mut visit: impl FnMut(usize, &[PageId], u64)) {
        let (ways, lanes, bins) = (self.ways(), self.policies.len(), self.bin_mask as usize + 1);
        for (place, of_lane) in self.occupants.chunks(ways).enumerate().skip(lane).step_by(lanes) {
            let (number, bin) = (place / lanes / bins, place / lanes % bins);
            let set = bin << self.lines_of.log2 | number;
            let mut pages: Vec<PageId> =
                of_lane.iter().filter(|&&page| page != 0).map(|page| PageId(page - 1)).collect();
            if P::EMPTY_WAYS_ARE_LAST {
                pages.reverse();
            }
            if !pages.is_empty() {
                visit(set, &pages, self.policies[lane].victims(set));
            }
        }
    }
}

/// Dispatches to the type of the sets once for each request. Every policy has sets of any number of ways; the commonest
/// numbers of ways have a type of their own, in the lists of `fixed` ones and of those that are `lru`.
macro_rules! lane_sets {
    (
        any: [$($policy:ident)*]
        fixed: [$($fixed:ident($of:ident, $ways:literal))*]
        lru: [$($lru:ident($lru_ways:literal))*]
    ) => {
        /// The sets of one cache in every lane.
        #[derive(Clone, Debug)]
        pub(super) enum LaneSets {
            /// One way, for which all policies are the same.
            Direct(SetsOf<Fifo, 1>),
            $($fixed(SetsOf<$of, $ways>),)*
            $($lru(LruSets<$lru_ways>),)*
            OtherLru(LruSets<0>),
            $($policy(SetsOf<crate::replacement::$policy, 0>),)*
        }

        /// Runs an expression on the sets, whatever their type.
        macro_rules! on_sets {
            ($lane_sets:expr, $sets:ident => $act:expr) => {
                match $lane_sets {
                    LaneSets::Direct($sets) => $act,
                    $(LaneSets::$fixed($sets) => $act,)*
                    $(LaneSets::$lru($sets) => $act,)*
                    LaneSets::OtherLru($sets) => $act,
                    $(LaneSets::$policy($sets) => $act,)*
                }
            };
        }

        impl LaneSets {
            /// The empty sets of the cache of a tree with this number. Each lane draws from a generator of its own.
            pub(super) fn new(number: usize, cache: &CacheConfig, lines_of: LinesOf, seeds: &[Rng]) -> Self {
                if cache.ways > 1 && cache.replacement == Replacement::Lru {
                    return match cache.ways {
                        $($lru_ways => Self::$lru(LruSets::new(cache, lines_of, seeds.len())),)*
                        _ => Self::OtherLru(LruSets::new(cache, lines_of, seeds.len())),
                    };
                }
                match (cache.replacement, cache.ways) {
                    (_, 1) => Self::Direct(SetsOf::new(number, cache, lines_of, seeds)),
                    $((Replacement::$of, $ways) => Self::$fixed(SetsOf::new(number, cache, lines_of, seeds)),)*
                    $((Replacement::$policy, _) => Self::$policy(SetsOf::new(number, cache, lines_of, seeds)),)*
                }
            }
        }
    };
}

macro_rules! sets_of_each_policy {
    ($($module:ident::$policy:ident),*) => {
        lane_sets! {
            any: [$($policy)*]
            fixed: [Random2(Random, 2) Random4(Random, 4) Random16(Random, 16)]
            lru: [Lru4(4) Lru8(8) Lru16(16)]
        }
    };
}

each_policy!(sets_of_each_policy);

impl LaneSets {
    /// Returns the bytes that the sets of a cache take for each lane.
    pub(super) fn lane_bytes(cache: &CacheConfig) -> u64 {
        let ways = u64::from(cache.ways);
        let kept = if ways == 1 { 0 } else { cache.replacement.bytes_of_a_set(ways) };
        cache.sets() * (ways * size_of::<u32>() as u64 + kept)
    }

    /// Returns the bytes that the sets of a cache take for each line of each page, for all lanes together.
    pub(super) fn line_bytes(cache: &CacheConfig) -> u64 {
        if cache.ways > 1 && cache.replacement == Replacement::Lru { size_of::<u32>() as u64 } else { 0 }
    }

    /// Makes room for the lines of a page.
    pub(super) fn make_room(&mut self, page: PageId) {
        on_sets!(self, sets => sets.make_room(page));
    }

    /// Lanes ask for a line: all lanes, if the replacement remembers hits.
    #[inline(always)]
    pub(super) fn touch(&mut self, key: u64) {
        on_sets!(self, sets => sets.touch(key));
    }

    /// Puts a line into its set in some lanes that lack it. Calls `evicted` with the bit of each lane in which a line has to
    /// leave, and the page of that line.
    #[inline]
    pub(super) fn put(
        &mut self,
        key: u64,
        lanes: Mask,
        frames: &LaneFrames,
        evicted: impl FnMut(Mask, PageId),
    ) {
        on_sets!(self, sets => sets.put(key, lanes, frames, evicted));
    }

    /// Removes a line that a lane holds.
    ///
    /// # Panics
    /// The sets serve lanes behind a shared front, where no page is flushed.
    pub(super) fn remove(&mut self, key: u64, lane: usize, frames: &LaneFrames) {
        on_sets!(self, sets => sets.remove(key, lane, frames));
    }

    /// Calls `visit` with each set that holds lines in a lane, the pages whose lines lie there, in an order in which lines
    /// that come to an empty set lie as they do here, and the victims that the policy has chosen there.
    pub(super) fn each_set(&self, lane: usize, visit: impl FnMut(usize, &[PageId], u64)) {
        on_sets!(self, sets => sets.each_set(lane, visit));
    }
}
