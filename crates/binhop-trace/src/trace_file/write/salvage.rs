//! A trace whose disk is full keeps its complete row groups, with a footer of their own.
//!
//! To record a trace again costs a run of the program, so a recording keeps the rows that fit. The bytes of
//! the file do not depend on the failure: the same rows would have made them on a larger disk.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::mem;
use std::sync::Arc;

use binhop_base::{Problem, Result};
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescPtr;

use super::{TraceWriter, Written, said};
use crate::event::schema;
use crate::source::Meta;
use crate::totals::Totals;
use crate::trace_file::footer::{self, Promises, RowGroup};

/// `Kept` says which part of a trace was kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The content of the file.
    pub written: Written,
    /// The reason why the file lacks pushed events; `None` if it holds all of them.
    pub lost: Option<Box<Problem>>,
}

/// `Whole` is a complete row group on the disk, with the totals and the hash of the file up to its end.
pub(super) struct Whole {
    pub(super) facts: RowGroup,
    pub(super) end: u64,
    pub(super) totals: Totals,
    pub(super) content: u64,
}

impl TraceWriter {
    /// Completes the file as [`TraceWriter::finish`] does. If a push failed, or the disk is full now, the
    /// file ends with the last row group that fits together with a footer.
    ///
    /// # Errors
    /// No row group fits, or the target cannot be replaced. Then nothing is left behind.
    pub fn finish_what_fits(mut self) -> Result<Kept> {
        let mut lost = self.failed.take();
        if lost.is_none() {
            self.end_row_group();
            lost = self.append(true).err();
        }
        let mut file = self.temporary.reopened()?;
        let mut row_groups = self.file.flushed_row_groups().to_vec();
        let mut whole = mem::take(&mut self.whole);
        row_groups.truncate(whole.len());
        let Self { file: broken, temporary, meta, made_by, .. } = self;
        // Dropping the writer writes its buffer behind the complete row groups. `seal` cuts it off.
        drop(broken);
        let mut drop_next = 1;
        loop {
            let error = match seal(&mut file, &meta, made_by.as_deref(), &whole, &row_groups) {
                Ok(written) => {
                    drop(file);
                    temporary.take_place()?;
                    return Ok(Kept { written, lost });
                }
                Err(error) => error,
            };
            lost.get_or_insert_with(|| temporary.cannot_write(&error));
            // The footer gets the room of the row groups that are dropped.
            let rest = whole.len().saturating_sub(drop_next);
            if rest == 0 {
                return Err(lost.expect("it was just set"));
            }
            whole.truncate(rest);
            row_groups.truncate(rest);
            drop_next *= 2;
        }
    }
}

/// Cuts the file behind its complete row groups and writes their footer.
fn seal(
    file: &mut File,
    meta: &Meta,
    made_by: Option<&str>,
    whole: &[Whole],
    row_groups: &[RowGroupMetaData],
) -> std::result::Result<Written, String> {
    let (end, totals, content) = match whole.last() {
        Some(last) => (last.end, last.totals.clone(), last.content),
        None => return Err("no row group is whole".to_owned()),
    };
    let own =
        Promises { totals, content, row_groups: whole.iter().map(|group| group.facts.clone()).collect() };
    let entries = footer::entries(meta, made_by, &own).expect("metadata has string keys only");
    let footer = encoded(entries, row_groups).map_err(|error| said(&error))?;
    file.set_len(end)
        .and_then(|()| file.seek(SeekFrom::Start(end)))
        .and_then(|_| file.write_all(&footer))
        .and_then(|()| footer::seal(file))
        .map_err(|error| error.to_string())?;
    Ok(Written { totals: own.totals, content_hash: own.content, bytes: end + footer.len() as u64 })
}

/// Returns the footer that the writer of a complete file makes.
fn encoded(
    entries: Vec<KeyValue>,
    row_groups: &[RowGroupMetaData],
) -> std::result::Result<Vec<u8>, ParquetError> {
    let schema: SchemaDescPtr = Arc::new(ArrowSchemaConverter::new().convert(&schema())?);
    let version = WriterProperties::builder().build().writer_version().as_num();
    let rows = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
    let about = FileMetaData::new(version, rows, Some(footer::created_by()), Some(entries), schema, None);
    let parquet = ParquetMetaData::new(about, row_groups.to_vec());
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, &parquet).with_preserve_page_index_locations(false).finish()?;
    Ok(bytes)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs::OpenOptions;
    use std::path::PathBuf;

    use super::*;
    use crate::TraceReader;
    use crate::event::{EventBatch, EventBuilder, Op};
    use crate::source::Source;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("binhop-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Returns 70 rows, numbered from `first`, some with arguments.
    fn rows(first: u64) -> EventBatch {
        let mut events = EventBuilder::default();
        for row in first..first + 70 {
            if row % 7 == 0 {
                events.push_args(Op::Syscall, row, 8, 1, [Some(row), (row % 2 == 0).then_some(3)]);
            } else {
                events.push(Op::Load, row * 64, 8, 1);
            }
        }
        events.finish()
    }

    fn write(path: &std::path::Path, threads: usize, before: u64, after: u64) -> Result<Kept> {
        let mut writer = TraceWriter::with_row_groups(path, &Meta::default(), threads, 100).unwrap();
        let mut batches = (0..).map(|batch| rows(batch * 70));
        for batch in batches.by_ref().take(before as usize) {
            writer.push(&batch).unwrap();
        }
        writer.append(true).unwrap();
        if after > 0 {
            *writer.file.inner_mut() = OpenOptions::new().write(true).open("/dev/full").unwrap();
        }
        for batch in batches.take(after as usize) {
            if writer.push(&batch).is_err() {
                break;
            }
        }
        writer.finish_what_fits()
    }

    /// The file is compared with a file of only those rows that were kept.
    #[test]
    fn what_is_whole_is_kept_byte_for_byte() {
        let scratch = Scratch::new("salvage");
        let (path, expected) = (scratch.0.join("t.parquet"), scratch.0.join("u.parquet"));
        for threads in [1, 3] {
            for (before, after) in [(2, 1), (2, 3), (10, 1), (11, 20), (3, 0), (10, 0)] {
                let kept = write(&path, threads, before, after).unwrap();
                let whole = if after > 0 { before * 70 / 100 * 100 } else { before * 70 };
                assert_eq!(kept.lost.is_some(), after > 0, "{before} {after}");
                if let Some(lost) = &kept.lost {
                    assert!(lost.value.contains("No space left on device"), "{lost}");
                }
                assert_eq!(kept.written.totals.rows(), whole);
                let mut alone = TraceWriter::with_row_groups(&expected, &Meta::default(), 1, 100).unwrap();
                let all: Vec<EventBatch> = (0..before).map(|batch| rows(batch * 70)).collect();
                let mut left = whole as usize;
                for batch in all {
                    let take = left.min(batch.len());
                    alone.push(&batch.slice(0, take)).unwrap();
                    left -= take;
                }
                assert_eq!(alone.finish().unwrap(), kept.written);
                assert!(std::fs::read(&path).unwrap() == std::fs::read(&expected).unwrap());
                let mut reader = TraceReader::open(&path).unwrap();
                let mut found = 0;
                while let Some(batch) = reader.next_batch().unwrap() {
                    found += batch.len() as u64;
                }
                assert_eq!(found, whole);
            }
        }
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 2);
    }

    #[test]
    fn no_file_is_left_if_no_row_group_is_complete() {
        let scratch = Scratch::new("salvage-nothing");
        for threads in [1, 3] {
            let problem = write(&scratch.0.join("t.parquet"), threads, 1, 30).unwrap_err();
            assert!(problem.value.contains("No space left on device"), "{problem}");
            assert!(problem.rule.contains("nothing was left behind"), "{problem}");
        }
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0);
    }
}
