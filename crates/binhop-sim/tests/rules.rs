//! These tests check the counting rules of preparation with exact integers, one small trace for each rule.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{Fixed, run};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use binhop_sim::{Machine, Outcome, Prepared, RunOptions, simulate};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};

/// A direct-mapped level 1 of 1 KiB with 32-byte lines; physical = virtual.
const PLAIN: &str = r#"
memory = { page = "4KiB" }
placement = { policy = "identity" }
[cache.l1i]
serves = "fetch"
size = "1KiB"
line = "32B"
next = "memory"
[cache.l1d]
serves = "data"
size = "1KiB"
line = "32B"
next = "memory"
"#;

fn events(rows: &[(Op, u64, u32, u32)]) -> EventBatch {
    let mut builder = EventBuilder::default();
    for &(op, addr, size, count) in rows {
        builder.push(op, addr, size, count);
    }
    builder.finish()
}

fn machine(settings: &[&str]) -> Machine {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Machine::parse(PLAIN, "plain", &settings).unwrap()
}

fn value(outcome: &Outcome, phase: &str, metric: &str) -> Option<f64> {
    let column = |name: &str| outcome.results.column_by_name(name).unwrap().clone();
    let (phases, names, values) = (column("phase"), column("metric"), column("value"));
    let (phases, names) = (phases.as_string::<i32>(), names.as_string::<i32>());
    let values = values.as_primitive::<Float64Type>();
    let row = (0..names.len()).find(|&i| phases.value(i) == phase && names.value(i) == metric);
    let row = row.unwrap_or_else(|| panic!("no {metric} in {phase}"));
    values.is_valid(row).then(|| values.value(row))
}

fn measured(rows: &[(Op, u64, u32, u32)], metrics: &[(&str, u64)]) {
    let outcome = run(&machine(&[]), &events(rows), 100, &RunOptions::default());
    for &(metric, expected) in metrics {
        assert_eq!(value(&outcome, "measured", metric), Some(expected as f64), "{metric} of {rows:?}");
    }
}

#[test]
fn a_fetch_run_makes_as_many_accesses_as_it_has_instructions_or_lines() {
    // Five instructions lie in one line, five over two lines, and one instruction over two lines.
    measured(
        &[(Op::Fetch, 0x100, 20, 5)],
        &[("l1i.fetch.accesses", 5), ("l1i.fetch.misses", 1), ("instructions", 5), ("references", 5)],
    );
    measured(
        &[(Op::Fetch, 0x110, 20, 5)],
        &[("l1i.fetch.accesses", 5), ("l1i.fetch.misses", 2), ("references", 5)],
    );
    measured(
        &[(Op::Fetch, 0x11e, 4, 1)],
        &[("l1i.fetch.accesses", 2), ("l1i.fetch.misses", 2), ("instructions", 1)],
    );
}

#[test]
fn a_straddling_load_touches_both_lines_once() {
    measured(
        &[(Op::Load, 0x11c, 8, 1)],
        &[("l1d.load.accesses", 2), ("l1d.load.misses", 2), ("references", 1), ("instructions", 0)],
    );
}

#[test]
fn a_reference_that_straddles_pages_is_translated_for_each() {
    // These are lines 127 and 128 of the address space. The second line is the first line of its page.
    let settings = ["placement.policy=first", "memory.size=1MiB"];
    let outcome = run(&machine(&settings), &events(&[(Op::Store, 0xffc, 8, 1)]), 10, &RunOptions::default());
    assert_eq!(value(&outcome, "measured", "os.faults"), Some(2.0));
    assert_eq!(value(&outcome, "measured", "l1d.store.misses"), Some(2.0));
}

#[test]
fn a_modify_is_a_load_and_then_a_store_of_the_same_bytes() {
    measured(
        &[(Op::Modify, 0x100, 4, 1), (Op::Load, 0x500, 4, 1)],
        &[
            ("references", 2),
            ("l1d.load.accesses", 2),
            ("l1d.store.accesses", 1),
            ("l1d.load.misses", 2),
            ("l1d.store.misses", 0),
            ("l1d.evictions.dirty", 1),
            ("memory.writeback.accesses", 1),
        ],
    );
}

#[test]
fn addresses_are_not_cut_to_32_bits() {
    let high = 0x1_0000_0000;
    measured(
        &[(Op::Load, 0x100, 4, 1), (Op::Load, high + 0x100, 4, 1), (Op::Load, 0x100, 4, 1)],
        &[("l1d.load.misses", 3)],
    );
    measured(
        &[(Op::Load, u64::MAX - 3, 4, 1), (Op::Load, u64::MAX, 8, 1)],
        &[("l1d.load.accesses", 2), ("l1d.load.misses", 1)],
    );
}

#[test]
fn the_warm_up_is_simulated_and_reported_apart() {
    let rows = events(&[
        (Op::Load, 0x100, 4, 1),
        (Op::Load, 0x200, 4, 1),
        (Op::Load, 0x100, 4, 1),
        (Op::Load, 0x300, 4, 1),
    ]);
    let outcome = run(&machine(&[]), &rows, 10, &RunOptions { warmup: 2, ..RunOptions::default() });
    for (phase, references, misses) in [("warm-up", 2.0, 2.0), ("measured", 2.0, 1.0)] {
        assert_eq!(value(&outcome, phase, "references"), Some(references), "{phase}");
        assert_eq!(value(&outcome, phase, "l1d.load.misses"), Some(misses), "{phase}");
    }
}

#[test]
fn the_length_ends_before_the_row_that_would_exceed_it() {
    let rows = events(&[
        (Op::Fetch, 0, 40, 10),
        (Op::Load, 0x100, 4, 1),
        (Op::Fetch, 40, 40, 10),
        (Op::Load, 0x100, 4, 1),
    ]);
    for (length, references) in [(10, 10.0), (11, 11.0), (20, 11.0), (21, 21.0), (22, 22.0), (1000, 22.0)] {
        let outcome =
            run(&machine(&[]), &rows, 10, &RunOptions { length: Some(length), ..RunOptions::default() });
        assert_eq!(value(&outcome, "measured", "references"), Some(references), "length {length}");
    }
}

#[test]
fn an_interval_owns_the_row_in_which_its_first_instruction_lies() {
    // The rows hold instructions 0–9, 10–19 and 20–29. Instruction 15 lies in the second row, which interval
    // 1 owns.
    let rows = events(&[(Op::Fetch, 0, 40, 10), (Op::Fetch, 0x400, 40, 10), (Op::Fetch, 0x800, 40, 10)]);
    let outcome = run(&machine(&[]), &rows, 10, &RunOptions { interval: Some(15), ..RunOptions::default() });
    let series = outcome.series.whole().unwrap();
    let column =
        |name: &str| series.column_by_name(name).unwrap().as_primitive::<UInt64Type>().values().to_vec();
    let misses = series.column_by_name("metric").unwrap();
    let rows: Vec<_> =
        (0..series.num_rows()).filter(|&i| misses.as_string::<i32>().value(i) == "l1i.misses").collect();
    let of = |values: Vec<u64>| rows.iter().map(|&row| values[row]).collect::<Vec<_>>();
    assert_eq!(of(column("interval")), [0, 1]);
    assert_eq!(of(column("instructions")), [10, 20]);
}

#[test]
fn what_was_not_measured_is_null_and_not_nought() {
    let outcome = run(&machine(&[]), &events(&[(Op::Load, 0x100, 4, 1)]), 10, &RunOptions::default());
    assert_eq!(value(&outcome, "measured", "l1d.mpi"), None);
}

#[test]
fn a_cache_that_evicted_nothing_is_reported() {
    let ways = machine(&["cache.l1d.ways=2"]);
    let outcome = run(&ways, &events(&[(Op::Load, 0x100, 4, 1)]), 10, &RunOptions::default());
    assert!(outcome.notes.iter().any(|note| note.contains("l1d saw no eviction")), "{:?}", outcome.notes);
}

#[test]
fn the_same_addresses_in_two_spaces_are_two_pages() {
    let settings = ["placement.policy=first", "memory.size=1MiB"];
    let rows = [
        (Op::Load, 0x100, 4, 1),
        (Op::Switch, 1, 1, 0),
        (Op::Load, 0x100, 4, 1),
        (Op::Switch, 0, 0, 0),
        (Op::Load, 0x100, 4, 1),
    ];
    let outcome = run(&machine(&settings), &events(&rows), 10, &RunOptions::default());
    assert_eq!(value(&outcome, "measured", "os.faults"), Some(2.0));
    // The cache is smaller than a page: both lines belong to one set, whatever the frames.
    assert_eq!(value(&outcome, "measured", "l1d.load.misses"), Some(3.0));
    // The counts are instructions, references, misses and MPI of two caches, then resident pages and the
    // shared pages among them.
    assert_eq!(outcome.processes.whole().unwrap().num_rows(), 2 * (6 + 2));
}

#[test]
fn what_is_not_simulated_is_refused_by_name_or_said() {
    let refuse = |rows: &[(Op, u64, u32, u32)]| {
        let source = Box::new(Fixed::new(events(rows), 10));
        simulate(&machine(&[]), source, &RunOptions::default(), None, &mut |_| Ok(())).unwrap_err()
    };
    assert_eq!(refuse(&[(Op::DmaWrite, 0x100, 64, 0)]).value, "dma-write");
    assert_eq!(refuse(&[(Op::DmaRead, 0x100, 64, 0)]).value, "dma-read");
    let outcome = run(
        &machine(&[]),
        &events(&[(Op::Load, 0, 4, 1), (Op::Syscall, 0, 8, 1)]),
        10,
        &RunOptions::default(),
    );
    assert!(
        outcome.notes.iter().any(|note| note.contains("the trace holds 1 system call,")),
        "{:?}",
        outcome.notes
    );
}

#[test]
fn an_impossible_plan_is_refused() {
    let wrong = [
        RunOptions { seeds: vec![], ..RunOptions::default() },
        RunOptions { seeds: vec![3, 3], ..RunOptions::default() },
        RunOptions { threads: 0, ..RunOptions::default() },
        RunOptions { interval: Some(0), ..RunOptions::default() },
        RunOptions { length: Some(0), ..RunOptions::default() },
        RunOptions { length: Some(10), warmup: 10, ..RunOptions::default() },
    ];
    for options in wrong {
        let source = Box::new(Fixed::new(events(&[]), 10));
        assert!(simulate(&machine(&[]), source, &options, None, &mut |_| Ok(())).is_err(), "{options:?}");
    }
}

#[test]
fn stopping_by_progress_stops() {
    let source = Box::new(Fixed::new(events(&[(Op::Load, 0x100, 4, 1); 100]), 10));
    let mut calls = 0;
    let stopped = simulate(
        &machine(&[]),
        source,
        &RunOptions { threads: 2, ..RunOptions::default() },
        None,
        &mut |_| {
            calls += 1;
            if calls == 3 { Err(binhop_base::Problem::interrupted()) } else { Ok(()) }
        },
    );
    assert_eq!(stopped.unwrap_err().class, binhop_base::Class::Interrupted);
    assert_eq!(calls, 3);
}

#[test]
fn a_warm_up_that_leaves_nothing_is_refused() {
    for warmup in [4, 5, 100] {
        let source = Box::new(Fixed::new(events(&[(Op::Load, 0x100, 4, 1); 4]), 10));
        let options = RunOptions { warmup, ..RunOptions::default() };
        let problem = simulate(&machine(&[]), source, &options, None, &mut |_| Ok(())).unwrap_err();
        assert!(problem.rule.contains("holds 4 references"), "{problem}");
    }
}

#[test]
fn a_policy_of_ones_own_needs_something_to_place() {
    let source = Box::new(Fixed::new(events(&[(Op::Load, 0x100, 4, 1)]), 10));
    let settings = binhop_os::placement::Settings::new(16, 4);
    let make = |_| binhop_os::placement::policy("random").unwrap().build(&settings).unwrap();
    let problem =
        simulate(&machine(&[]), source, &RunOptions::default(), Some(&make), &mut |_| Ok(())).unwrap_err();
    assert!(problem.rule.contains("nothing to place"), "{problem}");
}

#[test]
fn lines_at_both_ends_of_the_address_space_are_told_apart() {
    let lines = machine(&["cache.l1i.line=8B", "cache.l1d.line=8B"]);
    let rows: Vec<_> = [u64::MAX - 3, 0x100, 0x4000_0000_0000_0100, 0x8000_0000_0000_0100, 0x100]
        .map(|addr| (Op::Load, addr, 4, 1))
        .to_vec();
    let outcome = run(&lines, &events(&rows), 10, &RunOptions::default());
    assert_eq!(value(&outcome, "measured", "l1d.load.misses"), Some(5.0));
}

#[test]
fn a_protection_hides_no_line_and_no_translation() {
    let machine = machine(&["memory.size=1MiB", "placement.policy=random", "placement.pool=64KiB"]);
    let rows = |between: Option<Op>| {
        let mut rows = vec![(Op::Map, 0x10000, 3, 4)];
        for _ in 0..10 {
            rows.push((Op::Store, 0x10000, 8, 1));
            rows.extend(between.map(|op| (op, 0x10000, 1, 4)));
            rows.push((Op::Load, 0x10008, 8, 1));
        }
        let mut source = Fixed::new(events(&rows), 7);
        Prepared::new(std::slice::from_ref(&machine), &mut source, &RunOptions::default()).unwrap().rows()
    };
    // One row reaches the cache. Every other reference repeats its line and is known to hit.
    assert_eq!([None, Some(Op::Protect)].map(rows), [1, 1]);
    // An event that changes mappings clears what the filters know. The store finds another page each time,
    // and so does the load.
    assert_eq!(rows(Some(Op::Unmap)), 20);
}
