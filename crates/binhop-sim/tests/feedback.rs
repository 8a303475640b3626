//! These tests simulate mixes whose quanta are cycles of each lane: pieces change nothing, and each placement has a
//! stream of its own.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use binhop_base::{Class, Problem, Result};
use binhop_hw::Rules;
use binhop_record::{Faults, Latencies, Mix, MixInput, Mixing, Quantum};
use binhop_sim::{
    Machine, MemoryLimit, Outcome, RunOptions, SwitchOptions, estimated_memory, simulate, simulate_steered,
};
use binhop_trace::event::Cause;
use binhop_trace::source::{LaneView, Steered};
use binhop_trace::{EventBatch, Meta, Op, Source};
use proptest::prelude::*;

use crate::common::{Event, Fixed, SMALL, batch, cases, event, inclusive, machine, reference};

fn mix(programs: &[EventBatch], mixing: Mixing) -> Mix {
    let input = |(number, events): (usize, &EventBatch)| {
        let events = events.clone();
        MixInput {
            name: format!("p{number}"),
            open: Box::new(move || Ok(Box::new(Fixed::new(events.clone(), 64)))),
            length: None,
        }
    };
    Mix::new(programs.iter().enumerate().map(input).collect(), mixing).unwrap()
}

fn steered(
    machines: &[Machine],
    programs: &[EventBatch],
    mixing: Mixing,
    options: &RunOptions,
) -> Result<Vec<Outcome>> {
    let open = || Ok(Box::new(mix(programs, mixing)) as Box<dyn Steered>);
    simulate_steered(machines, &open, options, None, &mut |_| Ok(()))
}

fn tables(outcome: &Outcome) -> Vec<RecordBatch> {
    let Outcome { results, series, processes, placements, pieces, switches, .. } = outcome;
    let [series, processes] = [series, processes].map(|table| table.whole().unwrap());
    let mut all = vec![results.clone(), series, processes];
    all.extend(placements.clone());
    all.extend(pieces.as_ref().map(|pieces| pieces.whole().unwrap()));
    let switches = switches.iter().flat_map(|tables| [&tables.costs, &tables.curves, &tables.pages]);
    all.extend(switches.cloned());
    all
}

fn all_tables(outcomes: &[Outcome]) -> Vec<Vec<RecordBatch>> {
    outcomes.iter().map(tables).collect()
}

/// Returns machines with costs. Their first-level caches are small, and some machines have write buffers.
fn with_costs() -> Vec<Machine> {
    (0..SMALL.len()).map(machine).filter(Machine::has_cost).collect()
}

/// Returns a machine of scarce memory whose kernel acts at switches, system calls and page faults.
fn with_kernel() -> Machine {
    let scarce = SMALL.iter().find(|(name, _)| name.contains("write buffer and costs")).unwrap().1;
    let footprint = |occasion, code| {
        format!("[kernel.{occasion}]\ncode = \"{code}B\"\ndata = \"64B\"\nstored = \"32B\"\n")
    };
    let kernel = [("switch", 300), ("fault", 200), ("syscall", 40)].map(|(at, code)| footprint(at, code));
    Machine::parse(&format!("{scarce}\n{}", kernel.concat()), "with a kernel", &[]).unwrap()
}

fn costly() -> impl Strategy<Value = Machine> {
    prop_oneof![2 => prop::sample::select(with_costs()), 2 => inclusive(), 1 => Just(with_kernel())]
}

fn programs() -> impl Strategy<Value = Vec<EventBatch>> {
    let program =
        prop_oneof![prop::collection::vec(event(), 1..120), prop::collection::vec(reference(), 1..120),];
    prop::collection::vec(program.prop_map(|events| batch(&events)), 1..4)
}

fn mixing(quantum: u64, latency: u64) -> Mixing {
    let latencies = Latencies::all(latency);
    Mixing { latencies, faults: Faults::First, ..Mixing::new(Quantum::Cycles(quantum)) }
}

/// Returns the value of a metric under a seed.
fn value(outcome: &Outcome, metric: &str, seed: u64) -> f64 {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt64Type};
    let results = &outcome.results;
    let metrics = results["metric"].as_string::<i32>();
    let (seeds, values) =
        (results["seed"].as_primitive::<UInt64Type>(), results["value"].as_primitive::<Float64Type>());
    let row = (0..results.num_rows()).find(|&row| metrics.value(row) == metric && seeds.value(row) == seed);
    values.value(row.unwrap())
}

/// The operation of a row, and its first argument.
type KeptRow = (u8, Option<u64>);

/// `Kept` is a source that keeps what it yields.
struct Kept {
    mix: Mix,
    rows: Arc<Mutex<Vec<KeptRow>>>,
}

impl Source for Kept {
    fn name(&self) -> &str {
        self.mix.name()
    }
    fn meta(&self) -> &Meta {
        self.mix.meta()
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        self.mix.next_batch()
    }
}

impl Steered for Kept {
    fn needs_lane(&self) -> bool {
        self.mix.needs_lane()
    }
    fn cycles_of_quantum(&self) -> Option<u64> {
        self.mix.cycles_of_quantum()
    }
    fn next_piece(&mut self, lane: &mut dyn LaneView) -> Result<Option<EventBatch>> {
        let piece = self.mix.next_piece(lane)?;
        let rows = piece.iter().flat_map(|rows| (0..rows.len()).map(|row| (rows.op()[row], rows.arg0(row))));
        self.rows.lock().unwrap().extend(rows);
        Ok(piece)
    }
}

/// Each return of a page is one switch with the cause page fault. The programs map no files, so nothing else faults.
#[test]
fn every_return_of_a_page_blocks() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt32Type;
    let scarce = "level 1 within the page, memory scarce";
    let scarce = machine(SMALL.iter().position(|(name, _)| *name == scarce).unwrap());
    let program = |salt: u64| {
        let load = |n: u64| Event::Data {
            op: Op::Load,
            page: (n.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * salt) >> 40) as u8 % 30,
            offset: 0,
            size: 8,
        };
        batch(&(0..500).map(load).collect::<Vec<_>>())
    };
    let programs = [program(0), program(7)];
    let all = Mixing {
        faults: Faults::All,
        latencies: Latencies::all(3),
        ..Mixing::new(Quantum::Instructions(20))
    };
    let rows = Arc::new(Mutex::new(Vec::new()));
    let open =
        || Ok(Box::new(Kept { mix: mix(&programs, all), rows: Arc::clone(&rows) }) as Box<dyn Steered>);
    let options = RunOptions { log: true, ..RunOptions::default() };
    let outcomes = simulate_steered(&[scarce], &open, &options, None, &mut |_| Ok(())).unwrap();
    let placements = outcomes[0].placements.as_ref().unwrap();
    let pages = placements["page"].as_primitive::<UInt32Type>();
    let mut seen = BTreeSet::new();
    let returns = pages.values().iter().filter(|&&page| !seen.insert(page)).count();
    let rows = rows.lock().unwrap();
    let fault = Some(Cause::PageFault as u64);
    let blocked = rows.iter().filter(|&&(op, cause)| op == Op::Switch as u8 && cause == fault).count();
    // The programs share no page, so each page that has blocked returns at the reference that waited for it.
    assert!(returns > 300);
    assert_eq!(blocked, returns);
}

proptest! {
    #![proptest_config(cases(24, 96))]

    /// Rows that surely fit in a quantum are simulated together, with all skips and fast paths. The stepper simulates
    /// one row after the other, and gives the same result.
    #[test]
    fn pieces_equal_one_row_after_the_other(
        machine in costly(),
        programs in programs(),
        quantum in prop_oneof![1u64..200, 200u64..20_000],
        latency in 0u64..2000,
        (warmup, interval) in (0u64..3, prop::option::of(1u64..200)),
        (switches, kernel) in (any::<bool>(), any::<bool>()),
    ) {
        let options = RunOptions {
            seeds: vec![0, 5],
            warmup,
            interval,
            log: true,
            kernel: kernel && machine.tree().config().rules == Rules::Lines,
            switches: switches.then_some(SwitchOptions { raw: true }),
            ..RunOptions::default()
        };
        let one_by_one = RunOptions { share: false, ..options.clone() };
        let machines = [machine];
        let run = |options| steered(&machines, &programs, mixing(quantum, latency), options);
        match (run(&options), run(&one_by_one)) {
            (Ok(pieces), Ok(rows)) => prop_assert_eq!(all_tables(&pieces), all_tables(&rows)),
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{:?} {:?}", one.err(), other.err()),
        }
    }

    /// Pieces also equal single rows if every fault blocks.
    #[test]
    fn pieces_equal_rows_where_every_fault_blocks(
        machine in prop_oneof![prop::sample::select((0..SMALL.len()).map(machine).collect::<Vec<_>>()), inclusive()],
        programs in programs(),
        quantum in 1u64..500,
        in_cycles in any::<bool>(),
        latency in 0u64..200,
    ) {
        let unit = if in_cycles && machine.has_cost() { Quantum::Cycles } else { Quantum::Instructions };
        let mixing = Mixing { quantum: unit(quantum), faults: Faults::All, ..mixing(quantum, latency) };
        let options = RunOptions { seeds: vec![0, 5], log: true, ..RunOptions::default() };
        let one_by_one = RunOptions { share: false, ..options.clone() };
        let machines = [machine];
        let run = |options| steered(&machines, &programs, mixing, options);
        match (run(&options), run(&one_by_one)) {
            (Ok(pieces), Ok(rows)) => prop_assert_eq!(all_tables(&pieces), all_tables(&rows)),
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{:?} {:?}", one.err(), other.err()),
        }
    }

    /// Where nothing is evicted, every fault is a first touch.
    #[test]
    fn where_nothing_is_evicted_all_faults_are_first_touches(programs in programs(), quantum in 1u64..400, latency in 0u64..500) {
        let ample = Machine::parse(FREE, "ample", &[]).unwrap();
        let options = RunOptions { seeds: vec![0, 1], log: true, ..RunOptions::default() };
        let first = Mixing { quantum: Quantum::Instructions(quantum), ..mixing(quantum, latency) };
        let plain = simulate(&ample, Box::new(mix(&programs, first)), &options, None, &mut |_| Ok(()));
        let steered = steered(&[ample], &programs, Mixing { faults: Faults::All, ..first }, &options);
        match (plain, steered) {
            (Ok(plain), Ok(steered)) => prop_assert_eq!(tables(&plain), tables(&steered[0])),
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{:?} {:?}", one.err(), other.err()),
        }
    }

    /// Where a miss costs nothing, a quantum in cycles is a quantum in instructions.
    #[test]
    fn where_nothing_waits_cycles_are_instructions(programs in programs(), quantum in 1u64..400, latency in 0u64..500) {
        let free = Machine::parse(FREE, "free", &[]).unwrap();
        let options = RunOptions { seeds: vec![0, 1, 2], interval: Some(50), log: true, ..RunOptions::default() };
        let in_cycles = mixing(quantum, latency);
        let in_instructions = Mixing { quantum: Quantum::Instructions(quantum), ..in_cycles };
        let plain = simulate(&free, Box::new(mix(&programs, in_instructions)), &options, None, &mut |_| Ok(()));
        let steered = steered(&[free], &programs, in_cycles, &options);
        match (plain, steered) {
            (Ok(plain), Ok(steered)) => prop_assert_eq!(tables(&plain), tables(&steered[0])),
            (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
            (one, other) => prop_assert!(false, "{:?} {:?}", one.err(), other.err()),
        }
    }
}

const FREE: &str = r#"
memory = { size = "1MiB", page = "4KiB" }
placement = { policy = "random", pool = "64KiB" }
[cache.l1i]
serves = "fetch"
size = "1KiB"
line = "32B"
next = "memory"
[cache.l1d]
serves = "data"
size = "8KiB"
line = "32B"
next = "memory"
[cost]
memory = 0
"#;

/// Returns two programs that miss often.
fn missing() -> Vec<EventBatch> {
    let program = |first: u8| {
        let fetch = |page| Event::Fetch { page, offset: 0, count: 4 };
        let data = |page| Event::Data { op: Op::Store, page, offset: 8, size: 8 };
        let rows = (0..400u16).flat_map(|n| {
            let page = first + (n % 7) as u8;
            [fetch(page % 12), data(page + (n % 5) as u8)]
        });
        batch(&rows.collect::<Vec<_>>())
    };
    vec![program(0), program(3)]
}

#[test]
fn each_machine_and_seed_has_the_stream_that_it_has_alone() {
    let machines = &with_costs()[..2];
    let options = |seeds: &[u64], threads| RunOptions {
        seeds: seeds.to_vec(),
        threads,
        interval: Some(100),
        ..RunOptions::default()
    };
    let run = |machines: &[Machine], options: RunOptions| {
        steered(machines, &missing(), mixing(300, 50), &options).unwrap()
    };
    let all = run(machines, options(&[0, 1, 2], 3));
    assert_eq!(all_tables(&all), all_tables(&run(machines, options(&[0, 1, 2], 1))));
    for (machine, all) in machines.iter().zip(&all) {
        for seed in [0, 1, 2] {
            let alone = run(std::slice::from_ref(machine), options(&[seed], 1));
            for metric in ["cycles", "references", "instructions"] {
                assert_eq!(value(all, metric, seed), value(&alone[0], metric, seed));
            }
        }
        let note = all.notes.iter().filter(|note| note.contains("300 cycles")).count();
        assert_eq!(note, 1, "{:?}", all.notes);
    }
}

#[test]
fn a_length_ends_a_steered_run_where_it_ends_a_plain_run() {
    let machines = with_costs();
    let options = RunOptions { length: Some(777), ..RunOptions::default() };
    for machine in &machines {
        let run = steered(std::slice::from_ref(machine), &missing(), mixing(500, 50), &options).unwrap();
        let references = value(&run[0], "references", 0);
        assert!((774.0..=777.0).contains(&references), "{references}");
    }
    let options = RunOptions { instructions: Some(400), ..RunOptions::default() };
    let run = steered(&machines[..1], &missing(), mixing(500, 50), &options).unwrap();
    assert_eq!(value(&run[0], "instructions", 0), 400.0);
}

fn refused(done: Result<Vec<Outcome>>) -> Box<Problem> {
    done.expect_err("the request is refused")
}

#[test]
fn cycles_need_costs() {
    let without = machine(0);
    assert!(!without.has_cost());
    let problem =
        refused(steered(std::slice::from_ref(&without), &missing(), mixing(300, 50), &RunOptions::default()));
    assert_eq!(problem.value, "300 cycles");
    assert!(problem.place.contains(without.name()) && problem.rule.contains("[cost]"), "{problem}");
}

#[test]
fn a_steered_run_keeps_to_the_memory_and_stops_when_it_must() {
    let machines = &with_costs()[..1];
    let options = RunOptions { seeds: (0..4).collect(), threads: 4, ..RunOptions::default() };
    let whole = steered(machines, &missing(), mixing(300, 50), &options).unwrap();
    let one = RunOptions { seeds: vec![0], threads: 1, ..RunOptions::default() };
    let bytes = estimated_memory(machines, &one, 1, [1 << 14, 1, 0]);
    let limited = |bytes| RunOptions {
        memory: Some(MemoryLimit { bytes, source: "a test".to_string() }),
        ..options.clone()
    };
    let within = steered(machines, &missing(), mixing(300, 50), &limited(bytes * 3 / 2)).unwrap();
    assert_eq!(all_tables(&whole), all_tables(&within));
    let problem = refused(steered(machines, &missing(), mixing(300, 50), &limited(1 << 10)));
    assert!(problem.to_string().contains("memory"), "{problem}");
    let open = || Ok(Box::new(mix(&missing(), mixing(300, 50))) as Box<dyn Steered>);
    let stopped = simulate_steered(machines, &open, &options, None, &mut |_| Err(Problem::interrupted()));
    assert_eq!(stopped.err().unwrap().class, Class::Interrupted);
}

#[test]
fn machines_whose_waits_are_not_bounded_are_refused_for_their_own_reason() {
    for (machine, setting, value, words) in [
        ("jm97", "translation=on", "translation", "a walk is not bounded"),
        ("softvm", "translation=on", "translation", "a walk is not bounded"),
        (
            "jm97",
            "translation.line-protection=true",
            "translation.line-protection",
            "a sweep of lines is not bounded",
        ),
    ] {
        let machine = Machine::load(machine, &[setting.to_string()]).unwrap();
        let refused = steered(&[machine], &[batch(&[])], mixing(9_000, 1), &RunOptions::default());
        let problem = refused.err().unwrap();
        assert!(problem.value == value && problem.rule.contains(words), "{setting}: {problem}");
    }
}
