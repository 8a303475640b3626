//! `Rng` is the only generator of random numbers. It is counter-based: a draw is a function of
//! its seed, its purpose and its ordinal, and of nothing else.
//!
//! The generator is `Philox 2x64-10` (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2,
//! 3, SC 2011). Its key is the seed, and its counter is (index, stream). Two simulations that ask for the
//! same draw get the same number, in any order and on any thread.

/// `Domain` is the purpose of a stream of draws. A new purpose takes a new domain, and the number of a domain is
/// never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Domain {
    /// The order of the frame list at the start (KH90 §4.1.2).
    FrameOrder = 1,
    /// The choice of a placement, by the ordinal of the fault.
    Placement = 2,
    /// A random victim in a cache set. The stream is (cache, set); the index is the number of victims that
    /// the set has had.
    Victim = 3,
    /// The input data of a built-in workload.
    Workload = 4,
    /// A draw of a placement for an address space (its pointer) or a segment (its offset), and not for a
    /// fault.
    PlacementOf = 5,
    /// The time that a process runs in a schedule that was not observed.
    Schedule = 6,
    /// The position of a sample's window in its span of a trace, by the number of the span.
    Sample = 7,
    /// The frame of a wired page, by the ordinal of the wired page.
    Wired = 8,
    /// A random victim in a TLB. The stream is (TLB, group of slots); the index is the number of victims that the
    /// group has had.
    TlbVictim = 9,
    /// The frames of page tables, by their place in the reserve.
    Table = 10,
    /// The draws of tests.
    Test = 255,
}

/// `Stream` is a sequence of independent draws: a domain, and a number within the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    /// Makes the stream with a number (below 2⁵⁶) in a domain.
    #[inline]
    #[must_use]
    pub const fn new(domain: Domain, number: u64) -> Self {
        debug_assert!(number < 1 << 56);
        Self(((domain as u64) << 56) | number)
    }
}

/// `Rng` makes the draws of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rng {
    seed: u64,
}

impl Rng {
    /// Makes the generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the seed.
    #[must_use]
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// Returns draw number `index` of a stream: 64 uniform bits.
    #[inline]
    #[must_use]
    pub const fn draw(self, stream: Stream, index: u64) -> u64 {
        philox(self.seed, [index, stream.0])[0]
    }

    /// Returns draw number `index` of a stream, uniform below `n` (n ≥ 1). The bias is at most 2⁻⁶⁴·n.
    ///
    /// The reduction is one multiplication (Lemire's reduction without the rejection step). Each index takes
    /// exactly one draw, so common random numbers stay aligned between policies that ask for different
    /// ranges.
    #[inline]
    #[must_use]
    pub const fn below(self, stream: Stream, index: u64, n: u64) -> u64 {
        Self::reduce(self.draw(stream, index), n)
    }

    /// Returns the number below `n` to which [`below`](Self::below) reduces this draw.
    #[inline]
    #[must_use]
    pub const fn reduce(draw: u64, n: u64) -> u64 {
        debug_assert!(n > 0);
        ((draw as u128 * n as u128) >> 64) as u64
    }

    /// Returns [`TOGETHER`] draws of a stream, from draw number `first` on.
    #[inline(always)]
    fn draws_from(self, stream: Stream, first: u64) -> [u64; TOGETHER] {
        let mut indices = core::array::from_fn(|at| first.wrapping_add(at as u64));
        let (mut others, mut key) = ([stream.0; TOGETHER], self.seed);
        for _ in 0..ROUNDS {
            for (index, other) in indices.iter_mut().zip(&mut others) {
                [*index, *other] = philox_round(key, [*index, *other]);
            }
            key = key.wrapping_add(WEYL);
        }
        indices
    }

    /// Shuffles a slice (Fisher and Yates). Draw i decides place i.
    pub fn shuffle<T>(self, stream: Stream, items: &mut [T]) {
        self.shuffle_places(stream, items, 0..items.len());
    }

    /// Shuffles the places `places` of a slice. All places before them must be shuffled already. A caller can thus
    /// shuffle a long list only as far as it reads the list.
    ///
    /// The draws of a [`BATCH`] are made before its places are read. A place outside the host's caches then delays no
    /// draw, and the host waits for many places at once. [`TOGETHER`] draws are made at a time.
    ///
    /// # Panics
    /// The slice has fewer places.
    pub fn shuffle_places<T>(self, stream: Stream, items: &mut [T], places: core::ops::Range<usize>) {
        assert!(places.end <= items.len(), "place {} of {}", places.end, items.len());
        let mut with = [0; BATCH];
        let mut first = places.start;
        while first < places.end {
            let with = &mut with[..BATCH.min(places.end - first)];
            let (groups, rest) = with.as_chunks_mut::<TOGETHER>();
            let mut place = first;
            for group in groups {
                let draws = self.draws_from(stream, place as u64);
                for (with, draw) in group.iter_mut().zip(draws) {
                    *with = place + Self::reduce(draw, (items.len() - place) as u64) as usize;
                    place += 1;
                }
            }
            for with in rest {
                *with = place + self.below(stream, place as u64, (items.len() - place) as u64) as usize;
                place += 1;
            }
            for (place, &mut with) in (first..).zip(&mut *with) {
                items.swap(place, with);
            }
            first += BATCH;
        }
    }
}

/// The number of places that a shuffle draws together.
const BATCH: usize = 64;

/// The number of draws that a shuffle makes at a time. A round of a draw waits for the round before, and the host makes
/// the rounds of other draws meanwhile. The counters of more draws would not fit into the host's registers.
const TOGETHER: usize = 4;

const MULTIPLIER: u64 = 0xD2B7_4407_B1CE_6E93;
const WEYL: u64 = 0x9E37_79B9_7F4A_7C15;

/// The number of rounds.
const ROUNDS: usize = 10;

#[inline]
const fn philox(mut key: u64, mut counter: [u64; 2]) -> [u64; 2] {
    let mut round = 0;
    while round < ROUNDS {
        counter = philox_round(key, counter);
        key = key.wrapping_add(WEYL);
        round += 1;
    }
    counter
}

#[inline(always)]
const fn philox_round(key: u64, counter: [u64; 2]) -> [u64; 2] {
    let product = counter[0] as u128 * MULTIPLIER as u128;
    [(product >> 64) as u64 ^ key ^ counter[1], product as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These are the published known-answer vectors of philox2x64-10 (Random123, kat_vectors).
    #[test]
    fn known_answers() {
        assert_eq!(philox(0, [0, 0]), [0xca00_a045_9843_d731, 0x66c2_4222_c9a8_45b5]);
        assert_eq!(philox(u64::MAX, [u64::MAX; 2]), [0x65b0_21d6_0cd8_310f, 0x4d02_f322_2f86_df20]);
        assert_eq!(
            philox(0xa409_3822_299f_31d0, [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344]),
            [0x0a5e_742c_2997_341c, 0xb0f8_83d3_8000_de5d]
        );
    }

    #[test]
    fn below_is_uniform() {
        let mut seen = [0u32; 10];
        for index in 0..100_000 {
            seen[Rng::new(7).below(Stream::new(Domain::Test, 0), index, 10) as usize] += 1;
        }
        // χ² with 9 degrees of freedom is below 33.7 in all but one of 10,000 seeds.
        let chi2: f64 = seen.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi2 < 33.7, "{chi2}: {seen:?}");
    }

    /// A shuffle takes the draws that are made one by one, wherever it begins and ends.
    #[test]
    fn a_shuffle_takes_one_draw_for_each_place() {
        let (rng, stream) = (Rng::new(5), Stream::new(Domain::FrameOrder, 1));
        for (len, places) in [(1, 0..1), (200, 0..200), (200, 0..3), (200, 7..70), (150, 149..150), (9, 4..4)]
        {
            let mut items: [u32; 200] = core::array::from_fn(|i| i as u32);
            let mut expected = items;
            for place in places.clone() {
                expected.swap(place, place + rng.below(stream, place as u64, (len - place) as u64) as usize);
            }
            rng.shuffle_places(stream, &mut items[..len], places);
            assert_eq!(items, expected);
        }
    }

    #[test]
    fn a_shuffle_is_a_permutation_and_depends_on_the_seed() {
        let order = |seed| {
            let mut items: [u32; 100] = core::array::from_fn(|i| i as u32);
            Rng::new(seed).shuffle(Stream::new(Domain::FrameOrder, 0), &mut items);
            items
        };
        assert_ne!(order(0), order(1));
        assert_eq!(order(3), order(3));
        let mut in_parts: [u32; 100] = core::array::from_fn(|i| i as u32);
        for places in [0..1, 1..40, 40..40, 40..100] {
            Rng::new(3).shuffle_places(Stream::new(Domain::FrameOrder, 0), &mut in_parts, places);
        }
        assert_eq!(in_parts, order(3));
        let mut sorted = order(0);
        sorted.sort_unstable();
        assert_eq!(sorted, core::array::from_fn(|i| i as u32));
    }
}
