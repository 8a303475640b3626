//! [`check`] checks the pages of another program's file, column by column, before they are decoded.
//!
//! A decoder trusts a page's header. A few damaged bytes there make it fill gigabytes with a dictionary that
//! does not exist, or decode billions of values. So [`check`] walks from header to header, without reading
//! the pages. Each column must hold one value for each row that the footer promises. No page may unpack to
//! more than [`LARGEST_VALUE`] bytes for each of its values, plus [`SLACK`]. A header is a structure of
//! Thrift's compact protocol (Apache Parquet's `parquet.thrift`, `PageHeader`; Thrift's
//! `thrift-compact-protocol.md`).

use binhop_base::Result;
use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::damaged;
use crate::disk::Steady;

/// The most bytes that a value takes in an unpacked page: 8, and its levels.
const LARGEST_VALUE: u64 = 16;
/// The most bytes that an unpacked page has besides its values: headers of its runs and blocks.
const SLACK: u64 = 64 << 10;
/// The longest header that is accepted, in bytes. Statistics of a number are short.
const LONGEST_HEADER: usize = 64 << 10;
/// The number of bytes that are read first for a header.
const USUAL_HEADER: usize = 256;
/// The deepest nesting of a header's structures.
const DEEPEST: u32 = 8;

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

/// Checks the pages of these columns of a row group. `columns` names leaves by their path.
///
/// # Errors
/// The pages do not hold what the footer promises.
pub(crate) fn check(
    file: &Steady,
    parquet: &ParquetMetaData,
    index: usize,
    columns: &[&str],
    place: &str,
) -> Result<()> {
    let row_group = parquet.row_group(index);
    for column in row_group.columns() {
        let name = column.column_path().string();
        if columns.contains(&name.as_str()) {
            check_column(file, column, row_group.num_rows(), &format!("{place}: column {name}"))?;
        }
    }
    Ok(())
}

fn check_column(file: &Steady, column: &ColumnChunkMetaData, rows: i64, place: &str) -> Result<()> {
    let wrong = |value: &str, rule: &str| damaged(value, place, rule);
    let width = match column.column_type() {
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::BOOLEAN => 1,
        other => return Err(wrong(&other.to_string(), "its values are whole numbers")),
    };
    let first = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let (Ok(mut at), Ok(length)) = (u64::try_from(first), u64::try_from(column.compressed_size())) else {
        return Err(wrong(
            &format!("{} bytes at {first}", column.compressed_size()),
            "a place is not negative",
        ));
    };
    let end = at.checked_add(length).filter(|&end| end <= file.bytes());
    let end =
        end.ok_or_else(|| wrong(&format!("{length} bytes at {at}"), "its pages lie within the file"))?;
    let (mut values, mut dictionaries) = (0_i64, 0);
    while at < end {
        let (header, bytes) = read_header(file, at, end)
            .ok_or_else(|| wrong(&format!("page at byte {at}"), "its header cannot be understood"))?;
        let page = at;
        let said =
            |what: &str, number: i64| format!("{what} {number} in the header of the page at byte {page}");
        at += bytes as u64;
        let (packed, unpacked) = (u64::try_from(header.packed), u64::try_from(header.unpacked));
        let (Ok(packed), Ok(unpacked)) = (packed, unpacked) else {
            return Err(wrong(&said("size", header.packed.min(header.unpacked)), "a size is not negative"));
        };
        if packed > end - at {
            return Err(wrong(&said("size", header.packed), "a page lies within its column"));
        }
        at += packed;
        let held = u64::try_from(header.values).unwrap_or(u64::MAX);
        match header.kind {
            DATA_PAGE | DATA_PAGE_V2 => {
                values = values.saturating_add(header.values);
                if header.values < 0 || values > rows {
                    let rule = format!("the footer says that its row group has {rows} rows");
                    return Err(wrong(&said("number of values", header.values), &rule));
                }
            }
            DICTIONARY_PAGE => {
                dictionaries += 1;
                if dictionaries > 1 || held.checked_mul(width).is_none_or(|size| size > unpacked) {
                    let rule = "a column has one dictionary, whose values its page holds";
                    return Err(wrong(&said("number of values", header.values), rule));
                }
            }
            _ => continue,
        }
        if unpacked > held.saturating_mul(LARGEST_VALUE).saturating_add(SLACK) {
            let rule = format!("a page of {held} numbers is not so large");
            return Err(wrong(&said("unpacked size", header.unpacked), &rule));
        }
    }
    if values != rows {
        let rule = format!("the footer says that its row group has {rows} rows");
        return Err(wrong(&format!("{values} values"), &rule));
    }
    Ok(())
}

/// `Header` holds the fields of a page's header that are checked here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    kind: i64,
    unpacked: i64,
    packed: i64,
    values: i64,
}

/// Returns the header at a position, and the number of its bytes.
fn read_header(file: &Steady, at: u64, end: u64) -> Option<(Header, usize)> {
    let mut length = USUAL_HEADER;
    loop {
        let here = length.min(usize::try_from(end - at).unwrap_or(length));
        let mut bytes = vec![0; here];
        file.read_exact_at(&mut bytes, at).ok()?;
        let mut compact = Compact { bytes: &bytes, at: 0 };
        let header = compact.header();
        if header.is_some() || here < length || length >= LONGEST_HEADER {
            return header.map(|header| (header, compact.at));
        }
        length = LONGEST_HEADER;
    }
}

/// `Compact` reads bytes of Thrift's compact protocol. Its methods return `None` if the bytes end, or break
/// the protocol.
struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Returns the next field of a structure: its number and its type. Type 0 marks the end.
    fn field(&mut self, before: i64) -> Option<(i64, u8)> {
        let byte = self.byte()?;
        let (step, kind) = (byte >> 4, byte & 0xf);
        match (step, kind) {
            (_, 0) => Some((before, 0)),
            (0, kind) => Some((self.zigzag()?, kind)),
            (step, kind) => Some((before + i64::from(step), kind)),
        }
    }

    fn header(&mut self) -> Option<Header> {
        let mut header = Header::default();
        let mut number = 0;
        loop {
            let (next, kind) = self.field(number)?;
            number = next;
            match (number, kind) {
                (_, 0) => return Some(header),
                (1, 5) => header.kind = self.zigzag()?,
                (2, 5) => header.unpacked = self.zigzag()?,
                (3, 5) => header.packed = self.zigzag()?,
                // The header of a data page, a dictionary, or a data page of version 2 begins with the number
                // of values.
                (5 | 7 | 8, 12) => header.values = self.values()?,
                (_, kind) => self.skip(kind, DEEPEST)?,
            }
        }
    }

    /// Returns the first field of a structure, a number; the other fields are skipped.
    fn values(&mut self) -> Option<i64> {
        let (mut number, mut values) = (0, 0);
        loop {
            let (next, kind) = self.field(number)?;
            number = next;
            match (number, kind) {
                (_, 0) => return Some(values),
                (1, 5) => values = self.zigzag()?,
                (_, kind) => self.skip(kind, DEEPEST)?,
            }
        }
    }

    fn skip(&mut self, kind: u8, deeper: u32) -> Option<()> {
        let deeper = deeper.checked_sub(1)?;
        match kind {
            1 | 2 => {}
            3 => self.at += 1,
            4..=6 => drop(self.varint()?),
            7 => self.at += 8,
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.at = self.at.checked_add(length)?;
            }
            9 | 10 => {
                let byte = self.byte()?;
                let size = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
                for _ in 0..size {
                    // A truth value in a list occupies one byte.
                    self.skip(if byte & 0xf <= 2 { 3 } else { byte & 0xf }, deeper)?;
                    self.within()?;
                }
            }
            12 => {
                let mut number = 0;
                loop {
                    let (next, kind) = self.field(number)?;
                    if kind == 0 {
                        break;
                    }
                    number = next;
                    self.skip(kind, deeper)?;
                }
            }
            _ => return None,
        }
        self.within()
    }

    fn within(&self) -> Option<()> {
        (self.at <= self.bytes.len()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header that Polars wrote has statistics that hold texts.
    #[test]
    fn a_header_is_read_to_its_end() {
        let written = [
            0x15, 0, 0x15, 0x14, 0x15, 0x26, 0x2c, 0x15, 0xc8, 1, 0x15, 0x10, 0x15, 6, 0x15, 6, 0x1c, 0x36,
            0, 0x28, 4, 1, 0, 0, 0, 0x18, 4, 1, 0, 0, 0, 0, 0, 0, 0x28, 0xb5,
        ];
        let mut compact = Compact { bytes: &written, at: 0 };
        let header = Header { kind: 0, unpacked: 10, packed: 19, values: 100 };
        assert_eq!((compact.header(), compact.at), (Some(header), written.len() - 2));
        for end in 0..written.len() - 2 {
            assert_eq!(Compact { bytes: &written[..end], at: 0 }.header(), None, "cut at {end}");
        }
    }
}
