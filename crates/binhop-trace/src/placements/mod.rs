//! Placements that are known: which frame each page got.
//!
//! In a Parquet file: columns `asid`, `page_no`, `frame` (integers, not null); `evicted`, if it is there, is null where
//! the frame was free: then a file says whether it ever evicts. Others (seed, fault, page, segment) are for the reader.
//! The key `binhop.page_size` in its metadata says what a page is, in bytes; without it, it is the machine's. Any program
//! may write such a file; `binhop run --dump-placement` and `binhop import --placement` do. Maps of addresses: see [`crate::placements::v2p`].

mod file;
mod lines;
mod pagemap;
pub mod v2p;

use binhop_base::{Problem, Result};

pub use file::{PlacementWriter, read_placements};

/// A page that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedPage {
    /// Address space.
    pub asid: u32,
    /// Virtual page number.
    pub page_no: u64,
    /// Frame number.
    pub frame: u64,
}

/// Virtual addresses that lie one behind another in physical memory, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Address space.
    pub asid: u32,
    /// First virtual address.
    pub virtual_address: u64,
    /// First physical address.
    pub physical_address: u64,
    /// How many; 1 or more, and both ends stay within 64 bits.
    pub bytes: u64,
}

impl Span {
    /// The virtual address behind the last; 2^64 where the last is the last of all.
    fn end(&self) -> u128 {
        u128::from(self.virtual_address) + u128::from(self.bytes)
    }
}

/// Consecutive pages in consecutive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// The first of them.
    pub first: PlacedPage,
    /// How many.
    pub pages: u64,
}

/// Placements that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// How large `pages` are, in bytes, a power of two; `None`: as large as the machine's.
    pub page_size: Option<u64>,
    /// Pages in the order in which they were placed; one that is there again got another frame later.
    pub pages: Vec<PlacedPage>,
    /// What a map of addresses says, for all time.
    pub spans: Vec<Span>,
    /// Whether a page may have left its frame for another.
    pub evicts: bool,
}

impl Placements {
    /// Returns the placements of a map of addresses.
    fn of_map(spans: Vec<Span>) -> Self {
        let evicts = shares_frames(spans.clone());
        Self { spans, evicts, ..Self::default() }
    }

    /// The placements in pages of `page` bytes (a power of two): the pages as they are where they have that size; all
    /// else as runs, in the order of their addresses, of which no two overlap.
    ///
    /// # Errors
    /// A virtual address lies at two physical ones; a page of this size is not in one piece. `place` names the file.
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

/// Spans in order, those that continue each other joined.
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
                "leave one of them out; a placement that changes is a Parquet file with a row for each time",
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

/// A span in pages of this size.
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

/// Whether two pages lie at one physical address: then each would have to leave for the other.
fn shares_frames(mut spans: Vec<Span>) -> bool {
    spans.sort_unstable_by_key(|span| (span.physical_address, span.asid, span.virtual_address));
    spans.dedup();
    spans.windows(2).any(|pair| pair[1].physical_address - pair[0].physical_address < pair[0].bytes)
}
