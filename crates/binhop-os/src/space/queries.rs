//! What may be asked about pages, mappings, segments and spaces: by dense number, from flat tables.

use alloc::{collections::BTreeSet, sync::Arc, vec::Vec};

use binhop_base::{Asid, MappingId, PageId, PageNo};

use super::{Owner, Remembered, SegmentId, Spaces, areas::Where};

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

    /// The segments an address space can have pages in now, in increasing order: those its areas lie in, its
    /// private one, if it made a private page, and the private ones that were handed down to it at a fork.
    /// (Of these it may hold few pages: those that its forefathers made later are not its own.) Where
    /// physical = virtual: the one of all memory.
    ///
    /// O(areas of the space).
    #[must_use]
    pub fn segments_of_space(&self, asid: Asid) -> Vec<SegmentId> {
        let Some(&space) = self.by_asid.get(&asid) else { return Vec::new() };
        let home = &self.spaces[space as usize];
        let mapped = home.areas.iter().filter_map(|(_, area)| Some(area.backing?.segment));
        let private = home.inherited.iter().copied().chain(home.private);
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
            Some(Remembered { when: now, segments: Arc::clone(&segments) });
        segments
    }

    /// The live pages that an address space has touched in its present life and would find again where it
    /// touched them, each once, in increasing order. None after its end.
    ///
    /// O(pages of the space and of the segments mapped in it).
    #[must_use]
    pub fn pages_of_space(&self, asid: Asid) -> Vec<PageId> {
        let Some(&space) = self.by_asid.get(&asid) else { return Vec::new() };
        let home = &self.spaces[space as usize];
        if self.memory.is_some() {
            let mine = (0..self.mappings() as u32).map(MappingId).filter(|&m| self.asid_of(m) == asid);
            return mine.map(|mapping| self.page_of(mapping)).collect::<BTreeSet<_>>().into_iter().collect();
        }
        let mut pages = BTreeSet::new();
        let mut add = |page_no: u64, page: PageId| {
            let place = self.table.get(space, page_no).map(|place| &self.places[place as usize]);
            if place.is_some_and(|place| place.page == page && place.generation >= home.born) {
                pages.insert(page);
            }
        };
        for (&page_no, own) in &home.own {
            add(page_no, own.page);
        }
        for (start, area) in home.areas.iter() {
            let Some(backing) = area.backing else { continue };
            let index = |byte: u64| byte.wrapping_sub(backing.base) >> self.page.log2();
            let segment = self.segments.get(backing.segment);
            for index in segment.live(index(start), index(area.last)) {
                let page_no = backing.base.wrapping_add(index << self.page.log2()) >> self.page.log2();
                let here = Where::Segment { segment: backing.segment, index, shared: backing.shared };
                if !home.own.contains_key(&page_no) && home.areas.lookup(page_no, self.page) == here {
                    add(page_no, segment.pages[&index]);
                }
            }
        }
        pages.into_iter().collect()
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
