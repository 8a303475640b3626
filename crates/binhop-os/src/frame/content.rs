//! The page that a frame holds, or held last.

use binhop_base::PageId;

/// A frame that was never used holds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    /// The page it was last given to; its last reference is the frame's. Meaningless if never used.
    page: PageId,
    held: bool,
    wired: bool,
}

impl Content {
    pub(crate) fn of(page: PageId) -> Self {
        Self { page, held: true, wired: false }
    }

    /// The frame is wired for a page.
    pub(crate) fn wired(page: PageId) -> Self {
        Self { wired: true, ..Self::of(page) }
    }

    /// Returns whether the frame is wired.
    pub(crate) fn is_wired(self) -> bool {
        self.wired
    }

    /// The page in it.
    pub(crate) fn page(self) -> Option<PageId> {
        self.held.then_some(self.page)
    }

    /// The page it was last given to, dead or not.
    pub(crate) fn last(self) -> PageId {
        self.page
    }

    /// Its page, which is wired, has died: the frame is an ordinary free frame.
    pub(crate) fn unwire(&mut self) {
        assert!(self.wired, "only a wired page is unwired");
        (self.wired, self.held) = (false, false);
    }

    /// Its page has died.
    pub(crate) fn release(&mut self) {
        assert!(!self.wired, "a wired page does not die");
        self.held = false;
    }
}
