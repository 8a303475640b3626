//! `page-coloring-offset` adds a constant offset to the page number, and then does as `page-coloring-equal`
//! (KH90 §3.2.1 and §5). Each segment, or each address space, has a random offset. With an offset for each
//! segment, all address spaces put a shared page that is mapped at one address into one bin.

use alloc::boxed::Box;

use binhop_base::{FrameNo, PowerOfTwo, Result};

use super::color::match_or_first;
use super::settings::{BINS, POOL, SHARING, TUNED_FOR};
use super::{Mechanism, Policy};
use crate::{BinCounts, Draws, PageRequest, Pool, PoolPolicy, StateScope};

pub(super) static POLICY: Policy = Policy {
    name: "page-coloring-offset",
    rule: "The policy does as page-coloring-equal, with page number + a random offset for each segment (or each \
           address space).",
    source: "KH90 §3.2.1, §5",
    cost: "No state: an offset is a function of seed and segment, and is drawn again each time; O(1) to decide, \
           one draw.",
    parameters: &[POOL, BINS, TUNED_FOR, SHARING],
    mechanism: Mechanism::Pool(|settings| {
        Box::new(Offset { bins: settings.bins, sharing: settings.sharing })
    }),
};

struct Offset {
    bins: PowerOfTwo,
    sharing: StateScope,
}

impl PoolPolicy for Offset {
    fn name(&self) -> &str {
        POLICY.name
    }

    fn bin_counts(&self) -> Option<BinCounts> {
        Some(BinCounts { bins: self.bins, tree: false, used: None })
    }

    fn choose(&mut self, request: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo> {
        let unit = match self.sharing {
            StateScope::Segment => request.segment.0,
            StateScope::Space => request.asid.0,
        };
        let offset = draws.of(unit, self.bins.bytes());
        match_or_first(pool, self.bins, request.page_no.0.wrapping_add(offset))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::placement::Settings;
    use crate::placement::bench::{Bench, page};

    fn bench(sharing: StateScope) -> Bench {
        let settings = Settings { bins: PowerOfTwo::from_log2(10), sharing, ..Settings::new(1, 1) };
        let order: Vec<u32> = (0..1024).collect();
        Bench::new(POLICY.name, settings, &order, 1024)
    }

    #[test]
    fn an_offset_belongs_to_a_segment_whoever_touches_it_and_differs_between_seeds() {
        let mut bench = bench(StateScope::Segment);
        let start = bench.choose(&page(0).of(&[7, 8]));
        for (page_no, asid) in [(1, 1), (600, 2), (1 << 40, 3)] {
            let there = bench.choose(&page(0).of(&[7]).at(page_no).by(asid));
            assert_eq!(u64::from(there), (u64::from(start) + page_no) % 1024);
        }
        assert_ne!(bench.choose(&page(0).of(&[8])), start);
        assert_ne!(bench.seeded(1).choose(&page(0).of(&[7])), start);
    }

    #[test]
    fn an_offset_belongs_to_an_address_space_whatever_it_touches() {
        let mut bench = bench(StateScope::Space);
        let start = bench.choose(&page(0).of(&[7]));
        assert_eq!(bench.choose(&page(0).of(&[8]).at(1)), (start + 1) % 1024);
        assert_ne!(bench.choose(&page(0).of(&[7]).by(2)), start);
        bench.place(&page(0).of(&[9])); // the offset is the same at the next fault
        assert_eq!(bench.choose(&page(1).of(&[7]).at(5)), (start + 5) % 1024);
    }
}
