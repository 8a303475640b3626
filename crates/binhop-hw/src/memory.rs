//! `Memory` stands behind the last caches. It counts requests, costs a fixed number of cycles, and may record requests.

use binhop_base::{Agent, Agents, Kind};

use crate::{
    AgentMemoryCounters, Level, MemoryCounters, TreeConfig, Witness,
    request::{Below, MEMORY, Request},
    witness::pass_on_lines,
};

/// `Memory` is memory of a fixed latency.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) counters: MemoryCounters,
    /// The agents that may be counted here, and the counts of each agent but the user.
    pub(crate) agents: Agents,
    pub(crate) by_agent: Box<[AgentMemoryCounters]>,
    pub(crate) cost: u64,
    /// Every request and its cycle, if they are recorded.
    pub(crate) tap: Option<Vec<(Request, u64)>>,
}

impl Memory {
    /// Makes the memory of a tree.
    pub(crate) fn new(config: &TreeConfig) -> Self {
        let agents = config.agents;
        Self {
            counters: MemoryCounters::default(),
            agents,
            by_agent: agents.others().map(|_| AgentMemoryCounters::default()).collect(),
            cost: config.memory_cost,
            tap: None,
        }
    }

    /// Counts a request.
    #[inline]
    pub(crate) fn count(&mut self, agent: Agent, kind: Kind) {
        if agent == Agent::User {
            let MemoryCounters { accesses } = &mut self.counters;
            accesses[kind] += 1;
        } else {
            let place = self.agents.place(agent).expect("the tree lists every agent that makes accesses");
            self.by_agent[place].accesses[kind] += 1;
        }
    }
}

impl Witness for Memory {}

impl Below for Memory {
    #[inline]
    fn request(&mut self, request: Request, now: u64) -> u64 {
        debug_assert_eq!(request.to, MEMORY);
        self.count(request.origin.agent(), request.kind);
        if let Some(tap) = &mut self.tap {
            tap.push((request, now));
        }
        if request.kind.is_demand() { self.cost } else { 0 }
    }
}

/// `WitnessedMemory` is memory with a witness that is told what happens before it.
pub(crate) struct WitnessedMemory<'a, W> {
    pub(crate) memory: &'a mut Memory,
    pub(crate) witness: &'a mut W,
}

impl<W: Witness> Witness for WitnessedMemory<'_, W> {
    fn served(&mut self, by: Level) {
        self.witness.served(by);
    }

    pass_on_lines!();
}

impl<W: Witness> Below for WitnessedMemory<'_, W> {
    fn request(&mut self, request: Request, now: u64) -> u64 {
        if request.kind.is_demand() || request.kind == Kind::Write {
            self.witness.served(Level::Memory);
        }
        self.memory.request(request, now)
    }
}
