//! `export_memory` exports the accesses that reach a machine's memory.

use std::path::PathBuf;

use binhop_base::{Problem, Result};
use binhop_hw::SchemeKind;
use binhop_sim::device_data::dram_stream;
use binhop_sim::io_path::IoEvents;
use binhop_sim::{Machine, Outcome, Progress, RunOptions, memory_stream};
use binhop_trace::Source;
use binhop_trace::export::{self, MemoryWriter};
use pyo3::prelude::*;

use crate::machine::PyMachine;
use crate::memory::memory;
use crate::panic::caught;
use crate::problem::OrRaise;
use crate::progress::ProgressCallback;
use crate::source::PyStream;

/// Simulates a stream on a machine under one placement, and exports the accesses that reach memory; with `scheme`, the
/// requests that the machine's memory with a controller gets behind this scheme for device data. Returns the numbers of
/// lines read and written and the file's size, as JSON.
#[pyfunction]
#[pyo3(signature = (machine, stream, path, to, *, seed, threads, scheme=None, length=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn export_memory(
    py: Python<'_>,
    machine: &PyMachine,
    stream: &PyStream,
    path: PathBuf,
    to: &str,
    seed: u64,
    threads: usize,
    scheme: Option<&str>,
    length: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let known = stream.references();
    let progress = ProgressCallback::new(progress, length);
    let exporter = export::exporter(to).or_raise(py)?;
    let source = stream.take().or_raise(py)?;
    let options = RunOptions {
        seeds: vec![seed],
        threads,
        length,
        memory: memory().or_raise(py)?,
        ..RunOptions::default()
    };
    let done = py.detach(|| {
        caught(|| {
            let mut writer = MemoryWriter::create(exporter, &path)?;
            let (mut lines, mut reader_closed) = ([0u64; 2], false);
            let mut take = |accesses: &[export::MemoryAccess]| {
                let writes = accesses.iter().filter(|access| access.write).count() as u64;
                lines[0] += accesses.len() as u64 - writes;
                lines[1] += writes;
                writer.put(accesses)?;
                reader_closed = writer.reader_has_closed();
                // The run ends if the reader of the file has closed it.
                if reader_closed { Err(Problem::interrupted()) } else { Ok(()) }
            };
            let mut tell = |now: &Progress| progress.tell_of(now.references, now.of.or(known));
            let run = match scheme {
                None => memory_stream(&machine.0, source, &options, &mut take, &mut tell),
                Some(scheme) => behind_scheme(&machine.0, source, &options, scheme, &mut take, &mut tell),
            };
            let notes = match run {
                Ok(outcome) => outcome.notes,
                Err(_) if reader_closed => Vec::new(),
                Err(problem) => return Err(problem),
            };
            let bytes = writer.finish()?;
            Ok(serde_json::json!({ "reads": lines[0], "writes": lines[1], "bytes": bytes, "notes": notes }))
        })
    });
    let said = done.map_err(|problem: Box<Problem>| progress.raise(py, &problem))?;
    Ok(said.to_string())
}

/// Writes the requests that memory gets behind a scheme. The system calls of the trace make kernel and devices act.
fn behind_scheme(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    scheme: &str,
    take: &mut dyn FnMut(&[export::MemoryAccess]) -> Result<()>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Outcome> {
    let setup = machine.scheme_setup(SchemeKind::parse(scheme, "scheme")?, scheme)?;
    let source = Box::new(IoEvents::new(source, *machine.io())?.refusing(machine.page_cache_problem()));
    dram_stream(machine, source, options, &setup, take, progress).map(|(front, _)| front)
}
