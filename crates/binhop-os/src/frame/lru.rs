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
//! longer the page's has been touched since, leaves the pool, and waits in a heap with its new time. The gap
//! is filled from the heap, whose times are lower bounds of the true ones: the least one is exact if it is
//! the page's still, and otherwise goes back with the true one. What remains in the pool is older than all
//! that was outside, which can only have grown younger, so appending keeps the order.
//!
//! # Cost
//! Nothing at a reference. At a placement O(K) to validate, and O(log P) for each frame that was
//! touched since it was last looked at; nothing of either while K frames were never used. 28 B per frame.

use alloc::{
    collections::{BinaryHeap, binary_heap::PeekMut},
    vec::Vec,
};
use core::cmp::Reverse;

use binhop_base::{PageId, PowerOfTwo};

use super::{Recency, bins::Bins};
use crate::SegmentId;

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
    /// Frames in initial order, those that have been used first: `..used` and `used..`.
    order: Vec<u32>,
    used: usize,
    content: Vec<Content>,
    /// The used part of the pool, in order; exact since the last [`refresh`](Self::refresh).
    aged: Vec<Aged>,
    /// The other used frames. Both are empty until the first placement that needs recency.
    rest: BinaryHeap<Reverse<Aged>>,
    following: bool,
    /// Counts of the pool by bin, if the policy asks for any.
    bins: Option<Bins>,
}

impl Lru {
    /// A list in this order, of frames never used, with a pool of `size` (1 to all of them).
    pub(super) fn new(order: Vec<u32>, size: usize, bins: Option<PowerOfTwo>) -> Self {
        let content = alloc::vec![Content::default(); order.len()];
        let bins = bins.map(|bins| Bins::new(bins, order.len(), &order[..size]));
        let (aged, rest) = (Vec::new(), BinaryHeap::new());
        Self { size, order, used: 0, content, aged, rest, following: false, bins }
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
        let Self { content, rest, aged, bins, .. } = self;
        if !self.following {
            self.following = true;
            rest.extend(self.order[..self.used].iter().map(|&frame| {
                let page = content[frame as usize].page;
                Reverse(Aged { time: recency.last(page), frame, page })
            }));
        }
        aged.retain(|entry| {
            let time = recency.last(entry.page);
            if time != entry.time {
                rest.push(Reverse(Aged { time, ..*entry }));
                if let Some(bins) = bins {
                    bins.leave(entry.frame);
                }
            }
            time == entry.time
        });
        let wanted = self.size - (self.order.len() - self.used);
        while aged.len() < wanted {
            // All frames are in `order[used..]`, `aged` or `rest`, and the pool is no larger than memory.
            let Some(mut oldest) = rest.peek_mut() else { break };
            let time = recency.last(oldest.0.page);
            if time == oldest.0.time {
                let entry = PeekMut::pop(oldest).0;
                if let Some(bins) = bins {
                    bins.enter(entry.frame);
                }
                aged.push(entry);
            } else {
                oldest.0.time = time;
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

    /// Gives the pool's frame at `rank` to a page of a segment; returns it and the page it held.
    pub(super) fn take(
        &mut self,
        rank: usize,
        page: PageId,
        segment: SegmentId,
        recency: &Recency,
    ) -> (u32, Option<PageId>) {
        let fresh = self.fresh().len();
        let mut next = None;
        let frame = if rank < fresh {
            self.order[self.used..=self.used + rank].rotate_right(1);
            self.used += 1;
            next = self.order.get(self.used + self.size - 1).copied();
            self.order[self.used - 1]
        } else {
            self.aged.remove(rank - fresh).frame
        };
        if self.following {
            // A lower bound, if the reference that faults is not noted yet.
            self.rest.push(Reverse(Aged { time: recency.last(page), frame, page }));
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
        let followed =
            self.aged.iter().chain(self.rest.iter().map(|entry| &entry.0)).map(|entry| entry.frame);
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
