//! `read_placements` reads a placement in any form, and `PlacementWriter` writes it as Parquet.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, UInt64Array, downcast_integer};
use binhop_base::{Problem, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;

use super::{PlacedPage, Placements, pagemap, v2p};
use crate::disk::{FileIdentity, Steady, Temporary};
use crate::input::{Input, open};
use crate::parquet_file::{MADE_BY, guarded, page_headers};
use crate::wait;

/// The columns that are read.
const COLUMNS: &[&str] = &["asid", "page_no", "frame", "evicted", "seed"];

/// The key of the metadata that gives the bytes of a page.
const PAGE_SIZE: &str = "binhop.page_size";

/// Reads a placement from a file: Parquet, a map of addresses, or a raw pagemap. `place` says where the path
/// stands.
///
/// # Errors
/// The file cannot be read, is damaged or has no known form. A column is missing, null or no whole number.
/// The file holds several seeds, or no row.
pub fn read_placements(path: &str, place: &str) -> Result<Placements> {
    let unreadable =
        |error: std::io::Error| wrong(path, place, &format!("the file cannot be read ({error})"));
    if path.starts_with("/proc/") {
        return Err(Problem::request(
            path,
            place,
            "is the memory of a running program, and a recorded placement must not change",
            "save it in a file first: examples/placement/pagemap.py PID FILE (docs/placement.md)",
        ));
    }
    let at_its_place = |mut problem: Box<Problem>| {
        // If the file itself is wrong, the path is the value, and the place is empty.
        problem.place = match &*problem.place {
            "" => place.to_owned(),
            within => format!("{place}: {within}"),
        };
        problem
    };
    // A pipe can be opened once, so its format is recognized from the first bytes that are read.
    let (mut reader, identity) = open::open(path).map_err(at_its_place)?;
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
    let remedy = "give a file that `binhop run --dump-placement FILE` wrote, a Parquet file with the same columns, or a map of virtual to physical addresses (docs/placement.md)";
    Problem::request(path, place, rule, remedy)
}

/// Returns the values of a column of any integer type. It returns `None` if the column has another type, if a
/// value is missing, or if a value is negative.
fn whole_numbers(column: &dyn Array) -> Option<Vec<u64>> {
    macro_rules! values {
        ($kind:ty) => {
            column.as_primitive::<$kind>().values().iter().map(|&value| u64::try_from(value).ok()).collect()
        };
    }
    if column.null_count() > 0 {
        return None;
    }
    downcast_integer! { column.data_type() => (values), _ => None }
}

fn read_parquet(path: &str, place: &str, identity: &FileIdentity) -> Result<Placements> {
    let wrong = |rule: &str| wrong(path, place, rule);
    let file = File::open(path).and_then(Steady::new);
    let file = file.map_err(|error| wrong(&format!("the file cannot be read ({error})")))?;
    let here = format!("{place}: {path}");
    identity.is_still(file.identity(), &here)?;
    let builder = guarded(&here, || ParquetRecordBatchReaderBuilder::try_new(file.clone()))?;
    let parquet = Arc::clone(builder.metadata());
    for index in 0..parquet.num_row_groups() {
        page_headers::check(&file, &parquet, index, COLUMNS, &format!("{here}: row group {index}"))?;
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
            whole_numbers(column)
                .ok_or_else(|| wrong(&format!("column {name} holds whole numbers, none missing")))
        };
        for ((asid, page_no), frame) in
            column("asid")?.into_iter().zip(column("page_no")?).zip(column("frame")?)
        {
            let asid = u32::try_from(asid).map_err(|_| wrong(&format!("an asid has 32 bits, not {asid}")))?;
            placements.pages.push(PlacedPage { asid, page_no, frame });
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
        let column = |of: fn(&PlacedPage) -> u64| -> ArrayRef {
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
