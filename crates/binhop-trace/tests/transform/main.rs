//! Parts of traces and joined traces are compared with an obvious model, which replays every event with a
//! table of pages.
#![allow(
    clippy::unwrap_used,
    reason = "a test file; the lint's own exception sees only functions marked as tests"
)]

mod join;
mod parts;
mod select;
mod text;
mod world;

use binhop_base::Result;
use binhop_trace::event::{Event, EventBatch, EventBuilder, Op};
use binhop_trace::source::{Meta, ProcessMeta, SegmentMeta, Source};
use proptest::prelude::*;

/// The cases of each property.
const CASES: u32 = 400;

/// The bytes of a page.
const PAGE: u64 = 4096;

/// `Memory` yields events from memory, in small batches.
struct Memory {
    meta: Meta,
    events: Vec<Event>,
    at: usize,
    batch: usize,
}

impl Source for Memory {
    fn name(&self) -> &str {
        "memory"
    }
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        let rows = self.batch.min(self.events.len() - self.at);
        if rows == 0 {
            return Ok(None);
        }
        let mut batch = EventBuilder::default();
        for event in &self.events[self.at..self.at + rows] {
            batch.push_args(event.op, event.addr, event.size, event.count, [event.arg0, event.arg1]);
        }
        self.at += rows;
        Ok(Some(batch.finish()))
    }
}

fn source(events: &[Event], batch: usize) -> Box<dyn Source> {
    Box::new(Memory { meta: meta(), events: events.to_vec(), at: 0, batch })
}

fn meta() -> Meta {
    let mut meta = Meta { page_size: Some(PAGE), command: Some("make \"a\"".into()), ..Meta::default() };
    for asid in 0..4 {
        let command = if asid == 2 { "cc1" } else { "sh" };
        let process = ProcessMeta {
            pid: Some(100 + u64::from(asid)),
            command: Some(command.into()),
            ..ProcessMeta::default()
        };
        meta.processes.insert(asid, process);
    }
    for (segment, kind) in [(0, "heap"), (1, "stack"), (2, "text"), (3, "text")] {
        let file = (kind == "text").then(|| format!("/lib/lib{segment}.so"));
        meta.segments.insert(segment, SegmentMeta { file, kind: Some(kind.into()) });
    }
    meta
}

fn drain(mut source: Box<dyn Source>) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    while let Some(batch) = source.next_batch()? {
        events.extend((0..batch.len()).map(|row| Event::of(&batch, row)));
    }
    Ok(events)
}

/// Returns plausible sequences of events: a few spaces, forks, and mappings of a few pages.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let choice = (0..40_u8, 0..24_u64, 1..6_u32, 0..5_u64, any::<bool>());
    proptest::collection::vec(choice, 1..160).prop_map(|choices| {
        let (mut events, mut next) = (Vec::new(), 4);
        let (mut current, mut kernel) = (0, 0);
        for (what, place, count, which, flag) in choices {
            let at = place * PAGE + u64::from(what) * 40;
            let event = |op, addr, size, count| Event { op, addr, size, count, arg0: None, arg1: None };
            let made = match what {
                0..12 => event(Op::Fetch, at, count * 4, count),
                12..18 => event(Op::Load, at, 8, 1),
                18..22 => event(Op::Store, at, count, 1),
                22 => event(Op::Modify, at, 4, 1),
                23..27 => {
                    current = which;
                    Event { arg0: Some(which % 4), ..event(Op::Switch, which, 1, 0) }
                }
                27..31 => Event {
                    arg0: flag.then_some(which % 4),
                    arg1: flag.then_some(place * PAGE),
                    ..event(Op::Map, place * PAGE, (which as u32) | 1, count)
                },
                31 => event(Op::Protect, place * PAGE, which as u32, count),
                32 => event(Op::Unmap, place * PAGE, 0, count),
                33 => {
                    next += 1;
                    Event { arg0: Some(if flag { current } else { which }), ..event(Op::Fork, next, 0, 0) }
                }
                34 => event(if flag { Op::Exec } else { Op::Exit }, which, 0, 0),
                35 => {
                    kernel += 1;
                    event(Op::KernelEnter, 0, 0, count)
                }
                36 if kernel > 0 => {
                    kernel -= 1;
                    event(Op::KernelLeave, 0, 0, 0)
                }
                37 => Event { arg0: Some(3), ..event(Op::Syscall, at, 512, count) },
                38 => event(Op::Range, at, 64, 1),
                _ => event(Op::Time, place, 0, 0),
            };
            events.push(made);
        }
        events
    })
}

/// Returns the events of a part; none if its error says that the part is empty.
fn part(made: Result<Box<dyn Source>>) -> Vec<Event> {
    match made.and_then(drain) {
        Ok(events) => events,
        Err(problem) => {
            assert_eq!(problem.remedy, "`binhop inspect` says what the trace holds");
            Vec::new()
        }
    }
}
