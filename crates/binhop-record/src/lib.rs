//! Recordings of real programs: from the recorder's pipes to one trace.

mod areas;
mod decode;
mod member;
pub mod merge;
pub mod mix;
mod names;
pub mod piece;
mod pipes;
mod process;
pub mod schedule;
pub mod session;
mod spool;
mod stretch;
mod weave;
mod window;
mod wire;

#[doc(hidden)]
pub use decode::read_pipe;
pub use merge::Merge;
pub use mix::{Ends, Input, Latencies, Mix};
pub use piece::{Piece, ProcessStream, Streams, Waits};
pub use session::{Request, Session, exit_code};
pub use stretch::Fetch;
pub use window::Window;
