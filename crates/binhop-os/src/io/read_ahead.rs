//! `ReadAhead` decides which pages are read beside the page that a call needs (Linux, `mm/readahead.c`,
//! `ondemand_readahead`).
//!
//! # Rules
//! A *window* is a run of pages that one decision reads. A *marker* stands on the window's page behind which the rest
//! of the window was read ahead. M is the largest window, n the number of pages that the call still needs.
//! - A call misses a page, and a first window begins at the page if the call needs more than M pages, or if the
//!   page is the file's first page, the page that the last call ended in, or the page behind that page. The
//!   window's size is n rounded up to a power of two, times 4 if this is at most M / 32, times 2 if it is at most M
//!   / 4, and never more than M. The pages beyond n are read ahead; if there are none, the whole window counts as
//!   read ahead.
//! - A call finds the marker's page in the cache, or misses the page behind the window: the next window follows the
//!   present window. The next window is 4 times as large as the present window below M / 16, 2 times as large up to
//!   M / 2, and has M pages otherwise. All of it is read ahead.
//! - Where a window that begins at the page would meet its marker at once, the next window is added to it if the
//!   two windows have M pages at most together. Otherwise the window gets M pages, and half of them are read ahead.
//! - Any other miss reads n pages, M at most, and changes no window.
//!
//! A simplification: the kernel also looks for pages that lie in the cache before the page (context read-ahead), and
//! follows the markers of several readers of one file. This model has one reader for each file.

/// `Window` is a run of pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) first: u64,
    pub(super) pages: u64,
}

/// `ReadAhead` is the state of a file's reader.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadAhead {
    /// The present window.
    first: u64,
    pages: u64,
    /// The last pages of the window, which were read ahead.
    ahead: u64,
    /// The page in which the last call ended.
    last: Option<u64>,
}

impl ReadAhead {
    /// Notes that a call ended in this page.
    pub(super) fn end_call(&mut self, page: u64) {
        self.last = Some(page);
    }

    /// Returns the window to read, if any, because a call found the page in the cache.
    pub(super) fn hit(&mut self, page: u64, most: u64) -> Option<Window> {
        let marker = self.first + self.pages - self.ahead;
        (self.pages > 0 && self.ahead > 0 && page == marker).then(|| {
            self.follow(most);
            self.window(page, most)
        })
    }

    /// Returns the window to read, because a call that needs `needed` pages from `page` on did not find the page in
    /// the cache. The window holds the page.
    pub(super) fn miss(&mut self, page: u64, needed: u64, most: u64) -> Window {
        let behind = self.pages > 0 && page == self.first + self.pages;
        let sequential = self.last.is_some_and(|last| page == last || page == last + 1);
        if page != 0 && behind {
            self.follow(most);
        } else if page == 0 || needed > most || sequential {
            self.first = page;
            self.pages = first_size(needed, most);
            self.ahead = if self.pages > needed { self.pages - needed } else { self.pages };
        } else {
            return Window { first: page, pages: needed.min(most) };
        }
        self.window(page, most)
    }

    /// Moves to the next window.
    fn follow(&mut self, most: u64) {
        self.first += self.pages;
        self.pages = next_size(self.pages, most);
        self.ahead = self.pages;
    }

    /// Returns the present window, after it was enlarged if a call at `page` would meet its marker at once.
    fn window(&mut self, page: u64, most: u64) -> Window {
        if page == self.first && self.ahead == self.pages {
            let next = next_size(self.pages, most);
            if self.pages + next <= most {
                self.ahead = next;
                self.pages += next;
            } else {
                self.pages = most;
                self.ahead = most / 2;
            }
        }
        Window { first: self.first, pages: self.pages }
    }
}

fn first_size(needed: u64, most: u64) -> u64 {
    if needed >= most {
        return most;
    }
    let size = needed.next_power_of_two();
    let size = if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        size
    };
    size.min(most)
}

fn next_size(pages: u64, most: u64) -> u64 {
    let size = if pages < most / 16 {
        pages * 4
    } else if pages <= most / 2 {
        pages * 2
    } else {
        most
    };
    size.min(most)
}
