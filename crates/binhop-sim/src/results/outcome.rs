//! `Outcome` is what a run returns: tidy tables and notes.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use binhop_base::{Problem, Result, counted};

use super::account::Account;
use super::long_table::LongTable;
use super::metrics::each;
use super::switches::SwitchTables;
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::sharing::FrontSharing;

/// `Outcome` holds the results of one machine.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results, one row for each seed and metric: workload, machine, phase (`measured`, and `warm-up` if
    /// there was a warm-up), seed, metric, unit, value (null: undefined).
    pub results: RecordBatch,
    /// The series, one row for each seed, interval, cache and metric; empty without an interval.
    /// The column `instructions` holds the instructions of the interval. Intervals are counted from the start
    /// of the run, warm-up included.
    pub series: LongTable,
    /// The processes, one row for each seed, process and metric of the measured part. The counts of pages
    /// (`os.pages`, conflicts) describe the pages in memory when the address space exits, or at the end. If
    /// the number of an address space is used again, they describe its last life that had pages. No pages are
    /// counted at an exec.
    pub processes: LongTable,
    /// Every placement in order, if the options log placements: seed, fault, asid, page_no, page, segment,
    /// frame, and the evicted page, if a page was evicted.
    pub placements: Option<RecordBatch>,
    /// If the options watch a cache, the pages whose lines missed there again (demand misses on lines that
    /// were in the cache before): seed, page, asid, page_no, segment, frame, bin, misses.
    pub pages: Option<RecordBatch>,
    /// The tables of switches, if the options ask for them.
    pub switches: Option<SwitchTables>,
    /// If the options keep every interval after a switch, all of them: one row for each seed, segment and interval.
    pub pieces: Option<LongTable>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The resolved machine as TOML.
    pub machine: String,
}

/// `MachineReport` holds the tables of one machine for some of its seeds, and the facts from which its notes
/// are made.
pub(crate) struct MachineReport {
    pub(crate) results: RecordBatch,
    pub(crate) series: LongTable,
    pub(crate) processes: LongTable,
    pub(crate) placements: Option<RecordBatch>,
    pub(crate) pages: Option<RecordBatch>,
    pub(crate) switches: Option<SwitchTables>,
    pub(crate) pieces: Option<LongTable>,
    pub(crate) facts: Facts,
}

/// `Facts` hold what the placements so far have shown.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// For each cache, true if it evicted a line.
    pub(crate) cache_evicted: Vec<bool>,
    /// True if a page was evicted.
    pub(crate) page_evicted: bool,
    /// True if a page died.
    pub(crate) died: bool,
    /// The references and instructions of the trace.
    pub(crate) stream: [u64; 2],
    /// The notes on the trace, which are the same for every placement.
    pub(crate) trace: Vec<String>,
    /// The note on the first synonym in the first placement that has synonyms. Placements differ in what caches hold.
    pub(crate) synonym: Option<String>,
}

impl Facts {
    /// Adds what the placements of the following seeds have shown.
    fn extend(&mut self, more: Self) {
        let evicted = self.cache_evicted.iter_mut().zip(more.cache_evicted);
        evicted.for_each(|(mine, more)| *mine |= more);
        self.page_evicted |= more.page_evicted;
        self.died |= more.died;
        for note in more.trace {
            if !self.trace.contains(&note) {
                self.trace.push(note);
            }
        }
        self.synonym = self.synonym.take().or(more.synonym);
    }
}

impl MachineReport {
    /// Adds the report of the following seeds.
    ///
    /// # Errors
    /// The trace differs from the trace of the earlier rounds.
    pub(crate) fn extend(&mut self, more: Self, trace: &str) -> Result<()> {
        let [mine, other] = [&self.facts, &more.facts].map(|facts| &facts.stream);
        if mine != other {
            return Err(Problem::request(
                trace,
                "trace",
                &format!(
                    "the trace held {} in one round of seeds and {} in another, so it changed between the rounds",
                    counted(mine[0], ["reference", "references"]),
                    other[0]
                ),
                "keep the file as it is until the run ends",
            ));
        }
        self.series.add_seeds(&more.series);
        self.processes.add_seeds(&more.processes);
        if let (Some(mine), Some(more)) = (&mut self.pieces, &more.pieces) {
            mine.add_seeds(more);
        }
        self.append_tables(more);
        Ok(())
    }

    /// Adds what the report of the following seeds holds beside series, processes and pieces.
    fn append_tables(&mut self, more: Self) {
        self.results = below(&self.results, &more.results);
        for (mine, more) in [(&mut self.placements, more.placements), (&mut self.pages, more.pages)] {
            if let (Some(mine), Some(more)) = (mine, more) {
                *mine = below(mine, &more);
            }
        }
        if let (Some(mine), Some(more)) = (&mut self.switches, &more.switches) {
            mine.costs = below(&mine.costs, &more.costs);
            mine.curves = below(&mine.curves, &more.curves);
            mine.pages = below(&mine.pages, &more.pages);
            mine.commands.extend(more.commands.clone());
        }
        self.facts.extend(more.facts);
    }

    /// Adds the report of the following seeds, which had streams of their own.
    pub(crate) fn append(&mut self, mut more: Self) {
        // Each stream numbers its processes itself, so each seed is a part of these tables.
        self.series.extend(more.series.clone());
        self.processes.extend(more.processes.clone());
        if let (Some(mine), Some(more)) = (&mut self.pieces, more.pieces.take()) {
            mine.extend(more);
        }
        self.append_tables(more);
    }

    /// Makes the outcome of all seeds of the options.
    pub(crate) fn finish(self, machine: &Machine, options: &RunOptions) -> Outcome {
        let notes = notes(machine, options, &self.facts);
        let Self { results, series, processes, placements, pages, switches, pieces, .. } = self;
        let machine = machine.resolved();
        Outcome { results, series, processes, placements, pages, switches, pieces, notes, machine }
    }
}

/// Puts one table below another.
fn below(first: &RecordBatch, second: &RecordBatch) -> RecordBatch {
    concat_batches(&first.schema(), [first, second]).expect("tables of one run have one schema")
}

/// `Values` are the columns that every table has at its end.
#[derive(Default)]
struct Values {
    metric: StringBuilder,
    unit: StringBuilder,
    value: Float64Builder,
}

impl Values {
    fn push(&mut self, metric: &str, unit: &str, value: Option<f64>) {
        self.metric.append_value(metric);
        self.unit.append_value(unit);
        self.value.append_option(value);
    }

    fn finish(mut self, machine: &Machine, workload: &str, keys: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let metric: ArrayRef = Arc::new(self.metric.finish());
        let rows = metric.len();
        let repeat = |text: &str| -> ArrayRef {
            Arc::new((0..rows).map(|_| Some(text)).collect::<arrow_array::StringArray>())
        };
        let mut columns: Vec<(&str, ArrayRef)> =
            vec![("workload", repeat(workload)), ("machine", repeat(machine.name()))];
        columns.extend(keys);
        columns.push(("metric", metric));
        columns.push(("unit", Arc::new(self.unit.finish())));
        columns.push(("value", Arc::new(self.value.finish())));
        let nullable = |name: &str| name == "value";
        let field =
            |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), nullable(name));
        debug_assert!(columns.iter().all(|(_, array)| *array.data_type() != DataType::Null));
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(schema), arrays).expect("columns of one table agree in length and type")
    }
}

/// Makes the table of results of one machine from the accounts of its seeds.
pub(crate) fn results(machine: &Machine, workload: &str, accounts: &[(u64, &Account)]) -> RecordBatch {
    let (mut phase, mut seed, mut values) = (StringBuilder::new(), UInt64Builder::new(), Values::default());
    for &(of_seed, account) in accounts {
        let (warmup, measured) = account.phases();
        let phases = [warmup.map(|tally| ("warm-up", tally)), Some(("measured", &measured))];
        for (name, tally) in phases.into_iter().flatten() {
            each(machine, tally, |metric, unit, value| {
                phase.append_value(name);
                seed.append_value(of_seed);
                values.push(&metric, unit, value);
            });
        }
    }
    values.finish(
        machine,
        workload,
        vec![("phase", Arc::new(phase.finish())), ("seed", Arc::new(seed.finish()))],
    )
}

fn notes(machine: &Machine, options: &RunOptions, facts: &Facts) -> Vec<String> {
    let mut notes = machine.notes().to_vec();
    for (cache, evicted) in machine.tree().config().caches.iter().zip(&facts.cache_evicted) {
        if !evicted && cache.ways > 1 {
            notes.push(format!("{} saw no eviction: its replacement cannot matter here", cache.name));
        }
    }
    notes.extend(facts.trace.iter().chain(&facts.synonym).cloned());
    // A tapped front is never shared.
    if options.seeds.len() > 1 && !options.front_tap {
        // The machine gets the note that it would get if it ran alone with all seeds at once.
        let sharing = match options.shares_stages() {
            true => FrontSharing::alone(machine, options.seeds.len(), options.subscription()),
            false => options.no_front_is_shared(),
        };
        notes.push(sharing.reason().to_string());
        let which = if sharing == FrontSharing::Equal { "every level" } else { "level 1" };
        let is_shared = matches!(sharing, FrontSharing::Shared | FrontSharing::Equal);
        if is_shared && facts.page_evicted {
            notes
                .push(format!("since pages were evicted, {which} was simulated for each seed from there on"));
        } else if is_shared && machine.reuses_frames() && facts.died {
            notes.push(format!(
                "since the frames of dead pages go to the next pages, {which} was simulated for each seed from the \
                 first death on"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_rounds_names_the_synonym_of_its_first_placement_alone() {
        let facts = |note: &str, synonym: Option<&str>| Facts {
            trace: vec![note.to_string()],
            synonym: synonym.map(str::to_string),
            ..Facts::default()
        };
        let mut all = facts("of the trace", None);
        all.extend(facts("of the trace", Some("a fetch")));
        all.extend(facts("of the trace", Some("a load")));
        assert_eq!((all.trace, all.synonym), (vec!["of the trace".to_string()], Some("a fetch".to_string())));
    }
}
