//! `Content` is the page that a frame holds, or held last.

use binhop_base::PageId;

/// `Content` is the page that a frame holds, or held last. For a frame that was never used, it says only that
/// the frame holds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    /// The page to which the frame was given last. The last reference to this page is the last use of the
    /// frame.
    page: PageId,
    held: bool,
    wired: bool,
}

impl Content {
    pub(crate) fn of(page: PageId) -> Self {
        Self { page, held: true, wired: false }
    }

    /// Makes the content of a frame that is wired for a page.
    pub(crate) fn wired(page: PageId) -> Self {
        Self { wired: true, ..Self::of(page) }
    }

    /// Returns whether the frame is wired.
    pub(crate) fn is_wired(self) -> bool {
        self.wired
    }

    /// Returns the page in the frame.
    pub(crate) fn page(self) -> Option<PageId> {
        self.held.then_some(self.page)
    }

    /// Returns the page to which the frame was given last, dead or not.
    pub(crate) fn last(self) -> PageId {
        self.page
    }

    /// Turns a wired frame whose page has died into an ordinary free frame.
    pub(crate) fn unwire(&mut self) {
        assert!(self.wired, "only a wired page is unwired");
        (self.wired, self.held) = (false, false);
    }

    /// Frees the frame, whose page has died.
    pub(crate) fn release(&mut self) {
        assert!(!self.wired, "a wired page does not die");
        self.held = false;
    }
}
