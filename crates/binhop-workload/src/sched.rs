//! The scheduler of the multiprogrammed workloads: round robin, one processor.
//!
//! A process runs until its quantum of instructions is used up, or until it gives up the processor in a
//! system call, or ends. A quantum ends at the first instruction boundary that is also a row boundary.
//! Time is counted in instructions executed by all. A process blocked in a call becomes ready after the
//! call's latency; if nobody is ready, time passes until somebody is. A new process gets a fresh address
//! space number, begins as a copy of its parent between fork and exec, and joins the end of the queue.

use std::collections::VecDeque;

use binhop_trace::Op;
use binhop_trace::event::Cause;

use crate::cpu::{Cpu, Rows};
use crate::program::{Command, Program, Status, call};
use crate::space::Space;
use crate::stream::{BATCH_ROWS, Columns};

struct Process {
    asid: u64,
    parent: Option<u64>,
    cpu: Cpu,
    program: Box<dyn Program>,
    /// First row of `cpu.rows` that was not handed out yet.
    next: usize,
    /// What the step that made those rows ended with.
    then: Status,
    children: u32,
    /// Instructions in the rows from `next` on, if no row was handed out yet.
    fresh: Option<u64>,
}

/// A mix of processes on one processor.
pub(crate) struct Mix {
    quantum: u64,
    ready: VecDeque<Process>,
    /// (time it becomes ready, process), in no order: there are a dozen.
    blocked: Vec<(u64, Process)>,
    /// Waiting for their children.
    waiting: Vec<Process>,
    next_asid: u64,
    time: u64,
    /// The process whose quantum is under way, and when it ends: batches end inside quanta.
    running: Option<(Process, u64)>,
    /// Why the last process left: cause, system call.
    left: Option<(Cause, Option<u32>)>,
    /// A row buffer that lies idle, for the next process.
    spare: Vec<Rows>,
}

impl Mix {
    /// A mix of these programs. `quantum` in instructions.
    pub(crate) fn new(quantum: u64, commands: Vec<Command>) -> Self {
        let mut mix = Self {
            quantum,
            ready: VecDeque::new(),
            blocked: Vec::new(),
            waiting: Vec::new(),
            next_asid: 1,
            time: 0,
            running: None,
            left: None,
            spare: Vec::new(),
        };
        for command in commands {
            let process = mix.spawn(command, None);
            mix.ready.push_back(process);
        }
        mix
    }

    fn spawn(&mut self, command: Command, parent: Option<&Process>) -> Process {
        let asid = self.next_asid;
        self.next_asid += 1;
        let mut cpu = Cpu::new(Space::new(command.image, asid));
        if let Some(rows) = self.spare.pop() {
            cpu.rows = rows;
        }
        if let Some(parent) = parent {
            let (pc, sp) = parent.cpu.state();
            cpu.at(pc);
            cpu.run(5);
            cpu.load(sp, 4);
            cpu.run(3);
            cpu.store(sp + 4, 4);
            cpu.run(2);
            cpu.syscall(call::EXECVE, sp, 0, None);
            cpu.rows.push_args(Op::Exec, asid, 0, 0, [None; 2]);
        }
        cpu.load_image();
        let program = (command.start)(&mut cpu);
        cpu.settle();
        Process {
            asid,
            parent: parent.map(|p| p.asid),
            cpu,
            program,
            next: 0,
            then: Status::Ready,
            children: 0,
            fresh: None,
        }
    }

    /// Runs the process whose turn it is until its quantum ends, it gives up the processor, or `out` has the
    /// rows of a batch.
    pub(crate) fn turn(&mut self, out: &mut Columns) {
        let (mut process, end) = self.running.take().unwrap_or_else(|| self.next_turn(out));
        loop {
            if out.len() >= BATCH_ROWS {
                self.running = Some((process, end));
                return;
            }
            let left = end.saturating_sub(self.time);
            let (upto, instructions) = match process.fresh.take() {
                Some(all) if all <= left => (process.cpu.rows.len(), all),
                _ => cut(&process.cpu.rows, process.next, left),
            };
            out.take(&process.cpu.rows, process.next, upto);
            self.time += instructions;
            process.next = upto;
            if upto < process.cpu.rows.len() {
                self.left = Some((Cause::Involuntary, None));
                self.ready.push_back(process);
                return;
            }
            process.cpu.rows.clear();
            process.next = 0;
            match std::mem::replace(&mut process.then, Status::Ready) {
                Status::Ready => {}
                Status::Fork(command) => {
                    let child = self.spawn(command, Some(&process));
                    out.push(Op::Fork, child.asid, 0, [Some(process.asid), None]);
                    process.children += 1;
                    self.ready.push_back(child);
                }
                Status::Blocked { call, latency } => {
                    self.left = Some((Cause::SystemCall, Some(call)));
                    self.blocked.push((self.time + latency, process));
                    return;
                }
                Status::Wait if process.children > 0 => {
                    self.left = Some((Cause::SystemCall, Some(call::WAIT)));
                    self.waiting.push(process);
                    return;
                }
                Status::Wait => {}
                Status::Exit => {
                    self.exit(process, out);
                    return;
                }
            }
            let before = process.cpu.instructions();
            process.then = process.program.step(&mut process.cpu);
            process.cpu.settle();
            process.fresh = Some(process.cpu.instructions() - before);
        }
    }

    /// Switches to the process that runs next; its quantum begins.
    fn next_turn(&mut self, out: &mut Columns) -> (Process, u64) {
        let process = self.dispatch();
        let (cause, number) =
            self.left.take().map_or((None, None), |(c, n)| (Some(c as u64), n.map(u64::from)));
        out.push(Op::Switch, process.asid, process.asid as u32, [cause, number]);
        let end = self.time + self.quantum;
        (process, end)
    }

    /// The process that runs next; those whose wait is over join the queue first.
    fn dispatch(&mut self) -> Process {
        if self.ready.is_empty() {
            let first = self.blocked.iter().map(|b| b.0).min().expect("somebody is ready or blocked");
            self.time = self.time.max(first);
        }
        let now = self.time;
        let mut woken: Vec<(u64, Process)> = Vec::new();
        while let Some(at) = self.blocked.iter().position(|b| b.0 <= now) {
            woken.push(self.blocked.swap_remove(at));
        }
        woken.sort_by_key(|(time, process)| (*time, process.asid));
        self.ready.extend(woken.into_iter().map(|(_, process)| process));
        self.ready.pop_front().expect("somebody is ready")
    }

    fn exit(&mut self, mut process: Process, out: &mut Columns) {
        out.push(Op::Exit, process.asid, 0, [None; 2]);
        self.left = Some((Cause::Exit, None));
        process.cpu.rows.clear();
        self.spare.push(process.cpu.rows);
        let Some(parent) = process.parent else { return };
        let everyone = self.ready.iter_mut().chain(self.blocked.iter_mut().map(|b| &mut b.1));
        if let Some(parent) = everyone.chain(self.waiting.iter_mut()).find(|p| p.asid == parent) {
            parent.children -= 1;
        }
        if let Some(at) = self.waiting.iter().position(|p| p.children == 0) {
            self.ready.push_back(self.waiting.swap_remove(at));
        }
    }
}

/// Where rows from `from` on must be cut so that about `instructions` are executed before: behind the row in
/// which the last of them lies and the data references of that row. Returns that row and the instructions.
fn cut(rows: &Rows, from: usize, instructions: u64) -> (usize, u64) {
    let (ops, counts) = (&rows.op()[from..], &rows.count()[from..]);
    let mut done = 0u64;
    for (row, (&op, &count)) in ops.iter().zip(counts).enumerate() {
        if op == Op::Fetch as u8 {
            if done >= instructions {
                return (from + row, done);
            }
            done += u64::from(count);
        }
    }
    (rows.len(), done)
}
