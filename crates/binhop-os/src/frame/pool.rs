//! The pool as a placement policy sees it.

use binhop_base::{FrameNo, PageId};

use super::lru::Lru;

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

    #[inline]
    fn number(&self, rank: usize) -> u32 {
        let fresh = self.list.fresh();
        if rank < fresh.len() { fresh[rank] } else { self.list.aged()[rank - fresh.len()].frame }
    }
}
