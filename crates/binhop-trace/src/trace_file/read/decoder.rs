//! `Decoder` decodes the rows of a row group.

use binhop_base::Result;
use bytes::{Buf, Bytes, buf::Reader};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::columns::Columns;
use crate::event::EventBatch;
use crate::parquet_file::guarded;

/// The rows in a batch. They are enough to hide the cost of a batch, and few enough for the columns (17 bytes
/// a row) to stay in a level-2 cache until they are used.
const BATCH_ROWS: usize = 1 << 15;

/// `Decoder` decodes a row group.
pub(super) enum Decoder {
    /// The pages are as binhop writes them.
    Own(Box<Columns>),
    /// Pages of any kind.
    Parquet(ParquetRecordBatchReader),
}

impl Decoder {
    /// Makes a decoder of pages of any kind.
    pub(super) fn parquet<R: ChunkReader + 'static>(
        bytes: R,
        arrow: &ArrowReaderMetadata,
        index: usize,
        columns: &[&str],
        place: &str,
    ) -> Result<Self> {
        // A batch has room for no more rows than the row group has, because a file may have very many, very small
        // row groups.
        let rows = usize::try_from(arrow.metadata().row_group(index).num_rows()).unwrap_or(0);
        let mask = ProjectionMask::columns(arrow.parquet_schema(), columns.iter().copied());
        let reader = guarded(place, || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, arrow.clone())
                .with_row_groups(vec![index])
                .with_projection(mask)
                .with_batch_size(rows.clamp(1, BATCH_ROWS))
                .build()
        })?;
        Ok(Self::Parquet(reader))
    }

    /// Decodes the next batch.
    pub(super) fn next(&mut self, place: &str, first_row: u64) -> Result<Option<EventBatch>> {
        match self {
            Self::Own(columns) => guarded(place, || Ok(columns.next(BATCH_ROWS))),
            Self::Parquet(reader) => {
                let batch = guarded(place, || reader.next().transpose().map_err(ParquetError::from))?;
                let name =
                    |batch| EventBatch::from_record_batch(&batch, &format!("{place}: from row {first_row}"));
                batch.map(name).transpose()
            }
        }
    }
}

/// `RowGroupBytes` holds the bytes of a row group, at the positions that they have in the file.
#[derive(Clone)]
pub(super) struct RowGroupBytes {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

impl Length for RowGroupBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for RowGroupBytes {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> std::result::Result<Self::T, ParquetError> {
        Ok(self.get_bytes(start, (self.len().saturating_sub(start)) as usize)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> std::result::Result<Bytes, ParquetError> {
        let from = start.checked_sub(self.start).map(|from| from as usize);
        let range = from.and_then(|from| Some(from..from.checked_add(length)?));
        match range.filter(|range| range.end <= self.bytes.len()) {
            Some(range) => Ok(self.bytes.slice(range)),
            None => Err(ParquetError::EOF(format!("{length} bytes at {start} lie outside the row group"))),
        }
    }
}
