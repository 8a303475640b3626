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
    /// A word for each set: the number of victims that the set has had. The lower [`way_bits`](Self::way_bits) have the
    /// way of the next victim + 1, drawn when the previous victim was taken. A draw takes longer than the rest of a
    /// miss, and nothing waits for a draw made ahead. [`NOT_DRAWN`] stands before the first victim. Where the
    /// owner of the ways keeps this word beside them, a miss waits for one place in memory less, and this list is empty.
    victims: Vec<u64>,
    /// The bits that the number of ways takes. It is below 2^32, so at least 32 bits count the victims of a set.
    way_bits: u32,
}

const NOT_DRAWN: u64 = 0;

/// Returns a set's word, whose lower half comes first.
#[inline]
fn joined(beside: &[u32]) -> u64 {
    u64::from(beside[0]) | u64::from(beside[1]) << 32
}

impl Random {
    /// Returns the word of a set that has had so many victims.
    fn after_victims(&self, victims: u64) -> u64 {
        victims << self.way_bits | NOT_DRAWN
    }

    /// Returns the way of a set's next victim, and the set's word with the draw of the victim after it.
    #[inline]
    fn next_victim(&self, of_set: u64, set: usize, ways: u64) -> (usize, u64) {
        let Self { rng, stream, way_bits, .. } = self;
        let stream = Stream::new(Domain::Victim, *stream | set as u64);
        let count = of_set >> *way_bits;
        let mut next = of_set & ((1 << *way_bits) - 1);
        if next == NOT_DRAWN {
            next = rng.below(stream, count, ways) + 1;
        }
        (next as usize - 1, (count + 1) << *way_bits | (rng.below(stream, count + 1, ways) + 1))
    }
}

impl Policy for Random {
    const NAME: &str = "random";
    const MEANING: &str = "A line drawn uniformly: a function of seed, cache, set and the number of victims that \
        set has had.";
    const DRAWS: bool = true;
    const REHIT_IS_NEUTRAL: bool = true;
    const HITS_ARE_NEUTRAL: bool = true;
    const WORDS_BESIDE: usize = 2;

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
        let way;
        (way, self.victims[set]) = self.next_victim(self.victims[set], set, ways.len() as u64);
        way
    }

    #[inline]
    fn victim_beside<W: Copy>(&mut self, ways: &[W], beside: &mut [u32], set: usize) -> usize {
        let (way, of_set) = self.next_victim(joined(beside), set, ways.len() as u64);
        beside.copy_from_slice(&[of_set as u32, (of_set >> 32) as u32]);
        way
    }

    fn victims_beside(&self, beside: &[u32]) -> u64 {
        joined(beside) >> self.way_bits
    }

    fn removed<W: Copy>(&mut self, _ways: &mut [W], _set: usize, _way: usize) {}

    fn set_victims(&mut self, set: usize, victims: u64) {
        self.victims[set] = self.after_victims(victims);
    }
}

/// The state of a set is its word of [`Random::victims`], a list that is empty here.
impl PackedPolicy for Random {
    // A draw takes longer than the rest of a miss.
    const VICTIMS_ARE_CHEAP: bool = false;

    fn packed(array: &ArrayShape) -> Self {
        Self::new(&ArrayShape { sets: 0, ..*array })
    }

    #[inline(always)]
    fn hit_packed(_state: &mut u64, _way: usize, _ways: usize) {}

    #[inline(always)]
    fn filled_packed(_state: &mut u64, _way: usize, _ways: usize) {}

    #[inline(always)]
    fn victim_packed(&mut self, state: &mut u64, set: usize, ways: usize) -> usize {
        let way;
        (way, *state) = self.next_victim(*state, set, ways as u64);
        way
    }

    fn set_victims_packed(&self, state: &mut u64, victims: u64) {
        *state = self.after_victims(victims);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind 2^27 victims, the count of a set of 16 ways needs the upper half of the word.
    #[test]
    fn words_beside_the_ways_and_packed_words_give_the_same_victims() {
        let shape = ArrayShape { ways: 16, sets: 8, first: 24, cache: 3, rng: Rng::new(1) };
        let (set, ways) = (5, [0_u32; 16]);
        let mut plain = Random::new(&shape);
        let (mut packed, mut beside) =
            (Random::packed(&shape), Random::new(&ArrayShape { sets: 0, ..shape }));
        for before in [0, 5, (1 << 27) - 3, 1 << 40] {
            plain.set_victims(set, before);
            let (word, mut state) = (plain.victims[set], 0);
            let mut words = [word as u32, (word >> 32) as u32];
            packed.set_victims_packed(&mut state, before);
            for _ in 0..8 {
                let way = plain.victim(&ways, set);
                assert_eq!(beside.victim_beside(&ways, &mut words, set), way);
                assert_eq!(packed.victim_packed(&mut state, set, ways.len()), way);
            }
            assert_eq!(beside.victims_beside(&words), before + 8);
        }
    }
}
