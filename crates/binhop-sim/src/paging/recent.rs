//! The most recent pages of one color, ordered only when the oldest of them is asked for.
//!
//! Nearly every reference goes to one of them, so a touch must cost nothing here: it changes the page's time
//! and no more. A queue holds some of the pages in order of the times they had when it was made. A page at its
//! front whose time has not changed since is the oldest of all: those behind it in the queue, and those that
//! joined later, have later times. One whose time has changed joins the young; when the queue is empty, the
//! young are sorted into the next. Cost: a sort of at most k pages for each round of the queue.

/// A page in the pass: when it was last touched, and from which color counts' recent groups it is absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Time of the last touch; no two touches have the same.
    pub(super) last: u64,
    /// One bit for each color count.
    pub(super) away: u64,
}

/// A set of pages that knows its oldest.
#[derive(Default)]
pub(super) struct Recent {
    /// Times and pages, oldest last.
    queue: Vec<(u64, u32)>,
    young: Vec<u32>,
}

impl Recent {
    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.young.len()
    }

    /// A page joins; its time is the latest.
    pub(super) fn join(&mut self, page: u32) {
        self.young.push(page);
    }

    /// Takes the page out that was touched longest ago. There is one.
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
