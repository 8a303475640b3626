//! `Segments` gives pages their global addresses (JM97 §3.2, §4.2). It searches all pages and regions for each
//! answer.
//!
//! # Counting rules
//! - A *region* is 256 MiB of an address space. When one of its pages is touched and the region has no segment, it
//!   takes a segment. It keeps the segment until all of its touched pages have been unmapped, or its space ends.
//! - A region to which the user gave a segment id has the segment of this id.
//! - Any other region is shared as a whole if its address space maps memory there, and all of this memory is shared.
//!   Its segment is the segment of all regions that mapped the same memory at the same place when they took their
//!   segment. Every other region has a segment of its own.
//! - The global address of a page is its segment and its place within the region. A page has one name for each of its
//!   global addresses: the first mapping that led there.
//! - Two different pages of regions with one segment id must not have one global address at one time.

use std::collections::BTreeMap;

use binhop_base::{Asid, MappingId, PageId, PageNo};

use crate::spaces::{SharedUnit, Spaces, Touched};

/// `Segment` is the identity of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// The segment of a region that its space does not share as a whole.
    Own(Asid, u64),
    /// The segment of all regions with these contents.
    Shared(usize),
    /// The segment of the regions to which the user gave this id.
    Stated(u32),
}

/// `Segments` knows the segment of every region in use.
#[derive(Clone, Debug)]
pub struct Segments {
    /// The pages in a region.
    region: u64,
    /// True if regions that are shared as a whole have one segment.
    shares: bool,
    /// The contents of each shared segment.
    contents: Vec<Vec<SharedUnit>>,
    /// The ids that the user gave to regions.
    pub stated: BTreeMap<(Asid, u64), u32>,
    /// True if two different pages of regions with one segment id had one global address at one time.
    pub conflict: bool,
    touched: BTreeMap<(Asid, u64), PageId>,
    of_regions: BTreeMap<(Asid, u64), Segment>,
    names: Vec<(Segment, u64, PageId, MappingId)>,
}

impl Segments {
    /// Makes segments of regions with `region` pages. If `shares` is false, every region has a segment of its own.
    #[must_use]
    pub fn new(region: u64, shares: bool) -> Self {
        Self {
            region,
            shares,
            contents: Vec::new(),
            stated: BTreeMap::new(),
            conflict: false,
            touched: BTreeMap::new(),
            of_regions: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// Notes a touch of a page. Returns the segment of its region, and the name of the page's global address.
    pub fn touch(
        &mut self,
        asid: Asid,
        PageNo(page_no): PageNo,
        touched: &Touched,
        spaces: &Spaces,
    ) -> (Segment, MappingId) {
        let region = page_no / self.region;
        let segment = match self.of_regions.get(&(asid, region)) {
            Some(&segment) => segment,
            None => self.look(asid, region, spaces),
        };
        self.of_regions.insert((asid, region), segment);
        self.touched.insert((asid, page_no), touched.page);
        let has_same_address = |&(&(other, number), _): &(&(Asid, u64), &PageId)| {
            let of_other = self.of_regions[&(other, number / self.region)];
            of_other == segment && number % self.region == page_no % self.region
        };
        let differs = self.touched.iter().filter(has_same_address).any(|(_, &page)| page != touched.page);
        self.conflict |= differs && matches!(segment, Segment::Stated(_));
        let name = match segment {
            Segment::Own(..) => touched.mapping,
            Segment::Shared(_) | Segment::Stated(_) => {
                let at = (segment, page_no % self.region, touched.page);
                let known = self.names.iter().find(|name| (name.0, name.1, name.2) == at);
                known.map_or(touched.mapping, |name| name.3)
            }
        };
        if name == touched.mapping {
            self.names.push((segment, page_no % self.region, touched.page, name));
        }
        (segment, name)
    }

    /// Finds the segment of a region that has none.
    fn look(&mut self, asid: Asid, region: u64, spaces: &Spaces) -> Segment {
        if let Some(&id) = self.stated.get(&(asid, region)) {
            return Segment::Stated(id);
        }
        let pages = region * self.region..(region + 1) * self.region;
        let Some(contents) = spaces.shared_memory(asid, pages).filter(|_| self.shares) else {
            return Segment::Own(asid, region);
        };
        let known = self.contents.iter().position(|other| *other == contents);
        Segment::Shared(known.unwrap_or_else(|| {
            self.contents.push(contents);
            self.contents.len() - 1
        }))
    }

    /// Unmaps the pages of a space from a first page to a last page.
    pub fn unmap(&mut self, asid: Asid, first: u64, last: u64) {
        self.touched.retain(|&(of, page), _| of != asid || page < first || page > last);
        let used: Vec<_> = self.touched.keys().map(|&(asid, page)| (asid, page / self.region)).collect();
        self.of_regions.retain(|region, _| used.contains(region));
    }

    /// Unmaps all pages of a space.
    pub fn drop_space(&mut self, asid: Asid) {
        self.unmap(asid, 0, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: u64 = 1 << 16;

    #[test]
    fn regions_that_are_shared_as_a_whole_have_one_segment() {
        let mut spaces = Spaces::new(4096, 4096, 0);
        let mut segments = Segments::new(REGION, true);
        let mut touch = |spaces: &mut Spaces, asid: u32, page: u64| {
            let touched = spaces.touch(Asid(asid), PageNo(page), false);
            segments.touch(Asid(asid), PageNo(page), &touched, spaces)
        };
        let map = |spaces: &mut Spaces, asid: u32, page: u64, pages: u64, shared: bool| {
            spaces.map(Asid(asid), page * 4096, pages, (shared, false), Some((7, 0)));
        };
        map(&mut spaces, 1, 3 * REGION, 8, true);
        map(&mut spaces, 2, 6 * REGION, 8, true);
        map(&mut spaces, 3, REGION + 1, 8, true);
        map(&mut spaces, 4, REGION, 8, true);
        map(&mut spaces, 4, REGION + 20, 1, false);
        let first = touch(&mut spaces, 1, 3 * REGION + 2);
        assert_eq!(first, (Segment::Shared(0), MappingId(0)));
        assert_eq!(touch(&mut spaces, 2, 6 * REGION + 2), first);
        // The same memory lies elsewhere in the region, or beside memory that is not shared: these pages are aliases.
        assert_eq!(touch(&mut spaces, 3, REGION + 3), (Segment::Shared(1), MappingId(2)));
        assert_eq!(touch(&mut spaces, 4, REGION + 2), (Segment::Own(Asid(4), 1), MappingId(3)));
    }

    #[test]
    fn a_stated_id_is_the_segment_of_its_regions_and_two_pages_at_one_address_conflict() {
        let mut spaces = Spaces::new(4096, 4096, 0);
        let mut segments = Segments::new(REGION, true);
        segments.stated.extend([((Asid(1), 3), 9), ((Asid(2), 6), 9)]);
        let map = |spaces: &mut Spaces, asid: u32, page: u64, first: u64| {
            spaces.map(Asid(asid), page * 4096, 2, (true, false), Some((7, first)));
        };
        // Each space also maps private memory in its region, so no region is shared as a whole.
        map(&mut spaces, 1, 3 * REGION, 0);
        map(&mut spaces, 2, 6 * REGION, 0);
        spaces.map(Asid(1), (3 * REGION + 9) * 4096, 1, (false, false), None);
        spaces.map(Asid(2), (6 * REGION + 9) * 4096, 1, (false, false), None);
        let touch = |segments: &mut Segments, spaces: &mut Spaces, asid: u32, page: u64| {
            let touched = spaces.touch(Asid(asid), PageNo(page), false);
            segments.touch(Asid(asid), PageNo(page), &touched, spaces)
        };
        let first = touch(&mut segments, &mut spaces, 1, 3 * REGION + 1);
        assert_eq!(first, (Segment::Stated(9), MappingId(0)));
        assert_eq!(touch(&mut segments, &mut spaces, 2, 6 * REGION + 1), first);
        touch(&mut segments, &mut spaces, 1, 3 * REGION + 9);
        assert!(!segments.conflict);
        let mut freed = segments.clone();
        touch(&mut segments, &mut spaces, 2, 6 * REGION + 9);
        assert!(segments.conflict);
        // A page that its space has unmapped has no address any more.
        freed.unmap(Asid(1), 3 * REGION + 9, 3 * REGION + 9);
        touch(&mut freed, &mut spaces, 2, 6 * REGION + 9);
        assert!(!freed.conflict);
    }
}
