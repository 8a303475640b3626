//! BinCounts by bin, and by every coarser division into bins.
//!
//! A node stands for the frames whose lowest `level` bin bits are `low`. Its two children fix the next
//! *higher* bit: `low` and `low + 2^level` at `level + 1`. That is the bin tree of KH90 §3.2.4, whose nodes are
//! labelled by bit reversal so that the first decision fixes the lowest bit of the frame number; with the
//! label for an index no reversal is left to do. Level by level, node `low` of a level lies at 2^level + low:
//! the tree of half the bins is the first half of this one.

use binhop_base::{Bin, PowerOfTwo};

/// `Shape` says where counts lie, for all trees of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    bins: PowerOfTwo,
    /// The first level kept: 0 for a tree, log2 of the bins where only bins are asked about.
    first: u32,
}

impl Shape {
    pub(super) fn new(bins: PowerOfTwo, whole: bool) -> Self {
        Self { bins, first: if whole { 0 } else { bins.log2() } }
    }

    /// Numbers that one tree takes.
    pub(super) fn len(self) -> usize {
        (2 << self.bins.log2()) - self.start()
    }

    /// The first number of the first level kept, in a whole tree.
    fn start(self) -> usize {
        1 << self.first
    }

    /// Returns the place of the count of a node.
    #[inline]
    pub(super) fn node(self, level: u32, low: u32) -> usize {
        debug_assert!(level >= self.first && level <= self.bins.log2() && u64::from(low) < 1 << level);
        (1 << level | low as usize) - self.start()
    }

    /// Returns the place of the count of the first bin; those of the others follow.
    #[inline]
    pub(super) fn leaves(self) -> usize {
        self.node(self.bins.log2(), 0)
    }

    /// Adds to the counts of a bin and of all nodes above it.
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

    /// Eight bins: each node counts the bins that end in its label (KH90, Figure 8).
    #[test]
    fn a_node_counts_the_bins_that_end_in_its_label() {
        let shape = Shape::new(PowerOfTwo::from_log2(3), true);
        let mut counts = [0; 15];
        for bin in 0..8 {
            for _ in 0..=bin {
                shape.add(&mut counts, Bin(bin), 1);
            }
        }
        shape.add(&mut counts, Bin(7), -1);
        let at = |level, low| counts[shape.node(level, low)];
        assert_eq!(at(0, 0), 35);
        assert_eq!([at(1, 0), at(1, 1)], [1 + 3 + 5 + 7, 2 + 4 + 6 + 7]);
        assert_eq!([at(2, 0), at(2, 1), at(2, 2), at(2, 3)], [1 + 5, 2 + 6, 3 + 7, 4 + 7]);
        assert_eq!(counts[shape.leaves()..], [1, 2, 3, 4, 5, 6, 7, 7]);
        assert_eq!(shape.len(), 15);
        let flat = Shape::new(PowerOfTwo::from_log2(3), false);
        assert_eq!((flat.len(), flat.leaves()), (8, 0));
    }
}
