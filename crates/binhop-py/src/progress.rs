//! Progress from the simulator's thread to a Python callback, and signals the other way.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use binhop_base::{Class, Problem, Result};
use pyo3::prelude::*;

use crate::problem::raise;

/// The interval at which the interpreter is asked for signals and the callback is called: short enough for Ctrl-C
/// and a moving bar, too long to cost anything.
const EVERY: Duration = Duration::from_millis(100);

/// Tells a Python callable `progress(references, of)`; stops the work on a signal or when the callable raises.
pub(crate) struct Progress {
    callback: Option<Py<PyAny>>,
    of: Option<u64>,
    state: Mutex<State>,
}

struct State {
    next: Instant,
    raised: Option<PyErr>,
}

impl Progress {
    pub(crate) fn new(callback: Option<Py<PyAny>>, of: Option<u64>) -> Self {
        Self { callback, of, state: Mutex::new(State { next: Instant::now(), raised: None }) }
    }

    /// So many references are done. Call it on the thread that called from Python.
    pub(crate) fn tell(&self, references: u64) -> Result<()> {
        self.tell_of(references, self.of)
    }

    /// The same, where the total is known to the caller only.
    pub(crate) fn tell_of(&self, references: u64, of: Option<u64>) -> Result<()> {
        let now = Instant::now();
        let mut state = self.state();
        if now < state.next {
            return Ok(());
        }
        state.next = now + EVERY;
        let told = Python::attach(|py| {
            py.check_signals()?;
            if let Some(callback) = &self.callback {
                callback.call1(py, (references, of))?;
            }
            Ok(())
        });
        told.map_err(|error| {
            state.raised = Some(error);
            Problem::interrupted()
        })
    }

    /// The exception to raise for a problem: what the callback or a signal handler raised, if that is why.
    pub(crate) fn raise(&self, py: Python<'_>, problem: &Problem) -> PyErr {
        let raised = self.state().raised.take().filter(|_| problem.class == Class::Interrupted);
        raised.unwrap_or_else(|| raise(py, problem))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
