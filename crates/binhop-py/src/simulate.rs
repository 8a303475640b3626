//! `simulate` simulates a trace on machines under many placements. `explain` explains the plan of a run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use binhop_base::{Problem, Result};
use binhop_os::PoolPolicy;
use binhop_sim::{RunOptions, SwitchOptions, SwitchTables, TraceInput};
use binhop_trace::Source;
use binhop_trace::source::Steered;
use pyo3::prelude::*;

use crate::machine::PyMachine;
use crate::memory::memory;
use crate::mix::{opened, opened_steered};
use crate::panic::caught;
use crate::policy::{PythonPolicy, Raised, is_complete};
use crate::problem::{OrRaise, raise};
use crate::progress::ProgressCallback;
use crate::source::PyStream;
use crate::table::{PyLongTable, PyTable};

/// `PyOutcome` is the outcome of a run.
#[pyclass(frozen, get_all, name = "Outcome", module = "binhop._binhop")]
pub(crate) struct PyOutcome {
    /// The tidy table.
    results: Py<PyTable>,
    /// The series: a row per interval.
    series: Py<PyLongTable>,
    /// A row per process.
    processes: Py<PyLongTable>,
    /// Every placement, if it was asked for.
    placements: Option<Py<PyTable>>,
    /// Repeated misses by page, if they were asked for.
    pages: Option<Py<PyTable>>,
    /// The costs of switches by life and cause, if they were asked for.
    switch_costs: Option<Py<PyTable>>,
    /// Cycles by interval since the switch, if they were asked for.
    switch_curves: Option<Py<PyTable>>,
    /// Cycles by page of code after switches, if they were asked for.
    switch_pages: Option<Py<PyTable>>,
    /// The command of each address space, if the costs of switches were asked for.
    switch_commands: BTreeMap<u32, String>,
    /// Every interval after every switch, if they were asked for.
    segments: Option<Py<PyLongTable>>,
    /// Notes for the reader.
    notes: Vec<String>,
    /// The resolved machine, as TOML.
    machine: String,
}

/// Simulates a trace on several machines, one placement for each seed. Stages in which machines agree are
/// done once. The interpreter is free meanwhile. `again` opens the stream anew if seeds that do not fit into
/// memory at once are done in rounds; without it the stream can be read only once. `policy` is the name of a
/// policy in Python, and the callable that makes the `choose` of one placement.
#[pyfunction]
#[pyo3(signature = (machines, stream, *, workload, seeds, threads, length, instructions, warmup, interval, log=false, watch=None, switches=false, segments=false, kernel=false, policy=None, progress=None, again=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn simulate(
    py: Python<'_>,
    machines: Vec<PyRef<'_, PyMachine>>,
    stream: &PyStream,
    workload: String,
    seeds: Vec<u64>,
    threads: usize,
    length: Option<u64>,
    instructions: Option<u64>,
    warmup: u64,
    interval: Option<u64>,
    log: bool,
    watch: Option<String>,
    switches: bool,
    segments: bool,
    kernel: bool,
    policy: Option<(String, Py<PyAny>)>,
    progress: Option<Py<PyAny>>,
    again: Option<Py<PyAny>>,
) -> PyResult<Vec<PyOutcome>> {
    let progress = ProgressCallback::new(progress, length);
    let raised = Raised::default();
    let input = RunInput::of(stream).or_raise(py)?;
    let known = stream.references();
    let options = RunOptions {
        workload,
        seeds,
        threads,
        length,
        instructions,
        warmup,
        interval,
        log,
        watch,
        switches: (switches || segments).then_some(SwitchOptions { raw: segments }),
        kernel,
        memory: memory().or_raise(py)?,
        ..RunOptions::default()
    };
    let machines: Vec<binhop_sim::Machine> = machines.iter().map(|machine| machine.0.clone()).collect();
    let outcomes = py.detach(|| {
        let maker = policy.as_ref().map(|(name, make)| {
            |_seed: u64| Box::new(PythonPolicy::new(name, make, &raised)) as Box<dyn PoolPolicy>
        });
        let maker = maker.as_ref().map(|maker| maker as &(dyn Fn(u64) -> Box<dyn PoolPolicy> + Sync));
        let mut tell = |now: &binhop_sim::Progress| progress.tell_of(now.references, now.of.or(known));
        caught(|| match input {
            RunInput::Steered(first) => {
                let open = || first.next(again.as_ref());
                binhop_sim::simulate_steered(&machines, &open, &options, maker, &mut tell)
            }
            RunInput::Same(source) => {
                let mut open = again.as_ref().map(|again| || Python::attach(|py| opened(py, again)));
                let again = open.as_mut().map(|open| open as &mut dyn FnMut() -> Result<Box<dyn Source>>);
                let input = TraceInput { source, again };
                binhop_sim::simulate_in_rounds(&machines, input, &options, maker, &mut tell)
            }
        })
    });
    let outcomes = outcomes.map_err(|problem| {
        let error = progress.raise(py, &problem);
        match take(&raised) {
            Some(raised) if is_complete(py, &raised) => return raised,
            cause => error.set_cause(py, cause),
        }
        error
    })?;
    let table = |table: RecordBatch| Py::new(py, PyTable::new(table));
    let outcome = |outcome: binhop_sim::Outcome| {
        let (costs, curves, code, switch_commands) = match outcome.switches {
            Some(SwitchTables { costs, curves, pages, commands }) => {
                (Some(costs), Some(curves), Some(pages), commands)
            }
            None => (None, None, None, BTreeMap::new()),
        };
        Ok(PyOutcome {
            switch_commands,
            switch_costs: costs.map(table).transpose()?,
            switch_curves: curves.map(table).transpose()?,
            switch_pages: code.map(table).transpose()?,
            segments: outcome.pieces.map(|pieces| Py::new(py, PyLongTable(pieces))).transpose()?,
            results: Py::new(py, PyTable::new(outcome.results))?,
            series: Py::new(py, PyLongTable(outcome.series))?,
            processes: Py::new(py, PyLongTable(outcome.processes))?,
            placements: outcome.placements.map(table).transpose()?,
            pages: outcome.pages.map(table).transpose()?,
            notes: outcome.notes,
            machine: outcome.machine,
        })
    };
    outcomes.into_iter().map(outcome).collect()
}

/// `RunInput` is the trace of a run.
enum RunInput {
    /// Every machine and placement reads the same stream.
    Same(Box<dyn Source>),
    /// Each machine and placement has a mix of its own.
    Steered(FirstMix),
}

impl RunInput {
    fn of(stream: &PyStream) -> Result<Self> {
        let name = stream.name().to_string();
        Ok(match stream.take_steered()? {
            Some(mix) => Self::Steered(FirstMix { name, mix: Mutex::new(Some(mix)) }),
            None => Self::Same(stream.take()?),
        })
    }
}

/// `FirstMix` is the mix that was opened first. Further mixes are opened anew.
struct FirstMix {
    name: String,
    mix: Mutex<Option<Box<dyn Steered>>>,
}

impl FirstMix {
    fn next(&self, again: Option<&Py<PyAny>>) -> Result<Box<dyn Steered>> {
        if let Some(mix) = self.mix.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(mix);
        }
        let Some(again) = again else {
            return Err(Problem::request(
                &self.name,
                "trace",
                "a part of this mix can be read only once, and each machine and placement reads the mix by itself",
                "ask for one machine and one placement, or make a trace file of the part",
            ));
        };
        Python::attach(|py| opened_steered(py, again))
    }
}

/// Returns the plan of a run that [`simulate`] makes of the same arguments, line by line: what is shared, and
/// why other stages are not shared. `names` are the machines' names for the reader. `policy` is the name of a
/// policy in Python. `steered` is true for a mix whose events depend on the lane, and `cycles_of_quantum` is its
/// quantum, if that is in cycles.
#[pyfunction]
#[pyo3(signature = (machines, *, names, seeds, threads, length, instructions, warmup, interval, switches=false, policy=None, steered=false, cycles_of_quantum=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn explain(
    py: Python<'_>,
    machines: Vec<PyRef<'_, PyMachine>>,
    names: Vec<String>,
    seeds: Vec<u64>,
    threads: usize,
    length: Option<u64>,
    instructions: Option<u64>,
    warmup: u64,
    interval: Option<u64>,
    switches: bool,
    policy: Option<String>,
    steered: bool,
    cycles_of_quantum: Option<u64>,
) -> PyResult<Vec<String>> {
    let machines: Vec<binhop_sim::Machine> = machines.iter().map(|machine| machine.0.clone()).collect();
    let memory = memory().or_raise(py)?;
    let options = RunOptions {
        seeds,
        threads,
        length,
        instructions,
        warmup,
        interval,
        switches: switches.then(SwitchOptions::default),
        memory,
        ..RunOptions::default()
    };
    let policy = policy.as_deref();
    match steered {
        true => binhop_sim::explain_steered(&machines, &names, &options, policy, cycles_of_quantum),
        false => binhop_sim::explain(&machines, &names, &options, policy),
    }
    .or_raise(py)
}

fn take(raised: &Mutex<Option<PyErr>>) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Returns the exception of an unknown name, with the nearest known name.
#[pyfunction]
pub(crate) fn unknown(
    py: Python<'_>,
    value: &str,
    place: &str,
    rule: &str,
    known: Vec<String>,
) -> Py<pyo3::exceptions::PyBaseException> {
    let remedy = match binhop_sim::nearest(value, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("known: {}", known.join(", ")),
    };
    raise(py, &Problem::request(value, place, rule, &remedy)).into_value(py)
}
