//! `ClassCounts` holds what a replay counts of one class of requests at one cache.
//!
//! All requests are of one class if the user alone makes accesses, and no loop asks for the class. Otherwise there are
//! three classes: the requests of the user, of the other agent, and of the user's accesses after walks. The user's
//! counts include the third class. It is kept apart because the level is counted that serves such an access.

use binhop_base::{Kind, PerKind};

use crate::{AgentCounters, CacheCounters, Origin};

/// The number of classes where the user alone makes accesses.
pub(crate) const ALONE: usize = 1;
/// The number of classes where another agent makes accesses, too.
pub(crate) const TWO_AGENTS: usize = 3;
/// The class of the other agent.
pub(crate) const OTHER: usize = 1;
/// The class of the user's accesses after walks.
pub(crate) const AFTER_WALK: usize = 2;

/// Returns the class of a request.
#[inline(always)]
pub(super) fn class<const CLASSES: usize>(origin: Origin) -> usize {
    if CLASSES == ALONE { 0 } else { origin.class() }
}

/// `ClassCounts` holds counts of one class.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassCounts {
    pub(super) accesses: PerKind<u64>,
    pub(super) misses: PerKind<u64>,
    pub(super) compulsory: PerKind<u64>,
    /// The misses of data that is smaller than the line. The rest of the line is read.
    pub(super) in_part: u64,
    /// The dirty lines that left.
    pub(super) written_back: u64,
}

impl ClassCounts {
    /// Returns the requests to the next level.
    pub(super) fn sent(&self) -> PerKind<u64> {
        // A miss of data reads only what the data lacks of its line.
        let mut sent = self.misses;
        (sent[Kind::Write], sent[Kind::Writeback]) = (0, self.written_back);
        sent[Kind::Fill] += self.in_part;
        sent
    }

    /// Adds the counts to the counts of the user. Counts of lines belong to no agent, so the loop counts them itself.
    pub(super) fn add_to_user(&self, counters: &mut CacheCounters) {
        counters.accesses += self.accesses;
        counters.misses += self.misses;
        counters.compulsory += self.compulsory;
        counters.sent += self.sent();
    }

    /// Adds the counts to the counts of the other agent.
    pub(super) fn add_to_agent(&self, counters: &mut AgentCounters) {
        let AgentCounters {
            accesses,
            misses,
            compulsory,
            sent,
            // The general path counts what an agent asks of a cache itself.
            asked: _,
            // Devices alone discard and clean lines, and no chain serves them.
            discarded: _,
            cleaned: _,
        } = counters;
        *accesses += self.accesses;
        *misses += self.misses;
        *compulsory += self.compulsory;
        *sent += self.sent();
    }
}
