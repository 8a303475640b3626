//! `TracePart` keeps some rows of a source, and every change of state that the kept rows depend on.

use binhop_base::{Problem, Result};

use crate::bounds::check_rows;
use crate::event::{Event, EventBatch, EventBuilder, Op};
use crate::source::Failure;
use crate::source::{Meta, Source};

/// `Choice` says what happens to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The row is kept.
    Keep,
    /// The row is left out, unless it changes state.
    State,
    /// The row is left out, even if it changes state.
    Drop,
    /// These events replace the row.
    Instead(Vec<Event>),
    /// The part cannot be made, for this reason: the value, the rule and the remedy.
    Refuse([String; 3]),
    /// This event, a piece of the row, is kept.
    Part(Event),
}

/// `Choose` decides which rows a part keeps. It is asked about each row, in order.
pub(super) trait Choose: Send {
    /// Returns what happens to a row. `meta` is what is known about the trace by now.
    fn choose(&mut self, event: &Event, meta: &Meta) -> Choice;
    /// Returns whether the user asked for events that change state, so that a part of such events is not
    /// empty.
    fn wants_state(&self) -> bool {
        false
    }
    /// Returns the value and the rule of the error that no row was kept.
    fn nothing(&self) -> (String, String);
}

/// A batch is returned once it holds this many rows.
const BATCH_ROWS: usize = 1 << 15;

/// `Waiting` holds the last switch, and the kernel-enter and kernel-leave events, until a later row is kept.
/// The cost of an event does not depend on how many events wait.
#[derive(Debug, Default)]
struct Waiting {
    /// The kernel-leave events whose kernel-enter events do not wait. They precede all of `enters`.
    leaves: Vec<Event>,
    enters: Vec<Event>,
    /// The last switch, and the number of waiting kernel events before it.
    switch: Option<(usize, Event)>,
}

impl Waiting {
    fn switch(&mut self, event: Event) {
        self.switch = Some((self.leaves.len() + self.enters.len(), event));
    }

    /// A kernel-leave event cancels the last waiting kernel-enter event.
    fn leave(&mut self, event: Event) {
        if self.enters.pop().is_none() {
            self.leaves.push(event);
        } else if let Some((before, _)) = &mut self.switch {
            *before = (*before).min(self.leaves.len() + self.enters.len());
        }
    }

    /// Takes all waiting events in their order.
    fn drain(&mut self, mut take: impl FnMut(&Event)) {
        let mut switch = self.switch.take();
        for (number, step) in self.leaves.drain(..).chain(self.enters.drain(..)).enumerate() {
            if let Some((_, switch)) = switch.take_if(|(before, _)| *before == number) {
                take(&switch);
            }
            take(&step);
        }
        if let Some((_, switch)) = switch {
            take(&switch);
        }
    }
}

/// `TracePart` is a source of the rows that a `Choose` keeps.
pub(super) struct TracePart<C> {
    source: Box<dyn Source>,
    choose: C,
    out: EventBuilder,
    waiting: Waiting,
    /// The number of rows read.
    row: u64,
    kept: bool,
    ended: bool,
    failed: Failure,
}

impl<C: Choose + 'static> TracePart<C> {
    pub(super) fn source(source: Box<dyn Source>, choose: C) -> Box<dyn Source> {
        let out = EventBuilder::default();
        let waiting = Waiting::default();
        Box::new(Self {
            source,
            choose,
            out,
            waiting,
            row: 0,
            kept: false,
            ended: false,
            failed: Failure::default(),
        })
    }

    /// Takes the rows of a batch.
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
                Choice::Refuse([value, rule, remedy]) => {
                    return Err(Problem::request(&value, self.source.name(), &rule, &remedy));
                }
                Choice::Instead(events) => events.iter().for_each(|event| self.put(event)),
            }
        }
        self.row += batch.len() as u64;
        Ok(())
    }

    /// Takes a row that is left out but changes state.
    fn carry(&mut self, event: Event) {
        match event.op {
            Op::Switch => self.waiting.switch(event),
            Op::KernelEnter => self.waiting.enters.push(event),
            Op::KernelLeave => self.waiting.leave(event),
            _ => self.put(&event),
        }
    }

    fn put(&mut self, event: &Event) {
        self.waiting.drain(|waiting| push(&mut self.out, waiting));
        push(&mut self.out, event);
    }
}

/// Appends an event to a batch.
pub(super) fn push(out: &mut EventBuilder, event: &Event) {
    let Event { op, addr, size, count, arg0, arg1 } = *event;
    if arg0.is_some() || arg1.is_some() {
        out.push_args(op, addr, size, count, [arg0, arg1]);
    } else {
        out.push(op, addr, size, count);
    }
}

impl<C: Choose + 'static> TracePart<C> {
    /// Reads until there are rows for a batch, or to the end.
    fn advance(&mut self) -> Result<Option<EventBatch>> {
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

impl<C: Choose + 'static> Source for TracePart<C> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn meta(&self) -> &Meta {
        self.source.meta()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::{Domain, Rng, Stream};

    use super::*;

    fn event(op: Op, addr: u64) -> Event {
        Event { op, addr, size: 0, count: 0, arg0: None, arg1: None }
    }

    /// Adds an event to the list of waiting events. A switch replaces the switch before it, and a leave
    /// cancels the last enter.
    fn listed(list: &mut Vec<Event>, event: Event) {
        match event.op {
            Op::Switch => list.retain(|waiting| waiting.op != Op::Switch),
            Op::KernelLeave => {
                if let Some(enter) = list.iter().rposition(|waiting| waiting.op == Op::KernelEnter) {
                    list.remove(enter);
                    return;
                }
            }
            _ => {}
        }
        list.push(event);
    }

    #[test]
    fn waiting_events_are_taken_in_their_order() {
        let draw = |row, n| Rng::new(7).below(Stream::new(Domain::Test, 0), row, n) as usize;
        for case in 0..500 {
            let (mut waiting, mut list) = (Waiting::default(), Vec::new());
            for row in 0..20 {
                let op = [Op::Switch, Op::KernelEnter, Op::KernelLeave][draw(case * 20 + row, 3)];
                let event = event(op, row);
                match op {
                    Op::Switch => waiting.switch(event),
                    Op::KernelEnter => waiting.enters.push(event),
                    _ => waiting.leave(event),
                }
                listed(&mut list, event);
            }
            let mut taken = Vec::new();
            waiting.drain(|event| taken.push(*event));
            assert_eq!(taken, list, "case {case}");
            waiting.drain(|event| panic!("{event:?} was taken"));
        }
    }
}
