//! This file answers queries about pages, mappings, segments and address spaces. Flat tables hold the
//! answers by dense number.

use alloc::{boxed::Box, collections::BTreeSet, sync::Arc, vec::Vec};

use binhop_base::{Asid, MappingId, PageId, PageNo, VirtAddr};

use super::{
    KnownSegments, MapFlags, NO_TOUCHED_PAGE, Owner, PageOrigin, SegmentId, Spaces, extents::ExtentKind,
};
use crate::table::Pair;

/// `SharedArea` is memory of a segment that an address space maps as shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedArea {
    /// The first byte, counted from the start of the addresses asked for.
    pub offset: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The segment.
    pub segment: SegmentId,
    /// The byte of the segment that lies at the first byte.
    pub at: u64,
}

/// `NamedPage` is a page of a segment that the trace names, as a mapping leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedPage {
    /// The number of the segment in the trace.
    pub segment: u64,
    /// The number of the machine page in the segment, from 0.
    pub index: u64,
    /// True if every sharer sees a write. Otherwise the first write gives the address space a page of its own.
    pub shared: bool,
}

impl Spaces {
    /// Returns the number of pages so far. Page numbers lie below this number.
    #[inline]
    #[must_use]
    pub fn pages(&self) -> usize {
        self.ids.pages()
    }

    /// Returns the number of mappings so far. Mapping numbers lie below this number.
    #[inline]
    #[must_use]
    pub fn mappings(&self) -> usize {
        self.ids.mappings()
    }

    /// Returns the page to which a mapping leads.
    #[inline]
    #[must_use]
    pub fn page_of(&self, mapping: MappingId) -> PageId {
        self.ids.page_of(mapping)
    }

    /// Returns the virtual page number of a mapping, in its address space.
    #[inline]
    #[must_use]
    pub fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.ids.virtual_page(mapping)
    }

    /// Returns the address space of a mapping, or `None` for a mapping of the kernel.
    #[must_use]
    pub fn asid_of(&self, mapping: MappingId) -> Option<Asid> {
        self.ids.asid_of(mapping)
    }

    /// Returns the virtual page number of a page's first mapping, which is the page's number in the global
    /// space.
    #[inline]
    #[must_use]
    pub fn global_page(&self, page: PageId) -> PageNo {
        self.ids.global_page(page)
    }

    /// Returns the page that a reference finds, if the address space has referenced this virtual page before and the
    /// reference makes no page. Nothing is noted.
    #[must_use]
    pub fn settled_page(&self, asid: Asid, page_no: PageNo, write: bool) -> Option<PageId> {
        let space = self.known_space(asid, page_no.0)?;
        let entry = &self.touched[self.table.get(Pair::new(space, page_no.0))? as usize];
        let holds = entry.generation == self.spaces[space as usize].generation;
        (holds && (entry.write_free || !write)).then_some(entry.page)
    }

    /// Returns the page to which a virtual page leads for a load, if the page exists. Nothing is noted.
    #[must_use]
    pub fn existing_page(&self, asid: Asid, page_no: PageNo) -> Option<PageId> {
        if let Some(page) = self.settled_page(asid, page_no, false) {
            return Some(page);
        }
        let space = self.known_space(asid, page_no.0)?;
        match self.extents.at(self.spaces[space as usize].extents, page_no.0)? {
            ExtentKind::Own { page, .. } => Some(page),
            ExtentKind::Run { segment, index, .. } => self.segments.page(segment, index),
        }
    }

    /// Returns the page of a named segment to which a virtual page leads for a load; `None` if the address space has
    /// a page of its own there, or no named segment. Nothing is noted.
    #[must_use]
    pub fn segment_page_at(&self, asid: Asid, page_no: PageNo) -> Option<NamedPage> {
        let space = self.known_space(asid, page_no.0)?;
        match self.extents.at(self.spaces[space as usize].extents, page_no.0)? {
            ExtentKind::Own { .. } => None,
            ExtentKind::Run { segment, shared, index } => match self.segments.owner(segment) {
                Owner::Named(segment) => Some(NamedPage { segment, index, shared }),
                _ => None,
            },
        }
    }

    /// Returns whether the machine pages `first..=last` of an address space are private anonymous memory as a whole, or
    /// lie outside every map as a whole.
    #[must_use]
    pub fn is_anonymous(&self, asid: Asid, first: PageNo, last: PageNo) -> bool {
        let Some(space) = self.known_space(asid, first.0) else { return true };
        let areas = self.spaces[space as usize].areas;
        let log2 = self.page.log2();
        let (first, last) = (first.0 << log2, last.0 << log2 | (self.page.bytes() - 1));
        !self.areas.any(areas, first, last) || self.areas.anonymous(areas, first, last)
    }

    /// Returns whether anything is mapped in the address space that holds a virtual page of `asid`.
    #[must_use]
    pub fn maps_anything(&self, asid: Asid, page_no: PageNo) -> bool {
        self.known_space(asid, page_no.0)
            .is_some_and(|space| self.areas.any(self.spaces[space as usize].areas, 0, u64::MAX))
    }

    /// Returns how many of the machine pages `first..=last` an address space has as pages of its own.
    #[must_use]
    pub fn own_pages(&self, asid: Asid, first: PageNo, last: PageNo) -> usize {
        let Some(space) = self.known_space(asid, first.0) else { return 0 };
        self.extents.own(self.spaces[space as usize].extents, first.0, last.0).len()
    }

    /// Returns whether a shared map leads from a virtual address to a byte of the segment that the trace names so.
    #[must_use]
    pub fn leads_to(&self, asid: Asid, at: VirtAddr, segment: u64, byte: u64) -> bool {
        let Some(space) = self.known_space(asid, at.0 >> self.page.log2()) else { return false };
        let areas = self.spaces[space as usize].areas;
        self.areas.overlapping(areas, at.0, at.0).any(|(_, area)| {
            area.backing.is_some_and(|backing| {
                backing.shared
                    && self.segments.owner(backing.segment) == Owner::Named(segment)
                    && at.0.wrapping_sub(backing.base) == byte
            })
        })
    }

    /// Returns the segment of a page. A copy belongs to the private segment of the address space that made
    /// it.
    #[inline]
    #[must_use]
    pub fn segment_of(&self, page: PageId) -> SegmentId {
        self.ids.segment_of(page)
    }

    /// Returns the origin of a page, by which results name the page.
    #[must_use]
    pub fn origin_of(&self, page: PageId) -> PageOrigin {
        self.ids.origin_of(page)
    }

    /// Returns the flags of the map in which a segment appeared.
    #[must_use]
    pub fn flags_of(&self, segment: SegmentId) -> MapFlags {
        self.segments.flags(segment)
    }

    /// Returns the number of segments so far, without the kernel's segment. Segment numbers lie below
    /// this number.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns the owner of a segment's pages.
    #[must_use]
    pub fn owner_of(&self, segment: SegmentId) -> Owner {
        self.segments.owner(segment)
    }

    /// Returns what an address space maps between two addresses, if all of it is memory that the space shares: areas in
    /// order of address, as few as can be. `None`: some of it is the space's own, or nothing is mapped there.
    #[must_use]
    pub fn shared_areas(&self, asid: Asid, first: u64, last: u64) -> Option<Vec<SharedArea>> {
        let space = self.known_space(asid, first >> self.page.log2())?;
        let mut all: Vec<SharedArea> = Vec::new();
        for (start, area) in self.areas.overlapping(self.spaces[space as usize].areas, first, last) {
            let backing = area.backing.filter(|backing| backing.shared)?;
            let start = start.max(first);
            let area = SharedArea {
                offset: start - first,
                bytes: area.last.min(last) - start + 1,
                segment: backing.segment,
                at: start.wrapping_sub(backing.base),
            };
            let goes_on = |before: &&mut SharedArea| {
                before.segment == area.segment
                    && before.offset + before.bytes == area.offset
                    && before.at.wrapping_add(before.bytes) == area.at
            };
            match all.last_mut().filter(goes_on) {
                Some(before) => before.bytes += area.bytes,
                None => all.push(area),
            }
        }
        (!all.is_empty()).then_some(all)
    }

    /// Returns all mappings that ever led to a page, newest first, including mappings of ended address
    /// spaces.
    pub fn mappings_of(&self, page: PageId) -> impl Iterator<Item = MappingId> {
        self.ids.mappings_of(page)
    }

    /// Returns the address space that touched a page first; `None` for the kernel. The cost is O(n) in the page's
    /// mappings.
    #[must_use]
    pub fn first_space(&self, page: PageId) -> Option<Asid> {
        self.mappings_of(page).last().and_then(|first| self.asid_of(first))
    }

    /// Returns the number of pages that an address space has touched. A page at two virtual pages counts
    /// twice.
    #[must_use]
    pub fn footprint(&self, asid: Asid) -> u64 {
        self.by_asid.get(&asid).map_or(0, |&space| self.spaces[space as usize].footprint)
    }

    /// Returns the footprint of every address space, by asid.
    pub fn footprints(&self) -> impl Iterator<Item = (Asid, u64)> {
        self.by_asid.iter().map(|(&asid, &space)| (asid, self.spaces[space as usize].footprint))
    }

    /// Returns the segments in which an address space can have pages now, in increasing order: the segments
    /// of its areas, its private segment, and the private segments that it inherited at forks. The
    /// address space may hold few pages of an inherited segment, because it does not hold the pages that its
    /// ancestors made later. Where physical = virtual, the only segment is all memory.
    ///
    /// The cost is O(n log n) in the areas and ancestors of the address space.
    #[must_use]
    pub fn segments_of_space(&self, asid: Asid) -> Vec<SegmentId> {
        let Some(&space) = self.by_asid.get(&asid) else { return Vec::new() };
        let home = &self.spaces[space as usize];
        let mapped = self.areas.iter(home.areas).filter_map(|(_, area)| Some(area.backing?.segment));
        let private = self.lineages.segments(home.lineage).chain(home.private);
        let all: BTreeSet<SegmentId> = mapped.chain(private).chain(self.memory).collect();
        all.into_iter().collect()
    }

    /// Returns [`segments_of_space`](Self::segments_of_space), and remembers the list until it changes, because
    /// every placement reads the list.
    #[must_use]
    pub fn shared_segments(&mut self, asid: Asid) -> Arc<[SegmentId]> {
        let Some(&space) = self.by_asid.get(&asid) else { return [].into() };
        let home = &self.spaces[space as usize];
        let now = (home.generation, home.private);
        if let Some(known) = home.segments.as_ref().filter(|known| known.valid_for == now) {
            return Arc::clone(&known.segments);
        }
        let segments: Arc<[SegmentId]> = self.segments_of_space(asid).into();
        self.spaces[space as usize].segments =
            Some(Box::new(KnownSegments { valid_for: now, segments: Arc::clone(&segments) }));
        segments
    }

    /// Returns the live pages that an address space has touched in its present life and would find again
    /// where it touched them, each once, in increasing order. The list is empty after the
    /// end of the address space.
    ///
    /// The cost is O(n log n) in the pages that the address space touched in its present life.
    #[must_use]
    pub fn pages_of_space(&self, asid: Asid) -> Vec<PageId> {
        let Some(&space) = self.by_asid.get(&asid) else { return Vec::new() };
        let home = &self.spaces[space as usize];
        let mut pages = Vec::new();
        let mut next = home.last_touched;
        while next != NO_TOUCHED_PAGE {
            let entry = &self.touched[next as usize];
            next = entry.before;
            let now = match self.extents.at(home.extents, self.virtual_page(entry.newest).0) {
                Some(ExtentKind::Own { page, .. }) => Some(page),
                Some(ExtentKind::Run { segment, index, .. }) => self.segments.page(segment, index),
                None => self.memory.map(|_| entry.page),
            };
            pages.extend(now.filter(|&page| page == entry.page));
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Returns whether any map event came. Without map events, [`Touch::outside`](crate::Touch::outside) has
    /// no meaning.
    #[must_use]
    pub fn has_maps(&self) -> bool {
        self.has_maps
    }

    /// Returns the number of machine pages that were made private to their address space although a part of
    /// the page belongs to a segment: the page does not lie in the segment wholly, or not congruently.
    #[must_use]
    pub fn unaligned(&self) -> u64 {
        self.unaligned
    }
}
