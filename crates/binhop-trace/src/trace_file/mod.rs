//! A trace file has a footer, a reader and a writer. `footer.rs` describes the format.

mod footer;
mod read;
mod write;

pub use read::{Checks, FileFacts, TraceReader};
pub use write::{Kept, TraceWriter, Written, copy};
