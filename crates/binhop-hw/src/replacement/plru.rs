//! Tree pseudo-LRU (described and compared with others in Al-Zoubi, Milenković, Milenković: Performance
//! Evaluation of Cache Replacement Policies for the SPEC CPU2000 Benchmark Suite, ACM SE 2004: PLRUt).
//!
//! A binary tree with one bit per inner node stands over the ways. A bit of 0 points to the lower half of
//! the ways below the node, 1 to the upper. The victim is found by following the bits. Every access, a
//! fill included, turns the bits on its path to point away from it. Bits start at 0.

use super::{Policy, Ways};

#[derive(Clone, Debug)]
pub(crate) struct Plru {
    levels: u32,
    /// Per set, `2^levels` bits packed into words; bit n is node n, the root is 1, node n's children are
    /// 2n and 2n+1.
    bits: Vec<u64>,
    words_per_set: usize,
}

impl Plru {
    pub(crate) fn new(ways: usize, sets: usize) -> Self {
        let words_per_set = ways.div_ceil(64);
        Self { levels: ways.ilog2(), bits: vec![0; words_per_set * sets], words_per_set }
    }

    #[inline]
    fn point_away(&mut self, set: usize, way: usize) {
        let bits = &mut self.bits[set * self.words_per_set..][..self.words_per_set];
        let mut node = 1;
        for level in (0..self.levels).rev() {
            let upper = (way >> level) & 1;
            let mask = 1 << (node % 64);
            if upper == 0 {
                bits[node / 64] |= mask;
            } else {
                bits[node / 64] &= !mask;
            }
            node = 2 * node + upper;
        }
    }
}

impl Policy for Plru {
    const REHIT_IS_NEUTRAL: bool = true;

    #[inline]
    fn hit(&mut self, _ways: &mut Ways, set: usize, way: usize) {
        self.point_away(set, way);
    }

    #[inline]
    fn filled(&mut self, _ways: &mut Ways, set: usize, way: usize) {
        self.point_away(set, way);
    }

    #[inline]
    fn victim(&mut self, _ways: &Ways, set: usize) -> usize {
        let bits = &self.bits[set * self.words_per_set..][..self.words_per_set];
        let mut node = 1;
        for _ in 0..self.levels {
            node = 2 * node + (bits[node / 64] >> (node % 64) & 1) as usize;
        }
        node - (1 << self.levels)
    }

    fn removed(&mut self, _ways: &mut Ways, _set: usize, _way: usize) {}
}
