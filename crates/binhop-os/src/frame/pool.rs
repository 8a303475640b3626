//! The pool as a placement policy sees it.

use binhop_base::{Bin, FrameNo, PageId};

use super::{bins::Bins, lru::Lru};
use crate::SegmentId;

/// The K least recently used frames at one placement, in order: rank 0 is the least recently used.
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    list: &'a Lru,
}

impl<'a> Pool<'a> {
    pub(super) fn new(list: &'a Lru) -> Self {
        Self { list }
    }

    /// Number of frames, K.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a pool is never empty")]
    pub fn len(&self) -> usize {
        self.list.fresh().len() + self.list.aged().len()
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
        (0..self.len()).map(|rank| (self.frame(rank), self.holds(rank)))
    }

    /// Frames of the pool in a bin.
    ///
    /// # Panics
    /// The policy declares no bins ([`Placement::bins`](crate::placement::Placement::bins)), or fewer.
    #[must_use]
    pub fn available(&self, bin: Bin) -> u64 {
        self.bins().available(bin).into()
    }

    /// The least recently used frame of the pool in a bin, if there is one. O(K).
    ///
    /// # Panics
    /// As [`available`](Self::available).
    #[must_use]
    pub fn oldest_in(&self, bin: Bin) -> Option<FrameNo> {
        let bins = self.bins();
        if bins.available(bin) == 0 {
            return None;
        }
        let rank = (0..self.len()).find(|&rank| bins.bin(self.number(rank)) == bin)?;
        Some(self.frame(rank))
    }

    /// Frames in a bin, of all memory, that hold a page of a segment: in the pool too, until they are chosen.
    ///
    /// # Panics
    /// As [`available`](Self::available).
    #[must_use]
    pub fn used(&self, segment: SegmentId, bin: Bin) -> u64 {
        self.bins().used(segment, bin).into()
    }

    fn bins(&self) -> &'a Bins {
        self.list.bins().expect("a policy that asks about bins declares how many")
    }

    #[inline]
    fn number(&self, rank: usize) -> u32 {
        let fresh = self.list.fresh();
        if rank < fresh.len() { fresh[rank] } else { self.list.aged()[rank - fresh.len()].frame }
    }
}
