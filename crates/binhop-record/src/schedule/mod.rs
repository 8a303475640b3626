//! The order between processes: who runs next, and for how long.
//!
//! A schedule chooses among processes that may run; when a process may run is not its business. `Merge` knows what
//! recorded processes wait for, `Mix` how long a system call takes.

mod built_in;
pub mod calls;
pub mod native;
mod round_robin;

use binhop_os::scheduler;
use binhop_trace::event::Cause;

pub use built_in::{BuiltIn, PREEMPTED};
pub use native::Native;
pub use round_robin::RoundRobin;

/// A process that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its address space.
    pub asid: u32,
    /// Which turn it was last given, counted over all processes; 0: none yet.
    pub last_turn: u64,
}

/// Who runs next, and for how long.
pub trait Schedule: Send {
    /// What the trace's metadata call it.
    fn name(&self) -> &str;
    /// Chooses one of those that may run: its place in the list, which is never empty and in order of the asid.
    fn choose(&mut self, ready: &[Ready]) -> usize;
    /// The chosen one's turn begins: the instructions (1 or more) after which another one's turn comes, if another
    /// may run then.
    fn turn(&mut self, asid: u32) -> u64;

    /// A process begins; of the command's own, the parent is `None`.
    fn started(&mut self, _asid: u32, _parent: Option<u32>) {}
    /// A process has ended.
    fn ended(&mut self, _asid: u32) {}
    /// The process whose turn it is ran so many instructions.
    fn ran(&mut self, _asid: u32, _instructions: u64) {}
    /// The process whose turn it is enters a system call: the instructions that are left of its turn from here, if that is
    /// known now; 0: it leaves in the call.
    fn entered(&mut self, _asid: u32, _number: u32) -> Option<u64> {
        None
    }
    /// Why a turn that is over is over.
    fn cause(&self) -> Cause {
        Cause::Involuntary
    }
    /// When the turn began, in nanoseconds since the program's start, where a real time is known.
    fn time(&self) -> Option<u64> {
        None
    }
    /// What a user should know of how it went, one sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The one whose last turn is longest ago, the first of those that had none.
#[must_use]
pub fn longest_ago(ready: &[Ready]) -> usize {
    let first = scheduler::longest_ago(ready.iter().map(|ready| (ready.asid, ready.last_turn)));
    ready.iter().position(|ready| Some(ready.asid) == first).expect("somebody may run")
}
