//! This part of a back reads every counter at a mark.

use std::borrow::Cow;

use binhop_base::{Agent, Agents, Kind, Result};
use binhop_hw::{
    AgentCounters, AgentMemoryCounters, CacheCounters, Counted, CountedCaches, LaneBits, MemoryCounters, Tree,
};

use super::{BackKind, BackModel, Common};
use crate::prepare::Mark;
use crate::results::meter::OF_STREAM;
use crate::results::tally::{ByAgent, Tally, add_dropped, misses_in_mpi};
use crate::run::passed_mark::PassedMark;

/// A lane that leads other lanes has caches of its own.
const NEVER_LED: &str = "the leading lane is not led";

impl BackModel {
    /// Passes a mark. The meter reads the counts that tables report of the time between marks. Where a phase
    /// ends, every counter is kept.
    pub(crate) fn mark(&mut self, mark: Mark, common: &Common<'_>) -> Result<()> {
        let Self { tree, kind_of_back, account, .. } = self;
        let kind_of_back = match kind_of_back {
            BackKind::Led(place) => &common.leading_back(*place).kind_of_back,
            own => own,
        };
        let meter = account.meter();
        let now = meter.now();
        now[0] = common.stream.instructions;
        now[1] = common.stream.references;
        for (cache, misses) in now[OF_STREAM..].iter_mut().enumerate() {
            *misses = match (tree.in_front(cache), kind_of_back) {
                (true, _) => common.misses_in_front(cache),
                (false, BackKind::Own { back, .. }) => back.counters(cache).misses.demand(),
                (false, BackKind::Stacked { stack, ways }) => common.stacks[*stack].demand_misses(*ways),
                (false, BackKind::Bits(back)) => {
                    let (bits, lane) = common.of_bits();
                    bits.back_misses(lane, *back, cache)
                }
                (false, BackKind::Led(_)) => unreachable!("{NEVER_LED}"),
            };
        }
        if tree.config().agents != Agents::USER {
            add_agents(&mut now[OF_STREAM..], tree, kind_of_back, common);
        }
        meter.mark(mark)?;
        if matches!(mark, Mark::Measured | Mark::End) {
            let with_caches = match self.kind_of_back {
                BackKind::Led(place) => common.leading_back(place),
                _ => self,
            };
            let tally = with_caches.tally_at(common);
            self.account.end_phase(mark, tally);
        }
        Ok(())
    }

    /// Passes marks between processes or intervals. The bits have counted the demand misses up to each of them in a
    /// lane whose back they simulate.
    pub(crate) fn pass_marks(
        &mut self,
        marks: &[PassedMark],
        (bits, lane): (&LaneBits, usize),
        room: &mut Vec<u64>,
    ) -> Result<()> {
        let Self { tree, kind_of_back, account, .. } = self;
        let BackKind::Bits(back) = *kind_of_back else { unreachable!("the bits simulate every back") };
        room.clear();
        room.resize(tree.config().caches.len() * marks.len(), 0);
        for (cache, misses) in room.chunks_mut(marks.len()).enumerate() {
            match tree.in_front(cache) {
                true if bits.has_fronts() => bits.front_misses_at_marks(lane, cache, misses),
                true => {
                    let in_front = marks.iter().map(|mark| mark.misses_in_front(tree.config().agents, cache));
                    misses.iter_mut().zip(in_front).for_each(|(misses, in_front)| *misses = in_front);
                }
                false => bits.back_misses_at_marks(lane, back, cache, misses),
            }
        }
        let meter = account.meter();
        for (number, PassedMark { mark, stream, .. }) in marks.iter().enumerate() {
            let now = meter.now();
            (now[0], now[1]) = (stream.instructions, stream.references);
            for (now, misses) in now[OF_STREAM..].iter_mut().zip(room.chunks(marks.len())) {
                *now = misses[number];
            }
            meter.mark(*mark)?;
        }
        Ok(())
    }

    fn tally_at(&self, common: &Common<'_>) -> Tally {
        match &self.kind_of_back {
            BackKind::Own { back, waited } => {
                let mut tally = self.tally(common, &|cache| *back.counters(cache), back.memory(), *waited);
                let of_agents = |cache| back.by_agent(cache).into();
                tally.agents = self.tally_of_agents(common, &of_agents, back.memory_by_agent());
                tally
            }
            BackKind::Stacked { stack, ways } => {
                let member = common.stacks[*stack].member(*ways, &self.tree);
                self.tally(common, &|cache| *member.counters(cache), member.memory(), member.waited())
            }
            BackKind::Bits(back) => {
                let (bits, lane) = common.of_bits();
                let behind = |cache| bits.back_counters(lane, *back, cache);
                let mut tally =
                    self.tally(common, &behind, &bits.memory(lane, *back), bits.waited(lane, *back));
                let of_agent = |cache| vec![bits.back_counters_of_agent(lane, *back, cache)].into();
                tally.agents = self.tally_of_agents(common, &of_agent, &[bits.memory_of_agent(lane, *back)]);
                tally
            }
            BackKind::Led(_) => unreachable!("{NEVER_LED}"),
        }
    }

    /// Returns everything counted so far, without the counts of agents other than the user. `behind` returns what a
    /// cache behind the front has counted.
    fn tally(
        &self,
        common: &Common<'_>,
        behind: &dyn Fn(usize) -> CacheCounters,
        memory: &MemoryCounters,
        waited: u64,
    ) -> Tally {
        let config = self.tree.config();
        let mut tally = Tally::zero(config.caches.len());
        for cache in 0..config.caches.len() {
            let in_front = self.tree.in_front(cache);
            tally.caches[cache] = if in_front { common.counters_in_front(cache) } else { behind(cache) };
        }
        // The counters of a shared front hold the skipped hits already. The counters of a lane's own front, in bits or
        // not, do not.
        if common.shared.is_none() {
            add_dropped(&mut tally.caches, common.stream, config.fetch, config.data);
        }
        tally.memory = *memory;
        tally.faults = common.faults;
        tally.evictions = common.evictions;
        tally.runs = common.runs;
        tally.waited = common.waited + waited;
        tally.stream = common.stream;
        tally.translation = common.translation.map(|own| own + common.stream.translation);
        tally.at_misses = common.at_misses;
        tally.sweeps = common.sweeps;
        tally.synonyms = self.synonyms.count;
        tally
    }

    /// Returns what agents other than the user have counted so far. `behind` returns what a cache behind the front has
    /// counted of each.
    fn tally_of_agents<'a>(
        &self,
        common: &Common<'_>,
        behind: &dyn Fn(usize) -> Cow<'a, [AgentCounters]>,
        memory: &[AgentMemoryCounters],
    ) -> ByAgent {
        let config = self.tree.config();
        if config.agents == Agents::USER {
            return ByAgent::default();
        }
        let of = |cache: usize| match self.tree.in_front(cache) {
            true => common.of_agents_in_front(cache),
            false => behind(cache),
        };
        let mut caches: Vec<_> = (0..config.caches.len()).map(of).collect();
        for (cache, kind, hits) in [
            (config.fetch, Kind::Fetch, common.stream.dropped_of_walks[0]),
            (config.data, Kind::Load, common.stream.dropped_of_walks[1]),
        ] {
            if hits > 0 {
                let of_walks = |agent| matches!(agent, Agent::Handler | Agent::Walk);
                let place = config.agents.others().position(of_walks).expect("some agent has walked");
                let own = &mut caches[cache].to_mut()[place];
                own.accesses[kind] += hits;
                own.asked[kind] += hits;
            }
        }
        ByAgent::of(config.agents, caches.iter().map(|counts| &**counts), memory)
    }
}

/// Adds the demand misses of every agent, other than the user, whose misses count in MPI.
fn add_agents(misses: &mut [u64], tree: &Tree, kind_of_back: &BackKind, common: &Common<'_>) {
    for (cache, misses) in misses.iter_mut().enumerate() {
        let of_bits;
        let counts = match (tree.in_front(cache), kind_of_back) {
            (true, _) => {
                of_bits = common.of_agents_in_front(cache);
                &*of_bits
            }
            (false, BackKind::Own { back, .. }) => back.by_agent(cache),
            (false, BackKind::Bits(back)) => {
                let (bits, lane) = common.of_bits();
                of_bits = vec![bits.back_counters_of_agent(lane, *back, cache)].into();
                &*of_bits
            }
            (false, BackKind::Stacked { .. }) => unreachable!("stacks have no agent but the user"),
            (false, BackKind::Led(_)) => unreachable!("{NEVER_LED}"),
        };
        *misses += misses_in_mpi(tree.config().agents, counts);
    }
}
