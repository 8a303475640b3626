//! `Ranks` numbers the places of a list anew as entries leave the list.
//!
//! An entry that leaves the list leaves a mark at its place, and nothing moves. The marks are counted by words in a
//! Fenwick tree. So the place of a rank, the rank of a place and marking a place each cost O(log n), whatever the list
//! holds.

use alloc::{vec, vec::Vec};

pub(super) struct Ranks {
    /// A bit for each place whose entry has left.
    left: Vec<u64>,
    /// A Fenwick tree over the words of `left`: bits set.
    sums: Vec<u32>,
}

const WORD: usize = u64::BITS as usize;

impl Ranks {
    /// Ranks of a list with this many places, no entry of which has left.
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

    /// Marks the place of an entry that leaves now.
    pub(super) fn leave(&mut self, place: usize) {
        debug_assert!(!self.has_left(place));
        self.left[place / WORD] |= 1 << (place % WORD);
        let mut node = place / WORD + 1;
        while node < self.sums.len() {
            self.sums[node] += 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the number of entries before a place that have not left.
    pub(super) fn rank(&self, place: usize) -> usize {
        let mut node = place / WORD;
        let within = self.left[node] & ((1 << (place % WORD)) - 1);
        let mut left = within.count_ones() as usize;
        while node > 0 {
            left += self.sums[node] as usize;
            node &= node - 1;
        }
        place - left
    }

    /// Returns the place of the entry before which this many entries have not left.
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

/// Returns the position of the set bit before which `rank` others are set.
fn select(mut bits: u64, rank: usize) -> usize {
    for _ in 0..rank {
        bits &= bits - 1;
    }
    bits.trailing_zeros() as usize
}
