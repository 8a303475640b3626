//! The path of device data agrees with lists: every step of every call, and the page cache behind each call. No call
//! reads stale data, and nothing dirty is lost.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod by_hand;
mod contents;
mod lane;

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use binhop_base::VirtAddr;
use binhop_oracle::cases::cases;
use binhop_oracle::io::{IoEvent, IoPlace, MemoryPlace, Room, Server, Sizes, UserPlace};
use binhop_os::io::{
    BufferPool, FileId, FilePage, FileWrites, IoConfig, IoPath, IoStep, Location, MemoryPage, MemoryRoom,
    QueueId, RingId, UserPage,
};
use binhop_os::placement::PageColors;
use proptest::prelude::*;

use contents::World;
use lane::Lane;

/// `Call` is a call, with small numbers.
#[derive(Clone, Copy, Debug)]
enum Call {
    Read(u64, u64, u64, u64),
    Write(u64, u64, u64, u64),
    Fault(u64, u64, bool),
    Map(u64, u64),
    CopyFile(u64, u64, u64, u64, u64),
    SendFile(u64, u64, u64),
    ReadDirect(u64, u64, u64, u64),
    WriteDirect(u64, u64, u64, u64),
    SyncFile(u64),
    SyncRange(u64, u64, u64),
    Sync,
    Truncate(u64, u64),
    PassTime(u64),
    Arrive(u64, u64),
    Receive(u64, u64, u64),
    Send(u64, u64),
    WritePipe(u64, u64, u64),
    ReadPipe(u64, u64, u64),
    DrainPipe(u64, u64),
    SpliceFromFile(u64, u64, u64, u64),
    SpliceToFile(u64, u64, u64),
    SpliceFromSocket(u64, u64, u64),
    SpliceToSocket(u64, u64),
    SplicePipes(u64, u64, u64),
    Tee(u64, u64, u64),
    CloseSocket(u64),
    ClosePipe(u64),
    /// The program references a page of its own.
    Refer(u64),
    /// A page of the program dies.
    Lose(u64),
    /// The program maps the files behind its buffers anew.
    Remap,
}

const PAGE: u64 = 64;
/// The file into which bytes of pipes go. No pipe holds its pages.
pub const SPLICED: u64 = 3;
/// The file whose length may be known before the first call.
const KNOWN: u64 = 2;

/// A disk that reads at once, or a page in some tens of instructions.
fn disk_rate() -> impl Strategy<Value = Option<NonZeroU64>> {
    prop::option::of(
        (1..64u64).prop_map(|instructions| NonZeroU64::new(PAGE * 1_000_000 / instructions).unwrap()),
    )
}

/// Sizes that obey the rules of `IoConfig`.
fn sizes() -> impl Strategy<Value = IoConfig> {
    let cache = (2..24u64).prop_flat_map(|pages| (Just(pages), 1..=pages / 2, 1..=pages / 2, 0..pages));
    (
        cache,
        1..200u64,
        12..40u32,
        3..=6u32,
        1..100u64,
        (1..3u32, 0..6u32),
        (1..40u64, disk_rate(), disk_rate(), disk_rate()),
        prop::option::of((0..30u64, prop_oneof![Just(1), 2..5u64], any::<bool>())),
    )
        .prop_map(
            |(
                (cache_pages, read_ahead, request_pages, dirty_pages),
                dirty_age,
                ring,
                buffer,
                packet,
                (coalesce, backlog),
                (extent_pages, disk_rate, disk_write_rate, send_rate),
                memory,
            )| IoConfig {
                page: PAGE,
                cache_pages,
                read_ahead,
                request_pages,
                dirty_pages,
                dirty_age,
                ring: ring.max(packet.div_ceil(1 << buffer) as u32 * coalesce.max(backlog)),
                buffer: 1 << buffer,
                packet,
                coalesce,
                backlog,
                extent_pages,
                disk_rate,
                disk_write_rate,
                send_rate,
                file_writes: FileWrites::Cached,
                memory: memory.map(|(more, colors, reuses_frames)| MemoryRoom {
                    pages: 2 * read_ahead.max(request_pages) + more,
                    colors: PageColors { number: colors, pid_hash: false },
                    reuses_frames,
                }),
            },
        )
}

fn call() -> impl Strategy<Value = Call> {
    let file = 0..3u64;
    let offset = prop_oneof![0..400u64, (0..40u64).prop_map(|page| page * PAGE)];
    let bytes = prop_oneof![0..300u64, (0..20u64).prop_map(|page| page * PAGE)];
    let user = 0..1000u64;
    let piped = (0..2u64, offset.clone(), bytes.clone());
    let spliced = prop_oneof![
        3 => (piped.clone(), file.clone()).prop_map(|((p, o, b), f)| Call::SpliceFromFile(f, o, p, b)),
        2 => piped.clone().prop_map(|(p, o, b)| Call::SpliceToFile(p, o, b)),
        1 => (piped.clone(), file.clone()).prop_map(|((p, _, b), s)| Call::SpliceFromSocket(s, p, b)),
        2 => piped.clone().prop_map(|(p, _, b)| Call::SpliceToSocket(p, b)),
        1 => piped.clone().prop_map(|(p, _, b)| Call::SplicePipes(p, 1 - p, b)),
        1 => piped.clone().prop_map(|(p, _, b)| Call::DrainPipe(p, b)),
        1 => piped.prop_map(|(p, _, b)| Call::Tee(p, 1 - p, b)),
    ];
    let ranged = (file.clone(), offset.clone(), bytes.clone(), user.clone());
    prop_oneof![
        6 => ranged.clone().prop_map(|(f, o, b, u)| Call::Read(f, o, b, u)),
        6 => ranged.clone().prop_map(|(f, o, b, u)| Call::Write(f, o, b, u)),
        2 => (file.clone(), 0..30u64, any::<bool>()).prop_map(|(f, p, w)| Call::Fault(f, p, w)),
        1 => (file.clone(), 0..1000u64).prop_map(|(f, b)| Call::Map(f, b)),
        3 => (ranged.clone(), file.clone(), offset.clone())
            .prop_map(|((f, o, b, _), t, p)| Call::CopyFile(f, o, b, (f + 1 + t % 2) % 3, p)),
        2 => ranged.clone().prop_map(|(f, o, b, _)| Call::SendFile(f, o, b)),
        1 => ranged.clone().prop_map(|(f, o, b, u)| Call::ReadDirect(f, o, b, u)),
        1 => ranged.clone().prop_map(|(f, o, b, u)| Call::WriteDirect(f, o, b, u)),
        1 => ranged.prop_map(|(f, o, b, _)| Call::SyncRange(f, o, b)),
        1 => file.clone().prop_map(Call::SyncFile),
        1 => Just(Call::Sync),
        2 => (file.clone(), offset).prop_map(|(f, b)| Call::Truncate(f, b)),
        2 => (0..60u64).prop_map(Call::PassTime),
        1 => (file.clone(), bytes.clone()).prop_map(|(s, b)| Call::Arrive(s, b)),
        2 => (file.clone(), bytes.clone(), user.clone()).prop_map(|(s, b, u)| Call::Receive(s, b, u)),
        2 => (bytes.clone(), user.clone()).prop_map(|(b, u)| Call::Send(b, u)),
        2 => (file.clone(), bytes.clone(), user.clone()).prop_map(|(p, b, u)| Call::WritePipe(p, b, u)),
        2 => (file.clone(), bytes, user).prop_map(|(p, b, u)| Call::ReadPipe(p, b, u)),
        3 => spliced,
        1 => file.clone().prop_map(Call::CloseSocket),
        1 => file.prop_map(Call::ClosePipe),
        4 => (0..40u64).prop_map(Call::Refer),
        1 => (0..40u64).prop_map(Call::Lose),
        1 => Just(Call::Remap),
    ]
}

fn oracle_sizes(config: &IoConfig) -> Sizes {
    Sizes {
        page: config.page,
        cache_pages: config.cache_pages as usize,
        read_ahead: config.read_ahead,
        request_pages: config.request_pages as usize,
        dirty_pages: config.dirty_pages as usize,
        dirty_age: config.dirty_age,
        ring: config.ring,
        buffer: config.buffer,
        packet: config.packet,
        coalesce: config.coalesce as usize,
        backlog: config.backlog as usize,
        extent_pages: config.extent_pages,
        disk_rate: config.disk_rate.map(NonZeroU64::get),
        disk_write_rate: config.disk_write_rate.map(NonZeroU64::get),
        send_rate: config.send_rate.map(NonZeroU64::get),
        memory: config.memory.map(|room| Room {
            pages: room.pages as usize,
            colors: room.colors.number,
            reuses: room.reuses_frames,
        }),
    }
}

fn ring(id: RingId) -> u8 {
    match id {
        RingId::Disk => 0,
        RingId::Receive => 1,
        RingId::Send => 2,
    }
}

fn place(memory: Location) -> IoPlace {
    match memory {
        Location::User(user) => IoPlace::User(user.0),
        Location::File(file, byte) => IoPlace::File(file.0, byte),
        Location::Buffer(BufferPool::Packets, buffer, byte) => IoPlace::Packet(buffer, byte),
        Location::Buffer(BufferPool::Pipes, page, byte) => IoPlace::Pipe(page, byte),
        Location::Descriptor(id, slot) => IoPlace::Descriptor(ring(id), slot),
    }
}

/// Returns a page of the program's own, which has the color of a page of this number in the user's memory.
fn own(number: u64, config: &IoConfig) -> MemoryPage {
    MemoryPage::Own { number, color: config.memory.map_or(0, |room| number % room.colors.number) }
}

fn memory_place(page: MemoryPage) -> MemoryPlace {
    match page {
        MemoryPage::File(page) => MemoryPlace::File(page.file.0, page.page),
        MemoryPage::Buffer(BufferPool::Packets, number) => MemoryPlace::Packets(number),
        MemoryPage::Buffer(BufferPool::Pipes, number) => MemoryPlace::Pipes(number),
        MemoryPage::Own { number, color } => MemoryPlace::Own(number, color),
    }
}

/// Returns what the user's buffers show where they lie in mapped files: pages 3 and 4 show neighbours in a shared
/// mapping, and pages 5 and 6 show pages of two files in private mappings. No page of them is in the page table.
fn mapped_pages(config: &IoConfig) -> BTreeMap<u64, UserPage> {
    let page = |file, page, copy| {
        let of = FilePage { file: FileId(file), page };
        UserPage::Mapped { of, is_entered: false, copy }
    };
    let copy = |number| Some(own(number, config));
    [
        (3, page(1, 2, None)),
        (4, page(1, 3, None)),
        (5, page(0, 4, copy(2005))),
        (6, page(KNOWN, 1, copy(2006))),
    ]
    .into()
}

fn user_place(page: UserPage) -> UserPlace {
    match page {
        UserPage::Own(page) => UserPlace::Own(memory_place(page)),
        UserPage::Mapped { of, is_entered, copy } => UserPlace::Mapped {
            file: of.file.0,
            page: of.page,
            entered: is_entered,
            copy: copy.map(memory_place),
        },
    }
}

fn user_places(pages: &BTreeMap<u64, UserPage>) -> BTreeMap<u64, UserPlace> {
    pages.iter().map(|(&number, &page)| (number, user_place(page))).collect()
}

/// Returns a step as the oracle writes it.
fn event(step: IoStep) -> IoEvent {
    match step {
        IoStep::Copy { from, to, bytes } => IoEvent::Copy(place(from), place(to), bytes),
        IoStep::Fill { at, bytes } => IoEvent::Zero(place(at), bytes),
        IoStep::WriteDescriptor(id, slot) => IoEvent::Driver(true, ring(id), slot),
        IoStep::ReadDescriptor(id, slot) => IoEvent::Driver(false, ring(id), slot),
        IoStep::Transfer { request, ring: id, writes, at, bytes, of } => IoEvent::Device {
            ring: ring(id),
            request,
            writes,
            at: place(at),
            bytes,
            of: of.map(|(file, byte)| (file.0, byte)),
        },
        IoStep::Interrupt(id) => IoEvent::Interrupt(ring(id)),
        IoStep::Dropped(page) => IoEvent::Drop(page.file.0, page.page),
    }
}

/// Makes a call on both paths, and returns the steps.
fn make(call: Call, time: &mut u64, fast: &mut IoPath, slow: &mut Server) -> Vec<IoStep> {
    let mut steps = Vec::new();
    let emit = &mut |step| steps.push(step);
    match call {
        Call::Read(f, o, b, u) => {
            fast.read(FileId(f), o, b, VirtAddr(u), emit);
            slow.read(f, o, b, u);
        }
        Call::Write(f, o, b, u) => {
            fast.write(FileId(f), o, b, VirtAddr(u), emit);
            slow.write(f, o, b, u);
        }
        Call::Fault(f, p, w) => {
            fast.fault(FilePage { file: FileId(f), page: p }, w, emit);
            slow.fault(f, p, w);
        }
        Call::Map(f, b) => {
            fast.reach_mapped(FileId(f), b);
            slow.reach_mapped(f, b);
        }
        Call::ReadDirect(f, o, b, u) => {
            fast.read_direct(FileId(f), o, b, VirtAddr(u), emit);
            slow.direct(false, f, o, b, u);
        }
        Call::CopyFile(f, o, b, to, at) => {
            fast.copy_file((FileId(f), o), (FileId(to), at), b, emit);
            slow.copy_file((f, o), (to, at), b);
        }
        Call::SendFile(f, o, b) => {
            fast.send_file(FileId(f), o, b, emit);
            slow.send_file(f, o, b);
        }
        Call::WriteDirect(f, o, b, u) => {
            fast.write_direct(FileId(f), o, b, VirtAddr(u), emit);
            slow.direct(true, f, o, b, u);
        }
        Call::SyncFile(f) => {
            fast.sync_file(FileId(f), emit);
            slow.sync_file(f);
        }
        Call::SyncRange(f, o, b) => {
            fast.sync_range(FileId(f), o, b, emit);
            slow.sync_range(f, o, b);
        }
        Call::Sync => {
            fast.sync(emit);
            slow.sync();
        }
        Call::Truncate(f, b) => {
            fast.truncate(FileId(f), b, emit);
            slow.truncate(f, b);
        }
        Call::PassTime(t) => {
            *time += t;
            fast.pass_time(*time, emit);
            slow.pass_time(*time);
        }
        Call::Arrive(s, b) => {
            fast.arrive(QueueId(s), b, emit);
            slow.arrive(s, b);
        }
        Call::Receive(s, b, u) => {
            fast.receive(QueueId(s), b, VirtAddr(u), emit);
            slow.receive(s, b, u);
        }
        Call::Send(b, u) => {
            fast.send(b, VirtAddr(u), emit);
            slow.send(b, u);
        }
        Call::WritePipe(p, b, u) => {
            fast.write_pipe(QueueId(p), b, VirtAddr(u), emit);
            slow.write_pipe(p, b, u);
        }
        Call::ReadPipe(p, b, u) => {
            let read = fast.read_pipe(QueueId(p), b, VirtAddr(u), emit);
            assert_eq!(read, slow.read_pipe(p, b, u));
        }
        Call::DrainPipe(p, b) => {
            let drained = fast.drain_pipe(QueueId(p), b);
            assert_eq!(drained, slow.drain_pipe(p, b));
        }
        Call::SpliceFromFile(f, o, p, b) => {
            fast.splice_from_file((FileId(f), o), QueueId(p), b, emit);
            slow.splice_from_file(f, o, p, b);
        }
        Call::SpliceToFile(p, o, b) => {
            let moved = fast.splice_to_file(QueueId(p), (FileId(SPLICED), o), b, emit);
            assert_eq!(moved, slow.splice_to_file(p, SPLICED, o, b));
        }
        Call::SpliceFromSocket(s, p, b) => {
            fast.splice_from_socket(QueueId(s), QueueId(p), b, emit);
            slow.splice_from_socket(s, p, b);
        }
        Call::SpliceToSocket(p, b) => {
            let moved = fast.splice_to_socket(QueueId(p), b, emit);
            assert_eq!(moved, slow.splice_to_socket(p, b));
        }
        Call::SplicePipes(p, to, b) => {
            let moved = fast.splice_pipes(QueueId(p), QueueId(to), b);
            assert_eq!(moved, slow.pass_on(false, p, to, b));
        }
        Call::Tee(p, to, b) => {
            let moved = fast.tee(QueueId(p), QueueId(to), b);
            assert_eq!(moved, slow.pass_on(true, p, to, b));
        }
        Call::CloseSocket(s) => {
            fast.close_socket(QueueId(s));
            slow.close_socket(s);
        }
        Call::ClosePipe(p) => {
            fast.close_pipe(QueueId(p));
            slow.close_pipe(p);
        }
        Call::Refer(number) => {
            fast.refer(&[own(number, fast.config())], emit);
            slow.refer(&[memory_place(own(number, fast.config()))]);
        }
        Call::Lose(number) => {
            fast.lose_page(own(number, fast.config()));
            slow.lose_page(memory_place(own(number, fast.config())));
        }
        Call::Remap => {
            fast.name_user_pages(mapped_pages(fast.config()));
            slow.named = user_places(fast.user_pages());
        }
    }
    steps
}

/// Returns whether a call reads or stores into a buffer of the user.
const fn moves_data_of_the_user(call: Call) -> bool {
    matches!(
        call,
        Call::Read(..)
            | Call::Write(..)
            | Call::ReadDirect(..)
            | Call::WriteDirect(..)
            | Call::Receive(..)
            | Call::Send(..)
            | Call::WritePipe(..)
            | Call::ReadPipe(..)
    )
}

/// Makes the calls on both paths. The world behind the path keeps the contents of memory, disk and network.
fn compare(config: IoConfig, known: Option<u64>, calls: &[Call]) {
    let mut fast = IoPath::new(config).unwrap();
    let mut slow = Server::new(oracle_sizes(&config));
    let mut world = World::new(&config);
    if let Some(bytes) = known {
        fast.set_bytes(FileId(KNOWN), bytes);
        slow.files.insert(KNOWN, bytes);
        slow.known.push(KNOWN);
        world.know(KNOWN, bytes);
    }
    let mut lane = Lane::new(&config);
    let mut time = 0;
    let calls = [Call::Remap].into_iter().chain(calls.iter().copied()).chain([Call::Sync]);
    for (number, call) in calls.enumerate() {
        slow.events.clear();
        world.expect(call);
        let steps = make(call, &mut time, &mut fast, &mut slow);
        if moves_data_of_the_user(call) {
            world.lengthen(&slow.files);
        }
        let events: Vec<IoEvent> = steps.iter().map(|&step| event(step)).collect();
        assert_eq!(events, slow.events, "call {number}: {call:?}");
        let cached: Vec<_> = fast.cached().map(|(page, dirty)| (page.file.0, page.page, dirty)).collect();
        let expected: Vec<_> =
            slow.cached.iter().map(|page| (page.file, page.page, page.dirty.is_some())).collect();
        assert_eq!(cached, expected, "call {number}: {call:?}");
        assert!(cached.len() as u64 <= config.cache_pages);
        let looked_up = [fast.counts().cache_hits, fast.counts().cache_misses];
        assert_eq!(looked_up, slow.looked_up, "call {number}: {call:?}");
        assert!(fast.waiting().values().eq(slow.waiting().map(|waiting| waiting as u64)), "call {number}");
        let mut held: Vec<_> = fast.in_memory_now().map(memory_place).collect();
        held.sort_unstable();
        let mut expected: Vec<_> = slow.memory.iter().filter_map(|held| held.1).collect();
        expected.sort_unstable();
        assert_eq!(held, expected, "call {number}: {call:?}");
        assert_eq!(user_places(fast.user_pages()), slow.named, "call {number}: {call:?}");
        if matches!(call, Call::Remap) {
            lane.named.clone_from(&slow.named);
        }
        lane.follow(&events, call);
        steps.iter().for_each(|&step| world.follow(step));
        world.check(call);
    }
    world.check_disk();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(64, 256)) })]
    #[test]
    fn every_step_and_every_byte(
        config in sizes(),
        known in prop::option::of(0..700u64),
        calls in prop::collection::vec(call(), 1..60),
    ) {
        compare(config, known, &calls);
    }
}
