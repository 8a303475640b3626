//! Tests of `KnownHitFilter`: backs behind a filter and the same backs without a filter have equal counts, contents and
//! cycles after every few requests.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{World, plain, power, tree};
use binhop_base::{Agent, Kind, LineAddr, PageId, Rng};
use binhop_hw::{
    Back, CacheConfig, KnownHitFilter, MEMORY, Next, Origin, PART, Replacement, Request, Tree, TreeConfig,
    WritePolicy,
};
use proptest::prelude::*;

const PAGE: u64 = 512;
const LINE: u64 = 64;
const PAGES: u32 = 10;

fn machine(sets: u64, ways: u32, replacement: Replacement) -> Tree {
    let level1 = plain("l1", 64, 32, 1, Next::Cache(1));
    let level2 = CacheConfig {
        cost: 13,
        replacement,
        ..plain("l2", sets * u64::from(ways) * LINE, LINE, ways, Next::Memory)
    };
    Tree::new(TreeConfig { memory_cost: 200, ..tree(vec![level1, level2], PAGE, 0, 0) })
}

/// The sets, ways and replacement of a cache that a known-hit filter may serve. The replacement ignores a repeated hit.
fn shape() -> impl Strategy<Value = (u64, u32, Replacement)> {
    let known: Vec<_> = Replacement::ALL.iter().copied().filter(|policy| policy.rehit_is_neutral()).collect();
    let sets = prop::sample::select(vec![1u64, 2, 4, 8, 32, 128]);
    (sets, prop::sample::select(vec![1u32, 2, 4, 8]), prop::sample::select(known))
}

#[derive(Clone, Debug)]
enum Event {
    Request(Request),
    /// The requests since the last replay are filtered and replayed together.
    Replay,
    FlushPage(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let kinds = vec![Kind::Fetch, Kind::Load, Kind::Store, Kind::Fill, Kind::Write, Kind::Writeback];
    let data = prop::sample::select(vec![PART, 5, 6]);
    let to = prop_oneof![12 => Just(1u8), 1 => Just(MEMORY)];
    // The lines are few, so that repeats are common.
    let line = 0u32..(PAGE / LINE) as u32;
    let line = prop_oneof![2 => Just(0u32), 1 => line];
    let request =
        (prop::sample::select(kinds), data, to, 0..PAGES, line).prop_map(|(kind, data, to, id, line)| {
            Request { at: LineAddr { id, line }, to, kind, origin: Origin::new(Agent::User, 6), data }
        });
    prop_oneof![
        20 => request.prop_map(Event::Request),
        3 => Just(Event::Replay),
        1 => (0..PAGES).prop_map(Event::FlushPage),
    ]
}

/// `Pair` holds one back behind the known-hit filter, the same back without the filter, and the cycles that the
/// processor waited for each back.
struct Pair {
    with: Back,
    without: Back,
    waited: [u64; 2],
}

/// Runs the events through both backs of each shape. Returns the number of requests that the filter removed.
fn compare(shapes: &[(u64, u32, Replacement)], events: &[Event]) -> u64 {
    let trees: Vec<Tree> =
        shapes.iter().map(|&(sets, ways, replacement)| machine(sets, ways, replacement)).collect();
    let mut known_hits = KnownHitFilter::new(&trees.iter().collect::<Vec<_>>()).unwrap();
    let back = |tree: &Tree| Back::new(tree, Rng::new(1));
    let pair = |tree: &Tree| Pair { with: back(tree), without: back(tree), waited: [0; 2] };
    let mut pairs: Vec<Pair> = trees.iter().map(pair).collect();
    let mut world = World::identity(PAGES);
    let (mut next_frame, mut filtered) = (3, 0);
    let mut requests: Vec<Request> = Vec::new();
    for (step, event) in events.iter().chain([&Event::Replay]).enumerate() {
        if let Event::Request(request) = *event {
            requests.push(request);
            continue;
        }
        let mut left = requests.clone();
        let hits = known_hits.filter(&mut left, &world);
        filtered += (requests.len() - left.len()) as u64;
        for (shape, pair) in shapes.iter().zip(&mut pairs) {
            pair.waited[0] += pair.with.add_hits(&hits) + pair.with.replay(&left, &world);
            pair.waited[1] += pair.without.replay(&requests, &world);
            assert_eq!(pair.with.counters(1), pair.without.counters(1), "{shape:?}, step {step}");
            assert_eq!(pair.with.memory(), pair.without.memory(), "{shape:?}, step {step}");
            assert_eq!(pair.with.contents(1), pair.without.contents(1), "{shape:?}, step {step}");
            assert_eq!(pair.waited[0], pair.waited[1], "{shape:?}, step {step}");
        }
        requests.clear();
        if let Event::FlushPage(page) = *event {
            for pair in &mut pairs {
                pair.with.flush_page(PageId(page), &[], 0, &world);
                pair.without.flush_page(PageId(page), &[], 0, &world);
            }
            known_hits.forget(PageId(page), &world);
            next_frame += 7;
            world.frames[page as usize] = next_frame;
        }
    }
    filtered
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn filtered_requests_change_nothing_but_the_count_of_hits(
        shapes in prop::collection::vec(shape(), 2..6),
        events in prop::collection::vec(event(), 1..500),
    ) {
        compare(&shapes, &events);
    }
}

#[test]
fn a_repeat_is_removed_unless_another_line_or_a_flush_of_its_page_comes_between() {
    let shapes = [(4, 1, Replacement::Lru), (8, 4, Replacement::Plru)];
    let ask = |kind, id, line| {
        Event::Request(Request {
            at: LineAddr { id, line },
            to: 1,
            kind,
            origin: Origin::new(Agent::User, 6),
            data: 6,
        })
    };
    // Pages have eight lines, so line 0 of every page is in set 0 of the four sets.
    let taken = |events: &[Event]| compare(&shapes, events);
    assert_eq!(taken(&[ask(Kind::Load, 0, 0), ask(Kind::Load, 0, 0), ask(Kind::Fetch, 0, 0)]), 2);
    assert_eq!(taken(&[ask(Kind::Load, 0, 0), ask(Kind::Load, 0, 1), ask(Kind::Load, 0, 0)]), 1);
    assert_eq!(taken(&[ask(Kind::Load, 0, 0), ask(Kind::Load, 0, 4), ask(Kind::Load, 0, 0)]), 0);
    assert_eq!(taken(&[ask(Kind::Load, 0, 0), Event::FlushPage(0), ask(Kind::Load, 0, 0)]), 0);
    // A flush of another page, even of a page with lines in the same slot, leaves this page's lines.
    assert_eq!(taken(&[ask(Kind::Load, 0, 0), Event::FlushPage(4), ask(Kind::Load, 0, 0)]), 1);
    // The first write makes the line dirty, and is passed on. Further writes change nothing.
    let written = [Kind::Load, Kind::Write, Kind::Writeback, Kind::Store];
    assert_eq!(taken(&written.map(|kind| ask(kind, 0, 0))), 2);
}

#[test]
fn the_filter_refuses_trees_whose_back_it_cannot_serve() {
    let base = machine(8, 2, Replacement::Lru);
    let refused = |change: fn(&mut CacheConfig)| {
        let mut config = base.config().clone();
        change(&mut config.caches[1]);
        KnownHitFilter::new(&[&base, &Tree::new(config)]).is_none()
    };
    assert!(!refused(|_| {}));
    assert!(!refused(|cache| cache.replacement = Replacement::Random));
    assert!(refused(|cache| cache.replacement = Replacement::Srrip));
    assert!(refused(|cache| cache.allocate = false));
    assert!(refused(|cache| cache.write = WritePolicy::Through));
    assert!(refused(|cache| cache.hashed = true));
    assert!(refused(|cache| cache.inclusive = true));
    assert!(refused(|cache| cache.line = power(128)));
    assert!(KnownHitFilter::new(&[&base]).is_none(), "a single tree");
}
