//! Queries about pages, mappings, segments and spaces: by dense number, from flat tables.

use alloc::{boxed::Box, collections::BTreeSet, sync::Arc, vec::Vec};

use binhop_base::{Asid, MappingId, PageId, PageNo};

use super::{MapFlags, NO_PLACE, Owner, PageOrigin, Remembered, SegmentId, Spaces, extents::What};

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

    /// The address space of a mapping; `None` for a mapping of the kernel.
    #[must_use]
    pub fn asid_of(&self, mapping: MappingId) -> Option<Asid> {
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

    /// Returns the origin of a page, by which a reader may call it.
    #[must_use]
    pub fn origin_of(&self, page: PageId) -> PageOrigin {
        self.ids.origin_of(page)
    }

    /// The flags of the map in which a segment appeared.
    #[must_use]
    pub fn flags_of(&self, segment: SegmentId) -> MapFlags {
        self.segments.flags(segment)
    }

    /// Number of segments so far, without the kernel's; their numbers lie below it.
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

    /// The segments an address space can have pages in now, in increasing order: those its areas lie in, its
    /// private one, if it made a private page, and the private ones that were handed down to it at a fork.
    /// (Of these it may hold few pages: those that its forefathers made later are not its own.) Where
    /// physical = virtual: the one of all memory.
    ///
    /// O(n log n) in the areas and forefathers of the space.
    #[must_use]
    pub fn segments_of_space(&self, asid: Asid) -> Vec<SegmentId> {
        let Some(&space) = self.by_asid.get(&asid) else { return Vec::new() };
        let home = &self.spaces[space as usize];
        let mapped = self.areas.iter(home.areas).filter_map(|(_, area)| Some(area.backing?.segment));
        let private = self.lineages.segments(home.lineage).chain(home.private);
        let all: BTreeSet<SegmentId> = mapped.chain(private).chain(self.memory).collect();
        all.into_iter().collect()
    }

    /// The same, remembered until it changes: what every placement of a space asks.
    #[must_use]
    pub fn shared_segments(&mut self, asid: Asid) -> Arc<[SegmentId]> {
        let Some(&space) = self.by_asid.get(&asid) else { return [].into() };
        let home = &self.spaces[space as usize];
        let now = (home.generation, home.private);
        if let Some(known) = home.segments.as_ref().filter(|known| known.when == now) {
            return Arc::clone(&known.segments);
        }
        let segments: Arc<[SegmentId]> = self.segments_of_space(asid).into();
        self.spaces[space as usize].segments =
            Some(Box::new(Remembered { when: now, segments: Arc::clone(&segments) }));
        segments
    }

    /// The live pages that an address space has touched in its present life and would find again where it
    /// touched them, each once, in increasing order. None after its end.
    ///
    /// O(n log n) in the pages that the space touched in its present life.
    #[must_use]
    pub fn pages_of_space(&self, asid: Asid) -> Vec<PageId> {
        let Some(&space) = self.by_asid.get(&asid) else { return Vec::new() };
        let home = &self.spaces[space as usize];
        let mut pages = Vec::new();
        let mut next = home.touched;
        while next != NO_PLACE {
            let place = &self.places[next as usize];
            next = place.before;
            let now = match self.extents.at(home.extents, self.virtual_page(place.newest).0) {
                Some(What::Own { page, .. }) => Some(page),
                Some(What::Run { segment, index, .. }) => self.segments.page(segment, index),
                None => self.memory.map(|_| place.page),
            };
            pages.extend(now.filter(|&page| page == place.page));
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// Returns whether any map event came. If none did, nothing is known of what lies outside, and
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
