//! Record batches cross the language border without a copy, by the Arrow `PyCapsule` interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>). It is implemented here,
//! in one file, because the libraries for it need either another version of Arrow than binhop's, or pyarrow,
//! which a user of Polars does not have.

use std::collections::HashMap;
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use binhop_base::{Class, Problem, Result};
use binhop_trace::{EventBatch, Failure, Meta, Source};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList, PyString};

use crate::panic::{caught, unless_it_panics};
use crate::problem::{OrRaise, check_signals, raise};

const STREAM: &CStr = c"arrow_array_stream";

/// `Table` is a table that any library that reads Arrow (Polars, pyarrow, DuckDB, …) takes without a copy.
#[pyclass(frozen, name = "Table", module = "binhop._binhop")]
pub(crate) struct PyTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl PyTable {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

#[pymethods]
impl PyTable {
    /// Returns the table as an Arrow C stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // The interface lets the producer answer with its own schema.
        let batches = self.batches.clone().into_iter().map(Ok::<_, ArrowError>);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        export(py, Box::new(reader))
    }

    /// Joins tables of one kind, one below the other, without a copy of their rows.
    #[staticmethod]
    fn join(first: &Self, others: Vec<PyRef<'_, Self>>) -> PyResult<Self> {
        // A reader of Arrow trusts the schema.
        if others.iter().any(|other| other.schema.fields() != first.schema.fields()) {
            return Err(PyTypeError::new_err("tables with different columns cannot be joined"));
        }
        let others = others.iter().flat_map(|other| &other.batches);
        let batches = first.batches.iter().chain(others).cloned().collect();
        Ok(Self { schema: Arc::clone(&first.schema), batches })
    }

    /// Returns the columns by name, each as a list. Only texts, `u64` and `f64` are taken, the types of a table of
    /// results.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (place, field) in self.schema.fields().iter().enumerate() {
            let parts: Vec<_> = self.batches.iter().map(|batch| batch.column(place)).collect();
            columns.set_item(field.name(), list(py, field.data_type(), &parts)?)?;
        }
        Ok(columns)
    }
}

/// Returns the values of a column, which may have several parts. Equal texts are one object.
fn list<'py>(py: Python<'py>, kind: &DataType, parts: &[&ArrayRef]) -> PyResult<Bound<'py, PyList>> {
    match kind {
        DataType::Utf8 => {
            let mut known = HashMap::new();
            let texts = parts.iter().flat_map(|part| part.as_string::<i32>().iter());
            let texts: Vec<_> = texts
                .map(|text| {
                    text.map(|text| known.entry(text).or_insert_with(|| PyString::new(py, text)).clone())
                })
                .collect();
            PyList::new(py, texts)
        }
        DataType::UInt64 => {
            let numbers = parts.iter().flat_map(|part| part.as_primitive::<UInt64Type>().iter());
            PyList::new(py, numbers.collect::<Vec<_>>())
        }
        DataType::Float64 => {
            let values = parts.iter().flat_map(|part| part.as_primitive::<Float64Type>().iter());
            PyList::new(py, values.collect::<Vec<_>>())
        }
        other => Err(PyTypeError::new_err(format!("a column of {other} is read through Arrow alone"))),
    }
}

/// `PyLongTable` is a table whose rows are made as they are read. Any library that reads Arrow streams can
/// read it.
#[pyclass(frozen, name = "LongTable", module = "binhop._binhop")]
pub(crate) struct PyLongTable(pub(crate) binhop_sim::LongTable);

#[pymethods]
impl PyLongTable {
    /// Joins tables of one kind, one below the other.
    #[staticmethod]
    fn join(first: &Self, others: Vec<PyRef<'_, Self>>) -> Self {
        let mut whole = first.0.clone();
        others.iter().for_each(|other| whole.extend(other.0.clone()));
        Self(whole)
    }

    /// Writes the table to a Parquet file, some thousands of rows at a time. The interpreter is free
    /// meanwhile, and a signal ends the work.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        written(py, py.detach(|| caught(|| self.0.write_parquet(&path, &check_signals))))
    }

    /// Returns the table in pieces of some thousands of rows, in order. There is at least one piece, which
    /// may be empty.
    fn batches(&self) -> PyTableBatches {
        let batches = self.0.batches();
        PyTableBatches::new(batches.schema(), Box::new(batches))
    }

    /// Returns the table as an Arrow C stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // The interface lets the producer answer with its own schema.
        let batches = self.0.batches();
        let schema = batches.schema();
        let batches =
            batches.map(|batch| batch.map_err(|problem| ArrowError::ComputeError(problem.to_string())));
        export(py, Box::new(RecordBatchIterator::new(batches, schema)))
    }
}

/// The pieces of a table that may be larger than memory. Only one piece is in memory, and Python handles
/// signals between pieces.
#[pyclass(frozen, name = "TableBatches", module = "binhop._binhop")]
pub(crate) struct PyTableBatches {
    schema: SchemaRef,
    state: Mutex<BatchState>,
}

struct BatchState {
    batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>,
    /// True if no batch was taken yet.
    first: bool,
}

impl PyTableBatches {
    fn new(schema: SchemaRef, batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send>) -> Self {
        Self { schema, state: Mutex::new(BatchState { batches, first: true }) }
    }
}

#[pymethods]
impl PyTableBatches {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyTable>> {
        let next = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let first = std::mem::replace(&mut state.first, false);
            let next = caught(|| state.batches.next().transpose())?;
            Ok(next.or_else(|| first.then(|| RecordBatch::new_empty(Arc::clone(&self.schema)))))
        });
        Ok(next.or_raise(py)?.map(PyTable::new))
    }
}

/// Returns the pieces of a table in a Parquet file that `write_tables` or a `LongTable` wrote.
#[pyfunction]
pub(crate) fn stored_batches(py: Python<'_>, path: PathBuf) -> PyResult<PyTableBatches> {
    let batches = py.detach(|| caught(|| binhop_sim::StoredBatches::open(&path))).or_raise(py)?;
    Ok(PyTableBatches::new(batches.schema(), Box::new(batches)))
}

/// Writes the rows of several Arrow tables, one table after the other, to one Parquet file. The file is the
/// same as that of a [`PyLongTable`] of these rows. The first table determines the columns. The interpreter
/// is free meanwhile, and a signal ends the work. A stream may be read on any thread; a stream that runs
/// Python acquires the interpreter itself.
#[pyfunction]
pub(crate) fn write_tables(py: Python<'_>, tables: &Bound<'_, PyAny>, path: PathBuf) -> PyResult<()> {
    let mut tables = ChainedTables { tables: tables.try_iter()?.unbind(), reader: None, raised: None };
    let first = tables.advance(py)?;
    let Some(schema) = first.then(|| tables.reader.as_ref().map(RecordBatchReader::schema)).flatten() else {
        let rule = "a file of a table has the columns of the first piece, and there is none";
        return Err(raise(py, &Problem::request("no piece", "tables", rule, "give at least one piece")));
    };
    let result =
        py.detach(|| caught(|| binhop_sim::write_table(&schema, &mut tables, &path, &check_signals)));
    match tables.raised {
        Some(raised) => Err(raised),
        None => written(py, result),
    }
}

/// `ChainedTables` reads the batches of one table after the other.
struct ChainedTables {
    tables: Py<PyIterator>,
    reader: Option<RecordBatchStreamReader>,
    /// The exception of the iterator or of a stream.
    raised: Option<PyErr>,
}

impl ChainedTables {
    /// Begins the next table. Returns `false` if there is no further table.
    fn advance(&mut self, py: Python<'_>) -> PyResult<bool> {
        self.reader = None; // the table that was read is dropped before the next is made
        let next = self.tables.bind(py).clone().next().transpose()?;
        self.reader = next.map(|table| stream_of(&table, "table")).transpose()?;
        Ok(self.reader.is_some())
    }

    fn next_batch(&mut self) -> PyResult<Option<RecordBatch>> {
        loop {
            if let Some(next) = self.reader.as_mut().and_then(Iterator::next) {
                let broke = |error: ArrowError| {
                    let said = error.to_string();
                    let rule = "the Arrow stream broke off";
                    let remedy = "look at what produces it";
                    Problem::request(producers_words(&said), "table", rule, remedy)
                };
                return next.map(Some).map_err(|error| Python::attach(|py| raise(py, &broke(error))));
            }
            if self.reader.is_none() || !Python::attach(|py| self.advance(py))? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for ChainedTables {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch().transpose()?;
        Some(next.map_err(|raised| {
            let problem = Problem::run("an error of Python", "table", "is raised", "see there");
            self.raised = Some(raised);
            problem
        }))
    }
}

/// A file that cannot be written raises an `OSError`, as Python's own writes do. The caller makes the message
/// for the user.
fn written(py: Python<'_>, result: Result<()>) -> PyResult<()> {
    match result {
        Err(problem) if problem.class == Class::Request => Err(PyOSError::new_err(problem.value)),
        result => result.or_raise(py),
    }
}

fn export(py: Python<'_>, reader: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// True while Python runs. Python's streams are read on threads that may outlive a run which ended early. A
/// thread that calls Python while the interpreter ends crashes the process.
static PYTHON_RUNS: RwLock<bool> = RwLock::new(true);

/// Waits for current reads and forbids further reads. Python calls it when the interpreter begins to end.
#[pyfunction]
fn close(py: Python<'_>) {
    py.detach(|| *PYTHON_RUNS.write().unwrap_or_else(PoisonError::into_inner) = false);
}

/// Makes Python call [`close`] at its end.
pub(crate) fn close_at_exit(py: Python<'_>) -> PyResult<()> {
    py.import("atexit")?.call_method1("register", (wrap_pyfunction!(close, py)?,)).map(drop)
}

fn python_runs() -> RwLockReadGuard<'static, bool> {
    PYTHON_RUNS.read().unwrap_or_else(PoisonError::into_inner)
}

/// `StreamSource` reads events from any object that has `__arrow_c_stream__`.
pub(crate) struct StreamSource {
    name: String,
    /// The reader; `None` at the end.
    reader: Option<RecordBatchStreamReader>,
    meta: Meta,
    empty: bool,
    failed: Failure,
}

impl StreamSource {
    /// Takes the object's stream. A Polars frame starts a new stream each time; a pyarrow reader has only one
    /// stream.
    pub(crate) fn new(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let reader = stream_of(object, name)?;
        let (name, reader) = (name.to_string(), Some(reader));
        Ok(Self { name, reader, meta: Meta::default(), empty: true, failed: Failure::default() })
    }
}

/// Returns the record batches of an object that has `__arrow_c_stream__`.
pub(crate) fn batches_of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<RecordBatch>> {
    let broke = |error: ArrowError| {
        let said = error.to_string();
        let problem = Problem::request(
            producers_words(&said),
            name,
            "the Arrow stream broke off",
            "look at what produces it",
        );
        raise(object.py(), &problem)
    };
    stream_of(object, name)?.map(|batch| batch.map_err(broke)).collect()
}

/// Returns the stream of an object that has `__arrow_c_stream__`.
fn stream_of(object: &Bound<'_, PyAny>, name: &str) -> PyResult<RecordBatchStreamReader> {
    let py = object.py();
    let refuse = |rule: &str| {
        let kind = object.get_type().name().map_or_else(|_| "object".into(), |n| n.to_string());
        let remedy = "give a polars or pyarrow table, a record batch reader, or a file";
        raise(py, &Problem::request(&kind, name, rule, remedy))
    };
    if !object.hasattr("__arrow_c_stream__")? {
        return Err(refuse("a trace is a stream of Arrow record batches (it has no __arrow_c_stream__)"));
    }
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule =
        capsule.cast::<PyCapsule>().map_err(|_| refuse("__arrow_c_stream__ must return a capsule"))?;
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: the interface promises that a capsule of this name holds an initialised C stream, which
    // the consumer moves out. The stream that stays behind is marked as released.
    unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast()) }
        .map_err(|error| refuse(&format!("the Arrow stream does not start: {error}")))
}

impl Drop for StreamSource {
    fn drop(&mut self) {
        let runs = python_runs();
        if !*runs {
            std::mem::forget(self.reader.take());
        }
        self.reader = None;
    }
}

impl StreamSource {
    /// Takes the next batch from its producer.
    fn advance(&mut self) -> Result<Option<EventBatch>> {
        // Arrow panics if a batch has another number of columns than the schema.
        let runs = python_runs();
        let Some(reader) = self.reader.as_mut().filter(|_| *runs) else { return Ok(None) };
        let Some(next) = unless_it_panics(|| reader.next()) else {
            let rule =
                "every batch of an Arrow stream has the columns of its schema, and this one has others";
            let remedy = "look at what produces it";
            return Err(Problem::request("a batch of another schema", &self.name, rule, remedy));
        };
        match next {
            // A reader that was read before gives an empty stream.
            None if self.empty => Err(Problem::request(
                "no events",
                &self.name,
                "a trace holds at least one event",
                "give a table with rows; a record batch reader can be read only once",
            )),
            None => Ok(None),
            Some(Ok(batch)) => {
                self.empty &= batch.num_rows() == 0;
                EventBatch::from_record_batch(&batch, &self.name).map(Some)
            }
            Some(Err(error)) => Err(Problem::request(
                producers_words(&error.to_string()),
                &self.name,
                "the Arrow stream broke off",
                "look at what produces it",
            )),
        }
    }
}

impl Source for StreamSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }
}

/// Returns the producer's message of an error, without the traceback and without Arrow's additions.
fn producers_words(error: &str) -> &str {
    let said = error.split_once("Producer error: ").map_or(error, |(_, said)| said);
    let said = said.split_once(". Detail: ").map_or(said, |(said, _)| said);
    let said = said.lines().next().unwrap_or("no message").trim_end_matches([':', '.']);
    said.strip_prefix("Invalid: ").unwrap_or(said)
}
