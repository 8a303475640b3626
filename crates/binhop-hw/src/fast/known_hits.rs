//! `KnownHitFilter` removes requests that hit in every cache behind one front and change nothing there.
//!
//! Consider all lines that share a set in the cache with the fewest sets. Of these lines, the line requested last is
//! present in every cache, whatever the ways and the replacement: no other line has come into its set since. Another
//! request for this line hits everywhere. If the replacement ignores a repeated hit, the request changes at most the
//! dirty bit, and only if it brings data.
//!
//! A cache whose lines are larger than the lines above is asked for neighbours one after another, so the filter
//! removes a good part of all requests. It costs one table look-up a request, whatever the number of caches.

use std::ops::Range;

use binhop_base::{Kind, PageId, PerKind, Translation};

use crate::{
    Tree,
    fast::known_hits,
    request::{MEMORY, Request, is_data},
};

/// `LastRequests` holds the line requested last in each slot. The word of a line is its key × 2, plus 1 if the line
/// is dirty.
#[derive(Clone, Debug)]
pub(crate) struct LastRequests(Vec<u64>);

impl LastRequests {
    const NOTHING: u64 = u64::MAX;

    pub(crate) fn new(slots: usize) -> Self {
        Self(vec![Self::NOTHING; slots])
    }

    pub(crate) fn slots(&self) -> usize {
        self.0.len()
    }

    /// Returns whether a request repeats the last request of its slot without effect, and notes it as the last request.
    #[inline(always)]
    pub(crate) fn repeats(&mut self, slot: usize, key: u64, kind: Kind) -> bool {
        let (clean, data) = (key << 1, u64::from(is_data(kind)));
        let last = &mut self.0[slot];
        let again = *last ^ clean <= 1;
        if again && *last & 1 >= data {
            return true;
        }
        *last = clean | data | if again { *last & 1 } else { 0 };
        false
    }

    /// Empties the slots that hold a line whose key lies in `keys`. Looks at the slot of each key (`slot_of`), or at
    /// all slots if these are fewer.
    fn forget(&mut self, keys: Range<u64>, slot_of: impl Fn(u64) -> usize) {
        let forget = |last: &mut u64| {
            if keys.contains(&(*last >> 1)) {
                *last = Self::NOTHING;
            }
        };
        if keys.end - keys.start < self.0.len() as u64 {
            keys.clone().for_each(|key| forget(&mut self.0[slot_of(key)]));
        } else {
            self.0.iter_mut().for_each(forget);
        }
    }
}

/// `KnownHitFilter` removes requests that change nothing behind the front of one lane.
#[derive(Clone, Debug)]
pub struct KnownHitFilter {
    cache: u8,
    log2: u32,
    mask: u64,
    last: LastRequests,
}

impl KnownHitFilter {
    /// Makes a filter for several trees of one front, each with one cache between the front and memory. The caches
    /// must be write-back and allocating, not inclusive, without a write buffer, indexed by plain physical address,
    /// of equal lines, and of a replacement that ignores a repeated hit. Returns `None` for other trees, and for a
    /// single tree.
    #[must_use]
    pub fn new(trees: &[&Tree]) -> Option<Self> {
        let behind =
            |tree: &&Tree| known_hits(tree).ok().map(|cache| (cache, tree.config().caches[cache].sets()));
        let sets = trees.iter().map(behind).collect::<Option<Vec<(usize, u64)>>>()?;
        let (&(cache, _), _) = sets.split_first().filter(|(_, more)| !more.is_empty())?;
        let fewest = sets.iter().map(|&(_, sets)| sets).min()?;
        let config = trees[0].config();
        let line = config.caches[cache].line;
        if trees.iter().any(|tree| tree.config().caches[cache].line != line) {
            return None;
        }
        Some(Self {
            cache: cache as u8,
            log2: config.page.log2() - line.log2(),
            mask: fewest - 1,
            last: LastRequests::new(fewest as usize),
        })
    }

    /// Removes the requests that change nothing. Returns their number: each is a hit in every cache.
    pub fn filter<T: Translation>(&mut self, requests: &mut Vec<Request>, translation: &T) -> PerKind<u64> {
        let mut hits = PerKind::default();
        requests.retain(|request| {
            if request.to != self.cache {
                debug_assert_eq!(request.to, MEMORY);
                return true;
            }
            let (id, line) = (request.at.id, u64::from(request.at.line));
            let slot = (translation.frame(PageId(id)).0 << self.log2 | line) & self.mask;
            let again = self.last.repeats(slot as usize, u64::from(id) << self.log2 | line, request.kind);
            hits[request.kind] += u64::from(again);
            !again
        });
        hits
    }

    /// Empties the slots of a page that leaves every cache, because its frame changes hands. `translation` still
    /// answers that frame. The lines of other pages stay where they are, so their slots stay valid.
    ///
    /// The cost is a look at as many slots as the page has lines, or at all slots if these are fewer.
    pub fn forget<T: Translation>(&mut self, page: PageId, translation: &T) {
        let Self { log2, mask, .. } = *self;
        let first = u64::from(page.0) << log2;
        let base = translation.frame(page).0 << log2;
        self.last.forget(first..first + (1 << log2), |key| ((base | (key - first)) & mask) as usize);
    }
}
