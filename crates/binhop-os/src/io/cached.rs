//! This part of the path brings pages of files into the page cache, keeps the pages that a call needs, and lets pages
//! leave.

use core::ops::Range;

use super::{Emit, FilePage, IoPath, IoStep, Location, MemoryPage};

impl IoPath {
    /// Brings a page into the cache for a call that needs `needed` pages from this page on.
    pub(super) fn bring(&mut self, page: FilePage, needed: u64, emit: Emit<'_>) {
        let most = self.config.read_ahead;
        let window = if self.cache.contains(page) {
            self.wait_for(page, emit);
            self.counts.cache_hits += 1;
            self.cache.use_now(page);
            self.file(page.file).ahead.hit(page.page, most)
        } else {
            self.counts.cache_misses += 1;
            Some(self.file(page.file).ahead.miss(page.page, needed, most))
        };
        if let Some(window) = window {
            self.fetch(FilePage { page: window.first, ..page }, window.pages, emit);
            self.wait_for(page, emit);
            if !self.cache.contains(page) {
                // The page was reclaimed to make room for the window.
                self.bring_alone(page, emit);
            }
        }
    }

    /// Brings a page into the cache without read-ahead.
    pub(super) fn bring_alone(&mut self, page: FilePage, emit: Emit<'_>) {
        if self.cache.contains(page) {
            self.counts.cache_hits += 1;
            self.cache.use_now(page);
        } else {
            self.counts.cache_misses += 1;
            self.fetch(page, 1, emit);
        }
        self.wait_for(page, emit);
    }

    /// Keeps a page that the call has looked up before. A page that was reclaimed meanwhile is brought in again.
    pub(super) fn keep(&mut self, page: FilePage, emit: Emit<'_>) {
        if self.cache.contains(page) {
            self.cache.use_now(page);
            self.wait_for(page, emit);
        } else {
            self.bring_alone(page, emit);
        }
    }

    /// Brings a page into the cache of which a call writes `length` bytes from byte `start` of the page on.
    pub(super) fn make_writable(&mut self, page: FilePage, start: u64, length: u64, emit: Emit<'_>) {
        let size = self.config.page;
        let first = page.page * size;
        let existing = self.file(page.file).bytes.saturating_sub(first).min(size);
        if self.cache.contains(page) || (existing > 0 && (start > 0 || length < existing)) {
            self.bring_alone(page, emit);
            return;
        }
        self.counts.cache_misses += 1;
        self.make_room(emit);
        self.cache.use_now(page);
        for (from, to) in [(0, start), (start + length, size)] {
            if from < to {
                let at = Location::File(page.file, first + from);
                self.in_memory(emit, |_, emit| emit(IoStep::Fill { at, bytes: to - from }));
            }
        }
    }

    /// Makes a page of a file writable from byte `target` of the file on. The call writes the bytes `written` of
    /// the file, in pieces. If the call has written to the page before (`is_new` is false), the page is writable
    /// already, unless it was reclaimed meanwhile.
    pub(super) fn keep_writable(
        &mut self,
        page: FilePage,
        target: u64,
        (is_new, written): (bool, &Range<u64>),
        emit: Emit<'_>,
    ) {
        if !is_new && self.cache.contains(page) {
            self.keep(page, emit);
        } else {
            let size = self.config.page;
            let end = written.end.min((page.page + 1) * size);
            self.make_writable(page, target % size, end - target, emit);
        }
    }

    /// Makes room for one page.
    pub(super) fn make_room(&mut self, emit: Emit<'_>) {
        while self.cache.len() >= self.config.cache_pages
            && let Some(page) = self.cache.used_least_recently()
        {
            if self.cache.is_dirty(page) {
                self.write_dirty(page, emit);
            }
            self.drop_page(page, emit);
            self.counts.pages_evicted += 1;
        }
    }

    /// Drops a page, dirty or not, if the cache holds it. A page that the disk was asked to read or write is locked
    /// until the disk has done so.
    pub(super) fn drop_page(&mut self, page: FilePage, emit: Emit<'_>) {
        self.wait_for(page, emit);
        self.wait_for_writes(&(page..=page), emit);
        if self.cache.remove(page) {
            self.leave_tables(page);
            self.lose_page(MemoryPage::File(page));
            emit(IoStep::Dropped(page));
        }
    }

    /// Lets the flusher work, if too many pages are dirty.
    pub(super) fn balance(&mut self, emit: Emit<'_>) {
        self.flusher_wakes = None;
        if self.cache.dirty_len() <= self.config.dirty_pages {
            return;
        }
        while self.cache.dirty_len() > self.config.dirty_pages / 2
            && let Some((page, _)) = self.cache.dirty_longest()
        {
            self.write_dirty(page, emit);
        }
    }
}
