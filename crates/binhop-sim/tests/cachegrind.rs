//! These tests compare the whole engine under `rules = "cachegrind"` with the oracle of these rules, and test their
//! refusals.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{Event, SMALL, batch, event, reference, run, short_and_long};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_oracle::cachegrind::{Cachegrind, Level};
use binhop_sim::{Machine, Outcome, RunOptions};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

/// `NINE` lists cachegrind's nine counts as metrics, in the order in which cachegrind prints them.
const NINE: [&str; 9] = [
    "l1i.fetch.accesses",
    "l1i.fetch.misses",
    "l2.fetch.misses",
    "l1d.load.accesses",
    "l1d.load.misses",
    "l2.load.misses",
    "l1d.store.accesses",
    "l1d.store.misses",
    "l2.store.misses",
];

fn machine(settings: &[&str]) -> Machine {
    let (name, toml) = SMALL.iter().find(|(name, _)| name.starts_with("cachegrind")).unwrap();
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    Machine::parse(toml, name, &settings).unwrap()
}

fn value(outcome: &Outcome, metric: &str) -> u64 {
    let names = outcome.results.column_by_name("metric").unwrap().as_string::<i32>();
    let values = outcome.results.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    let row = (0..names.len()).find(|&row| names.value(row) == metric);
    values.value(row.unwrap_or_else(|| panic!("no {metric}"))) as u64
}

fn nine(machine: &Machine, events: &EventBatch) -> [u64; 9] {
    let outcome = run(machine, events, 100, &RunOptions::default());
    NINE.map(|metric| value(&outcome, metric))
}

/// Returns the oracle of a machine after all references.
fn slow(machine: &Machine, events: &EventBatch) -> Cachegrind {
    let caches = &machine.tree().config().caches;
    let level = |name: &str| {
        let cache = caches.iter().find(|cache| cache.name == name).unwrap();
        Level::new(cache.line.bytes(), cache.sets(), cache.ways as usize)
    };
    let mut slow = Cachegrind { i1: level("l1i"), d1: level("l1d"), ll: level("l2") };
    for row in 0..events.len() {
        let (addr, size) = (events.addr()[row], u64::from(events.size()[row]));
        match Op::from_code(events.op()[row]).unwrap() {
            Op::Fetch => slow.instruction(addr, size),
            Op::Load | Op::Modify => slow.read(addr, size),
            Op::Store => slow.write(addr, size),
            _ => {}
        }
    }
    slow
}

/// Splits every run of instructions into instructions of four bytes.
fn singly(events: &[Event]) -> EventBatch {
    let each = |event: &Event| match *event {
        Event::Fetch { page, offset, count } => {
            let at = u64::from(page) * 4096 + u64::from(offset);
            (0..u16::from(count))
                .map(|number| at + u64::from(number) * 4)
                .map(|at| Event::Fetch { page: (at >> 12) as u8, offset: (at & 4095) as u16, count: 1 })
                .collect()
        }
        ref other => vec![other.clone()],
    };
    batch(&events.iter().flat_map(each).collect::<Vec<_>>())
}

fn compare(events: &[Event], settings: &[&str]) {
    let (machine, events) = (machine(settings), singly(events));
    let (outcome, slow) = (run(&machine, &events, 100, &RunOptions::default()), slow(&machine, &events));
    assert_eq!(NINE.map(|metric| value(&outcome, metric)), slow.nine());
    for (name, level) in [("l1i", &slow.i1), ("l1d", &slow.d1), ("l2", &slow.ll)] {
        assert_eq!(value(&outcome, &format!("{name}.fills")), level.fills, "{name}");
        assert_eq!(value(&outcome, &format!("{name}.evictions")), level.evictions, "{name}");
        assert_eq!(value(&outcome, &format!("{name}.dirtied")), 0, "{name}");
    }
    let plain = run(&machine, &events, 100, &RunOptions { share: false, ..RunOptions::default() });
    assert_eq!(outcome.results, plain.results, "collapsed, or not");
}

short_and_long! { many_references: 40, 100;
    fn every_event_and_every_process(events in prop::collection::vec(event(), 1..800)) {
        compare(&events, &[]);
    }

    fn one_way_and_one_set(events in prop::collection::vec(reference(), 1..1200)) {
        compare(&events, &["cache.l1i.ways=1", "cache.l1d.ways=full", "cache.l2.line=32B"]);
    }
}

fn events(rows: &[(Op, u64, u32, u32)]) -> EventBatch {
    let mut builder = EventBuilder::default();
    for &(op, addr, size, count) in rows {
        builder.push(op, addr, size, count);
    }
    builder.finish()
}

#[test]
fn a_straddle_is_one_access_a_modify_a_load_and_sizes_end_at_the_smallest_line() {
    // The lines have 16 bytes (instructions), 32 bytes (data) and 64 bytes.
    let counts = |rows: &[(Op, u64, u32, u32)]| nine(&machine(&[]), &events(rows));
    assert_eq!(counts(&[(Op::Fetch, 0x10e, 4, 1)]), [1, 1, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(counts(&[(Op::Load, 0x11e, 8, 1)]), [0, 0, 0, 1, 1, 1, 0, 0, 0]);
    assert_eq!(counts(&[(Op::Modify, 0x11e, 8, 1)]), [0, 0, 0, 1, 1, 1, 0, 0, 0]);
    // 16 bytes of 512 lie in one line. The next line is not fetched.
    let long = [(Op::Store, 0x100, 512, 1), (Op::Store, 0x120, 8, 1)];
    assert_eq!(counts(&long), [0, 0, 0, 0, 0, 0, 2, 2, 1]);
    // A straddling reference brings in the last line of a page and the first line of the next page. A
    // reference to either line alone hits afterwards.
    let pages = [(Op::Store, 0xffc, 8, 1), (Op::Load, 0xff0, 8, 1), (Op::Load, 0x1000, 8, 1)];
    assert_eq!(counts(&pages), [0, 0, 0, 2, 0, 0, 1, 1, 1]);
    assert_eq!(counts(&[(Op::Load, u64::MAX, 8, 1)]), [0, 0, 0, 1, 1, 1, 0, 0, 0]);
}

#[test]
fn a_run_of_instructions_is_asked_for_line_by_line() {
    // Five instructions of four bytes lie over two lines of 16 bytes.
    let run = events(&[(Op::Fetch, 0x10e, 20, 5)]);
    assert_eq!(nine(&machine(&[]), &run), [5, 3, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn the_metrics_know_no_written_data() {
    let outcome = run(&machine(&[]), &events(&[(Op::Store, 0x100, 8, 1)]), 10, &RunOptions::default());
    let names = outcome.results.column_by_name("metric").unwrap().as_string::<i32>();
    let written: Vec<_> =
        names.iter().flatten().filter(|name| name.contains("write") || name.contains("system")).collect();
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(value(&outcome, "memory.store.accesses"), 1);
    assert_eq!(value(&outcome, "cycles"), 213);
}

/// Settings that do not fit the rules, the place that the message names, and a part of the message.
const WRONG: &[(&[&str], &str, &str)] = &[
    (&["cache.l1d.write=through"], "cache.l1d.write", "leaves no dirty line"),
    (&["cache.l1d.allocate=false"], "cache.l1d.allocate", "brings its line in"),
    (&["cache.l2.writeback-order=before-fill"], "cache.l2.writeback-order", "leaves no dirty line"),
    (&["cache.l2.replacement=random"], "cache.l2.replacement", "least recently"),
    (&["cache.l2.inclusive=true"], "cache.l2.inclusive", "invalidates lines of another"),
    (&["cache.l2.hash=true"], "cache.l2.hash", "plain index"),
    (&["cache.l1d.index=virtual"], "cache.l1d.index", "one kind of address"),
    (&["cache.l1d.tag=asid"], "cache.l1d.tag", "one kind of address"),
    (&["placement.policy=random", "memory.size=1MiB"], "placement.policy", "physical = virtual"),
    (&["write-buffer.l1d.entries=4", "write-buffer.l1d.drain=6"], "write-buffer", "no write waits"),
    (&["stream-buffers.l1d.depth=4"], "stream-buffers", "nothing is fetched ahead"),
    (
        &[
            "cache.l2.next=l3",
            "cache.l3.size=64KiB",
            "cache.l3.line=64B",
            "cache.l3.next=memory",
            "cost.l3=9",
        ],
        ": cache",
        "one behind both",
    ),
    (&["cache.l1d.next=memory"], ": cache", "one behind both"),
    (&["rules=cachegrin"], "rules", "did you mean cachegrind?"),
];

#[test]
fn what_the_rules_do_not_know_is_refused() {
    let (name, toml) = SMALL.iter().find(|(name, _)| name.starts_with("cachegrind")).unwrap();
    for (settings, place, part) in WRONG {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let problem = Machine::parse(toml, name, &settings).expect_err(&settings.join(" "));
        assert!(problem.place.contains(place), "{settings:?}: {problem}");
        assert!(problem.to_string().contains(part), "{settings:?}: {problem}");
        assert!(!problem.remedy.is_empty() && !problem.value.is_empty(), "{problem}");
    }
}
