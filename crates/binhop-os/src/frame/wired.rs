//! Wired frames: frames that hold what the operating system may not lose, such as page tables.
//!
//! # Rules
//! - A wired frame is never in the pool and its page is never evicted. It stays wired until it is given back
//!   ([`Frames::unwire`](crate::Frames::unwire)): the page table of a process that exits, a page that the cache drops.
//! - A frame that is given back is free, and joins the list as the most recently used: it was in use until then. The list
//!   prefers no free frame, and the frame of a program's page that dies keeps the place of its last use, too. The release
//!   is a reference to the wired page, and the last: the caller notes it in [`Recency`](crate::Recency), at the same
//!   moment in every lane. So no draw is needed, and a page is still evicted only after P − W − K others were
//!   referenced, for W frames that are wired now. `buddy` gives the frame back as it does that of any page that dies.
//! - A wired page takes a frame drawn uniformly from the pool; the page that the frame still held is evicted. The draw
//!   has a stream of its own and is no fault, so that pages of programs keep their frames and their draws where nothing is
//!   wired. Policies with free lists of their own say in their files which frame a wired page takes.
//! - With W frames wired, the list has P − W frames and the pool min(K, P − W). A page is evicted only while it
//!   stands in the pool, so that P − W − K others of its list have been referenced since it was: wired frames reduce
//!   what is surely resident one by one, and references to wired pages do not count but for the release
//!   ([`Policy::safe_frames`](crate::placement::Policy::safe_frames)).

/// The use of a wired frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WiredKind {
    /// A page of a page table.
    Table,
    /// A page of the page cache.
    Cache,
    /// A page of the kernel's text or data.
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

/// Frames by what they hold: user + tables + cache + kernel + free = P.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Frames that hold pages of programs.
    pub user: u64,
    /// Wired frames, by [`WiredKind`].
    pub wired: [u64; WiredKind::ALL.len()],
    /// Frames that hold nothing; 0 where physical = virtual, which has no number of frames.
    pub free: u64,
}

impl Holdings {
    /// Frames wired for this.
    #[must_use]
    pub fn of(&self, kind: WiredKind) -> u64 {
        self.wired[kind as usize]
    }

    /// All wired frames.
    #[must_use]
    pub fn all_wired(&self) -> u64 {
        self.wired.iter().sum()
    }
}
