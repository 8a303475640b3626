//! `switches` counts what happens after switches (MB90 §3): the cycles of the shared caches and of each life's
//! private caches, by life, by cause, by interval since the switch, and by page of code.
//!
//! # Rules
//! - The *cause* of a segment is the reason why its own life had left the processor the last time. A life that
//!   never ran before has the cause `start`. What runs before the first switch, and what is left of a segment in
//!   which the measured part begins, has the cause `none`: these instructions and cycles are in the totals and in no
//!   other count.
//! - Cycles are the instructions executed plus all waits. The cycles of a segment are the cycles that its life takes in
//!   it.
//! - A piece of a segment is an interval, or the part of an interval in which the segment ends. Sums over pieces
//!   divided by their instructions give the mean over segments, in which a piece counts by its length.
//! - A segment without instructions has no piece. Its cycles are in the sums over segments alone.
//! - The sums of a life are in memory until the life ends. Then the sums are moved to a log.

mod checks;
mod counts;
mod curves;
pub(crate) mod pieces;
mod readings;
mod tables;
mod tally;

pub(crate) use checks::MeasuredTotals;
pub(crate) use counts::{CauseOfSegment, Side};
pub(crate) use readings::{SegmentKey, SwitchReadings};
pub use tables::SwitchTables;
pub(crate) use tables::{SwitchSource, tables};
pub(crate) use tally::{SideAccess, SwitchTally};
