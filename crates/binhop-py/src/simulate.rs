//! One machine, one trace, many placements.

use std::sync::{Arc, Mutex, PoisonError};

use binhop_base::Problem;
use binhop_os::placement::{Draws, Placement};
use binhop_sim::Plan;
use pyo3::prelude::*;

use crate::machine::Machine;
use crate::panic::caught;
use crate::policy::{PythonPolicy, Raised, name_of};
use crate::problem::{OrRaise, raise};
use crate::progress::Progress;
use crate::source::Stream;
use crate::table::Table;

/// What a run leaves.
#[pyclass(frozen, get_all, module = "binhop._binhop")]
pub(crate) struct Outcome {
    /// The tidy table.
    results: Py<Table>,
    /// Per interval.
    series: Py<Table>,
    /// Per process.
    processes: Py<Table>,
    /// Every placement, if asked for.
    placements: Option<Py<Table>>,
    /// Repeated misses by page, if asked for.
    pages: Option<Py<Table>>,
    /// What the reader should know.
    notes: Vec<String>,
    /// The machine, resolved, as TOML.
    machine: String,
}

/// A policy for one placement, or the reason why there is none, told at its first use.
enum Made {
    Policy(PythonPolicy),
    Failed { name: String, why: Box<Problem> },
}

impl Placement for Made {
    fn name(&self) -> &str {
        match self {
            Made::Policy(policy) => policy.name(),
            Made::Failed { name, .. } => name,
        }
    }

    fn choose(
        &mut self,
        request: &binhop_os::Request,
        pool: &binhop_os::Pool<'_>,
        draws: Draws,
    ) -> binhop_base::Result<binhop_base::FrameNo> {
        match self {
            Made::Policy(policy) => policy.choose(request, pool, draws),
            Made::Failed { why, .. } => Err(why.clone()),
        }
    }
}

fn make(policy: &Py<PyAny>, raised: &Raised) -> Made {
    Python::attach(|py| {
        let policy = policy.bind(py);
        PythonPolicy::new(policy, Arc::clone(raised)).map_or_else(
            |error| {
                let name = name_of(policy);
                let rule = "a policy class is made without arguments, once for each placement";
                let place = format!("placement policy {name}");
                let why = Problem::request(&error.to_string(), &place, rule, "mend its __init__");
                *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Made::Failed { name, why }
            },
            Made::Policy,
        )
    })
}

/// Simulates a trace on several machines, one placement for each seed; stages in which machines agree are
/// done once. The interpreter is free meanwhile.
#[pyfunction]
#[pyo3(signature = (machines, stream, *, workload, seeds, threads, length, instructions, warmup, interval, log=false, watch=None, policy=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn simulate(
    py: Python<'_>,
    machines: Vec<PyRef<'_, Machine>>,
    stream: &Stream,
    workload: String,
    seeds: Vec<u64>,
    threads: usize,
    length: Option<u64>,
    instructions: Option<u64>,
    warmup: u64,
    interval: Option<u64>,
    log: bool,
    watch: Option<String>,
    policy: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Outcome>> {
    let progress = Progress::new(progress, length);
    let raised = Raised::default();
    let source = stream.take().or_raise(py)?;
    let known = stream.references();
    let plan = Plan {
        workload,
        seeds,
        threads,
        length,
        instructions,
        warmup,
        interval,
        log,
        watch,
        ..Plan::default()
    };
    let machines: Vec<binhop_sim::Machine> = machines.iter().map(|machine| machine.0.clone()).collect();
    let outcomes = py.detach(|| {
        let maker =
            policy.as_ref().map(|policy| |_seed: u64| Box::new(make(policy, &raised)) as Box<dyn Placement>);
        let maker = maker.as_ref().map(|maker| maker as &(dyn Fn(u64) -> Box<dyn Placement> + Sync));
        caught(|| {
            binhop_sim::simulate_all(&machines, source, &plan, maker, &mut |now| {
                progress.tell_of(now.references, now.of.or(known))
            })
        })
    });
    let outcomes = outcomes.map_err(|problem| {
        let error = progress.raise(py, &problem);
        if let Some(cause) = take(&raised) {
            error.set_cause(py, Some(cause));
        }
        error
    })?;
    let outcome = |outcome: binhop_sim::Outcome| {
        Ok(Outcome {
            results: Py::new(py, Table::new(outcome.results))?,
            series: Py::new(py, Table::new(outcome.series))?,
            processes: Py::new(py, Table::new(outcome.processes))?,
            placements: outcome.placements.map(|table| Py::new(py, Table::new(table))).transpose()?,
            pages: outcome.pages.map(|table| Py::new(py, Table::new(table))).transpose()?,
            notes: outcome.notes,
            machine: outcome.machine,
        })
    };
    outcomes.into_iter().map(outcome).collect()
}

/// The plan of a run of these machines under so many seeds: what is shared, what is not and why, a line each.
#[pyfunction]
pub(crate) fn explain(machines: Vec<PyRef<'_, Machine>>, seeds: usize) -> Vec<String> {
    let machines: Vec<binhop_sim::Machine> = machines.iter().map(|machine| machine.0.clone()).collect();
    binhop_sim::explain(&machines, seeds, true)
}

fn take(raised: &Mutex<Option<PyErr>>) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The problem of an unknown name, with the nearest known one.
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
