//! `FrontRequests` holds the requests that level 1 makes, until the backs handle them.
//!
//! A back handles many requests before the next back does. So its tables for one line number stay in the processor's
//! caches meanwhile: together, the tables of all backs take more memory than these caches have.

use binhop_base::{Kind, PerKind};

use super::{By, MOST_LANES, Mask, after_marks::Part, counter::LaneCounter};

/// The number of requests that wait before the backs handle them. Tests make few requests, and check assertions.
const WAITING: usize = if cfg!(debug_assertions) { 16 } else { 2048 };

/// `FrontRequest` is a request of level 1 in some lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrontRequest {
    /// The line of level 1, and the logarithm of its size.
    pub(super) key: u64,
    pub(super) line_log2: u8,
    pub(super) part: Part,
    pub(super) kind: Kind,
    pub(super) by: By,
    pub(super) lanes: Mask,
}

impl FrontRequest {
    /// Returns the line that is asked for, in a cache with lines of at least this size.
    #[inline(always)]
    pub(super) fn key(&self, line_log2: u32) -> u64 {
        self.key >> (line_log2 - u32::from(self.line_log2))
    }

    /// Returns whether the request serves an access of the user after a walk.
    #[inline(always)]
    pub(super) fn is_after_walk(&self) -> bool {
        self.by == By::UserAfterWalk && self.kind != Kind::Writeback
    }
}

/// `FrontRequests` holds requests in the order in which level 1 made them.
#[derive(Clone, Debug, Default)]
pub(super) struct FrontRequests {
    requests: Vec<FrontRequest>,
    /// The number of these requests, by the place of the agent. Level 1 and every back count the same.
    counts: RequestCounts,
    /// True if one of these requests serves an access after a walk.
    pub(super) are_after_walks: bool,
}

/// `RequestCounts` holds the number of requests by the place of the agent (see [`By::agent`]), by kind and lane.
pub(super) type RequestCounts = [PerKind<LaneCounter>; 2];

impl FrontRequests {
    #[inline(always)]
    pub(super) fn push(&mut self, request: FrontRequest) {
        self.requests.push(request);
        self.counts[request.by.agent()][request.kind].add(request.lanes);
        self.are_after_walks |= request.is_after_walk();
    }

    /// Returns the bytes that the requests and their numbers take at most.
    pub(super) const fn bytes() -> u64 {
        // A list doubles its room. Besides its own request, an access makes one for each line that it writes back.
        let requests = 2 * (WAITING + MOST_LANES + 1) * size_of::<FrontRequest>();
        let totals = 2 * Kind::ALL.len() * size_of::<[u64; MOST_LANES]>();
        (requests + size_of::<RequestCounts>() + totals) as u64
    }

    /// Returns whether the backs should handle the requests now.
    #[inline(always)]
    pub(super) fn are_many(&self) -> bool {
        self.requests.len() >= WAITING
    }

    pub(super) fn all(&self) -> &[FrontRequest] {
        &self.requests
    }

    pub(super) fn counts(&self) -> &RequestCounts {
        &self.counts
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.are_after_walks = false;
        self.counts.iter_mut().flat_map(|counts| &mut counts.0).for_each(LaneCounter::clear);
    }
}
