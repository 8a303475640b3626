//! This part of the path asks the disk to read and write pages of the page cache, and waits for the disk.

use core::ops::RangeInclusive;

use super::disk_queue::PageRun;
use super::rings::Data;
use super::{Emit, FileId, FilePage, IoPath, Location};

impl IoPath {
    /// Writes the run of dirty pages around a dirty page to the disk.
    pub(super) fn write_dirty(&mut self, page: FilePage, emit: Emit<'_>) {
        let (first, pages) = self.cache.dirty_run(page, self.config.request_pages, self.config.extent_pages);
        self.write_pages(PageRun { first, pages }, emit);
    }

    /// Reads pages from the disk: of the `pages` pages from `first` on, the pages that the file has and the cache
    /// lacks.
    pub(super) fn fetch(&mut self, first: FilePage, pages: u64, emit: Emit<'_>) {
        let end = self.file(first.file).bytes.div_ceil(self.config.page);
        let mut run: Option<PageRun> = None;
        for page in first.page..end.min(first.page + pages) {
            let page = FilePage { page, ..first };
            let missing = !self.cache.contains(page);
            let ends = run.is_some_and(|run| run.pages == self.config.request_pages)
                || page.page.is_multiple_of(self.config.extent_pages);
            if !missing || ends {
                self.read_pages(run.take(), emit);
            }
            if missing {
                self.make_room(emit);
                self.cache.use_now(page);
                run.get_or_insert(PageRun { first: page, pages: 0 }).pages += 1;
            }
        }
        self.read_pages(run, emit);
    }

    /// Asks the disk for pages. A disk with a rate delivers them later.
    fn read_pages(&mut self, run: Option<PageRun>, emit: Emit<'_>) {
        match run {
            Some(run) if self.config.disk_rate.is_some() => self.arriving.push(run, self.now),
            Some(run) => self.receive_pages(run, emit),
            None => {}
        }
    }

    /// Lets the disk serve a request for pages.
    pub(super) fn receive_pages(&mut self, run: PageRun, emit: Emit<'_>) {
        let data = run.pages().map(|page| file_data(page, self.config.page)).collect();
        self.counts.pages_read += run.pages;
        self.transfer(true, data, emit);
    }

    /// Waits until a page of the cache has arrived.
    pub(super) fn wait_for(&mut self, page: FilePage, emit: Emit<'_>) {
        while let Some(run) = self.arriving.next_before(page..=page, self.now) {
            self.receive_pages(run, emit);
        }
    }

    /// Asks the disk to write pages of the cache. The pages are clean from now on.
    fn write_pages(&mut self, run: PageRun, emit: Emit<'_>) {
        self.wait_for_writes(&run.range(), emit);
        run.pages().for_each(|page| self.cache.clean(page));
        if self.config.disk_write_rate.is_some() {
            self.leaving.push(run, self.now);
        } else {
            self.send_pages(run, emit);
        }
    }

    /// Lets the disk serve a write of pages.
    pub(super) fn send_pages(&mut self, run: PageRun, emit: Emit<'_>) {
        let data = run.pages().map(|page| file_data(page, self.config.page)).collect();
        self.counts.pages_written += run.pages;
        self.transfer(false, data, emit);
    }

    /// Waits until the disk has served the writes of all pages of a range.
    pub(super) fn wait_for_writes(&mut self, range: &RangeInclusive<FilePage>, emit: Emit<'_>) {
        while let Some(run) = self.leaving.next_before(range.clone(), self.now) {
            self.send_pages(run, emit);
        }
    }

    /// Writes the dirty pages of a range of a file, in ascending order.
    pub(super) fn write_range(&mut self, file: FileId, offset: u64, bytes: u64, emit: Emit<'_>) {
        let size = self.config.page;
        let end = offset.saturating_add(bytes).div_ceil(size);
        let mut next = FilePage { file, page: offset / size };
        while let Some(first) = self.cache.first_dirty(next, end) {
            let most = self.config.request_pages.min(end - first.page);
            let mut pages = 1;
            while pages < most
                && !(first.page + pages).is_multiple_of(self.config.extent_pages)
                && self.cache.is_dirty(FilePage { page: first.page + pages, ..first })
            {
                pages += 1;
            }
            self.write_pages(PageRun { first, pages }, emit);
            next.page = first.page + pages;
        }
    }
}

/// Returns what a request transfers for a page of the page cache.
fn file_data(page: FilePage, size: u64) -> Data {
    let byte = page.page * size;
    (Location::File(page.file, byte), size, Some((page.file, byte)))
}
