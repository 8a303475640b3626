//! `AfterWalks` notes what level 1 did with the accesses that follow walks, where the accesses of walks are rows.

use binhop_base::{Agent, Kind};
use binhop_hw::{Below, Request, Witness};

use crate::translation::{ServedLevel, TranslationCounts};

/// `AfterWalks` holds the accesses after walks of some rows, by kind: fetches, loads, stores. An access that misses
/// level 1 makes a request, which says that it comes after a walk. The back then counts the level that serves it.
#[derive(Debug, Default)]
pub(super) struct AfterWalks {
    /// The hits.
    hits: [u64; 3],
    /// The misses that have made no demand request of the back.
    served_before: [u64; 3],
    /// True while an access is made that has made no demand request yet.
    awaits: bool,
}

impl AfterWalks {
    /// Begins to note the accesses of some rows, whose requests join `requests`.
    pub(super) fn of<'a>(&'a mut self, requests: &'a mut Vec<Request>) -> WithRequests<'a> {
        WithRequests { requests, after_walks: self }
    }

    /// Counts the levels that served the accesses which the back does not count. Forgets all accesses.
    pub(super) fn count(&mut self, counts: &mut TranslationCounts) {
        let Self { hits, served_before, .. } = std::mem::take(self);
        for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
            counts.add_served(kind, ServedLevel::First, hits[kind as usize]);
            counts.add_served(kind, ServedLevel::Behind, served_before[kind as usize]);
        }
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
    fn request(&mut self, mut request: Request, _now: u64) -> u64 {
        let awaits = &mut self.after_walks.awaits;
        if *awaits && request.kind.is_demand() && request.origin.agent() == Agent::User {
            *awaits = false;
            request.origin = request.origin.after_walk();
        }
        self.requests.push(request);
        0
    }

    #[inline]
    fn begin_after_walk(&mut self) {
        self.after_walks.awaits = true;
    }

    #[inline]
    fn end_after_walk(&mut self, kind: Kind, missed: bool, accesses: u64) {
        let AfterWalks { hits, served_before, awaits } = &mut *self.after_walks;
        let unheard = std::mem::take(awaits);
        if !missed {
            hits[kind as usize] += accesses;
        } else if unheard {
            served_before[kind as usize] += accesses;
        }
    }
}
