//! This part of preparation gives pages their global addresses (JM97 §3.2, §4.2).
//!
//! # Rules
//! - A *region* is 256 MiB of an address space. It takes its segment when one of its pages is touched and it has none.
//!   It keeps the segment until all of its touched pages have been unmapped, or its space ends.
//! - A region to which the user gives a segment id ([`StatedSegments`]) has the segment of this id.
//! - Any other region of which an address space maps nothing but shared memory is shared as a whole. All regions that
//!   mapped the same memory at the same place when they took their segment have one segment. Every other region has one
//!   of its own.
//! - The global address of a page is its segment and its place within the region. Where caches have global tags, a row
//!   names a page by the first mapping that led to the page at this address: one line for all mappings of the address.
//!   An alias, which leads to the page at another global address, has lines of its own.
//! - Regions to which the user gives one segment id share their memory. A run in which two of them have different pages
//!   at one place stops: the caches would take the data of one page for the data of another page. In regions that are
//!   shared as a whole, pages that are no shared memory (outside every map, or not wholly in one segment of the trace)
//!   may differ. Each of these pages has lines of its own, as if it had a global address of its own.
//!
//! The mappings of one global address agree in all bits below 256 MiB. So they select the same set in every cache, and
//! the filters, which know virtual lines of the running space, hold as they do for tags by address space.

use std::collections::BTreeMap;
use std::sync::Arc;

use binhop_base::{Asid, MappingId, PageId, Problem, Result};
use binhop_os::page_table::{REGION_LOG2, RegionSegment};
use binhop_os::{SharedArea, Spaces, Touch};

use super::SegmentNeeds;
use crate::machine::StatedSegments;

/// The place of a problem with two pages that have one global address.
pub(super) const ONE_ADDRESS: &str = "a global address";

/// `Region` is a region with touched pages.
struct Region {
    segment: RegionSegment,
    /// The touched pages, by their numbers within the region.
    pages: BTreeMap<u64, PageId>,
}

/// `HeldPage` is a page at a global address, and the number of regions in which it lies there.
struct HeldPage {
    page: PageId,
    regions: u32,
}

/// `GlobalSpace` knows the segment of every region, and the name of every page.
pub(super) struct GlobalSpace {
    page_log2: u32,
    regions: BTreeMap<(Asid, u64), Region>,
    /// The segment ids that the user gives to regions.
    stated: Arc<StatedSegments>,
    /// True if regions that are shared as a whole have one segment.
    of_whole_regions: bool,
    /// The number of each segment that is shared as a whole, by what is mapped there.
    shared: BTreeMap<Vec<SharedArea>, u32>,
    /// True if caches know pages by their global addresses.
    names_pages: bool,
    /// For each mapping, the mapping that names its page. The list may end before a mapping that names itself.
    names: Vec<MappingId>,
    /// The name of each page of a segment that several regions may have, by the page's place in it.
    of_segments: BTreeMap<(RegionSegment, u64, PageId), MappingId>,
    /// The pages at the global addresses of segments to which the user gave ids.
    held: BTreeMap<(u32, u64), HeldPage>,
}

impl GlobalSpace {
    pub(super) fn new(page_log2: u32, needs: &SegmentNeeds) -> Self {
        Self {
            page_log2,
            regions: BTreeMap::new(),
            stated: Arc::clone(&needs.stated),
            of_whole_regions: needs.of_whole_regions,
            shared: BTreeMap::new(),
            names_pages: needs.of_tags,
            names: Vec::new(),
            of_segments: BTreeMap::new(),
            held: BTreeMap::new(),
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

    /// Finds the segment of a region that has none.
    fn find_segment(&mut self, asid: Asid, region: u64, spaces: &Spaces) -> RegionSegment {
        if let Some(id) = self.stated.id_of(asid, region) {
            return RegionSegment::Stated(id);
        }
        let log2 = REGION_LOG2.max(self.page_log2);
        let first = region << log2;
        let areas = spaces.shared_areas(asid, first, first | ((1 << log2) - 1));
        let Some(areas) = areas.filter(|_| self.of_whole_regions) else { return RegionSegment::Own };
        let next = self.shared.len() as u32;
        RegionSegment::Shared(*self.shared.entry(areas).or_insert(next))
    }

    /// Notes a touch of a page. Returns the segment of the page's region.
    ///
    /// # Errors
    /// Another region with the same segment id has another page at this global address.
    pub(super) fn touch(
        &mut self,
        asid: Asid,
        page_no: u64,
        touch: &Touch,
        spaces: &Spaces,
    ) -> Result<RegionSegment> {
        let (number, within) = self.place(page_no);
        let segment = match self.regions.get(&(asid, number)) {
            Some(region) => region.segment,
            None => self.find_segment(asid, number, spaces),
        };
        let region =
            self.regions.entry((asid, number)).or_insert_with(|| Region { segment, pages: BTreeMap::new() });
        let before = region.pages.insert(within, touch.page);
        if segment == RegionSegment::Own {
            self.name(touch.mapping, touch.mapping);
            return Ok(segment);
        }
        if let RegionSegment::Stated(id) = segment {
            let held = self.held.entry((id, within)).or_insert(HeldPage { page: touch.page, regions: 0 });
            held.regions += u32::from(before.is_none());
            if held.page != touch.page && held.regions > 1 {
                return Err(self.differs(id, (asid, number), within, touch.page));
            }
            held.page = touch.page;
        }
        if self.names_pages {
            let at = (segment, within, touch.page);
            let name = *self.of_segments.entry(at).or_insert(touch.mapping);
            self.name(touch.mapping, name);
        }
        Ok(segment)
    }

    /// Gives the page of a mapping a name.
    fn name(&mut self, mapping: MappingId, name: MappingId) {
        if name != self.name_of(mapping) {
            let known = self.names.len() as u32;
            self.names.extend((known..=mapping.0).map(MappingId));
            self.names[mapping.index()] = name;
        }
    }

    /// Returns the refusal of a page of a region, where another region with the same segment id has another page.
    #[cold]
    fn differs(&self, id: u32, (asid, number): (Asid, u64), within: u64, page: PageId) -> Box<Problem> {
        let log2 = REGION_LOG2.saturating_sub(self.page_log2);
        let address = |number: u64| (u128::from(number) << log2 | u128::from(within)) << self.page_log2;
        let is_other = |(at, region): &(&(Asid, u64), &Region)| {
            let other = region.pages.get(&within);
            region.segment == RegionSegment::Stated(id)
                && **at != (asid, number)
                && other.is_some_and(|&other| other != page)
        };
        let (&(other, of_other), _) =
            self.regions.iter().find(is_other).expect("a region has the other page");
        Problem::request(
            &format!(
                "{:#x} in address space {asid} and {:#x} in address space {other} are different pages",
                address(number),
                address(of_other)
            ),
            ONE_ADDRESS,
            &format!(
                "the regions have segment id {id}, so a page of one is the page at the same place of the other"
            ),
            "give the regions different ids in translation.segment-ids, or map the pages that differ in another region \
             of 256MiB",
        )
    }

    /// Notes that a region no longer has a page at a global address.
    fn release(&mut self, (segment, within): (RegionSegment, u64)) {
        let RegionSegment::Stated(id) = segment else { return };
        if let Some(held) = self.held.get_mut(&(id, within)) {
            held.regions -= 1;
            if held.regions == 0 {
                self.held.remove(&(id, within));
            }
        }
    }

    /// Returns the page that a space touched at a page, and did not unmap since.
    pub(super) fn page_at(&self, asid: Asid, page_no: u64) -> Option<PageId> {
        let (region, within) = self.place(page_no);
        self.regions.get(&(asid, region))?.pages.get(&within).copied()
    }

    /// Follows the end of some pages of a space, from the first to the last.
    pub(super) fn unmap(&mut self, asid: Asid, [first, last]: [u64; 2]) {
        let [(from, from_page), (to, to_page)] = [first, last].map(|page_no| self.place(page_no));
        let (mut unused, mut released) = (Vec::new(), Vec::new());
        for (&at, region) in self.regions.range_mut((asid, from)..=(asid, to)) {
            let first = if at.1 == from { from_page } else { 0 };
            let last = if at.1 == to { to_page } else { u64::MAX };
            while let Some((&page, _)) = region.pages.range(first..=last).next() {
                region.pages.remove(&page);
                released.push((region.segment, page));
            }
            if region.pages.is_empty() {
                unused.push(at);
            }
        }
        for at in unused {
            self.regions.remove(&at);
        }
        released.into_iter().for_each(|at| self.release(at));
    }

    /// Follows the end of a space.
    pub(super) fn drop_space(&mut self, asid: Asid) {
        self.unmap(asid, [0, u64::MAX]);
    }
}
