//! These tests check what passes below the caches, one event at a time: by hand, and against the rules of `TapEvent`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;

use crate::common::{Event, Fixed, batch, cases, event, metric, run};
use binhop_hw::TapEvent;
use binhop_sim::device_data::{DeviceRequest, FrontEvent};
use binhop_sim::io_path::{HALF, NON_TEMPORAL, RUNNING_SPACE};
use binhop_sim::{Machine, Outcome, RunOptions, front_stream};
use binhop_trace::event::{EventBatch, EventBuilder, map_flags};
use binhop_trace::{Op, Source};
use proptest::prelude::*;

/// Two direct-mapped first-level caches of two lines, above a second level of two ways in two sets.
const MACHINE: &str = r#"
memory = { size = "1MiB", page = "4KiB" }
placement = { policy = "identity" }
[cache.l1i]
serves = "fetch"
size = "128B"
line = "64B"
ways = 1
index = "physical"
next = "l2"
[cache.l1d]
serves = "data"
size = "128B"
line = "64B"
ways = 1
index = "physical"
next = "l2"
[cache.l2]
size = "256B"
line = "64B"
ways = 2
index = "physical"
next = "memory"
"#;

fn machine(sets: &[String]) -> Machine {
    Machine::parse(MACHINE, "small", sets).unwrap()
}

/// Returns the same tree with virtual tags, and with room for every line of a short trace.
fn virtually(sets: &[&str]) -> Machine {
    let caches = ["l1i", "l1d", "l2"]
        .into_iter()
        .flat_map(|cache| ["index=virtual", "tag=asid"].map(|key| format!("cache.{cache}.{key}")));
    let sizes = ["cache.l1d.size=16KiB", "cache.l2.size=64KiB", "cache.l2.ways=8"].map(str::to_owned);
    let sets = sets.iter().map(ToString::to_string);
    machine(&sizes.into_iter().chain(caches).chain(sets).collect::<Vec<_>>())
}

fn events_of(machine: &Machine, source: Box<dyn Source>) -> (Vec<FrontEvent>, Outcome) {
    let mut events = Vec::new();
    let mut take = |_, some: &[FrontEvent]| {
        events.extend_from_slice(some);
        Ok(())
    };
    let options = RunOptions { seeds: vec![3], ..RunOptions::default() };
    let outcome = front_stream(machine, source, &options, &mut take, &mut |_| Ok(())).unwrap();
    (events, outcome)
}

fn events(machine: &Machine, trace: &EventBatch) -> (Vec<FrontEvent>, Outcome) {
    events_of(machine, Box::new(Fixed::new(trace.clone(), 7)))
}

const fn read(line: u64) -> FrontEvent {
    FrontEvent::Line(TapEvent::Read { line, store: false })
}

/// The caches have two sets. Lines 0, 2, 4 and 6 fall into the first set.
#[test]
fn each_event_below_the_caches_is_the_expected_one() {
    let mut rows = EventBuilder::default();
    let at = |line: u64| line * 64;
    rows.push(Op::Store, at(0), 8, 1); // reads line 0 for a store
    rows.push(Op::Load, at(2), 8, 1); // level 1 passes line 0 down, dirty; reads line 2
    rows.push(Op::Load, at(4), 8, 1); // level 2 evicts line 2, which was used before line 0 came down
    rows.push(Op::Load, at(6), 8, 1); // level 2 evicts line 0, which is dirty
    rows.push(Op::Store, at(6), 8, 1);
    rows.push_args(Op::DmaRead, at(4), 192, 9, [Some(77), Some(RUNNING_SPACE)]); // lines 4 to 6; 6 is dirty
    rows.push_args(Op::DmaWrite, at(6) + 8, 120, 9, [Some(78), Some(RUNNING_SPACE)]); // a part of 6, all of 7
    rows.push(Op::Load, at(6), 8, 1);
    let line = FrontEvent::Line;
    let request =
        |number, writes, bytes| FrontEvent::Request(DeviceRequest { number, device: 9, writes, bytes });
    let expected = [
        line(TapEvent::Read { line: 0, store: true }),
        read(2),
        read(4),
        line(TapEvent::CleanEviction { line: 2, whole: true }),
        read(6),
        line(TapEvent::WriteBack { line: 0 }),
        request(77, false, 192),
        line(TapEvent::Cleaned { line: 6 }),
        line(TapEvent::DeviceRead { line: 4, request: 77 }),
        line(TapEvent::DeviceRead { line: 5, request: 77 }),
        line(TapEvent::DeviceRead { line: 6, request: 77 }),
        request(78, true, 120),
        line(TapEvent::DeviceWrite { line: 6, whole: false, request: 78 }),
        line(TapEvent::DeviceWrite { line: 7, whole: true, request: 78 }),
        read(6),
    ];
    assert_eq!(events(&machine(&[]), &rows.finish()).0, expected);
}

/// The last level of this machine has lines of 128 bytes. Each line has two parts in the front: line 0 has the parts 0
/// and 1, and so on. The data cache holds two parts, a part with an even number and a part with an odd number.
#[test]
fn a_front_with_shorter_lines_passes_parts() {
    let front = machine(&["cache.l2.line=128B".to_owned()]).front().unwrap();
    let mut rows = EventBuilder::default();
    let part = |part: u64| part * 64;
    rows.push(Op::Store, part(0), 8, 1);
    rows.push(Op::Load, part(1), 8, 1);
    rows.push(Op::Load, part(2), 8, 1); // replaces part 0, which is dirty
    rows.push(Op::Load, part(3), 8, 1); // replaces part 1, the last of line 0
    rows.push(Op::Store, part(3), 8, 1);
    rows.push_args(Op::DmaRead, part(2), 8, 9, [Some(1), Some(RUNNING_SPACE)]); // all of line 1 is cleaned
    rows.push(Op::Store, part(3), 8, 1);
    rows.push_args(Op::DmaWrite, part(2), 64, 9, [Some(2), Some(RUNNING_SPACE)]); // part 3 is not overwritten
    rows.push(Op::Store, part(2), 8, 1);
    rows.push(Op::Load, part(3), 8, 1);
    rows.push_args(Op::DmaWrite, part(2), 128, 9, [Some(3), Some(RUNNING_SPACE)]); // the store is overwritten
    rows.push_args(Op::DmaWrite, part(4), 64, NON_TEMPORAL, [None, Some(RUNNING_SPACE)]);
    let line = FrontEvent::Line;
    let request =
        |number, writes, bytes| FrontEvent::Request(DeviceRequest { number, device: 9, writes, bytes });
    let expected = [
        read(0),
        read(0),
        read(1),
        line(TapEvent::PartialStore { line: 0 }),
        read(1),
        line(TapEvent::CleanEviction { line: 0, whole: false }),
        request(1, false, 8),
        line(TapEvent::PartialStore { line: 1 }),
        line(TapEvent::DeviceRead { line: 1, request: 1 }),
        request(2, true, 64),
        line(TapEvent::PartialStore { line: 1 }),
        line(TapEvent::DeviceWrite { line: 1, whole: false, request: 2 }),
        read(1),
        read(1),
        request(3, true, 128),
        line(TapEvent::DeviceWrite { line: 1, whole: true, request: 3 }),
        line(TapEvent::PartialStore { line: 2 }),
        line(TapEvent::CleanEviction { line: 2, whole: false }),
    ];
    assert_eq!(events(&front, &rows.finish()).0, expected);
}

/// A transfer that ends where a line ends leaves the next line alone, dirty or clean.
#[test]
fn a_transfer_of_whole_lines_leaves_the_next_line_alone() {
    let front = machine(&["cache.l2.line=128B".to_owned()]).front().unwrap();
    let mut rows = EventBuilder::default();
    let part = |part: u64| part * 64;
    rows.push(Op::Store, part(4), 8, 1);
    rows.push(Op::Load, part(5), 8, 1);
    rows.push_args(Op::DmaWrite, part(2), 128, 9, [Some(1), Some(RUNNING_SPACE)]);
    rows.push_args(Op::DmaRead, part(2), 128, 9, [Some(2), Some(RUNNING_SPACE)]);
    rows.push(Op::Store, part(4), 8, 1);
    rows.push(Op::Load, part(5), 8, 1);
    let line = FrontEvent::Line;
    let request =
        |number, writes| FrontEvent::Request(DeviceRequest { number, device: 9, writes, bytes: 128 });
    let expected = [
        read(2),
        read(2),
        request(1, true),
        line(TapEvent::DeviceWrite { line: 1, whole: true, request: 1 }),
        request(2, false),
        line(TapEvent::DeviceRead { line: 1, request: 2 }),
    ];
    assert_eq!(events(&front, &rows.finish()).0, expected);
}

/// Level 1 has a part of a line that level 2 has, too, and both are dirty. The bytes are passed down once, whatever
/// part of the line a device reads.
#[test]
fn bytes_that_are_dirty_in_two_levels_are_passed_down_once() {
    let sets = ["l2.line=128B", "l2.size=512B", "l2.next=l3", "l3.size=1KiB", "l3.line=128B", "l3.ways=2"];
    let sets = sets.into_iter().chain(["l3.next=memory"]).map(|set| format!("cache.{set}"));
    let front = machine(&sets.collect::<Vec<_>>()).front().unwrap();
    for bytes in [128, 40] {
        let mut rows = EventBuilder::default();
        rows.push(Op::Store, 0, 8, 1);
        rows.push(Op::Load, 128, 8, 1); // level 1 passes its part of line 0 down to level 2
        rows.push(Op::Store, 0, 8, 1);
        rows.push_args(Op::DmaRead, 0, bytes, 9, [Some(1), Some(RUNNING_SPACE)]);
        let request = DeviceRequest { number: 1, device: 9, writes: false, bytes: bytes.into() };
        let line = FrontEvent::Line;
        let expected = [
            read(0), // the store makes a part dirty
            read(1),
            FrontEvent::Request(request),
            line(TapEvent::Cleaned { line: 0 }),
            line(TapEvent::DeviceRead { line: 0, request: 1 }),
        ];
        assert_eq!(events(&front, &rows.finish()).0, expected, "{bytes} bytes");
    }
}

/// With virtual tags the pages of a transfer are flushed from both levels: dirty lines are written back, and so are
/// dirty lines that the device overwrites as a whole. Each line is read again, under every name that it had.
#[test]
fn virtual_tags_flush_the_pages_of_a_transfer() {
    let mut rows = EventBuilder::default();
    let shared = map_flags::READ | map_flags::WRITE | map_flags::SHARED;
    let page = 4096;
    rows.push_args(Op::Map, page, shared, 2, [Some(5), Some(0)]);
    rows.push_args(Op::Map, 8 * page, shared, 1, [Some(5), Some(0)]);
    rows.push(Op::Store, page, 8, 1); // line 0 of the segment
    rows.push(Op::Load, 8 * page, 8, 1); // the same line under another name
    rows.push(Op::Load, page + 64, 8, 1);
    rows.push(Op::Store, 2 * page + 128, 8, 1); // line 66
    rows.push_args(Op::DmaWrite, page, 64, 9, [Some(1), Some(RUNNING_SPACE)]); // line 0 alone
    rows.push(Op::Load, page, 8, 1);
    rows.push(Op::Load, 8 * page, 8, 1);
    rows.push(Op::Load, page + 64, 8, 1);
    rows.push(Op::Load, 2 * page + 128, 8, 1); // the other page was not flushed
    rows.push_args(Op::DmaRead, 2 * page - 64, 128, 9, [Some(2), Some(RUNNING_SPACE)]); // lines 63 and 64
    let (found, outcome) = events(&virtually(&["placement.policy=sequential"]), &rows.finish());
    let Some(FrontEvent::Line(TapEvent::Read { line: first, store: true })) = found.first().copied() else {
        panic!("{found:?}")
    };
    let last = found.iter().rev().find_map(|event| match *event {
        FrontEvent::Line(TapEvent::DeviceRead { line, .. }) => Some(line),
        _ => None,
    });
    let second = last.unwrap(); // the first line of the second page
    let request =
        |number, writes, bytes| FrontEvent::Request(DeviceRequest { number, device: 9, writes, bytes });
    let line = FrontEvent::Line;
    let expected = [
        line(TapEvent::Read { line: first, store: true }),
        read(first),
        read(first + 1),
        line(TapEvent::Read { line: second + 2, store: true }),
        request(1, true, 64),
        line(TapEvent::WriteBack { line: first }),
        line(TapEvent::DeviceWrite { line: first, whole: true, request: 1 }),
        read(first),
        read(first),
        read(first + 1),
        request(2, false, 128),
        line(TapEvent::DeviceRead { line: first + 63, request: 2 }),
        line(TapEvent::WriteBack { line: second + 2 }),
        line(TapEvent::DeviceRead { line: second, request: 2 }),
    ];
    assert_eq!(found, expected);
    // Two names of line 0, its neighbour, and line 66, at both levels; then the three of the first page again.
    assert_eq!(metric(&outcome, "l2.purged"), 7);
}

/// Lines that the processor stores without using the caches leave every cache, and go down as writes of the processor.
/// A line of which it stores a part leaves clean behind the store.
#[test]
fn a_store_past_the_caches_is_a_write_of_the_processor() {
    let mut rows = EventBuilder::default();
    rows.push(Op::Store, 0, 8, 1);
    rows.push(Op::Load, 64, 8, 1);
    rows.push_args(Op::DmaWrite, 0, 100, NON_TEMPORAL, [None, Some(RUNNING_SPACE)]); // all of line 0, a part of 1
    rows.push(Op::Load, 0, 8, 1);
    let expected = [
        TapEvent::Read { line: 0, store: true },
        TapEvent::Read { line: 1, store: false },
        TapEvent::WriteBack { line: 0 },
        TapEvent::PartialStore { line: 1 },
        TapEvent::CleanEviction { line: 1, whole: false },
        TapEvent::Read { line: 0, store: false },
    ];
    assert_eq!(events(&machine(&[]), &rows.finish()).0, expected.map(FrontEvent::Line));
}

/// Memory has four frames. The fifth page gets the frame of the first page: every line of the frame is flushed, held or
/// not, and the operating system writes each dirty line of each cache.
#[test]
fn the_lines_of_a_frame_that_changes_hands_leave_everything_behind_the_front() {
    let few = ["placement.policy=first", "placement.pool=4KiB", "memory.size=16KiB", "cache.l2.next=l3"];
    let last = [
        "cache.l2.size=1KiB",
        "cache.l2.ways=4",
        "cache.l3.size=1KiB",
        "cache.l3.line=64B",
        "cache.l3.next=memory",
    ];
    let sets: Vec<String> = few.into_iter().chain(last).map(str::to_owned).collect();
    let mut rows = EventBuilder::default();
    rows.push(Op::Store, 0, 8, 1); // line 0
    rows.push(Op::Load, 128, 8, 1); // level 1 passes line 0 down to level 2
    rows.push(Op::Store, 0, 8, 1); // both levels hold line 0 dirty
    [2, 3, 1].into_iter().for_each(|page| rows.push(Op::Load, page * 4096 + 64, 8, 1));
    rows.push(Op::Store, 4 * 4096 + 64, 8, 1);
    let (found, outcome) = events(&machine(&sets).front().unwrap(), &rows.finish());
    let line = FrontEvent::Line;
    let mut expected =
        vec![line(TapEvent::Read { line: 0, store: true }), read(2), read(129), read(193), read(65)];
    expected.extend((0..64).map(|number| line(TapEvent::Flushed { line: number })));
    expected.extend([line(TapEvent::SystemWrite { line: 0 }); 2]);
    expected.push(line(TapEvent::Read { line: 1, store: true }));
    assert_eq!(found, expected);
    assert_eq!(metric(&outcome, "memory.system.accesses"), 2);
}

/// A device names a segment. It finds the segment where it is mapped: in the kernel's half, whichever process runs.
#[test]
fn a_device_finds_the_segment_that_is_mapped() {
    let placed = ["placement.policy=sequential".to_owned()];
    let mut rows = EventBuilder::default();
    rows.push_args(Op::Map, HALF, map_flags::READ | map_flags::SHARED, 2, [Some(5), Some(4096)]);
    rows.push(Op::Switch, 3, 1, 0);
    rows.push(Op::Load, HALF + 4096, 8, 1); // page 2 of the segment
    rows.push_args(Op::DmaWrite, 2 * 4096 - 64, 128, 1, [None, Some(5)]);
    rows.push(Op::Load, HALF + 4096, 8, 1);
    let (events, _) = events(&machine(&placed), &rows.finish());
    let [
        FrontEvent::Line(TapEvent::Read { line: page, .. }),
        ..,
        FrontEvent::Line(TapEvent::Read { line, .. }),
    ] = events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(line, page);
    assert_eq!(events[3], FrontEvent::Line(TapEvent::DeviceWrite { line: page, whole: true, request: 0 }));
    assert_eq!(events.len(), 5, "{events:?}");
}

/// The first page of a map is mapped again by itself. A device still finds the other page of the first map.
#[test]
fn a_page_that_is_mapped_again_hides_no_other_page() {
    let placed = ["placement.policy=sequential".to_owned()];
    let shared = map_flags::READ | map_flags::SHARED;
    let mut rows = EventBuilder::default();
    rows.push_args(Op::Map, HALF, shared, 2, [Some(5), Some(0)]);
    rows.push(Op::Unmap, HALF, 0, 1);
    rows.push_args(Op::Map, HALF, shared, 1, [Some(5), Some(0)]);
    rows.push_args(Op::DmaWrite, 4096, 64, 1, [None, Some(5)]);
    rows.push_args(Op::DmaWrite, 0, 64, 1, [None, Some(5)]);
    let (events, _) = events(&machine(&placed), &rows.finish());
    assert_eq!(count(&events, |event| matches!(event, TapEvent::DeviceWrite { .. })), 2);
}

#[test]
fn a_request_that_leads_nowhere_is_refused() {
    let placed = ["placement.policy=sequential".to_owned()];
    let refused = |sets: &[String], addr, size, segment| {
        let mut rows = EventBuilder::default();
        rows.push_args(Op::Map, HALF, map_flags::READ | map_flags::SHARED, 1, [Some(5), Some(0)]);
        rows.push_args(Op::Map, HALF + 8192, map_flags::READ, 1, [Some(6), Some(0)]);
        rows.push_args(Op::DmaWrite, addr, size, 1, [None, segment]);
        let (options, source) = (RunOptions::default(), Box::new(Fixed::new(rows.finish(), 7)));
        front_stream(&machine(sets), source, &options, &mut |_, _| Ok(()), &mut |_| Ok(())).err().unwrap()
    };
    let problem = refused(&placed, 4096, 64, Some(5));
    assert_eq!(problem.value, "byte 4096 of segment 5");
    assert!(problem.rule.contains("somebody has mapped"), "{problem}");
    assert!(problem.place.ends_with("row 2: device"), "{problem}");
    assert_eq!(refused(&placed, 4000, 200, Some(5)).value, "byte 4096 of segment 5");
    assert_eq!(refused(&placed, 0, 64, Some(6)).value, "byte 0 of segment 6", "a private map");
    assert!(refused(&placed, 4096, 64, None).rule.contains("physical"));
    assert_eq!(refused(&[], 64, 0, None).value, "0 B");
    assert!(refused(&[], u64::MAX - 5, 64, None).rule.contains("2⁶⁴"));
}

/// A device's virtual address lies in memory that the process has mapped, or that somebody has referenced. A stack grows
/// to the address. In a process that has mapped nothing every address is memory, and a note counts the pages.
#[test]
fn a_device_reads_and_writes_memory_that_somebody_owns() {
    const PAGE: u64 = 4096;
    type Rows = fn(&mut EventBuilder);
    let stream = |sets: &[String], rows: Rows| {
        let mut built = EventBuilder::default();
        rows(&mut built);
        let (options, source) = (RunOptions::default(), Box::new(Fixed::new(built.finish(), 7)));
        front_stream(&machine(sets), source, &options, &mut |_, _| Ok(()), &mut |_| Ok(()))
    };
    fn map(rows: &mut EventBuilder, page: u64, flags: u32) {
        rows.push(Op::Map, page * PAGE, map_flags::READ | map_flags::WRITE | flags, 2);
    }
    fn write(rows: &mut EventBuilder, from: u64, bytes: u32) {
        rows.push_args(Op::DmaWrite, from, bytes, 1, [None, Some(RUNNING_SPACE)]);
    }
    let owned: [Rows; 4] = [
        |rows| {
            map(rows, 16, 0);
            write(rows, 16 * PAGE + 100, 8000);
        },
        |rows| {
            map(rows, 16, 0);
            rows.push(Op::Load, 40 * PAGE, 8, 1);
            write(rows, 40 * PAGE, 64);
            // The first write makes a page of the child's own.
            rows.push_args(Op::Fork, 7, 0, 0, [Some(0), None]);
            rows.push(Op::Switch, 7, 7, 0);
            write(rows, 40 * PAGE, 64);
        },
        |rows| {
            map(rows, 16, map_flags::GROWS);
            write(rows, 10 * PAGE, 64);
        },
        // Another process has maps, and so has the kernel.
        |rows| {
            map(rows, 16, 0);
            rows.push_args(Op::Map, HALF, map_flags::READ | map_flags::SHARED, 1, [Some(5), Some(0)]);
            rows.push(Op::Switch, 7, 7, 0);
            write(rows, 40 * PAGE, 8192);
        },
    ];
    let placed = ["placement.policy=sequential".to_owned()];
    for (number, rows) in owned.into_iter().enumerate() {
        let notes = stream(&placed, rows).unwrap().notes.join("\n");
        let is_noted = notes.contains("2 pages were first referenced by a device");
        assert_eq!(is_noted, number == 3, "{number}: {notes}");
    }
    let unowned: [(Rows, &str); 3] = [
        (
            |rows| {
                map(rows, 16, 0);
                write(rows, 40 * PAGE + 8, 64);
            },
            "0x28008",
        ),
        (
            |rows| {
                map(rows, 16, 0);
                write(rows, 17 * PAGE + 8, 8192);
            },
            "0x12000",
        ),
        (
            |rows| {
                map(rows, 16, 0);
                rows.push(Op::Unmap, 16 * PAGE, 0, 1);
                write(rows, 16 * PAGE, 64);
            },
            "0x10000",
        ),
    ];
    for (rows, value) in unowned {
        let problem = stream(&placed, rows).err().unwrap();
        assert_eq!(problem.value, value);
        assert!(problem.rule.contains("memory that somebody has mapped, or referenced before"), "{problem}");
        assert!(problem.place.contains("row "), "{problem}");
        // Every address is memory where physical = virtual.
        stream(&[], rows).unwrap();
    }
}

/// Counts the events of one form.
fn count(events: &[FrontEvent], form: impl Fn(&TapEvent) -> bool) -> u64 {
    events.iter().filter(|event| matches!(event, FrontEvent::Line(event) if form(event))).count() as u64
}

/// Checks the rules of a front against the lines that it must hold. Without an inclusive cache the instruction cache
/// may read a line that the data cache holds dirty.
fn follow(events: &[FrontEvent], inclusive: bool, flushes_pages: bool) {
    // The lines held, and the held lines that must be dirty. Other held lines may have become dirty by a hit.
    let mut held: BTreeSet<u64> = BTreeSet::new();
    let mut dirty: BTreeSet<u64> = BTreeSet::new();
    // The dirty lines of frames that changed hands, until the operating system has written them.
    let mut unwritten: BTreeSet<u64> = BTreeSet::new();
    for event in events {
        let FrontEvent::Line(event) = *event else { continue };
        if !matches!(event, TapEvent::Flushed { .. } | TapEvent::SystemWrite { .. }) {
            assert!(unwritten.is_empty(), "{unwritten:?} are lost with their frames");
        }
        if let (true, TapEvent::DeviceRead { line, .. } | TapEvent::DeviceWrite { line, .. }) =
            (flushes_pages, event)
        {
            let page = line / 64 * 64..(line / 64 + 1) * 64;
            assert!(dirty.range(page.clone()).next().is_none(), "the page of {line} is flushed");
            held.retain(|line| !page.contains(line));
        }
        match event {
            TapEvent::Read { line, store } => {
                assert!(!inclusive || !dirty.contains(&line), "the front reads {line}, which it holds dirty");
                held.insert(line);
                if store {
                    dirty.insert(line);
                }
            }
            TapEvent::WriteBack { line } => {
                dirty.remove(&line);
                held.remove(&line);
            }
            TapEvent::CleanEviction { line, whole } => {
                assert!(whole, "a part of line {line} leaves");
                assert!(held.remove(&line), "line {line} was held");
                assert!(!dirty.contains(&line), "line {line} leaves clean");
            }
            TapEvent::Cleaned { line } => {
                assert!(held.contains(&line), "line {line} was held");
                dirty.remove(&line);
            }
            TapEvent::DeviceRead { line, .. } => assert!(!dirty.contains(&line), "{line} is stale in memory"),
            TapEvent::DeviceWrite { line, whole, .. } => {
                assert!(whole || !dirty.contains(&line), "bytes of line {line} are lost");
                held.remove(&line);
                dirty.remove(&line);
            }
            TapEvent::Flushed { line } => {
                held.remove(&line);
                unwritten.extend(dirty.take(&line));
            }
            TapEvent::SystemWrite { line } => drop(unwritten.remove(&line)),
            TapEvent::Upgrade { .. } | TapEvent::PartialStore { .. } => unreachable!("not in this front"),
        }
    }
    assert!(unwritten.is_empty(), "{unwritten:?} are lost with their frames");
}

/// Checks the rules of a front with parts of lines: a line is held from the first read of a part until the last part
/// leaves, and only parts of held lines are passed down.
fn follow_parts(events: &[FrontEvent]) {
    let mut held: BTreeSet<u64> = BTreeSet::new();
    for event in events {
        let FrontEvent::Line(event) = *event else { continue };
        match event {
            TapEvent::Read { line, store } => {
                assert!(!store, "the rest of line {line} may be newer elsewhere");
                held.insert(line);
            }
            TapEvent::PartialStore { line } => assert!(held.contains(&line), "line {line} was held"),
            TapEvent::CleanEviction { line, whole } => {
                assert!(held.remove(&line), "line {line} was held");
                assert!(!whole, "no cache holds all of line {line}");
            }
            TapEvent::DeviceRead { .. } => {}
            TapEvent::DeviceWrite { line, .. } | TapEvent::Flushed { line } => drop(held.remove(&line)),
            TapEvent::SystemWrite { line } => assert!(!held.contains(&line), "line {line} was flushed"),
            other => panic!("{other:?} is of whole lines"),
        }
    }
}

/// Compares a front with parts of lines with the plain run of its caches.
fn check_parts(trace: &[Event], places: &[&str], lines: [u32; 3]) {
    let [fetch, data, last] = lines;
    let sizes = [
        format!("cache.l1i.line={fetch}B"),
        format!("cache.l1d.line={data}B"),
        format!("cache.l2.line={last}B"),
        "cache.l2.size=1KiB".to_owned(),
    ];
    let sets: Vec<String> = places.iter().map(ToString::to_string).chain(sizes).collect();
    let front = machine(&sets).front().unwrap();
    let (found, outcome) = events(&front, &batch(trace));
    follow_parts(&found);
    let reads: u64 = ["fetch", "load", "store"]
        .map(|kind| metric(&outcome, &format!("memory.{kind}.accesses")))
        .iter()
        .sum();
    assert_eq!(count(&found, |event| matches!(event, TapEvent::Read { .. })), reads);
    // Without devices, what is passed down is what the caches write back, there and where pages leave memory.
    let others: Vec<_> =
        trace.iter().filter(|event| !matches!(event, Event::Device { .. })).cloned().collect();
    let (alone, outcome) = events(&front, &batch(&others));
    let written = |kind: &str| metric(&outcome, &format!("memory.{kind}.accesses"));
    assert_eq!(count(&alone, |event| matches!(event, TapEvent::PartialStore { .. })), written("writeback"));
    assert_eq!(count(&alone, |event| matches!(event, TapEvent::SystemWrite { .. })), written("system"));
}

fn check(trace: &[Event], places: &[&str], inclusive: bool) {
    let inclusion = [format!("cache.l2.inclusive={inclusive}")];
    let sets: Vec<String> = places.iter().map(ToString::to_string).chain(inclusion).collect();
    let machine = machine(&sets);
    let (events, outcome) = events(&machine, &batch(trace));
    follow(&events, inclusive, false);
    let value = |name: &str| metric(&outcome, name);
    let reads: u64 =
        ["fetch", "load", "store"].map(|kind| value(&format!("memory.{kind}.accesses"))).iter().sum();
    assert_eq!(count(&events, |event| matches!(event, TapEvent::Read { .. })), reads);
    let writes = value("memory.device.write.accesses");
    assert_eq!(count(&events, |event| matches!(event, TapEvent::DeviceWrite { .. })), writes);
    let device = value("memory.device.load.accesses");
    assert_eq!(count(&events, |event| matches!(event, TapEvent::DeviceRead { .. })), device);
    // Without devices nothing else changes.
    let others: Vec<_> =
        trace.iter().filter(|event| !matches!(event, Event::Device { .. })).cloned().collect();
    let options = RunOptions { seeds: vec![3], ..RunOptions::default() };
    let plain = run(&machine, &batch(&others), 1000, &options);
    let alone = self::events(&machine, &batch(&others));
    for kind in ["fetch", "load", "store", "writeback", "system"] {
        let name = format!("memory.{kind}.accesses");
        assert_eq!(metric(&alone.1, &name), metric(&plain, &name), "{name}");
    }
    let written = count(&alone.0, |event| matches!(event, TapEvent::SystemWrite { .. }));
    assert_eq!(written, metric(&plain, "memory.system.accesses"));
}

/// The placements of pages. Under the last two, frames change hands: at once when a page dies, or because memory is
/// full.
const PLACES: [&[&str]; 5] = [
    &["placement.policy=identity"],
    &["placement.policy=random"],
    &["placement.policy=sequential"],
    &["placement.policy=buddy"],
    &["placement.policy=first", "placement.pool=4KiB", "memory.size=32KiB"],
];

/// Draws a trace of programs and devices.
fn with_devices() -> impl Strategy<Value = Vec<Event>> {
    let device = (any::<bool>(), 0u8..8).prop_map(|(writes, page)| Event::Device { writes, page });
    prop::collection::vec(prop_oneof![6 => event(), 1 => device], 1..300)
}

proptest! {
    #![proptest_config(cases(75, 300))]

    #[test]
    fn a_front_keeps_the_rules_of_the_port(
        trace in with_devices(),
        places in prop::sample::select(&PLACES[..]),
        inclusive in any::<bool>(),
    ) {
        check(&trace, places, inclusive);
    }

    #[test]
    fn a_front_with_shorter_lines_keeps_the_rules_of_parts(
        trace in with_devices(),
        places in prop::sample::select(&PLACES[..]),
        lines in prop::sample::select(vec![[64, 64, 128], [32, 16, 64], [16, 32, 256]]),
    ) {
        check_parts(&trace, places, lines);
    }

    #[test]
    fn a_front_with_virtual_tags_gives_up_the_pages_of_a_transfer(
        trace in prop::collection::vec(
            prop_oneof![
                6 => event(),
                1 => (any::<bool>(), 0u8..8).prop_map(|(writes, page)| Event::Device { writes, page }),
            ],
            1..300,
        ),
        places in prop::sample::select(&PLACES[..]),
        size in prop::sample::select(vec!["256B", "64KiB"]),
    ) {
        let size = format!("cache.l2.size={size}");
        let machine = virtually(&[places, &[&size, "cache.l2.ways=2"]].concat());
        let (events, _) = events(&machine, &batch(&trace));
        follow(&events, false, true);
    }
}
