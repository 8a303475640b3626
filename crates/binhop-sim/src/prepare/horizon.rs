//! Since when a page is surely still in memory, whatever the placement.
//!
//! A placement may choose from the K least recently used of P frames, so a page can only be evicted while
//! at least P − K others have been referenced since its own last reference. The horizon is a time with
//! fewer than P − K distinct pages referenced since: a page referenced at or after it is resident in every
//! lane. A page older than that is asked for again in every lane (a [`super::tape::Control::Place`]), and
//! no filter believes its lines. Too old a horizon would be wrong; too recent a one only costs time.

use binhop_base::PageId;

/// Times of last reference, and the horizon that follows from them.
#[derive(Clone, Debug)]
pub(crate) struct Horizon {
    /// Frames outside the pool: P − K. `None`: nothing is ever evicted (identity).
    safe: Option<u64>,
    last: Vec<u64>,
    /// Pages whose time changed since the news were last taken.
    news: Vec<PageId>,
    /// When the news were last taken; later times are news already.
    told: u64,
    collect: bool,
    horizon: u64,
    /// At most so many distinct pages were referenced at or after the horizon.
    recent: u64,
}

/// Below this many frames outside the pool nothing is believed: the pages a single reference touches
/// could already evict each other.
const FEWEST_SAFE: u64 = 8;

/// Whether so few frames are safe that nothing is believed.
pub(super) fn is_tight(safe: u64) -> bool {
    safe < FEWEST_SAFE
}

impl Horizon {
    pub(crate) fn new(safe: Option<u64>) -> Self {
        let horizon = if safe.is_some_and(is_tight) { u64::MAX } else { 0 };
        Self { safe, last: Vec::new(), news: Vec::new(), told: 0, collect: false, horizon, recent: 0 }
    }

    /// Before this time no page is surely resident.
    #[inline]
    pub(crate) fn time(&self) -> u64 {
        self.horizon
    }

    /// Whether some lane may have evicted the page since its last reference. A page seen for the first
    /// time always needs a frame.
    #[inline]
    pub(crate) fn may_be_gone(&self, page: PageId) -> bool {
        self.last.get(page.index()).is_none_or(|&last| last < self.horizon)
    }

    /// Whether the page has never been referenced.
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

    /// A page that may have been gone is referenced at `now`: one more recent page. Moves the horizon
    /// on when that makes too many.
    pub(crate) fn one_more(&mut self, now: u64) {
        let Some(safe) = self.safe else { return };
        self.recent += 1;
        if self.horizon == u64::MAX || self.recent + FEWEST_SAFE / 2 < safe {
            return;
        }
        // Half of what is safe stays recent, so that this costs little per placement.
        let keep = (safe / 2) as usize;
        let mut times = self.last.clone();
        if times.len() > keep {
            let at = times.len() - keep;
            let (_, oldest_kept, _) = times.select_nth_unstable(at);
            self.horizon = *oldest_kept;
        } else {
            self.horizon = self.horizon.max(1);
        }
        debug_assert!(self.horizon <= now);
        self.recent = self.last.iter().filter(|&&last| last >= self.horizon).count() as u64;
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
