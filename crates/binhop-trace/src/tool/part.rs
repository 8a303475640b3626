//! The rule that all parts of traces share: what is left out leaves its state behind.

use std::collections::VecDeque;

use binhop_base::{Problem, Result};

use super::Event;
use crate::bounds::check_rows;
use crate::event::{EventBatch, EventBuilder, Meta, Op, Source};

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It is part of the part.
    Keep,
    /// It is not; if it says what state things are in, it stays.
    State,
    /// It is not, whatever it says.
    Drop,
    /// It is replaced by others.
    Instead(Vec<Event>),
    /// One piece of the row is kept: this event.
    Part(Event),
}

/// Which rows a part keeps. Asked about each, in order.
pub(super) trait Choose: Send {
    /// What becomes of a row; `meta`: what is known about the trace by now.
    fn choose(&mut self, event: &Event, meta: &Meta) -> Choice;
    /// Whether a part of nothing but state is one that was asked for.
    fn wants_state(&self) -> bool {
        false
    }
    /// The error when no row was kept: the value, and the rule.
    fn nothing(&self) -> (String, String);
}

/// Batches of a part are handed on once they hold this many rows.
const BATCH_ROWS: usize = 1 << 15;

/// A part of a trace.
pub(super) struct Part<C> {
    source: Box<dyn Source>,
    choose: C,
    out: EventBuilder,
    /// Switches, and steps into the kernel and out of it, that matter if anything follows them.
    waiting: VecDeque<Event>,
    /// Rows read.
    row: u64,
    kept: bool,
    ended: bool,
}

impl<C: Choose + 'static> Part<C> {
    pub(super) fn source(source: Box<dyn Source>, choose: C) -> Box<dyn Source> {
        let out = EventBuilder::default();
        Box::new(Self { source, choose, out, waiting: VecDeque::new(), row: 0, kept: false, ended: false })
    }

    /// Goes through a batch.
    fn add(&mut self, batch: &EventBatch) -> Result<()> {
        check_rows(batch, self.row, self.source.name())?;
        for row in 0..batch.len() {
            let event = Event::of(batch, row);
            match self.choose.choose(&event, self.source.meta()) {
                Choice::Keep => {
                    self.kept |= !event.is_state() || self.choose.wants_state();
                    self.put(&event);
                }
                Choice::Part(part) => {
                    self.kept = true;
                    self.put(&part);
                }
                Choice::State if event.is_state() => self.carry(event),
                Choice::State | Choice::Drop => {}
                Choice::Instead(events) => events.iter().for_each(|event| self.put(event)),
            }
        }
        self.row += batch.len() as u64;
        Ok(())
    }

    /// A row that is left out, but says what state things are in.
    fn carry(&mut self, event: Event) {
        let is = |op: Op| move |waiting: &Event| waiting.op == op;
        match event.op {
            Op::Switch => {
                self.waiting.retain(|waiting| waiting.op != Op::Switch);
                self.waiting.push_back(event);
            }
            Op::KernelEnter => self.waiting.push_back(event),
            // Into the kernel and out of it again, and nothing in between: neither happened.
            Op::KernelLeave => match self.waiting.iter().rposition(is(Op::KernelEnter)) {
                Some(enter) => drop(self.waiting.remove(enter)),
                None => self.waiting.push_back(event),
            },
            _ => self.put(&event),
        }
    }

    fn put(&mut self, event: &Event) {
        while let Some(waiting) = self.waiting.pop_front() {
            push(&mut self.out, &waiting);
        }
        push(&mut self.out, event);
    }
}

/// Appends an event.
pub(super) fn push(out: &mut EventBuilder, event: &Event) {
    let Event { op, addr, size, count, arg0, arg1 } = *event;
    if arg0.is_some() || arg1.is_some() {
        out.push_args(op, addr, size, count, [arg0, arg1]);
    } else {
        out.push(op, addr, size, count);
    }
}

impl<C: Choose + 'static> Source for Part<C> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn meta(&self) -> &Meta {
        self.source.meta()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        while !self.ended && self.out.len() < BATCH_ROWS {
            match self.source.next_batch()? {
                Some(batch) => self.add(&batch)?,
                None => self.ended = true,
            }
        }
        if self.ended && !self.kept {
            let (value, rule) = self.choose.nothing();
            let remedy = "`binhop inspect` says what the trace holds";
            return Err(Problem::request(&value, self.source.name(), &rule, remedy));
        }
        Ok((!self.out.is_empty()).then(|| self.out.finish()))
    }
}
