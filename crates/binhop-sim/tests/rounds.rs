//! These tests simulate seeds that do not fit into memory at once in rounds, and expect equal results.
#![allow(missing_docs, clippy::unwrap_used)]

use std::cell::Cell;

use crate::common::{Event, Fixed, SMALL, batch, behind_warm_up, cases, event, inclusive, machine};
use crate::switches::may_hold_a_line_twice;
use arrow_array::RecordBatch;
use binhop_base::{Class, Problem, Result};
use binhop_hw::Rules;
use binhop_sim::{
    Machine, MemoryLimit, Outcome, Progress, RunOptions, SwitchOptions, SwitchTables, TraceInput,
    estimated_memory, explain, simulate_all, simulate_in_rounds,
};
use binhop_trace::{EventBatch, Op, Source};
use proptest::prelude::*;

/// The assumptions about a trace before it is read.
const GUESS: [u64; 3] = [1 << 14, 1, 0];

fn options(seeds: u64) -> RunOptions {
    RunOptions { seeds: (0..seeds).collect(), warmup: 40, log: true, ..RunOptions::default() }
}

/// Returns the options with memory for this many seeds at once, as estimated before the trace is read.
fn limited(machines: &[Machine], options: &RunOptions, at_once: usize) -> RunOptions {
    let bytes = estimated_memory(machines, options, at_once, GUESS);
    RunOptions { memory: Some(MemoryLimit { bytes, source: "a test".to_string() }), ..options.clone() }
}

fn source(events: &EventBatch) -> Box<dyn Source> {
    Box::new(Fixed::new(events.clone(), 100))
}

fn whole(machines: &[Machine], events: &EventBatch, options: &RunOptions) -> Vec<Outcome> {
    simulate_all(machines, source(events), options, None, &mut |_| Ok(())).unwrap()
}

/// Returns the outcomes, and how often the trace was read.
fn in_rounds(
    machines: &[Machine],
    events: &EventBatch,
    options: &RunOptions,
) -> Result<(Vec<Outcome>, usize)> {
    let read = Cell::new(1);
    let mut open = || {
        read.set(read.get() + 1);
        Ok(source(events))
    };
    let input = TraceInput { source: source(events), again: Some(&mut open) };
    let outcomes = simulate_in_rounds(machines, input, options, None, &mut |_| Ok(()))?;
    Ok((outcomes, read.get()))
}

fn reported(outcome: &Outcome) -> ([Option<RecordBatch>; 9], &[String], &str) {
    let Outcome { results, series, processes, placements, pages, switches, pieces, notes, machine } = outcome;
    let [series, processes] = [series, processes].map(|table| Some(table.whole().unwrap()));
    let pieces = pieces.as_ref().map(|table| table.whole().unwrap());
    let of_switches =
        |table: fn(&SwitchTables) -> &RecordBatch| switches.as_ref().map(|all| table(all).clone());
    let [costs, curves, code] =
        [of_switches(|all| &all.costs), of_switches(|all| &all.curves), of_switches(|all| &all.pages)];
    let plain = [Some(results.clone()), series, processes, placements.clone(), pages.clone()];
    let [results, series, processes, placements, pages] = plain;
    let tables = [results, series, processes, placements, pages, costs, curves, code, pieces];
    (tables, notes, machine)
}

fn assert_same(one: &[Outcome], other: &[Outcome]) {
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(other) {
        assert_eq!(reported(one), reported(other));
    }
}

/// Returns the events, preceded by enough loads to end the warm-up.
fn warm(events: &[Event]) -> EventBatch {
    behind_warm_up(options(1).warmup, events)
}

/// Returns loads of this many pages, one after the other.
fn walk(pages: u64) -> EventBatch {
    let mut rows = binhop_trace::event::EventBuilder::default();
    (0..pages).for_each(|page| rows.push(Op::Load, page << 12, 8, 1));
    rows.finish()
}

fn refused(result: Result<(Vec<Outcome>, usize)>) -> Box<Problem> {
    let problem = result.unwrap_err();
    assert_eq!(problem.class, Class::Request, "{problem}");
    problem
}

proptest! {
    #![proptest_config(cases(12, 32))]

    #[test]
    fn rounds_are_one_run_to_the_bit(
        number in 0..SMALL.len(), at_once in 1usize..5, watch: bool, switches: bool,
        events in prop::collection::vec(event(), 1..600),
    ) {
        let (machines, events) = ([machine(number)], warm(&events));
        let watch = watch.then(|| "l2".to_string());
        // Cachegrind's rules leave no place for private caches.
        let switches = (switches && machines[0].tree().config().rules != Rules::Cachegrind
            && !may_hold_a_line_twice(number))
            .then_some(SwitchOptions { raw: true });
        let options = RunOptions { interval: Some(300), watch, switches, ..options(5) };
        // Intervals are not guessed for a trace of unknown length.
        let (outcomes, read) = in_rounds(&machines, &events, &limited(&machines, &options, at_once)).unwrap();
        prop_assert!(read >= 5usize.div_ceil(at_once), "{read} rounds of {at_once}");
        assert_same(&whole(&machines, &events, &options), &outcomes);
    }

    #[test]
    fn machines_that_share_stages_are_done_in_rounds_too(
        machine in inclusive(), number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..600),
    ) {
        let (machines, events) = ([machine, crate::common::machine(number), crate::common::machine(0)], warm(&events));
        let options = options(4);
        let (outcomes, read) = in_rounds(&machines, &events, &limited(&machines, &options, 2)).unwrap();
        // More processes than were guessed may take more rounds.
        prop_assert!(read >= 2, "{read}");
        assert_same(&whole(&machines, &events, &options), &outcomes);
    }
}

/// The notes include the events of a cache or a page that happen in the last round only, and the events that
/// never happen.
#[test]
fn notes_speak_of_all_rounds() {
    let machines = [machine(1)];
    let events = warm(&[]);
    let options = options(3);
    let (outcomes, read) = in_rounds(&machines, &events, &limited(&machines, &options, 1)).unwrap();
    assert_eq!(read, 3);
    let notes = outcomes[0].notes.join("\n");
    assert!(notes.contains("it is simulated once for all seeds"), "{notes}");
    assert_same(&whole(&machines, &events, &options), &outcomes);
}

/// If one seed of all machines does not fit, each machine is simulated by itself.
#[test]
fn machines_are_done_one_by_one_if_they_must() {
    let machines = [0, 1, 2].map(machine);
    let events = warm(&[]);
    let options = options(2);
    // The tables of all machines stay in memory, whichever machine is simulated.
    let held = [64, 4, 0];
    let tables = |machines: &[Machine]| {
        estimated_memory(machines, &options, 0, held)
            - estimated_memory(machines, &RunOptions { seeds: vec![], ..options.clone() }, 0, held)
    };
    let alone = machines.each_ref().map(std::slice::from_ref);
    let largest = alone.map(|one| estimated_memory(one, &options, 1, held) - tables(one)).into_iter().max();
    let bytes = largest.unwrap() + tables(&machines);
    let all = estimated_memory(&machines, &options, 1, [1, 1, 0]);
    assert!(bytes < all, "one seed of all fits: it takes {all} B of {bytes} B");
    let small =
        RunOptions { memory: Some(MemoryLimit { bytes, source: "a test".to_string() }), ..options.clone() };
    let (outcomes, read) = in_rounds(&machines, &events, &small).unwrap();
    assert!(read >= 3, "{read}");
    assert_same(&whole(&machines, &events, &options), &outcomes);
}

/// If a trace has more pages than was guessed, the round is given up and repeated with fewer seeds.
#[test]
fn a_round_that_outgrows_its_memory_is_done_again_with_fewer_seeds() {
    let ample = ["memory.size=256MiB".to_string()];
    let machines = [Machine::parse(&machine(0).resolved(), "ample", &ample).unwrap()];
    let events = walk(20_000);
    let options = RunOptions { warmup: 0, log: false, ..options(40) };
    let limited = limited(&machines, &options, 40);
    let (outcomes, read) = in_rounds(&machines, &events, &limited).unwrap();
    assert!((3..=13).contains(&read), "{read}");
    assert_same(&whole(&machines, &events, &options), &outcomes);
    // With memory for one seed as guessed, the trace does not fit at all.
    let one = RunOptions { seeds: vec![0], ..options.clone() };
    let problem = refused(in_rounds(&machines, &events, &self::limited(&machines, &one, 1)));
    assert!(problem.to_string().contains("pages in 1 address space,"), "{problem}");
}

#[test]
fn a_trace_that_is_read_once_is_refused_with_the_number_of_seeds_that_fit() {
    let machines = [machine(0)];
    let (events, options) = (warm(&[]), options(8));
    let limited = limited(&machines, &options, 3);
    let once =
        |options: &RunOptions| simulate_all(&machines, source(&events), options, None, &mut |_| Ok(()));
    let problem = refused(once(&limited).map(|outcomes| (outcomes, 1)));
    assert_eq!(problem.value, "8 seeds");
    assert!(problem.remedy.starts_with("ask for 3 seeds or fewer"), "{problem}");
    once(&RunOptions { seeds: vec![0, 1, 2], ..limited }).unwrap();
}

/// 64 GiB of lines of 32 bytes, at 8 bytes each, need 16 GiB. With 1 GiB, a cache of 2 GiB fits beside the
/// rest.
#[test]
fn a_cache_that_fits_nowhere_is_refused_before_it_is_made() {
    let set =
        |setting: &str| Machine::parse(&machine(1).resolved(), "large", &[setting.to_string()]).unwrap();
    let refuse = |setting: &str, bytes: u64| {
        let memory = Some(MemoryLimit { bytes, source: "a test".to_string() });
        refused(in_rounds(&[set(setting)], &warm(&[]), &RunOptions { memory, ..options(2) }))
    };
    let problem = refuse("cache.l2.size=64GiB", 1 << 30);
    assert!(problem.value.starts_with("8.") && problem.value.ends_with("GiB of memory"), "{problem}");
    assert!(problem.rule.starts_with("one placement needs 8."), "{problem}");
    assert!(problem.rule.ends_with(", and a run may take 1.0 GiB (a test)"), "{problem}");
    assert!(problem.remedy.contains("cache.l2.size=4GiB would fit"), "{problem}");
    let problem = refuse("memory.size=8TiB", 1 << 30);
    assert!(problem.remedy.contains("memory.size="), "{problem}");
    // Sizes whose product exceeds every number are still more than there is.
    let problem = refuse("cache.l2.size=4194304TiB", u64::MAX / 64);
    let rule = "one placement needs 524288 TiB, and a run may take 262144 TiB (a test)";
    assert_eq!(problem.rule, rule);
}

#[test]
fn a_trace_that_changes_between_rounds_is_noticed() {
    let machines = [machine(0)];
    let options = options(2);
    let first = warm(&[]);
    let mut open = || Ok(source(&warm(&[Event::Fetch { page: 1, offset: 0, count: 3 }])));
    let input = TraceInput { source: source(&first), again: Some(&mut open) };
    let limited = limited(&machines, &options, 1);
    let problem = simulate_in_rounds(&machines, input, &limited, None, &mut |_| Ok(())).unwrap_err();
    assert!(problem.rule.contains("41 references in one round of seeds and 44 in another"), "{problem}");
}

/// Over all rounds, progress runs once from nothing to the whole trace.
#[test]
fn progress_runs_on_over_rounds() {
    let machines = [machine(0)];
    let options = RunOptions { warmup: 0, ..options(4) };
    let events = walk(1000);
    let mut reported: Vec<Progress> = Vec::new();
    let mut open = || Ok(source(&events));
    let input = TraceInput { source: source(&events), again: Some(&mut open) };
    let limited = limited(&machines, &options, 2);
    simulate_in_rounds(&machines, input, &limited, None, &mut |now| {
        reported.push(*now);
        Ok(())
    })
    .unwrap();
    // Making lanes adds no progress. Each round is half of the whole, in ten batches.
    let mut references: Vec<u64> = reported.iter().map(|now| now.references).collect();
    references.dedup();
    assert_eq!(references, (0..=20).map(|batch| 50 * batch).collect::<Vec<u64>>());
    assert!(reported.iter().all(|now| now.references <= 500 || now.of == Some(1000)));
}

/// The explained plan is the plan of the run: with its threads, its intervals and its length.
#[test]
fn the_plan_says_how_many_rounds_there_are() {
    let machines = [machine(0), machine(1)];
    let names = ["one", "other"].map(String::from);
    let events = batch(&vec![Event::Data { op: Op::Load, page: 1, offset: 0, size: 4 }; 10]);
    let base = RunOptions { seeds: (0..6).collect(), length: Some(10), ..RunOptions::default() };
    let plans = [
        base.clone(),
        RunOptions { threads: 3, ..base.clone() },
        RunOptions { interval: Some(1), instructions: Some(1 << 22), ..base.clone() },
        RunOptions { length: None, warmup: 5, ..base },
    ];
    for options in plans {
        let all = estimated_memory(&machines, &options, 6, GUESS);
        let one = estimated_memory(&machines, &options, 1, GUESS);
        for part in 0..20 {
            let bytes = one + (all - one) * part / 16;
            let options = RunOptions {
                memory: Some(MemoryLimit { bytes, source: "a test".to_string() }),
                ..options.clone()
            };
            let lines = explain(&machines, &names, &options, None).unwrap();
            let said = lines.last().filter(|line| line.starts_with("memory: "));
            let run = in_rounds(&machines, &events, &options).map(|(_, rounds)| rounds).unwrap();
            let said =
                said.map_or("1", |line| line.rsplit("done in ").next().unwrap().split(' ').next().unwrap());
            assert_eq!(said, run.to_string(), "{options:?}");
        }
        let options =
            RunOptions { memory: Some(MemoryLimit { bytes: 1000, source: "a test".to_string() }), ..options };
        let lines = explain(&machines, &names, &options, None).unwrap();
        assert!(lines.last().unwrap().starts_with("memory: the run is refused: "), "{lines:?}");
        assert!(in_rounds(&machines, &events, &options).is_err());
    }
}
