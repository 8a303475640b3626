//! `binhop-base` holds what all crates share: typed addresses, sizes, times, kinds of access, agents, the seeded
//! generator, the port between hardware and operating system, maps that share their common entries, and the
//! form of every error.
//!
//! The crate reads no clock, no file and no environment, and builds without the standard library.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod agent;
mod counted;
pub mod escape;
pub mod forest;
mod kind;
mod port;
mod problem;
mod rng;
mod size;
mod time;

pub use address::{Asid, Bin, FrameNo, MappingId, PageId, PageNo, VirtAddr};
pub use agent::{Agent, Agents};
pub use counted::{counted, counted_notes};
pub use kind::{Kind, PerKind};
pub use port::{LineAddr, Translation};
pub use problem::{Class, Problem, Result};
pub use rng::{Domain, Rng, Stream};
pub use size::{Bytes, PowerOfTwo};
pub use time::Picoseconds;
