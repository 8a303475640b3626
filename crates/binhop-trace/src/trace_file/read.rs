//! `TraceReader` reads a trace file, row group by row group.
//!
//! In a file that binhop wrote, the checksum of a row group is compared with the footer before the row group
//! is decoded, from memory (`columns.rs`). A file of another program (Polars, pyarrow) has no checksums: the headers of
//! its pages are compared with its footer (`page_headers.rs`), and each row group is decoded while it is read. Both
//! kinds of file are opened once, and a change of the file is an error (`steady.rs`).
//!
//! Memory grows with the number of row groups only: the decoder keeps 432 B for each column of each row group
//! (`tests/foreign.rs`). A file of another program with few, huge pages needs memory for these pages.

mod columns;
mod decoder;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use binhop_base::{Problem, Result};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::bounds::check_ops;
use crate::disk::{FileIdentity, Steady};
use crate::event::EventBatch;
use crate::input::open::{RAISE_THE_LIMIT, TOO_MANY_OPEN};
use crate::parquet_file::page_headers;
use crate::parquet_file::{damaged, guarded};
use crate::source::Failure;
use crate::source::{Meta, Source};
use crate::totals::Totals;
use crate::trace_file::footer::{Footer, Promises, byte_range, digits};
use columns::Columns;
use decoder::{Decoder, RowGroupBytes};

/// `FileFacts` describes a trace file apart from its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileFacts {
    /// The path under which the file was opened.
    pub path: String,
    /// The size of the file.
    pub bytes: u64,
    /// The number of events.
    pub rows: u64,
    /// The number of row groups.
    pub row_groups: usize,
    /// The program that wrote the file.
    pub created_by: Option<String>,
    /// The checks of the file, if binhop wrote it. A file of another program has no checks.
    pub checks: Option<Checks>,
}

/// `Checks` is what a file of binhop promises about its events. The reader checks the bytes; `inspect` and
/// `lint` check these promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checks {
    /// References, instructions, and rows by operation.
    pub totals: Totals,
    /// The hash of the events, 16 hexadecimal digits.
    pub content_hash: String,
}

/// `Broken` is a promise that the events do not keep.
pub(crate) struct Broken {
    /// The totals, or the hash, of the events.
    pub(crate) found: String,
    /// The rule: what the file says.
    pub(crate) promised: String,
}

impl Checks {
    /// Returns the promise that the totals or the hash of the events break, if they break one.
    pub(crate) fn broken_by(&self, totals: &Totals, content_hash: u64) -> Option<Broken> {
        if self.totals != *totals {
            let show = |t: &Totals| {
                format!("{} rows, {} references, {} instructions", t.rows(), t.references, t.instructions)
            };
            let promised = format!("the file says {}", show(&self.totals));
            return Some(Broken { found: show(totals), promised });
        }
        let found = digits(content_hash);
        let promised = format!("the file says that its content hash is {}", self.content_hash);
        (found != self.content_hash).then_some(Broken { found, promised })
    }
}

/// `TraceReader` is a trace file as a [`Source`].
pub struct TraceReader {
    place: String,
    file: Steady,
    footer: Footer,
    arrow: ArrowReaderMetadata,
    facts: FileFacts,
    /// The next row group to start, and the rows of it that were returned before the reader rested.
    next: usize,
    returned: usize,
    /// The row group being decoded, and the number of its first row.
    current: Option<(Decoder, u64)>,
    /// The number of rows returned.
    rows: u64,
    failed: Failure,
}

impl TraceReader {
    /// Opens a file and checks its footer and columns; the row groups are checked as they are read.
    ///
    /// # Errors
    /// The file does not exist, is no Parquet file, is damaged, has another schema version, or lacks a
    /// column, or a column has another type.
    pub fn open(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let unreadable = |error: std::io::Error| {
            let remedy = if error.raw_os_error() == Some(TOO_MANY_OPEN) {
                RAISE_THE_LIMIT
            } else {
                "check the path and its permissions"
            };
            Problem::request(&error.to_string(), &place, "the trace cannot be read", remedy)
        };
        let kind = std::fs::metadata(path).map_err(unreadable)?;
        if kind.is_dir() {
            return Err(Problem::request("a directory", &place, "a trace is a file", "name a file"));
        }
        if !kind.is_file() {
            let rule = "a Parquet file is read from its end, which a pipe or device does not have";
            return Err(Problem::request(
                "not a regular file",
                &place,
                rule,
                "save the trace to a file first",
            ));
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let footer = Footer::read(&mut file, path)?;
        // An Arrow schema that another program stored adds nothing to the Parquet types of the columns.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let arrow = guarded(&place, || ArrowReaderMetadata::try_new(footer.parquet.clone(), options))?;
        EventBatch::from_record_batch(&RecordBatch::new_empty(arrow.schema().clone()), &place)?;
        let facts = facts(&place, &footer)?;
        let file = Steady::new(file).map_err(unreadable)?;
        if file.bytes() != footer.bytes {
            file.check(&place)?;
            return Err(damaged(
                &format!("{} bytes", file.bytes()),
                &place,
                "the file grew while it was opened",
            ));
        }
        Ok(Self {
            place,
            file,
            footer,
            arrow,
            facts,
            next: 0,
            returned: 0,
            current: None,
            rows: 0,
            failed: Failure::default(),
        })
    }

    /// Returns what is known about the file.
    #[must_use]
    pub fn facts(&self) -> &FileFacts {
        &self.facts
    }

    /// Returns the identity of the file and of its state.
    #[must_use]
    pub fn identity(&self) -> &FileIdentity {
        self.file.identity()
    }

    /// Starts the next row group. Returns `false` at the end.
    fn start_row_group(&mut self) -> Result<bool> {
        let index = self.next;
        if index == self.facts.row_groups {
            return Ok(false);
        }
        let place = self.place_of(index);
        let mut columns = vec!["op", "addr", "size", "count", "arg0", "arg1"];
        let decoder = if let Some(own) = &self.footer.own {
            let row_group = &own.row_groups[index];
            columns.retain(|&name| {
                !(name == "arg0" && row_group.arg0 == 0 || name == "arg1" && row_group.arg1 == 0)
            });
            let bytes = read_checked(&self.file, &self.footer, own, index, &place)?;
            let has_args = [row_group.arg0, row_group.arg1].map(|rows| rows > 0);
            let (bytes, parquet) = (Arc::new(bytes), self.footer.parquet.row_group(index));
            match guarded(&place, || Columns::read(&bytes, parquet, has_args))? {
                Some(columns) => Decoder::Own(Box::new(columns.starting_at(self.returned))),
                None => Decoder::parquet(Arc::unwrap_or_clone(bytes), &self.arrow, index, &columns, &place)?,
            }
        } else {
            let checked = page_headers::check(&self.file, &self.footer.parquet, index, &columns, &place);
            self.file.check(&self.place)?;
            checked?;
            Decoder::parquet(self.file.clone(), &self.arrow, index, &columns, &place)?
        };
        self.current = Some((decoder, self.rows - std::mem::take(&mut self.returned) as u64));
        self.next += 1;
        Ok(true)
    }

    fn place_of(&self, row_group: usize) -> String {
        format!("{}: row group {row_group}", self.place)
    }

    /// Decodes the next batch.
    fn advance(&mut self) -> Result<Option<EventBatch>> {
        loop {
            if self.current.is_none() && !self.start_row_group()? {
                return Ok(None);
            }
            let index = self.next - 1;
            let place = self.place_of(index);
            let (decoder, first_row) = self.current.as_mut().expect("a row group was started");
            let first_row = *first_row;
            let step = decoder.next(&place, self.rows);
            if self.footer.own.is_none() {
                self.file.check(&self.place)?;
            }
            let step = step?;
            let promised = self.footer.parquet.row_group(index).num_rows() as u64;
            let read = self.rows - first_row + step.as_ref().map_or(0, |batch| batch.len() as u64);
            if read > promised || step.is_none() && read < promised {
                let rule = format!("the footer says it has {promised} rows");
                return Err(damaged(&format!("{read} rows"), &place, &rule));
            }
            let Some(batch) = step else {
                self.current = None;
                continue;
            };
            check_ops(&batch, self.rows, &place)?;
            self.rows += batch.len() as u64;
            return Ok(Some(batch));
        }
    }
}

impl Source for TraceReader {
    fn name(&self) -> &str {
        &self.place
    }

    fn meta(&self) -> &Meta {
        &self.footer.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }

    /// Gives back the row group, which takes 11 bytes for each row. It is read and decoded again when its next row is
    /// wanted. A row group of another program stays.
    fn rest(&mut self, unread: usize) -> bool {
        let Some((Decoder::Own(columns), _)) = &self.current else { return false };
        self.returned = columns.returned() - unread;
        self.rows -= unread as u64;
        self.next -= 1;
        self.current = None;
        true
    }
}

fn facts(place: &str, footer: &Footer) -> Result<FileFacts> {
    let parquet = &footer.parquet;
    let mut rows = 0u64;
    for (index, row_group) in parquet.row_groups().iter().enumerate() {
        let more = u64::try_from(row_group.num_rows()).ok().and_then(|more| rows.checked_add(more));
        rows = more.ok_or_else(|| {
            damaged(
                &row_group.num_rows().to_string(),
                &format!("{place}: row group {index}"),
                "a number of rows is not negative, and all together fit into 64 bits",
            )
        })?;
    }
    let checks = footer
        .own
        .as_ref()
        .map(|own| Checks { totals: own.totals.clone(), content_hash: digits(own.content) });
    Ok(FileFacts {
        path: place.to_owned(),
        bytes: footer.bytes,
        rows,
        row_groups: parquet.num_row_groups(),
        created_by: parquet.file_metadata().created_by().map(str::to_owned),
        checks,
    })
}

fn read_checked(
    file: &Steady,
    footer: &Footer,
    own: &Promises,
    index: usize,
    place: &str,
) -> Result<RowGroupBytes> {
    let (start, end) = byte_range(&footer.parquet, index);
    let mut bytes = vec![0; (end - start) as usize];
    let read = file.read_exact_at(&mut bytes, start);
    file.check(place)?;
    read.map_err(|error| Problem::request(&error.to_string(), place, "it cannot be read", "check the disk"))?;
    let (found, stored) = (digits(xxh3_64(&bytes)), &own.row_groups[index].xxh3);
    if found != *stored {
        let rows = footer.parquet.row_group(index).num_rows();
        let place = format!("{place} ({rows} rows, bytes {start} to {end})");
        return Err(damaged(&found, &place, &format!("its checksum is {stored}")));
    }
    Ok(RowGroupBytes { start, bytes: bytes.into() })
}
