//! A `Schedule` decides the order between processes: which process runs next, and for how long.
//!
//! A schedule chooses among the processes that may run. It does not decide when a process may run: `Merge`
//! knows what recorded processes wait for, and `Mix` knows how long a system call takes.

mod built_in;
pub mod calls;
pub mod native;
mod round_robin;

use binhop_os::scheduler;
use binhop_trace::event::Cause;

pub use built_in::{BuiltIn, PREEMPTED};
pub use native::Native;
pub use round_robin::RoundRobin;

/// `Ready` is a process that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The address space.
    pub asid: u32,
    /// The number of its last turn, counted over all processes; 0 if it had none.
    pub last_turn: u64,
}

/// A `Schedule` decides which process runs next, and for how long.
pub trait Schedule: Send {
    /// Returns the schedule's name in the trace's metadata.
    fn name(&self) -> &str;
    /// Chooses a process that may run, and returns its place in `ready`. The list is not empty, and in order
    /// of the asid.
    fn choose(&mut self, ready: &[Ready]) -> usize;
    /// Begins the turn of the chosen process. Returns the number of instructions (1 or more) after which the
    /// turn ends if another process may run then.
    fn turn(&mut self, asid: u32) -> u64;

    /// Notes that a process has started. The command's own process has no parent.
    fn started(&mut self, _asid: u32, _parent: Option<u32>) {}
    /// Notes that a process has ended.
    fn ended(&mut self, _asid: u32) {}
    /// Notes that the process whose turn it is has run this number of instructions.
    fn ran(&mut self, _asid: u32, _instructions: u64) {}
    /// Notes that the process whose turn it is enters a system call. Returns how many instructions are left of the turn
    /// from here, if the schedule knows it now. With 0 the process leaves the processor in the call.
    fn entered(&mut self, _asid: u32, _number: u32) -> Option<u64> {
        None
    }
    /// Returns why a process leaves the processor when its turn is over.
    fn cause(&self) -> Cause {
        Cause::Involuntary
    }
    /// Returns when the turn began, in nanoseconds since the program's start, if a real time is known.
    fn time(&self) -> Option<u64> {
        None
    }
    /// Returns notes for the user on the schedule, one sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Returns the place of the process whose last turn is longest ago. Processes that had no turn come first, in
/// order.
#[must_use]
pub fn longest_ago(ready: &[Ready]) -> usize {
    let first = scheduler::longest_ago(ready.iter().map(|ready| (ready.asid, ready.last_turn)));
    ready.iter().position(|ready| Some(ready.asid) == first).expect("a process may run")
}
