//! `LiveProcess` is a live process in the merge. It knows its position in its own stream and what it waits
//! for.

use std::collections::BTreeMap;

use binhop_base::Result;
use binhop_trace::event::Cause;

use crate::piece::{Piece, ProcessStream, WaitsFor};

/// `wait4` returns the process id of a child that ended, or 0.
const WAIT4: u32 = 61;
/// `waitid` returns 0; a child has ended if the call waited for one.
const WAITID: u32 = 247;

/// `LiveProcess` is a process that has not ended.
pub(crate) struct LiveProcess {
    pub(crate) asid: u32,
    pub(crate) parent: Option<u32>,
    /// The thread that runs when the process runs.
    pub(crate) tid: u32,
    /// A time on the recorder's clock, in nanoseconds. Everything that the process has done so far was done by this
    /// time, and everything that it does next is later.
    pub(crate) clock: u64,
    /// The reason why the process waits, while it waits.
    pub(crate) wait: Option<Wait>,
    /// The thread that runs when the process goes on, if that is not the thread that ran last.
    pub(crate) thread: Option<(u32, Cause, Option<u32>)>,
    /// The number of the process's last turn; 0 if it had none.
    pub(crate) last_turn: u64,
    /// The number of live children.
    pub(crate) children: u32,
    /// The number of children that have ended and were not waited for yet.
    pub(crate) ended: u32,
    /// The call that the running thread entered last, if nothing ran since: its number, and the time.
    pub(crate) open_call: Option<(u32, u64)>,
    /// The open calls, by thread: what each may wait for.
    calls: BTreeMap<u32, WaitsFor>,
    stream: Box<dyn ProcessStream>,
    /// The pieces that were read ahead and put back, the next piece last. `None` is the stream's end.
    peeked: Vec<Option<Piece>>,
}

/// `Wait` says why a process waits although its turn is not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// The time at which the process entered the call.
    pub(crate) entered: u64,
    /// The time at which the call returned, once it is known.
    pub(crate) leave: Option<u64>,
    /// True if the process waits for a child. The merge does not look for the call's return before a child
    /// has ended.
    pub(crate) child: bool,
}

impl LiveProcess {
    pub(crate) fn new(stream: Box<dyn ProcessStream>, asid: u32, parent: Option<u32>, clock: u64) -> Self {
        Self {
            asid,
            parent,
            tid: u32::try_from(stream.pid()).unwrap_or(0),
            clock,
            wait: None,
            thread: None,
            last_turn: 0,
            children: 0,
            ended: 0,
            open_call: None,
            calls: BTreeMap::new(),
            stream,
            peeked: Vec::new(),
        }
    }

    /// Takes the next piece, and waits until there is one.
    pub(crate) fn take(&mut self) -> Result<Option<Piece>> {
        match self.peeked.pop() {
            Some(peeked) => Ok(peeked),
            None => self.stream.next_piece(),
        }
    }

    /// Puts back the piece that was taken last.
    pub(crate) fn put_back(&mut self, piece: Option<Piece>) {
        self.peeked.push(piece);
    }

    /// Notes that a thread enters a system call.
    pub(crate) fn enter(&mut self, tid: u32, number: u32, waits: WaitsFor, time: u64) {
        self.advance_clock(time);
        self.tid = tid;
        self.open_call = Some((number, self.clock));
        self.calls.insert(tid, waits);
    }

    /// Returns what the open call of a thread may wait for.
    pub(crate) fn returns(&self, tid: u32) -> WaitsFor {
        self.calls.get(&tid).copied().unwrap_or(WaitsFor::Nothing)
    }

    /// Notes that a system call returns to a thread.
    pub(crate) fn leave(&mut self, tid: u32, number: u32, time: u64, result: i64) {
        self.advance_clock(time);
        let waits = self.calls.remove(&tid);
        self.open_call = None;
        let reaped = match number {
            WAIT4 => result > 0,
            WAITID => result == 0 && waits == Some(WaitsFor::Child),
            _ => false,
        };
        if reaped {
            self.ended = self.ended.saturating_sub(1);
        }
    }

    /// Sets the clock to `time`, if that is later.
    pub(crate) fn advance_clock(&mut self, time: u64) {
        self.clock = self.clock.max(time);
    }

    /// Begins a turn of the process. A wait is over.
    pub(crate) fn begin_turn(&mut self, turn: u64) {
        self.last_turn = turn;
        if self.wait.take().is_some() {
            self.open_call = None; // the process has waited: its call returns
        }
    }

    /// Notes that another program replaces the old program: the old threads and their calls have ended.
    pub(crate) fn exec(&mut self) {
        self.calls.clear();
        self.open_call = None;
        self.thread = None;
    }

    /// Notes that another thread goes on. If several threads follow each other without doing anything, only the last of
    /// these threads counts.
    pub(crate) fn switch_thread(&mut self, tid: u32, cause: Cause, number: Option<u32>) {
        let (_, cause, number) = self.thread.unwrap_or((tid, cause, number));
        self.thread = Some((tid, cause, number)).filter(|_| tid != self.tid);
    }

    /// Returns whether the process waits for a child while none has ended.
    pub(crate) fn waits_for_child(&self) -> bool {
        self.wait.is_some_and(|wait| wait.child && wait.leave.is_none())
            && self.children > 0
            && self.ended == 0
    }

    /// Returns the time before which the process does nothing more, as far as is known.
    pub(crate) fn done_until(&self) -> u64 {
        match self.wait {
            _ if self.waits_for_child() => u64::MAX,
            Some(wait) => wait.leave.unwrap_or(wait.entered),
            None => self.clock,
        }
    }

    /// Returns whether the process surely has more to do before `time`.
    pub(crate) fn is_behind(&self, time: u64) -> bool {
        self.done_until() < time && !self.return_is_unknown()
    }

    /// Returns whether the process waits for a return whose time is unknown, but can be found in its stream.
    pub(crate) fn return_is_unknown(&self) -> bool {
        self.wait.is_some_and(|wait| wait.leave.is_none()) && !self.waits_for_child()
    }
}
