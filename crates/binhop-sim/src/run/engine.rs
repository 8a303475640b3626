//! `engine` runs one round: decode → prepare → place → front → back, for any number of machines and
//! placements at once.
//!
//! One thread reads, prepares and simulates what lanes share. The other threads simulate lanes. Lanes never
//! meet, so neither the number of threads nor their pace is in any result.

use std::sync::Arc;

use binhop_base::{Class, Problem, Result, counted};
use binhop_os::page_table::PageTables;
use binhop_trace::transform::head;
use binhop_trace::{Ahead, Meta, Source};

use super::producer::{PreparationFronts, Producer};
use super::report::{self, FinishedRun, MachineInLane};
use super::shared_front::SharedFront;
use super::threads;
use super::worker::{GroupedLane, PolicyMaker, Worker, assign, lanes};
use crate::machine::{Machine, TablePlacement};
use crate::options::RunOptions;
use crate::prepare::{Block, Growth, Prepare, Process};
use crate::progress::{Progress, ProgressReporter};
use crate::results::outcome::MachineReport;
use crate::sharing::SharingPlan;

/// Simulates a trace on machines, with all seeds of the options at once. `all` is the number of seeds of all rounds.
/// After every batch, `grown` says whether the trace has outgrown the memory. If it has, the run ends without a report.
pub(crate) fn run(
    machines: &[Machine],
    source: Box<dyn Source>,
    (options, all): (&RunOptions, usize),
    policy: Option<PolicyMaker<'_>>,
    grown: &mut dyn FnMut(Growth) -> bool,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Option<Vec<MachineReport>>> {
    let source = opened(source, options);
    let sharing_plan = SharingPlan::of(
        machines,
        options.seeds.len(),
        options.shares_stages(),
        options.subscription(),
        options.switched_off(),
    );
    let sharing_plan = match policy {
        Some(_) => sharing_plan.with_own_policies(true),
        None => sharing_plan.among_threads(machines, all, options.threads),
    };
    let reporter = ProgressReporter::new(options.length, progress);
    let lanes = lanes(machines, &sharing_plan, options, policy, &reporter)?;
    let mut producer = Producer::new(machines, &sharing_plan, source, options)?;
    let workers = options.threads.min(lanes.len());
    let mut outgrown = false;
    let mut check_growth = |growth| {
        outgrown = grown(growth);
        if outgrown { Err(Problem::interrupted()) } else { Ok(()) }
    };
    let done = if workers > 1 {
        threads::simulate(&mut producer, assign(lanes, workers), &mut check_growth, &reporter)
    } else {
        let mut worker = Worker::new(lanes);
        let deliver =
            &mut |group, block: Arc<Block>| worker.block(group, &block, &|| reporter.check_interrupt());
        producer.run(deliver, &mut check_growth, &reporter).map(|()| worker.into_lanes())
    };
    match done {
        Ok(lanes) => conclude(machines, options, lanes, producer, &reporter).map(Some),
        Err(problem) if outgrown && problem.class == Class::Interrupted => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Opens the part of a source that the options ask for. With several threads it is read on a thread of its
/// own.
pub(super) fn opened(source: Box<dyn Source>, options: &RunOptions) -> Box<dyn Source> {
    let source = head(source, options.length);
    if options.threads > 1 { Box::new(Ahead::new(source)) } else { source }
}

pub(crate) fn check_machines(machines: &[Machine], own_policy: bool) -> Result<()> {
    if machines.is_empty() {
        let rule = "a run needs at least one machine";
        return Err(Problem::request("none", "machines", rule, "name a machine"));
    }
    let refused = |machine: &Machine, rule, remedy| {
        Err(Problem::request("a policy of one's own", &format!("machine {}", machine.name()), rule, remedy))
    };
    for machine in machines.iter().filter(|_| own_policy) {
        if machine.memory().frames.is_none() {
            let rule = "with placement identity, physical = virtual: there is nothing to place";
            return refused(machine, rule, "give the machine a memory.size and another placement.policy");
        }
        if machine.translation().is_some_and(|translation| translation.placement == TablePlacement::Policy) {
            let rule =
                "with translation.placement = \"policy\" a machine's own policy places page tables, too";
            return refused(machine, rule, "set translation.placement=random or fixed");
        }
        if machine.translation().is_some_and(|translation| translation.huge_log2().is_some()) {
            let rule = "huge pages need runs of neighbouring frames, and a policy of one's own chooses single frames";
            return refused(machine, rule, "leave translation.huge-pages out");
        }
    }
    Ok(())
}

/// Checks the invariants of a finished run and makes its report.
pub(super) fn conclude(
    machines: &[Machine],
    options: &RunOptions,
    lanes: Vec<GroupedLane>,
    producer: Producer,
    reporter: &ProgressReporter<'_>,
) -> Result<Vec<MachineReport>> {
    let Producer { source, preparations, .. } = producer;
    let mut groups = Vec::new();
    let mut prepared = Vec::new();
    for (number, PreparationFronts { prepare, fronts }) in preparations.into_iter().enumerate() {
        groups.extend(fronts.into_iter().map(|behind| (number, behind.shared)));
        prepared.push(prepare);
    }
    report(machines, options, lanes, &prepared, groups, source.meta(), reporter)
}

/// Checks the lanes and makes a report for each machine. `groups` holds for each front group the number of
/// its preparation, and the front that its lanes shared.
pub(crate) fn report(
    machines: &[Machine],
    options: &RunOptions,
    mut lanes: Vec<GroupedLane>,
    prepared: &[Prepare],
    groups: Vec<(usize, Option<SharedFront>)>,
    meta: &Meta,
    reporter: &ProgressReporter<'_>,
) -> Result<Vec<MachineReport>> {
    if options.warmup > 0 && !prepared[0].is_measuring() {
        let references = prepared[0].stream().references;
        return Err(Problem::request(
            &options.warmup.to_string(),
            "warmup",
            &format!(
                "the run holds {}: nothing is left to measure",
                counted(references, ["reference", "references"])
            ),
            "make the warm-up shorter, or the run longer",
        ));
    }
    prepared.iter().filter_map(Prepare::page_tables).try_for_each(PageTables::check)?;
    let mut stream_of = Vec::new();
    let mut fronts = Vec::new();
    for (stream, shared) in groups {
        stream_of.push(stream);
        fronts.push(shared.and_then(|front| front.finish(prepared[stream].stream())));
    }
    lanes.sort_by_key(|(_, lane)| options.seeds.iter().position(|&seed| seed == lane.seed));
    let mut switches = Vec::with_capacity(lanes.len());
    for (group, lane) in &mut lanes {
        lane.check(fronts[*group].as_ref(), prepared[stream_of[*group]].page_tables())?;
        switches.push(lane.take_switches()?);
        reporter.check_interrupt()?;
    }
    let mut parts: Vec<Vec<MachineInLane<'_>>> = machines.iter().map(|_| Vec::new()).collect();
    let processes: Vec<Arc<[Process]>> = prepared.iter().map(|prepare| prepare.processes().into()).collect();
    let mut stream_of_machine = vec![0; machines.len()];
    for ((group, lane), switches) in lanes.iter().zip(&switches) {
        for back in &lane.backs {
            parts[back.machine].push(MachineInLane { lane, back, switches: switches.as_ref() });
            stream_of_machine[back.machine] = stream_of[*group];
        }
    }
    let outcome = |(number, parts): (usize, Vec<MachineInLane<'_>>)| {
        let machine = &machines[number];
        let stream = stream_of_machine[number];
        let (prepare, processes) = (&prepared[stream], Arc::clone(&processes[stream]));
        report::report(&FinishedRun { machine, options, parts: &parts, prepare, processes, meta })
    };
    parts.into_iter().enumerate().map(outcome).collect()
}
