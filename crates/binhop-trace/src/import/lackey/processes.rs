//! `Processes` knows which process makes the references of lackey's text, and what system calls do to memory.
//!
//! The text gives mmap, munmap, mprotect, mremap, brk, clone (as fork), execve, exit_group, and the buffers
//! of read, write, pread64, pwrite64, recvfrom and sendto. Every other finished call is a syscall event
//! without a range. The text does not give the mappings that Valgrind made before the first instruction (the
//! program, ld.so, the stack), so a simulation takes them as private to each process. It also does not tell
//! which processes share an anonymous mapping, except by fork.
//!
//! A page has 4096 bytes. Lackey's text does not give the size, and the calls are those of Linux on amd64.
//!
//! drmemtrace tells threads and processes by records, and the recorder decides who runs. This file guesses
//! from lines, so it shares only switches (`rows.rs`) and the numbering of processes ([`Meta`]) with the
//! drmemtrace importer and the recorder.

use std::collections::BTreeMap;

use super::super::rows::{Left, Rows};
use super::calls::{Call, CallResult, Calls, ThreadId};
use super::descriptors::Descriptors;
use crate::event::{Op, map_flags};
use crate::source::Meta;
use binhop_base::{counted, counted_notes};

/// The bytes in a page of the recorded system.
const PAGE: u64 = 4096;

// The flags of mmap that are read here, on Linux for amd64.
const MAP_SHARED_TYPES: u64 = 1;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_GROWSDOWN: u64 = 0x100;

/// `Living` is a process that has not ended.
#[derive(Debug)]
struct Living {
    asid: u32,
    /// The thread that has Valgrind's lock, or had the lock last.
    tid: u32,
    /// True while the process has the lock and may execute.
    runs: bool,
    /// The number of the last line that named the process, among the lines that name processes.
    named: u64,
    /// True if the process called execve. The next banner belongs to the new program.
    execs: bool,
    /// The end of the heap, once a call of brk has returned it.
    heap: Option<u64>,
}

/// `Processes` holds the living processes and the thread that runs.
pub(super) struct Processes {
    meta: Meta,
    living: BTreeMap<u64, Living>,
    files: Descriptors,
    next_segment: u64,
    /// The thread that makes the references now, and the asid and tid of the last switch. Until a line names
    /// a thread, they are asid 0 and tid 1.
    current: Option<ThreadId>,
    switched_to: (u32, u32),
    switched_to_thread: Option<ThreadId>,
    due: bool,
    /// True if the thread of the last switch has ended.
    ended: bool,
    lines: u64,
    /// The number of references made while several processes ran, and the count of references when they began
    /// to run.
    guessed: u64,
    crowded_since: Option<u64>,
    moved: u64,
    misfits: u64,
}

impl Processes {
    pub(super) fn new() -> Self {
        let meta =
            Meta { sizes: Some("exact".into()), recorder: Some("Valgrind lackey".into()), ..Meta::default() };
        Self {
            meta,
            living: BTreeMap::new(),
            files: Descriptors::default(),
            next_segment: 1,
            current: None,
            switched_to: (0, 1),
            switched_to_thread: None,
            due: false,
            ended: false,
            lines: 0,
            guessed: 0,
            crowded_since: None,
            moved: 0,
            misfits: 0,
        }
    }

    pub(super) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns whether the next reference or event needs a switch before it.
    #[inline]
    pub(super) fn switch_is_due(&self) -> bool {
        self.due
    }

    /// Appends a switch to the thread that runs now.
    pub(super) fn switch(&mut self, calls: &Calls, rows: &mut Rows) {
        self.due = false;
        let Some(thread) = self.current else { return };
        let now =
            (self.living.get(&thread.pid).map_or(self.switched_to.0, |process| process.asid), thread.tid);
        if now != self.switched_to {
            let inside = self.switched_to_thread.and_then(|left| calls.inside(left));
            let left = match inside {
                _ if self.ended => Left::Ended,
                Some(number) => Left::InCall(number.into()),
                None => Left::Running,
            };
            rows.switch(now.0, now.1, 0, left);
            self.switched_to = now;
        }
        self.switched_to_thread = Some(thread);
        self.ended = false;
    }

    /// Takes note that a line named this thread, which therefore runs.
    pub(super) fn named(&mut self, thread: ThreadId, rows: &Rows) {
        self.lines += 1;
        let (lines, process) = (self.lines, self.process(thread.pid));
        (process.tid, process.named, process.runs) = (thread.tid, lines, true);
        self.choose(rows);
    }

    /// Reads the text of `--pid-- …`.
    pub(super) fn schedule(&mut self, pid: u64, text: &[u8], rows: &Rows) {
        let Some(rest) = text.strip_prefix(b"SCHED[") else { return };
        let (tid, end) = super::decimal_from(rest, 0);
        let text = rest[end..].strip_prefix(b"]:").unwrap_or(b"").trim_ascii();
        if text.starts_with(b"acquired lock") || text.starts_with(b"entering") {
            self.named(ThreadId { pid, tid }, rows);
        } else if text.starts_with(b"releas") || text.starts_with(b"exiting") {
            // The last messages of a process follow its exit.
            if let Some(process) = self.living.get_mut(&pid) {
                process.runs = false;
            }
            self.choose(rows);
        }
    }

    /// Reads the text of `==pid== …`. Returns whether the text is the banner of a program that the process
    /// begins by execve.
    pub(super) fn banner(&mut self, pid: u64, text: &[u8], rows: &mut Rows) -> bool {
        let text = String::from_utf8_lossy(text);
        if let Some(version) =
            text.strip_prefix("Using Valgrind-").and_then(|rest| rest.split_whitespace().next())
        {
            self.meta.recorder = Some(format!("Valgrind lackey {version}"));
        }
        let Some(command) = text.strip_prefix("Command: ") else { return false };
        self.lines += 1;
        let (lines, process) = (self.lines, self.process(pid));
        let asid = process.asid;
        (process.named, process.runs) = (lines, true);
        let execs = std::mem::take(&mut process.execs);
        if execs {
            (process.heap, process.tid) = (None, 1);
            rows.event(Op::Exec, u64::from(asid), 0, 0, [None, None]);
        }
        self.meta.processes.entry(asid).or_default().command = Some(command.to_string());
        self.meta.command.get_or_insert_with(|| command.to_string());
        self.choose(rows);
        execs
    }

    /// Appends the fork of a process.
    pub(super) fn fork(&mut self, (parent, child): (ThreadId, u64), rows: &mut Rows) {
        if self.living.contains_key(&child) {
            return;
        }
        let Living { asid: parent_asid, heap, .. } = *self.process(parent.pid);
        let born = self.process(child);
        born.heap = heap;
        let asid = born.asid;
        self.files.fork(parent_asid, asid);
        let command = self.meta.processes.get(&parent_asid).and_then(|parent| parent.command.clone());
        self.meta.processes.entry(asid).or_default().command = command;
        rows.event(Op::Fork, u64::from(asid), 0, 0, [Some(u64::from(parent_asid)), None]);
    }

    /// Appends a system call that has its result, after an event for what it did.
    pub(super) fn called(&mut self, call: &Call, calls: &Calls, rows: &mut Rows) {
        if self.due {
            self.switch(calls, rows);
        }
        if let CallResult::Success(result) = call.outcome
            && self.did(call, result, rows).is_none()
        {
            self.misfits += 1;
        }
        if call.name == "execve" {
            // The call failed. A success shows as the banner of the new program.
            self.process(call.thread.pid).execs = false;
        }
        let [file, offset, buffer, length] = self.buffer(call);
        let moved = match call.outcome {
            CallResult::Success(result) => length.unwrap_or(0).min(result),
            _ => 0,
        };
        let size = u32::try_from(moved).unwrap_or(u32::MAX);
        rows.event(Op::Syscall, buffer.unwrap_or(0), size, call.number, [file, offset]);
        match call.name.as_str() {
            "exit" => self.ended = true,
            "exit_group" => self.exit(call.thread.pid, rows),
            _ => {}
        }
    }

    /// Takes note that a process called execve, which has no result if it succeeds.
    pub(super) fn execs(&mut self, thread: ThreadId) {
        self.process(thread.pid).execs = true;
    }

    /// Returns the file, offset, address and length of the main range of a call, as far as its arguments
    /// tell.
    fn buffer(&mut self, call: &Call) -> [Option<u64>; 4] {
        let positioned = matches!(call.name.as_str(), "pread64" | "pwrite64");
        if !positioned
            && !matches!(call.name.as_str(), "read" | "write" | "recvfrom" | "sendto" | "recv" | "send")
        {
            return [None; 4];
        }
        let asid = self.process(call.thread.pid).asid;
        let file = call.arg(0).map(|fd| self.files.of(asid, fd));
        let offset = call.arg(3).filter(|_| positioned);
        [file, offset, call.arg(1), call.arg(2)]
    }

    /// Applies a successful call to memory and open files. Returns `None` if its arguments do not fit its
    /// name.
    fn did(&mut self, call: &Call, result: u64, rows: &mut Rows) -> Option<()> {
        let asid = self.process(call.thread.pid).asid;
        match call.name.as_str() {
            "open" | "openat" | "creat" => self.files.open(asid, result, call.path()?, &mut self.meta.files),
            "close" => self.files.close(asid, call.arg(0)?),
            "dup" | "dup2" | "dup3" => self.files.copy(asid, call.arg(0)?, result),
            "pipe" | "pipe2" | "socket" | "socketpair" => {}
            "mmap" => self.mapped(asid, call, result, rows)?,
            "munmap" => self.unmapped(call.arg(0)?, call.arg(1)?, rows),
            "mprotect" => {
                let flags = call.arg(2)? as u32 & (map_flags::READ | map_flags::WRITE | map_flags::EXEC);
                rows.event(Op::Protect, call.arg(0)?, flags, pages(call.arg(1)?), [None, None]);
            }
            "mremap" => self.remapped(call, result, rows)?,
            "brk" => self.heap(call.thread.pid, result, rows),
            _ => {}
        }
        Some(())
    }

    fn mapped(&mut self, asid: u32, call: &Call, start: u64, rows: &mut Rows) -> Option<()> {
        let [length, protection, flags, fd, offset] = [1, 2, 3, 4, 5].map(|index| call.arg(index));
        let (flags, fd) = (flags?, fd?);
        if start == 0 || !start.is_multiple_of(PAGE) || length? == 0 {
            return None;
        }
        let mut bits = protection? as u32 & (map_flags::READ | map_flags::WRITE | map_flags::EXEC);
        bits |= if flags & MAP_SHARED_TYPES != 0 { map_flags::SHARED } else { 0 };
        bits |= if flags & MAP_GROWSDOWN != 0 { map_flags::GROWS } else { 0 };
        let path =
            if flags & MAP_ANONYMOUS == 0 { self.files.path_of(asid, fd, &self.meta.files) } else { None };
        let (segment, offset) = match path {
            Some(path) => {
                (self.files.segment(path, &mut self.next_segment, &mut self.meta.segments), offset?)
            }
            None => (self.fresh_segment(), 0),
        };
        self.map(start, bits, pages(length?), segment, offset, rows);
        Some(())
    }

    /// Applies mremap. Pages that move get a new segment, because finding their old segment would need a
    /// table of all mappings.
    fn remapped(&mut self, call: &Call, start: u64, rows: &mut Rows) -> Option<()> {
        let (old, old_length, length) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
        let (before, after) = (u64::from(pages(old_length)), u64::from(pages(length)));
        let readable = map_flags::READ | map_flags::WRITE;
        if start != old {
            self.moved += 1;
            self.unmapped(old, old_length, rows);
            let segment = self.fresh_segment();
            self.map(start, readable, pages(length), segment, 0, rows);
        } else if after < before {
            self.unmapped(start.checked_add(after * PAGE)?, (before - after) * PAGE, rows);
        } else if after > before {
            let segment = self.fresh_segment();
            self.map(
                start.checked_add(before * PAGE)?,
                readable,
                pages((after - before) * PAGE),
                segment,
                0,
                rows,
            );
        }
        Some(())
    }

    /// Applies brk, which returned the end of the heap. The first call only asks for the end.
    fn heap(&mut self, pid: u64, end: u64, rows: &mut Rows) {
        let end = end.div_ceil(PAGE).saturating_mul(PAGE);
        let Some(before) = self.process(pid).heap.replace(end) else { return };
        if end > before {
            let segment = self.fresh_segment();
            self.map(before, map_flags::READ | map_flags::WRITE, pages(end - before), segment, 0, rows);
        } else if end < before {
            self.unmapped(end, before - end, rows);
        }
    }

    fn map(&mut self, start: u64, bits: u32, count: u32, segment: u64, offset: u64, rows: &mut Rows) {
        self.meta.page_size = Some(PAGE);
        rows.event(Op::Map, start, bits, count, [Some(segment), Some(offset)]);
    }

    fn unmapped(&mut self, start: u64, length: u64, rows: &mut Rows) {
        self.meta.page_size = Some(PAGE);
        rows.event(Op::Unmap, start, 0, pages(length), [None, None]);
    }

    /// Returns a new segment that is in no table: anonymous memory has no name, and there may be any number
    /// of mappings.
    fn fresh_segment(&mut self) -> u64 {
        self.next_segment += 1;
        self.next_segment - 1
    }

    fn exit(&mut self, pid: u64, rows: &mut Rows) {
        let Some(process) = self.living.remove(&pid) else { return };
        rows.event(Op::Exit, u64::from(process.asid), 0, 0, [None, None]);
        self.files.exit(process.asid);
        self.ended = self.switched_to.0 == process.asid;
        self.choose(rows);
    }

    /// Returns the process of a pid. A pid that no fork announced is a new process.
    fn process(&mut self, pid: u64) -> &mut Living {
        let meta = &mut self.meta;
        self.living.entry(pid).or_insert_with(|| {
            let asid = meta.add_process(pid, None);
            Living { asid, tid: 1, runs: false, named: 0, execs: false, heap: None }
        })
    }

    /// Chooses the thread that makes the next references: of the running processes, the process named last.
    fn choose(&mut self, rows: &Rows) {
        let running = || self.living.iter().filter(|(_, process)| process.runs);
        let crowded = running().count() > 1;
        if let Some((&pid, process)) = running().max_by_key(|(_, process)| process.named) {
            self.current = Some(ThreadId { pid, tid: process.tid });
            self.due =
                (process.asid, process.tid) != self.switched_to || self.switched_to_thread != self.current;
        }
        if crowded != self.crowded_since.is_some() {
            let begun = self.crowded_since.replace(rows.references());
            if let Some(begun) = begun {
                self.guessed += rows.references() - begun;
                self.crowded_since = None;
            }
        }
    }

    /// Takes the end of the text.
    pub(super) fn end(&mut self, rows: &Rows) {
        if let Some(begun) = self.crowded_since.take() {
            self.guessed += rows.references() - begun;
        }
        if self.guessed > 0 {
            let recorder = self.meta.recorder.take().unwrap_or_default();
            let guessed = counted(self.guessed, ["reference", "references"]);
            self.meta.recorder = Some(format!("{recorder} ({guessed} assigned by assumption)"));
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        counted_notes([
            (
                self.guessed,
                ["reference was", "references were"],
                "made while several processes ran; the process named last is assumed (with one text per process, \
                 --log-file=NAME.%p, the process is known)",
            ),
            (
                self.moved,
                ["mapping was", "mappings were"],
                "moved by mremap; every page there counts as a new page",
            ),
            (
                self.misfits,
                ["system call has", "system calls have"],
                "arguments that do not fit the kind of call; the effect on memory is left out",
            ),
        ])
    }
}

/// Returns how many pages hold these bytes.
fn pages(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX)
}
