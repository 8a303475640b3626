//! Tests of `LruStack`: its members and the same caches simulated alone have equal counts and lines after every few
//! requests.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{World, plain, tree};
use binhop_base::{Agent, Kind, LineAddr, PageId, Rng};
use binhop_hw::{
    Back, CacheConfig, CostRule, Counted, CountedCaches, LruStack, LruStackShape, MEMORY, Next, Origin, PART,
    Replacement, Request, Tree, TreeConfig,
};
use proptest::prelude::*;

const PAGE: u64 = 512;
const LINE: u64 = 64;
const WAYS: [u32; 6] = [1, 2, 3, 4, 6, 8];

fn machine(sets: u64, ways: u32, rule: CostRule) -> Tree {
    let level1 = plain("l1", 64, 32, 1, Next::Cache(1));
    let level2 = CacheConfig {
        cost: 13,
        // A cache of one way is the same under every replacement.
        replacement: if ways == 1 { Replacement::Random } else { Replacement::Lru },
        ..plain("l2", sets * u64::from(ways) * LINE, LINE, ways, Next::Memory)
    };
    let config = TreeConfig { memory_cost: 200, cost_rule: rule, ..tree(vec![level1, level2], PAGE, 0, 0) };
    Tree::new(config)
}

#[derive(Clone, Debug)]
enum Event {
    Request(Request),
    FlushPage(u32),
}

const PAGES: u32 = 10;

fn event() -> impl Strategy<Value = Event> {
    let kind = prop::sample::select(vec![
        Kind::Fetch,
        Kind::Load,
        Kind::Store,
        Kind::Fill,
        Kind::Write,
        Kind::Writeback,
    ]);
    let data = prop::sample::select(vec![PART, 5, 6]);
    let to = prop_oneof![12 => Just(1u8), 1 => Just(MEMORY)];
    let request =
        (kind, data, to, 0..PAGES, 0u32..(PAGE / LINE) as u32).prop_map(|(kind, data, to, id, line)| {
            Request { at: LineAddr { id, line }, to, kind, origin: Origin::new(Agent::User, 6), data }
        });
    prop_oneof![20 => request.prop_map(Event::Request), 1 => (0..PAGES).prop_map(Event::FlushPage)]
}

fn compare(sets: u64, rule: CostRule, events: &[Event]) {
    let trees: Vec<Tree> = WAYS.iter().map(|&ways| machine(sets, ways, rule)).collect();
    let shape = LruStackShape::of(&trees[0]).unwrap();
    assert!(trees.iter().all(|tree| LruStackShape::of(tree) == Ok(shape)));
    let mut stack = LruStack::new(shape, 8);
    let mut alone: Vec<(Back, u64)> = trees.iter().map(|tree| (Back::new(tree, Rng::new(1)), 0)).collect();
    let mut world = World::identity(PAGES);
    let mut next_frame = 3;
    for (step, event) in events.iter().enumerate() {
        match *event {
            Event::Request(request) => {
                stack.replay(&[request], &world);
                for (back, waited) in &mut alone {
                    *waited += back.replay(&[request], &world);
                }
            }
            Event::FlushPage(page) => {
                stack.flush_page(PageId(page), &world);
                for (back, _) in &mut alone {
                    back.flush_page(PageId(page), &[], 0, &world);
                }
                next_frame += 7;
                world.frames[page as usize] = next_frame;
            }
        }
        if step % 16 == 0 || step + 1 == events.len() {
            for (tree, (back, waited)) in trees.iter().zip(&alone) {
                let ways = tree.config().caches[1].ways;
                let member = stack.member(ways, tree);
                assert_eq!(member.counters(1), back.counters(1), "{ways} ways, step {step}");
                assert_eq!(member.memory(), back.memory(), "{ways} ways, step {step}");
                assert_eq!(member.resident(1), back.resident(1), "{ways} ways, step {step}");
                assert_eq!(member.waited(), *waited, "{ways} ways, step {step}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_stack_counts_what_each_of_its_caches_counts(
        sets in prop::sample::select(vec![1u64, 4, 8, 32]),
        add in any::<bool>(),
        events in prop::collection::vec(event(), 1..500),
    ) {
        compare(sets, if add { CostRule::Add } else { CostRule::Total }, &events);
    }
}

#[test]
fn a_stack_refuses_caches_that_it_cannot_simulate() {
    let refused = |change: fn(&mut CacheConfig)| {
        let mut config = machine(8, 2, CostRule::Total).config().clone();
        change(&mut config.caches[1]);
        LruStackShape::of(&Tree::new(config)).is_err()
    };
    assert!(!refused(|_| {}));
    assert!(refused(|cache| cache.replacement = Replacement::Random));
    assert!(refused(|cache| cache.replacement = Replacement::Fifo));
    assert!(refused(|cache| cache.allocate = false));
    assert!(refused(|cache| cache.write = binhop_hw::WritePolicy::Through));
    assert!(refused(|cache| cache.hashed = true));
    assert!(refused(|cache| cache.inclusive = true));
}
