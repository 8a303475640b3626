//! `EventBuilder` makes batches from single events.

use arrow_array::UInt64Array;
use arrow_array::builder::BooleanBufferBuilder;
use arrow_buffer::NullBuffer;

use super::{EventBatch, Op};

/// The row of an event and its two arguments.
type Args = (usize, Option<u64>, Option<u64>);

/// `EventBuilder` appends events to a batch. Importers, workloads and tests use it.
#[derive(Clone, Debug, Default)]
pub struct EventBuilder {
    op: Vec<u8>,
    addr: Vec<u64>,
    size: Vec<u32>,
    count: Vec<u32>,
    /// The events that have arguments, which are rare.
    args: Vec<Args>,
}

impl EventBuilder {
    /// Makes an empty builder with room for `capacity` events.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            op: Vec::with_capacity(capacity),
            addr: Vec::with_capacity(capacity),
            size: Vec::with_capacity(capacity),
            count: Vec::with_capacity(capacity),
            args: Vec::new(),
        }
    }

    /// Appends an event without arguments.
    #[inline]
    pub fn push(&mut self, op: Op, addr: u64, size: u32, count: u32) {
        self.op.push(op as u8);
        self.addr.push(addr);
        self.size.push(size);
        self.count.push(count);
    }

    /// Appends an event with arguments.
    pub fn push_args(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        self.args.push((self.op.len(), args[0], args[1]));
        self.push(op, addr, size, count);
    }

    /// Appends a whole batch.
    pub fn append(&mut self, batch: &EventBatch) {
        let first = self.op.len();
        if batch.arg0.is_some() || batch.arg1.is_some() {
            let rows = (0..batch.len()).map(|row| (first + row, batch.arg0(row), batch.arg1(row)));
            self.args.extend(rows.filter(|(_, arg0, arg1)| arg0.is_some() || arg1.is_some()));
        }
        self.op.extend_from_slice(batch.op());
        self.addr.extend_from_slice(batch.addr());
        self.size.extend_from_slice(batch.size());
        self.count.extend_from_slice(batch.count());
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Returns whether the builder holds no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// Returns the batch, and leaves the builder empty.
    #[must_use]
    pub fn finish(&mut self) -> EventBatch {
        let rows = self.op.len();
        let args = std::mem::take(&mut self.args);
        let column = |pick: fn(&Args) -> Option<u64>| {
            // Few rows have an argument. Every other row costs zeroed memory only.
            let mut values = vec![0; rows];
            let mut present = BooleanBufferBuilder::new(rows);
            present.append_n(rows, false);
            for entry in &args {
                if let Some(value) = pick(entry) {
                    values[entry.0] = value;
                    present.set_bit(entry.0, true);
                }
            }
            UInt64Array::new(values.into(), Some(NullBuffer::new(present.finish())))
        };
        let (arg0, arg1) =
            if args.is_empty() { (None, None) } else { (Some(column(|a| a.1)), Some(column(|a| a.2))) };
        EventBatch {
            op: std::mem::take(&mut self.op).into(),
            addr: std::mem::take(&mut self.addr).into(),
            size: std::mem::take(&mut self.size).into(),
            count: std::mem::take(&mut self.count).into(),
            arg0,
            arg1,
        }
    }
}
