//! These functions give MB90's figures for its benchmark sets, and measure the same figures of a stream.

use binhop_trace::event::Cause;
use binhop_workload::calibration::{TRIAL_TARGETS, measure_trial};
use pyo3::prelude::*;

use crate::source::PyStream;

/// (workload, (program, megabytes) …, megabytes of all programs, processes, least and most million
/// instructions, data references per instruction, least and most share of involuntary switches).
type TrialTargetRow = (&'static str, Vec<(&'static str, f64)>, f64, Option<u64>, (f64, f64), f64, (f64, f64));

/// MB90's figures for each benchmark set, as [`TrialTargetRow`] says.
#[pyfunction]
pub(crate) fn trial_targets() -> Vec<TrialTargetRow> {
    let row = |target: &binhop_workload::calibration::TrialTarget| {
        (
            target.workload,
            target.programs.to_vec(),
            target.megabytes,
            target.processes,
            target.instructions,
            target.data,
            target.involuntary,
        )
    };
    TRIAL_TARGETS.iter().map(row).collect()
}

/// `PyTrial` holds what a stream did until its last switch.
#[pyclass(name = "Trial", frozen, get_all)]
pub(crate) struct PyTrial {
    /// Instructions executed.
    instructions: u64,
    /// Loads and stores.
    data: u64,
    /// The processes that ran.
    processes: u64,
    /// The size of all processes, in bytes.
    bytes: u64,
    /// The bytes that all processes touched, in whole pages.
    touched: u64,
    /// (name, processes, largest size in bytes, most bytes touched) of each program.
    programs: Vec<(String, u64, u64, u64)>,
    /// (cause, number of the system call, switches).
    switches: Vec<(&'static str, Option<u64>, u64)>,
    /// The mean instructions of a segment.
    mean_segment: f64,
    /// The median of the instructions of a segment; `None` without a segment.
    median_segment: Option<u64>,
}

/// Measures a stream up to its `switches`-th switch, but at most `length` references.
#[pyfunction]
#[pyo3(name = "measure_trial", signature = (stream, switches, length=None, progress=None))]
pub(crate) fn measure_stream_trial(
    py: Python<'_>,
    stream: &PyStream,
    switches: u64,
    length: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyTrial> {
    let (trial, _) = stream.read(py, length, progress, |source, _, progress| {
        measure_trial(source, switches, &mut |references| progress.tell(references))
    })?;
    let cause = |code| Cause::from_code(code).map_or("unknown", Cause::name);
    let program = |(name, size): (&String, &binhop_workload::calibration::ProgramSize)| {
        (name.clone(), size.processes, size.bytes, size.touched)
    };
    Ok(PyTrial {
        instructions: trial.instructions,
        data: trial.data,
        processes: trial.processes,
        bytes: trial.bytes,
        touched: trial.touched,
        programs: trial.programs.iter().map(program).collect(),
        switches: trial.switches.iter().map(|(&(code, call), &count)| (cause(code), call, count)).collect(),
        mean_segment: trial.mean_segment(),
        median_segment: trial.median_segment(),
    })
}
