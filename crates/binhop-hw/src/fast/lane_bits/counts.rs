//! The counts of lanes, and of the lines that lanes hold, when they are asked for.

use binhop_base::Kind;

use super::{Mask, counter::LaneCounter};
use crate::{AgentCounters, AgentMemoryCounters, CacheCounters, Counted, CountedCaches, MemoryCounters};

/// `LinesOfLanes` tells for each lane how many lines of a cache it holds, and how many of them are dirty.
pub(super) struct LinesOfLanes {
    resident: LaneCounter,
    dirty: LaneCounter,
}

impl LinesOfLanes {
    /// Counts lines. Each line comes with the lanes that hold it and the lanes in which it is dirty.
    pub(super) fn of(lines: impl Iterator<Item = [Mask; 2]>) -> Self {
        let (mut all, mut all_dirty) = (LaneCounter::default(), LaneCounter::default());
        for [resident, dirty] in lines {
            all.add(resident);
            all_dirty.add(dirty);
        }
        Self { resident: all, dirty: all_dirty }
    }

    pub(super) fn of_lane(&self, lane: usize) -> (u64, u64) {
        (self.resident.get(lane), self.dirty.get(lane))
    }
}

/// `CountsOfLane` holds what one stage of the caches has counted in one lane of a
/// [`LaneBits`](crate::LaneBits).
#[derive(Clone, Debug, Default)]
pub struct CountsOfLane {
    /// For each cache of the tree, its counts, its resident lines and the dirty lines among them. The caches of the
    /// other stage have none.
    caches: Vec<(CacheCounters, (u64, u64))>,
    memory: MemoryCounters,
    /// The counts of each cache and of memory for the agent other than the user, if there is such an agent.
    of_agent: Vec<AgentCounters>,
    memory_of_agent: Option<AgentMemoryCounters>,
}

impl CountsOfLane {
    /// The counts of memory.
    pub(super) fn of_memory(memory: MemoryCounters, of_agent: Option<AgentMemoryCounters>) -> Self {
        Self { memory, memory_of_agent: of_agent, ..Self::default() }
    }

    /// Puts what a cache has counted of the agent other than the user.
    pub(super) fn put_agent(&mut self, cache: usize, counters: AgentCounters) {
        if self.of_agent.len() <= cache {
            self.of_agent.resize_with(cache + 1, Default::default);
        }
        self.of_agent[cache] = counters;
    }

    /// Puts the counts of a cache, its resident lines and the dirty lines among them.
    pub(super) fn put(&mut self, cache: usize, counters: CacheCounters, resident: (u64, u64)) {
        if self.caches.len() <= cache {
            self.caches.resize_with(cache + 1, Default::default);
        }
        self.caches[cache] = (counters, resident);
    }

    /// Adds accesses of a cache that were proved to be hits and to change nothing.
    pub fn add_hits(&mut self, cache: usize, kind: Kind, hits: u64) {
        self.caches[cache].0.add_hits(kind, hits);
    }
}

impl CountedCaches for CountsOfLane {
    fn counters(&self, cache: usize) -> &CacheCounters {
        &self.caches[cache].0
    }

    fn by_agent(&self, cache: usize) -> &[AgentCounters] {
        self.of_agent.get(cache).map_or(&[], std::slice::from_ref)
    }

    fn resident(&self, cache: usize) -> (u64, u64) {
        self.caches[cache].1
    }
}

impl Counted for CountsOfLane {
    fn memory_by_agent(&self) -> &[AgentMemoryCounters] {
        self.memory_of_agent.as_slice()
    }

    fn memory(&self) -> &MemoryCounters {
        &self.memory
    }
}
