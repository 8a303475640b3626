//! The engine: decode → prepare → place → front → back, over any number of machines and placements at once.
//!
//! One thread reads, prepares and simulates what is shared; lanes are dealt out to the others. Lanes never
//! meet, so neither the number of threads nor their pace is in any result.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use binhop_base::{Bytes, Class, Problem, Result};
use binhop_hw::{Request, Rules};
use binhop_os::placement::Placement;
use binhop_trace::export::MemoryAccess;
use binhop_trace::tool::head;
use binhop_trace::{Ahead, Meta, Source};

use crate::frame_map::Tables;
use crate::front::{SharedFront, Sharing};
use crate::lane::{self, Lane};
use crate::machine::Machine;
use crate::outcome::{Outcome, Report, Run, Told};
use crate::plan::Plan;
use crate::planner::{Branch, Stages};
use crate::prepare::{Block, Flow, Prepare, Process, Setup};
use crate::recency::BlockRecency;
use crate::reckon::Growth;
use crate::rounds;
use crate::spill::Spill;
use crate::threads;
use crate::unit::Asks;

/// `Progress` tells how far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// References prepared so far.
    pub references: u64,
    /// References there will be, if known: reckoned where the plan counts instructions.
    pub of: Option<u64>,
}

/// A listener that is told how far a run is; its error ends the run.
type Tell<'a> = &'a mut dyn FnMut(&Progress) -> Result<()>;

/// Hears how far a run is, between batches and within them: whoever wants to stop a run need not wait for a batch in all lanes.
pub(crate) struct Watcher<'a> {
    progress: RefCell<Tell<'a>>,
    last: Cell<Progress>,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(plan: &Plan, progress: Tell<'a>) -> Self {
        Self {
            progress: RefCell::new(progress),
            last: Cell::new(Progress { references: 0, of: plan.length }),
        }
    }

    /// The run is so far.
    fn tell(&self, now: Progress) -> Result<()> {
        self.last.set(now);
        self.again()
    }

    /// The run goes on, and is as far as before.
    pub(crate) fn again(&self) -> Result<()> {
        (self.progress.borrow_mut())(&self.last.get())
    }
}

/// Makes a placement policy for a seed, in place of the machine's own.
pub type PolicyMaker<'a> = &'a (dyn Fn(u64) -> Box<dyn Placement> + Sync);

/// The receiver of the blocks of groups of machines: it takes the group's number, and a block.
pub(crate) type Deliver<'a> = &'a mut dyn FnMut(usize, Arc<Block>) -> Result<()>;

/// Told at every batch what the trace has held so far; its error ends the run.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(Growth) -> Result<()>;

/// A question that work asks from time to time: an error means that the work must stop.
pub type Heed<'a> = &'a dyn Fn() -> Result<()>;

/// Blocks that may wait for a worker.
pub(crate) const QUEUE: usize = 8;
/// Entries after which a worker asks whether to go on: some milliseconds of work, however many lanes there are.
const HEED: usize = 1 << 16;

/// Simulates a trace on machines, all seeds of the plan at once. `grown` is asked at every batch whether what the
/// trace has held so far is too much; then the run ends without a report.
pub(crate) fn run(
    machines: &[Machine],
    source: Box<dyn Source>,
    plan: &Plan,
    policy: Option<PolicyMaker<'_>>,
    grown: &mut dyn FnMut(Growth) -> bool,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Option<Vec<Report>>> {
    let source = opened(source, plan);
    let stages =
        Stages::of(machines, plan.seeds.len(), plan.shares_stages(), plan.asks(), plan.switched_off());
    let stages = stages.with_own_policies(policy.is_some());
    let watcher = Watcher::new(plan, progress);
    let lanes = lanes(machines, &stages, plan, policy, &watcher)?;
    let mut producer = Producer::new(machines, &stages, source, plan)?;
    let workers = plan.threads.min(lanes.len());
    let mut outgrown = false;
    let mut watch = |growth| {
        outgrown = grown(growth);
        if outgrown { Err(Problem::interrupted()) } else { Ok(()) }
    };
    let done = if workers > 1 {
        threads::simulate(&mut producer, deal(lanes, workers), &mut watch, &watcher)
    } else {
        let mut worker = Worker::new(lanes);
        let deliver = &mut |group, block: Arc<Block>| worker.block(group, &block, &|| watcher.again());
        producer.run(deliver, &mut watch, &watcher).map(|()| worker.into_lanes())
    };
    match done {
        Ok(lanes) => conclude(machines, plan, lanes, producer, &watcher).map(Some),
        Err(problem) if outgrown && problem.class == Class::Interrupted => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Simulates a trace under one placement and hands on what reaches memory, in order: lines read for misses, lines written
/// back, stores passed down, and dirty lines of pages whose frames change hands. Lines that are dirty in the end stay
/// where they are. Exactly the accesses that [`simulate`](crate::simulate) counts as memory's.
///
/// `take` gets them as they come; its error, or that of `progress`, ends the run.
///
/// # Errors
/// As [`simulate`](crate::simulate); or the machine counts by cachegrind's rules, by which written data leaves no trace.
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
    let machines = &*plan.with_units(std::slice::from_ref(machine))?;
    let machine = &machines[0];
    rounds::check_one_fits(machines, &plan)?;
    let source = opened(source, &plan);
    let stages = Stages::of(machines, 1, plan.shares_stages(), plan.asks(), plan.switched_off());
    let mut producer = Producer::new(machines, &stages, source, &plan)?;
    let watcher = Watcher::new(&plan, progress);
    let mut worker = Worker::new(lanes(machines, &stages, &plan, None, &watcher)?);
    let mut accesses = Vec::new();
    producer.run(
        &mut |group, block| {
            worker.block(group, &block, &|| watcher.again())?;
            worker.take_tapped(&mut accesses);
            take(&accesses)?;
            accesses.clear();
            Ok(())
        },
        &mut |_| Ok(()),
        &watcher,
    )?;
    let mut reports = conclude(machines, &plan, worker.into_lanes(), producer, &watcher)?;
    Ok(reports.remove(0).finish(machine, &plan))
}

/// Opens the part of a source that the plan reads: on a thread of its own where there are several.
fn opened(source: Box<dyn Source>, plan: &Plan) -> Box<dyn Source> {
    let source = head(source, plan.length);
    if plan.threads > 1 { Box::new(Ahead::new(source)) } else { source }
}

pub(crate) fn check_machines(machines: &[Machine], own_policy: bool) -> Result<()> {
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
    watcher: &Watcher<'_>,
) -> Result<Vec<Numbered>> {
    let spill = Arc::new(Spill::default());
    let mut lanes = Vec::new();
    for (number, group) in stages.streams.iter().flat_map(|stream| &stream.groups).enumerate() {
        for cells in &group.lanes {
            for &seed in &plan.seeds {
                let shared_front = group.sharing == Sharing::Shared;
                let (paths, spill) = (&group.paths, &spill);
                let setup = lane::LaneSetup { machines, cells, seed, shared_front, paths, plan, spill };
                lanes.push((number, Lane::new(&setup, policy.map(|make| make(seed)))?));
                watcher.again()?;
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
pub(crate) fn preparation(stream: &Branch, plan: &Plan, source: &dyn Source) -> Result<Prepare> {
    let mut needs = stream.needs.clone();
    if plan.tap {
        needs.keep_time();
    }
    let setup = Setup {
        needs,
        // Frames that are wired for a unit's pages are out of the list.
        safe: stream.safe.map(|safe| safe.saturating_sub(plan.asks().map_or(0, Asks::owned).into())),
        lists_segments: stream.lists_segments,
        trace_page: Bytes(source.meta().page_size.unwrap_or(4096)),
        cuts: plan.cuts(),
        asks: plan.asks().cloned().map(Arc::new),
        collapse: plan.share,
    };
    Prepare::new(&setup, source.name())
}

impl Producer {
    fn new(machines: &[Machine], stages: &Stages, source: Box<dyn Source>, plan: &Plan) -> Result<Self> {
        let mut numbers = 0..;
        let preparation = |stream: &Branch| {
            Ok(Preparation {
                prepare: preparation(stream, plan, source.as_ref())?,
                fronts: stream
                    .groups
                    .iter()
                    .map(|group| Outlet {
                        group: numbers.next().expect("numbers do not end"),
                        shared: (group.sharing == Sharing::Shared)
                            .then(|| SharedFront::new(&group.trees(machines), plan.seeds[0], &group.paths)),
                    })
                    .collect(),
            })
        };
        let streams = stages.streams.iter().map(preparation).collect::<Result<_>>()?;
        Ok(Self { source, streams, length: plan.length, instructions: plan.instructions })
    }

    pub(crate) fn run(
        &mut self,
        deliver: Deliver<'_>,
        watch: Watch<'_>,
        watcher: &Watcher<'_>,
    ) -> Result<()> {
        while let Some(batch) = self.source.next_batch()? {
            let mut flow = Flow::Done;
            for Preparation { prepare, fronts } in &mut self.streams {
                if prepare.feed(&batch, &mut |block| pass(fronts, block, deliver))? == Flow::On {
                    flow = Flow::On;
                }
            }
            watch(self.growth())?;
            watcher.tell(self.progress())?;
            if flow == Flow::Done {
                break;
            }
        }
        for Preparation { prepare, fronts } in &mut self.streams {
            prepare.finish(&mut |block| pass(fronts, block, deliver))?;
        }
        Ok(())
    }

    /// Returns what the trace has held so far: the most that any preparation knows of.
    fn growth(&self) -> Growth {
        let of = |stream: &Preparation| stream.prepare.growth();
        self.streams.iter().map(of).fold(Growth::default(), Growth::max)
    }

    /// Returns the number of groups of machines behind the preparations.
    pub(crate) fn groups(&self) -> usize {
        self.streams.iter().map(|stream| stream.fronts.len()).sum()
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
    watcher: &Watcher<'_>,
) -> Result<Vec<Report>> {
    let Producer { source, streams, .. } = producer;
    let mut groups = Vec::new();
    let mut prepared = Vec::new();
    for (number, Preparation { prepare, fronts }) in streams.into_iter().enumerate() {
        groups.extend(fronts.into_iter().map(|behind| (number, behind.shared)));
        prepared.push(prepare);
    }
    report(machines, plan, lanes, &prepared, groups, source.meta(), watcher)
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
    watcher: &Watcher<'_>,
) -> Result<Vec<Report>> {
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
        watcher.again()?;
    }
    lanes.sort_by_key(|(_, lane)| plan.seeds.iter().position(|&seed| seed == lane.seed));
    let mut parts: Vec<Vec<Told<'_>>> = machines.iter().map(|_| Vec::new()).collect();
    let processes: Vec<Arc<[Process]>> = prepared.iter().map(|prepare| prepare.processes().into()).collect();
    let mut stream_of_machine = vec![0; machines.len()];
    for (group, lane) in &lanes {
        for back in &lane.backs {
            parts[back.machine].push(Told { lane, back });
            stream_of_machine[back.machine] = stream_of[*group];
        }
    }
    let outcome = |(number, parts): (usize, Vec<Told<'_>>)| {
        let machine = &machines[number];
        let stream = stream_of_machine[number];
        let (prepare, processes) = (&prepared[stream], Arc::clone(&processes[stream]));
        crate::outcome::report(&Run { machine, plan, parts: &parts, prepare, processes, meta })
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
    /// Requests that a lane's front lets through between two controls: the same memory for all lanes, one after
    /// the other.
    requests: Vec<Request>,
    tables: Tables,
    recency: BlockRecency,
    /// Entries that lanes have gone through since `heed` was asked.
    unheeded: usize,
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

    /// Takes the accesses that have reached memory since the last call.
    fn take_tapped(&mut self, out: &mut Vec<MemoryAccess>) {
        let lanes = self.groups.iter_mut().flatten().flat_map(|station| &mut station.lanes);
        lanes.for_each(|lane| lane.take_tapped(out));
    }

    /// Returns whether this worker has a lane of a group.
    pub(crate) fn serves(&self, group: usize) -> bool {
        self.groups.get(group).is_some_and(Option::is_some)
    }

    /// `heed` is asked now and then; its error ends the work.
    pub(crate) fn block(&mut self, group: usize, block: &Block, heed: Heed<'_>) -> Result<()> {
        match self.groups.get_mut(group) {
            Some(Some(station)) => station.block(block, heed),
            _ => Ok(()),
        }
    }
}

impl Station {
    /// Lane after lane through the whole block.
    fn block(&mut self, block: &Block, heed: Heed<'_>) -> Result<()> {
        let Self { lanes, requests, tables, recency, unheeded } = self;
        tables.extend(&block.mappings);
        let last = lanes.len() - 1;
        for (number, lane) in lanes.iter_mut().enumerate() {
            *unheeded += block.entries();
            if *unheeded > HEED {
                *unheeded = 0;
                heed()?;
            }
            recency.begin(number < last);
            lane.run(block, tables, recency, requests)?;
        }
        recency.end(&block.controls);
        Ok(())
    }
}
