//! This part of the slow path keeps the pages in the cache in a list, in order of their last use.

use std::collections::VecDeque;

use super::{IoEvent, MemoryPlace, Page, Server};

impl Server {
    pub(super) fn position(&self, file: u64, page: u64) -> Option<usize> {
        self.cached.iter().position(|cached| (cached.file, cached.page) == (file, page))
    }

    pub(super) fn touch(&mut self, file: u64, page: u64) {
        let place = self.position(file, page).expect("the page is cached");
        let page = self.cached.remove(place);
        self.cached.push(page);
    }

    pub(super) fn is_dirty(&self, file: u64, page: u64) -> bool {
        self.position(file, page).is_some_and(|place| self.cached[place].dirty.is_some())
    }

    pub(super) fn soil(&mut self, file: u64, page: u64) {
        let place = self.position(file, page).expect("the page is cached");
        self.writes += 1;
        self.cached[place].dirty.get_or_insert((self.writes, self.now));
    }

    pub(super) fn oldest_dirty(&self) -> Option<Page> {
        self.cached.iter().copied().filter(|page| page.dirty.is_some()).min_by_key(|page| page.dirty)
    }

    pub(super) fn drop_page(&mut self, file: u64, page: u64) {
        self.wait_for(file, page);
        self.wait_for_write(|of, written| (of, written) == (file, page));
        if let Some(place) = self.position(file, page) {
            self.cached.remove(place);
            self.leave_tables(MemoryPlace::File(file, page));
            self.lose_page(MemoryPlace::File(file, page));
            self.events.push(IoEvent::Drop(file, page));
        }
    }

    /// Puts a page into the cache; the oldest page leaves a full cache.
    pub(super) fn join(&mut self, file: u64, page: u64) {
        while self.cached.len() >= self.sizes.cache_pages {
            let oldest = self.cached[0];
            if oldest.dirty.is_some() {
                self.flush_around(oldest.file, oldest.page);
            }
            self.drop_page(oldest.file, oldest.page);
        }
        self.cached.push(Page { file, page, dirty: None });
    }

    /// Brings a page in without read-ahead.
    pub(super) fn bring_one(&mut self, file: u64, page: u64) {
        let cached = self.position(file, page).is_some();
        self.looked_up[usize::from(!cached)] += 1;
        if cached {
            self.touch(file, page);
        } else {
            self.fetch(file, vec![page]);
        }
        self.wait_for(file, page);
    }

    /// Keeps a page that the call has found before. A page that has left meanwhile is brought in again.
    pub(super) fn keep(&mut self, file: u64, page: u64) {
        if self.position(file, page).is_some() {
            self.touch(file, page);
            self.wait_for(file, page);
        } else {
            self.bring_one(file, page);
        }
    }

    /// Reads the pages that are missing and exist, in requests of neighbours.
    pub(super) fn fetch(&mut self, file: u64, pages: Vec<u64>) {
        let mut run: Vec<u64> = Vec::new();
        for page in pages {
            if page * self.sizes.page >= self.files[&file] {
                break;
            }
            let missing = self.position(file, page).is_none();
            if !missing || run.len() == self.sizes.request_pages || self.begins_extent(page) {
                self.ask_disk(file, &run);
                run.clear();
            }
            if missing {
                self.join(file, page);
                run.push(page);
            }
        }
        self.ask_disk(file, &run);
    }

    /// Writes the dirty pages around a dirty page: first as many pages as possible before it, then pages behind it.
    pub(super) fn flush_around(&mut self, file: u64, page: u64) {
        let most = self.sizes.request_pages;
        let mut pages = VecDeque::from([page]);
        while pages.len() < most && !self.begins_extent(pages[0]) && self.is_dirty(file, pages[0] - 1) {
            pages.push_front(pages[0] - 1);
        }
        let mut next = page + 1;
        while pages.len() < most && !self.begins_extent(next) && self.is_dirty(file, next) {
            pages.push_back(next);
            next += 1;
        }
        self.write_pages(file, pages.make_contiguous());
    }

    /// Writes the dirty pages of a file that `chosen` selects, in requests of neighbours.
    pub(super) fn flush_pages(&mut self, file: u64, chosen: impl Fn(u64) -> bool) {
        let mut dirty: Vec<u64> = self
            .cached
            .iter()
            .filter(|page| page.file == file && page.dirty.is_some() && chosen(page.page))
            .map(|page| page.page)
            .collect();
        dirty.sort_unstable();
        let mut run: Vec<u64> = Vec::new();
        for page in dirty {
            if run.last().is_some_and(|last| last + 1 != page)
                || run.len() == self.sizes.request_pages
                || self.begins_extent(page)
            {
                self.write_pages(file, &run);
                run.clear();
            }
            run.push(page);
        }
        self.write_pages(file, &run);
    }

    pub(super) fn flush_some(&mut self) {
        self.stored = None;
        let dirty = |server: &Self| server.cached.iter().filter(|page| page.dirty.is_some()).count();
        if dirty(self) > self.sizes.dirty_pages {
            while dirty(self) > self.sizes.dirty_pages / 2 {
                let page = self.oldest_dirty().expect("a page is dirty");
                self.flush_around(page.file, page.page);
            }
        }
    }
}
