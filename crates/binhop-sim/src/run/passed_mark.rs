//! `PassedMark` is a mark whose counts lanes read later.

use std::sync::Arc;

use binhop_base::Agents;

use crate::prepare::{FrontCounts, Mark, StreamCounts};
use crate::results::tally::misses_in_mpi;

/// `PassedMark` is a mark between processes or intervals, at which lanes read their demand misses alone. Lanes that are
/// bits pass it while accesses wait, and read their counts up to it when these accesses have been made.
pub(super) struct PassedMark {
    pub(super) mark: Mark,
    pub(super) stream: StreamCounts,
    /// The counts of a shared front up to the mark; `None` where level 1 is in bits, too.
    pub(super) shared: Option<Arc<FrontCounts>>,
}

impl PassedMark {
    /// Returns the demand misses of a cache of a shared front that count in MPI, up to the mark.
    pub(super) fn misses_in_front(&self, agents: Agents, cache: usize) -> u64 {
        let shared = self.shared.as_ref().expect("a shared front sends its counts with every mark");
        shared.misses[cache] + shared.agents.get(cache).map_or(0, |counts| misses_in_mpi(agents, counts))
    }
}
