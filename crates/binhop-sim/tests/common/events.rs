//! `Event` is a drawn event, and `Fixed` a trace of such events.

use binhop_base::Result;
use binhop_sim::io_path::RUNNING_SPACE;
use binhop_trace::event::{Cause, EventBuilder, map_flags};
use binhop_trace::{EventBatch, Meta, Op, Source};
use proptest::prelude::*;

/// `Fixed` is a trace in memory, in batches of a given size.
pub struct Fixed {
    meta: Meta,
    events: EventBatch,
    step: usize,
    at: usize,
}

impl Fixed {
    pub fn new(events: EventBatch, step: usize) -> Self {
        Self { meta: Meta::default(), events, step, at: 0 }
    }

    /// Returns the source with pages of so many bytes in its events.
    pub fn with_pages_of(mut self, bytes: u64) -> Self {
        self.meta.page_size = Some(bytes);
        self
    }
}

impl Source for Fixed {
    fn name(&self) -> &str {
        "test trace"
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        if self.at >= self.events.len() {
            return Ok(None);
        }
        let len = self.step.min(self.events.len() - self.at);
        self.at += len;
        Ok(Some(self.events.slice(self.at - len, len)))
    }
}

/// `Event` is one drawn event. Its numbers are so small that spaces, pages and lines collide all the time.
#[derive(Clone, Debug)]
pub enum Event {
    Fetch {
        page: u8,
        offset: u16,
        count: u8,
    },
    Data {
        op: Op,
        page: u8,
        offset: u16,
        size: u8,
    },
    Switch(u8),
    /// A switch to an address space, with the cause and the system call of the thread that leaves.
    SwitchFor(u8, Option<Cause>, Option<u8>),
    Map {
        page: u8,
        pages: u8,
        segment: Option<u8>,
        shared: bool,
    },
    Unmap {
        page: u8,
        pages: u8,
    },
    Protect {
        page: u8,
        pages: u8,
    },
    Fork(u8),
    /// A fork that may give the child the number of an address space that lives.
    ForkOnto(u8),
    Exec,
    /// The running process exits, and still loads a line. Then its number is used again.
    ExitAndRun,
    Exit,
    Kernel(bool),
    Syscall(u8),
    /// A switch to another thread of the running process.
    Thread,
    Device {
        writes: bool,
        page: u8,
    },
}

const PAGE: u64 = 4096;

/// Draws references alone.
pub fn reference() -> impl Strategy<Value = Event> {
    let op = prop_oneof![Just(Op::Load), Just(Op::Store), Just(Op::Modify)];
    // The offsets are few: lines collide, and straddles of lines and pages are common.
    let offset = || prop_oneof![4 => (0u16..64).prop_map(|n| n * 8), 2 => (0u16..64).prop_map(|n| n * 61), 1 => Just(4093)];
    let fetch = (0u8..12, offset(), 1u8..20);
    let data = (op, 0u8..40, offset(), 1u8..40);
    prop_oneof![
        2 => fetch.prop_map(|(page, offset, count)| Event::Fetch { page, offset, count }),
        3 => data.prop_map(|(op, page, offset, size)| Event::Data { op, page, offset, size }),
    ]
}

/// Draws references, and all kinds of events between them.
pub fn event() -> impl Strategy<Value = Event> {
    let map = (0u8..40, 1u8..6, proptest::option::of(0u8..3), any::<bool>());
    prop_oneof![
        20 => reference(),
        2 => (0u8..4).prop_map(Event::Switch),
        1 => map.prop_map(|(page, pages, segment, shared)| Event::Map { page, pages, segment, shared }),
        1 => (0u8..40, 1u8..6).prop_map(|(page, pages)| Event::Unmap { page, pages }),
        1 => (0u8..40, 1u8..36).prop_map(|(page, pages)| Event::Protect { page, pages }),
        1 => (0u8..4, prop::bool::weighted(0.3)).prop_map(|(child, onto)| {
            if onto { Event::ForkOnto(child) } else { Event::Fork(child) }
        }),
        1 => prop_oneof![Just(Event::Exec), Just(Event::Exit), Just(Event::Kernel(true)), Just(Event::Kernel(false))],
    ]
}

/// Gives shared memory a name: without a name it has no place in a segment, and the oracle does not model it.
pub fn named(event: Event) -> Event {
    match event {
        Event::Map { page, pages, segment: None, shared: true } => {
            Event::Map { page, pages, segment: Some(2), shared: true }
        }
        event => event,
    }
}

/// Returns rows of a warm-up of this many references, of one measured reference, and of these events.
pub fn behind_warm_up(references: u64, events: &[Event]) -> EventBatch {
    let warm = Event::Data { op: Op::Load, page: 1, offset: 0, size: 8 };
    batch(&[vec![warm; references as usize + 1], events.to_vec()].concat())
}

pub fn batch(events: &[Event]) -> EventBatch {
    let mut rows = EventBuilder::default();
    let mut running = 0u8;
    let mut alive = [true, false, false, false];
    let mut has_maps = false;
    for event in events {
        match *event {
            Event::Fetch { page, offset, count } => {
                let (addr, count) = (u64::from(page) * PAGE + u64::from(offset), u32::from(count));
                rows.push(Op::Fetch, addr, count * 4, count);
            }
            Event::Data { op, page, offset, size } => {
                rows.push(op, u64::from(page) * PAGE + u64::from(offset), u32::from(size), 1);
            }
            Event::Switch(asid) => {
                running = asid;
                alive[asid as usize] = true;
                rows.push(Op::Switch, u64::from(asid), u32::from(asid), 0);
            }
            Event::SwitchFor(asid, cause, call) => {
                running = asid;
                alive[asid as usize] = true;
                let args = [cause.map(|cause| cause as u64), call.map(u64::from)];
                rows.push_args(Op::Switch, u64::from(asid), u32::from(asid), 0, args);
            }
            Event::Map { page, pages, segment, shared } => {
                has_maps = true;
                let flags = map_flags::READ | map_flags::WRITE | if shared { map_flags::SHARED } else { 0 };
                let args = [segment.map(u64::from), Some(u64::from(page % 3) * PAGE)];
                rows.push_args(Op::Map, u64::from(page) * PAGE, flags, u32::from(pages), args);
            }
            Event::Unmap { page, pages } => {
                rows.push(Op::Unmap, u64::from(page) * PAGE, 0, u32::from(pages));
            }
            Event::Protect { page, pages } => {
                rows.push(Op::Protect, u64::from(page) * PAGE, map_flags::READ, u32::from(pages));
            }
            Event::Fork(child) | Event::ForkOnto(child) => {
                let may_end_a_space = matches!(event, Event::ForkOnto(_));
                if (may_end_a_space || !alive[child as usize]) && child != running {
                    alive[child as usize] = true;
                    let args = [Some(u64::from(running)), None];
                    rows.push_args(Op::Fork, u64::from(child), 0, 0, args);
                }
            }
            Event::ExitAndRun => {
                rows.push(Op::Exit, u64::from(running), 0, 0);
                rows.push(Op::Load, 5 * PAGE, 8, 1);
                rows.push(Op::Switch, u64::from(running), 0, 0);
            }
            Event::Exec => rows.push(Op::Exec, u64::from(running), 0, 0),
            Event::Exit => {
                rows.push(Op::Exit, u64::from(running), 0, 0);
                alive[running as usize] = false;
                running = (running + 1) % 4;
                alive[running as usize] = true;
                rows.push(Op::Switch, u64::from(running), 0, 0);
            }
            Event::Kernel(true) => rows.push(Op::KernelEnter, 0, 0, 0),
            Event::Kernel(false) => rows.push(Op::KernelLeave, 0, 0, 0),
            Event::Thread => rows.push(Op::Switch, u64::from(running), 1, 0),
            Event::Syscall(number) => {
                rows.push(Op::Syscall, 0, 0, u32::from(number));
                rows.push(Op::Range, 0, 0, 0);
            }
            Event::Device { writes, page } => {
                let op = if writes { Op::DmaWrite } else { Op::DmaRead };
                // A part of two pages, in the running address space. Where a process has maps, its pages must be
                // mapped or referenced before.
                for page in (page.into()..).take(2).map(|page: u64| page * PAGE).filter(|_| has_maps) {
                    if (page / PAGE).is_multiple_of(2) {
                        rows.push(Op::Map, page, map_flags::READ | map_flags::WRITE, 1);
                    } else {
                        rows.push(Op::Load, page, 8, 1);
                    }
                }
                let number = Some(u64::from(page) + 100);
                rows.push_args(op, u64::from(page) * PAGE + 4000, 200, 7, [number, Some(RUNNING_SPACE)]);
            }
        }
    }
    rows.finish()
}
