//! `Columns` turns the column chunks of a row group back into rows, if `write/columns.rs` encoded them.
//!
//! The pages of such a row group are known: a dictionary with one run of whole bytes, a run of one value, or plain
//! values. So a value is decoded by one look-up in a table, and addresses are used where they were decompressed. The
//! `parquet` crate reads the headers of the pages and decompresses the pages. It decodes every row group that has pages
//! of another kind. ARCHITECTURE.md compares both.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{UInt8Array, UInt32Array, UInt64Array};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::event::EventBatch;

/// `Columns` are the columns of a row group, of which some rows have been returned.
pub(super) struct Columns {
    op: Small,
    addr: ScalarBuffer<u64>,
    size: Small,
    count: Small,
    args: [SparseColumn; 2],
    rows: usize,
    /// The next row.
    at: usize,
}

impl Columns {
    /// Reads the columns of a row group. `has_args` says for each argument whether some row has it. Returns `None` if a
    /// column has pages of a kind that binhop does not write.
    pub(super) fn read<R: ChunkReader + 'static>(
        bytes: &Arc<R>,
        row_group: &RowGroupMetaData,
        has_args: [bool; 2],
    ) -> Result<Option<Self>> {
        // Rows with arguments are numbered by 32 bits.
        let Ok(rows) = u32::try_from(row_group.num_rows()) else { return Ok(None) };
        let rows = rows as usize;
        // Returns the pages of a column of this type, with these levels: 1 if a row may lack a value, else 0.
        let chunk = |name: &str, kind: Type, levels: i16| -> Result<Option<Chunk>> {
            let is_column = |column: &&ColumnChunkMetaData| {
                let description = column.column_descr();
                column.column_path().string() == name
                    && column.column_type() == kind
                    && (description.max_def_level(), description.max_rep_level()) == (levels, 0)
            };
            row_group.columns().iter().find(is_column).map_or(Ok(None), |column| {
                Chunk::read(SerializedPageReader::new(Arc::clone(bytes), column, rows, None)?, rows)
            })
        };
        // A row has eight bytes of address, so no number of rows is too large for the memory from here on.
        let Some(addr) = chunk("addr", Type::INT64, 0)?.and_then(|chunk| chunk.plain::<u64>(rows)) else {
            return Ok(None);
        };
        let small = |name: &str| -> Result<_> {
            Ok(chunk(name, Type::INT32, 0)?.and_then(|chunk| Small::of(&chunk, rows)))
        };
        let args = |at: usize, name: &str| -> Result<_> {
            if !has_args[at] {
                return Ok(Some(SparseColumn::default()));
            }
            Ok(chunk(name, Type::INT64, 1)?.and_then(|chunk| SparseColumn::of(&chunk, rows)))
        };
        let columns = (small("op")?, small("size")?, small("count")?, args(0, "arg0")?, args(1, "arg1")?);
        let (Some(op), Some(size), Some(count), Some(arg0), Some(arg1)) = columns else { return Ok(None) };
        let args = [arg0, arg1];
        Ok(op.fits_u8().then_some(Self { op, addr, size, count, args, rows, at: 0 }))
    }

    /// Returns these columns, of which the rows before this row have been returned.
    pub(super) fn starting_at(self, row: usize) -> Self {
        Self { at: row, ..self }
    }

    /// Returns the number of rows that have been returned.
    pub(super) fn returned(&self) -> usize {
        self.at
    }

    /// Returns the next rows, at most `most` rows; `None` at the end.
    pub(super) fn next(&mut self, most: usize) -> Option<EventBatch> {
        let rows = self.at..self.rows.min(self.at + most);
        if rows.is_empty() {
            return None;
        }
        self.at = rows.end;
        let [arg0, arg1] = self.args.each_ref().map(|args| args.rows(rows.clone()));
        Some(EventBatch::of_columns(
            UInt8Array::from(self.op.rows(rows.clone(), |value| value as u8)),
            UInt64Array::new(self.addr.slice(rows.start, rows.len()), None),
            UInt32Array::from(self.size.rows(rows.clone(), |value| value)),
            UInt32Array::from(self.count.rows(rows, |value| value)),
            [arg0, arg1],
        ))
    }
}

/// `Chunk` holds the pages of a column chunk, decompressed: a dictionary, if there is one, and the one page of its
/// rows.
struct Chunk {
    dictionary: Option<Bytes>,
    data: Bytes,
    encoding: Encoding,
}

impl Chunk {
    /// Reads the pages. Returns `None` if the chunk has pages of a kind that binhop does not write.
    fn read<R: ChunkReader>(mut pages: SerializedPageReader<R>, rows: usize) -> Result<Option<Self>> {
        let mut dictionary = None;
        let mut next = pages.get_next_page()?;
        if let Some(Page::DictionaryPage { buf, encoding: Encoding::PLAIN, .. }) = next {
            dictionary = Some(buf);
            next = pages.get_next_page()?;
        }
        let Some(Page::DataPage { buf, num_values, encoding, .. }) = next else { return Ok(None) };
        let alone = num_values as usize == rows && pages.get_next_page()?.is_none();
        Ok(alone.then_some(Self { dictionary, data: buf, encoding }))
    }

    /// Returns the plain values of a column that has a value in each row.
    fn plain<T: arrow_buffer::ArrowNativeType>(&self, rows: usize) -> Option<ScalarBuffer<T>> {
        if self.encoding != Encoding::PLAIN || Some(self.data.len()) != rows.checked_mul(size_of::<T>()) {
            return None;
        }
        let buffer = Buffer::from(self.data.clone());
        let aligned = buffer.as_ptr().align_offset(align_of::<T>()) == 0;
        // A buffer of Arrow's own is aligned.
        let buffer = if aligned { buffer } else { Buffer::from_slice_ref(buffer.as_slice()) };
        Some(ScalarBuffer::new(buffer, 0, rows))
    }
}

/// `Small` is a column of numbers of 32 bits, most often with few different values.
enum Small {
    /// Every row has this value.
    One(u32),
    /// The value of each row, by an index of one byte.
    Bytes(Box<[u32; 256]>, Bytes),
    /// The value of each row, by an index of two bytes.
    Pairs(Vec<u32>, Bytes),
    /// Plain values.
    Plain(ScalarBuffer<u32>),
}

impl Small {
    /// Decodes the pages; `None` if the pages are of a kind that binhop does not write.
    fn of(chunk: &Chunk, rows: usize) -> Option<Self> {
        if chunk.dictionary.is_none() {
            return chunk.plain(rows).map(Self::Plain);
        }
        let (values, _) = chunk.dictionary.as_ref()?.as_chunks::<4>();
        let values: Vec<u32> = values.iter().map(|value| u32::from_le_bytes(*value)).collect();
        if chunk.encoding != Encoding::RLE_DICTIONARY {
            return None;
        }
        let mut page = Runs { bytes: &chunk.data, at: 0 };
        let width = page.byte()?;
        let run = page.varint()?;
        let packed = run & 1 == 1;
        let length = usize::try_from(run >> 1).ok()?;
        let start = page.at;
        match (packed, width) {
            (false, 8) if length == rows => {
                let only = usize::from(page.byte()?);
                values.get(only).copied().map(Self::One)
            }
            (true, 8) if length == rows.div_ceil(8) => {
                let indices =
                    chunk.data.get(start..start + rows).map(|_| chunk.data.slice(start..start + rows))?;
                let largest = indices.iter().copied().max().unwrap_or(0);
                let mut table = Box::new([0; 256]);
                table.get_mut(..values.len())?.copy_from_slice(&values);
                (usize::from(largest) < values.len()).then_some(Self::Bytes(table, indices))
            }
            (true, 16) if length == rows.div_ceil(8) => {
                let end = start + 2 * rows;
                let indices = chunk.data.get(start..end).map(|_| chunk.data.slice(start..end))?;
                let (pairs, _) = indices.as_chunks::<2>();
                let largest = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).max().unwrap_or(0);
                (usize::from(largest) < values.len()).then_some(Self::Pairs(values, indices))
            }
            _ => None,
        }
    }

    /// Returns whether each value fits into 8 bits.
    fn fits_u8(&self) -> bool {
        let fits = |&value: &u32| value <= u32::from(u8::MAX);
        match self {
            Self::One(value) => fits(value),
            Self::Bytes(values, _) => values.iter().all(fits),
            Self::Pairs(values, _) => values.iter().all(fits),
            Self::Plain(values) => values.iter().all(fits),
        }
    }

    /// Returns the values of some rows, as another type.
    fn rows<T: Copy>(&self, rows: Range<usize>, convert: impl Fn(u32) -> T) -> Vec<T> {
        match self {
            Self::One(value) => vec![convert(*value); rows.len()],
            Self::Bytes(values, indices) => {
                let values = values.each_ref().map(|&value| convert(value));
                indices[rows].iter().map(|&index| values[usize::from(index)]).collect()
            }
            Self::Pairs(values, indices) => {
                let (pairs, _) = indices[2 * rows.start..2 * rows.end].as_chunks::<2>();
                pairs.iter().map(|pair| convert(values[usize::from(u16::from_le_bytes(*pair))])).collect()
            }
            Self::Plain(values) => values[rows].iter().map(|&value| convert(value)).collect(),
        }
    }
}

/// `SparseColumn` is a column that has values in some rows only.
#[derive(Default)]
struct SparseColumn {
    /// The rows that have a value, in ascending order.
    present: Vec<u32>,
    values: Vec<u64>,
}

impl SparseColumn {
    /// Decodes a page: the length of the levels, the levels in runs, then the values that are present. Returns `None`
    /// if the page has another form.
    fn of(chunk: &Chunk, rows: usize) -> Option<Self> {
        if chunk.encoding != Encoding::PLAIN || chunk.dictionary.is_some() {
            return None;
        }
        let (length, rest) = chunk.data.split_first_chunk::<4>()?;
        let (levels, values) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let mut present = Vec::new();
        let (mut runs, mut row) = (Runs { bytes: levels, at: 0 }, 0);
        while row < rows {
            let run = runs.varint()?;
            let length = usize::try_from(run >> 1).ok()?;
            if run & 1 == 0 {
                let end = row.checked_add(length).filter(|&end| end <= rows)?;
                match runs.byte()? {
                    0 => {}
                    1 => present.extend(row as u32..end as u32),
                    _ => return None,
                }
                row = end;
            } else {
                // The last group may reach beyond the rows, and has no value there.
                for _ in 0..length.min((rows - row).div_ceil(8)) {
                    let byte = runs.byte()?;
                    present.extend((0..8).filter(|bit| byte >> bit & 1 == 1).map(|bit| (row + bit) as u32));
                    row += 8;
                }
            }
        }
        let (values, rest) = values.as_chunks::<8>();
        let whole = rest.is_empty() && values.len() == present.len() && runs.at == levels.len();
        let inside = present.last().is_none_or(|&last| (last as usize) < rows);
        let values = values.iter().map(|value| u64::from_le_bytes(*value)).collect();
        (whole && inside).then_some(Self { present, values })
    }

    /// Returns the values of some rows; `None` if none of these rows has a value.
    fn rows(&self, rows: Range<usize>) -> Option<UInt64Array> {
        let [first, end] =
            [rows.start, rows.end].map(|row| self.present.partition_point(|&at| (at as usize) < row));
        if first == end {
            return None;
        }
        let (mut values, mut valid) = (vec![0; rows.len()], vec![false; rows.len()]);
        for (&row, &value) in self.present[first..end].iter().zip(&self.values[first..end]) {
            let at = row as usize - rows.start;
            (values[at], valid[at]) = (value, true);
        }
        Some(UInt64Array::new(values.into(), Some(NullBuffer::from(valid))))
    }
}

/// `Runs` reads the parts of runs. Its methods return `None` if the bytes end.
struct Runs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Runs<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    /// Returns an unsigned number in groups of 7 bits, the lowest group first.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
    use parquet::basic::Compression;
    use parquet::file::metadata::ParquetMetaData;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};
    use proptest::prelude::*;

    use super::*;
    use crate::event::{EventBuilder, Op, schema};
    use crate::source::Meta;
    use crate::trace_file::write::TraceWriter;

    type Event = (Op, u64, u32, u32, [Option<u64>; 2]);

    /// Returns the rows of a batch.
    fn events(batch: &EventBatch) -> Vec<Event> {
        let op = |row: usize| Op::from_code(batch.op()[row]).expect("a known operation");
        let args = |row| [batch.arg0(row), batch.arg1(row)];
        let event = |row| (op(row), batch.addr()[row], batch.size()[row], batch.count()[row], args(row));
        (0..batch.len()).map(event).collect()
    }

    fn batch(events: &[Event]) -> EventBatch {
        let mut builder = EventBuilder::default();
        events
            .iter()
            .for_each(|&(op, addr, size, count, args)| builder.push_args(op, addr, size, count, args));
        builder.finish()
    }

    /// Returns the rows of the only row group, in batches of `most` rows; `None` if its pages are of another kind.
    fn read(bytes: &Bytes, most: usize) -> Option<Vec<Event>> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).expect("a Parquet file");
        let metadata: &ParquetMetaData = builder.metadata();
        assert_eq!(metadata.num_row_groups(), 1);
        let row_group = metadata.row_group(0);
        let mut columns =
            Columns::read(&Arc::new(bytes.clone()), row_group, [true; 2]).expect("sound pages")?;
        let mut rows = Vec::new();
        while let Some(batch) = columns.next(most) {
            rows.extend(events(&batch));
        }
        Some(rows)
    }

    /// Returns the rows as the `parquet` crate decodes them.
    fn read_slowly(bytes: &Bytes) -> Vec<Event> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).expect("a Parquet file");
        let reader: ParquetRecordBatchReader = builder.build().expect("a reader");
        let batch = |batch: std::result::Result<RecordBatch, _>| {
            EventBatch::from_record_batch(&batch.expect("a batch"), "test").expect("columns of a trace")
        };
        reader.flat_map(|next| events(&batch(next))).collect()
    }

    /// Draws rows whose columns have one value, few values, more than 256 values, or a value of their own in each row.
    fn rows() -> impl Strategy<Value = Vec<Event>> {
        let kinds = prop::sample::select(vec![1, 3, 256, 257, 60_000]);
        let every = prop::sample::select(vec![1, 2, 9, 1000]);
        let shape = (kinds.clone(), kinds, every.clone(), every);
        (1..1200_usize, shape, any::<u32>()).prop_map(|(rows, (sizes, counts, every0, every1), seed)| {
            let event = |row: usize| {
                let mixed = (row as u32 ^ seed).wrapping_mul(0x9E37_79B9);
                let op = Op::ALL[mixed as usize % if seed.is_multiple_of(3) { 1 } else { Op::ALL.len() }];
                let arg = |every| row.is_multiple_of(every).then_some(u64::from(mixed) << 9);
                let addr = u64::from(mixed) << 20 | row as u64;
                // No trace holds a fetch of no instruction.
                let count = (row as u32 % counts).max(u32::from(op == Op::Fetch));
                (op, addr, mixed % sizes, count, [arg(every0), arg(every1)])
            };
            (0..rows).map(event).collect()
        })
    }

    /// A page of levels that end elsewhere than the rows is refused, and takes no memory for values that it does not
    /// have.
    #[test]
    fn levels_beyond_the_rows_are_refused() {
        let column = |levels: &[u8], values: &[u64]| {
            let mut page = (levels.len() as u32).to_le_bytes().to_vec();
            page.extend_from_slice(levels);
            page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            let chunk = Chunk { dictionary: None, data: page.into(), encoding: Encoding::PLAIN };
            SparseColumn::of(&chunk, 10).map(|column| (column.present, column.values))
        };
        assert_eq!(column(&[2 << 1 | 1, 0b10, 0b10], &[7, 8]), Some((vec![1, 9], vec![7, 8])));
        assert_eq!(column(&[10 << 1, 1], &[3; 10]), Some(((0..10).collect(), vec![3; 10])));
        assert_eq!(column(&[2 << 1 | 1, 0, 0b100], &[7]), None);
        assert_eq!(column(&[3 << 1 | 1, 0b10, 0, 0], &[7]), None);
        assert_eq!(column(&[11 << 1, 1], &[3; 11]), None);
        assert_eq!(column(&[10 << 1, 2], &[]), None);
        assert_eq!(column(&[10 << 1, 1], &[3; 9]), None);
        assert_eq!(column(&[5 << 1, 1], &[3; 5]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// `Columns` decodes every column that binhop wrote, and leaves no column to the `parquet` crate.
        #[test]
        fn rows_that_binhop_wrote_are_decoded_here(rows in rows(), most in 1..700_usize, name in any::<u64>()) {
            let path = std::env::temp_dir().join(format!("binhop-columns-{}-{name:x}", std::process::id()));
            let mut writer = TraceWriter::create(&path, &Meta::default(), 1).unwrap();
            writer.push(&batch(&rows)).unwrap();
            writer.finish().unwrap();
            let bytes = Bytes::from(std::fs::read(&path).unwrap());
            std::fs::remove_file(&path).unwrap();
            prop_assert_eq!(read_slowly(&bytes), rows.clone());
            prop_assert_eq!(read(&bytes, most), Some(rows));
        }

        /// Pages of the `parquet` crate's writer are either decoded as the crate decodes them, or refused. Plain pages,
        /// one for each column, are decoded.
        #[test]
        fn rows_that_another_writer_wrote_are_right_or_refused(
            rows in rows(), dictionary in any::<bool>(), zstd in any::<bool>(), page in 1..2000_usize,
        ) {
            let properties = WriterProperties::builder()
                .set_dictionary_enabled(dictionary)
                .set_data_page_row_count_limit(page)
                .set_write_batch_size(page)
                .set_statistics_enabled(EnabledStatistics::None)
                .set_compression(if zstd { Compression::ZSTD(Default::default()) } else { Compression::UNCOMPRESSED })
                .build();
            let record_batch = batch(&rows).to_record_batch();
            let columns: Vec<ArrayRef> = record_batch.columns().to_vec();
            let mut bytes = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut bytes, schema(), Some(properties)).unwrap();
            writer.write(&RecordBatch::try_new(schema(), columns).unwrap()).unwrap();
            writer.close().unwrap();
            let bytes = Bytes::from(bytes);
            let here = read(&bytes, 100);
            prop_assert!(here.is_some() || dictionary || page < rows.len());
            prop_assert!(here.is_none_or(|here| here == rows));
        }
    }
}
