//! `summarise` summarises values over the placements.

use binhop_sim::Summary;
use pyo3::prelude::*;

/// `PySummary` holds the statistics of some values. `binhop_sim::Summary` says what each is.
#[pyclass(frozen, get_all, name = "Summary", module = "binhop._binhop")]
pub(crate) struct PySummary {
    n: usize,
    mean: Option<f64>,
    deviation: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    least: usize,
    greatest: usize,
    quantiles: Vec<Option<f64>>,
}

/// Summarises the values, with the quantiles of these shares.
#[pyfunction]
pub(crate) fn summarise(values: Vec<Option<f64>>, shares: Vec<f64>) -> PySummary {
    let Summary { n, mean, deviation, min, max, least, greatest, quantiles } = Summary::of(&values, &shares);
    PySummary { n, mean, deviation, min, max, least, greatest, quantiles }
}
