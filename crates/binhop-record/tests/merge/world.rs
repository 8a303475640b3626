//! A small world of processes that compute, talk through channels, fork, wait and end, each on a processor of its
//! own: what a recorder would have written of it, with true times.

use std::collections::{BTreeMap, VecDeque};

use binhop_base::{Domain, Result, Rng, Stream};
use binhop_record::{Piece, ProcessStream, Streams, Waits};
use binhop_trace::Op;
use binhop_trace::event::{Cause, EventBuilder};

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const GETPID: u32 = 39;
pub(crate) const CLONE: u32 = 56;
pub(crate) const WAIT4: u32 = 61;
pub(crate) const FUTEX: u32 = 202;

/// A message's rows have this in the upper half of their address, then the channel, then its number.
pub(crate) const SENT: u64 = 1 << 40;
pub(crate) const RECEIVED: u64 = 2 << 40;
/// The row of a `wait4` that returned with a child: its process id in the lower half.
pub(crate) const REAPED: u64 = 3 << 40;

/// A process's pieces as they were recorded, and when each was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) pid: u64,
    pub(crate) pieces: Vec<(u64, Piece)>,
}

/// What was recorded, by process id; the first is the command's.
pub(crate) type World = BTreeMap<u64, Script>;

enum State {
    Runs,
    Reads(usize),
    WaitsForChild,
    Ended,
}

struct Actor {
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

impl Actor {
    fn born(pid: u64, parent: Option<usize>, time: u64, left: u32) -> Self {
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

    /// Some instructions, some with data; addresses never come twice in one process.
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

    fn enter(&mut self, number: u32, waits: Waits) {
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

    /// A row that is known again.
    fn mark(&mut self, row: u64) {
        let mut rows = EventBuilder::default();
        rows.push(Op::Syscall, row, 8, 0);
        rows.push(Op::Range, row, 8, 1);
        self.piece(Piece::Rows(rows.finish()));
    }
}

/// What the draws of a world are asked for.
struct Dice {
    rng: Rng,
    next: u64,
}

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.next += 1;
        self.rng.below(Stream::new(Domain::Test, 1), self.next, n)
    }
}

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) processes: u64,
    pub(crate) channels: u64,
    pub(crate) acts: u32,
    /// Whether waits for a child may be ended by a signal, too.
    pub(crate) signals: bool,
}

struct Play {
    actors: Vec<Actor>,
    /// Messages sent and not received: when they arrive.
    channels: Vec<VecDeque<u64>>,
    received: Vec<u64>,
    sent: Vec<u64>,
    dice: Dice,
    size: Size,
}

/// Plays a world.
pub(crate) fn play(seed: u64, size: Size) -> World {
    let channels = size.channels as usize;
    let mut play = Play {
        actors: vec![Actor::born(100, None, 1000, size.acts)],
        channels: vec![VecDeque::new(); channels],
        received: vec![0; channels],
        sent: vec![0; channels],
        dice: Dice { rng: Rng::new(seed), next: 0 },
        size,
    };
    loop {
        let runs = |actor: &Actor| matches!(actor.state, State::Runs);
        let first = (0..play.actors.len())
            .filter(|&at| runs(&play.actors[at]))
            .min_by_key(|&at| play.actors[at].time);
        match first {
            Some(at) => play.act(at),
            None if play.interrupt() => {}
            None => break,
        }
    }
    play.actors.into_iter().map(|actor| (actor.script.pid, actor.script)).collect()
}

impl Play {
    fn act(&mut self, at: usize) {
        let (runs, length) = (1 + self.dice.below(40), self.dice.below(100) as u32);
        self.actors[at].compute(runs, length);
        if self.actors[at].left == 0 {
            return self.end(at);
        }
        self.actors[at].left -= 1;
        let channel = self.dice.below(self.size.channels) as usize;
        match self.dice.below(12) {
            0..=2 => self.send(at, channel),
            3..=5 => self.receive(at, channel),
            6 if (self.actors.len() as u64) < self.size.processes => self.fork(at),
            7 if self.actors[at].children > 0 => self.wait(at),
            8 => {
                let time = self.actors[at].time;
                self.actors[at].piece(Piece::Time { time });
            }
            9 => self.actors[at].piece(Piece::Exec { command: format!("program{runs}") }),
            10 => self.sleep(at),
            _ => {
                let actor = &mut self.actors[at];
                actor.enter(GETPID, Waits::Nothing);
                actor.leave(GETPID, actor.time + 300, 7, 0);
            }
        }
    }

    fn send(&mut self, at: usize, channel: usize) {
        // What is sent was made before the call: the receiver may run while the sender is still in it.
        let row = SENT | (channel as u64) << 32 | self.sent[channel];
        self.sent[channel] += 1;
        let actor = &mut self.actors[at];
        actor.mark(row);
        actor.enter(WRITE, Waits::Room);
        self.channels[channel].push_back(actor.time + 1000);
        actor.leave(WRITE, actor.time + 2000, 8, 0);
        let reads = |actor: &Actor| matches!(actor.state, State::Reads(c) if c == channel);
        if let Some(reader) = (0..self.actors.len()).find(|&reader| reads(&self.actors[reader])) {
            self.deliver(reader, channel);
        }
    }

    fn receive(&mut self, at: usize, channel: usize) {
        self.actors[at].enter(READ, Waits::Given);
        self.actors[at].state = State::Reads(channel);
        if !self.channels[channel].is_empty() {
            self.deliver(at, channel);
        }
    }

    fn deliver(&mut self, reader: usize, channel: usize) {
        let arrives = self.channels[channel].pop_front().expect("there is a message");
        let row = RECEIVED | (channel as u64) << 32 | self.received[channel];
        self.received[channel] += 1;
        let actor = &mut self.actors[reader];
        actor.leave(READ, arrives.max(actor.entered) + 500, 8, row);
    }

    fn fork(&mut self, at: usize) {
        let pid = 100 + self.actors.len() as u64;
        let left = self.dice.below(u64::from(self.size.acts)) as u32;
        let actor = &mut self.actors[at];
        actor.enter(CLONE, Waits::Nothing);
        actor.piece(Piece::Fork { child: pid });
        actor.children += 1;
        let time = actor.time + 5000;
        actor.leave(CLONE, actor.time + 50_000, pid as i64, 0);
        self.actors.push(Actor::born(pid, Some(at), time, left));
    }

    fn wait(&mut self, at: usize) {
        self.actors[at].enter(WAIT4, Waits::Child);
        self.actors[at].state = State::WaitsForChild;
        self.reap(at);
    }

    fn reap(&mut self, at: usize) {
        let actor = &mut self.actors[at];
        if let Some((pid, time)) = actor.zombies.pop_front() {
            actor.children -= 1;
            actor.leave(WAIT4, time.max(actor.entered) + 700, pid as i64, REAPED | pid);
        }
    }

    fn sleep(&mut self, at: usize) {
        let long = self.dice.below(200_000);
        let actor = &mut self.actors[at];
        actor.enter(FUTEX, Waits::Given);
        actor.leave(FUTEX, actor.time + long, 0, 0);
    }

    fn end(&mut self, at: usize) {
        let actor = &mut self.actors[at];
        let (pid, time) = (actor.script.pid, actor.time);
        actor.piece(Piece::Exit { time });
        actor.state = State::Ended;
        if let Some(parent) = actor.parent {
            self.actors[parent].zombies.push_back((pid, time));
            if matches!(self.actors[parent].state, State::WaitsForChild) {
                self.reap(parent);
            }
        }
    }

    /// Everybody waits: a signal ends one call. `false` if all have ended.
    fn interrupt(&mut self) -> bool {
        let now = self.actors.iter().map(|actor| actor.time).max().unwrap_or(0) + 30_000;
        let signals = self.size.signals;
        for actor in &mut self.actors {
            match actor.state {
                State::Reads(_) => actor.leave(READ, now, -4, 0),
                State::WaitsForChild if signals => actor.leave(WAIT4, now, -4, 0),
                _ => continue,
            }
            return true;
        }
        false
    }
}

/// A process with two threads that hand the processor to each other in calls.
pub(crate) fn with_threads() -> Script {
    let mut actor = Actor::born(100, None, 1000, 0);
    actor.compute(3, 5);
    actor.enter(FUTEX, Waits::Given);
    actor.piece(Piece::Thread { tid: 7, cause: Cause::SystemCall, number: Some(FUTEX) });
    actor.compute(3, 5);
    actor.piece(Piece::Thread { tid: 100, cause: Cause::Involuntary, number: None });
    actor.leave(FUTEX, actor.time, 0, 0);
    actor.compute(3, 5);
    actor.piece(Piece::Exit { time: actor.time });
    actor.script
}

/// The streams of a world: as they are, or as they come.
pub(crate) struct Given {
    pub(crate) world: World,
    /// Pieces that come later, from a thread that plays the recorder.
    pub(crate) arriving: Option<BTreeMap<u64, std::sync::mpsc::Receiver<Piece>>>,
}

impl Given {
    pub(crate) fn new(world: &World) -> Box<Self> {
        Box::new(Self { world: world.clone(), arriving: None })
    }

    fn open(&mut self, pid: u64) -> Option<Box<dyn ProcessStream>> {
        let script = self.world.remove(&pid)?;
        let arriving = self.arriving.as_mut().and_then(|arriving| arriving.remove(&pid));
        let pieces = script.pieces.into_iter().map(|(_, piece)| piece).collect();
        Some(Box::new(GivenStream { pid, pieces, arriving }))
    }
}

impl Streams for Given {
    fn root(&mut self) -> Result<Option<Box<dyn ProcessStream>>> {
        let first = self.world.keys().next().copied();
        Ok(first.and_then(|pid| self.open(pid)))
    }

    fn child(&mut self, pid: u64) -> Result<Option<Box<dyn ProcessStream>>> {
        Ok(self.open(pid))
    }
}

struct GivenStream {
    pid: u64,
    pieces: VecDeque<Piece>,
    arriving: Option<std::sync::mpsc::Receiver<Piece>>,
}

impl ProcessStream for GivenStream {
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
