//! `Ranks` numbers the places of a list anew as entries leave the list.
//!
//! An entry that leaves the list leaves a mark at its place, and nothing moves. A Fenwick tree counts the
//! marks of each word. To find the place of a rank and to mark a place therefore cost O(log n).

use alloc::{vec, vec::Vec};

pub(super) struct Ranks {
    /// A bit for each place, set if the entry of the place has left.
    left: Vec<u64>,
    /// A Fenwick tree of the number of set bits in each word of `left`.
    sums: Vec<u32>,
}

const WORD: usize = u64::BITS as usize;

impl Ranks {
    /// Makes the ranks of a list with `places` places, of which no entry has left.
    pub(super) fn new(places: usize) -> Self {
        let words = places.div_ceil(WORD);
        Self { left: vec![0; words], sums: vec![0; words + 1] }
    }

    /// Forgets all marks.
    pub(super) fn clear(&mut self) {
        self.left.fill(0);
        self.sums.fill(0);
    }

    /// Returns whether the entry of a place has left.
    pub(super) fn has_left(&self, place: usize) -> bool {
        self.left[place / WORD] >> (place % WORD) & 1 == 1
    }

    /// Marks the place of an entry that leaves.
    pub(super) fn leave(&mut self, place: usize) {
        debug_assert!(!self.has_left(place));
        self.left[place / WORD] |= 1 << (place % WORD);
        let mut node = place / WORD + 1;
        while node < self.sums.len() {
            self.sums[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the place of the entry before which `rank` entries remain.
    pub(super) fn place(&self, mut rank: usize) -> usize {
        let words = self.left.len();
        let mut word = 0;
        let mut step = words.next_power_of_two();
        while step > 0 {
            let next = word + step;
            if next <= words {
                let remaining = step * WORD - self.sums[next] as usize;
                if remaining <= rank {
                    rank -= remaining;
                    word = next;
                }
            }
            step /= 2;
        }
        word * WORD + select(!self.left[word], rank)
    }
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

    use super::select;

    proptest! {
        #[test]
        fn a_bit_is_found_by_its_rank(bits in prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 63)]) {
            let set = (0..64).filter(|place| bits >> place & 1 == 1);
            for (rank, place) in set.enumerate() {
                prop_assert_eq!(select(bits, rank), place);
            }
        }
    }
}
