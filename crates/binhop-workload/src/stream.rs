//! `Columns` makes batches of events: it puts the rows of programs' steps together in program order.

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use arrow_buffer::NullBuffer;
use binhop_base::Result;
use binhop_trace::{EventBatch, Op};

use crate::rows::{STEP_ROWS, StepRows};

/// The least number of rows in a batch. So few rows stay in the processor's caches until they are read, and the memory
/// of a batch serves later batches, without going back to the system.
pub(crate) const BATCH_ROWS: usize = 1 << 14;

/// `Columns` holds the columns of the next batch.
#[derive(Default)]
pub(crate) struct Columns {
    op: Vec<u8>,
    addr: Vec<u64>,
    size: Vec<u32>,
    count: Vec<u32>,
    args: Vec<(usize, [Option<u64>; 2])>,
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.op.len()
    }

    /// Appends the rows of a step between `from` and `to`.
    pub(crate) fn take(&mut self, rows: &StepRows, from: usize, to: usize) {
        if self.op.capacity() == 0 {
            let room = BATCH_ROWS + STEP_ROWS;
            self.op.reserve(room);
            self.addr.reserve(room);
            self.size.reserve(room);
            self.count.reserve(room);
        }
        let base = self.op.len();
        for &(row, args) in rows.args() {
            if (from..to).contains(&row) {
                self.args.push((base + row - from, args));
            }
        }
        self.op.extend_from_slice(&rows.op()[from..to]);
        self.addr.extend_from_slice(&rows.addr()[from..to]);
        self.size.extend_from_slice(&rows.size()[from..to]);
        self.count.extend_from_slice(&rows.count()[from..to]);
    }

    /// Appends an event of the scheduler.
    pub(crate) fn push(&mut self, op: Op, addr: u64, size: u32, args: [Option<u64>; 2]) {
        if args != [None; 2] {
            self.args.push((self.op.len(), args));
        }
        self.op.push(op as u8);
        self.addr.push(addr);
        self.size.push(size);
        self.count.push(0);
    }

    /// Returns all rows so far as a batch.
    pub(crate) fn batch(&mut self, name: &str) -> Result<EventBatch> {
        let columns = std::mem::take(self);
        let rows = columns.op.len();
        let mut named: Vec<(&str, ArrayRef)> = vec![
            ("op", Arc::new(UInt8Array::from(columns.op))),
            ("addr", Arc::new(UInt64Array::from(columns.addr))),
            ("size", Arc::new(UInt32Array::from(columns.size))),
            ("count", Arc::new(UInt32Array::from(columns.count))),
        ];
        if !columns.args.is_empty() {
            for (which, name) in ["arg0", "arg1"].into_iter().enumerate() {
                let (mut column, mut valid) = (vec![0; rows], BooleanBufferBuilder::new(rows));
                valid.append_n(rows, false);
                for &(row, args) in &columns.args {
                    if let Some(value) = args[which] {
                        column[row] = value;
                        valid.set_bit(row, true);
                    }
                }
                let valid = NullBuffer::new(valid.finish());
                named.push((name, Arc::new(UInt64Array::new(column.into(), Some(valid)))));
            }
        }
        let batch = RecordBatch::try_from_iter(named).expect("columns of one length");
        EventBatch::from_record_batch(&batch, name)
    }
}
