//! This crate records real programs: it decodes the recorder's pipes and merges them into one trace. The crate also
//! mixes finished traces.

mod areas;
mod batch_builder;
mod catalog;
mod code_blocks;
mod decode;
mod live_process;
pub mod merge;
pub mod mix;
pub mod piece;
mod pipes;
mod recorded;
pub mod schedule;
pub mod session;
mod spool;
mod turn;
mod window;
mod wire;

pub use code_blocks::FetchRows;
#[doc(hidden)]
pub use decode::read_pipe;
pub use merge::Merge;
pub use mix::{EndsWhen, Faults, Latencies, Mix, MixInput, Mixing, Quantum};
pub use piece::{Piece, ProcessStream, ProcessStreams, WaitsFor};
pub use session::{RecordOptions, Session, exit_code};
pub use window::Window;
