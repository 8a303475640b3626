//! `Joined` yields several traces one after the other.
//!
//! Processes of different traces are different processes: an asid that an earlier trace used becomes the next
//! unused number, so that no process sees pages of another trace. Segments are renumbered in the same way,
//! but segments of the same file and kind become one segment: a library mapped in two traces is shared
//! memory. File ids are joined by path. Between two traces the kernel is left, and a switch with the cause
//! `exit` leads to the first address space of the next trace.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Problem, Result};

use super::part::push;
use crate::bounds::check_rows;
use crate::event::{Cause, Event, EventBatch, EventBuilder, Op};
use crate::source::Failure;
use crate::source::{Meta, SegmentMeta, Source};

/// `Joined` is a source of several traces in turn.
pub struct Joined {
    sources: std::vec::IntoIter<Box<dyn Source>>,
    current: Box<dyn Source>,
    name: String,
    meta: Meta,
    asids: Renumbering,
    segments: Renumbering,
    files: Renumbering,
    kernel: u32,
    /// The rows of the current trace so far.
    row: u64,
    first: bool,
    failed: Failure,
}

/// `Renumbering` maps the numbers of one trace to numbers of the joined trace.
#[derive(Default)]
struct Renumbering {
    used: BTreeSet<u64>,
    /// The new number of each number of the current trace.
    new: BTreeMap<u64, u64>,
}

impl Renumbering {
    /// Returns the new number of a number: the number itself, unless an earlier trace used it.
    fn of(&mut self, old: u64) -> u64 {
        if let Some(&known) = self.new.get(&old) {
            return known;
        }
        let mut new = old;
        if self.used.contains(&new) {
            new = self.used.last().map_or(0, |last| last.saturating_add(1));
        }
        self.put(old, new);
        new
    }

    fn put(&mut self, old: u64, new: u64) {
        self.used.insert(new);
        self.new.insert(old, new);
    }
}

impl Joined {
    /// Joins the traces in this order.
    ///
    /// # Errors
    /// There is no trace, or the page sizes of the traces differ.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Result<Self> {
        let sizes: BTreeSet<u64> = sources.iter().filter_map(|source| source.meta().page_size).collect();
        if sizes.len() > 1 {
            let found: Vec<String> = sizes.iter().map(u64::to_string).collect();
            return Err(Problem::request(
                &found.join(", "),
                "page size",
                "traces that are joined have pages of one size, because their mappings count pages",
                "join traces of one machine",
            ));
        }
        let name = sources.iter().map(|source| source.name()).collect::<Vec<_>>().join(" + ");
        let mut sources = sources.into_iter();
        let Some(current) = sources.next() else {
            return Err(Problem::request("none", "traces", "there must be one", "name a file"));
        };
        let mut joined = Self {
            sources,
            current,
            name,
            meta: Meta::default(),
            asids: Renumbering::default(),
            segments: Renumbering::default(),
            files: Renumbering::default(),
            kernel: 0,
            row: 0,
            first: true,
            failed: Failure::default(),
        };
        joined.meta = joined.current.meta().clone();
        joined.adopt();
        Ok(joined)
    }

    /// Adds the metadata of the current trace. Adding the same metadata again changes nothing.
    fn adopt(&mut self) {
        let theirs = self.current.meta().clone();
        let ours = &mut self.meta;
        ours.page_size = ours.page_size.or(theirs.page_size);
        ours.system_calls = Meta::joint_call_system([&*ours, &theirs]);
        ours.describes_calls &= theirs.describes_calls;
        if ours.sizes != theirs.sizes {
            let assumed =
                [&ours.sizes, &theirs.sizes].iter().any(|sizes| sizes.as_deref() == Some("assumed"));
            ours.sizes = assumed.then(|| "assumed".to_owned());
        }
        for (joined, other) in [(&mut ours.recorder, theirs.recorder), (&mut ours.command, theirs.command)] {
            match (&mut *joined, other) {
                (Some(known), Some(other)) if !known.split("; ").any(|part| part == other) => {
                    *known = format!("{known}; {other}");
                }
                (none @ None, other) => *none = other,
                _ => {}
            }
        }
        for (asid, process) in theirs.processes {
            let asid = self.asids.of(u64::from(asid));
            if let Ok(asid) = u32::try_from(asid) {
                let parent =
                    process.parent.and_then(|parent| u32::try_from(self.asids.of(parent.into())).ok());
                self.meta.processes.insert(asid, crate::source::ProcessMeta { parent, ..process });
            }
        }
        for (number, segment) in theirs.segments {
            let same = |known: &SegmentMeta| segment.file.is_some() && *known == segment;
            let shared = self.meta.segments.iter().find(|(_, known)| same(known)).map(|(&number, _)| number);
            match shared.filter(|_| !self.segments.new.contains_key(&number)) {
                Some(shared) => self.segments.put(number, shared),
                None => drop(self.segments.of(number)),
            }
            self.meta.segments.insert(self.segments.of(number), segment);
        }
        for (number, path) in theirs.files {
            // A file has two numbers if some of its calls are direct.
            let is_direct = theirs.direct_files.contains(&number);
            let same = |known: u64, name: &str| {
                !path.is_empty() && name == path && self.meta.direct_files.contains(&known) == is_direct
            };
            let mut files = self.meta.files.iter();
            let shared = files.find(|&(&known, name)| same(known, name)).map(|(&known, _)| known);
            if let Some(shared) = shared.filter(|_| !self.files.new.contains_key(&number)) {
                self.files.put(number, shared);
            }
            let number_here = self.files.of(number);
            self.meta.files.insert(number_here, path);
            // The joined trace first uses the file in its earliest part, so the length of that part stays.
            if let Some(&bytes) = theirs.file_bytes.get(&number) {
                self.meta.file_bytes.entry(number_here).or_insert(bytes);
            }
            if is_direct {
                self.meta.direct_files.insert(number_here);
            }
        }
    }

    /// Starts the next trace. Returns false if there is no next trace.
    fn advance(&mut self) -> bool {
        self.adopt(); // an importer knows its metadata only at its end
        let Some(next) = self.sources.next() else { return false };
        self.current = next;
        for numbers in [&mut self.asids, &mut self.segments, &mut self.files] {
            numbers.new.clear();
        }
        self.row = 0;
        self.first = false;
        self.adopt();
        true
    }

    /// Returns the batch with the numbers of the joined trace.
    fn renumbered(&mut self, batch: &EventBatch) -> EventBatch {
        let mut out = EventBuilder::with_capacity(batch.len() + 8);
        if self.row == 0 && !self.first {
            for _ in 0..std::mem::take(&mut self.kernel) {
                out.push(Op::KernelLeave, 0, 0, 0);
            }
            if batch.op()[0] != Op::Switch as u8 {
                let asid = self.asids.of(0); // a trace begins in address space 0
                out.push_args(Op::Switch, asid, 0, 0, [Some(Cause::Exit as u64), None]);
            }
        }
        for row in 0..batch.len() {
            let mut event = Event::of(batch, row);
            match event.op {
                Op::Switch | Op::Exec | Op::Exit => event.addr = self.asids.of(event.addr),
                Op::Fork => {
                    event.addr = self.asids.of(event.addr);
                    event.arg0 = event.arg0.map(|parent| self.asids.of(parent));
                }
                Op::Map => event.arg0 = event.arg0.map(|segment| self.segments.of(segment)),
                Op::Syscall => event.arg0 = event.arg0.map(|file| self.files.of(file)),
                Op::KernelEnter => self.kernel += 1,
                Op::KernelLeave => self.kernel = self.kernel.saturating_sub(1),
                _ => {}
            }
            push(&mut out, &event);
        }
        // Address space 0 runs until the first switch.
        if self.row == 0 && self.first {
            self.asids.of(0);
        }
        out.finish()
    }
}

impl Joined {
    /// Reads the next batch that has rows, from the next trace if the current trace has ended.
    fn read_on(&mut self) -> Result<Option<EventBatch>> {
        loop {
            match self.current.next_batch()? {
                Some(batch) if batch.is_empty() => {}
                Some(batch) => {
                    check_rows(&batch, self.row, self.current.name())?;
                    let out = self.renumbered(&batch);
                    self.row += batch.len() as u64;
                    return Ok(Some(out));
                }
                None if self.advance() => {}
                None => return Ok(None),
            }
        }
    }
}

impl Source for Joined {
    fn name(&self) -> &str {
        &self.name
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::read_on)
    }
}
