//! The Python extension `binhop._binhop` is a thin layer over the other crates, and the only crate that knows
//! Python. Users see the package `python/binhop`, which wraps this extension. A class of the extension is
//! called `Py…` in Rust.

mod calibration;
mod checks;
mod device_data;
mod dram;
mod export;
mod lists;
mod machine;
mod memory;
mod mix;
mod paging;
mod panic;
mod policy;
mod problem;
mod progress;
mod record;
mod reuse;
mod simulate;
mod source;
mod summary;
mod table;

use pyo3::pymodule;

/// The allocator is mimalloc, because batches go from thread to thread and live only a moment (see the note
/// at the dependency in `Cargo.toml`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// This module is the compiled part of binhop.
#[pymodule]
mod _binhop {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::calibration::{PyTrial, measure_stream_trial, trial_targets};
    #[pymodule_export]
    use super::checks::{inspect_stream, lint_rules, lint_stream};
    #[pymodule_export]
    use super::device_data::{
        PyDeviceDataOutcome, device_data, device_data_metrics, path_counts, refused_schemes, schemes,
        schemes_for,
    };
    #[pymodule_export]
    use super::dram::{PyServedRequests, dram_presets, serve_requests};
    #[pymodule_export]
    use super::export::export_memory;
    #[pymodule_export]
    use super::lists::{
        calibration_targets, counters, event_lines, events, exporters, formats, kinds, machine_keys,
        machines, map_flags, packings, policies, steering_characters, workloads,
    };
    #[pymodule_export]
    use super::machine::PyMachine;
    #[pymodule_export]
    use super::mix::mix;
    #[pymodule_export]
    use super::paging::{PyPagingOutcome, paging};
    #[pymodule_export]
    use super::policy::{PyPool, PyRequest};
    #[pymodule_export]
    use super::problem::read_text;
    #[pymodule_export]
    use super::record::{observe, record, tracing_refused};
    #[pymodule_export]
    use super::reuse::{PyReuseOutcome, reuse};
    #[pymodule_export]
    use super::simulate::{PyOutcome, explain, simulate, unknown};
    #[pymodule_export]
    use super::source::{PyStream, format_of_path, made_by};
    #[pymodule_export]
    use super::summary::{PySummary, summarise};
    #[pymodule_export]
    use super::table::{PyLongTable, PyTable, PyTableBatches, stored_batches, write_tables};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::panic::install();
        binhop_trace::wait::set_hook(super::problem::check_signals);
        super::table::close_at_exit(module.py())
    }

    /// The version of binhop.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's own name")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// The most placements one run holds.
    #[pymodule_export]
    const MOST_SEEDS: usize = binhop_sim::MOST_SEEDS;

    /// The switches in each of MB90's trials.
    #[pymodule_export]
    const TRIAL_SWITCHES: u64 = binhop_workload::calibration::SWITCHES;
}
