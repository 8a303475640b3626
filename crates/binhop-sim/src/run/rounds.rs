//! `rounds` keeps a run within the memory that there is: all seeds are simulated at once if they fit,
//! otherwise in rounds.
//!
//! A round simulates some of the machines under some of the seeds, over the whole trace. A seed's counts do
//! not depend on what is simulated beside it. The tables of rounds, one below the other, are therefore the
//! tables of one run, to the bit. [`MemoryEstimate`] says before a round starts how many seeds fit. While the
//! trace is read, the estimate is compared with what the trace really holds. A round that outgrows its memory
//! is given up and repeated with fewer seeds, then with fewer machines.

use std::collections::VecDeque;
use std::ops::Range;

use binhop_base::Result;
use binhop_trace::Source;

use super::engine::{check_machines, run};
use super::memory_estimate::{MemoryEstimate, guess};
use super::worker::PolicyMaker;
use crate::machine::Machine;
use crate::memory_limit::{MemoryLimit, readable_bytes};
use crate::options::RunOptions;
use crate::prepare::Growth;
use crate::progress::Progress;
use crate::results::outcome::{MachineReport, Outcome};

/// `Reopen` opens a trace anew.
pub type Reopen<'a> = &'a mut dyn FnMut() -> Result<Box<dyn Source>>;

/// `TraceInput` is a trace to simulate.
pub struct TraceInput<'a> {
    /// The open trace.
    pub source: Box<dyn Source>,
    /// A function that opens the trace for a further round. `None`: the trace can be read only once.
    pub again: Option<Reopen<'a>>,
}

/// Simulates a trace on a machine under one placement for each seed.
///
/// `progress` is called often, on the calling thread. Its error ends the run.
///
/// # Errors
/// The request is wrong (no seed, a trace with events that are not simulated, more memory than the options
/// allow), the trace is damaged, or an invariant is broken after the run.
pub fn simulate(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    policy: Option<PolicyMaker<'_>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Outcome> {
    let mut outcomes = simulate_all(std::slice::from_ref(machine), source, options, policy, progress)?;
    Ok(outcomes.remove(0))
}

/// Simulates a trace on several machines. The outcome of each machine is the same, to the bit, as if the machine were
/// simulated alone. Stages in which machines agree are simulated once ([`explain`](crate::explain) lists them).
///
/// # Errors
/// The errors of [`simulate`]; or there is no machine.
pub fn simulate_all(
    machines: &[Machine],
    source: Box<dyn Source>,
    options: &RunOptions,
    policy: Option<PolicyMaker<'_>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Outcome>> {
    simulate_in_rounds(machines, TraceInput { source, again: None }, options, policy, progress)
}

/// Simulates like [`simulate_all`] a trace that may be read again where not all seeds fit into memory at
/// once.
///
/// # Errors
/// The errors of [`simulate_all`]; or the trace changed between two rounds.
pub fn simulate_in_rounds(
    machines: &[Machine],
    input: TraceInput<'_>,
    options: &RunOptions,
    policy: Option<PolicyMaker<'_>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Outcome>> {
    options.check()?;
    check_machines(machines, policy.is_some())?;
    let options = &*options.with_kernel(machines)?;
    let machines = &*options.with_units(machines)?;
    let all = machines.len() * options.seeds.len();
    let name = input.source.name().to_string();
    let TraceInput { source, mut again } = input;
    let mut next = Some(source);
    let mut rounds = Rounds::new(machines, options, policy.is_some());
    let mut passes = RunProgress { all, done: 0, whole: 0, most: 0 };
    while let Some(round) = rounds.next(&name, again.is_none())? {
        let source = match (next.take(), &mut again) {
            (Some(source), _) => source,
            (None, Some(open)) => open()?,
            (None, None) => unreachable!("a trace that is read once is done in one round"),
        };
        let of_round = RunOptions { seeds: options.seeds[round.seeds.clone()].to_vec(), ..options.clone() };
        let cells = round.machines.len() * round.seeds.len();
        let mut references = 0;
        let done = run(
            &machines[round.machines.clone()],
            source,
            (&of_round, options.seeds.len()),
            policy,
            &mut |growth| rounds.outgrown(&round, growth),
            &mut |now| {
                references = now.references;
                progress(&passes.at(now, cells))
            },
        )?;
        match done {
            None => rounds.give_up(round, &name, again.is_none())?,
            Some(reports) => {
                (passes.done, passes.whole) = (passes.done + cells, references);
                rounds.finish(round, reports, &name)?;
            }
        }
    }
    Ok(rounds.outcomes())
}

/// Returns how many of `wanted` seeds fit into memory at once on a machine, before its trace is read.
///
/// # Errors
/// No seed fits.
fn seeds_that_fit(machine: &Machine, options: &RunOptions, wanted: usize) -> Result<usize> {
    let Some(memory) = &options.memory else { return Ok(wanted) };
    let machine = std::slice::from_ref(machine);
    let estimate = MemoryEstimate::of(machine, machine, options, true);
    match estimate.start(memory, wanted, options, Growth::default()) {
        0 => Err(estimate.too_large(machine, memory, wanted, Growth::default())),
        fit => Ok(fit),
    }
}

/// Checks that one seed of a machine fits into the memory that the options allow.
///
/// # Errors
/// The seed does not fit.
pub(crate) fn check_one_fits(machine: &Machine, options: &RunOptions) -> Result<()> {
    seeds_that_fit(machine, options, 1).map(drop)
}

/// Checks that all seeds fit into memory at once, for a run that reads its trace, `trace`, only once.
///
/// # Errors
/// The seeds do not fit.
pub(crate) fn check_all_fit(machine: &Machine, options: &RunOptions, trace: &str) -> Result<()> {
    let wanted = options.seeds.len();
    let fit = seeds_that_fit(machine, options, wanted)?;
    match &options.memory {
        Some(memory) if fit < wanted => {
            let machine = std::slice::from_ref(machine);
            let estimate = MemoryEstimate::of(machine, machine, options, true);
            Err(estimate.only_once(trace, memory, wanted, fit, Growth::default()))
        }
        _ => Ok(()),
    }
}

/// Returns a line for [`explain`](crate::explain) that says how a run of these machines handles seeds that do
/// not fit into memory at once. Returns `None` if they fit, as far as is known before the trace is read.
pub(crate) fn explain_rounds(machines: &[Machine], options: &RunOptions, own_policy: bool) -> Option<String> {
    let memory = options.memory.as_ref()?;
    let mut rounds = Rounds::new(machines, options, own_policy);
    let mut number = 0;
    loop {
        match rounds.next("", false) {
            Ok(Some(_)) => number += 1,
            Ok(None) => break,
            Err(problem) => return Some(format!("memory: the run is refused: {problem}")),
        }
    }
    let (all, guess) = (options.seeds.len(), guess(options));
    let estimated_memory =
        readable_bytes(MemoryEstimate::of(machines, machines, options, own_policy).bytes(all, all, guess));
    let (there, source) = (readable_bytes(memory.bytes), &memory.source);
    (number > 1).then(|| {
        format!(
            "memory: {all} seeds take about {estimated_memory} where a trace touches {} pages, and there are {there} ({source}): \
             they are done in {number} rounds of the trace",
            guess.pages
        )
    })
}

/// Returns the estimated bytes of a run that simulates `at_once` seeds of the options at once, on a trace
/// that touches so many pages in so many processes and lasts so many intervals.
#[must_use]
pub fn estimated_memory(
    machines: &[Machine],
    options: &RunOptions,
    at_once: usize,
    [pages, processes, intervals]: [u64; 3],
) -> u64 {
    let growth = Growth { pages, processes, intervals };
    MemoryEstimate::of(machines, machines, options, false).bytes(at_once, options.seeds.len(), growth)
}

/// `Round` is a round: some machines under some seeds, by their places.
#[derive(Clone, Debug)]
struct Round {
    machines: Range<usize>,
    seeds: Range<usize>,
}

/// `Rounds` holds the rounds that are left, and the reports that were made.
struct Rounds<'a> {
    machines: &'a [Machine],
    options: &'a RunOptions,
    /// True if a policy of the caller's own places pages.
    own_policy: bool,
    left: VecDeque<Round>,
    /// The maximum of what the trace has held so far in any round.
    seen: Growth,
    /// The estimate of the current round.
    estimate: MemoryEstimate,
    /// The report of each machine so far.
    reports: Vec<Option<MachineReport>>,
}

impl<'a> Rounds<'a> {
    fn new(machines: &'a [Machine], options: &'a RunOptions, own_policy: bool) -> Self {
        let whole = Round { machines: 0..machines.len(), seeds: 0..options.seeds.len() };
        Self {
            machines,
            options,
            own_policy,
            left: VecDeque::from([whole]),
            seen: Growth::default(),
            estimate: MemoryEstimate::default(),
            reports: machines.iter().map(|_| None).collect(),
        }
    }

    /// Returns the next round, reduced to what fits.
    fn next(&mut self, trace: &str, once: bool) -> Result<Option<Round>> {
        let Some(mut round) = self.left.pop_front() else { return Ok(None) };
        let Some(memory) = &self.options.memory else { return Ok(Some(round)) };
        loop {
            let machines = &self.machines[round.machines.clone()];
            self.estimate = MemoryEstimate::of(machines, self.machines, self.options, self.own_policy);
            let (all, wanted) = (self.options.seeds.len(), round.seeds.len());
            let fit = self.estimate.start(memory, all, self.options, self.seen).min(wanted);
            if fit == wanted {
                return Ok(Some(round));
            }
            if fit > 0 {
                if once {
                    return Err(self.estimate.only_once(trace, memory, wanted, fit, self.seen));
                }
                // Rounds of about equal size take the same time as unequal rounds, and less memory.
                let each = wanted.div_ceil(wanted.div_ceil(fit));
                let cut = round.seeds.start + each;
                self.left.push_front(Round { seeds: cut..round.seeds.end, ..round.clone() });
                return Ok(Some(Round { seeds: round.seeds.start..cut, ..round }));
            }
            if machines.len() == 1 || once {
                return Err(self.estimate.too_large(machines, memory, all, self.seen));
            }
            let half = round.machines.start + machines.len() / 2;
            self.left.push_front(Round { machines: half..round.machines.end, ..round.clone() });
            round.machines.end = half;
        }
    }

    /// Returns whether a round takes more memory than there is, now that the trace has held so much.
    fn outgrown(&mut self, round: &Round, growth: Growth) -> bool {
        self.seen = self.seen.max(growth);
        let more = |memory: &MemoryLimit| {
            self.estimate.bytes(round.seeds.len(), self.options.seeds.len(), growth) > memory.bytes
        };
        self.options.memory.as_ref().is_some_and(more)
    }

    /// Replaces a round that has outgrown its memory by smaller rounds.
    fn give_up(&mut self, round: Round, trace: &str, once: bool) -> Result<()> {
        let memory = self.options.memory.as_ref().expect("nothing is outgrown without a limit");
        let (seeds, machines) = (round.seeds.len(), &self.machines[round.machines.clone()]);
        let all = self.options.seeds.len();
        if seeds == 1 && (machines.len() == 1 || once) {
            return Err(self.estimate.too_large(machines, memory, all, self.seen));
        }
        // The trace may hold more than it has held so far.
        let expected = self.seen.doubled();
        let fit = self.estimate.fit(memory, all, expected).clamp(1, (seeds / 2).max(1));
        if once {
            return Err(self.estimate.only_once(trace, memory, seeds, fit, self.seen));
        }
        if seeds == 1 {
            let half = round.machines.start + machines.len() / 2;
            self.left.push_front(Round { machines: half..round.machines.end, ..round.clone() });
            self.left.push_front(Round { machines: round.machines.start..half, ..round });
            return Ok(());
        }
        let starts = round.seeds.clone().step_by(fit);
        for start in starts.rev() {
            let seeds = start..(start + fit).min(round.seeds.end);
            self.left.push_front(Round { seeds, ..round.clone() });
        }
        Ok(())
    }

    /// Keeps the reports of a round.
    fn finish(&mut self, round: Round, reports: Vec<MachineReport>, trace: &str) -> Result<()> {
        for (machine, report) in round.machines.zip(reports) {
            // Seeds arrive in order, because a round that is given up is replaced by rounds that come next.
            match &mut self.reports[machine] {
                Some(before) => before.extend(report, trace)?,
                none => *none = Some(report),
            }
        }
        Ok(())
    }

    fn outcomes(self) -> Vec<Outcome> {
        let one = |(machine, report): (&Machine, Option<MachineReport>)| {
            report.expect("every machine has a report").finish(machine, self.options)
        };
        self.machines.iter().zip(self.reports).map(one).collect()
    }
}

/// `RunProgress` tells how far a run is over all its rounds, as if the run were one round. It never goes
/// back.
struct RunProgress {
    /// Machines × seeds, and how many of them are done.
    all: usize,
    done: usize,
    /// The references of the trace, once it has been read.
    whole: u64,
    most: u64,
}

impl RunProgress {
    fn at(&mut self, now: &Progress, cells: usize) -> Progress {
        let parts = self.done as u128 * u128::from(self.whole) + cells as u128 * u128::from(now.references);
        self.most = self.most.max((parts / self.all as u128) as u64);
        let of = if self.done > 0 { Some(self.whole) } else { now.of };
        Progress { references: self.most, of }
    }
}
