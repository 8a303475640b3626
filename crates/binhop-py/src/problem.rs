//! These functions turn problems into Python exceptions: the classes of `binhop.errors`, with the four attributes of a
//! problem.

use std::cell::RefCell;

use binhop_base::{Class, Problem, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

thread_local! {
    /// The exception that a signal handler raised. It is kept until control returns to Python, and raised
    /// again there.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Returns the exception of a problem. The exception of an interruption is what the signal's handler raised.
pub(crate) fn raise(py: Python<'_>, problem: &Problem) -> PyErr {
    static REQUEST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    static RUN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = match problem.class {
        Class::Interrupted => {
            return RAISED.take().unwrap_or_else(|| PyKeyboardInterrupt::new_err(()));
        }
        Class::Request => REQUEST.import(py, "binhop.errors", "RequestError"),
        Class::Run => RUN.import(py, "binhop.errors", "RunError"),
    };
    let arguments =
        (problem.value.clone(), problem.place.clone(), problem.rule.clone(), problem.remedy.clone());
    match class {
        Ok(class) => PyErr::from_type(class.clone(), arguments),
        Err(error) => error,
    }
}

/// Returns the problem of an exception. An exception of binhop has a problem of its own; any other exception
/// gets a problem with its message.
pub(crate) fn problem_of(py: Python<'_>, error: &PyErr) -> Box<Problem> {
    let value = error.value(py);
    let attribute = |name: &str| value.getattr(name).and_then(|text| text.extract::<String>()).ok();
    let ours = (attribute("value"), attribute("place"), attribute("rule"), attribute("remedy"));
    if let (Some(said), Some(place), Some(rule), Some(remedy)) = ours {
        return Problem::request(&said, &place, &rule, &remedy);
    }
    Problem::request(&error.to_string(), "trace", "it cannot be opened", "open it by itself to see more")
}

/// `OrRaise` lets `?` pass on results of the other crates.
pub(crate) trait OrRaise<T> {
    /// Returns the value, or the problem as an exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|problem| raise(py, &problem))
    }
}

/// Stops the work if a signal has come in since the last call. It may be called often, because other threads
/// may run Python meanwhile.
pub(crate) fn check_signals() -> Result<()> {
    // The method's path cannot replace the closure, because the path has one lifetime only.
    #[expect(clippy::redundant_closure_for_method_calls, reason = "it does not compile without")]
    let checked = Python::attach(|py| py.check_signals());
    checked.map_err(|raised| {
        RAISED.set(Some(raised));
        Problem::interrupted()
    })
}

/// Reads a text that a person wrote, such as a study. The size is bounded, and signals are handled while the
/// read waits.
#[pyfunction]
pub(crate) fn read_text(py: Python<'_>, path: &str, what: &str, remedy: &str) -> PyResult<String> {
    py.detach(|| binhop_trace::input::read_text(path, what, remedy)).or_raise(py)
}
