//! `compare` runs a machine with synthetic units in several ways, and compares the runs with each other and
//! with the oracle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use binhop_hw::{CostRule, TagBy};
use binhop_oracle::machine as oracle;
use binhop_oracle::placements::{self, Memory};
use binhop_sim::occasion::Subscription;
use binhop_sim::unit::{Unit, Units};
use binhop_sim::{Machine, Outcome, RunOptions, simulate};
use binhop_trace::{EventBatch, Op};

use super::synthetic::{LOOK, Log, OWNED, PAGE, Seen, Synthetic};
use crate::caches::for_oracle;
use crate::common::{Event, Fixed, batch, run};

/// Returns the events of a batch in the oracle's form.
pub fn events_of(batch: &EventBatch) -> Vec<oracle::Event> {
    use oracle::Event::{Data, Device, End, Fetch, Fork, Map, Switch, Syscall, Unmap};
    let mut events = Vec::new();
    let mut running = 0;
    for row in 0..batch.len() {
        let (addr, size) = (batch.addr()[row], batch.size()[row]);
        let (count, bytes) = (u64::from(batch.count()[row]), u64::from(size));
        let data = |load, store| Data { addr, size: bytes, load, store };
        events.push(match Op::from_code(batch.op()[row]).unwrap() {
            Op::Fetch => Fetch { addr, size: bytes, count },
            Op::Load => data(true, false),
            Op::Store => data(false, true),
            Op::Modify => data(true, true),
            Op::Switch => {
                running = addr as u32;
                Switch { asid: running }
            }
            Op::Syscall => Syscall { number: count as u32 },
            Op::DmaRead | Op::DmaWrite => {
                let writes = batch.op()[row] == Op::DmaWrite as u8;
                Device { device: count as u32, writes, request: batch.arg0(row).unwrap(), addr, bytes: size }
            }
            Op::Map => {
                let shared = size & binhop_trace::event::map_flags::SHARED != 0;
                let segment = batch.arg0(row).map(|segment| (segment, batch.arg1(row).unwrap_or(0)));
                Map { start: addr, pages: count, shared, segment }
            }
            Op::Unmap => Unmap { start: addr, pages: count },
            Op::Fork => Fork { child: addr as u32, parent: batch.arg0(row).map_or(running, |p| p as u32) },
            Op::Exec | Op::Exit => End { asid: addr as u32 },
            _ => continue,
        });
    }
    events
}

pub fn oracle_machine(machine: &Machine) -> oracle::Machine {
    let config = machine.tree().config();
    oracle::Machine {
        caches: for_oracle::configs(config),
        serving: [config.fetch, config.data],
        page: PAGE,
        frames: machine.memory().frames,
        memory_cost: config.memory_cost,
        add_costs: config.cost_rule == CostRule::Add,
    }
}

pub fn oracle_memory(machine: &Machine, seed: u64) -> Option<Box<dyn Memory>> {
    let (policy, settings) = (machine.placement().policy, &machine.placement().settings);
    let frames = machine.memory().frames?;
    let settings = placements::Settings {
        frames,
        pool: settings.pool as usize,
        bins: settings.bins.bytes(),
        colors: settings.colors,
        by_space: true,
        pid_hash: settings.pid_hash,
        fragmentation: settings.fragmentation.into(),
    };
    let memory = placements::memory(policy, &settings, seed);
    Some(memory.unwrap_or_else(|| panic!("the oracle knows no policy {policy}")))
}

/// `Logs` holds what units have seen, by machine and seed.
#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<BTreeMap<(String, u64), Log>>>);

impl Logs {
    /// Returns synthetic units that write into these logs.
    pub fn units(&self, subscription: &Subscription) -> Option<Units> {
        let (logs, asked) = (self.clone(), subscription.clone());
        let make = move |machine: &Machine, seed| -> Box<dyn Unit> {
            let log = Log::default();
            logs.0.lock().unwrap().insert((machine.name().to_string(), seed), Arc::clone(&log));
            Box::new(Synthetic::new(machine.tree(), &asked, seed, log))
        };
        Some(Units::new(subscription.clone(), Arc::new(make)))
    }

    pub fn of(&self, machine: &Machine, seed: u64) -> Vec<Seen> {
        let logs = self.0.lock().unwrap();
        logs[&(machine.name().to_string(), seed)].lock().unwrap().clone()
    }
}

/// Runs a machine with synthetic units. Returns their logs, and the outcome.
pub fn run_with(
    machine: &Machine,
    events: &EventBatch,
    step: usize,
    subscription: &Subscription,
    options: &RunOptions,
) -> (Logs, Outcome) {
    let logs = Logs::default();
    let outcome =
        run(machine, events, step, &RunOptions { units: logs.units(subscription), ..options.clone() });
    (logs, outcome)
}

/// Returns the counts of one seed that are not 0, by name.
pub fn counts_of(outcome: &Outcome, seed: u64) -> BTreeMap<String, u64> {
    let table = &outcome.results;
    let column = |name: &str| table.column_by_name(name).unwrap();
    let (names, seeds) = (column("metric").as_string::<i32>(), column("seed").as_primitive::<UInt64Type>());
    let values = column("value").as_primitive::<Float64Type>();
    let ratios = ["mpi", "cpi"];
    (0..table.num_rows())
        .filter(|&row| seeds.value(row) == seed)
        .map(|row| (names.value(row).to_string(), row))
        .filter(|(name, _)| !ratios.contains(&name.rsplit('.').next().unwrap()))
        // The oracle does not know what a mapping allows.
        .filter(|(name, _)| name != "translation.aliases.writable")
        .map(|(name, row)| (name, values.value(row) as u64))
        .filter(|&(_, value)| value > 0)
        .collect()
}

/// Returns the name of a count. The agent `user` has no part in names.
pub fn named(mut name: String, agent: &str, kind: Option<&str>, what: &str) -> String {
    for part in [Some(agent).filter(|&agent| agent != "user"), kind, Some(what)].into_iter().flatten() {
        name = name + "." + part;
    }
    name
}

/// Returns the counts of the oracle that are not 0, under the same names.
pub fn counts_of_oracle(machine: &Machine, lane: &oracle::Lane, stream: [u64; 2]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (config, cache) in machine.tree().config().caches.iter().zip(&lane.tree.caches) {
        for (&(agent, what, kind), &value) in &cache.counts {
            counts.insert(named(config.name.clone(), agent, kind, what), value);
        }
    }
    for (&(agent, what, kind), &value) in &lane.tree.memory_counts {
        counts.insert(named("memory".into(), agent, Some(kind), what), value);
    }
    counts.insert("cycles".into(), lane.tree.now);
    counts.insert("instructions".into(), stream[0]);
    counts.insert("references".into(), stream[1]);
    if let Some(all) = &lane.synonyms {
        counts.insert("translation.aliases".into(), all.aliases);
        counts.insert("translation.synonyms".into(), all.synonyms);
    }
    if machine.memory().frames.is_some() {
        counts.insert("os.faults".into(), lane.faults);
        counts.insert("os.evictions".into(), lane.evictions);
    }
    counts.retain(|_, value| *value > 0);
    counts
}

pub fn assert_same_logs(a: &[Seen], b: &[Seen], what: &str) {
    if let Some(at) = (0..a.len().max(b.len())).find(|&at| a.get(at) != b.get(at)) {
        let from = at.saturating_sub(5);
        panic!("{what}: entry {at}: {:?} against {:?}; before: {:?}", a.get(at), b.get(at), &a[from..at]);
    }
}

pub fn compare(machine: &Machine, subscription: &Subscription, events: &[Event], step: usize) {
    let events = batch(&[events, &[Event::Syscall(LOOK)]].concat());
    let seeds = vec![3, 4];
    let shared = RunOptions { seeds: seeds.clone(), ..RunOptions::default() };
    let last = machine.tree().config().caches[machine.last_level()].name.clone();
    let slow = oracle_machine(machine);
    let config = machine.tree().config();
    let lines = slow.serving.map(|cache| config.caches[cache].line.bytes());
    let listed = events_of(&events);
    let names = if slow.frames.is_none() {
        oracle::PageNames::Physical
    } else if config.caches.iter().any(|cache| cache.tag == TagBy::Global) {
        oracle::PageNames::Global
    } else {
        oracle::PageNames::Mapping
    };
    let steps = oracle::Steps::new(&listed, PAGE, lines, OWNED, names);
    if steps.conflict {
        let options = RunOptions { units: Logs::default().units(subscription), ..shared };
        let source = Box::new(Fixed::new(events, step));
        let problem = simulate(machine, source, &options, None, &mut |_| Ok(())).unwrap_err();
        assert!(problem.place.ends_with(": a global address"), "{problem}");
        return;
    }
    let (logs, outcome) = run_with(machine, &events, step, subscription, &shared);
    for (what, options) in [
        ("neither shared nor collapsed", RunOptions { share: false, ..shared.clone() }),
        ("collapsed, not shared", RunOptions { watch: Some(last), ..shared.clone() }),
    ] {
        let (other, plain) = run_with(machine, &events, 1000, subscription, &options);
        for &seed in &seeds {
            let what = format!("seed {seed}, shared and collapsed, or {what}");
            assert_same_logs(&logs.of(machine, seed), &other.of(machine, seed), &what);
        }
        assert!(outcome.results == plain.results, "results, {what}: {:?}", {
            let (a, b) = (counts_of(&outcome, 3), counts_of(&plain, 3));
            a.iter()
                .filter(|&(name, value)| b.get(name) != Some(value))
                .map(|(n, v)| (n.clone(), *v))
                .collect::<Vec<_>>()
        });
        let tables =
            |outcome: &Outcome| [&outcome.series, &outcome.processes].map(|table| table.whole().unwrap());
        assert!(tables(&outcome) == tables(&plain), "{what}");
    }
    let executed =
        |event: &oracle::Event| if let oracle::Event::Fetch { count, .. } = event { *count } else { 0 };
    let instructions: u64 = listed.iter().map(executed).sum();
    let data = listed.iter().filter(|event| matches!(event, oracle::Event::Data { .. })).count() as u64;
    for &seed in &seeds {
        let log = Log::default();
        let mut unit = Synthetic::new(machine.tree(), subscription, seed, Arc::clone(&log));
        let mut lane = oracle::Lane::new(&slow, &steps, OWNED, oracle_memory(machine, seed), seed);
        lane.run(&steps, &mut unit);
        assert_same_logs(
            &logs.of(machine, seed),
            &log.lock().unwrap(),
            &format!("seed {seed}, against the oracle"),
        );
        let expected = counts_of_oracle(machine, &lane, [instructions, instructions + data]);
        let counted = counts_of(&outcome, seed);
        let differing: Vec<_> = expected
            .keys()
            .chain(counted.keys())
            .filter(|&name| expected.get(name) != counted.get(name))
            .map(|name| (name, counted.get(name), expected.get(name)))
            .collect();
        assert!(differing.is_empty(), "seed {seed}: (metric, counted, oracle): {differing:?}");
    }
}
