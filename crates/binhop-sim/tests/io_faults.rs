//! These tests compare the faults of references to mapped files with a slow model, which looks at every page of every
//! reference, and keeps lists of the pages of each address space.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use binhop_base::{Asid, PageId, PageNo};
use binhop_oracle::io::{IoEvent, IoPlace, MemoryPlace, Room, Server, Sizes, UserPlace};
use binhop_oracle::spaces::Spaces;
use binhop_os::io::{IoConfig, MemoryRoom};
use binhop_os::placement::PageColors;
use binhop_sim::io_path::{HALF, IoEvents};
use binhop_trace::event::Event;
use binhop_trace::event::map_flags::{READ, SHARED, WRITE};
use binhop_trace::source::SegmentMeta;
use binhop_trace::{Meta, Op, Source};
use proptest::prelude::*;

use crate::io_path::{Rows, batch, config, row};

const PAGE: u64 = 4096;
/// A file that calls name, and its segment.
const DATA: (u64, u64) = (3, 9);
/// A file that is only mapped. The path gives this file the number behind the last number of the trace.
const LIBRARY: (u64, u64) = (4, 20);
/// A device, which is no file on the disk.
const DEVICE: u64 = 21;
const BASE: u64 = 0x10_0000;
/// The pages of a program, from `BASE` on.
const PAGES: u64 = 12;

fn meta(bytes: Option<u64>) -> Meta {
    let segment = |path: &str| SegmentMeta { file: Some(path.to_owned()), kind: None };
    let segments = [(DATA.1, "/data"), (LIBRARY.1, "/lib/a.so"), (DEVICE, "/dev/zero"), (22, "program")];
    Meta {
        page_size: Some(PAGE),
        segments: segments.map(|(id, path)| (id, segment(path))).into(),
        files: BTreeMap::from([(DATA.0, "/data".to_owned())]),
        file_bytes: bytes.map(|bytes| (DATA.0, bytes)).into_iter().collect(),
        ..Meta::default()
    }
}

/// `Seen` is a row of the program, or a page that the disk transfers: the request, whether the disk writes memory, the
/// segment, the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Row(Event),
    Disk(u64, bool, u64, u64),
}

/// Returns what the path makes of a trace that comes in batches of `each` rows.
fn fast(config: IoConfig, meta: Meta, events: &[Event], each: usize) -> Vec<Seen> {
    let source = Rows { meta, batches: events.chunks(each).map(batch).collect() };
    let mut path = IoEvents::new(Box::new(source), config).unwrap();
    let mut seen = Vec::new();
    let mut in_kernel = false;
    while let Some(batch) = path.next_batch().unwrap() {
        for event in (0..batch.len()).map(|row| Event::of(&batch, row)) {
            match event.op {
                Op::KernelEnter | Op::KernelLeave => in_kernel = event.op == Op::KernelEnter,
                Op::DmaRead | Op::DmaWrite if event.count == 0 => {
                    let (request, segment) = (event.arg0.unwrap(), event.arg1.unwrap());
                    seen.push(Seen::Disk(request, event.op == Op::DmaWrite, segment, event.addr / PAGE));
                }
                Op::DmaRead | Op::DmaWrite => {}
                Op::Map | Op::Unmap if event.addr >= HALF => {}
                _ if in_kernel => {}
                _ => seen.push(Seen::Row(event)),
            }
        }
    }
    seen
}

#[derive(Clone, Debug, Default)]
struct SlowSpace {
    /// The file, the page and whether the mapping is shared, of each virtual page that maps a file.
    files: BTreeMap<u64, (u64, u64, bool)>,
    /// The virtual pages with pages of the address space's own, though a file is mapped there.
    own: BTreeSet<u64>,
    /// The virtual pages in the page table.
    table: BTreeSet<u64>,
}

struct Slow {
    server: Server,
    /// Which pages address spaces share.
    pages: Spaces,
    /// The virtual page and the address space at which each page was touched first.
    firsts: BTreeMap<PageId, (u64, u64)>,
    memory: Option<MemoryRoom>,
    /// The number of steps so far.
    made: usize,
    spaces: BTreeMap<u64, SlowSpace>,
    here: u64,
    instructions: u64,
    seen: Vec<Seen>,
}

impl Slow {
    fn new(config: &IoConfig, bytes: Option<u64>) -> Self {
        let mut server = Server::new(Sizes {
            page: config.page,
            cache_pages: config.cache_pages as usize,
            read_ahead: config.read_ahead,
            request_pages: config.request_pages as usize,
            extent_pages: config.extent_pages,
            disk_rate: config.disk_rate.map(NonZeroU64::get),
            disk_write_rate: config.disk_write_rate.map(NonZeroU64::get),
            send_rate: config.send_rate.map(NonZeroU64::get),
            dirty_pages: config.dirty_pages as usize,
            dirty_age: config.dirty_age,
            ring: config.ring,
            buffer: config.buffer,
            packet: config.packet,
            coalesce: config.coalesce as usize,
            backlog: config.backlog as usize,
            memory: config.memory.map(|room| Room {
                pages: room.pages as usize,
                colors: room.colors.number,
                reuses: room.reuses_frames,
            }),
        });
        if let Some(bytes) = bytes {
            server.files.insert(DATA.0, bytes);
            server.known.push(DATA.0);
        }
        Self {
            server,
            pages: Spaces::new(PAGE, PAGE, 0),
            firsts: BTreeMap::new(),
            memory: config.memory,
            made: 0,
            spaces: BTreeMap::new(),
            here: 0,
            instructions: 0,
            seen: Vec::new(),
        }
    }

    fn space(&mut self) -> &mut SlowSpace {
        self.spaces.entry(self.here).or_default()
    }

    /// Takes over what the disk did, and what left the page cache.
    fn take(&mut self) {
        self.made += self.server.events.len();
        for event in std::mem::take(&mut self.server.events) {
            match event {
                IoEvent::Device { ring: 0, request, writes, at: IoPlace::File(file, byte), .. } => {
                    let segment = if file == DATA.0 { DATA.1 } else { LIBRARY.1 };
                    self.seen.push(Seen::Disk(request, writes, segment, byte / PAGE));
                }
                IoEvent::Drop(file, page) => {
                    for SlowSpace { files, table, .. } in self.spaces.values_mut() {
                        table.retain(|at| (files[at].0, files[at].1) != (file, page));
                    }
                }
                _ => {}
            }
        }
    }

    fn event(&mut self, event: &Event) {
        let &Event { op, addr, size, count, arg0, arg1 } = event;
        let pages = addr / PAGE..addr / PAGE + u64::from(count);
        let space = |number: u64| Asid(number as u32);
        match op {
            Op::Map => {
                let segment = arg0.map(|segment| (segment, arg1.unwrap()));
                self.pages.map(space(self.here), addr, count.into(), (size & SHARED != 0, false), segment);
            }
            Op::Unmap => self.pages.unmap(space(self.here), addr, count.into()),
            Op::Fork => self.pages.fork(space(addr), space(arg0.unwrap())),
            Op::Exec | Op::Exit => self.pages.end(space(addr)),
            _ => {}
        }
        self.lose_dead();
        match op {
            Op::Map | Op::Unmap => {
                for page in pages {
                    let space = self.space();
                    space.files.remove(&page);
                    space.own.remove(&page);
                    space.table.remove(&page);
                    let file = [DATA, LIBRARY].into_iter().find(|&(_, segment)| arg0 == Some(segment));
                    if op == Op::Map
                        && let Some((file, _)) = file
                    {
                        let index = arg1.unwrap() / PAGE + page - addr / PAGE;
                        space.files.insert(page, (file, index, size & SHARED != 0));
                        self.server.reach_mapped(file, index * PAGE + 1);
                    }
                }
            }
            Op::Fork => {
                let parent = self.spaces.get(&arg0.unwrap()).cloned().unwrap_or_default();
                self.spaces.insert(addr, SlowSpace { table: BTreeSet::new(), ..parent });
            }
            Op::Exec | Op::Exit => drop(self.spaces.remove(&addr)),
            Op::Switch => self.here = addr,
            Op::Fetch | Op::Load | Op::Store | Op::Modify => {
                let stores = matches!(op, Op::Store | Op::Modify);
                let pages = addr / PAGE..=(addr + u64::from(size) - 1) / PAGE;
                for pass in 0..pages.clone().count() + 2 {
                    let before = self.made;
                    let mut touched = Vec::new();
                    for page in pages.clone() {
                        self.touch(page, stores, pass > 0);
                        touched.extend(self.memory.map(|_| self.behind(page, stores)));
                    }
                    self.server.refer(&touched);
                    self.take();
                    if self.made == before || self.memory.is_none() {
                        break;
                    }
                }
            }
            _ => {}
        }
        self.seen.push(Seen::Row(*event));
        match op {
            Op::Fetch => {
                self.instructions += u64::from(count);
                self.server.pass_time(self.instructions);
                self.take();
            }
            Op::Syscall => {
                self.server.pass_time(self.instructions);
                self.take();
                let (offset, bytes) = (arg1.unwrap(), u64::from(size));
                if count < 2 {
                    self.name_buffer(addr / PAGE..=(addr + bytes - 1) / PAGE, count == 0);
                }
                match count {
                    0 => self.server.read(DATA.0, offset, bytes, addr),
                    1 => self.server.write(DATA.0, offset, bytes, addr),
                    26 => self.sync_mappings(addr, bytes),
                    77 => self.server.truncate(DATA.0, offset),
                    _ => self.server.truncate(DATA.0, 0),
                }
                self.take();
                self.enter_buffer();
            }
            _ => {}
        }
    }

    /// Writes the pages of shared mappings in a range, neighbours together.
    fn sync_mappings(&mut self, start: u64, bytes: u64) {
        let mut runs: Vec<Vec<(u64, u64)>> = Vec::new();
        for page in start / PAGE..=(start + bytes - 1) / PAGE {
            let Some(&(file, index, true)) = self.space().files.get(&page) else { continue };
            match runs.last_mut() {
                Some(run) if run[run.len() - 1] == (file, index.wrapping_sub(1)) => run.push((file, index)),
                _ => runs.push(vec![(file, index)]),
            }
        }
        for run in runs {
            self.server.sync_range(run[0].0, run[0].1 * PAGE, run.len() as u64 * PAGE);
        }
    }

    fn lose_dead(&mut self) {
        for page in self.pages.dead() {
            self.server.lose_page(self.own(page));
        }
    }

    /// Touches a page of the running address space.
    fn touch_page(&mut self, page: u64, stores: bool) -> MemoryPlace {
        let touched = self.pages.touch(Asid(self.here as u32), PageNo(page), stores).page;
        self.firsts.entry(touched).or_insert((page, self.here));
        self.lose_dead();
        self.own(touched)
    }

    fn own(&self, page: PageId) -> MemoryPlace {
        let (page_no, asid) = self.firsts[&page];
        MemoryPlace::Own(page.0.into(), self.color(page_no, asid))
    }

    fn color(&self, page_no: u64, asid: u64) -> u64 {
        let Some(MemoryRoom { colors, .. }) = self.memory else { return 0 };
        let hash = if colors.pid_hash { asid.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 } else { 0 };
        (page_no ^ hash) % colors.number
    }

    /// Returns the page in memory behind a virtual page that is touched.
    fn behind(&mut self, page: u64, stores: bool) -> MemoryPlace {
        let space = self.space();
        match space.files.get(&page) {
            Some(&(file, index, _)) if !space.own.contains(&page) => MemoryPlace::File(file, index),
            _ => self.touch_page(page, stores),
        }
    }

    /// Names what lies behind the buffer of a call.
    fn name_buffer(&mut self, pages: std::ops::RangeInclusive<u64>, kernel_writes: bool) {
        for page in pages {
            let space = self.space();
            let entered = space.table.contains(&page);
            let file = space.files.get(&page).copied().filter(|_| !space.own.contains(&page));
            let behind = match file {
                Some((file, index, shared)) => {
                    let copies = kernel_writes && !shared;
                    if copies {
                        space.own.insert(page);
                    }
                    let copy = copies.then(|| self.touch_page(page, true));
                    UserPlace::Mapped { file, page: index, entered, copy }
                }
                None if self.memory.is_none() => continue,
                None => UserPlace::Own(self.behind(page, kernel_writes)),
            };
            self.server.named.insert(page, behind);
        }
    }

    /// Enters the pages of a buffer that faulted in a call.
    fn enter_buffer(&mut self) {
        for (page, behind) in std::mem::take(&mut self.server.named) {
            if matches!(behind, UserPlace::Mapped { entered: true, .. }) {
                self.space().table.insert(page);
            }
        }
    }

    fn touch(&mut self, page: u64, stores: bool, again: bool) {
        let space = self.space();
        let Some(&(file, index, shared)) = space.files.get(&page) else { return };
        if space.own.contains(&page) {
            return;
        }
        let in_table = space.table.contains(&page);
        let soils = stores && shared;
        if !in_table || (soils && !self.server.has_dirty(file, index)) {
            self.server.pass_time(self.instructions);
            if again {
                self.server.fault_again(file, index, soils);
            } else {
                self.server.fault(file, index, soils);
            }
            self.take();
            self.space().table.insert(page);
        }
        if stores && !shared {
            self.space().own.insert(page);
            self.touch_page(page, true);
        }
    }
}

fn rate() -> impl Strategy<Value = Option<NonZeroU64>> {
    prop::option::of(
        (1..64u64).prop_map(|instructions| NonZeroU64::new(PAGE * 1_000_000 / instructions).unwrap()),
    )
}

fn any_config() -> impl Strategy<Value = IoConfig> {
    let room = prop::option::of((6..24u64, prop_oneof![Just(1), 2..5u64], any::<bool>(), any::<bool>()));
    (2..16u64, 0..6u64, 1..200u64, rate(), rate(), room).prop_map(
        |(cache_pages, dirty_pages, dirty_age, disk_rate, disk_write_rate, room)| IoConfig {
            cache_pages,
            read_ahead: (cache_pages / 2).min(4).min(room.map_or(4, |(pages, ..)| pages / 2)),
            request_pages: (cache_pages / 2).min(4).min(room.map_or(4, |(pages, ..)| pages / 2)),
            memory: room.map(|(pages, number, pid_hash, reuses_frames)| MemoryRoom {
                pages,
                colors: PageColors { number, pid_hash },
                reuses_frames,
            }),
            dirty_pages,
            dirty_age,
            disk_rate,
            disk_write_rate,
            ..config()
        },
    )
}

/// `Act` is an event in words: a fork makes the next address space.
#[derive(Clone, Copy, Debug)]
enum Act {
    Map { page: u64, pages: u32, segment: Option<u64>, shared: bool, from: u64 },
    Unmap { page: u64, pages: u32 },
    Fork,
    Begins(bool),
    Switch(u64),
    Refer(Op, u64, u32),
    Call { writes: bool, offset: u64, bytes: u32, user: Option<u64> },
    Sync { page: u64, bytes: u32 },
    Cut { deletes: bool, bytes: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let segment = prop_oneof![
        3 => Just(Some(DATA.1)), 3 => Just(Some(LIBRARY.1)), 1 => Just(Some(DEVICE)), 1 => Just(Some(22)), 1 => Just(None)
    ];
    let op = prop::sample::select(vec![Op::Fetch, Op::Load, Op::Store, Op::Modify]);
    prop_oneof![
        3 => (0..PAGES, 1..5u32, segment, any::<bool>(), 0..10u64)
            .prop_map(|(page, pages, segment, shared, from)| Act::Map { page, pages, segment, shared, from }),
        1 => (0..PAGES, 1..4u32).prop_map(|(page, pages)| Act::Unmap { page, pages }),
        1 => Just(Act::Fork),
        1 => any::<bool>().prop_map(Act::Begins),
        2 => (0..4u64).prop_map(Act::Switch),
        16 => (op, 0..PAGES * PAGE, 1..6000u32).prop_map(|(op, at, size)| Act::Refer(op, at, size)),
        2 => (any::<bool>(), 0..10 * PAGE, 1..9000u32, prop::option::of(0..PAGES * PAGE))
            .prop_map(|(writes, offset, bytes, user)| Act::Call { writes, offset, bytes, user }),
        1 => (0..PAGES, 1..20_000u32).prop_map(|(page, bytes)| Act::Sync { page, bytes }),
        1 => (any::<bool>(), 0..10 * PAGE).prop_map(|(deletes, bytes)| Act::Cut { deletes, bytes }),
    ]
}

fn events(acts: &[Act]) -> Vec<Event> {
    let (mut here, mut spaces) = (0, 1);
    let mut all = Vec::new();
    for &act in acts {
        let at = |page: u64| BASE + page * PAGE;
        all.push(match act {
            Act::Map { page, pages, segment, shared, from } => Event {
                arg0: segment,
                arg1: Some(from * PAGE),
                ..row(Op::Map, at(page), READ | WRITE | if shared { SHARED } else { 0 }, pages)
            },
            Act::Unmap { page, pages } => row(Op::Unmap, at(page), 0, pages),
            Act::Fork => {
                spaces += 1;
                Event { arg0: Some(here), ..row(Op::Fork, spaces - 1, 0, 0) }
            }
            Act::Begins(exec) => row(if exec { Op::Exec } else { Op::Exit }, here, 0, 0),
            Act::Switch(asid) => {
                here = asid % spaces;
                row(Op::Switch, here, 1, 0)
            }
            Act::Refer(op, distance, size) => {
                let count = if op == Op::Fetch { size / 4 + 1 } else { 1 };
                row(op, BASE + distance, size, count)
            }
            Act::Sync { page, bytes } => {
                Event { arg0: None, arg1: Some(0), ..row(Op::Syscall, at(page), bytes, 26) }
            }
            Act::Cut { deletes, bytes } => {
                let number = if deletes { 263 } else { 77 };
                Event { arg0: Some(DATA.0), arg1: Some(bytes), ..row(Op::Syscall, 0, 0, number) }
            }
            Act::Call { writes, offset, bytes, user } => {
                let user = user.map_or(0x9000_0000, |distance| BASE + distance);
                Event {
                    arg0: Some(DATA.0),
                    arg1: Some(offset),
                    ..row(Op::Syscall, user, bytes, writes.into())
                }
            }
        });
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn faults_are_those_of_the_slow_model(
        config in any_config(),
        bytes in prop::option::of(0..12 * PAGE),
        acts in prop::collection::vec(act(), 1..80),
        each in 1..30usize,
    ) {
        let events = events(&acts);
        let mut slow = Slow::new(&config, bytes);
        events.iter().for_each(|event| slow.event(event));
        prop_assert_eq!(fast(config, meta(bytes), &events, each), slow.seen);
    }
}

/// A program maps three pages of a library and a page of its own, by hand.
#[test]
fn the_pages_of_a_library_come_from_the_disk() {
    let map = |at, pages, segment, offset| Event {
        arg0: segment,
        arg1: Some(offset),
        ..row(Op::Map, at, READ | WRITE, pages)
    };
    let load = |at| row(Op::Load, at, 8, 1);
    let library = map(BASE, 3, Some(LIBRARY.1), 4 * PAGE);
    let heap = map(BASE + 8 * PAGE, 1, None, 0);
    let store = row(Op::Store, BASE + PAGE, 8, 1);
    let trace = [
        library,
        heap,
        load(BASE + 8 * PAGE),
        load(BASE),
        load(BASE + 8),
        store,
        load(BASE + PAGE),
        load(BASE + 3 * PAGE - 4),
    ];
    let page = |request, page| Seen::Disk(request, true, LIBRARY.1, page);
    let expected = [
        Seen::Row(library),
        Seen::Row(heap),
        Seen::Row(trace[2]),
        // A page in the middle of a file is read alone; its neighbour begins a window of all that the mapping shows.
        page(0, 4),
        Seen::Row(trace[3]),
        Seen::Row(trace[4]),
        page(1, 5),
        page(1, 6),
        Seen::Row(store),
        Seen::Row(trace[6]),
        Seen::Row(trace[7]),
    ];
    assert_eq!(fast(config(), meta(None), &trace, 3), expected);
}

/// A program writes from a mapped library to a file, and reads the file into a private mapping, by hand.
#[test]
fn a_buffer_in_a_mapped_file_comes_from_the_disk() {
    let map = |at, segment, offset, shared| Event {
        arg0: Some(segment),
        arg1: Some(offset),
        ..row(Op::Map, at, READ | WRITE | shared, 2)
    };
    let library = map(BASE, LIBRARY.1, 4 * PAGE, SHARED);
    let private = map(BASE + 8 * PAGE, LIBRARY.1, 8 * PAGE, 0);
    let call = |reads: bool, user, offset| Event {
        arg0: Some(DATA.0),
        arg1: Some(offset),
        ..row(Op::Syscall, user, 100, (!reads).into())
    };
    let trace = [
        library,
        private,
        call(false, BASE, 0),
        // The page is in the page table now.
        call(false, BASE + 200, 100),
        row(Op::Load, BASE, 8, 1),
        // The kernel stores into a private mapping: the page faults, and the process has a page of its own then.
        call(true, BASE + 8 * PAGE, 0),
        call(true, BASE + 8 * PAGE, 0),
        row(Op::Store, BASE + 8 * PAGE, 8, 1),
    ];
    let page = |request, page| Seen::Disk(request, true, LIBRARY.1, page);
    let rows: Vec<Seen> = trace.iter().map(|&event| Seen::Row(event)).collect();
    let mut expected = rows.clone();
    // The rows of a call's faults stand behind the call.
    expected.insert(6, page(1, 8));
    expected.insert(3, page(0, 4));
    assert_eq!(fast(config(), meta(None), &trace, 3), expected);
}

/// A mapped file may have a number for direct calls and another number. A fault brings its page into the page cache,
/// where a call by the other number finds the page.
#[test]
fn a_fault_finds_the_file_behind_a_direct_one() {
    let direct = DATA.0 + 8;
    let mut two = meta(None);
    two.files.insert(direct, "/data".to_owned());
    two.direct_files.insert(direct);
    let map = Event { arg0: Some(DATA.1), arg1: Some(0), ..row(Op::Map, BASE, READ, 1) };
    let load = row(Op::Load, BASE, 8, 1);
    let read = Event { arg0: Some(DATA.0), arg1: Some(0), ..row(Op::Syscall, 0x9000_0000, 4096, 0) };
    let expected = [Seen::Row(map), Seen::Disk(0, true, DATA.1, 0), Seen::Row(load), Seen::Row(read)];
    assert_eq!(fast(config(), two, &[map, load, read], 3), expected);
}

/// A damaged event is reported with its row.
#[test]
fn a_damaged_event_names_its_row() {
    let events = [row(Op::Load, BASE, 8, 1), row(Op::Load, BASE, 8, 1), row(Op::Switch, 1 << 32, 0, 0)];
    let source = Rows { meta: meta(None), batches: events.chunks(2).map(batch).collect() };
    let mut path = IoEvents::new(Box::new(source), config()).unwrap();
    let problem = loop {
        match path.next_batch() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("no address space has this number"),
            Err(problem) => break problem,
        }
    };
    assert_eq!(problem.place, "rows: row 2: asid", "{problem}");
}
