//! These tests check the details of a run by page: placements, repeated misses, and the pages of a process
//! in conflict.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{SMALL, batch, cases, event, machine, run};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use binhop_sim::{Machine, Outcome, RunOptions};
use binhop_trace::event::{EventBuilder, map_flags};
use binhop_trace::{EventBatch, Op};
use proptest::prelude::*;

fn longs(table: &RecordBatch, column: &str) -> Vec<Option<u64>> {
    let column = table.column_by_name(column).unwrap();
    match column.as_primitive_opt::<UInt64Type>() {
        Some(values) => values.iter().collect(),
        None => column.as_primitive::<UInt32Type>().iter().map(|value| value.map(u64::from)).collect(),
    }
}

/// Sums the results' metrics with this ending, for each seed.
fn sum(outcome: &Outcome, metrics: &[String]) -> BTreeMap<u64, f64> {
    let results = &outcome.results;
    let names = results.column_by_name("metric").unwrap().as_string::<i32>();
    let values = results.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    let mut sums = BTreeMap::new();
    for (row, seed) in longs(results, "seed").into_iter().enumerate() {
        let wanted = metrics.iter().any(|metric| metric == names.value(row)) && values.is_valid(row);
        *sums.entry(seed.unwrap()).or_insert(0.0) += if wanted { values.value(row) } else { 0.0 };
    }
    sums
}

fn demand(cache: &str, what: &str) -> Vec<String> {
    ["fetch", "load", "store"].iter().map(|kind| format!("{cache}.{kind}.{what}")).collect()
}

proptest! {
    #![proptest_config(cases(20, 40))]

    /// For every cache, wherever it stands, the repeated misses of all pages are the misses that are not
    /// compulsory. Asking for details changes no result.
    #[test]
    fn repeated_misses_add_up(number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..600)) {
        let machine = machine(number);
        let events = batch(&events);
        let options = RunOptions { seeds: vec![3, 4], ..RunOptions::default() };
        let plain = run(&machine, &events, 500, &options);
        for cache in &machine.tree().config().caches {
            let watching = RunOptions { watch: Some(cache.name.clone()), log: true, ..options.clone() };
            let outcome = run(&machine, &events, 500, &watching);
            prop_assert_eq!(&plain.results, &outcome.results);
            let misses = sum(&outcome, &demand(&cache.name, "misses"));
            let compulsory = sum(&outcome, &demand(&cache.name, "compulsory"));
            let pages = outcome.pages.unwrap();
            let counted = longs(&pages, "misses");
            for seed in [3, 4] {
                let of_seed = longs(&pages, "seed").into_iter().zip(&counted);
                let repeated: u64 = of_seed.filter(|(s, _)| *s == Some(seed)).map(|(_, n)| n.unwrap()).sum();
                prop_assert_eq!(repeated as f64, misses[&seed] - compulsory[&seed], "{}, seed {}", cache.name, seed);
            }
        }
    }

    /// The log has every fault, in order. A frame is given away only together with the page that it held.
    #[test]
    fn the_log_of_placements_is_complete(number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..600)) {
        let machine = machine(number);
        let outcome = run(&machine, &batch(&events), 500, &RunOptions { log: true, ..RunOptions::default() });
        let log = outcome.placements.clone().unwrap();
        if machine.memory().frames.is_some() {
            prop_assert_eq!(log.num_rows() as f64, sum(&outcome, &["os.faults".to_string()])[&0]);
        }
        prop_assert_eq!(longs(&log, "fault"), (0..log.num_rows() as u64).map(Some).collect::<Vec<_>>());
        let mut frame_of: BTreeMap<u64, u64> = BTreeMap::new();
        for ((page, frame), evicted) in
            longs(&log, "page").into_iter().zip(longs(&log, "frame")).zip(longs(&log, "evicted"))
        {
            if let Some(evicted) = evicted {
                prop_assert_eq!(frame_of.remove(&evicted), frame);
            }
            frame_of.insert(page.unwrap(), frame.unwrap());
        }
    }
}

/// Makes a machine of 32 frames, more than the touched pages and the pool together; level 2 has 4 bins and 2
/// ways.
fn conflict_machine() -> Machine {
    let settings = ["memory.size=128KiB", "cache.l2.size=32KiB", "placement.pool=64KiB"].map(String::from);
    Machine::parse(&machine(0).resolved(), "conflicts", &settings).unwrap()
}

/// Returns a trace in which space 0 touches `own` pages of its own. Spaces 0 and 1 touch the first pages of a shared
/// segment. Then space 1 exits.
fn two_spaces(own: u64, shared: [u64; 2]) -> EventBatch {
    let mut rows = EventBuilder::default();
    let flags = map_flags::READ | map_flags::SHARED;
    let touch = |rows: &mut EventBuilder, page: u64| rows.push(Op::Load, page * 4096, 8, 1);
    for (asid, pages) in shared.into_iter().enumerate() {
        rows.push(Op::Switch, asid as u64, 0, 0);
        rows.push_args(Op::Map, 100 * 4096, flags, 8, [Some(7), Some(0)]);
        (0..pages).for_each(|page| touch(&mut rows, 100 + page));
        if asid == 0 {
            (0..own).for_each(|page| touch(&mut rows, page));
        }
    }
    rows.push(Op::Fetch, 100 * 4096, 4, 1);
    rows.push(Op::Exit, 1, 0, 0);
    rows.finish()
}

/// Returns a metric of a process.
fn of_process(outcome: &Outcome, asid: u64, metric: &str) -> Option<f64> {
    let table = &outcome.processes.whole().unwrap();
    let names = table.column_by_name("metric").unwrap().as_string::<i32>();
    let values = table.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    let asids = longs(table, "asid");
    (0..table.num_rows())
        .find(|&row| asids[row] == Some(asid) && names.value(row) == metric)
        .map(|row| values.value(row))
}

#[test]
fn a_process_s_pages_in_conflict_are_those_beyond_the_ways_of_each_bin() {
    let machine = conflict_machine();
    for seed in 0..20 {
        let options = RunOptions { log: true, seeds: vec![seed], ..RunOptions::default() };
        let outcome = run(&machine, &two_spaces(5, [3, 4]), 500, &options);
        let log = outcome.placements.clone().unwrap();
        let placed = longs(&log, "page_no").into_iter().zip(longs(&log, "frame"));
        let frame_of: BTreeMap<u64, u64> =
            placed.map(|(page, frame)| (page.unwrap(), frame.unwrap())).collect();
        let pages = |asid| -> BTreeSet<u64> {
            if asid == 0 { (0..5).chain(100..103).collect() } else { (100..104).collect() }
        };
        for asid in [0, 1] {
            let mut bins = [0u64; 4];
            pages(asid).iter().for_each(|page| bins[frame_of[page] as usize % 4] += 1);
            let conflicts: u64 = bins.iter().map(|used| used.saturating_sub(2)).sum();
            let metric = |name: &str| of_process(&outcome, asid, name);
            assert_eq!(metric("os.pages"), Some(pages(asid).len() as f64), "seed {seed}, space {asid}");
            assert_eq!(metric("l2.conflicts"), Some(conflicts as f64), "seed {seed}, space {asid}: {bins:?}");
            assert_eq!(metric("l2.conflicts.minimum"), Some(0.0));
            assert_eq!(
                metric("os.pages.shared"),
                Some(3.0),
                "the fourth page of the segment is space 1's alone"
            );
        }
    }
}

#[test]
fn pages_beyond_what_the_cache_holds_are_in_conflict_whatever_the_placement() {
    let outcome = run(&conflict_machine(), &two_spaces(8, [3, 0]), 500, &RunOptions::default());
    assert_eq!(of_process(&outcome, 0, "os.pages"), Some(11.0));
    assert_eq!(of_process(&outcome, 0, "l2.conflicts.minimum"), Some(3.0));
    // Level 1 has two pages of one way.
    assert_eq!(of_process(&outcome, 0, "l1d.conflicts.minimum"), Some(9.0));
}
