//! Recency: the time at which each page was last referenced, the same in every lane.

use alloc::vec::Vec;

use binhop_base::PageId;

/// The time of each page's last reference. Lanes differ only in which pages are resident, so one table
/// serves them all, and no lane does anything at a reference that needs no placement.
///
/// Times are whatever the caller counts in; they start at 1 and no two references to different pages share
/// one. A run of references to one page may be noted once, at its end.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    last: Vec<u64>,
}

impl Recency {
    /// No page was referenced yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A reference to a page, later than all before it.
    #[inline]
    pub fn note(&mut self, page: PageId, time: u64) {
        debug_assert!(time > 0);
        if page.index() >= self.last.len() {
            self.grow(page);
        }
        self.last[page.index()] = time;
    }

    /// Puts another time in place of that of a page's last reference, or 0 as if there was none; returns what stood
    /// there. To go back to an earlier moment, put back what stood there then.
    #[inline]
    pub fn replace(&mut self, page: PageId, time: u64) -> u64 {
        if page.index() >= self.last.len() {
            self.grow(page);
        }
        core::mem::replace(&mut self.last[page.index()], time)
    }

    #[cold]
    fn grow(&mut self, page: PageId) {
        let len = (page.index() + 1).next_power_of_two();
        self.last.resize(len, 0);
    }

    /// The time of the last reference to a page; 0 if there was none.
    #[inline]
    #[must_use]
    pub fn last(&self, page: PageId) -> u64 {
        self.last.get(page.index()).copied().unwrap_or(0)
    }
}
