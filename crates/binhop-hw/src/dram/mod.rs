//! `dram` is memory with a controller: channels, ranks, bank groups, banks and rows, their timing, and a controller
//! that reorders requests (FR-FCFS).
//!
//! # Rules
//! Time counts cycles of the memory's clock. Each channel has a controller of its own, which issues one command a cycle
//! at most.
//! - A request enters the queue of its direction at its arrival. If the queue is full, the request and all behind it
//!   wait until a place is free. A read of a line that waits in the queue of writes is answered from there.
//! - A write of a line for which a read waits stays outside its queue until the read is issued, and all requests behind
//!   it wait too. So a write never passes an older read of its line.
//! - Reads are served first. Writes are served while no read waits. Once the number of waiting writes reaches the upper
//!   mark, writes are served until it reaches the lower mark.
//! - *First ready, first come first served*: of the requests in the queue that is served, the oldest request whose row
//!   is open and whose transfer the timing allows goes first. Otherwise the oldest request for which the timing allows
//!   an activate or a precharge gets this command. A row is not closed while a request in the served queue wants it.
//! - With closed pages, a bank is precharged when no request of either queue wants its row and nothing else can go.
//! - A rank is refreshed every tREFI. From then on it takes no other commands: its banks are precharged, all at once,
//!   and then refreshed. The ranks of a channel take turns at equal distances.
//! - Commands keep the distances of `timing.rs` and no others: `channel.rs` issues each command at the first cycle that
//!   these distances allow.
//!
//! The model is simpler than memory in four points: it has one clock for commands and data (two transfers a cycle), no
//! power-down, no posted CAS, and one time for every switch between ranks.

mod bank_index;
mod channel;
mod config;
mod controller;
mod counters;
mod limits;
mod mapping;
mod memory;
mod organisation;
mod presets;
mod queue;
mod request;
mod timing;

pub use config::{DramConfig, PagePolicy};
pub use controller::Dram;
pub use counters::{DramCounters, DramUseCounters};
pub use mapping::{AddressMapping, DramAddress};
pub use memory::DramMemory;
pub use organisation::DramOrganisation;
pub use presets::{DRAM_PRESETS, DramPreset};
pub use request::{DramListener, DramRequest, RowOutcome};
pub use timing::DramTiming;

/// `DramCommandKind` is a command of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DramCommandKind {
    /// A row of a bank is opened.
    Activate,
    /// The row of a bank is closed.
    Precharge,
    /// The rows of all banks of a rank are closed.
    PrechargeAll,
    /// A line of the open row is read.
    Read,
    /// A line of the open row is written.
    Write,
    /// A rank is refreshed.
    Refresh,
}

impl DramCommandKind {
    /// Returns the name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Activate => "activate",
            Self::Precharge => "precharge",
            Self::PrechargeAll => "precharge-all",
            Self::Read => "read",
            Self::Write => "write",
            Self::Refresh => "refresh",
        }
    }
}

/// `DramCommand` is a command with its time and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramCommand {
    /// The cycle.
    pub cycle: u64,
    /// The command.
    pub kind: DramCommandKind,
    /// The channel.
    pub channel: u32,
    /// The rank in the channel.
    pub rank: u32,
    /// The bank in the rank, counted through its bank groups; 0 for commands to a whole rank.
    pub bank: u32,
    /// The row that is opened or used; 0 for other commands.
    pub row: u32,
}
