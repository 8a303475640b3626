//! Recordings of real programs: from the recorder's pipes to one trace.

mod member;
pub mod merge;
pub mod piece;
pub mod schedule;
mod weave;

pub use merge::Merge;
pub use piece::{Piece, ProcessStream, Streams, Waits};
