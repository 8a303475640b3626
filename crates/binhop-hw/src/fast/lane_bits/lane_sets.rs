//! `LaneSets` knows which line lies in each way of a cache, in every lane.

use binhop_base::{PageId, Rng};

use super::{
    LinesOf, Mask,
    direct_sets::DirectSets,
    frames::LaneFrames,
    line_masks::LineMasks,
    lru_sets::LruSets,
    occupants::{self, Occupants, SetPages, SetsBytes},
};
use crate::{
    CacheConfig, Replacement,
    cache::lines::{put_word, put_word_with},
    replacement::{ArrayShape, Policy, Random, each_policy},
};

/// `SetsOf` holds the ways of one cache in every lane, under one policy. `W` = 0 means a number of ways that is
/// known only at run time.
#[derive(Clone, Debug)]
pub(super) struct SetsOf<P, const W: usize> {
    lines_of: LinesOf,
    /// The policy of each lane.
    policies: Vec<P>,
    occupants: Occupants<P, W>,
}

impl<P: Policy, const W: usize> SetsOf<P, W> {
    fn new(number: usize, cache: &CacheConfig, lines_of: LinesOf, seeds: &[Rng]) -> Self {
        let (ways, sets) = (cache.ways as usize, cache.sets() as usize);
        const { assert!(P::WORDS_BESIDE == 0 || P::HITS_ARE_NEUTRAL, "hits would not find the words") };
        // Policies with words beside the ways keep nothing else of a set.
        let sets = if P::WORDS_BESIDE > 0 { 0 } else { sets };
        let policy = |&rng: &Rng| P::new(&ArrayShape { ways, sets, first: 0, cache: number, rng });
        Self {
            lines_of,
            policies: seeds.iter().map(policy).collect(),
            occupants: Occupants::new(cache, lines_of, seeds.len()),
        }
    }

    /// Places a page in a frame in one lane. `lines` says which lines the lane holds.
    fn place(&mut self, lane: usize, page: PageId, lower: u32, lines: &LineMasks) {
        let Self { policies, occupants, .. } = self;
        occupants.put((lane, page, lower), lines, take(&mut policies[lane]));
    }

    /// Prepares for the loss of a page in one lane.
    fn lose(&mut self, lane: usize, lines: &LineMasks) {
        let Self { policies, occupants, .. } = self;
        occupants.lose(lane, lines, take(&mut policies[lane]));
    }

    /// Puts a line into its set in some lanes that lack it. Calls `evicted` with the page of each line that must leave,
    /// and the lanes that it must leave. `evicted` may also be called without lanes, and with any page.
    #[inline]
    fn put(&mut self, key: u64, lanes: Mask, frames: &LaneFrames, mut evicted: impl FnMut(Mask, PageId)) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let lower = frames.lower(page);
        let Self { policies, occupants, .. } = self;
        let (sets, ways) = (occupants.sets(), occupants.ways());
        occupants.prefetch(key, lanes);
        occupants.miss(key, lanes, |lane, bit, words| {
            let set = sets.of(lower[lane], number);
            let (ways, beside) = words.split_at_mut(ways);
            let victim = |policy: &mut P, ways: &[u32], set| policy.victim_beside(ways, beside, set);
            let victim = put_word_with(ways, &mut policies[lane], set, page.0 + 1, victim).unwrap_or(0);
            let leaves = victim != 0;
            evicted(if leaves { bit } else { 0 }, PageId(victim.wrapping_sub(1)));
        });
    }

    /// Removes a line that a lane holds.
    fn remove(&mut self, key: u64, lane: usize, frames: &LaneFrames) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        let set = self.occupants.sets().of(frames.lower(page)[lane], number);
        let ways = self.occupants.ways_of(key, lane);
        let way = ways.iter().position(|&occupant| occupant == page.0 + 1);
        let way = way.expect("the lane holds the line");
        ways[way] = 0;
        self.policies[lane].removed(ways, set, way);
    }

    /// Notes a request that finds its line in some lanes. The policy ignores hits.
    #[inline(always)]
    fn touch(&mut self, _key: u64) {}

    /// Calls `visit` with each set that holds lines in a lane. `visit` also gets the pages whose lines lie there,
    /// and the number of victims that the policy has chosen there. If lines of these pages come to an empty set in
    /// this order, they lie as they do here.
    fn each_set(&self, lane: usize, lines: &LineMasks, mut visit: impl FnMut(usize, &[PageId], u64)) {
        self.occupants.each_set(lane, lines, |set, SetPages { mut pages, beside }| {
            if beside.is_some() && P::EMPTY_WAYS_ARE_LAST {
                pages.reverse();
            }
            if !pages.is_empty() {
                visit(set, &pages, beside.map_or(0, |beside| self.policies[lane].victims_beside(beside)));
            }
        });
    }
}

/// Returns a function that chooses, under a policy, the way that a line takes in its set.
fn take<P: Policy>(policy: &mut P) -> impl FnMut(&mut [u32], usize, u32) {
    |ways, set, occupant| {
        let victim = put_word(ways, policy, set, occupant);
        debug_assert!(victim.is_none(), "no set was full in a roomy bin");
    }
}

/// Dispatches to the type of the sets once for each request. Every policy has sets of any number of ways. The
/// commonest numbers of ways have a type of their own, in the list `fixed`.
macro_rules! lane_sets {
    (
        any: [$($policy:ident)*]
        fixed: [$($fixed:ident($of:ident, $ways:literal))*]
    ) => {
        /// `LaneSets` holds the sets of one cache in every lane.
        #[derive(Clone, Debug)]
        pub(super) enum LaneSets {
            /// One way, for which all policies are the same.
            Direct(DirectSets),
            $($fixed(SetsOf<$of, $ways>),)*
            /// Sets of several ways that replace the least recently used line.
            OrderedByRequest(Box<LruSets>),
            $($policy(SetsOf<crate::replacement::$policy, 0>),)*
        }

        /// Runs an expression on the sets, whatever their type.
        macro_rules! on_sets {
            ($lane_sets:expr, $sets:ident => $act:expr) => {
                match $lane_sets {
                    LaneSets::Direct($sets) => $act,
                    $(LaneSets::$fixed($sets) => $act,)*
                    LaneSets::OrderedByRequest($sets) => $act,
                    $(LaneSets::$policy($sets) => $act,)*
                }
            };
        }

        impl LaneSets {
            /// Makes the empty sets of the cache of a tree with this number. Each lane draws from a generator of
            /// its own.
            pub(super) fn new(number: usize, cache: &CacheConfig, lines_of: LinesOf, seeds: &[Rng]) -> Self {
                if are_ordered_by_request(cache) {
                    return Self::OrderedByRequest(Box::new(LruSets::new(cache, lines_of, seeds.len())));
                }
                match (cache.replacement, cache.ways) {
                    (_, 1) => Self::Direct(DirectSets::new(cache, lines_of, seeds.len())),
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
        }
    };
}

each_policy!(sets_of_each_policy);

/// Returns whether [`LruSets`] holds the sets of a cache.
fn are_ordered_by_request(cache: &CacheConfig) -> bool {
    cache.ways > 1 && cache.replacement == Replacement::Lru
}

impl LaneSets {
    /// Returns the bytes that the sets of a cache take for each lane. `loses` says whether a lane may lose a page.
    pub(super) fn bytes(cache: &CacheConfig, lines_of: LinesOf, loses: bool) -> SetsBytes {
        if are_ordered_by_request(cache) {
            return SetsBytes { fixed: LruSets::bytes(cache), page: 0, crowding: 0, most: 0 };
        }
        let ways = u64::from(cache.ways);
        if ways == 1 {
            return DirectSets::bytes(cache, lines_of);
        }
        let of_occupants = occupants::bytes(cache, lines_of, loses);
        let kept =
            if cache.replacement.words_beside() > 0 { 0 } else { cache.replacement.bytes_of_a_set(ways) };
        SetsBytes { fixed: of_occupants.fixed + cache.sets() * kept, ..of_occupants }
    }

    /// Returns the bytes that the sets of a cache take for all lanes together.
    pub(super) fn shared_bytes(cache: &CacheConfig, lines_of: LinesOf) -> SetsBytes {
        if are_ordered_by_request(cache) {
            return LruSets::shared_bytes(cache, lines_of);
        }
        match cache.ways {
            1 => SetsBytes { fixed: 0, page: 0, crowding: 0, most: 0 },
            _ => occupants::shared_bytes(lines_of),
        }
    }

    /// Places a page in a frame in one lane. `lower` is the lower half of the frame's number, and `lines` says
    /// which lines the lane holds.
    pub(super) fn place(&mut self, lane: usize, page: PageId, lower: u32, lines: &LineMasks) {
        on_sets!(self, sets => sets.place(lane, page, lower, lines));
    }

    /// Prepares for the loss of a page in one lane. `lines` says which lines the lane holds.
    ///
    /// # Panics
    /// The sets serve lanes behind a shared front, where no page is flushed.
    pub(super) fn lose(&mut self, lane: usize, lines: &LineMasks) {
        on_sets!(self, sets => sets.lose(lane, lines));
    }

    /// Notes that lanes ask for a line: all lanes, if the replacement remembers hits.
    #[inline(always)]
    pub(super) fn touch(&mut self, key: u64) {
        on_sets!(self, sets => sets.touch(key));
    }

    /// Puts a line into its set in some lanes that lack it. Calls `evicted` with the page of each line that must leave,
    /// and the lanes that it must leave. `evicted` may also be called without lanes, and with any page.
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

    /// Calls `visit` with each set that holds lines in a lane. `visit` also gets the pages whose lines lie there,
    /// and the number of victims that the policy has chosen there. If lines of these pages come to an empty set in
    /// this order, they lie as they do here.
    pub(super) fn each_set(&self, lane: usize, lines: &LineMasks, visit: impl FnMut(usize, &[PageId], u64)) {
        on_sets!(self, sets => sets.each_set(lane, lines, visit));
    }
}
