//! Placements that are known: which frame each page got.
//!
//! In a Parquet file: columns `asid`, `page_no`, `frame` (integers, not null); `evicted`, if it is there, is null where
//! the frame was free: then a file says whether it ever evicts. Others (seed, fault, page, segment) are for the reader.
//! The key `binhop.page_size` in its metadata says what a page is, in bytes; without it, it is the machine's. Any program
//! may write such a file; `binhop run --dump-placement` and `binhop import --placement` do. Maps of addresses: see [`crate::v2p`].

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use arrow::record_batch::RecordBatch;
use binhop_base::{Problem, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use crate::footer::MADE_BY;
use crate::guard::guarded;
use crate::input::Input;
use crate::steady::{Identity, Steady};
use crate::write::Temporary;
use crate::{pagemap, pages, v2p, wait};

/// The columns that are read.
const COLUMNS: &[&str] = &["asid", "page_no", "frame", "evicted", "seed"];

/// The key of a file's metadata that says how large its pages are.
const PAGE_SIZE: &str = "binhop.page_size";

/// A page that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Page {
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
pub struct Run {
    /// The first of them.
    pub first: Page,
    /// How many.
    pub pages: u64,
}

/// Placements that are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// How large `pages` are, in bytes, a power of two; `None`: as large as the machine's.
    pub page_size: Option<u64>,
    /// Pages in the order in which they were placed; one that is there again got another frame later.
    pub pages: Vec<Page>,
    /// What a map of addresses says, for all time.
    pub spans: Vec<Span>,
    /// Whether a page may have left its frame for another.
    pub evicts: bool,
}

impl Placements {
    /// The placements in pages of `page` bytes (a power of two): the pages as they are where they have that size; all
    /// else as runs, in the order of their addresses, of which no two overlap.
    ///
    /// # Errors
    /// A virtual address lies at two physical ones; a page of this size is not in one piece. `place` names the file.
    pub fn in_pages(&self, page: u64, place: &str) -> Result<(Vec<Page>, Vec<Run>)> {
        let as_they_are = self.page_size.is_none_or(|own| own == page);
        let mut spans = self.spans.clone();
        if !as_they_are {
            let own = self.page_size.unwrap_or(page);
            let at = |number: u64| number.checked_mul(own);
            for Page { asid, page_no, frame } in &self.pages {
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
fn cut(span: &Span, page: u64, place: &str) -> Result<Run> {
    let Span { asid, virtual_address, physical_address, bytes } = *span;
    let pieces = [virtual_address, physical_address, bytes];
    if pieces.iter().all(|value| value.is_multiple_of(page)) {
        let first = Page { asid, page_no: virtual_address / page, frame: physical_address / page };
        return Ok(Run { first, pages: bytes / page });
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

/// Reads placements from a file: Parquet, or a map of addresses; errors say that it stands at `place`.
///
/// # Errors
/// The file cannot be read, is damaged or neither; a column is missing, null or no whole number; there are several
/// seeds in it; there is no row.
pub fn read_placements(path: &str, place: &str) -> Result<Placements> {
    let unreadable =
        |error: std::io::Error| wrong(path, place, &format!("the file cannot be read ({error})"));
    if path.starts_with("/proc/") {
        return Err(Problem::request(
            path,
            place,
            "is the memory of a program that runs: a placement stays as it is",
            "save it in a file first: examples/placement/pagemap.py PID FILE (docs/placement.md)",
        ));
    }
    let at_its_place = |mut problem: Box<Problem>| {
        // Where the file itself is wrong, it is the value, and stands nowhere in a file.
        problem.place = match &*problem.place {
            "" => place.to_owned(),
            within => format!("{place}: {within}"),
        };
        problem
    };
    // A pipe can be opened once, so its format is recognized from the first bytes that are read.
    let (mut reader, identity) = wait::open(path).map_err(at_its_place)?;
    let mut head = Vec::new();
    if let Err(error) = reader.by_ref().take(4).read_to_end(&mut head) {
        return Err(wait::inner(&error).unwrap_or_else(|| unreadable(error)));
    }
    match identity {
        Some(identity) if head == b"PAR1" => return read_parquet(path, place, &identity),
        None if head == b"PAR1" => {
            return Err(wrong(
                path,
                place,
                "a Parquet file is read from its end, which a pipe does not have",
            ));
        }
        _ => {}
    }
    let map = match pagemap::maps_beside(path) {
        Some(maps) => pagemap::read(path, &maps),
        None => Input::from_reader(path, Cursor::new(head).chain(reader)).and_then(v2p::read_from),
    };
    map.map_err(at_its_place)
}

fn wrong(path: &str, place: &str, rule: &str) -> Box<Problem> {
    let remedy = "give a file that `binhop run --dump-placement FILE` wrote, one with its columns, or a map of virtual to physical addresses (docs/placement.md)";
    Problem::request(path, place, rule, remedy)
}

fn read_parquet(path: &str, place: &str, identity: &Identity) -> Result<Placements> {
    let wrong = |rule: &str| wrong(path, place, rule);
    let file = File::open(path).and_then(Steady::new);
    let file = file.map_err(|error| wrong(&format!("the file cannot be read ({error})")))?;
    let here = format!("{place}: {path}");
    identity.is_still(file.identity(), &here)?;
    let builder = guarded(&here, || ParquetRecordBatchReaderBuilder::try_new(file.clone()))?;
    let parquet = Arc::clone(builder.metadata());
    for index in 0..parquet.num_row_groups() {
        pages::check(&file, &parquet, index, COLUMNS, &format!("{here}: row group {index}"))?;
    }
    let entries = parquet.file_metadata().key_value_metadata().cloned().unwrap_or_default();
    let page_size = entries.into_iter().find(|entry| entry.key == PAGE_SIZE).and_then(|entry| entry.value);
    let mask = ProjectionMask::columns(builder.parquet_schema(), COLUMNS.iter().copied());
    let batches = guarded(&here, || {
        Ok(builder.with_projection(mask).build()?.collect::<std::result::Result<Vec<RecordBatch>, _>>()?)
    })?;
    file.check(&here)?;
    let page_size = match page_size.map(|text| text.parse::<u64>()) {
        None => None,
        Some(Ok(bytes)) if bytes.is_power_of_two() => Some(bytes),
        Some(_) => return Err(wrong(&format!("{PAGE_SIZE} in its metadata is a power of two"))),
    };
    let mut placements = Placements { page_size, ..Placements::default() };
    let mut seeds = Vec::new();
    for batch in &batches {
        let column = |name: &str| -> Result<Vec<u64>> {
            let column =
                batch.column_by_name(name).ok_or_else(|| wrong(&format!("there is no column {name}")))?;
            let whole = column.data_type().is_integer() && column.null_count() == 0;
            let cast = cast(column, &DataType::UInt64).ok().filter(|cast| whole && cast.null_count() == 0);
            let cast =
                cast.ok_or_else(|| wrong(&format!("column {name} holds whole numbers, none missing")))?;
            Ok(cast.as_primitive::<UInt64Type>().values().to_vec())
        };
        for ((asid, page_no), frame) in
            column("asid")?.into_iter().zip(column("page_no")?).zip(column("frame")?)
        {
            let asid = u32::try_from(asid).map_err(|_| wrong(&format!("an asid has 32 bits, not {asid}")))?;
            placements.pages.push(Page { asid, page_no, frame });
        }
        if batch.column_by_name("seed").is_some() {
            seeds.extend(column("seed")?);
            seeds.dedup();
        }
        placements.evicts |=
            batch.column_by_name("evicted").is_none_or(|held| held.null_count() < held.len());
    }
    if placements.pages.is_empty() {
        return Err(wrong("there is no placement in it"));
    }
    if seeds.len() > 1 {
        return Err(wrong(&format!("it holds {} placements; one can be replayed", seeds.len())));
    }
    Ok(placements)
}

/// `PlacementWriter` writes pages and their frames. It reserves its file before the frames are known.
pub struct PlacementWriter {
    // Field order: the file is closed before it is removed.
    file: File,
    temporary: Temporary,
    made_by: Option<String>,
}

impl PlacementWriter {
    /// Starts a file that will stand at `path`. The file names the command that made it, if `made_by` does.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written, or `path` exists and is no regular file.
    pub fn create(path: &Path, made_by: Option<&str>) -> Result<Self> {
        let (temporary, file) = Temporary::create(path, "a placement")?;
        Ok(Self { file, temporary, made_by: made_by.map(str::to_owned) })
    }

    /// Writes pages and their frames as Parquet, for [`read_placements`]. Spans are not written.
    ///
    /// # Errors
    /// There is no page, or the file cannot be written.
    pub fn write(self, placements: &Placements) -> Result<()> {
        if placements.pages.is_empty() {
            return Err(Problem::request(
                "no physical address",
                &self.temporary.place(),
                "a placement is written where the trace tells the frames of its pages",
                "record it with physical addresses (drmemtrace: -use_physical), or leave --placement out",
            ));
        }
        let pages = &placements.pages;
        let column = |of: fn(&Page) -> u64| -> ArrayRef {
            Arc::new(pages.iter().map(of).collect::<Vec<u64>>().into_iter().collect::<UInt64Array>())
        };
        let asids: UInt32Array = pages.iter().map(|page| page.asid).collect::<Vec<u32>>().into();
        let columns: [(&str, ArrayRef); 3] = [
            ("asid", Arc::new(asids)),
            ("page_no", column(|page| page.page_no)),
            ("frame", column(|page| page.frame)),
        ];
        let Self { file, temporary, made_by } = self;
        let page_size = placements.page_size.map(|bytes| (PAGE_SIZE, bytes.to_string()));
        let facts = page_size.into_iter().chain(made_by.map(|command| (MADE_BY, command)));
        let write = || -> std::result::Result<(), ParquetError> {
            let batch = RecordBatch::try_from_iter(columns)?;
            let mut writer = ArrowWriter::try_new(file, batch.schema(), None)?;
            writer.write(&batch)?;
            for (key, value) in facts {
                writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
            }
            writer.close().map(|_| ())
        };
        write().map_err(|error| temporary.cannot_write(&error.to_string()))?;
        temporary.take_place()
    }
}
