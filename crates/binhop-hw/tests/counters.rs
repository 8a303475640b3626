//! Every counter is counted somewhere on the general path, under random trees, accesses and agents.

use std::collections::BTreeMap;

use crate::common::{Pair, SHAPES, build, events, raw, world};
use binhop_hw::{AgentCounters, AgentMemoryCounters, CacheCounters, CounterInfo, MemoryCounters, TreeConfig};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

#[test]
fn the_general_path_counts_every_counter() {
    let mut runner = TestRunner::deterministic();
    let mut sums: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for _ in 0..200 {
        let draw = (0..SHAPES.len(), prop::collection::vec(raw(), 5), world(), events(true));
        let (shape, raw, world, events) = draw.new_tree(&mut runner).expect("nothing is refused").current();
        let config = TreeConfig { agents: crate::common::everyone(), ..build(shape, &raw, false, true) };
        let mut pair = Pair::new(config, world, 0);
        events.into_iter().for_each(|event| pair.step(event));
        let mut add = |list, info: &CounterInfo, value| *sums.entry((list, info.name)).or_default() += value;
        for number in 0..pair.config.caches.len() {
            pair.fast.counters(number).each(|info, _, value| add("CacheCounters", info, value));
            for agent in pair.fast.by_agent(number) {
                agent.each(|info, _, value| add("AgentCounters", info, value));
            }
        }
        pair.fast.back.memory().each(|info, _, value| add("MemoryCounters", info, value));
        for agent in pair.fast.back.memory_by_agent() {
            agent.each(|info, _, value| add("AgentMemoryCounters", info, value));
        }
    }
    for (list, counters) in [
        ("CacheCounters", CacheCounters::LIST),
        ("MemoryCounters", MemoryCounters::LIST),
        ("AgentCounters", AgentCounters::LIST),
        ("AgentMemoryCounters", AgentMemoryCounters::LIST),
    ] {
        for info in counters {
            assert!(
                sums[&(list, info.name)] > 0,
                "{list} lists `{}`, but the general path counts none: count it in crates/binhop-hw/src/cache/access.rs \
                 (or memory.rs), and in crates/binhop-oracle/src/cache_tree.rs",
                info.name
            );
        }
    }
}
