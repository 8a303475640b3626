//! `Arriving` holds the requests of the page cache that the disk has not served yet.

use alloc::collections::VecDeque;
use core::num::NonZeroU64;

use super::FilePage;

/// `PageRun` is a run of neighbouring pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRun {
    pub(super) first: FilePage,
    pub(super) pages: u64,
}

impl PageRun {
    fn holds(&self, page: FilePage) -> bool {
        page.file == self.first.file && (self.first.page..self.first.page + self.pages).contains(&page.page)
    }
}

/// `Arriving` is a queue: the disk serves its requests in order. A page is in one request at most.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    runs: VecDeque<PageRun>,
    /// The time in instructions at which the disk began with the first request.
    begun: u64,
}

impl Arriving {
    /// Adds a request at the time `now`.
    pub(super) fn push(&mut self, run: PageRun, now: u64) {
        if self.runs.is_empty() {
            self.begun = now;
        }
        self.runs.push_back(run);
    }

    /// Returns and removes the first request, if the disk has served it by the time `now`.
    pub(super) fn due(&mut self, now: u64, rate: NonZeroU64, page: u64) -> Option<PageRun> {
        let run = self.runs.front()?;
        let instructions = u128::from(run.pages * page) * 1_000_000 / u128::from(rate.get());
        let end = u128::from(self.begun) + instructions;
        if end > u128::from(now) {
            return None;
        }
        self.begun = end as u64;
        self.runs.pop_front()
    }

    /// Returns and removes the first request, if a request of the queue holds a page. The processor waits for the page, so
    /// the disk begins with the next request at the time `now`.
    pub(super) fn next_before(&mut self, page: FilePage, now: u64) -> Option<PageRun> {
        if !self.runs.iter().any(|run| run.holds(page)) {
            return None;
        }
        self.begun = now;
        self.runs.pop_front()
    }
}
