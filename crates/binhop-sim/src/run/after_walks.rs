//! `AfterWalks` notes what level 1 did with the accesses that follow walks, where the accesses of walks are rows.

use binhop_base::Kind;
use binhop_hw::{Below, Request, Witness};

/// `MissAfterWalk` is an access after a walk that missed level 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissAfterWalk {
    pub(super) kind: Kind,
    /// The number of requests before the access.
    pub(super) from: usize,
    /// The number of requests behind the access.
    pub(super) to: usize,
}

/// `AfterWalks` holds the accesses after walks of some rows.
#[derive(Debug, Default)]
pub(super) struct AfterWalks {
    /// The hits: fetches, loads, stores.
    hits: [u64; 3],
    pub(super) misses: Vec<MissAfterWalk>,
    /// The number of requests before the access that is being made.
    from: usize,
}

impl AfterWalks {
    /// Forgets all accesses.
    pub(super) fn clear(&mut self) {
        self.hits = [0; 3];
        self.misses.clear();
    }

    /// Begins to note the accesses of some rows, whose requests join `requests`.
    pub(super) fn of<'a>(&'a mut self, requests: &'a mut Vec<Request>) -> WithRequests<'a> {
        WithRequests { requests, after_walks: self }
    }

    /// Returns the kinds with their hits.
    pub(super) fn hits_by_kind(&self) -> impl Iterator<Item = (Kind, u64)> {
        [Kind::Fetch, Kind::Load, Kind::Store].into_iter().zip(self.hits)
    }
}

/// `WithRequests` keeps the requests of a front, beside the accesses after walks.
pub(super) struct WithRequests<'a> {
    requests: &'a mut Vec<Request>,
    after_walks: &'a mut AfterWalks,
}

impl Witness for WithRequests<'_> {}

impl Below for WithRequests<'_> {
    #[inline]
    fn request(&mut self, request: Request, _now: u64) -> u64 {
        self.requests.push(request);
        0
    }

    #[inline]
    fn begin_after_walk(&mut self) {
        self.after_walks.from = self.requests.len();
    }

    #[inline]
    fn end_after_walk(&mut self, kind: Kind, missed: bool, accesses: u64) {
        let AfterWalks { hits, misses, from } = &mut *self.after_walks;
        if missed {
            misses.push(MissAfterWalk { kind, from: *from, to: self.requests.len() });
        } else {
            hits[kind as usize] += accesses;
        }
    }
}
