//! `Recent` holds the most recent pages of one color, and orders them only when the oldest page is asked for.
//!
//! Nearly every reference goes to a recent page, so a touch must be cheap here: it stores the page's time and
//! does nothing else. A queue holds some of the pages in the order of the times that they had when the queue
//! was made. If the time of the page at the front has not changed since, this page is the oldest: the pages
//! behind it, and the pages that joined later, have later times. If its time has changed, the page joins the
//! young pages. When the queue is empty, the young pages are sorted into the next queue. Cost: a sort of at
//! most k pages for each queue.

/// `Page` states when a page was last touched, and for which color counts it is outside the recent group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// The time of the last touch. No two touches have the same time.
    pub(super) last: u64,
    /// One bit for each color count: 1 if the page is outside the recent group.
    pub(super) away: u64,
}

/// `Recent` is a set of pages that finds its oldest page.
#[derive(Default)]
pub(super) struct Recent {
    /// Times and pages; the oldest page stands last.
    queue: Vec<(u64, u32)>,
    young: Vec<u32>,
}

impl Recent {
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.young.len()
    }

    /// Adds a page, whose time is the latest.
    pub(super) fn join(&mut self, page: u32) {
        self.young.push(page);
    }

    /// Takes out the page that was touched longest ago. The set is not empty.
    pub(super) fn take_oldest(&mut self, pages: &[Page]) -> u32 {
        loop {
            while let Some((time, page)) = self.queue.pop() {
                if pages[page as usize].last == time {
                    return page;
                }
                self.young.push(page);
            }
            assert!(!self.young.is_empty(), "the oldest of no pages");
            self.queue.extend(self.young.drain(..).map(|page| (pages[page as usize].last, page)));
            self.queue.sort_unstable_by_key(|&(time, _)| std::cmp::Reverse(time));
        }
    }
}
