//! `Bench` tests one policy: a test spells out the state of memory, and asks for one decision at a time.

use alloc::{boxed::Box, vec::Vec};

use binhop_base::{Asid, PageId, PageNo, Rng};

use super::Settings;
use crate::frame::lru::LruList;
use crate::{Draws, PageRequest, Pool, PoolPolicy, Recency, SegmentId};

/// Returns a request for a page of address space 1 at virtual page 0. Segment 1 is the only segment.
pub(crate) fn page(number: u32) -> PageRequest {
    let (asid, segment) = (Asid(1), SegmentId(1));
    PageRequest {
        page: PageId(number),
        asid,
        page_no: PageNo(0),
        segment,
        segments: [segment].into(),
        run: None,
        in_kernel: false,
    }
}

impl PageRequest {
    /// Returns the request at another virtual page.
    pub(crate) fn at(self, page_no: u64) -> Self {
        Self { page_no: PageNo(page_no), ..self }
    }

    /// Returns the request by another address space.
    pub(crate) fn by(self, asid: u32) -> Self {
        Self { asid: Asid(asid), ..self }
    }

    /// Returns the request in the first of these segments, by an address space that has all of them.
    pub(crate) fn of(self, segments: &[u32]) -> Self {
        let segments: Vec<SegmentId> = segments.iter().copied().map(SegmentId).collect();
        Self { segment: segments[0], segments: segments.into(), ..self }
    }
}

/// `Bench` is a list of frames, and a policy that chooses from its pool.
pub(crate) struct Bench {
    list: LruList,
    policy: Box<dyn PoolPolicy>,
    seed: u64,
    faults: u64,
    entered: Option<u32>,
}

impl Bench {
    /// Makes frames in this order, least recently used first. The first `pool` frames are the pool.
    pub(crate) fn new(policy: &str, settings: Settings, order: &[u32], pool: usize) -> Self {
        let settings = Settings { frames: order.len() as u64, pool: pool as u64, ..settings };
        let policy = super::policy(policy).unwrap().build(&settings).unwrap();
        let list = LruList::in_order(order.to_vec(), pool, policy.bin_counts());
        Self { list, policy, seed: 0, faults: 0, entered: None }
    }

    /// Makes a memory from the pairs <used, free> of KH90's figures, one pair for each bin. Segment 1 uses
    /// the first number of frames of the bin, and the second number of other frames is in the pool.
    pub(crate) fn with_pairs(policy: &str, settings: Settings, pairs: &[(u32, u32)]) -> Self {
        let bins = pairs.len() as u32;
        let frames = |of: fn(&(u32, u32)) -> (u32, u32)| {
            let of_bin = move |(bin, pair)| {
                let (from, to) = of(pair);
                (from..to).map(move |row| row * bins + bin)
            };
            (0..).zip(pairs).flat_map(of_bin).collect::<Vec<u32>>()
        };
        // All bins must have equally many frames. Frames that are neither used nor free are the most recently
        // used.
        let rows = pairs.iter().map(|(used, free)| used + free).max().unwrap();
        let used = frames(|&(used, _)| (0, used));
        let free = frames(|&(used, free)| (used, used + free));
        let mut order = [&used[..], &free[..]].concat();
        order.extend((0..rows * bins).filter(|frame| !order.contains(frame)).collect::<Vec<_>>());
        let mut bench = Self::new(policy, settings, &order, free.len());
        for (number, frame) in (0..).zip(used) {
            bench.put(frame, &page(1000 + number));
        }
        bench
    }

    /// Changes the seed of the draws.
    pub(crate) fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    fn draws(&self) -> Draws {
        Draws::new(Rng::new(self.seed), self.faults)
    }

    /// Puts a page into a frame of the pool.
    pub(crate) fn put(&mut self, frame: u32, request: &PageRequest) {
        let recency = Recency::new();
        self.list.refresh(request, &recency);
        assert!(self.list.holds(frame.into()));
        let before: Vec<u32> = self.list.pool().collect();
        self.list.take(frame, request);
        self.entered = self.list.pool().find(|frame| !before.contains(frame));
    }

    /// Returns the frame that the policy chooses for a page, without placing the page.
    pub(crate) fn choose(&mut self, request: &PageRequest) -> u32 {
        self.list.refresh(request, &Recency::new());
        let draws = self.draws();
        self.policy.choose(request, &Pool::new(&self.list), draws).unwrap().0 as u32
    }

    /// Places a page by the policy, and returns the frame.
    pub(crate) fn place(&mut self, request: &PageRequest) -> u32 {
        let frame = self.choose(request);
        self.faults += 1;
        self.put(frame, request);
        frame
    }

    /// Frees a frame whose page dies.
    pub(crate) fn release(&mut self, frame: u32) {
        self.list.release(frame);
    }

    /// Returns <used, free> of the bins whose lowest `level` bits are `low`, for an address space with
    /// segment 1.
    pub(crate) fn pair(&mut self, level: u32, low: u32) -> (u64, u64) {
        self.list.refresh(&page(0), &Recency::new());
        let pool = Pool::new(&self.list);
        (pool.used_below(level, low), pool.available_below(level, low))
    }

    /// Returns the number of trees of used frames.
    pub(crate) fn used_trees(&self) -> usize {
        self.list.used_trees()
    }

    /// Returns the frame that entered the pool when the last page was put into a frame.
    pub(crate) fn entered(&self) -> Option<u32> {
        self.entered
    }

    /// Checks that all lists and counts are true.
    pub(crate) fn check(&self) {
        assert!(self.list.is_consistent());
    }
}
