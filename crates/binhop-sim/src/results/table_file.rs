//! `TableFile` writes a table to a Parquet file, and `StoredBatches` reads it, some thousands of rows at a
//! time.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use binhop_base::{Problem, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::progress::InterruptCheck;

/// The number of rows in a Parquet row group.
const GROUP: usize = 1 << 20;
/// The number of rows that are written at a time. This number decides where a Parquet page ends.
const PIECE: usize = 1 << 14;
/// The level of compression: the level that Python uses (`binhop/output.py`).
const LEVEL: i32 = 3;

/// Writes a table to a Parquet file, some thousands of rows at a time. The bytes depend on the rows alone:
/// neither on how the rows are divided into batches, nor on which of Arrow's types their text has.
/// `check_interrupt` is called before each batch is asked for and before each piece is written. An unfinished
/// file stays, because its directory is a partial one.
///
/// # Errors
/// The file cannot be written, a batch is an error, or `check_interrupt` returns an error.
pub fn write_table(
    schema: &Schema,
    batches: &mut dyn Iterator<Item = Result<RecordBatch>>,
    path: &Path,
    check_interrupt: InterruptCheck<'_>,
) -> Result<()> {
    let mut file = TableFile::create(schema, path)?;
    loop {
        check_interrupt()?;
        let Some(batch) = batches.next() else { return file.finish() };
        let batch = batch?;
        for start in (0..batch.num_rows()).step_by(PIECE) {
            check_interrupt()?;
            file.add(&batch.slice(start, PIECE.min(batch.num_rows() - start)))?;
        }
    }
}

/// `TableFile` is a Parquet file that is being written, [`PIECE`] rows at a time.
struct TableFile {
    place: String,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    /// The rows that are not written yet, fewer than [`PIECE`].
    waiting: RecordBatch,
}

impl TableFile {
    fn create(schema: &Schema, path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let field = |field: &Arc<Field>| {
            let kind = match field.data_type() {
                DataType::Utf8View | DataType::LargeUtf8 => &DataType::Utf8,
                kind => kind,
            };
            Field::new(field.name(), kind.clone(), true)
        };
        let schema = Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()));
        let level = ZstdLevel::try_new(LEVEL).expect("a level there is");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(GROUP))
            .build();
        let file = File::create(path).map_err(|error| cannot_write(&place, &error))?;
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties));
        let writer = writer.map_err(|error| cannot_write(&place, &error))?;
        let waiting = RecordBatch::new_empty(Arc::clone(&schema));
        Ok(Self { place, schema, writer, waiting })
    }

    /// Adds at most [`PIECE`] rows.
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let failed = |error: &dyn Display| cannot_write(&self.place, error);
        let columns = rows.columns().iter().map(with_plain_text).collect();
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| failed(&error))?;
        self.waiting =
            concat_batches(&self.schema, [&self.waiting, &rows]).map_err(|error| failed(&error))?;
        if let Some(left) = self.waiting.num_rows().checked_sub(PIECE) {
            self.writer.write(&self.waiting.slice(0, PIECE)).map_err(|error| failed(&error))?;
            self.waiting = self.waiting.slice(PIECE, left);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let written = self.writer.write(&self.waiting).and_then(|()| self.writer.close());
        written.map(drop).map_err(|error| cannot_write(&self.place, &error))
    }
}

/// Gives text the type `Utf8`; other columns stay as they are.
fn with_plain_text(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().iter().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(column.as_string::<i64>().iter().collect::<StringArray>()),
        _ => Arc::clone(column),
    }
}

fn cannot_write(place: &str, error: &dyn Display) -> Box<Problem> {
    let rule = "a table cannot be written there";
    Problem::request(&error.to_string(), place, rule, "make room, or choose another place")
}

/// `StoredBatches` reads the rows of a Parquet file, beginning with the first row. It holds one batch, and
/// one page of each column.
#[derive(Debug)]
pub struct StoredBatches {
    place: String,
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
}

impl StoredBatches {
    /// Opens a file that [`write_table`] wrote.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a Parquet file.
    pub fn open(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let file = File::open(path).map_err(|error| unreadable(&error, &place))?;
        let built = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.with_batch_size(PIECE).build());
        let reader = built.map_err(|error| unreadable(&error, &place))?;
        let schema = arrow_array::RecordBatchReader::schema(&reader);
        Ok(Self { place, reader, schema })
    }

    /// Returns the columns of the batches.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Iterator for StoredBatches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.reader.next()?.map_err(|error| unreadable(&error, &self.place)))
    }
}

fn unreadable(error: &dyn Display, place: &str) -> Box<Problem> {
    let rule = "binhop reads the rows of a table from this file, which it wrote itself";
    Problem::request(&error.to_string(), place, rule, "run the command again")
}
