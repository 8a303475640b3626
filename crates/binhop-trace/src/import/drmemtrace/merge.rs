//! `DrmemtraceImport` reads the files of a trace as one stream, in order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use binhop_base::{Problem, Result, counted_notes};

use super::directory::{self, ShardFile};
use super::record::{SIZE, bytes, file_type};
use super::shard::{BLOCK_RECORDS, Pause, SMALL_BLOCK_RECORDS, Shard};
use super::shared_state::SharedState;
use crate::disk::FileIdentity;
use crate::event::EventBatch;
use crate::import::rows::Rows;
use crate::import::{Format, Importer};
use crate::input::Input;
use crate::placements::Placements;
use crate::source::Failure;
use crate::source::{Meta, Source};

/// The entry of the format in the list.
pub(in crate::import) const FORMAT: Format = Format {
    name: "drmemtrace",
    what: "DynamoRIO's drmemtrace after raw2trace: a directory (a file for each thread or processor; of several processes too), or one file",
    example: &EXAMPLE,
    lost: "mappings, forks and what system calls read and write; threads are interleaved as they were traced, which switches 2 to 10 times too often; prefetches, flushes and further rounds of string instructions are left out",
    extensions: &["trace", "memtrace"],
    open: |input| Ok(Box::new(DrmemtraceImport::of_input(input)?)),
    directory: Some(|path| Ok(Box::new(DrmemtraceImport::of_directory(path)?))),
};

/// A file of one instruction: header, thread, process, instruction, footer.
const EXAMPLE: [u8; 5 * SIZE] = {
    let records =
        [bytes(25, 0, 7), bytes(22, 4, 1), bytes(24, 4, 1), bytes(10, 4, 0x40_1000), bytes(26, 0, 0)];
    let mut all = [0; 5 * SIZE];
    let mut at = 0;
    while at < all.len() {
        all[at] = records[at / SIZE][at % SIZE];
        at += 1;
    }
    all
};

/// A batch is returned once it holds this many rows. The block that reaches the number is finished first.
const BATCH_ROWS: usize = 64 << 10;

/// Up to this many files are read in large blocks and kept open from the start.
const FEW: usize = 64;

/// `DrmemtraceImport` reads a trace.
struct DrmemtraceImport {
    name: String,
    files: Vec<FileSlot>,
    /// The unfinished files, by the time of the next record in each.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The file that is being decoded.
    current: Option<usize>,
    /// The number of unfinished files of each process.
    left: BTreeMap<u64, u64>,
    world: SharedState,
    rows: Rows,
    notes: Vec<String>,
    failed: Failure,
}

struct FileSlot {
    file: Option<ShardFile>,
    shard: Option<Shard>,
    pid: Option<u64>,
    /// The identity of the file when its first block was read.
    identity: Option<FileIdentity>,
}

impl DrmemtraceImport {
    fn empty(name: String) -> Self {
        let mut world = SharedState::default();
        world.meta.sizes = Some("exact".into());
        Self {
            name,
            files: Vec::new(),
            waiting: BinaryHeap::new(),
            current: None,
            left: BTreeMap::new(),
            world,
            rows: Rows::with_capacity(BATCH_ROWS),
            notes: Vec::new(),
            failed: Failure::default(),
        }
    }

    fn of_input(input: Input) -> Result<Self> {
        let mut trace = Self::empty(input.name().to_owned());
        let shard = Shard::new(input, BLOCK_RECORDS)?;
        trace.add(None, shard, true);
        Ok(trace)
    }

    fn of_directory(path: &Path) -> Result<Self> {
        let mut trace = Self::empty(path.display().to_string());
        let found = directory::find(path)?;
        let keep = found.files.len() <= FEW;
        for file in found.files {
            let shard = open(&file, keep)?;
            trace.add(Some(file), shard, keep);
        }
        let others = (
            found.others,
            ["file is skipped, because it holds", "files are skipped, because they hold"],
            "no part of the trace",
        );
        trace.notes.extend(counted_notes([others]));
        if let Some(map) = found.map {
            let map = map.display();
            trace.notes.push(format!(
                "{map} says where pages lay: `binhop run MACHINE TRACE --v2p {map}` places them there"
            ));
        }
        Ok(trace)
    }

    /// Adds a file. Its reader is kept, or opened again when the file is due.
    fn add(&mut self, file: Option<ShardFile>, shard: Shard, keep: bool) {
        let (time, pid) = shard.head();
        if let Some((pid, command)) = file.as_ref().and_then(|file| file.process.clone()) {
            self.world.commands.insert(pid, command);
        }
        if let Some(pid) = pid {
            *self.left.entry(pid).or_default() += 1;
        }
        self.waiting.push(Reverse((time.unwrap_or(0), self.files.len())));
        let identity = shard.identity().cloned();
        self.files.push(FileSlot { file, shard: keep.then_some(shard), pid, identity });
    }

    fn advance(&mut self) -> Result<Option<EventBatch>> {
        while self.rows.len() < BATCH_ROWS {
            if self.current.is_none() {
                let Some(Reverse((_, next))) = self.waiting.pop() else { break };
                self.resume(next)?;
            }
            self.step()?;
        }
        if self.current.is_none() && self.waiting.is_empty() {
            self.world.leave_kernel(&mut self.rows);
            self.rows.end_run();
            if self.rows.references() == 0 {
                let remedy = "check the command that recorded it";
                return Err(Problem::request(
                    "no reference",
                    &self.name,
                    "a trace holds at least one reference",
                    remedy,
                ));
            }
        }
        Ok((!self.rows.is_empty()).then(|| self.rows.take(BATCH_ROWS)))
    }

    fn resume(&mut self, next: usize) -> Result<()> {
        let slot = &mut self.files[next];
        if let (None, Some(file)) = (&slot.shard, &slot.file) {
            let shard = open(file, false)?;
            if let (Some(before), Some(now)) = (&slot.identity, shard.identity()) {
                before.is_still(now, &file.path.display().to_string())?;
            }
            slot.shard = Some(shard);
        }
        if let Some(shard) = &mut slot.shard {
            shard.resume();
        }
        self.current = Some(next);
        Ok(())
    }

    /// Decodes a block of the current file, or the part of it before the next record of another file.
    fn step(&mut self) -> Result<()> {
        let Some(current) = self.current else { return Ok(()) };
        let slot = &mut self.files[current];
        let shard = slot.shard.as_mut().expect("a file that is read is open");
        // Of files with equal times the first file goes first.
        let until = match self.waiting.peek() {
            None => u64::MAX,
            Some(&Reverse((time, other))) if other > current => time,
            Some(&Reverse((time, _))) => time.saturating_sub(1),
        };
        match shard.run(until, &mut self.world, &mut self.rows)? {
            Pause::Block => {}
            Pause::Later(time) => {
                self.waiting.push(Reverse((time, current)));
                self.current = None;
            }
            Pause::End => {
                slot.shard = None;
                self.current = None;
                self.end_of_file(current);
            }
        }
        Ok(())
    }

    fn end_of_file(&mut self, number: usize) {
        let Some(pid) = self.files[number].pid else { return };
        let left = self.left.get_mut(&pid).expect("the process was counted");
        *left -= 1;
        // The file of a processor does not tell when a process ends. A single process ends with the trace,
        // which needs no event.
        let by_thread = self.world.file_type & file_type::CORE_SHARDED == 0;
        if *left == 0 && by_thread && self.left.len() > 1 {
            self.world.end_of_process(pid, &mut self.rows);
        }
    }
}

fn open(file: &ShardFile, large: bool) -> Result<Shard> {
    let input = Input::open(&file.path.display().to_string())?;
    Shard::new(input, if large { BLOCK_RECORDS } else { SMALL_BLOCK_RECORDS })
}

impl Source for DrmemtraceImport {
    fn name(&self) -> &str {
        &self.name
    }

    fn meta(&self) -> &Meta {
        &self.world.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }
}

impl Importer for DrmemtraceImport {
    fn notes(&self) -> Vec<String> {
        let mut notes = self.world.notes();
        notes.extend(self.notes.iter().cloned());
        notes
    }

    fn references(&self) -> u64 {
        self.rows.references()
    }

    fn identity(&self) -> Option<String> {
        let each: Option<Vec<String>> =
            self.files.iter().map(|slot| slot.identity.as_ref().map(ToString::to_string)).collect();
        each.map(|each| each.join(" "))
    }

    fn placement(&self) -> Option<&Placements> {
        Some(&self.world.placement).filter(|placement| !placement.pages.is_empty())
    }
}
