//! Writing a trace file: streaming, in constant memory, appearing complete or not at all.
//!
//! Events are gathered into row groups of [`ROW_GROUP_ROWS`] rows whatever batches they come in, so the same events
//! always make the same bytes. The file grows under a temporary name beside its target and takes the target's
//! place when it is finished.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow::array::{Array, UInt64Array};
use binhop_base::{Problem, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use xxhash_rust::xxh3::Xxh3Default;

use crate::event::{EventBatch, EventBuilder, Meta, Op, Source, schema};
use crate::footer::{self, Own, RowGroup};
use crate::totals::{ContentHash, Totals};

/// Rows in each row group but the last.
pub const ROW_GROUP_ROWS: usize = 1 << 20;

/// What a finished file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// References, instructions, rows by operation.
    pub totals: Totals,
    /// Hash of the events, independent of how the file is cut.
    pub content_hash: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// Writes one trace file. Dropped before [`TraceWriter::finish`], it leaves nothing behind.
pub struct TraceWriter {
    // Field order: the encoder closes its file before the temporary file is removed.
    encoder: ArrowWriter<Sink>,
    temporary: Temporary,
    meta: Meta,
    pending: EventBuilder,
    row_group_rows: usize,
    totals: Totals,
    content: ContentHash,
    row_groups: Vec<RowGroup>,
}

impl TraceWriter {
    /// Starts a file that will stand at `path`, replacing what is there once it is finished.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written; `path` is there and is no regular file.
    pub fn create(path: &Path, meta: &Meta) -> Result<Self> {
        Self::with_row_groups(path, meta, ROW_GROUP_ROWS)
    }

    /// As [`TraceWriter::create`], with row groups of another length (1 or more): for tests and experiments.
    ///
    /// # Errors
    /// As [`TraceWriter::create`].
    pub fn with_row_groups(path: &Path, meta: &Meta, rows: usize) -> Result<Self> {
        assert!(rows > 0, "a row group has at least one row");
        let (temporary, file) = Temporary::create(path)?;
        let sink = Sink { file, sum: Xxh3Default::new() };
        // The Arrow schema that ArrowWriter would add says nothing the Parquet types do not.
        let options = ArrowWriterOptions::new().with_properties(properties()).with_skip_arrow_metadata(true);
        let mut encoder = ArrowWriter::try_new_with_options(sink, schema(), options)
            .map_err(|error| temporary.cannot_write(&error.to_string()))?;
        encoder.sync().map_err(|error| temporary.cannot_write(&error.to_string()))?;
        encoder.inner_mut().sum.reset();
        Ok(Self {
            encoder,
            temporary,
            meta: meta.clone(),
            pending: EventBuilder::default(),
            row_group_rows: rows,
            totals: Totals::default(),
            content: ContentHash::new(),
            row_groups: Vec::new(),
        })
    }

    /// Appends events.
    ///
    /// # Errors
    /// An operation code that has no meaning; the disk is full.
    pub fn push(&mut self, batch: &EventBatch) -> Result<()> {
        check_ops(batch, self.totals.rows(), &self.temporary.place())?;
        self.totals.add(batch);
        self.content.add(batch);
        let mut start = 0;
        while start < batch.len() {
            let rows = (self.row_group_rows - self.pending.len()).min(batch.len() - start);
            self.pending.append(&batch.slice(start, rows));
            start += rows;
            if self.pending.len() == self.row_group_rows {
                self.encode()?;
            }
        }
        Ok(())
    }

    /// Replaces the metadata: it is written last, so what became known on the way can still be told.
    pub fn set_meta(&mut self, meta: &Meta) {
        self.meta = meta.clone();
    }

    /// What has been pushed so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Completes the file and puts it at its path.
    ///
    /// # Errors
    /// The disk is full, or the target cannot be replaced.
    pub fn finish(mut self) -> Result<Written> {
        self.encode()?;
        let own = Own {
            totals: self.totals.clone(),
            content: self.content.finish(),
            row_groups: self.row_groups.clone(),
        };
        let entries = footer::entries(&self.meta, &own).expect("metadata has string keys only");
        for entry in entries {
            self.encoder.append_key_value_metadata(entry);
        }
        let temporary = self.temporary;
        let sink = self.encoder.into_inner().map_err(|error| temporary.cannot_write(&error.to_string()))?;
        let mut file = sink.file;
        let sealed = footer::seal(&mut file).and_then(|()| file.metadata());
        let bytes = sealed.map_err(|error| temporary.cannot_write(&error.to_string()))?.len();
        drop(file);
        temporary.take_place()?;
        Ok(Written { totals: own.totals, content_hash: own.content, bytes })
    }

    /// Writes the pending rows as a row group: the one place where rows become bytes.
    fn encode(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let rows = self.pending.finish();
        let present = |column: Option<&UInt64Array>| column.map_or(0, |c| (c.len() - c.null_count()) as u64);
        let (arg0, arg1) = (present(rows.arg0_column()), present(rows.arg1_column()));
        let cannot_write = |error: &dyn std::fmt::Display| self.temporary.cannot_write(&error.to_string());
        self.encoder.write(&rows.to_record_batch()).map_err(|error| cannot_write(&error))?;
        self.encoder.flush().map_err(|error| cannot_write(&error))?;
        self.encoder.sync().map_err(|error| cannot_write(&error))?;
        let sum = &mut self.encoder.inner_mut().sum;
        self.row_groups.push(RowGroup { xxh3: footer::digits(sum.digest()), arg0, arg1 });
        sum.reset();
        Ok(())
    }
}

/// Drains a source into a file at `path`. `progress` hears of the totals after each batch; its error stops the
/// copy, and nothing is left behind.
///
/// # Errors
/// The source's, the writer's, or `progress`'s.
pub fn copy(
    source: &mut dyn Source,
    path: &Path,
    progress: &mut dyn FnMut(&Totals) -> Result<()>,
) -> Result<Written> {
    let mut writer = TraceWriter::create(path, source.meta())?;
    while let Some(batch) = source.next_batch()? {
        writer.push(&batch)?;
        progress(writer.totals())?;
    }
    writer.set_meta(source.meta());
    writer.finish()
}

/// Refuses a code that is no operation. `first_row` is the number of the batch's first row.
pub(crate) fn check_ops(batch: &EventBatch, first_row: u64, place: &str) -> Result<()> {
    let largest = batch.op().iter().copied().max().unwrap_or(0);
    if Op::from_code(largest).is_some() {
        return Ok(()); // codes are dense from 0
    }
    let row = batch.op().iter().position(|&op| Op::from_code(op).is_none()).expect("the largest is one");
    let known: Vec<String> = Op::ALL.iter().map(|op| format!("{} {}", *op as u8, op.name())).collect();
    Err(Problem::request(
        &batch.op()[row].to_string(),
        &format!("{place}: row {}", first_row + row as u64),
        "no operation has this code",
        &format!("the codes are {}", known.join(", ")),
    ))
}

/// Chosen by measurement. On 12 M references of a compiler (6.7 M rows) this makes 0.295 bytes a row, of which the
/// addresses are 0.215, and decodes at 172 M rows/s. Address pages of 128 KiB take 0.48 bytes a row and decode a tenth
/// slower; level 9 saves 30%, decodes no faster and takes twice as long to write. On a synthetic trace, plain instead
/// of dictionaries for the narrow columns takes a quarter more bytes and decodes a sixth slower.
fn properties() -> WriterProperties {
    let addr = ColumnPath::from("addr");
    WriterProperties::builder()
        .set_created_by(footer::created_by())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("zstd has a level 3")))
        .set_column_dictionary_enabled(addr, false)
        .set_data_page_size_limit(8 << 20)
        .set_data_page_row_count_limit(usize::MAX)
        .set_dictionary_page_size_limit(64 << 10)
        .set_max_row_group_row_count(None)
        // Nothing asks for them, and all they say is covered by checksums of our own.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build()
}

/// The file, summing up what is written to it.
struct Sink {
    file: File,
    sum: Xxh3Default,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.sum.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file under a temporary name, removed unless it takes its target's place.
struct Temporary {
    path: PathBuf,
    target: PathBuf,
}

impl Temporary {
    fn create(path: &Path) -> Result<(Self, File)> {
        // Through a link to the file itself: a rename would replace the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&target).is_ok_and(|there| !there.is_file()) {
            let rule = "a trace is written to a regular file";
            return Err(Problem::request(
                "not a regular file",
                &path.display().to_string(),
                rule,
                "name another path",
            ));
        }
        let Some(name) = target.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            let rule = "a trace is written to a file";
            return Err(Problem::request("no file name", &path.display().to_string(), rule, "name a file"));
        };
        let mut number = 0u32;
        loop {
            let path = target.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((Self { path, target }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
                Err(error) => return Err(cannot_write(&target, &error.to_string())),
            }
        }
    }

    fn place(&self) -> String {
        self.target.display().to_string()
    }

    fn cannot_write(&self, error: &str) -> Box<Problem> {
        cannot_write(&self.target, error)
    }

    fn take_place(self) -> Result<()> {
        fs::rename(&self.path, &self.target).map_err(|error| self.cannot_write(&error.to_string()))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename there is nothing to remove; a failure has no one to tell.
        let _ = fs::remove_file(&self.path);
    }
}

fn cannot_write(target: &Path, error: &str) -> Box<Problem> {
    Problem::request(
        error,
        &target.display().to_string(),
        "the trace cannot be written there, and nothing was left behind",
        "choose a directory that exists, may be written and has room",
    )
}

#[cfg(test)]
mod tests {
    use binhop_base::Class;

    use super::*;

    /// `/dev/full` takes no byte: what a full disk says.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_a_problem_and_leaves_nothing() {
        let directory = std::env::temp_dir().join(format!("binhop-full-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("t.parquet");
        let mut events = EventBuilder::default();
        (0..100).for_each(|row| events.push(Op::Load, row, 8, 1));
        let batch = events.finish();
        for full_after in [0, 1] {
            let mut writer = TraceWriter::with_row_groups(&path, &Meta::default(), 100).unwrap();
            (0..full_after).for_each(|_| writer.push(&batch).unwrap());
            writer.encoder.inner_mut().file = OpenOptions::new().write(true).open("/dev/full").unwrap();
            let problem = if full_after == 0 {
                let problem = writer.push(&batch).unwrap_err();
                drop(writer);
                problem
            } else {
                writer.finish().unwrap_err()
            };
            assert_eq!(problem.class, Class::Request);
            assert!(problem.value.contains("No space left on device"), "{problem}");
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir_all(&directory).unwrap();
    }
}
