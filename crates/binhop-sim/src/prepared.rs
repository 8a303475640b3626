//! A trace prepared once, held in memory: to simulate it again and again without reading it.

use std::sync::Arc;

use binhop_base::Result;
use binhop_trace::{Meta, Source};

use crate::engine::{Worker, lanes, preparation, report};
use crate::front::{SharedFront, Sharing};
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::planner::Stages;
use crate::prepare::{Block, Cuts, Flow, Prepare};

/// A trace prepared for machines that share a preparation and a front.
pub struct Prepared {
    machines: Vec<Machine>,
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
        let stages = Stages::of(machines, plan.seeds.len(), plan.shares_stages());
        let ([stream], 1) = (&*stages.streams, stages.streams.iter().map(|s| s.groups.len()).sum()) else {
            panic!("the machines share a preparation and a front")
        };
        let mut prepare = preparation(stream, plan, source);
        let mut blocks = Vec::new();
        let mut keep = |block| {
            blocks.push(block);
            Ok(())
        };
        while let Some(batch) = source.next_batch()? {
            if prepare.feed(&batch, &mut keep)? == Flow::Done {
                break;
            }
        }
        prepare.finish(&mut keep)?;
        let (cuts, meta) = (plan.cuts(), source.meta().clone());
        Ok(Self { machines: machines.to_vec(), cuts, collapsed: plan.share, blocks, prepare, meta })
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
        assert_eq!((self.cuts, self.collapsed), (plan.cuts(), plan.share), "prepared for another plan");
        let stages = Stages::of(&self.machines, plan.seeds.len(), plan.shares_stages());
        let ([stream], 1) = (&*stages.streams, stages.streams.iter().map(|s| s.groups.len()).sum()) else {
            panic!("the machines share a preparation and a front")
        };
        let group = &stream.groups[0];
        let mut front = (group.sharing == Sharing::Shared)
            .then(|| SharedFront::new(&group.trees(&self.machines), plan.seeds[0]));
        let mut worker = Worker::new(lanes(&self.machines, &stages, plan, None)?);
        for block in &self.blocks {
            match &mut front {
                Some(front) => front.pass(Arc::clone(block), &mut |block| worker.block(0, &block))?,
                None => worker.block(0, block)?,
            }
        }
        let prepared = std::slice::from_ref(&self.prepare);
        report(&self.machines, plan, worker.into_lanes(), prepared, vec![(0, front)], &self.meta)
    }
}
