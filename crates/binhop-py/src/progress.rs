//! `ProgressCallback` reports to a Python callback how far the work is, and stops the work on a signal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use binhop_base::{Class, Problem, Result};
use pyo3::prelude::*;

use crate::problem::raise;

/// The interval at which signals are checked and the callback is called. It is short enough for Ctrl-C and a
/// moving bar, and long enough to cost nothing.
const EVERY: Duration = Duration::from_millis(100);

/// `ProgressCallback` calls a Python callable `progress(references, of)`. It stops the work on a signal, or if the
/// callable raises an exception.
pub(crate) struct ProgressCallback {
    callback: Option<Py<PyAny>>,
    of: Option<u64>,
    state: Mutex<State>,
}

struct State {
    next: Instant,
    raised: Option<PyErr>,
}

impl ProgressCallback {
    pub(crate) fn new(callback: Option<Py<PyAny>>, of: Option<u64>) -> Self {
        Self { callback, of, state: Mutex::new(State { next: Instant::now(), raised: None }) }
    }

    /// Reports the number of references done. Call it on the thread that called from Python.
    pub(crate) fn tell(&self, references: u64) -> Result<()> {
        self.tell_of(references, self.of)
    }

    /// Reports the number of references done, with a total that only the caller knows.
    pub(crate) fn tell_of(&self, references: u64, of: Option<u64>) -> Result<()> {
        let now = Instant::now();
        let mut state = self.state();
        if now < state.next {
            return Ok(());
        }
        state.next = now + EVERY;
        let called = Python::attach(|py| {
            py.check_signals()?;
            if let Some(callback) = &self.callback {
                callback.call1(py, (references, of))?;
            }
            Ok(())
        });
        called.map_err(|error| {
            state.raised = Some(error);
            Problem::interrupted()
        })
    }

    /// Returns the exception of a problem. If the callback or a signal handler raised an exception, this
    /// returns that exception.
    pub(crate) fn raise(&self, py: Python<'_>, problem: &Problem) -> PyErr {
        let raised = self.state().raised.take().filter(|_| problem.class == Class::Interrupted);
        raised.unwrap_or_else(|| raise(py, problem))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
