//! `Pool` is the pool as a placement policy sees it; `PoolPolicy` is a policy that picks from the pool.

use binhop_base::{Bin, FrameNo, PageId, PowerOfTwo, Result};

use super::{
    PageRequest,
    bins::{BinCounts, Bins},
    draws::Draws,
    lru::LruList,
};

/// `Pool` is the K least recently used frames at one placement, in order. Rank 0 is the least recently used
/// frame.
///
/// A policy that asks about bins declares what it asks ([`PoolPolicy::bin_counts`]).
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    list: &'a LruList,
}

impl<'a> Pool<'a> {
    pub(crate) fn new(list: &'a LruList) -> Self {
        Self { list }
    }

    /// Returns K, the number of frames.
    #[inline]
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a pool is never empty")]
    pub fn len(&self) -> usize {
        self.list.pool_len()
    }

    /// Returns the frame at a rank below [`len`](Self::len).
    ///
    /// # Panics
    /// The rank is not below the length.
    #[inline]
    #[must_use]
    pub fn frame(&self, rank: usize) -> FrameNo {
        FrameNo(u64::from(self.number(rank)))
    }

    /// Returns the page that the frame at a rank still holds. To choose the frame evicts this page.
    ///
    /// # Panics
    /// The rank is not below the length.
    #[must_use]
    pub fn holds(&self, rank: usize) -> Option<PageId> {
        self.list.content(self.number(rank)).page()
    }

    /// Returns every frame with the page that it still holds, least recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (FrameNo, Option<PageId>)> {
        self.list.pool().map(|frame| (FrameNo(u64::from(frame)), self.list.content(frame).page()))
    }

    /// Returns the bins that the policy tells apart.
    ///
    /// # Panics
    /// The policy declares no bins.
    #[inline]
    #[must_use]
    pub fn bins(&self) -> PowerOfTwo {
        self.by_bin().bins()
    }

    /// Returns the number of the pool's frames in each bin.
    ///
    /// # Panics
    /// The policy declares no bins.
    #[inline]
    #[must_use]
    pub fn available(&self) -> &'a [u32] {
        self.by_bin().available()
    }

    /// Returns the least recently used frame of the pool in a bin, if the pool has a frame there. O(1).
    ///
    /// # Panics
    /// The policy declares no bins, or the bin's number is too large.
    #[inline]
    #[must_use]
    pub fn oldest_in(&self, bin: Bin) -> Option<FrameNo> {
        self.by_bin().oldest_in(bin).map(|frame| FrameNo(u64::from(frame)))
    }

    /// Returns the number of frames in each bin that hold pages of the address space that faults, part by
    /// part. The parts are its segments or the address space itself, by the declared
    /// [`StateScope`](crate::StateScope). The sums over the parts, bin by bin, are the frames that the
    /// address space uses. A frame in the pool counts until it is chosen.
    ///
    /// # Panics
    /// The policy does not declare that it asks for used frames.
    #[inline]
    pub fn used_parts(&self) -> impl Iterator<Item = &'a [u32]> {
        self.by_bin().used_parts()
    }

    /// Returns the number of the pool's frames in the bins whose lowest `level` bits are `low`.
    ///
    /// # Panics
    /// The policy declares no tree, or a tree of fewer levels.
    #[inline]
    #[must_use]
    pub fn available_below(&self, level: u32, low: u32) -> u64 {
        self.by_bin().available_below(level, low).into()
    }

    /// Returns the number of used frames (see [`used_parts`](Self::used_parts)) in the bins whose lowest
    /// `level` bits are `low`.
    ///
    /// # Panics
    /// The policy does not declare that it asks for used frames, or declares no tree, or a tree of fewer
    /// levels.
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

/// `PoolPolicy` is a placement policy that picks from the pool. One instance serves one lane.
pub trait PoolPolicy: Send {
    /// Returns the policy's name, for messages.
    fn name(&self) -> &str;

    /// Returns what the policy asks the pool about bins. The pool keeps only these counts up to date.
    /// `None`: the policy asks nothing.
    fn bin_counts(&self) -> Option<BinCounts> {
        None
    }

    /// Returns the rank that the policy chooses at the fault of `draws` from a pool of `len` frames, if the rank
    /// depends on nothing else. The pool then finds the frames of many faults together, which costs less.
    fn rank(&self, _draws: Draws, _len: usize) -> Option<usize> {
        None
    }

    /// Chooses the frame of the pool for a page. The page that the frame still holds is evicted.
    ///
    /// # Errors
    /// A policy that is not built in may fail in its own ways. The run stops.
    fn choose(&mut self, request: &PageRequest, pool: &Pool<'_>, draws: Draws) -> Result<FrameNo>;
}
