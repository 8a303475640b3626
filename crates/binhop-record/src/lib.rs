//! Recordings of real programs: from the recorder's pipes to one trace.

pub mod piece;
pub mod schedule;

pub use piece::{Piece, ProcessStream, Streams, Waits};
