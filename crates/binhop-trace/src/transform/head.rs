//! [`head`] keeps the first references of a trace. Its rule defines what a length means in every command.
//!
//! **Rule.** A row lies at the position of its last reference, counted from 0. A row without a reference (a
//! switch, a mapping) lies at the position of the last reference before it. A length of N keeps the rows at
//! positions below N. The trace ends before the row that would exceed N references, and events before that
//! row stay, however the trace is cut into batches.
//!
//! **Runs.** A trace does not record where the instructions of a run begin. So a run that would exceed the
//! length is left out as a whole, and up to its count − 1 references fewer than N are read. Only a run of n
//! instructions in n bytes is split, because each of its instructions has one byte. A run in 0 bytes (which
//! count as one byte) is split in the same way.

use binhop_base::Result;

use super::part::push;
use crate::event::{Event, EventBatch, EventBuilder, Op};
use crate::source::{Meta, Source};

/// `Limit` counts references down to 0 and cuts batches there, by the rule at the top of this file.
#[derive(Clone, Debug)]
pub struct Limit {
    left: u64,
    ended: bool,
}

impl Limit {
    /// Makes a limit that keeps the first `length` references.
    #[must_use]
    pub fn new(length: u64) -> Self {
        Self { left: length, ended: false }
    }

    /// Returns the number of references that may still be kept.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Returns whether a row has exceeded the length. No row after it is kept.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Forgets that the rows of this batch were taken, because they will be taken again. The batch was taken last, or is
    /// the end of the batch that was taken last, and nothing of it was cut off.
    pub fn take_back(&mut self, batch: &EventBatch) {
        debug_assert!(!self.ended);
        self.left += all_references(batch);
    }

    /// Returns the part of the next batch that is kept; `None` if no row of the batch is kept.
    pub fn take(&mut self, batch: EventBatch) -> Option<EventBatch> {
        if self.ended {
            return None;
        }
        let all = all_references(&batch);
        if all <= self.left {
            self.left -= all;
            return Some(batch);
        }
        self.ended = true;
        let mut row = 0;
        while references(&batch, row) <= self.left {
            self.left -= references(&batch, row);
            row += 1;
        }
        let whole = batch.slice(0, row);
        let Some((first, _)) = split(&Event::of(&batch, row), self.left) else {
            return (row > 0).then_some(whole);
        };
        self.left = 0;
        let mut cut = EventBuilder::with_capacity(row + 1);
        cut.append(&whole);
        push(&mut cut, &first);
        Some(cut.finish())
    }
}

/// Returns the number of references in a row. A row with an unknown operation has no references, because the
/// reader of the row refuses it.
fn references(batch: &EventBatch, row: usize) -> u64 {
    references_of(batch.op()[row], batch.count()[row])
}

/// Returns the number of references in a row with this operation and count. It does not branch, so that a processor
/// adds up many rows at once.
#[inline]
fn references_of(op: u8, count: u32) -> u64 {
    let is_fetch = op == Op::Fetch as u8;
    u64::from(if is_fetch { count } else { u32::from(op <= Op::Modify as u8) })
}

/// Returns the number of references in a batch.
fn all_references(batch: &EventBatch) -> u64 {
    batch.op().iter().zip(batch.count()).map(|(&op, &count)| references_of(op, count)).sum()
}

/// Splits a run into its first `at` instructions and the rest, if both parts are known exactly and neither
/// part is empty.
pub(super) fn split(run: &Event, at: u64) -> Option<(Event, Event)> {
    let bytewise = run.size == 0 || run.size == run.count;
    if run.op != Op::Fetch || !bytewise || at == 0 || at >= run.count.into() {
        return None;
    }
    let count = at as u32;
    let bytes = count.min(run.size);
    let first = Event { size: bytes, count, ..*run };
    let addr = run.addr.checked_add(bytes.into())?;
    Some((first, Event { addr, size: run.size - bytes, count: run.count - count, ..*run }))
}

/// Keeps the first `length` references of a source; all of them if there is no length.
#[must_use]
pub fn head(source: Box<dyn Source>, length: Option<u64>) -> Box<dyn Source> {
    match length {
        None => source,
        Some(length) => Box::new(HeadSource { source, limit: Limit::new(length) }),
    }
}

struct HeadSource {
    source: Box<dyn Source>,
    limit: Limit,
}

impl Source for HeadSource {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn meta(&self) -> &Meta {
        self.source.meta()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        if self.limit.has_ended() {
            return Ok(None);
        }
        Ok(self.source.next_batch()?.and_then(|batch| self.limit.take(batch)))
    }
}
