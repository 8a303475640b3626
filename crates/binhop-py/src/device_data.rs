//! `device_data` compares schemes for device data behind the front of a machine.

use std::sync::{Arc, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use binhop_base::{Problem, Result};
use binhop_hw::SchemeKind;
use binhop_sim::device_data::{
    ComparedSchemes, PlacementData, SchemeSetup, compare_schemes, device_name, direction_name, figures,
};
use binhop_sim::io_path::{IoEvents, PathCounts};
use binhop_sim::{Machine, RunOptions};
use binhop_trace::Source;
use pyo3::prelude::*;

use crate::machine::PyMachine;
use crate::memory::memory;
use crate::panic::caught;
use crate::problem::OrRaise;
use crate::progress::ProgressCallback;
use crate::source::PyStream;
use crate::table::PyTable;

/// `PyDeviceDataOutcome` holds what passes below a front, and what each scheme makes of it.
#[pyclass(frozen, get_all, name = "DeviceDataOutcome", module = "binhop._binhop")]
pub(crate) struct PyDeviceDataOutcome {
    /// The counts: seed, scheme (null for the front), metric, unit, value.
    figures: Py<PyTable>,
    /// The requests by size: seed, device, direction, size (the least of the class), requests.
    sizes: Py<PyTable>,
    /// The references by reuse distance: seed, stream, flow, device, distance (the least of the class; null for first
    /// references), references.
    distances: Py<PyTable>,
    /// The tidy table of the front.
    front: Py<PyTable>,
    /// The counts of the path of device data, by name. Empty without a path.
    path: Vec<(&'static str, u64)>,
    /// Notes for the reader.
    notes: Vec<String>,
    /// The resolved machine, as TOML.
    machine: String,
}

/// Simulates the front of a machine under each seed, and the schemes behind it. A scheme has its name in results, its
/// kind, and the machine whose last level and settings it takes. With `path`, the system calls of the trace make kernel
/// and devices reference memory.
#[pyfunction]
#[pyo3(signature = (machine, stream, *, workload, seeds, schemes, path, threads, length, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn device_data(
    py: Python<'_>,
    machine: &PyMachine,
    stream: &PyStream,
    workload: String,
    seeds: Vec<u64>,
    schemes: Vec<(String, String, Py<PyMachine>)>,
    path: bool,
    threads: usize,
    length: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyDeviceDataOutcome> {
    let known = stream.references();
    let schemes = schemes.iter().map(|(name, kind, of)| scheme_setup(&machine.0, name, kind, &of.get().0));
    let schemes = schemes.collect::<Result<Vec<_>>>().or_raise(py)?;
    let progress = ProgressCallback::new(progress, length);
    let source = stream.take().or_raise(py)?;
    let options = RunOptions {
        workload,
        seeds,
        threads,
        length,
        memory: memory().or_raise(py)?,
        ..RunOptions::default()
    };
    let done = py.detach(|| {
        caught(|| {
            compare(&machine.0, source, &options, &schemes, path, &mut |now| {
                progress.tell_of(now.references, now.of.or(known))
            })
        })
    });
    let (found, counts) = done.map_err(|problem: Box<Problem>| progress.raise(py, &problem))?;
    let table = |table: RecordBatch| Py::new(py, PyTable::new(table));
    Ok(PyDeviceDataOutcome {
        figures: table(figures_table(&found.placements))?,
        sizes: table(sizes_table(&found.placements))?,
        distances: table(distances_table(&found.placements))?,
        front: table(found.front.results)?,
        path: counts.as_ref().map_or_else(Vec::new, named),
        notes: found.front.notes,
        machine: found.front.machine,
    })
}

/// Returns the scheme of machine `of` that is to stand behind the front of `machine`.
fn scheme_setup(machine: &Machine, name: &str, kind: &str, of: &Machine) -> Result<SchemeSetup> {
    machine.check_same_front(of)?;
    of.scheme_setup(SchemeKind::parse(kind, "schemes")?, name)
}

fn compare(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    schemes: &[SchemeSetup],
    path: bool,
    progress: &mut dyn FnMut(&binhop_sim::Progress) -> Result<()>,
) -> Result<(ComparedSchemes, Option<PathCounts>)> {
    let mut counts = None;
    let source: Box<dyn Source> = if path {
        let events = IoEvents::new(source, *machine.io())?.refusing(machine.page_cache_problem());
        counts = Some(events.counts());
        Box::new(events)
    } else {
        source
    };
    let found = compare_schemes(machine, source, options, schemes, progress)?;
    Ok((found, counts.map(|counts| *counts.lock().unwrap_or_else(PoisonError::into_inner))))
}

/// Returns the counts of a path, by name.
fn named(counts: &PathCounts) -> Vec<(&'static str, u64)> {
    PathCounts::list().map(|(name, ..)| name).zip(counts.values()).collect()
}

fn record_batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| {
        let nullable = matches!(name, "scheme" | "device" | "distance");
        (name, column, nullable)
    }))
    .expect("columns of one length")
}

fn texts<T: AsRef<str>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn numbers(values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
    Arc::new(values.collect::<UInt64Array>())
}

fn figures_table(placements: &[PlacementData]) -> RecordBatch {
    let rows: Vec<_> = placements
        .iter()
        .flat_map(|data| figures(data).into_iter().map(|figure| (data.seed, figure)))
        .collect();
    record_batch([
        ("seed", numbers(rows.iter().map(|(seed, _)| Some(*seed)))),
        ("scheme", texts(rows.iter().map(|(_, figure)| figure.scheme.as_ref()))),
        ("metric", texts(rows.iter().map(|(_, figure)| Some(&figure.metric)))),
        ("unit", texts(rows.iter().map(|(_, figure)| Some(figure.unit)))),
        ("value", numbers(rows.iter().map(|(_, figure)| Some(figure.value)))),
    ])
}

fn sizes_table(placements: &[PlacementData]) -> RecordBatch {
    let mut rows = Vec::new();
    for data in placements {
        for (key, counts) in data.characterisation.requests() {
            for (log2, requests) in counts.sizes() {
                rows.push((
                    data.seed,
                    device_name(key.device),
                    direction_name(key.writes),
                    1 << log2,
                    requests,
                ));
            }
        }
    }
    record_batch([
        ("seed", numbers(rows.iter().map(|row| Some(row.0)))),
        ("device", texts(rows.iter().map(|row| Some(&row.1)))),
        ("direction", texts(rows.iter().map(|row| Some(row.2)))),
        ("size", numbers(rows.iter().map(|row| Some(row.3)))),
        ("requests", numbers(rows.iter().map(|row| Some(row.4)))),
    ])
}

fn distances_table(placements: &[PlacementData]) -> RecordBatch {
    let mut rows = Vec::new();
    for data in placements {
        for (key, histogram) in data.characterisation.distances() {
            let first = (histogram.first() > 0).then_some((None, histogram.first()));
            let classes = histogram.classes().map(|(least, references)| (Some(least), references));
            for (distance, references) in first.into_iter().chain(classes) {
                rows.push((data.seed, *key, distance, references));
            }
        }
    }
    record_batch([
        ("seed", numbers(rows.iter().map(|row| Some(row.0)))),
        ("stream", texts(rows.iter().map(|row| Some(row.1.stream.name())))),
        ("flow", texts(rows.iter().map(|row| Some(row.1.flow.name())))),
        ("device", texts(rows.iter().map(|row| row.1.device.map(device_name)))),
        ("distance", numbers(rows.iter().map(|row| row.2))),
        ("references", numbers(rows.iter().map(|row| Some(row.3)))),
    ])
}

/// Returns (name, meaning) of each scheme for device data.
#[pyfunction]
pub(crate) fn schemes() -> Vec<(&'static str, &'static str)> {
    SchemeKind::ALL.iter().map(|kind| (kind.name(), kind.meaning())).collect()
}

/// Returns the name of each scheme that is for the tags of a machine's caches.
#[pyfunction]
pub(crate) fn schemes_for(machine: &PyMachine) -> Vec<&'static str> {
    let virtually = machine.0.has_virtual_tags();
    let fits = |kind: &&SchemeKind| kind.is_for_virtual_tags() == virtually;
    SchemeKind::ALL.iter().filter(fits).map(|kind| kind.name()).collect()
}

/// Returns (name pattern, unit, meaning) of each metric of device data.
#[pyfunction]
pub(crate) fn device_data_metrics() -> Vec<(String, &'static str, &'static str)> {
    let metrics = binhop_sim::device_data::device_data_metrics();
    metrics.into_iter().map(|metric| (metric.name, metric.unit, metric.meaning)).collect()
}

/// Returns (name, unit, meaning) of each count of the path of device data.
#[pyfunction]
pub(crate) fn path_counts() -> Vec<(&'static str, &'static str, &'static str)> {
    PathCounts::list().collect()
}

/// Returns (name, reason) of each scheme that cannot stand behind the front of a machine.
#[pyfunction]
pub(crate) fn refused_schemes(machine: &PyMachine) -> Vec<(&'static str, String)> {
    let refusal = |&kind: &SchemeKind| Some((kind.name(), machine.0.scheme(kind).err()?.to_string()));
    SchemeKind::ALL.iter().filter_map(refusal).collect()
}
