//! `LaneFrames` knows the frame of each page in every lane, in the two forms that caches need.

use binhop_base::{FrameNo, PageId};

use super::Mask;

/// `PlacedPage` is a page that has got a frame in one lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedPage {
    pub(super) lane: usize,
    pub(super) page: PageId,
    /// The lower half of the frame's number.
    pub(super) lower: u32,
}

/// `LaneFrames` holds the frames of all pages in all lanes.
#[derive(Clone, Debug)]
pub(super) struct LaneFrames {
    lanes: usize,
    /// The number of lower bits of a frame for which a cache of level 1 may ask.
    bin_bits: u32,
    /// For each page and each of these bits, the lanes in which the page's frame has the bit.
    bits: Vec<Mask>,
    /// For each page and lane, the lower half of the number of its frame.
    lower: Vec<u32>,
}

impl LaneFrames {
    pub(super) fn new(lanes: usize, bin_bits: u32) -> Self {
        Self { lanes, bin_bits, bits: Vec::new(), lower: Vec::new() }
    }

    /// Returns whether there is room for a page.
    pub(super) fn know(&self, page: PageId) -> bool {
        page.index() * self.lanes < self.lower.len()
    }

    /// Notes the frame of a page in one lane.
    pub(super) fn put(&mut self, lane: usize, page: PageId, frame: FrameNo) {
        let (bits, first) = (self.bin_bits as usize, page.index() * self.bin_bits as usize);
        let pages = page.index() + 1;
        if self.lower.len() < pages * self.lanes {
            self.lower.resize(pages * self.lanes, 0);
            self.bits.resize(pages * bits, 0);
        }
        self.lower[page.index() * self.lanes + lane] = frame.0 as u32;
        for (bit, word) in self.bits[first..first + bits].iter_mut().enumerate() {
            *word = *word & !(1 << lane) | (frame.0 >> bit & 1) << lane;
        }
    }

    /// Returns the lanes in which the frame of a page has its lowest bit set. Some cache asks for a bit.
    #[inline(always)]
    pub(super) fn lowest_bit(&self, page: PageId) -> Mask {
        self.bits[page.index() * self.bin_bits as usize]
    }

    /// Returns the lanes in which the frames of two pages agree in their `bits` lowest bits.
    #[inline]
    pub(super) fn agree(&self, one: PageId, other: PageId, bits: u32) -> Mask {
        let words = |page: PageId| &self.bits[page.index() * self.bin_bits as usize..][..bits as usize];
        let differ = words(one).iter().zip(words(other)).fold(0, |differ, (one, other)| differ | one ^ other);
        !differ
    }

    /// Returns the lower half of the number of a page's frame, for each lane.
    #[inline]
    pub(super) fn lower(&self, page: PageId) -> &[u32] {
        &self.lower[page.index() * self.lanes..][..self.lanes]
    }
}
