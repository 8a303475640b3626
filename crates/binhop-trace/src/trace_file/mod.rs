//! The trace file: its footer, its reader and its writer.

mod footer;
mod read;
mod write;

pub use read::{Checks, FileFacts, TraceReader};
pub use write::{Kept, TraceWriter, Written, copy};
