//! The tests share drawn events, and the machines on which they run.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

mod events;
mod machines;
mod touches;

pub use events::{Event, Fixed, batch, event, named, reference};
pub use machines::{SMALL, flushes, flushes_caches, flushing, inclusive, machine, run};
pub use touches::{TouchedUnit, touched_units};
