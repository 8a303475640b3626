//! `TraceWriter` writes a trace file in constant memory. The file appears complete or not at all.
//!
//! Events are gathered into row groups of [`ROW_GROUP_ROWS`] rows, whatever batches they come in. The bytes
//! of a row group are a function of its rows (`columns.rs`), so the same events make the same bytes on any
//! number of threads (`pool.rs`). The file grows under a temporary name and takes the place of its target
//! when it is finished.

mod columns;
mod pool;
mod salvage;

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use binhop_base::{Problem, Result};
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use crate::bounds::check_rows;
use crate::disk::Temporary;
use crate::event::{EventBatch, EventBuilder, schema};
use crate::source::{Meta, Source};
use crate::totals::{ContentHash, Totals};
use crate::trace_file::footer::{self, Promises, RowGroup};
use columns::Encoded;
use pool::Encoders;
pub use salvage::Kept;
use salvage::Whole;

/// The rows in each row group but the last.
pub(crate) const ROW_GROUP_ROWS: usize = 1 << 20;

/// Batches of fewer rows are copied together, because handing on a batch costs as much as copying some
/// hundred rows.
const SMALL_BATCH: usize = 1 << 10;

/// `Written` describes a finished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// References, instructions, and rows by operation.
    pub totals: Totals,
    /// The hash of the events, which does not depend on row groups.
    pub content_hash: u64,
    /// The size of the file.
    pub bytes: u64,
}

/// `TraceWriter` writes a trace file. A writer that is dropped before [`TraceWriter::finish`] leaves nothing
/// behind.
pub struct TraceWriter {
    // Field order: the file is closed before it is removed.
    file: SerializedFileWriter<File>,
    temporary: Temporary,
    encoders: Encoders,
    meta: Meta,
    made_by: Option<String>,
    /// The rows of the next row group: batches as they came.
    pieces: Vec<EventBatch>,
    /// Rows behind `pieces`, copied from small batches.
    small: EventBuilder,
    /// The number of rows in `pieces` and `small`.
    pending: usize,
    row_group_rows: usize,
    totals: Totals,
    content: ContentHash,
    /// The totals and the content hash at the end of each row group that was given to the encoders and is not
    /// yet in the file.
    ends: VecDeque<(Totals, u64)>,
    /// The row groups in the file.
    whole: Vec<Whole>,
    /// The error of a write, after which the file takes no more rows.
    failed: Option<Box<Problem>>,
}

impl TraceWriter {
    /// Starts a file that will stand at `path`. Once finished, it replaces a file that is there. Row groups
    /// are encoded on `threads` threads (at least 1), including the caller's. Memory holds about 20 MB of
    /// rows for each thread, and 40 MB more.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written, or `path` exists and is no regular file.
    pub fn create(path: &Path, meta: &Meta, threads: usize) -> Result<Self> {
        Self::with_row_groups(path, meta, threads, ROW_GROUP_ROWS)
    }

    /// Starts a file as [`TraceWriter::create`] does, with row groups of `rows` rows (1 or more): for tests
    /// and experiments.
    ///
    /// # Errors
    /// As [`TraceWriter::create`].
    pub fn with_row_groups(path: &Path, meta: &Meta, threads: usize, rows: usize) -> Result<Self> {
        assert!(rows > 0, "a row group has at least one row");
        let (temporary, file) = Temporary::create(path, "a trace")?;
        let schema = ArrowSchemaConverter::new().convert(&schema()).expect("the schema is one of Parquet's");
        let properties = WriterProperties::builder().set_created_by(footer::created_by()).build();
        let file = SerializedFileWriter::new(file, schema.root_schema_ptr(), Arc::new(properties))
            .map_err(|error| temporary.cannot_write(&error.to_string()))?;
        Ok(Self {
            file,
            temporary,
            encoders: Encoders::new(threads, Arc::new(schema)),
            meta: meta.clone(),
            made_by: None,
            pieces: Vec::new(),
            small: EventBuilder::default(),
            pending: 0,
            row_group_rows: rows,
            totals: Totals::default(),
            content: ContentHash::new(),
            ends: VecDeque::new(),
            whole: Vec::new(),
            failed: None,
        })
    }

    /// Appends events.
    ///
    /// # Errors
    /// An operation code has no meaning, or a reference is too large: the error names the file and the row.
    /// The disk is full, which may be reported some row groups later.
    pub fn push(&mut self, batch: &EventBatch) -> Result<()> {
        check_rows(batch, self.totals.rows(), &self.temporary.place())?;
        self.push_checked(batch)
    }

    /// Appends events that [`check_rows`] has accepted.
    fn push_checked(&mut self, batch: &EventBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.len() {
            let rows = (self.row_group_rows - self.pending).min(batch.len() - start);
            let part = batch.slice(start, rows);
            self.totals.add(&part);
            self.content.add(&part);
            self.gather(part);
            start += rows;
            if self.pending == self.row_group_rows {
                self.end_row_group();
                self.append(false).inspect_err(|problem| self.failed = Some(problem.clone()))?;
            }
        }
        Ok(())
    }

    /// Replaces the metadata. The file holds the metadata at its end, so it can hold what became known late.
    pub fn set_meta(&mut self, meta: &Meta) {
        self.meta = meta.clone();
    }

    /// Names the command that writes the file. The file holds the name, and the same command may replace the
    /// file.
    pub fn set_made_by(&mut self, command: &str) {
        self.made_by = Some(command.to_owned());
    }

    /// Returns the totals of the pushed events.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Completes the file and puts it at its path.
    ///
    /// # Errors
    /// The disk is full, or the target cannot be replaced.
    pub fn finish(mut self) -> Result<Written> {
        self.end_row_group();
        self.append(true)?;
        let own = Promises {
            totals: self.totals.clone(),
            content: self.content.finish(),
            row_groups: self.whole.into_iter().map(|group| group.facts).collect(),
        };
        let entries = footer::entries(&self.meta, self.made_by.as_deref(), &own)
            .expect("metadata has string keys only");
        for entry in entries {
            self.file.append_key_value_metadata(entry);
        }
        let temporary = self.temporary;
        let mut file = self.file.into_inner().map_err(|error| temporary.cannot_write(&said(&error)))?;
        let sealed = footer::seal(&mut file).and_then(|()| file.metadata());
        let bytes = sealed.map_err(|error| temporary.cannot_write(&error.to_string()))?.len();
        drop(file);
        temporary.take_place()?;
        Ok(Written { totals: own.totals, content_hash: own.content, bytes })
    }

    /// Adds rows to the next row group, which has room for them.
    fn gather(&mut self, batch: EventBatch) {
        self.pending += batch.len();
        if batch.len() < SMALL_BATCH {
            self.small.append(&batch);
        } else {
            self.end_small();
            self.pieces.push(batch);
        }
    }

    fn end_small(&mut self) {
        if !self.small.is_empty() {
            self.pieces.push(self.small.finish());
        }
    }

    /// Hands the pending rows to the encoders.
    fn end_row_group(&mut self) {
        self.end_small();
        if !self.pieces.is_empty() {
            self.encoders.give(std::mem::take(&mut self.pieces));
            self.ends.push_back((self.totals.clone(), self.content.finish()));
            self.pending = 0;
        }
    }

    /// Appends encoded row groups in order: all row groups if `all` is set, otherwise only the row groups
    /// that must not wait longer.
    fn append(&mut self, all: bool) -> Result<()> {
        while let Some(encoded) = self.encoders.take(all) {
            let (totals, content) = self.ends.pop_front().expect("each row group given has an end");
            let appended = encoded.and_then(|encoded| append(&mut self.file, encoded));
            let facts = appended.map_err(|error| self.temporary.cannot_write(&said(&error)))?;
            let end = self.file.bytes_written() as u64;
            self.whole.push(Whole { facts, end, totals, content });
        }
        Ok(())
    }
}

/// Appends a row group to the file and flushes the file, so that an error of the disk shows early.
fn append(
    file: &mut SerializedFileWriter<File>,
    encoded: Encoded,
) -> std::result::Result<RowGroup, ParquetError> {
    let mut row_group = file.next_row_group()?;
    for column in encoded.columns {
        row_group.append_column(&encoded.bytes, column)?;
    }
    row_group.close()?;
    file.flush()?;
    Ok(encoded.facts)
}

/// Returns the message of an error: the operating system's message if writing failed, the encoder's
/// otherwise.
fn said(error: &ParquetError) -> String {
    match error {
        ParquetError::External(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

/// Drains a source into a file at `path`, encoding on `threads` threads. The file names the command that made
/// it, if `made_by` does. `progress` receives the totals after each batch. An error of `progress` stops the
/// copy, and nothing is left behind.
///
/// # Errors
/// The source, the writer or `progress` fails. The error of a row that the writer refuses names the source
/// and the row.
pub fn copy(
    source: &mut dyn Source,
    path: &Path,
    threads: usize,
    made_by: Option<&str>,
    progress: &mut dyn FnMut(&Totals) -> Result<()>,
) -> Result<Written> {
    let mut writer = TraceWriter::create(path, source.meta(), threads)?;
    writer.made_by = made_by.map(str::to_owned);
    while let Some(batch) = source.next_batch()? {
        check_rows(&batch, writer.totals.rows(), source.name())?;
        writer.push_checked(&batch)?;
        progress(writer.totals())?;
    }
    writer.set_meta(source.meta());
    writer.finish()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use binhop_base::Class;

    use super::*;
    use crate::bounds::LARGEST_REFERENCE;
    use crate::event::Op;

    /// `Large` yields two batches of two loads. The last load is too large.
    struct Large(Meta, u64);

    impl Source for Large {
        fn name(&self) -> &str {
            "large.din"
        }
        fn meta(&self) -> &Meta {
            &self.0
        }
        fn next_batch(&mut self) -> Result<Option<EventBatch>> {
            self.1 += 1;
            let mut batch = EventBuilder::default();
            batch.push(Op::Load, 0, 8, 1);
            batch.push(Op::Load, 0, if self.1 == 2 { LARGEST_REFERENCE + 1 } else { 8 }, 1);
            Ok((self.1 < 3).then(|| batch.finish()))
        }
    }

    #[test]
    fn the_error_of_a_refused_row_names_the_source_and_not_the_written_file() {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), "large");
        let path = std::env::temp_dir().join(format!("binhop-large-{random:x}.parquet"));
        let problem = copy(&mut Large(Meta::default(), 0), &path, 1, None, &mut |_| Ok(())).err().unwrap();
        assert_eq!(problem.place, "large.din: row 3");
        assert_eq!(problem.value, "load with size 65537");
        assert!(!path.exists());
    }

    /// `/dev/full` takes no byte, and fails as a full disk does.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error_and_leaves_no_file() {
        let directory = std::env::temp_dir().join(format!("binhop-full-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("t.parquet");
        let mut events = EventBuilder::default();
        (0..100).for_each(|row| events.push(Op::Load, row, 8, 1));
        let batch = events.finish();
        for threads in [1, 3] {
            for full_after in [0, 1] {
                let mut writer = TraceWriter::with_row_groups(&path, &Meta::default(), threads, 100).unwrap();
                (0..full_after).for_each(|_| writer.push(&batch).unwrap());
                *writer.file.inner_mut() = OpenOptions::new().write(true).open("/dev/full").unwrap();
                // On several threads the error shows once a row group can wait no longer.
                let pushed = (full_after == 0).then(|| (0..9).find_map(|_| writer.push(&batch).err()));
                let problem = match pushed {
                    Some(problem) => problem.expect("nine row groups are more than may wait"),
                    None => writer.finish().unwrap_err(),
                };
                assert_eq!(problem.class, Class::Request);
                assert!(problem.value.contains("No space left on device"), "{problem}");
            }
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir_all(&directory).unwrap();
    }
}
