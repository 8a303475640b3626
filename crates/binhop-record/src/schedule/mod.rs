//! The order between processes: who runs next, and for how long.
//!
//! A schedule chooses among processes that may run; when a process may run is not its business. `Merge` knows what
//! recorded processes wait for, `Mix` how long a system call takes.

mod built_in;
pub mod calls;
mod round_robin;

pub use built_in::{BuiltIn, PREEMPTED};
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
}

/// The one whose last turn is longest ago, the first of those that had none.
#[must_use]
pub fn longest_ago(ready: &[Ready]) -> usize {
    let first = ready.iter().enumerate().min_by_key(|(_, ready)| (ready.last_turn, ready.asid));
    first.expect("somebody may run").0
}
