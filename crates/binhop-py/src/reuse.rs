//! `reuse` measures the reuse distances of a trace.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use binhop_base::{Bytes, Kind, Problem, Result, counted_notes};
use binhop_sim::reuse::{Histogram, Reuse, ReuseKinds, ReuseOptions};
use pyo3::prelude::*;

use crate::panic::caught;
use crate::problem::OrRaise;
use crate::progress::ProgressCallback;
use crate::source::PyStream;
use crate::table::PyTable;

/// `PyReuseOutcome` holds the reuse distances of a trace.
#[pyclass(frozen, get_all, name = "ReuseOutcome", module = "binhop._binhop")]
pub(crate) struct PyReuseOutcome {
    /// References read.
    references: u64,
    /// Instructions fetched.
    instructions: u64,
    /// Accesses measured.
    accesses: u64,
    /// Lines or pages accessed.
    units: u64,
    /// Accesses by group, kind and distance: group ("process" or "segment"), name, kind, `distance` (the least distance
    /// of the class; null for first accesses), accesses.
    distances: Py<PyTable>,
    /// Misses of fully associative LRU caches: units, misses.
    curve: Py<PyTable>,
    /// Notes for the reader.
    notes: Vec<String>,
}

/// Reads a trace once and measures the reuse distance of every access. `capacities` are sizes of caches in units; none
/// stands for every power of two up to the number of units.
#[pyfunction]
#[pyo3(signature = (stream, *, unit, kinds, capacities, length, ahead, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn reuse(
    py: Python<'_>,
    stream: &PyStream,
    unit: &str,
    kinds: &str,
    capacities: Option<Vec<u64>>,
    length: Option<u64>,
    ahead: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyReuseOutcome> {
    let options = ReuseOptions {
        unit: Bytes::parse(unit, "unit").or_raise(py)?,
        kinds: kinds_of(kinds).or_raise(py)?,
        length,
        ahead,
    };
    let progress = ProgressCallback::new(progress, length);
    let known = stream.references();
    let source = stream.take().or_raise(py)?;
    let found = py.detach(|| {
        caught(|| {
            binhop_sim::reuse::reuse(source, &options, &mut |now| {
                progress.tell_of(now.references, now.of.or(known))
            })
        })
    });
    let found = found.map_err(|problem| progress.raise(py, &problem))?;
    Ok(PyReuseOutcome {
        references: found.references,
        instructions: found.instructions,
        accesses: found.curve.accesses(),
        units: found.curve.units(),
        distances: Py::new(py, PyTable::new(distances(&found)))?,
        curve: Py::new(py, PyTable::new(curve(&found, capacities)))?,
        notes: notes(&found),
    })
}

fn kinds_of(name: &str) -> Result<ReuseKinds> {
    match name {
        "all" => Ok(ReuseKinds::All),
        "fetch" => Ok(ReuseKinds::Fetch),
        "data" => Ok(ReuseKinds::Data),
        _ => Err(Problem::request(name, "kinds", "the kinds are all, fetch or data", "choose one of them")),
    }
}

fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

/// `ReuseRow` is a group, the name within the group, the kind, the distance and the accesses.
type ReuseRow = (&'static str, String, Kind, Option<u64>, u64);

fn rows_of(group: &'static str, name: &str, histogram: &Histogram) -> Vec<ReuseRow> {
    let mut rows = Vec::new();
    for (place, kind) in Histogram::KINDS.into_iter().enumerate() {
        let classes = histogram.classes().map(|(least, accesses)| (Some(least), accesses[place]));
        let all = std::iter::once((None, histogram.first()[place])).chain(classes);
        let any = all.filter(|&(_, accesses)| accesses > 0);
        rows.extend(any.map(|(distance, accesses)| (group, name.to_owned(), kind, distance, accesses)));
    }
    rows
}

fn distances(found: &Reuse) -> RecordBatch {
    let processes =
        found.processes.iter().flat_map(|(asid, held)| rows_of("process", &asid.0.to_string(), held));
    let segments = found.segments.iter().flat_map(|(name, held)| rows_of("segment", name, held));
    let rows: Vec<ReuseRow> = processes.chain(segments).collect();
    let text = |pick: fn(&ReuseRow) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(pick)))
    };
    table([
        ("group", text(|row| row.0)),
        ("name", text(|row| &row.1)),
        ("kind", text(|row| row.2.name())),
        ("distance", Arc::new(UInt64Array::from_iter(rows.iter().map(|row| row.3)))),
        ("accesses", numbers(rows.iter().map(|row| row.4))),
    ])
}

fn curve(found: &Reuse, capacities: Option<Vec<u64>>) -> RecordBatch {
    let all = found.curve.units().max(1).next_power_of_two().ilog2();
    let capacities = capacities.unwrap_or_else(|| (0..=all).map(|log2| 1 << log2).collect());
    table([
        ("units", numbers(capacities.iter().copied())),
        ("misses", numbers(capacities.iter().map(|&capacity| found.curve.misses(capacity)))),
    ])
}

fn notes(found: &Reuse) -> Vec<String> {
    let parts = [
        (
            found.outside,
            ["page lies", "pages lie"],
            "outside every map of the trace: private memory is counted there",
        ),
        (
            found.unaligned,
            ["page does", "pages do"],
            "not lie wholly in one segment of the trace: private memory is counted there",
        ),
    ];
    counted_notes(parts)
}
