//! `Ids` numbers pages and mappings densely. Its flat tables answer what hardware asks of the operating
//! system.

use alloc::{format, vec::Vec};

use binhop_base::{Asid, MappingId, PageId, PageNo, Problem, Result};

use super::{PageOrigin, SegmentId};

/// `Link` is a link to a mapping, or the end of a chain. No mapping has the number `u32::MAX` (see
/// `Ids::room`).
#[derive(Clone, Copy)]
struct Link(u32);

impl Link {
    const END: Self = Self(u32::MAX);

    fn get(self) -> Option<MappingId> {
        (self.0 != u32::MAX).then_some(MappingId(self.0))
    }
}

struct Page {
    global: PageNo,
    segment: SegmentId,
    origin: PageOrigin,
    newest: Link,
}

struct Mapping {
    page: PageId,
    asid: Asid,
    /// The next older mapping of the same page.
    of_page: Link,
}

/// `Ids` holds pages and mappings by number. The tables grow with the pages touched and never shrink. Numbers
/// are never reused.
pub(super) struct Ids {
    pages: Vec<Page>,
    mappings: Vec<Mapping>,
    virtual_pages: Vec<PageNo>,
    /// The mappings of the kernel, in order of their numbers.
    of_kernel: Vec<MappingId>,
    /// A bit for each page, set if the page died.
    dead: Vec<u64>,
    /// The maximum number of pages, and of mappings: one fewer than a `u32` tells apart. Tests set a smaller
    /// limit.
    limit: usize,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self {
            pages: Vec::new(),
            mappings: Vec::new(),
            virtual_pages: Vec::new(),
            of_kernel: Vec::new(),
            dead: Vec::new(),
            limit: u32::MAX as usize,
        }
    }

    fn room(&self, used: usize, what: &str) -> Result<u32> {
        if used < self.limit {
            return Ok(used as u32);
        }
        Err(Problem::run(
            &format!("{used} {what}"),
            "address spaces",
            &format!("a run tells at most {} {what} apart", self.limit),
            "simulate a part of the trace (--length), or larger pages",
        ))
    }

    /// Adds a page, which is first mapped at `global`.
    pub(super) fn add_page(
        &mut self,
        segment: SegmentId,
        global: PageNo,
        origin: PageOrigin,
    ) -> Result<PageId> {
        let page = PageId(self.room(self.pages.len(), "pages")?);
        self.pages.push(Page { global, segment, origin, newest: Link::END });
        Ok(page)
    }

    /// Marks a page as dead.
    pub(super) fn mark_dead(&mut self, page: PageId) {
        let words = self.pages.len().div_ceil(64);
        if words > self.dead.len() {
            self.dead.resize(words, 0);
        }
        self.dead[page.index() / 64] |= 1 << (page.index() % 64);
    }

    /// Returns whether a page has died.
    pub(super) fn is_dead(&self, page: PageId) -> bool {
        self.dead.get(page.index() / 64).is_some_and(|word| word >> (page.index() % 64) & 1 == 1)
    }

    /// Adds a mapping.
    pub(super) fn add_mapping(
        &mut self,
        asid: Asid,
        virtual_page: PageNo,
        page: PageId,
    ) -> Result<MappingId> {
        let mapping = MappingId(self.room(self.mappings.len(), "mappings")?);
        let of_page = core::mem::replace(&mut self.pages[page.index()].newest, Link(mapping.0));
        self.mappings.push(Mapping { page, asid, of_page });
        self.virtual_pages.push(virtual_page);
        Ok(mapping)
    }

    /// Adds a mapping of the kernel.
    pub(super) fn add_kernel_mapping(&mut self, virtual_page: PageNo, page: PageId) -> Result<MappingId> {
        let mapping = self.add_mapping(Asid(0), virtual_page, page)?;
        self.of_kernel.push(mapping);
        Ok(mapping)
    }

    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn mappings(&self) -> usize {
        self.mappings.len()
    }

    #[inline]
    pub(super) fn page_of(&self, mapping: MappingId) -> PageId {
        self.mappings[mapping.index()].page
    }

    #[inline]
    pub(super) fn asid_of(&self, mapping: MappingId) -> Option<Asid> {
        let of_process = self.of_kernel.binary_search(&mapping).is_err();
        of_process.then(|| self.mappings[mapping.index()].asid)
    }

    #[inline]
    pub(super) fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.virtual_pages[mapping.index()]
    }

    #[inline]
    pub(super) fn global_page(&self, page: PageId) -> PageNo {
        self.pages[page.index()].global
    }

    #[inline]
    pub(super) fn segment_of(&self, page: PageId) -> SegmentId {
        self.pages[page.index()].segment
    }

    pub(super) fn origin_of(&self, page: PageId) -> PageOrigin {
        self.pages[page.index()].origin
    }

    pub(super) fn mappings_of(&self, page: PageId) -> impl Iterator<Item = MappingId> {
        let next = |mapping: &MappingId| self.mappings[mapping.index()].of_page.get();
        core::iter::successors(self.pages[page.index()].newest.get(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_numbers_stops_the_run() {
        let mut ids = Ids { limit: 2, ..Ids::new() };
        let add = |ids: &mut Ids, page| ids.add_page(SegmentId(0), PageNo(page), PageOrigin::Outside);
        let page = add(&mut ids, 7).unwrap();
        add(&mut ids, 8).unwrap();
        let problem = add(&mut ids, 9).unwrap_err();
        assert_eq!((problem.class, &*problem.value), (binhop_base::Class::Run, "2 pages"));
        ids.add_mapping(Asid(0), PageNo(7), page).unwrap();
        ids.add_mapping(Asid(1), PageNo(7), page).unwrap();
        assert_eq!(ids.add_mapping(Asid(2), PageNo(7), page).unwrap_err().value, "2 mappings");
    }
}
