//! These tests let the page cache compete for frames. No placement evicts a page of the page cache, and a page that a
//! full memory pushes out is read from the disk again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use binhop_base::Class;
use binhop_sim::device_data::compare_schemes;
use binhop_sim::io_path::{HALF, IoEvents};
use binhop_sim::{Machine, RunOptions};
use binhop_trace::event::Event;
use binhop_trace::event::map_flags::{READ, SHARED, WRITE};
use binhop_trace::source::SegmentMeta;
use binhop_trace::{Meta, Op, Source};
use proptest::prelude::*;

use crate::common::cases;
use crate::io_path::{Rows, batch, row};

const PAGE: u64 = 4096;
const CODE: u64 = 0x40_0000;
const HEAP: u64 = 0x1000_0000;
const FILE: u64 = 3;

/// Memory has 320 frames, of which 64 are the pool. The page cache may take all of them.
const MACHINE: &str = r#"
memory = { size = "1280KiB", page = "4KiB" }
placement = { policy = "random", pool = "256KiB" }
[cache.l1i]
serves = "fetch"
size = "4KiB"
line = "64B"
ways = 1
next = "l2"
[cache.l1d]
serves = "data"
size = "4KiB"
line = "64B"
ways = 1
next = "l2"
[cache.l2]
size = "16KiB"
line = "64B"
ways = 4
next = "memory"
[io]
page-cache = "1280KiB"
read-ahead = "16KiB"
request = "16KiB"
"#;

fn machine(settings: &[&str]) -> Machine {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    Machine::parse(MACHINE, "small", &settings).unwrap()
}

fn meta() -> Meta {
    Meta {
        page_size: Some(PAGE),
        files: BTreeMap::from([(FILE, "/data".to_owned())]),
        file_bytes: BTreeMap::from([(FILE, 1000 * PAGE)]),
        ..Meta::default()
    }
}

/// Returns a call that reads or writes a page of the file. The program works on four pages of its own.
fn call(writes: bool, page: u64) -> Vec<Event> {
    let call = Event {
        arg0: Some(FILE),
        arg1: Some(page * PAGE),
        ..row(Op::Syscall, HEAP, PAGE as u32, writes.into())
    };
    let mut rows: Vec<Event> = (0..4).map(|page| row(Op::Store, HEAP + page * PAGE, 8, 1)).collect();
    rows.insert(0, row(Op::Fetch, CODE, 16, 4));
    rows.push(call);
    rows
}

/// Returns the evictions of each seed, and what the path has counted: pages read, written, reclaimed.
fn run(machine: &Machine, events: &[Event]) -> (Vec<f64>, [u64; 3]) {
    let source = Rows { meta: meta(), batches: events.chunks(100).map(batch).collect() };
    let path = IoEvents::new(Box::new(source), *machine.io()).unwrap();
    let counts = path.counts();
    let options = RunOptions { seeds: vec![1, 2, 3], ..RunOptions::default() };
    let found = compare_schemes(machine, Box::new(path), &options, &[], &mut |_| Ok(())).unwrap();
    let results = &found.front.results;
    let metrics = results.column_by_name("metric").unwrap().clone();
    let values = results.column_by_name("value").unwrap().clone();
    let (metrics, values) = (metrics.as_string::<i32>(), values.as_primitive::<Float64Type>());
    let evictions = (0..results.num_rows()).filter(|&row| metrics.value(row) == "os.evictions");
    let io = counts.lock().unwrap_or_else(PoisonError::into_inner).io;
    (evictions.map(|row| values.value(row)).collect(), [io.pages_read, io.pages_written, io.pages_reclaimed])
}

const POLICIES: [&[&str]; 8] = [
    &[],
    &["placement.policy=sequential"],
    &["placement.policy=first", "placement.pool=4KiB"],
    &["placement.policy=buddy"],
    &["placement.policy=colored-lists", "placement.colors=1"],
    &["placement.policy=colored-lists", "placement.colors=4"],
    &["placement.policy=colored-lists", "placement.colors=7"],
    &["placement.policy=colored-lists", "placement.colors=4", "placement.pid-hash=true"],
];

/// A file that is three times as large as memory is read, and every fourth page is written back.
#[test]
fn no_placement_evicts_a_page_of_the_page_cache() {
    let events: Vec<Event> = (0..960).flat_map(|page| call(page % 4 == 3, page)).collect();
    for settings in POLICIES {
        let (evictions, [_, _, reclaimed]) = run(&machine(settings), &events);
        assert_eq!(evictions, [0.0; 3], "{settings:?}");
        assert!(reclaimed > 500, "{settings:?}: {reclaimed}");
    }
}

/// Ten pages are read twice. In between the program touches as much memory as there is, or little.
#[test]
fn a_page_that_full_memory_pushed_out_is_read_again() {
    let reads = || (0..10).flat_map(|page| call(false, 3 * page));
    let touches = |pages: u64| (0..pages).map(|page| row(Op::Load, 2 * HEAP + page * PAGE, 8, 1));
    for settings in POLICIES {
        let machine = machine(settings);
        let of = |pages| {
            let events: Vec<Event> = reads().chain(touches(pages)).chain(reads()).collect();
            run(&machine, &events).1
        };
        let (once, twice) = (of(100), of(320));
        assert_eq!((once[2], twice[0] - once[0] > 0), (0, true), "{settings:?}: {once:?}, {twice:?}");
        assert!(twice[2] >= 10, "{settings:?}: {twice:?}");
    }
}

/// A segment that processes share, and a file that they map.
const SHARED_SEGMENT: u64 = 30;
const LIBRARY: u64 = 31;

/// `Act` is what a program does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Refer { stores: bool, at: u64, bytes: u32 },
    Call { writes: bool, page: u64, pages: u32, user: u64 },
    Switch(u64),
    Fork,
}

fn act() -> impl Strategy<Value = Act> {
    // The program has 100 pages of its own, 40 pages of the shared segment, and 20 pages of a file. No buffer of a call
    // lies in the mapped file, because the kernel's copies do not fault (`io_path::mappings`).
    let buffer = prop_oneof![
        4 => (0..100u64).prop_map(|page| HEAP + page * PAGE),
        2 => (0..40u64).prop_map(|page| SHARED_AT + page * PAGE),
    ];
    let page = prop_oneof![6 => buffer.clone(), 1 => (0..20u64).prop_map(|page| LIBRARY_AT + page * PAGE)];
    prop_oneof![
        8 => (any::<bool>(), page, 0..PAGE, 1..6000u32)
            .prop_map(|(stores, page, byte, bytes)| Act::Refer { stores, at: page + byte, bytes }),
        8 => (any::<bool>(), 0..300u64, 1..4u32, buffer)
            .prop_map(|(writes, page, pages, user)| Act::Call { writes, page, pages, user }),
        1 => (0..3u64).prop_map(Act::Switch),
        1 => Just(Act::Fork),
    ]
}

const SHARED_AT: u64 = 0x2000_0000;
const LIBRARY_AT: u64 = 0x3000_0000;

/// Returns the events of acts. Each address space maps the shared segment at an address of its own, so that its pages
/// have another color there.
fn events(acts: &[Act]) -> Vec<Event> {
    let map = |at: u64, flags: u32, pages: u32, segment: u64| Event {
        arg0: Some(segment),
        arg1: Some(0),
        ..row(Op::Map, at, READ | WRITE | flags, pages)
    };
    // The first chunk of the page cache holds the pages of the file that calls use.
    let mut all = vec![call(false, 0)[5]];
    for asid in 0..3 {
        all.push(row(Op::Switch, asid, 1, 0));
        all.push(map(SHARED_AT + asid * PAGE, SHARED, 42, SHARED_SEGMENT));
        all.push(map(LIBRARY_AT, 0, 22, LIBRARY));
    }
    for &act in acts {
        all.push(match act {
            Act::Refer { stores, at, bytes } => row(if stores { Op::Store } else { Op::Load }, at, bytes, 1),
            Act::Call { writes, page, pages, user } => Event {
                arg0: Some(FILE),
                arg1: Some(page * PAGE),
                ..row(Op::Syscall, user, pages * PAGE as u32, writes.into())
            },
            Act::Switch(asid) => row(Op::Switch, asid, 1, 0),
            Act::Fork => Event { arg0: Some(2), ..row(Op::Fork, 0, 0, 0) },
        });
    }
    all
}

const CACHE: u64 = HALF + (1 << 46);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..cases(12, 48) })]

    /// Whatever a program does, no placement evicts a page of the file that calls use. This program may have all of
    /// memory, so other pages are evicted.
    #[test]
    fn pages_of_colors_leave_the_page_cache_before_a_placement_evicts_them(
        acts in prop::collection::vec(act(), 200..700),
        shape in 0..4usize,
    ) {
        let shapes: [&[&str]; 4] = [
            &["memory.size=512KiB", "placement.colors=2"],
            &["memory.size=768KiB", "placement.colors=4"],
            &["memory.size=512KiB", "placement.colors=3", "placement.pid-hash=true"],
            &["memory.size=768KiB", "placement.colors=4", "placement.pid-hash=true"],
        ];
        let machine = machine(&[&["placement.policy=colored-lists", "io.read-ahead=8KiB"], shapes[shape]].concat());
        prop_assert!(machine.page_cache_problem().is_none());
        let mut meta = meta();
        meta.segments.insert(LIBRARY, SegmentMeta { file: Some("/lib/a.so".to_owned()), kind: None });
        let source = Rows { meta, batches: events(&acts).chunks(50).map(batch).collect() };
        let path = IoEvents::new(Box::new(source), *machine.io()).unwrap();
        let options = RunOptions { seeds: vec![1], log: true, ..RunOptions::default() };
        let found = compare_schemes(&machine, Box::new(path), &options, &[], &mut |_| Ok(())).unwrap();
        let log = found.front.placements.unwrap();
        let column = |name: &str| log.column_by_name(name).unwrap().clone();
        let (page, page_no, evicted) = (column("page"), column("page_no"), column("evicted"));
        let (page, evicted) = (page.as_primitive::<UInt32Type>(), evicted.as_primitive::<UInt32Type>());
        let page_no = page_no.as_primitive::<UInt64Type>();
        let cached: BTreeSet<u32> = (0..log.num_rows())
            .filter(|&row| (CACHE / PAGE..CACHE / PAGE + 400).contains(&page_no.value(row)))
            .map(|row| page.value(row))
            .collect();
        prop_assert!(!cached.is_empty());
        for row in 0..log.num_rows() {
            let lost = evicted.is_valid(row).then(|| evicted.value(row));
            prop_assert!(lost.is_none_or(|lost| !cached.contains(&lost)), "placement {row} evicts {lost:?}");
        }
    }
}

/// The first use of the page cache is refused by name where one order of pages does not tell which page leaves memory.
#[test]
fn placements_with_other_orders_are_refused() {
    let refused = |settings: &[&str], events: &[Event]| {
        let machine = machine(settings);
        let source = Rows { meta: meta(), batches: vec![batch(events)] };
        let path = IoEvents::new(Box::new(source), *machine.io()).unwrap();
        let mut path = path.refusing(machine.page_cache_problem());
        loop {
            match path.next_batch() {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(problem) => return Some(problem),
            }
        }
    };
    let events = [row(Op::Load, HEAP, 8, 1), call(false, 0)[5]];
    let colors = ["placement.policy=colored-lists", "placement.colors=16"];
    let problem = refused(&colors, &events).unwrap();
    assert_eq!((&*problem.value, &*problem.place), ("16", "machine small: placement.colors"), "{problem}");
    assert!(problem.rule.contains("144KiB at least, and here 76KiB"), "{problem}");
    assert!(refused(&colors, &events[..1]).is_none(), "no call uses the page cache");
    assert!(refused(&["placement.policy=colored-lists", "placement.colors=8"], &events).is_none());
    let problem = refused(&["placement.pool=1280KiB"], &events).unwrap();
    assert_eq!((&*problem.value, problem.class), ("0B", Class::Request), "{problem}");
    assert!(problem.rule.contains("at least"), "{problem}");
    assert!(refused(&["placement.policy=identity"], &events).is_none());
    assert!(refused(&[], &events).is_none());
    let problem = Machine::parse(MACHINE, "small", &["io.request=520KiB".into()]).unwrap_err();
    assert!(problem.rule.contains("half of the memory"), "{problem}");
}
