//! These functions list everything that binhop offers: machines, keys, workloads, policies, counters,
//! formats, events. Each list is kept in the crate of its subject. Here it is only passed to Python, as rows
//! of (name, column, …).

use binhop_base::Kind;
use binhop_base::escape::STEERING;
use binhop_sim::machine::{BUNDLED, keys};
use binhop_trace::Op;
use binhop_trace::export::{EXPORTERS, Writes};
use binhop_trace::import::FORMATS;
use binhop_trace::text::{MAP_FLAGS, line_of};
use binhop_workload::WORKLOADS;
use binhop_workload::calibration::TARGETS;
use pyo3::prelude::*;

/// Returns (name, about, TOML) of each bundled machine.
#[pyfunction]
pub(crate) fn machines() -> Vec<(&'static str, &'static str, &'static str)> {
    BUNDLED.iter().map(|m| (m.name, m.about, m.toml)).collect()
}

/// Returns (section, name, form, default, meaning) of each key of a machine description.
#[pyfunction]
pub(crate) fn machine_keys() -> Vec<(&'static str, &'static str, String, &'static str, &'static str)> {
    keys().map(|k| (k.section, k.name, (k.form)(), k.default, k.meaning)).collect()
}

/// Returns (name, what it computes, the trace that it represents) of each built-in workload.
#[pyfunction]
pub(crate) fn workloads() -> Vec<(&'static str, &'static str, &'static str)> {
    WORKLOADS.iter().map(|w| (w.name, w.what, w.stands_for)).collect()
}

/// Returns (name, rule, source, state and cost) of each placement policy.
#[pyfunction]
pub(crate) fn policies() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    binhop_os::placement::POLICIES.iter().map(|p| (p.name, p.rule, p.source, p.cost)).collect()
}

/// Returns (name, whether a miss counts in MPI, meaning) of each kind of access that caches and memory count.
#[pyfunction]
pub(crate) fn kinds() -> Vec<(&'static str, bool, &'static str)> {
    Kind::ALL.iter().map(|k| (k.name(), k.is_demand(), k.meaning())).collect()
}

/// Returns (letter, flag, name) of each flag of a mapping, in the order of the letters.
#[pyfunction]
pub(crate) fn map_flags() -> Vec<(char, u32, &'static str)> {
    MAP_FLAGS.iter().map(|&(flag, letter, name, _)| (letter, flag, name)).collect()
}

/// Returns (name pattern, unit, meaning) of each metric.
#[pyfunction]
pub(crate) fn counters() -> Vec<(String, &'static str, &'static str)> {
    binhop_sim::metrics().into_iter().map(|m| (m.name, m.unit, m.meaning)).collect()
}

/// Returns (name, what it is, what is lost or assumed, extensions) of each foreign trace format.
#[pyfunction]
pub(crate) fn formats() -> Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)> {
    FORMATS.iter().map(|f| (f.name, f.what, f.lost, f.extensions.to_vec())).collect()
}

/// Returns (first, last) code of each range of characters that steer a terminal or reorder a line.
#[pyfunction]
pub(crate) fn steering_characters() -> Vec<(u32, u32)> {
    STEERING.iter().map(|&(first, last)| (first.into(), last.into())).collect()
}

/// Returns (name, extension) of each way a foreign trace may be packed.
#[pyfunction]
pub(crate) fn packings() -> Vec<(&'static str, &'static str)> {
    binhop_trace::input::PACKINGS.to_vec()
}

/// Returns (name, what it is, what is lost or assumed, whether it takes what reaches memory) of each format
/// for export.
#[pyfunction]
pub(crate) fn exporters() -> Vec<(&'static str, &'static str, &'static str, bool)> {
    EXPORTERS.iter().map(|e| (e.name, e.what, e.lost, matches!(e.writes, Writes::Physical(_)))).collect()
}

/// Returns (code, name, meaning of its columns) of each event.
#[pyfunction]
pub(crate) fn events() -> Vec<(u8, &'static str, &'static str)> {
    Op::ALL.iter().map(|op| (*op as u8, op.name(), op.meaning())).collect()
}

/// Returns (name, what its line of text looks like) of each event.
#[pyfunction]
pub(crate) fn event_lines() -> Vec<(&'static str, String)> {
    Op::ALL.iter().map(|&op| (op.name(), line_of(op))).collect()
}

type TargetRow = (&'static str, Option<u64>, [[f64; 3]; 2]);

/// Returns (workload, mean instructions between switches, misses per 1000 instructions at level 2: for 1 and
/// 4 ways, at 1, 4 and 16 MiB) that the documents give.
#[pyfunction]
pub(crate) fn calibration_targets() -> Vec<TargetRow> {
    TARGETS.iter().map(|target| (target.workload, target.switch_interval, target.mpi1000)).collect()
}
