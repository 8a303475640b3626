//! `ProcessMix` schedules the multiprogrammed workloads: round robin on one processor.
//!
//! A process runs until its quantum of instructions is used up, until it gives up the processor in a system
//! call, or until it ends. A quantum ends at the first instruction boundary that is also a row boundary. Time
//! is counted in instructions executed by all processes. A process that is blocked in a call becomes ready
//! after the call's latency. If no process is ready, time passes until a process is ready. A new process gets a new
//! address space number, is a copy of its parent between fork and exec, and joins the end of the queue.
//!
//! [`Discipline::Unix`] adds what MB90's traced system did. A clock ends quanta, a process whose wait is over
//! takes the processor, and a process waits for the disk at the first touch of a page of its image
//! ([`crate::paging`]).

use std::collections::BTreeMap;
use std::ops::Range;

use binhop_os::scheduler::{Order, Scheduler};
use binhop_trace::Op;
use binhop_trace::event::Cause;

use crate::address_space::AddressSpace;
use crate::cpu::Cpu;
use crate::paging::{FirstTouches, TextInMemory};
use crate::program::{Command, Program, Status, call};
use crate::rows::StepRows;
use crate::stream::{BATCH_ROWS, Columns};

/// `Discipline` says when a process leaves the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Discipline {
    /// KH90's mixes: every turn has this quantum, and begins with a switch.
    Turns(u64),
    /// 4.3BSD, as MB90's traced system: the clock ends a turn whenever another `tick` instructions have been
    /// executed, and a process whose wait is over takes the processor. A process that continues after the end
    /// of its turn causes no switch. If `page_faults` gives a latency, the first touch of a page of the image
    /// waits that long.
    Unix { tick: u64, page_faults: Option<u64> },
}

struct MixProcess {
    asid: u64,
    parent: Option<u64>,
    cpu: Cpu,
    program: Box<dyn Program>,
    /// The first row of `cpu.rows` that is not in a batch yet.
    next: usize,
    /// The status of the step that made these rows.
    then: Status,
    children: u32,
    /// The instructions in the rows from `next` on, if no row of the step is in a batch yet.
    fresh: Option<u64>,
    /// The pages of the image that the process has not touched yet; `None` without page faults.
    touches: Option<FirstTouches>,
    /// The messages that have arrived and that the process has not received.
    messages: u32,
}

impl MixProcess {
    /// Returns the first row at which the process waits for a page; the number of rows if there is none.
    fn next_fault(&mut self, text: &TextInMemory) -> usize {
        let waits = self.touches.as_mut().and_then(|touches| touches.next(text));
        waits.unwrap_or(self.cpu.rows.len())
    }

    /// Finds the first touches of pages in the rows of a new step.
    fn find_touches(&mut self) {
        if let Some(touches) = &mut self.touches {
            touches.find(&self.cpu.rows);
        }
    }
}

/// `ProcessMix` runs a mix of processes on one processor.
pub(crate) struct ProcessMix {
    discipline: Discipline,
    /// The scheduler; its time is counted in instructions executed by all processes. A task is an address
    /// space number.
    scheduler: Scheduler,
    /// The processes by address space number, without the process that runs.
    processes: BTreeMap<u64, MixProcess>,
    next_asid: u64,
    /// The process whose quantum is under way: batches end inside quanta.
    running: Option<MixProcess>,
    /// Why the last process left the processor: cause and system call.
    left: Option<(Cause, Option<u32>)>,
    /// The process that ran last.
    last: Option<u64>,
    /// The pages of text that some process has touched.
    text: TextInMemory,
    /// Unused row buffers, for the next processes.
    spare: Vec<StepRows>,
    /// The processes that were made since [`ProcessMix::take_born`] was called last.
    born: Vec<Born>,
}

/// `Born` describes a process that was made.
pub(crate) struct Born {
    pub(crate) asid: u64,
    /// The address space that was forked; `None` for the processes of the beginning.
    pub(crate) parent: Option<u64>,
    /// The name of the program.
    pub(crate) program: &'static str,
}

impl ProcessMix {
    /// Makes a mix of these programs. The first program has address space 1, the second 2, and so on.
    pub(crate) fn new(discipline: Discipline, commands: Vec<Command>) -> Self {
        let scheduler = Scheduler::new(Order::Queue);
        let mut mix = Self {
            discipline,
            scheduler: match discipline {
                Discipline::Turns(_) => scheduler,
                Discipline::Unix { .. } => scheduler.with_wake_up_preemption(),
            },
            processes: BTreeMap::new(),
            next_asid: 1,
            running: None,
            left: None,
            last: None,
            text: TextInMemory::default(),
            spare: Vec::new(),
            born: Vec::new(),
        };
        for command in commands {
            let process = mix.spawn(command, None);
            mix.join(process);
        }
        mix
    }

    /// Returns the processes that were made since the last call.
    pub(crate) fn take_born(&mut self) -> Vec<Born> {
        std::mem::take(&mut self.born)
    }

    /// Adds a new process to the end of the queue.
    fn join(&mut self, process: MixProcess) {
        self.scheduler.add(task(process.asid));
        self.processes.insert(process.asid, process);
    }

    fn spawn(&mut self, command: Command, parent: Option<&MixProcess>) -> MixProcess {
        let asid = self.next_asid;
        self.next_asid += 1;
        let image = command.image;
        self.born.push(Born { asid, parent: parent.map(|parent| parent.asid), program: image.name });
        let mut cpu = Cpu::new(AddressSpace::new(image, asid));
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
        // A child touches its parent's pages up to here.
        let first_row = cpu.rows.len();
        cpu.load_image();
        let program = (command.start)(&mut cpu);
        cpu.finish_step();
        let touches = match self.discipline {
            Discipline::Unix { page_faults: Some(_), .. } => {
                Some(FirstTouches::new(image, &cpu.rows, first_row))
            }
            _ => None,
        };
        MixProcess {
            asid,
            parent: parent.map(|p| p.asid),
            cpu,
            program,
            next: 0,
            then: Status::Ready,
            children: 0,
            fresh: None,
            touches,
            messages: 0,
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
            let (rows, fault) = (process.cpu.rows.len(), process.next_fault(&self.text));
            let (upto, instructions) = match process.fresh.take() {
                Some(all) if all <= left && fault == rows => (rows, all),
                _ => rows_within(&process.cpu.rows, process.next..fault, left),
            };
            out.take(&process.cpu.rows, process.next, upto);
            self.scheduler.ran(instructions);
            process.next = upto;
            if upto < rows {
                if upto == fault {
                    self.fault(&mut process);
                } else {
                    self.left = Some((Cause::Involuntary, None));
                    self.scheduler.preempt();
                }
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
                Status::Exchange { to } => {
                    if process.messages == 0 {
                        self.left = Some((Cause::SystemCall, Some(call::SENDMSG)));
                        self.scheduler.wait();
                        self.processes.insert(process.asid, process);
                        self.deliver(to);
                        return;
                    }
                    process.messages -= 1;
                    self.deliver(to);
                }
                Status::Exit => {
                    self.exit(process, out);
                    return;
                }
            }
            let before = process.cpu.instructions();
            process.then = process.program.step(&mut process.cpu);
            process.cpu.finish_step();
            process.fresh = Some(process.cpu.instructions() - before);
            process.find_touches();
        }
    }

    /// Switches to the process that runs next; its quantum begins.
    fn next_turn(&mut self, out: &mut Columns) -> MixProcess {
        let quantum = match self.discipline {
            Discipline::Turns(quantum) => quantum,
            Discipline::Unix { tick, .. } => {
                self.scheduler.wake_sleepers();
                tick - self.scheduler.now() % tick
            }
        };
        let asid = self.scheduler.next_turn(quantum).expect("a process is ready or asleep");
        let process = self.processes.remove(&asid.into()).expect("every task is a process");
        let left = self.left.take();
        let continues = matches!(self.discipline, Discipline::Unix { .. })
            && self.last == Some(process.asid)
            && matches!(left, Some((Cause::Involuntary, _)));
        if !continues {
            let (cause, number) = left.map_or((None, None), |(c, n)| (Some(c as u64), n.map(u64::from)));
            out.push(Op::Switch, process.asid, asid, [cause, number]);
        }
        self.last = Some(process.asid);
        process
    }

    /// Makes the running process wait for the page that its next row touches.
    fn fault(&mut self, process: &mut MixProcess) {
        let Discipline::Unix { page_faults: Some(latency), .. } = self.discipline else {
            unreachable!("a process of another mix has no first touches")
        };
        if let Some(touches) = &mut process.touches {
            touches.load(&mut self.text);
        }
        self.left = Some((Cause::PageFault, None));
        self.scheduler.sleep(latency);
    }

    /// Delivers a message. The receiver becomes ready if it waits.
    fn deliver(&mut self, to: Option<u64>) {
        let Some(to) = to else { return };
        if self.scheduler.waits(task(to)) {
            self.scheduler.wake(task(to));
        } else {
            self.processes.get_mut(&to).expect("the receiver lives").messages += 1;
        }
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

/// Returns the task of an address space number.
fn task(asid: u64) -> u32 {
    u32::try_from(asid).expect("a mix makes fewer processes than numbers of 32 bits")
}

/// Returns the end of the rows of `range` that run within `instructions`, and how many instructions these
/// are. The rows end after the fetch in which the last instruction lies and the data references of this
/// fetch.
fn rows_within(rows: &StepRows, range: Range<usize>, instructions: u64) -> (usize, u64) {
    let (from, to) = (range.start, range.end);
    let (ops, counts) = (&rows.op()[from..to], &rows.count()[from..to]);
    let mut done = 0u64;
    for (row, (&op, &count)) in ops.iter().zip(counts).enumerate() {
        if op == Op::Fetch as u8 {
            if done >= instructions {
                return (from + row, done);
            }
            done += u64::from(count);
        }
    }
    (to, done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::{DATA, Image, TEXT};
    use binhop_trace::EventBatch;

    const IMAGE: Image =
        Image { name: "test", segment: 9, text: 64 << 10, data: 64 << 10, initialised: 8 << 10 };

    /// `Toy` executes 10 instructions in a step, and then gives up the processor if it has a latency.
    struct Toy {
        latency: Option<u64>,
        /// Addresses of data that the next steps load.
        loads: Vec<u64>,
    }

    impl Program for Toy {
        fn step(&mut self, cpu: &mut Cpu) -> Status {
            cpu.jump(TEXT);
            cpu.run(5);
            match self.loads.pop() {
                Some(addr) => cpu.load(addr, 4),
                None => cpu.run(1),
            }
            match self.latency {
                Some(latency) => {
                    cpu.syscall(call::READ, 0, 0, None);
                    Status::Blocked { call: call::READ, latency }
                }
                None => {
                    cpu.run(4);
                    Status::Ready
                }
            }
        }
    }

    fn toy(latency: Option<u64>, loads: &[u64]) -> Command {
        let toy = Toy { latency, loads: loads.to_vec() };
        Command { image: IMAGE, start: Box::new(move |_| Box::new(toy)) }
    }

    /// Returns each switch of the first rows: the time in instructions, the process, and why the last process
    /// left.
    fn switches(discipline: Discipline, commands: Vec<Command>) -> Vec<(u64, u64, Option<Cause>)> {
        let mut mix = ProcessMix::new(discipline, commands);
        let mut columns = Columns::default();
        while columns.len() < BATCH_ROWS {
            mix.turn(&mut columns);
        }
        let batch: EventBatch = columns.batch("test").unwrap();
        let (mut now, mut seen) = (0, Vec::new());
        for row in 0..batch.len() {
            if batch.op()[row] == Op::Fetch as u8 {
                now += u64::from(batch.count()[row]);
            } else if batch.op()[row] == Op::Switch as u8 {
                let cause = batch.arg0(row).map(|code| Cause::from_code(code).unwrap());
                seen.push((now, batch.addr()[row], cause));
            }
        }
        seen
    }

    #[test]
    fn the_clock_and_wake_ups_end_turns() {
        use Cause::{Involuntary, SystemCall};
        let unix = Discipline::Unix { tick: 100, page_faults: None };
        let seen = switches(unix, vec![toy(None, &[]), toy(Some(70), &[])]);
        let expected = [
            (0, 1, None),
            // The clock ticks at 100. Process 2 gives up the processor at 110, and wakes at 180.
            (100, 2, Some(Involuntary)),
            (110, 1, Some(SystemCall)),
            (180, 2, Some(Involuntary)),
            // The tick at 200 finds no other process, so process 1 continues without a switch.
            (190, 1, Some(SystemCall)),
            (260, 2, Some(Involuntary)),
        ];
        assert_eq!(seen[..6], expected);
    }

    #[test]
    fn turns_have_a_full_quantum_in_the_older_mixes() {
        use Cause::{Involuntary, SystemCall};
        let seen = switches(Discipline::Turns(100), vec![toy(None, &[]), toy(Some(70), &[])]);
        let expected = [
            (0, 1, None),
            (100, 2, Some(Involuntary)),
            (110, 1, Some(SystemCall)),
            // Process 2 wakes at 180. It becomes ready when the next turn is given, behind process 1.
            (210, 1, Some(Involuntary)),
            (310, 2, Some(Involuntary)),
        ];
        assert_eq!(seen[..5], expected);
    }

    #[test]
    fn the_first_touch_of_a_page_of_the_image_waits() {
        use Cause::{Involuntary, PageFault};
        let unix = Discipline::Unix { tick: 1_000_000, page_faults: Some(50) };
        // Process 1 touches its page of text, then a page of data, then a page that begins as zeros.
        let loads = [DATA + 0x8000, DATA + 0x1000];
        let seen = switches(unix, vec![toy(None, &loads), toy(None, &[])]);
        let expected = [
            (0, 1, None),
            // Process 2 finds the text in memory, and runs until process 1 has its page.
            (0, 2, Some(PageFault)),
            (50, 1, Some(Involuntary)),
            // The run of instructions that makes the reference waits as a whole.
            (50, 2, Some(PageFault)),
            (100, 1, Some(Involuntary)),
        ];
        assert_eq!(seen[..5], expected);
        assert_eq!(seen.get(5), None);
    }

    #[test]
    fn a_message_wakes_its_receiver_and_is_kept_until_it_is_received() {
        struct Sender {
            to: u64,
            messages: u32,
        }
        impl Program for Sender {
            fn step(&mut self, cpu: &mut Cpu) -> Status {
                cpu.jump(TEXT);
                cpu.run(6);
                cpu.syscall(call::SENDMSG, 0, 0, None);
                self.messages += 1;
                Status::Exchange { to: (self.messages > 1 || self.to == 2).then_some(self.to) }
            }
        }
        let sender = |to| Command {
            image: IMAGE,
            start: Box::new(move |_| Box::new(Sender { to, messages: 0 }) as Box<dyn Program>),
        };
        let unix = Discipline::Unix { tick: 1_000_000, page_faults: None };
        // Process 1 sends before process 2 has run. Process 2 first waits for this message, and then answers.
        let seen = switches(unix, vec![sender(2), sender(1)]);
        assert_eq!(seen[0], (0, 1, None));
        for (at, &(now, process, cause)) in seen.iter().enumerate().skip(1).take(50) {
            assert_eq!(cause, Some(Cause::SystemCall));
            assert_eq!((now, process), (10 * (at as u64 + u64::from(at > 1)), 1 + at as u64 % 2));
        }
    }
}
