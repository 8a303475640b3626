//! `Common` holds what a lane has counted for all its backs alike.

use std::borrow::Cow;

use binhop_hw::{AgentCounters, CacheCounters, Front, LaneBits, LruStack};
use binhop_os::RunCounts;

use super::BackModel;
use crate::prepare::{FrontCounts, StreamCounts};
use crate::softvm::{SoftvmCounts, SweepCounts};
use crate::translation::TranslationCounts;

/// `Common` holds the counters of a lane that are the same for all its cells.
pub(crate) struct Common<'a> {
    /// The lane's own front; `None` while the front is shared.
    pub(crate) front: Option<&'a Front>,
    /// The counts that a shared front sends with every mark.
    pub(crate) shared: Option<&'a FrontCounts>,
    /// The backs that stand for the lane's backs, if another lane leads the lane.
    pub(crate) leading: Option<&'a [BackModel]>,
    pub(crate) stacks: &'a [LruStack],
    /// The caches of all lanes and the number of this lane among them, if lanes are bits.
    pub(crate) bits: Option<(&'a LaneBits, usize)>,
    pub(crate) stream: StreamCounts,
    /// The counts of the lane's translation, if addresses are translated.
    pub(crate) translation: Option<TranslationCounts>,
    /// The counts of the handlers that run when the last level misses.
    pub(crate) at_misses: Option<SoftvmCounts>,
    /// The lines that changes of protection checked and updated.
    pub(crate) sweeps: Option<SweepCounts>,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    /// The runs of huge pages.
    pub(crate) runs: RunCounts,
    /// The cycles waited within the front.
    pub(crate) waited: u64,
}

impl Common<'_> {
    /// Returns the back at a place of the lane that leads this lane.
    pub(super) fn leading_back(&self, place: usize) -> &BackModel {
        &self.leading.expect("the leading lane shows its backs at every mark")[place]
    }

    pub(super) fn of_bits(&self) -> (&LaneBits, usize) {
        self.bits.expect("the bundle of a lane shows its bits at every mark")
    }

    /// Returns the demand misses of a cache of the front.
    pub(super) fn misses_in_front(&self, cache: usize) -> u64 {
        match (self.front, self.shared) {
            (Some(front), _) => front.counters(cache).misses.demand(),
            (None, Some(shared)) => shared.misses[cache],
            (None, None) => {
                let (bits, lane) = self.of_bits();
                bits.front_misses(lane, cache)
            }
        }
    }

    /// Returns what a cache of the front has counted of each agent other than the user.
    pub(super) fn of_agents_in_front(&self, cache: usize) -> Cow<'_, [AgentCounters]> {
        match (self.front, self.shared) {
            (Some(front), _) => front.by_agent(cache).into(),
            (None, Some(shared)) => (&*shared.agents[cache]).into(),
            (None, None) => {
                let (bits, lane) = self.of_bits();
                vec![bits.front_counters_of_agent(lane, cache)].into()
            }
        }
    }

    /// Returns what a cache of the front has counted.
    pub(super) fn counters_in_front(&self, cache: usize) -> CacheCounters {
        match (self.front, self.shared) {
            (Some(front), _) => *front.counters(cache),
            (None, Some(shared)) => shared.caches[cache],
            (None, None) => {
                let (bits, lane) = self.of_bits();
                bits.front_counters(lane, cache)
            }
        }
    }
}
