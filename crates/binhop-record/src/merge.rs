//! `Merge` puts the processes of a recording into one stream, as one processor would have run them.
//!
//! **Numbers.** The command's own process is address space 0, and the stream starts with it, without a
//! switch. Each forked process gets the next number, even if its process id was used before.
//!
//! **Who may run.** Each process has a clock: the recorder's time of its last system call (or time piece)
//! that the merged stream has passed. Two kinds of return at a time t must wait: a return from a call that
//! brings something from another process ([`WaitsFor::Given`], [`WaitsFor::Child`]), and a return from a call
//! that waited ([`WaitsFor::Room`], longer than [`Merge::wait_threshold`]). The process goes on only once
//! every other process has done everything that it did before t. So no process reads anything before it was
//! written, or sees a child end before the child ends. A process that waits for a child while no child has
//! ended delays no other process, and the merge does not look for its return. If a signal ended its call, it
//! goes on late. The process that returns first waits for no other, so some process may always run.
//!
//! **Switches.** A process leaves the processor when it must wait (cause: system call, with its number), when
//! its turn is over and another process may run (involuntary), and when it ends (exit). If it waited and no
//! other process may run, the processor was idle, and a switch from the process to itself marks this.
//!
//! **Timing.** The merged stream depends on the pieces and the schedule, and not on the time at which pieces
//! arrive. The merge reads only as far as it must, and waits for a piece that is not there yet. It never
//! waits for a piece that needs another process to be read first, because the pipes are read independently of
//! the merge.

use std::collections::BTreeMap;

use binhop_base::{Problem, Result};
use binhop_trace::event::Cause;
use binhop_trace::source::ProcessMeta;
use binhop_trace::{EventBatch, Meta, Op, Source};

use crate::batch_builder::BatchBuilder;
use crate::live_process::{LiveProcess, Wait};
use crate::piece::{Piece, ProcessStream, ProcessStreams, WaitsFor};
use crate::schedule::{Ready, Schedule, calls};
use crate::turn::rows_within;

/// `Merge` is a source: the processes of a recording as one stream of events.
pub struct Merge {
    meta: Meta,
    streams: Box<dyn ProcessStreams>,
    schedule: Box<dyn Schedule>,
    batches: BatchBuilder,
    /// The live processes, by address space.
    processes: BTreeMap<u32, LiveProcess>,
    /// The process that runs; `None` before the start and after the end.
    running: Option<u32>,
    /// The number of processes so far: the next address space.
    started_processes: u32,
    started: bool,
    turns: u64,
    /// The instructions left in the turn, and whether the turn has run no instruction yet.
    left: u64,
    fresh: bool,
    /// An error that is returned after the rows before it.
    failed: Option<Box<Problem>>,
}

impl Merge {
    /// Returns the time in nanoseconds beyond which a call counts as waiting: 20 µs, and 1 ns for each 4
    /// bytes it moved.
    ///
    /// Under the recorder a call that does not wait takes about 5 µs; waking another process takes longer
    /// (our figures).
    #[must_use]
    pub const fn wait_threshold(result: i64) -> u64 {
        20_000 + if result > 0 { result as u64 / 4 } else { 0 }
    }

    /// Merges the processes of a recording. The processes and the schedule in `meta` are replaced.
    #[must_use]
    pub fn new(streams: Box<dyn ProcessStreams>, schedule: Box<dyn Schedule>, meta: Meta) -> Self {
        let meta = Meta { processes: BTreeMap::new(), schedule: Some(schedule.name().to_owned()), ..meta };
        Self {
            meta,
            streams,
            schedule,
            batches: BatchBuilder::default(),
            processes: BTreeMap::new(),
            running: None,
            started_processes: 0,
            started: false,
            turns: 0,
            left: 0,
            fresh: true,
            failed: None,
        }
    }

    /// Returns the metadata, so that segments and files can be added as they become known.
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    /// Returns the number of live processes at this point of the merged stream.
    #[must_use]
    pub fn live(&self) -> usize {
        self.processes.len()
    }

    /// Returns notes for the user on the order of the processes, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.schedule.notes()
    }

    fn process(&mut self, asid: u32) -> &mut LiveProcess {
        self.processes.get_mut(&asid).expect("the process lives")
    }

    fn start(&mut self) -> Result<()> {
        self.started = true;
        if let Some(stream) = self.streams.root()? {
            let asid = self.add_process(stream, None, 0);
            self.schedule.choose(&[Ready { asid, last_turn: 0 }]);
            self.begin_turn(asid);
        }
        Ok(())
    }

    /// Adds a process, and returns its address space.
    fn add_process(&mut self, stream: Box<dyn ProcessStream>, parent: Option<u32>, clock: u64) -> u32 {
        let asid = self.started_processes;
        self.started_processes += 1;
        let command = Some(stream.command().to_owned()).filter(|command| !command.is_empty());
        self.meta.processes.insert(asid, ProcessMeta { pid: Some(stream.pid()), command, parent });
        self.processes.insert(asid, LiveProcess::new(stream, asid, parent, clock));
        self.schedule.started(asid, parent);
        asid
    }

    fn begin_turn(&mut self, asid: u32) {
        self.turns += 1;
        self.running = Some(asid);
        self.left = self.schedule.turn(asid);
        self.fresh = true;
        if let Some(time) = self.schedule.time() {
            self.batches.event(Op::Time, time, 0, [None; 2]);
        }
        let turn = self.turns;
        self.process(asid).begin_turn(turn);
    }

    /// Handles one piece of the process that runs.
    fn step(&mut self, asid: u32) -> Result<()> {
        let process = self.process(asid);
        match process.take()? {
            Some(Piece::Rows(rows)) => self.rows(asid, &rows),
            Some(Piece::Enter { tid, number, waits, time }) => {
                self.switch_thread(asid);
                self.process(asid).enter(tid, number, waits, time);
                self.entered(asid, number, waits)
            }
            Some(Piece::Leave { tid, number, time, result }) => {
                if calls::makes_children(number) {
                    // The recorder may report the child after the call, but the child ran since the call
                    // began.
                    self.fork_in_call(asid)?;
                }
                if let Some((number, wait)) = self.must_wait(asid, tid, time, result)? {
                    let process = self.process(asid);
                    process.put_back(Some(Piece::Leave { tid, number, time, result }));
                    return self.wait(asid, number, wait);
                }
                self.passed(asid, tid, number, time, result);
                Ok(())
            }
            Some(Piece::Time { time }) => {
                process.advance_clock(time);
                Ok(())
            }
            Some(Piece::Thread { tid, cause, number }) => {
                process.switch_thread(tid, cause, number);
                Ok(())
            }
            Some(Piece::Fork { child }) => self.fork(asid, child),
            Some(Piece::Exec { command }) => {
                process.exec();
                self.batches.event(Op::Exec, asid.into(), 0, [None; 2]);
                self.meta.processes.entry(asid).or_default().command = Some(command);
                Ok(())
            }
            Some(Piece::Exit { .. }) | None => self.exit(asid),
        }
    }

    /// Appends a switch if another thread of the running process goes on.
    fn switch_thread(&mut self, asid: u32) {
        let process = self.process(asid);
        if let Some((tid, cause, number)) = process.thread.take() {
            process.tid = tid;
            self.batches.switch(asid, tid, cause, number);
        }
    }

    fn rows(&mut self, asid: u32, rows: &EventBatch) -> Result<()> {
        self.switch_thread(asid);
        self.process(asid).open_call = None;
        let alone = self.processes.len() == 1;
        let (end, ran) = rows_within(rows, if alone { u64::MAX } else { self.left }, self.fresh);
        self.schedule.ran(asid, ran);
        if alone {
            self.batches.rows(rows.clone());
            return Ok(());
        }
        self.fresh &= ran == 0;
        self.left = self.left.saturating_sub(ran);
        if end > 0 {
            self.batches.rows(rows.slice(0, end));
        }
        if end == rows.len() {
            return Ok(());
        }
        self.process(asid).put_back(Some(Piece::Rows(rows.slice(end, rows.len() - end))));
        self.next_turn(Some(asid), self.schedule.cause(), None)
    }

    /// Handles the entry of the running process into a call. The process leaves the processor at once if other
    /// processes must run before the call can return, whatever the time of the return.
    fn entered(&mut self, asid: u32, number: u32, waits: WaitsFor) -> Result<()> {
        let process = self.process(asid);
        let entered = process.clock;
        let parked = waits == WaitsFor::Child && process.children > 0 && process.ended == 0;
        let mut others = self.processes.values().filter(|process| process.asid != asid);
        if parked || waits == WaitsFor::Given && others.any(|process| process.is_behind(entered)) {
            self.schedule.entered(asid, number);
            return self.wait(asid, number, Wait { entered, leave: None, child: waits == WaitsFor::Child });
        }
        match self.schedule.entered(asid, number) {
            Some(0) => {
                self.fork_in_call(asid)?;
                self.wait(asid, number, Wait { entered, leave: None, child: waits == WaitsFor::Child })
            }
            Some(left) => {
                (self.left, self.fresh) = (left, true);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Adds the children that the running process forks in its open call: they start in this turn.
    fn fork_in_call(&mut self, asid: u32) -> Result<()> {
        loop {
            match self.process(asid).take()? {
                Some(Piece::Fork { child }) => self.fork(asid, child)?,
                piece => {
                    self.process(asid).put_back(piece);
                    return Ok(());
                }
            }
        }
    }

    /// Decides whether other processes must run before a call returns. If so, returns the call's number and
    /// the wait.
    fn must_wait(&mut self, asid: u32, tid: u32, time: u64, result: i64) -> Result<Option<(u32, Wait)>> {
        let process = self.process(asid);
        let Some((number, entered)) = process.open_call else { return Ok(None) };
        let (time, waits) = (time.max(entered), process.returns(tid));
        let waited = time - entered > Self::wait_threshold(result);
        let wait = match waits {
            WaitsFor::Nothing => false,
            WaitsFor::Room => waited,
            WaitsFor::Given | WaitsFor::Child => waited || self.others_done_until_exact(asid, time)? < time,
        };
        Ok(wait.then_some((number, Wait { entered, leave: Some(time), child: false })))
    }

    /// Notes that the merged stream has reached the return of a call.
    fn passed(&mut self, asid: u32, tid: u32, number: u32, time: u64, result: i64) {
        self.switch_thread(asid);
        self.process(asid).leave(tid, number, time, result);
    }

    fn wait(&mut self, asid: u32, number: u32, wait: Wait) -> Result<()> {
        self.process(asid).wait = Some(wait);
        self.next_turn(Some(asid), Cause::SystemCall, Some(number))
    }

    /// Adds a forked child. The fork's row comes before every row of the child.
    fn fork(&mut self, asid: u32, child: u64) -> Result<()> {
        let Some(stream) = self.streams.child(child)? else { return Ok(()) };
        let clock = self.process(asid).clock;
        let born = self.add_process(stream, Some(asid), clock);
        self.process(asid).children += 1;
        self.batches.event(Op::Fork, born.into(), 0, [Some(asid.into()), None]);
        Ok(())
    }

    fn exit(&mut self, asid: u32) -> Result<()> {
        self.batches.event(Op::Exit, asid.into(), 0, [None; 2]);
        let process = self.processes.remove(&asid).expect("the process lives");
        self.schedule.ended(asid);
        if let Some(parent) = process.parent.and_then(|parent| self.processes.get_mut(&parent)) {
            parent.children -= 1;
            parent.ended += 1;
        }
        self.next_turn(None, Cause::Exit, None)
    }

    /// Ends the turn of process `leaving` for `cause` and begins the next turn, which may be the same
    /// process's. `leaving` is `None` if the process has ended.
    fn next_turn(&mut self, leaving: Option<u32>, cause: Cause, number: Option<u32>) -> Result<()> {
        self.running = None;
        let ready = self.ready()?;
        if ready.is_empty() {
            return Ok(()); // all have ended
        }
        let next = ready[self.schedule.choose(&ready)].asid;
        if leaving != Some(next) {
            let process = self.process(next);
            if let Some((tid, ..)) = process.thread.take() {
                process.tid = tid;
            }
            let tid = process.tid;
            self.batches.switch(next, tid, cause, number);
        } else if cause != Cause::Involuntary {
            let tid = self.process(next).tid;
            self.batches.switch(next, tid, cause, number);
        }
        self.begin_turn(next);
        Ok(())
    }

    /// Returns the processes that may run, in order of the address space. Looks for the return of waiting
    /// processes where the return's time decides.
    fn ready(&mut self) -> Result<Vec<Ready>> {
        loop {
            let done_until = self.processes.values().map(LiveProcess::done_until).min();
            let Some(done_until) = done_until else { return Ok(Vec::new()) };
            if done_until == u64::MAX {
                // Every process waits for a child, and no child will end. So a signal ended each call.
                self.processes
                    .values_mut()
                    .filter_map(|process| process.wait.as_mut())
                    .for_each(|wait| wait.child = false);
                continue;
            }
            if !self.find_return(None, done_until)? {
                let ready = self.processes.values().filter(|process| match process.wait {
                    Some(wait) => wait.leave.is_some_and(|leave| leave <= done_until),
                    None => true,
                });
                return Ok(ready
                    .map(|process| Ready { asid: process.asid, last_turn: process.last_turn })
                    .collect());
            }
        }
    }

    /// Returns the time before which all other processes have done everything, as far as is known.
    fn others_done_until(&self, asid: u32) -> u64 {
        let others = self.processes.values().filter(|process| process.asid != asid);
        others.map(LiveProcess::done_until).min().unwrap_or(u64::MAX)
    }

    /// Returns the same time as [`Merge::others_done_until`], exact if it lies below `time`.
    fn others_done_until_exact(&mut self, asid: u32, time: u64) -> Result<u64> {
        loop {
            let done_until = self.others_done_until(asid);
            if done_until >= time || !self.find_return(Some(asid), done_until)? {
                return Ok(done_until);
            }
        }
    }

    /// Finds the return of one waiting process, other than `but`, that has waited since `time` or earlier.
    /// Returns `false` if no such process is left.
    fn find_return(&mut self, but: Option<u32>, time: u64) -> Result<bool> {
        let asked = self
            .processes
            .values()
            .filter(|process| Some(process.asid) != but && process.return_is_unknown());
        let first = asked
            .filter(|process| process.done_until() <= time)
            .map(|process| (process.done_until(), process.asid))
            .min();
        let Some((_, asid)) = first else { return Ok(false) };
        let leave = loop {
            let process = self.process(asid);
            match process.take()? {
                Some(Piece::Thread { tid, cause, number }) => process.switch_thread(tid, cause, number),
                Some(Piece::Time { .. }) => {}
                Some(Piece::Fork { child }) => self.fork(asid, child)?,
                piece => {
                    let leave = match &piece {
                        Some(Piece::Leave { time, .. } | Piece::Exit { time }) => *time,
                        _ => 0, // another thread runs on, or the stream has ended
                    };
                    process.put_back(piece);
                    break leave;
                }
            }
        };
        let wait = self.process(asid).wait.as_mut().expect("the process waits");
        wait.leave = Some(leave.max(wait.entered));
        Ok(true)
    }

    fn run(&mut self) -> Result<()> {
        if !self.started {
            self.start()?;
        }
        while let Some(asid) = self.running.filter(|_| !self.batches.is_ready()) {
            self.step(asid)?;
        }
        Ok(())
    }
}

impl Source for Merge {
    fn name(&self) -> &str {
        "recording"
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        if !self.batches.is_ready()
            && self.failed.is_none()
            && let Err(problem) = self.run()
        {
            self.failed = Some(problem);
            self.running = None;
        }
        if let Some(batch) = self.batches.next() {
            return Ok(Some(batch));
        }
        self.batches.flush();
        match self.batches.next() {
            Some(batch) => Ok(Some(batch)),
            None => self.failed.clone().map_or(Ok(None), Err),
        }
    }
}
