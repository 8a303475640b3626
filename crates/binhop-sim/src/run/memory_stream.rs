//! `memory_stream` passes on the accesses that reach memory under one placement.

use binhop_base::{Problem, Result};
use binhop_hw::Rules;
use binhop_trace::Source;
use binhop_trace::export::MemoryAccess;

use super::engine::{conclude, opened};
use super::producer::Producer;
use super::rounds::check_one_fits;
use super::worker::{Worker, lanes};
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
    options.check()?;
    let machines = &*options.with_units(std::slice::from_ref(machine))?;
    let machine = &machines[0];
    check_one_fits(machines, &options)?;
    let source = opened(source, &options);
    let sharing_plan =
        SharingPlan::of(machines, 1, options.shares_stages(), options.subscription(), options.switched_off());
    let mut producer = Producer::new(machines, &sharing_plan, source, &options)?;
    let reporter = ProgressReporter::new(options.length, progress);
    let mut worker = Worker::new(lanes(machines, &sharing_plan, &options, None, &reporter)?);
    let mut accesses = Vec::new();
    producer.run(
        &mut |group, block| {
            worker.block(group, &block, &|| reporter.check_interrupt())?;
            worker.take_tapped(&mut accesses);
            take(&accesses)?;
            accesses.clear();
            Ok(())
        },
        &mut |_| Ok(()),
        &reporter,
    )?;
    let mut reports = conclude(machines, &options, worker.into_lanes(), producer, &reporter)?;
    Ok(reports.remove(0).finish(machine, &options))
}
