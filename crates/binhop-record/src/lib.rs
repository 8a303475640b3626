//! Recordings of real programs: from the recorder's pipes to one trace.

mod member;
pub mod merge;
pub mod mix;
pub mod piece;
pub mod schedule;
mod weave;

pub use merge::Merge;
pub use mix::{Ends, Input, Latencies, Mix};
pub use piece::{Piece, ProcessStream, Streams, Waits};
