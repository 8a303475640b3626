//! These tests measure the cost of `inspect`, `lint` and parts of traces in bytes allocated. Time and memory must grow
//! with the rows of a trace and not faster, whatever the rows do. All counts are exact: each test runs on one thread,
//! and compares a trace with a trace of twice the rows.
#![allow(
    clippy::unwrap_used,
    reason = "a test file; the lint's own exception sees only functions marked as tests"
)]

mod counting;

use binhop_base::Result;
use binhop_trace::event::{EventBuilder, map_flags};
use binhop_trace::source::SegmentMeta;
use binhop_trace::transform::{Selection, select};
use binhop_trace::{EventBatch, Meta, Op, Source, inspect, lint};
use counting::{cost, turn};

/// `Fixed` yields events in memory, in batches.
struct Fixed {
    meta: Meta,
    events: EventBatch,
    at: usize,
}

impl Fixed {
    fn new(events: &EventBatch) -> Self {
        let mut meta = Meta { page_size: Some(4096), ..Meta::default() };
        meta.segments.insert(1, SegmentMeta { file: None, kind: Some("heap".into()) });
        Self { meta, events: events.clone(), at: 0 }
    }
}

impl Source for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        let rows = (self.events.len() - self.at).min(1 << 12);
        let batch = self.events.slice(self.at, rows);
        self.at += rows;
        Ok((rows > 0).then_some(batch))
    }
}

fn inspected(events: &EventBatch) {
    inspect::inspect(&mut Fixed::new(events), None, &mut |_| Ok(())).unwrap();
}

fn linted(events: &EventBatch) {
    let findings = lint::lint(&mut Fixed::new(events), None, &mut |_| Ok(())).unwrap();
    let expected = ["switch-cause", "switch-never-runs"];
    assert!(findings.iter().all(|finding| expected.contains(&finding.rule.name)), "{findings:?}");
}

/// Selects the references to the heap, which follows the mappings.
fn selected(events: &EventBatch) {
    let selection = Selection { regions: vec!["heap".into()], ..Selection::default() };
    let mut part = select(Box::new(Fixed::new(events)), &selection).unwrap();
    while part.next_batch().unwrap().is_some() {}
}

type Reader = (&'static str, fn(&EventBatch));
const READERS: [Reader; 3] = [("inspect", inspected), ("lint", linted), ("select", selected)];

/// Twice the rows cost at most 2.3 times as much. Doubling vectors and deeper trees explain the excess over
/// 2.
fn assert_linear(name: &str, rows: u64, events: impl Fn(u64) -> EventBatch) {
    let _turn = turn();
    let (once, twice) = (events(rows), events(2 * rows));
    for (reader, read) in READERS {
        let (once, twice) = (cost(|| read(&once)), cost(|| read(&twice)));
        for (what, once, twice) in [("asked", once.asked, twice.asked), ("peak", once.peak, twice.peak)] {
            println!("{name}, {reader}: {what} {once} B for {rows}, {twice} B for twice");
            assert!(twice * 10 <= once * 23, "{name}, {reader}: {what} {once} B, then {twice} B");
        }
    }
}

fn map(events: &mut EventBuilder, page: u64, pages: u32) {
    events.push_args(Op::Map, page << 12, 3, pages, [Some(1), Some(page << 12)]);
}

fn load(events: &mut EventBuilder, page: u64) {
    events.push(Op::Load, page << 12, 8, 1);
}

/// Forks a child of `parent` and switches to it.
fn fork(events: &mut EventBuilder, child: u64, parent: u64) {
    events.push_args(Op::Fork, child, 0, 0, [Some(parent), None]);
    events.push(Op::Switch, child, 0, 0);
}

/// There are as many mappings as children. All children live, and each changes one of its mappings.
#[test]
fn children_that_change_a_mapping_each() {
    assert_linear("children", 1000, |rows| {
        let mut events = EventBuilder::default();
        (0..rows).for_each(|number| map(&mut events, 2 * number, 1));
        for child in 1..=rows {
            fork(&mut events, child, 0);
            events.push(Op::Unmap, (2 * (child % rows)) << 12, 0, 1);
            map(&mut events, 2 * (child % rows) + 1, 1);
            load(&mut events, 2 * (child % rows) + 1);
            events.push(Op::Switch, 0, 0, 0);
        }
        events.finish()
    });
}

/// Each child maps one page more than its parent, and lives on or ends.
#[test]
fn a_chain_of_forks() {
    for ends in [false, true] {
        assert_linear("a chain", 1000, |rows| {
            let mut events = EventBuilder::default();
            map(&mut events, 0, 1);
            for child in 1..=rows {
                fork(&mut events, child, child - 1);
                map(&mut events, 2 * child, 1);
                load(&mut events, 2 * child);
                if ends {
                    events.push(Op::Exit, child - 1, 0, 0);
                }
            }
            events.finish()
        });
    }
}

#[test]
fn protections_of_single_pages_and_of_everything() {
    assert_linear("protect", 1000, |rows| {
        let mut events = EventBuilder::default();
        map(&mut events, 0, rows as u32);
        for number in 0..rows {
            load(&mut events, number);
            events.push(Op::Protect, (number ^ 1) << 12, map_flags::READ, 1);
            events.push(Op::Protect, 0, map_flags::READ | map_flags::WRITE, rows as u32);
        }
        events.finish()
    });
}

/// Neighbours differ in what they are or in whether they grow, so none merges with the next.
#[test]
fn protections_of_many_mappings_at_once() {
    for flags in [[3, 3], [3, 3 | map_flags::GROWS]] {
        assert_linear("protect many", 1000, |rows| {
            let mut events = EventBuilder::default();
            for number in 0..rows {
                let args = [Some(1), Some((rows - number) << 20)];
                events.push_args(Op::Map, number << 12, flags[number as usize % 2], 1, args);
            }
            for number in 0..rows {
                load(&mut events, number);
                events.push(
                    Op::Protect,
                    0,
                    map_flags::READ | ((number % 2) as u32 * map_flags::WRITE),
                    rows as u32,
                );
            }
            events.finish()
        });
    }
}

#[test]
fn address_spaces_that_touch_one_page() {
    let spaces = |rows: u64| {
        let mut events = EventBuilder::default();
        map(&mut events, 1, 1);
        load(&mut events, 1);
        for asid in 1..=rows {
            events.push(Op::Switch, asid, 0, 0);
            load(&mut events, 1);
        }
        events.finish()
    };
    assert_linear("address spaces", 4000, spaces);
    let _turn = turn();
    let events = spaces(100_000);
    for (reader, read) in READERS {
        let peak = cost(|| read(&events)).peak;
        println!("{reader}: {peak} B for 100,000 address spaces");
        assert!(peak < 25_000_000, "{reader}: {peak} B");
    }
}
