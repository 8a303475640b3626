//! What a run reports: names, units and meanings, and which of them a machine has.

use binhop_base::Kind;
use binhop_hw::{CacheCounters, MemoryCounters, Next, Rules, TreeConfig, WritePolicy};

use crate::machine::Machine;
use crate::tally::Tally;

/// A metric, or a pattern of metrics: `<cache>` and `<kind>` stand for every cache and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// Its name.
    pub name: String,
    /// Its unit. Everything not per instruction is a count.
    pub unit: &'static str,
    /// What one means.
    pub meaning: &'static str,
}

const PER_INSTRUCTION: &str = "misses/instruction";

/// Metrics that are no counter of a cache or of memory.
const OWN: &[(&str, &str, &str)] = &[
    ("instructions", "instructions", "Instructions executed."),
    ("references", "references", "Instructions fetched, loads, stores and modifies."),
    ("os.faults", "pages", "Pages placed into a frame: first touches and returns after an eviction."),
    ("os.evictions", "pages", "Pages that left memory because a placement chose their frame."),
    ("<cache>.mpi", PER_INSTRUCTION, "Demand misses (fetch, load, store) per instruction executed."),
    (
        "memory.mpi",
        PER_INSTRUCTION,
        "Demand misses that reach memory, per instruction executed: what machines with different levels are \
         compared by. One per line of the cache that asks.",
    ),
    (
        "cycles",
        "cycles",
        "One per instruction, and what misses and full write buffers cost. Only with [cost].",
    ),
    ("cpi", "cycles/instruction", "Cycles per instruction executed. Only with [cost]."),
];

/// The glossary: every metric there is.
#[must_use]
pub fn metrics() -> Vec<MetricInfo> {
    let own = OWN.iter().map(|&(name, unit, meaning)| MetricInfo { name: name.to_string(), unit, meaning });
    let counters = |place: &'static str, list: &'static [binhop_hw::CounterInfo]| {
        list.iter().map(move |info| {
            let kind = if info.per_kind { ".<kind>" } else { "" };
            MetricInfo {
                name: format!("{place}{kind}.{}", info.name),
                unit: info.unit,
                meaning: info.meaning,
            }
        })
    };
    own.chain(counters("<cache>", CacheCounters::LIST))
        .chain(counters("memory", MemoryCounters::LIST))
        .collect()
}

/// The kinds of access that can reach, and leave, each cache of a tree, and reach memory (last).
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    arriving: Vec<Vec<bool>>,
    leaving: Vec<Vec<Kind>>,
}

impl Reach {
    pub(crate) fn of(tree: &TreeConfig) -> Self {
        let memory = tree.caches.len();
        let mut arriving = vec![vec![false; Kind::ALL.len()]; memory + 1];
        arriving[tree.fetch][Kind::Fetch as usize] = true;
        arriving[tree.data][Kind::Load as usize] = true;
        arriving[tree.data][Kind::Store as usize] = true;
        arriving[memory][Kind::System as usize] =
            tree.rules == Rules::Lines && tree.caches.iter().any(|cache| cache.write == WritePolicy::Back);
        // Requests only travel towards memory: as many rounds as there are levels reach a fixed point.
        for _ in 0..=memory {
            for (index, cache) in tree.caches.iter().enumerate() {
                let next = match cache.next {
                    Next::Cache(next) => next,
                    Next::Memory => memory,
                };
                for kind in
                    sent(tree, index, &arriving[index]).into_iter().filter(|&kind| kind != Kind::System)
                {
                    arriving[next][kind as usize] = true;
                }
            }
        }
        let leaving = (0..memory).map(|index| sent(tree, index, &arriving[index])).collect();
        Self { arriving, leaving }
    }

    pub(crate) fn reaches(&self, level: usize, kind: Kind) -> bool {
        self.arriving[level][kind as usize]
    }

    fn leaves(&self, cache: usize, kind: Kind) -> bool {
        self.leaving[cache].contains(&kind)
    }
}

/// The kinds a cache can send on, given those that arrive.
fn sent(tree: &TreeConfig, index: usize, arriving: &[bool]) -> Vec<Kind> {
    let cache = &tree.caches[index];
    let here = |kind: Kind| arriving[kind as usize];
    if tree.rules == Rules::Cachegrind {
        return Kind::ALL.iter().copied().filter(|&kind| here(kind)).collect();
    }
    let through = cache.write == WritePolicy::Through;
    // A store is data only at the level the processor asks; behind it, a fill that a store caused.
    let data = index == tree.data && here(Kind::Store);
    let carried = here(Kind::Write) || here(Kind::Writeback);
    let mut kinds = Vec::new();
    let mut send = |kind: Kind, when: bool| {
        if when {
            kinds.push(kind);
        }
    };
    send(Kind::Fetch, here(Kind::Fetch));
    send(Kind::Load, here(Kind::Load));
    send(Kind::Store, here(Kind::Store) && (!data || cache.allocate));
    send(Kind::Write, (data || here(Kind::Write)) && (through || !cache.allocate));
    send(Kind::Writeback, here(Kind::Writeback) && (through || !cache.allocate));
    send(Kind::Writeback, !through && (data || carried));
    send(Kind::Fill, here(Kind::Fill) || carried && cache.allocate);
    // A purge takes dirty lines straight to memory.
    send(Kind::System, !through);
    kinds
}

/// Visits every metric of a lane's tally: name, unit, value (`None`: undefined).
pub(crate) fn each(
    machine: &Machine,
    tally: &Tally,
    mut visit: impl FnMut(String, &'static str, Option<f64>),
) {
    let tree = machine.tree().config();
    let reach = Reach::of(tree);
    let instructions = tally.stream.instructions;
    visit("instructions".into(), "instructions", Some(whole(instructions)));
    visit("references".into(), "references", Some(whole(tally.stream.references)));
    if machine.has_cost() {
        let cycles = instructions + tally.waited;
        visit("cycles".into(), "cycles", Some(whole(cycles)));
        visit("cpi".into(), "cycles/instruction", ratio(cycles, instructions));
    }
    for (index, (cache, counters)) in tree.caches.iter().zip(&tally.caches).enumerate() {
        visit(format!("{}.mpi", cache.name), PER_INSTRUCTION, ratio(counters.misses.demand(), instructions));
        counters.each(|info, kind, value| match kind {
            Some(kind) => {
                let possible =
                    if info.name == "sent" { reach.leaves(index, kind) } else { reach.reaches(index, kind) };
                let name = format!("{}.{}.{}", cache.name, kind.name(), info.name);
                if possible {
                    visit(name, info.unit, Some(whole(value)));
                } else {
                    assert_eq!(value, 0, "{name}: a kind that cannot be");
                }
            }
            None if info.name.starts_with("write-buffer") && cache.write_buffer.is_none() => {}
            None => visit(format!("{}.{}", cache.name, info.name), info.unit, Some(whole(value))),
        });
    }
    let reached = tally.memory.accesses.demand();
    visit("memory.mpi".into(), PER_INSTRUCTION, ratio(reached, instructions));
    tally.memory.each(|info, kind, value| {
        let kind = kind.expect("memory keeps its counts per kind");
        if reach.reaches(tree.caches.len(), kind) {
            visit(format!("memory.{}.{}", kind.name(), info.name), info.unit, Some(whole(value)));
        }
    });
    if machine.memory().frames.is_some() {
        visit("os.faults".into(), "pages", Some(whole(tally.faults)));
        visit("os.evictions".into(), "pages", Some(whole(tally.evictions)));
    }
}

/// A count as a table's value. Exact: no run comes near 2⁵³.
pub(crate) fn whole(count: u64) -> f64 {
    assert!(count < 1 << 53, "a count of {count} does not fit a table's value exactly");
    count as f64
}

/// A ratio; undefined, not 0, where nothing was executed.
pub(crate) fn ratio(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| whole(count) / whole(of))
}
