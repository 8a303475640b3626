//! The trace file: its footer, its reader and its writer. `footer.rs` describes the format.

mod footer;
mod read;
mod write;

pub use read::{Checks, FileFacts, TraceReader};
pub use write::{Kept, TraceWriter, Written, copy};
