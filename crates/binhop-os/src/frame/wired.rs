//! Wired frames hold pages that the operating system may not lose, such as page tables.
//!
//! # Rules
//! - A wired frame is never in the pool, and its page is never evicted. The frame stays wired until it is
//!   released ([`Frames::unwire`](crate::Frames::unwire)): a process exits and its page table goes, or the
//!   page cache drops a page.
//! - A released frame is free, and joins the list as the most recently used frame, because it was in use
//!   until then. The list prefers no free frame; the frame of a program's page that dies also keeps the place
//!   of its last use. The release is the last reference to the wired page. The caller notes it in
//!   [`Recency`](crate::Recency) at the same moment in every lane, so no draw is needed. With W wired frames
//!   a page is therefore still evicted only after P − W − K other pages were referenced. `buddy` releases the
//!   frame as it releases the frame of any page that dies.
//! - A wired page takes a frame drawn uniformly from the pool, and the page that the frame still held is
//!   evicted. The draw has a stream of its own and is no fault, so wired pages change no draw of a program's
//!   page. The file of a policy with free lists of its own says which frame a wired page takes.
//! - With W wired frames the list has P − W frames, and the pool has min(K, P − W). A page is evicted only
//!   while its frame is in the pool, so P − W − K other pages of the list have been referenced since. Each
//!   wired frame therefore reduces the number of pages that are surely resident by one. References to wired
//!   pages do not count, except the release ([`Policy::safe_frames`](crate::placement::Policy::safe_frames)).

/// `WiredKind` is the use of a wired frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WiredKind {
    /// The frame holds a page of a page table.
    Table,
    /// The frame holds a page of the page cache.
    Cache,
    /// The frame holds a page of the kernel's text or data.
    Kernel,
}

impl WiredKind {
    /// Every kind, in the order of their discriminants.
    pub const ALL: &'static [Self] = &[Self::Table, Self::Cache, Self::Kernel];

    /// Returns the name under which counts of frames show it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "tables",
            Self::Cache => "cache",
            Self::Kernel => "kernel",
        }
    }
}

/// `Holdings` counts frames by what they hold: user + tables + cache + kernel + free = P.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The number of frames that hold pages of programs.
    pub user: u64,
    /// The number of wired frames, by [`WiredKind`].
    pub wired: [u64; WiredKind::ALL.len()],
    /// The number of frames that hold nothing. It is 0 where physical = virtual, because that memory has no
    /// size.
    pub free: u64,
}

impl Holdings {
    /// Returns the number of frames that are wired for a use.
    #[must_use]
    pub fn of(&self, kind: WiredKind) -> u64 {
        self.wired[kind as usize]
    }

    /// Returns the number of all wired frames.
    #[must_use]
    pub fn all_wired(&self) -> u64 {
        self.wired.iter().sum()
    }
}
