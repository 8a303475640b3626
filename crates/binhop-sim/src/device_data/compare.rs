//! `compare_schemes` simulates one front, and behind it every scheme for device data.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use binhop_base::{Problem, Result};
use binhop_hw::{
    DmaCounters, LineCounters, Scheme, SchemeConfig, ServedBy, TapClass, check_scheme, make_scheme,
};
use binhop_trace::Source;

use super::scheme_memory::{DramData, SchemeMemory};
use super::{Characterisation, FrontEvent};
use crate::machine::{Machine, SchemeSetup};
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::results::Outcome;
use crate::run::front_stream;

/// `ComparedSchemes` holds what one front let through, and the counts of every scheme behind the front.
#[derive(Debug)]
pub struct ComparedSchemes {
    /// The outcome of the front, for all placements.
    pub front: Outcome,
    /// The data of each placement, in the order of the seeds.
    pub placements: Vec<PlacementData>,
}

/// `PlacementData` holds what the front let through under one placement, and the counts of each scheme behind the
/// front.
#[derive(Debug)]
pub struct PlacementData {
    /// The seed of the placement.
    pub seed: u64,
    /// The references below the front.
    pub characterisation: Box<Characterisation>,
    /// The schemes, in the order in which they were asked for.
    pub schemes: Vec<SchemeData>,
}

/// `SchemeData` holds the counts of a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeData {
    /// The name in results.
    pub name: String,
    /// The scheme.
    pub config: SchemeConfig,
    /// The counts of references, device data and fates.
    pub counters: DmaCounters,
    /// The counts of the lines of the last-level cache; `None` if the last-level cache belongs to the front.
    pub last_level: Option<LineCounters>,
    /// The counts of the lines of the DMA cache, if the scheme has such a cache.
    pub dma_cache: Option<LineCounters>,
    /// The counts of memory with a controller, if the machine has such a memory.
    pub dram: Option<DramData>,
}

/// The number of blocks of events that may wait for a thread.
const QUEUE: usize = 8;

/// Simulates the front of a machine under each placement, and every scheme behind each front. With several threads the
/// schemes are simulated beside the front. No result depends on the threads.
///
/// Random victims of the last level are drawn with the seed of the placement.
///
/// # Errors
/// The machine has no front ([`Machine::front`]), a scheme cannot stand behind it ([`SchemeConfig::check`]), the
/// options are refused, or the trace is damaged.
pub fn compare_schemes(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    schemes: &[SchemeSetup],
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<ComparedSchemes> {
    let front = machine.front()?;
    let mut listeners = Vec::new();
    for (placement, &seed) in options.seeds.iter().enumerate() {
        listeners.push(Listener { placement, part: Part::Characterisation(Box::default()) });
        for setup in schemes {
            let config = SchemeConfig { seed, ..setup.config };
            let name = setup.name.clone();
            let (scheme, memory) = (make_scheme(&config)?, SchemeMemory::of(setup)?);
            let part = Part::Scheme { name, config, scheme, memory };
            listeners.push(Listener { placement, part });
        }
    }
    // The front works less than the schemes, so it shares a processor with one of their threads.
    let threads = if options.threads > 1 { options.threads.min(listeners.len()) } else { 0 };
    let run = |take: &mut dyn FnMut(usize, &[FrontEvent]) -> Result<()>| {
        front_stream(&front, source, options, take, progress)
    };
    let (front, listeners) = if threads == 0 {
        let front = run(&mut |placement, events| {
            listeners.iter_mut().for_each(|listener| listener.hear(placement, events));
            Ok(())
        })?;
        (front, listeners)
    } else {
        beside(listeners, threads, run)?
    };
    Ok(ComparedSchemes { front, placements: gather(&options.seeds, listeners)? })
}

/// `PlacementEvents` is a block of events of a placement.
type PlacementEvents = (usize, Arc<[FrontEvent]>);

/// Runs a front on this thread. The listeners get what the front lets through, on threads of their own.
fn beside(
    listeners: Vec<Listener>,
    threads: usize,
    run: impl FnOnce(&mut dyn FnMut(usize, &[FrontEvent]) -> Result<()>) -> Result<Outcome>,
) -> Result<(Outcome, Vec<Listener>)> {
    let mut shares: Vec<Vec<(usize, Listener)>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, listener) in listeners.into_iter().enumerate() {
        shares[number % threads].push((number, listener));
    }
    std::thread::scope(|scope| {
        let mut queues: Vec<SyncSender<PlacementEvents>> = Vec::new();
        let mut handles = Vec::new();
        for mut share in shares {
            let (queue, blocks) = sync_channel::<PlacementEvents>(QUEUE);
            queues.push(queue);
            handles.push(scope.spawn(move || {
                for (placement, events) in blocks {
                    share.iter_mut().for_each(|(_, listener)| listener.hear(placement, &events));
                }
                share
            }));
        }
        let front = run(&mut |placement, events| {
            let events: Arc<[FrontEvent]> = events.into();
            // A closed queue means that its thread has panicked. The panic goes on below.
            let closed = |_| Problem::interrupted();
            queues.iter().try_for_each(|queue| queue.send((placement, Arc::clone(&events))).map_err(closed))
        });
        drop(queues);
        let mut heard = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok(share) => heard.extend(share),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        heard.sort_by_key(|&(number, _)| number);
        Ok((front?, heard.into_iter().map(|(_, listener)| listener).collect()))
    })
}

/// `Listener` hears the events of a placement.
struct Listener {
    placement: usize,
    part: Part,
}

/// `Part` is a characterisation or a scheme. It receives what a front lets through.
enum Part {
    Characterisation(Box<Characterisation>),
    Scheme { name: String, config: SchemeConfig, scheme: Box<dyn Scheme>, memory: SchemeMemory },
}

impl Listener {
    fn hear(&mut self, placement: usize, events: &[FrontEvent]) {
        if placement != self.placement {
            return;
        }
        match &mut self.part {
            Part::Characterisation(characterisation) => characterisation.add(events),
            Part::Scheme { scheme, memory, .. } => {
                for event in events {
                    if let FrontEvent::Line(event) = *event {
                        memory.serve(&mut **scheme, event);
                    }
                }
            }
        }
    }
}

/// Gathers the data of each placement, and checks the schemes.
fn gather(seeds: &[u64], listeners: Vec<Listener>) -> Result<Vec<PlacementData>> {
    let mut placements: Vec<PlacementData> = Vec::new();
    for Listener { placement, part } in listeners {
        match part {
            Part::Characterisation(characterisation) => {
                let seed = seeds[placement];
                placements.push(PlacementData { seed, characterisation, schemes: Vec::new() });
            }
            Part::Scheme { name, config, scheme, memory } => {
                check_scheme(&config, &*scheme)?;
                let of = &mut placements[placement];
                check_references(&of.characterisation, config, scheme.counters())?;
                if let Some(clock) = memory.clock() {
                    check_clock(config, scheme.counters(), clock)?;
                }
                let dram = memory.finish();
                check_memory(config, scheme.counters(), dram.as_ref())?;
                let lines = |cache| scheme.line_counters(cache).copied();
                of.schemes.push(SchemeData {
                    name,
                    config,
                    counters: *scheme.counters(),
                    last_level: lines(ServedBy::LastLevel),
                    dma_cache: lines(ServedBy::DmaCache),
                    dram,
                });
            }
        }
    }
    Ok(placements)
}

/// Checks that memory has served every line that a scheme has asked for.
fn check_memory(config: SchemeConfig, counters: &DmaCounters, dram: Option<&DramData>) -> Result<()> {
    let Some(dram) = dram else { return Ok(()) };
    for (&class, served) in TapClass::ALL.iter().zip(&dram.classes) {
        let asked = (counters[class].memory_reads, counters[class].memory_writes);
        let had = (served.reads + served.forwarded, served.writes);
        if asked != had {
            return Err(Problem::run(
                &format!("{had:?} against {asked:?}"),
                &format!("scheme {}: {}", config.kind.name(), class.name()),
                "memory serves every line that a scheme reads or writes",
                "this is a defect of binhop: please report it with the machine and the trace",
            ));
        }
    }
    Ok(())
}

/// Checks that the clock of a memory has passed the cycles of every reference.
fn check_clock(config: SchemeConfig, counters: &DmaCounters, clock: u64) -> Result<()> {
    let cycles: u64 = counters.classes.iter().map(|class| class.cycles).sum();
    if clock == cycles {
        return Ok(());
    }
    Err(Problem::run(
        &format!("{clock} against {cycles}"),
        &format!("scheme {}: cycles", config.kind.name()),
        "the clock of memory passes the cycles of every reference",
        "this is a defect of binhop: please report it with the machine and the trace",
    ))
}

/// Checks that a scheme has counted every reference below the front.
fn check_references(front: &Characterisation, config: SchemeConfig, counters: &DmaCounters) -> Result<()> {
    for &class in TapClass::ALL {
        let (passed, counted) = (front.class(class).references, counters[class].references);
        if passed != counted {
            return Err(Problem::run(
                &format!("{counted} against {passed}"),
                &format!("scheme {}: {}", config.kind.name(), class.name()),
                "a scheme counts every reference below the front",
                "this is a defect of binhop: please report it with the machine and the trace",
            ));
        }
    }
    Ok(())
}
