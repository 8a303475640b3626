//! What may be asked about pages, mappings, segments and spaces: by dense number, from flat tables.

use binhop_base::{Asid, MappingId, PageId, PageNo};

use super::{Owner, SegmentId, Spaces};

impl Spaces {
    /// Number of pages so far; page numbers lie below it.
    #[inline]
    #[must_use]
    pub fn pages(&self) -> usize {
        self.ids.pages()
    }

    /// Number of mappings so far; mapping numbers lie below it.
    #[inline]
    #[must_use]
    pub fn mappings(&self) -> usize {
        self.ids.mappings()
    }

    /// The page a mapping leads to.
    #[inline]
    #[must_use]
    pub fn page_of(&self, mapping: MappingId) -> PageId {
        self.ids.page_of(mapping)
    }

    /// The virtual page number of a mapping, in its space.
    #[inline]
    #[must_use]
    pub fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.ids.virtual_page(mapping)
    }

    /// The address space of a mapping.
    #[inline]
    #[must_use]
    pub fn asid_of(&self, mapping: MappingId) -> Asid {
        self.ids.asid_of(mapping)
    }

    /// The virtual page number of a page's first mapping: its number in the global space.
    #[inline]
    #[must_use]
    pub fn global_page(&self, page: PageId) -> PageNo {
        self.ids.global_page(page)
    }

    /// The segment a page belongs to. A copy belongs to the private segment of the space that made it.
    #[inline]
    #[must_use]
    pub fn segment_of(&self, page: PageId) -> SegmentId {
        self.ids.segment_of(page)
    }

    /// Number of segments so far; segment numbers lie below it.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Whose pages a segment holds.
    #[must_use]
    pub fn owner_of(&self, segment: SegmentId) -> Owner {
        self.segments.owner(segment)
    }

    /// All mappings that ever led to a page, newest first, those of ended spaces included.
    pub fn mappings_of(&self, page: PageId) -> impl Iterator<Item = MappingId> {
        self.ids.mappings_of(page)
    }

    /// Pages an address space has touched, a page seen at two virtual pages counted twice.
    #[must_use]
    pub fn footprint(&self, asid: Asid) -> u64 {
        self.by_asid.get(&asid).map_or(0, |&space| self.spaces[space as usize].footprint)
    }

    /// The footprint of every address space, by asid.
    pub fn footprints(&self) -> impl Iterator<Item = (Asid, u64)> {
        self.by_asid.iter().map(|(&asid, &space)| (asid, self.spaces[space as usize].footprint))
    }

    /// Whether any map event came. If none did, nothing is known of what lies outside, and
    /// [`Touch::outside`](crate::Touch::outside) says nothing.
    #[must_use]
    pub fn has_maps(&self) -> bool {
        self.has_maps
    }

    /// Machine pages of which a part belongs to a segment, but not the whole of them, or not congruently,
    /// and that were therefore made private to their space.
    #[must_use]
    pub fn unaligned(&self) -> u64 {
        self.unaligned
    }
}
