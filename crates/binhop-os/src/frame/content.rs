//! What a frame holds, or held last.

use binhop_base::PageId;

/// A frame that was never used holds nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Content {
    /// The page it was last given to; its last reference is the frame's. Meaningless if never used.
    page: PageId,
    held: bool,
}

impl Content {
    pub(crate) fn of(page: PageId) -> Self {
        Self { page, held: true }
    }

    /// The page in it.
    pub(crate) fn page(self) -> Option<PageId> {
        self.held.then_some(self.page)
    }

    /// The page it was last given to, dead or not.
    pub(crate) fn last(self) -> PageId {
        self.page
    }

    /// Its page has died.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }
}
