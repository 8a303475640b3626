//! `RoundRobin` gives every process turns of equal length, one process after the other.

use super::{Ready, Schedule, longest_ago};

/// `RoundRobin` gives each process in turn the same number of instructions.
#[derive(Clone, Debug)]
pub struct RoundRobin {
    quantum: u64,
    name: String,
}

impl RoundRobin {
    /// Makes turns of `quantum` instructions (1 or more).
    #[must_use]
    pub fn new(quantum: u64) -> Self {
        assert!(quantum > 0, "a turn has at least one instruction");
        Self { quantum, name: format!("round-robin, quantum {quantum}") }
    }
}

impl Schedule for RoundRobin {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose(&mut self, ready: &[Ready]) -> usize {
        longest_ago(ready)
    }

    fn turn(&mut self, _: u32) -> u64 {
        self.quantum
    }
}
