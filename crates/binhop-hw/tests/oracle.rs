//! Property tests of random trees and references: the fast model equals the oracle in every count, cycle and line.

use crate::common::{ByUser, Event, Events, MAPPINGS, PAGES, Pair, SHAPES, build, events, raw, world};
use binhop_base::{Agent, Agents, Bytes, Kind, LineAddr, PageId, Rng};
use binhop_hw::{
    Back, Computer, Front, IndexBy, Next, Replacement, Request, TagBy, Tree, TreeConfig, WritePolicy,
};
use binhop_oracle::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeSet;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(500, 1500)))]

    #[test]
    fn every_tree_counts_and_holds_what_the_oracle_does(
        shape in 0..SHAPES.len(), raw in prop::collection::vec(raw(), 5), add_costs: bool, seed in 0u64..8,
        world in world(), events in events(true),
    ) {
        let config = TreeConfig { agents: crate::common::everyone(), ..build(shape, &raw, add_costs, true) };
        let mut pair = Pair::new(config, world, seed);
        for event in events {
            pair.step(event);
            pair.assert_equal_contents();
        }
        pair.assert_equal_counts();
    }

    #[test]
    fn a_recorded_front_and_a_replayed_back_equal_the_stepper(
        shape in 0..SHAPES.len(), raw in prop::collection::vec(raw(), 5), seed in 0u64..8, add_costs: bool,
        world in world(), events in events(false), cut in 0usize..400, common: bool,
    ) {
        let mut config = build(shape, &raw, add_costs, false);
        if common {
            // Such backs take the chain.
            config.agents = Agents::USER;
            for cache in &mut config.caches {
                (cache.write, cache.allocate) = (WritePolicy::Back, cache.next != Next::Memory || cache.allocate);
                (cache.inclusive, cache.hashed, cache.streams) = (false, false, None);
                if cache.next == Next::Memory {
                    (cache.index, cache.tag, cache.allocate) = (IndexBy::Physical, TagBy::Physical, true);
                }
            }
        }
        let tree = Tree::new(config.clone());
        let rng = Rng::new(seed);
        let mut whole = Computer::new(&tree, rng);
        let (mut front, mut back) = (Front::new(&tree, rng), Back::new(&tree, rng));
        let mut recorded: Vec<Request> = Vec::new();
        let mut waited = 0;
        for (step, &event) in events.iter().enumerate() {
            let Event::Access { kind, mapping, offset, .. } = event else { unreachable!() };
            let asked = if kind == Kind::Fetch { config.fetch } else { config.data };
            let at = LineAddr { id: mapping, line: (offset >> config.caches[asked].line.log2()) as u32 };
            whole.user(kind, at, &world);
            waited += front.access(asked, kind, at, 0, &world, &mut recorded);
            if step == cut {
                // Sharing may end anywhere: clones continue where the originals are.
                waited += back.replay(&recorded, &world);
                recorded.clear();
                (front, back) = (front.clone(), back.clone());
            }
        }
        waited += back.replay(&recorded, &world);
        for number in 0..config.caches.len() {
            let (counters, contents) = if tree.in_front(number) {
                (front.counters(number), front.contents(number))
            } else {
                (back.counters(number), back.contents(number))
            };
            prop_assert_eq!(counters, whole.counters(number));
            prop_assert_eq!(contents, whole.contents(number));
        }
        prop_assert_eq!(back.memory(), whole.back.memory());
        prop_assert_eq!(waited, whole.now);
        binhop_hw::check(&tree, &front, &back).unwrap();
    }

    #[test]
    fn blocks_of_accesses_equal_single_accesses(
        shape in 0..SHAPES.len(), raw in prop::collection::vec(raw(), 5), common in any::<bool>(),
        seed in 0u64..8, world in world(), events in events(false), block in 1usize..300,
    ) {
        let mut config = build(shape, &raw, false, false);
        if common {
            // Such fronts take the two-phase path, which random trees rarely allow.
            config.agents = Agents::USER;
            let first = config.caches[config.fetch].clone();
            for cache in &mut config.caches {
                (cache.write, cache.allocate) = (WritePolicy::Back, true);
                (cache.inclusive, cache.hashed, cache.streams) = (false, false, None);
                (cache.replacement, cache.tag, cache.index) = (Replacement::Lru, TagBy::Physical, first.index);
                if first.tag == TagBy::Asid {
                    cache.tag = TagBy::Asid;
                } else {
                    cache.index = IndexBy::Physical;
                }
                (cache.ways, cache.size) = (first.ways, Bytes(u64::from(first.ways) * cache.line.bytes() * first.sets()));
            }
        }
        let tree = Tree::new(config.clone());
        let rng = Rng::new(seed);
        let (mut singly, mut blocked) = (Front::new(&tree, rng), Front::new(&tree, rng));
        let (mut back_singly, mut back_blocked) = (Back::new(&tree, rng), Back::new(&tree, rng));
        let rows: Vec<(Kind, LineAddr)> = events.iter().map(|&event| {
            let Event::Access { kind, mapping, offset, .. } = event else { unreachable!() };
            let asked = if kind == Kind::Fetch { config.fetch } else { config.data };
            (kind, LineAddr { id: mapping, line: (offset >> config.caches[asked].line.log2()) as u32 })
        }).collect();
        let (mut recording_singly, mut recording_blocked) = (singly.clone(), blocked.clone());
        let (mut requests_singly, mut requests_blocked): (Vec<Request>, Vec<Request>) = Default::default();
        let (mut waits, mut recorded_waits) = ([0, 0], [0, 0]);
        let (mut told_singly, mut told_blocked) = (Events::default(), Events::default());
        for rows in rows.chunks(block) {
            for &(kind, at) in rows {
                let asked = if kind == Kind::Fetch { config.fetch } else { config.data };
                let mut below = back_singly.bind_witnessed(&world, &mut told_singly);
                waits[0] += singly.access(asked, kind, at, 0, &world, &mut below);
                recorded_waits[0] += recording_singly.access(asked, kind, at, 0, &world, &mut requests_singly);
            }
            let mut below = back_blocked.bind_witnessed(&world, &mut told_blocked);
            waits[1] += blocked.access_all(rows, &world, &mut below);
            recorded_waits[1] += recording_blocked.access_all(rows, &world, &mut requests_blocked);
        }
        prop_assert_eq!(waits[0], waits[1]);
        prop_assert_eq!(recorded_waits[0], recorded_waits[1]);
        prop_assert_eq!(told_singly, told_blocked);
        prop_assert_eq!(requests_singly, requests_blocked);
        for number in 0..config.caches.len() {
            if tree.in_front(number) {
                prop_assert_eq!(singly.counters(number), blocked.counters(number));
                prop_assert_eq!(singly.contents(number), blocked.contents(number));
            } else {
                prop_assert_eq!(back_singly.counters(number), back_blocked.counters(number));
                prop_assert_eq!(back_singly.contents(number), back_blocked.contents(number));
            }
        }
        prop_assert_eq!(back_singly.memory(), back_blocked.memory());
        binhop_hw::check(&tree, &blocked, &back_blocked).unwrap();
    }

    /// A sparse computer counts no compulsory misses, and differs in nothing else. It holds the lines of its contents.
    #[test]
    fn a_sparse_computer_does_the_same(
        shape in 0..SHAPES.len(), raw in prop::collection::vec(raw(), 5), add_costs: bool, seed in 0u64..8,
        world in world(), events in events(true),
    ) {
        let config = TreeConfig { agents: crate::common::everyone(), ..build(shape, &raw, add_costs, true) };
        let mut pair = Pair::new(config, world, seed);
        pair.fast = Computer::sparse(pair.fast.front.tree(), Rng::new(seed));
        for event in events {
            pair.step(event);
            pair.assert_equal_contents();
        }
        for cache in &mut pair.slow.caches {
            cache.counts.retain(|&(_, name, _), _| name != "compulsory");
        }
        pair.assert_equal_counts();
        for (number, cache) in pair.config.caches.iter().enumerate() {
            let resident = pair.fast.contents(number).into_iter().flatten().flatten();
            let resident: BTreeSet<(u32, u32)> = resident.map(|line| (line.at.id, line.at.line)).collect();
            let ids = if cache.keyed_by_mapping() { MAPPINGS } else { PAGES };
            let lines = (crate::common::PAGE >> cache.line.log2()) as u32;
            for (id, line) in (0..ids).flat_map(|id| (0..lines).map(move |line| (id, line))) {
                let held = pair.fast.holds_line(number, LineAddr { id, line }, &pair.world);
                prop_assert_eq!(held, resident.contains(&(id, line)), "{}: {} {}", cache.name, id, line);
            }
        }
    }

    /// A front is the same under every placement and seed that [`Tree::front_depends_on_placement`] and
    /// [`Tree::front_depends_on_seed`] exclude.
    #[test]
    fn an_independent_front_makes_the_same_requests(
        shape in 0..SHAPES.len(), raw in prop::collection::vec(raw(), 5),
        world in world(), events in events(false), moved in 1u64..1000,
    ) {
        let config = build(shape, &raw, false, false);
        let tree = Tree::new(config.clone());
        let mut elsewhere = world.clone();
        if !tree.front_depends_on_placement() {
            elsewhere.frames.iter_mut().for_each(|frame| *frame = *frame * 7 + moved);
        }
        let seed = if tree.front_depends_on_seed() { 0 } else { moved };
        let run = |seed, world| {
            let mut front = Front::new(&tree, Rng::new(seed));
            let mut recorded: Vec<Request> = Vec::new();
            let mut waited = 0;
            for &event in &events {
                let Event::Access { kind, mapping, offset, .. } = event else { unreachable!() };
                let asked = if kind == Kind::Fetch { config.fetch } else { config.data };
                let at = LineAddr { id: mapping, line: (offset >> config.caches[asked].line.log2()) as u32 };
                waited += front.access(asked, kind, at, 0, world, &mut recorded);
            }
            (recorded, waited)
        };
        prop_assert_eq!(run(0, &world), run(seed, &elsewhere));
    }

    /// A flush removes every line of the page, and nothing else.
    #[test]
    fn a_flush_removes_the_page_and_nothing_else(
        shape in 0..SHAPES.len(), raw in prop::collection::vec(raw(), 5),
        world in world(), events in events(false), page in 0..crate::common::PAGES,
    ) {
        let mut pair = Pair::new(build(shape, &raw, false, true), world, 0);
        events.into_iter().for_each(|event| pair.step(event));
        let lines = |pair: &Pair| -> Vec<(usize, u32, u32)> {
            let mut lines = Vec::new();
            for (number, cache) in pair.config.caches.iter().enumerate() {
                for line in pair.fast.contents(number).into_iter().flatten().flatten() {
                    let id = line.at.id;
                    let by_mapping = cache.keyed_by_mapping();
                    let page = if by_mapping { pair.world.mappings[id as usize].0 } else { id };
                    lines.push((number, page, line.at.line));
                }
            }
            lines.sort_unstable();
            lines
        };
        let mut expected = lines(&pair);
        expected.retain(|&(_, p, _)| p != page);
        let mappings = pair.world.mappings_of(page);
        pair.fast.flush_page(Agent::User, PageId(page), &mappings, &pair.world, &mut ());
        prop_assert_eq!(lines(&pair), expected);
    }
}
