//! `Plru` is tree pseudo-LRU (PLRUt in Al-Zoubi, Milenković, Milenković: Performance
//! Evaluation of Cache Replacement Policies for the SPEC CPU2000 Benchmark Suite, ACM SE 2004).
//!
//! A binary tree with one bit per inner node stands over the ways. A bit of 0 points to the lower half of
//! the ways below the node, a bit of 1 to the upper half. The bits lead to the victim. Every access, including
//! a fill, turns the bits on its path to point away from the accessed way. Bits start at 0.

use super::{ArrayShape, PackedPolicy, Policy};

#[derive(Clone, Debug)]
pub(crate) struct Plru {
    levels: u32,
    /// For each set, `2^levels` bits packed into words. Bit n is node n, the root is node 1, and the children of node
    /// n are 2n and 2n + 1.
    bits: Vec<u64>,
    words_per_set: usize,
}

impl Plru {
    #[inline]
    fn point_away(&mut self, set: usize, way: usize) {
        let bits = &mut self.bits[set * self.words_per_set..][..self.words_per_set];
        let mut node = 1;
        for level in (0..self.levels).rev() {
            let upper = (way >> level) & 1;
            // There is no branch, because the half in which the way lies cannot be predicted.
            let word = &mut bits[node / 64];
            *word = *word & !(1 << (node % 64)) | (1 - upper as u64) << (node % 64);
            node = 2 * node + upper;
        }
    }
}

impl Policy for Plru {
    const NAME: &str = "plru";
    const MEANING: &str = "The line a binary tree of one bit per node points to; every access turns the bits on \
        its path away. Ways must be a power of two.";
    const DRAWS: bool = false;
    const REHIT_IS_NEUTRAL: bool = true;

    fn refuses(ways: u32) -> Option<&'static str> {
        (!ways.is_power_of_two()).then_some("tree-PLRU needs a power of two of ways")
    }

    fn new(array: &ArrayShape) -> Self {
        let words_per_set = array.ways.div_ceil(64);
        Self { levels: array.ways.ilog2(), bits: vec![0; words_per_set * array.sets], words_per_set }
    }

    fn bytes_of_a_set(ways: u64) -> u64 {
        ways.div_ceil(64) * size_of::<u64>() as u64
    }

    #[inline]
    fn hit<W: Copy>(&mut self, _ways: &mut [W], set: usize, way: usize) {
        self.point_away(set, way);
    }

    #[inline]
    fn filled<W: Copy>(&mut self, _ways: &mut [W], set: usize, way: usize) {
        self.point_away(set, way);
    }

    #[inline]
    fn victim<W: Copy>(&mut self, _ways: &[W], set: usize) -> usize {
        let bits = &self.bits[set * self.words_per_set..][..self.words_per_set];
        let mut node = 1;
        for _ in 0..self.levels {
            node = 2 * node + (bits[node / 64] >> (node % 64) & 1) as usize;
        }
        node - (1 << self.levels)
    }

    fn removed<W: Copy>(&mut self, _ways: &mut [W], _set: usize, _way: usize) {}
}

/// The nodes of a tree of 16 ways are five trees of four ways: one above, and four below. Each of these trees has four
/// bits of the state: bit 1 is its root, bit 2 the lower node below the root, and bit 3 the upper node. The tree above
/// has the lowest four bits. A tree of fewer ways is the first part of the tree of 16 ways: the nodes above this part
/// always point to the lower half.
const BITS: usize = 4;

/// Returns the bit of the node over a way at a level. The nodes of level 0 stand over two ways, the root is at level 3.
const fn node_bit(way: usize, level: usize) -> usize {
    let (tree, in_tree) = if level >= 2 { (0, way / 4) } else { (1 + way / 4, way % 4) };
    BITS * tree + if level % 2 == 1 { 1 } else { 2 + in_tree / 2 }
}

/// Two bits for each value of four such bits, without the lowest: the way of the tree to which the nodes point.
const POINTED: u32 = {
    let (mut pointed, mut bits) = (0, 0);
    while bits < 1 << BITS {
        let upper = bits >> 1 & 1;
        pointed |= (upper << 1 | bits >> (2 + upper) & 1) << bits;
        bits += 2;
    }
    pointed
};

/// Returns the way to which the nodes of the tree in the lowest bits point.
#[inline(always)]
fn pointed(state: u64) -> u32 {
    POINTED >> (state & 0b1110) & 3
}

/// The paths to each way of a tree of 1, 2, 4, 8 or 16 ways: the bits of the nodes on the path, and the bits of the
/// nodes that point to the lower half after an access to the way. The first index is the logarithm of the ways.
const PATHS: [[[u32; 2]; 16]; 5] = {
    let mut paths = [[[0; 2]; 16]; 5];
    let mut levels = 1;
    while levels < 5 {
        let mut way = 0;
        while way < 1 << levels {
            let mut level = 0;
            while level < levels {
                let upper = way >> level & 1;
                let bit = node_bit(way, level);
                paths[levels][way][0] |= 1 << bit;
                paths[levels][way][1] |= (upper as u32) << bit;
                level += 1;
            }
            way += 1;
        }
        levels += 1;
    }
    paths
};

impl PackedPolicy for Plru {
    const HAS_WIDE_LOOPS: bool = true;

    fn packed(_array: &ArrayShape) -> Self {
        Self { levels: 0, bits: Vec::new(), words_per_set: 0 }
    }

    #[inline(always)]
    fn hit_packed(state: &mut u64, way: usize, ways: usize) {
        let [path, lower] = PATHS[ways.ilog2() as usize][way].map(u64::from);
        *state = (*state | path) & !lower;
    }

    #[inline(always)]
    fn filled_packed(state: &mut u64, way: usize, ways: usize) {
        Self::hit_packed(state, way, ways);
    }

    #[inline(always)]
    fn victim_packed(&mut self, state: &mut u64, _set: usize, _ways: usize) -> usize {
        let quarter = pointed(*state);
        (4 * quarter + pointed(*state >> BITS >> (BITS as u32 * quarter))) as usize
    }
}
