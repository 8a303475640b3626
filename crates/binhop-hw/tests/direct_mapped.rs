//! Tests of the replay behind a `DirectMappedFilter`: its packed counts do not overflow.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{World, plain, tree};
use binhop_base::{Agent, Kind, LineAddr, Rng};
use binhop_hw::{Back, DirectMappedFilter, Next, Origin, Request, Tree};

const PAGE: u64 = 4096;
const LINE: u64 = 64;
/// The number of requests: more than the replay counts before it empties its packed counts.
const EACH: u32 = 3000;

#[test]
fn misses_of_every_kind_are_counted_apart() {
    let level1 = plain("l1", 4096, LINE, 1, Next::Cache(1));
    let level2 = plain("l2", 1 << 20, LINE, 1, Next::Memory);
    let tree = Tree::new(tree(vec![level1, level2], PAGE, 0, 0));
    let lines = (PAGE / LINE) as u32;
    for &kind in Kind::ALL {
        // Every request is the first for its line, so that every request misses.
        let line = |number: u32| LineAddr { id: number / lines, line: number % lines };
        let request =
            |number| Request { at: line(number), to: 1, kind, origin: Origin::new(Agent::User, 6), data: 6 };
        let mut requests: Vec<Request> = (0..EACH).map(request).collect();
        let (mut direct_mapped, mut back) =
            (DirectMappedFilter::new(&tree).unwrap(), Back::new(&tree, Rng::new(0)));
        let common_counts = direct_mapped.filter(&mut requests, 0);
        let _cycles = back.replay_common(&requests, &common_counts, &World::identity(EACH / lines + 1));
        let counters = back.counters(1);
        for &other in Kind::ALL {
            let expected = if other == kind { u64::from(EACH) } else { 0 };
            assert_eq!(counters.misses[other], expected, "{} among {}", other.name(), kind.name());
            assert_eq!(counters.accesses[other], expected, "{} among {}", other.name(), kind.name());
        }
        assert_eq!(counters.fills, u64::from(EACH), "{}", kind.name());
    }
}
