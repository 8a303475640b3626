//! `page-coloring-pid-hash` combines the page number with a hash of the faulting address space's number by
//! exclusive or, and then does as `page-coloring-equal` (KH90 §3.2.1). So equal addresses of different
//! address spaces do not meet in one bin. KH90 names no hash; binhop uses Fibonacci hashing. A shared page gets
//! the bin that the hash of the address space that touches it first gives (KH90 §5).

use alloc::boxed::Box;

use binhop_base::{FrameNo, PowerOfTwo, Result};

use super::color::{fibonacci, match_or_first};
use super::settings::{BINS, POOL, TUNED_FOR};
use super::{Mechanism, Policy};
use crate::{BinCounts, Draws, PageRequest, Pool, PoolPolicy};

pub(super) static POLICY: Policy = Policy {
    name: "page-coloring-pid-hash",
    rule: "The policy does as page-coloring-equal, with page number xor hash(asid); the hash is the upper half of \
           asid × 2⁶⁴/φ.",
    source: "KH90 §3.2.1; the hash is binhop's",
    cost: "No state; O(1) to decide, no draw.",
    parameters: &[POOL, BINS, TUNED_FOR],
    mechanism: Mechanism::Pool(|settings| Box::new(PidHash { bins: settings.bins })),
};

struct PidHash {
    bins: PowerOfTwo,
}

impl PoolPolicy for PidHash {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: self.bins, tree: false, used: None })
    }

    fn choose(&mut self, request: &PageRequest, pool: &Pool<'_>, _: Draws) -> Result<FrameNo> {
        match_or_first(pool, self.bins, request.page_no.0 ^ fibonacci(request.asid))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::placement::Settings;
    use crate::placement::bench::{Bench, page};

    /// The hashes of 1, 2 and 3 end in 9, 2 and C.
    #[test]
    fn equal_addresses_of_different_spaces_go_to_different_bins() {
        let settings = Settings { bins: PowerOfTwo::from_log2(4), ..Settings::new(1, 1) };
        let order: Vec<u32> = (0..16).rev().collect();
        let mut bench = Bench::new(POLICY.name, settings, &order, 16);
        let mut bin = |asid, page_no| bench.choose(&page(0).at(page_no).by(asid));
        assert_eq!([bin(0, 5), bin(1, 5), bin(2, 5), bin(3, 5)], [5, 5 ^ 9, 5 ^ 2, 5 ^ 0xC]);
        assert_eq!(bin(1, 16 + 9), 0);
    }
}
