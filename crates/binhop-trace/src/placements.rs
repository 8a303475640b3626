//! Placements in a Parquet file: which frame each page got, in order.
//!
//! Columns `asid`, `page_no`, `frame` (integers, not null); `evicted`, if it is there, is null where the frame
//! was free: then a file says whether it ever evicts. Others (seed, fault, page, segment) are for the reader. Any
//! program may write such a file; `binhop run --dump-placement` does.

use std::fs::File;

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use arrow::record_batch::RecordBatch;
use binhop_base::{Problem, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::guard::guarded;

/// Placements read from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// Address space, virtual page and frame, in order.
    pub rows: Vec<(u32, u64, u64)>,
    /// Whether a page may have left its frame for another.
    pub evicts: bool,
}

/// Reads a file of placements; errors say that it stands at `place`.
///
/// # Errors
/// The file cannot be read, is damaged or no Parquet file; a column is missing, null or no whole number; there
/// are several seeds in it; there is no row.
pub fn read_placements(path: &str, place: &str) -> Result<Placements> {
    let wrong = |rule: &str| {
        let remedy = "give a file that `binhop run --dump-placement FILE` wrote, or one with its columns";
        Problem::request(path, place, rule, remedy)
    };
    let file = File::open(path).map_err(|error| wrong(&format!("the file cannot be read ({error})")))?;
    let batches = guarded(&format!("{place}: {path}"), || {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
        Ok(reader.collect::<std::result::Result<Vec<RecordBatch>, _>>()?)
    })?;
    let mut placements = Placements::default();
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
            placements.rows.push((asid, page_no, frame));
        }
        if batch.column_by_name("seed").is_some() {
            seeds.extend(column("seed")?);
            seeds.dedup();
        }
        placements.evicts |=
            batch.column_by_name("evicted").is_none_or(|held| held.null_count() < held.len());
    }
    if placements.rows.is_empty() {
        return Err(wrong("there is no placement in it"));
    }
    if seeds.len() > 1 {
        return Err(wrong(&format!("it holds {} placements; one can be replayed", seeds.len())));
    }
    Ok(placements)
}
