//! `Mixing` holds the settings of a mix: how long turns and waits are, which input is next, which page faults block,
//! and when the mix ends.

use binhop_os::scheduler::Order;
use binhop_trace::event::Cause;

use crate::piece::WaitsFor;
use crate::schedule::calls;

/// `Mixing` holds the settings of a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mixing {
    /// The length of a turn, which is 1 or more. Latencies have the same unit.
    pub quantum: Quantum,
    /// The rule that says which of the inputs that are ready runs next.
    pub order: Order,
    /// The times for which an input that waits leaves the processor.
    pub latencies: Latencies,
    /// Which page faults block.
    pub faults: Faults,
    /// When the mix ends.
    pub ends: EndsWhen,
}

impl Mixing {
    /// Makes round-robin turns of this quantum, with the default latencies. No page fault blocks but those that
    /// the inputs mark, and the mix ends with the last input.
    #[must_use]
    pub fn new(quantum: Quantum) -> Self {
        Self {
            quantum,
            order: Order::LongestAgo,
            latencies: Latencies::default(),
            faults: Faults::None,
            ends: EndsWhen::All,
        }
    }

    /// Returns the name of the schedule in the metadata of the mix.
    pub(super) fn schedule(&self) -> String {
        let order = match self.order {
            Order::LongestAgo => "round-robin",
            Order::Queue => "queue",
            Order::Recent { .. } => "recent",
        };
        match self.quantum {
            Quantum::Instructions(quantum) => format!("{order}, quantum {quantum}"),
            Quantum::Cycles(quantum) => format!("{order}, quantum {quantum} cycles"),
        }
    }
}

/// `Quantum` is the length of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantum {
    /// A turn lasts this number of instructions.
    Instructions(u64),
    /// A turn lasts this number of cycles of the lane that simulates the mix.
    Cycles(u64),
}

impl Quantum {
    /// Returns the length of a turn, in the unit of the quantum.
    #[must_use]
    pub fn length(self) -> u64 {
        match self {
            Self::Instructions(length) | Self::Cycles(length) => length,
        }
    }
}

/// `Faults` says which page faults block. A fault that an input marks itself always blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// No further fault blocks.
    None,
    /// The first reference to a page of a file blocks, because the page must be read.
    First,
    /// Every fault that must read a page blocks: the faults of [`Faults::First`], and each reference to a page that was
    /// evicted by the lane that simulates the mix.
    All,
}

/// `EndsWhen` says when the mix ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsWhen {
    /// The mix ends when the last input has ended. An input that ends before leaves the processor to the other inputs.
    All,
    /// The mix ends when the first input has ended.
    First,
    /// The mix ends when every input has ended once. An input that ends before begins again, as new
    /// processes.
    Repeat,
}

/// `Latencies` says for how long a waiting process leaves the processor, in the unit of the quantum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The wait for another process or a person: pipes, sockets, terminals, locks, children
    /// ([`WaitsFor::Given`], [`WaitsFor::Child`]). Unknown calls wait as long.
    pub given: u64,
    /// The wait for a device, or for time to pass ([`WaitsFor::Room`]).
    pub room: u64,
    /// The wait for a page.
    pub fault: u64,
}

impl Default for Latencies {
    /// The default is 100 µs for another process and 1 ms for a device or a page, at 1000 instructions a
    /// microsecond (our choice).
    fn default() -> Self {
        Self { given: 100_000, room: 1_000_000, fault: 1_000_000 }
    }
}

impl Latencies {
    /// Returns latencies that are all the same.
    #[must_use]
    pub const fn all(time: u64) -> Self {
        Self { given: time, room: time, fault: time }
    }

    pub(super) fn of(self, cause: Cause, number: Option<u32>) -> u64 {
        let kind = number.map(calls::kind);
        match (cause, kind) {
            (Cause::PageFault, _) => self.fault,
            (_, Some(WaitsFor::Room)) => self.room,
            _ => self.given,
        }
    }
}
