//! `SoftvmCounts` counts what software does that translates when the last level misses.

use binhop_base::Kind;

/// `MissCause` is a cause of cycles that translation at cache misses takes: the rows of JM97's Table 4, and
/// write-backs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MissCause {
    /// The handler's instructions at misses of data, and at its own misses.
    DataMiss,
    /// The handler's instructions at misses of instructions.
    FetchMiss,
    /// Waits of the handler's loads for caches behind level 1.
    HandlerData,
    /// Waits of root entries for memory.
    RootEntry,
    /// Waits of user entries for memory.
    UserEntry,
    /// Waits of the handler's instructions for caches behind level 1.
    HandlerCode,
    /// Waits of the handler's instructions for memory.
    HandlerCodeMemory,
    /// Everything that the handler of write-backs does.
    WriteBack,
}

impl MissCause {
    /// Every cause, with its name in metrics and its meaning.
    pub(crate) const ALL: &'static [(Self, &'static str, &'static str)] = &[
        (
            Self::DataMiss,
            "data-miss",
            "Cycles of the handler's instructions, one each, where loads and stores, or the handler's own loads, missed the last level.",
        ),
        (
            Self::FetchMiss,
            "fetch-miss",
            "Cycles of the handler's instructions, one each, where instruction fetches missed the last level.",
        ),
        (
            Self::HandlerData,
            "handler-data",
            "Cycles that the handler's loads waited for caches behind level 1.",
        ),
        (Self::RootEntry, "root-entry", "Cycles that the handler's loads of root entries waited for memory."),
        (Self::UserEntry, "user-entry", "Cycles that the handler's loads of user entries waited for memory."),
        (
            Self::HandlerCode,
            "handler-code",
            "Cycles that the handler's instructions waited for caches behind level 1.",
        ),
        (
            Self::HandlerCodeMemory,
            "handler-code-memory",
            "Cycles that the handler's instructions waited for memory.",
        ),
        (
            Self::WriteBack,
            "write-back",
            "Cycles of the handler that translates lines which go back to memory: its instructions and its waits.",
        ),
    ];
}

const KINDS: usize = 3;
const NESTED: usize = KINDS;
const WRITE_BACKS: usize = NESTED + 1;
const CYCLES: usize = WRITE_BACKS + 1;
const ALL: usize = CYCLES + MissCause::ALL.len();

/// `SoftvmCounts` holds all counts, in one array so that they add up in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SoftvmCounts {
    counts: [u64; ALL],
    /// The maximum number of lines that waited for the handler of write-backs at one time, up to here.
    most_waiting: u64,
}

impl SoftvmCounts {
    /// Counts an access of the program that missed the last level.
    pub(crate) fn missed(&mut self, kind: Kind) {
        self.counts[kind as usize] += 1;
    }

    /// Returns the accesses of the program that missed the last level.
    pub(crate) fn misses(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// Counts a load of a user entry that missed the last level.
    pub(crate) fn missed_entry(&mut self) {
        self.counts[NESTED] += 1;
    }

    /// Returns the loads of user entries that missed the last level.
    pub(crate) fn misses_of_entries(&self) -> u64 {
        self.counts[NESTED]
    }

    /// Counts a line that was translated on its way back to memory, when so many lines waited.
    pub(crate) fn wrote_back(&mut self, waiting: u64) {
        self.counts[WRITE_BACKS] += 1;
        self.most_waiting = self.most_waiting.max(waiting);
    }

    /// Returns the lines that were translated on their way back to memory, and the most that waited at one time.
    pub(crate) fn write_backs(&self) -> [u64; 2] {
        [self.counts[WRITE_BACKS], self.most_waiting]
    }

    /// Adds cycles to a cause.
    pub(crate) fn waited(&mut self, cause: MissCause, cycles: u64) {
        self.counts[CYCLES + cause as usize] += cycles;
    }

    /// Returns the cycles of a cause.
    pub(crate) fn cycles(&self, cause: MissCause) -> u64 {
        self.counts[CYCLES + cause as usize]
    }
}

impl std::ops::Sub for SoftvmCounts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        let counts = std::array::from_fn(|at| self.counts[at] - earlier.counts[at]);
        Self { counts, most_waiting: self.most_waiting }
    }
}
