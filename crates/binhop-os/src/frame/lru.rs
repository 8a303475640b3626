//! The list of frames by last use, of which only the least recently used end is ever worked out.
//!
//! # What the list is
//! All frames, least recently used first (KH90 §4.1.2). It starts in a given order; a reference to a page
//! moves its frame to the far end; nothing else moves a frame: not the end of its page, and not being
//! chosen (the reference that asked for it does that). The pool is its first K frames.
//!
//! # How it is kept
//! A frame that was never used stands before all used ones, in the initial order; a used one is as old as
//! the last reference to the page it holds or held last. That time is kept outside, in [`Recency`], without
//! a word to us. So the used part of the pool is *validated* at a placement: an entry whose time is no
//! longer the page's has been touched since and leaves the pool. The gap is filled from a *reserve*: an
//! eighth of memory, the oldest that stand outside the pool, sorted when it was laid in and validated in the
//! same way as it is used. An empty reserve is laid in anew from the rest. What remains in the pool is older than what
//! remains in the reserve, and that is older than the rest, since what stands outside can only have grown
//! younger; so appending keeps the order.
//!
//! # Cost
//! Nothing at a reference. At a placement O(K) to validate; for each frame that was touched since it was
//! last looked at O(log P), spread over placements: laying in looks at all frames, for an eighth of
//! them. Nothing of either while K frames were never used. 28 B per frame.

use alloc::vec::Vec;

use binhop_base::{Domain, PageId, PowerOfTwo, Rng, Stream};

use super::{Recency, bins::Bins};
use crate::SegmentId;

/// The order in which the list starts (KH90 §4.1.2).
const ORDER: Stream = Stream::new(Domain::FrameOrder, 0);

/// A used frame, the page it was last given to, and a time at which that was referenced: the last, or an
/// earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Aged {
    time: u64,
    pub(super) frame: u32,
    page: PageId,
}

/// What a frame holds, or held last. A frame that was never used holds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content {
    /// The page it was last given to; its last reference is the frame's. Meaningless if never used.
    page: PageId,
    held: bool,
}

impl Content {
    pub(super) fn page(self) -> Option<PageId> {
        self.held.then_some(self.page)
    }
}

pub(super) struct Lru {
    size: usize,
    /// Frames in initial order, those that have been used first: `..used` and `used..`. Drawn as far as
    /// the pool reaches; what lies behind is not in order yet.
    order: Vec<u32>,
    used: usize,
    rng: Rng,
    content: Vec<Content>,
    /// The used part of the pool, in order; exact since the last [`refresh`](Self::refresh).
    aged: Vec<Aged>,
    /// Used frames older than the rest, the oldest last; their times were true when it was laid in.
    reserve: Vec<Aged>,
    /// The other used frames, in no order, with any earlier time. All three are empty until the first
    /// placement that needs recency.
    rest: Vec<Aged>,
    following: bool,
    /// Counts of the pool by bin, if the policy asks for any.
    bins: Option<Bins>,
}

impl Lru {
    /// A list of frames never used, in an order drawn from `rng`, with a pool of `size` (1 to all of them).
    pub(super) fn new(frames: u32, rng: Rng, size: usize, bins: Option<PowerOfTwo>) -> Self {
        let mut order: Vec<u32> = (0..frames).collect();
        rng.shuffle_places(ORDER, &mut order, 0..size);
        let content = alloc::vec![Content::default(); order.len()];
        let bins = bins.map(|bins| Bins::new(bins, order.len(), &order[..size]));
        let (aged, reserve, rest) = (Vec::new(), Vec::new(), Vec::new());
        Self { size, order, used: 0, rng, content, aged, reserve, rest, following: false, bins }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn needs_recency(&self) -> bool {
        self.order.len() - self.used < self.size
    }

    /// The pool's frames that were never used, in order: the older part.
    pub(super) fn fresh(&self) -> &[u32] {
        &self.order[self.used..self.order.len().min(self.used + self.size)]
    }

    /// The pool's frames that were used, in order.
    pub(super) fn aged(&self) -> &[Aged] {
        &self.aged
    }

    pub(super) fn content(&self, frame: u32) -> Content {
        self.content[frame as usize]
    }

    /// The counts by bin.
    pub(super) fn bins(&self) -> Option<&Bins> {
        self.bins.as_ref()
    }

    /// Makes the pool exact for now.
    pub(super) fn refresh(&mut self, recency: &Recency) {
        if !self.needs_recency() {
            return;
        }
        if !self.following {
            self.following = true;
            let followed = |&frame: &u32| Aged { time: 0, frame, page: self.content[frame as usize].page };
            self.rest = self.order[..self.used].iter().map(followed).collect();
        }
        let Self { rest, aged, bins, .. } = self;
        aged.retain(|entry| {
            let stays = recency.last(entry.page) == entry.time;
            if !stays {
                rest.push(*entry);
                if let Some(bins) = bins {
                    bins.leave(entry.frame);
                }
            }
            stays
        });
        while self.aged.len() < self.size - (self.order.len() - self.used) {
            let Some(entry) = self.reserve.pop() else {
                // Not empty: the list is no shorter than the pool.
                self.lay_in(recency);
                continue;
            };
            if recency.last(entry.page) != entry.time {
                self.rest.push(entry);
                continue;
            }
            self.aged.push(entry);
            if let Some(bins) = &mut self.bins {
                bins.enter(entry.frame);
            }
        }
    }

    /// Lays in a reserve: the oldest of the rest, in order.
    fn lay_in(&mut self, recency: &Recency) {
        for entry in &mut self.rest {
            entry.time = recency.last(entry.page);
        }
        let len = self.rest.len();
        let wanted = (self.order.len() / 8).clamp(1, len);
        // Youngest first, so that the reserve is the end of both.
        self.rest.select_nth_unstable_by(len - wanted, |a, b| b.cmp(a));
        self.reserve.extend(self.rest.drain(len - wanted..));
        self.reserve.sort_unstable_by(|a, b| b.cmp(a));
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

    /// Gives the pool's frame at `rank` to a page of a segment; returns it and the page it held.
    pub(super) fn take(&mut self, rank: usize, page: PageId, segment: SegmentId) -> (u32, Option<PageId>) {
        let fresh = self.fresh().len();
        let mut next = None;
        let frame = if rank < fresh {
            self.order[self.used..=self.used + rank].rotate_right(1);
            self.used += 1;
            let entering = self.used + self.size - 1;
            if entering < self.order.len() {
                self.rng.shuffle_places(ORDER, &mut self.order, entering..entering + 1);
                next = Some(self.order[entering]);
            }
            self.order[self.used - 1]
        } else {
            self.aged.remove(rank - fresh).frame
        };
        if self.following {
            self.rest.push(Aged { time: 0, frame, page });
        }
        let old = core::mem::replace(&mut self.content[frame as usize], Content { page, held: true });
        if let Some(bins) = &mut self.bins {
            bins.leave(frame);
            next.into_iter().for_each(|next| bins.enter(next));
            if old.held {
                bins.empty(frame);
            }
            bins.fill(frame, segment);
        }
        (frame, old.page())
    }

    /// The frame's page has died; the frame stays where it is.
    pub(super) fn release(&mut self, frame: u32) {
        self.content[frame as usize].held = false;
        if let Some(bins) = &mut self.bins {
            bins.empty(frame);
        }
    }

    /// Number of frames that hold a page, counted.
    pub(super) fn held(&self) -> usize {
        self.content.iter().filter(|content| content.held).count()
    }

    /// Whether every frame stands exactly once in the list.
    pub(super) fn is_whole(&self) -> bool {
        let mut seen = alloc::vec![0u8; self.order.len()];
        let followed = self.aged.iter().chain(&self.reserve).chain(&self.rest).map(|entry| entry.frame);
        for frame in followed.chain(self.order[self.used..].iter().copied()) {
            seen[frame as usize] += 1;
        }
        if !self.following {
            for frame in &self.order[..self.used] {
                seen[*frame as usize] += 1;
            }
        }
        seen.iter().all(|&times| times == 1)
    }
}

#[cfg(test)]
impl Lru {
    /// Damages the list.
    pub(super) fn lose_one(&mut self) {
        self.rest.pop();
    }
}
