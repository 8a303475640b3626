//! `LineMemory` is the interface between a scheme and memory.

use super::TapClass;

/// `LineUse` says what a scheme asks memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineUse {
    /// A read that a reference waits for.
    Demand,
    /// A write, which nobody waits for while memory has room for it.
    PostedWrite,
    /// A read that nobody waits for.
    Prefetch,
}

/// `LineMemory` is memory that is read and written by whole lines. A partial write of a device is one write.
pub trait LineMemory {
    /// Reads or writes a line on behalf of a reference of this class. Returns the cycles that the reference waits.
    fn access(&mut self, line: u64, class: TapClass, line_use: LineUse) -> u64;

    /// Notes that a line is used for the first time since it was prefetched. Returns the cycles that the reference
    /// waits for the line to arrive.
    fn await_prefetch(&mut self, _line: u64) -> u64 {
        0
    }

    /// Notes that a reference of this class has ended, after this number of cycles. The number includes the cycles that
    /// memory has returned. Memory that keeps time passes the other cycles before the next reference of the same agent.
    fn pass(&mut self, _class: TapClass, _cycles: u64) {}
}

/// `FixedLatency` is memory that serves every demand read in the same number of cycles, and that always has room for
/// a write. [`PostedMemory`](super::PostedMemory) is the same memory with little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedLatency {
    /// Cycles of a demand read.
    pub cycles: u64,
}

impl LineMemory for FixedLatency {
    #[inline]
    fn access(&mut self, _line: u64, _class: TapClass, line_use: LineUse) -> u64 {
        if line_use == LineUse::Demand { self.cycles } else { 0 }
    }
}
