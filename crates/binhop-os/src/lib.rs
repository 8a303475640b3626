//! The decisions of an operating system about memory: which page stands behind an address ([`Spaces`]), which
//! frame holds it and which page must leave ([`Frames`], [`placement`]).
//!
//! The two halves meet only in [`PageId`](binhop_base::PageId). Address spaces do not depend on the
//! placement and are worked out once; frames are one instance per lane (one placement of one seed), above
//! one [`Recency`] for all.
//!
//! The crate knows no hardware and no trace, reads no clock, no file and no environment, and builds without
//! the standard library.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod frame;
pub mod placement;
pub mod scheduler;
mod space;
mod table;

pub use frame::{
    Allocator, BinCounts, Draws, Frames, Holdings, PageRequest, Placed, Pool, PoolPolicy, Recency,
    StateScope, WiredKind,
};
pub use space::{MapFlags, Owner, PageOrigin, SegmentId, Spaces, Touch};
