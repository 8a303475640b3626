//! `paging` counts the page faults of many memory sizes in one pass.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use binhop_base::{Bytes, Result, counted_notes};
use binhop_sim::paging::{Paging, PagingOptions, Utilization, utilization};
use pyo3::prelude::*;

use crate::panic::caught;
use crate::problem::OrRaise;
use crate::progress::ProgressCallback;
use crate::source::PyStream;
use crate::table::PyTable;

/// `PyPagingOutcome` holds the results of a pass over a trace.
#[pyclass(frozen, get_all, name = "PagingOutcome", module = "binhop._binhop")]
pub(crate) struct PyPagingOutcome {
    /// References read.
    references: u64,
    /// Instructions fetched.
    instructions: u64,
    /// Faults: size (bytes), colors, `frames_per_color`, faults.
    faults: Py<PyTable>,
    /// The evenness with which pages use the colors: colors, `frames_per_color`, allocated; without the color
    /// counts that exceed the pages.
    utilization: Py<PyTable>,
    /// The pages, in order of first touch: page (virtual number), asid.
    first_touches: Py<PyTable>,
    /// Notes for the reader.
    notes: Vec<String>,
}

/// Reads a trace once and counts the page faults of every memory size with every color count.
#[pyfunction]
#[pyo3(signature = (stream, *, page, sizes, colors, length, pid_hash, ahead, progress=None))]
#[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn paging(
    py: Python<'_>,
    stream: &PyStream,
    page: &str,
    sizes: Vec<String>,
    colors: Vec<u64>,
    length: Option<u64>,
    pid_hash: bool,
    ahead: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<PyPagingOutcome> {
    let parsed: Result<Vec<Bytes>> = sizes.iter().map(|size| Bytes::parse(size, "sizes")).collect();
    let (sizes, page) = (parsed.or_raise(py)?, Bytes::parse(page, "page").or_raise(py)?);
    let options = PagingOptions { page, sizes, colors, length, pid_hash, ahead };
    let progress = ProgressCallback::new(progress, length);
    let known = stream.references();
    let source = stream.take().or_raise(py)?;
    let found = py.detach(|| {
        caught(|| {
            binhop_sim::paging::paging(source, &options, &mut |now| {
                progress.tell_of(now.references, now.of.or(known))
            })
        })
    });
    let found = found.map_err(|problem| progress.raise(py, &problem))?;
    Ok(PyPagingOutcome {
        references: found.references,
        instructions: found.instructions,
        faults: Py::new(py, PyTable::new(faults(&options, &found)))?,
        utilization: Py::new(py, PyTable::new(used(&options, &found)))?,
        first_touches: Py::new(py, PyTable::new(first_touches(&found)))?,
        notes: notes(&found),
    })
}

fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn numbers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn faults(options: &PagingOptions, found: &Paging) -> RecordBatch {
    let sizes = options.sizes.iter().enumerate();
    let cells: Vec<[u64; 4]> =
        sizes
            .flat_map(|(at, size)| {
                options.colors.iter().zip(&found.faults).map(move |(&colors, faults)| {
                    [size.0, colors, size.0 / options.page.0 / colors, faults[at]]
                })
            })
            .collect();
    let column = |at: usize| numbers(cells.iter().map(move |cell| cell[at]));
    table([
        ("size", column(0)),
        ("colors", column(1)),
        ("frames_per_color", column(2)),
        ("faults", column(3)),
    ])
}

fn used(options: &PagingOptions, found: &Paging) -> RecordBatch {
    let used: Vec<Utilization> = options
        .colors
        .iter()
        .filter_map(|&colors| utilization(&found.first_touches, colors, options.pid_hash))
        .collect();
    table([
        ("colors", numbers(used.iter().map(|used| used.colors))),
        ("frames_per_color", numbers(used.iter().map(|used| used.frames))),
        ("allocated", numbers(used.iter().map(|used| used.allocated))),
    ])
}

fn first_touches(found: &Paging) -> RecordBatch {
    let asids = found.first_touches.iter().map(|touch| touch.asid.0);
    table([
        ("page", numbers(found.first_touches.iter().map(|touch| touch.page_no.0))),
        ("asid", Arc::new(UInt32Array::from_iter_values(asids))),
    ])
}

fn notes(found: &Paging) -> Vec<String> {
    let parts = [
        (
            found.outside,
            ["page lies", "pages lie"],
            "outside every map of the trace: private memory is simulated there",
        ),
        (
            found.unaligned,
            ["page does", "pages do"],
            "not lie wholly in one segment of the trace: private memory is simulated there",
        ),
    ];
    counted_notes(parts)
}
