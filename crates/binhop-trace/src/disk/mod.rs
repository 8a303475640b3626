//! Files on the disk: a file that is read stays unchanged, a file that is written appears complete.

mod steady;
mod temporary;

pub use steady::FileIdentity;
pub(crate) use steady::{Forward, Steady};
pub(crate) use temporary::Temporary;
