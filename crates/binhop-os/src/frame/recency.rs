//! `Recency` is the time at which each page was last referenced. It is the same in every lane.

use alloc::vec::Vec;

use binhop_base::PageId;

/// `Recency` holds the time of each page's last reference. Lanes differ only in which pages are resident, so
/// one table serves all lanes, and no lane does anything at a reference that needs no placement.
///
/// The caller chooses the unit of time. Times start at 1, and references to different pages have different
/// times. The caller may note a run of references to one page once, at its end.
///
/// The table also keeps the latest notes, at least as many as there are pages (fewer after a return to an
/// earlier moment). A lane that looks often therefore looks only at the pages noted since it looked last.
#[derive(Clone, Debug, Default)]
pub struct Recency {
    last: Vec<u64>,
    /// The pages noted after the first `forgotten` notes, in order.
    notes: Vec<PageId>,
    forgotten: u64,
}

/// The least number of notes that the table keeps.
const FEWEST_NOTES: usize = 1 << 10;

impl Recency {
    /// Makes a table in which no page was referenced yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a reference to a page, which is later than all references before. Returns the time of the page's
    /// previous reference, or 0.
    #[inline]
    pub fn note(&mut self, page: PageId, time: u64) -> u64 {
        debug_assert!(time > 0);
        if page.index() >= self.last.len() {
            self.grow(page);
        }
        if self.notes.len() == self.notes.capacity() {
            self.forget();
        }
        self.notes.push(page);
        core::mem::replace(&mut self.last[page.index()], time)
    }

    /// Goes back to an earlier moment. `before` names the pages noted since, the latest note first, with the
    /// times that they had before.
    pub fn go_back(&mut self, moment: u64, before: impl Iterator<Item = (PageId, u64)>) {
        for (page, time) in before {
            self.last[page.index()] = time;
        }
        self.notes.truncate(moment.saturating_sub(self.forgotten) as usize);
        self.forgotten = self.forgotten.min(moment);
    }

    #[cold]
    fn grow(&mut self, page: PageId) {
        let len = (page.index() + 1).next_power_of_two();
        self.last.resize(len, 0);
    }

    /// Makes room for notes. If the table holds twice as many notes as it must keep, forgets the oldest notes.
    #[cold]
    fn forget(&mut self) {
        let kept = self.last.len().max(FEWEST_NOTES);
        if self.notes.len() >= 2 * kept {
            let forgotten = self.notes.len() - kept;
            self.notes.drain(..forgotten);
            self.forgotten += forgotten as u64;
        } else {
            self.notes.reserve_exact(2 * kept - self.notes.len());
        }
    }

    /// Returns the time of the last reference to a page, or 0 if the page was never referenced.
    #[inline]
    #[must_use]
    pub fn last(&self, page: PageId) -> u64 {
        self.last.get(page.index()).copied().unwrap_or(0)
    }

    /// Returns the number of notes so far, which names the present moment.
    #[must_use]
    pub fn moment(&self) -> u64 {
        self.forgotten + self.notes.len() as u64
    }

    /// Returns the pages noted since an earlier moment, in order, each as often as it was noted. Returns
    /// `None` if some of these notes are forgotten.
    #[must_use]
    pub fn notes_since(&self, moment: u64) -> Option<&[PageId]> {
        let known = usize::try_from(moment.checked_sub(self.forgotten)?).ok()?;
        self.notes.get(known..)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PageId, Recency, Vec};

    proptest! {
        /// Notes, and returns to the moment where the last block of notes began, agree with a plain list of
        /// notes.
        #[test]
        fn the_notes_since_a_moment_are_kept_or_forgotten(
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
                    let since = recency.notes_since(moment as u64);
                    prop_assert!(since.is_none_or(|since| *since == notes[moment..]));
                    let many = notes.len() - moment > pages as usize;
                    prop_assert!(since.is_some() || many || moment < returned);
                }
                prop_assert_eq!(recency.notes_since(notes.len() as u64 + 1), None);
            }
        }
    }
}
