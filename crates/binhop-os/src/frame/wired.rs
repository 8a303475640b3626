//! Wired frames: frames that hold what the operating system may not lose, such as page tables.
//!
//! # Rules
//! - A wired frame is never in the pool and its page is never evicted. It stays wired to the end.
//! - A wired page takes a frame drawn uniformly from the pool; the page that the frame still held is evicted. The draw
//!   has a stream of its own and is no fault, so that pages of programs keep their frames and their draws where nothing is
//!   wired. Policies with free lists of their own say in their files which frame a wired page takes, or refuse to wire.
//! - With W frames wired, the list has P − W frames and the pool min(K, P − W). A page is evicted only while it
//!   stands in the pool, so that P − W − K others of its list have been referenced since it was: wired frames reduce
//!   what is surely resident one by one, and references to wired pages do not count
//!   ([`Policy::safe_frames`](crate::placement::Policy::safe_frames)).

/// The use of a wired frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wired {
    /// A page of a page table.
    Table,
    /// A page of the page cache.
    Cache,
    /// A page of the kernel's text or data.
    Kernel,
}

impl Wired {
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
    /// Wired frames, by [`Wired`].
    pub wired: [u64; Wired::ALL.len()],
    /// Frames that hold nothing; 0 where physical = virtual, which has no number of frames.
    pub free: u64,
}

impl Holdings {
    /// Frames wired for this.
    #[must_use]
    pub fn of(&self, kind: Wired) -> u64 {
        self.wired[kind as usize]
    }

    /// All wired frames.
    #[must_use]
    pub fn all_wired(&self) -> u64 {
        self.wired.iter().sum()
    }
}
