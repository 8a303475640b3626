//! The outcome of a run: tidy tables and notes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Builder, RecordBatch, StringBuilder, UInt64Builder};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use binhop_base::{PageId, Problem, Result};
use binhop_trace::Meta;

use crate::account::Account;
use crate::back_model::BackModel;
use crate::detail::{self, Logged};
use crate::front::Sharing;
use crate::lane::Lane;
use crate::long_table::{LongTable, Part};
use crate::machine::Machine;
use crate::metrics::each;
use crate::plan::Plan;
use crate::prepare::{Prepare, Process};
use crate::tally::Tally;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// One row for each seed and metric: workload, machine, phase (`measured`, and `warm-up` if there was
    /// one), seed, metric, unit, value (null: undefined).
    pub results: RecordBatch,
    /// One row for each seed, interval, cache and metric; empty without an interval. `instructions` are
    /// those of the interval. Intervals count from the start, warm-up included.
    pub series: LongTable,
    /// One row for each seed, process and metric of the measured part. What it says of pages (`os.pages`,
    /// conflicts) is about those in memory at the exit of the address space, or at the end; of a number used
    /// again, those of its last life that had any. An exec takes no sample.
    pub processes: LongTable,
    /// Every placement in order, if the plan logs them: seed, fault, asid, page_no, page, segment, frame, and
    /// the page evicted, if one was.
    pub placements: Option<RecordBatch>,
    /// If the plan watches a cache, the pages whose lines missed there again (demand misses on lines that
    /// were in it before): seed, page, asid, page_no, segment, frame, bin, misses.
    pub pages: Option<RecordBatch>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The machine, resolved, as TOML.
    pub machine: String,
}

/// `Told` is one machine in one lane, as results read it.
pub(crate) struct Told<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) back: &'a BackModel,
}

impl<'a> Told<'a> {
    fn seed(&self) -> u64 {
        self.lane.seed
    }

    fn account(&self) -> &'a Account {
        &self.back.account
    }
}

/// A finished run, before it is told.
pub(crate) struct Run<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) plan: &'a Plan,
    /// By seed, in the order of the plan.
    pub(crate) parts: &'a [Told<'a>],
    pub(crate) prepare: &'a Prepare,
    /// Every process of the stream, by its number.
    pub(crate) processes: Arc<[Process]>,
    pub(crate) meta: &'a Meta,
}

/// The tables of one machine for some of its seeds, and what its notes depend on.
pub(crate) struct Report {
    results: RecordBatch,
    series: LongTable,
    processes: LongTable,
    placements: Option<RecordBatch>,
    pages: Option<RecordBatch>,
    facts: Facts,
}

/// Facts about all placements so far.
struct Facts {
    /// For each cache, whether it evicted.
    cache_evicted: Vec<bool>,
    /// True if a page was evicted.
    page_evicted: bool,
    /// True if a page died.
    died: bool,
    /// References and instructions of the trace.
    stream: [u64; 2],
    /// Notes on the trace: of every placement the same.
    trace: Vec<String>,
}

pub(crate) fn report(run: &Run<'_>) -> Report {
    let Run { plan, parts, prepare, .. } = *run;
    let caches = run.machine.tree().config().caches.len();
    let ends: Vec<Tally> = parts.iter().map(|part| part.account().phases().1).collect();
    let stream = prepare.stream();
    let facts = Facts {
        cache_evicted: (0..caches)
            .map(|cache| ends.iter().any(|end| end.caches[cache].evictions > 0))
            .collect(),
        page_evicted: parts.iter().any(|part| part.account().end().evictions > 0),
        died: prepare.saw_death(),
        stream: [stream.references, stream.instructions],
        trace: trace_notes(run),
    };
    let streamed = streamed(run);
    Report {
        results: results(run),
        series: LongTable::series(Arc::clone(&streamed)),
        processes: LongTable::processes(streamed),
        placements: plan.log.then(|| placements(run)),
        pages: plan.watch.as_ref().map(|_| pages(run)),
        facts,
    }
}

/// Gathers what lanes streamed of intervals and processes.
fn streamed(run: &Run<'_>) -> Arc<Part> {
    let caches = &run.machine.tree().config().caches;
    Arc::new(Part {
        workload: run.plan.workload.clone(),
        machine: run.machine.name().to_string(),
        caches: caches.iter().map(|cache| cache.name.clone()).collect(),
        divided: run.parts.first().map_or(Vec::new(), |part| part.back.divided()),
        processes: Arc::clone(&run.processes),
        seeds: run.parts.iter().map(|part| (part.seed(), part.account().readings().clone())).collect(),
    })
}

impl Report {
    /// Adds the seeds that follow.
    ///
    /// # Errors
    /// The trace was another one.
    pub(crate) fn extend(&mut self, more: Self, trace: &str) -> Result<()> {
        let [mine, other] = [&self.facts, &more.facts].map(|facts| &facts.stream);
        if mine != other {
            return Err(Problem::request(
                trace,
                "trace",
                &format!(
                    "it held {} references in one round of seeds and {} in another: it changed meanwhile",
                    mine[0], other[0]
                ),
                "leave it alone until the run is over",
            ));
        }
        self.results = below(&self.results, &more.results);
        self.series.add_seeds(&more.series);
        self.processes.add_seeds(&more.processes);
        for (mine, more) in [(&mut self.placements, more.placements), (&mut self.pages, more.pages)] {
            if let (Some(mine), Some(more)) = (mine, more) {
                *mine = below(mine, &more);
            }
        }
        let evicted = self.facts.cache_evicted.iter_mut().zip(more.facts.cache_evicted);
        evicted.for_each(|(mine, more)| *mine |= more);
        self.facts.page_evicted |= more.facts.page_evicted;
        Ok(())
    }

    /// The outcome of all seeds of the plan.
    pub(crate) fn finish(self, machine: &Machine, plan: &Plan) -> Outcome {
        let notes = notes(machine, plan, &self.facts);
        let Self { results, series, processes, placements, pages, .. } = self;
        Outcome { results, series, processes, placements, pages, notes, machine: machine.resolved() }
    }
}

/// Puts one table below another.
fn below(first: &RecordBatch, second: &RecordBatch) -> RecordBatch {
    concat_batches(&first.schema(), [first, second]).expect("tables of one run have one schema")
}

/// The columns every table has at its end.
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

    fn finish(mut self, run: &Run<'_>, keys: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let metric: ArrayRef = Arc::new(self.metric.finish());
        let rows = metric.len();
        let repeat = |text: &str| -> ArrayRef {
            Arc::new((0..rows).map(|_| Some(text)).collect::<arrow::array::StringArray>())
        };
        let mut columns: Vec<(&str, ArrayRef)> =
            vec![("workload", repeat(&run.plan.workload)), ("machine", repeat(run.machine.name()))];
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

fn results(run: &Run<'_>) -> RecordBatch {
    let (mut phase, mut seed, mut values) = (StringBuilder::new(), UInt64Builder::new(), Values::default());
    for part in run.parts {
        let account = part.account();
        let (warmup, measured) = account.phases();
        let phases = [warmup.map(|tally| ("warm-up", tally)), Some(("measured", &measured))];
        for (name, tally) in phases.into_iter().flatten() {
            each(run.machine, tally, |metric, unit, value| {
                phase.append_value(name);
                seed.append_value(part.seed());
                values.push(&metric, unit, value);
            });
        }
    }
    values.finish(run, vec![("phase", Arc::new(phase.finish())), ("seed", Arc::new(seed.finish()))])
}

fn placements(run: &Run<'_>) -> RecordBatch {
    let lanes: Vec<(u64, &[Logged])> =
        run.parts.iter().filter_map(|part| Some((part.seed(), part.lane.log()?))).collect();
    detail::placements(&lanes)
}

fn pages(run: &Run<'_>) -> RecordBatch {
    let frames: Vec<_> =
        run.parts.iter().map(|part| move |page: PageId| part.lane.last_frame(page)).collect();
    let lanes: Vec<_> = run
        .parts
        .iter()
        .zip(&frames)
        .filter_map(|(part, frame_of)| part.lane.repeats(part.back, frame_of))
        .collect();
    detail::pages(&lanes, run.prepare.spaces(), run.meta)
}

fn notes(machine: &Machine, plan: &Plan, facts: &Facts) -> Vec<String> {
    let mut notes = machine.notes().to_vec();
    for (cache, evicted) in machine.tree().config().caches.iter().zip(&facts.cache_evicted) {
        if !evicted && cache.ways > 1 {
            notes.push(format!("{} saw no eviction: its replacement cannot matter here", cache.name));
        }
    }
    notes.extend_from_slice(&facts.trace);
    if plan.seeds.len() > 1 {
        // As if the machine ran alone, all seeds at once: what else ran beside it is no concern of its results.
        let sharing = match plan.shares_stages() {
            true => Sharing::of(machine.tree(), plan.seeds.len(), plan.asks()),
            false => Sharing::Off,
        };
        notes.push(sharing.reason().to_string());
        if sharing == Sharing::Shared && facts.page_evicted {
            notes.push(
                "since pages were evicted, level 1 was simulated for each seed from there on".to_string(),
            );
        } else if sharing == Sharing::Shared && machine.reuses_frames() && facts.died {
            notes.push(
                "since the frames of dead pages go to the next pages, level 1 was simulated for each seed from the first death on"
                    .to_string(),
            );
        }
    }
    notes
}

/// Returns the notes on the trace.
fn trace_notes(run: &Run<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let seen = run.prepare.seen();
    if seen.syscalls > 0 {
        let count = seen.syscalls;
        notes.push(format!(
            "{count} system calls passed over: what the kernel itself references is not in the trace"
        ));
    }
    if seen.outside > 0 && run.prepare.spaces().has_maps() {
        notes.push(format!("{} pages lie outside every map of the trace: taken as private", seen.outside));
    }
    let unaligned = run.prepare.spaces().unaligned();
    if unaligned > 0 {
        notes.push(format!(
            "{unaligned} pages do not lie wholly in one segment of the trace: taken as private"
        ));
    }
    if run.meta.sizes.as_deref() == Some("assumed") {
        notes.push("access sizes are assumed, not recorded".to_string());
    }
    notes
}
