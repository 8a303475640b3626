//! `PyStream` is a stream of events, which is read once. It can be simulated, checked, written, exported, or
//! cut into parts.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use binhop_base::{Problem, Result, counted};
use binhop_record::Mix;
use binhop_trace::source::Steered;
use binhop_trace::text::{self, LineFormat};
use binhop_trace::transform::{self, Joined, Limit, Selection, Windows};
use binhop_trace::{
    EventBatch, FileFacts, Meta, PlacementWriter, Placements, Source, Totals, TraceReader, copy, export,
    import,
};
use pyo3::prelude::*;

use crate::panic::caught;
use crate::problem::{OrRaise, check_signals};
use crate::progress::ProgressCallback;
use crate::table::{PyTable, StreamSource};

/// `PyStream` is a stream of events, which one reader reads once.
#[pyclass(frozen, name = "Stream", module = "binhop._binhop")]
pub(crate) struct PyStream {
    name: String,
    facts: Option<FileFacts>,
    /// A text that is equal for two streams of the same events: a content hash, or a file and its state.
    identity: Option<String>,
    source: Mutex<Option<OpenSource>>,
}

/// `OpenSource` is the source of a stream. An importer and a mix have notes when they have been read.
enum OpenSource {
    Plain(Box<dyn Source>),
    Mixed(Box<Mix>),
    Imported(Box<dyn import::Importer>),
}

impl OpenSource {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            OpenSource::Plain(source) => source.as_mut(),
            OpenSource::Mixed(mix) => mix.as_mut(),
            OpenSource::Imported(importer) => importer.as_mut(),
        }
    }

    /// Returns notes on what an importer skipped or assumed, or on the ends of what was mixed. `kept` is the
    /// number of references kept, if not all references were kept.
    fn notes(&self, kept: Option<u64>) -> Vec<String> {
        let importer = match self {
            OpenSource::Plain(_) => return Vec::new(),
            OpenSource::Mixed(mix) => return mix.meta().notes_on_ends(),
            OpenSource::Imported(importer) => importer,
        };
        let mut notes = importer.notes();
        let read = importer.references();
        if let Some(kept) = kept.filter(|&kept| kept < read && !notes.is_empty()) {
            let rule = format!(
                "the notes below count all that was read, in blocks: {}, of which {kept} {} kept",
                counted(read, ["reference", "references"]),
                if kept == 1 { "was" } else { "were" }
            );
            notes.insert(0, rule);
        }
        notes
    }

    /// Writes the frames that the pages had when the trace was recorded.
    fn write_placement(&self, to: PlacementWriter) -> Result<()> {
        let none = Placements::default();
        let placement = match self {
            OpenSource::Plain(_) | OpenSource::Mixed(_) => None,
            OpenSource::Imported(importer) => importer.placement(),
        };
        to.write(placement.unwrap_or(&none))
    }
}

impl PyStream {
    pub(crate) fn new(source: Box<dyn Source>, facts: Option<FileFacts>) -> Self {
        let name = source.name().to_string();
        Self { name, facts, identity: None, source: Mutex::new(Some(OpenSource::Plain(source))) }
    }

    /// Makes the stream of a mix.
    pub(crate) fn of_mix(mix: Box<Mix>) -> Self {
        let name = mix.name().to_string();
        Self { name, facts: None, identity: None, source: Mutex::new(Some(OpenSource::Mixed(mix))) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<OpenSource>> {
        self.source.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Reads the stream (at most `length` references), reports progress, and stops on a signal.
    pub(crate) fn read<T>(
        &self,
        py: Python<'_>,
        length: Option<u64>,
        progress: Option<Py<PyAny>>,
        work: impl FnOnce(&mut dyn Source, Option<&FileFacts>, &ProgressCallback) -> Result<T> + Send,
    ) -> PyResult<(T, Vec<String>)>
    where
        T: Send,
    {
        self.read_whole(py, length, progress, work, None)
    }

    /// Reads as `read` does. Then it writes the pages' frames to `placement`, if `placement` is given.
    fn read_whole<T>(
        &self,
        py: Python<'_>,
        length: Option<u64>,
        progress: Option<Py<PyAny>>,
        work: impl FnOnce(&mut dyn Source, Option<&FileFacts>, &ProgressCallback) -> Result<T> + Send,
        placement: Option<PlacementWriter>,
    ) -> PyResult<(T, Vec<String>)>
    where
        T: Send,
    {
        let progress = ProgressCallback::new(progress, length.or(self.references()));
        py.detach(|| {
            let mut source = self.take_source()?;
            let mut head = LimitedSource { source: source.source(), limit: length.map(Limit::new) };
            // The facts of a file hold for the complete file.
            let facts = self.facts.as_ref().filter(|_| length.is_none());
            let done = caught(|| work(&mut head, facts, &progress))?;
            let kept = length.zip(head.limit).map(|(length, limit)| length - limit.left());
            if let Some(to) = placement {
                source.write_placement(to)?;
            }
            Ok((done, source.notes(kept)))
        })
        .map_err(|problem: Box<Problem>| progress.raise(py, &problem))
    }

    fn take_source(&self) -> Result<OpenSource> {
        self.lock().take().ok_or_else(|| {
            let rule = "a stream of events can be read once";
            Problem::request(&self.name, "trace", rule, "open the trace again")
        })
    }

    /// Takes the mix, if its events depend on the lane that simulates them.
    pub(crate) fn take_steered(&self) -> Result<Option<Box<dyn Steered>>> {
        if !matches!(&*self.lock(), Some(OpenSource::Mixed(mix)) if mix.needs_lane()) {
            return Ok(None);
        }
        let OpenSource::Mixed(mix) = self.take_source()? else { unreachable!("the source is a mix") };
        Ok(Some(mix))
    }

    /// Takes the events for the simulator.
    pub(crate) fn take(&self) -> Result<Box<dyn Source>> {
        Ok(match self.take_source()? {
            OpenSource::Plain(source) => source,
            OpenSource::Mixed(mix) => mix,
            OpenSource::Imported(importer) => Box::new(WithoutNotes(importer)),
        })
    }
}

/// `WithoutNotes` is an importer as a plain source; the importer's notes are dropped.
struct WithoutNotes(Box<dyn import::Importer>);

impl Source for WithoutNotes {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn meta(&self) -> &Meta {
        self.0.meta()
    }
    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        self.0.next_batch()
    }
}

/// `LimitedSource` yields the events of another source up to a limit of references. At the end of the input
/// it checks for Ctrl-C. So a producer that was killed by the same Ctrl-C does not leave half a trace behind.
struct LimitedSource<'a> {
    source: &'a mut dyn Source,
    limit: Option<Limit>,
}

impl Source for LimitedSource<'_> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn meta(&self) -> &Meta {
        self.source.meta()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        if self.limit.as_ref().is_some_and(Limit::has_ended) {
            return Ok(None);
        }
        let Some(batch) = self.source.next_batch()? else {
            check_signals()?;
            return Ok(None);
        };
        Ok(match &mut self.limit {
            Some(limit) => limit.take(batch),
            None => Some(batch),
        })
    }
}

#[pymethods]
impl PyStream {
    /// Opens a trace file of binhop's own schema.
    #[staticmethod]
    fn file(py: Python<'_>, path: &str) -> PyResult<Self> {
        let reader = py.detach(|| TraceReader::open(Path::new(path))).or_raise(py)?;
        let facts = reader.facts().clone();
        let hash = facts.checks.as_ref().map(|checks| checks.content_hash.clone());
        let identity = Some(hash.unwrap_or_else(|| reader.identity().to_string()));
        Ok(Self { identity, ..Self::new(Box::new(reader), Some(facts)) })
    }

    /// Opens a foreign trace. Without a format, the file's name decides; "-" is the standard input.
    #[staticmethod]
    #[pyo3(signature = (path, format=None))]
    fn foreign(py: Python<'_>, path: &str, format: Option<&str>) -> PyResult<Self> {
        let importer = py.detach(|| import::open(path, format)).or_raise(py)?;
        let name = importer.name().to_string();
        let identity = importer.identity();
        Ok(Self { name, facts: None, identity, source: Mutex::new(Some(OpenSource::Imported(importer))) })
    }

    /// Opens a built-in workload. It never ends.
    #[staticmethod]
    fn workload(py: Python<'_>, name: &str, seed: u64) -> PyResult<Self> {
        let workload = binhop_workload::open(name, seed).or_raise(py)?;
        Ok(Self::new(Box::new(workload), None))
    }

    /// Opens any object with `__arrow_c_stream__`.
    #[staticmethod]
    fn arrow(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Ok(Self::new(Box::new(StreamSource::new(object, name)?), None))
    }

    /// Returns the name under which errors show the source.
    #[getter]
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the metadata as JSON; empty once the stream has been taken. The metadata of a foreign trace
    /// are complete once the trace has been read.
    fn meta(&self, py: Python<'_>) -> String {
        py.detach(|| self.lock().as_mut().map_or_else(String::new, |open| json(open.source().meta())))
    }

    /// The identity that two streams of the same events have in common: a content hash, or which file it is
    /// in which state ("device:inode:size:time"); None of a pipe, a workload, a table.
    #[getter]
    fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Returns the hash over the decoded columns that the file carries; None if the file carries no hash.
    #[getter]
    fn content_hash(&self) -> Option<String> {
        self.facts.as_ref()?.checks.as_ref().map(|checks| checks.content_hash.clone())
    }

    /// The references that the file says it holds; None if nothing says so.
    #[getter]
    pub(crate) fn references(&self) -> Option<u64> {
        self.facts.as_ref()?.checks.as_ref().map(|checks| checks.totals.references)
    }

    /// Returns the next events, or None at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<PyTable>> {
        let batch = py
            .detach(|| caught(|| self.lock().as_mut().map_or(Ok(None), |open| open.source().next_batch())))
            .or_raise(py)?;
        Ok(batch.map(|batch| PyTable::new(batch.to_record_batch())))
    }

    /// Writes the events (at most `length` references) into a trace file on so many threads, complete or not
    /// at all. Returns the totals and the hash as JSON, and the importer's notes. The frames that its pages
    /// had go to `placement`. The files say which command made them, if one did.
    #[pyo3(signature = (path, length=None, threads=1, progress=None, placement=None, made_by=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        length: Option<u64>,
        threads: usize,
        progress: Option<Py<PyAny>>,
        placement: Option<PathBuf>,
        made_by: Option<&str>,
    ) -> PyResult<(String, Vec<String>)> {
        let create = |path: PathBuf| PlacementWriter::create(&path, made_by);
        let placement = placement.map(create).transpose().or_raise(py)?;
        let work =
            |source: &mut dyn Source, _: Option<&FileFacts>, progress: &ProgressCallback| -> Result<String> {
                let mut tell = |totals: &Totals| progress.tell(totals.references);
                let written = copy(source, &path, threads, made_by, &mut tell)?;
                let summary = serde_json::json!({
                    "totals": written.totals,
                    "content_hash": format!("{:016x}", written.content_hash),
                    "bytes": written.bytes,
                });
                Ok(summary.to_string())
            };
        self.read_whole(py, length, progress, work, placement)
    }

    // The following methods take the stream, and return a part of it as a new stream.

    /// Returns the first rows, of any kind.
    fn first_rows(&self, py: Python<'_>, rows: u64) -> PyResult<Self> {
        self.part(py, |source| Ok(transform::first_rows(source, rows)))
    }

    /// Returns the first references, as a length keeps them.
    fn first_references(&self, py: Python<'_>, references: u64) -> PyResult<Self> {
        self.part(py, |source| Ok(transform::head(source, Some(references))))
    }

    /// Returns the references from one position up to another (None: to the end), with the state that they
    /// find.
    #[pyo3(signature = (start, stop=None))]
    fn slice(&self, py: Python<'_>, start: u64, stop: Option<u64>) -> PyResult<Self> {
        self.part(py, |source| transform::slice(source, start, stop))
    }

    /// Returns a window of every `every` references, at the start of each span or where the seed draws it,
    /// with the state that the window finds.
    #[pyo3(signature = (every, window, seed=None))]
    fn sample(&self, py: Python<'_>, every: u64, window: u64, seed: Option<u64>) -> PyResult<Self> {
        self.part(py, |source| Ok(transform::sample(source, Windows::new(every, window, seed)?)))
    }

    /// Returns the rows that pass a selection, which is JSON, with the state that they find.
    fn select(&self, py: Python<'_>, selection: &str) -> PyResult<Self> {
        let selection: Selection =
            serde_json::from_str(selection).expect("a selection is made by Trace.filter");
        self.part(py, |source| transform::select(source, &selection))
    }

    /// Returns streams one after the other.
    #[staticmethod]
    fn joined(py: Python<'_>, streams: Vec<PyRef<'_, Self>>) -> PyResult<Self> {
        let sources: Result<Vec<_>> = streams.iter().map(|stream| stream.take()).collect();
        let joined = sources.and_then(Joined::new).or_raise(py)?;
        Ok(Self::new(Box::new(joined), None))
    }

    /// Writes the events to the standard output, one line each, as text or JSON. `meta` adds the metadata.
    fn print(&self, py: Python<'_>, json: bool, meta: bool) -> PyResult<()> {
        let lines = if json { LineFormat::Json } else { LineFormat::Text };
        self.read(py, None, None, |source, _, progress| {
            let failed = |error: &std::io::Error| {
                let rule = "the events cannot be written there";
                Problem::request(&error.to_string(), "standard output", rule, "name a file that has room")
            };
            let mut out = export::standard_output().map_err(|error| failed(&error))?;
            text::write(source, lines, meta, &mut out, &failed, &mut || progress.tell(0))
        })
        .map(|_| ())
    }

    /// Exports the events (at most `length` references) under the format's name; what is read, written and
    /// left out as JSON.
    #[pyo3(signature = (path, to, length=None, progress=None))]
    fn export(
        &self,
        py: Python<'_>,
        path: PathBuf,
        to: &str,
        length: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let exporter = export::exporter(to).or_raise(py)?;
        let (exported, _) = self.read(py, length, progress, |source, _, progress| {
            let mut tell = |totals: &Totals| progress.tell(totals.references);
            export::export(source, exporter, &path, &mut tell)
        })?;
        let said = serde_json::json!({
            "references": exported.references, "bytes": exported.bytes, "notes": exported.notes,
        });
        Ok(said.to_string())
    }

    fn __repr__(&self) -> String {
        format!("<Stream {}>", self.name)
    }
}

impl PyStream {
    fn part(
        &self,
        py: Python<'_>,
        make: impl FnOnce(Box<dyn Source>) -> Result<Box<dyn Source>> + Send,
    ) -> PyResult<Self> {
        let part = py.detach(|| self.take().and_then(make)).or_raise(py)?;
        Ok(Self::new(part, None))
    }
}

/// Returns the name of the importer that reads this path, if there is one.
#[pyfunction]
pub(crate) fn format_of_path(path: &str) -> Option<&'static str> {
    import::format_of_path(path).map(|format| format.name)
}

/// Returns plain data as JSON text.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data becomes JSON")
}

/// Returns the command that wrote a Parquet file; None if it does not say so, or cannot be read.
#[pyfunction]
pub(crate) fn made_by(py: Python<'_>, path: PathBuf) -> Option<String> {
    py.detach(|| binhop_trace::made_by(&path))
}
