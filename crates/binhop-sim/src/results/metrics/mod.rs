//! This file names the metrics that a run reports, with their units and meanings, and decides which metrics
//! a machine has.

mod protection;
mod softvm;
mod translation;
mod virtual_caches;

use binhop_base::{Agents, Kind};
use binhop_hw::{
    AgentCounters, AgentMemoryCounters, CacheCounters, MemoryCounters, Next, Rules, TreeConfig, WritePolicy,
};

use super::tally::Tally;
use crate::machine::Machine;

/// `MetricInfo` is a metric, or a pattern of metrics: `<cache>`, `<kind>` and `<agent>` stand for every cache, every
/// kind and every agent other than the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// The metric's name.
    pub name: String,
    /// The metric's unit. Every metric that is not per instruction is a count.
    pub unit: &'static str,
    /// The metric's meaning, in words.
    pub meaning: &'static str,
}

const PER_INSTRUCTION: &str = "misses/instruction";
pub(super) const PER_INSTRUCTION_CYCLES: &str = "cycles/instruction";

/// `RunMetric` is a metric that is no counter of a cache or of memory.
#[derive(Clone, Copy)]
struct RunMetric {
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
}

macro_rules! run_metrics {
    ($($constant:ident = $name:literal, $unit:expr, $meaning:literal;)*) => {
        $(const $constant: RunMetric = RunMetric { name: $name, unit: $unit, meaning: $meaning };)*

        /// Every metric that is no counter of a cache or of memory.
        const RUN_METRICS: &[RunMetric] = &[$($constant),*];
    };
}

run_metrics! {
    INSTRUCTIONS = "instructions", "instructions", "Instructions executed.";
    REFERENCES = "references", "references", "Instructions fetched, loads, stores and modifies.";
    FAULTS = "os.faults", "pages", "Pages placed into a frame: first touches and returns after an eviction.";
    EVICTIONS = "os.evictions", "pages", "Pages that left memory because a placement chose their frame.";
    CACHE_MPI = "<cache>.mpi", PER_INSTRUCTION, "Demand misses (fetch, load, store) per instruction executed.";
    MEMORY_MPI = "memory.mpi", PER_INSTRUCTION, "Demand misses that reach memory, per instruction executed: what machines with different levels are compared by. One per line of the cache that asks.";
    CYCLES = "cycles", "cycles", "One per instruction, and what misses and full write buffers cost. Only with [cost].";
    CPI = "cpi", PER_INSTRUCTION_CYCLES, "Cycles per instruction executed. Only with [cost].";
}

/// Returns every metric there is, for the glossary.
#[must_use]
pub fn metrics() -> Vec<MetricInfo> {
    let of_run = RUN_METRICS.iter().map(|&RunMetric { name, unit, meaning }| MetricInfo {
        name: name.to_string(),
        unit,
        meaning,
    });
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
    of_run
        .chain(counters("<cache>", CacheCounters::LIST))
        .chain(counters("memory", MemoryCounters::LIST))
        .chain(counters("<cache>.<agent>", AgentCounters::LIST))
        .chain(counters("memory.<agent>", AgentMemoryCounters::LIST))
        .chain(translation::metrics())
        .chain(virtual_caches::metrics())
        .chain(softvm::metrics())
        .collect()
}

/// `Reach` holds the kinds of access that can reach and leave each cache of a tree, and that can reach memory
/// (last).
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    arriving: Vec<Vec<bool>>,
    leaving: Vec<Vec<Kind>>,
}

impl Reach {
    /// Returns the kinds of access that the user's program causes.
    pub(crate) fn of(tree: &TreeConfig) -> Self {
        let mut arriving = vec![vec![false; Kind::ALL.len()]; tree.caches.len() + 1];
        arriving[tree.fetch][Kind::Fetch as usize] = true;
        arriving[tree.data][Kind::Load as usize] = true;
        arriving[tree.data][Kind::Store as usize] = true;
        Self::from(tree, arriving, |cache| if cache == tree.data { Stores::Data } else { Stores::Fills })
    }

    /// Returns the kinds of access that an agent may cause when it accesses any cache, or memory, directly.
    fn from_outside(tree: &TreeConfig) -> Self {
        let of = |kinds: &[Kind]| Kind::ALL.iter().map(|kind| kinds.contains(kind)).collect::<Vec<_>>();
        let mut arriving = vec![of(&[Kind::Fetch, Kind::Load, Kind::Store]); tree.caches.len()];
        arriving.push(of(&[Kind::Fetch, Kind::Load, Kind::Write]));
        Self::from(tree, arriving, |_| Stores::Both)
    }

    /// Derives the kinds of access at every level from the kinds that are made from outside. `stores` says
    /// what an access of kind `store` means at a cache.
    fn from(tree: &TreeConfig, mut arriving: Vec<Vec<bool>>, stores: impl Fn(usize) -> Stores) -> Self {
        let memory = tree.caches.len();
        arriving[memory][Kind::System as usize] =
            tree.rules == Rules::Lines && tree.caches.iter().any(|cache| cache.write == WritePolicy::Back);
        // Requests travel only towards memory, so as many rounds as there are levels reach a fixed point.
        for _ in 0..=memory {
            for (index, cache) in tree.caches.iter().enumerate() {
                let next = match cache.next {
                    Next::Cache(next) => next,
                    Next::Memory => memory,
                };
                let sent = sent(tree, index, &arriving[index], stores(index));
                for kind in sent.into_iter().filter(|&kind| kind != Kind::System) {
                    arriving[next][kind as usize] = true;
                }
            }
        }
        let leaving = (0..memory).map(|index| sent(tree, index, &arriving[index], stores(index))).collect();
        Self { arriving, leaving }
    }

    pub(crate) fn reaches(&self, level: usize, kind: Kind) -> bool {
        self.arriving[level][kind as usize]
    }

    fn leaves(&self, cache: usize, kind: Kind) -> bool {
        self.leaving[cache].contains(&kind)
    }
}

/// `Stores` is the meaning of an access of kind `store` at one cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stores {
    /// The access stores data: the storing agent accesses this level.
    Data,
    /// The access is the fill of a line that a store missed nearer to the processor.
    Fills,
    /// The access stores data or fills a line.
    Both,
}

/// Returns the kinds of request that a cache can send on, given the kinds that arrive.
fn sent(tree: &TreeConfig, index: usize, arriving: &[bool], stores: Stores) -> Vec<Kind> {
    let cache = &tree.caches[index];
    let here = |kind: Kind| arriving[kind as usize];
    if tree.rules == Rules::Cachegrind {
        return Kind::ALL.iter().copied().filter(|&kind| here(kind)).collect();
    }
    let through = cache.write == WritePolicy::Through;
    let data = stores != Stores::Fills && here(Kind::Store);
    let fills = stores != Stores::Data && here(Kind::Store);
    let carried = here(Kind::Write) || here(Kind::Writeback);
    let mut kinds = Vec::new();
    let mut send = |kind: Kind, when: bool| {
        if when {
            kinds.push(kind);
        }
    };
    send(Kind::Fetch, here(Kind::Fetch));
    send(Kind::Load, here(Kind::Load));
    send(Kind::Store, fills || data && cache.allocate);
    send(Kind::Write, (data || here(Kind::Write)) && (through || !cache.allocate));
    send(Kind::Writeback, here(Kind::Writeback) && (through || !cache.allocate));
    // A line that leaves may have been made dirty by another agent that accessed this very cache.
    send(Kind::Writeback, !through && (data || carried || tree.agents != Agents::USER));
    send(Kind::Fill, here(Kind::Fill) || carried && cache.allocate);
    // A flush of a page takes dirty lines straight to memory.
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
    let count = |count: u64| Some(whole(count));
    visit(INSTRUCTIONS.name.into(), INSTRUCTIONS.unit, count(instructions));
    visit(REFERENCES.name.into(), REFERENCES.unit, count(tally.stream.references));
    if machine.has_cost() {
        let cycles = instructions + tally.waited + tally.stream.translation.all_cycles();
        visit(CYCLES.name.into(), CYCLES.unit, count(cycles));
        visit(CPI.name.into(), CPI.unit, ratio(cycles, instructions));
    }
    for (index, (cache, counters)) in tree.caches.iter().zip(&tally.caches).enumerate() {
        visit(
            CACHE_MPI.name.replace("<cache>", &cache.name),
            CACHE_MPI.unit,
            ratio(tally.demand_misses(index), instructions),
        );
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
            None if info.name.starts_with("stream") && cache.streams.is_none() => {}
            None => visit(format!("{}.{}", cache.name, info.name), info.unit, Some(whole(value))),
        });
    }
    each_of_agents(tree, tally, &mut visit);
    let reached = tally.demand_at_memory();
    visit(MEMORY_MPI.name.into(), MEMORY_MPI.unit, ratio(reached, instructions));
    tally.memory.each(|info, kind, value| {
        let kind = kind.expect("memory keeps its counts per kind");
        if reach.reaches(tree.caches.len(), kind) {
            visit(format!("memory.{}.{}", kind.name(), info.name), info.unit, Some(whole(value)));
        }
    });
    if let (Some(config), Some(counts)) = (machine.translation(), &tally.translation) {
        translation::each(machine, config, tally, counts, &mut visit);
    }
    if machine.looks_for_synonyms() {
        virtual_caches::each(tally, &mut visit);
    }
    if let (Some(config), Some(counts)) = (machine.softvm(), &tally.at_misses) {
        softvm::each(machine, config, tally, counts, &mut visit);
    } else {
        protection::each(machine, tally, &mut visit);
    }
    if machine.memory().frames.is_some() {
        visit(FAULTS.name.into(), FAULTS.unit, count(tally.faults));
        visit(EVICTIONS.name.into(), EVICTIONS.unit, count(tally.evictions));
    }
}

/// Visits the counts of agents other than the user, under names with the agent before the kind. The kinds are
/// the kinds of access that an agent can cause by accessing any cache, or memory.
fn each_of_agents(
    tree: &TreeConfig,
    tally: &Tally,
    visit: &mut impl FnMut(String, &'static str, Option<f64>),
) {
    if tree.agents == Agents::USER {
        return;
    }
    let reach = Reach::from_outside(tree);
    for (index, cache) in tree.caches.iter().enumerate() {
        for (agent, counters) in tally.agents.at(index) {
            counters.each(|info, kind, value| match kind {
                Some(kind) => {
                    let possible = match info.name {
                        "sent" => reach.leaves(index, kind),
                        "asked" => kind.is_demand(),
                        _ => reach.reaches(index, kind),
                    };
                    let name = format!("{}.{}.{}.{}", cache.name, agent.name(), kind.name(), info.name);
                    if possible {
                        visit(name, info.unit, Some(whole(value)));
                    } else {
                        assert_eq!(value, 0, "{name}: a kind that cannot be");
                    }
                }
                None => {
                    let name = format!("{}.{}.{}", cache.name, agent.name(), info.name);
                    visit(name, info.unit, Some(whole(value)));
                }
            });
        }
    }
    for (agent, counters) in tally.agents.at_memory() {
        counters.each(|info, kind, value| {
            let kind = kind.expect("memory keeps its counts per kind");
            let possible = match info.name {
                "asked" => matches!(kind, Kind::Fetch | Kind::Load | Kind::Write),
                _ => reach.reaches(tree.caches.len(), kind),
            };
            if possible {
                let name = format!("memory.{}.{}.{}", agent.name(), kind.name(), info.name);
                visit(name, info.unit, Some(whole(value)));
            }
        });
    }
}

/// Returns a count as a table's value. This is exact, because no run comes near 2⁵³.
pub(crate) fn whole(count: u64) -> f64 {
    assert!(count < 1 << 53, "a count of {count} does not fit a table's value exactly");
    count as f64
}

/// Returns a ratio; it is undefined, not 0, where nothing was executed.
pub(crate) fn ratio(count: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| whole(count) / whole(of))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use binhop_base::{Agent, FrameNo, LineAddr, MappingId, PageId, PageNo, Rng, Stream, Translation};
    use binhop_hw::{Computer, Counted, Tree};

    use super::*;
    use crate::machine::BUNDLED;
    use crate::results::tally::ByAgent;
    use crate::softvm::{SoftvmCounts, SweepCounts};
    use crate::translation::TranslationCounts;

    /// A machine that has what some bundled machines lack: a write buffer and stream buffers.
    const BUFFERED: &str = r#"memory = { size = "1MiB", page = "4KiB" }
        [cache.l1]
        serves = "all"
        size = "512B"
        line = "32B"
        write = "through"
        allocate = false
        next = "l2"
        [cache.l2]
        size = "2KiB"
        line = "64B"
        next = "memory"
        [write-buffer.l1]
        entries = 4
        drain = 6
        [stream-buffers.l1]"#;

    /// Returns every name with each of `values` in the place of `<key>`, where the name has this place.
    fn filled(names: Vec<String>, key: &str, values: &[&str]) -> Vec<String> {
        let fill = |name: String| {
            if name.contains(key) {
                values.iter().map(|value| name.replace(key, value)).collect()
            } else {
                vec![name]
            }
        };
        names.into_iter().flat_map(fill).collect()
    }

    #[test]
    fn every_listed_metric_is_reported_and_every_reported_metric_is_listed() {
        let listed = metrics();
        let mut missing: Vec<&str> = listed.iter().map(|info| info.name.as_str()).collect();
        // Bundled machines with an operating system are taken with translation, too.
        let plain = BUNDLED.iter().map(|it| (it.name, it.toml)).chain([("buffered", BUFFERED)]);
        let machines = plain.flat_map(|(name, toml)| {
            let with = |settings: &[&str]| {
                let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
                Machine::parse(toml, name, &settings)
            };
            let huge = with(&["translation=on", "placement.policy=buddy", "translation.huge-pages=2MiB"]);
            [Some(with(&[]).expect("a machine")), with(&["translation=on"]).ok(), huge.ok()]
        });
        for machine in machines.flatten() {
            let name = machine.name();
            let caches = &machine.tree().config().caches;
            let tlbs = machine.translation().map_or(&[][..], |translation| &translation.mmu.tlbs);
            let counts = machine.translation().map(|_| TranslationCounts::default());
            let at_misses = machine.softvm().map(|_| SoftvmCounts::default());
            let sweeps = machine.protection().map(|_| SweepCounts::default());
            let agents = machine.tree().config().agents;
            let none = vec![AgentCounters::default(); agents.others().count()];
            let by_cache = (0..caches.len()).map(|_| none.as_slice());
            let agents = ByAgent::of(agents, by_cache, &vec![AgentMemoryCounters::default(); none.len()]);
            let tally = Tally { translation: counts, at_misses, sweeps, agents, ..Tally::zero(caches.len()) };
            let places = [
                ("<cache>", caches.iter().map(|cache| cache.name.as_str()).collect()),
                ("<tlb>", tlbs.iter().map(|tlb| tlb.name.as_str()).collect()),
                ("<agent>", Agent::ALL.iter().map(|agent| agent.name()).collect()),
                ("<kind>", Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>()),
            ];
            let mut infos: BTreeMap<String, &MetricInfo> = BTreeMap::new();
            for info in &listed {
                let fill = |names, (key, values): &(&str, Vec<&str>)| filled(names, key, values);
                for full_name in places.iter().fold(vec![info.name.clone()], fill) {
                    infos.entry(full_name).or_insert(info);
                }
            }
            each(&machine, &tally, |reported, unit, _| {
                let found = infos.get(&reported);
                let info = found.unwrap_or_else(|| panic!("{name}: {reported} is reported and not listed"));
                assert_eq!(info.unit, unit, "{reported}");
                missing.retain(|name| *name != info.name);
            });
        }
        assert!(missing.is_empty(), "listed, and reported by no machine: {missing:?}; see each()");
    }

    /// `Identity` is a translation that maps every page once, to the frame of the page's number.
    struct Identity;

    impl Translation for Identity {
        fn page(&self, mapping: MappingId) -> PageId {
            PageId(mapping.0)
        }
        fn frame(&self, page: PageId) -> FrameNo {
            FrameNo(page.0.into())
        }
        fn virtual_page(&self, mapping: MappingId) -> PageNo {
            PageNo(mapping.0.into())
        }
    }

    fn tally(tree: &Tree, computer: &Computer) -> Tally {
        let caches = tree.config().caches.len();
        let mut tally = Tally::zero(caches);
        tally.caches = (0..caches).map(|cache| *computer.counters(cache)).collect();
        let by_agent = (0..caches).map(|cache| computer.by_agent(cache));
        tally.agents = ByAgent::of(tree.config().agents, by_agent, computer.back.memory_by_agent());
        tally
    }

    /// Returns the sum of the visited counts, and their names.
    fn visited(tree: &Tree, tally: &Tally) -> (u64, Vec<String>) {
        let (mut sum, mut names) = (0, Vec::new());
        each_of_agents(tree.config(), tally, &mut |name, _, value| {
            sum += value.expect("counts are defined") as u64;
            names.push(name);
        });
        (sum, names)
    }

    #[test]
    fn what_agents_do_is_reported_under_their_names_and_nothing_else_is() {
        let toml = r#"memory = { size = "1MiB", page = "4KiB" }
            placement = { policy = "random", pool = "1MiB" }
            [cache.l1]
            serves = "all"
            size = "512B"
            line = "32B"
            write = "WRITE"
            allocate = ALLOCATE
            next = "l2"
            [cache.l2]
            size = "2KiB"
            line = "64B"
            write = "WRITE2"
            allocate = ALLOCATE2
            next = "memory""#;
        let agents = [Agent::Walk, Agent::Device, Agent::Kernel];
        for choice in 0..16u32 {
            let write = |bit: u32| {
                if choice >> bit & 1 == 1 { "through" } else { "back" }
            };
            let allocate = |bit: u32| {
                if choice >> bit & 1 == 1 { "true" } else { "false" }
            };
            let toml = toml.replace("WRITE2", write(0)).replace("WRITE", write(1));
            let toml = toml.replace("ALLOCATE2", allocate(2)).replace("ALLOCATE", allocate(3));
            let machine = Machine::parse(&toml, "agents", &[]).expect("a machine");
            let config = machine.tree().config().clone();
            let tree = Tree::new(TreeConfig { agents: agents.into_iter().collect(), ..config });
            let mut computer = Computer::new(&tree, Rng::new(0));
            let draw = |index, which, below| {
                Rng::new(7).below(Stream::new(binhop_base::Domain::Test, which), index, below)
            };
            let run = |computer: &mut Computer, steps: std::ops::Range<u64>| {
                for step in steps {
                    let agent = agents[draw(step, 0, 3) as usize];
                    let kind = [Kind::Fetch, Kind::Load, Kind::Store][draw(step, 1, 3) as usize];
                    let at = LineAddr { id: draw(step, 2, 4) as u32, line: draw(step, 3, 64) as u32 };
                    match draw(step, 4, 3) {
                        2 => {
                            let kind = if kind == Kind::Store { Kind::Write } else { kind };
                            computer.ask_memory(agent, kind, at, 6);
                        }
                        cache => {
                            computer.ask(cache as usize, agent, kind, at, &Identity, &mut ());
                        }
                    }
                }
            };
            run(&mut computer, 0..1000);
            let half = tally(&tree, &computer);
            run(&mut computer, 1000..3000);
            computer.check().expect("the invariants hold");
            let end = tally(&tree, &computer);
            let counted: u64 = (0..2)
                .flat_map(|cache| computer.by_agent(cache))
                .map(|a| {
                    let kept = [a.accesses, a.misses, a.compulsory, a.sent, a.asked];
                    kept.iter().map(binhop_base::PerKind::total).sum::<u64>()
                })
                .chain(
                    Counted::memory_by_agent(&computer.back)
                        .iter()
                        .map(|a| a.accesses.total() + a.asked.total()),
                )
                .sum();
            let (sum, mut names) = visited(&tree, &end);
            assert_eq!(sum, counted);
            // Counts of two parts add up to the counts of the whole.
            let part = end.since(&half);
            assert_eq!(end.since(&part), half);
            assert!(visited(&tree, &part).0 < sum);
            assert!(names.iter().any(|name| name == "l2.walk.load.misses"));
            assert!(names.iter().any(|name| name == "memory.device.write.asked"));
            let number = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), number, "every name once");
            // A walk and a device execute no instruction, so only the kernel's misses count in MPI.
            let kernel = tree.config().agents.place(Agent::Kernel).expect("it is there");
            assert_eq!(end.demand_misses(1), computer.by_agent(1)[kernel].misses.demand());
            let at_memory = computer.back.memory_by_agent()[kernel].accesses.demand();
            assert_eq!(end.demand_at_memory(), at_memory);
        }
    }

    #[test]
    fn a_machine_of_the_user_alone_keeps_nothing_by_agent() {
        let tally = Tally::zero(2);
        assert_eq!((tally.agents.at(1).count(), tally.agents.at_memory().count()), (0, 0));
    }
}
