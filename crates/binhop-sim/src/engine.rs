//! The engine: decode → prepare → place → front → back, over any number of machines and placements at once.
//!
//! One thread reads, prepares and simulates what is shared; lanes are dealt out to the others. Lanes never
//! meet, so neither the number of threads nor their pace is in any result.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use binhop_base::{Bytes, Problem, Result};
use binhop_hw::Rules;
use binhop_os::Recency;
use binhop_os::placement::Placement;
use binhop_trace::export::MemoryAccess;
use binhop_trace::{Ahead, Meta, Source};

use crate::front::{SharedFront, Sharing};
use crate::lane::{self, Lane};
use crate::machine::Machine;
use crate::outcome::{Outcome, Part, Run};
use crate::plan::Plan;
use crate::planner::{Branch, Stages};
use crate::prepare::{Block, Control, Flow, Prepare, Setup};
use crate::view::Tables;

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// References prepared so far.
    pub references: u64,
    /// References there will be, if known: reckoned where the plan counts instructions.
    pub of: Option<u64>,
}

/// Makes a placement policy for a seed, in place of the machine's own.
pub type PolicyMaker<'a> = &'a (dyn Fn(u64) -> Box<dyn Placement> + Sync);

/// Where the blocks of a group of machines go: the group's number, and a block.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(usize, Arc<Block>) -> Result<()>;

/// Blocks that may wait for a worker.
const QUEUE: usize = 8;

/// Simulates a trace on a machine under one placement for each seed.
///
/// `progress` is called often, on the calling thread; its error ends the run.
///
/// # Errors
/// The request is wrong (no seed, a trace that holds what is not simulated), the trace is damaged, or a
/// law that must hold after a run does not.
pub fn simulate(
    machine: &Machine,
    source: Box<dyn Source>,
    plan: &Plan,
    policy: Option<PolicyMaker<'_>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Outcome> {
    let mut outcomes = simulate_all(std::slice::from_ref(machine), source, plan, policy, progress)?;
    Ok(outcomes.remove(0))
}

/// Simulates a trace on several machines: the outcome of each is that of simulating it alone, to the bit;
/// stages in which machines agree are done once ([`explain`](crate::explain) says which).
///
/// # Errors
/// As [`simulate`]; or there is no machine.
pub fn simulate_all(
    machines: &[Machine],
    source: Box<dyn Source>,
    plan: &Plan,
    policy: Option<PolicyMaker<'_>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Outcome>> {
    plan.check()?;
    check_machines(machines, policy.is_some())?;
    let source = if plan.threads > 1 { Box::new(Ahead::new(source)) as Box<dyn Source> } else { source };
    let stages = Stages::of(machines, plan.seeds.len(), plan.shares_stages());
    let lanes = lanes(machines, &stages, plan, policy)?;
    let mut producer = Producer::new(machines, &stages, source, plan);
    let workers = plan.threads.min(lanes.len());
    let lanes = if workers > 1 {
        in_threads(&mut producer, deal(lanes, workers), progress)?
    } else {
        let mut worker = Worker::new(lanes);
        producer.run(&mut |group, block| worker.block(group, &block), progress)?;
        worker.into_lanes()
    };
    conclude(machines, plan, lanes, producer)
}

/// Simulates a trace under one placement and hands on what reaches memory, in order: lines read for misses, lines written
/// back, stores passed down, and dirty lines of pages whose frames change hands. Lines that are dirty in the end stay
/// where they are. Exactly the accesses that [`simulate`] counts as memory's.
///
/// `take` gets them as they come; its error, or that of `progress`, ends the run.
///
/// # Errors
/// As [`simulate`]; or the machine counts by cachegrind's rules, by which written data leaves no trace.
///
/// # Panics
/// The plan does not have exactly one seed.
pub fn memory_stream(
    machine: &Machine,
    source: Box<dyn Source>,
    plan: &Plan,
    take: &mut dyn FnMut(&[MemoryAccess]) -> Result<()>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Outcome> {
    assert_eq!(plan.seeds.len(), 1, "what reaches memory is that of one placement");
    if machine.tree().config().rules == Rules::Cachegrind {
        return Err(Problem::request(
            "cachegrind",
            &format!("machine {}: rules", machine.name()),
            "by cachegrind's rules written data leaves no trace, so nothing says what reaches memory",
            "take a machine that counts lines",
        ));
    }
    let plan = Plan { tap: true, ..plan.clone() };
    plan.check()?;
    let machines = std::slice::from_ref(machine);
    let source = if plan.threads > 1 { Box::new(Ahead::new(source)) as Box<dyn Source> } else { source };
    let stages = Stages::of(machines, 1, plan.shares_stages());
    let mut producer = Producer::new(machines, &stages, source, &plan);
    let mut worker = Worker::new(lanes(machines, &stages, &plan, None)?);
    let mut accesses = Vec::new();
    producer.run(
        &mut |group, block| {
            worker.block(group, &block)?;
            worker.take_tapped(&mut accesses);
            take(&accesses)?;
            accesses.clear();
            Ok(())
        },
        progress,
    )?;
    let mut outcomes = conclude(machines, &plan, worker.into_lanes(), producer)?;
    Ok(outcomes.remove(0))
}

fn check_machines(machines: &[Machine], own_policy: bool) -> Result<()> {
    if machines.is_empty() {
        let rule = "a run needs at least one machine";
        return Err(Problem::request("none", "machines", rule, "name a machine"));
    }
    match machines.iter().find(|machine| own_policy && machine.memory().frames.is_none()) {
        None => Ok(()),
        Some(machine) => Err(Problem::request(
            "a policy of one's own",
            &format!("machine {}", machine.name()),
            "with placement identity, physical = virtual: there is nothing to place",
            "give the machine a memory.size and another placement.policy",
        )),
    }
}

/// A lane, and the number of the group of machines it belongs to.
pub(crate) type Numbered = (usize, Lane);

/// Every lane of a run.
pub(crate) fn lanes(
    machines: &[Machine],
    stages: &Stages,
    plan: &Plan,
    policy: Option<PolicyMaker<'_>>,
) -> Result<Vec<Numbered>> {
    let mut lanes = Vec::new();
    for (number, group) in stages.streams.iter().flat_map(|stream| &stream.groups).enumerate() {
        for cells in &group.lanes {
            for &seed in &plan.seeds {
                let shared_front = group.sharing == Sharing::Shared;
                let setup = lane::LaneSetup { machines, cells, seed, shared_front, plan };
                lanes.push((number, Lane::new(&setup, policy.map(|make| make(seed)))?));
            }
        }
    }
    Ok(lanes)
}

/// Deals lanes out so that each worker has about as much to do.
fn deal(mut lanes: Vec<Numbered>, workers: usize) -> Vec<Vec<Numbered>> {
    let mut hands: Vec<(usize, Vec<Numbered>)> = (0..workers).map(|_| (0, Vec::new())).collect();
    lanes.sort_by_key(|(_, lane)| std::cmp::Reverse(lane.weight()));
    for numbered in lanes {
        let lightest = hands.iter_mut().min_by_key(|(weight, _)| *weight).expect("there is a worker");
        lightest.0 += numbered.1.weight();
        lightest.1.push(numbered);
    }
    hands.into_iter().map(|(_, hand)| hand).collect()
}

/// Reads, prepares and, where it is shared, simulates fronts.
pub(crate) struct Producer {
    source: Box<dyn Source>,
    streams: Vec<Preparation>,
    length: Option<u64>,
    instructions: Option<u64>,
}

/// One preparation, and the fronts behind it.
struct Preparation {
    prepare: Prepare,
    fronts: Vec<Outlet>,
}

/// A group of machines behind a preparation: with a front shared by its lanes, or none.
struct Outlet {
    group: usize,
    shared: Option<SharedFront>,
}

/// The preparation of a stream.
pub(crate) fn preparation(stream: &Branch, plan: &Plan, source: &dyn Source) -> Prepare {
    let mut needs = stream.needs.clone();
    if plan.tap {
        needs.keep_time();
    }
    let setup = Setup {
        needs,
        safe: stream.safe,
        trace_page: Bytes(source.meta().page_size.unwrap_or(4096)),
        cuts: plan.cuts(),
        collapse: plan.share,
    };
    Prepare::new(&setup, source.name())
}

impl Producer {
    fn new(machines: &[Machine], stages: &Stages, source: Box<dyn Source>, plan: &Plan) -> Self {
        let mut numbers = 0..;
        let streams = stages
            .streams
            .iter()
            .map(|stream| Preparation {
                prepare: preparation(stream, plan, source.as_ref()),
                fronts: stream
                    .groups
                    .iter()
                    .map(|group| Outlet {
                        group: numbers.next().expect("numbers do not end"),
                        shared: (group.sharing == Sharing::Shared)
                            .then(|| SharedFront::new(&group.trees(machines), plan.seeds[0])),
                    })
                    .collect(),
            })
            .collect();
        Self { source, streams, length: plan.length, instructions: plan.instructions }
    }

    fn run(&mut self, deliver: Deliver<'_>, progress: &mut dyn FnMut(&Progress) -> Result<()>) -> Result<()> {
        while let Some(batch) = self.source.next_batch()? {
            let mut flow = Flow::Done;
            for Preparation { prepare, fronts } in &mut self.streams {
                if prepare.feed(&batch, &mut |block| pass(fronts, block, deliver))? == Flow::On {
                    flow = Flow::On;
                }
            }
            progress(&self.progress())?;
            if flow == Flow::Done {
                break;
            }
        }
        for Preparation { prepare, fronts } in &mut self.streams {
            prepare.finish(&mut |block| pass(fronts, block, deliver))?;
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let stream = self.streams[0].prepare.stream();
        let references = stream.references;
        let reckoned = self
            .instructions
            .filter(|_| stream.instructions > 0)
            .map(|all| (references as f64 * (all as f64 / stream.instructions as f64)) as u64);
        let of = [self.length, reckoned].into_iter().flatten().min();
        Progress { references, of: of.map(|of| of.max(references)) }
    }
}

/// Passes a block on to every group: through the front its lanes share, if they do.
fn pass(fronts: &mut [Outlet], block: Arc<Block>, deliver: Deliver<'_>) -> Result<()> {
    for Outlet { group, shared } in fronts {
        match shared {
            Some(front) => front.pass(Arc::clone(&block), &mut |block| deliver(*group, block))?,
            None => deliver(*group, Arc::clone(&block))?,
        }
    }
    Ok(())
}

/// Checks what must hold after a run, then reports it.
fn conclude(
    machines: &[Machine],
    plan: &Plan,
    lanes: Vec<Numbered>,
    producer: Producer,
) -> Result<Vec<Outcome>> {
    let Producer { source, streams, .. } = producer;
    let mut groups = Vec::new();
    let mut prepared = Vec::new();
    for (number, Preparation { prepare, fronts }) in streams.into_iter().enumerate() {
        groups.extend(fronts.into_iter().map(|behind| (number, behind.shared)));
        prepared.push(prepare);
    }
    report(machines, plan, lanes, &prepared, groups, source.meta())
}

/// Checks lanes and reports on each machine. `groups`: for each group of machines its preparation's number,
/// and the front its lanes shared.
pub(crate) fn report(
    machines: &[Machine],
    plan: &Plan,
    mut lanes: Vec<Numbered>,
    prepared: &[Prepare],
    groups: Vec<(usize, Option<SharedFront>)>,
    meta: &Meta,
) -> Result<Vec<Outcome>> {
    if plan.warmup > 0 && !prepared[0].is_measuring() {
        let references = prepared[0].stream().references;
        return Err(Problem::request(
            &plan.warmup.to_string(),
            "warmup",
            &format!("the run holds {references} references: nothing is left to measure"),
            "make the warm-up shorter, or the run longer",
        ));
    }
    let mut stream_of = Vec::new();
    let mut fronts = Vec::new();
    for (stream, shared) in groups {
        stream_of.push(stream);
        fronts.push(shared.and_then(|front| front.finish(prepared[stream].stream())));
    }
    for (group, lane) in &mut lanes {
        lane.check(fronts[*group].as_ref())?;
    }
    lanes.sort_by_key(|(_, lane)| plan.seeds.iter().position(|&seed| seed == lane.seed));
    let mut parts: Vec<Vec<Part<'_>>> = machines.iter().map(|_| Vec::new()).collect();
    let mut prepare_of = vec![&prepared[0]; machines.len()];
    for (group, lane) in &lanes {
        for behind in &lane.behind {
            parts[behind.machine].push(Part { lane, behind });
            prepare_of[behind.machine] = &prepared[stream_of[*group]];
        }
    }
    let outcome = |(number, parts): (usize, Vec<Part<'_>>)| {
        let machine = &machines[number];
        crate::outcome::report(&Run { machine, plan, parts: &parts, prepare: prepare_of[number], meta })
    };
    Ok(parts.into_iter().enumerate().map(outcome).collect())
}

/// Some lanes, simulated on one thread.
pub(crate) struct Worker {
    /// By number of the group.
    groups: Vec<Option<Station>>,
}

/// The lanes of one group of machines on one thread, with what is the same for all of them.
#[derive(Default)]
struct Station {
    lanes: Vec<Lane>,
    tables: Tables,
    recency: Recency,
}

impl Worker {
    pub(crate) fn new(lanes: Vec<Numbered>) -> Self {
        let mut groups: Vec<Option<Station>> = Vec::new();
        for (group, lane) in lanes {
            if group >= groups.len() {
                groups.resize_with(group + 1, || None);
            }
            groups[group].get_or_insert_default().lanes.push(lane);
        }
        Self { groups }
    }

    pub(crate) fn into_lanes(self) -> Vec<Numbered> {
        let lanes = |(group, station): (usize, Option<Station>)| {
            station.into_iter().flat_map(|station| station.lanes).map(move |lane| (group, lane))
        };
        self.groups.into_iter().enumerate().flat_map(lanes).collect()
    }

    /// What has reached memory since the last call.
    fn take_tapped(&mut self, out: &mut Vec<MemoryAccess>) {
        let lanes = self.groups.iter_mut().flatten().flat_map(|station| &mut station.lanes);
        lanes.for_each(|lane| lane.take_tapped(out));
    }

    /// Whether some lane of a group is here.
    fn serves(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(Option::is_some)
    }

    pub(crate) fn block(&mut self, group: usize, block: &Block) -> Result<()> {
        match self.groups.get_mut(group) {
            Some(Some(station)) => station.block(block),
            _ => Ok(()),
        }
    }
}

impl Station {
    /// Lane after lane through the whole block, as long as no lane needs to know recency; then stretch by
    /// stretch, as recency moves on for all lanes at once.
    fn block(&mut self, block: &Block) -> Result<()> {
        self.tables.extend(&block.mappings);
        let (mut control, mut entry) = (0, 0);
        for (index, (position, now)) in block.controls.iter().enumerate() {
            if let Control::Recency(news) = now {
                let position = *position as usize;
                self.stretch(block, control..index, entry..position)?;
                for &(page, time) in news {
                    self.recency.note(page, time);
                }
                (control, entry) = (index + 1, position);
            }
        }
        self.stretch(block, control..block.controls.len(), entry..block.entries())
    }

    fn stretch(
        &mut self,
        block: &Block,
        controls: std::ops::Range<usize>,
        entries: std::ops::Range<usize>,
    ) -> Result<()> {
        for lane in &mut self.lanes {
            lane.run(block, controls.clone(), entries.clone(), &self.tables, &self.recency)?;
        }
        Ok(())
    }
}

fn in_threads(
    producer: &mut Producer,
    hands: Vec<Vec<Numbered>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Numbered>> {
    type Delivery = (usize, Arc<Block>);
    std::thread::scope(|scope| {
        let mut queues: Vec<(Vec<bool>, SyncSender<Delivery>)> = Vec::new();
        let mut threads = Vec::new();
        let groups = producer.streams.iter().map(|stream| stream.fronts.len()).sum();
        for hand in hands {
            let (queue, blocks): (_, Receiver<Delivery>) = sync_channel(QUEUE);
            let mut worker = Worker::new(hand);
            queues.push(((0..groups).map(|group| worker.serves(group)).collect(), queue));
            threads.push(scope.spawn(move || {
                for (group, block) in blocks {
                    worker.block(group, &block)?;
                }
                Ok(worker.into_lanes())
            }));
        }
        // A closed queue means that its worker met an error; that error is the one to report.
        let mut stopped = false;
        let produced = producer.run(
            &mut |group, block| {
                let mut wanting = queues.iter().filter(|(serves, _)| serves[group]);
                stopped |= wanting.any(|(_, queue)| queue.send((group, Arc::clone(&block))).is_err());
                if stopped { Err(Problem::interrupted()) } else { Ok(()) }
            },
            progress,
        );
        drop(queues);
        let mut lanes = Vec::new();
        let mut failed = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(part)) => lanes.extend(part),
                Ok(Err(problem)) => failed = failed.or(Some(problem)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match failed {
            Some(problem) => Err(problem),
            None => produced.map(|()| lanes),
        }
    })
}
