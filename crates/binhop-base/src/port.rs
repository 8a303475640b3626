//! The ports between hardware and operating system. Each side knows only these.

use crate::{FrameNo, MappingId, PageId, PageNo};

/// A cache line as it travels through the memory system, in the lines of the cache that is asked.
///
/// `id` is a [`MappingId`] where the asking side still knows the address space and virtual page, and
/// a [`PageId`] behind the first cache that tags by page; which of the two is fixed when a machine is
/// checked, so no flag is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineAddr {
    /// Dense number of the mapping or of the page.
    pub id: u32,
    /// Which line of the page, counted in lines of the cache that is asked.
    pub line: u32,
}

/// What hardware asks of the operating system about a page. Every answer is for *now*: a page's frame
/// changes when it is evicted and returns.
pub trait Translation {
    /// The page behind a mapping.
    fn page(&self, mapping: MappingId) -> PageId;
    /// The frame that holds the page. It must be resident.
    fn frame(&self, page: PageId) -> FrameNo;
    /// The virtual page number by which a virtually indexed cache finds a mapping.
    fn virtual_page(&self, mapping: MappingId) -> PageNo;
    /// The virtual page number of a page in the global (segment) space: that of its first mapping.
    fn global_page(&self, page: PageId) -> PageNo;
}
