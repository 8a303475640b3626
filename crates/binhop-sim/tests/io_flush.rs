//! These tests compare the flush of frames under a full page cache with slow models: pages of files, of programs and of
//! the kernel take frames from each other. Slow address spaces and a slow placement say which frame each page has, and
//! which frames change hands. The slow machine with versions says what leaves the caches, of every scheme.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use binhop_base::{Asid, PageNo};
use binhop_hw::{FixedLatency, LineMemory, SchemeKind, TapEvent, check_scheme, make_scheme};
use binhop_oracle::dma::{DmaMachine, WORDS};
use binhop_oracle::dma_parts::{PartMachine, PartOp};
use binhop_oracle::placements::{self, Memory, PageRequest};
use binhop_oracle::spaces::Spaces;
use binhop_sim::device_data::FrontEvent;
use binhop_sim::io_path::{HALF, IoEvents, RUNNING_SPACE};
use binhop_sim::{Machine, RunOptions, front_stream};
use binhop_trace::event::{Event, map_flags};
use binhop_trace::{Meta, Op, Source};
use proptest::prelude::*;

use crate::caches::for_schemes::{compare, design, event, reply};
use crate::common::short_and_long;
use crate::front_parts::slow_front;
use crate::io_path::{Rows, batch, row};

const PAGE: u64 = 4096;
/// The lines are so long that a page has four of them: the slow machine looks at every line.
const LINE: u64 = 1024;
const WORD: u64 = LINE / WORDS as u64;
const CODE: u64 = 0x40_0000;
const HEAP: u64 = 0x1000_0000;
const FILE: u64 = 3;
const LATENCY: u64 = 100;

/// Memory has 48 frames. The page cache may take all of them.
const MACHINE: &str = r#"
memory = { size = "192KiB", page = "4KiB" }
[cache.l1i]
serves = "fetch"
size = "2KiB"
line = "1KiB"
ways = 1
next = "l2"
[cache.l1d]
serves = "data"
size = "2KiB"
line = "1KiB"
ways = 1
next = "l2"
[cache.l2]
size = "8KiB"
line = "1KiB"
ways = 2
next = "l3"
[cache.l3]
size = "32KiB"
line = "1KiB"
ways = 4
next = "memory"
[io]
page-cache = "192KiB"
read-ahead = "8KiB"
request = "8KiB"
ring = 8
dma-cache = "8KiB"
dma-cache-ways = 2
"#;

/// `SlowMemory` is memory with its pages: slow address spaces, and the frames that a slow placement gives.
struct SlowMemory {
    spaces: Spaces,
    frames: Box<dyn Memory>,
    /// The frames of pages that died. Caches may still hold their lines.
    dead_in: BTreeSet<u64>,
    running: u32,
    /// The address at which the kernel maps each page of a segment.
    places: BTreeMap<(u64, u64), u64>,
    ops: Vec<PartOp>,
}

impl SlowMemory {
    fn new(machine: &Machine, seed: u64) -> Self {
        let placement = machine.placement();
        let settings = placements::Settings {
            frames: placement.settings.frames,
            pool: placement.settings.pool as usize,
            bins: 1,
            colors: 1,
            by_space: false,
            pid_hash: false,
            fragmentation: placement.settings.fragmentation.into(),
        };
        let mut spaces = Spaces::new(PAGE, PAGE, 8 << 20);
        spaces.shared_from = Some(HALF / PAGE);
        Self {
            spaces,
            frames: placements::memory(placement.policy, &settings, seed).unwrap(),
            dead_in: BTreeSet::new(),
            running: 0,
            places: BTreeMap::new(),
            ops: Vec::new(),
        }
    }

    fn bury(&mut self) {
        for page in self.spaces.dead() {
            if let Some(frame) = self.frames.frame_of(page) {
                self.frames.release(page);
                self.dead_in.insert(frame);
            }
        }
    }

    /// Brings the page of an address into memory. Returns the word of memory.
    fn touch(&mut self, addr: u64, write: bool) -> u64 {
        let page_no = addr / PAGE;
        let page = self.spaces.touch(Asid(self.running), PageNo(page_no), write).page;
        self.bury();
        if self.frames.frame_of(page).is_none() {
            let (frame, evicted) = self.frames.place(&PageRequest {
                page,
                asid: self.running,
                page_no,
                segment: 0,
                segments: Vec::new(),
                run: None,
                in_kernel: addr >= HALF,
            });
            if self.dead_in.remove(&frame) || evicted.is_some() {
                self.ops.push(PartOp::ChangeFrame(frame * PAGE / WORD));
            }
        }
        self.frames.touch(page);
        (self.frames.frame_of(page).unwrap() * PAGE + addr % PAGE) / WORD
    }

    fn refer(&mut self, event: &Event, op: fn(u64) -> PartOp) {
        let last = event.addr + u64::from(event.size) - 1;
        for line in event.addr / LINE..=last / LINE {
            let word = self.touch(event.addr.max(line * LINE), event.op == Op::Store);
            self.ops.push(op(word));
        }
    }

    fn transfer(&mut self, event: &Event) {
        let (mut at, end) = (event.addr, event.addr + u64::from(event.size));
        while at < end {
            let next = end.min((at / PAGE + 1) * PAGE);
            let addr = match event.arg1.unwrap() {
                RUNNING_SPACE => at,
                segment => self.places[&(segment, at / PAGE)] + at % PAGE,
            };
            let word = self.touch(addr, event.op == Op::DmaWrite);
            // A descriptor is a part of a word, and of a line.
            let words = word..(word * WORD + addr % WORD + (next - at)).div_ceil(WORD);
            self.ops.push(match event.op {
                Op::DmaWrite => PartOp::DeviceWrite(words),
                _ => PartOp::DeviceRead(words),
            });
            at = next;
        }
    }

    fn event(&mut self, event: &Event) {
        match event.op {
            Op::Fetch => self.refer(event, PartOp::Fetch),
            Op::Load => self.refer(event, PartOp::Load),
            Op::Store => self.refer(event, PartOp::Store),
            Op::DmaRead | Op::DmaWrite => self.transfer(event),
            Op::Switch => self.running = event.size,
            Op::Map => {
                let (pages, offset) = (u64::from(event.count), event.arg1.unwrap_or(0));
                let segment = event.arg0.unwrap();
                assert!(event.size & map_flags::SHARED != 0, "only the kernel maps");
                for page in 0..pages {
                    self.places.insert((segment, offset / PAGE + page), event.addr + page * PAGE);
                }
                let asid = Asid(self.running);
                self.spaces.map(asid, event.addr, pages, (true, false), Some((segment, offset)));
            }
            Op::Unmap => self.spaces.unmap(Asid(self.running), event.addr, event.count.into()),
            _ => {}
        }
        self.bury();
    }
}

/// `Act` is what a program does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Load(u64),
    Store(u64),
    Call { writes: bool, page: u64, buffer: u64 },
    Unmap(u64),
    Switch(u32),
}

fn rows(acts: &[Act]) -> Vec<Event> {
    let heap = |page: u64| HEAP + page * PAGE;
    acts.iter()
        .flat_map(|&act| {
            let made = match act {
                Act::Load(page) => row(Op::Load, heap(page) + 100, 8, 1),
                Act::Store(page) => row(Op::Store, heap(page) + LINE + 100, 8, 1),
                Act::Call { writes, page, buffer } => Event {
                    arg0: Some(FILE),
                    arg1: Some(page * PAGE),
                    ..row(Op::Syscall, heap(buffer), PAGE as u32, writes.into())
                },
                Act::Unmap(page) => row(Op::Unmap, heap(page), 0, 1),
                Act::Switch(asid) => row(Op::Switch, asid.into(), asid, 0),
            };
            [row(Op::Fetch, CODE, 16, 4), made]
        })
        .collect()
}

/// Compares a front and schemes with the slow models. Returns the pages that left full memory, and the frames that
/// changed hands.
fn check(acts: &[Act], settings: &[&str], seed: u64, kinds: &[SchemeKind]) -> (u64, usize) {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let machine = Machine::parse(MACHINE, "small", &settings).unwrap();
    assert!(machine.page_cache_problem().is_none());
    let source = || {
        let meta = Meta {
            page_size: Some(PAGE),
            files: BTreeMap::from([(FILE, "/data".to_owned())]),
            file_bytes: BTreeMap::from([(FILE, 100 * PAGE)]),
            ..Meta::default()
        };
        let source = Rows { meta, batches: rows(acts).chunks(9).map(batch).collect() };
        IoEvents::new(Box::new(source), *machine.io()).unwrap()
    };
    let mut slow_memory = SlowMemory::new(&machine, seed);
    let mut path = source();
    while let Some(batch) = path.next_batch().unwrap() {
        (0..batch.len()).for_each(|row| slow_memory.event(&Event::of(&batch, row)));
    }
    let mut events = Vec::new();
    let mut take = |_, some: &[FrontEvent]| {
        events.extend(some.iter().filter_map(|event| match *event {
            FrontEvent::Line(TapEvent::DeviceRead { line, .. }) => {
                Some(TapEvent::DeviceRead { line, request: 0 })
            }
            FrontEvent::Line(TapEvent::DeviceWrite { line, whole, .. }) => {
                Some(TapEvent::DeviceWrite { line, whole, request: 0 })
            }
            FrontEvent::Line(event) => Some(event),
            FrontEvent::Request(_) => None,
        }));
        Ok(())
    };
    let front = machine.front().unwrap();
    let options = RunOptions { seeds: vec![seed], ..RunOptions::default() };
    front_stream(&front, Box::new(source()), &options, &mut take, &mut |_| Ok(())).unwrap();
    for &kind in kinds {
        let mut config = machine.scheme(kind).unwrap();
        config.seed = seed;
        let mut scheme = make_scheme(&config).unwrap();
        let mut memory = FixedLatency { cycles: LATENCY };
        let below = DmaMachine::new(design(&config, LATENCY, None), false);
        let mut slow = PartMachine::new(slow_front(&front, WORD), below);
        let mut found = events.iter();
        for (number, op) in slow_memory.ops.iter().enumerate() {
            for (tapped, expected) in slow.step(op) {
                let of_front = found.next().copied();
                assert_eq!(of_front, Some(event(tapped)), "{}: {number}: {op:?}", kind.name());
                let answer = scheme.event(event(tapped), &mut memory);
                assert_eq!(reply(answer), expected, "{}: {number}: {op:?}: {tapped:?}", kind.name());
                if let (Some(class), Some(answer)) = (event(tapped).class(), answer) {
                    memory.pass(class, answer.cycles);
                }
            }
            if matches!(op, PartOp::ChangeFrame(_)) {
                slow.check_nothing_is_lost();
                compare(&*scheme, &slow.below);
            }
        }
        assert_eq!(found.next(), None);
        slow.check_nothing_is_lost();
        compare(&*scheme, &slow.below);
        check_scheme(&config, &*scheme).unwrap();
    }
    let changed = slow_memory.ops.iter().filter(|op| matches!(op, PartOp::ChangeFrame(_))).count();
    let counts = path.counts();
    let reclaimed = counts.lock().unwrap_or_else(PoisonError::into_inner).io.pages_reclaimed;
    (reclaimed, changed)
}

const POLICIES: [&[&str]; 4] = [
    &["placement.policy=first", "placement.pool=4KiB"],
    &["placement.policy=random", "placement.pool=16KiB"],
    &["placement.policy=sequential", "placement.pool=4KiB", "io.write=back"],
    &["placement.policy=buddy"],
];

/// A file that is larger than memory is read and written. Its pages leave memory, and later pages get their frames.
#[test]
fn frames_of_the_page_cache_are_flushed_when_they_change_hands() {
    let turns = 0..60u64;
    let acts: Vec<Act> = turns
        .flat_map(|turn| {
            let call = Act::Call { writes: turn % 3 == 2, page: 7 * turn % 90, buffer: turn % 2 };
            [call, Act::Load(2 + turn % 5), Act::Store(turn % 5)]
        })
        .collect();
    for settings in POLICIES {
        let (reclaimed, changed) = check(&acts, settings, 5, &[SchemeKind::Ddc]);
        assert!(reclaimed > 3 && changed > 3, "{settings:?}: {reclaimed} reclaimed, {changed} changed");
    }
}

fn act() -> impl Strategy<Value = Act> {
    let page = || 0..24u64;
    prop_oneof![
        4 => page().prop_map(Act::Load),
        4 => page().prop_map(Act::Store),
        3 => (any::<bool>(), 0..90u64, page())
            .prop_map(|(writes, page, buffer)| Act::Call { writes, page, buffer }),
        1 => page().prop_map(Act::Unmap),
        1 => (0..2u32).prop_map(Act::Switch),
    ]
}

/// The schemes for physical tags.
const KINDS: [SchemeKind; 7] = [
    SchemeKind::Off,
    SchemeKind::SnoopingCache,
    SchemeKind::SharedCache,
    SchemeKind::PrefetchHint,
    SchemeKind::Ddc,
    SchemeKind::Pbdc,
    SchemeKind::Ddio,
];

short_and_long! { many_flushes: 6, 300;
    fn frames_that_change_hands_under_a_full_page_cache_are_flushed(
        acts in prop::collection::vec(act(), 80..200),
        policy in 0..POLICIES.len(),
        seed in any::<u64>(),
        kind in prop::sample::select(&KINDS[..]),
    ) {
        check(&acts, POLICIES[policy], seed, &[kind]);
    }
}
