//! This module holds what all Parquet files of binhop share: the end of the file, a guarded decoder, checked
//! page headers, and the command that wrote the file.

mod guard;
pub(crate) mod page_headers;
mod tail;

use std::fs::File;
use std::path::Path;

use binhop_base::Problem;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

pub(crate) use guard::guarded;
pub(crate) use tail::{MAGIC, read_tail};

/// The key of the entry that names the command that wrote a Parquet file.
pub const MADE_BY: &str = "binhop.made-by";

/// Returns the problem of a damaged file. `value` is what was found, `rule` what the file should hold.
pub(crate) fn damaged(value: &str, place: &str, rule: &str) -> Box<Problem> {
    Problem::request(value, place, rule, "the file is damaged: fetch or record it again")
}

/// Returns the command that wrote a Parquet file, if the file can be read and names the command.
#[must_use]
pub fn made_by(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let place = path.display().to_string();
    let (_, tail) = read_tail(&mut file, &place).ok()?;
    let footer = &tail[..tail.len() - 8];
    let parquet = guarded(&place, || ParquetMetaDataReader::decode_metadata(footer)).ok()?;
    entry(&parquet, MADE_BY).map(str::to_owned)
}

/// Returns the value of a key in the metadata of a file.
pub(crate) fn entry<'a>(parquet: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let entries = parquet.file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.as_deref()
}
