//! `results` turns what lanes count into tidy tables, from the counters of one phase on.

pub(crate) mod account;
pub(crate) mod detail;
pub(crate) mod long_table;
pub(crate) mod meter;
mod metrics;
pub(crate) mod outcome;
mod segments;
pub(crate) mod spill;
mod summary;
pub(crate) mod switches;
mod table_file;
pub(crate) mod tally;

pub use long_table::{Batches, LongTable};
pub use metrics::{MetricInfo, metrics};
pub use outcome::Outcome;
pub(crate) use segments::SegmentNames;
pub use summary::Summary;
pub use switches::SwitchTables;
pub use table_file::{StoredBatches, write_table};
