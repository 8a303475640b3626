//! These functions check a trace without a simulation: inspect and lint.

use binhop_trace::lint::Severity;
use binhop_trace::{inspect, lint};
use pyo3::prelude::*;

use crate::source::{PyStream, json};

/// Reads a stream (at most `length` references) and reports what is in it and what is missing, as JSON.
#[pyfunction]
#[pyo3(name = "inspect", signature = (stream, length=None, progress=None))]
pub(crate) fn inspect_stream(
    py: Python<'_>,
    stream: &PyStream,
    length: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (report, _) = stream.read(py, length, progress, |source, facts, progress| {
        inspect::inspect(source, facts, &mut |totals| progress.tell(totals.references))
    })?;
    Ok(json(&report))
}

/// Reads a stream (at most `length` references), checks it, and returns the findings as JSON.
#[pyfunction]
#[pyo3(name = "lint", signature = (stream, length=None, progress=None))]
pub(crate) fn lint_stream(
    py: Python<'_>,
    stream: &PyStream,
    length: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (findings, _) = stream.read(py, length, progress, |source, facts, progress| {
        lint::lint(source, facts, &mut |totals| progress.tell(totals.references))
    })?;
    Ok(json(&findings))
}

/// Returns (name, severity, meaning, remedy) of each rule that `lint` checks.
#[pyfunction]
pub(crate) fn lint_rules() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    let severity = |severity| match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    lint::RULES.iter().map(|rule| (rule.name, severity(rule.severity), rule.meaning, rule.remedy)).collect()
}
