//! `Regions` numbers the regions of one address space densely, so that a table for 32-bit addresses serves
//! 64-bit addresses.

use alloc::{boxed::Box, format, string::String, vec, vec::Vec};

use binhop_base::{Asid, Bytes, PageNo, Problem, Result, counted};

/// The logarithm of the bytes in a region: 256 MiB, as in a segment of JM97 (Figure 2).
pub const REGION_LOG2: u32 = 28;

/// `RegionShape` says how many regions a table has, and how large they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegionShape {
    /// The logarithm of the base pages in a region.
    pub(super) pages_log2: u32,
    /// The logarithm of the bytes in a region.
    pub(super) bytes_log2: u32,
    /// The maximum number of regions of an address space.
    pub(super) count: u32,
    /// The remedy of the error if a space uses more regions.
    pub(super) remedy: &'static str,
}

impl RegionShape {
    /// Returns the regions of a table for addresses of `address_bits` bits; `None` if the table is smaller than a
    /// region. `root_entry_log2` is the logarithm of the bytes that an entry of the root maps. A region is at least
    /// that large, so all pages that the entry maps lie in one region.
    pub(super) fn new(address_bits: u32, page_log2: u32, root_entry_log2: u32) -> Option<Self> {
        let bytes_log2 = REGION_LOG2.max(root_entry_log2);
        let count = 1 << address_bits.checked_sub(bytes_log2)?;
        let remedy =
            "take a table for 64-bit addresses: table = \"radix\" with levels = 4, or table = \"hashed\"";
        Some(Self { pages_log2: bytes_log2 - page_log2, bytes_log2, count, remedy })
    }
}

/// `Region` is a region in use.
#[derive(Clone, Copy)]
struct Region {
    /// The virtual page number, without the bits of a page within its region.
    upper: u64,
    /// The number of translations in the region.
    entries: u64,
}

/// `Regions` holds the regions of one address space by their numbers.
pub(super) struct Regions(Vec<Option<Region>>);

impl Regions {
    pub(super) fn new(shape: RegionShape) -> Self {
        Self(vec![None; shape.count as usize])
    }

    fn number(&self, upper: u64) -> Option<usize> {
        self.0.iter().position(|region| region.is_some_and(|region| region.upper == upper))
    }

    /// Returns the page's number in the table, if its region has a number.
    pub(super) fn locate(&self, shape: RegionShape, page_no: PageNo) -> Option<u64> {
        let number = self.number(page_no.0 >> shape.pages_log2)?;
        Some(at(shape, number, page_no.0))
    }

    /// Returns the page's number in the table if the page is mapped now: its region has a number or gets one.
    ///
    /// # Errors
    /// All numbers are in use.
    pub(super) fn plan(&self, shape: RegionShape, asid: Asid, page_no: PageNo) -> Result<u64> {
        let known = self.number(page_no.0 >> shape.pages_log2);
        let number = known.or_else(|| self.0.iter().position(Option::is_none));
        number.map(|number| at(shape, number, page_no.0)).ok_or_else(|| self.full(shape, asid, page_no))
    }

    /// Counts a new translation at the place that [`Regions::plan`] returned.
    pub(super) fn add(&mut self, shape: RegionShape, at: u64, page_no: PageNo) {
        let upper = page_no.0 >> shape.pages_log2;
        let number = (at >> shape.pages_log2) as usize;
        self.0[number].get_or_insert(Region { upper, entries: 0 }).entries += 1;
    }

    /// Counts translations that left the region with a number.
    pub(super) fn remove(&mut self, number: usize, entries: u64) {
        if let Some(region) = &mut self.0[number] {
            region.entries -= entries;
            if region.entries == 0 {
                self.0[number] = None;
            }
        }
    }

    /// Returns the parts of a range of pages by region: the region's number, and the first and last page as
    /// numbers in the table.
    pub(super) fn ranges(&self, shape: RegionShape, first: u64, last: u64) -> Vec<(usize, u64, u64)> {
        let part = |(number, region): (usize, &Option<Region>)| {
            let begin = (*region)?.upper << shape.pages_log2;
            let end = begin | ((1 << shape.pages_log2) - 1);
            let (first, last) = (first.max(begin), last.min(end));
            (first <= last).then(|| (number, at(shape, number, first), at(shape, number, last)))
        };
        self.0.iter().enumerate().filter_map(part).collect()
    }

    /// Returns the number of translations.
    pub(super) fn entries(&self) -> u64 {
        self.0.iter().flatten().map(|region| region.entries).sum()
    }

    #[cold]
    fn full(&self, shape: RegionShape, asid: Asid, page_no: PageNo) -> Box<Problem> {
        let size = Bytes(1 << shape.bytes_log2);
        let uppers = self.0.iter().flatten().map(|region| region.upper);
        let start = |upper: u64| format!("{:#x}", upper << shape.bytes_log2);
        let named: Vec<String> = uppers.chain([page_no.0 >> shape.pages_log2]).map(start).collect();
        Problem::request(
            &format!("{} regions of {size}, at {}", named.len(), named.join(", ")),
            &format!("page table of address space {asid}"),
            &format!(
                "this table maps at most {} in an address space",
                counted(shape.count.into(), ["region", "regions"])
            ),
            shape.remedy,
        )
    }
}

fn at(shape: RegionShape, number: usize, page_no: u64) -> u64 {
    (number as u64) << shape.pages_log2 | (page_no & ((1 << shape.pages_log2) - 1))
}
