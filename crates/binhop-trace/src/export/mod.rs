//! Traces for other simulators, one file each format.
//!
//! [`EXPORTERS`] is the list: what `export --to` accepts, what the help and the documentation show and what the tests
//! walk all come from it. To add one: its file, and one line in the list.
//!
//! A format takes either the *virtual* stream, the references as the processor makes them, or the *physical* one behind
//! the caches of a machine: what reaches memory, in order, under one placement (`binhop_sim::memory_stream`).

mod champsim;
mod din;
mod memory;
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

/// A foreign format that is written.
#[derive(Debug)]
pub struct Exporter {
    /// What `--to` calls it.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// One record of it, if it is text.
    pub example: &'static str,
    /// What is lost or assumed in exporting to it.
    pub lost: &'static str,
    /// What it takes.
    pub writes: Writes,
}

/// What a format takes, and how it starts.
#[derive(Clone, Copy, Debug)]
pub enum Writes {
    /// The virtual stream.
    Virtual(fn() -> Box<dyn Virtual>),
    /// What reaches memory.
    Physical(fn(&MemoryAccess, &mut Vec<u8>)),
}

/// Every exporter.
pub const EXPORTERS: &[Exporter] =
    &[din::DIN, din::XDIN, champsim::CHAMPSIM, memory::RAMULATOR2, memory::DRAMSIM3];

/// Turns events into records.
pub trait Virtual: Send {
    /// One event, in order.
    ///
    /// # Errors
    /// No more records are taken.
    fn event(&mut self, event: &Event, out: &mut RecordSink<'_>) -> Wanted;
    /// There are no more.
    ///
    /// # Errors
    /// No more records are taken.
    fn end(&mut self, out: &mut RecordSink<'_>) -> Wanted;
    /// What was left out or assumed, a sentence each, with its count.
    fn notes(&self) -> Vec<String>;
}

/// One line that memory is asked for, or that is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// Physical address of the line's first byte.
    pub addr: u64,
    /// Whether it is written.
    pub write: bool,
    /// When the last cache asks, in cycles since the start: one for each instruction, and those that the machine's
    /// processor waits.
    pub cycle: u64,
}

/// What an export wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// References read.
    pub references: u64,
    /// Size of the file.
    pub bytes: u64,
    /// What was left out or assumed.
    pub notes: Vec<String>,
}

/// The exporter of this name.
///
/// # Errors
/// There is none; the error lists those there are.
pub fn exporter(name: &str) -> Result<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.name == name).ok_or_else(|| {
        let names: Vec<&str> = EXPORTERS.iter().map(|exporter| exporter.name).collect();
        let remedy = format!("take one of {}", names.join(", "));
        Problem::request(name, "--to", "nothing is exported under this name", &remedy)
    })
}

/// Writes a source's events to a file at `path` (compressed if its name ends in `.gz`, `.xz` or `.zst`), complete or not at
/// all; to the standard output for `-`. `progress` hears of the totals; its error stops the export.
///
/// # Errors
/// The source's, the disk's, or `progress`'s.
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
        Ok(()) | Err(Stop::Gone) => {}
        Err(Stop::Failed(problem)) => return Err(problem),
    }
    Ok(Exported { references: totals.references, bytes: to.finish()?, notes: format.notes() })
}

/// Every event of a source, as records.
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

/// A file that takes what reaches memory.
pub struct MemoryWriter {
    line: fn(&MemoryAccess, &mut Vec<u8>),
    to: Gathered,
}

impl MemoryWriter {
    /// Starts a file, as [`export`] does.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written; `path` is there and is no regular file.
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

    /// Whether a reader at the other end has gone, and nothing more need be made.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.to.output.is_gone()
    }

    /// Completes the file and puts it at its path. Returns its size.
    ///
    /// # Errors
    /// The disk is full, or the target cannot be replaced.
    pub fn finish(self) -> Result<u64> {
        self.to.finish()
    }
}
