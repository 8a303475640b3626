//! `Tally` holds every counter of a lane, for one phase or up to the end of the phase.

use binhop_base::{Agent, Agents, Kind};
use binhop_hw::{AgentCounters, AgentMemoryCounters, CacheCounters, Front, MemoryCounters};
use binhop_os::RunCounts;

use crate::prepare::StreamCounts;
use crate::softvm::{SoftvmCounts, SweepCounts};
use crate::translation::TranslationCounts;

/// `Tally` holds the counts of a lane in a phase, or up to the end of the phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) stream: StreamCounts,
    pub(crate) caches: Vec<CacheCounters>,
    pub(crate) memory: MemoryCounters,
    pub(crate) agents: ByAgent,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    /// The runs of huge pages.
    pub(crate) runs: RunCounts,
    /// The cycles beyond one per instruction, without those that the stream counts.
    pub(crate) waited: u64,
    /// The counts of translation, if addresses are translated.
    pub(crate) translation: Option<TranslationCounts>,
    /// The accesses that left two different copies in caches with virtual tags.
    pub(crate) synonyms: u64,
    /// The counts of the handlers that run when the last level misses, if software translates there.
    pub(crate) at_misses: Option<SoftvmCounts>,
    /// The lines that changes of protection checked and updated, if lines keep protection.
    pub(crate) sweeps: Option<SweepCounts>,
}

/// `ByAgent` holds the counts of agents other than the user. It is empty for a machine that has no such
/// agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByAgent {
    agents: Agents,
    /// The counters of each agent, cache by cache; empty before anything is counted.
    caches: Vec<AgentCounters>,
    /// The counters of memory for each agent.
    memory: Vec<AgentMemoryCounters>,
}

impl ByAgent {
    /// Makes a tally. `caches` holds what each cache of the tree has counted, in order.
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
    /// Returns the misses of a cache that count in MPI: the demand misses of the agents that execute
    /// instructions.
    pub(crate) fn demand_misses(&self, cache: usize) -> u64 {
        let others = self.agents.at(cache).filter(|(agent, _)| agent.counts_in_mpi());
        self.caches[cache].misses.demand() + others.map(|(_, counts)| counts.misses.demand()).sum::<u64>()
    }

    /// Returns the accesses to memory that count in MPI.
    pub(crate) fn demand_at_memory(&self) -> u64 {
        let others = self.agents.at_memory().filter(|(agent, _)| agent.counts_in_mpi());
        self.memory.accesses.demand() + others.map(|(_, counts)| counts.accesses.demand()).sum::<u64>()
    }

    pub(crate) fn zero(caches: usize) -> Self {
        Self {
            stream: StreamCounts::default(),
            caches: vec![CacheCounters::default(); caches],
            memory: MemoryCounters::default(),
            agents: ByAgent::default(),
            faults: 0,
            evictions: 0,
            runs: RunCounts::default(),
            waited: 0,
            translation: None,
            synonyms: 0,
            at_misses: None,
            sweeps: None,
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
            runs: RunCounts {
                taken: self.runs.taken - earlier.runs.taken,
                fallbacks: self.runs.fallbacks - earlier.runs.fallbacks,
                splits: self.runs.splits - earlier.runs.splits,
                ..self.runs
            },
            waited: self.waited - earlier.waited,
            translation: self.translation.map(|now| now - earlier.translation.unwrap_or_default()),
            synonyms: self.synonyms - earlier.synonyms,
            at_misses: self.at_misses.map(|now| now - earlier.at_misses.unwrap_or_default()),
            sweeps: self.sweeps.map(|now| now - earlier.sweeps.unwrap_or_default()),
        }
    }
}

/// Returns the demand misses of a cache that count in MPI, without the user's. `counts` are those of the other agents.
pub(crate) fn misses_in_mpi(agents: Agents, counts: &[AgentCounters]) -> u64 {
    let counted = agents.others().zip(counts).filter(|(agent, _)| agent.counts_in_mpi());
    counted.map(|(_, counts)| counts.misses.demand()).sum()
}

/// Adds the accesses that preparation has skipped to the first level's counters, as hits.
pub(crate) fn add_dropped(caches: &mut [CacheCounters], stream: StreamCounts, fetch: usize, data: usize) {
    caches[fetch].add_hits(Kind::Fetch, stream.dropped[0]);
    caches[data].add_hits(Kind::Load, stream.dropped[1]);
    caches[data].add_hits(Kind::Store, stream.dropped[2]);
}

/// Adds the accesses that preparation has skipped to a front, as hits, so that the invariants hold.
pub(crate) fn add_hits(front: &mut Front, stream: StreamCounts, fetch: usize, data: usize) {
    front.add_hits(fetch, Kind::Fetch, stream.dropped[0]);
    front.add_hits(data, Kind::Load, stream.dropped[1]);
    front.add_hits(data, Kind::Store, stream.dropped[2]);
}
