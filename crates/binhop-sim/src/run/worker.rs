//! `Worker` simulates lanes on one thread. Lanes never meet, so the assignment of lanes to workers is in no result.

use std::sync::Arc;

use binhop_base::Result;
use binhop_hw::Request;
use binhop_os::placement::Placement;
use binhop_trace::export::MemoryAccess;

use super::lane::{Lane, LaneSetup};
use super::recency::BlockRecency;
use crate::frame_map::Tables;
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::prepare::Block;
use crate::progress::{InterruptCheck, ProgressReporter};
use crate::results::spill::Spill;
use crate::sharing::{FrontSharing, SharingPlan};

/// Makes a placement policy for a seed, in place of the machine's own.
pub type PolicyMaker<'a> = &'a (dyn Fn(u64) -> Box<dyn Placement> + Sync);

/// Entries after which a worker asks whether to go on: some milliseconds of work, however many lanes there are.
const ENTRIES_BETWEEN_CHECKS: usize = 1 << 16;

/// A lane, and the number of the group of machines it belongs to.
pub(crate) type GroupedLane = (usize, Lane);

/// Every lane of a run.
pub(crate) fn lanes(
    machines: &[Machine],
    sharing_plan: &SharingPlan,
    options: &RunOptions,
    policy: Option<PolicyMaker<'_>>,
    reporter: &ProgressReporter<'_>,
) -> Result<Vec<GroupedLane>> {
    let spill = Arc::new(Spill::default());
    let mut lanes = Vec::new();
    for (number, group) in sharing_plan.preparations.iter().flat_map(|stream| &stream.groups).enumerate() {
        for cells in &group.lanes {
            for &seed in &options.seeds {
                let shared_front = group.sharing == FrontSharing::Shared;
                let (paths, spill) = (&group.paths, &spill);
                let setup = LaneSetup { machines, cells, seed, shared_front, paths, options, spill };
                lanes.push((number, Lane::new(&setup, policy.map(|make| make(seed)))?));
                reporter.check_interrupt()?;
            }
        }
    }
    Ok(lanes)
}

/// Deals lanes out so that each worker has about as much to do.
pub(super) fn assign(mut lanes: Vec<GroupedLane>, workers: usize) -> Vec<Vec<GroupedLane>> {
    let mut shares: Vec<(usize, Vec<GroupedLane>)> = (0..workers).map(|_| (0, Vec::new())).collect();
    lanes.sort_by_key(|(_, lane)| std::cmp::Reverse(lane.weight()));
    for numbered in lanes {
        let lightest = shares.iter_mut().min_by_key(|(weight, _)| *weight).expect("there is a worker");
        lightest.0 += numbered.1.weight();
        lightest.1.push(numbered);
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

/// Some lanes, simulated on one thread.
pub(crate) struct Worker {
    /// By number of the group.
    groups: Vec<Option<WorkerGroup>>,
}

/// The lanes of one group of machines on one thread, with what is the same for all of them.
#[derive(Default)]
struct WorkerGroup {
    lanes: Vec<Lane>,
    /// Requests that a lane's front lets through between two controls: the same memory for all lanes, one after
    /// the other.
    requests: Vec<Request>,
    tables: Tables,
    recency: BlockRecency,
    /// Entries that lanes have gone through since `check_interrupt` was asked.
    unchecked: usize,
}

impl Worker {
    pub(crate) fn new(lanes: Vec<GroupedLane>) -> Self {
        let mut groups: Vec<Option<WorkerGroup>> = Vec::new();
        for (group, lane) in lanes {
            if group >= groups.len() {
                groups.resize_with(group + 1, || None);
            }
            groups[group].get_or_insert_default().lanes.push(lane);
        }
        Self { groups }
    }

    pub(crate) fn into_lanes(self) -> Vec<GroupedLane> {
        let lanes = |(number, group): (usize, Option<WorkerGroup>)| {
            group.into_iter().flat_map(|group| group.lanes).map(move |lane| (number, lane))
        };
        self.groups.into_iter().enumerate().flat_map(lanes).collect()
    }

    /// Takes the accesses that have reached memory since the last call.
    pub(super) fn take_tapped(&mut self, out: &mut Vec<MemoryAccess>) {
        let lanes = self.groups.iter_mut().flatten().flat_map(|group| &mut group.lanes);
        lanes.for_each(|lane| lane.take_tapped(out));
    }

    /// Returns whether this worker has a lane of a group.
    pub(crate) fn serves(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(Option::is_some)
    }

    /// `check_interrupt` is asked now and then; its error ends the work.
    pub(crate) fn block(
        &mut self,
        group: usize,
        block: &Block,
        check_interrupt: InterruptCheck<'_>,
    ) -> Result<()> {
        match self.groups.get_mut(group) {
            Some(Some(group)) => group.block(block, check_interrupt),
            _ => Ok(()),
        }
    }
}

impl WorkerGroup {
    /// Lane after lane through the whole block.
    fn block(&mut self, block: &Block, check_interrupt: InterruptCheck<'_>) -> Result<()> {
        let Self { lanes, requests, tables, recency, unchecked } = self;
        tables.extend(&block.mappings);
        let last = lanes.len() - 1;
        for (number, lane) in lanes.iter_mut().enumerate() {
            *unchecked += block.entries();
            if *unchecked > ENTRIES_BETWEEN_CHECKS {
                *unchecked = 0;
                check_interrupt()?;
            }
            recency.begin(number < last);
            lane.run(block, tables, recency, requests)?;
        }
        recency.end(&block.controls);
        Ok(())
    }
}
