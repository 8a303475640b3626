//! These tests check the rows that system calls add to a trace.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use binhop_base::{Asid, Bytes, PageNo, PowerOfTwo, Result, VirtAddr};
use binhop_os::Spaces;
use binhop_os::io::{FileWrites, IoConfig, IoWaiting, MemoryRoom};
use binhop_os::placement::PageColors;
use binhop_sim::io_path::{HALF, IoEvents, NON_TEMPORAL, PathCounts, RUNNING_SPACE};
use binhop_trace::event::{Event, EventBuilder};
use binhop_trace::source::SegmentMeta;
use binhop_trace::{EventBatch, Meta, Op, Source};
use proptest::prelude::*;

const USER: u64 = 0x1000_0000;
const FILE: u64 = 3;
const SOCKET: u64 = 4;
const PIPE: u64 = 5;
const TERMINAL: u64 = 6;
/// The file's segment in the trace. The kernel's own segments follow.
const SEGMENT: u64 = 9;
const PACKETS: u64 = 12;
const TEXT: u64 = HALF;
const RINGS: u64 = HALF + (1 << 36);
const CACHE: u64 = HALF + (1 << 46);

/// `Rows` is a trace held as batches.
pub struct Rows {
    pub meta: Meta,
    pub batches: Vec<EventBatch>,
}

impl Source for Rows {
    fn name(&self) -> &str {
        "rows"
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Ok((!self.batches.is_empty()).then(|| self.batches.remove(0)))
    }
}

fn meta() -> Meta {
    let segment = SegmentMeta { file: Some("/data".to_owned()), kind: Some("file".to_owned()) };
    let files = [(FILE, "/data"), (SOCKET, "socket:[7]"), (PIPE, "pipe:[8]"), (TERMINAL, "/dev/pts/0")];
    Meta {
        page_size: Some(4096),
        segments: BTreeMap::from([(SEGMENT, segment)]),
        files: files.map(|(id, path)| (id, path.to_owned())).into(),
        ..Meta::default()
    }
}

pub fn config() -> IoConfig {
    IoConfig {
        page: 4096,
        cache_pages: 64,
        read_ahead: 8,
        request_pages: 8,
        dirty_pages: 16,
        dirty_age: 1_000_000,
        ring: 8,
        buffer: 2048,
        packet: 1500,
        coalesce: 1,
        backlog: 0,
        extent_pages: 1 << 20,
        disk_rate: None,
        disk_write_rate: None,
        send_rate: None,
        file_writes: FileWrites::Cached,
        memory: None,
    }
}

/// Returns a system call's row.
fn call(number: u32, user: u64, bytes: u32, file: u64, offset: Option<u64>) -> Event {
    Event { op: Op::Syscall, addr: user, size: bytes, count: number, arg0: Some(file), arg1: offset }
}

pub fn row(op: Op, addr: u64, size: u32, count: u32) -> Event {
    Event { op, addr, size, count, arg0: None, arg1: None }
}

pub fn batch(events: &[Event]) -> EventBatch {
    let mut builder = EventBuilder::default();
    for event in events {
        let Event { op, addr, size, count, arg0, arg1 } = *event;
        builder.push_args(op, addr, size, count, [arg0, arg1]);
    }
    builder.finish()
}

/// Returns the rows that the path makes of rows in batches of `each`, and the number of calls about which the trace
/// says too little.
fn followed(events: &[Event], each: usize) -> (Vec<Event>, u64) {
    followed_with(meta(), events, each)
}

fn followed_with(meta: Meta, events: &[Event], each: usize) -> (Vec<Event>, u64) {
    followed_by(config(), meta, events, each)
}

fn followed_by(config: IoConfig, meta: Meta, events: &[Event], each: usize) -> (Vec<Event>, u64) {
    let (rows, unseen, _) = counted(config, meta, events, each);
    (rows, unseen)
}

/// Returns what [`followed`] returns, and what waits for devices at the end.
fn counted(config: IoConfig, meta: Meta, events: &[Event], each: usize) -> (Vec<Event>, u64, IoWaiting) {
    let source = Rows { meta, batches: events.chunks(each).map(batch).collect() };
    let mut path = IoEvents::new(Box::new(source), config).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = path.next_batch().unwrap() {
        all.extend((0..batch.len()).map(|row| Event::of(&batch, row)));
    }
    let PathCounts { unseen, waiting, .. } = *path.counts().lock().unwrap();
    (all, unseen, waiting)
}

/// Pages that were asked for arrive, and old pages are written, behind the fetch with whose instructions their time
/// comes. Requests that wait at the end of the trace stay there, and are counted.
#[test]
fn devices_act_at_a_time_of_their_own() {
    // A page in 1,000 instructions; a page is old after 3,500.
    let rate = NonZeroU64::new(4096 * 1000);
    let rates = IoConfig { disk_rate: rate, disk_write_rate: rate, dirty_age: 3500, ..config() };
    let mut known = meta();
    known.file_bytes.insert(FILE, 16 * 4096);
    let fetch = row(Op::Fetch, 0x40_0000, 4000, 1000);
    let load = row(Op::Load, USER, 8, 1);
    let calls = |time: usize| {
        let first = [call(0, USER, 4096, FILE, Some(0)), call(1, USER, 1, FILE, Some(0))];
        let mut events = [first.to_vec(), [fetch, load].repeat(time)].concat();
        events.push(call(0, USER, 4096, FILE, Some(4096)));
        events
    };
    let transfers = |events: &[Event]| {
        let (rows, _, waiting) = counted(rates, known.clone(), events, 3);
        let mut fetches = 0;
        let mut seen = Vec::new();
        for row in &rows {
            fetches += usize::from(*row == fetch);
            if matches!(row.op, Op::DmaRead | Op::DmaWrite) && row.count == 0 {
                seen.push((fetches, row.op, row.addr / 4096));
            }
        }
        (seen, waiting.values().collect::<Vec<_>>())
    };
    let read = |time, page| (time, Op::DmaWrite, page);
    let at_once = [read(0, 0), read(0, 1)];
    // The second call meets the marker of the first window, pages 0 and 1.
    assert_eq!(transfers(&calls(0)), (at_once.to_vec(), vec![4, 0, 0, 1]));
    let (mut seen, waiting) = transfers(&[calls(0), [fetch, load].repeat(5)].concat());
    assert_eq!(waiting, [0, 0, 0, 0]);
    seen.drain(..2);
    let window = [read(4, 2), read(4, 3), read(4, 4), read(4, 5)];
    assert_eq!(seen, [&window[..], &[(5, Op::DmaRead, 0)]].concat(), "old at 3,500, written at 4,500");
    assert_eq!(transfers(&calls(4)).1, [4, 1, 0, 0], "the page that is old waits for the disk");
}

/// A store through a mapping makes a page dirty at once. One dirty page too many wakes the flusher at the next
/// instruction.
#[test]
fn a_store_through_a_mapping_wakes_the_flusher() {
    let sizes = IoConfig { dirty_pages: 1, ..config() };
    let map = Event { arg0: Some(SEGMENT), arg1: Some(0), ..row(Op::Map, USER, 1 | 2 | 8, 4) };
    let (fetch, store) =
        (row(Op::Fetch, 0x40_0000, 4, 1), |page: u64| row(Op::Store, USER + page * 4096, 8, 1));
    let events = [map, fetch, store(0), store(1), fetch, store(2), fetch];
    let (rows, ..) = counted(sizes, meta(), &events, 7);
    let seen: Vec<_> = rows
        .iter()
        .filter(|row| {
            **row == fetch
                || (row.op == Op::Store && row.addr < HALF)
                || (row.op == Op::DmaRead && row.count == 0)
        })
        .map(|row| (row.op, row.addr))
        .collect();
    let (code, stored) = ((Op::Fetch, 0x40_0000), |page: u64| (Op::Store, USER + page * 4096));
    let written = |page: u64| (Op::DmaRead, page * 4096);
    assert_eq!(seen, [code, stored(0), stored(1), code, written(0), written(1), stored(2), code]);
}

/// A trace that is in the kernel itself is there when a device interrupts, and afterwards.
#[test]
fn an_interrupt_in_the_kernel_does_not_leave_it() {
    let sizes = IoConfig { dirty_age: 10, ..config() };
    let (enter, leave) = (row(Op::KernelEnter, 0, 0, 14), row(Op::KernelLeave, 0, 0, 0));
    let fetch = row(Op::Fetch, 0x40_0000, 40, 10);
    let (rows, ..) = counted(sizes, meta(), &[call(1, USER, 4096, FILE, Some(0)), enter, fetch, leave], 2);
    let modes: Vec<_> =
        rows.iter().filter(|row| matches!(row.op, Op::KernelEnter | Op::KernelLeave)).copied().collect();
    let of_call = row(Op::KernelEnter, 0, 0, 0);
    assert_eq!(modes, [of_call, leave, enter, leave]);
    assert!(rows.iter().any(|row| row.op == Op::DmaRead && row.count == 0), "the page is written");
}

/// Of a file whose length is known, more is read than a call asks for, and nothing behind its end.
#[test]
fn a_known_length_lets_the_path_read_ahead() {
    let reads = [call(0, USER, 4096, FILE, Some(0)), call(0, USER, 4096, FILE, Some(4096))];
    let pages = |bytes: Option<u64>| {
        let mut known = meta();
        known.file_bytes.extend(bytes.map(|bytes| (FILE, bytes)));
        let (rows, _) = followed_with(known, &reads, 2);
        let data = rows.iter().filter(|row| row.op == Op::DmaWrite && row.arg1 == Some(SEGMENT));
        data.map(|row| (row.arg0.unwrap(), row.addr / 4096)).collect::<Vec<_>>()
    };
    // The number of the request, and the page.
    assert_eq!(pages(None), [(0, 0), (1, 1)]);
    assert_eq!(pages(Some(3 * 4096)), [(0, 0), (0, 1), (1, 2)]);
    assert_eq!(pages(Some(5000)), [(0, 0), (0, 1)]);
}

/// A read of 100 bytes of a file, by hand: request, transfer, interrupt, copy.
#[test]
fn a_read_by_hand() {
    let read = call(0, USER + 32, 100, FILE, Some(0));
    let next = row(Op::Load, USER, 8, 1);
    let (rows, unseen) = followed(&[read, next], 2);
    let map = |start, flags, pages, segment| Event {
        arg0: Some(segment),
        arg1: Some(0),
        ..row(Op::Map, start, flags, pages)
    };
    let dma = |op, offset, size, segment, device| Event {
        arg0: Some(0),
        arg1: Some(segment),
        ..row(op, offset, size, device)
    };
    let fetch = |at, instructions| row(Op::Fetch, TEXT + at, 4 * instructions, instructions);
    let expected = [
        read,
        // The driver writes the descriptor.
        map(RINGS, 1 | 2 | 8, 16, SEGMENT + 2),
        map(TEXT, 1 | 4 | 8, 16, SEGMENT + 1),
        row(Op::KernelEnter, 0, 0, 0),
        fetch(0x200, 4),
        row(Op::Store, RINGS, 16, 1),
        // The device reads the descriptor, transfers the page and marks the descriptor.
        dma(Op::DmaRead, 0, 16, SEGMENT + 2, 2),
        map(CACHE, 1 | 2 | 8, 512, SEGMENT),
        dma(Op::DmaWrite, 0, 4096, SEGMENT, 0),
        dma(Op::DmaWrite, 0, 16, SEGMENT + 2, 2),
        fetch(0x1000, 128),
        fetch(0x200, 4),
        row(Op::Load, RINGS, 16, 1),
        // The processor copies 100 bytes in two pieces of 64 and 36 bytes.
        fetch(0, 4),
        row(Op::Load, CACHE, 64, 1),
        row(Op::Store, USER + 32, 64, 1),
        fetch(0, 4),
        row(Op::Load, CACHE + 64, 36, 1),
        row(Op::Store, USER + 96, 36, 1),
        row(Op::KernelLeave, 0, 0, 0),
        next,
    ];
    assert_eq!((rows, unseen), (expected.to_vec(), 0));
}

/// A write of 200 bytes from byte 60 of a line on bypasses the caches: each whole line is a store of the device
/// `NON_TEMPORAL`.
#[test]
fn a_write_past_the_caches_by_hand() {
    let non_temporal = IoConfig { file_writes: FileWrites::NonTemporal, ..config() };
    let write = call(1, USER + 60, 200, FILE, Some(60));
    let (rows, _) = followed_by(non_temporal, meta(), &[write], 1);
    let copied: Vec<_> = rows
        .iter()
        .filter(|row| {
            row.op == Op::Load
                || row.count == NON_TEMPORAL
                || row.addr == CACHE + 60
                || row.addr == CACHE + 256
        })
        .map(|row| (row.op, row.addr, row.size, row.count, row.arg1))
        .collect();
    let load = |at, size| (Op::Load, USER + at, size, 1, None);
    let store = |at, size| (Op::Store, CACHE + at, size, 1, None);
    let past = |at| (Op::DmaWrite, at, 64, NON_TEMPORAL, Some(SEGMENT));
    let expected = [
        load(60, 4),
        store(60, 4),
        load(64, 64),
        past(64),
        load(128, 64),
        past(128),
        load(192, 64),
        past(192),
        load(256, 4),
        store(256, 4),
    ];
    assert_eq!(copied, expected);
}

/// A direct read goes from the device to the caller's memory: the kernel copies nothing.
#[test]
fn a_direct_read_by_hand() {
    let mut direct = meta();
    direct.direct_files.insert(FILE);
    let (rows, _) = followed_with(direct, &[call(17, USER, 8192, FILE, Some(4096))], 1);
    let data: Vec<_> = rows
        .iter()
        .filter(|row| row.op == Op::DmaWrite && row.count == 0)
        .map(|row| (row.addr, row.size, row.arg0, row.arg1))
        .collect();
    let page = |at| (USER + at, 4096, Some(0), Some(RUNNING_SPACE));
    assert_eq!(data, [page(0), page(4096)]);
    assert!(!rows.iter().any(|row| matches!(row.op, Op::Load | Op::Store) && row.addr < HALF));
}

/// fsync writes the dirty pages of its file, and sync writes all dirty pages. A call that names no file is counted.
#[test]
fn dirty_pages_are_written_when_a_call_asks_for_it() {
    let sync = |system: Option<&str>, write: u32, number: u32, file: Option<u64>| {
        let named = Meta { system_calls: system.map(str::to_owned), ..meta() };
        let asks = Event { arg0: file, ..row(Op::Syscall, 0, 0, number) };
        let calls = [call(write, USER, 8192, FILE, Some(4096)), asks];
        let (rows, unseen) = followed_with(named, &calls, 1);
        let read = rows.iter().filter(|row| row.op == Op::DmaRead && row.count == 0);
        (read.map(|row| (row.addr, row.arg1)).collect::<Vec<_>>(), unseen)
    };
    let pages = vec![(4096, Some(SEGMENT)), (8192, Some(SEGMENT))];
    for number in [74, 75] {
        assert_eq!(sync(None, 1, number, Some(FILE)), (pages.clone(), 0), "{number}");
        assert_eq!(sync(None, 1, number, Some(SOCKET)), (vec![], 0), "{number}");
        assert_eq!(sync(None, 1, number, None), (vec![], 1), "{number}");
    }
    assert_eq!(sync(None, 1, 162, None), (pages.clone(), 0));
    assert_eq!(sync(Some("4.3bsd"), 4, 95, Some(FILE)), (pages.clone(), 0));
    assert_eq!(sync(Some("4.3bsd"), 4, 36, None), (pages, 0));
}

/// Pages that are cut off or deleted are never written, and a file in memory has no disk.
#[test]
fn pages_that_are_cut_off_leave_unwritten() {
    let mut other = meta();
    other.files.insert(11, "/memfd:scratch (deleted)".to_owned());
    let written = |cut: Event| {
        let calls = [call(1, USER, 3 * 4096, FILE, Some(0)), cut, call(74, 0, 0, FILE, None)];
        let (rows, unseen) = followed_with(other.clone(), &calls, 1);
        let read = rows.iter().filter(|row| row.op == Op::DmaRead && row.count == 0);
        let gone = rows.iter().filter(|row| row.op == Op::Unmap).count();
        (read.map(|row| row.addr / 4096).collect::<Vec<_>>(), gone, unseen)
    };
    assert_eq!(written(call(77, 0, 0, FILE, Some(4096))), (vec![0], 2, 0));
    assert_eq!(written(call(76, USER, 6, FILE, Some(0))), (vec![], 3, 0));
    assert_eq!(written(call(87, USER, 6, FILE, Some(0))), (vec![], 3, 0));
    let nameless = Event { arg0: None, ..call(263, USER, 6, FILE, None) };
    assert_eq!(written(nameless), (vec![0, 1, 2], 0, 0), "the file has another name");
    assert_eq!(written(call(1, USER, 4096, 11, Some(0))), (vec![0, 1, 2], 0, 0));
}

/// A file may have one number for direct calls and another for the rest. Both numbers mean one file: a direct read
/// finds what a call has written into the page cache, and a direct write removes the pages that it writes from the page
/// cache.
#[test]
fn a_file_with_two_numbers_is_one_file() {
    let mut two = meta();
    two.files.insert(11, "/data".to_owned());
    two.direct_files.insert(11);
    let calls = [
        call(1, USER, 4096, FILE, Some(0)),
        call(0, USER, 4096, 11, Some(0)),
        call(1, USER, 4096, 11, Some(0)),
        call(0, USER, 4096, FILE, Some(0)),
    ];
    let (rows, _) = followed_with(two, &calls, 1);
    let disk: Vec<_> = rows
        .iter()
        .filter(|row| matches!(row.op, Op::DmaRead | Op::DmaWrite) && row.count == 0)
        .map(|row| (row.op, row.addr, row.arg1))
        .collect();
    let expected = [
        (Op::DmaRead, 0, Some(SEGMENT)),
        (Op::DmaWrite, USER, Some(RUNNING_SPACE)),
        (Op::DmaRead, USER, Some(RUNNING_SPACE)),
        (Op::DmaWrite, 0, Some(SEGMENT)),
    ];
    assert_eq!(disk, expected);
}

/// A call is counted as unseen if the trace holds only its number, or if the other side of the call is in no trace. A
/// call that found nothing names its file.
#[test]
fn calls_without_sizes_are_counted() {
    let bare = |number| row(Op::Syscall, 0, 0, number);
    let cases = [
        (vec![bare(0), bare(1), bare(47), bare(278)], 4),
        (vec![bare(310), call(311, USER, 64, FILE, None), bare(209), bare(426)], 4),
        (vec![call(0, USER, 0, FILE, Some(0)), bare(39), bare(162), bare(306)], 0),
    ];
    for (calls, expected) in cases {
        let (rows, unseen) = followed_with(meta(), &calls, 1);
        assert_eq!(unseen, expected, "{calls:?}");
        assert_eq!(rows.len(), calls.len(), "nothing is moved");
    }
}

/// In a trace that describes its calls, a call without object and without bytes has failed. A call of which the trace
/// does not say all is counted as before.
#[test]
fn calls_that_failed_are_not_counted() {
    let bare = |number| row(Op::Syscall, 0, 0, number);
    let failed: Vec<Event> = [0, 1, 47, 278, 74, 40, 276, 310].map(bare).into();
    let nameless = row(Op::Syscall, USER, 64, 327);
    let cases = [
        (failed.clone(), true, 0),
        (failed, false, 8),
        (vec![nameless, bare(209), call(310, USER, 64, FILE, None)], true, 3),
    ];
    for (calls, describes_calls, expected) in cases {
        let (rows, unseen) = followed_with(Meta { describes_calls, ..meta() }, &calls, 1);
        assert_eq!(unseen, expected, "{calls:?}");
        assert_eq!(rows.len(), calls.len(), "nothing is moved");
    }
}

/// Page n of a file, of packets and of the kernel's other areas lies at a virtual page whose number is n mod colors. No
/// two areas and no two chunks overlap. Colors whose number divides a chunk move nothing.
#[test]
fn the_kernels_pages_lie_at_virtual_pages_of_their_colors() {
    let chunk = 512 * 4096;
    let read = |offset| call(0, USER, 100, FILE, Some(offset));
    let calls =
        [read(5 * chunk), read(0), read(3 * chunk + 4096), read(9 * chunk), call(0, USER, 100, SOCKET, None)];
    let maps = |number: u64| -> Vec<Event> {
        let colors = PageColors { number, pid_hash: false };
        let memory = Some(MemoryRoom { pages: 1000, colors, reuses_frames: false });
        let source = Rows { meta: meta(), batches: vec![batch(&calls)] };
        let mut path = IoEvents::new(Box::new(source), IoConfig { memory, ..config() }).unwrap();
        let mut all = Vec::new();
        while let Some(batch) = path.next_batch().unwrap() {
            all.extend((0..batch.len()).map(|row| Event::of(&batch, row)).filter(|row| row.op == Op::Map));
        }
        all
    };
    let usual = maps(1);
    assert_eq!(usual.iter().filter(|map| map.addr >= CACHE).count(), 4);
    for colors in [2, 64, 512, 3, 7, 1000, 1024, 4096] {
        let found = maps(colors);
        assert!((found == usual) == (512 % colors == 0), "{colors} colors");
        let mut ends: Vec<(u64, u64)> = Vec::new();
        for map in &found {
            let offset = map.arg1.unwrap();
            assert_eq!(map.addr / 4096 % colors, offset / 4096 % colors, "{colors} colors: {map:?}");
            ends.push((map.addr, map.addr + u64::from(map.count) * 4096));
        }
        ends.sort_unstable();
        assert!(ends.windows(2).all(|two| two[0].1 <= two[1].0), "{colors} colors: {ends:x?}");
    }
}

/// A path names one file, however many numbers it has: a read finds in the page cache what a call on another number has
/// written there. A file whose path is unknown has pages of its own.
#[test]
fn numbers_of_one_path_are_one_file() {
    let mut more = meta();
    more.files.extend([(11, "/data".to_owned()), (12, String::new()), (13, String::new())]);
    more.file_bytes.extend([(FILE, 5000), (11, 9000), (12, 4096), (13, 4096)]);
    let read = |file: u64| call(0, USER, 4096, file, Some(0));
    let (rows, _) = followed_with(more, &[read(FILE), read(11), read(12), read(13), read(11)], 1);
    let data = |row: &&Event| row.op == Op::DmaWrite && row.count == 0;
    let requests: Vec<_> = rows.iter().filter(data).map(|row| (row.addr, row.arg1)).collect();
    let (first, of_file): (Vec<_>, Vec<(u64, Option<u64>)>) =
        requests.into_iter().partition(|request| request.1 == Some(SEGMENT));
    assert_eq!(first, [(0, Some(SEGMENT)), (4096, Some(SEGMENT))]);
    assert_eq!(of_file.len(), 2, "one page of each other file");
    assert_ne!(of_file[0].1, of_file[1].1);
}

/// A call between two files knows a file by either number: what is copied from a direct file comes from the page cache.
#[test]
fn a_call_between_files_finds_the_file_behind_a_direct_one() {
    let mut two = meta();
    two.files.extend([(11, "/data".to_owned()), (12, "/copy".to_owned())]);
    two.direct_files.insert(11);
    let to = |file| Event { arg0: Some(file), arg1: Some(0), ..row(Op::Range, 0, 4096, 3) };
    for (number, target) in [(326, 12), (40, SOCKET)] {
        let calls = [call(0, USER, 4096, FILE, Some(0)), call(number, 0, 0, 11, Some(0)), to(target)];
        let (rows, unseen) = followed_with(two.clone(), &calls, 1);
        let read = rows.iter().filter(|row| row.op == Op::DmaWrite && row.count == 0);
        assert_eq!((read.count(), unseen), (1, 0), "{number}");
    }
}

/// Calls between two files copy from page cache to page cache, or from the page cache to the card. A call about which
/// the trace says too little is counted.
#[test]
fn calls_between_two_files_by_hand() {
    let between = |number, offset, bytes, to, at| {
        let range = Event { arg0: Some(to), arg1: at, ..row(Op::Range, 0, bytes, 3) };
        [call(number, 0, 0, FILE, Some(offset)), range]
    };
    let other = 11;
    let mut both = meta();
    both.files.insert(other, "/copy".to_owned());
    let copied = |events: &[Event]| {
        let (rows, unseen) = followed_with(both.clone(), events, 7);
        let bytes =
            |op| -> u64 { rows.iter().filter(|row| row.op == op).map(|row| u64::from(row.size)).sum() };
        let sent = rows.iter().filter(|row| row.op == Op::DmaRead && row.count == 1);
        let pages = sent.map(|row| (row.addr, row.size, row.arg1)).collect::<Vec<_>>();
        (bytes(Op::Load), bytes(Op::Store), pages, unseen)
    };
    // copy_file_range: 5,000 bytes are loaded and stored once, beside one descriptor that is written and read.
    let (loaded, stored, sent, unseen) = copied(&between(326, 0, 5000, other, Some(0)));
    assert_eq!((loaded, sent, unseen), (5000 + 16, vec![], 0));
    assert_eq!(stored, 5000 + 16 * 2 + (2 * 4096 - 5000), "the end of the last page is filled with zeros");
    // sendfile: nothing is copied. The card reads the page cache in packets of 1,500 bytes.
    let (_, _, sent, unseen) = copied(&between(40, 4096, 2000, SOCKET, None));
    assert_eq!((sent, unseen), (vec![(4096, 1500, Some(SEGMENT)), (5596, 500, Some(SEGMENT))], 0));
    assert_eq!(copied(&between(326, 0, 100, other, None)).3, 1, "nobody knows where the bytes go");
    assert_eq!(copied(&[call(326, 0, 0, FILE, Some(0))]).3, 0, "a call that moved nothing");
}

/// splice and tee move pages: what comes from a file is copied once, when a process reads the pipe, or not at all.
#[test]
fn pages_in_pipes_are_not_copied() {
    let (second, copy) = (11, 12);
    let mut more = meta();
    more.files.extend([(second, "pipe:[9]".to_owned()), (copy, "/copy".to_owned())]);
    let between = |number, from, offset, bytes, to, at| {
        let range = Event { arg0: Some(to), arg1: at, ..row(Op::Range, 0, bytes, 3) };
        vec![Event { arg0: Some(from), arg1: offset, ..row(Op::Syscall, 0, 0, number) }, range]
    };
    let moved = |calls: &[Vec<Event>]| {
        let (rows, unseen) = followed_with(more.clone(), &calls.concat(), 3);
        let copied = |op| -> u64 {
            let of =
                rows.iter().filter(|row| row.op == op && !(RINGS..RINGS + (1 << 36)).contains(&row.addr));
            of.map(|row| u64::from(row.size)).sum()
        };
        let sent = rows.iter().filter(|row| row.op == Op::DmaRead && row.count == 1);
        (copied(Op::Load), copied(Op::Store), sent.map(|row| u64::from(row.size)).sum::<u64>(), unseen)
    };
    let into = between(275, FILE, Some(0), 6000, PIPE, None);
    let tee = between(276, PIPE, None, 6000, second, None);
    let pass = between(275, PIPE, None, 6000, second, None);
    let out = between(275, second, None, 6000, SOCKET, None);
    let save = between(275, second, None, 6000, copy, Some(100));
    let read = |pipe, bytes| vec![call(0, USER, bytes, pipe, None)];
    assert_eq!(moved(std::slice::from_ref(&into)), (0, 0, 0, 0));
    assert_eq!(moved(&[into.clone(), read(PIPE, 6000)]), (6000, 6000, 0, 0));
    assert_eq!(moved(&[into.clone(), tee, out.clone(), read(PIPE, 6000)]), (6000, 6000, 6000, 0));
    assert_eq!(moved(&[into.clone(), pass.clone(), out]), (0, 0, 6000, 0));
    // New pages are filled with zeros around the bytes of the call: 100 before, and 2,092 behind in the second page.
    assert_eq!(moved(&[into.clone(), pass, save]), (6000, 6000 + 100 + 2092, 0, 0));
    // Bytes that go to a terminal, or to an unknown place of a file, have left the pipe: a read finds the last 1,000
    // bytes.
    for (to, unknown) in [(TERMINAL, 0), (copy, 1), (99, 1)] {
        let away = between(275, PIPE, None, 5000, to, None);
        assert_eq!(moved(&[into.clone(), away, read(PIPE, 3000)]), (1000, 1000, 0, unknown), "{to}");
    }
    // What a socket receives goes on in the buffers of its packets.
    let receive = between(275, SOCKET, None, 3000, PIPE, None);
    assert_eq!(moved(&[receive, read(PIPE, 3000)]), (3000, 3000, 0, 0));
    // vmsplice writes to the pipe that it names as a target, and reads the pipe that it names itself.
    let list = row(Op::Range, USER + 0x8000, 16, 1);
    let target = Event { arg0: Some(PIPE), arg1: None, ..row(Op::Range, 0, 5000, 3) };
    let nameless = Event { arg0: None, ..call(278, USER, 5000, 0, None) };
    assert_eq!(moved(&[vec![nameless, list, target]]), (5000, 5000, 0, 0));
    let back = vec![call(278, USER, 5000, PIPE, None), list];
    assert_eq!(moved(&[vec![nameless, list, target], back]), (10_000, 10_000, 0, 0));
    assert_eq!(moved(&[vec![nameless, list]]), (0, 0, 0, 0), "a call that failed");
}

/// The number of a call has the meaning of the system that the trace names: 1 is `exit` of 4.3BSD, and 4 is `write`.
#[test]
fn a_number_is_read_as_the_system_of_the_trace_has_it() {
    let calls = |system: Option<&str>, number| {
        let named = Meta { system_calls: system.map(str::to_owned), ..meta() };
        let (rows, unseen) = followed_with(named, &[call(number, USER, 100, FILE, Some(0))], 1);
        let nameless = Event { arg0: None, arg1: None, ..call(number, USER, 0, FILE, None) };
        let named = Meta { system_calls: system.map(str::to_owned), ..meta() };
        (rows.len() > 1, unseen, followed_with(named, &[nameless], 1))
    };
    for (system, moves, other) in [(None, 1, 4), (Some("linux-x86-64"), 1, 4), (Some("4.3bsd"), 4, 1)] {
        assert_eq!((calls(system, moves).0, calls(system, other).0), (true, false), "{system:?}");
        assert_eq!(calls(system, other).2.1, 0, "{system:?}: the call moves no data");
    }
    for system in ["ultrix", "4.3bsd + linux-x86-64"] {
        let named = Meta { system_calls: Some(system.to_owned()), ..meta() };
        let source = Rows { meta: named, batches: vec![] };
        let problem = IoEvents::new(Box::new(source), config()).err().expect("the system is unknown");
        assert!(problem.value == system && problem.rule.contains("4.3bsd"), "{problem}");
        assert!(problem.remedy.contains("--no-path"), "{problem}");
    }
}

/// Batches may end anywhere, even between a call and its ranges.
#[test]
fn rows_do_not_depend_on_batches() {
    let events = [
        call(19, USER, 5000, FILE, Some(4000)),
        row(Op::Range, USER + 0x10_0000, 32, 1),
        row(Op::Range, USER + 0x2000, 300, 2),
        row(Op::Fetch, 0x40_0000, 4, 1),
        call(44, USER, 3000, SOCKET, None),
        call(45, USER, 2000, SOCKET, None),
        call(1, USER, 5000, PIPE, None),
        call(0, USER, 4999, PIPE, None),
        call(1, USER, 80, TERMINAL, None),
        call(1, USER, 80, FILE, None),
    ];
    let whole = followed(&events, events.len());
    assert_eq!(whole.1, 1, "a file without an offset");
    for each in 1..events.len() {
        assert_eq!(followed(&events, each), whole, "batches of {each}");
    }
    // The list of buffers is no data: 5,300 bytes are copied from the file.
    let stored = |rows: &[Event]| -> u64 {
        rows.iter().filter(|row| row.op == Op::Store && row.addr < HALF).map(|row| u64::from(row.size)).sum()
    };
    assert_eq!(stored(&followed(&events[..4], 4).0), 5300);
    assert_eq!(stored(&whole.0), 5300 + 2000 + 4999);
    assert_eq!(followed(&[call(1, USER, 80, TERMINAL, None)], 1).0.len(), 1);
}

/// A few long calls make more rows than a batch has. No batch holds more than one call beyond the bound.
#[test]
fn long_calls_are_followed_in_bounded_batches() {
    let reads: Vec<Event> = (0..8).map(|read| call(0, USER, 1 << 20, FILE, Some(read << 20))).collect();
    let source = Rows { meta: meta(), batches: vec![batch(&reads)] };
    let mut path = IoEvents::new(Box::new(source), config()).unwrap();
    let mut batches = Vec::new();
    while let Some(batch) = path.next_batch().unwrap() {
        batches.push(batch);
    }
    let of_a_call = followed(&reads[..1], 1).0.len();
    assert!(batches.len() > 4, "{}", batches.len());
    assert!(batches.iter().all(|batch| batch.len() <= (1 << 16) + of_a_call));
    let rows: Vec<Event> = batches
        .iter()
        .flat_map(|batch| (0..batch.len()).map(|row| Event::of(batch, row)).collect::<Vec<_>>())
        .collect();
    assert_eq!(rows, followed(&reads, 1).0);
}

#[test]
fn packets_lie_in_buffers() {
    let (rows, _) = followed(&[call(45, USER, 1600, SOCKET, None)], 1);
    let data: Vec<_> =
        rows.iter().filter(|row| row.op == Op::DmaWrite && row.arg1 == Some(PACKETS)).collect();
    let data: Vec<_> = data.iter().map(|row| (row.addr, row.size, row.count)).collect();
    assert_eq!(data, [(0, 1500, 1), (2048, 100, 1)]);
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let number = prop::sample::select(vec![0, 1, 17, 18, 19, 20, 44, 45, 46, 47, 3]);
    let file = prop::sample::select(vec![FILE, SOCKET, PIPE, TERMINAL, 77]);
    let offset = prop::option::weighted(0.9, 0..400_000u64);
    let one = (number, 0..9000u64, 0..20_000u32, file, offset)
        .prop_map(|(number, user, bytes, file, offset)| call(number, USER + user, bytes, file, offset));
    let place = prop::sample::select(vec![FILE, SOCKET, PIPE, TERMINAL]);
    let offset = prop::option::weighted(0.9, 0..400_000u64);
    let between = (
        prop::sample::select(vec![40, 275, 276, 326]),
        (place.clone(), offset.clone()),
        (place, offset),
        0..20_000u32,
    )
        .prop_map(|(number, (from, at), (to, to_at), bytes)| {
            let range = Event { arg0: Some(to), arg1: to_at, ..row(Op::Range, 0, bytes, 3) };
            vec![call(number, 0, 0, from, at), range]
        });
    let calls = prop_oneof![3 => one.prop_map(|one| vec![one]), 1 => between];
    prop::collection::vec(calls, 1..60).prop_map(|calls| calls.concat())
}

proptest! {
    /// Every reference of the kernel lies in a page that is mapped, every transfer in a segment of the kernel or a
    /// file, and the kernel is entered and left in turn.
    #[test]
    fn rows_fit_together(events in events()) {
        let (rows, _) = followed(&events, 7);
        let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(4096));
        spaces.share_from(VirtAddr(HALF)).unwrap();
        let mut in_kernel = false;
        for row in &rows {
            match row.op {
                Op::Map => spaces
                    .map(Asid(0), VirtAddr(row.addr), row.count.into(), row.size.into(), row.arg0, row.arg1.unwrap())
                    .unwrap(),
                Op::Unmap => spaces.unmap(Asid(0), VirtAddr(row.addr), row.count.into()).unwrap(),
                Op::KernelEnter => prop_assert!(!std::mem::replace(&mut in_kernel, true)),
                Op::KernelLeave => prop_assert!(std::mem::replace(&mut in_kernel, false)),
                Op::DmaRead | Op::DmaWrite => {
                    let segment = row.arg1.unwrap();
                    prop_assert!(segment == RUNNING_SPACE || (SEGMENT..SEGMENT + 5).contains(&segment));
                    prop_assert!(row.addr % 4096 + u64::from(row.size) <= 4096, "a transfer lies in one page");
                }
                Op::Fetch | Op::Load | Op::Store => {
                    prop_assert!(in_kernel);
                    for at in [row.addr, row.addr + u64::from(row.size) - 1] {
                        let touch = spaces.touch(Asid(0), PageNo(at >> 12), row.op == Op::Store).unwrap();
                        prop_assert!(at < HALF || !touch.outside, "{row:?}");
                    }
                }
                _ => {}
            }
        }
        prop_assert!(!in_kernel);
        // The program's rows stand in the order in which they came.
        let of_program = |row: &&Event| matches!(row.op, Op::Syscall | Op::Range);
        let calls: Vec<Event> = rows.iter().filter(of_program).copied().collect();
        prop_assert_eq!(calls, events);
    }
}
