//! The pool as a placement policy sees it.

use binhop_base::{Bin, FrameNo, PageId, PowerOfTwo, Result};

use super::{
    PageRequest,
    bins::{BinCounts, Bins},
    draws::Draws,
    lru::LruList,
};

/// The K least recently used frames at one placement, in order: rank 0 is the least recently used.
///
/// A policy that asks by bin declares so ([`PoolPolicy::bin_counts`]).
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    list: &'a LruList,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(list: &'a LruList) -> Self {
        Self { list }
    }

    /// Number of frames, K.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a pool is never empty")]
    pub fn len(&self) -> usize {
        self.list.pool_len()
    }

    /// The frame at a rank below [`len`](Self::len).
    ///
    /// # Panics
    /// The rank is not below the length.
    #[inline]
    #[must_use]
    pub fn frame(&self, rank: usize) -> FrameNo {
        FrameNo(u64::from(self.number(rank)))
    }

    /// The page that the frame at a rank still holds, and that choosing it would evict.
    ///
    /// # Panics
    /// The rank is not below the length.
    #[must_use]
    pub fn holds(&self, rank: usize) -> Option<PageId> {
        self.list.content(self.number(rank)).page()
    }

    /// Every frame with the page it still holds, least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (FrameNo, Option<PageId>)> {
        self.list.pool().map(|frame| (FrameNo(u64::from(frame)), self.list.content(frame).page()))
    }

    /// The bins that the policy tells apart.
    ///
    /// # Panics
    /// The policy declares none.
    #[inline]
    #[must_use]
    pub fn bins(&self) -> PowerOfTwo {
        self.by_bin().bins()
    }

    /// Frames of the pool in each bin.
    ///
    /// # Panics
    /// As [`bins`](Self::bins).
    #[inline]
    #[must_use]
    pub fn available(&self) -> &'a [u32] {
        self.by_bin().available()
    }

    /// The least recently used frame of the pool in a bin, if there is one. O(1).
    ///
    /// # Panics
    /// As [`bins`](Self::bins), or there are fewer.
    #[inline]
    #[must_use]
    pub fn oldest_in(&self, bin: Bin) -> Option<FrameNo> {
        self.by_bin().oldest_in(bin).map(|frame| FrameNo(u64::from(frame)))
    }

    /// Frames of all memory that hold pages of the address space that faults (by the declared
    /// [`StateScope`](crate::StateScope)), in the pool too until they are chosen: for each part of it the frames in
    /// each bin. The sums over the parts, bin by bin, are what it uses.
    ///
    /// # Panics
    /// The policy does not declare that it asks what is used.
    #[inline]
    pub fn used_parts(&self) -> impl Iterator<Item = &'a [u32]> {
        self.by_bin().used_parts()
    }

    /// Frames of the pool in the bins whose lowest `level` bits are `low`.
    ///
    /// # Panics
    /// The policy declares no tree, or one of fewer levels.
    #[inline]
    #[must_use]
    pub fn available_below(&self, level: u32, low: u32) -> u64 {
        self.by_bin().available_below(level, low).into()
    }

    /// Frames used (see [`used_parts`](Self::used_parts)) in the bins whose lowest `level` bits are `low`.
    ///
    /// # Panics
    /// The policy does not declare that it asks what is used, or no tree, or one of fewer levels.
    #[inline]
    #[must_use]
    pub fn used_below(&self, level: u32, low: u32) -> u64 {
        self.by_bin().used_below(level, low).into()
    }

    #[inline]
    fn by_bin(&self) -> &'a Bins {
        self.list.bins().expect("a policy that asks about bins declares them")
    }

    #[inline]
    fn number(&self, rank: usize) -> u32 {
        self.list.frame(rank)
    }
}

/// A policy that picks from the pool. One instance serves one lane.
pub trait PoolPolicy: Send {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Returns what it asks the pool about bins, if it does: that is kept up to date only then.
    fn bin_counts(&self) -> Option<BinCounts> {
        None
    }

    /// The frame for a page: one of the pool. What it still holds is evicted.
    ///
    /// # Errors
    /// Whatever may go wrong in a policy that is not built in; the run stops.
    fn choose(&mut self, request: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo>;
}
