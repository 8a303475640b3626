//! What a program is to the processor and the scheduler: something that does a bounded piece of work.

use crate::address_space::Image;
use crate::cpu::Cpu;
use crate::data_rng::DataRng;

/// Builds a program in a process of its own: it gets the processor after its image is mapped.
pub(crate) type Start = Box<dyn FnOnce(&mut Cpu) -> Box<dyn Program> + Send>;

/// How a program starts from its draws alone: what the lists of workloads and commands hold.
pub(crate) type SeededStart = fn(DataRng, &mut Cpu) -> Box<dyn Program>;

/// A program to run, with its image.
pub(crate) struct Command {
    pub(crate) image: Image,
    pub(crate) start: Start,
}

/// How a step ended.
pub(crate) enum Status {
    /// There is more to do.
    Ready,
    /// In a system call that gives up the processor until `latency` instructions have been executed by others.
    Blocked { call: u32, latency: u64 },
    /// It asked for a child process.
    Fork(Command),
    /// In the call that waits until all children have ended.
    Wait,
    /// It is done.
    Exit,
}

/// A program at work.
pub(crate) trait Program: Send {
    /// Does a piece of work: at most [`crate::rows::STEP_ROWS`] rows. A program whose work is done starts
    /// over on new data, unless it is one of a mix, where it ends.
    fn step(&mut self, cpu: &mut Cpu) -> Status;
}

/// Numbers of the system calls (4.3BSD, as Ultrix numbers them).
pub(crate) mod call {
    pub(crate) const EXIT: u32 = 1;
    pub(crate) const FORK: u32 = 2;
    pub(crate) const READ: u32 = 3;
    pub(crate) const WRITE: u32 = 4;
    pub(crate) const OPEN: u32 = 5;
    pub(crate) const STAT: u32 = 18;
    pub(crate) const EXECVE: u32 = 59;
    pub(crate) const WAIT: u32 = 84;
}
