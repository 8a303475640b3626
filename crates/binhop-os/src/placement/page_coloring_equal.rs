//! `page-coloring-equal` gives a page the bin of its page number, as a virtually indexed cache does (KH90
//! §3.2.1). If the pool has no frame in this bin, the policy takes the least recently used frame of the pool
//! (KH90's "first available"). Equal addresses of different address spaces meet in one bin. Sharing
//! at equal addresses does no harm.

use alloc::boxed::Box;

use binhop_base::{FrameNo, PowerOfTwo, Result};

use super::color::match_or_first;
use super::settings::{BINS, POOL, TUNED_FOR};
use super::{Mechanism, Policy};
use crate::{BinCounts, Draws, PageRequest, Pool, PoolPolicy};

pub(super) static POLICY: Policy = Policy {
    name: "page-coloring-equal",
    rule: "The policy takes the oldest frame of the pool in bin (page number mod bins), or else the oldest frame of \
           the pool.",
    source: "KH90 §3.2.1",
    cost: "No state; O(1) to decide, no draw.",
    parameters: &[POOL, BINS, TUNED_FOR],
    mechanism: Mechanism::Pool(|settings| Box::new(Equal { bins: settings.bins })),
};

struct Equal {
    bins: PowerOfTwo,
}

impl PoolPolicy for Equal {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: self.bins, tree: false, used: None })
    }

    fn choose(&mut self, request: &PageRequest, pool: &Pool<'_>, _: Draws) -> Result<FrameNo> {
        match_or_first(pool, self.bins, request.page_no.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Settings;
    use crate::placement::bench::{Bench, page};

    #[test]
    fn a_page_gets_its_bin_or_else_the_oldest_frame_of_the_pool() {
        let settings = Settings { bins: PowerOfTwo::from_log2(2), ..Settings::new(1, 1) };
        // There are eight frames and four bins, and the pool has no frame in bin 2.
        let mut bench = Bench::new(POLICY.name, settings, &[7, 1, 5, 3, 0, 4, 2, 6], 6);
        assert_eq!(bench.choose(&page(0).at(13)), 1);
        assert_eq!(bench.choose(&page(0).at(15).by(9)), 7);
        assert_eq!(bench.choose(&page(0).at(1 << 40 | 4)), 0);
        assert_eq!(bench.choose(&page(0).at(6)), 7);
        assert_eq!(bench.place(&page(0).at(13)), 1); // frame 2 enters the pool
        assert_eq!(bench.choose(&page(1).at(13)), 5);
        assert_eq!(bench.choose(&page(1).at(6)), 2);
    }
}
