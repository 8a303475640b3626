//! `ResidencyHorizon` says since when a page is surely still in memory, whatever the placement.
//!
//! A placement may choose from the K least recently used of P frames, so a page can only be evicted while
//! at least P − K others have been referenced since its own last reference. The horizon is a time with
//! fewer than P − K distinct pages referenced since: a page referenced at or after it is resident in every
//! lane. A page older than that is asked for again in every lane (a [`super::block::Control::Place`]), and
//! no filter believes its lines. Too old a horizon would be wrong; too recent a horizon only costs time.
//!
//! A wired frame is not in the list of frames, so that with W of them the pool begins after P − W − K others: what is safe
//! is then P − K − W. References to wired pages do not count, but for the release of one (`binhop_os::Wired`). The pages
//! of units stay wired to the end.
//!
//! The pages referenced at or after the horizon, fewer than P − K, are kept in a list. When they become too many the
//! horizon moves to the median of their times, and the older half leaves the list. A page joins the list only when it is
//! asked for, so moving the horizon costs O(1) for each page asked for, however many pages there are.

use binhop_base::PageId;

/// Times of last reference, and the horizon that follows from them.
#[derive(Clone, Debug)]
pub(crate) struct ResidencyHorizon {
    /// Frames outside the pool: P − K. `None`: nothing is ever evicted (identity).
    safe: Option<u64>,
    last: Vec<u64>,
    /// Pages whose time changed since the news were last taken.
    news: Vec<PageId>,
    /// The time at which the news were last taken; later times are news already.
    told: u64,
    collect: bool,
    horizon: u64,
    /// The pages referenced at or after the horizon, each once; with them, last, the page that is referenced next.
    recent: Vec<PageId>,
    /// Pages that join the list before the horizon moves on.
    room: u64,
    /// Pages looked at while the horizon moved: counted by tests in place of time.
    #[cfg(test)]
    steps: u64,
}

/// Below this many frames outside the pool nothing is believed: the pages a single reference touches
/// could already evict each other.
const FEWEST_SAFE: u64 = 8;

/// Returns whether so few frames are safe that nothing is believed.
pub(super) fn is_tight(safe: u64) -> bool {
    safe < FEWEST_SAFE
}

impl ResidencyHorizon {
    pub(crate) fn new(safe: Option<u64>) -> Self {
        Self {
            safe,
            last: Vec::new(),
            news: Vec::new(),
            told: 0,
            collect: false,
            // Every reference is later than time 0, the time of a page that was never referenced.
            horizon: if safe.is_some_and(is_tight) { u64::MAX } else { 1 },
            recent: Vec::new(),
            room: safe.map_or(0, |safe| safe.saturating_sub(FEWEST_SAFE / 2)),
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Before this time no page is surely resident.
    #[inline]
    pub(crate) fn time(&self) -> u64 {
        self.horizon
    }

    /// Returns whether some lane may have evicted the page since its last reference. A page seen for the first
    /// time always needs a frame.
    #[inline]
    pub(crate) fn may_be_gone(&self, page: PageId) -> bool {
        self.last.get(page.index()).is_none_or(|&last| last < self.horizon)
    }

    /// Returns whether the page has never been referenced.
    pub(crate) fn is_new(&self, page: PageId) -> bool {
        self.last.get(page.index()).is_none_or(|&last| last == 0)
    }

    /// The page was referenced at `time`.
    #[inline]
    pub(crate) fn note(&mut self, page: PageId, time: u64) {
        if page.index() >= self.last.len() {
            self.last.resize(page.index() + 1, 0);
        }
        let last = &mut self.last[page.index()];
        if time > *last {
            if self.collect && *last <= self.told {
                self.news.push(page);
            }
            *last = time;
        }
    }

    /// A page that may have been gone is referenced next, at a time that is noted afterwards: one more recent page. Moves
    /// the horizon on when that makes too many, and then all other times must have been noted.
    pub(crate) fn one_more(&mut self, page: PageId) {
        let Some(safe) = self.safe.filter(|_| self.horizon != u64::MAX) else { return };
        debug_assert!(self.may_be_gone(page));
        self.room -= 1;
        if self.room == 0 {
            self.move_on(safe);
        }
        self.recent.push(page);
    }

    /// Returns true if the next call of [`one_more`](Self::one_more) moves the horizon: it needs all times then.
    pub(crate) fn moves_next(&self) -> bool {
        self.safe.is_some() && self.horizon != u64::MAX && self.room == 1
    }

    /// Half of what is safe stays recent, so that this costs little for each page asked for.
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
            // By time, not by number: two pages that one whole reference touches share a time.
            recent.retain(|page| time(page) >= self.horizon);
        }
        // The page that is referenced next is not counted: the slack has room for it.
        self.room = (safe - FEWEST_SAFE / 2).saturating_sub(recent.len() as u64).max(1);
    }

    /// Every page's time in order of time, for consumers that start to need them; from now on news are
    /// collected for them.
    pub(crate) fn all(&mut self) -> Vec<(PageId, u64)> {
        self.collect = true;
        self.news =
            (0..self.last.len() as u32).map(PageId).filter(|page| self.last[page.index()] > 0).collect();
        self.take_news()
    }

    /// The times that changed since the last call, in order of time.
    pub(crate) fn take_news(&mut self) -> Vec<(PageId, u64)> {
        let mut news: Vec<_> = self.news.drain(..).map(|page| (page, self.last[page.index()])).collect();
        news.sort_unstable_by_key(|&(_, time)| time);
        self.told = news.last().map_or(self.told, |&(_, time)| time);
        news
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The horizon as preparation drives it, beside the true time of every page's last reference.
    struct Driven {
        horizon: ResidencyHorizon,
        safe: u64,
        now: u64,
        truth: BTreeMap<u32, u64>,
        /// References that a filter dropped, whose times are noted late.
        late: BTreeMap<u32, u64>,
        asked: u64,
    }

    impl Driven {
        fn new(safe: u64) -> Self {
            let horizon = ResidencyHorizon::new(Some(safe));
            Self { horizon, safe, now: 0, truth: BTreeMap::new(), late: BTreeMap::new(), asked: 0 }
        }

        /// A reference; `dropped` if a filter that may believe the page's line drops it.
        fn refer(&mut self, page: u32, dropped: bool) {
            self.now += 1;
            let known = self.truth.insert(page, self.now);
            if dropped && known.is_some_and(|known| known >= self.horizon.time()) {
                self.late.insert(page, self.now);
                return;
            }
            let page = PageId(page);
            if self.horizon.may_be_gone(page) {
                for (page, time) in std::mem::take(&mut self.late) {
                    self.horizon.note(PageId(page), time);
                }
                self.horizon.one_more(page);
                self.asked += 1;
            }
            self.horizon.note(page, self.now);
        }

        /// The pages referenced at or after the horizon, counted one by one.
        fn recent(&self) -> u64 {
            self.truth.values().filter(|&&time| time >= self.horizon.time()).count() as u64
        }

        fn check(&self) {
            if is_tight(self.safe) {
                assert_eq!(self.recent(), 0);
                return;
            }
            // The oldest page believed has fewer than P − K others behind it, whatever one reference adds.
            assert!(
                self.recent() < self.safe,
                "{} pages since the horizon, {} safe",
                self.recent(),
                self.safe
            );
            // Recent enough: half of what is safe is never asked for again.
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
