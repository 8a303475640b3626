//! `hierarchical` applies the three rules of `sequential` at each node of a binary tree over the bins (KH90
//! §3.2.4). A node's counts are the sums over the bins below the node. Nodes are labelled by bit reversal:
//! the first decision fixes the lowest bit of the bin, so a larger cache keeps every decision made for a
//! smaller cache.
//!
//! The rule does not depend on the cache's size. From one state (pool, used frames, draws) the tree of 2^j
//! bins chooses the lowest j bits of the bin that any larger tree chooses. Over a whole run two trees use
//! equally many frames in each bin of the smaller tree, as long as neither evicts a mapped page. After that
//! they evict different pages of such a bin. `tests/placements.rs` tests both properties against plain sums.

use alloc::boxed::Box;

use binhop_base::{Bin, FrameNo, PowerOfTwo, Result};

use super::settings::{BINS, POOL, SHARING, TUNED_FOR};
use super::{Mechanism, Policy};
use crate::{BinCounts, Draws, PageRequest, Pool, PoolPolicy, StateScope};

pub(super) static POLICY: Policy = Policy {
    name: "hierarchical",
    rule: "The policy walks down a binary tree of the bins by bit reversal, to the child with a frame in the pool, \
           then the fewest used frames, then the most frames in the pool, then at random; it takes the oldest frame \
           of the bin.",
    source: "KH90 §3.2.4, §5",
    cost: "8 B for each bin and segment (or address space) with a page in memory, 8 B for each bin; O(log2 bins × \
           segments) to decide, at most one draw.",
    parameters: &[POOL, BINS, TUNED_FOR, SHARING],
    mechanism: Mechanism::Pool(|settings| {
        Box::new(Hierarchical { bins: settings.bins, sharing: settings.sharing })
    }),
};

struct Hierarchical {
    bins: PowerOfTwo,
    sharing: StateScope,
}

impl PoolPolicy for Hierarchical {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: self.bins, tree: true, used: Some(self.sharing) })
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        let mut low = 0;
        let mut coins = None;
        for level in 0..self.bins.log2() {
            let child = |bit: u32| {
                let label = low | bit << level;
                (label, pool.available_below(level + 1, label))
            };
            let ((left, left_free), (right, right_free)) = (child(0), child(1));
            low = if left_free == 0 {
                right
            } else if right_free == 0 {
                left
            } else {
                let used = |label| pool.used_below(level + 1, label);
                let order = used(left).cmp(&used(right)).then(right_free.cmp(&left_free));
                let mut coin = || *coins.get_or_insert_with(|| draws.coins()) >> level & 1 == 0;
                if order.is_lt() || order.is_eq() && coin() { left } else { right }
            };
        }
        Ok(pool.oldest_in(Bin(low)).expect("the walk keeps to bins with a frame in the pool"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::placement::Settings;
    use crate::placement::bench::{Bench, page};

    fn settings(log2: u32) -> Settings {
        Settings { bins: PowerOfTwo::from_log2(log2), ..Settings::new(1, 1) }
    }

    /// The walk goes left at <3, 6> against <3, 3>, and right at <2, 5> against <1, 1>. Then the nodes are
    /// <7, 8>, <4, 5> and <2, 0>. Our copy of the figure has lost the two bins on the right, which add up to
    /// <3, 3>. Left means bit 0: the leaves from left to right are bins 0, 2, 1, 3.
    #[test]
    fn figure_7() {
        let mut bench = Bench::with_pairs(POLICY.name, settings(2), &[(2, 5), (2, 1), (1, 1), (1, 2)]);
        assert_eq!(bench.pair(0, 0), (6, 9));
        assert_eq!([bench.pair(1, 0), bench.pair(1, 1)], [(3, 6), (3, 3)]);
        assert_eq!([bench.pair(2, 0), bench.pair(2, 2)], [(2, 5), (1, 1)]);
        assert_eq!(bench.place(&page(0)) % 4, 2);
        // The figure shows the pool before it is filled up to K again.
        let entered = bench.entered().unwrap();
        let mut pair = |level, low| {
            let (used, free) = bench.pair(level, low);
            (used, free - u64::from(entered & ((1 << level) - 1) == low))
        };
        assert_eq!([pair(0, 0), pair(1, 0), pair(2, 2)], [(7, 8), (4, 5), (2, 0)]);
        assert_eq!([pair(1, 1), pair(2, 0)], [(3, 3), (2, 5)]);
    }

    #[test]
    fn ties_are_random_at_each_level() {
        let mut seen = [0; 4];
        for seed in 0..400 {
            let mut bench = Bench::with_pairs(POLICY.name, settings(2), &[(1, 2); 4]).seeded(seed);
            seen[bench.choose(&page(0)) as usize % 4] += 1;
        }
        // In 400 draws of four bins the standard deviation is 8.7.
        assert!(seen.iter().all(|count| (70..=130).contains(count)), "{seen:?}");
    }

    #[test]
    fn one_bin_needs_no_decision() {
        let mut bench = Bench::new(POLICY.name, settings(0), &[3, 1, 2, 0], 2);
        assert_eq!(bench.place(&page(0)), 3);
        assert_eq!(bench.place(&page(1)), 1);
    }

    #[test]
    fn the_counts_of_a_segment_without_a_page_serve_another_segment() {
        let order: Vec<u32> = (0..64).collect();
        let mut bench = Bench::new(POLICY.name, settings(3), &order, 64);
        for process in 0..40 {
            let frame = bench.place(&page(process).of(&[process]));
            bench.release(frame);
        }
        assert_eq!(bench.used_trees(), 1);
        for process in 0..8 {
            bench.place(&page(100 + process).of(&[process % 3]));
        }
        assert_eq!(bench.used_trees(), 3);
        bench.check();
    }
}
