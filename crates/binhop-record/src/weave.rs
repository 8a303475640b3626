//! The stream of the one processor as it grows: rows of whoever runs, and the rows that say who runs.

use std::collections::VecDeque;

use binhop_trace::event::{Cause, EventBuilder};
use binhop_trace::{EventBatch, Op};

/// A batch of this many rows goes through as it is; shorter ones are gathered.
const PASSES: usize = 1 << 12;
/// Rows gathered into one batch.
const GATHERED: usize = 1 << 15;
/// Rows summed up before the sum is looked at.
const STRIDE: usize = 1 << 10;

/// Rows on their way out, in order.
#[derive(Default)]
pub(crate) struct Weave {
    done: VecDeque<EventBatch>,
    gathering: EventBuilder,
}

impl Weave {
    /// Appends rows of whoever runs.
    pub(crate) fn rows(&mut self, batch: EventBatch) {
        if batch.len() >= PASSES {
            self.flush();
            self.done.push_back(batch);
        } else {
            self.gathering.append(&batch);
            self.flush_if_full();
        }
    }

    /// Appends a switch: `tid` of `asid` runs from here, since the one before left for `cause`, in the system call
    /// `number` if in one.
    pub(crate) fn switch(&mut self, asid: u32, tid: u32, cause: Cause, number: Option<u32>) {
        self.event(Op::Switch, asid.into(), tid, [Some(cause as u64), number.map(u64::from)]);
    }

    /// Appends an event in the life of a process.
    pub(crate) fn event(&mut self, op: Op, addr: u64, size: u32, args: [Option<u64>; 2]) {
        self.row(op, addr, size, 0, args);
    }

    /// Appends any one row.
    pub(crate) fn row(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        if args == [None; 2] {
            self.gathering.push(op, addr, size, count);
        } else {
            self.gathering.push_args(op, addr, size, count, args);
        }
        self.flush_if_full();
    }

    /// Whether there is a batch to hand out.
    pub(crate) fn is_ready(&self) -> bool {
        !self.done.is_empty()
    }

    /// Closes the batch that is being gathered.
    pub(crate) fn flush(&mut self) {
        if !self.gathering.is_empty() {
            self.done.push_back(self.gathering.finish());
        }
    }

    /// The next batch that is closed.
    pub(crate) fn next(&mut self) -> Option<EventBatch> {
        self.done.pop_front()
    }

    fn flush_if_full(&mut self) {
        if self.gathering.len() >= GATHERED {
            self.flush();
        }
    }
}

/// How many rows of a batch may run within `left` instructions, and the instructions they are. A run ends before a
/// fetch, so that an instruction stays together with its data; a fetch of several instructions is not split. Where
/// nothing ran yet (`fresh`), the first fetch runs however long it is.
pub(crate) fn cut(batch: &EventBatch, left: u64, fresh: bool) -> (usize, u64) {
    let (op, count) = (batch.op(), batch.count());
    let (mut row, mut ran, mut fresh) = (0, 0, fresh);
    while row < op.len() {
        let end = (row + STRIDE).min(op.len());
        let rows = op[row..end].iter().zip(&count[row..end]);
        let more: u64 = rows.map(|(&op, &n)| if op == Op::Fetch as u8 { u64::from(n) } else { 0 }).sum();
        if ran + more <= left {
            fresh &= more == 0;
            ran += more;
            row = end;
            continue;
        }
        for at in row..end {
            if op[at] == Op::Fetch as u8 {
                if !fresh && ran + u64::from(count[at]) > left {
                    return (at, ran);
                }
                ran += u64::from(count[at]);
                fresh = false;
            }
        }
        row = end;
    }
    (row, ran)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(counts: &[u32]) -> EventBatch {
        let mut rows = EventBuilder::default();
        for &count in counts {
            rows.push(Op::Fetch, 0, count * 4, count);
            rows.push(Op::Load, 0, 8, 1);
        }
        rows.finish()
    }

    #[test]
    fn a_run_is_cut_before_the_fetch_that_would_pass_its_length() {
        let rows = batch(&[3, 3, 3]);
        assert_eq!(cut(&rows, 9, true), (6, 9));
        assert_eq!(cut(&rows, 8, true), (4, 6));
        assert_eq!(cut(&rows, 6, false), (4, 6));
        assert_eq!(cut(&rows, 2, false), (0, 0));
        assert_eq!(cut(&rows, 2, true), (2, 3)); // one longer than the whole run is not split
        assert_eq!(cut(&rows.slice(1, 5), 0, false), (1, 0)); // the data of the instruction before
        let long = batch(&[1; 5000]);
        assert_eq!(cut(&long, 1500, false), (3000, 1500));
        assert_eq!(cut(&long, 5000, false), (10_000, 5000));
        assert_eq!(cut(&long, 0, true), (2, 1));
    }

    #[test]
    fn long_batches_pass_and_short_ones_are_gathered_in_order() {
        let mut weave = Weave::default();
        weave.rows(batch(&[1, 2]));
        weave.switch(3, 4, Cause::SystemCall, Some(0));
        weave.event(Op::Exit, 3, 0, [None; 2]);
        assert!(!weave.is_ready());
        weave.rows(batch(&[1; 4000]));
        let rows: Vec<EventBatch> = std::iter::from_fn(|| weave.next()).collect();
        assert_eq!(rows.iter().map(EventBatch::len).collect::<Vec<_>>(), [6, 8000]);
        assert_eq!(rows[0].op(), [0, 1, 0, 1, Op::Switch as u8, Op::Exit as u8]);
        assert_eq!((rows[0].addr()[4], rows[0].size()[4], rows[0].count()[4]), (3, 4, 0));
        assert_eq!((rows[0].arg0(4), rows[0].arg1(4), rows[0].arg0(5)), (Some(0), Some(0), None));
    }
}
