//! These tests use the importers through their public interface, and expect exact rows for exact text.

#![allow(clippy::unwrap_used, reason = "in a test, and in what only tests use, to panic is to fail")]

mod champsim;
mod din;
mod drmemtrace;
mod formats;
mod input;
mod lackey;
mod pagemap;
mod properties;
mod speed;
mod v2p;
mod xdin;
mod zip;

use std::io::Read;
use std::path::PathBuf;

use binhop_base::Result;
use binhop_trace::event::{EventBatch, Op};
use binhop_trace::import::{self, Importer};
use binhop_trace::input::Input;

/// A row: op, addr, size, count, arg0, arg1.
type Row = (Op, u64, u32, u32, Option<u64>, Option<u64>);

/// `Imported` is the result of a whole text.
struct Imported {
    rows: Vec<Row>,
    /// The rows of each batch.
    batches: Vec<usize>,
    meta: binhop_trace::Meta,
    notes: Vec<String>,
    placement: Option<binhop_trace::Placements>,
}

impl Imported {
    /// Returns the rows without arguments, as most tests write them.
    fn plain(&self) -> Vec<(&'static str, u64, u32, u32)> {
        self.rows.iter().map(|row| (row.0.name(), row.1, row.2, row.3)).collect()
    }
}

/// `Drip` gives at most `step` bytes at a time, as a slow pipe does.
struct Drip<R> {
    from: R,
    step: usize,
}

impl<R: Read> Read for Drip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let step = self.step.min(buffer.len());
        self.from.read(&mut buffer[..step])
    }
}

fn importer(format: &str, reader: impl Read + Send + 'static) -> Result<Box<dyn Importer>> {
    (import::format(format)?.open)(Input::from_reader("test", reader)?)
}

fn drain(mut importer: Box<dyn Importer>) -> Result<Imported> {
    let (mut rows, mut batches) = (Vec::new(), Vec::new());
    while let Some(batch) = importer.next_batch()? {
        batches.push(batch.len());
        rows.extend(rows_of(&batch));
    }
    assert!(importer.next_batch()?.is_none(), "the end stays the end");
    let references =
        |row: &Row| if row.0 == Op::Fetch { row.3.into() } else { u64::from(row.0.is_reference()) };
    assert_eq!(importer.references(), rows.iter().map(references).sum::<u64>());
    let placement = importer.placement().cloned();
    Ok(Imported { rows, batches, meta: importer.meta().clone(), notes: importer.notes(), placement })
}

fn rows_of(batch: &EventBatch) -> Vec<Row> {
    (0..batch.len())
        .map(|i| {
            let op = Op::from_code(batch.op()[i]).expect("importers write known operations");
            (op, batch.addr()[i], batch.size()[i], batch.count()[i], batch.arg0(i), batch.arg1(i))
        })
        .collect()
}

fn import_bytes(format: &str, text: impl Into<Vec<u8>>) -> Result<Imported> {
    drain(importer(format, std::io::Cursor::new(text.into()))?)
}

fn imported(format: &str, text: &str) -> Imported {
    import_bytes(format, text).unwrap_or_else(|problem| panic!("{problem}"))
}

fn refused(format: &str, text: &str) -> String {
    match import_bytes(format, text) {
        Ok(imported) => panic!("{text:?} was imported as {:?}", imported.plain()),
        Err(problem) => problem.to_string(),
    }
}

/// Returns the path of a sample that is not part of the repository. If the sample is absent, this returns
/// `None` and prints a note to stderr.
fn sample(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")).join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}

/// Returns the text of a file of this crate's test data.
fn data(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}
