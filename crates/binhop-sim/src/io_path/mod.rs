//! `io_path` adds to a trace what kernel and devices do for its system calls.
//!
//! [`IoEvents`] is a source over another source. It asks [`IoPath`] at each system call that moves data, and adds rows
//! behind the call: the kernel's references between kernel-enter and kernel-leave, the devices' transfers as dma-read
//! and dma-write, and the maps of the kernel's pages. Its rows are the same for every placement.
//!
//! # Rules
//! - The kernel's memory lies at [`HALF`] and above, at the same addresses in every address space
//!   ([`binhop_os::Spaces::share_from`]). The pages of a file are pages of the segment that processes map; so a page
//!   of the page cache and a mapping of the file share a frame.
//! - The kernel copies and fills 64 bytes at a time, with one load and one store. A piece ends where a line of 64 bytes
//!   of its source ends. (Ours; `rows` has the instructions.)
//! - Where [`IoConfig::file_writes`] says so, a copy into the page cache stores whole lines that bypass the caches.
//!   Such a store is a dma-write row of the device [`rows::NON_TEMPORAL`]: it takes the line from every cache and goes
//!   to memory. The metrics of the front count the store with the accesses of devices; below the front the store is a
//!   write of the processor.
//! - Calls on files that the trace names as direct bypass the page cache: the device reads and writes the user's
//!   memory. A buffer that lies in no memory of the process is an error (`crate::prepare` has the rule). All numbers
//!   with one path are one file (`file_numbers`). A call between two files, and a fault, uses the page cache, whatever
//!   the number.
//! - A device's transfer names a segment and the offset in it. A direct transfer names the user's memory: its segment
//!   is [`rows::RUNNING_SPACE`], and its address is a virtual address of the address space that runs.
//! - The numbers of system calls are those of the system that the trace names ([`Meta::call_system`]; `calls`).
//! - A call moves data of the file, socket or pipe that the trace names. Calls on other objects, such as terminals,
//!   move no data here. A call whose object has no name, and a call on a file without an offset, is counted in
//!   [`PathCounts::unseen`], because nothing says where its bytes come from. A copy between two processes
//!   (`process_vm_readv`) is counted there, too, because its other side has no address in the process that calls. A
//!   call that starts transfers (`io_submit`, `io_uring_enter`) is also counted there. A call that failed is no I/O: in
//!   a trace that describes its calls ([`Meta::describes_calls`]), a call without object and without bytes has failed.
//! - `fsync`, `fdatasync`, `sync` and `syncfs` write dirty pages to the disk, and wait for the writes. `msync` does the
//!   same for the pages that shared mappings show in its range.
//! - `truncate`, `ftruncate`, `creat` and `open` with `O_TRUNC` give a file a length, and `unlink`, `unlinkat` and
//!   `rename` over a file delete it: the pages of the file behind its end leave the page cache and are not written. A
//!   trace names the file of such a call only if the call cut or deleted the file. So a file whose name is removed
//!   while it is open or mapped keeps its pages (ours: for ever).
//! - Files in memory (`/memfd:`) have no disk. Calls on them move no data of a device, and are left out.
//! - A call between two files copies from page cache to page cache, and a file that is sent to a socket is not copied
//!   at all: the card reads the page cache. `splice` and `tee` move pages and buffers; what they move into a file is
//!   copied. Bytes that go to an object without data on the path leave the pipe uncopied. `vmsplice` copies (ours:
//!   Linux lends the pipe the user's pages, which have no address in the process that reads them).
//! - Devices and the flusher also act at times of their own. Their rows stand behind the fetch with whose instructions
//!   that time is reached. Time is the number of instructions that the trace fetches. Work that waits at the end of the
//!   trace is not done, as dirty pages stay in the page cache. [`PathCounts::waiting`] counts this work.
//! - With [`IoConfig::memory`] the page cache competes for frames with all other pages (`binhop_os::io`). The rows that
//!   make room for a reference, by writing and dropping pages, stand before the reference. The rows that make room for
//!   a step of a call stand before the step.
//! - A reference that touches a page of a mapped file may fault: `mappings` has the rules. The rows of a fault stand
//!   before the reference.

mod between;
mod calls;
mod counts;
mod file_numbers;
mod layout;
mod mappings;
mod rows;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use binhop_base::{Problem, Result, VirtAddr};
use binhop_os::io::{FileId, FileWrites, IoConfig, IoPath, IoStep, QueueId};
use binhop_trace::event::{Event, EventBuilder};
use binhop_trace::{EventBatch, Meta, Op, Source};

use crate::events::EventPlace;

pub use counts::PathCounts;

use between::between;
use calls::{Call, CallTable, Moves, Object, objects};
use file_numbers::FileNumbers;
use layout::KernelLayout;
use mappings::{Mappings, RecentPages};
use rows::RowWriter;
pub(crate) use rows::kernel_pages;
pub use rows::{NON_TEMPORAL, RUNNING_SPACE};

/// The first address of the kernel's half (Linux on x86-64).
pub const HALF: u64 = 0xffff_8000_0000_0000;

/// The rows after which a batch ends.
const BATCH_ROWS: usize = 1 << 16;

/// `Followed` says which rows of a batch were followed.
enum Followed {
    /// All rows were followed, and caused no further rows: the batch is passed on as it is.
    Unchanged,
    /// All rows were followed.
    Whole,
    /// The rows before the row of this number were followed.
    UpTo(usize),
}

/// `IoEvents` yields the events of a source. The events that a system call causes in kernel and devices stand behind
/// the call, and the events of the faults of a reference stand before the reference.
pub struct IoEvents {
    source: Box<dyn Source>,
    meta: Meta,
    path: IoPath,
    table: &'static CallTable,
    objects: BTreeMap<u64, Object>,
    numbers: FileNumbers,
    writer: RowWriter,
    /// `None` if the trace maps no file and pages do not compete for memory.
    mappings: Option<Mappings>,
    /// The steps of a fault.
    steps: Vec<IoStep>,
    /// The number of rows in the batches before the current batch.
    rows: u64,
    /// The batch that is being followed, and its first row that has not been followed.
    current: Option<(EventBatch, usize)>,
    /// The call whose ranges are being read.
    pending: Option<Call>,
    /// The row of this call.
    pending_row: u64,
    instructions: u64,
    /// The number of instructions at which devices or the flusher act next on their own.
    due: u64,
    unseen: u64,
    counted: Arc<Mutex<PathCounts>>,
    /// The problem of a trace that uses the page cache.
    refusal: Option<Box<Problem>>,
    ended: bool,
}

impl IoEvents {
    /// Makes the source for a trace.
    ///
    /// # Errors
    /// The configuration breaks a rule of [`IoConfig`], or the path does not know the system whose calls the trace
    /// holds.
    pub fn new(source: Box<dyn Source>, config: IoConfig) -> Result<Self> {
        let mut meta = source.meta().clone();
        let table = CallTable::of(&meta, source.name())?;
        let trace_page = meta.known_page_size().unwrap_or(4096);
        let mut layout = KernelLayout::new(&mut meta, &config, trace_page);
        let numbers = FileNumbers::of(&meta);
        let mapped = layout.mapped_files(source.meta(), &numbers);
        let competes = config.memory.map(|room| room.colors);
        let mappings = (competes.is_some() || !mapped.is_empty())
            .then(|| Mappings::new(config.page, trace_page, mapped, competes))
            .transpose()?;
        let mut path = IoPath::new(config)?;
        // A file may have several numbers. The trace uses the lowest of them first.
        let known: BTreeMap<FileId, u64> =
            meta.file_bytes.iter().rev().map(|(&file, &bytes)| (numbers.file(file), bytes)).collect();
        for (file, bytes) in known {
            path.set_bytes(file, bytes.min(IoPath::LARGEST));
        }
        Ok(Self {
            table,
            objects: objects(&meta),
            numbers,
            path,
            writer: RowWriter::new(layout, config.file_writes == FileWrites::NonTemporal),
            mappings,
            steps: Vec::new(),
            rows: 0,
            meta,
            source,
            current: None,
            pending: None,
            pending_row: 0,
            instructions: 0,
            due: u64::MAX,
            unseen: 0,
            counted: Arc::default(),
            refusal: None,
            ended: false,
        })
    }

    /// Refuses the first call or fault that brings a page into the page cache, with this problem if there is one
    /// ([`Machine::page_cache_problem`](crate::Machine::page_cache_problem)).
    #[must_use]
    pub fn refusing(mut self, problem: Option<Box<Problem>>) -> Self {
        self.refusal = problem;
        self
    }

    /// Returns the place in which the path keeps its counts, so that a caller can read the counts after a run has taken
    /// the source.
    #[must_use]
    pub fn counts(&self) -> Arc<Mutex<PathCounts>> {
        Arc::clone(&self.counted)
    }

    /// Follows the rows of a batch from row `first` on, and adds them to `out` with the rows that they cause. The
    /// function ends early when `out` has the rows of a batch, because a few calls may make more rows than a whole
    /// batch of a trace has.
    ///
    /// # Errors
    /// An event that changes address spaces is damaged.
    fn follow(&mut self, batch: &EventBatch, first: usize, out: &mut EventBuilder) -> Result<Followed> {
        let (mut copied, mut next) = (first, first);
        while next < batch.len() {
            if self.pending.is_none() {
                next = self.skip_quiet(batch, next);
                if next == batch.len() {
                    break;
                }
            }
            let row = next;
            next += 1;
            let code = batch.op()[row];
            if code == Op::Range as u8 {
                if let Some(call) = &mut self.pending {
                    call.add_range(&Event::of(batch, row));
                }
                continue;
            }
            if self.pending.is_some() {
                out.append(&batch.slice(copied, row - copied));
                copied = row;
                self.serve(out)?;
                if out.len() >= BATCH_ROWS {
                    return Ok(Followed::UpTo(row));
                }
            }
            if let Some(mappings) = &mut self.mappings {
                if code <= Op::Modify as u8 {
                    let stores = code >= Op::Store as u8;
                    let reference = (batch.addr()[row], batch.size()[row], stores);
                    if mappings.reference(reference, self.instructions, &mut self.path, &mut self.steps)? {
                        out.append(&batch.slice(copied, row - copied));
                        copied = row;
                        self.check_page_cache()?;
                        self.writer.write(&self.steps, out);
                        self.steps.clear();
                        self.due = self.path.next_due();
                        if out.len() >= BATCH_ROWS {
                            return Ok(Followed::UpTo(row));
                        }
                    }
                } else {
                    let place = EventPlace { trace: self.source.name(), row: self.rows + row as u64 };
                    mappings.event(batch, row, &place, &mut self.path)?;
                }
            }
            if code == Op::Fetch as u8 {
                self.instructions += u64::from(batch.count()[row]);
                if self.instructions >= self.due {
                    out.append(&batch.slice(copied, row + 1 - copied));
                    copied = row + 1;
                    self.pass_time(out);
                    if out.len() >= BATCH_ROWS {
                        return Ok(Followed::UpTo(copied));
                    }
                }
            } else if code == Op::KernelEnter as u8 || code == Op::KernelLeave as u8 {
                self.writer.set_kernel(code == Op::KernelEnter as u8);
            } else if code == Op::Syscall as u8 {
                self.pending = Call::of(&Event::of(batch, row), self.table);
                self.pending_row = self.rows + row as u64;
            }
        }
        self.rows += batch.len() as u64;
        if copied == 0 && out.is_empty() {
            return Ok(Followed::Unchanged);
        }
        out.append(&batch.slice(copied, batch.len() - copied));
        Ok(Followed::Whole)
    }

    /// Returns the first row from `first` on that may make rows, or that is no reference. Most rows are skipped here.
    fn skip_quiet(&mut self, batch: &EventBatch, first: usize) -> usize {
        let (codes, addresses) = (batch.op(), batch.addr());
        let (sizes, counts) = (batch.size(), batch.count());
        let mut recent = RecentPages::default();
        for row in first..batch.len() {
            let code = codes[row];
            if code > Op::Modify as u8 {
                return row;
            }
            let fetches = code == Op::Fetch as u8;
            if let Some(mappings) = &self.mappings {
                let reference = (addresses[row], sizes[row], code >= Op::Store as u8);
                if !mappings.passes(reference, &mut recent, &mut self.path) {
                    return row;
                }
            }
            if fetches {
                let instructions = self.instructions + u64::from(counts[row]);
                if instructions >= self.due {
                    return row;
                }
                self.instructions = instructions;
            }
        }
        batch.len()
    }

    /// Makes the path serve the call that is pending.
    ///
    /// # Errors
    /// A direct call has a buffer that lies in no memory, or the trace has more pages than a number of 32 bits tells
    /// apart.
    fn serve(&mut self, out: &mut EventBuilder) -> Result<()> {
        let Some(call) = self.pending.take() else { return Ok(()) };
        let object = self.object(call.object);
        let (reads, moved) = match (call.moves, call.target) {
            (Moves::UserPipe, Some(target)) => (false, self.object(target.object)),
            (moves, _) => (moves != Moves::FromUser, object),
        };
        let has_buffer = matches!(call.moves, Moves::ToUser | Moves::FromUser)
            || (call.moves == Moves::UserPipe && moved.is_some());
        let movable = call.movable(matches!(moved, Some((_, Object::File))));
        if let Some(mappings) = &mut self.mappings {
            let is_seen = match moved {
                Some((_, Object::File)) => call.offset.is_some(),
                Some((_, kind)) => kind != Object::Other,
                None => false,
            };
            let is_direct = is_seen && moved.is_some_and(|(id, _)| self.meta.direct_files.contains(&id));
            if is_direct && has_buffer {
                let outside = mappings.outside_memory(call.pieces().take(movable), reads, &mut self.path)?;
                if let Some(byte) = outside {
                    return Err(Problem::request(
                        &format!("{byte:#x}"),
                        &format!("{}: row {}: direct call", self.source.name(), self.pending_row),
                        "a device reads and writes memory that somebody has mapped, or referenced before",
                        "give the right buffer, map the memory before the call, or leave the path out: --no-path",
                    ));
                }
            }
            // The path moves no data of other calls.
            let buffers = call.pieces().take(movable).filter(|_| has_buffer && is_seen);
            mappings.name_buffers(buffers, reads, &mut self.path)?;
        }
        let path = &mut self.path;
        let mut steps = Vec::new();
        let emit: &mut dyn FnMut(IoStep) = &mut |step| steps.push(step);
        path.pass_time(self.instructions, emit);
        self.unseen += u64::from(call.is_unknown(self.meta.describes_calls));
        match (call.moves, object) {
            (Moves::ToUser | Moves::FromUser | Moves::UserPipe, _) => {}
            (Moves::OtherProcess | Moves::Unknown, _) => {}
            (Moves::Between | Moves::Tee, _) => {
                self.unseen += u64::from(!between(path, (&self.objects, &self.numbers), &call, emit));
            }
            (Moves::FileToDisk, Some((id, Object::File))) => {
                path.sync_file(self.numbers.file(id), emit);
            }
            (Moves::FileToDisk, Some(_)) => {}
            // The trace does not name the object.
            (Moves::FileToDisk, None) => self.unseen += u64::from(call.object.is_some()),
            (Moves::AllToDisk, _) => path.sync(emit),
            (Moves::RangeToDisk, _) => {
                let runs = call.pieces().flat_map(|(start, bytes)| {
                    self.mappings
                        .as_ref()
                        .map_or_else(Vec::new, |known| known.shared_runs(start, bytes.into()))
                });
                let size = path.config().page;
                for (first, pages) in
                    runs.filter(|(first, pages)| first.page + pages <= IoPath::LARGEST / size)
                {
                    path.sync_range(first.file, first.page * size, pages * size, emit);
                }
            }
            (Moves::Cut | Moves::Delete, Some((id, Object::File))) => {
                let bytes = if call.moves == Moves::Delete { Some(0) } else { call.offset };
                if let Some(bytes) = bytes {
                    path.truncate(self.numbers.file(id), bytes.min(IoPath::LARGEST), emit);
                }
            }
            (Moves::Cut | Moves::Delete, _) => {}
        }
        let mut offset = call.offset;
        let pieces = call.pieces().filter(|_| has_buffer);
        for (number, (user, bytes)) in pieces.enumerate() {
            if number == movable {
                self.unseen += 1;
                break;
            }
            let (bytes, user) = (u64::from(bytes), VirtAddr(user));
            match (moved, offset) {
                (Some((_, Object::Other)), _) => {}
                (Some((id, Object::File)), Some(at)) => {
                    let direct = self.meta.direct_files.contains(&id);
                    let file = self.numbers.file(id);
                    match (reads, direct) {
                        (true, false) => path.read(file, at, bytes, user, emit),
                        (true, true) => path.read_direct(file, at, bytes, user, emit),
                        (false, false) => path.write(file, at, bytes, user, emit),
                        (false, true) => path.write_direct(file, at, bytes, user, emit),
                    }
                    offset = Some(at + bytes);
                }
                (Some((id, Object::Socket)), _) if reads => path.receive(QueueId(id), bytes, user, emit),
                (Some((_, Object::Socket)), _) => path.send(bytes, user, emit),
                (Some((id, Object::Pipe)), _) if reads => {
                    path.read_pipe(QueueId(id), bytes, user, emit);
                }
                (Some((id, Object::Pipe)), _) => path.write_pipe(QueueId(id), bytes, user, emit),
                (Some((_, Object::File)), None) | (None, _) => {
                    self.unseen += 1;
                    break;
                }
            }
        }
        self.end_call(&steps, out);
        if let Some(mappings) = &mut self.mappings {
            mappings.enter_buffers(&mut self.path);
        }
        self.check_page_cache()
    }

    /// Returns the number and the kind of an object that a call names.
    fn object(&self, id: Option<u64>) -> Option<(u64, Object)> {
        id.and_then(|id| Some((id, *self.objects.get(&id)?)))
    }

    /// Checks that no page has come into the page cache, if the page cache is refused.
    fn check_page_cache(&mut self) -> Result<()> {
        match self.refusal.take_if(|_| self.path.counts().cache_misses > 0) {
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    /// Makes devices and the flusher do what is due.
    #[cold]
    fn pass_time(&mut self, out: &mut EventBuilder) {
        let mut steps = Vec::new();
        self.path.pass_time(self.instructions, &mut |step| steps.push(step));
        self.end_call(&steps, out);
    }

    /// Writes the rows of a call, and notes what it did to the page cache.
    fn end_call(&mut self, steps: &[IoStep], out: &mut EventBuilder) {
        self.writer.write(steps, out);
        if let Some(mappings) = &mut self.mappings {
            mappings.note(steps, &self.path);
        }
        self.due = self.path.next_due();
    }
}

impl Source for IoEvents {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        let (mut out, mut unchanged) = (EventBuilder::default(), None);
        while out.is_empty() && unchanged.is_none() && !self.ended {
            let next = match self.current.take() {
                Some(current) => Some(current),
                None => self.source.next_batch()?.map(|batch| (batch, 0)),
            };
            match next {
                Some((batch, first)) => match self.follow(&batch, first, &mut out)? {
                    Followed::Unchanged => unchanged = Some(batch),
                    Followed::Whole => {}
                    Followed::UpTo(row) => self.current = Some((batch, row)),
                },
                None => {
                    self.ended = true;
                    self.serve(&mut out)?;
                }
            }
        }
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) =
            PathCounts { io: *self.path.counts(), unseen: self.unseen, waiting: self.path.waiting() };
        Ok(unchanged.or_else(|| (!out.is_empty()).then(|| out.finish())))
    }
}
