//! A process in the merge: where it stands in its own stream, and what it waits for.

use std::collections::BTreeMap;

use binhop_base::Result;
use binhop_trace::event::Cause;

use crate::piece::{Piece, ProcessStream, WaitsFor};

/// `wait4`: returns the process id of a child that ended, or 0.
const WAIT4: u32 = 61;
/// `waitid`: returns 0, with a child that ended if it waited for one.
const WAITID: u32 = 247;

/// A live process.
pub(crate) struct LiveProcess {
    pub(crate) asid: u32,
    pub(crate) parent: Option<u32>,
    /// The thread that runs when the process does.
    pub(crate) tid: u32,
    /// All it did up to now was done by this time, and all further is later: recorder's nanoseconds.
    pub(crate) clock: u64,
    /// What it waits for, while it does not run.
    pub(crate) wait: Option<Wait>,
    /// The thread that goes on when the process does, unless it is the one that ran.
    pub(crate) thread: Option<(u32, Cause, Option<u32>)>,
    pub(crate) last_turn: u64,
    /// Live children.
    pub(crate) children: u32,
    /// Children that ended and have not been waited for.
    pub(crate) ended: u32,
    /// The call that the running thread entered last, if nothing ran since: number and time.
    pub(crate) open_call: Option<(u32, u64)>,
    /// Open calls, by thread.
    calls: BTreeMap<u32, WaitsFor>,
    stream: Box<dyn ProcessStream>,
    /// What was looked at and not taken, the next one last; `None`: the stream's end.
    peeked: Vec<Option<Piece>>,
}

/// Why a process does not run although its turn is not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// When it entered the call.
    pub(crate) entered: u64,
    /// When the call returned, once that is known.
    pub(crate) leave: Option<u64>,
    /// It waits for a child: nobody asks when it returns before one has ended.
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

    /// The next piece; waits for it.
    pub(crate) fn take(&mut self) -> Result<Option<Piece>> {
        match self.peeked.pop() {
            Some(peeked) => Ok(peeked),
            None => self.stream.next_piece(),
        }
    }

    /// Puts back what was taken last.
    pub(crate) fn put_back(&mut self, piece: Option<Piece>) {
        self.peeked.push(piece);
    }

    pub(crate) fn enter(&mut self, tid: u32, number: u32, waits: WaitsFor, time: u64) {
        self.advance_clock(time);
        self.tid = tid;
        self.open_call = Some((number, self.clock));
        self.calls.insert(tid, waits);
    }

    /// A call returned to a thread: what it may have waited for.
    pub(crate) fn returns(&self, tid: u32) -> WaitsFor {
        self.calls.get(&tid).copied().unwrap_or(WaitsFor::Nothing)
    }

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

    pub(crate) fn advance_clock(&mut self, time: u64) {
        self.clock = self.clock.max(time);
    }

    /// Its turn begins.
    pub(crate) fn begin_turn(&mut self, turn: u64) {
        self.last_turn = turn;
        if self.wait.take().is_some() {
            self.open_call = None; // it has waited: the call returns
        }
    }

    /// Another program: its threads and their calls are gone.
    pub(crate) fn exec(&mut self) {
        self.calls.clear();
        self.open_call = None;
        self.thread = None;
    }

    /// Another thread goes on. Only the last one does, if none of the others did anything.
    pub(crate) fn switch_thread(&mut self, tid: u32, cause: Cause, number: Option<u32>) {
        let (_, cause, number) = self.thread.unwrap_or((tid, cause, number));
        self.thread = Some((tid, cause, number)).filter(|_| tid != self.tid);
    }

    /// Whether it waits for a child while none has ended.
    pub(crate) fn waits_for_child(&self) -> bool {
        self.wait.is_some_and(|wait| wait.child && wait.leave.is_none())
            && self.children > 0
            && self.ended == 0
    }

    /// Up to which time nothing more is to come from it, as far as is known.
    pub(crate) fn done_until(&self) -> u64 {
        match self.wait {
            _ if self.waits_for_child() => u64::MAX,
            Some(wait) => wait.leave.unwrap_or(wait.entered),
            None => self.clock,
        }
    }

    /// Whether more is surely to come from it that it did before `time`.
    pub(crate) fn is_behind(&self, time: u64) -> bool {
        self.done_until() < time && !self.return_is_unknown()
    }

    /// Whether it waits until a time that is not known but could be asked for.
    pub(crate) fn return_is_unknown(&self) -> bool {
        self.wait.is_some_and(|wait| wait.leave.is_none()) && !self.waits_for_child()
    }
}
