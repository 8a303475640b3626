//! `coherence` holds the transition tables of the two protocols for device data: IO-MOESI (write-back) and IO-ESI
//! (write-through), after TB10 §3.1.3. The copy of the document lacks the figures, so the tables are ours.
//!
//! A cache tells its *local* references from *probes*. To a DMA cache, a device's reference is local, and a
//! reference of the processor is a probe. To the last-level cache, a reference of the processor is local, and a
//! device's reference is a probe. With the sources exchanged, the table of IO-MOESI is the table of MOESI, which
//! the last-level cache uses for the processor's data, and the table of IO-ESI is the table of ESI.
//!
//! The front (the processor's private caches) and the last-level cache behind it are one processor cache to the
//! protocol.

/// `LineState` is the state of a line in one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LineState {
    /// The cache does not hold the line.
    Invalid,
    /// The copy is clean or another cache is its owner, and other caches may hold the line.
    Shared,
    /// The copy is clean, and no other cache holds the line.
    Exclusive,
    /// The copy is dirty, and other caches may hold it; this cache must write it back.
    Owned,
    /// The copy is dirty, and no other cache holds the line.
    Modified,
}

impl LineState {
    /// Every state.
    pub const ALL: &'static [Self] =
        &[Self::Invalid, Self::Shared, Self::Exclusive, Self::Owned, Self::Modified];

    /// Returns whether the cache must write the line back before it gives it up.
    #[inline]
    #[must_use]
    pub const fn is_dirty(self) -> bool {
        matches!(self, Self::Owned | Self::Modified)
    }

    /// Returns the state with a number.
    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Self {
        match bits {
            0 => Self::Invalid,
            1 => Self::Shared,
            2 => Self::Exclusive,
            3 => Self::Owned,
            _ => Self::Modified,
        }
    }
}

/// `LineEvent` is what happens to a line in one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LineEvent {
    /// A local reference reads the line, and no other cache holds it.
    LocalReadAlone,
    /// A local reference reads the line, and another cache holds it.
    LocalReadShared,
    /// A local reference writes the line. The copies of all other caches are probed and invalidated.
    LocalWrite,
    /// The other side reads the line.
    ProbeRead,
    /// The other side writes the line, or takes it to write it.
    ProbeWrite,
    /// The front gives up a clean copy that is tagged as I/O data.
    Return,
    /// The copy is made equal to memory, and stays.
    Clean,
    /// The copy leaves, because another line needs its room or because the way is flushed.
    Replace,
}

impl LineEvent {
    /// Every event.
    pub const ALL: &'static [Self] = &[
        Self::LocalReadAlone,
        Self::LocalReadShared,
        Self::LocalWrite,
        Self::ProbeRead,
        Self::ProbeWrite,
        Self::Return,
        Self::Clean,
        Self::Replace,
    ];
}

/// `LineAction` is what a cache does for an event, besides its change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LineAction {
    /// The cache does nothing.
    Nothing,
    /// The cache takes the line in: from its owner, from memory, or with the event itself. A write of the whole line
    /// needs no data.
    Fill,
    /// The cache supplies the data, if the reference needs any.
    Supply,
    /// The cache writes the line to memory.
    WriteBack,
    /// The cache takes the line in if it lacks it, and writes it to memory.
    WriteThrough,
    /// The protocol never comes here: the state excludes the event.
    Never,
}

/// `Transition` is one entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state after the event.
    pub next: LineState,
    /// The action of the cache besides its change of state.
    pub action: LineAction,
}

/// `TransitionTable` is a protocol: for each state, and for each event in the order of [`LineEvent::ALL`], a
/// transition.
pub type TransitionTable = [[Transition; 8]; 5];

/// Returns the transition of a state and an event.
#[inline]
#[must_use]
pub const fn transition(table: &TransitionTable, state: LineState, event: LineEvent) -> Transition {
    table[state as usize][event as usize]
}

const fn to(next: LineState, action: LineAction) -> Transition {
    Transition { next, action }
}

use LineAction::{Fill, Never, Nothing, Supply, WriteBack, WriteThrough};
use LineState::{Exclusive as E, Invalid as I, Modified as M, Owned as O, Shared as S};

const NEVER: Transition = to(I, Never);

/// The table of MOESI, for the caches of processors: a write stays in the cache, which owns the line from then on.
#[rustfmt::skip]
pub const MOESI: TransitionTable = [
    // LocalReadAlone   LocalReadShared   LocalWrite       ProbeRead       ProbeWrite      Return          Clean            Replace
    [to(E, Fill),       to(S, Fill),      to(M, Fill),     to(I, Nothing), to(I, Nothing), to(S, Fill),    to(I, Nothing),  to(I, Nothing)],
    [to(S, Nothing),    to(S, Nothing),   to(M, Nothing),  to(S, Supply),  to(I, Supply),  to(S, Nothing), to(S, Nothing),  to(I, Nothing)],
    [to(E, Nothing),    NEVER,            to(M, Nothing),  to(S, Supply),  to(I, Supply),  NEVER,          to(E, Nothing),  to(I, Nothing)],
    [to(O, Nothing),    to(O, Nothing),   to(M, Nothing),  to(O, Supply),  to(I, Supply),  to(O, Nothing), to(S, WriteBack), to(I, WriteBack)],
    [to(M, Nothing),    NEVER,            to(M, Nothing),  to(O, Supply),  to(I, Supply),  NEVER,          to(E, WriteBack), to(I, WriteBack)],
];

/// The table of ESI, for the caches of processors: a write also goes to memory, so that no line is ever dirty. A write
/// starts as [`LineState::Exclusive`].
#[rustfmt::skip]
pub const ESI: TransitionTable = [
    // LocalReadAlone   LocalReadShared   LocalWrite           ProbeRead       ProbeWrite      Return          Clean           Replace
    [to(E, Fill),       to(S, Fill),      to(E, WriteThrough), to(I, Nothing), to(I, Nothing), to(S, Fill),    to(I, Nothing), to(I, Nothing)],
    [to(S, Nothing),    to(S, Nothing),   to(E, WriteThrough), to(S, Supply),  to(I, Supply),  to(S, Nothing), to(S, Nothing), to(I, Nothing)],
    [to(E, Nothing),    NEVER,            to(E, WriteThrough), to(S, Supply),  to(I, Supply),  NEVER,          to(E, Nothing), to(I, Nothing)],
    [NEVER; 8],
    [NEVER; 8],
];

/// The table of IO-MOESI, for the DMA cache: MOESI with the sources exchanged. A device's reference is local, and a
/// reference of a processor is a probe.
pub const IO_MOESI: TransitionTable = MOESI;

/// The table of IO-ESI, for the DMA cache: ESI with the sources exchanged.
pub const IO_ESI: TransitionTable = ESI;

/// Every protocol with its name.
pub const PROTOCOLS: &[(&str, &TransitionTable)] =
    &[("MOESI", &MOESI), ("ESI", &ESI), ("IO-MOESI", &IO_MOESI), ("IO-ESI", &IO_ESI)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_and_rows_of_the_tables_are_in_the_order_of_the_lists() {
        for (row, &state) in LineState::ALL.iter().enumerate() {
            assert_eq!(state as usize, row);
            assert_eq!(LineState::from_bits(row as u64), state);
        }
        for (column, &event) in LineEvent::ALL.iter().enumerate() {
            assert_eq!(event as usize, column);
        }
    }

    #[test]
    fn dirty_data_leave_a_cache_only_to_memory_or_to_the_side_that_takes_them() {
        for table in [&IO_MOESI, &IO_ESI] {
            for &state in LineState::ALL.iter().filter(|state| state.is_dirty()) {
                for &event in LineEvent::ALL {
                    let Transition { next, action } = transition(table, state, event);
                    if action != Never && !next.is_dirty() {
                        let expected = if event == LineEvent::ProbeWrite { Supply } else { WriteBack };
                        assert_eq!(action, expected, "{state:?} {event:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn io_esi_never_makes_a_line_dirty() {
        assert!(IO_ESI.iter().flatten().all(|transition| !transition.next.is_dirty()));
    }
}
