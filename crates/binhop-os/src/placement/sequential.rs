//! `sequential` looks at every bin with a frame in the pool (KH90 §3.2.3). It prefers the bins in which the
//! address space uses the fewest frames, then the bins with the most frames in the pool, then a random bin.

use alloc::{boxed::Box, vec::Vec};

use binhop_base::{Bin, FrameNo, PowerOfTwo, Result};

use super::settings::{BINS, POOL, SHARING, TUNED_FOR};
use super::{Mechanism, Policy};
use crate::{BinCounts, Draws, PageRequest, Pool, PoolPolicy, StateScope};

pub(super) static POLICY: Policy = Policy {
    name: "sequential",
    rule: "The policy takes the oldest frame of the best bin: a bin with a frame in the pool, in which the address \
           space uses the fewest frames, then the bin with the most frames in the pool, then a random bin.",
    source: "KH90 §3.2.3, §5",
    cost: "4 B for each bin and segment (or space) with a page in memory, 4 B for each bin; O(bins × segments) to \
           decide, at most one draw.",
    parameters: &[POOL, BINS, TUNED_FOR, SHARING],
    mechanism: Mechanism::Pool(|settings| {
        Box::new(Sequential { bins: settings.bins, sharing: settings.sharing, used: Vec::new() })
    }),
};

/// The number of bins that are counted together.
const BLOCK: usize = 64;

struct Sequential {
    bins: PowerOfTwo,
    sharing: StateScope,
    /// A buffer for the sums over several segments.
    used: Vec<u32>,
}

impl PoolPolicy for Sequential {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: self.bins, tree: false, used: Some(self.sharing) })
    }

    fn choose(&mut self, _: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        let (used, free) = (self.sum(pool), pool.available());
        // These are passes over 32-bit numbers, which the compiler vectorizes.
        let pairs = || used.iter().zip(free);
        let open = pairs().map(|(&used, &free)| if free == 0 { u32::MAX } else { used });
        let fewest = open.min().expect("there is a bin");
        let best = pairs().map(|(&used, &free)| if used == fewest { free } else { 0 });
        let most = best.max().expect("there is a bin");
        let tied = |(&used, &free): (&u32, &u32)| (used == fewest) & (free == most);
        let count =
            |used: &[u32], free: &[u32]| used.iter().zip(free).map(|pair| u32::from(tied(pair))).sum();
        let ties: u32 = count(used, free);
        let mut left = if ties == 1 { 0 } else { draws.below(0, ties.into()) as u32 };
        // The loop finds the block with the chosen tie, then the tie within it. Few branches depend on single
        // bins.
        let mut start = 0;
        for (used, free) in used.chunks(BLOCK).zip(free.chunks(BLOCK)) {
            let here: u32 = count(used, free);
            if left < here {
                break;
            }
            left -= here;
            start += BLOCK;
        }
        let within = (start..used.len()).filter(|&bin| tied((&used[bin], &free[bin])));
        let bin = { within }.nth(left as usize).expect("the block holds the tie");
        Ok(pool.oldest_in(Bin(bin as u32)).expect("the bin has a frame in the pool"))
    }
}

impl Sequential {
    /// Returns the number of frames that the address space uses in each bin.
    fn sum<'a>(&'a mut self, pool: &Pool<'a>) -> &'a [u32] {
        let mut parts = pool.used_parts();
        let first = parts.next();
        let mut rest = parts.peekable();
        if let (Some(only), None) = (first, rest.peek()) {
            return only;
        }
        self.used.clear();
        self.used.resize(self.bins.bytes() as usize, 0);
        for part in first.into_iter().chain(rest) {
            for (sum, used) in self.used.iter_mut().zip(part) {
                *sum += used;
            }
        }
        &self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Settings;
    use crate::placement::bench::{Bench, page};

    fn settings(log2: u32, sharing: StateScope) -> Settings {
        Settings { bins: PowerOfTwo::from_log2(log2), sharing, ..Settings::new(1, 1) }
    }

    /// Of all pairs <used, free> the bin <1, 3> is best, and becomes <2, 2>. Our copy of the figure has lost
    /// the other pairs. The pairs here lose by each of the three rules.
    #[test]
    fn figure_6() {
        let pairs = [(2, 4), (1, 2), (0, 0), (3, 5), (1, 1), (1, 3), (2, 3), (4, 0)];
        let mut bench = Bench::with_pairs(POLICY.name, settings(3, StateScope::Segment), &pairs);
        assert_eq!(bench.pair(3, 5), (1, 3));
        assert_eq!(bench.place(&page(0)), 8 + 5, "the oldest of the three frames");
        // The figure shows the pool before it is filled up to K again.
        assert_ne!(bench.entered().unwrap() % 8, 5);
        assert_eq!(bench.pair(3, 5), (2, 2));
    }

    #[test]
    fn a_tie_is_random_among_all_tied_bins() {
        let mut seen = [0; 4];
        for seed in 0..400 {
            let pairs = [(1, 2), (2, 9), (1, 2), (1, 2)];
            let mut bench =
                Bench::with_pairs(POLICY.name, settings(2, StateScope::Segment), &pairs).seeded(seed);
            seen[bench.choose(&page(0)) as usize % 4] += 1;
        }
        assert_eq!(seen[1], 0);
        // In 400 draws of three bins the standard deviation is 9.4.
        assert!([0, 2, 3].iter().all(|&bin| (100..=167).contains(&seen[bin])), "{seen:?}");
    }

    /// Address spaces 1 and 2 share segment 1, and own segments 2 and 3.
    #[test]
    fn a_space_uses_the_sum_over_its_segments_or_what_it_placed_itself() {
        let chosen = |sharing| {
            let order: Vec<u32> = (0..12).collect();
            let mut bench = Bench::new(POLICY.name, settings(2, sharing), &order, 6);
            bench.put(0, &page(0).of(&[1, 2]).by(1));
            bench.put(1, &page(1).of(&[2, 1]).by(1));
            bench.put(2, &page(2).of(&[3, 1]).by(2));
            bench.put(4, &page(3).of(&[1, 3]).by(2));
            // The pool holds frames 3, 5, 6, 7, 8 and 9, so the bins have 1, 2, 1 and 2 frames.
            let next = |asid, own| page(4).of(&[own, 1]).by(asid);
            [bench.choose(&next(1, 2)), bench.choose(&next(2, 3)), bench.choose(&page(4).of(&[9]).by(3))]
        };
        // Address space 1 uses 2, 1, 0, 0 frames; 2 uses 2, 0, 1, 0; 3 uses none, so bins 1 and 3 tie.
        assert_eq!(chosen(StateScope::Segment)[0], 3);
        assert!([3, 5].contains(&chosen(StateScope::Segment)[1]));
        // Address space 1 placed frames 0 and 1; address space 2 placed frames 2 and 4.
        assert_eq!(chosen(StateScope::Space)[0], 3);
        assert!([3, 5].contains(&chosen(StateScope::Space)[1]));
        assert!([3, 5].contains(&chosen(StateScope::Space)[2]));
    }
}
