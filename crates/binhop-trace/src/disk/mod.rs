//! This module reads and writes files on the disk. A change of a file that is being read is an error, and a
//! file that is written appears complete or not at all.

mod steady;
mod temporary;

pub use steady::FileIdentity;
pub(crate) use steady::{Forward, Steady};
pub(crate) use temporary::Temporary;
