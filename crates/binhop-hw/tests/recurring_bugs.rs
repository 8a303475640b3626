//! There is one test for each bug that recurs in cache simulators, by the issue trackers of ChampSim, drcachesim,
//! gem5, Sniper, pycachesim and others.

use crate::common::{ByUser, World, plain, tree};
use binhop_base::{Agent, Kind, LineAddr, PageId, Rng};
use binhop_hw::{CacheConfig, Computer, IndexBy, Next, Replacement, TagBy, Tree, TreeConfig, WritePolicy};

fn computer(config: TreeConfig) -> Computer {
    Computer::new(&Tree::new(config), Rng::new(0))
}

/// Makes two direct-mapped levels of 4 and 8 lines of 16 bytes, with pages of one line.
fn two_levels() -> TreeConfig {
    tree(vec![plain("l1", 64, 16, 1, Next::Cache(1)), plain("l2", 128, 16, 1, Next::Memory)], 16, 0, 0)
}

fn page(id: u32) -> LineAddr {
    LineAddr { id, line: 0 }
}

#[test]
fn one_miss_is_one_miss_at_each_level_not_one_more_at_its_fill_or_retry() {
    let (mut computer, world) = (computer(two_levels()), World::identity(16));
    computer.user(Kind::Load, page(3), &world);
    for cache in 0..2 {
        let counters = computer.counters(cache);
        assert_eq!((counters.accesses.total(), counters.misses.total(), counters.fills), (1, 1, 1));
    }
    assert_eq!(computer.back.memory().accesses.total(), 1);
    computer.user(Kind::Load, page(3), &world);
    assert_eq!((computer.counters(0).accesses.total(), computer.counters(0).misses.total()), (2, 1));
    assert_eq!(computer.counters(1).accesses.total(), 1);
}

#[test]
fn a_store_is_no_extra_load_at_any_level() {
    let (mut computer, world) = (computer(two_levels()), World::identity(16));
    computer.user(Kind::Store, page(3), &world);
    for cache in 0..2 {
        let counters = computer.counters(cache);
        assert_eq!((counters.accesses[Kind::Store], counters.accesses.total()), (1, 1));
        assert_eq!((counters.misses[Kind::Store], counters.misses.total()), (1, 1));
    }
    let memory = computer.back.memory().accesses;
    assert_eq!((memory[Kind::Store], memory.total()), (1, 1));
    // The line is dirty only in the cache that the processor asked.
    assert_eq!((computer.front.resident(0), computer.back.resident(1)), ((1, 1), (1, 0)));
}

#[test]
fn no_eviction_is_lost() {
    let (mut computer, world) = (computer(two_levels()), World::identity(64));
    for id in 0..64 {
        computer.user(Kind::Load, page(id), &world);
    }
    assert_eq!((computer.counters(0).evictions, computer.counters(1).evictions), (60, 56));
    computer.check().unwrap();
}

#[test]
fn a_dirty_line_stays_dirty_though_its_write_back_misses_below() {
    // Pages 3 and 11 share a set at both levels; level 2 loses 3 while level 1 holds it dirty.
    let mut config = two_levels();
    config.caches[0] = plain("l1", 64, 16, 2, Next::Cache(1));
    let (mut computer, world) = (computer(config), World::identity(32));
    computer.user(Kind::Store, page(3), &world);
    computer.user(Kind::Load, page(11), &world); // level 2 evicts 3 (clean there)
    assert_eq!((computer.counters(1).evictions, computer.counters(1).evictions_dirty), (1, 0));
    computer.user(Kind::Load, page(1), &world); // level 1 writes 3 back, which misses level 2 and allocates
    let l2 = computer.counters(1);
    assert_eq!((l2.accesses[Kind::Writeback], l2.misses[Kind::Writeback]), (1, 1));
    assert_eq!(computer.back.resident(1).1, 1);
    computer.user(Kind::Load, page(19), &world); // level 2 evicts 3: now memory gets it
    assert_eq!(computer.back.memory().accesses[Kind::Writeback], 1);
    computer.check().unwrap();
}

#[test]
fn a_write_back_that_misses_a_cache_that_does_not_allocate_reaches_memory() {
    let mut config = two_levels();
    config.caches[0] = plain("l1", 64, 16, 2, Next::Cache(1));
    config.caches[1].allocate = false;
    let (mut computer, world) = (computer(config), World::identity(32));
    for (kind, id) in [(Kind::Store, 3), (Kind::Load, 11), (Kind::Load, 1)] {
        computer.user(kind, page(id), &world);
    }
    assert_eq!(computer.counters(1).misses[Kind::Writeback], 1);
    assert_eq!((computer.back.memory().accesses[Kind::Writeback], computer.back.resident(1).1), (1, 0));
    computer.check().unwrap();
}

#[test]
fn compulsory_misses_are_at_most_the_misses_and_a_returning_page_has_none() {
    let (mut computer, mut world) = (computer(two_levels()), World::identity(16));
    computer.user(Kind::Load, page(3), &world);
    computer.user(Kind::Load, page(7), &world);
    computer.user(Kind::Load, page(3), &world);
    assert_eq!(
        (computer.counters(0).misses[Kind::Load], computer.counters(0).compulsory[Kind::Load]),
        (3, 2)
    );
    computer.flush_page(Agent::User, PageId(3), &world.mappings_of(3), &world, &mut ());
    world.frames[3] = 40;
    computer.user(Kind::Load, page(3), &world);
    assert_eq!(
        (computer.counters(0).misses[Kind::Load], computer.counters(0).compulsory[Kind::Load]),
        (4, 2)
    );
    computer.check().unwrap();
}

#[test]
fn what_was_counted_before_a_snapshot_is_not_counted_after_it_and_the_caches_stay_warm() {
    let (mut computer, world) = (computer(two_levels()), World::identity(16));
    computer.user(Kind::Load, page(3), &world);
    let warm = *computer.counters(0);
    computer.user(Kind::Load, page(3), &world);
    computer.user(Kind::Load, page(7), &world);
    let measured = *computer.counters(0) - warm;
    assert_eq!((measured.accesses[Kind::Load], measured.misses[Kind::Load]), (2, 1));
}

/// Mappings 0 and 1 map one virtual page in two address spaces to two pages. Mapping 2 is a third space's mapping of
/// page 0.
fn three_spaces() -> World {
    World { frames: vec![5, 9], mappings: vec![(0, 7), (1, 7), (0, 7)] }
}

fn one_cache(index: IndexBy, tag: TagBy) -> Computer {
    computer(tree(vec![CacheConfig { index, tag, ..plain("l1", 64, 16, 4, Next::Memory) }], 16, 0, 0))
}

#[test]
fn one_process_does_not_hit_the_line_of_another_at_the_same_virtual_address() {
    for (index, tag) in [
        (IndexBy::Virtual, TagBy::Asid),
        (IndexBy::Physical, TagBy::Asid),
        (IndexBy::Virtual, TagBy::Physical),
        (IndexBy::Physical, TagBy::Physical),
        (IndexBy::Virtual, TagBy::Global),
    ] {
        let (mut computer, world) = (one_cache(index, tag), three_spaces());
        computer.user(Kind::Load, page(0), &world);
        computer.user(Kind::Load, page(1), &world);
        assert_eq!(computer.counters(0).misses[Kind::Load], 2, "{index:?} {tag:?}");
        // A page that two spaces share has one line if the tag names the page, and two lines if it names a mapping.
        computer.user(Kind::Load, page(2), &world);
        let expected = if tag == TagBy::Physical { 2 } else { 3 };
        assert_eq!(computer.counters(0).misses[Kind::Load], expected, "{index:?} {tag:?}");
    }
}

#[test]
fn addresses_above_32_bits_are_not_cut() {
    // 128 direct-mapped sets of 16 bytes, pages of 16 bytes: the set is the frame's low 7 bits.
    let one = |hashed| {
        let cache = CacheConfig { hashed, ..plain("l1", 2048, 16, 1, Next::Memory) };
        computer(tree(vec![cache], 16, 0, 0))
    };
    let high = 1 << 59; // the top bit of a 64-bit address with 16-byte pages, less one
    let world = World { frames: vec![3, high + 3, high + 4], mappings: vec![(0, 0), (1, 0), (2, 0)] };
    let set_of = |computer: &Computer, id| {
        computer.contents(0).iter().position(|set| set.iter().flatten().any(|line| line.at.id == id))
    };
    let mut plain = one(false);
    plain.user(Kind::Load, page(0), &world);
    plain.user(Kind::Load, page(1), &world);
    assert_eq!(plain.counters(0).evictions, 1);
    plain.user(Kind::Load, page(2), &world);
    assert_eq!((set_of(&plain, 1), set_of(&plain, 2)), (Some(3), Some(4)));
    // Hashed, bit 59 = 8 × 7 + 3 folds onto bit 3.
    let mut hashed = one(true);
    (0..3).for_each(|id| {
        hashed.user(Kind::Load, page(id), &world);
    });
    assert_eq!((set_of(&hashed, 0), set_of(&hashed, 1)), (Some(3), Some(3 ^ 8)));
}

#[test]
fn page_numbers_in_the_millions_do_not_collide() {
    // 2^22 pages of 512 lines: keys beyond 2^31.
    let cache = plain("l1", 16 << 10, 16, 1024, Next::Memory);
    let config = TreeConfig { page: crate::common::power(8192), ..tree(vec![cache], 8192, 0, 0) };
    let mut computer = computer(config);
    let pages = 1u32 << 22;
    let world = World {
        frames: vec![1; pages as usize],
        mappings: (0..pages).map(|page| (page, u64::from(page))).collect(),
    };
    for id in (0..22).map(|bit| (1 << bit) | 1) {
        computer.user(Kind::Load, LineAddr { id, line: 511 }, &world);
    }
    assert_eq!((computer.counters(0).misses[Kind::Load], computer.front.resident(0).0), (22, 22));
}

#[test]
fn the_same_seed_gives_the_same_victims_and_another_seed_others() {
    let cache = CacheConfig { replacement: Replacement::Random, ..plain("l1", 64, 16, 4, Next::Memory) };
    let tree = Tree::new(tree(vec![cache], 16, 0, 0));
    let world = World::identity(16);
    let run = |seed| {
        let mut computer = Computer::new(&tree, Rng::new(seed));
        for step in 0..200u32 {
            computer.user(Kind::Load, page(step * 7 % 11), &world);
        }
        (*computer.counters(0), computer.contents(0))
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn a_write_through_store_reaches_memory_whether_it_hits_or_misses_and_leaves_no_dirty_line() {
    let mut config = two_levels();
    config.caches[0].write = WritePolicy::Through;
    config.caches[1].write = WritePolicy::Through;
    for allocate in [true, false] {
        config.caches.iter_mut().for_each(|cache| cache.allocate = allocate);
        let (mut computer, world) = (computer(config.clone()), World::identity(16));
        computer.user(Kind::Store, page(3), &world);
        computer.user(Kind::Store, page(3), &world);
        assert_eq!(computer.counters(1).accesses[Kind::Write], 2);
        assert_eq!(computer.back.memory().accesses[Kind::Write], 2);
        assert_eq!(computer.counters(0).misses[Kind::Store], if allocate { 1 } else { 2 });
        assert_eq!((computer.counters(0).dirtied, computer.counters(1).dirtied), (0, 0));
        computer.check().unwrap();
    }
}
