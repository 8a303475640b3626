//! These tests compare reuse distances with a list that is searched, and the misses that they imply with simulated
//! caches.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::common::{Event, Fixed, batch, event, named, reference, short_and_long, touched_units};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use binhop_base::{Asid, Bytes, Kind};
use binhop_oracle::reuse::NaiveStack;
use binhop_sim::machine::Machine;
use binhop_sim::reuse::{Histogram, Reuse, ReuseKinds, ReuseOptions, reuse};
use binhop_sim::{RunOptions, simulate};
use binhop_trace::{EventBatch, Op, Source};
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn pass(source: Box<dyn Source>, unit: u64, kinds: ReuseKinds, length: Option<u64>) -> Reuse {
    let options = ReuseOptions { unit: Bytes(unit), kinds, length, ahead: false };
    reuse(source, &options, &mut |_| Ok(())).unwrap()
}

/// `Counted` holds the accesses of a group: the first accesses by kind, and the accesses of each distance by kind.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    first: [u64; 3],
    distances: BTreeMap<u64, [u64; 3]>,
}

impl Counted {
    /// Returns the same counts by powers of two.
    fn classes(&self) -> Vec<(u64, [u64; 3])> {
        let mut classes: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        for (&distance, counts) in &self.distances {
            let least = (0..40).map(|log2| 1 << log2).rfind(|&least| least <= distance).unwrap_or(0);
            (0..3).for_each(|kind| classes.entry(least).or_default()[kind] += counts[kind]);
        }
        classes.into_iter().collect()
    }

    fn check(&self, histogram: &Histogram) {
        assert_eq!(histogram.first(), self.first);
        assert_eq!(histogram.classes().collect::<Vec<_>>(), self.classes());
    }
}

fn compare(events: &EventBatch, unit: u64, kinds: ReuseKinds, length: Option<u64>) {
    let fast = pass(Box::new(Fixed::new(events.clone(), 1000)), unit, kinds, length);
    let page = PAGE.max(unit);
    let (mut stack, mut whole) = (NaiveStack::default(), Counted::default());
    let mut processes: BTreeMap<Asid, Counted> = BTreeMap::new();
    for touch in touched_units(events, page, unit, length.unwrap_or(u64::MAX)) {
        let kind = Histogram::KINDS.iter().position(|&kind| kind == touch.kind).unwrap();
        let wanted = match kinds {
            ReuseKinds::All => true,
            ReuseKinds::Fetch => touch.kind == Kind::Fetch,
            ReuseKinds::Data => touch.kind != Kind::Fetch,
        };
        if !wanted {
            continue;
        }
        let within = touch.unit % (page / unit);
        let distance = stack.touch(touch.page.index() as u64 * (page / unit) + within);
        for counted in [&mut whole, processes.entry(touch.asid).or_default()] {
            match distance {
                None => counted.first[kind] += 1,
                Some(distance) => counted.distances.entry(distance).or_default()[kind] += 1,
            }
            if touch.repeated > 0 {
                counted.distances.entry(0).or_default()[0] += touch.repeated;
            }
        }
    }
    let curve = &fast.curve;
    let at = |distance: usize| whole.distances.get(&(distance as u64)).map_or(0, |kinds| kinds.iter().sum());
    let longest = whole.distances.keys().last().map_or(0, |&longest| longest as usize + 1);
    assert_eq!(curve.distances(), (0..longest).map(at).collect::<Vec<u64>>());
    assert_eq!(curve.units(), whole.first.iter().sum::<u64>());
    for capacity in 1..longest as u64 + 3 {
        let far = whole.distances.range(capacity..).flat_map(|(_, kinds)| kinds).sum::<u64>();
        assert_eq!(curve.misses(capacity), curve.units() + far);
    }
    assert_eq!(fast.processes.keys().collect::<Vec<_>>(), processes.keys().collect::<Vec<_>>());
    fast.processes.values().zip(processes.values()).for_each(|(histogram, counted)| counted.check(histogram));
    // Each access counts for one segment, so the segments add up to the same accesses.
    let mut sum = Counted::default();
    for histogram in fast.segments.values() {
        (0..3).for_each(|kind| sum.first[kind] += histogram.first()[kind]);
        for (least, counts) in histogram.classes() {
            (0..3).for_each(|kind| sum.distances.entry(least).or_default()[kind] += counts[kind]);
        }
    }
    assert_eq!((sum.first, sum.distances.into_iter().collect::<Vec<_>>()), (whole.first, whole.classes()));
}

fn kinds() -> impl Strategy<Value = ReuseKinds> {
    prop_oneof![2 => Just(ReuseKinds::All), 1 => Just(ReuseKinds::Fetch), 1 => Just(ReuseKinds::Data)]
}

short_and_long! { many_distances: 12, 96;
    fn distances_equal_those_of_a_list(
        unit in prop_oneof![Just(8u64), Just(64), Just(PAGE), Just(4 * PAGE)],
        kinds in kinds(),
        length in proptest::option::of(1..4000u64),
        events in prop::collection::vec(event(), 1..2000),
    ) {
        let events: Vec<Event> = events.into_iter().map(named).collect();
        compare(&batch(&events), unit, kinds, length);
    }

    fn distances_equal_those_of_a_list_on_long_runs_of_references(events in prop::collection::vec(reference(), 1..4000)) {
        compare(&batch(&events), 32, ReuseKinds::All, None);
    }
}

/// A trace by hand: the accesses and their distances, in lines of 64 bytes.
#[test]
fn distances_by_hand() {
    let data = |op, page, offset, size| Event::Data { op, page, offset, size };
    let events = batch(&[
        Event::Fetch { page: 0, offset: 0, count: 20 }, // 80 bytes: lines 0 and 1 first, 18 repeated
        data(Op::Load, 1, 0, 8),                        // first
        data(Op::Modify, 1, 60, 8), // load: line 0 at distance 0, line 1 first; store: both at 1
        Event::Fetch { page: 0, offset: 0, count: 1 }, // three other lines since
        data(Op::Store, 2, 0, 8),   // first
        data(Op::Load, 1, 0, 8),    // lines 1, fetched 0 and 2:0 since
    ]);
    let found = pass(Box::new(Fixed::new(events, 10)), 64, ReuseKinds::All, None);
    let whole = found.processes.values().next().unwrap();
    assert_eq!(whole.first(), [2, 2, 1]);
    assert_eq!(whole.classes().collect::<Vec<_>>(), [(0, [18, 1, 0]), (1, [0, 0, 2]), (2, [1, 1, 0])]);
    assert_eq!(found.curve.distances(), [19, 2, 0, 2]);
    assert_eq!([1, 2, 3, 4, 5].map(|lines| found.curve.misses(lines)), [9, 7, 7, 5, 5]);
    assert_eq!(found.curve.accesses(), 28);
    assert_eq!((found.references, found.instructions), (25, 21));
}

/// Returns the misses of a fully associative cache of a machine.
fn simulated(workload: &str, length: u64, lines: u64) -> u64 {
    let toml = format!(
        r#"memory = {{ size = "64MiB", page = "4KiB" }}
           placement = {{ policy = "random", pool = "1MiB" }}
           [cache.l1]
           serves = "all"
           size = "{}B"
           line = "64B"
           ways = "full"
           next = "memory""#,
        64 * lines
    );
    let machine = Machine::parse(&toml, "full", &[]).unwrap();
    let options = RunOptions { seeds: vec![0], length: Some(length), ..RunOptions::default() };
    let source = Box::new(binhop_workload::open(workload, 0).unwrap());
    let results = simulate(&machine, source, &options, None, &mut |_| Ok(())).unwrap().results;
    let metric = results.column_by_name("metric").unwrap().as_string::<i32>();
    let value = results.column_by_name("value").unwrap().as_primitive::<Float64Type>();
    let kinds = ["l1.fetch.misses", "l1.load.misses", "l1.store.misses"];
    let rows = (0..results.num_rows()).filter(|&row| kinds.contains(&metric.value(row)));
    rows.map(|row| value.value(row) as u64).sum()
}

/// The engine's own caches miss as often as the reuse distances say.
#[test]
fn a_fully_associative_cache_misses_as_often() {
    for workload in ["sor", "tree", "lin"] {
        let source = Box::new(binhop_workload::open(workload, 0).unwrap());
        let found = pass(source, 64, ReuseKinds::All, Some(300_000));
        for lines in [1, 16, 64, 256] {
            assert_eq!(
                found.curve.misses(lines),
                simulated(workload, 300_000, lines),
                "{workload}, {lines} lines"
            );
        }
        assert!(found.curve.misses(1) > found.curve.misses(16));
    }
}

#[test]
fn wrong_options_are_refused() {
    let refused = |unit, length| {
        let options = ReuseOptions { unit: Bytes(unit), kinds: ReuseKinds::All, length, ahead: false };
        let source = Box::new(Fixed::new(batch(&[]), 1));
        reuse(source, &options, &mut |_| Ok(())).unwrap_err().to_string()
    };
    assert!(refused(48, None).contains("48"));
    assert!(refused(2, None).contains("at least 4 bytes"));
    assert!(refused(64, Some(0)).contains("at least one reference"));
}
