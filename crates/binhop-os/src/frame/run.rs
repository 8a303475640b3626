//! `RunPlace` names the place of a page in a run of frames. A run is the memory of a huge page.
//!
//! # Rules
//! - A run has 2^`frames_log2` neighbouring frames, aligned to its size. The first page that is touched in a huge page
//!   *begins* the run: the allocator takes the run as a whole, or finds none (a *fallback*) and gives the page a frame
//!   of its own.
//! - While the run is whole, a further page of the huge page *joins*: it has its frame already, so it causes no fault.
//! - A run is *split* when one of its pages dies or is evicted, or when no frame is free elsewhere. Its pages keep
//!   their frames, as pages of the usual size. The frames that no page has joined are free from then on.

/// `RunPlace` is the place of a page in a run of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPlace {
    /// The number of the run. A number is never used again.
    pub run: u32,
    /// The number of the page in the run.
    pub index: u32,
    /// The logarithm of the number of frames.
    pub frames_log2: u32,
    /// True if the page is the first page of the run.
    pub begins: bool,
}

/// `RunCounts` counts the runs of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// The runs that were taken.
    pub taken: u64,
    /// The huge pages for which no run was free.
    pub fallbacks: u64,
    /// The runs that were split.
    pub splits: u64,
    /// The frames of whole runs that no page has joined.
    pub unused: u64,
    /// The maximum of `unused` so far.
    pub most_unused: u64,
}
