//! `Worker` simulates lanes on one thread. Lanes never meet, so the assignment of lanes to workers is in no result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binhop_base::Result;
use binhop_hw::{Front, MOST_LANES, Request};
use binhop_os::PoolPolicy;
use binhop_trace::export::MemoryAccess;

use super::lane::{EqualLanes, Lane, LaneSetup, equal_lanes_together};
use super::lane_bundle::{LaneBundle, lanes_of_bundle};
use super::recency::BlockRecency;
use crate::frame_map::Tables;
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::prepare::{Block, Control};
use crate::progress::{InterruptCheck, ProgressReporter};
use crate::results::spill::Spill;
use crate::sharing::{FEWEST_SEEDS_IN_BITS, FrontSharing, SharingPlan};

/// `PolicyMaker` makes a placement policy for a seed, in place of the machine's own policy.
pub type PolicyMaker<'a> = &'a (dyn Fn(u64) -> Box<dyn PoolPolicy> + Sync);

/// The number of entries after which a worker checks for an interrupt: some milliseconds of work, however
/// many lanes there are.
const ENTRIES_BETWEEN_CHECKS: usize = 1 << 16;

/// `GroupedLane` is a lane with the number of its front group.
pub(crate) type GroupedLane = (usize, Lane);

/// Makes every lane of a run, on all threads of the options. The calling thread makes policies of the caller's own.
pub(crate) fn lanes(
    machines: &[Machine],
    sharing_plan: &SharingPlan,
    options: &RunOptions,
    policy: Option<PolicyMaker<'_>>,
    reporter: &ProgressReporter<'_>,
) -> Result<Vec<GroupedLane>> {
    let spill = Arc::new(Spill::default());
    let together = equal_lanes_together(options.seeds.len(), options.threads);
    let mut setups = Vec::new();
    for (number, group) in sharing_plan.preparations.iter().flat_map(|stream| &stream.groups).enumerate() {
        for cells in &group.lanes {
            for (place, &seed) in options.seeds.iter().enumerate() {
                let shared_front = group.sharing == FrontSharing::Shared;
                let (paths, spill) = (&group.paths, &spill);
                let led = cells.are_equal && place % together > 0;
                setups.push((
                    number,
                    LaneSetup { machines, cells, seed, shared_front, led, paths, options, spill },
                ));
            }
        }
    }
    let threads = if policy.is_some() { 1 } else { options.threads };
    make_lanes(&setups, threads, policy, reporter)
}

/// Makes the lanes of these setups on so many threads, in order.
fn make_lanes(
    setups: &[(usize, LaneSetup<'_>)],
    threads: usize,
    policy: Option<PolicyMaker<'_>>,
    reporter: &ProgressReporter<'_>,
) -> Result<Vec<GroupedLane>> {
    let of_thread = setups.len().div_ceil(threads.max(1)).max(1);
    let (own, others) = setups.split_at(of_thread.min(setups.len()));
    let stop = AtomicBool::new(false);
    let make_others = |setups: &[(usize, LaneSetup<'_>)]| -> Result<Vec<GroupedLane>> {
        let going_on = setups.iter().take_while(|_| !stop.load(Ordering::Relaxed));
        going_on.map(|(number, setup)| Ok((*number, Lane::new(setup, None)?))).collect()
    };
    std::thread::scope(|scope| {
        let parts = others.chunks(of_thread);
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| make_others(part))).collect();
        let make = |(number, setup): &(usize, LaneSetup<'_>)| {
            let lane = Lane::new(setup, policy.map(|make| make(setup.seed)))?;
            reporter.check_interrupt()?;
            Ok((*number, lane))
        };
        let made: Result<Vec<GroupedLane>> = own.iter().map(make).collect();
        stop.store(made.is_err(), Ordering::Relaxed);
        let mut lanes = made?;
        for thread in threads {
            lanes.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(lanes)
    })
}

/// Assigns lanes to workers so that each worker has about as much to do. The lanes of a bundle stay together.
pub(super) fn assign(lanes: Vec<GroupedLane>, workers: usize) -> Vec<Vec<GroupedLane>> {
    let mut shares: Vec<(usize, Vec<GroupedLane>)> = (0..workers).map(|_| (0, Vec::new())).collect();
    let weight = |part: &Vec<GroupedLane>| part.iter().map(|(_, lane)| lane.weight()).sum::<usize>();
    let mut parts = in_bundles(lanes, workers);
    parts.sort_by_key(|part| std::cmp::Reverse(weight(part)));
    for part in parts {
        let lightest = shares.iter_mut().min_by_key(|(weight, _)| *weight).expect("there is a worker");
        lightest.0 += weight(&part);
        lightest.1.extend(part);
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

/// Puts the lanes of each bundle together, and every other lane by itself.
fn in_bundles(lanes: Vec<GroupedLane>, workers: usize) -> Vec<Vec<GroupedLane>> {
    let mut runs: Vec<Vec<GroupedLane>> = Vec::new();
    for numbered in lanes {
        match runs.last_mut() {
            Some(run) if numbered.1.is_led() => run.push(numbered),
            Some(run) if run[0].0 == numbered.0 && run[0].1.shares_bits(&numbered.1) => run.push(numbered),
            _ => runs.push(vec![numbered]),
        }
    }
    let bundles = |mut run: Vec<GroupedLane>| {
        let is_divided = run[0].1.is_in_bits();
        let most = if is_divided { lanes_of_bundle(run.len(), workers) } else { run.len() };
        std::iter::from_fn(move || (!run.is_empty()).then(|| run.drain(..most.min(run.len())).collect()))
    };
    runs.into_iter().flat_map(bundles).collect()
}

/// `Worker` holds the lanes of one thread.
pub(crate) struct Worker {
    /// The lanes, by the number of their front group.
    groups: Vec<Option<WorkerGroup>>,
}

/// `WorkerGroup` holds the lanes of one front group on one thread, with what is the same for all of them.
#[derive(Default)]
struct WorkerGroup {
    /// The lanes that are simulated one by one.
    lanes: Vec<Lane>,
    /// The lanes that are simulated together.
    bundles: Vec<LaneBundle>,
    /// The lanes whose caches are equal.
    equal: Vec<EqualLanes>,
    /// Room for the requests that a lane's front lets through between two controls. All lanes use the same
    /// memory, one after the other.
    requests: Vec<Request>,
    tables: Tables,
    recency: BlockRecency,
    /// The entries that lanes have simulated since the last check for an interrupt.
    unchecked: usize,
}

impl Worker {
    pub(crate) fn new(lanes: Vec<GroupedLane>) -> Self {
        let mut groups: Vec<Option<WorkerGroup>> = Vec::new();
        for run in in_bundles(lanes, 1) {
            let group = run[0].0;
            if group >= groups.len() {
                groups.resize_with(group + 1, || None);
            }
            let WorkerGroup { lanes, bundles, equal, .. } = groups[group].get_or_insert_default();
            let mut run: Vec<Lane> = run.into_iter().map(|(_, lane)| lane).collect();
            if run[0].is_in_bits() {
                bundles.push(LaneBundle::new(run));
            } else if run.len() > 1 {
                let led = run.split_off(1);
                equal.extend(run.pop().map(|first| EqualLanes::new(first, led)));
            } else {
                lanes.extend(run);
            }
        }
        Self { groups }
    }

    pub(crate) fn into_lanes(self) -> Vec<GroupedLane> {
        let lanes = |(number, group): (usize, Option<WorkerGroup>)| {
            let bundled = |group: WorkerGroup| {
                let WorkerGroup { lanes, bundles, equal, .. } = group;
                let together = bundles.into_iter().flat_map(LaneBundle::into_lanes);
                lanes.into_iter().chain(together).chain(equal.into_iter().flat_map(EqualLanes::into_lanes))
            };
            group.into_iter().flat_map(bundled).map(move |lane| (number, lane))
        };
        self.groups.into_iter().enumerate().flat_map(lanes).collect()
    }

    /// Returns the only lane of this worker.
    pub(super) fn only_lane(&self) -> &Lane {
        let mut lanes = self.groups.iter().flatten().flat_map(|group| &group.lanes);
        lanes.next().expect("the worker has a lane")
    }

    /// Returns the lanes of this worker.
    pub(super) fn lanes_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.groups.iter_mut().flatten().flat_map(|group| &mut group.lanes)
    }

    /// Takes the accesses that have reached memory since the last call.
    pub(super) fn take_tapped(&mut self, out: &mut Vec<MemoryAccess>) {
        self.lanes_mut().for_each(|lane| lane.take_tapped(out));
    }

    /// Returns whether this worker has a lane of a front group.
    pub(crate) fn serves(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(Option::is_some)
    }

    /// Simulates a block in every lane of a front group. `check_interrupt` is called from time to time, and
    /// its error ends the work.
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
    /// Simulates the whole block in one lane, or bundle of lanes, after the other.
    fn block(&mut self, block: &Block, check_interrupt: InterruptCheck<'_>) -> Result<()> {
        let Self { lanes, bundles, equal, requests, tables, recency, unchecked } = self;
        tables.extend(&block.mappings);
        if bundles.iter().any(|bundle| bundle.ends_before(block)) {
            for bundle in bundles.drain(..) {
                lanes.extend(bundle.split()?);
            }
        }
        if equal.iter().any(|equal| equal.ends_before(block)) {
            lanes.extend(equal.drain(..).flat_map(EqualLanes::split));
        }
        if let Some((_, Control::Unshare(ended))) = block.controls.first() {
            bundles.extend(continue_in_bits(lanes, &ended.front));
        }
        let last = lanes.len() + bundles.len() + equal.len() - 1;
        let mut check = |work: usize| {
            *unchecked += work;
            if *unchecked > ENTRIES_BETWEEN_CHECKS {
                *unchecked = 0;
                check_interrupt()?;
            }
            Result::Ok(())
        };
        for (number, lane) in lanes.iter_mut().enumerate() {
            check(block.entries())?;
            recency.begin(number < last);
            lane.run(block, tables, recency, requests)?;
        }
        for (number, bundle) in bundles.iter_mut().enumerate() {
            check(bundle.work(block.entries()))?;
            recency.begin(lanes.len() + number < last);
            bundle.run(block, tables, recency, &mut check)?;
        }
        for (number, equal) in equal.iter_mut().enumerate() {
            check(block.entries())?;
            recency.begin(lanes.len() + bundles.len() + number < last);
            equal.run(block, tables, recency, requests, &mut check)?;
        }
        recency.end(&block.controls);
        Ok(())
    }
}

/// Takes the lanes whose level 1 continues in bits where they no longer share a front. Returns the bundles of these
/// lanes.
fn continue_in_bits(lanes: &mut Vec<Lane>, front: &Front) -> Vec<LaneBundle> {
    let mut together: Vec<Vec<Lane>> = Vec::new();
    for lane in lanes.extract_if(.., |lane| lane.continues_in_bits()) {
        let joined = together.iter_mut().find(|run| run.len() < MOST_LANES && run[0].has_caches_of(&lane));
        match joined {
            Some(run) => run.push(lane),
            None => together.push(vec![lane]),
        }
    }
    let (bundles, few): (Vec<_>, Vec<_>) =
        together.into_iter().partition(|run| run.len() >= FEWEST_SEEDS_IN_BITS);
    lanes.extend(few.into_iter().flatten());
    bundles.into_iter().map(|run| LaneBundle::after_shared_front(run, front)).collect()
}

#[cfg(test)]
mod tests {
    use binhop_base::Rng;

    use super::*;

    /// Returns the number of lanes of each bundle of these machines.
    fn bundled(machines: &[Machine], seeds: u64) -> Vec<usize> {
        let options = RunOptions { seeds: (0..seeds).collect(), ..RunOptions::default() };
        let (shares, off) = (options.shares_stages(), options.switched_off());
        let sharing_plan = SharingPlan::of(machines, seeds as usize, shares, options.subscription(), off);
        let mut unheard = |_: &_| Ok(());
        let reporter = ProgressReporter::new(None, &mut unheard);
        let lanes = lanes(machines, &sharing_plan, &options, None, &reporter).unwrap();
        let bundles = in_bundles(lanes, 1).into_iter().filter(|bundle| bundle[0].1.is_in_bits());
        bundles.map(|bundle| bundle.len()).collect()
    }

    #[test]
    fn lanes_of_several_placements_stand_together_if_their_caches_are_equal() {
        let set = |settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|&setting| setting.to_string()).collect();
            Machine::load("kh90", &settings).unwrap()
        };
        let (elsewhere, smaller) = ("placement.policy=bin-hopping", "cache.l2.size=1MiB");
        assert_eq!(bundled(&[set(&[]), set(&[elsewhere])], 5), [10]);
        assert_eq!(bundled(&[set(&[]), set(&[elsewhere, smaller])], 5), [5, 5]);
        assert_eq!(bundled(&[set(&[]), set(&[elsewhere])], 40), [64, 16]);
    }

    /// More lanes than a bundle holds no longer share a front. Two lanes are too few for a bundle.
    #[test]
    fn level_1_of_many_lanes_continues_in_bits() {
        let machine = Machine::load("zen-4k", &["placement.policy=buddy".to_string()]).unwrap();
        let front = Front::new(machine.tree(), Rng::new(0));
        for (seeds, expected) in [(66, vec![64]), (67, vec![64, 3]), (2, vec![])] {
            let machines = std::slice::from_ref(&machine);
            let options = RunOptions { seeds: (0..seeds).collect(), ..RunOptions::default() };
            let (shares, off) = (options.shares_stages(), options.switched_off());
            let plan = SharingPlan::of(machines, seeds as usize, shares, None, off);
            let mut unheard = |_: &_| Ok(());
            let reporter = ProgressReporter::new(None, &mut unheard);
            let lanes = lanes(machines, &plan, &options, None, &reporter).unwrap();
            let mut lanes: Vec<Lane> = lanes.into_iter().map(|(_, lane)| lane).collect();
            let bundles = continue_in_bits(&mut lanes, &front);
            assert_eq!(bundles.iter().map(|bundle| bundle.lanes.len()).collect::<Vec<_>>(), expected);
            assert_eq!(lanes.len() + expected.iter().sum::<usize>(), seeds as usize);
        }
    }

    /// Returns for each thread the machines whose backs each of its bundles simulates, and the number of their lanes.
    fn divided(machines: &[Machine], seeds: usize, threads: usize) -> Vec<Vec<(Vec<usize>, usize)>> {
        let options = RunOptions { seeds: (0..seeds as u64).collect(), threads, ..RunOptions::default() };
        let off = options.switched_off();
        let plan = SharingPlan::of(machines, seeds, true, None, off).among_threads(machines, seeds, threads);
        let mut unheard = |_: &_| Ok(());
        let reporter = ProgressReporter::new(None, &mut unheard);
        let lanes = lanes(machines, &plan, &options, None, &reporter).unwrap();
        let of_bundle = |bundle: Vec<GroupedLane>| {
            let backs = bundle.iter().flat_map(|(_, lane)| &lane.backs);
            let of: std::collections::BTreeSet<usize> = backs.map(|back| back.machine).collect();
            (of.into_iter().collect(), bundle.len())
        };
        let of_share =
            |share: Vec<GroupedLane>| in_bundles(share, 1).into_iter().map(of_bundle).collect::<Vec<_>>();
        let mut shares: Vec<_> = assign(lanes, threads).into_iter().map(of_share).collect();
        shares.sort_unstable();
        shares
    }

    #[test]
    fn the_backs_of_few_lanes_are_divided_among_threads() {
        let sizes = ["1MiB", "4MiB", "16MiB"].map(|size| format!("cache.l2.size={size}"));
        let machines = sizes.clone().map(|size| Machine::load("kh90", &[size]).unwrap());
        assert_eq!(divided(&machines, 4, 1), [[(vec![0, 1, 2], 4)]]);
        assert_eq!(divided(&machines, 4, 2), [[(vec![0, 2], 4)], [(vec![1], 4)]]);
        assert_eq!(divided(&machines, 16, 3), [[(vec![0], 16)], [(vec![1], 16)], [(vec![2], 16)]]);
        // There are enough lanes for two bundles.
        assert_eq!(divided(&machines, 32, 2), [[(vec![0, 1, 2], 16)], [(vec![0, 1, 2], 16)]]);
        // The lanes of two policies stay in one bundle on each thread.
        let elsewhere = ["placement.policy=bin-hopping", "placement.bins=256"].map(String::from);
        let others =
            sizes.map(|size| Machine::load("kh90", &[vec![size], elsewhere.to_vec()].concat()).unwrap());
        let both = [machines, others].concat();
        assert_eq!(divided(&both, 4, 2), [[(vec![0, 2, 3, 5], 8)], [(vec![1, 4], 8)]]);
    }
}
