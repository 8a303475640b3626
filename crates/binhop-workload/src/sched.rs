//! The scheduler of the multiprogrammed workloads: round robin, one processor.
//!
//! A process runs until its quantum of instructions is used up, or until it gives up the processor in a
//! system call, or ends. A quantum ends at the first instruction boundary that is also a row boundary.
//! Time is counted in instructions executed by all. A process blocked in a call becomes ready after the
//! call's latency; if nobody is ready, time passes until somebody is. A new process gets a fresh address
//! space number, begins as a copy of its parent between fork and exec, and joins the end of the queue.

use std::collections::BTreeMap;

use binhop_os::scheduler::{Order, Scheduler};
use binhop_trace::Op;
use binhop_trace::event::Cause;

use crate::address_space::AddressSpace;
use crate::cpu::Cpu;
use crate::program::{Command, Program, Status, call};
use crate::rows::StepRows;
use crate::stream::{BATCH_ROWS, Columns};

struct MixProcess {
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
pub(crate) struct ProcessMix {
    quantum: u64,
    /// Who runs, in instructions executed by all. A process is the task of its address space number.
    scheduler: Scheduler,
    /// By address space number, without the process that runs.
    processes: BTreeMap<u64, MixProcess>,
    next_asid: u64,
    /// The process whose quantum is under way: batches end inside quanta.
    running: Option<MixProcess>,
    /// Why the last process left: cause, system call.
    left: Option<(Cause, Option<u32>)>,
    /// A row buffer that lies idle, for the next process.
    spare: Vec<StepRows>,
}

impl ProcessMix {
    /// A mix of these programs. `quantum` in instructions.
    pub(crate) fn new(quantum: u64, commands: Vec<Command>) -> Self {
        let mut mix = Self {
            quantum,
            scheduler: Scheduler::new(Order::Queue),
            processes: BTreeMap::new(),
            next_asid: 1,
            running: None,
            left: None,
            spare: Vec::new(),
        };
        for command in commands {
            let process = mix.spawn(command, None);
            mix.join(process);
        }
        mix
    }

    /// A new process joins the end of the queue.
    fn join(&mut self, process: MixProcess) {
        self.scheduler.add(task(process.asid));
        self.processes.insert(process.asid, process);
    }

    fn spawn(&mut self, command: Command, parent: Option<&MixProcess>) -> MixProcess {
        let asid = self.next_asid;
        self.next_asid += 1;
        let mut cpu = Cpu::new(AddressSpace::new(command.image, asid));
        if let Some(rows) = self.spare.pop() {
            cpu.rows = rows;
        }
        if let Some(parent) = parent {
            let (pc, sp) = parent.cpu.state();
            cpu.jump(pc);
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
        cpu.finish_step();
        MixProcess {
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
        let mut process = self.running.take().unwrap_or_else(|| self.next_turn(out));
        loop {
            if out.len() >= BATCH_ROWS {
                self.running = Some(process);
                return;
            }
            let left = self.scheduler.left();
            let (upto, instructions) = match process.fresh.take() {
                Some(all) if all <= left => (process.cpu.rows.len(), all),
                _ => rows_within(&process.cpu.rows, process.next, left),
            };
            out.take(&process.cpu.rows, process.next, upto);
            self.scheduler.ran(instructions);
            process.next = upto;
            if upto < process.cpu.rows.len() {
                self.left = Some((Cause::Involuntary, None));
                self.scheduler.preempt();
                self.processes.insert(process.asid, process);
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
                    self.join(child);
                }
                Status::Blocked { call, latency } => {
                    self.left = Some((Cause::SystemCall, Some(call)));
                    self.scheduler.sleep(latency);
                    self.processes.insert(process.asid, process);
                    return;
                }
                Status::Wait if process.children > 0 => {
                    self.left = Some((Cause::SystemCall, Some(call::WAIT)));
                    self.scheduler.wait();
                    self.processes.insert(process.asid, process);
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
            process.cpu.finish_step();
            process.fresh = Some(process.cpu.instructions() - before);
        }
    }

    /// Switches to the process that runs next; its quantum begins.
    fn next_turn(&mut self, out: &mut Columns) -> MixProcess {
        let asid = self.scheduler.next_turn(self.quantum).expect("somebody is ready or asleep");
        let process = self.processes.remove(&asid.into()).expect("every task is a process");
        let (cause, number) =
            self.left.take().map_or((None, None), |(c, n)| (Some(c as u64), n.map(u64::from)));
        out.push(Op::Switch, process.asid, asid, [cause, number]);
        process
    }

    fn exit(&mut self, mut process: MixProcess, out: &mut Columns) {
        out.push(Op::Exit, process.asid, 0, [None; 2]);
        self.left = Some((Cause::Exit, None));
        self.scheduler.exit();
        process.cpu.rows.clear();
        self.spare.push(process.cpu.rows);
        let Some(parent) = process.parent.and_then(|parent| self.processes.get_mut(&parent)) else { return };
        parent.children -= 1;
        if parent.children == 0 && self.scheduler.waits(task(parent.asid)) {
            self.scheduler.wake(task(parent.asid));
        }
    }
}

/// The task of an address space number.
fn task(asid: u64) -> u32 {
    u32::try_from(asid).expect("a mix makes fewer processes than numbers of 32 bits")
}

/// Where rows from `from` on must be cut so that about `instructions` are executed before: behind the row in
/// which the last of them lies and the data references of that row. Returns that row and the instructions.
fn rows_within(rows: &StepRows, from: usize, instructions: u64) -> (usize, u64) {
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
