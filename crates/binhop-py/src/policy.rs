//! `PythonPolicy` is a placement policy in Python. A policy is called only when a page is placed, so its
//! speed hardly matters.

use std::sync::{Arc, Mutex, PoisonError};

use binhop_base::{FrameNo, PageId, Problem, Result};
use binhop_os::{Draws, PageRequest, PoolPolicy};
use pyo3::exceptions::{PyIndexError, PyKeyboardInterrupt};
use pyo3::prelude::*;

use crate::problem::{problem_of, raise};

/// The page to place.
#[pyclass(frozen, name = "Request", module = "binhop._binhop")]
pub(crate) struct PyRequest {
    request: PageRequest,
    draws: Draws,
}

#[pymethods]
impl PyRequest {
    /// A number that stands for this page, whatever address it has.
    #[getter]
    fn page(&self) -> u32 {
        self.request.page.0
    }

    /// The address space that faults: its touch brings the page in, the first time or when it returns.
    #[getter]
    fn asid(&self) -> u32 {
        self.request.asid.0
    }

    /// The virtual page number in this address space.
    #[getter]
    fn page_no(&self) -> u64 {
        self.request.page_no.0
    }

    /// The segment of the page, which it shares with other pages of one mapping.
    #[getter]
    fn segment(&self) -> u32 {
        self.request.segment.0
    }

    /// All segments in which the address space can have pages, in increasing order. The page's own segment is
    /// among them.
    #[getter]
    fn segments(&self) -> Vec<u32> {
        self.request.segments.iter().map(|segment| segment.0).collect()
    }

    /// The number of pages that were placed before this page.
    #[getter]
    fn ordinal(&self) -> u64 {
        self.draws.fault()
    }

    /// Draws a random number from 0 to n-1. The same seed, ordinal and `sub` give the same number, whatever
    /// else is drawn.
    #[pyo3(signature = (n, sub=0))]
    fn draw(&self, py: Python<'_>, n: u64, sub: u64) -> PyResult<u64> {
        if n == 0 {
            let rule = "a draw chooses among at least one";
            return Err(raise(py, &Problem::request("0", "Request.draw", rule, "give n >= 1")));
        }
        Ok(self.draws.below(sub, n))
    }

    fn __repr__(&self) -> String {
        let PageRequest { page, asid, page_no, segment, .. } = &self.request;
        format!(
            "<Request {}: page {} of address space {}, segment {}, {}>",
            self.draws.fault(),
            page_no.0,
            asid.0,
            segment.0,
            page.0
        )
    }
}

type PoolFrames = Vec<(FrameNo, Option<PageId>)>;

/// The frames to choose from, least recently used first. It is of use during the call only.
#[pyclass(frozen, name = "Pool", module = "binhop._binhop")]
pub(crate) struct PyPool {
    /// The frames of this moment. They are removed when the call is over, because the list of frames changes
    /// then.
    frames: Arc<Mutex<Option<PoolFrames>>>,
}

impl PyPool {
    fn with<T>(&self, py: Python<'_>, look: impl FnOnce(&PoolFrames) -> T) -> PyResult<T> {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.as_ref().map(look).ok_or_else(|| {
            let rule = "a pool is of use only while choose() runs: its frames have moved on";
            let remedy = "copy what you need, as in list(pool)";
            raise(py, &Problem::request("a pool that was kept", "placement policy", rule, remedy))
        })
    }

    fn at(&self, py: Python<'_>, rank: isize) -> PyResult<(FrameNo, Option<PageId>)> {
        let entry = self.with(py, |frames| {
            let index =
                if rank < 0 { frames.len().checked_add_signed(rank) } else { usize::try_from(rank).ok() };
            index.and_then(|index| frames.get(index).copied())
        })?;
        entry.ok_or_else(|| PyIndexError::new_err(format!("the pool has no frame of rank {rank}")))
    }
}

#[pymethods]
impl PyPool {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, Vec::len)
    }

    /// Returns the frame of this rank; rank 0 is the least recently used frame.
    fn __getitem__(&self, py: Python<'_>, rank: isize) -> PyResult<u64> {
        Ok(self.at(py, rank)?.0.0)
    }

    /// Returns the page that the frame of this rank still holds; None if the frame is free.
    fn holds(&self, py: Python<'_>, rank: isize) -> PyResult<Option<u32>> {
        Ok(self.at(py, rank)?.1.map(|page| page.0))
    }

    /// Returns every frame, the least recently used first.
    fn frames(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.with(py, |frames| frames.iter().map(|(frame, _)| frame.0).collect())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |frames| format!("<Pool of {} frames>", frames.len()))
    }
}

/// The exception that a Python policy raised. It is kept, because it becomes the cause of the exception that ends the
/// run.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// `PythonPolicy` is the policy of one placement. If the policy could not be made, its first use returns the
/// reason.
pub(crate) struct PythonPolicy {
    name: String,
    choose: Result<Py<PyAny>>,
    raised: Raised,
}

impl PythonPolicy {
    /// Makes a policy for one placement. `make`, of `binhop.policy.Policies`, returns the policy's `choose`.
    pub(crate) fn new(name: &str, make: &Py<PyAny>, raised: &Raised) -> Self {
        let choose = Python::attach(|py| {
            make.call0(py).map_err(|error| {
                let place = format!("placement policy {name}");
                let rule = "a policy is made once for each placement, and making it must raise nothing";
                failed(py, error, raised, |value| {
                    Problem::request(value, &place, rule, "mend its class or its factory")
                })
            })
        });
        Self { name: name.to_owned(), choose, raised: Arc::clone(raised) }
    }

    fn refuse(
        &self,
        request: &PageRequest,
        draws: Draws,
        value: &str,
        rule: &str,
        remedy: &str,
    ) -> Box<Problem> {
        let place = format!(
            "placement policy {}: page {} of address space {}, placement {}",
            self.name,
            request.page_no.0,
            request.asid.0,
            draws.fault()
        );
        Problem::request(value, &place, rule, remedy)
    }
}

/// Returns whether an exception's message is complete. `binhop.policy.PolicyError` marks itself as complete.
pub(crate) fn is_complete(py: Python<'_>, error: &PyErr) -> bool {
    error.value(py).hasattr("complete").unwrap_or(false)
}

/// Returns the problem that ends a run whose policy raised an exception: an interruption, the exception's own
/// complete problem, or the problem that `wrap` makes of the exception's message.
fn failed(
    py: Python<'_>,
    error: PyErr,
    raised: &Raised,
    wrap: impl FnOnce(&str) -> Box<Problem>,
) -> Box<Problem> {
    let problem = if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        Problem::interrupted()
    } else if is_complete(py, &error) {
        problem_of(py, &error)
    } else {
        wrap(&error.to_string())
    };
    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    problem
}

impl PoolPolicy for PythonPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose(&mut self, request: &PageRequest, pool: &binhop_os::Pool<'_>, draws: Draws) -> Result<FrameNo> {
        let choose = self.choose.as_ref().map_err(Clone::clone)?;
        let frames: PoolFrames = pool.iter().collect();
        Python::attach(|py| {
            let shared = Arc::new(Mutex::new(Some(frames)));
            let lent = PyPool { frames: Arc::clone(&shared) };
            let answer = choose.call1(py, (PyRequest { request: request.clone(), draws }, lent));
            let frames = shared.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
            let answer = answer.map_err(|error| {
                let rule = "choose(request, pool) must return a frame and raise nothing";
                failed(py, error, &self.raised, |value| {
                    self.refuse(request, draws, value, rule, "mend the policy")
                })
            })?;
            let chosen = answer.extract::<u64>(py).ok().map(FrameNo);
            if let Some(frame) = chosen.filter(|chosen| frames.iter().any(|(frame, _)| frame == chosen)) {
                return Ok(frame);
            }
            let value = answer.bind(py).repr().map_or_else(|_| "?".to_string(), |text| text.to_string());
            let rule = "choose(request, pool) must return a frame of the pool";
            Err(self.refuse(request, draws, &value, rule, "return pool[rank] for a rank below len(pool)"))
        })
    }
}
