//! Sources of events: the trait, the metadata of a trace, and what all sources share.

mod ahead;
mod failure;
mod meta;

use binhop_base::Result;

pub use ahead::Ahead;
pub use failure::Failure;
pub(crate) use meta::ASSUMED_PAGE;
pub use meta::{Meta, ProcessMeta, SegmentMeta};

use crate::event::EventBatch;

/// Where events come from: a file, a pipe, an Arrow stream, a workload.
pub trait Source: Send {
    /// What errors call it.
    fn name(&self) -> &str;
    /// What is known about the whole.
    fn meta(&self) -> &Meta;
    /// The next events in program order; `None` at the end. Batches may have any length.
    ///
    /// # Errors
    /// The input is damaged or cannot be read. A source that has failed never returns `None`: what it returned
    /// until then is no whole trace.
    fn next_batch(&mut self) -> Result<Option<EventBatch>>;
}
