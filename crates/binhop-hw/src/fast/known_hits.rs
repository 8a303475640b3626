//! `KnownHitFilter` removes requests that hit in every cache behind one front and change nothing there.
//!
//! Of all lines that may share a set in the cache of fewest sets, the one requested last is present in every cache,
//! whatever its ways and replacement: nothing has come into its set since. Another request for it hits
//! everywhere. Where a repeated hit is neutral to the replacement it changes nothing but, if it brings data, the dirty bit.
//!
//! A cache whose lines are larger than those above is asked for neighbours one after another, so this takes out
//! a good part of all requests. The known-hit filter costs one table look-up a request, whatever the number of caches.

use std::ops::Range;

use binhop_base::{Kind, PageId, PerKind, Translation};

use crate::{
    Tree,
    fast::known_hits,
    request::{MEMORY, Request, is_data},
};

/// Lines requested last, each in its slot: word of a line is its key × 2, plus whether it is dirty.
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

    /// Whether a request repeats the last one of its slot, to no effect. From now on it is the last.
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

    /// Empties the slots that hold a line whose key lies in `keys`: `slot_of` each key, if there are fewer keys than
    /// slots.
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

/// Takes out what changes nothing behind the front of one lane.
#[derive(Clone, Debug)]
pub struct KnownHitFilter {
    cache: u8,
    log2: u32,
    mask: u64,
    last: LastRequests,
}

impl KnownHitFilter {
    /// For several trees of one front, each with one cache behind it: before memory, write-back, allocating, not
    /// inclusive, without a write buffer, of a replacement that a repeated hit leaves alone, indexed by plain physical
    /// address, of the same line; `None` for others, or for a single tree.
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

    /// Takes out what changes nothing: so many hits in each cache.
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

    /// The lines of a page leave every cache, because its frame changes hands. `translation` still leads to that frame.
    /// The lines of other pages stay where they are, so their slots stay true.
    ///
    /// Costs a look at as many slots as the page has lines, or at all slots where these are fewer.
    pub fn forget<T: Translation>(&mut self, page: PageId, translation: &T) {
        let Self { log2, mask, .. } = *self;
        let first = u64::from(page.0) << log2;
        let base = translation.frame(page).0 << log2;
        self.last.forget(first..first + (1 << log2), |key| ((base | (key - first)) & mask) as usize);
    }
}
