//! `memory_stream` passes on the accesses that reach memory under one placement. `front_stream` passes on what passes
//! below the caches under several placements, devices included.

use binhop_base::{Problem, Result};
use binhop_hw::Rules;
use binhop_trace::Source;
use binhop_trace::export::MemoryAccess;

use super::engine::{conclude, opened};
use super::producer::Producer;
use super::rounds::check_all_fit;
use super::worker::{Worker, lanes};
use crate::front_event::FrontEvent;
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::progress::{Progress, ProgressReporter};
use crate::results::Outcome;
use crate::sharing::SharingPlan;

/// Simulates a trace under one placement and passes on the accesses that reach memory, in order: lines read
/// for misses, lines written back, stores passed down, and dirty lines of pages whose frames change hands.
/// Lines that are dirty at the end stay in their caches. These are exactly the accesses that
/// [`simulate`](crate::simulate) counts as memory's.
///
/// `take` receives the accesses as they arise. An error of `take` or of `progress` ends the run.
///
/// # Errors
/// The errors of [`simulate`](crate::simulate); or the machine counts by cachegrind's rules, which record
/// nothing about written data.
///
/// # Panics
/// The options do not have exactly one seed.
pub fn memory_stream(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    take: &mut dyn FnMut(&[MemoryAccess]) -> Result<()>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Outcome> {
    assert_eq!(options.seeds.len(), 1, "what reaches memory is that of one placement");
    if machine.tree().config().rules == Rules::Cachegrind {
        return Err(Problem::request(
            "cachegrind",
            &format!("machine {}: rules", machine.name()),
            "by cachegrind's rules written data leaves no trace, so nothing says what reaches memory",
            "take a machine that counts lines",
        ));
    }
    let options = RunOptions { tap: true, ..options.clone() };
    let mut accesses = Vec::new();
    let mut drain = |worker: &mut Worker| {
        worker.take_tapped(&mut accesses);
        take(&accesses)?;
        accesses.clear();
        Ok(())
    };
    run_tapped(machine, source, &options, &mut drain, progress)
}

/// Simulates a trace under each placement and passes on what passes below the caches, in order: the events of
/// [`TapEvent`](binhop_hw::TapEvent), and each request of a device before its first line. `take` receives them with the
/// number of the placement, in the order of the seeds.
///
/// The result is the same as the result of [`simulate`](crate::simulate) with devices that act
/// ([`RunOptions::devices`]).
///
/// # Errors
/// The errors of [`simulate`](crate::simulate); or the machine translates addresses or counts by cachegrind's rules.
pub fn front_stream(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    take: &mut dyn FnMut(usize, &[FrontEvent]) -> Result<()>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Outcome> {
    check_translation(machine)?;
    let options = RunOptions { front_tap: true, devices: true, ..options.clone() };
    let options = options.with_kernel(std::slice::from_ref(machine))?;
    let mut events = Vec::new();
    let mut drain = |worker: &mut Worker| {
        for lane in worker.lanes_mut() {
            lane.take_front_events(&mut events);
            if !events.is_empty() {
                take(placement_of(&options.seeds, lane.seed), &events)?;
                events.clear();
            }
        }
        Ok(())
    };
    run_tapped(machine, source, &options, &mut drain, progress)
}

/// Returns the number of the placement that a seed gives.
fn placement_of(seeds: &[u64], seed: u64) -> usize {
    seeds.iter().position(|&of| of == seed).expect("every lane has a seed of the options")
}

/// Checks that nothing but the program and devices asks for what passes below a machine's caches.
fn check_translation(machine: &Machine) -> Result<()> {
    if machine.translation().is_some() || machine.protection().is_some() {
        return Err(Problem::request(
            "translation",
            &format!("machine {}", machine.name()),
            "schemes for device data are compared without TLBs and page tables, and without protection in lines",
            "take --set translation=off, and leave translation.line-protection out",
        ));
    }
    Ok(())
}

/// Simulates a trace under each placement. `drain` takes from the worker what it has kept, after each block.
fn run_tapped(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    drain: &mut dyn FnMut(&mut Worker) -> Result<()>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Outcome> {
    options.check()?;
    let machines = &*options.with_units(std::slice::from_ref(machine))?;
    let machine = &machines[0];
    check_all_fit(machine, options, source.name())?;
    let source = opened(source, options);
    let sharing_plan = SharingPlan::of(
        machines,
        options.seeds.len(),
        options.shares_stages(),
        options.subscription(),
        options.switched_off(),
    );
    let mut producer = Producer::new(machines, &sharing_plan, source, options)?;
    let reporter = ProgressReporter::new(options.length, progress);
    let mut worker = Worker::new(lanes(machines, &sharing_plan, options, None, &reporter)?);
    producer.run(
        &mut |group, block| {
            worker.block(group, &block, &|| reporter.check_interrupt())?;
            drain(&mut worker)
        },
        &mut |_| Ok(()),
        &reporter,
    )?;
    let mut reports = conclude(machines, options, worker.into_lanes(), producer, &reporter)?;
    Ok(reports.remove(0).finish(machine, options))
}
