//! `Random` draws a victim uniformly from the ways. The draw is a function of the seed, the cache, the set and the
//! number of victims that the set has had. So a draw does not depend on other sets, and two machines compared under
//! one seed get the same draws.

use binhop_base::{Domain, Rng, Stream};

use super::{ArrayShape, PackedPolicy, Policy};

#[derive(Clone, Debug)]
pub(crate) struct Random {
    rng: Rng,
    /// The cache's index, in the upper bits of the stream number; the first set is in the lower 48.
    stream: u64,
    /// For each set, the number of victims that it has had. The lower [`way_bits`](Self::way_bits) have the way of the
    /// next victim + 1, drawn when the previous victim was taken. A draw takes longer than the rest of a miss, and
    /// nothing waits for a draw made ahead. [`NOT_DRAWN`] stands before the first victim. One word holds both, so a miss
    /// reads one line of memory for them.
    victims: Vec<u64>,
    /// The bits that the number of ways takes. It is below 2^32, so at least 32 bits count the victims of a set.
    way_bits: u32,
}

const NOT_DRAWN: u64 = 0;

impl Random {
    /// Returns the way of a set's next victim, and draws the one after it.
    #[inline]
    fn next_victim(&mut self, set: usize, ways: u64) -> usize {
        let Self { rng, stream, victims, way_bits } = self;
        let stream = Stream::new(Domain::Victim, *stream | set as u64);
        let of_set = &mut victims[set];
        let count = *of_set >> *way_bits;
        let mut next = *of_set & ((1 << *way_bits) - 1);
        if next == NOT_DRAWN {
            next = rng.below(stream, count, ways) + 1;
        }
        *of_set = (count + 1) << *way_bits | (rng.below(stream, count + 1, ways) + 1);
        next as usize - 1
    }
}

impl Policy for Random {
    const NAME: &str = "random";
    const MEANING: &str = "A line drawn uniformly: a function of seed, cache, set and the number of victims that \
        set has had.";
    const DRAWS: bool = true;
    const REHIT_IS_NEUTRAL: bool = true;
    const HITS_ARE_NEUTRAL: bool = true;

    fn new(array: &ArrayShape) -> Self {
        let stream = (array.cache as u64) << 48 | array.first as u64;
        let way_bits = array.ways.ilog2() + 1;
        Self { rng: array.rng, stream, victims: vec![0; array.sets], way_bits }
    }

    fn bytes_of_a_set(_ways: u64) -> u64 {
        size_of::<u64>() as u64
    }

    #[inline]
    fn hit<W: Copy>(&mut self, _ways: &mut [W], _set: usize, _way: usize) {}

    #[inline]
    fn filled<W: Copy>(&mut self, _ways: &mut [W], _set: usize, _way: usize) {}

    #[inline]
    fn victim<W: Copy>(&mut self, ways: &[W], set: usize) -> usize {
        self.next_victim(set, ways.len() as u64)
    }

    #[inline]
    fn read_ahead(&self, set: usize) -> u64 {
        self.victims[set]
    }

    fn removed<W: Copy>(&mut self, _ways: &mut [W], _set: usize, _way: usize) {}

    fn victims(&self, set: usize) -> u64 {
        self.victims[set] >> self.way_bits
    }

    fn set_victims(&mut self, set: usize, victims: u64) {
        self.victims[set] = victims << self.way_bits | NOT_DRAWN;
    }
}

/// The words of the sets hold nothing.
impl PackedPolicy for Random {
    // A draw uses up a random number.
    const VICTIMS_ARE_CHEAP: bool = false;

    fn packed(array: &ArrayShape) -> Self {
        Self::new(array)
    }

    #[inline(always)]
    fn hit_packed(_state: &mut u64, _way: usize, _ways: usize) {}

    #[inline(always)]
    fn filled_packed(_state: &mut u64, _way: usize, _ways: usize) {}

    #[inline(always)]
    fn victim_packed(&mut self, _state: &mut u64, set: usize, ways: usize) -> usize {
        self.next_victim(set, ways as u64)
    }
}
