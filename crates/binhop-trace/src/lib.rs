//! Traces: the event schema, its Parquet file, the importers, and the checks.

pub mod ahead;
pub mod bounds;
pub mod event;
pub mod export;
mod failure;
mod footer;
mod guard;
pub mod import;
pub mod input;
pub mod inspect;
pub mod lint;
mod mappings;
mod pagemap;
mod pages;
pub mod placements;
pub mod read;
mod steady;
pub mod tool;
pub mod totals;
pub mod v2p;
pub mod wait;
pub mod write;

pub use ahead::Ahead;
pub use event::{EventBatch, Meta, Op, Source};
pub use failure::Failure;
pub use footer::{MADE_BY, made_by};
pub use placements::{PlacementWriter, Placements, read_placements};
pub use read::{FileFacts, TraceReader};
pub use steady::Identity;
pub use totals::{ContentHash, Totals};
pub use write::{TraceWriter, Written, copy};
