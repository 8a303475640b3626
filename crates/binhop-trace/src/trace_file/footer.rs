//! The footer of a trace file holds checks by which any flipped bit of the file is found.
//!
//! A trace is a plain Parquet file. From front to back it holds, without gaps: `PAR1`, the row groups, the
//! footer (Parquet's Thrift structure), the footer's length in 4 bytes, `PAR1`. binhop's key-value entries
//! lie in the footer:
//!
//! | key | value |
//! |---|---|
//! | `binhop.schema` | version of the event schema |
//! | `binhop.meta` | [`Meta`] as JSON |
//! | `binhop.made-by` | the command that wrote the file, if a command did; a placement has this entry, too |
//! | `binhop.totals` | [`Totals`] as JSON |
//! | `binhop.content` | content hash of the events (see `totals.rs`), 16 hexadecimal digits |
//! | `binhop.row-groups` | a JSON list: for each row group the xxh3-64 of its bytes in the file, and how many events have an arg0 and an arg1 |
//! | `binhop.checksum` | xxh3-64 of the bytes from the footer's start to the file's end, with these 16 digits as zeros |
//!
//! One check covers each bit of the file. The first four bytes are compared, a row group has its checksum,
//! and `binhop.checksum` covers all other bytes. The row groups must fill the file from byte 4 to the footer.
//!
//! `created_by` tells whether binhop wrote the file, which must then have the entries. Some bit errors are
//! allowed in `created_by`, so that a flipped bit cannot make the file look like another program's. A file of
//! another program is read without checks, even if it has entries of binhop (pyarrow keeps them when it
//! rewrites a file).

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use binhop_base::{Problem, Result};
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::parquet_file::{MADE_BY, MAGIC, damaged, entry, guarded, read_tail};
use crate::source::Meta;
use crate::totals::Totals;

/// The version of the event schema that this crate reads and writes.
pub(crate) const SCHEMA_VERSION: &str = "1";

const SCHEMA: &str = "binhop.schema";
const META: &str = "binhop.meta";
const TOTALS: &str = "binhop.totals";
const CONTENT: &str = "binhop.content";
const ROW_GROUPS: &str = "binhop.row-groups";
const CHECKSUM: &str = "binhop.checksum";

/// The first bytes of `created_by` in files that binhop wrote.
const CREATOR: &[u8] = b"binhop-trace version ";
/// `created_by` lies within this many bytes of the end of binhop's files. Only the column orders, 2 bytes
/// each, follow.
const CREATOR_WITHIN: usize = 256;
/// The largest distance in bits at which `created_by` still counts as binhop's. Names of other programs
/// differ in some 80 of 168 bits.
const BIT_ERRORS_ALLOWED: u32 = 16;
/// The bytes between the key `binhop.checksum` and its 16 digits in Thrift's compact protocol: a string
/// field, and its length. JSON never holds these two bytes, so the mark occurs once.
const BEFORE_DIGITS: [u8; 2] = [0x18, 16];
const DIGITS: usize = 16;

/// Returns the value of `created_by`.
pub(crate) fn created_by() -> String {
    format!("{}{}", String::from_utf8_lossy(CREATOR), env!("CARGO_PKG_VERSION"))
}

/// `Promises` holds the checks of a file that binhop wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Promises {
    pub(crate) totals: Totals,
    pub(crate) content: u64,
    pub(crate) row_groups: Vec<RowGroup>,
}

/// `RowGroup` holds the checks of a row group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowGroup {
    /// The xxh3-64 of the bytes of the row group, 16 hexadecimal digits.
    pub(crate) xxh3: String,
    /// The number of events with an arg0. If it is 0, as in most row groups, the column is not read.
    pub(crate) arg0: u64,
    /// The number of events with an arg1.
    pub(crate) arg1: u64,
}

/// `Footer` is a footer that was read and, if binhop wrote the file, checked.
pub(crate) struct Footer {
    pub(crate) bytes: u64,
    pub(crate) parquet: Arc<ParquetMetaData>,
    pub(crate) meta: Meta,
    /// The checks; `None` if another program wrote the file.
    pub(crate) own: Option<Promises>,
}

/// Returns the entries of a finished file. The checksum is still zeros.
pub(crate) fn entries(
    meta: &Meta,
    made_by: Option<&str>,
    own: &Promises,
) -> serde_json::Result<Vec<KeyValue>> {
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let mut entries =
        vec![entry(SCHEMA, SCHEMA_VERSION.to_owned()), entry(META, serde_json::to_string(meta)?)];
    entries.extend(made_by.map(|command| entry(MADE_BY, command.to_owned())));
    entries.extend([
        entry(TOTALS, serde_json::to_string(&own.totals)?),
        entry(CONTENT, digits(own.content)),
        entry(ROW_GROUPS, serde_json::to_string(&own.row_groups)?),
        entry(CHECKSUM, "0".repeat(DIGITS)),
    ]);
    Ok(entries)
}

/// Replaces the zeros of `binhop.checksum` in an otherwise complete file.
pub(crate) fn seal(file: &mut File) -> std::io::Result<()> {
    let bytes = file.seek(SeekFrom::End(0))?;
    let mut length = [0; 4];
    file.seek(SeekFrom::Start(bytes - 8))?;
    file.read_exact(&mut length)?;
    let start = bytes - 8 - u64::from(u32::from_le_bytes(length));
    let mut tail = vec![0; (bytes - start) as usize];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut tail)?;
    let at = find_digits(&tail).expect("the entry was just written");
    let sum = tail_sum(&mut tail, at);
    file.seek(SeekFrom::Start(start + at as u64))?;
    file.write_all(digits(sum).as_bytes())
}

impl Footer {
    /// Reads the footer of an open file and checks all but the bytes of the row groups.
    ///
    /// # Errors
    /// The file is no Parquet file, is cut short or damaged, or has another schema version.
    pub(crate) fn read(file: &mut File, path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let (bytes, mut tail) = read_tail(file, &place)?;
        let start = bytes - tail.len() as u64;
        let footer_end = tail.len() - 8;
        if !is_ours(&tail) {
            let what = format!("{place}: footer");
            let parquet = guarded(&what, || ParquetMetaDataReader::decode_metadata(&tail[..footer_end]))?;
            let meta = foreign_meta(&parquet, &place)?;
            return Ok(Self { bytes, parquet: Arc::new(parquet), meta, own: None });
        }
        let at = find_digits(&tail)
            .ok_or_else(|| damaged("binhop.checksum", &place, "the footer's checksum is missing"))?;
        let stored = tail[at..at + DIGITS].to_vec();
        let found = digits(tail_sum(&mut tail, at));
        if stored != found.as_bytes() {
            let rule = format!("the footer's checksum says {}", String::from_utf8_lossy(&stored));
            return Err(damaged(&found, &format!("{place}: footer (bytes {start} to {bytes})"), &rule));
        }
        let what = format!("{place}: footer");
        let parquet = guarded(&what, || ParquetMetaDataReader::decode_metadata(&tail[..footer_end]))?;
        check_version(&parquet, &place)?;
        let own = own_entries(&parquet, &place)?;
        check_tiling(&parquet, start, &place)?;
        let meta = json_entry(&parquet, META, &place)?;
        Ok(Self { bytes, parquet: Arc::new(parquet), meta, own: Some(own) })
    }
}

/// Returns whether binhop wrote the file, even if some bits are wrong.
fn is_ours(tail: &[u8]) -> bool {
    let end = &tail[tail.len().saturating_sub(CREATOR_WITHIN)..];
    let distance = |text: &[u8]| -> u32 { text.iter().zip(CREATOR).map(|(a, b)| (a ^ b).count_ones()).sum() };
    end.windows(CREATOR.len()).any(|text| distance(text) <= BIT_ERRORS_ALLOWED)
}

fn find_digits(tail: &[u8]) -> Option<usize> {
    let mark = [CHECKSUM.as_bytes(), &BEFORE_DIGITS].concat();
    let at = tail.windows(mark.len()).rposition(|text| text == mark)? + mark.len();
    (at + DIGITS <= tail.len()).then_some(at)
}

fn tail_sum(tail: &mut [u8], digits_at: usize) -> u64 {
    tail[digits_at..digits_at + DIGITS].fill(b'0');
    xxh3_64(tail)
}

pub(crate) fn digits(sum: u64) -> String {
    format!("{sum:016x}")
}

fn check_version(parquet: &ParquetMetaData, place: &str) -> Result<()> {
    match entry(parquet, SCHEMA) {
        Some(SCHEMA_VERSION) | None => Ok(()),
        Some(other) => Err(Problem::request(
            other,
            &format!("{place}: {SCHEMA}"),
            &format!("this binhop reads version {SCHEMA_VERSION} of the event schema"),
            "use the binhop that wrote the file, or import the trace again",
        )),
    }
}

/// Returns the metadata of another program's file, from binhop's entry if the program kept the entry.
fn foreign_meta(parquet: &ParquetMetaData, place: &str) -> Result<Meta> {
    check_version(parquet, place)?;
    if entry(parquet, META).is_none() { Ok(Meta::default()) } else { json_entry(parquet, META, place) }
}

fn json_entry<T: serde::de::DeserializeOwned>(
    parquet: &ParquetMetaData,
    key: &str,
    place: &str,
) -> Result<T> {
    let place = format!("{place}: {key}");
    let text = entry(parquet, key).ok_or_else(|| damaged(key, &place, "the entry is missing"))?;
    serde_json::from_str(text)
        .map_err(|error| damaged(&error.to_string(), &place, "the entry cannot be understood"))
}

fn own_entries(parquet: &ParquetMetaData, place: &str) -> Result<Promises> {
    let content = entry(parquet, CONTENT).unwrap_or_default();
    let row_groups: Vec<RowGroup> = json_entry(parquet, ROW_GROUPS, place)?;
    if row_groups.len() != parquet.num_row_groups() {
        let rule = format!("the file has {} row groups and as many checksums", parquet.num_row_groups());
        return Err(damaged(&row_groups.len().to_string(), &format!("{place}: {ROW_GROUPS}"), &rule));
    }
    Ok(Promises {
        totals: json_entry(parquet, TOTALS, place)?,
        content: u64::from_str_radix(content, 16).map_err(|_| {
            damaged(content, &format!("{place}: {CONTENT}"), "a hash is 16 hexadecimal digits")
        })?,
        row_groups,
    })
}

/// Returns the bytes of a row group: the start of its first column and the end of its last column. Call it
/// for files of binhop only, because the footer of another program may hold any numbers.
pub(crate) fn byte_range(parquet: &ParquetMetaData, row_group: usize) -> (u64, u64) {
    let columns = parquet.row_group(row_group).columns();
    let start = columns.first().map_or(0, |column| column.byte_range().0);
    let end = columns.last().map_or(0, |column| column.byte_range().0 + column.byte_range().1);
    (start, end)
}

fn check_tiling(parquet: &ParquetMetaData, footer_start: u64, place: &str) -> Result<()> {
    let mut at = MAGIC.len() as u64;
    for (index, row_group) in parquet.row_groups().iter().enumerate() {
        for column in row_group.columns() {
            let (start, length) = column.byte_range();
            if start != at {
                let place = format!("{place}: row group {index}");
                return Err(damaged(&start.to_string(), &place, &format!("its bytes must start at {at}")));
            }
            at = start + length;
        }
    }
    if at == footer_start {
        Ok(())
    } else {
        Err(damaged(
            &at.to_string(),
            place,
            &format!("the row groups must end where the footer starts, at {footer_start}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::TraceWriter;
    use super::*;

    /// A sound file of another version is refused for its version. The error does not call it damaged.
    #[test]
    fn a_file_of_another_version_is_refused_for_its_version() {
        let path = std::env::temp_dir().join(format!("binhop-version-{}.parquet", std::process::id()));
        TraceWriter::create(&path, &Meta::default(), 1).unwrap().finish().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let mark = [SCHEMA.as_bytes(), &[0x18, 1]].concat();
        let at = bytes.windows(mark.len()).position(|text| text == mark).unwrap() + mark.len();
        assert_eq!(bytes[at], b'1');
        bytes[at] = b'7';
        std::fs::write(&path, &bytes).unwrap();
        let mut file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(Footer::read(&mut file, &path).err().unwrap().rule.contains("checksum"));
        seal(&mut file).unwrap();
        let problem = Footer::read(&mut file, &path).err().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(problem.value, "7");
        assert_eq!(problem.rule, "this binhop reads version 1 of the event schema");
    }
}
