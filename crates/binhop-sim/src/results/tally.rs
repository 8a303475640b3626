//! Everything a lane counts, and how much of it in a phase.

use binhop_base::{Agent, Agents, Kind};
use binhop_hw::{AgentCounters, AgentMemoryCounters, CacheCounters, Front, MemoryCounters};

use crate::prepare::Stream;

/// The counts of a lane in a phase, or up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) stream: Stream,
    pub(crate) caches: Vec<CacheCounters>,
    pub(crate) memory: MemoryCounters,
    pub(crate) agents: ByAgent,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    /// Cycles beyond one per instruction.
    pub(crate) waited: u64,
}

/// The counts of agents other than the user. Nothing is kept for a machine that has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByAgent {
    agents: Agents,
    /// Cache by cache, for each agent; empty before anything is counted.
    caches: Vec<AgentCounters>,
    /// For each agent.
    memory: Vec<AgentMemoryCounters>,
}

impl ByAgent {
    /// `caches`: what each cache of the tree has counted, in order.
    pub(crate) fn of<'a>(
        agents: Agents,
        caches: impl Iterator<Item = &'a [AgentCounters]>,
        memory: &[AgentMemoryCounters],
    ) -> Self {
        Self { agents, caches: caches.flatten().copied().collect(), memory: memory.to_vec() }
    }

    fn since(&self, earlier: &Self) -> Self {
        if earlier.memory.is_empty() {
            return self.clone();
        }
        let caches = self.caches.iter().zip(&earlier.caches).map(|(now, then)| *now - *then);
        let memory = self.memory.iter().zip(&earlier.memory).map(|(now, then)| *now - *then);
        Self { agents: self.agents, caches: caches.collect(), memory: memory.collect() }
    }

    /// Returns what a cache has counted of each agent.
    pub(crate) fn at(&self, cache: usize) -> impl Iterator<Item = (Agent, &AgentCounters)> {
        let counted = self.caches.chunks(self.memory.len().max(1)).nth(cache).unwrap_or_default();
        self.agents.others().zip(counted)
    }

    /// Returns what memory has counted of each agent.
    pub(crate) fn at_memory(&self) -> impl Iterator<Item = (Agent, &AgentMemoryCounters)> {
        self.agents.others().zip(&self.memory)
    }
}

impl Tally {
    /// The misses of a cache that count in MPI: demand misses of the agents that execute instructions.
    pub(crate) fn demand_misses(&self, cache: usize) -> u64 {
        let others = self.agents.at(cache).filter(|(agent, _)| agent.counts_in_mpi());
        self.caches[cache].misses.demand() + others.map(|(_, counts)| counts.misses.demand()).sum::<u64>()
    }

    /// The accesses to memory that count in MPI.
    pub(crate) fn demand_at_memory(&self) -> u64 {
        let others = self.agents.at_memory().filter(|(agent, _)| agent.counts_in_mpi());
        self.memory.accesses.demand() + others.map(|(_, counts)| counts.accesses.demand()).sum::<u64>()
    }

    pub(crate) fn zero(caches: usize) -> Self {
        Self {
            stream: Stream::default(),
            caches: vec![CacheCounters::default(); caches],
            memory: MemoryCounters::default(),
            agents: ByAgent::default(),
            faults: 0,
            evictions: 0,
            waited: 0,
        }
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            stream: self.stream - earlier.stream,
            caches: self.caches.iter().zip(&earlier.caches).map(|(now, then)| *now - *then).collect(),
            memory: self.memory - earlier.memory,
            agents: self.agents.since(&earlier.agents),
            faults: self.faults - earlier.faults,
            evictions: self.evictions - earlier.evictions,
            waited: self.waited - earlier.waited,
        }
    }
}

/// Adds the accesses that preparation proved to be hits to the first level's counters.
pub(crate) fn add_dropped(caches: &mut [CacheCounters], stream: Stream, fetch: usize, data: usize) {
    caches[fetch].accesses[Kind::Fetch] += stream.dropped[0];
    caches[data].accesses[Kind::Load] += stream.dropped[1];
    caches[data].accesses[Kind::Store] += stream.dropped[2];
}

/// Tells a front of the accesses that preparation proved to be hits, so that the invariants hold.
pub(crate) fn add_hits(front: &mut Front, stream: Stream, fetch: usize, data: usize) {
    front.add_hits(fetch, Kind::Fetch, stream.dropped[0]);
    front.add_hits(data, Kind::Load, stream.dropped[1]);
    front.add_hits(data, Kind::Store, stream.dropped[2]);
}
