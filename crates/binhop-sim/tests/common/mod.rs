//! The tests share drawn events, and the machines on which they run.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

mod events;
mod machines;

pub use events::{Event, Fixed, batch, event, reference};
pub use machines::{SMALL, flushes, flushes_caches, flushing, inclusive, machine, run};
