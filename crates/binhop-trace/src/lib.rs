//! Traces: the event schema, its Parquet file, the importers, and the checks.

pub mod ahead;
pub mod event;
pub mod export;
mod footer;
mod guard;
pub mod import;
pub mod input;
pub mod inspect;
pub mod lint;
mod pagemap;
pub mod placements;
pub mod read;
pub mod tool;
pub mod totals;
pub mod v2p;
pub mod write;

pub use ahead::Ahead;
pub use event::{EventBatch, Meta, Op, Source};
pub use placements::{Placements, read_placements, write_placements};
pub use read::{FileFacts, TraceReader};
pub use totals::{ContentHash, Totals};
pub use write::{TraceWriter, Written, copy};
