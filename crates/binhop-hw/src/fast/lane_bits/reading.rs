//! This part of [`LaneBits`] returns what lanes have counted and what they hold, from level 1 and from each back.

use binhop_base::{Agents, Kind};

use super::{BackCache, CountsOfLane, FrontCache, LaneBits, LinesOfLanes, Served};
use crate::{
    AgentCounters, AgentMemoryCounters, CacheCounters, MemoryCounters, Resident, Tree, cache::Cache,
};

impl LaneBits {
    /// Returns the tree of a back, by the back's place among the backs that are simulated here.
    pub(crate) fn tree(&self, back: usize) -> &Tree {
        &self.backs[back].tree
    }

    /// Returns the numbers of the caches of a back in their tree.
    pub(crate) fn caches(&self, back: usize) -> impl Iterator<Item = usize> {
        self.backs[back].levels.iter().map(|level| level.cache.number)
    }

    /// Gives an empty cache the contents and counts that the cache of a back with this number has in one lane.
    pub(crate) fn restore(&self, lane: usize, back: usize, number: usize, cache: &mut Cache) {
        let chain = &self.backs[back];
        let agent_asks = chain.agent_asks && chain.levels[0].cache.number == number;
        chain.cache(number).restore(lane, agent_asks, cache);
    }

    /// Returns the numbers of the caches of level 1 in their tree.
    pub(crate) fn front_caches(&self) -> impl Iterator<Item = usize> {
        self.fronts.iter().map(|front| front.number)
    }

    /// Gives an empty cache the contents and counts that the cache of level 1 with this number has in one lane.
    pub(crate) fn restore_front(&self, lane: usize, number: usize, cache: &mut Cache) {
        self.front(number).restore(lane, &self.frames, cache);
    }

    fn front(&self, number: usize) -> &FrontCache {
        let front = self.fronts.iter().find(|front| front.number == number);
        front.expect("the cache belongs to level 1")
    }

    /// Returns the user's demand misses of a cache of level 1 in one lane.
    ///
    /// # Panics
    /// The cache is no cache of level 1.
    #[must_use]
    pub fn front_misses(&self, lane: usize, cache: usize) -> u64 {
        self.front(cache).demand_misses(lane)[0]
    }

    /// Returns the user's demand misses of a cache of a back in one lane. `back` is its place among the backs that are
    /// simulated here.
    ///
    /// # Panics
    /// The cache does not belong to the back.
    #[must_use]
    pub fn back_misses(&self, lane: usize, back: usize, cache: usize) -> u64 {
        self.backs[back].cache(cache).demand_misses(lane)[0]
    }

    /// Fills `at_marks` with the demand misses of a cache of level 1 in one lane up to each mark that was passed:
    /// those of the user, and those of the other agent if its misses count in MPI. No access waits.
    ///
    /// # Panics
    /// The cache is no cache of level 1. `at_marks` has more or fewer places than marks were passed.
    pub fn front_misses_at_marks(&self, lane: usize, cache: usize, at_marks: &mut [u64]) {
        debug_assert_eq!(
            self.waiting.len(),
            0,
            "the accesses before a mark are made before its counts are read"
        );
        self.front(cache).misses_at_marks(lane, at_marks);
    }

    /// Fills `at_marks` for a cache of a back as [`LaneBits::front_misses_at_marks`] does for a cache of level 1.
    ///
    /// # Panics
    /// The cache does not belong to the back. `at_marks` has more or fewer places than marks were passed.
    pub fn back_misses_at_marks(&self, lane: usize, back: usize, cache: usize, at_marks: &mut [u64]) {
        debug_assert_eq!(
            self.waiting.len(),
            0,
            "the accesses before a mark are made before its counts are read"
        );
        self.backs[back].cache(cache).misses_at_marks(lane, at_marks);
    }

    /// Returns what a cache of level 1 has counted in one lane.
    ///
    /// # Panics
    /// The cache is no cache of level 1.
    #[must_use]
    pub fn front_counters(&self, lane: usize, cache: usize) -> CacheCounters {
        self.front(cache).counters(lane)
    }

    /// Returns what a cache of level 1 has counted of the agent other than the user in one lane.
    ///
    /// # Panics
    /// The cache is no cache of level 1.
    #[must_use]
    pub fn front_counters_of_agent(&self, lane: usize, cache: usize) -> AgentCounters {
        self.front(cache).counters_of_agent(lane)
    }

    /// Returns what a cache of a back has counted of the agent other than the user in one lane.
    ///
    /// # Panics
    /// The cache does not belong to the back.
    #[must_use]
    pub fn back_counters_of_agent(&self, lane: usize, back: usize, cache: usize) -> AgentCounters {
        self.backs[back].counters_of_agent(lane, cache)
    }

    /// Returns what the memory of a back has counted of the agent other than the user in one lane.
    #[must_use]
    pub fn memory_of_agent(&self, lane: usize, back: usize) -> AgentMemoryCounters {
        self.backs[back].memory_of_agent(lane)
    }

    /// Returns the accesses of a kind that the user made after walks in one lane, by the level that served them: level
    /// 1, a cache behind, or memory. There is one back.
    #[must_use]
    pub fn served(&self, lane: usize, kind: Kind) -> [u64; 3] {
        let Served { all, behind, memory } = &self.served[kind as usize];
        let (behind, memory) = (behind.get(lane), memory.get(lane));
        [all - behind - memory, behind, memory]
    }

    /// Returns the cycles that the processor waited for what the agent other than the user fetched and loaded from a
    /// back, in one lane.
    #[must_use]
    pub fn waited_for_agent(&self, lane: usize, back: usize) -> [u64; 2] {
        let [_, fetches, loads] = self.backs[back].waited(lane);
        [fetches, loads]
    }

    /// Returns whether an agent other than the user makes accesses.
    fn has_agent(&self) -> bool {
        self.backs.iter().any(|back| back.tree.config().agents != Agents::USER)
    }

    /// Returns for each lane what level 1 has counted, and how many lines it holds.
    #[must_use]
    pub fn fronts(&self) -> Vec<CountsOfLane> {
        let resident: Vec<LinesOfLanes> = self.fronts.iter().map(FrontCache::resident).collect();
        let counts = |lane| {
            let mut counts = CountsOfLane::default();
            for (front, resident) in self.fronts.iter().zip(&resident) {
                counts.put(front.number, front.counters(lane), resident.of_lane(lane));
                if self.has_agent() {
                    counts.put_agent(front.number, front.counters_of_agent(lane));
                }
            }
            counts
        };
        (0..self.lanes()).map(counts).collect()
    }

    /// Returns for each lane what a back and its memory have counted, and how many lines the back's caches hold, by the
    /// back's place among the backs that are simulated here.
    #[must_use]
    pub fn backs(&self, back: usize) -> Vec<CountsOfLane> {
        let caches = || self.backs[back].levels.iter().map(|level| &level.cache);
        let resident: Vec<LinesOfLanes> = caches().map(BackCache::resident).collect();
        let counts = |lane| {
            let of_agent = self.has_agent().then(|| self.memory_of_agent(lane, back));
            let mut counts = CountsOfLane::of_memory(self.memory(lane, back), of_agent);
            for (cache, resident) in caches().zip(&resident) {
                counts.put(cache.number, cache.counters(lane), resident.of_lane(lane));
                if self.has_agent() {
                    counts.put_agent(cache.number, self.back_counters_of_agent(lane, back, cache.number));
                }
            }
            counts
        };
        (0..self.lanes()).map(counts).collect()
    }

    /// Returns whether level 1 is simulated here; false behind a shared front.
    #[must_use]
    pub fn has_fronts(&self) -> bool {
        !self.fronts.is_empty()
    }

    fn lanes(&self) -> usize {
        self.all.count_ones() as usize
    }

    /// Returns what a cache of a back has counted in one lane.
    ///
    /// # Panics
    /// The cache does not belong to the back.
    #[must_use]
    pub fn back_counters(&self, lane: usize, back: usize, cache: usize) -> CacheCounters {
        self.backs[back].cache(cache).counters(lane)
    }

    /// Returns what the memory of a back has counted in one lane.
    #[must_use]
    pub fn memory(&self, lane: usize, back: usize) -> MemoryCounters {
        let MemoryCounters { mut accesses } = self.backs[back].memory(lane);
        accesses[Kind::System] += self.fronts.iter().map(|front| front.purged_dirty(lane)).sum::<u64>();
        MemoryCounters { accesses }
    }

    /// Returns the cycles that the processor waited for a back in one lane.
    #[must_use]
    pub fn waited(&self, lane: usize, back: usize) -> u64 {
        self.backs[back].waited(lane).iter().sum()
    }

    /// Returns the lines that a cache of level 1 holds in one lane, in no particular order.
    #[must_use]
    pub fn front_contents(&self, lane: usize, cache: usize) -> Vec<Resident> {
        let mut lines = Vec::new();
        for front in self.fronts.iter().filter(|front| front.number == cache) {
            front.each(lane, |line| lines.push(line));
        }
        lines
    }

    /// Returns the lines that a cache of a back holds in one lane, in no particular order.
    ///
    /// # Panics
    /// The cache does not belong to the back.
    #[must_use]
    pub fn back_contents(&self, lane: usize, back: usize, cache: usize) -> Vec<Resident> {
        let mut lines = Vec::new();
        self.backs[back].cache(cache).each(lane, |line| lines.push(line));
        lines
    }
}
