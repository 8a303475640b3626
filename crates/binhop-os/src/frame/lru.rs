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
//! placement: an entry whose page has been referenced since leaves the pool, and the gap is filled with the
//! oldest that stand outside it ([`Aging`]). What remains in the pool is older than those, since what stands
//! outside can only have grown younger; so appending keeps the order.
//!
//! # Cost
//! Nothing at a reference. A placement costs O(log P) as long as K frames were never used ([`Fresh`]).
//!
//! Once fewer than K frames were never used, it costs O(K), with small constants: the used part of the pool is validated,
//! the chosen frame is searched for in it, and the gap it leaves is closed by moving what is younger (16 B a frame). And
//! for each frame that was touched since it was last looked at it costs O(log P), spread over placements. 32 B per frame.

use alloc::{vec, vec::Vec};

use binhop_base::{Domain, PageId, Rng, Stream};

use super::{
    Recency, Request,
    aging::{Aged, Aging},
    bins::{Bins, Counts},
    content::Content,
    fresh::Fresh,
};

pub(crate) struct Lru {
    size: usize,
    /// The frames that were never used.
    fresh: Fresh,
    /// Of the used ones, those that left the list because they are wired.
    wired: usize,
    content: Vec<Content>,
    /// The used part of the pool, in order; exact since the last [`refresh`](Self::refresh).
    aged: Vec<Aged>,
    /// The other used frames. It and `aged` are empty until the first placement that needs recency.
    aging: Aging,
    following: bool,
    /// Counts by bin, if the policy asks for any.
    bins: Option<Bins>,
}

impl Lru {
    /// A list of frames never used, in an order drawn from `rng` (the list's `number` among those of the
    /// lane), with a pool of `size` (1 to all of them).
    pub(crate) fn new(frames: u32, rng: Rng, number: u64, size: usize, counts: Option<Counts>) -> Self {
        Self::of(Fresh::new(frames, rng, Stream::new(Domain::FrameOrder, number), size), size, counts)
    }

    fn of(fresh: Fresh, size: usize, counts: Option<Counts>) -> Self {
        let bins = counts.map(|counts| Bins::new(counts, fresh.frames(), fresh.first(size)));
        Self {
            size,
            wired: 0,
            content: vec![Content::default(); fresh.frames()],
            fresh,
            aged: Vec::new(),
            aging: Aging::default(),
            following: false,
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
    pub(super) fn frame(&self, rank: usize) -> u32 {
        let fresh = self.fresh_len();
        if rank < fresh { self.fresh.at(rank) } else { self.aged[rank - fresh].frame }
    }

    /// The pool's frames, least recently used first.
    pub(super) fn pool(&self) -> impl Iterator<Item = u32> {
        self.fresh.iter().take(self.fresh_len()).chain(self.aged.iter().map(|entry| entry.frame))
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
    pub(crate) fn refresh(&mut self, request: &Request, recency: &Recency) {
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
        if !self.following {
            self.following = true;
            for frame in self.fresh.iter_used() {
                let content = self.content[frame as usize];
                if !content.is_wired() {
                    self.aging.add(frame, content.last());
                }
            }
        }
        let available = self.fresh.used() - self.wired;
        let wanted = (self.size - self.never_used()).min(available);
        let portion = self.len() / 8;
        let Self { aging, aged, bins, .. } = self;
        aged.retain(|entry| {
            let stays = entry.is_current(recency);
            if !stays {
                aging.put_back(*entry);
                if let Some(bins) = bins {
                    bins.leave(entry.frame);
                }
            }
            stays
        });
        while aged.len() < wanted {
            // There is one: as many as are wanted were used and are not wired.
            let entry = aging.take_oldest(recency, portion);
            aged.push(entry);
            if let Some(bins) = bins {
                bins.enter(entry.frame);
            }
        }
    }

    /// The place of a frame in the pool, 0 for the least recently used.
    pub(super) fn rank_of(&self, frame: u64) -> Option<usize> {
        let frame = u32::try_from(frame).ok()?;
        let aged = || self.aged.iter().position(|entry| entry.frame == frame).map(|at| self.fresh_len() + at);
        self.fresh.rank_of(frame).or_else(aged)
    }

    /// Number of frames in the pool.
    pub(crate) fn pool_len(&self) -> usize {
        self.fresh_len() + self.aged.len()
    }

    /// Number of wired frames, counted.
    pub(crate) fn wired(&self) -> u64 {
        self.content.iter().filter(|content| content.is_wired()).count() as u64
    }

    /// Number of frames that are not wired.
    pub(crate) fn unwired(&self) -> usize {
        self.len() - self.wired
    }

    /// Takes the frame at `rank` out of the pool.
    fn take_out(&mut self, rank: usize) -> u32 {
        let fresh = self.fresh_len();
        let (frame, next) = if rank < fresh {
            self.fresh.take(rank, self.size)
        } else {
            (self.aged.remove(rank - fresh).frame, None)
        };
        if let Some(bins) = &mut self.bins {
            bins.leave(frame);
            next.into_iter().for_each(|next| bins.enter(next));
        }
        frame
    }

    /// Gives the pool's frame at `rank` to the page of a request; returns it and the page it held.
    pub(crate) fn take(&mut self, rank: usize, request: &Request) -> (u32, Option<PageId>) {
        let frame = self.take_out(rank);
        if self.following {
            self.aging.add(frame, request.page);
        }
        let old = self.replace(frame, Content::of(request.page));
        if let Some(bins) = &mut self.bins {
            bins.fill(frame, request);
        }
        (frame, old)
    }

    /// Wires the pool's frame at `rank` for a page: it leaves the list. Returns it and the page it held.
    pub(crate) fn wire(&mut self, rank: usize, page: PageId) -> (u32, Option<PageId>) {
        let frame = self.take_out(rank);
        self.wired += 1;
        let old = self.replace(frame, Content::wired(page));
        (frame, old)
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

    /// Whether every frame stands exactly once in the list, and the counts are those of the frames.
    pub(crate) fn is_whole(&self) -> bool {
        let mut seen = vec![0u8; self.len()];
        let followed = self.aged.iter().chain(self.aging.iter()).map(|entry| entry.frame);
        for frame in followed {
            seen[frame as usize] += 1;
        }
        let mut used = vec![false; self.len()];
        let mut wired = 0;
        for frame in self.fresh.iter_used() {
            let is_wired = self.content[frame as usize].is_wired();
            used[frame as usize] = true;
            wired += usize::from(is_wired);
            // A wired frame is in no list; before it must be known which is the oldest, neither is any used one.
            seen[frame as usize] += u8::from(is_wired || !self.following);
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
impl Lru {
    /// A list in a given order.
    pub(super) fn in_order(order: Vec<u32>, size: usize, counts: Option<Counts>) -> Self {
        Self::of(Fresh::in_order(order), size, counts)
    }

    /// Damages the list.
    pub(super) fn lose_one(&mut self) {
        self.aging.lose_one();
    }
}
