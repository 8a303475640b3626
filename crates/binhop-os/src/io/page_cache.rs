//! `PageCache` holds the pages of files in order of use, and the dirty pages also in order of age.

use alloc::collections::{BTreeMap, BTreeSet};

use super::FilePage;

/// `Cached` is the state of a page in the cache.
#[derive(Clone, Copy, Debug)]
struct Cached {
    /// The time of last use, which no other page has.
    used: u64,
    /// For a dirty page: its position in the order of dirty pages, and the time in instructions at which it became
    /// dirty.
    dirty: Option<(u64, u64)>,
}

/// `PageCache` holds pages in the order of their last use. Every operation costs O(log n).
#[derive(Debug, Default)]
pub(super) struct PageCache {
    pages: BTreeMap<FilePage, Cached>,
    by_use: BTreeMap<u64, FilePage>,
    by_age: BTreeMap<u64, FilePage>,
    dirty: BTreeSet<FilePage>,
    /// The next number: a time of use, or a position in the order of dirty pages.
    clock: u64,
    /// The number of times that a page became clean or left.
    revision: u64,
}

impl PageCache {
    pub(super) fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(super) fn dirty_len(&self) -> u64 {
        self.by_age.len() as u64
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn contains(&self, page: FilePage) -> bool {
        self.pages.contains_key(&page)
    }

    pub(super) fn is_dirty(&self, page: FilePage) -> bool {
        self.dirty.contains(&page)
    }

    /// Returns the pages by use, each with true if it is dirty.
    pub(super) fn by_use(&self) -> impl Iterator<Item = (FilePage, bool)> {
        self.by_use.values().map(|&page| (page, self.is_dirty(page)))
    }

    /// Notes that a page is used now. The page joins the cache if the cache does not hold it.
    pub(super) fn use_now(&mut self, page: FilePage) {
        let used = self.tick();
        let cached = self.pages.entry(page).or_insert(Cached { used, dirty: None });
        let before = core::mem::replace(&mut cached.used, used);
        self.by_use.remove(&before);
        self.by_use.insert(used, page);
    }

    /// Notes that a page of the cache is dirty since `now`, if it is not dirty already.
    pub(super) fn mark_dirty(&mut self, page: FilePage, now: u64) {
        let position = self.tick();
        let cached = self.pages.get_mut(&page).expect("the page is in the cache");
        if cached.dirty.is_none() {
            cached.dirty = Some((position, now));
            self.by_age.insert(position, page);
            self.dirty.insert(page);
        }
    }

    /// Notes that a page is clean.
    pub(super) fn clean(&mut self, page: FilePage) {
        if let Some(cached) = self.pages.get_mut(&page)
            && let Some((position, _)) = cached.dirty.take()
        {
            self.by_age.remove(&position);
            self.dirty.remove(&page);
            self.revision += 1;
        }
    }

    /// Removes a page, dirty or not, and returns whether the cache held it.
    pub(super) fn remove(&mut self, page: FilePage) -> bool {
        self.clean(page);
        let removed = self.pages.remove(&page);
        if let Some(cached) = removed {
            self.by_use.remove(&cached.used);
            self.revision += 1;
        }
        removed.is_some()
    }

    /// Returns the page that was used least recently.
    pub(super) fn used_least_recently(&self) -> Option<FilePage> {
        self.by_use.values().next().copied()
    }

    /// Returns the page that has been dirty longest, and since when.
    pub(super) fn dirty_longest(&self) -> Option<(FilePage, u64)> {
        let page = *self.by_age.values().next()?;
        Some((page, self.pages[&page].dirty?.1))
    }

    /// Returns the pages of a file from `first` on, in ascending order.
    pub(super) fn of_file(&self, first: FilePage) -> impl Iterator<Item = FilePage> {
        let last = FilePage { page: u64::MAX, ..first };
        self.pages.range(first..=last).map(|(&page, _)| page)
    }

    /// Returns the first dirty page of a file from `first` on, if it lies before page `end`.
    pub(super) fn first_dirty(&self, first: FilePage, end: u64) -> Option<FilePage> {
        let page = *self.dirty.range(first..).next()?;
        (page.file == first.file && page.page < end).then_some(page)
    }

    /// Returns the run of dirty neighbours around a dirty page: the first page and the number of pages, `most` at
    /// most. The run begins as far before the page as that number allows, and lies within one extent.
    pub(super) fn dirty_run(&self, page: FilePage, most: u64, extent: u64) -> (FilePage, u64) {
        let mut first = page;
        let mut pages = 1;
        while pages < most
            && !first.page.is_multiple_of(extent)
            && let Some(before) = first.page.checked_sub(1).map(|page| FilePage { page, ..first })
            && self.is_dirty(before)
        {
            first = before;
            pages += 1;
        }
        while pages < most
            && !(first.page + pages).is_multiple_of(extent)
            && self.is_dirty(FilePage { page: first.page + pages, ..first })
        {
            pages += 1;
        }
        (first, pages)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}
