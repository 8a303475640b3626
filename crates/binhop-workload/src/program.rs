//! `Program` is a program as the processor and the scheduler see it: it does its work in steps of a bounded size.

use crate::address_space::Image;
use crate::cpu::Cpu;
use crate::data_rng::DataRng;

/// `Start` builds a program in a process of its own. The function gets the processor after the program's
/// image is mapped.
pub(crate) type Start = Box<dyn FnOnce(&mut Cpu) -> Box<dyn Program> + Send>;

/// `SeededStart` builds a program from random numbers. The lists of workloads and commands hold these
/// functions.
pub(crate) type SeededStart = fn(DataRng, &mut Cpu) -> Box<dyn Program>;

/// `Command` is a program to run, with its image.
pub(crate) struct Command {
    pub(crate) image: Image,
    pub(crate) start: Start,
}

/// `Status` says how a step ended.
pub(crate) enum Status {
    /// The program has more to do.
    Ready,
    /// The program is in a system call, and gives up the processor until other processes have executed
    /// `latency` instructions.
    Blocked { call: u32, latency: u64 },
    /// The program forked a child.
    Fork(Command),
    /// The program is in the call that waits until all children have ended.
    Wait,
    /// The program is in the message call: it sends a message to the process with this address space, if
    /// there is a receiver, and waits until a message arrives for itself. The programs share the contents of
    /// messages; the mix knows who waits.
    Exchange { to: Option<u64> },
    /// The program has ended.
    Exit,
}

/// `Program` is a program that runs.
pub(crate) trait Program: Send {
    /// Does one step of the work: at most [`crate::rows::STEP_ROWS`] rows. A program whose work is done
    /// starts over on new data; a short program of a mix ends.
    fn step(&mut self, cpu: &mut Cpu) -> Status;
}

/// The numbers of the system calls (4.3BSD, as Ultrix numbers them).
pub(crate) mod call {
    pub(crate) const EXIT: u32 = 1;
    pub(crate) const FORK: u32 = 2;
    pub(crate) const READ: u32 = 3;
    pub(crate) const WRITE: u32 = 4;
    pub(crate) const OPEN: u32 = 5;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const STAT: u32 = 18;
    pub(crate) const EXECVE: u32 = 59;
    pub(crate) const WAIT: u32 = 84;
    pub(crate) const SENDMSG: u32 = 114;
}
