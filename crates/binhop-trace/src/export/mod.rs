//! Exporters write traces for other simulators. Each format has a file of its own.
//!
//! [`EXPORTERS`] is the list of formats. `export --to`, the help, the documentation and the tests use it. A
//! new format is a file and a line in the list.
//!
//! A format takes the *virtual* stream, the references as the processor makes them, or the *physical* stream
//! behind the caches of a machine: the accesses that reach memory, in order, under one placement
//! (`binhop_sim::memory_stream`).

mod output;
mod records;

use std::path::Path;

use binhop_base::{Problem, Result};

use crate::bounds::check_rows;
use crate::event::Event;
use crate::source::Source;
use crate::totals::Totals;
use output::PackedOutput;
pub use output::standard_output;
use records::Gathered;
pub use records::{RecordSink, Stop, Wanted};

/// `Exporter` is a foreign format that is written.
#[derive(Debug)]
pub struct Exporter {
    /// The name of the format for `--to`.
    pub name: &'static str,
    /// A description of the format.
    pub what: &'static str,
    /// An example of a record, if records are text.
    pub example: &'static str,
    /// What an export loses or assumes.
    pub lost: &'static str,
    /// The stream that the format takes.
    pub writes: Writes,
}

/// `Writes` is the stream that a format takes, and the function that starts an export.
#[derive(Clone, Copy, Debug)]
pub enum Writes {
    /// The virtual stream.
    Virtual(fn() -> Box<dyn Virtual>),
    /// The physical stream. The function appends a record.
    Physical(fn(&MemoryAccess, &mut Vec<u8>)),
}

macro_rules! exporters {
    ($($module:ident: $($exporter:ident),+;)*) => {
        $(mod $module;)*

        /// Every exporter.
        pub const EXPORTERS: &[Exporter] = &[$($($module::$exporter,)+)*];
    };
}

// A line names the file of a format, and its entry or entries.
exporters! {
    din: DIN, XDIN;
    champsim: CHAMPSIM;
    memory: RAMULATOR2, DRAMSIM3;
}

/// `Virtual` turns events into records.
pub trait Virtual: Send {
    /// Takes the next event.
    ///
    /// # Errors
    /// No more records are taken.
    fn event(&mut self, event: &Event, out: &mut RecordSink<'_>) -> Wanted;
    /// Takes the end of the events.
    ///
    /// # Errors
    /// No more records are taken.
    fn end(&mut self, out: &mut RecordSink<'_>) -> Wanted;
    /// Returns what was left out or assumed: a sentence for each, with its count.
    fn notes(&self) -> Vec<String>;
}

/// `MemoryAccess` is a read of a line from memory, or a write of a line to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// The physical address of the first byte of the line.
    pub addr: u64,
    /// True if the line is written.
    pub write: bool,
    /// The time at which the last cache makes the access, in cycles since the start. An instruction takes one
    /// cycle, and the waits of the machine's processor are added. Behind a scheme for device data, `cycle` counts the
    /// memory's clock, and is the cycle at which the memory's controller gets the access.
    pub cycle: u64,
    /// True if `cycle` counts the memory's clock.
    pub of_memory: bool,
}

/// `Exported` describes a finished export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The number of references read.
    pub references: u64,
    /// The size of the file.
    pub bytes: u64,
    /// The notes on what was left out or assumed.
    pub notes: Vec<String>,
}

/// Returns the exporter of this name.
///
/// # Errors
/// No exporter has this name. The error lists all names.
pub fn exporter(name: &str) -> Result<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.name == name).ok_or_else(|| {
        let names: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.name).collect();
        let remedy = format!("take one of {}", names.join(", "));
        Problem::request(name, "--to", "nothing is exported under this name", &remedy)
    })
}

/// Writes the events of a source to a file at `path`, or to the standard output for `-`. The file is
/// compressed if its name ends in `.gz`, `.xz` or `.zst`, and it appears complete or not at all. `progress`
/// gets the totals, and its error stops the export.
///
/// # Errors
/// The source, the disk or `progress` fails.
///
/// # Panics
/// The exporter takes the physical stream.
pub fn export(
    source: &mut dyn Source,
    exporter: &Exporter,
    path: &Path,
    progress: &mut dyn FnMut(&Totals) -> Result<()>,
) -> Result<Exported> {
    let Writes::Virtual(start) = exporter.writes else {
        panic!("{} takes the physical stream", exporter.name)
    };
    let (mut format, mut to) = (start(), Gathered::new(PackedOutput::create(path)?));
    let mut totals = Totals::default();
    match export_all(source, &mut *format, &mut to, &mut totals, progress) {
        Ok(()) | Err(Stop::ReaderClosed) => {}
        Err(Stop::Failed(problem)) => return Err(problem),
    }
    Ok(Exported { references: totals.references, bytes: to.finish()?, notes: format.notes() })
}

/// Writes every event of a source as records.
fn export_all(
    source: &mut dyn Source,
    format: &mut dyn Virtual,
    to: &mut Gathered,
    totals: &mut Totals,
    progress: &mut dyn FnMut(&Totals) -> Result<()>,
) -> Wanted {
    while let Some(batch) = source.next_batch()? {
        check_rows(&batch, totals.rows(), source.name())?;
        let mut heard = || progress(totals);
        let mut records = to.records(&mut heard);
        for row in 0..batch.len() {
            format.event(&Event::of(&batch, row), &mut records)?;
        }
        totals.add(&batch);
        progress(totals)?;
    }
    format.end(&mut to.records(&mut || progress(totals)))
}

/// `MemoryWriter` writes the accesses that reach memory.
pub struct MemoryWriter {
    line: fn(&MemoryAccess, &mut Vec<u8>),
    to: Gathered,
}

impl MemoryWriter {
    /// Starts a file, as [`export`] does.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written, or `path` exists and is no regular file.
    ///
    /// # Panics
    /// The exporter takes the virtual stream.
    pub fn create(exporter: &Exporter, path: &Path) -> Result<Self> {
        let Writes::Physical(line) = exporter.writes else {
            panic!("{} takes the virtual stream", exporter.name)
        };
        Ok(Self { line, to: Gathered::new(PackedOutput::create(path)?) })
    }

    /// Appends accesses.
    ///
    /// # Errors
    /// The disk is full.
    pub fn put(&mut self, accesses: &[MemoryAccess]) -> Result<()> {
        for access in accesses {
            self.to.put(|out| (self.line)(access, out))?;
        }
        Ok(())
    }

    /// Returns whether the reader of the standard output has closed it, so that no more records are needed.
    #[must_use]
    pub fn reader_has_closed(&self) -> bool {
        self.to.output.reader_has_closed()
    }

    /// Completes the file, puts it at its path and returns its size.
    ///
    /// # Errors
    /// The disk is full, or the target cannot be replaced.
    pub fn finish(self) -> Result<u64> {
        self.to.finish()
    }
}
