//! `BinTree` is the layout of counts by bin, and by every coarser division into bins.
//!
//! A node stands for the frames whose lowest `level` bin bits are `low`. Its two children fix the next
//! *higher* bit: they are `low` and `low + 2^level` at `level + 1`. This is the bin tree of KH90 §3.2.4. Its
//! nodes are labelled by bit reversal, so that the first decision fixes the lowest bit of the frame number.
//! The label is the index, so nothing has to be reversed. Node `low` of a level lies at 2^level + low; the
//! tree of half the bins is the first half of the tree.

use binhop_base::{Bin, PowerOfTwo};

/// `BinTree` says where the counts of a tree lie. All trees over equal bins have the same layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinTree {
    bins: PowerOfTwo,
    /// The first level kept: 0 for a whole tree, and log2 of the bins if a policy asks only about bins.
    first: u32,
}

impl BinTree {
    pub(super) fn new(bins: PowerOfTwo, whole: bool) -> Self {
        Self { bins, first: if whole { 0 } else { bins.log2() } }
    }

    /// Returns the number of counts in one tree.
    pub(super) fn len(self) -> usize {
        (2 << self.bins.log2()) - self.start()
    }

    /// Returns the position that the first level kept has in a whole tree.
    fn start(self) -> usize {
        1 << self.first
    }

    /// Returns the position of a node's count.
    #[inline]
    pub(super) fn node(self, level: u32, low: u32) -> usize {
        debug_assert!(level >= self.first && level <= self.bins.log2() && u64::from(low) < 1 << level);
        (1 << level | low as usize) - self.start()
    }

    /// Returns the position of the first bin's count. The counts of the other bins follow.
    #[inline]
    pub(super) fn leaves(self) -> usize {
        self.node(self.bins.log2(), 0)
    }

    /// Changes the counts of a bin and of all nodes above the bin.
    #[inline]
    pub(super) fn add(self, counts: &mut [u32], bin: Bin, change: i32) {
        for level in self.first..=self.bins.log2() {
            let count = &mut counts[self.node(level, bin.0 & ((1 << level) - 1))];
            *count = count.wrapping_add_signed(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a tree of eight bins each node counts the bins that end in its label (KH90, Figure 8).
    #[test]
    fn a_node_counts_the_bins_that_end_in_its_label() {
        let tree = BinTree::new(PowerOfTwo::from_log2(3), true);
        let mut counts = [0; 15];
        for bin in 0..8 {
            for _ in 0..=bin {
                tree.add(&mut counts, Bin(bin), 1);
            }
        }
        tree.add(&mut counts, Bin(7), -1);
        let at = |level, low| counts[tree.node(level, low)];
        assert_eq!(at(0, 0), 35);
        assert_eq!([at(1, 0), at(1, 1)], [1 + 3 + 5 + 7, 2 + 4 + 6 + 7]);
        assert_eq!([at(2, 0), at(2, 1), at(2, 2), at(2, 3)], [1 + 5, 2 + 6, 3 + 7, 4 + 7]);
        assert_eq!(counts[tree.leaves()..], [1, 2, 3, 4, 5, 6, 7, 7]);
        assert_eq!(tree.len(), 15);
        let flat = BinTree::new(PowerOfTwo::from_log2(3), false);
        assert_eq!((flat.len(), flat.leaves()), (8, 0));
    }
}
