//! `RecordSink` gathers the records of an export and writes them as soon as there are enough.
//!
//! One row may stand for billions of records (the count of a fetch run has 32 bits), so no step waits for the
//! end of a row. The gathered bytes stay below [`FLUSH`] plus one record. A closed output or Ctrl-C ends the
//! export within a row.

use binhop_base::{Problem, Result};

use super::output::PackedOutput;

/// The number of bytes that are written at once.
pub(super) const FLUSH: usize = 1 << 18;

/// The most bytes of a record of any format.
const LONGEST_RECORD: usize = 64;

/// `Stop` is the reason why no more records are taken.
#[derive(Debug)]
pub enum Stop {
    /// The reader of the standard output has closed it, which is no error.
    ReaderClosed,
    /// The disk is full, or the user has stopped the export.
    Failed(Box<Problem>),
}

impl From<Box<Problem>> for Stop {
    fn from(problem: Box<Problem>) -> Self {
        Self::Failed(problem)
    }
}

/// The result of appending a record: `Ok` if more records are wanted.
pub type Wanted = std::result::Result<(), Stop>;

/// `Gathered` holds the records for one output.
pub(super) struct Gathered {
    pub(super) output: PackedOutput,
    bytes: Vec<u8>,
}

/// `RecordSink` takes the records of a format. It calls `heard` whenever bytes are written, and an error of
/// `heard` stops the export.
pub struct RecordSink<'a> {
    to: &'a mut Gathered,
    heard: &'a mut dyn FnMut() -> Result<()>,
}

impl Gathered {
    pub(super) fn new(output: PackedOutput) -> Self {
        Self { output, bytes: Vec::with_capacity(FLUSH + LONGEST_RECORD) }
    }

    pub(super) fn records<'a>(&'a mut self, heard: &'a mut dyn FnMut() -> Result<()>) -> RecordSink<'a> {
        RecordSink { to: self, heard }
    }

    /// Appends a record that `write` makes.
    #[inline]
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<bool> {
        write(&mut self.bytes);
        let enough = self.bytes.len() >= FLUSH;
        if enough {
            self.hand_on()?;
        }
        Ok(enough)
    }

    #[cold]
    fn hand_on(&mut self) -> Result<()> {
        self.output.put(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    /// Completes the file and returns its size.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.hand_on()?;
        self.output.finish()
    }
}

impl RecordSink<'_> {
    /// Appends the record that `write` makes, at most 64 bytes.
    ///
    /// # Errors
    /// No more records are taken.
    #[inline]
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Wanted {
        if self.to.put(write)? {
            (self.heard)()?;
            if self.to.output.reader_has_closed() {
                return Err(Stop::ReaderClosed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::event::Op;
    use crate::export::{EXPORTERS, Writes};

    /// A row of a million instructions, the largest that a test has time for.
    const LONG: Event =
        Event { op: Op::Fetch, addr: 0x1000, size: 1 << 22, count: 1 << 20, arg0: None, arg1: None };

    #[test]
    fn a_row_of_many_instructions_does_not_fill_the_memory() {
        for exporter in EXPORTERS {
            let Writes::Virtual(start) = exporter.writes else { continue };
            let path =
                std::env::temp_dir().join(format!("binhop-records-{}-{}", std::process::id(), exporter.name));
            let mut gathered = Gathered::new(PackedOutput::create(&path).unwrap());
            let (room, mut handed_on) = (gathered.bytes.capacity(), 0);
            let mut format = start();
            let mut heard = || {
                handed_on += 1;
                Ok(())
            };
            format.event(&LONG, &mut gathered.records(&mut heard)).unwrap();
            format.end(&mut gathered.records(&mut heard)).unwrap();
            assert_eq!(gathered.bytes.capacity(), room, "{}: the buffer never grew", exporter.name);
            let bytes = gathered.finish().unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(handed_on, bytes / FLUSH as u64, "{}: {bytes} bytes", exporter.name);
            assert!(handed_on > 20, "{}", exporter.name);
        }
    }

    #[test]
    fn an_export_can_be_stopped_within_a_row() {
        for exporter in EXPORTERS {
            let Writes::Virtual(start) = exporter.writes else { continue };
            let path =
                std::env::temp_dir().join(format!("binhop-stopped-{}-{}", std::process::id(), exporter.name));
            let mut gathered = Gathered::new(PackedOutput::create(&path).unwrap());
            let mut times = 0;
            let mut heard = || {
                times += 1;
                if times == 3 { Err(Problem::interrupted()) } else { Ok(()) }
            };
            // Four billion instructions: without a stop this test would not end.
            let longest = Event { size: u32::MAX, count: u32::MAX, ..LONG };
            let stopped = start().event(&longest, &mut gathered.records(&mut heard));
            assert!(matches!(stopped, Err(Stop::Failed(problem)) if problem == Problem::interrupted()));
            assert_eq!(times, 3, "{}", exporter.name);
            drop(gathered);
            assert!(!path.exists(), "{}: no incomplete file is left", exporter.name);
        }
    }
}
