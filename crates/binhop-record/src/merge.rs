//! One stream out of many processes: as one processor would have run them.
//!
//! **Numbers.** The command's own process is address space 0, and the stream starts with it, without a switch. Each
//! process that is forked gets the next number, also where its process id was used before.
//!
//! **Who may run.** Each process has a clock: the recorder's time of its last system call (or time piece) that the
//! merged stream has passed. A process that returns at time t from a call that brings something from others
//! ([`WaitsFor::Given`], [`WaitsFor::Child`]), or that waited in one ([`WaitsFor::Room`], longer than [`Merge::wait_threshold`]),
//! goes on only once every other process has done all it did before t. So nothing is read before it was written, and
//! nobody sees a child end before it does. A process that waits for a child of which none has ended holds nobody
//! up, and others do not wait to hear when it returns: where a signal ended its call, it goes on late.
//! Since the one that returns first waits for nobody, somebody may always run.
//!
//! **Switches.** A process leaves the processor when it must wait (cause: system call, with its number), when its turn is over
//! and another may run (involuntary), and when it ends (exit). Where it waited and nobody else may run, the processor
//! was idle: a switch from the process to itself says so.
//!
//! **Timing.** What comes out is a function of the pieces and the schedule, not of when pieces arrive. The merge reads
//! on only as far as it must: a piece that is not there yet is waited for, and never one that needs another
//! process to be read first, since the program runs on by itself.

use std::collections::BTreeMap;

use binhop_base::{Problem, Result};
use binhop_trace::event::{Cause, Process};
use binhop_trace::{EventBatch, Meta, Op, Source};

use crate::batch_builder::BatchBuilder;
use crate::live_process::{LiveProcess, Wait};
use crate::piece::{Piece, ProcessStream, ProcessStreams, WaitsFor};
use crate::schedule::{Ready, Schedule, calls};
use crate::turn::rows_within;

/// The processes of a recording as one stream of events.
pub struct Merge {
    meta: Meta,
    streams: Box<dyn ProcessStreams>,
    schedule: Box<dyn Schedule>,
    batches: BatchBuilder,
    /// The live processes, by address space.
    processes: BTreeMap<u32, LiveProcess>,
    /// Who runs; `None` before the start and after the end.
    running: Option<u32>,
    born: u32,
    started: bool,
    turns: u64,
    /// Instructions left of the turn, and whether none of it ran yet.
    left: u64,
    fresh: bool,
    /// An error that waits until the rows before it are handed out.
    failed: Option<Box<Problem>>,
}

impl Merge {
    /// How long a call may take before it counts as one that waited: 20 µs, and 1 ns for each 4 bytes it moved.
    ///
    /// Under the recorder a call that does not wait takes some 5 µs; waking another process takes longer (ours).
    #[must_use]
    pub const fn wait_threshold(result: i64) -> u64 {
        20_000 + if result > 0 { result as u64 / 4 } else { 0 }
    }

    /// Merges the processes of a recording. Of `meta`, what the merge knows better is replaced: processes, schedule.
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
            born: 0,
            started: false,
            turns: 0,
            left: 0,
            fresh: true,
            failed: None,
        }
    }

    /// What is known about the whole, to add to: segments and files become known on the way.
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    /// How many processes live at this point of the merged stream.
    #[must_use]
    pub fn live(&self) -> usize {
        self.processes.len()
    }

    /// What a user should know of how the processes were put in order, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.schedule.notes()
    }

    fn process(&mut self, asid: u32) -> &mut LiveProcess {
        self.processes.get_mut(&asid).expect("it lives")
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

    /// A process is born.
    fn add_process(&mut self, stream: Box<dyn ProcessStream>, parent: Option<u32>, clock: u64) -> u32 {
        let asid = self.born;
        self.born += 1;
        let command = Some(stream.command().to_owned()).filter(|command| !command.is_empty());
        self.meta.processes.insert(asid, Process { pid: Some(stream.pid()), command, parent });
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

    /// Takes one piece of whoever runs.
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
                    // Recorders may tell of the child after the call, but it ran since the call began.
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

    /// If another thread of the running process goes on: says so.
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

    /// The running process is in a call. It leaves at once if it cannot go past it before others have run, whenever it returns.
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

    /// If the call that the running process is in makes children: they are born in its turn.
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

    /// Whether a call that returns must let others run first; then in which call the process waits.
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

    fn passed(&mut self, asid: u32, tid: u32, number: u32, time: u64, result: i64) {
        self.switch_thread(asid);
        self.process(asid).leave(tid, number, time, result);
    }

    fn wait(&mut self, asid: u32, number: u32, wait: Wait) -> Result<()> {
        self.process(asid).wait = Some(wait);
        self.next_turn(Some(asid), Cause::SystemCall, Some(number))
    }

    /// A child is born; before any row of its own.
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
        let process = self.processes.remove(&asid).expect("it lives");
        self.schedule.ended(asid);
        if let Some(parent) = process.parent.and_then(|parent| self.processes.get_mut(&parent)) {
            parent.children -= 1;
            parent.ended += 1;
        }
        self.next_turn(None, Cause::Exit, None)
    }

    /// Whoever runs leaves, or would, for `cause`: the next one's turn. `None`: it ended.
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

    /// Who may run, in order of the address space; asks those that wait until when, where it matters.
    fn ready(&mut self) -> Result<Vec<Ready>> {
        loop {
            let done_until = self.processes.values().map(LiveProcess::done_until).min();
            let Some(done_until) = done_until else { return Ok(Vec::new()) };
            if done_until == u64::MAX {
                // Only parents that wait for children of which nothing is heard: a signal ended their call.
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

    /// Up to which time all but one have done everything, as far as is known.
    fn others_done_until(&self, asid: u32) -> u64 {
        let others = self.processes.values().filter(|process| process.asid != asid);
        others.map(LiveProcess::done_until).min().unwrap_or(u64::MAX)
    }

    /// As [`Merge::others_done_until`], exact below `time`.
    fn others_done_until_exact(&mut self, asid: u32, time: u64) -> Result<u64> {
        loop {
            let done_until = self.others_done_until(asid);
            if done_until >= time || !self.find_return(Some(asid), done_until)? {
                return Ok(done_until);
            }
        }
    }

    /// Asks one of those (but one) that wait since `time` or earlier when they return; `false` if nobody is left to ask.
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
                        _ => 0, // another thread runs on, or nothing more is known of it
                    };
                    process.put_back(piece);
                    break leave;
                }
            }
        };
        let wait = self.process(asid).wait.as_mut().expect("it waits");
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
