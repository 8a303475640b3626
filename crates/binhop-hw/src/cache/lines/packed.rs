//! `PackedArray` holds sets of up to 16 ways. Each set has a head of 32 B, which answers most of an access.
//!
//! A set's head has a *print* of each line, which is a byte of a hash of its key, and the state of the replacement in
//! one word. A search compares the prints of all ways at once, and reads the word of a line only where its print
//! fits. So an access that misses reads the head and the victim's word, and no branch depends on the way.

use super::{EMPTY, SelectedLines, Sets, Word, clean_ways};
use crate::replacement::{ArrayShape, PackedPolicy};

/// The most ways of a set.
pub(crate) const MOST_PACKED: usize = 16;

/// The ways whose prints one word holds.
const IN_WORD: usize = 8;
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// `Head` is the words of a head. All of them are 0 for an empty set: the system gives zeroed memory page by page
/// as it is touched.
/// - [`PRINTS`]: the print of the line in each way, a byte each.
/// - [`STATE`]: the state of the replacement.
/// - [`HELD`]: the ways that hold a line, a bit each.
type Head = [u64; 4];

const PRINTS: usize = 0;
const STATE: usize = PRINTS + MOST_PACKED / IN_WORD;
const HELD: usize = STATE + 1;

/// Returns the bytes of a set.
pub(super) const fn set_bytes(ways: usize) -> u64 {
    (size_of::<Head>() + ways * size_of::<u64>()) as u64
}

/// `PackedArray` holds sets of up to [`MOST_PACKED`] ways.
#[derive(Clone, Debug)]
pub(crate) struct PackedArray<P> {
    heads: Vec<Head>,
    words: Vec<u64>,
    ways: usize,
    policy: P,
}

/// Returns the print of a clean word. The multiplication brings every bit of the key into the upper byte.
#[inline(always)]
const fn print_of(clean: u64) -> u64 {
    clean.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56
}

/// Returns the bytes of `prints` that equal `print`: the upper bit of each.
#[inline(always)]
const fn equal_bytes(prints: u64, print: u64) -> u64 {
    let differing = prints ^ (print * LOW_BITS);
    !(((differing & !HIGH_BITS) + !HIGH_BITS) | differing) & HIGH_BITS
}

impl<P: PackedPolicy> PackedArray<P> {
    pub(super) fn new(shape: &ArrayShape) -> Self {
        let &ArrayShape { ways, sets, .. } = shape;
        assert!(ways <= MOST_PACKED);
        Self { heads: vec![[0; 4]; sets], words: vec![EMPTY; sets * ways], ways, policy: P::packed(shape) }
    }

    /// Returns the words of adjacent sets.
    pub(super) fn words(&self, sets: std::ops::Range<usize>) -> &[u64] {
        &self.words[sets.start * self.ways..sets.end * self.ways]
    }

    /// Returns the words of a set in the order in which an [`Array`](super::Array) keeps them.
    pub(super) fn in_order(&self, set: usize) -> Vec<u64> {
        let words = self.words(set..set + 1);
        let mut ordered: Vec<u64> =
            (0..self.ways).map(|place| words[P::way_at(self.heads[set][STATE], place)]).collect();
        if P::EMPTY_WAYS_ARE_LAST {
            ordered.sort_by_key(|&word| word == EMPTY);
        }
        ordered
    }

    #[inline(always)]
    fn parts(&mut self, set: usize) -> (&mut Head, &mut [u64], &mut P) {
        (&mut self.heads[set], &mut self.words[set * self.ways..][..self.ways], &mut self.policy)
    }

    /// Returns the way that a new line takes: the lowest empty way, or the way of a victim. The flag is true for a
    /// victim.
    #[inline(always)]
    fn way_for_new(head: &mut Head, policy: &mut P, set: usize, ways: usize) -> (usize, bool) {
        let empty = !head[HELD] & ((1 << ways) - 1);
        if empty != 0 {
            return (empty.trailing_zeros() as usize, false);
        }
        (policy.victim_packed(&mut head[STATE], set, ways), true)
    }

    pub(super) fn evict(&mut self, set: usize) -> Option<Word> {
        let ways = self.ways;
        let (head, words, policy) = self.parts(set);
        let (way, is_victim) = Self::way_for_new(head, policy, set, ways);
        if !is_victim {
            return None;
        }
        head[HELD] &= !(1 << way);
        Some(Word(std::mem::replace(&mut words[way], EMPTY)))
    }

    pub(super) fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
        let (head, words, _) = self.parts(set);
        // The lines leave in the order in which they leave an `Array`: the last first.
        for place in (0..words.len()).rev() {
            let way = P::way_at(head[STATE], place);
            let word = Word(words[way]);
            if selected.contain(word) {
                words[way] = EMPTY;
                head[HELD] &= !(1 << way);
                removed(word);
            }
        }
    }

    pub(super) fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
        clean_ways(self.parts(set).1, selected, cleaned);
    }

    pub(super) fn set_victims(&mut self, set: usize, victims: u64) {
        self.policy.set_victims_packed(&mut self.heads[set][STATE], victims);
    }
}

impl<P: PackedPolicy> Sets for PackedArray<P> {
    #[inline(always)]
    fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
        let ways = self.ways;
        let (head, words, _) = self.parts(set);
        let clean = Word::new(key, false).0;
        let print = print_of(clean);
        // One word has the answers of both words: the lowest bit of a byte for the first, the highest for the second.
        let [lower, upper] = [head[PRINTS], head[PRINTS + 1]].map(|prints| equal_bytes(prints, print));
        let mut equal = lower >> 7 | upper;
        while equal != 0 {
            let bit = equal.trailing_zeros() as usize;
            let way = bit / 8 + usize::from(!bit.is_multiple_of(8)) * IN_WORD;
            equal &= equal - 1;
            // The ways beyond the last way have prints, too, but hold no line.
            let Some(word) = words.get_mut(way).filter(|word| **word ^ clean <= 1) else { continue };
            // A line becomes dirty once and is written often. So this branch can be predicted, and a branch on
            // `dirty` cannot.
            if dirty & !*word != 0 {
                *word |= 1;
                *newly_dirty += 1;
            }
            P::hit_packed(&mut head[STATE], way, ways);
            return true;
        }
        false
    }

    #[inline(always)]
    fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        let ways = self.ways;
        let (head, words, policy) = self.parts(set);
        let (way, is_victim) = Self::way_for_new(head, policy, set, ways);
        let before = std::mem::replace(&mut words[way], line.0);
        let (word, shift) = (PRINTS + way / IN_WORD, way % IN_WORD * 8);
        head[word] = head[word] & !(0xff << shift) | print_of(line.0 & !1) << shift;
        head[HELD] |= 1 << way;
        P::filled_packed(&mut head[STATE], way, ways);
        is_victim.then_some(Word(before))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        cache::lines::steps::{Step, compare, compared, shape, steps},
        replacement::{Fifo, Lru, Plru, Random, Srrip},
    };

    compared!([P: PackedPolicy] PackedArray<P>);

    fn equals_plain_array<P: PackedPolicy>(ways: usize, steps: &[Step]) {
        compare::<P, _>(&shape(ways), &mut [PackedArray::<P>::new(&shape(ways))], steps);
    }

    proptest! {
        #[test]
        fn packed_sets_equal_plain_sets(ways in 2usize..=MOST_PACKED, steps in steps()) {
            equals_plain_array::<Lru>(ways, &steps);
            equals_plain_array::<Fifo>(ways, &steps);
            equals_plain_array::<Srrip>(ways, &steps);
            equals_plain_array::<Random>(ways, &steps);
            equals_plain_array::<Plru>(ways.next_power_of_two(), &steps);
        }

        #[test]
        fn equal_bytes_are_those_that_are_equal(prints: u64, print in 0u64..256) {
            let expected = (0..8).filter(|byte| prints >> (8 * byte) & 0xff == print).map(|byte| 0x80 << (8 * byte));
            prop_assert_eq!(equal_bytes(prints, print), expected.sum::<u64>());
        }
    }
}
