//! Small tests of the counting rules: order of transactions, inclusion, costs, and the write buffer.

use crate::common::{ByUser, World, plain, power, tree};
use binhop_base::{Agent, Agents, Kind, LineAddr, MappingId, PageId, Rng};
use binhop_hw::{
    CacheConfig, Computer, CostRule, DirtyData, Front, IndexBy, Invalidation, Level, MEMORY, Next, Request,
    StreamConfig, TagBy, Tree, TreeConfig, WriteBufferConfig, WritePolicy, WritebackOrder,
};

fn line(id: u32, line: u32) -> LineAddr {
    LineAddr { id, line }
}

/// Returns the requests of a direct-mapped cache of one line that evicts a dirty line.
fn requests(order: WritebackOrder) -> Vec<(Kind, u32)> {
    let cache = CacheConfig { writeback_order: order, ..plain("l1", 16, 16, 1, Next::Memory) };
    let tree = Tree::new(tree(vec![cache], 16, 0, 0));
    let (world, mut front) = (World::identity(4), Front::new(&tree, Rng::new(0)));
    let mut recorded: Vec<Request> = Vec::new();
    let waited = [(Kind::Store, line(0, 0)), (Kind::Load, line(1, 0))]
        .map(|(kind, at)| front.access(0, kind, at, 0, &world, &mut recorded));
    assert_eq!(waited, [0, 0], "the one cache costs nothing, and what is behind it is not here");
    assert!(
        recorded.iter().all(|r| r.to == MEMORY
            && r.origin.unit() == 4
            && r.origin.agent() == Agent::User
            && r.data == 4)
    );
    recorded.iter().map(|r| (r.kind, r.at.id)).collect()
}

#[test]
fn the_write_back_precedes_or_follows_the_read_as_configured() {
    let store = (Kind::Store, 0);
    let (read, writeback) = ((Kind::Load, 1), (Kind::Writeback, 0));
    assert_eq!(requests(WritebackOrder::BeforeFill), [store, writeback, read]);
    assert_eq!(requests(WritebackOrder::AfterFill), [store, read, writeback]);
}

/// Makes two levels. Level 1 has two ways of 16 bytes. Level 2 has one line of 32 bytes, and is inclusive. A page
/// is 64 bytes.
fn inclusive(order: WritebackOrder) -> TreeConfig {
    let l1 = CacheConfig { writeback_order: order, ..plain("l1", 32, 16, 2, Next::Cache(1)) };
    let l2 = CacheConfig { inclusive: true, ..plain("l2", 32, 32, 1, Next::Memory) };
    tree(vec![l1, l2], 64, 0, 0)
}

#[test]
fn an_invalidation_of_no_byte_removes_no_line() {
    let cache = plain("l1", 64, 16, 1, Next::Memory);
    let agents = Agents::USER.with(Agent::Device);
    let tree = Tree::new(TreeConfig { agents, ..tree(vec![cache], 64, 0, 0) });
    let (world, mut computer) = (World::identity(1), Computer::new(&tree, Rng::new(0)));
    computer.user(Kind::Load, line(0, 0), &world);
    for (bytes, left) in [(7..7, 1), (7..8, 0)] {
        let what =
            Invalidation { page: PageId(0), mappings: &[MappingId(0)], bytes, data: DirtyData::Discard };
        computer.invalidate(Agent::Device, &what, &world, &mut ());
        assert_eq!(computer.front.resident(0).0, left);
    }
}

#[test]
fn an_inclusive_victim_invalidates_what_it_covers_and_carries_its_data() {
    let mut computer = Computer::new(&Tree::new(inclusive(WritebackOrder::AfterFill)), Rng::new(0));
    let world = World::identity(2);
    computer.user(Kind::Load, line(0, 0), &world);
    computer.user(Kind::Store, line(0, 1), &world); // both halves of level 2's line, the second dirty
    assert_eq!((computer.front.resident(0), computer.front.resident(1)), ((2, 1), (1, 0)));
    computer.user(Kind::Load, line(0, 2), &world); // level 2 must drop its line, level 1 both
    let (l1, l2) = (*computer.counters(0), *computer.counters(1));
    assert_eq!((l1.invalidated, l1.invalidated_dirty, l1.evictions), (2, 1, 0));
    assert_eq!((l2.evictions, l2.evictions_dirty, l2.dirtied), (1, 1, 1));
    assert_eq!(computer.back.memory().accesses[Kind::Writeback], 1);
    assert_eq!((computer.front.resident(0), computer.front.resident(1)), ((1, 0), (1, 0)));
    computer.check().unwrap();
}

#[test]
fn a_victim_chosen_before_the_read_is_written_back_by_its_own_cache() {
    // Both ways of level 1 are full. With before-fill, level 1 evicts line 0, and then level 2 invalidates the rest.
    let mut computer = Computer::new(&Tree::new(inclusive(WritebackOrder::BeforeFill)), Rng::new(0));
    let world = World::identity(2);
    computer.user(Kind::Store, line(0, 0), &world);
    computer.user(Kind::Store, line(0, 1), &world);
    computer.user(Kind::Load, line(0, 2), &world);
    let (l1, l2) = (*computer.counters(0), *computer.counters(1));
    assert_eq!((l1.evictions, l1.evictions_dirty, l1.invalidated, l1.invalidated_dirty), (1, 1, 1, 1));
    assert_eq!((l2.accesses[Kind::Writeback], l2.misses[Kind::Writeback]), (1, 0));
    assert_eq!((l2.evictions_dirty, computer.back.memory().accesses[Kind::Writeback]), (1, 1));
    computer.check().unwrap();
}

#[test]
fn an_inclusive_cache_and_all_above_it_are_the_front() {
    let mut config = inclusive(WritebackOrder::AfterFill);
    let l3 = plain("l3", 1024, 32, 1, Next::Memory);
    config.caches[1].next = Next::Cache(2);
    config.caches.push(l3);
    let tree = Tree::new(config.clone());
    assert_eq!([0, 1, 2].map(|cache| tree.in_front(cache)), [true, true, false]);
    config.caches[1].inclusive = false;
    assert!(!Tree::new(config.clone()).in_front(1));
    config.caches[2].inclusive = true;
    let tree = Tree::new(config);
    assert_eq!([0, 1, 2].map(|cache| tree.in_front(cache)), [true, true, true]);
}

/// Requests of a cache between the two lead back into the front.
#[test]
fn a_cache_between_the_two_that_the_processor_asks_belongs_to_the_front() {
    let next = [Next::Cache(1), Next::Cache(2), Next::Cache(3), Next::Memory];
    let caches = ["l1i", "m", "l1d", "l2"].into_iter().zip(next);
    let caches = caches.map(|(name, next)| plain(name, 64, 16, 1, next)).collect();
    let tree = Tree::new(tree(caches, 64, 0, 2));
    assert_eq!([0, 1, 2, 3].map(|cache| tree.in_front(cache)), [true, true, true, false]);
}

/// The instruction cache, which knows lines by page, also asks the data cache.
#[test]
fn every_agent_names_a_mapping_where_the_processor_asks() {
    let l1i = plain("l1i", 32, 16, 1, Next::Cache(1));
    let l1d = plain("l1d", 64, 16, 1, Next::Memory);
    let config = tree(vec![l1i, l1d], 64, 0, 1);
    let tree = Tree::new(TreeConfig { agents: Agents::USER.with(Agent::Handler), ..config });
    let mut computer = Computer::new(&tree, Rng::new(0));
    // Mapping 2 leads to page 0.
    let world = World { frames: vec![0, 1, 2], mappings: vec![(1, 0), (2, 1), (0, 2)] };
    computer.user(Kind::Load, line(2, 0), &world);
    let answer = computer.access(Agent::Handler, Kind::Load, line(2, 0), &world, &mut ());
    assert_eq!(answer.served, Level::Cache(1));
    computer.user(Kind::Fetch, line(1, 1), &world);
    let answer = computer.access(Agent::Handler, Kind::Fetch, line(1, 1), &world, &mut ());
    assert_eq!(answer.served, Level::Cache(0));
    computer.check().unwrap();
}

#[test]
fn a_front_depends_on_the_placement_when_its_index_reaches_beyond_the_page() {
    let depends = |size, ways, index, tag, hashed| {
        let cache = CacheConfig { index, tag, hashed, ..plain("l1", size, 64, ways, Next::Memory) };
        Tree::new(tree(vec![cache], 4096, 0, 0)).front_depends_on_placement()
    };
    let (physical, by_page, by_space) = (IndexBy::Physical, TagBy::Physical, TagBy::Asid);
    assert!(!depends(32 << 10, 8, physical, by_page, false));
    assert!(depends(32 << 10, 4, physical, by_page, false));
    assert!(depends(32 << 10, 8, physical, by_page, true));
    assert!(!depends(32 << 10, 512, physical, by_page, true));
    assert!(!depends(32 << 10, 1, IndexBy::Virtual, by_space, false));
    assert!(!depends(32 << 10, 1, IndexBy::Virtual, by_page, true));
}

#[test]
fn a_miss_costs_the_level_that_serves_it_or_the_sum_of_those_it_passed() {
    for (rule, from_memory) in [(CostRule::Total, 200), (CostRule::Add, 213)] {
        let l2 = CacheConfig { cost: 13, ..plain("l2", 1024, 16, 1, Next::Memory) };
        let caches = vec![plain("l1", 16, 16, 1, Next::Cache(1)), l2];
        let config = TreeConfig { cost_rule: rule, memory_cost: 200, ..tree(caches, 16, 0, 0) };
        let (mut computer, world) = (Computer::new(&Tree::new(config), Rng::new(0)), World::identity(4));
        let costs: Vec<u64> = [0, 1, 0, 0].map(|id| computer.user(Kind::Load, line(id, 0), &world)).into();
        assert_eq!(costs, [from_memory, from_memory, 13, 0]);
        assert_eq!(computer.now, 2 * from_memory + 13);
    }
}

/// Makes a write-through cache with a buffer of two entries of ten cycles each. The cache holds line 0.
fn buffered() -> (Computer, World) {
    let buffer = Some(WriteBufferConfig { entries: 2, drain_cycles: 10, merge: false, stalls: true });
    let write = WritePolicy::Through;
    let cache = CacheConfig { write, write_buffer: buffer, ..plain("l1", 64, 16, 1, Next::Memory) };
    let (mut computer, world) =
        (Computer::new(&Tree::new(tree(vec![cache], 64, 0, 0)), Rng::new(0)), World::identity(1));
    computer.user(Kind::Load, line(0, 0), &world);
    (computer, world)
}

#[test]
fn a_store_into_a_full_buffer_waits_for_exactly_the_oldest_write() {
    for now in 1..=12 {
        let (mut computer, world) = buffered();
        assert_eq!(computer.user(Kind::Store, line(0, 0), &world), 0); // drains until 10
        assert_eq!(computer.user(Kind::Store, line(0, 0), &world), 0); // until 20
        computer.now = now;
        let stall = 10u64.saturating_sub(now);
        assert_eq!(computer.user(Kind::Store, line(0, 0), &world), stall, "at {now}");
        assert_eq!(computer.now, now + stall);
        let counters = computer.counters(0);
        assert_eq!((counters.stalls, counters.stall_cycles), (u64::from(stall > 0), stall));
        // The data went down at once, three times.
        assert_eq!(computer.back.memory().accesses[Kind::Write], 3);
    }
}

#[test]
fn a_load_does_not_wait_for_the_buffer() {
    let (mut computer, world) = buffered();
    for _ in 0..2 {
        computer.user(Kind::Store, line(0, 0), &world);
    }
    assert_eq!(computer.user(Kind::Load, line(0, 1), &world), 0);
    assert_eq!(computer.counters(0).stalls, 0);
}

#[test]
fn a_write_back_smaller_than_the_line_reads_the_rest_and_a_whole_one_does_not() {
    for (l2_line, reads) in [(16, 0), (32, 1)] {
        // Level 2 holds one line. Level 1 stores to line 0, keeps it while level 2 evicts it, and then evicts it.
        let l1 = plain("l1", 32, 16, 2, Next::Cache(1));
        let l2 = plain("l2", l2_line, l2_line, 1, Next::Memory);
        let config = TreeConfig { page: power(64), ..tree(vec![l1, l2], 64, 0, 0) };
        let (mut computer, world) = (Computer::new(&Tree::new(config), Rng::new(0)), World::identity(4));
        computer.user(Kind::Store, line(0, 0), &world);
        computer.user(Kind::Load, line(1, 0), &world);
        computer.user(Kind::Load, line(2, 0), &world);
        assert_eq!(computer.counters(1).misses[Kind::Writeback], 1);
        assert_eq!(computer.back.memory().accesses[Kind::Fill], reads);
        assert_eq!(computer.back.resident(1), (1, 1));
        computer.check().unwrap();
    }
}

/// Stores to lines 0, 1, 2 and then 1 again, into a buffer of two entries of ten cycles each.
#[test]
fn a_store_joins_a_waiting_store_to_its_line_only_with_merge_and_waits_only_with_stalls() {
    for (merge, stalls, expected, waited) in
        [(false, true, [0, 0, 10, 10], 20), (true, true, [0, 0, 10, 10], 20), (true, false, [0; 4], 0)]
    {
        let buffer = Some(WriteBufferConfig { entries: 2, drain_cycles: 10, merge, stalls });
        let cache = CacheConfig {
            write: WritePolicy::Through,
            allocate: false,
            write_buffer: buffer,
            ..plain("l1", 64, 16, 1, Next::Memory)
        };
        let tree = Tree::new(tree(vec![cache], 64, 0, 0));
        assert_eq!(tree.has_write_buffer(), stalls);
        let (mut computer, world) = (Computer::new(&tree, Rng::new(0)), World::identity(1));
        let mut store = |number| computer.user(Kind::Store, line(0, number), &world);
        // Line 2 waits until line 0 has drained, at 10. Line 1 drains from then on, so nothing joins it.
        assert_eq!([0, 1, 2, 1].map(&mut store), expected);
        // Line 2 begins to drain at 20 and line 1 at 30: at 20 the second store to line 1 may be joined.
        assert_eq!(store(1), if merge || !stalls { 0 } else { 10 });
        let counters = computer.counters(0);
        assert_eq!(counters.merges, u64::from(merge && stalls));
        assert_eq!(counters.stall_cycles, waited + if stalls && !merge { 10 } else { 0 });
        assert_eq!(computer.back.memory().accesses[Kind::Write], 5, "the data goes down at once");
    }
}

/// A walk through two pages of eight lines, then back to the start of the first, with one stream buffer of four lines.
#[test]
fn a_stream_buffer_gives_successive_lines_of_a_page_for_the_cost_of_a_hit() {
    for (behind, mode) in [(false, CostRule::Total), (true, CostRule::Total), (true, CostRule::Add)] {
        // The cache with the stream buffer serves the processor, or stands behind a cache that does.
        let streams = Some(StreamConfig { buffers: 1, depth: 4 });
        let mut caches = vec![CacheConfig { streams, ..plain("l1", 16, 16, 1, Next::Memory) }];
        if behind {
            caches[0].cost = 13;
            caches.insert(0, plain("l0", 16, 16, 1, Next::Cache(1)));
        }
        let number = caches.len() - 1;
        let config = TreeConfig {
            memory_cost: 200,
            cost_rule: mode,
            agents: Agents::USER.with(Agent::Prefetch),
            ..tree(caches, 128, 0, 0)
        };
        let (mut computer, world) = (Computer::new(&Tree::new(config), Rng::new(0)), World::identity(2));
        let (hit, miss) = (if behind { 13 } else { 0 }, if mode == CostRule::Add { 213 } else { 200 });
        for page in [0, 1, 0] {
            let waits: Vec<u64> = (0..8).map(|n| computer.user(Kind::Load, line(page, n), &world)).collect();
            assert_eq!(waits, [miss, hit, hit, hit, hit, hit, hit, hit]);
        }
        let counters = computer.counters(number);
        assert_eq!((counters.misses[Kind::Load], counters.stream_hits, counters.fills), (24, 21, 24));
        assert_eq!((counters.sent[Kind::Load], computer.by_agent(number)[0].sent[Kind::Load]), (3, 21));
        assert_eq!(computer.back.memory().accesses[Kind::Load], 3);
        computer.check().unwrap();
    }
}
