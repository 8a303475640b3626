//! The engine: decode → prepare → place → front → back, over any number of placements at once.
//!
//! One thread reads and prepares; lanes are dealt out to the others. Lanes never meet, so neither the
//! number of threads nor their pace is in any result.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use binhop_base::{Bytes, Problem, Result};
use binhop_os::Recency;
use binhop_os::placement::Placement;
use binhop_trace::{Ahead, Meta, Source};

use crate::front::{SharedFront, Sharing};
use crate::lane::Lane;
use crate::machine::Machine;
use crate::outcome::{Outcome, Run};
use crate::prepare::{Block, Control, Cuts, Emit, Flow, Prepare, Setup, Tape};
use crate::view::Tables;

/// What to simulate, besides machine and trace.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What results call the trace.
    pub workload: String,
    /// One placement for each.
    pub seeds: Vec<u64>,
    /// 1: everything on the calling thread.
    pub threads: usize,
    /// References to simulate; the whole trace if absent.
    pub length: Option<u64>,
    /// References simulated before the measured part.
    pub warmup: u64,
    /// Instructions in an interval of the series; no series if absent.
    pub interval: Option<u64>,
    /// Share level 1 among seeds and drop sure hits where that is exact. `false` only to show that it is.
    pub share: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            workload: "trace".to_string(),
            seeds: vec![0],
            threads: 1,
            length: None,
            warmup: 0,
            interval: None,
            share: true,
        }
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// References prepared so far.
    pub references: u64,
    /// References there will be, if known.
    pub of: Option<u64>,
}

/// Makes a placement policy for a seed, in place of the machine's own.
pub type PolicyMaker<'a> = &'a (dyn Fn(u64) -> Box<dyn Placement> + Sync);

/// Placements that one run holds: each has its own caches and frames.
pub const MOST_SEEDS: usize = 1 << 12;

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
    check_plan(plan)?;
    if policy.is_some() && machine.memory().frames.is_none() {
        return Err(Problem::request(
            "a policy of one's own",
            &format!("machine {}", machine.name()),
            "with placement identity, physical = virtual: there is nothing to place",
            "give the machine a memory.size and another placement.policy",
        ));
    }
    let source = if plan.threads > 1 { Box::new(Ahead::new(source)) as Box<dyn Source> } else { source };
    let shared = sharing(machine, plan) == Sharing::Shared;
    let lanes = lanes(machine, plan, policy, shared)?;
    let mut producer = Producer::new(machine, source, plan, shared);
    let workers = plan.threads.min(lanes.len());
    let lanes = if workers > 1 {
        in_threads(machine, &mut producer, deal(lanes, workers), progress)?
    } else {
        let mut worker = Worker::new(machine, lanes);
        producer.run(&mut |block| worker.block(&block), progress)?;
        worker.lanes
    };
    let Producer { source, prepare, shared, .. } = producer;
    conclude(machine, plan, lanes, &prepare, shared, source.meta())
}

/// Checks what must hold after a run, then reports it.
fn conclude(
    machine: &Machine,
    plan: &Plan,
    mut lanes: Vec<Lane>,
    prepare: &Prepare,
    shared: Option<SharedFront>,
    meta: &Meta,
) -> Result<Outcome> {
    if plan.warmup > 0 && !prepare.is_measuring() {
        return Err(Problem::request(
            &plan.warmup.to_string(),
            "warmup",
            &format!(
                "the trace holds {} references: nothing is left to measure",
                prepare.stream().references
            ),
            "make the warm-up shorter than the trace",
        ));
    }
    lanes.sort_by_key(|lane| plan.seeds.iter().position(|&seed| seed == lane.seed));
    let mut front = shared.and_then(SharedFront::into_front);
    if let Some(front) = &mut front {
        let config = machine.tree().config();
        crate::tally::add_hits(front, prepare.stream(), config.fetch, config.data);
    }
    for lane in &mut lanes {
        lane.check(machine.tree(), front.as_ref())?;
    }
    let sharing = sharing(machine, plan);
    Ok(crate::outcome::report(&Run { machine, plan, lanes: &lanes, prepare, sharing, meta }))
}

fn sharing(machine: &Machine, plan: &Plan) -> Sharing {
    if plan.share { Sharing::of(machine.tree(), plan.seeds.len()) } else { Sharing::Off }
}

/// A trace prepared for a machine, held in memory: to simulate it again and again without reading it.
pub struct Prepared {
    machine: Machine,
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
    /// As [`simulate`].
    pub fn new(machine: &Machine, source: &mut dyn Source, plan: &Plan) -> Result<Self> {
        check_plan(plan)?;
        let mut prepare = preparation(machine, source, plan);
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
        let (cuts, meta) = (cuts(plan), source.meta().clone());
        Ok(Self { machine: machine.clone(), cuts, collapsed: plan.share, blocks, prepare, meta })
    }

    /// Rows held: accesses that a first-level cache must be asked about.
    #[must_use]
    pub fn rows(&self) -> usize {
        let rows = |block: &Arc<Block>| match &block.tape {
            Tape::Rows(rows) => rows.len(),
            Tape::Requests(requests) => requests.len(),
        };
        self.blocks.iter().map(rows).sum()
    }

    /// Simulates the prepared trace on the machine it was prepared for, on the calling thread.
    ///
    /// # Errors
    /// As [`simulate`].
    ///
    /// # Panics
    /// If the plan cuts the stream elsewhere than the one it was prepared with.
    pub fn simulate(&self, plan: &Plan) -> Result<Outcome> {
        check_plan(plan)?;
        assert_eq!((self.cuts, self.collapsed), (cuts(plan), plan.share), "prepared for another plan");
        let shared = sharing(&self.machine, plan) == Sharing::Shared;
        let mut worker = Worker::new(&self.machine, lanes(&self.machine, plan, None, shared)?);
        let mut front = shared.then(|| SharedFront::new(self.machine.tree(), plan.seeds[0]));
        for block in &self.blocks {
            match &mut front {
                Some(front) => front.pass(Arc::clone(block), &mut |block| worker.block(&block))?,
                None => worker.block(block)?,
            }
        }
        conclude(&self.machine, plan, worker.lanes, &self.prepare, front, &self.meta)
    }
}

fn lanes(machine: &Machine, plan: &Plan, policy: Option<PolicyMaker<'_>>, shared: bool) -> Result<Vec<Lane>> {
    let lane =
        |&seed| Lane::new(machine, seed, policy.map(|make| make(seed)), shared, plan.interval.is_some());
    plan.seeds.iter().map(lane).collect()
}

fn cuts(plan: &Plan) -> Cuts {
    Cuts { length: plan.length, warmup: plan.warmup, interval: plan.interval }
}

fn preparation(machine: &Machine, source: &dyn Source, plan: &Plan) -> Prepare {
    let setup = Setup {
        tree: machine.tree(),
        safe: machine.safe_frames(),
        trace_page: Bytes(source.meta().page_size.unwrap_or(4096)),
        cuts: cuts(plan),
        collapse: plan.share,
    };
    Prepare::new(&setup, source.name())
}

fn check_plan(plan: &Plan) -> Result<()> {
    let refuse = |value: &str, place: &str, rule: &str, remedy: &str| {
        Err(Problem::request(value, place, rule, remedy))
    };
    let mut sorted = plan.seeds.clone();
    sorted.sort_unstable();
    if sorted.is_empty() {
        return refuse("0", "seeds", "a run needs at least one seed", "ask for 1 seed or more");
    }
    if sorted.len() > MOST_SEEDS {
        let rule = format!("one run holds at most {MOST_SEEDS} placements in memory");
        let remedy = "ask for fewer, or make several runs with seeds of their own";
        return refuse(&sorted.len().to_string(), "seeds", &rule, remedy);
    }
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let remedy = "name each seed once: the same seed gives the same placement";
        return refuse(&twice[0].to_string(), "seeds", "each seed is simulated once", remedy);
    }
    if plan.threads == 0 {
        return refuse("0", "threads", "a run needs a thread", "ask for 1 thread or more");
    }
    if plan.interval == Some(0) {
        return refuse("0", "interval", "an interval holds at least one instruction", "ask for, say, 1M");
    }
    if plan.length == Some(0) {
        return refuse("0", "length", "a run simulates at least one reference", "ask for, say, 50M");
    }
    match plan.length {
        Some(length) if plan.warmup >= length => refuse(
            &plan.warmup.to_string(),
            "warmup",
            &format!("the warm-up is part of the length ({length} references), and shorter"),
            "make the warm-up shorter or the length longer",
        ),
        _ => Ok(()),
    }
}

/// Deals lanes out evenly, neighbours together.
fn deal(lanes: Vec<Lane>, workers: usize) -> Vec<Vec<Lane>> {
    let mut hands: Vec<Vec<Lane>> = (0..workers).map(|_| Vec::new()).collect();
    let count = lanes.len();
    for (index, lane) in lanes.into_iter().enumerate() {
        hands[index * workers / count].push(lane);
    }
    hands
}

/// Reads, prepares and, where it is shared, simulates the front.
struct Producer {
    source: Box<dyn Source>,
    prepare: Prepare,
    shared: Option<SharedFront>,
    of: Option<u64>,
}

impl Producer {
    fn new(machine: &Machine, source: Box<dyn Source>, plan: &Plan, shared: bool) -> Self {
        let prepare = preparation(machine, source.as_ref(), plan);
        let shared = shared.then(|| SharedFront::new(machine.tree(), plan.seeds[0]));
        Self { source, prepare, shared, of: plan.length }
    }

    fn run(&mut self, deliver: Emit<'_>, progress: &mut dyn FnMut(&Progress) -> Result<()>) -> Result<()> {
        let shared = &mut self.shared;
        let mut emit = |block: Arc<Block>| match shared {
            Some(front) => front.pass(block, deliver),
            None => deliver(block),
        };
        while let Some(batch) = self.source.next_batch()? {
            let flow = self.prepare.feed(&batch, &mut emit)?;
            progress(&Progress { references: self.prepare.stream().references, of: self.of })?;
            if flow == Flow::Done {
                break;
            }
        }
        self.prepare.finish(&mut emit)
    }
}

/// Some lanes, simulated on one thread.
struct Worker {
    machine: Machine,
    lanes: Vec<Lane>,
    tables: Tables,
    recency: Recency,
}

impl Worker {
    fn new(machine: &Machine, lanes: Vec<Lane>) -> Self {
        Self { machine: machine.clone(), lanes, tables: Tables::default(), recency: Recency::new() }
    }

    /// Lane after lane through the whole block, as long as no lane needs to know recency; then stretch by
    /// stretch, as recency moves on for all lanes at once.
    fn block(&mut self, block: &Block) -> Result<()> {
        self.tables.extend(&block.mappings);
        let entries = match &block.tape {
            Tape::Rows(rows) => rows.len(),
            Tape::Requests(requests) => requests.len(),
        };
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
        self.stretch(block, control..block.controls.len(), entry..entries)
    }

    fn stretch(
        &mut self,
        block: &Block,
        controls: std::ops::Range<usize>,
        entries: std::ops::Range<usize>,
    ) -> Result<()> {
        for lane in &mut self.lanes {
            let (controls, entries) = (controls.clone(), entries.clone());
            lane.run(block, controls, entries, &self.tables, &self.recency, self.machine.tree())?;
        }
        Ok(())
    }
}

fn in_threads(
    machine: &Machine,
    producer: &mut Producer,
    hands: Vec<Vec<Lane>>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Vec<Lane>> {
    std::thread::scope(|scope| {
        let mut queues: Vec<SyncSender<Arc<Block>>> = Vec::new();
        let mut threads = Vec::new();
        for hand in hands {
            let (queue, blocks): (_, Receiver<Arc<Block>>) = sync_channel(QUEUE);
            let mut worker = Worker::new(machine, hand);
            queues.push(queue);
            threads.push(scope.spawn(move || {
                for block in blocks {
                    worker.block(&block)?;
                }
                Ok(worker.lanes)
            }));
        }
        // A closed queue means that its worker met an error; that error is the one to report.
        let mut stopped = false;
        let produced = producer.run(
            &mut |block| {
                stopped |= queues.iter().any(|queue| queue.send(Arc::clone(&block)).is_err());
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
