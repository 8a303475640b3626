//! Tests of cachegrind's rules: small cases by hand, then random caches and references against the oracle.

use crate::common::{World, plain, tree};
use binhop_base::{Kind, LineAddr, PerKind, Rng};
use binhop_hw::{
    Access, Back, CacheConfig, CacheCounters, Computer, CostRule, Front, Next, Rules, Tree, TreeConfig,
};
use binhop_oracle::cachegrind::{Cachegrind, Level};
use proptest::prelude::*;

const PAGE: u64 = 256;
const PAGES: u32 = 8;

/// `Row` is a line of a reference: its kind, its place, and true if a further line of the reference follows.
#[derive(Clone, Copy, Debug)]
struct Row(Kind, LineAddr, bool);

impl Access for Row {
    fn kind(self) -> Kind {
        self.0
    }
    fn at(self) -> LineAddr {
        self.1
    }
    fn goes_on(self) -> bool {
        self.2
    }
}

/// I1, D1 and LL: bytes of a line, sets, ways.
type Sizes = [(u64, u64, u32); 3];

struct Pair {
    config: TreeConfig,
    front: Front,
    back: Back,
    slow: Cachegrind,
    waited: u64,
}

impl Pair {
    fn new([i1, d1, ll]: Sizes) -> Self {
        let cache = |name: &str, (line, sets, ways): (u64, u64, u32), next| CacheConfig {
            cost: if next == Next::Memory { 7 } else { 0 },
            ..plain(name, line * sets * u64::from(ways), line, ways, next)
        };
        let behind = Next::Cache(2);
        let caches = vec![cache("i1", i1, behind), cache("d1", d1, behind), cache("ll", ll, Next::Memory)];
        let config = TreeConfig {
            rules: Rules::Cachegrind,
            memory_cost: 90,
            cost_rule: CostRule::Total,
            ..tree(caches, PAGE, 0, 1)
        };
        let (tree, rng) = (Tree::new(config.clone()), Rng::new(0));
        let level = |(line, sets, ways): (u64, u64, u32)| Level::new(line, sets, ways as usize);
        let slow = Cachegrind { i1: level(i1), d1: level(d1), ll: level(ll) };
        Self { config, front: Front::new(&tree, rng), back: Back::new(&tree, rng), slow, waited: 0 }
    }

    fn refer(&mut self, kind: Kind, address: u64, size: u64) {
        match kind {
            Kind::Fetch => self.slow.instruction(address, size),
            Kind::Load => self.slow.read(address, size),
            _ => self.slow.write(address, size),
        }
        let most = self.config.caches.iter().map(|cache| cache.line.bytes()).min().expect("three caches");
        let line = self.config.caches[usize::from(kind != Kind::Fetch)].line.bytes();
        let (first, last) = (address / line, (address + size.min(most) - 1) / line);
        let per_page = PAGE / line;
        let at = |line: u64| LineAddr { id: (line / per_page) as u32, line: (line % per_page) as u32 };
        let rows: Vec<Row> = (first..=last).map(|line| Row(kind, at(line), line < last)).collect();
        self.waited +=
            Computer::over(&mut self.front, &mut self.back, 0).run(&rows, &[], &World::identity(PAGES + 1));
    }

    fn assert_equal(&self) {
        let slow = [&self.slow.i1, &self.slow.d1, &self.slow.ll];
        for (number, slow) in slow.into_iter().enumerate() {
            let (counters, contents) = match number {
                2 => (self.back.counters(2), self.back.contents(2)),
                _ => (self.front.counters(number), self.front.contents(number)),
            };
            let what = &self.config.caches[number].name;
            let count = |name| {
                let mut counts = PerKind::default();
                for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
                    counts[kind] = slow.count(name, kind.name());
                }
                counts
            };
            let expected = CacheCounters {
                accesses: count("accesses"),
                misses: count("misses"),
                compulsory: count("compulsory"),
                sent: count("misses"),
                fills: slow.fills,
                evictions: slow.evictions,
                evictions_dirty: 0,
                invalidated: 0,
                invalidated_dirty: 0,
                purged: 0,
                purged_dirty: 0,
                dirtied: 0,
                stream_hits: 0,
                merges: 0,
                stalls: 0,
                stall_cycles: 0,
            };
            assert_eq!(*counters, expected, "{what}");
            let per_page = PAGE / slow.line;
            for (set, ways) in contents.iter().enumerate() {
                let held: Vec<u64> = (ways.iter().flatten())
                    .map(|held| u64::from(held.at.id) * per_page + u64::from(held.at.line))
                    .collect();
                assert_eq!(held, slow.set(set as u64), "{what}, set {set}");
                assert!(ways.iter().flatten().all(|held| !held.dirty), "{what}, set {set}");
            }
        }
        let misses =
            |level: &Level| ["fetch", "load", "store"].map(|kind| level.count("misses", kind)).iter().sum();
        let (first, last): (u64, u64) =
            (misses(&self.slow.i1) + misses(&self.slow.d1), misses(&self.slow.ll));
        assert_eq!(self.waited, (first - last) * 7 + last * 90);
        assert_eq!(self.back.memory().accesses.total(), last);
        binhop_hw::check(&Tree::new(self.config.clone()), &self.front, &self.back).expect("invariants hold");
    }
}

/// Each cache of the first level has one line of 16 bytes in each of 4 sets; the last level has 8 sets.
const TINY: Sizes = [(16, 4, 1), (16, 4, 1), (16, 8, 1)];

#[test]
fn a_straddle_is_one_access_and_one_miss() {
    let mut pair = Pair::new(TINY);
    pair.refer(Kind::Load, 0x0c, 8);
    assert_eq!(pair.slow.nine(), [0, 0, 0, 1, 1, 1, 0, 0, 0]);
    assert_eq!(pair.front.counters(1).fills, 2);
    pair.assert_equal();
    // Both lines are present now. Then one line leaves, and the same reference is one miss again, at both levels.
    pair.refer(Kind::Store, 0x0c, 8);
    pair.refer(Kind::Load, 0x90, 8);
    pair.refer(Kind::Load, 0x0c, 8);
    assert_eq!(pair.slow.nine(), [0, 0, 0, 3, 3, 3, 1, 0, 0]);
    pair.assert_equal();
}

#[test]
fn the_last_level_is_asked_for_the_line_that_level_1_held_too() {
    let sizes = [TINY[0], TINY[1], (16, 1, 2)];
    let mut pair = Pair::new(sizes);
    for address in [0x00, 0x10, 0x20] {
        pair.refer(Kind::Load, address, 4);
    }
    // Level 1 has lines 0, 1 and 2; the last level has 1 and 2. The reference to 2 and 3 brings 3 in, and 2 stays.
    pair.refer(Kind::Load, 0x2c, 8);
    assert_eq!(pair.slow.ll.set(0), [3, 2]);
    pair.assert_equal();
}

#[test]
fn nothing_is_longer_than_the_smallest_line() {
    let mut pair = Pair::new([TINY[0], (32, 4, 1), (64, 8, 1)]);
    pair.refer(Kind::Store, 0x00, 512);
    pair.refer(Kind::Load, 0x10, 512);
    assert_eq!(pair.slow.nine(), [0, 0, 0, 1, 0, 0, 1, 1, 1]);
    pair.assert_equal();
}

#[test]
fn neighbours_may_be_one_line_behind() {
    let mut pair = Pair::new([TINY[0], TINY[1], (32, 2, 2)]);
    pair.refer(Kind::Fetch, 0x0c, 8);
    assert_eq!(pair.back.counters(2).fills, 1);
    pair.assert_equal();
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let first = || (4u32..7, 0u32..4, 1u32..5);
    (first(), first(), (0u32..2, 0u32..5, 1u32..9)).prop_map(|(i1, d1, ll)| {
        let size = |(line, sets, ways): (u32, u32, u32)| (1 << line, 1 << sets, ways);
        let line = i1.0.max(d1.0) + ll.0;
        [size(i1), size(d1), size((line, ll.1, ll.2))]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn random_caches_and_references_count_and_hold_what_the_oracle_does(
        sizes in sizes(),
        references in prop::collection::vec((0usize..3, 0..u64::from(PAGES) * PAGE, 1u64..80), 1..300),
    ) {
        let mut pair = Pair::new(sizes);
        for (kind, address, size) in references {
            pair.refer([Kind::Fetch, Kind::Load, Kind::Store][kind], address, size);
        }
        pair.assert_equal();
    }
}

#[test]
#[should_panic(expected = "a store brings its line in")]
fn a_tree_that_the_rules_do_not_fit_is_refused() {
    let mut config = Pair::new(TINY).config;
    config.caches[1].allocate = false;
    let _ = Tree::new(config);
}
