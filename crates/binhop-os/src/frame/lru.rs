//! `LruList` is the list of frames by last use. Only its least recently used end is ever computed.
//!
//! # The list
//! The list holds all frames, least recently used first (KH90 §4.1.2), and starts in a given order. A
//! reference to a page moves the frame of the page to the far end. Nothing else moves a frame: neither the
//! death of its page nor a choice moves it. (The reference that asked for the frame moves it.) The pool is the
//! first K frames of the list.
//!
//! # How the list is kept
//! A frame that was never used stands before all used frames, in the initial order. A used frame is as old as
//! the last reference to the page that it holds or held last. At a placement the used part of the pool is
//! *validated* ([`UsedPool`]): a frame whose page has been referenced since leaves the pool, and the oldest
//! frames outside the pool join it ([`AgeQueue`]). Frames that remain in the pool are older than frames that
//! join, because frames outside can only have become younger. Appending therefore keeps the order.
//!
//! # Cost
//! A reference costs nothing. A placement costs O(log P) as long as K frames were never used ([`Fresh`]).
//!
//! Once fewer than K frames were never used, a placement also looks at the pages that were referenced since
//! the lane's last placement, or at the used part of the pool where this part is smaller. Each frame that was
//! touched since the list last looked at it costs O(log P), spread over placements.

use alloc::{vec, vec::Vec};

use binhop_base::{Domain, PageId, Rng, Stream};

use super::{
    PageRequest, Recency,
    age_queue::AgeQueue,
    bins::{BinCounts, Bins},
    content::{Content, Contents},
    fresh::Fresh,
    used_pool::UsedPool,
};

pub(crate) struct LruList {
    size: usize,
    /// The frames that were never used.
    fresh: Fresh,
    /// The number of wired frames, which are used and not in the list.
    wired: usize,
    contents: Contents,
    /// The used frames by age. `None` until the first placement that needs recency.
    followed: Option<Followed>,
    /// The counts by bin, if the policy asks about bins.
    bins: Option<Bins>,
}

/// `Followed` holds the used frames that are not wired, by age.
struct Followed {
    /// The used part of the pool, exact since the last [`renew`](LruList::renew).
    pool: UsedPool,
    age_queue: AgeQueue,
}

impl Followed {
    /// Follows every used frame that is not wired. All of them are outside the pool.
    fn of(size: usize, fresh: &Fresh, contents: &Contents) -> Self {
        let mut age_queue = AgeQueue::default();
        for frame in fresh.iter_used() {
            let content = contents.of(frame);
            if !content.is_wired() {
                age_queue.add(frame, content.last());
            }
        }
        Self { pool: UsedPool::new(size), age_queue }
    }
}

impl LruList {
    /// The bytes of a list, without the bytes for each frame and for the pool. They dominate in a list with few
    /// frames.
    pub(crate) const BYTES: usize = size_of::<Self>() + Contents::START;
    /// The further bytes of a small list once recency is read.
    pub(crate) const BYTES_FOLLOWED: usize = 128;

    /// Makes a list of unused frames in an order drawn from `rng`, with a pool of `size` frames (1 to all
    /// frames). `number` is the number of the list among the lists of the lane.
    pub(crate) fn new(frames: u32, rng: Rng, number: u64, size: usize, counts: Option<BinCounts>) -> Self {
        Self::of(Fresh::new(frames, rng, Stream::new(Domain::FrameOrder, number), size), size, counts)
    }

    fn of(fresh: Fresh, size: usize, counts: Option<BinCounts>) -> Self {
        let bins = counts.map(|counts| Bins::new(counts, fresh.frames(), fresh.first(size)));
        Self { size, wired: 0, contents: Contents::new(fresh.frames()), fresh, followed: None, bins }
    }

    pub(crate) fn len(&self) -> usize {
        self.fresh.frames()
    }

    pub(crate) fn needs_recency(&self) -> bool {
        self.never_used() < self.size
    }

    /// Returns the number of frames that were never used.
    fn never_used(&self) -> usize {
        self.fresh.frames() - self.fresh.used()
    }

    /// Returns the number of the pool's frames that were never used. They are the older part of the pool.
    fn fresh_len(&self) -> usize {
        self.never_used().min(self.size)
    }

    /// Learns which ranks the next placements pick, as long as no placement needs recency. `rank` returns the rank that
    /// a placement picks in a pool of so many frames, by its ordinal from the next placement on, if it is known.
    pub(crate) fn expect(&mut self, rank: impl Fn(u64, usize) -> Option<usize>) {
        if self.fresh.expects_nothing(self.size) && rank(0, self.size).is_some() {
            self.fresh.expect(self.size, (0..).map_while(|ordinal| rank(ordinal, self.size)));
        }
    }

    /// Returns the pool's frame at a rank below the pool's length.
    #[inline]
    pub(crate) fn frame(&self, rank: usize) -> u32 {
        let fresh = self.fresh_len();
        match &self.followed {
            Some(followed) if rank >= fresh => followed.pool.frame(rank - fresh),
            _ => self.fresh.at(rank),
        }
    }

    /// Returns the pool's frames, least recently used first.
    pub(crate) fn pool(&self) -> impl Iterator<Item = u32> {
        self.fresh
            .iter()
            .take(self.fresh_len())
            .chain(self.followed.iter().flat_map(|followed| followed.pool.iter()))
    }

    pub(crate) fn content(&self, frame: u32) -> Content {
        self.contents.of(frame)
    }

    /// Returns the counts by bin.
    #[inline]
    pub(super) fn bins(&self) -> Option<&Bins> {
        self.bins.as_ref()
    }

    /// Brings the pool up to date, and prepares the counts for a request.
    pub(crate) fn refresh(&mut self, request: &PageRequest, recency: &Recency) {
        if let Some(bins) = &mut self.bins {
            bins.prepare_for(request);
        }
        self.renew(recency);
    }

    /// Brings the pool up to date.
    pub(crate) fn renew(&mut self, recency: &Recency) {
        if !self.needs_recency() {
            return;
        }
        let available = self.fresh.used() - self.wired;
        let wanted = (self.size - self.never_used()).min(available);
        let portion = self.len() / 8;
        let Self { size, fresh, contents, followed, bins, .. } = self;
        let Followed { pool, age_queue } =
            followed.get_or_insert_with(|| Followed::of(*size, fresh, contents));
        pool.validate(recency, |entry| {
            age_queue.put_back(entry);
            if let Some(bins) = bins {
                bins.leave(entry.frame);
            }
        });
        while pool.len() < wanted {
            // The queue holds a frame: `wanted` frames were used and are not wired.
            let entry = age_queue.take_oldest(recency, portion);
            pool.join(entry);
            if let Some(bins) = bins {
                bins.enter(entry.frame);
            }
        }
    }

    /// Returns whether a frame is in the pool.
    pub(crate) fn holds(&self, frame: u64) -> bool {
        if frame >= self.len() as u64 {
            return false;
        }
        let frame = frame as u32;
        let used = |it: &Followed| it.pool.holds(frame, self.contents.of(frame).last());
        self.fresh.holds(frame) || self.followed.as_ref().is_some_and(used)
    }

    /// Returns the number of frames in the pool.
    pub(crate) fn pool_len(&self) -> usize {
        self.fresh_len() + self.followed.as_ref().map_or(0, |followed| followed.pool.len())
    }

    /// Counts the wired frames.
    pub(crate) fn wired(&self) -> u64 {
        self.contents.iter().filter(|content| content.is_wired()).count() as u64
    }

    /// Returns the number of frames that are not wired.
    pub(crate) fn unwired(&self) -> usize {
        self.len() - self.wired
    }

    /// Takes a frame out of the pool. Returns whether the frame was never used.
    fn take_out(&mut self, frame: u32) -> bool {
        let used = self.fresh.used();
        let next = match &mut self.followed {
            Some(followed) if !self.fresh.holds(frame) => {
                followed.pool.take(self.contents.of(frame).last());
                None
            }
            _ => self.fresh.take(frame, self.size),
        };
        if let Some(bins) = &mut self.bins {
            bins.leave(frame);
            next.into_iter().for_each(|next| bins.enter(next));
        }
        self.fresh.used() > used
    }

    /// Gives a frame of the pool to the page of a request. Returns the page that the frame held.
    pub(crate) fn take(&mut self, frame: u32, request: &PageRequest) -> Option<PageId> {
        let is_new = self.take_out(frame);
        if let Some(followed) = &mut self.followed {
            followed.age_queue.add(frame, request.page);
        }
        let old = self.replace(frame, is_new, Content::of(request.page));
        if let Some(bins) = &mut self.bins {
            bins.fill(frame, request);
        }
        old
    }

    /// Wires a frame of the pool for a page; the frame leaves the list. Returns the page that the frame held.
    pub(crate) fn wire(&mut self, frame: u32, page: PageId) -> Option<PageId> {
        let is_new = self.take_out(frame);
        self.wired += 1;
        self.replace(frame, is_new, Content::wired(page))
    }

    /// Returns a wired frame whose page has died to the list, as the youngest frame.
    pub(crate) fn unwire(&mut self, frame: u32) {
        let content = self.contents.of_mut(frame);
        content.unwire();
        self.wired -= 1;
        if let Some(followed) = &mut self.followed {
            followed.age_queue.add(frame, content.last());
        }
    }

    /// Changes the content of a frame. Returns the page that the frame held. `is_new` says whether the frame was never
    /// used.
    fn replace(&mut self, frame: u32, is_new: bool, content: Content) -> Option<PageId> {
        if is_new {
            self.contents.add(frame, content);
            return None;
        }
        let old = core::mem::replace(self.contents.of_mut(frame), content).page();
        if let (Some(bins), Some(_)) = (&mut self.bins, old) {
            bins.empty(frame);
        }
        old
    }

    /// Frees a frame whose page has died. The frame keeps its place.
    pub(crate) fn release(&mut self, frame: u32) {
        self.contents.of_mut(frame).release();
        if let Some(bins) = &mut self.bins {
            bins.empty(frame);
        }
    }

    /// Counts the frames that hold a page.
    pub(crate) fn held(&self) -> u64 {
        self.contents.iter().filter(|content| content.page().is_some()).count() as u64
    }

    /// Returns whether every frame stands in the list exactly once, and the counts agree with the frames.
    pub(crate) fn is_consistent(&self) -> bool {
        // A frame that was never used is in the initial order alone. So only used frames are looked at.
        let mut unseen = FrameSet::new(self.len());
        let (mut used, mut wired) = (0, 0);
        for frame in self.fresh.iter_used() {
            if !unseen.insert(frame) {
                return false;
            }
            used += 1;
            wired += usize::from(self.contents.of(frame).is_wired());
        }
        if let Some(followed) = &self.followed {
            let outside = followed.age_queue.iter().map(|entry| entry.frame);
            let mut listed = 0;
            for frame in followed.pool.iter().chain(outside) {
                listed += 1;
                // A wired frame is in no list, and no other used frame is in the lists twice.
                if self.contents.of(frame).is_wired() || !unseen.remove(frame) {
                    return false;
                }
            }
            if listed + wired != used {
                return false;
            }
        }
        used == self.fresh.used()
            && wired == self.wired
            && self.bins.as_ref().is_none_or(|bins| bins.are_consistent(self.pool(), &self.contents))
    }
}

/// `FrameSet` is a set of frames, with a bit for each.
struct FrameSet(Vec<u64>);

impl FrameSet {
    fn new(frames: usize) -> Self {
        Self(vec![0; frames.div_ceil(64)])
    }

    /// Adds a frame. Returns whether the set lacked it.
    fn insert(&mut self, frame: u32) -> bool {
        let (word, bit) = (&mut self.0[frame as usize / 64], 1 << (frame % 64));
        let lacked = *word & bit == 0;
        *word |= bit;
        lacked
    }

    /// Removes a frame. Returns whether the set held it.
    fn remove(&mut self, frame: u32) -> bool {
        let (word, bit) = (&mut self.0[frame as usize / 64], 1 << (frame % 64));
        let held = *word & bit != 0;
        *word &= !bit;
        held
    }
}

#[cfg(test)]
impl LruList {
    /// Makes a list in a given order.
    pub(crate) fn in_order(order: Vec<u32>, size: usize, counts: Option<BinCounts>) -> Self {
        Self::of(Fresh::in_order(order), size, counts)
    }

    /// Returns the number of trees of used frames.
    pub(crate) fn used_trees(&self) -> usize {
        self.bins().expect("the policy asks about bins").slots()
    }

    /// Drops a frame, so that a test can see the check fail.
    pub(super) fn corrupt_for_test(&mut self) {
        self.followed.as_mut().expect("the frames are followed").age_queue.corrupt_for_test();
    }
}
