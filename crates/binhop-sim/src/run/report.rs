//! `report` makes the tables of results from what the lanes of each machine have counted.

use std::sync::Arc;

use arrow_array::RecordBatch;
use binhop_base::{Asid, PageId, PowerOfTwo, Result, counted, counted_notes};
use binhop_os::Spaces;
use binhop_trace::Meta;

use super::back_model::BackModel;
use super::lane::Lane;
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::prepare::{Prepare, Process, in_words};
use crate::results::account::Account;
use crate::results::detail::{self, Logged};
use crate::results::long_table::{LongTable, MachineRows};
use crate::results::outcome::{Facts, MachineReport, results};
use crate::results::switches::{self, SwitchReadings, SwitchSource, SwitchTables};
use crate::results::tally::Tally;
use crate::synonyms::Synonym;

/// `MachineInLane` is one machine in one lane.
pub(crate) struct MachineInLane<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) back: &'a BackModel,
    pub(crate) switches: Option<&'a SwitchReadings>,
}

impl<'a> MachineInLane<'a> {
    fn seed(&self) -> u64 {
        self.lane.seed
    }

    fn account(&self) -> &'a Account {
        &self.back.account
    }
}

/// `FinishedRun` holds what the report of one machine is made of.
pub(crate) struct FinishedRun<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) options: &'a RunOptions,
    /// The machine in each lane, in the order of the options' seeds.
    pub(crate) parts: &'a [MachineInLane<'a>],
    pub(crate) prepare: &'a Prepare,
    /// Every process of the stream, by its number.
    pub(crate) processes: Arc<[Process]>,
    pub(crate) meta: &'a Meta,
}

pub(crate) fn report(run: &FinishedRun<'_>) -> Result<MachineReport> {
    let FinishedRun { options, parts, prepare, .. } = *run;
    let caches = run.machine.tree().config().caches.len();
    let ends: Vec<Tally> = parts.iter().map(|part| part.account().phases().1).collect();
    let stream = prepare.stream();
    let facts = Facts {
        cache_evicted: (0..caches)
            .map(|cache| ends.iter().any(|end| end.caches[cache].evictions > 0))
            .collect(),
        page_evicted: parts.iter().any(|part| part.account().end().evictions > 0),
        died: prepare.saw_death(),
        stream: [stream.references, stream.instructions],
        trace: trace_notes(run),
        synonym: run
            .parts
            .iter()
            .find_map(|part| part.back.synonym())
            .map(|synonym| note_on(synonym, prepare.spaces(), run.machine.memory().page)),
    };
    let accounts: Vec<_> = parts.iter().map(|part| (part.seed(), part.account())).collect();
    let streamed = streamed(run);
    Ok(MachineReport {
        results: results(run.machine, &options.workload, &accounts),
        series: LongTable::series(Arc::clone(&streamed)),
        pieces: options
            .switches
            .filter(|switches| switches.raw)
            .map(|_| LongTable::pieces(Arc::clone(&streamed))),
        processes: LongTable::processes(streamed),
        placements: options.log.then(|| placements(run)),
        pages: options.watch.as_ref().map(|_| pages(run)),
        switches: options.switches.map(|_| switch_tables(run)).transpose()?,
        facts,
    })
}

/// Makes the tables of switches.
fn switch_tables(run: &FinishedRun<'_>) -> Result<SwitchTables> {
    switches::tables(&SwitchSource {
        workload: &run.options.workload,
        machine: run.machine.name(),
        config: run.machine.tree().config(),
        seeds: run.parts.iter().filter_map(|part| Some((part.seed(), part.switches?))).collect(),
        spaces: run.prepare.spaces(),
        meta: run.meta,
    })
}

/// Gathers what the lanes have logged of intervals and processes.
fn streamed(run: &FinishedRun<'_>) -> Arc<MachineRows> {
    let caches = &run.machine.tree().config().caches;
    Arc::new(MachineRows {
        workload: run.options.workload.clone(),
        machine: run.machine.name().to_string(),
        caches: caches.iter().map(|cache| cache.name.clone()).collect(),
        divided: run.parts.first().map_or(Vec::new(), |part| part.back.divided()),
        processes: Arc::clone(&run.processes),
        seeds: run.parts.iter().map(|part| (part.seed(), part.account().readings().clone())).collect(),
        pieces: run.parts.iter().map(|part| part.switches?.pieces.clone()).collect(),
    })
}

fn placements(run: &FinishedRun<'_>) -> RecordBatch {
    let lanes: Vec<(u64, &[Logged])> =
        run.parts.iter().filter_map(|part| Some((part.seed(), part.lane.log()?))).collect();
    detail::placements(&lanes)
}

fn pages(run: &FinishedRun<'_>) -> RecordBatch {
    let frames: Vec<_> =
        run.parts.iter().map(|part| move |page: PageId| part.lane.last_frame(page)).collect();
    let lanes: Vec<_> = run
        .parts
        .iter()
        .zip(&frames)
        .filter_map(|(part, frame_of)| part.lane.repeats(part.back, frame_of))
        .collect();
    detail::pages(&lanes, run.prepare.spaces(), run.meta)
}

/// Returns the notes on the trace.
fn trace_notes(run: &FinishedRun<'_>) -> Vec<String> {
    let mut notes = run.meta.notes_on_ends();
    let seen = run.prepare.seen();
    if seen.syscalls > 0 && !run.options.devices {
        notes.push(format!(
            "the trace holds {}, without the references that the kernel makes for them",
            counted(seen.syscalls, ["system call", "system calls"])
        ));
    }
    if seen.forks_onto_living > 0 {
        let Asid(first) = seen.first_living;
        let forks = counted(seen.forks_onto_living, ["fork gives", "forks give"]);
        notes.push(format!(
            "{forks} a child the number of an address space that is alive (first: asid {first}); two processes cannot \
             have one number, so the earlier process counts as ended there; number address spaces afresh (binhop lint \
             lists these forks)"
        ));
    }
    if seen.switches_to_ended > 0 {
        let Asid(first) = seen.first_ended;
        let switches = counted(seen.switches_to_ended, ["switch leads", "switches lead"]);
        notes.push(format!(
            "{switches} to a process that has exited (first: asid {first}); it counts as a new process with the same \
             number (binhop lint lists these switches)"
        ));
    }
    let spaces = run.prepare.spaces();
    let outside = if spaces.has_maps() { seen.outside } else { 0 };
    notes.extend(counted_notes([
        (
            outside,
            ["page lies", "pages lie"],
            "outside every map of the trace: private memory is simulated there",
        ),
        (
            seen.outside_of_devices,
            ["page was", "pages were"],
            "first referenced by a device, in a process that has mapped nothing: memory of the process is simulated there",
        ),
        (
            spaces.unaligned(),
            ["page does", "pages do"],
            "not lie wholly in one segment of the trace: private memory is simulated there",
        ),
    ]));
    if let Some(violation) = run.prepare.violation() {
        let first = in_words(violation, run.prepare.spaces());
        notes.push(format!(
            "accesses violated the protection of their pages: the first was {first}, whose page allows {} \
             (translation.<kind>.violations counts them)",
            violation.rights
        ));
    }
    if run.meta.sizes.as_deref() == Some("assumed") {
        notes.push("access sizes are assumed, not recorded".to_string());
    }
    notes
}

/// Returns the note on the first access that left two different copies of a line.
fn note_on(Synonym { kind, names, offset }: Synonym, spaces: &Spaces, size: PowerOfTwo) -> String {
    let name = |mapping| {
        let asid = spaces.asid_of(mapping).map_or("the kernel".to_string(), |asid| format!("asid {asid}"));
        let page = u128::from(spaces.virtual_page(mapping).0) * u128::from(size.bytes());
        format!("{:#x} in {asid}", page + u128::from(offset))
    };
    let [here, there] = names.map(name);
    format!(
        "the caches held two different copies of memory that has two virtual addresses: the first time, a {} of {here} left \
         another copy at {there} (translation.synonyms counts them)",
        kind.name()
    )
}
