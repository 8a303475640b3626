//! `feedback` runs a source that is steered by lanes: quanta are cycles of the lane's own caches, references to
//! pages that the lane has evicted block, or both.
//!
//! Each machine and seed has a pipeline of its own: source → preparation → lane. Nothing is shared, because the streams
//! differ. After each piece the source is told how many cycles the lane has taken. A piece holds as many rows as
//! surely fit in what is left of the quantum ([`WorstCase`]), and then one instruction with its data. Where returning
//! pages block, a row that places a page goes by itself, because it may evict a page that a later row needs. So the
//! result equals the result of the stepper, which simulates one row after the other; `sim/tests/feedback.rs` compares
//! the two.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use binhop_base::{Class, PageNo, Problem, Result, counted};
use binhop_trace::source::{LaneView, Steered};
use binhop_trace::transform::Limit;
use binhop_trace::{EventBatch, Op, Source};

use super::engine::{check_machines, report};
use super::memory_estimate::{MemoryEstimate, guess};
use super::producer::preparation;
use super::rounds::check_one_fits;
use super::worker::{PolicyMaker, Worker, lanes};
use super::worst_case::WorstCase;
use crate::machine::Machine;
use crate::memory_limit::MemoryLimit;
use crate::options::RunOptions;
use crate::prepare::{Flow, Growth, Prepare};
use crate::progress::{InterruptCheck, Progress, ProgressReporter};
use crate::results::account::broken;
use crate::results::outcome::{MachineReport, Outcome};
use crate::sharing::SharingPlan;

/// `OpenSteered` opens a steered source at its beginning. Each machine and seed reads a source of its own.
pub type OpenSteered<'a> = &'a (dyn Fn() -> Result<Box<dyn Steered>> + Sync);

/// The interval at which the calling thread reports progress while it waits for the lanes.
const LISTEN: Duration = Duration::from_millis(50);
/// The number of pieces between two checks whether a lane's memory suffices and whether the run was interrupted.
const PIECES_BETWEEN_CHECKS: u64 = 1 << 12;

/// Simulates a steered source on machines, each under one placement for each seed. Each machine and seed has a stream
/// of its own. The results are those of [`simulate_all`](crate::simulate_all).
///
/// # Errors
/// The errors of [`simulate_all`](crate::simulate_all); or quanta are cycles, and a machine has no `[cost]`.
pub fn simulate_steered(
    machines: &[Machine],
    open: OpenSteered<'_>,
    options: &RunOptions,
    policy: Option<PolicyMaker<'_>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Outcome>> {
    options.check()?;
    check_machines(machines, policy.is_some())?;
    let machines = apart(machines, options)?;
    for (machine, options) in &machines {
        check_one_fits(machine, options)?;
    }
    let jobs = Jobs { machines: &machines, open, options, policy, workers: workers(&machines, options) };
    let reports = jobs.run(progress)?;
    let mut reports = reports.into_iter();
    let outcome = |(machine, options): &(Machine, RunOptions)| {
        let of_one_seed = RunOptions { seeds: vec![options.seeds[0]], ..options.clone() };
        let mut of_machine = reports.by_ref().take(options.seeds.len());
        let mut all = of_machine.next().expect("each seed has a report");
        of_machine.for_each(|more| all.append(more));
        all.finish(machine, &of_one_seed)
    };
    Ok(machines.iter().map(outcome).collect())
}

/// Returns each machine with the options of its run, with its kernel and the agents of units.
pub(crate) fn apart(machines: &[Machine], options: &RunOptions) -> Result<Vec<(Machine, RunOptions)>> {
    let one = |machine: &Machine| {
        let options = options.with_kernel(std::slice::from_ref(machine))?.into_owned();
        let translates = machine.translation().is_some() || machine.softvm().is_some();
        if translates || machine.protection().is_some() {
            let (value, rule, remedy) = if translates {
                (
                    "translation",
                    "where processes run as long as a lane's own cycles or faults say, a walk is not bounded \
                     beforehand",
                    "take --set translation=off without line-protection, or a quantum in instructions",
                )
            } else {
                (
                    "translation.line-protection",
                    "where processes run as long as a lane's own cycles or faults say, a sweep of lines is not \
                     bounded beforehand",
                    "leave translation.line-protection out, or take a quantum in instructions",
                )
            };
            let place = format!("machine {}", machine.name());
            return Err(Problem::request(value, &place, rule, remedy));
        }
        let machine = options.with_units(std::slice::from_ref(machine))?[0].clone();
        Ok((machine, options))
    };
    machines.iter().map(one).collect()
}

/// Checks that a machine counts cycles, if quanta are cycles.
///
/// # Errors
/// The machine has no `[cost]`.
pub(crate) fn check_cost(machine: &Machine, quantum: Option<u64>) -> Result<()> {
    match quantum {
        Some(cycles) if !machine.has_cost() => Err(Problem::request(
            &counted(cycles, ["cycle", "cycles"]),
            &format!("quantum, on machine {}", machine.name()),
            "the machine has no [cost], so it does not say how many cycles a miss takes",
            "add [cost] to the machine, or give the quantum in instructions",
        )),
        _ => Ok(()),
    }
}

/// Returns how many lanes are simulated at the same time: at most one for each thread, and no more than fit.
fn workers(machines: &[(Machine, RunOptions)], options: &RunOptions) -> usize {
    let jobs = options.threads.min(machines.len() * options.seeds.len());
    let Some(memory) = &options.memory else { return jobs };
    let each = machines.iter().map(|(machine, options)| bytes(machine, options, guess(options)));
    let largest = each.max().unwrap_or(0);
    jobs.min((memory.bytes / largest.max(1)) as usize).max(1)
}

/// Returns the estimated bytes of one machine under one seed.
fn bytes(machine: &Machine, options: &RunOptions, growth: Growth) -> u64 {
    let options = RunOptions { threads: 1, seeds: vec![options.seeds[0]], ..options.clone() };
    MemoryEstimate::of(std::slice::from_ref(machine), std::slice::from_ref(machine), &options, true)
        .bytes(1, 1, growth)
}

/// `Jobs` are the machines and seeds of a run, each of which is simulated by itself.
struct Jobs<'a> {
    machines: &'a [(Machine, RunOptions)],
    open: OpenSteered<'a>,
    options: &'a RunOptions,
    policy: Option<PolicyMaker<'a>>,
    workers: usize,
}

impl Jobs<'_> {
    /// Runs every job. Returns the reports in order: all seeds of the first machine, then of the second.
    fn run(&self, progress: &mut dyn FnMut(&Progress) -> Result<()>) -> Result<Vec<MachineReport>> {
        let seeds = self.options.seeds.len();
        let all = self.machines.len() * seeds;
        let stop = AtomicBool::new(false);
        let next = AtomicUsize::new(0);
        let done: Vec<AtomicU64> = (0..all).map(|_| AtomicU64::new(0)).collect();
        let reports: Mutex<Vec<Option<MachineReport>>> = Mutex::new((0..all).map(|_| None).collect());
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= all {
                    return Ok(());
                }
                let mut tell = |now: &Progress| {
                    done[number].store(now.references, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) { Err(Problem::interrupted()) } else { Ok(()) }
                };
                let report =
                    self.job(&self.machines[number / seeds], self.options.seeds[number % seeds], &mut tell)?;
                reports.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(report);
            }
        };
        let references = || {
            let sum: u128 = done.iter().map(|done| u128::from(done.load(Ordering::Relaxed))).sum();
            Progress { references: (sum / all as u128) as u64, of: self.options.length }
        };
        std::thread::scope(|scope| {
            let (sender, ended) = channel::<()>();
            let spawn = |_| {
                let sender = sender.clone();
                let (work, stop) = (&work, &stop);
                scope.spawn(move || {
                    let _sender = sender; // dropped when the thread ends, however it ends
                    work().inspect_err(|_| stop.store(true, Ordering::Relaxed))
                })
            };
            let threads: Vec<_> = (0..self.workers).map(spawn).collect();
            drop(sender);
            let mut told = Ok(());
            while ended.recv_timeout(LISTEN) == Err(RecvTimeoutError::Timeout) {
                if told.is_ok() {
                    told = progress(&references());
                    stop.fetch_or(told.is_err(), Ordering::Relaxed);
                }
            }
            let (mut failed, mut stopped) = (None, None);
            for thread in threads {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(problem)) if problem.class == Class::Interrupted => stopped = Some(problem),
                    Ok(Err(problem)) => failed = failed.or(Some(problem)),
                    Err(panic) => resume_unwind(panic),
                }
            }
            told?;
            failed.or(stopped).map_or(Ok(()), Err)
        })?;
        progress(&references())?;
        let reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(reports.into_iter().map(|report| report.expect("every job has a report")).collect())
    }

    /// Simulates one machine under one seed.
    fn job(
        &self,
        (machine, options): &(Machine, RunOptions),
        seed: u64,
        tell: &mut dyn FnMut(&Progress) -> Result<()>,
    ) -> Result<MachineReport> {
        let mut source = (self.open)()?;
        let quantum = source.cycles_of_quantum();
        check_cost(machine, quantum)?;
        let options = RunOptions { seeds: vec![seed], threads: 1, ..options.clone() };
        let reporter = ProgressReporter::new(options.length, tell);
        let machines = std::slice::from_ref(machine);
        let sharing_plan = SharingPlan::of(
            machines,
            1,
            options.shares_stages(),
            options.subscription(),
            options.switched_off(),
        )
        .with_own_policies(self.policy.is_some());
        let lanes = lanes(machines, &sharing_plan, &options, self.policy, &reporter)?;
        let stream = &sharing_plan.preparations[0];
        let mut lane = SteeredLane {
            prepare: preparation(stream, &options, &*source as &dyn Source)?,
            worker: Worker::new(lanes),
            worst_case: WorstCase::of(machine, options.subscription()),
            one_by_one: !options.share,
            page_log2: machine.memory().page.log2(),
            promised: None,
        };
        let mut limit = options.length.map(Limit::new);
        let mut pieces: u64 = 0;
        while let Some(piece) = source.next_piece(&mut lane)? {
            let kept = match &mut limit {
                Some(limit) => limit.take(piece),
                None => Some(piece),
            };
            let Some(piece) = kept else { break };
            let ended = limit.as_ref().is_some_and(Limit::has_ended);
            if lane.take(&piece, &|| reporter.check_interrupt())? == Flow::Done || ended {
                break;
            }
            pieces += 1;
            if pieces.is_multiple_of(PIECES_BETWEEN_CHECKS) {
                self.check_memory(machine, lane.prepare.growth())?;
                let references = lane.prepare.stream().references;
                reporter.report(Progress { references, of: options.length })?;
            }
        }
        let SteeredLane { mut prepare, mut worker, .. } = lane;
        prepare.finish(&mut |block| worker.block(0, &block, &|| reporter.check_interrupt()))?;
        reporter.report(Progress { references: prepare.stream().references, of: options.length })?;
        let prepared = std::slice::from_ref(&prepare);
        let groups = vec![(0, None)];
        let mut meta = source.meta().clone();
        if self.options.seeds.len() > 1 {
            // The inputs of a mix end at different times under each placement.
            meta.mixed.clear();
        }
        let mut reports =
            report(machines, &options, worker.into_lanes(), prepared, groups, &meta, &reporter)?;
        let mut report = reports.remove(0);
        report.facts.trace.push(match quantum {
            Some(cycles) => format!(
                "a quantum is {cycles} cycles of the machine's own caches: each placement had a stream of its own"
            ),
            None => "evicted pages block when they return: each placement had a stream of its own".to_string(),
        });
        Ok(report)
    }

    /// Checks that all lanes that are simulated at the same time fit into memory if each holds as much as this lane.
    fn check_memory(&self, machine: &Machine, growth: Growth) -> Result<()> {
        let Some(memory) = &self.options.memory else { return Ok(()) };
        if bytes(machine, self.options, growth).saturating_mul(self.workers as u64) <= memory.bytes {
            return Ok(());
        }
        let each = MemoryLimit { bytes: memory.bytes / self.workers as u64, ..memory.clone() };
        let machines = std::slice::from_ref(machine);
        let estimate = MemoryEstimate::of(machines, machines, self.options, true);
        let mut problem = estimate.too_large(machines, &each, 1, growth);
        if self.workers > 1 {
            problem.remedy = format!("use fewer threads than {}, or {}", self.workers, problem.remedy);
        }
        Err(problem)
    }
}

/// `SteeredLane` is a lane with a preparation of its own.
struct SteeredLane {
    prepare: Prepare,
    worker: Worker,
    worst_case: WorstCase,
    /// True if rows are simulated one by one although several would surely fit. Tests check that this changes nothing.
    one_by_one: bool,
    page_log2: u32,
    /// The largest number of rows in the next piece, and the cycle by which they are done.
    promised: Option<(usize, u64)>,
}

impl SteeredLane {
    /// Simulates a piece, and checks that it has kept what `rows_within` promised.
    fn take(&mut self, piece: &EventBatch, check_interrupt: InterruptCheck<'_>) -> Result<Flow> {
        let promised = self.promised.take().filter(|&(rows, _)| piece.len() <= rows);
        let flow = self.simulate(piece, check_interrupt)?;
        match promised {
            Some((rows, by)) if self.cycles() > by => {
                let found = format!("{rows} rows done at cycle {}", self.cycles());
                Err(broken(&found, &format!("they surely end by cycle {by}"), self.worker.only_lane().seed))
            }
            _ => Ok(flow),
        }
    }

    /// Returns the first and the last page of a reference.
    fn pages(&self, rows: &EventBatch, row: usize) -> (u64, u64) {
        let addr = rows.addr()[row];
        let last = addr.saturating_add(u64::from(rows.size()[row].max(1)) - 1);
        (addr >> self.page_log2, last >> self.page_log2)
    }

    /// Returns whether the lane holds the page that a reference finds, and the reference makes no page.
    fn is_placed(&self, page: u64, write: bool) -> bool {
        let (spaces, asid) = (self.prepare.spaces(), self.prepare.running());
        let settled = spaces.settled_page(asid, PageNo(page), write);
        settled.is_some_and(|page| self.worker.only_lane().holds(page))
    }

    /// Returns whether the lane has evicted the page to which a virtual page leads.
    fn returns(&self, page: u64) -> bool {
        let (spaces, asid) = (self.prepare.spaces(), self.prepare.running());
        let existing = spaces.existing_page(asid, PageNo(page));
        existing.is_some_and(|page| !self.worker.only_lane().holds(page))
    }

    fn simulate(&mut self, piece: &EventBatch, check_interrupt: InterruptCheck<'_>) -> Result<Flow> {
        let Self { prepare, worker, .. } = self;
        let emit = &mut |block: std::sync::Arc<_>| worker.block(0, &block, check_interrupt);
        let flow = prepare.feed(piece, emit)?;
        if flow == Flow::On {
            prepare.flush_piece(emit)?;
        }
        Ok(flow)
    }
}

impl LaneView for SteeredLane {
    fn cycles(&self) -> u64 {
        self.prepare.stream().instructions + self.worker.only_lane().waited()
    }

    fn rows_within(&mut self, rows: &EventBatch, left: u64) -> usize {
        let mut sure = if self.one_by_one { 0 } else { self.worst_case.rows_within(rows, left) };
        if self.worst_case.excludes_placements() {
            sure = self.rows_before_placement(&rows.slice(0, sure)).0;
        }
        self.promised = (sure > 0).then(|| (sure, self.cycles() + left));
        sure
    }

    fn rows_before_placement(&mut self, rows: &EventBatch) -> (usize, bool) {
        let mut recent = [None; 2];
        let places = |row: &usize| {
            let op = rows.op()[*row];
            let (pages, write) = (self.pages(rows, *row), op >= Op::Store as u8);
            let recent = &mut recent[usize::from(op != Op::Fetch as u8)];
            if op > Op::Modify as u8 || *recent == Some((pages, write)) {
                return false;
            }
            let placed = |page| self.is_placed(page, write);
            let places = !(pages.0..=pages.1).all(placed);
            *recent = (!places).then_some((pages, write));
            places
        };
        let until = if self.one_by_one { rows.len().min(1) } else { rows.len() };
        let before = (0..until).find(places).unwrap_or(until);
        if before == rows.len() {
            return (before, false);
        }
        let (first, last) = self.pages(rows, before);
        let is_reference = rows.op()[before] <= Op::Modify as u8;
        (before, is_reference && (first..=last).any(|page| self.returns(page)))
    }
}
