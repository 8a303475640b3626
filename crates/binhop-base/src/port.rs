//! `Translation` is the port between hardware and operating system. Each side knows only this port.

use crate::{FrameNo, MappingId, PageId, PageNo};

/// `LineAddr` is a cache line as it travels through the memory system, in lines of the cache that is
/// accessed.
///
/// `id` is a [`MappingId`] as long as a virtual address is known, and a [`PageId`] behind the first cache that tags by
/// page. Where caches have global tags, one mapping of each global address stands for all mappings of this address. The
/// tree of caches fixes which of the two numbers a cache gets, so a line carries no flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineAddr {
    /// The number of the mapping or of the page.
    pub id: u32,
    /// The number of the line within the page, in lines of the cache that is accessed.
    pub line: u32,
}

/// `Translation` answers what hardware asks the operating system about a page. Every answer holds *now*: the
/// frame of a page changes when the page is evicted and returns.
pub trait Translation {
    /// Returns the page behind a mapping.
    fn page(&self, mapping: MappingId) -> PageId;
    /// Returns the frame that holds a page. The page must be resident.
    fn frame(&self, page: PageId) -> FrameNo;
    /// Returns the virtual page number by which a virtually indexed cache finds a mapping.
    fn virtual_page(&self, mapping: MappingId) -> PageNo;
}
