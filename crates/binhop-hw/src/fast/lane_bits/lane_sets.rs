//! `LaneSets` knows which line lies in each way of a cache, in every lane.

use binhop_base::{PageId, Rng};

use super::{LinesOf, Mask, frames::LaneFrames};
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
}

/// Dispatches to the type of the sets once for each request. Every policy has sets of any number of ways; the commonest
/// numbers of ways have a type of their own, in the list of `fixed` ones.
macro_rules! lane_sets {
    (any: [$($policy:ident)*] fixed: [$($fixed:ident($of:ident, $ways:literal))*]) => {
        /// The sets of one cache in every lane.
        #[derive(Clone, Debug)]
        pub(super) enum LaneSets {
            /// One way, for which all policies are the same.
            Direct(SetsOf<Fifo, 1>),
            $($fixed(SetsOf<$of, $ways>),)*
            $($policy(SetsOf<crate::replacement::$policy, 0>),)*
        }

        impl LaneSets {
            /// The empty sets of the cache of a tree with this number. Each lane draws from a generator of its own.
            pub(super) fn new(number: usize, cache: &CacheConfig, lines_of: LinesOf, seeds: &[Rng]) -> Self {
                match (cache.replacement, cache.ways) {
                    (_, 1) => Self::Direct(SetsOf::new(number, cache, lines_of, seeds)),
                    $((Replacement::$of, $ways) => Self::$fixed(SetsOf::new(number, cache, lines_of, seeds)),)*
                    $((Replacement::$policy, _) => Self::$policy(SetsOf::new(number, cache, lines_of, seeds)),)*
                }
            }

            /// Puts a line into its set in some lanes that lack it. Calls `evicted` with the bit of each lane in which a line
            /// has to leave, and the page of that line.
            #[inline]
            pub(super) fn put(
                &mut self,
                key: u64,
                lanes: Mask,
                frames: &LaneFrames,
                evicted: impl FnMut(Mask, PageId),
            ) {
                match self {
                    Self::Direct(sets) => sets.put(key, lanes, frames, evicted),
                    $(Self::$fixed(sets) => sets.put(key, lanes, frames, evicted),)*
                    $(Self::$policy(sets) => sets.put(key, lanes, frames, evicted),)*
                }
            }

            /// Removes a line that a lane holds.
            pub(super) fn remove(&mut self, key: u64, lane: usize, frames: &LaneFrames) {
                match self {
                    Self::Direct(sets) => sets.remove(key, lane, frames),
                    $(Self::$fixed(sets) => sets.remove(key, lane, frames),)*
                    $(Self::$policy(sets) => sets.remove(key, lane, frames),)*
                }
            }
        }
    };
}

macro_rules! sets_of_each_policy {
    ($($module:ident::$policy:ident),*) => {
        lane_sets! {
            any: [$($policy)*]
            fixed: [Random2(Random, 2) Random4(Random, 4)]
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
}
