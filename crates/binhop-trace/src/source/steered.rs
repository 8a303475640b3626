//! `Steered` is a source whose next events depend on the lane that simulates them.
//!
//! A mix is such a source if its quanta are cycles: how many instructions a quantum holds depends on what misses in the
//! lane. A mix in which every page fault blocks is such a source, too: which pages were evicted depends on the
//! placement. Therefore each placement of each machine has a stream of its own, and the source yields it piece by
//! piece. Before each piece the source sees the lane as it is after all earlier pieces.

use binhop_base::Result;

use super::Source;
use crate::event::EventBatch;

/// `Steered` is a source whose next events depend on the lane that simulates them. [`Source::next_batch`] refuses
/// to yield them, because it knows no lane.
pub trait Steered: Source {
    /// Returns whether the events depend on the lane at all.
    fn needs_lane(&self) -> bool;

    /// Returns the cycles of a quantum, if quanta are cycles of the lane.
    fn cycles_of_quantum(&self) -> Option<u64>;

    /// Returns the next events in program order; `None` at the end. The lane has simulated all earlier pieces.
    ///
    /// # Errors
    /// The errors of [`Source::next_batch`].
    fn next_piece(&mut self, lane: &mut dyn LaneView) -> Result<Option<EventBatch>>;
}

/// `LaneView` is what a steered source sees of a lane.
pub trait LaneView {
    /// Returns the cycles that the lane has taken so far.
    fn cycles(&self) -> u64;

    /// Returns how many of the first rows surely take at most `left` cycles together, whatever they hit or miss. The
    /// answer 0 is always right: the source then yields one fetch with its data, and asks again.
    fn rows_within(&mut self, rows: &EventBatch, left: u64) -> usize;

    /// Returns how many of the first rows surely place no page, and whether the row behind them brings back a page that
    /// the lane has evicted. The rows are those of the process that runs.
    fn rows_before_placement(&mut self, rows: &EventBatch) -> (usize, bool);
}
