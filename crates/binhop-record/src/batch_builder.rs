//! `BatchBuilder` collects the rows of the process that runs, and the rows that say which process runs.

use std::collections::VecDeque;

use binhop_trace::event::{Cause, EventBuilder};
use binhop_trace::{EventBatch, Op};

/// A batch of this many rows passes as it is; the rows of shorter batches are gathered.
const PASSES: usize = 1 << 12;
/// The number of rows that are gathered into one batch.
const GATHERED: usize = 1 << 15;

/// `BatchBuilder` puts rows into batches, in the order in which they come.
#[derive(Default)]
pub(crate) struct BatchBuilder {
    done: VecDeque<EventBatch>,
    gathering: EventBuilder,
}

impl BatchBuilder {
    /// Appends rows of the process that runs.
    pub(crate) fn rows(&mut self, batch: EventBatch) {
        if batch.len() >= PASSES {
            self.flush();
            self.done.push_back(batch);
        } else {
            self.gathering.append(&batch);
            self.flush_if_full();
        }
    }

    /// Appends copies of rows of the process that runs. Rows that are not copied keep all that was decoded with them in
    /// memory, until they are used.
    pub(crate) fn copies(&mut self, batch: &EventBatch) {
        self.gathering.append(batch);
        self.flush_if_full();
    }

    /// Appends a switch: from here thread `tid` of `asid` runs. The thread before it left the processor for
    /// `cause`, in the system call `number` if it was in a call.
    pub(crate) fn switch(&mut self, asid: u32, tid: u32, cause: Cause, number: Option<u32>) {
        self.event(Op::Switch, asid.into(), tid, [Some(cause as u64), number.map(u64::from)]);
    }

    /// Appends an event in the life of a process.
    pub(crate) fn event(&mut self, op: Op, addr: u64, size: u32, args: [Option<u64>; 2]) {
        self.row(op, addr, size, 0, args);
    }

    /// Appends a row of any kind.
    pub(crate) fn row(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        if args == [None; 2] {
            self.gathering.push(op, addr, size, count);
        } else {
            self.gathering.push_args(op, addr, size, count, args);
        }
        self.flush_if_full();
    }

    /// Returns whether a batch is closed.
    pub(crate) fn is_ready(&self) -> bool {
        !self.done.is_empty()
    }

    /// Closes the batch that is being gathered.
    pub(crate) fn flush(&mut self) {
        if !self.gathering.is_empty() {
            self.done.push_back(self.gathering.finish());
        }
    }

    /// Takes the next closed batch.
    pub(crate) fn next(&mut self) -> Option<EventBatch> {
        self.done.pop_front()
    }

    fn flush_if_full(&mut self) {
        if self.gathering.len() >= GATHERED {
            self.flush();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns fetch runs of these counts, each followed by a load.
    pub(crate) fn batch(counts: &[u32]) -> EventBatch {
        let mut rows = EventBuilder::default();
        for &count in counts {
            rows.push(Op::Fetch, 0, count * 4, count);
            rows.push(Op::Load, 0, 8, 1);
        }
        rows.finish()
    }

    #[test]
    fn long_batches_pass_and_short_ones_are_gathered_in_order() {
        let mut batches = BatchBuilder::default();
        batches.rows(batch(&[1, 2]));
        batches.switch(3, 4, Cause::SystemCall, Some(0));
        batches.event(Op::Exit, 3, 0, [None; 2]);
        assert!(!batches.is_ready());
        batches.rows(batch(&[1; 4000]));
        let rows: Vec<EventBatch> = std::iter::from_fn(|| batches.next()).collect();
        assert_eq!(rows.iter().map(EventBatch::len).collect::<Vec<_>>(), [6, 8000]);
        assert_eq!(rows[0].op(), [0, 1, 0, 1, Op::Switch as u8, Op::Exit as u8]);
        assert_eq!((rows[0].addr()[4], rows[0].size()[4], rows[0].count()[4]), (3, 4, 0));
        assert_eq!((rows[0].arg0(4), rows[0].arg1(4), rows[0].arg0(5)), (Some(0), Some(0), None));
    }
}
