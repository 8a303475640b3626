//! `DiskQueue` holds the requests of the page cache that the disk has not served yet, in one direction.

use alloc::collections::{BTreeSet, VecDeque};
use core::num::NonZeroU64;
use core::ops::RangeInclusive;

use super::{FileId, FilePage};

/// `PageRun` is a run of neighbouring pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRun {
    pub(super) first: FilePage,
    pub(super) pages: u64,
}

impl PageRun {
    pub(super) fn pages(self) -> impl Iterator<Item = FilePage> {
        (self.first.page..self.first.page + self.pages).map(move |page| FilePage { page, ..self.first })
    }

    /// Returns the range from the first page to the last.
    pub(super) const fn range(self) -> RangeInclusive<FilePage> {
        let Self { first, pages } = self;
        first..=FilePage { page: first.page + (pages - 1), ..first }
    }
}

/// Returns the range of all pages of a file.
pub(super) const fn all_pages(file: FileId) -> RangeInclusive<FilePage> {
    FilePage { file, page: 0 }..=FilePage { file, page: u64::MAX }
}

/// Returns the time at which a device has moved `bytes`, if it begins at `begun` and moves `rate` bytes while the
/// processor executes a million instructions. A time that 64 bits cannot hold becomes `u64::MAX`, which never
/// comes.
pub(super) fn end_of(begun: u64, bytes: u64, rate: NonZeroU64) -> u64 {
    let instructions = u128::from(bytes) * 1_000_000 / u128::from(rate.get());
    u64::try_from(u128::from(begun) + instructions).unwrap_or(u64::MAX)
}

/// `DiskQueue` is a queue: the disk serves its requests in order. A page is in one request at most.
#[derive(Debug, Default)]
pub(super) struct DiskQueue {
    runs: VecDeque<PageRun>,
    /// The pages of all requests.
    pages: BTreeSet<FilePage>,
    /// The time in instructions at which the disk began with the first request.
    begun: u64,
}

impl DiskQueue {
    /// Adds a request at the time `now`.
    pub(super) fn push(&mut self, run: PageRun, now: u64) {
        if self.runs.is_empty() {
            self.begun = now;
        }
        self.runs.push_back(run);
        self.pages.extend(run.pages());
    }

    /// Returns the time at which the disk has served the first request.
    pub(super) fn due(&self, rate: NonZeroU64, page: u64) -> Option<u64> {
        self.runs.front().map(|run| end_of(self.begun, run.pages * page, rate))
    }

    /// Returns and removes the first request, which the disk has served at the time `end`.
    pub(super) fn serve(&mut self, end: u64) -> Option<PageRun> {
        self.begun = end;
        self.pop()
    }

    /// Returns the number of pages in all requests.
    pub(super) fn waiting(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns and removes the first request, if a request of the queue has a page of a range. The processor waits
    /// for the page, so the disk begins with the next request at the time `now`.
    pub(super) fn next_before(&mut self, range: RangeInclusive<FilePage>, now: u64) -> Option<PageRun> {
        self.pages.range(range).next()?;
        self.begun = now;
        self.pop()
    }

    fn pop(&mut self) -> Option<PageRun> {
        let run = self.runs.pop_front()?;
        for page in run.pages() {
            self.pages.remove(&page);
        }
        Some(run)
    }
}
