//! Recency: the time at which each page was last referenced, the same in every lane.

use alloc::vec::Vec;

use binhop_base::PageId;

/// The time of each page's last reference. Lanes differ only in which pages are resident, so one table
/// serves them all, and no lane does anything at a reference that needs no placement.
///
/// Times are whatever the caller counts in; they start at 1 and no two references to different pages share
/// one. A run of references to one page may be noted once, at its end.
///
/// The table also keeps the *news*: the pages that were noted last, as many as there are pages (fewer after a return
/// to an earlier moment). So a lane that looks often need not look at every page that it follows, only at those
/// noted since.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    last: Vec<u64>,
    /// The pages noted after the first `forgotten` notes, in order.
    news: Vec<PageId>,
    forgotten: u64,
}

/// Fewer news are never forgotten.
const NEWS: usize = 1 << 10;

impl Recency {
    /// No page was referenced yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a reference to a page, later than all before it. Returns the time of the reference before it, or 0.
    #[inline]
    pub fn note(&mut self, page: PageId, time: u64) -> u64 {
        debug_assert!(time > 0);
        if page.index() >= self.last.len() {
            self.grow(page);
        }
        if self.news.len() == self.news.capacity() {
            self.forget();
        }
        self.news.push(page);
        core::mem::replace(&mut self.last[page.index()], time)
    }

    /// Goes back to an earlier moment. `before` are the pages noted since with the times that they had then, the
    /// latest note first.
    pub fn go_back(&mut self, moment: u64, before: impl Iterator<Item = (PageId, u64)>) {
        for (page, time) in before {
            self.last[page.index()] = time;
        }
        self.news.truncate(moment.saturating_sub(self.forgotten) as usize);
        self.forgotten = self.forgotten.min(moment);
    }

    #[cold]
    fn grow(&mut self, page: PageId) {
        let len = (page.index() + 1).next_power_of_two();
        self.last.resize(len, 0);
    }

    /// Makes room for news, and forgets the older half of those that are more than anybody asks for.
    #[cold]
    fn forget(&mut self) {
        let kept = self.last.len().max(NEWS);
        if self.news.len() >= 2 * kept {
            let forgotten = self.news.len() - kept;
            self.news.drain(..forgotten);
            self.forgotten += forgotten as u64;
        } else {
            self.news.reserve_exact(2 * kept - self.news.len());
        }
    }

    /// The time of the last reference to a page; 0 if there was none.
    #[inline]
    #[must_use]
    pub fn last(&self, page: PageId) -> u64 {
        self.last.get(page.index()).copied().unwrap_or(0)
    }

    /// The number of notes so far: a name for this moment.
    #[must_use]
    pub fn moment(&self) -> u64 {
        self.forgotten + self.news.len() as u64
    }

    /// The pages noted since an earlier moment, in order and each as often as it was noted; `None` where some of
    /// them are forgotten.
    #[must_use]
    pub fn news_since(&self, moment: u64) -> Option<&[PageId]> {
        let known = usize::try_from(moment.checked_sub(self.forgotten)?).ok()?;
        self.news.get(known..)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PageId, Recency, Vec};

    proptest! {
        /// Notes, and returns to the moment where the last block of notes began, against a plain list of notes.
        #[test]
        fn news_are_the_notes_since_or_forgotten(
            pages in 1..3000u32,
            blocks in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u32>(), 0..900)), 1..12),
        ) {
            let (mut recency, mut notes) = (Recency::new(), Vec::<PageId>::new());
            let (mut time, mut returned) = (0, 0);
            for (again, block) in blocks {
                let (begun, mut before) = (recency.moment(), Vec::new());
                prop_assert_eq!(begun, notes.len() as u64);
                for &page in &block {
                    time += 1;
                    let page = PageId(page % pages);
                    before.push((page, recency.note(page, time)));
                    notes.push(page);
                }
                if again {
                    recency.go_back(begun, before.into_iter().rev());
                    notes.truncate(begun as usize);
                    returned = notes.len();
                }
                prop_assert_eq!(recency.moment(), notes.len() as u64);
                for moment in 0..=notes.len() {
                    let news = recency.news_since(moment as u64);
                    prop_assert!(news.is_none_or(|news| *news == notes[moment..]));
                    let many = notes.len() - moment > pages as usize;
                    prop_assert!(news.is_some() || many || moment < returned);
                }
                prop_assert_eq!(recency.news_since(notes.len() as u64 + 1), None);
            }
        }
    }
}
