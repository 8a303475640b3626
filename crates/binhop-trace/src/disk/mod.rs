//! This module reads and writes files on the disk. If a file changes while it is read, reading fails. A file that is
//! written appears complete or not at all.

mod steady;
mod temporary;

pub use steady::FileIdentity;
pub(crate) use steady::{Forward, Steady};
pub(crate) use temporary::Temporary;
