//! `PathCounts` holds what a path has counted, and names the counts.

use binhop_os::io::{IoCounts, IoWaiting};

/// `PathCounts` holds what a path has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// The bytes, pages, requests and packets.
    pub io: IoCounts,
    /// The requests and dirty pages that still wait for devices and the flusher.
    pub waiting: IoWaiting,
    /// The calls that move data, and about which the trace does not say enough.
    pub unseen: u64,
}

const UNSEEN: (&str, &str, &str) = (
    "unseen",
    "calls",
    "Calls that move data and are left out, because the trace does not say of which file, from which offset or how much.",
);

impl PathCounts {
    /// Returns the name, unit and meaning of each count.
    pub fn list() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        IoCounts::LIST.iter().chain(IoWaiting::LIST).chain([&UNSEEN]).copied()
    }

    /// Returns the counts in the order of [`list`](Self::list).
    pub fn values(&self) -> impl Iterator<Item = u64> {
        self.io.values().chain(self.waiting.values()).chain([self.unseen])
    }
}
