//! `disjunct` is the table of JM97 for caches that software fills (§4.2, Figures 6 and 7).
//!
//! # Form
//! - **Segments.** The regions of 256 MiB of an address space are segments of a global space of 52 bits: 24 bits of a
//!   segment's number, and 28 bits of an address within it. Ours: segments are numbered in the order in which spaces
//!   first map a page of a region, the lowest free number first. A region that loses its last page gives its number
//!   and its segment back. (JM97 lets the operating system choose.) Regions that the caller declares to be one shared
//!   region have one segment. A segment whose number the caller states has this number, and no other segment has it.
//! - **The global table** is linear in virtual memory, at the top of the global space. The address of a page's
//!   entry is ten 1-bits, then the page's number in the global space, then `00`. So the part of the table that maps
//!   a segment has a fixed place, and address spaces use disjunct parts.
//! - **The root table** of an address space lies in physical memory. It has 8 groups, one for each region (ours: or
//!   another power of two, for programs with more regions). A group has an entry for each page of the global table
//!   that maps the region's segment: with pages of 4 KiB a group has 64 entries, and a root table has 2 KiB.
//! - **The segment map** (ours) lies in physical memory. It has an entry for each segment, which leads to the segment's
//!   group. The handler of write-backs reads it, because a line that leaves may belong to a space that does not run.
//!
//! Pages of the table are numbered: first the segment map, then the root tables, then the global table.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};

use binhop_base::{Asid, Bytes, PageId, PageNo, Problem, Result, counted};

use super::config::{TableConfig, one_size};
use super::form::{TableForm, TableKind};
use super::regions::{REGION_LOG2, RegionShape, Regions};
use super::table_pages::broken;
use super::{Step, Walked};

pub(super) static FORM: TableForm = TableForm {
    name: "disjunct",
    rule: "A linear global table at the top of a space of 52 bits maps segments of 256 MiB; a root table for each address \
           space maps the parts of its segments.",
    source: "JM97 §4.2, Figures 6 and 7; the numbers of segments and the segment map are ours",
    has_levels: false,
    entry: |_| 4,
    kind: |_| TableKind::Disjunct { segments: USUAL_SEGMENTS, regions: USUAL_REGIONS },
};

/// The usual number of regions of an address space: a user space of 2 GiB.
const USUAL_REGIONS: u32 = 8;
/// The most regions that an address space may use.
const MOST_REGIONS: u32 = 256;
/// The bytes of an entry. A page's number in the global space, and two 0-bits, give the address of its entry.
const ENTRY_LOG2: u32 = 2;
/// The bits below the ten 1-bits of an address in the global table.
const GLOBAL_LOG2: u32 = 42;
/// The largest page: one page of the global table maps a segment.
const LARGEST_PAGE_LOG2: u32 = 15;
/// The usual number of segments for which a table has room.
const USUAL_SEGMENTS: u32 = 256;
/// The most pages that tables may have, because every lane keeps a frame for each.
const MOST_PAGES: u64 = 1 << 20;

/// `DisjunctLayout` says where the parts of the table lie among its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DisjunctLayout {
    page_log2: u32,
    /// The number of segments.
    segments: u32,
    /// The logarithm of the groups in a root table.
    regions_log2: u32,
}

impl DisjunctLayout {
    /// Makes the layout of a table for a number of segments, and for a number of regions of an address space.
    ///
    /// # Errors
    /// The pages are too large, the regions are no power of two, or the table has too many pages.
    pub fn new(page_log2: u32, segments: u32, regions: u32) -> Result<Self> {
        if !regions.is_power_of_two() || regions > MOST_REGIONS {
            return Err(Problem::request(
                &counted(regions.into(), ["region", "regions"]),
                "translation.regions",
                &format!("a root table has a group for each region: a power of two up to {MOST_REGIONS}"),
                "take 8, as JM97 does, or 16",
            ));
        }
        let layout = Self { page_log2, segments, regions_log2: regions.ilog2() };
        if page_log2 > LARGEST_PAGE_LOG2 {
            return Err(Problem::request(
                &format!("pages of {}", Bytes(1 << page_log2)),
                "translation.table",
                &format!(
                    "a page of the disjunct table maps at most 256MiB: pages have at most {}",
                    Bytes(1 << LARGEST_PAGE_LOG2)
                ),
                "take smaller pages, like --set memory.page=4KiB",
            ));
        }
        if segments == 0 || layout.count() > MOST_PAGES {
            return Err(Problem::request(
                &format!(
                    "{} of {}",
                    counted(segments.into(), ["segment", "segments"]),
                    counted(1 << (REGION_LOG2 - page_log2), ["page", "pages"])
                ),
                "translation.segments",
                &format!("there is at least one segment, and the table has at most {MOST_PAGES} pages"),
                "take fewer segments, or larger pages",
            ));
        }
        Ok(layout)
    }

    /// Returns the logarithm of the bytes of a page.
    pub(super) fn page_log2(self) -> u32 {
        self.page_log2
    }

    /// Returns the number of table pages.
    #[must_use]
    pub fn pages(self) -> u32 {
        self.count() as u32
    }

    /// Returns the page of the global table that has a number among table pages, counted from the start of the global
    /// table; `None` for pages that lie in physical memory.
    #[must_use]
    pub fn global_page(self, table: u32) -> Option<u32> {
        table.checked_sub(self.map_pages() + self.root_pages())
    }

    /// Returns the virtual page of the global table's first page.
    #[must_use]
    pub fn global_start(self) -> PageNo {
        PageNo((0x3ff << GLOBAL_LOG2) >> self.page_log2)
    }

    /// Returns the virtual page at which physical memory begins, for what is cached by its physical address. Its upper
    /// ten bits are 1111111110 (ours: JM97 leaves the encoding open). No segment has this number, or the number of the
    /// global table, because there are fewer segments.
    #[must_use]
    pub fn physical_start(self) -> PageNo {
        PageNo((0x3fe << GLOBAL_LOG2) >> self.page_log2)
    }

    /// Returns the table page and the byte of a segment's entry in the segment map.
    #[must_use]
    pub fn map_entry(self, segment: u32) -> (u32, u32) {
        self.within(0, u64::from(segment) << ENTRY_LOG2)
    }

    /// Returns the segment whose entries a table page holds; `None` for other pages.
    #[must_use]
    pub fn segment_of(self, table: u32) -> Option<u32> {
        Some(self.global_page(table)? >> self.group_log2())
    }

    fn count(self) -> u64 {
        u64::from(self.map_pages())
            + u64::from(self.root_pages())
            + (u64::from(self.segments) << self.group_log2())
    }

    /// Returns the logarithm of the entries in a group. A group has an entry for each page of the global table that
    /// maps one segment.
    fn group_log2(self) -> u32 {
        REGION_LOG2 + ENTRY_LOG2 - 2 * self.page_log2
    }

    /// Returns the logarithm of the bytes of a root table.
    fn root_log2(self) -> u32 {
        self.regions_log2 + self.group_log2() + ENTRY_LOG2
    }

    fn map_pages(self) -> u32 {
        (u64::from(self.segments) << ENTRY_LOG2).div_ceil(1 << self.page_log2) as u32
    }

    /// Returns the number of table pages that all root tables take. There is room for as many root tables as segments:
    /// only address spaces that have no segment of their own could need more.
    fn root_pages(self) -> u32 {
        (u64::from(self.segments) << self.root_log2()).div_ceil(1 << self.page_log2) as u32
    }

    fn within(self, first: u32, byte: u64) -> (u32, u32) {
        (first + (byte >> self.page_log2) as u32, (byte & ((1 << self.page_log2) - 1)) as u32)
    }

    /// Returns the place of an entry in root table `root`. The entry leads to page `at`, counted over the pages of
    /// all regions of the address space.
    fn root_entry(self, root: u32, at: u64) -> (u32, u32) {
        let in_page = self.page_log2 - ENTRY_LOG2;
        self.within(self.map_pages(), (u64::from(root) << self.root_log2()) + ((at >> in_page) << ENTRY_LOG2))
    }

    /// Returns the place of a page's entry in the global table.
    fn user_entry(self, segment: u32, page: u64) -> (u32, u32) {
        let global = u64::from(segment) << (REGION_LOG2 - self.page_log2) | page;
        self.within(self.map_pages() + self.root_pages(), global << ENTRY_LOG2)
    }

    /// Returns the table pages of a root table.
    fn pages_of_root(self, root: u32) -> core::ops::Range<u32> {
        let (first, _) = self.within(self.map_pages(), u64::from(root) << self.root_log2());
        let (last, _) = self.within(self.map_pages(), (u64::from(root + 1) << self.root_log2()) - 1);
        first..last + 1
    }
}

struct DisjunctSpace {
    /// The number of the root table.
    root: u32,
    regions: Regions,
    /// The segment of each region in use, and the pages of the segment that the space has mapped.
    segments: Vec<Option<(u32, BTreeSet<u64>)>>,
}

/// `SegmentPage` is the translation of a page of a segment: the page, and the number of spaces that map it.
struct SegmentPage {
    page: PageId,
    spaces: u32,
}

/// `RegionSegment` says which segment a region of an address space takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionSegment {
    /// A segment of its own.
    Own,
    /// The segment of all regions that are this shared region.
    Shared(u32),
    /// The segment with this number, which the caller has stated before.
    Stated(u32),
}

/// `UsedSegment` is a segment in use.
#[derive(Default)]
struct UsedSegment {
    /// The number of the shared region that has this segment; `None` if its region is not shared as a whole.
    shared: Option<u32>,
    /// The translations by the page's number in the segment.
    pages: BTreeMap<u64, SegmentPage>,
}

/// `DisjunctTable` holds the global table and the root tables of all address spaces.
pub(super) struct DisjunctTable {
    layout: DisjunctLayout,
    shape: RegionShape,
    spaces: BTreeMap<Asid, DisjunctSpace>,
    segments: BTreeMap<u32, UsedSegment>,
    /// The segment of each shared region in use.
    shared: BTreeMap<u32, u32>,
    /// The segments whose numbers the caller has stated. They are never free for other regions.
    stated: BTreeSet<u32>,
    free_segments: BTreeSet<u32>,
    free_roots: BTreeSet<u32>,
    /// For each table page in use, the number of translations or of root tables in it.
    live: BTreeMap<u32, u32>,
    most_used: u32,
}

impl DisjunctTable {
    pub(super) fn new(config: &TableConfig, [segments, regions]: [u32; 2]) -> Result<Self> {
        if config.entry != 1 << ENTRY_LOG2 {
            return Err(Problem::request(
                &format!("{}", Bytes(config.entry.into())),
                "translation.entry",
                "an entry of the disjunct table has 4 bytes: the page's number and two 0-bits are its address",
                "leave the key out",
            ));
        }
        let layout = DisjunctLayout::new(config.page.log2(), segments, regions)?;
        let pages_log2 = REGION_LOG2 - config.page.log2();
        let remedy = "raise translation.regions, like --set translation.regions=16";
        let shape = RegionShape { pages_log2, bytes_log2: REGION_LOG2, count: regions, remedy };
        Ok(Self {
            layout,
            shape,
            spaces: BTreeMap::new(),
            segments: BTreeMap::new(),
            shared: BTreeMap::new(),
            stated: BTreeSet::new(),
            free_segments: (0..segments).collect(),
            free_roots: (0..segments).collect(),
            live: (0..layout.map_pages()).map(|page| (page, 1)).collect(),
            most_used: layout.map_pages(),
        })
    }

    /// Keeps a segment for the regions that state its number. No region has a segment yet.
    pub(super) fn state_segment(&mut self, number: u32) {
        if self.free_segments.remove(&number) {
            self.stated.insert(number);
        }
    }

    pub(super) fn layout(&self) -> DisjunctLayout {
        self.layout
    }

    /// Checks a size of pages. A superpage has entries for its pages, which lie in one page of the global table.
    pub(super) fn check_size(&self, size_log2: u32) -> Result<()> {
        let page_log2 = self.layout.page_log2;
        let largest = page_log2 + (page_log2 - ENTRY_LOG2);
        if (page_log2..=largest).contains(&size_log2) {
            return Ok(());
        }
        Err(Problem::request(
            &format!("a page of {}", Bytes(1 << size_log2)),
            "page table",
            &format!("a page of the disjunct table maps {}: superpages are no larger", Bytes(1 << largest)),
            "take smaller huge-pages, or larger pages",
        ))
    }

    pub(super) fn used(&self) -> u32 {
        self.live.len() as u32
    }

    pub(super) fn free(&self) -> u32 {
        self.layout.pages() - self.used()
    }

    pub(super) fn most_used(&self) -> u32 {
        self.most_used
    }

    pub(super) fn entries(&self) -> u64 {
        self.segments.values().map(|segment| segment.pages.len() as u64).sum()
    }

    fn hold(&mut self, table: u32) {
        *self.live.entry(table).or_default() += 1;
        self.most_used = self.most_used.max(self.used());
    }

    /// Counts one entry or root table fewer in a table page. The page is free when none is left.
    fn release(&mut self, table: u32) {
        let live = self.live.get_mut(&table).expect("a table page in use is counted");
        *live -= 1;
        if *live == 0 {
            self.live.remove(&table);
        }
    }

    /// Maps a page, in a region that takes this segment.
    pub(super) fn map(
        &mut self,
        asid: Asid,
        page_no: PageNo,
        page: PageId,
        size_log2: u32,
        segment: RegionSegment,
    ) -> Result<()> {
        one_size(&FORM, self.layout.page_log2, size_log2)?;
        let (shape, known) = (self.shape, self.spaces.get(&asid));
        let at = match known {
            Some(space) => space.regions.plan(shape, asid, page_no)?,
            None => Regions::new(shape).plan(shape, asid, page_no)?,
        };
        let region = (at >> shape.pages_log2) as usize;
        let own = known.and_then(|space| Some(space.segments[region].as_ref()?.0));
        let free = || self.free_segments.first().copied();
        let wanted = || match segment {
            RegionSegment::Own => free(),
            RegionSegment::Shared(shared) => self.shared.get(&shared).copied().or_else(free),
            RegionSegment::Stated(number) => self.stated.get(&number).copied(),
        };
        let Some(number) = own.or_else(wanted) else { return Err(self.full(asid, page_no)) };
        let within = at & ((1 << shape.pages_log2) - 1);
        let others = self.segments.get(&number).and_then(|segment| segment.pages.get(&within));
        let mine =
            known.and_then(|space| space.segments[region].as_ref()).is_some_and(|it| it.1.contains(&within));
        if let Some(other) = others.filter(|other| other.page != page && other.spaces > u32::from(mine)) {
            return Err(self.differs(asid, page_no, number, [other.page, page]));
        }
        if known.is_none() {
            let Some(root) = self.free_roots.pop_first() else { return Err(self.no_root(asid)) };
            self.layout.pages_of_root(root).for_each(|table| self.hold(table));
            let segments = (0..shape.count).map(|_| None).collect();
            self.spaces.insert(asid, DisjunctSpace { root, regions: Regions::new(shape), segments });
        }
        if self.free_segments.remove(&number)
            && let RegionSegment::Shared(shared) = segment
        {
            self.shared.insert(shared, number);
            self.segments.entry(number).or_default().shared = Some(shared);
        }
        let space = self.spaces.get_mut(&asid).expect("made above");
        let new = space.segments[region].get_or_insert((number, BTreeSet::new())).1.insert(within);
        if new {
            space.regions.add(shape, at, page_no);
        }
        let pages = &mut self.segments.entry(number).or_default().pages;
        let first = !pages.contains_key(&within);
        let entry = pages.entry(within).or_insert(SegmentPage { page, spaces: 0 });
        entry.page = page;
        entry.spaces += u32::from(new);
        if first {
            self.hold(self.layout.user_entry(number, within).0);
        }
        Ok(())
    }

    pub(super) fn walk(&self, asid: Asid, page_no: PageNo, steps: &mut Vec<Step>) -> Option<Walked> {
        let space = self.spaces.get(&asid)?;
        let at = space.regions.locate(self.shape, page_no)?;
        let (segment, mapped) = space.segments[(at >> self.shape.pages_log2) as usize].as_ref()?;
        let within = at & ((1 << self.shape.pages_log2) - 1);
        let places = [self.layout.root_entry(space.root, at), self.layout.user_entry(*segment, within)];
        let step = |(level, (table, offset))| Step::Entry { table, offset, level };
        steps.extend((0..).zip(places).map(step));
        let page = self.segments.get(segment)?.pages.get(&within).filter(|_| mapped.contains(&within))?.page;
        Some(Walked { page, size_log2: self.layout.page_log2 })
    }

    pub(super) fn unmap(&mut self, asid: Asid, first: PageNo, last: PageNo) {
        let Some(mut space) = self.spaces.remove(&asid) else { return };
        let mask = (1 << self.shape.pages_log2) - 1;
        for (region, first, last) in space.regions.ranges(self.shape, first.0, last.0) {
            let (number, mapped) = space.segments[region].as_mut().expect("a region in use has a segment");
            let (number, gone) =
                (*number, mapped.range(first & mask..=last & mask).copied().collect::<Vec<_>>());
            let segment = self.segments.get_mut(&number).expect("a segment in use has pages");
            let mut unmapped = Vec::new();
            for page in &gone {
                mapped.remove(page);
                let entry = segment.pages.get_mut(page).expect("a page that a space maps has a translation");
                entry.spaces -= 1;
                if entry.spaces == 0 {
                    segment.pages.remove(page);
                    unmapped.push(*page);
                }
            }
            if mapped.is_empty() {
                space.segments[region] = None;
            }
            if segment.pages.is_empty() {
                if let Some(shared) = segment.shared {
                    self.shared.remove(&shared);
                }
                self.segments.remove(&number);
                if !self.stated.contains(&number) {
                    self.free_segments.insert(number);
                }
            }
            space.regions.remove(region, gone.len() as u64);
            unmapped.iter().for_each(|&page| self.release(self.layout.user_entry(number, page).0));
        }
        if space.segments.iter().any(Option::is_some) {
            self.spaces.insert(asid, space);
        } else {
            self.layout.pages_of_root(space.root).for_each(|table| self.release(table));
            self.free_roots.insert(space.root);
        }
    }

    /// Checks that pages and counts agree: each page in use is counted once for each translation or root in it, and
    /// each translation counts the spaces that map it.
    pub(super) fn check(&self) -> Result<()> {
        let mut live: BTreeMap<u32, u32> = (0..self.layout.map_pages()).map(|page| (page, 1)).collect();
        let mut spaces: BTreeMap<(u32, u64), u32> = BTreeMap::new();
        for space in self.spaces.values() {
            self.layout.pages_of_root(space.root).for_each(|table| *live.entry(table).or_default() += 1);
            for (segment, mapped) in space.segments.iter().flatten() {
                mapped.iter().for_each(|&page| *spaces.entry((*segment, page)).or_default() += 1);
            }
        }
        let mut counted = BTreeMap::new();
        for (&number, segment) in &self.segments {
            for (&page, entry) in &segment.pages {
                *live.entry(self.layout.user_entry(number, page).0).or_default() += 1;
                counted.insert((number, page), entry.spaces);
            }
        }
        let mapped: u64 = spaces.values().map(|&spaces| u64::from(spaces)).sum();
        let of_regions: u64 = self.spaces.values().map(|space| space.regions.entries()).sum();
        if live != self.live || of_regions != mapped || counted != spaces {
            let value = format!(
                "{} translations in {} segments, {of_regions} in the regions of {} address spaces",
                self.entries(),
                self.segments.len(),
                self.spaces.len()
            );
            return Err(broken(
                &value,
                "regions and segments hold the same translations, and their pages are in use",
            ));
        }
        Ok(())
    }

    #[cold]
    fn differs(&self, asid: Asid, page_no: PageNo, segment: u32, [there, here]: [PageId; 2]) -> Box<Problem> {
        let address = u128::from(page_no.0) << self.layout.page_log2;
        Problem::request(
            &format!("page {here} at address {address:#x}, page {there} in the other address spaces"),
            &format!("page table of address space {asid}"),
            &format!("segment {segment} is shared as a whole: its pages are the same in all address spaces"),
            "map the pages that differ in another region of 256MiB, or take --set translation.sharing=aliases",
        )
    }

    #[cold]
    fn no_root(&self, asid: Asid) -> Box<Problem> {
        Problem::request(
            &format!("address space {asid}, which has no root table"),
            &format!("page table of address space {asid}"),
            &format!(
                "the disjunct table has room for as many root tables as segments, {}, and all are in use",
                self.layout.segments
            ),
            "raise translation.segments",
        )
    }

    #[cold]
    fn full(&self, asid: Asid, page_no: PageNo) -> Box<Problem> {
        let address = u128::from(page_no.0) << self.layout.page_log2;
        Problem::request(
            &format!("address {address:#x}, in a region that has no segment"),
            &format!("page table of address space {asid}"),
            &format!(
                "the disjunct table has room for {}, and no segment is free",
                counted(self.layout.segments.into(), ["segment", "segments"])
            ),
            "raise translation.segments",
        )
    }
}
