//! `Ranks` numbers the places of a list anew as entries leave the list.
//!
//! An entry that leaves the list leaves a mark at its place, and nothing moves. The words of marks stand in blocks. Each
//! word has the number of marks before it in its block, and a Fenwick tree counts the marks of each block. To find the
//! place of a rank and to mark a place therefore cost O(log n), and touch few lines of the host's cache: each lane has
//! ranks of its own, so between two placements these lines leave the host's first caches.

use alloc::{vec, vec::Vec};

pub(super) struct Ranks {
    /// A bit for each place, set if the entry of the place has left.
    left: Vec<u64>,
    /// For each word of `left`, the number of set bits in the words before it in its block.
    before: Vec<u16>,
    /// A Fenwick tree of the number of set bits in each block.
    sums: Vec<u32>,
}

const WORD: usize = u64::BITS as usize;

/// The number of words in a block. The places of a block are counted in 16 bits.
const BLOCK: usize = 64;

impl Ranks {
    /// Makes the ranks of a list with `places` places, of which no entry has left.
    pub(super) fn new(places: usize) -> Self {
        let words = places.div_ceil(WORD);
        Self { left: vec![0; words], before: vec![0; words], sums: vec![0; words.div_ceil(BLOCK) + 1] }
    }

    /// Forgets all marks.
    pub(super) fn clear(&mut self) {
        self.left.fill(0);
        self.before.fill(0);
        self.sums.fill(0);
    }

    /// Returns whether the entry of a place has left.
    #[inline]
    pub(super) fn has_left(&self, place: usize) -> bool {
        self.left[place / WORD] >> (place % WORD) & 1 == 1
    }

    /// Returns the places whose entries have left, in order.
    pub(super) fn iter_left(&self) -> impl Iterator<Item = usize> {
        self.left.iter().enumerate().filter(|(_, marks)| **marks != 0).flat_map(|(word, &marks)| {
            let without_lowest = |&marks: &u64| (marks & (marks - 1) != 0).then_some(marks & (marks - 1));
            core::iter::successors(Some(marks), without_lowest)
                .map(move |marks| word * WORD + marks.trailing_zeros() as usize)
        })
    }

    /// Marks the place of an entry that leaves.
    pub(super) fn leave(&mut self, place: usize) {
        debug_assert!(!self.has_left(place));
        let word = place / WORD;
        self.left[word] |= 1 << (place % WORD);
        let block = word / BLOCK;
        // One loop over the whole block has no branch that depends on the place, and takes few instructions.
        for (number, before) in (0..).zip(&mut self.before[block_of(word, self.left.len())]) {
            *before += u16::from(number > (word % BLOCK) as u16);
        }
        let mut node = block + 1;
        while node < self.sums.len() {
            self.sums[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the place of the entry before which `rank` entries remain.
    pub(super) fn place(&self, rank: usize) -> usize {
        self.place_in(self.word(rank))
    }

    /// Returns the word of the entry before which `rank` entries remain, and the number of these entries in the word.
    pub(super) fn word(&self, mut rank: usize) -> (usize, usize) {
        let blocks = self.sums.len() - 1;
        let mut block = 0;
        let mut step = blocks.next_power_of_two();
        while step > 0 {
            let next = block + step;
            if next <= blocks {
                let remaining = step * BLOCK * WORD - self.sums[next] as usize;
                if remaining <= rank {
                    rank -= remaining;
                    block = next;
                }
            }
            step /= 2;
        }
        let first = block * BLOCK;
        // The rank lies in the last word before which no more than `rank` entries of the block remain. The first word
        // of the block is such a word.
        let before = &self.before[block_of(first, self.left.len())];
        let words: u16 = (0..)
            .zip(before)
            .map(|(word, &before): (u16, _)| u16::from(word * WORD as u16 - before <= rank as u16))
            .sum();
        let word = usize::from(words) - 1;
        (first + word, rank - (word * WORD - usize::from(before[word])))
    }

    /// Returns the place that [`place`](Self::place) returns, from what [`word`](Self::word) returns.
    #[inline]
    pub(super) fn place_in(&self, (word, rank): (usize, usize)) -> usize {
        word * WORD + select(!self.left[word], rank)
    }
}

/// Returns the words of the block of a word, in a list of `words` words.
#[inline]
fn block_of(word: usize, words: usize) -> core::ops::Range<usize> {
    let first = word / BLOCK * BLOCK;
    first..words.min(first + BLOCK)
}

/// Returns the position of the set bit before which `rank` bits are set. `bits` must have such a bit.
fn select(bits: u64, rank: usize) -> usize {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGH: u64 = ONES << 7;
    // `fours` counts the set bits in groups of four; `until` counts the set bits up to the end of each byte
    // (at most 64).
    let pairs = bits - ((bits >> 1) & (ONES * 0x55));
    let fours = (pairs & (ONES * 0x33)) + ((pairs >> 2) & (ONES * 0x33));
    let until = ((fours + (fours >> 4)) & (ONES * 0x0F)).wrapping_mul(ONES);
    // The byte sought is the first byte at whose end more than `rank` bits are set.
    let reached = ((until | HIGH) - ONES * (rank as u64 + 1)) & HIGH;
    let start = reached.trailing_zeros() & !7;
    let before = (until << 8 >> start) as usize & 0xFF;
    let mut byte = bits >> start;
    for _ in before..rank {
        byte &= byte - 1;
    }
    (start + byte.trailing_zeros()) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Ranks, Vec, select};

    proptest! {
        #[test]
        fn entries_leave_as_from_a_list(
            places in 1..20_000usize,
            runs in prop::collection::vec((any::<usize>(), 1..600usize), 0..40),
            ranks in prop::collection::vec(any::<usize>(), 60),
        ) {
            let mut tree = Ranks::new(places);
            for again in [false, true] {
                let mut model: Vec<usize> = (0..places).collect();
                for &(start, len) in &runs {
                    let start = start % model.len();
                    let end = (start + len).min(model.len() - 1);
                    model.drain(start.min(end)..end).for_each(|place| tree.leave(place));
                    for &rank in &ranks {
                        let rank = rank % model.len();
                        prop_assert_eq!(tree.place(rank), model[rank]);
                    }
                }
                let left: Vec<usize> = (0..places).filter(|&place| tree.has_left(place)).collect();
                prop_assert_eq!(left.len() + model.len(), places);
                prop_assert_eq!(tree.iter_left().collect::<Vec<_>>(), left);
                if !again {
                    tree.clear();
                }
            }
        }

        #[test]
        fn a_bit_is_found_by_its_rank(bits in prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 63)]) {
            let set = (0..64).filter(|place| bits >> place & 1 == 1);
            for (rank, place) in set.enumerate() {
                prop_assert_eq!(select(bits, rank), place);
            }
        }
    }
}
