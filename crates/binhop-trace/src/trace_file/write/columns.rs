//! `encode` turns the rows of a row group into the bytes of its column chunks. ARCHITECTURE.md compares it
//! with the writer of the `parquet` crate.
//!
//! | column | pages | why |
//! |---|---|---|
//! | op, size, count | a dictionary in order of first appearance, and one page with a bit-packed run of indices of one byte (two bytes above 256 values); a column of one value is one RLE run | a loop repeats whole bytes, which the compressor finds; a general dictionary packs indices into fewer bits, and hashes each value |
//! | addr, and a column of more than 65,535 different values | one page of plain values | decoding is a copy; addresses are rarely worth a dictionary |
//! | arg0, arg1 | one page: levels (null or not), then the plain values that are present | few rows have arguments |
//!
//! Each page is one zstd frame, of level 3 unless a sample of the addresses says otherwise. The bytes are a
//! function of the rows alone.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use arrow_array::{Array, UInt64Array};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use xxhash_rust::xxh3::xxh3_64;
use zstd::bulk::Compressor;

use crate::event::EventBatch;
use crate::trace_file::footer::{self, RowGroup};

/// The usual zstd level, chosen by measurement on 8.4 M rows of mult2.2 (in parentheses: on 3.2 M rows of a
/// real `sort`). At level 3 an address takes 0.47 (0.35) bytes, 9.5 (6.5) ns to compress and 3.3 (2.2) ns to
/// decompress. At level 1 it takes 0.64 (0.42) bytes, 9.5 (5.6) ns and 3.9 (2.2) ns. At level 4 it takes 0.47
/// (0.35) bytes, 13.5 (7.4) ns and 3.3 (2.3) ns. If addresses are split into streams of bytes, each takes
/// 0.17 (0.36) bytes and 4.1 (6.6) ns to compress, but joining the streams costs a reader more than it saves.
const LEVEL: i32 = 3;

/// The level for addresses that hardly repeat, where level 3 finds many short matches that cost more than
/// they save. Of a million random addresses in 1 GiB, each takes 4.26 bytes and 35 ns to compress at level 1,
/// and 4.35 bytes and 87 ns at level 3. With a loop's instructions between the random addresses, each takes
/// 1.94 bytes and 22 ns at level 1, and 2.56 bytes and 51 ns at level 3. Both columns are quicker to
/// decompress at level 1.
const LEVEL_OF_RANDOM: i32 = 1;

/// Addresses hardly repeat if each takes at least this many bytes, packed at level 3.
const RANDOM: usize = 2;

/// The pieces of the sample that decides the level, and the bytes of a piece. The pieces are evenly spread.
/// Together they have more than 256 KiB, because zstd packs shorter input with other parameters of the level.
const SAMPLES: usize = 2;
const SAMPLE: usize = 144 << 10;

/// Values below this limit find their index in a table. Other values are hashed.
const SMALL: usize = 1 << 12;
/// The mark of a value without an index. A dictionary holds at most 65,535 values.
const NONE: u16 = u16::MAX;

/// `Encoded` is a row group that can be appended to a file.
#[derive(Debug)]
pub(super) struct Encoded {
    /// The bytes of the row group, as they will lie in the file.
    pub(super) bytes: Bytes,
    /// The column chunks, at offsets within these bytes.
    pub(super) columns: Vec<ColumnCloseResult>,
    /// The checks of the row group for the footer.
    pub(super) facts: RowGroup,
}

/// Encodes the rows of a row group, which are given in pieces.
pub(super) fn encode(pieces: &[EventBatch], schema: &SchemaDescriptor) -> Result<Encoded> {
    let rows: usize = pieces.iter().map(EventBatch::len).sum();
    let mut chunks = Chunks {
        out: TrackedWrite::new(Vec::with_capacity(rows)),
        zstd: Compressor::new(LEVEL).map_err(|error| ParquetError::External(Box::new(error)))?,
        rows,
        columns: Vec::new(),
    };
    chunks.small(schema.column(0), pieces, EventBatch::op)?;
    chunks
        .addresses(schema.column(1), plain(pieces.iter().map(|piece| piece.required_bytes()[1]), rows * 8))?;
    chunks.small(schema.column(2), pieces, EventBatch::size)?;
    chunks.small(schema.column(3), pieces, EventBatch::count)?;
    let arg0 =
        chunks.args(schema.column(4), pieces.iter().map(|piece| (piece.arg0_column(), piece.len())))?;
    let arg1 =
        chunks.args(schema.column(5), pieces.iter().map(|piece| (piece.arg1_column(), piece.len())))?;
    let columns = chunks.columns;
    let bytes: Bytes = chunks.out.into_inner()?.into();
    let facts = RowGroup { xxh3: footer::digits(xxh3_64(&bytes)), arg0, arg1 };
    Ok(Encoded { bytes, columns, facts })
}

/// `Chunks` holds the column chunks so far.
struct Chunks {
    out: TrackedWrite<Vec<u8>>,
    zstd: Compressor<'static>,
    rows: usize,
    columns: Vec<ColumnCloseResult>,
}

impl Chunks {
    /// Adds a column of few different values.
    fn small<T: Copy + Into<u32>>(
        &mut self,
        column: ColumnDescPtr,
        pieces: &[EventBatch],
        pick: fn(&EventBatch) -> &[T],
    ) -> Result<()> {
        let pieces = pieces.iter().map(pick);
        let Some((dictionary, indices)) = dictionary(pieces.clone(), self.rows) else {
            let values = pieces.flatten().flat_map(|&value| value.into().to_le_bytes()).collect();
            return self.plain(column, values);
        };
        let values: Vec<u8> = dictionary.iter().flat_map(|value| value.to_le_bytes()).collect();
        let dictionary_page = self.compressed(&values, |buf| Page::DictionaryPage {
            buf,
            num_values: dictionary.len() as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })?;
        let page = self.data_page(&packed(&indices, dictionary.len()), Encoding::RLE_DICTIONARY)?;
        self.chunk(column, Some(dictionary_page), page, Encoding::RLE_DICTIONARY)
    }

    /// Adds the addresses, at the level that suits them.
    fn addresses(&mut self, column: ColumnDescPtr, values: Vec<u8>) -> Result<()> {
        let external = |error: std::io::Error| ParquetError::External(Box::new(error));
        let level = level_of(&mut self.zstd, &values).map_err(external)?;
        self.zstd.set_compression_level(level).map_err(external)?;
        self.plain(column, values)?;
        self.zstd.set_compression_level(LEVEL).map_err(external)
    }

    /// Adds a column of plain values.
    fn plain(&mut self, column: ColumnDescPtr, values: Vec<u8>) -> Result<()> {
        let page = self.data_page(&values, Encoding::PLAIN)?;
        self.chunk(column, None, page, Encoding::PLAIN)
    }

    /// Adds a column that has values in some rows only. Returns the number of values.
    fn args<'a>(
        &mut self,
        column: ColumnDescPtr,
        pieces: impl Iterator<Item = (Option<&'a UInt64Array>, usize)>,
    ) -> Result<u64> {
        let mut levels = Levels::default();
        let mut values = Vec::new();
        for (array, rows) in pieces {
            let Some(array) = array.filter(|array| array.null_count() < array.len()) else {
                levels.push(false, rows);
                continue;
            };
            for row in 0..rows {
                levels.push(array.is_valid(row), 1);
                if array.is_valid(row) {
                    values.extend_from_slice(&array.value(row).to_le_bytes());
                }
            }
        }
        let mut body = levels.finish();
        let present = (values.len() / 8) as u64;
        body.append(&mut values);
        let page = self.data_page(&body, Encoding::PLAIN)?;
        self.chunk(column, None, page, Encoding::PLAIN)?;
        Ok(present)
    }

    fn data_page(&mut self, body: &[u8], encoding: Encoding) -> Result<CompressedPage> {
        let num_values = self.rows as u32;
        self.compressed(body, |buf| Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        })
    }

    fn compressed(&mut self, body: &[u8], page: impl FnOnce(Bytes) -> Page) -> Result<CompressedPage> {
        let packed = self.zstd.compress(body).map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(CompressedPage::new(page(packed.into()), body.len()))
    }

    /// Writes the pages of a chunk, and keeps its metadata for the footer.
    fn chunk(
        &mut self,
        column: ColumnDescPtr,
        dictionary: Option<CompressedPage>,
        data: CompressedPage,
        encoding: Encoding,
    ) -> Result<()> {
        let compression = Compression::ZSTD(ZstdLevel::try_new(LEVEL)?);
        let mut builder = ColumnChunkMetaData::builder(column).set_compression(compression);
        let (mut packed, mut unpacked) = (0, 0);
        let mut encodings = vec![encoding, Encoding::RLE];
        let mut stats = Vec::new();
        let mut pages = SerializedPageWriter::new(&mut self.out);
        if let Some(dictionary) = dictionary {
            let written = pages.write_page(dictionary)?;
            packed += written.compressed_size;
            unpacked += written.uncompressed_size;
            builder = builder.set_dictionary_page_offset(Some(written.offset as i64));
            encodings.push(Encoding::PLAIN);
            stats.push(PageEncodingStats {
                page_type: PageType::DICTIONARY_PAGE,
                encoding: Encoding::PLAIN,
                count: 1,
            });
        }
        let written = pages.write_page(data)?;
        packed += written.compressed_size;
        unpacked += written.uncompressed_size;
        stats.push(PageEncodingStats { page_type: PageType::DATA_PAGE, encoding, count: 1 });
        let metadata = builder
            .set_data_page_offset(written.offset as i64)
            .set_encodings(encodings)
            .set_page_encoding_stats(stats)
            .set_total_compressed_size(packed as i64)
            .set_total_uncompressed_size(unpacked as i64)
            .set_num_values(self.rows as i64)
            .build()?;
        self.columns.push(ColumnCloseResult {
            bytes_written: packed as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        });
        Ok(())
    }
}

/// Returns plain values, piece by piece as they lie in memory.
fn plain<'a>(pieces: impl Iterator<Item = &'a [u8]>, bytes: usize) -> Vec<u8> {
    let mut values = Vec::with_capacity(bytes);
    pieces.for_each(|piece| values.extend_from_slice(piece));
    values
}

/// Returns the level for a column of addresses.
fn level_of(zstd: &mut Compressor<'_>, values: &[u8]) -> std::io::Result<i32> {
    let sample = sample(values);
    zstd.set_compression_level(LEVEL)?;
    let usual = zstd.compress(&sample)?.len();
    if usual < sample.len() / 8 * RANDOM {
        return Ok(LEVEL);
    }
    zstd.set_compression_level(LEVEL_OF_RANDOM)?;
    let random = zstd.compress(&sample)?.len() <= usual && !comes_again(values);
    Ok(if random { LEVEL_OF_RANDOM } else { LEVEL })
}

/// Returns some bytes of a column, in whole values of eight bytes. Of a short column it returns all bytes.
fn sample(values: &[u8]) -> Cow<'_, [u8]> {
    if values.len() <= SAMPLES * SAMPLE {
        return values.into();
    }
    let step = values.len() / SAMPLES / 8 * 8;
    let mut sample = Vec::with_capacity(SAMPLES * SAMPLE);
    (0..SAMPLES).for_each(|piece| sample.extend_from_slice(&values[piece * step..][..SAMPLE]));
    sample.into()
}

/// Returns whether at least one in sixteen sequences of four addresses occurred before, at any distance. A
/// program that walks a shuffled list again and again makes such addresses. Only level 3 finds such distant
/// matches. The hash of a sequence chooses one in 64 sequences for the test.
fn comes_again(values: &[u8]) -> bool {
    let (mut known, mut seen, mut again) = (HashSet::new(), 0_u32, 0_u32);
    let at = |value: &[u8]| u64::from_le_bytes(value.try_into().expect("eight bytes"));
    for four in values.windows(32).step_by(8) {
        let (first, second) = (at(&four[..8]), at(&four[8..16]).rotate_left(16));
        let (third, fourth) = (at(&four[16..24]).rotate_left(32), at(&four[24..]).rotate_left(48));
        let hash = (first ^ second ^ third ^ fourth).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if hash >> 58 == 0 {
            seen += 1;
            again += u32::from(!known.insert(hash));
        }
    }
    again * 16 >= seen
}

/// Returns the different values in order of first appearance, and the index of each row. Returns `None` if
/// there are too many values.
fn dictionary<'a, T: Copy + Into<u32> + 'a>(
    pieces: impl Iterator<Item = &'a [T]>,
    rows: usize,
) -> Option<(Vec<u32>, Vec<u16>)> {
    let mut values = Vec::new();
    let mut small = vec![NONE; SMALL];
    let mut large: HashMap<u32, u16> = HashMap::new();
    let mut indices: Vec<u16> = Vec::with_capacity(rows);
    let mut full = false;
    for piece in pieces {
        indices.extend(piece.iter().map(|&value| {
            let value: u32 = value.into();
            let known = match small.get(value as usize) {
                Some(&index) => index,
                None => large.get(&value).copied().unwrap_or(NONE),
            };
            if known != NONE {
                return known;
            }
            let index = values.len() as u16;
            if index == NONE {
                full = true;
                return NONE;
            }
            values.push(value);
            match small.get_mut(value as usize) {
                Some(place) => *place = index,
                None => drop(large.insert(value, index)),
            }
            index
        }));
        if full {
            return None;
        }
    }
    Some((values, indices))
}

/// Returns a page of dictionary indices: their width in bits, then runs. (Parquet, Encodings: "RLE /
/// bit-packing hybrid".)
fn packed(indices: &[u16], values: usize) -> Vec<u8> {
    let wide = values > 256;
    let width = 1 + usize::from(wide);
    let mut page = Vec::with_capacity(16 + indices.len() * width);
    page.push(8 * width as u8);
    if values == 1 {
        varint(&mut page, (indices.len() as u64) << 1); // an RLE run of value 0
        page.push(0);
        return page;
    }
    let groups = indices.len().div_ceil(8);
    varint(&mut page, (groups as u64) << 1 | 1); // a bit-packed run of groups of 8
    if wide {
        page.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
    } else {
        page.extend(indices.iter().map(|&index| index as u8));
    }
    page.resize(page.len() + (groups * 8 - indices.len()) * width, 0);
    page
}

/// `Levels` holds the definition levels of a column: 1 if a row has a value. They are encoded as their length
/// in bytes, then RLE runs, or one bit-packed run if that is shorter.
#[derive(Default)]
struct Levels {
    /// The lengths of the runs, which are alternately without and with values.
    runs: Vec<u64>,
    present: bool,
}

impl Levels {
    fn push(&mut self, present: bool, rows: usize) {
        if self.runs.is_empty() {
            self.runs.push(0);
        }
        if present != self.present {
            self.runs.push(0);
            self.present = present;
        }
        *self.runs.last_mut().expect("there is a run") += rows as u64;
    }

    fn finish(&self) -> Vec<u8> {
        let rows: u64 = self.runs.iter().sum();
        let mut page = vec![0; 4];
        // An RLE run of up to 63 rows takes two bytes, and most runs are short.
        if self.runs.len() as u64 * 2 <= rows.div_ceil(8) {
            for (index, &run) in self.runs.iter().enumerate().filter(|&(_, &run)| run > 0) {
                varint(&mut page, run << 1);
                page.push((index % 2) as u8);
            }
        } else {
            let groups = rows.div_ceil(8);
            varint(&mut page, groups << 1 | 1);
            let (start, mut row) = (page.len(), 0);
            page.resize(start + groups as usize, 0);
            for (index, &run) in self.runs.iter().enumerate() {
                if index % 2 == 1 {
                    (row..row + run).for_each(|row| page[start + (row / 8) as usize] |= 1 << (row % 8));
                }
                row += run;
            }
        }
        let length = page.len() as u32 - 4;
        page[..4].copy_from_slice(&length.to_le_bytes());
        page
    }
}

/// Appends an unsigned number in groups of 7 bits, the lowest group first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: u64 = 1 << 19;

    fn column(address: impl FnMut(u64) -> u64) -> Vec<u8> {
        (0..ROWS).map(address).flat_map(u64::to_le_bytes).collect()
    }

    /// Returns the chosen level, and checks that the other level does not make the column smaller.
    fn chosen(values: &[u8]) -> i32 {
        let mut zstd = Compressor::new(LEVEL).unwrap();
        let level = level_of(&mut zstd, values).unwrap();
        let mut packed = |level| {
            zstd.set_compression_level(level).unwrap();
            zstd.compress(values).unwrap().len()
        };
        let other = if level == LEVEL { LEVEL_OF_RANDOM } else { LEVEL };
        assert!(packed(level) <= packed(other), "{} at {level}, {} at {other}", packed(level), packed(other));
        level
    }

    #[test]
    fn addresses_are_packed_at_the_level_that_makes_them_smaller() {
        let random = |row: u64| 0x7f00_0000_0000 + (hash(row) >> 37 << 3);
        assert_eq!(chosen(&column(random)), LEVEL_OF_RANDOM);
        let between = |row: u64| if row.is_multiple_of(2) { 0x40_1000 + row * 2 % 4096 } else { random(row) };
        assert_eq!(chosen(&column(between)), LEVEL_OF_RANDOM);
        assert_eq!(chosen(&column(|row| 0x1000_0000 + row * 8)), LEVEL);
        // A shuffled list of 100,000 nodes, walked five times.
        assert_eq!(chosen(&column(|row| random(row % 100_000))), LEVEL);
        assert_eq!(
            chosen(&column(|row| if row.is_multiple_of(2) { 0x40_1000 } else { random(row % 100_000) })),
            LEVEL
        );
    }

    #[test]
    fn few_rows_are_their_own_sample() {
        assert_eq!(chosen(&[]), LEVEL);
        assert_eq!(*sample(&[7; 80]), [7; 80]);
        assert_eq!(sample(&column(|row| row)).len(), SAMPLES * SAMPLE);
    }

    /// Returns a pseudo-random number (splitmix64).
    fn hash(row: u64) -> u64 {
        let mixed = (row.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}
