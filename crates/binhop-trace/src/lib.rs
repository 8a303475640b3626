//! This crate holds traces: the event schema, the trace file, the importers and exporters, and the checks.
//!
//! | module | what it holds |
//! |---|---|
//! | `event`, `bounds`, `totals` | events in columns, the largest reference, totals and content hash of a trace |
//! | `source`, `wait` | sources of events and their metadata, decoding ahead; waiting for pipes |
//! | `disk`, `input` | files that do not change while they are read, files that appear complete; foreign bytes, unpacked |
//! | `parquet_file`, `trace_file` | what all Parquet files share; the footer, the reader and the writer of traces |
//! | `placements` | recorded placements: Parquet, maps of addresses, raw pagemaps |
//! | `import`, `export`, `text` | foreign formats, one file each; events as lines of text |
//! | `transform` | parts of traces, and traces joined |
//! | `inspect`, `lint`, `mappings` | reports and rules; the live mappings that both follow |

pub mod bounds;
mod disk;
pub mod event;
pub mod export;
pub mod import;
pub mod input;
pub mod inspect;
pub mod lint;
mod mappings;
mod parquet_file;
pub mod placements;
pub mod source;
pub mod text;
pub mod totals;
mod trace_file;
pub mod transform;
pub mod wait;

pub use disk::FileIdentity;
pub use event::{EventBatch, Op};
pub use parquet_file::{MADE_BY, made_by};
pub use placements::{PlacementWriter, Placements, read_placements};
pub use source::{Ahead, Failure, Meta, Source};
pub use totals::{ContentHash, Totals};
pub use trace_file::{Checks, FileFacts, Kept, TraceReader, TraceWriter, Written, copy};
