//! `SharedState` is the state that all files of a trace share: threads, processes, switches, the kernel, and
//! counts.
//!
//! A switch, or an entry into the kernel, is appended only before a reference or a system call. So a thread
//! without further references makes no switch.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Problem, Result, counted, counted_notes};

use super::record::{NEWEST, file_type};
use crate::event::{Cause, Op};
use crate::import::rows::{Left, Rows};
use crate::placements::{PlacedPage, Placements};
use crate::source::Meta;

/// `RunningThread` names a thread, its process and its address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunningThread {
    pub(super) tid: u64,
    pub(super) pid: u64,
    pub(super) asid: u32,
}

/// `Omissions` counts the records that the notes report.
#[derive(Debug, Default)]
pub(super) struct Omissions {
    pub(super) prefetches: u64,
    pub(super) flushes: u64,
    pub(super) no_fetches: u64,
    /// References of length 0. In a filtered trace they tell which instruction makes the next data reference.
    pub(super) empty: u64,
    pub(super) signals: u64,
    pub(super) idle: u64,
    pub(super) without_frame: u64,
    /// Markers that are not read.
    pub(super) markers: u64,
    pub(super) backward: u64,
    pub(super) uncut: u64,
}

/// `SharedState` is the state that all files of a trace share.
#[derive(Debug, Default)]
pub(super) struct SharedState {
    pub(super) meta: Meta,
    pub(super) counts: Omissions,
    pub(super) file_type: u64,
    pub(super) placement: Placements,
    /// The last frame of each page.
    frames: BTreeMap<(u32, u64), u64>,
    newest: u64,
    asids: BTreeMap<u64, u32>,
    /// The process of each thread.
    pids: BTreeMap<u64, u64>,
    /// The command of each process, from the name of its directory.
    pub(super) commands: BTreeMap<u64, String>,
    /// The thread of the last switch; `None` before the first reference.
    running: Option<RunningThread>,
    /// The system call that the running thread is in, and whether the thread has ended: the cause of the next
    /// switch.
    call: Option<u64>,
    exited: bool,
    /// True if the rows are between kernel-enter and kernel-leave.
    in_kernel: bool,
    threads: BTreeSet<u64>,
    /// The address spaces that have run.
    ran: BTreeSet<u32>,
    switches: u64,
}

impl SharedState {
    /// Returns the thread of a number; `None` until its process is known.
    pub(super) fn thread(&self, tid: u64) -> Option<RunningThread> {
        let pid = *self.pids.get(&tid)?;
        Some(RunningThread { tid, pid, asid: *self.asids.get(&pid)? })
    }

    /// Takes note of the process of a thread.
    pub(super) fn process(&mut self, tid: u64, pid: u64) -> RunningThread {
        self.pids.insert(tid, pid);
        let (meta, commands) = (&mut self.meta, &self.commands);
        let add = || meta.add_process(pid, commands.get(&pid).cloned());
        let asid = *self.asids.entry(pid).or_insert_with(add);
        RunningThread { tid, pid, asid }
    }

    /// Appends the events after which `thread` runs on `cpu`, in the kernel (for the cause `kernel`) or in
    /// user mode.
    #[cold]
    pub(super) fn switch_to(
        &mut self,
        thread: RunningThread,
        cpu: u32,
        kernel: Option<Cause>,
        rows: &mut Rows,
    ) {
        let same = |other: &RunningThread| (other.tid, other.asid) == (thread.tid, thread.asid);
        let switches = !self.running.as_ref().is_some_and(same);
        if switches {
            self.threads.insert(thread.tid);
            self.ran.insert(thread.asid);
            if self.in_kernel {
                rows.event(Op::KernelLeave, 0, 0, 0, [None, None]);
                self.in_kernel = false;
            }
            // The stream starts in address space 0, which belongs to the process named first.
            if self.running.is_some() || thread.asid != 0 {
                let left = match self.call {
                    _ if self.exited => Left::Ended,
                    Some(number) => Left::InCall(number),
                    None => Left::Running,
                };
                rows.switch(thread.asid, thread.tid as u32, cpu, left);
                self.switches += 1;
            }
            self.running = Some(thread);
        }
        // References of the kernel belong to the call, so the call is the cause of a switch behind them.
        if kernel.is_none() || switches || self.exited {
            self.call = None;
        }
        self.exited = false;
        match (self.in_kernel, kernel) {
            (false, Some(cause)) => rows.event(Op::KernelEnter, 0, 0, cause as u32, [None, None]),
            (true, None) => rows.event(Op::KernelLeave, 0, 0, 0, [None, None]),
            _ => {}
        }
        self.in_kernel = kernel.is_some();
    }

    /// Appends a system call of the running thread.
    pub(super) fn call(&mut self, number: u64, rows: &mut Rows) {
        rows.event(Op::Syscall, 0, 0, number as u32, [None, None]);
        self.call = Some(number);
    }

    /// Takes note that a thread has ended.
    pub(super) fn exit(&mut self, tid: u64) {
        self.exited |= self.running.is_some_and(|thread| thread.tid == tid);
    }

    /// Appends the exit of a process whose last file has ended.
    pub(super) fn end_of_process(&mut self, pid: u64, rows: &mut Rows) {
        // If the process number occurs again, it names another process.
        let Some(asid) = self.asids.remove(&pid).filter(|asid| self.ran.contains(asid)) else { return };
        self.leave_kernel(rows);
        rows.event(Op::Exit, asid.into(), 0, 0, [None, None]);
        self.exited = self.running.is_some_and(|thread| thread.asid == asid);
    }

    /// Appends kernel-leave if the rows are in the kernel.
    pub(super) fn leave_kernel(&mut self, rows: &mut Rows) {
        if std::mem::take(&mut self.in_kernel) {
            rows.event(Op::KernelLeave, 0, 0, 0, [None, None]);
        }
    }

    pub(super) fn version(&mut self, version: u64) {
        self.newest = self.newest.max(version);
        self.meta.recorder = Some(format!("drmemtrace (DynamoRIO), format version {}", self.newest));
    }

    /// Takes the page size of the recording machine.
    pub(super) fn page_size(&mut self, bytes: u64, place: &str) -> Result<()> {
        // Physical addresses may stand before the size. They were read with pages of 4096 bytes.
        let known = self.meta.page_size.or(self.placement.page_size).unwrap_or(bytes);
        if !bytes.is_power_of_two() || known != bytes {
            return Err(Problem::request(
                &bytes.to_string(),
                place,
                "the size of a page is a power of two, and the same in the whole trace",
                "the file is damaged, or of another machine than the ones before: fetch it again, or leave it out",
            ));
        }
        self.meta.page_size = Some(bytes);
        Ok(())
    }

    /// Records the frame of a page.
    pub(super) fn place(&mut self, asid: u32, virtual_address: u64, physical: u64) {
        let page = self.meta.page_size.unwrap_or(4096);
        let (page_no, frame) = (virtual_address / page, physical / page);
        if self.frames.insert((asid, page_no), frame) != Some(frame) {
            self.placement.pages.push(PlacedPage { asid, page_no, frame });
        }
        self.placement.page_size = Some(page);
    }

    /// Returns what was left out or assumed.
    pub(super) fn notes(&self) -> Vec<String> {
        let counts = &self.counts;
        let mut notes = counted_notes([
            (counts.prefetches, ["prefetch is", "prefetches are"], "left out"),
            (
                counts.flushes,
                ["cache flush is", "cache flushes are"],
                "left out, so lines stay where the program flushed them",
            ),
            (
                counts.no_fetches,
                [
                    "further round of a string instruction counts",
                    "further rounds of string instructions count",
                ],
                "neither as a fetch nor as an instruction",
            ),
            (
                counts.empty,
                ["record of a reference is", "records of references are"],
                "left out, for want of a length",
            ),
            (
                counts.signals,
                ["signal or other event of the kernel is", "signals and other events of the kernel are"],
                "read as a jump",
            ),
            (
                counts.idle,
                ["marker of a core that waits or idles is", "markers of a core that waits or idles are"],
                "left out, so that time does not pass",
            ),
            (counts.without_frame, ["page was", "pages were"], "recorded without a physical address"),
            (
                counts.markers,
                [
                    "marker that says nothing about references is",
                    "markers that say nothing about references are",
                ],
                "left out",
            ),
            (
                counts.backward,
                ["timestamp is", "timestamps are"],
                "earlier than the timestamp before: the time before is taken",
            ),
            (
                counts.uncut,
                ["file has", "files have"],
                "no footer, perhaps because the recording was cut short",
            ),
        ]);
        self.warnings(&mut notes);
        notes
    }

    fn warnings(&self, notes: &mut Vec<String>) {
        if self.file_type & file_type::FILTERED != 0 {
            notes.push("the trace was filtered by a small cache when it was recorded; references are missing, so no count of misses or instructions is the program's".into());
        }
        if self.file_type & file_type::FILTERED_WARMUP != 0 {
            notes.push("the beginning of the trace was filtered by a small cache when it was recorded; --warmup leaves it out".into());
        }
        if self.file_type & file_type::INSTRUCTIONS_ONLY != 0 {
            notes.push("the trace holds instructions only; no data reference was recorded".into());
        }
        if self.newest > NEWEST {
            let newest = self.newest;
            notes.push(format!("format version {newest} is newer than {NEWEST}, the newest version that binhop knows; its new markers are left out"));
        }
        let frames = self.placement.pages.len();
        if frames > 0 {
            notes.push(format!(
                "the trace holds the physical addresses of {}; `binhop import --placement FILE` writes these addresses, \
                 for placement.policy = \"recorded\"",
                counted(frames as u64, ["page", "pages"])
            ));
        }
        if self.switches > 0 {
            notes.push(format!(
                "the order of {} among {} is that of the traced run; tracing slows a program down, so the program \
                 switches 2 to 10 times as often per instruction as it does untraced",
                counted(self.switches, ["switch", "switches"]),
                counted(self.threads.len() as u64, ["thread", "threads"])
            ));
        }
    }
}
