//! Tables in Parquet files: written and read some thousands of rows at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use binhop_base::{Problem, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// Rows of a Parquet row group.
const GROUP: usize = 1 << 20;
/// Rows that are written at a time: where a page ends depends on it.
const PIECE: usize = 1 << 14;
/// The level of compression, the one that Python uses (`binhop/output.py`).
const LEVEL: i32 = 3;

/// Writes a table to a Parquet file, some thousands of rows at a time. The bytes depend on the rows alone: neither on how
/// they come in batches, nor on which of Arrow's types their text has.
///
/// # Errors
/// The file cannot be written, or a batch is an error.
pub fn write_table(
    schema: &Schema,
    batches: &mut dyn Iterator<Item = Result<RecordBatch>>,
    path: &Path,
) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| {
        let (place, rule) = (path.display().to_string(), "a table cannot be written there");
        Problem::request(&error.to_string(), &place, rule, "make room, or choose another place")
    };
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
    let file = File::create(path).map_err(|error| failed(&error))?;
    let mut writer =
        ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).map_err(|error| failed(&error))?;
    let mut waiting = RecordBatch::new_empty(Arc::clone(&schema));
    for batch in batches {
        let batch = batch?;
        let cast = |(column, field): (&ArrayRef, &Arc<Field>)| cast(column, field.data_type());
        let columns =
            batch.columns().iter().zip(schema.fields()).map(cast).collect::<std::result::Result<_, _>>();
        let columns = columns.map_err(|error| failed(&error))?;
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|error| failed(&error))?;
        waiting = concat_batches(&schema, [&waiting, &batch]).map_err(|error| failed(&error))?;
        let whole = waiting.num_rows() / PIECE * PIECE;
        for start in (0..whole).step_by(PIECE) {
            writer.write(&waiting.slice(start, PIECE)).map_err(|error| failed(&error))?;
        }
        waiting = waiting.slice(whole, waiting.num_rows() - whole);
    }
    writer.write(&waiting).map_err(|error| failed(&error))?;
    writer.close().map(drop).map_err(|error| failed(&error))
}

/// `StoredBatches` reads the rows of a Parquet file from the first one. It holds one batch, and one page of each column.
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
    /// The file cannot be opened, or is no Parquet.
    pub fn open(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let file = File::open(path).map_err(|error| unreadable(&error, &place))?;
        let built = ParquetRecordBatchReaderBuilder::try_new(file)
            .and_then(|builder| builder.with_batch_size(PIECE).build());
        let reader = built.map_err(|error| unreadable(&error, &place))?;
        let schema = arrow::array::RecordBatchReader::schema(&reader);
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

fn unreadable(error: &dyn std::fmt::Display, place: &str) -> Box<Problem> {
    let rule = "the rows of a table that binhop wrote are read from there";
    Problem::request(&error.to_string(), place, rule, "run the command again")
}
