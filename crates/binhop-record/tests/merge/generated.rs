//! `simulate` generates recordings: processes compute, talk through channels, fork, wait and end, each on a processor
//! of its own. A generated recording holds what a recorder would have written of these processes, with true times.

use std::collections::{BTreeMap, VecDeque};

use binhop_base::{Domain, Result, Rng, Stream};
use binhop_record::{Piece, ProcessStream, ProcessStreams, WaitsFor};
use binhop_trace::Op;
use binhop_trace::event::{Cause, EventBuilder};

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const GETPID: u32 = 39;
pub(crate) const CLONE: u32 = 56;
pub(crate) const WAIT4: u32 = 61;
pub(crate) const FUTEX: u32 = 202;

/// The row of a message that is sent: this bit, then the channel, then the message's number.
pub(crate) const SENT: u64 = 1 << 40;
pub(crate) const RECEIVED: u64 = 2 << 40;
/// The row of a `wait4` that returned with a child: this bit, and the child's process id in the lower half.
pub(crate) const REAPED: u64 = 3 << 40;

/// `Script` holds the pieces of a process as they were recorded, each with its time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) pid: u64,
    pub(crate) pieces: Vec<(u64, Piece)>,
}

/// The scripts of a recording, by process id. The first process is the command's.
pub(crate) type Recording = BTreeMap<u64, Script>;

enum State {
    Runs,
    Reads(usize),
    WaitsForChild,
    Ended,
}

struct SimulatedProcess {
    script: Script,
    state: State,
    time: u64,
    parent: Option<usize>,
    children: usize,
    zombies: VecDeque<(u64, u64)>,
    left: u32,
    rows: u64,
    entered: u64,
}

impl SimulatedProcess {
    fn new(pid: u64, parent: Option<usize>, time: u64, left: u32) -> Self {
        let script = Script { pid, pieces: Vec::new() };
        Self {
            script,
            state: State::Runs,
            time,
            parent,
            children: 0,
            zombies: VecDeque::new(),
            left,
            rows: 0,
            entered: 0,
        }
    }

    fn piece(&mut self, piece: Piece) {
        self.script.pieces.push((self.time, piece));
    }

    /// Adds instructions, some of them with data. An address never occurs twice in one process.
    fn compute(&mut self, runs: u64, length: u32) {
        let mut rows = EventBuilder::default();
        for run in 0..runs {
            self.rows += 16;
            let count = 1 + (length + run as u32 * 7) % 23;
            rows.push(Op::Fetch, self.rows, count * 4, count);
            if !run.is_multiple_of(3) {
                rows.push(Op::Load, self.rows, 8, 1);
            }
        }
        self.piece(Piece::Rows(rows.finish()));
        self.time += runs * 200;
    }

    fn enter(&mut self, number: u32, waits: WaitsFor) {
        self.entered = self.time;
        let (tid, time) = (self.script.pid as u32, self.time);
        self.piece(Piece::Enter { tid, number, waits, time });
    }

    fn leave(&mut self, number: u32, time: u64, result: i64, row: u64) {
        self.time = self.time.max(time);
        let (tid, time) = (self.script.pid as u32, self.time);
        self.piece(Piece::Leave { tid, number, time, result });
        self.mark(row);
        self.state = State::Runs;
    }

    /// Adds a row that the checks recognize.
    fn mark(&mut self, row: u64) {
        let mut rows = EventBuilder::default();
        rows.push(Op::Syscall, row, 8, 0);
        rows.push(Op::Range, row, 8, 1);
        self.piece(Piece::Rows(rows.finish()));
    }
}

/// `Draws` gives the random numbers of a recording.
struct Draws {
    rng: Rng,
    next: u64,
}

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.next += 1;
        self.rng.below(Stream::new(Domain::Test, 1), self.next, n)
    }
}

/// `Size` says how large a recording is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) processes: u64,
    pub(crate) channels: u64,
    pub(crate) steps: u32,
    /// Whether a signal may also end a wait for a child.
    pub(crate) signals: bool,
}

struct Simulation {
    processes: Vec<SimulatedProcess>,
    /// For each channel, the arrival times of the messages that were sent and not received.
    channels: Vec<VecDeque<u64>>,
    received: Vec<u64>,
    sent: Vec<u64>,
    draws: Draws,
    size: Size,
}

/// Generates a recording.
pub(crate) fn simulate(seed: u64, size: Size) -> Recording {
    let channels = size.channels as usize;
    let mut simulation = Simulation {
        processes: vec![SimulatedProcess::new(100, None, 1000, size.steps)],
        channels: vec![VecDeque::new(); channels],
        received: vec![0; channels],
        sent: vec![0; channels],
        draws: Draws { rng: Rng::new(seed), next: 0 },
        size,
    };
    loop {
        let runs = |process: &SimulatedProcess| matches!(process.state, State::Runs);
        let first = (0..simulation.processes.len())
            .filter(|&at| runs(&simulation.processes[at]))
            .min_by_key(|&at| simulation.processes[at].time);
        match first {
            Some(at) => simulation.step(at),
            None if simulation.interrupt() => {}
            None => break,
        }
    }
    simulation.processes.into_iter().map(|process| (process.script.pid, process.script)).collect()
}

impl Simulation {
    fn step(&mut self, at: usize) {
        let (runs, length) = (1 + self.draws.below(40), self.draws.below(100) as u32);
        self.processes[at].compute(runs, length);
        if self.processes[at].left == 0 {
            return self.end(at);
        }
        self.processes[at].left -= 1;
        let channel = self.draws.below(self.size.channels) as usize;
        match self.draws.below(12) {
            0..=2 => self.send(at, channel),
            3..=5 => self.receive(at, channel),
            6 if (self.processes.len() as u64) < self.size.processes => self.fork(at),
            7 if self.processes[at].children > 0 => self.wait(at),
            8 => {
                let time = self.processes[at].time;
                self.processes[at].piece(Piece::Time { time });
            }
            9 => self.processes[at].piece(Piece::Exec { command: format!("program{runs}") }),
            10 => self.sleep(at),
            _ => {
                let process = &mut self.processes[at];
                process.enter(GETPID, WaitsFor::Nothing);
                process.leave(GETPID, process.time + 300, 7, 0);
            }
        }
    }

    fn send(&mut self, at: usize, channel: usize) {
        // The message's row stands before the call, because the receiver may run while the sender is still in
        // the call.
        let row = SENT | (channel as u64) << 32 | self.sent[channel];
        self.sent[channel] += 1;
        let process = &mut self.processes[at];
        process.mark(row);
        process.enter(WRITE, WaitsFor::Room);
        self.channels[channel].push_back(process.time + 1000);
        process.leave(WRITE, process.time + 2000, 8, 0);
        let reads = |process: &SimulatedProcess| matches!(process.state, State::Reads(c) if c == channel);
        if let Some(reader) = (0..self.processes.len()).find(|&reader| reads(&self.processes[reader])) {
            self.deliver(reader, channel);
        }
    }

    fn receive(&mut self, at: usize, channel: usize) {
        self.processes[at].enter(READ, WaitsFor::Given);
        self.processes[at].state = State::Reads(channel);
        if !self.channels[channel].is_empty() {
            self.deliver(at, channel);
        }
    }

    fn deliver(&mut self, reader: usize, channel: usize) {
        let arrives = self.channels[channel].pop_front().expect("the channel has a message");
        let row = RECEIVED | (channel as u64) << 32 | self.received[channel];
        self.received[channel] += 1;
        let process = &mut self.processes[reader];
        process.leave(READ, arrives.max(process.entered) + 500, 8, row);
    }

    fn fork(&mut self, at: usize) {
        let pid = 100 + self.processes.len() as u64;
        let left = self.draws.below(u64::from(self.size.steps)) as u32;
        let process = &mut self.processes[at];
        process.enter(CLONE, WaitsFor::Nothing);
        process.piece(Piece::Fork { child: pid });
        process.children += 1;
        let time = process.time + 5000;
        process.leave(CLONE, process.time + 50_000, pid as i64, 0);
        self.processes.push(SimulatedProcess::new(pid, Some(at), time, left));
    }

    fn wait(&mut self, at: usize) {
        self.processes[at].enter(WAIT4, WaitsFor::Child);
        self.processes[at].state = State::WaitsForChild;
        self.reap(at);
    }

    fn reap(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if let Some((pid, time)) = process.zombies.pop_front() {
            process.children -= 1;
            process.leave(WAIT4, time.max(process.entered) + 700, pid as i64, REAPED | pid);
        }
    }

    fn sleep(&mut self, at: usize) {
        let long = self.draws.below(200_000);
        let process = &mut self.processes[at];
        process.enter(FUTEX, WaitsFor::Given);
        process.leave(FUTEX, process.time + long, 0, 0);
    }

    fn end(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let (pid, time) = (process.script.pid, process.time);
        process.piece(Piece::Exit { time });
        process.state = State::Ended;
        if let Some(parent) = process.parent {
            self.processes[parent].zombies.push_back((pid, time));
            if matches!(self.processes[parent].state, State::WaitsForChild) {
                self.reap(parent);
            }
        }
    }

    /// A signal ends the call of a process, because every process waits. Returns `false` if all processes
    /// have ended.
    fn interrupt(&mut self) -> bool {
        let now = self.processes.iter().map(|process| process.time).max().unwrap_or(0) + 30_000;
        let signals = self.size.signals;
        for process in &mut self.processes {
            match process.state {
                State::Reads(_) => process.leave(READ, now, -4, 0),
                State::WaitsForChild if signals => process.leave(WAIT4, now, -4, 0),
                _ => continue,
            }
            return true;
        }
        false
    }
}

/// Returns a process with two threads. The first thread leaves the processor in a call, the second thread leaves it
/// involuntarily.
pub(crate) fn with_threads() -> Script {
    let mut process = SimulatedProcess::new(100, None, 1000, 0);
    process.compute(3, 5);
    process.enter(FUTEX, WaitsFor::Given);
    process.piece(Piece::Thread { tid: 7, cause: Cause::SystemCall, number: Some(FUTEX) });
    process.compute(3, 5);
    process.piece(Piece::Thread { tid: 100, cause: Cause::Involuntary, number: None });
    process.leave(FUTEX, process.time, 0, 0);
    process.compute(3, 5);
    process.piece(Piece::Exit { time: process.time });
    process.script
}

/// `ScriptedProcesses` gives the streams of a recording: complete, or as their pieces arrive.
pub(crate) struct ScriptedProcesses {
    pub(crate) recording: Recording,
    /// The pieces that arrive later, from a thread in the recorder's place.
    pub(crate) arriving: Option<BTreeMap<u64, std::sync::mpsc::Receiver<Piece>>>,
}

impl ScriptedProcesses {
    pub(crate) fn new(recording: &Recording) -> Box<Self> {
        Box::new(Self { recording: recording.clone(), arriving: None })
    }

    fn open(&mut self, pid: u64) -> Option<Box<dyn ProcessStream>> {
        let script = self.recording.remove(&pid)?;
        let arriving = self.arriving.as_mut().and_then(|arriving| arriving.remove(&pid));
        let pieces = script.pieces.into_iter().map(|(_, piece)| piece).collect();
        Some(Box::new(ScriptedProcess { pid, pieces, arriving }))
    }
}

impl ProcessStreams for ScriptedProcesses {
    fn root(&mut self) -> Result<Option<Box<dyn ProcessStream>>> {
        let first = self.recording.keys().next().copied();
        Ok(first.and_then(|pid| self.open(pid)))
    }

    fn child(&mut self, pid: u64) -> Result<Option<Box<dyn ProcessStream>>> {
        Ok(self.open(pid))
    }
}

struct ScriptedProcess {
    pid: u64,
    pieces: VecDeque<Piece>,
    arriving: Option<std::sync::mpsc::Receiver<Piece>>,
}

impl ProcessStream for ScriptedProcess {
    fn pid(&self) -> u64 {
        self.pid
    }

    fn command(&self) -> &str {
        "given"
    }

    fn next_piece(&mut self) -> Result<Option<Piece>> {
        Ok(match &self.arriving {
            Some(arriving) => arriving.recv().ok(),
            None => self.pieces.pop_front(),
        })
    }
}
