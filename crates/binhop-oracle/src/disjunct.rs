//! `DisjunctTable` is the page table of JM97 (§4.2, Figures 6 and 7) for caches that software fills. It keeps a list of
//! the mapped pages, and finds by searching the list which regions, segments and root tables are in use.
//!
//! Pages have 4 KiB and entries 4 bytes.
//! - A *region* is 256 MiB of an address space. An address space numbers its regions from 0 on, in the order in
//!   which their first pages are mapped. A *segment* is a region in the space of all segments. A new region takes
//!   the lowest free number of its address space, and its segment the lowest free number of a segment. If another
//!   region has the same segment already, the segment keeps its number. A segment to which the user gave an id has
//!   this number, and no other segment takes the number. A region that loses its last page gives its
//!   number back. A segment gives its number back with its last region.
//! - The entry of a page, the *user entry*, lies at a global virtual address of 52 bits: ten 1-bits, the 24-bit
//!   number of the segment, the 16-bit number of the page in the segment, two 0-bits.
//! - The segment map and the root tables lie in physical memory. A physical address is cached under the 52-bit
//!   address that begins with nine 1-bits and a 0-bit. The segment map has 4 bytes for each segment. Root tables
//!   follow on the next page: with 8 regions 2 KiB each. An address space gets the lowest free root table with its
//!   first page.
//! - A root table has 64 entries for each region that a space may use, by the region's number. An entry maps 1024
//!   user entries.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Asid, PageId, PageNo};

use crate::segments::Segment;

/// The number of pages in a region.
const REGION_PAGES: u64 = 1 << 16;
const ENTRY: u64 = 4;
const PAGE: u64 = 4096;
/// The bytes of a region's entries in a root table.
const GROUP_BYTES: u64 = 64 * ENTRY;
/// The start of the global table: user entries lie at this address and above.
const GLOBAL_TABLE: u64 = 0b11_1111_1111 << 42;
/// The start of the addresses under which physical memory is cached.
const PHYSICAL: u64 = 0b11_1111_1110 << 42;

/// Returns the 52-bit address under which a physical address is cached.
#[must_use]
pub fn physical(address: u64) -> u64 {
    PHYSICAL + address
}

/// `Place` holds the 52-bit addresses of the entries that lead to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The entry of the page.
    pub user_entry: u64,
    /// The entry that maps the page of the user entry.
    pub root_entry: u64,
    /// The entry that leads from the page's segment to its group of root entries.
    pub map_entry: u64,
}

/// `DisjunctTable` holds the mapped pages of all address spaces.
#[derive(Clone, Debug)]
pub struct DisjunctTable {
    segments: u64,
    /// The number of regions of an address space.
    regions_of_space: u64,
    /// The physical address of the segment map.
    map: u64,
    pages: BTreeMap<(Asid, u64), PageId>,
    /// The number of each region of each space, by the upper bits of its pages' numbers.
    regions: BTreeMap<(Asid, u64), u64>,
    /// The segment of each region of each space, and its number.
    of_regions: BTreeMap<(Asid, u64), (Segment, u64)>,
    roots: BTreeMap<Asid, u64>,
    /// The maximum number of table pages in use at one time. The segment map is in use from the start.
    pub most_used: usize,
    /// True if two regions of one segment had different pages at one place. A page has one entry there.
    pub conflict: bool,
    /// The numbers of segments that the user gave as ids.
    pub stated: BTreeSet<u64>,
}

impl DisjunctTable {
    /// Makes an empty table for a number of segments, and of regions of an address space. The segment map lies at this
    /// physical address, which begins a page.
    #[must_use]
    pub fn new(segments: u64, regions_of_space: u64, map: u64) -> Self {
        let (regions, of_regions, roots) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut table = Self {
            segments,
            regions_of_space,
            map,
            pages: BTreeMap::new(),
            regions,
            of_regions,
            roots,
            most_used: 0,
            conflict: false,
            stated: BTreeSet::new(),
        };
        table.most_used = table.used_pages().len();
        table
    }

    fn roots_start(&self) -> u64 {
        self.map + (self.segments * ENTRY).next_multiple_of(PAGE)
    }

    fn root_start(&self, root: u64) -> u64 {
        self.roots_start() + root * self.regions_of_space * GROUP_BYTES
    }

    /// Maps a page in a region with a segment, and returns the place of its entries.
    ///
    /// # Panics
    /// The space has no region left, or the table no segment.
    pub fn map(&mut self, asid: Asid, PageNo(page_no): PageNo, page: PageId, segment: Segment) -> Place {
        self.pages.insert((asid, page_no), page);
        let region = (asid, page_no / REGION_PAGES);
        if !self.regions.contains_key(&region) {
            let of_space: BTreeSet<u64> =
                self.regions.iter().filter(|((of, _), _)| *of == asid).map(|(_, &number)| number).collect();
            let number =
                (0..self.regions_of_space).find(|number| !of_space.contains(number)).expect("a free region");
            self.regions.insert(region, number);
            let used: BTreeMap<u64, Segment> =
                self.of_regions.values().map(|&(segment, number)| (number, segment)).collect();
            let known = used.iter().find(|&(_, &other)| other == segment).map(|(&number, _)| number);
            let is_free = |number: &u64| !used.contains_key(number) && !self.stated.contains(number);
            let free = || (0..self.segments).find(is_free);
            let number = match segment {
                Segment::Stated(id) => u64::from(id),
                Segment::Own(..) | Segment::Shared(_) => known.or_else(free).expect("a free segment"),
            };
            self.of_regions.insert(region, (segment, number));
            let used: BTreeSet<u64> = self.roots.values().copied().collect();
            let free = (0..self.segments).find(|root| !used.contains(root)).expect("a free root table");
            self.roots.entry(asid).or_insert(free);
        }
        self.most_used = self.most_used.max(self.used_pages().len());
        let place = self.place(asid, page_no);
        let differs = |(&(asid, other_no), &other): (&(Asid, u64), &PageId)| {
            other != page && self.place(asid, other_no).user_entry == place.user_entry
        };
        self.conflict |= self.pages.iter().any(differs);
        place
    }

    /// Returns the place of the entries of a page whose region is in use.
    fn place(&self, asid: Asid, page_no: u64) -> Place {
        let region = (asid, page_no / REGION_PAGES);
        let (number, (_, segment)) = (self.regions[&region], self.of_regions[&region]);
        let page = page_no % REGION_PAGES;
        let in_root = number * 64 + page / 1024;
        Place {
            user_entry: GLOBAL_TABLE + (segment * REGION_PAGES + page) * ENTRY,
            root_entry: physical(self.root_start(self.roots[&asid]) + in_root * ENTRY),
            map_entry: physical(self.map + segment * ENTRY),
        }
    }

    /// Returns whether a page is mapped.
    #[must_use]
    pub fn maps(&self, asid: Asid, PageNo(page_no): PageNo) -> bool {
        self.pages.contains_key(&(asid, page_no))
    }

    /// Unmaps the pages of a space from a first page to a last page.
    pub fn unmap(&mut self, asid: Asid, PageNo(first): PageNo, PageNo(last): PageNo) {
        self.pages.retain(|&(of, page), _| of != asid || page < first || page > last);
        self.give_back();
    }

    /// Unmaps all pages of a space.
    pub fn drop_space(&mut self, asid: Asid) {
        self.pages.retain(|&(of, _), _| of != asid);
        self.give_back();
    }

    /// Takes the numbers from regions and spaces that have no page.
    fn give_back(&mut self) {
        let regions: BTreeSet<(Asid, u64)> =
            self.pages.keys().map(|&(asid, page)| (asid, page / REGION_PAGES)).collect();
        self.regions.retain(|region, _| regions.contains(region));
        self.of_regions.retain(|region, _| regions.contains(region));
        self.roots.retain(|space, _| regions.iter().any(|(asid, _)| asid == space));
    }

    /// Returns the pages of the table in use, by the addresses of their first bytes: the segment map, and every page in
    /// which a root table or a user entry lies.
    fn used_pages(&self) -> BTreeSet<u64> {
        let map = (self.map..self.roots_start()).step_by(PAGE as usize).map(physical);
        let roots = self.roots.values().map(|root| physical(self.root_start(*root)));
        let entries = self.pages.keys().map(|&(asid, page)| self.place(asid, page).user_entry);
        map.chain(roots).chain(entries).map(|address| address / PAGE * PAGE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: u64 = 0x10_0000;

    fn table() -> DisjunctTable {
        DisjunctTable::new(256, 8, MAP)
    }

    /// Maps a page in a region with a segment of its own.
    fn map(table: &mut DisjunctTable, asid: u32, PageNo(page_no): PageNo) -> Place {
        let segment = Segment::Own(Asid(asid), page_no / REGION_PAGES);
        table.map(Asid(asid), PageNo(page_no), PageId(0), segment)
    }

    #[test]
    fn a_user_entry_has_ten_ones_the_global_page_and_two_zeros() {
        let mut table = table();
        // Region 5 of 64-bit addresses, page 0x1234: region 0 and segment 0 of the space.
        let place = map(&mut table, 0, PageNo(5 * REGION_PAGES + 0x1234));
        assert_eq!(place.user_entry, 0xf_fc00_0000_0000 + (0x1234 << 2));
        assert_eq!(place.user_entry >> 42, 0x3ff);
        assert_eq!(place.map_entry, 0xf_f800_0010_0000);
        // 0x1234 / 1024 = 4.
        assert_eq!(place.root_entry, 0xf_f800_0010_1000 + 4 * 4);
        // Region 9 is the second region, and has the second group of 64 entries.
        let place = map(&mut table, 0, PageNo(9 * REGION_PAGES + 0xffff));
        assert_eq!(place.user_entry, 0xf_fc00_0000_0000 + (0x1_ffff << 2));
        assert_eq!(place.map_entry, 0xf_f800_0010_0004);
        assert_eq!(place.root_entry, 0xf_f800_0010_1000 + 127 * 4);
        // A second space has segment 2, region 0 and the second root table.
        let place = map(&mut table, 7, PageNo(9 * REGION_PAGES));
        assert_eq!(place.user_entry, 0xf_fc00_0000_0000 + (0x2_0000 << 2));
        assert_eq!(place.root_entry, 0xf_f800_0010_1800);
    }

    #[test]
    fn a_region_without_pages_gives_its_numbers_back() {
        let mut table = table();
        let of = |region: u64, page: u64| PageNo(region * REGION_PAGES + page);
        map(&mut table, 0, of(0, 1));
        map(&mut table, 0, of(3, 1));
        map(&mut table, 0, of(3, 2));
        map(&mut table, 1, of(3, 1));
        // The map, a page with two root tables, and a page of user entries for each of three segments.
        assert_eq!(table.most_used, 5);
        table.unmap(Asid(0), of(3, 2), of(3, 9));
        assert_eq!(map(&mut table, 0, of(8, 0)).map_entry, physical(MAP + 3 * 4));
        table.unmap(Asid(0), of(0, 0), of(3, 1));
        // Region 0 and segment 0 are free. Region 1 and segment 1 are free, too.
        let place = map(&mut table, 2, of(0, 0));
        assert_eq!(place.map_entry, physical(MAP));
        assert_eq!(place.root_entry, physical(MAP + 0x1000 + 2 * 2048));
        let place = map(&mut table, 0, of(6, 0));
        assert_eq!(place.map_entry, physical(MAP + 4));
        assert_eq!(place.root_entry, physical(MAP + 0x1000));
        table.drop_space(Asid(0));
        assert!(!table.maps(Asid(0), of(6, 0)) && table.maps(Asid(1), of(3, 1)));
        assert_eq!(map(&mut table, 5, of(0, 0)).root_entry, physical(MAP + 0x1000));
    }

    #[test]
    fn regions_of_one_segment_share_its_number_and_its_entries() {
        let mut table = table();
        let of = |region: u64, page: u64| PageNo(region * REGION_PAGES + page);
        map(&mut table, 0, of(0, 1));
        let shared = Segment::Shared(3);
        let first = table.map(Asid(1), of(3, 5), PageId(1), shared);
        let second = table.map(Asid(2), of(9, 5), PageId(1), shared);
        assert_eq!((first.user_entry, first.map_entry), (second.user_entry, second.map_entry));
        assert_ne!(first.root_entry, second.root_entry);
        assert!(!table.conflict);
        // The segment keeps its number until its last region is gone.
        table.drop_space(Asid(1));
        assert_eq!(table.map(Asid(1), of(1, 6), PageId(2), shared).map_entry, second.map_entry);
        table.map(Asid(1), of(1, 5), PageId(3), shared);
        assert!(table.conflict);
    }

    #[test]
    fn a_stated_segment_has_its_id_as_its_number() {
        let mut table = table();
        table.stated = BTreeSet::from([0, 5]);
        let of = |region: u64, page: u64| PageNo(region * REGION_PAGES + page);
        assert_eq!(map(&mut table, 0, of(0, 1)).map_entry, physical(MAP + 4));
        let stated = table.map(Asid(1), of(3, 5), PageId(1), Segment::Stated(5));
        assert_eq!(stated.map_entry, physical(MAP + 5 * 4));
        assert_eq!(stated.user_entry, (0x3ff << 42) + ((5 * REGION_PAGES + 5) << 2));
    }
}
