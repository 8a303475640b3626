//! The list of frames by last use, of which only the least recently used end is ever worked out.
//!
//! # What the list is
//! All frames, least recently used first (KH90 §4.1.2). It starts in a given order; a reference to a page
//! moves its frame to the far end; nothing else moves a frame: not the end of its page, and not being
//! chosen (the reference that asked for it does that). The pool is its first K frames.
//!
//! # How it is kept
//! A frame that was never used stands before all used ones, in the initial order; a used one is as old as
//! the last reference to the page it holds or held last. So the used part of the pool is *validated* at a
//! placement ([`AgedPool`]): a frame whose page has been referenced since leaves the pool, and the oldest that stand
//! outside the pool join it ([`Aging`]). What remains in the pool is older than those, since what stands
//! outside can only have grown younger; so appending keeps the order.
//!
//! # Cost
//! Nothing at a reference. A placement costs O(log P) as long as K frames were never used ([`Fresh`]).
//!
//! Once fewer than K frames were never used, a placement also looks at the pages that were referenced since the lane's
//! last placement, or at the used part of the pool where these are fewer; and for each frame that was touched since it
//! was last looked at it costs O(log P), spread over placements.

use alloc::{vec, vec::Vec};

use binhop_base::{Domain, PageId, Rng, Stream};

use super::{
    PageRequest, Recency,
    aged::AgedPool,
    aging::Aging,
    bins::{BinCounts, Bins},
    content::Content,
    fresh::Fresh,
};

pub(crate) struct LruList {
    size: usize,
    /// The frames that were never used.
    fresh: Fresh,
    /// The number of used frames that are not in the list because they are wired.
    wired: usize,
    content: Vec<Content>,
    /// The other frames. `None` until the first placement that needs recency.
    followed: Option<Followed>,
    /// BinCounts by bin, if the policy asks for any.
    bins: Option<Bins>,
}

/// The frames that were used, and are not wired, by age.
struct Followed {
    /// The used part of the pool, exact since the last [`renew`](LruList::renew).
    pool: AgedPool,
    aging: Aging,
}

impl Followed {
    /// Every used frame that is not wired, outside the pool.
    fn of(size: usize, fresh: &Fresh, content: &[Content]) -> Self {
        let mut aging = Aging::default();
        for frame in fresh.iter_used() {
            let content = content[frame as usize];
            if !content.is_wired() {
                aging.add(frame, content.last());
            }
        }
        Self { pool: AgedPool::new(size), aging }
    }
}

impl LruList {
    /// The bytes of a list beside those that its frames and its pool take: of a list with few frames they are the most.
    pub(crate) const BYTES: usize = core::mem::size_of::<Self>();
    /// More once recency is read: the rooms of small lists.
    pub(crate) const BYTES_FOLLOWED: usize = 128;

    /// A list of frames never used, in an order drawn from `rng` (the list's `number` among those of the
    /// lane), with a pool of `size` (1 to all of them).
    pub(crate) fn new(frames: u32, rng: Rng, number: u64, size: usize, counts: Option<BinCounts>) -> Self {
        Self::of(Fresh::new(frames, rng, Stream::new(Domain::FrameOrder, number), size), size, counts)
    }

    fn of(fresh: Fresh, size: usize, counts: Option<BinCounts>) -> Self {
        let bins = counts.map(|counts| Bins::new(counts, fresh.frames(), fresh.first(size)));
        Self {
            size,
            wired: 0,
            content: vec![Content::default(); fresh.frames()],
            fresh,
            followed: None,
            bins,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.frames()
    }

    pub(crate) fn needs_recency(&self) -> bool {
        self.never_used() < self.size
    }

    /// Number of frames that were never used.
    fn never_used(&self) -> usize {
        self.fresh.frames() - self.fresh.used()
    }

    /// Number of the pool's frames that were never used: the older part.
    fn fresh_len(&self) -> usize {
        self.never_used().min(self.size)
    }

    /// The pool's frame at a rank below its length.
    #[inline]
    pub(crate) fn frame(&self, rank: usize) -> u32 {
        let fresh = self.fresh_len();
        match &self.followed {
            Some(followed) if rank >= fresh => followed.pool.frame(rank - fresh),
            _ => self.fresh.at(rank),
        }
    }

    /// The pool's frames, least recently used first.
    pub(crate) fn pool(&self) -> impl Iterator<Item = u32> {
        self.fresh
            .iter()
            .take(self.fresh_len())
            .chain(self.followed.iter().flat_map(|followed| followed.pool.iter()))
    }

    pub(crate) fn content(&self, frame: u32) -> Content {
        self.content[frame as usize]
    }

    /// The counts by bin.
    #[inline]
    pub(super) fn bins(&self) -> Option<&Bins> {
        self.bins.as_ref()
    }

    /// Makes the pool exact for now, and the counts ready for questions about a request.
    pub(crate) fn refresh(&mut self, request: &PageRequest, recency: &Recency) {
        if let Some(bins) = &mut self.bins {
            bins.look_at(request);
        }
        self.renew(recency);
    }

    /// Makes the pool exact for now.
    pub(crate) fn renew(&mut self, recency: &Recency) {
        if !self.needs_recency() {
            return;
        }
        let available = self.fresh.used() - self.wired;
        let wanted = (self.size - self.never_used()).min(available);
        let portion = self.len() / 8;
        let Self { size, fresh, content, followed, bins, .. } = self;
        let Followed { pool, aging } = followed.get_or_insert_with(|| Followed::of(*size, fresh, content));
        pool.validate(recency, |entry| {
            aging.put_back(entry);
            if let Some(bins) = bins {
                bins.leave(entry.frame);
            }
        });
        while pool.len() < wanted {
            // There is one: as many as are wanted were used and are not wired.
            let entry = aging.take_oldest(recency, portion);
            pool.join(entry);
            if let Some(bins) = bins {
                bins.enter(entry.frame);
            }
        }
    }

    /// Returns whether a frame is in the pool.
    pub(crate) fn holds(&self, frame: u64) -> bool {
        let Some((frame, content)) = u32::try_from(frame).ok().zip(self.content.get(frame as usize)) else {
            return false;
        };
        let used = || self.followed.as_ref().is_some_and(|it| it.pool.holds(frame, content.last()));
        self.fresh.holds(frame) || used()
    }

    /// Number of frames in the pool.
    pub(crate) fn pool_len(&self) -> usize {
        self.fresh_len() + self.followed.as_ref().map_or(0, |followed| followed.pool.len())
    }

    /// Number of wired frames, counted.
    pub(crate) fn wired(&self) -> u64 {
        self.content.iter().filter(|content| content.is_wired()).count() as u64
    }

    /// Number of frames that are not wired.
    pub(crate) fn unwired(&self) -> usize {
        self.len() - self.wired
    }

    /// Takes a frame out of the pool.
    fn take_out(&mut self, frame: u32) {
        let next = match &mut self.followed {
            Some(followed) if !self.fresh.holds(frame) => {
                followed.pool.take(self.content[frame as usize].last());
                None
            }
            _ => self.fresh.take(frame, self.size),
        };
        if let Some(bins) = &mut self.bins {
            bins.leave(frame);
            next.into_iter().for_each(|next| bins.enter(next));
        }
    }

    /// Gives a frame of the pool to the page of a request; returns the page it held.
    pub(crate) fn take(&mut self, frame: u32, request: &PageRequest) -> Option<PageId> {
        self.take_out(frame);
        if let Some(followed) = &mut self.followed {
            followed.aging.add(frame, request.page);
        }
        let old = self.replace(frame, Content::of(request.page));
        if let Some(bins) = &mut self.bins {
            bins.fill(frame, request);
        }
        old
    }

    /// Wires a frame of the pool for a page: it leaves the list. Returns the page it held.
    pub(crate) fn wire(&mut self, frame: u32, page: PageId) -> Option<PageId> {
        self.take_out(frame);
        self.wired += 1;
        self.replace(frame, Content::wired(page))
    }

    /// The page of a wired frame has died: the frame joins the list, as the youngest.
    pub(crate) fn unwire(&mut self, frame: u32) {
        let content = &mut self.content[frame as usize];
        content.unwire();
        self.wired -= 1;
        if let Some(followed) = &mut self.followed {
            followed.aging.add(frame, content.last());
        }
    }

    /// Puts something into a frame; returns the page it held.
    fn replace(&mut self, frame: u32, content: Content) -> Option<PageId> {
        let old = core::mem::replace(&mut self.content[frame as usize], content).page();
        if let (Some(bins), Some(_)) = (&mut self.bins, old) {
            bins.empty(frame);
        }
        old
    }

    /// The frame's page has died; the frame stays where it is.
    pub(crate) fn release(&mut self, frame: u32) {
        self.content[frame as usize].release();
        if let Some(bins) = &mut self.bins {
            bins.empty(frame);
        }
    }

    /// Number of frames that hold a page, counted.
    pub(crate) fn held(&self) -> u64 {
        self.content.iter().filter(|content| content.page().is_some()).count() as u64
    }

    /// Returns whether every frame stands exactly once in the list, and the counts are those of the frames.
    pub(crate) fn is_whole(&self) -> bool {
        let mut seen = vec![0u8; self.len()];
        if let Some(followed) = &self.followed {
            let outside = followed.aging.iter().map(|entry| entry.frame);
            for frame in followed.pool.iter().chain(outside) {
                seen[frame as usize] += 1;
            }
        }
        let mut used = vec![false; self.len()];
        let mut wired = 0;
        for frame in self.fresh.iter_used() {
            let is_wired = self.content[frame as usize].is_wired();
            used[frame as usize] = true;
            wired += usize::from(is_wired);
            // A wired frame is in no list; before it must be known which is the oldest, neither is any used one.
            seen[frame as usize] += u8::from(is_wired || self.followed.is_none());
        }
        for (seen, used) in seen.iter_mut().zip(used) {
            *seen += u8::from(!used);
        }
        seen.iter().all(|&times| times == 1)
            && wired == self.wired
            && self.bins.as_ref().is_none_or(|bins| bins.are_true(self.pool(), &self.content))
    }
}

#[cfg(test)]
impl LruList {
    /// A list in a given order.
    pub(crate) fn in_order(order: Vec<u32>, size: usize, counts: Option<BinCounts>) -> Self {
        Self::of(Fresh::in_order(order), size, counts)
    }

    /// The number of trees of used frames that exist.
    pub(crate) fn used_trees(&self) -> usize {
        self.bins().expect("the policy asks about bins").slots()
    }

    /// Damages the list.
    pub(super) fn corrupt_for_test(&mut self) {
        self.followed.as_mut().expect("the frames are followed").aging.corrupt_for_test();
    }
}
