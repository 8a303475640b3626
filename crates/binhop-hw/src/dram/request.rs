//! `DramRequest` is what a memory is asked for, and `DramListener` hears what the memory does.

use super::DramCommand;

/// `DramRequest` is a request to read or write a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramRequest {
    /// The cycle at which the request arrives. Requests are served as if they arrived in the order in which they are
    /// given.
    pub arrival: u64,
    /// The line: the address / 64.
    pub line: u64,
    /// True if the line is written.
    pub write: bool,
    /// The class under which the request counts, below [`Dram::CLASSES`](super::Dram::CLASSES).
    pub class: u8,
}

/// `RowOutcome` says what a request found when it came to its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOutcome {
    /// Its row was open.
    Hit,
    /// Its bank had no open row.
    Miss,
    /// Its bank had to close another row first.
    Conflict,
    /// The data of a read came from the queue of writes.
    Forwarded,
}

impl RowOutcome {
    /// Every outcome, in order.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::Conflict, Self::Forwarded];

    /// Returns the name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Conflict => "conflict",
            Self::Forwarded => "forwarded",
        }
    }
}

/// `DramListener` hears what a memory does.
pub trait DramListener {
    /// A command was issued.
    fn command(&mut self, _command: &DramCommand) {}

    /// The data of a request were on the bus until this cycle, or came from the queue of writes.
    fn done(&mut self, _request: u64, _cycle: u64, _outcome: RowOutcome) {}
}

impl DramListener for () {}
