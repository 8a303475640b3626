//! Mixes of traces.

use binhop_base::Result;
use binhop_os::scheduler::Order;
use binhop_record::{EndsWhen, Faults, Latencies, Mix, MixInput, Mixing, Quantum};
use binhop_trace::Source;
use binhop_trace::source::Steered;
use pyo3::prelude::*;

use crate::problem::{OrRaise, problem_of};
use crate::source::PyStream;

/// Mixes several traces into one stream. An input is a name, a callable that opens the trace as a stream, and
/// the number of references to read. `quantum` is a number of instructions or cycles (its unit), and `latency` and
/// `fault_latency` have the same unit; without a latency, the reason of a wait decides. `order` is round-robin or
/// recent, `faults` is none, first or all, and `ends` is all, first or repeat.
#[pyfunction]
#[pyo3(signature = (inputs, *, quantum, order, latency, faults, fault_latency, ends))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn mix(
    py: Python<'_>,
    inputs: Vec<(String, Py<PyAny>, Option<u64>)>,
    quantum: (u64, String),
    order: &str,
    latency: Option<u64>,
    faults: &str,
    fault_latency: Option<u64>,
    ends: &str,
) -> PyResult<PyStream> {
    let (quantum, unit) = quantum;
    let latencies = latency.map_or_else(Latencies::default, Latencies::all);
    let mixing = Mixing {
        quantum: if unit == "cycles" { Quantum::Cycles(quantum) } else { Quantum::Instructions(quantum) },
        order: if order == "recent" { Order::recent(quantum) } else { Order::LongestAgo },
        latencies: Latencies { fault: fault_latency.unwrap_or(latencies.fault), ..latencies },
        faults: match faults {
            "first" => Faults::First,
            "all" => Faults::All,
            _ => Faults::None,
        },
        ends: match ends {
            "first" => EndsWhen::First,
            "repeat" => EndsWhen::Repeat,
            _ => EndsWhen::All,
        },
    };
    let inputs = inputs.into_iter().map(|(name, open, length)| MixInput {
        name,
        open: Box::new(move || Python::attach(|py| opened(py, &open))),
        length,
    });
    Ok(PyStream::of_mix(Box::new(Mix::new(inputs.collect(), mixing).or_raise(py)?)))
}

/// Opens a stream by a Python callable.
pub(crate) fn opened(py: Python<'_>, open: &Py<PyAny>) -> Result<Box<dyn Source>> {
    opened_stream(py, open)?.get().take()
}

/// Opens a mix that needs a lane by a Python callable.
pub(crate) fn opened_steered(py: Python<'_>, open: &Py<PyAny>) -> Result<Box<dyn Steered>> {
    let mix = opened_stream(py, open)?.get().take_steered()?;
    Ok(mix.expect("a mix that needs a lane needs a lane again"))
}

fn opened_stream(py: Python<'_>, open: &Py<PyAny>) -> Result<Py<PyStream>> {
    let stream = open.call0(py).map_err(|error| problem_of(py, &error))?;
    let stream = stream.bind(py).cast::<PyStream>().map_err(|error| problem_of(py, &error.into()))?;
    Ok(stream.clone().unbind())
}
