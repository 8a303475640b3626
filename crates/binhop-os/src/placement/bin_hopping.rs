//! `bin-hopping` gives successive pages of an address space successive bins (KH90 §3.2.2). The policy takes
//! the first bin with a frame in the pool, from the bin after the address space's pointer on. The pointer
//! becomes this bin. A pointer starts random and outlives its address space: a new address space with the
//! same number goes on from there.

use alloc::{boxed::Box, collections::BTreeMap};

use binhop_base::{Asid, Bin, FrameNo, PowerOfTwo, Result};

use super::settings::{BINS, POOL, TUNED_FOR};
use super::{Mechanism, Policy};
use crate::{BinCounts, Draws, PageRequest, Pool, PoolPolicy};

pub(super) static POLICY: Policy = Policy {
    name: "bin-hopping",
    rule: "The policy takes the oldest frame of the pool in the next bin that has a frame, counting on from the \
           address space's last bin.",
    source: "KH90 §3.2.2",
    cost: "A pointer for each address space (24 B); O(1) to decide while every bin has a frame, O(bins) at worst; \
           one draw for each address space.",
    parameters: &[POOL, BINS, TUNED_FOR],
    mechanism: Mechanism::Pool(|settings| {
        Box::new(BinHopping { bins: settings.bins, pointers: BTreeMap::new() })
    }),
};

struct BinHopping {
    bins: PowerOfTwo,
    /// The last bin of each address space.
    pointers: BTreeMap<Asid, u32>,
}

impl PoolPolicy for BinHopping {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: self.bins, tree: false, used: None })
    }

    fn choose(&mut self, request: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        let bins = self.bins.bytes();
        let pointer =
            self.pointers.entry(request.asid).or_insert_with(|| draws.of(request.asid.0, bins) as u32);
        let (before, after) = pool.available().split_at(*pointer as usize + 1);
        let first = |bins: &[u32]| bins.iter().position(|&available| available > 0);
        let next = first(after).map(|step| before.len() + step).or_else(|| first(before));
        *pointer = next.expect("a pool is never empty") as u32;
        Ok(pool.oldest_in(Bin(*pointer)).expect("the bin has a frame in the pool"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::placement::Settings;
    use crate::placement::bench::{Bench, page};

    #[test]
    fn each_space_cycles_through_the_bins_and_skips_bins_without_a_frame() {
        let settings = Settings { bins: PowerOfTwo::from_log2(3), ..Settings::new(1, 1) };
        // Eight bins have two frames each. The frames of bins 2 and 3 are not in the pool.
        let pool: Vec<u32> = (0..16).filter(|frame| !matches!(frame % 8, 2 | 3)).collect();
        let order = [&pool[..], &[2, 3, 10, 11]].concat();
        let mut bench = Bench::new(POLICY.name, settings, &order, 12);
        let start = bench.choose(&page(0).by(1)) % 8;
        let mut expected = [0, 1, 4, 5, 6, 7].into_iter().cycle().skip_while(|&bin| bin != start);
        // A choice moves the pointer even if the frame is not taken: six more choices return to the start.
        for _ in 0..6 {
            expected.next();
            let bin = bench.choose(&page(0).by(1)) % 8;
            assert_eq!(Some(bin), expected.clone().next());
        }
        let other = bench.choose(&page(0).by(5)) % 8;
        let mut after = [0, 1, 4, 5, 6, 7].into_iter().cycle().skip_while(|&bin| bin != other);
        assert_eq!(
            bench.choose(&page(0).by(1)) % 8,
            expected.nth(1).unwrap(),
            "each address space has its own pointer"
        );
        assert_eq!(bench.choose(&page(0).by(5)) % 8, after.nth(1).unwrap());
    }

    #[test]
    fn pointers_start_at_random() {
        let settings = Settings { bins: PowerOfTwo::from_log2(10), ..Settings::new(1, 1) };
        let order: Vec<u32> = (0..1024).collect();
        let start = |seed, asid| {
            Bench::new(POLICY.name, settings.clone(), &order, 1024).seeded(seed).choose(&page(0).by(asid))
        };
        assert_eq!(start(0, 1), start(0, 1));
        assert_ne!(start(0, 1), start(0, 2));
        assert_ne!(start(0, 1), start(1, 1));
    }
}
