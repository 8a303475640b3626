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
//! Nothing at a reference. At every placement O(K) at worst, with small constants: the pool stands in order, so
//! the chosen frame is searched for (many at a time), and the gap it leaves is closed by moving what is older, if
//! it was never used (4 B a frame), or what is younger, if it was (16 B). To know a frame's place at once
//! would mean to change all of those places, or a tree in which every rank costs O(log K).
//!
//! Once fewer than K frames were never used, O(K) more to validate; and for each frame that was touched since it
//! was last looked at O(log P), spread over placements. 28 B per frame.

use alloc::{vec, vec::Vec};

use binhop_base::{Domain, PageId, Rng, Stream};

use super::{
    Recency, Request,
    aging::{Aged, Aging},
    bins::{Bins, Counts},
    content::Content,
};

pub(crate) struct Lru {
    size: usize,
    /// Frames in initial order, those that have been used first: `..used` and `used..`. What lies behind
    /// `drawn` is not in order yet; the pool never reaches so far.
    order: Vec<u32>,
    used: usize,
    /// Of the used ones, those that left the list because they are wired.
    wired: usize,
    drawn: usize,
    rng: Rng,
    /// The order in which the list starts (KH90 §4.1.2).
    stream: Stream,
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
        let stream = Stream::new(Domain::FrameOrder, number);
        let mut order: Vec<u32> = (0..frames).collect();
        rng.shuffle_places(stream, &mut order, 0..size);
        let bins = counts.map(|counts| Bins::new(counts, order.len(), &order[..size]));
        Self {
            size,
            used: 0,
            wired: 0,
            drawn: size,
            rng,
            stream,
            content: vec![Content::default(); order.len()],
            order,
            aged: Vec::new(),
            aging: Aging::default(),
            following: false,
            bins,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn needs_recency(&self) -> bool {
        self.order.len() - self.used < self.size
    }

    /// The pool's frames that were never used, in order: the older part.
    #[inline]
    pub(super) fn fresh(&self) -> &[u32] {
        &self.order[self.used..self.order.len().min(self.used + self.size)]
    }

    /// The pool's frames that were used, in order.
    #[inline]
    pub(super) fn aged(&self) -> &[Aged] {
        &self.aged
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
            let content = |&frame: &u32| (frame, self.content[frame as usize]);
            for (frame, content) in self.order[..self.used].iter().map(content) {
                if !content.is_wired() {
                    self.aging.add(frame, content.last());
                }
            }
        }
        let available = self.used - self.wired;
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
        let wanted = (self.size - (self.order.len() - self.used)).min(available);
        while aged.len() < wanted {
            // There is one: as many as are wanted were used and are not wired.
            let entry = aging.take_oldest(recency, self.order.len() / 8);
            aged.push(entry);
            if let Some(bins) = bins {
                bins.enter(entry.frame);
            }
        }
    }

    /// The place of a frame in the pool, 0 for the least recently used.
    pub(super) fn rank_of(&self, frame: u64) -> Option<usize> {
        let frame = u32::try_from(frame).ok()?;
        let fresh = self.fresh();
        let aged = || self.aged.iter().position(|entry| entry.frame == frame).map(|rank| fresh.len() + rank);
        // In blocks that the compiler compares at once.
        let holds = |block: &[u32]| block.iter().fold(false, |found, &other| found | (other == frame));
        let block = fresh.chunks(32).position(holds).map(|block| block * 32);
        let within =
            |start: usize| fresh[start..].iter().position(|&other| other == frame).map(|rank| start + rank);
        block.and_then(within).or_else(aged)
    }

    /// Number of frames in the pool.
    pub(crate) fn pool_len(&self) -> usize {
        self.fresh().len() + self.aged.len()
    }

    /// Number of wired frames, counted.
    pub(crate) fn wired(&self) -> u64 {
        self.content.iter().filter(|content| content.is_wired()).count() as u64
    }

    /// Number of frames that are not wired.
    pub(crate) fn unwired(&self) -> usize {
        self.order.len() - self.wired
    }

    /// Takes the frame at `rank` out of the pool.
    fn take_out(&mut self, rank: usize) -> u32 {
        let fresh = self.fresh().len();
        let mut next = None;
        let frame = if rank < fresh {
            self.order[self.used..=self.used + rank].rotate_right(1);
            self.used += 1;
            let entering = self.used + self.size - 1;
            if entering < self.order.len() {
                if entering == self.drawn {
                    self.rng.shuffle_places(self.stream, &mut self.order, entering..entering + 1);
                    self.drawn += 1;
                }
                next = Some(self.order[entering]);
            }
            self.order[self.used - 1]
        } else {
            self.aged.remove(rank - fresh).frame
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
        let mut seen = vec![0u8; self.order.len()];
        let followed = self.aged.iter().chain(self.aging.iter()).map(|entry| entry.frame);
        for frame in followed.chain(self.order[self.used..].iter().copied()) {
            seen[frame as usize] += 1;
        }
        let mut wired = 0;
        for &frame in &self.order[..self.used] {
            let is_wired = self.content[frame as usize].is_wired();
            wired += usize::from(is_wired);
            // A wired frame is in no list; before it must be known which is the oldest, neither is any used one.
            seen[frame as usize] += u8::from(is_wired || !self.following);
        }
        let pool = || self.fresh().iter().copied().chain(self.aged.iter().map(|entry| entry.frame));
        seen.iter().all(|&times| times == 1)
            && wired == self.wired
            && self.bins.as_ref().is_none_or(|bins| bins.are_true(pool(), &self.content))
    }
}

#[cfg(test)]
impl Lru {
    /// A list in a given order.
    pub(super) fn in_order(order: Vec<u32>, size: usize, counts: Option<Counts>) -> Self {
        let mut list = Self::new(order.len() as u32, Rng::new(0), 0, size, None);
        list.bins = counts.map(|counts| Bins::new(counts, order.len(), &order[..size]));
        list.drawn = order.len();
        list.order = order;
        list
    }

    /// Damages the list.
    pub(super) fn lose_one(&mut self) {
        self.aging.lose_one();
    }
}
