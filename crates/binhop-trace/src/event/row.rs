//! `Event` is one row of a batch.

use super::{EventBatch, Op};

/// `Event` holds the columns of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The operation.
    pub op: Op,
    /// The `addr` column.
    pub addr: u64,
    /// The `size` column.
    pub size: u32,
    /// The `count` column.
    pub count: u32,
    /// The `arg0` column.
    pub arg0: Option<u64>,
    /// The `arg1` column.
    pub arg1: Option<u64>,
}

impl Event {
    /// Returns the event in a row of a batch whose operation codes were checked.
    #[must_use]
    pub fn of(batch: &EventBatch, row: usize) -> Self {
        Self {
            op: Op::from_code(batch.op()[row]).expect("the codes were checked"),
            addr: batch.addr()[row],
            size: batch.size()[row],
            count: batch.count()[row],
            arg0: batch.arg0(row),
            arg1: batch.arg1(row),
        }
    }

    /// Returns how many references the event makes.
    #[must_use]
    pub fn references(&self) -> u64 {
        match self.op {
            Op::Fetch => u64::from(self.count),
            op => u64::from(op.is_reference()),
        }
    }

    /// Returns whether the event changes the state of the address spaces or of the processor.
    #[must_use]
    pub fn is_state(&self) -> bool {
        matches!(
            self.op,
            Op::Switch
                | Op::Map
                | Op::Protect
                | Op::Unmap
                | Op::Fork
                | Op::Exec
                | Op::Exit
                | Op::KernelEnter
                | Op::KernelLeave
        )
    }
}
