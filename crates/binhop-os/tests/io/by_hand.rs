//! These tests follow calls by hand: the windows of read-ahead, the flusher, the rings, the rules of the
//! configuration.

use binhop_base::VirtAddr;
use binhop_os::io::{
    BufferPool, FileId, FilePage, FileWrites, IoConfig, IoPath, IoStep, Location, MemoryPage, MemoryRoom,
    QueueId, RingId,
};
use binhop_os::placement::PageColors;

const FILE: FileId = FileId(7);
const USER: VirtAddr = VirtAddr(0x10_0000);
const PAGE: u64 = 4096;

/// The sizes of Linux: windows of 128 KiB, a ring of 512, packets of 1,500 bytes.
fn linux() -> IoConfig {
    IoConfig {
        page: PAGE,
        cache_pages: 1024,
        read_ahead: 32,
        request_pages: 128,
        dirty_pages: 100,
        dirty_age: 1_000_000,
        ring: 512,
        buffer: 2048,
        packet: 1500,
        coalesce: 2,
        backlog: 0,
        extent_pages: 1 << 20,
        disk_rate: None,
        disk_write_rate: None,
        send_rate: None,
        file_writes: FileWrites::Cached,
        memory: None,
    }
}

/// Returns the pages that the disk transfers, request by request: whether the disk writes memory, the first page, the
/// number of pages.
fn requests(steps: &[IoStep]) -> Vec<(bool, u64, u64)> {
    let mut requests: Vec<(u64, (bool, u64, u64))> = Vec::new();
    for step in steps {
        if let IoStep::Transfer { ring: RingId::Disk, request, writes, of: Some((_, byte)), .. } = *step {
            match requests.last_mut() {
                Some((last, (_, _, pages))) if *last == request => *pages += 1,
                _ => requests.push((request, (writes, byte / PAGE, 1))),
            }
        }
    }
    requests.into_iter().map(|(_, pages)| pages).collect()
}

/// A program reads a file page by page. Linux reads 4 pages, then 8, 16 and 32 ahead, each time the program meets the
/// marker on the first page that was read ahead.
#[test]
fn windows_of_a_sequential_reader() {
    let mut path = IoPath::new(linux()).unwrap();
    path.set_bytes(FILE, 100 * PAGE);
    let mut read_at = Vec::new();
    for page in 0..100 {
        let mut steps = Vec::new();
        path.read(FILE, page * PAGE, PAGE, USER, &mut |step| steps.push(step));
        read_at.extend(requests(&steps).into_iter().map(|(_, first, pages)| (page, first, pages)));
    }
    assert_eq!(read_at, [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 8)]);
    assert_eq!((path.counts().cache_misses, path.counts().cache_hits), (1, 99));
    assert_eq!(path.counts().pages_read, 100);
}

/// A program that reads single pages here and there gets these pages only.
#[test]
fn no_window_of_a_random_reader() {
    let mut path = IoPath::new(linux()).unwrap();
    path.set_bytes(FILE, 1000 * PAGE);
    let mut steps = Vec::new();
    for page in [500, 20, 300] {
        path.read(FILE, page * PAGE, PAGE, USER, &mut |step| steps.push(step));
    }
    assert_eq!(requests(&steps), [(true, 500, 1), (true, 20, 1), (true, 300, 1)]);
}

/// The flusher begins above 100 dirty pages and ends at 50. It writes the oldest page with its neighbours.
#[test]
fn flusher() {
    let mut path = IoPath::new(linux()).unwrap();
    let mut steps = Vec::new();
    path.write(FILE, 0, 100 * PAGE, USER, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), []);
    path.write(FILE, 200 * PAGE, PAGE, USER, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), [(false, 0, 100)]);
    assert_eq!(path.cached().filter(|&(_, dirty)| dirty).count(), 1);
    steps.clear();
    path.pass_time(999_999, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), []);
    path.pass_time(1_000_000, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), [(false, 200, 1)]);
}

/// The call writes 6 bytes into the middle of a page that exists, and of a page that does not.
#[test]
fn a_write_of_part_of_a_page() {
    let mut path = IoPath::new(linux()).unwrap();
    path.set_bytes(FILE, PAGE);
    let mut steps = Vec::new();
    path.write(FILE, 10, 6, USER, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), [(true, 0, 1)]);
    steps.clear();
    path.write(FILE, PAGE + 10, 6, USER, &mut |step| steps.push(step));
    let zeros = |byte, bytes| IoStep::Fill { at: Location::File(FILE, byte), bytes };
    let copy = IoStep::Copy { from: Location::User(USER), to: Location::File(FILE, PAGE + 10), bytes: 6 };
    assert_eq!(steps, [zeros(PAGE, 10), zeros(PAGE + 16, PAGE - 16), copy]);
}

/// A card sends 1,500 bytes in a million instructions, and interrupts after every second packet. The ring has room
/// for four packets.
#[test]
fn packets_leave_at_the_rate_of_the_card() {
    let rate = core::num::NonZeroU64::new(1500);
    let mut path = IoPath::new(IoConfig { send_rate: rate, ring: 4, request_pages: 4, ..linux() }).unwrap();
    let mut make = |now: u64, bytes: u64| {
        let mut steps = Vec::new();
        path.pass_time(now, &mut |step| steps.push(step));
        path.send(bytes, USER, &mut |step| steps.push(step));
        let of_card = |step: &&IoStep| match step {
            IoStep::Transfer { at: Location::Buffer(..), .. } => true,
            IoStep::Interrupt(ring) => *ring == RingId::Send,
            _ => false,
        };
        let bytes = |step: &IoStep| match step {
            IoStep::Transfer { bytes, .. } => *bytes,
            _ => 0, // an interrupt
        };
        steps.iter().filter(of_card).map(bytes).collect::<Vec<_>>()
    };
    assert_eq!(make(0, 4000), [], "three packets wait: of 1,500, 1,500 and 1,000 bytes");
    assert_eq!(make(1_999_999, 0), []);
    assert_eq!(make(2_000_000, 0), [1500, 1500, 0]);
    assert_eq!(make(2_000_000, 6000), [1000, 0], "the ring has no room for five packets");
    assert_eq!(make(3_999_999, 0), []);
    assert_eq!(make(4_000_000, 0), [1500, 1500, 0]);
    assert_eq!(make(5_999_999, 0), []);
    assert_eq!(make(6_000_000, 0), [1500, 1500, 0]);
}

/// In a ring of four slots, a packet of 4,096 bytes takes two slots, and a packet of 1,000 bytes takes one slot. A
/// packet waits for as many slots as it needs, whatever the packets before it took.
#[test]
fn packets_of_several_sizes_wait_for_the_slots_they_need() {
    let sizes = IoConfig {
        send_rate: core::num::NonZeroU64::new(1),
        ring: 4,
        request_pages: 4,
        packet: 4096,
        coalesce: 1,
        ..linux()
    };
    let mut path = IoPath::new(sizes).unwrap();
    let mut send = |bytes: u64| {
        let mut steps = Vec::new();
        path.send(bytes, USER, &mut |step| steps.push(step));
        let sent = steps.iter().filter(|&&step| step == IoStep::Interrupt(RingId::Send)).count();
        let written = |step: &IoStep| match *step {
            IoStep::WriteDescriptor(RingId::Send, slot) => Some(slot),
            _ => None,
        };
        (sent, steps.iter().filter_map(written).collect::<Vec<_>>())
    };
    assert_eq!(send(4096), (0, vec![0, 1]));
    assert_eq!(send(1000), (0, vec![2]));
    assert_eq!(send(4096), (1, vec![3, 0]), "three slots are taken: the first packet leaves");
    assert_eq!(send(1000), (0, vec![1]), "three slots are taken, and one is free");
    assert_eq!(send(1000), (1, vec![2]), "the packet of 1,000 bytes leaves");
    assert_eq!(send(4096 + 1000), (2, vec![3, 0, 1]), "one leaves for each: of two slots, and of one");
    assert_eq!((path.counts().packets_sent, path.waiting().packets_waiting), (4, 3));
}

#[test]
fn pages_leave_at_the_rate_of_the_disk() {
    let rate = core::num::NonZeroU64::new(2 * PAGE);
    let sizes = IoConfig { disk_write_rate: rate, dirty_pages: 4, request_pages: 2, ..linux() };
    let mut path = IoPath::new(sizes).unwrap();
    let mut make = |now: u64, call: fn(&mut IoPath, &mut dyn FnMut(IoStep))| {
        let mut steps = Vec::new();
        path.pass_time(now, &mut |step| steps.push(step));
        call(&mut path, &mut |step| steps.push(step));
        (requests(&steps), path.cached().filter(|&(_, dirty)| dirty).count())
    };
    // Five pages are dirty. The flusher asks for 0 and 1, then for 2 and 3; the disk needs a million instructions for
    // each.
    assert_eq!(make(0, |path, emit| path.write(FILE, 0, 5 * PAGE, USER, emit)), (vec![], 1));
    assert_eq!(make(999_999, |_, _| {}), (vec![], 1));
    assert_eq!(make(1_000_000, |_, _| {}), (vec![(false, 0, 2)], 0), "page 4 is old, and waits in the queue");
    // A store makes a page dirty again while the page waits to be written.
    assert_eq!(make(1_000_000, |path, emit| path.write(FILE, 2 * PAGE, 1, USER, emit)), (vec![], 1));
    // fsync waits: the second write of page 2 comes after the first.
    let all = vec![(false, 2, 2), (false, 4, 1), (false, 2, 1)];
    assert_eq!(make(1_000_001, |path, emit| path.sync_file(FILE, emit)), (all, 0));
    assert_eq!(make(9_000_000, |_, _| {}), (vec![], 0));
}

/// A disk reads two pages in a million instructions. What was read ahead arrives in time, or when the reader needs it.
#[test]
fn pages_arrive_at_the_rate_of_the_disk() {
    let rate = core::num::NonZeroU64::new(2 * PAGE);
    let mut path = IoPath::new(IoConfig { disk_rate: rate, read_ahead: 4, ..linux() }).unwrap();
    path.set_bytes(FILE, 64 * PAGE);
    let mut read = |now: u64, page: u64| {
        let mut steps = Vec::new();
        path.pass_time(now, &mut |step| steps.push(step));
        path.read(FILE, page * PAGE, PAGE, USER, &mut |step| steps.push(step));
        requests(&steps)
    };
    // The first window has pages 0 and 1, the marker is page 1: the next window, 2 to 5, is on its way.
    assert_eq!(read(0, 0), [(true, 0, 2)]);
    assert_eq!(read(0, 1), []);
    // After 2 million instructions it has arrived. Page 2 is its marker; the reader waits for the window behind it.
    assert_eq!(read(1_999_999, 1), []);
    assert_eq!(read(2_000_000, 1), [(true, 2, 4)]);
    assert_eq!(read(2_000_000, 2), []);
    assert_eq!(read(2_000_000, 5), []);
    assert_eq!(read(2_000_001, 6), [(true, 6, 4)]);
}

/// Two pages are old at 1,000 and written at 1,512; two pages that are read ahead arrive at 2,048. The earliest comes
/// first.
#[test]
fn who_is_due_first_works_first() {
    let rate = |instructions: u64| core::num::NonZeroU64::new(PAGE * 1_000_000 / instructions);
    let sizes = IoConfig {
        disk_rate: rate(1024),
        disk_write_rate: rate(256),
        read_ahead: 2,
        dirty_age: 1000,
        ..linux()
    };
    let mut path = IoPath::new(sizes).unwrap();
    path.set_bytes(FILE, 64 * PAGE);
    let mut steps = Vec::new();
    assert_eq!(path.next_due(), u64::MAX);
    path.read(FILE, 0, PAGE, USER, &mut |step| steps.push(step));
    path.write(FILE, 8 * PAGE, 2 * PAGE, USER, &mut |step| steps.push(step));
    assert_eq!(path.next_due(), 1000, "the pages are old");
    path.read(FILE, PAGE, PAGE, USER, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), [(true, 0, 2)]);
    let waiting = |path: &IoPath| [path.waiting().reads_waiting, path.waiting().writes_waiting];
    assert_eq!(waiting(&path), [2, 0]);
    steps.clear();
    path.pass_time(1000, &mut |step| steps.push(step));
    assert_eq!((waiting(&path), path.next_due()), ([2, 2], 1512));
    path.pass_time(1511, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), []);
    path.pass_time(5000, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), [(false, 8, 2), (true, 2, 2)]);
    assert_eq!((waiting(&path), path.next_due()), ([0, 0], u64::MAX));
}

/// TB10 §2.1, steps 1 to 8, with two packets and one interrupt.
#[test]
fn packets_arrive() {
    let mut path = IoPath::new(IoConfig { ring: 4, request_pages: 4, ..linux() }).unwrap();
    let mut steps = Vec::new();
    path.receive(QueueId(1), 1600, USER, &mut |step| steps.push(step));
    let ring = RingId::Receive;
    let status = |request, slot, writes| {
        let (at, bytes) = (Location::Descriptor(ring, slot), IoConfig::DESCRIPTOR);
        IoStep::Transfer { ring, request, writes, at, bytes, of: None }
    };
    let buffer = |number, byte| Location::Buffer(BufferPool::Packets, number, byte);
    let data = |request, number, bytes| IoStep::Transfer {
        ring,
        request,
        writes: true,
        at: buffer(number, 0),
        bytes,
        of: None,
    };
    let expected = [
        IoStep::WriteDescriptor(ring, 0),
        IoStep::WriteDescriptor(ring, 1),
        IoStep::WriteDescriptor(ring, 2),
        IoStep::WriteDescriptor(ring, 3),
        status(0, 0, false),
        data(0, 0, 1500),
        status(0, 0, true),
        status(1, 1, false),
        data(1, 1, 100),
        status(1, 1, true),
        IoStep::Interrupt(ring),
        IoStep::ReadDescriptor(ring, 0),
        IoStep::WriteDescriptor(ring, 0),
        IoStep::ReadDescriptor(ring, 1),
        IoStep::WriteDescriptor(ring, 1),
        IoStep::Copy { from: buffer(0, 0), to: Location::User(USER), bytes: 1500 },
        IoStep::Copy { from: buffer(1, 0), to: Location::User(VirtAddr(USER.0 + 1500)), bytes: 100 },
    ];
    assert_eq!(steps, expected);
    // The slots hold the fresh buffers 4 and 5; slots 2 and 3 come next.
    steps.clear();
    path.arrive(QueueId(1), 3 * 1500, &mut |step| steps.push(step));
    let buffers: Vec<u32> = steps
        .iter()
        .filter_map(|step| match *step {
            IoStep::Transfer { at: Location::Buffer(_, number, _), .. } => Some(number),
            _ => None,
        })
        .collect();
    assert_eq!(buffers, [2, 3, 4]);
    assert_eq!(
        (path.counts().packets_arrived, path.counts().packets_received, path.counts().interrupts),
        (5, 5, 3)
    );
}

/// Two packets wait in a ring of three. A call that takes 100 bytes sees one of these packets, and another packet
/// arrives. The next call finds the rest of the packet that the first call saw.
#[test]
fn a_backlog_waits_in_the_ring() {
    let mut path =
        IoPath::new(IoConfig { ring: 3, request_pages: 3, backlog: 2, coalesce: 1, ..linux() }).unwrap();
    let mut calls = |bytes: u64| {
        let mut steps = Vec::new();
        path.receive(QueueId(1), bytes, USER, &mut |step| steps.push(step));
        let packets = |step: &IoStep| match *step {
            IoStep::Transfer { at: Location::Buffer(_, number, _), bytes, .. } => Some((number, bytes)),
            IoStep::Copy { from: Location::Buffer(_, number, first), bytes, .. } => {
                Some((number + 1000, first + bytes))
            }
            _ => None,
        };
        steps.iter().filter_map(packets).collect::<Vec<_>>()
    };
    // A copy is shown as 1000 plus the buffer's number, and the end of the copied bytes in the buffer.
    assert_eq!(calls(100), [(0, 1500), (1, 1500), (2, 1500), (1000, 100)]);
    assert_eq!(calls(1400), [(1000, 1500)]);
    // Slot 0 holds buffer 3. The first buffer is free again, and slot 1 gets it.
    assert_eq!(calls(1500), [(3, 1500), (1001, 1500)]);
    assert_eq!(calls(3000), [(0, 1500), (1, 1500), (1002, 1500), (1003, 1500)]);
    assert_eq!(
        (path.counts().packets_arrived, path.counts().packets_received, path.counts().interrupts),
        (6, 4, 4)
    );
}

/// Two pages of a file are overwritten whole, from bytes that lie elsewhere in their pages. So each page of the
/// target takes two pieces or more. No page of the target is read, and each is looked up once.
#[test]
fn pages_that_are_overwritten_whole_are_not_read() {
    const TARGET: FileId = FileId(8);
    const PIPE: QueueId = QueueId(1);
    let made = |fill: fn(&mut IoPath, &mut Vec<IoStep>), copies: fn(&mut IoPath, &mut Vec<IoStep>)| {
        let mut path = IoPath::new(linux()).unwrap();
        path.set_bytes(FILE, 10 * PAGE);
        path.set_bytes(TARGET, 2 * PAGE);
        let mut steps = Vec::new();
        fill(&mut path, &mut steps);
        steps.clear();
        let before = (path.counts().cache_hits, path.counts().cache_misses);
        copies(&mut path, &mut steps);
        let after = (path.counts().cache_hits, path.counts().cache_misses);
        (requests(&steps), after.0 - before.0, after.1 - before.1)
    };
    // The first 100 bytes of the pipe go elsewhere. Three buffers hold the others.
    let of_user = made(
        |path, steps| {
            path.write_pipe(PIPE, 2 * PAGE + 100, USER, &mut |step| steps.push(step));
            path.drain_pipe(PIPE, 100);
        },
        |path, steps| {
            path.splice_to_file(PIPE, (TARGET, 0), 2 * PAGE, &mut |step| steps.push(step));
        },
    );
    assert_eq!(of_user, (vec![], 0, 2));
    // The pages of a file wait in the pipe. They were looked up when they came there.
    let of_file = made(
        |path, steps| {
            path.splice_from_file((FILE, 100), PIPE, 2 * PAGE, &mut |step| steps.push(step));
        },
        |path, steps| {
            path.splice_to_file(PIPE, (TARGET, 0), 2 * PAGE, &mut |step| steps.push(step));
        },
    );
    assert_eq!(of_file, (vec![], 0, 2));
    // Three pages of the other file are found in the cache, and two pages of the target are not.
    let of_copy = made(
        |path, steps| path.read(FILE, 0, 4 * PAGE, USER, &mut |step| steps.push(step)),
        |path, steps| {
            path.copy_file((FILE, 100), (TARGET, 0), 2 * PAGE, &mut |step| steps.push(step));
        },
    );
    assert_eq!(of_copy, (vec![], 3, 2));
    // A page of which some bytes stay is read.
    let of_part = made(
        |path, steps| path.write_pipe(PIPE, 2 * PAGE, USER, &mut |step| steps.push(step)),
        |path, steps| {
            path.splice_to_file(PIPE, (TARGET, 100), PAGE, &mut |step| steps.push(step));
        },
    );
    assert_eq!(of_part.0, [(true, 0, 1), (true, 1, 1)]);
}

/// A copy writes 16 pages of the source at once, as Linux writes the pages of a pipe. A page that lies half in the next
/// write keeps bytes that this write does not overwrite, so it is read, and the next write looks it up again.
#[test]
fn a_page_of_two_writes_of_a_copy_is_read() {
    const TARGET: FileId = FileId(8);
    let mut path = IoPath::new(linux()).unwrap();
    path.set_bytes(FILE, 21 * PAGE);
    path.set_bytes(TARGET, 22 * PAGE);
    let mut steps = Vec::new();
    path.read(FILE, 0, 21 * PAGE, USER, &mut |step| steps.push(step));
    steps.clear();
    let before = (path.counts().cache_hits, path.counts().cache_misses);
    path.copy_file((FILE, 100), (TARGET, 1000), 20 * PAGE, &mut |step| steps.push(step));
    // The first and the last page of the target keep bytes. The first write ends with page 15 of the other file, 900
    // bytes into page 16 of the target. The second write finds this page in the cache. All 21 pages of the other
    // file are found, too.
    assert_eq!(requests(&steps), [0, 16, 20].map(|page| (true, page, 1)));
    let after = (path.counts().cache_hits, path.counts().cache_misses);
    assert_eq!((after.0 - before.0, after.1 - before.1), (21 + 1, 21));
}

/// A full cache drops the page used least recently, and writes it first if it is dirty.
#[test]
fn eviction() {
    let mut path =
        IoPath::new(IoConfig { cache_pages: 2, read_ahead: 1, request_pages: 1, ..linux() }).unwrap();
    let mut steps = Vec::new();
    path.write(FILE, 0, PAGE, USER, &mut |step| steps.push(step));
    path.write(FILE, 5 * PAGE, PAGE, USER, &mut |step| steps.push(step));
    path.read(FILE, 0, 1, USER, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), []);
    path.write(FILE, 9 * PAGE, PAGE, USER, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), [(false, 5, 1)]);
    assert!(steps.contains(&IoStep::Dropped(FilePage { file: FILE, page: 5 })));
    assert_eq!(path.counts().pages_evicted, 1);
}

const fn room(pages: u64) -> Option<MemoryRoom> {
    Some(MemoryRoom { pages, colors: PageColors::ONE, reuses_frames: false })
}

/// Memory has room for three pages. Each line makes a reference to a page of the program's own or to a file, and
/// names what the disk does before and the page that leaves the page cache.
#[test]
fn a_page_of_the_page_cache_competes_with_the_programs_pages() {
    let sizes = IoConfig { cache_pages: 1000, read_ahead: 1, request_pages: 1, ..linux() };
    let mut path = IoPath::new(IoConfig { memory: room(3), ..sizes }).unwrap();
    let own = |number| (Some(number), None);
    let reads = |page: u64| (None, Some((page, false)));
    let writes = |page: u64| (None, Some((page, true)));
    let table = [
        // The reference, the requests, the page dropped. The buffer of every call is page 256 of the program.
        (reads(0), vec![(true, 0, 1)], None), // 0 256
        (own(1), vec![], None),               // 0 256 1
        (reads(0), vec![], None),             // 1 0 256
        (own(2), vec![], None),               // 0 256 2
        (own(3), vec![], Some(0)),            // 256 2 3
        (writes(5), vec![], None),            // 3 256 5: the page is new
        (own(4), vec![], None),               // 256 5 4
        (own(5), vec![], None),               // 5 4 5
        (own(6), vec![(false, 5, 1)], None),  // 5 5 6: page 5 is written, and 4 goes
        (own(7), vec![], None),               // 5 6 7: page 5 is clean
        (own(8), vec![], Some(5)),            // 6 7 8
        (reads(5), vec![(true, 5, 1)], None), // 8 5 256
    ];
    for (line, ((own, call), transfers, dropped)) in table.into_iter().enumerate() {
        let mut steps = Vec::new();
        let emit = &mut |step| steps.push(step);
        match (own, call) {
            (Some(number), _) => path.refer(&[MemoryPage::Own { number, color: 0 }], emit),
            (_, Some((page, true))) => path.write(FILE, page * PAGE, PAGE, USER, emit),
            (_, Some((page, false))) => path.read(FILE, page * PAGE, PAGE, USER, emit),
            _ => unreachable!(),
        }
        assert_eq!(requests(&steps), transfers, "line {line}");
        let left: Vec<_> = steps
            .iter()
            .filter_map(|step| if let IoStep::Dropped(page) = step { Some(page.page) } else { None })
            .collect();
        assert_eq!(left, Vec::from_iter(dropped), "line {line}");
    }
    assert_eq!((path.counts().pages_reclaimed, path.counts().pages_evicted), (2, 0));
}

/// Memory has room for two pages of each of two colors. Pages of files with even numbers have color 0, as the buffer of
/// every call has, which is page 256 of the program. A page of the program takes the place of a page of its color.
#[test]
fn a_page_of_the_page_cache_competes_within_its_color() {
    let colors = PageColors { number: 2, pid_hash: true };
    let memory = Some(MemoryRoom { pages: 2, colors, reuses_frames: false });
    let sizes = IoConfig { cache_pages: 1000, read_ahead: 1, request_pages: 1, memory, ..linux() };
    let mut path = IoPath::new(sizes).unwrap();
    let own = |number, color| (Some(MemoryPage::Own { number, color }), 0);
    let reads = |page: u64| (None, page);
    let table = [
        // The reference, the pages that the disk reads, the page dropped. Behind it the pages in memory by color.
        (reads(1), 1, None),  // 256 | 1
        (reads(3), 1, None),  // 256 | 1 3
        (own(1, 0), 0, None), // 256 1 | 1 3
        (own(2, 0), 0, None), // 1 2 | 1 3: color 1 loses no page
        (own(3, 1), 0, Some(1)),
        (reads(2), 1, None), // 2 256 | 3 3: pages 1 and 2 of the program leave
        (own(1, 0), 0, Some(2)),
        (own(4, 0), 0, None), // 1 4 | 3 3
    ];
    for (line, ((own, page), read, dropped)) in table.into_iter().enumerate() {
        let mut steps = Vec::new();
        let emit = &mut |step| steps.push(step);
        match own {
            Some(own) => path.refer(&[own], emit),
            None => path.read(FILE, page * PAGE, PAGE, USER, emit),
        }
        let left: Vec<_> = steps
            .iter()
            .filter_map(|step| if let IoStep::Dropped(page) = step { Some(page.page) } else { None })
            .collect();
        assert_eq!((requests(&steps).len(), left), (read, Vec::from_iter(dropped)), "line {line}");
    }
}

#[test]
fn sizes_that_break_a_rule_are_refused() {
    let cases = [
        (IoConfig { page: 3000, ..linux() }, "power of two"),
        (IoConfig { read_ahead: 513, ..linux() }, "half of the page cache"),
        (IoConfig { request_pages: 513, ..linux() }, "half of the page cache"),
        (IoConfig { request_pages: 513, ..linux() }, "513 pages"),
        (IoConfig { read_ahead: 0, ..linux() }, "0 pages"),
        (IoConfig { ring: 100, ..linux() }, "the ring's descriptors"),
        (IoConfig { buffer: 8192, ..linux() }, "at most a page"),
        (IoConfig { extent_pages: 0, ..linux() }, "1 page at least"),
        (IoConfig { packet: 0, ..linux() }, "1 byte at least"),
        (IoConfig { packet: 9000, coalesce: 200, ..linux() }, "between two interrupts"),
        (IoConfig { backlog: 513, ..linux() }, "all packets that wait in it"),
        (IoConfig { memory: room(255), ..linux() }, "half of the memory at most"),
    ];
    for (config, rule) in cases {
        let problem = IoPath::new(config).unwrap_err().to_string();
        assert!(problem.contains(rule), "{problem}");
    }
}

/// A file of unknown length was mapped and stored to; a write of its first byte must not lose the others.
#[test]
fn a_write_after_a_mapped_store_reads_the_page_first() {
    let mut path =
        IoPath::new(IoConfig { cache_pages: 2, read_ahead: 1, request_pages: 1, ..linux() }).unwrap();
    let mut steps = Vec::new();
    path.fault(FilePage { file: FILE, page: 3 }, true, &mut |step| steps.push(step));
    for page in [10, 11] {
        path.read(FILE, page * PAGE, PAGE, USER, &mut |step| steps.push(step));
    }
    assert!(steps.contains(&IoStep::Dropped(FilePage { file: FILE, page: 3 })));
    steps.clear();
    path.write(FILE, 3 * PAGE, 1, USER, &mut |step| steps.push(step));
    assert_eq!(requests(&steps), [(true, 3, 1)]);
}

#[test]
#[should_panic(expected = "ranges that are too long")]
fn a_range_behind_the_last_offset_is_the_callers_error() {
    let mut path = IoPath::new(linux()).unwrap();
    path.read(FILE, i64::MAX as u64 - 5, 6, USER, &mut |_| ());
    path.read(FILE, i64::MAX as u64 - 5, 7, USER, &mut |_| ());
}
