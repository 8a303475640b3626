//! Mixes of traces.

use binhop_base::{Problem, Result};
use binhop_record::schedule::RoundRobin;
use binhop_record::{EndsWhen, Latencies, Mix, MixInput};
use binhop_trace::Source;
use pyo3::prelude::*;

use crate::problem::{OrRaise, problem_of};
use crate::source::PyStream;

/// Mixes several traces into one stream. An input is a name, a callable that opens the trace as a stream, and
/// the number of references to read. `quantum` and `latency` are instructions; without a latency, the reason
/// of a wait decides. `ends` is all, first or repeat.
#[pyfunction]
#[pyo3(signature = (inputs, quantum, latency, ends))]
pub(crate) fn mix(
    py: Python<'_>,
    inputs: Vec<(String, Py<PyAny>, Option<u64>)>,
    quantum: u64,
    latency: Option<u64>,
    ends: &str,
) -> PyResult<PyStream> {
    if quantum == 0 {
        let remedy = "say --quantum 400k";
        return Err(Problem::request("0", "--quantum", "a turn has at least one instruction", remedy))
            .or_raise(py);
    }
    let ends = match ends {
        "first" => EndsWhen::First,
        "repeat" => EndsWhen::Repeat,
        _ => EndsWhen::All,
    };
    let inputs = inputs.into_iter().map(|(name, open, length)| MixInput {
        name,
        open: Box::new(move || Python::attach(|py| opened(py, &open))),
        length,
    });
    let latencies = latency.map_or_else(Latencies::default, Latencies::all);
    let schedule = Box::new(RoundRobin::new(quantum));
    let mixed = Mix::new(inputs.collect(), schedule, latencies, ends).or_raise(py)?;
    Ok(PyStream::new(Box::new(mixed), None))
}

/// Opens a stream by a Python callable.
pub(crate) fn opened(py: Python<'_>, open: &Py<PyAny>) -> Result<Box<dyn Source>> {
    let stream = open.call0(py).map_err(|error| problem_of(py, &error))?;
    let stream = stream.bind(py).cast::<PyStream>().map_err(|error| problem_of(py, &error.into()))?;
    stream.get().take()
}
