//! Traces: the event schema, its Parquet file, the importers, and the checks.

pub mod event;

pub use event::{EventBatch, Meta, Op, Source};
