//! A `Source` yields events. This module holds the trait, the metadata of a trace, and what all sources
//! share.

mod ahead;
mod failure;
mod meta;
mod steered;

use binhop_base::Result;

pub use ahead::Ahead;
pub use failure::Failure;
pub(crate) use meta::ASSUMED_PAGE;
pub use meta::{Meta, MixedMeta, ProcessMeta, SegmentMeta};
pub use steered::{LaneView, Steered};

use crate::event::EventBatch;

/// A `Source` yields events: a file, a pipe, an Arrow stream, a workload.
pub trait Source: Send {
    /// Returns the name that errors give the source.
    fn name(&self) -> &str;
    /// Returns what is known about the whole trace.
    fn meta(&self) -> &Meta;
    /// Returns the next events in program order; `None` at the end. A batch may have any length.
    ///
    /// # Errors
    /// The input is damaged or cannot be read. A source that has failed never returns `None`, because the
    /// batches before its error are no whole trace.
    fn next_batch(&mut self) -> Result<Option<EventBatch>>;

    /// Gives back the memory of rows that were decoded ahead of their use, because the next rows are wanted later. The
    /// last `unread` rows of the last batch will be yielded again. Returns false if the source keeps its place instead,
    /// and yields no row again.
    fn rest(&mut self, _unread: usize) -> bool {
        false
    }
}
