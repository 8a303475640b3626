//! `binhop-os` makes an operating system's decisions about memory. [`Spaces`] finds the page behind an
//! address. [`Frames`] and [`placement`] choose the frame that holds the page, and the page that must leave
//! memory. [`page_table`] says which entries of page tables a walk reads.
//!
//! The two halves meet only in [`PageId`](binhop_base::PageId). Address spaces do not depend on the placement
//! and are computed once. Each lane (one placement of one seed) has its own [`Frames`]; all lanes share one
//! [`Recency`].
//!
//! The crate knows no hardware and no trace. It reads no clock, no file and no environment, and builds
//! without the standard library.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod frame;
pub mod io;
pub mod page_table;
pub mod placement;
pub mod scheduler;
mod space;
mod table;

pub use frame::{
    Allocator, BinCounts, Draws, Frames, Holdings, PageRequest, Placed, Pool, PoolPolicy, Recency, RunCounts,
    RunPlace, StateScope, WiredKind,
};
pub use space::{MapFlags, NamedPage, Owner, PageOrigin, SegmentId, SharedArea, Spaces, Touch};
