//! Mixes of traces.

use binhop_base::Result;
use binhop_os::scheduler::Order;
use binhop_record::{EndsWhen, Faults, Latencies, Mix, MixInput, Mixing, Quantum};
use binhop_trace::Source;
use pyo3::prelude::*;

use crate::problem::{OrRaise, problem_of};
use crate::source::PyStream;

/// Mixes several traces into one stream. An input is a name, a callable that opens the trace as a stream, and
/// the number of references to read. `quantum`, `latency` and `fault_latency` are instructions; without a latency,
/// the reason of a wait decides. `order` is round-robin or recent, `faults` is none or first, and `ends` is all,
/// first or repeat.
#[pyfunction]
#[pyo3(signature = (inputs, *, quantum, order, latency, faults, fault_latency, ends))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn mix(
    py: Python<'_>,
    inputs: Vec<(String, Py<PyAny>, Option<u64>)>,
    quantum: u64,
    order: &str,
    latency: Option<u64>,
    faults: &str,
    fault_latency: Option<u64>,
    ends: &str,
) -> PyResult<PyStream> {
    let latencies = latency.map_or_else(Latencies::default, Latencies::all);
    let mixing = Mixing {
        quantum: Quantum::Instructions(quantum),
        order: if order == "recent" { Order::recent(quantum) } else { Order::LongestAgo },
        latencies: Latencies { fault: fault_latency.unwrap_or(latencies.fault), ..latencies },
        faults: if faults == "first" { Faults::First } else { Faults::None },
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
    let stream = open.call0(py).map_err(|error| problem_of(py, &error))?;
    let stream = stream.bind(py).cast::<PyStream>().map_err(|error| problem_of(py, &error.into()))?;
    stream.get().take()
}
