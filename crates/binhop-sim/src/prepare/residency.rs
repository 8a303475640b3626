//! `ResidencyHorizon` says since when a page is surely still in memory, whatever the placement.
//!
//! A placement chooses among the K least recently used of P frames, so a page can be evicted only after at
//! least P − K other pages were referenced since its own last reference. The horizon is a time since which
//! fewer than P − K distinct pages were referenced. A page referenced at or after the horizon is resident in
//! every lane. For an older page every lane is asked again (a [`super::block::Control::Place`]), and no
//! filter trusts its lines. A horizon that is too old would be wrong; a horizon that is too recent only
//! costs time.
//!
//! A wired frame is not in the list of frames. With W wired frames the pool begins after P − W − K other
//! pages, so P − K − W frames are safe. References to wired pages do not count, except the release of a wired
//! frame (`binhop_os::WiredKind`). The pages of units stay wired to the end.
//!
//! A list holds the pages referenced at or after the horizon, fewer than P − K. When the list grows too long,
//! the horizon moves to the median of the pages' times, and the older half leaves the list. A page joins the
//! list only when lanes are asked for it. So moving the horizon costs O(1) for each page asked for, whatever
//! the number of pages.

use binhop_base::PageId;

/// `ResidencyHorizon` holds the times of last reference, and the horizon that follows from them.
#[derive(Clone, Debug)]
pub(crate) struct ResidencyHorizon {
    /// The frames outside the pool: P − K. `None`: nothing is ever evicted (identity).
    safe: Option<u64>,
    last: Vec<u64>,
    /// The pages whose times have changed since the changes were last taken.
    changed: Vec<PageId>,
    /// The time at which the changes were last taken. Pages with later times are already among the changes.
    taken_at: u64,
    collect: bool,
    horizon: u64,
    /// The pages referenced at or after the horizon, each once, and as the last entry the page that is
    /// referenced next.
    recent: Vec<PageId>,
    /// The number of pages that may join the list before the horizon moves.
    room: u64,
    /// The pages visited while the horizon moved. Tests count them instead of time.
    #[cfg(test)]
    steps: u64,
}

/// The number of frames outside the pool below which no page is surely resident: the pages that a single
/// reference touches could already evict each other.
const FEWEST_SAFE: u64 = 8;

/// Returns whether so few frames are safe that no page is surely resident.
pub(super) fn is_tight(safe: u64) -> bool {
    safe < FEWEST_SAFE
}

impl ResidencyHorizon {
    pub(crate) fn new(safe: Option<u64>) -> Self {
        Self {
            safe,
            last: Vec::new(),
            changed: Vec::new(),
            taken_at: 0,
            collect: false,
            // Every reference is later than time 0, the time of a page that was never referenced.
            horizon: if safe.is_some_and(is_tight) { u64::MAX } else { 1 },
            recent: Vec::new(),
            room: safe.map_or(0, |safe| safe.saturating_sub(FEWEST_SAFE / 2)),
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Returns the horizon: before this time no page is surely resident.
    #[inline]
    pub(crate) fn time(&self) -> u64 {
        self.horizon
    }

    /// Returns whether some lane may have evicted the page since its last reference. A page that is seen for
    /// the first time always needs a frame.
    #[inline]
    pub(crate) fn may_be_evicted(&self, page: PageId) -> bool {
        self.last.get(page.index()).is_none_or(|&last| last < self.horizon)
    }

    /// Returns whether the page has never been referenced.
    pub(crate) fn is_new(&self, page: PageId) -> bool {
        self.last.get(page.index()).is_none_or(|&last| last == 0)
    }

    /// Notes that the page was referenced at `time`.
    #[inline]
    pub(crate) fn note(&mut self, page: PageId, time: u64) {
        if page.index() >= self.last.len() {
            self.last.resize(page.index() + 1, 0);
        }
        let last = &mut self.last[page.index()];
        if time > *last {
            if self.collect && *last <= self.taken_at {
                self.changed.push(page);
            }
            *last = time;
        }
    }

    /// Notes that a page that may have been evicted is referenced next: there is one more recent page. If
    /// there are too many, the horizon moves. Then all other times must have been noted.
    pub(crate) fn one_more(&mut self, page: PageId) {
        let Some(safe) = self.safe.filter(|_| self.horizon != u64::MAX) else { return };
        debug_assert!(self.may_be_evicted(page));
        self.room -= 1;
        if self.room == 0 {
            self.move_on(safe);
        }
        self.recent.push(page);
    }

    /// Returns whether the next call of [`one_more`](Self::one_more) moves the horizon, and so needs all
    /// times.
    pub(crate) fn moves_next(&self) -> bool {
        self.safe.is_some() && self.horizon != u64::MAX && self.room == 1
    }

    /// Moves the horizon. Half of the safe number of pages stays recent, so that a move costs little for each
    /// page asked for.
    fn move_on(&mut self, safe: u64) {
        let keep = (safe / 2) as usize;
        let Self { recent, last, .. } = self;
        #[cfg(test)]
        {
            self.steps += recent.len() as u64;
        }
        let time = |page: &PageId| last[page.index()];
        if last.len() > keep {
            let older = recent.len().saturating_sub(keep);
            let (_, oldest_kept, _) = recent.select_nth_unstable_by_key(older, time);
            self.horizon = time(oldest_kept);
            // The comparison is by time, not by number: two pages that one reference touches share a time.
            recent.retain(|page| time(page) >= self.horizon);
        }
        // The page that is referenced next is not counted. The slack has room for it.
        self.room = (safe - FEWEST_SAFE / 2).saturating_sub(recent.len() as u64).max(1);
    }

    /// Returns every page's time, in order of time, for consumers that start to need the times. From now on
    /// changes are collected for them.
    pub(crate) fn all(&mut self) -> Vec<(PageId, u64)> {
        self.collect = true;
        self.changed =
            (0..self.last.len() as u32).map(PageId).filter(|page| self.last[page.index()] > 0).collect();
        self.take_changes()
    }

    /// Returns the times that have changed since the last call, in order of time.
    pub(crate) fn take_changes(&mut self) -> Vec<(PageId, u64)> {
        let mut changed: Vec<_> =
            self.changed.drain(..).map(|page| (page, self.last[page.index()])).collect();
        changed.sort_unstable_by_key(|&(_, time)| time);
        self.taken_at = changed.last().map_or(self.taken_at, |&(_, time)| time);
        changed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// `Driven` is the horizon as preparation drives it, beside the true time of every page's last reference.
    struct Driven {
        horizon: ResidencyHorizon,
        safe: u64,
        now: u64,
        truth: BTreeMap<u32, u64>,
        /// The references that a filter skipped. Their times are noted late.
        late: BTreeMap<u32, u64>,
        asked: u64,
    }

    impl Driven {
        fn new(safe: u64) -> Self {
            let horizon = ResidencyHorizon::new(Some(safe));
            Self { horizon, safe, now: 0, truth: BTreeMap::new(), late: BTreeMap::new(), asked: 0 }
        }

        /// Makes a reference. `dropped` says that a filter that may trust the page's line skips the
        /// reference.
        fn refer(&mut self, page: u32, dropped: bool) {
            self.now += 1;
            let known = self.truth.insert(page, self.now);
            if dropped && known.is_some_and(|known| known >= self.horizon.time()) {
                self.late.insert(page, self.now);
                return;
            }
            let page = PageId(page);
            if self.horizon.may_be_evicted(page) {
                for (page, time) in std::mem::take(&mut self.late) {
                    self.horizon.note(PageId(page), time);
                }
                self.horizon.one_more(page);
                self.asked += 1;
            }
            self.horizon.note(page, self.now);
        }

        /// Counts the pages referenced at or after the horizon one by one.
        fn recent(&self) -> u64 {
            self.truth.values().filter(|&&time| time >= self.horizon.time()).count() as u64
        }

        fn check(&self) {
            if is_tight(self.safe) {
                assert_eq!(self.recent(), 0);
                return;
            }
            // The oldest page that is surely resident has fewer than P − K pages behind it, whatever one
            // reference adds.
            assert!(
                self.recent() < self.safe,
                "{} pages since the horizon, {} safe",
                self.recent(),
                self.safe
            );
            // The horizon is recent enough: lanes are never asked again for half of the safe number of pages.
            let half = (self.safe / 2).min(self.truth.len() as u64);
            assert!(self.recent() >= half, "{} pages since the horizon, {} safe", self.recent(), self.safe);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        #[test]
        fn the_horizon_is_safe_and_no_more_recent_than_it_must_be(
            safe in 0..40u64,
            pages in 1..120u32,
            references in prop::collection::vec((any::<u32>(), any::<bool>()), 1..600),
        ) {
            let mut driven = Driven::new(safe);
            for (page, dropped) in references {
                driven.refer(page % pages, dropped);
                driven.check();
            }
        }
    }

    #[test]
    fn moving_the_horizon_costs_the_same_for_any_number_of_pages() {
        for safe in [8, 9, 16, 100] {
            let mut driven = Driven::new(safe);
            for page in 0..20_000 {
                driven.refer(page, false);
            }
            assert_eq!(driven.asked, 20_000);
            assert!(driven.horizon.steps <= 10 * driven.asked, "{} steps, {safe} safe", driven.horizon.steps);
        }
    }
}
