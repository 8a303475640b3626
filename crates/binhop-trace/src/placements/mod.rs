//! `Placements` is a recorded placement: it says which frame each page got.
//!
//! A Parquet file has the columns `asid`, `page_no` and `frame` (integers, not null). A column `evicted` is
//! null where the frame was free, so it tells whether any page was evicted. Further columns (seed, fault,
//! page, segment) serve human readers. The key `binhop.page_size` of the metadata gives the bytes of a page.
//! Without the key, a page has the size of the machine's pages. `binhop run --dump-placement` and `binhop
//! import --placement` write such files, and any program may. [`v2p`] reads maps of addresses, and
//! `pagemap.rs` reads raw pagemaps.

mod file;
mod lines;
mod pagemap;
pub mod v2p;

use binhop_base::{Problem, Result};

pub use file::{PlacementWriter, read_placements};

/// `PlacedPage` is a page and its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedPage {
    /// The address space.
    pub asid: u32,
    /// The virtual page number.
    pub page_no: u64,
    /// The frame number.
    pub frame: u64,
}

/// `Span` is a range of virtual addresses that is contiguous in physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The address space.
    pub asid: u32,
    /// The first virtual address.
    pub virtual_address: u64,
    /// The first physical address.
    pub physical_address: u64,
    /// The length in bytes: 1 or more. Both ends stay within 64 bits.
    pub bytes: u64,
}

impl Span {
    /// Returns the virtual address behind the last byte; 2^64 if the last byte is the last of all.
    fn end(&self) -> u128 {
        u128::from(self.virtual_address) + u128::from(self.bytes)
    }
}

/// `FrameRun` is a run of consecutive pages in consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// The first page.
    pub first: PlacedPage,
    /// The number of pages.
    pub pages: u64,
}

/// `Placements` holds a recorded placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// The bytes of a page of `pages`, a power of two; `None` if the machine's page size holds.
    pub page_size: Option<u64>,
    /// The pages in the order in which they were placed. A page that occurs again got another frame later.
    pub pages: Vec<PlacedPage>,
    /// The spans of a map of addresses, which hold for the whole run.
    pub spans: Vec<Span>,
    /// True if a page may have been evicted.
    pub evicts: bool,
}

impl Placements {
    /// Returns the placements of a map of addresses.
    fn of_map(spans: Vec<Span>) -> Self {
        let evicts = shares_frames(spans.clone());
        Self { spans, evicts, ..Self::default() }
    }

    /// Returns the placements in pages of `page` bytes (a power of two). Pages of that size stay as they are.
    /// Everything else becomes runs, in order of their addresses, and no two runs overlap.
    ///
    /// # Errors
    /// A virtual address lies at two physical addresses, or a page of this size is not in one piece. `place`
    /// names the file.
    pub fn in_pages(&self, page: u64, place: &str) -> Result<(Vec<PlacedPage>, Vec<FrameRun>)> {
        let as_they_are = self.page_size.is_none_or(|own| own == page);
        let mut spans = self.spans.clone();
        if !as_they_are {
            let own = self.page_size.unwrap_or(page);
            let at = |number: u64| number.checked_mul(own);
            for PlacedPage { asid, page_no, frame } in &self.pages {
                let (Some(virtual_address), Some(physical_address)) = (at(*page_no), at(*frame)) else {
                    let value = format!("page {page_no} in frame {frame}");
                    let rule = format!("pages of {own} bytes lie within 64 bits");
                    return Err(Problem::request(&value, place, &rule, "write the file again"));
                };
                spans.push(Span { asid: *asid, virtual_address, physical_address, bytes: own });
            }
        }
        let runs = joined(spans, place)?.into_iter().map(|span| cut(&span, page, place));
        let pages = if as_they_are { self.pages.clone() } else { Vec::new() };
        Ok((pages, runs.collect::<Result<_>>()?))
    }
}

/// Returns the spans in order, with consecutive spans joined.
fn joined(mut spans: Vec<Span>, place: &str) -> Result<Vec<Span>> {
    spans.sort_unstable();
    spans.dedup();
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        let Some(last) = joined.last_mut().filter(|last| last.asid == span.asid) else {
            joined.push(span);
            continue;
        };
        if last.end() > span.virtual_address.into() {
            return Err(Problem::request(
                &format!("virtual address {:#x} of asid {}", span.virtual_address, span.asid),
                place,
                "a virtual address lies at one physical address: the map gives two",
                "leave one of the lines out; a placement that changes is a Parquet file with a row for each time",
            ));
        }
        let follows = last.end() == span.virtual_address.into()
            && last.physical_address.checked_add(last.bytes) == Some(span.physical_address);
        match last.bytes.checked_add(span.bytes) {
            Some(bytes) if follows => last.bytes = bytes,
            _ => joined.push(span),
        }
    }
    Ok(joined)
}

/// Returns a span as a run of pages of this size.
fn cut(span: &Span, page: u64, place: &str) -> Result<FrameRun> {
    let Span { asid, virtual_address, physical_address, bytes } = *span;
    let pieces = [virtual_address, physical_address, bytes];
    if pieces.iter().all(|value| value.is_multiple_of(page)) {
        let first = PlacedPage { asid, page_no: virtual_address / page, frame: physical_address / page };
        return Ok(FrameRun { first, pages: bytes / page });
    }
    let fits = 1_u64 << pieces.iter().map(|value| value.trailing_zeros()).min().unwrap_or(0).min(63);
    Err(Problem::request(
        &format!(
            "{bytes} bytes at {virtual_address:#x} of asid {asid}, in physical memory at {physical_address:#x}"
        ),
        place,
        &format!("a page of the machine ({page} bytes) lies in one piece, at a multiple of its size"),
        &format!("make memory.page what the map has: here {fits} bytes or smaller"),
    ))
}

/// Returns whether two spans overlap in physical memory, so that their pages would have to evict one another.
fn shares_frames(mut spans: Vec<Span>) -> bool {
    spans.sort_unstable_by_key(|span| (span.physical_address, span.asid, span.virtual_address));
    spans.dedup();
    spans.windows(2).any(|pair| pair[1].physical_address - pair[0].physical_address < pair[0].bytes)
}
