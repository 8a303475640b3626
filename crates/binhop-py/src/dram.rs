//! `serve_requests` serves a list of requests by a memory with a controller.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use binhop_base::{Problem, Result};
use binhop_hw::{
    DRAM_PRESETS, Dram, DramCommand, DramConfig, DramCounters, DramListener, DramOrganisation, DramRequest,
    DramUseCounters, RowOutcome,
};
use binhop_sim::machine::DramSetup;
use pyo3::prelude::*;

use crate::panic::caught;
use crate::problem::{OrRaise, check_signals};
use crate::table::{PyTable, batches_of};

/// The requests between two looks for signals.
const SPAN: usize = 1 << 16;

/// `PyServedRequests` holds what a memory made of a list of requests.
#[pyclass(frozen, get_all, name = "ServedRequests", module = "binhop._binhop")]
pub(crate) struct PyServedRequests {
    /// The requests, in order: arrival, address, write, entered, done, row.
    requests: Py<PyTable>,
    /// The commands, in the order of their cycles: cycle, command, channel, rank, bank, row. `None` if they were not
    /// asked for.
    commands: Option<Py<PyTable>>,
    /// (name, unit, meaning, value) of each count.
    counts: Vec<(&'static str, &'static str, &'static str, u64)>,
    /// (key, value) of the memory: its mapping, queue, marks and pages, and its parts and timing.
    memory: Vec<(&'static str, String)>,
    /// The picoseconds of a cycle.
    cycle_ps: u64,
}

/// Serves requests by a memory. `keys` are those of `[dram]` with their values. `requests` is a table with the columns
/// arrival, address (64-bit unsigned integers) and write (Boolean). With `picoseconds`, an arrival is a time, and the
/// request arrives at the first cycle that does not begin before it.
#[pyfunction]
pub(crate) fn serve_requests(
    py: Python<'_>,
    keys: Vec<(String, String)>,
    requests: &Bound<'_, PyAny>,
    picoseconds: bool,
    commands: bool,
) -> PyResult<PyServedRequests> {
    let config = DramSetup::of_keys(&keys, "memory").or_raise(py)?.config;
    let batches = batches_of(requests, "requests")?;
    let mut served = py.detach(|| caught(|| serve(config, &batches, picoseconds, commands))).or_raise(py)?;
    Ok(PyServedRequests {
        requests: Py::new(py, PyTable::new(served.requests()))?,
        commands: commands
            .then(|| Py::new(py, PyTable::new(commands_table(&served.commands))))
            .transpose()?,
        counts: served.counts,
        memory: described(&config),
        cycle_ps: config.timing.cycle_ps,
    })
}

/// `Served` gathers what happens to requests.
#[derive(Default)]
struct Served {
    arrivals: Vec<u64>,
    addresses: Vec<u64>,
    writes: Vec<bool>,
    entered: Vec<u64>,
    done: Vec<u64>,
    outcomes: Vec<Option<RowOutcome>>,
    keeps_commands: bool,
    commands: Vec<DramCommand>,
    counts: Vec<(&'static str, &'static str, &'static str, u64)>,
}

impl DramListener for Served {
    fn command(&mut self, command: &DramCommand) {
        if self.keeps_commands {
            self.commands.push(*command);
        }
    }

    fn done(&mut self, request: u64, cycle: u64, outcome: RowOutcome) {
        // A forwarded read is done before `push` returns its number.
        let place = request as usize;
        if self.done.len() <= place {
            self.done.resize(place + 1, 0);
            self.outcomes.resize(place + 1, None);
        }
        self.done[place] = cycle;
        self.outcomes[place] = Some(outcome);
    }
}

fn serve(
    config: DramConfig,
    batches: &[RecordBatch],
    picoseconds: bool,
    keeps_commands: bool,
) -> Result<Served> {
    let mut dram = Dram::new(config)?;
    let mut served = Served { keeps_commands, ..Served::default() };
    let (bytes, cycle_ps) = (config.organisation.bytes(), config.timing.cycle_ps);
    let mut last = 0;
    for batch in batches {
        let arrivals = batch.column(0).as_primitive::<UInt64Type>().values();
        let addresses = batch.column(1).as_primitive::<UInt64Type>().values();
        let writes = batch.column(2).as_boolean().values();
        for row in 0..batch.num_rows() {
            let (given, address, write) = (arrivals[row], addresses[row], writes.value(row));
            let number = served.arrivals.len();
            let arrival = if picoseconds { given.div_ceil(cycle_ps) } else { given };
            let refuse = |value: u64, column: &str, rule: &str, remedy: &str| {
                let place = format!("requests: row {number}: {column}");
                Err(Problem::request(&value.to_string(), &place, rule, remedy))
            };
            let column = if picoseconds { "arrival_ps" } else { "arrival" };
            if given < last {
                let rule = format!(
                    "requests come in the order of their arrival, and the one before arrives at {last}"
                );
                return refuse(given, column, &rule, "sort the requests by their arrival");
            }
            if arrival > LAST_ARRIVAL {
                let rule = format!("a request arrives at cycle {LAST_ARRIVAL} at the latest");
                return refuse(given, column, &rule, "count arrivals from the first request on");
            }
            if address >= bytes {
                let rule = format!("the memory has {bytes} bytes");
                let remedy = "take addresses below that, or a larger memory (rows, banks, ranks or channels)";
                return refuse(address, "address", &rule, remedy);
            }
            last = given;
            let request = DramRequest { arrival, line: address / DramOrganisation::LINE, write, class: 0 };
            let (_, entered) = dram.push(&request, &mut served);
            served.arrivals.push(arrival);
            served.addresses.push(address);
            served.writes.push(write);
            served.entered.push(entered);
            if number.is_multiple_of(SPAN) {
                check_signals()?;
            }
        }
    }
    dram.finish(&mut served);
    let end = served.done.iter().copied().max().unwrap_or(0);
    dram.go_on_until(end, &mut served);
    // Each channel has issued its commands in order.
    served.commands.sort_by_key(|command| command.cycle);
    served.counts = counts(dram.class(0), &dram.counters());
    Ok(served)
}

/// The last cycle at which a request may arrive: half of the cycles that a memory can count.
const LAST_ARRIVAL: u64 = (1 << 39) - 1;

fn counts(
    requests: &DramUseCounters,
    commands: &DramCounters,
) -> Vec<(&'static str, &'static str, &'static str, u64)> {
    let mut counts = Vec::new();
    requests.each(|info, _, value| counts.push((info.name, info.unit, info.meaning, value)));
    commands.each(|info, _, value| counts.push((info.name, info.unit, info.meaning, value)));
    counts
}

fn numbers(values: Vec<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from(values))
}

impl Served {
    /// Returns the table of requests. The columns move into the table.
    fn requests(&mut self) -> RecordBatch {
        use std::mem::take;
        let outcome = |outcome: &Option<RowOutcome>| outcome.expect("every request is done").name();
        let rows = StringArray::from_iter_values(self.outcomes.iter().map(outcome));
        let columns: [(&str, ArrayRef); 6] = [
            ("arrival", numbers(take(&mut self.arrivals))),
            ("address", numbers(take(&mut self.addresses))),
            ("write", Arc::new(arrow_array::BooleanArray::from(take(&mut self.writes)))),
            ("entered", numbers(take(&mut self.entered))),
            ("done", numbers(take(&mut self.done))),
            ("row", Arc::new(rows)),
        ];
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    }
}

/// Returns the table of commands. A row is null if the command names no row. A bank is null if the command is for a
/// whole rank.
fn commands_table(commands: &[DramCommand]) -> RecordBatch {
    use binhop_hw::DramCommandKind::{Activate, PrechargeAll, Read, Refresh, Write};
    let number = |of: fn(&DramCommand) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(commands.iter().map(of)))
    };
    let optional = |of: fn(&DramCommand) -> Option<u32>| -> ArrayRef {
        Arc::new(commands.iter().map(of).collect::<UInt32Array>())
    };
    let names = StringArray::from_iter_values(commands.iter().map(|command| command.kind.name()));
    let columns: [(&str, ArrayRef, bool); 6] = [
        (
            "cycle",
            Arc::new(UInt64Array::from_iter_values(commands.iter().map(|command| command.cycle))),
            false,
        ),
        ("command", Arc::new(names), false),
        ("channel", number(|command| command.channel), false),
        ("rank", number(|command| command.rank), false),
        ("bank", optional(|of| (!matches!(of.kind, PrechargeAll | Refresh)).then_some(of.bank)), true),
        ("row", optional(|of| matches!(of.kind, Activate | Read | Write).then_some(of.row)), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Returns the keys of a memory with their values.
fn described(config: &DramConfig) -> Vec<(&'static str, String)> {
    let mut keys = vec![
        ("mapping", config.mapping.name()),
        ("queue", config.queue.to_string()),
        ("drain-high", config.drain_high.to_string()),
        ("drain-low", config.drain_low.to_string()),
        ("pages", config.pages.name().to_string()),
    ];
    keys.extend(config.organisation.parts().map(|(name, number)| (name, number.to_string())));
    keys.extend(config.timing.parts().map(|(name, cycles)| (name, cycles.to_string())));
    keys
}

type PresetRow = (&'static str, &'static str, Vec<(&'static str, u64)>);

/// Returns (name, part of the datasheet, its bytes, parts and timing by name) of each memory with a name.
#[pyfunction]
pub(crate) fn dram_presets() -> Vec<PresetRow> {
    let row = |preset: &'static binhop_hw::DramPreset| {
        let mut figures = vec![("bytes", preset.organisation.bytes())];
        figures.extend(preset.organisation.parts().map(|(name, number)| (name, u64::from(number))));
        figures.extend(preset.timing.parts());
        (preset.name, preset.source, figures)
    };
    DRAM_PRESETS.iter().map(row).collect()
}
