//! A trace prepared once, held in memory: to simulate it again and again without reading it.

use std::sync::Arc;

use binhop_base::Result;
use binhop_trace::tool::Limit;
use binhop_trace::{Meta, Source};

use crate::engine::{Progress, Watcher, Worker, lanes, preparation, report};
use crate::front::{SharedFront, Sharing};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::planner::Stages;
use crate::prepare::{Block, Cuts, Flow, Prepare};

/// A trace prepared for machines that share a preparation and a front.
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
    /// Reads and prepares a whole trace. Of `plan`, what concerns the stream is used: length, warm-up, interval.
    ///
    /// # Errors
    /// As [`simulate`](crate::simulate).
    ///
    /// # Panics
    /// The machines have no preparation or no front in common, or there is none.
    pub fn new(machines: &[Machine], source: &mut dyn Source, plan: &Plan) -> Result<Self> {
        plan.check()?;
        let machines = &*plan.with_units(machines)?;
        let stages =
            Stages::of(machines, plan.seeds.len(), plan.shares_stages(), plan.asks(), plan.switched_off());
        let ([stream], 1) = (&*stages.streams, stages.streams.iter().map(|s| s.groups.len()).sum()) else {
            panic!("the machines share a preparation and a front")
        };
        let mut prepare = preparation(stream, plan, source)?;
        let mut blocks = Vec::new();
        let mut keep = |block| {
            blocks.push(block);
            Ok(())
        };
        let mut limit = plan.length.map(Limit::new);
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
        let (cuts, meta) = (plan.cuts(), source.meta().clone());
        let (machines, length) = (machines.to_vec(), plan.length);
        Ok(Self { machines, length, cuts, collapsed: plan.share, blocks, prepare, meta })
    }

    /// Rows held: accesses that a first-level cache must be asked about.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.entries()).sum()
    }

    /// Simulates the prepared trace on the machines it was prepared for, on the calling thread.
    ///
    /// # Errors
    /// As [`simulate`](crate::simulate).
    ///
    /// # Panics
    /// If the plan cuts the stream elsewhere than the one it was prepared with, or lets several machines share
    /// nothing.
    pub fn simulate(&self, plan: &Plan) -> Result<Vec<Outcome>> {
        plan.check()?;
        let asked = (plan.length, plan.cuts(), plan.share);
        assert_eq!((self.length, self.cuts, self.collapsed), asked, "prepared for another plan");
        let stages = Stages::of(
            &self.machines,
            plan.seeds.len(),
            plan.shares_stages(),
            plan.asks(),
            plan.switched_off(),
        );
        let ([stream], 1) = (&*stages.streams, stages.streams.iter().map(|s| s.groups.len()).sum()) else {
            panic!("the machines share a preparation and a front")
        };
        let group = &stream.groups[0];
        let mut front = (group.sharing == Sharing::Shared)
            .then(|| SharedFront::new(&group.trees(&self.machines), plan.seeds[0], &group.paths));
        let mut unheard = |_: &Progress| Ok(());
        let watcher = Watcher::new(plan, &mut unheard);
        let heed = || watcher.again();
        let mut worker = Worker::new(lanes(&self.machines, &stages, plan, None, &watcher)?);
        for block in &self.blocks {
            match &mut front {
                Some(front) => front.pass(Arc::clone(block), &mut |block| worker.block(0, &block, &heed))?,
                None => worker.block(0, block, &heed)?,
            }
        }
        let prepared = std::slice::from_ref(&self.prepare);
        let lanes = worker.into_lanes();
        let reports = report(&self.machines, plan, lanes, prepared, vec![(0, front)], &self.meta, &watcher)?;
        Ok(self.machines.iter().zip(reports).map(|(machine, report)| report.finish(machine, plan)).collect())
    }
}
