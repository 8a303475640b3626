//! This part of preparation gives pages their global addresses (JM97 §3.2, §4.2).
//!
//! # Rules
//! - A *region* is 256 MiB of an address space. It takes its segment when one of its pages is touched and it has none.
//!   It keeps the segment until all of its touched pages have been unmapped, or its space ends.
//! - A region of which an address space maps nothing but shared memory is shared as a whole. All regions that mapped
//!   the same memory at the same place when they took their segment have one segment. Every other region has one of its
//!   own.
//! - The global address of a page is its segment and its place within the region. Where caches have global tags, a row
//!   names a page by the first mapping that led to the page at this address: one line for all mappings of the address.
//!   An alias, which leads to the page at another global address, has lines of its own.
//!
//! The mappings of one global address agree in all bits below 256 MiB. So they select the same set in every cache, and
//! the filters, which know virtual lines of the running space, hold as they do for tags by address space.

use std::collections::BTreeMap;

use binhop_base::{Asid, MappingId, PageId};
use binhop_os::page_table::REGION_LOG2;
use binhop_os::{SharedArea, Spaces, Touch};

/// `Region` is a region with touched pages.
struct Region {
    /// The number of the shared segment; `None` if the region has a segment of its own.
    shared: Option<u32>,
    /// The touched pages, by their numbers within the region.
    pages: BTreeMap<u64, PageId>,
}

/// `GlobalSpace` knows the segment of every region, and the name of every page.
pub(super) struct GlobalSpace {
    page_log2: u32,
    regions: BTreeMap<(Asid, u64), Region>,
    /// The number of each shared segment, by what is mapped there.
    shared: BTreeMap<Vec<SharedArea>, u32>,
    /// True if caches know pages by their global addresses.
    names_pages: bool,
    /// For each mapping, the mapping that names its page. The list may end before a mapping that names itself.
    names: Vec<MappingId>,
    /// The name of each page of a shared segment, by the page's place in it.
    of_shared: BTreeMap<(u32, u64, PageId), MappingId>,
}

impl GlobalSpace {
    pub(super) fn new(page_log2: u32, names_pages: bool) -> Self {
        Self {
            page_log2,
            regions: BTreeMap::new(),
            shared: BTreeMap::new(),
            names_pages,
            names: Vec::new(),
            of_shared: BTreeMap::new(),
        }
    }

    /// Returns the region in which a page lies, and the number of the page within the region.
    fn place(&self, page_no: u64) -> (u64, u64) {
        let log2 = REGION_LOG2.saturating_sub(self.page_log2);
        (page_no >> log2, page_no & ((1 << log2) - 1))
    }

    /// Returns the mapping by which the caches know the page of a mapping.
    #[inline]
    pub(super) fn name_of(&self, mapping: MappingId) -> MappingId {
        self.names.get(mapping.index()).copied().unwrap_or(mapping)
    }

    /// Notes a touch of a page. Returns the number of its segment, if spaces share the page's region as a whole.
    pub(super) fn touch(&mut self, asid: Asid, page_no: u64, touch: &Touch, spaces: &Spaces) -> Option<u32> {
        let (region, within) = self.place(page_no);
        let shared = &mut self.shared;
        let region = self.regions.entry((asid, region)).or_insert_with(|| {
            let first = region << REGION_LOG2;
            let areas = spaces.shared_areas(asid, first, first | ((1 << REGION_LOG2) - 1));
            let next = shared.len() as u32;
            let shared = areas.map(|areas| *shared.entry(areas).or_insert(next));
            Region { shared, pages: BTreeMap::new() }
        });
        region.pages.insert(within, touch.page);
        let shared = region.shared;
        if self.names_pages {
            let name = match shared {
                Some(segment) => {
                    *self.of_shared.entry((segment, within, touch.page)).or_insert(touch.mapping)
                }
                None => touch.mapping,
            };
            if name != self.name_of(touch.mapping) {
                let known = self.names.len() as u32;
                self.names.extend((known..=touch.mapping.0).map(MappingId));
                self.names[touch.mapping.index()] = name;
            }
        }
        shared
    }

    /// Returns the page that a space touched at a page, and did not unmap since.
    pub(super) fn page_at(&self, asid: Asid, page_no: u64) -> Option<PageId> {
        let (region, within) = self.place(page_no);
        self.regions.get(&(asid, region))?.pages.get(&within).copied()
    }

    /// Follows the end of some pages of a space, from the first to the last.
    pub(super) fn unmap(&mut self, asid: Asid, [first, last]: [u64; 2]) {
        let [(from, from_page), (to, to_page)] = [first, last].map(|page_no| self.place(page_no));
        let mut unused = Vec::new();
        for (&at, region) in self.regions.range_mut((asid, from)..=(asid, to)) {
            let first = if at.1 == from { from_page } else { 0 };
            let last = if at.1 == to { to_page } else { u64::MAX };
            while let Some((&page, _)) = region.pages.range(first..=last).next() {
                region.pages.remove(&page);
            }
            if region.pages.is_empty() {
                unused.push(at);
            }
        }
        for at in unused {
            self.regions.remove(&at);
        }
    }

    /// Follows the end of a space.
    pub(super) fn drop_space(&mut self, asid: Asid) {
        while let Some((&at, _)) = self.regions.range((asid, 0)..=(asid, u64::MAX)).next() {
            self.regions.remove(&at);
        }
    }
}
