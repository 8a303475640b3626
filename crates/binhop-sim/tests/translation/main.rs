//! These tests compare translation with a slow model: TLBs that are asked at every access, and walks that are made one
//! access after the other.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod bits;
mod design;
mod huge_pages;
pub mod model;
mod rules;

use crate::common::{Event, Fixed, SMALL, batch, cases, event, inclusive, machine, reference, run};
use crate::whole_engine::{Slow, apart, counts, run_without_conflict, sharing, virtual_machine};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_hw::{CacheConfig, Rules};
use binhop_os::page_table::TableKind;
use binhop_sim::{Machine, Outcome, RunOptions, simulate};
use binhop_trace::{EventBatch, Op};
use design::{Design, KINDS, PAGE, design};
use model::SlowTranslation;
use proptest::prelude::*;

/// Returns the machine with this design, if a machine can have the design.
fn designed(machine: &Machine, design: &Design) -> Option<Machine> {
    if machine.memory().frames.is_none() || machine.tree().config().rules == Rules::Cachegrind {
        return None;
    }
    let begins = |(number, cache): (usize, &CacheConfig)| {
        cache.name == "l2" && !cache.inclusive && !machine.tree().in_front(number)
    };
    if design.reads == Some("l2") && !machine.tree().config().caches.iter().enumerate().any(begins) {
        return None;
    }
    if design.huge.is_some_and(|(log2, _)| machine.memory().frames.unwrap() < 1 << log2) {
        return None;
    }
    Some(design.of(machine))
}

/// Compares a run with the slow model under three seeds. Returns the run.
fn agree(machine: &Machine, design: &Design, events: &EventBatch) -> Outcome {
    let options = RunOptions { seeds: vec![0, 1, 2], ..RunOptions::default() };
    let outcome = run(machine, events, 500, &options);
    for seed in 0..3 {
        let mut slow = Slow::new(machine, seed, SlowTranslation::new(design, machine, seed));
        slow.run(events);
        let mut expected = slow.metrics();
        let runs = slow.run_counts();
        for (name, count) in [
            ("", runs.taken),
            (".fallbacks", runs.fallbacks),
            (".splits", runs.splits),
            (".lost", runs.most_unused * PAGE),
        ] {
            expected.insert(format!("translation.huge-pages{name}"), count as f64);
        }
        let SlowTranslation { counts: of_slow, tables, .. } = slow.observer;
        let walks: u64 =
            KINDS.iter().filter_map(|kind| of_slow.get(&format!("translation.{kind}.walks"))).sum();
        expected.insert("translation.walks".into(), walks as f64);
        let first = |port: usize| design.names[design.mmu.ports[port][0]];
        let of = |(kind, port): (&str, usize)| of_slow.get(&format!("{}.{kind}.misses", first(port)));
        let misses: u64 = [("fetch", 0), ("load", 1), ("store", 1)].into_iter().filter_map(of).sum();
        expected.insert("translation.misses".into(), misses as f64);
        if machine.has_cost() {
            let cycles: u64 = of_slow
                .iter()
                .filter(|(name, _)| name.starts_with("translation.cycles"))
                .map(|(_, n)| n)
                .sum();
            expected.insert("translation.cycles".into(), cycles as f64);
        }
        expected.insert("translation.tables".into(), (u64::from(tables.most_used()) * PAGE) as f64);
        let cost = machine.has_cost();
        let kept = of_slow.into_iter().filter(|(name, _)| cost || !name.starts_with("translation.cycles"));
        expected.extend(kept.map(|(name, count)| (name, count as f64)));
        expected.retain(|_, value| *value > 0.0);
        let mut fast = counts(&outcome, seed as usize, 3);
        fast.remove("translation.cpi");
        // The slow model does not know what a mapping allows.
        fast.remove("translation.aliases.writable");
        let of_faults = |name: &str| name.starts_with("translation.faults.");
        let faults: f64 = fast.iter().filter(|(name, _)| of_faults(name)).map(|(_, count)| count).sum();
        fast.retain(|name, _| !of_faults(name));
        assert_eq!(fast.get("os.faults").copied().unwrap_or(0.0), faults);
        for name in expected.keys().chain(fast.keys()) {
            assert_eq!(fast.get(name), expected.get(name), "{}: {name}, seed {seed}", machine.name());
        }
    }
    outcome
}

fn compare(machine: &Machine, design: &Design, events: &[Event]) {
    let Some(machine) = designed(machine, design) else { return };
    let events = batch(events);
    let fast = agree(&machine, design, &events);
    let options = RunOptions { seeds: vec![0, 1, 2], ..RunOptions::default() };
    for other in [
        run(&machine, &events, 7, &options),
        run(&machine, &events, 500, &RunOptions { threads: 2, ..options.clone() }),
        run(&machine, &events, 500, &RunOptions { share: false, ..options.clone() }),
        run(&machine, &events, 500, &RunOptions { interval: Some(23), ..options.clone() }),
    ] {
        assert_eq!(other.results, fast.results);
    }
}

/// Compares what TLBs, walk caches and caches hold after a run: one further access to a page must find what it finds in
/// the slow model. Every page is tried, each in a run of its own.
fn compare_contents(machine: &Machine, design: &Design, events: &[Event]) {
    let Some(machine) = designed(machine, design) else { return };
    for page in 0..12 {
        let load = Event::Data { op: Op::Load, page, offset: 64 * u16::from(page % 3), size: 4 };
        let fetch = Event::Fetch { page, offset: 64 * u16::from(page % 3), count: 1 };
        let probe = if page % 4 == 3 { fetch } else { load };
        agree(&machine, design, &batch(&[events, &[probe]].concat()));
    }
}

/// Compares the counts of the measured part of a run that has a warm-up, and ends before some instruction.
fn compare_part(machine: &Machine, design: &Design, events: &[Event], warmup: u64, instructions: u64) {
    let Some(machine) = designed(machine, design) else { return };
    let events = batch(events);
    let options =
        RunOptions { seeds: vec![3], warmup, instructions: Some(instructions), ..RunOptions::default() };
    let source = Box::new(Fixed::new(events.clone(), 100));
    // The run may end within the warm-up.
    let Ok(outcome) = simulate(&machine, source, &options, None, &mut |_| Ok(())) else { return };
    let mut slow = Slow::new(&machine, 3, SlowTranslation::new(design, &machine, 3));
    (slow.warmup, slow.most_instructions) = (warmup, instructions);
    slow.run(&events);
    let SlowTranslation { counts: whole, before_measured, .. } = slow.observer;
    let results = &outcome.results;
    let column = |name: &str| results.column_by_name(name).unwrap().as_string::<i32>().clone();
    let (phases, names) = (column("phase"), column("metric"));
    let values = results.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    for (name, &count) in &whole {
        let row = (0..results.num_rows())
            .find(|&row| phases.value(row) == "measured" && names.value(row) == name.as_str());
        let Some(row) = row else {
            assert!(!machine.has_cost() || count == 0, "{name}");
            continue;
        };
        let before = before_measured.get(name).copied().unwrap_or(0);
        assert_eq!(values.value(row), (count - before) as f64, "{}: {name}", machine.name());
    }
}

proptest! {
    #![proptest_config(cases(16, 64))]

    #[test]
    fn translation_is_that_of_tlbs_asked_at_every_access(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..400),
    ) {
        compare(&machine(number), &design, &events);
    }

    #[test]
    fn translation_above_inclusive_caches(
        machine in inclusive(),
        design in design(),
        events in prop::collection::vec(event(), 1..400),
    ) {
        compare(&machine, &design, &events);
    }

    #[test]
    fn translation_above_caches_with_global_tags(
        both: bool,
        ways in [1..3u8, 1..3u8],
        memory in prop::sample::select(vec!["96KiB", "1MiB"]),
        design in design(),
        events in sharing(300),
    ) {
        // The regions are far apart, and trees of many levels need more table pages than there are.
        let fits = !matches!(design.kind, TableKind::Radix { levels: 3.. });
        let machine = designed(&virtual_machine("global", both, ways, memory), &design);
        if let Some(machine) = machine.filter(|_| fits) {
            let (events, options) = (apart(&events), RunOptions { seeds: vec![0], ..RunOptions::default() });
            if run_without_conflict(&machine, &events, &options).is_some() {
                agree(&machine, &design, &events);
            }
        }
    }

    #[test]
    fn translation_behind_a_warm_up_and_before_a_cut(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..400),
        warmup in 0..300u64,
        instructions in 0..2000u64,
    ) {
        compare_part(&machine(number), &design, &events, warmup, instructions);
    }

    #[test]
    fn translation_under_scarce_memory(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(reference(), 1..600),
    ) {
        compare(&machine(number), &design, &events);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "takes minutes: 2,000 cases"]
    fn translation_is_that_of_tlbs_asked_at_every_access_in_many_cases(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..600),
    ) {
        compare(&machine(number), &design, &events);
    }
}

proptest! {
    #![proptest_config(cases(4, 12))]

    #[test]
    fn contents_are_those_of_tlbs_asked_at_every_access(
        number in 0..SMALL.len(),
        design in design(),
        events in prop::collection::vec(event(), 1..300),
    ) {
        compare_contents(&machine(number), &design, &events);
    }
}
