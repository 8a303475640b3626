//! Counts by bin, kept only for a policy that declares how many bins it tells apart.
//!
//! Cost: one counter for each frame that enters or leaves the pool, one for each page placed, evicted or
//! dead. 4 B per bin, per frame, and per (segment, bin). A policy that declares none pays a test.

use alloc::{vec, vec::Vec};

use binhop_base::{Bin, FrameNo, PowerOfTwo};

use crate::SegmentId;

pub(super) struct Bins {
    bins: PowerOfTwo,
    /// Frames of the pool in each bin.
    available: Vec<u32>,
    /// Frames that hold a page, by segment × bins + bin; grows with the segments.
    used: Vec<u32>,
    /// The segment of the page in each frame.
    segment: Vec<SegmentId>,
}

impl Bins {
    pub(super) fn new(bins: PowerOfTwo, frames: usize, pool: &[u32]) -> Self {
        let available = vec![0; bins.bytes() as usize];
        let mut counts = Self { bins, available, used: Vec::new(), segment: vec![SegmentId(0); frames] };
        for &frame in pool {
            counts.enter(frame);
        }
        counts
    }

    pub(super) fn bin(&self, frame: u32) -> Bin {
        FrameNo(u64::from(frame)).bin(self.bins)
    }

    /// A frame enters the pool.
    pub(super) fn enter(&mut self, frame: u32) {
        let bin = self.bin(frame).index();
        self.available[bin] += 1;
    }

    /// A frame leaves the pool.
    pub(super) fn leave(&mut self, frame: u32) {
        let bin = self.bin(frame).index();
        self.available[bin] -= 1;
    }

    /// A frame gets a page of a segment.
    pub(super) fn fill(&mut self, frame: u32, segment: SegmentId) {
        let slot = self.slot(segment, self.bin(frame));
        if slot >= self.used.len() {
            self.used.resize((segment.0 as usize + 1) << self.bins.log2(), 0);
        }
        self.used[slot] += 1;
        self.segment[frame as usize] = segment;
    }

    /// A frame loses its page.
    pub(super) fn empty(&mut self, frame: u32) {
        let slot = self.slot(self.segment[frame as usize], self.bin(frame));
        self.used[slot] -= 1;
    }

    pub(super) fn available(&self, bin: Bin) -> u32 {
        self.available[bin.index()]
    }

    pub(super) fn used(&self, segment: SegmentId, bin: Bin) -> u32 {
        self.used.get(self.slot(segment, bin)).copied().unwrap_or(0)
    }

    fn slot(&self, segment: SegmentId, bin: Bin) -> usize {
        (segment.0 as usize) << self.bins.log2() | bin.index()
    }
}
