//! Events that are no references: who runs, and what address spaces look like.

use binhop_base::{Asid, Problem, Result, VirtAddr};
use binhop_os::MapFlags;
use binhop_trace::{EventBatch, Op};

use super::{Mark, NOTHING, Prepare, Process};

impl Prepare {
    /// Another process runs, or the same one in another mode.
    fn run(&mut self, process: Process) {
        if process == self.running {
            return;
        }
        if process.asid != self.running.asid {
            self.forget_lines();
        }
        self.running = process;
        let next = self.processes.len() as u32;
        let number = *self.numbers.entry(process).or_insert(next);
        if number == next {
            self.processes.push(process);
        }
        self.mark(Mark::Process(number));
    }

    /// An event that is no reference.
    #[cold]
    pub(super) fn system(&mut self, batch: &EventBatch, row: usize) -> Result<()> {
        let (code, addr) = (batch.op()[row], batch.addr()[row]);
        let (size, count) = (batch.size()[row], u64::from(batch.count()[row]));
        let Some(op) = Op::from_code(code) else {
            return Err(Problem::request(
                &code.to_string(),
                &format!("{}: row {row} of its batch: op", self.place),
                "no event has this code",
                "see the table of events in the documentation; `binhop lint` checks a whole trace",
            ));
        };
        match op {
            Op::Fetch | Op::Load | Op::Store | Op::Modify => unreachable!("references are no system events"),
            Op::Switch => {
                self.seen.switches += 1;
                let asid = self.asid(addr)?;
                self.run(Process { asid, kernel: false });
            }
            Op::KernelEnter => self.run(Process { kernel: true, ..self.running }),
            Op::KernelLeave => self.run(Process { kernel: false, ..self.running }),
            Op::Syscall | Op::Range => self.seen.syscalls += 1,
            Op::Time => {}
            Op::DmaRead | Op::DmaWrite => {
                return Err(Problem::request(
                    op.name(),
                    &self.place,
                    "devices are not simulated",
                    "take the device's events out of the trace, or record without them",
                ));
            }
            Op::Map | Op::Protect | Op::Unmap | Op::Fork | Op::Exec | Op::Exit => {
                self.change_spaces(op, addr, size, count, [batch.arg0(row), batch.arg1(row)])?;
            }
        }
        Ok(())
    }

    fn change_spaces(
        &mut self,
        op: Op,
        addr: u64,
        size: u32,
        count: u64,
        args: [Option<u64>; 2],
    ) -> Result<()> {
        let here = self.running.asid;
        match op {
            Op::Map => {
                let (start, flags) = (VirtAddr(addr), MapFlags::from(size));
                self.spaces.map(here, start, count, flags, args[0], args[1].unwrap_or(0))?;
            }
            Op::Protect => self.spaces.protect(here, VirtAddr(addr), count, MapFlags::from(size))?,
            Op::Unmap => self.spaces.unmap(here, VirtAddr(addr), count)?,
            Op::Fork => {
                let parent = args[0].map_or(Ok(here), |asid| self.asid(asid))?;
                let child = self.asid(addr)?;
                self.spaces.fork(child, parent)?;
            }
            Op::Exec => {
                let asid = self.asid(addr)?;
                self.spaces.exec(asid);
            }
            Op::Exit => {
                let asid = self.asid(addr)?;
                self.spaces.exit(asid);
            }
            _ => unreachable!("only events that change address spaces"),
        }
        self.translations.fill(NOTHING);
        self.forget_lines();
        self.bury();
        Ok(())
    }

    fn asid(&self, number: u64) -> Result<Asid> {
        u32::try_from(number).map(Asid).map_err(|_| {
            Problem::request(
                &number.to_string(),
                &format!("{}: asid", self.place),
                "an address space's number fits in 32 bits",
                "number the address spaces from 0",
            )
        })
    }
}
