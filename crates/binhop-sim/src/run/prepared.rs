//! `Prepared` is a trace that is prepared once and held in memory, so that it can be simulated again without
//! reading it.

use std::sync::Arc;

use binhop_base::Result;
use binhop_trace::transform::Limit;
use binhop_trace::{Meta, Source};

use super::engine::report;
use super::producer::preparation;
use super::shared_front::SharedFront;
use super::worker::{Worker, lanes};
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::prepare::{Block, Cuts, Flow, Prepare};
use crate::progress::{Progress, ProgressReporter};
use crate::results::outcome::Outcome;
use crate::sharing::FrontSharing;
use crate::sharing::SharingPlan;

/// `Prepared` is a trace, prepared for machines that share a preparation and a front.
pub struct Prepared {
    machines: Vec<Machine>,
    length: Option<u64>,
    cuts: Cuts,
    collapsed: bool,
    blocks: Vec<Arc<Block>>,
    prepare: Prepare,
    meta: Meta,
}

impl Prepared {
    /// Reads and prepares a whole trace. Of `options` the length, the warm-up and the interval are used.
    ///
    /// # Errors
    /// The errors of [`simulate`](crate::simulate).
    ///
    /// # Panics
    /// The machines do not share one preparation and one front.
    pub fn new(machines: &[Machine], source: &mut dyn Source, options: &RunOptions) -> Result<Self> {
        options.check()?;
        let machines = &*options.with_units(machines)?;
        let sharing_plan = SharingPlan::of(
            machines,
            options.seeds.len(),
            options.shares_stages(),
            options.subscription(),
            options.switched_off(),
        );
        let ([stream], 1) =
            (&*sharing_plan.preparations, sharing_plan.preparations.iter().map(|s| s.groups.len()).sum())
        else {
            panic!("the machines share a preparation and a front")
        };
        let mut prepare = preparation(stream, options, source)?;
        let mut blocks = Vec::new();
        let mut keep = |block| {
            blocks.push(block);
            Ok(())
        };
        let mut limit = options.length.map(Limit::new);
        while let Some(batch) = source.next_batch()? {
            let kept = match &mut limit {
                Some(limit) => limit.take(batch),
                None => Some(batch),
            };
            let Some(batch) = kept else { break };
            if prepare.feed(&batch, &mut keep)? == Flow::Done {
                break;
            }
        }
        prepare.finish(&mut keep)?;
        let (cuts, meta) = (options.cuts(), source.meta().clone());
        let (machines, length) = (machines.to_vec(), options.length);
        Ok(Self { machines, length, cuts, collapsed: options.share, blocks, prepare, meta })
    }

    /// Returns the number of rows held: the accesses that a first-level cache must simulate.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.entries()).sum()
    }

    /// Simulates the prepared trace on its machines, on the calling thread.
    ///
    /// # Errors
    /// The errors of [`simulate`](crate::simulate).
    ///
    /// # Panics
    /// The options cut the stream elsewhere than the options of the preparation, or the machines share
    /// nothing under them.
    pub fn simulate(&self, options: &RunOptions) -> Result<Vec<Outcome>> {
        options.check()?;
        let asked = (options.length, options.cuts(), options.share);
        assert_eq!((self.length, self.cuts, self.collapsed), asked, "prepared for another plan");
        let sharing_plan = SharingPlan::of(
            &self.machines,
            options.seeds.len(),
            options.shares_stages(),
            options.subscription(),
            options.switched_off(),
        );
        let ([stream], 1) =
            (&*sharing_plan.preparations, sharing_plan.preparations.iter().map(|s| s.groups.len()).sum())
        else {
            panic!("the machines share a preparation and a front")
        };
        let group = &stream.groups[0];
        let mut front =
            (group.sharing == FrontSharing::Shared).then(|| SharedFront::of(group, &self.machines, options));
        let mut unheard = |_: &Progress| Ok(());
        let reporter = ProgressReporter::new(options.length, &mut unheard);
        let check_interrupt = || reporter.check_interrupt();
        let mut worker = Worker::new(lanes(&self.machines, &sharing_plan, options, None, &reporter)?);
        for block in &self.blocks {
            match &mut front {
                Some(front) => {
                    front.pass(Arc::clone(block), &mut |block| worker.block(0, &block, &check_interrupt))?;
                }
                None => worker.block(0, block, &check_interrupt)?,
            }
        }
        let prepared = std::slice::from_ref(&self.prepare);
        let lanes = worker.into_lanes();
        let reports =
            report(&self.machines, options, lanes, prepared, vec![(0, front)], &self.meta, &reporter)?;
        Ok(self
            .machines
            .iter()
            .zip(reports)
            .map(|(machine, report)| report.finish(machine, options))
            .collect())
    }
}
