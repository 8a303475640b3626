//! The two-levels path makes accesses one by one through two direct-mapped levels, by code for such levels alone.
//!
//! It serves callers that need the answer of each access before they make the next access. It makes accesses of
//! every agent, and tells a witness what the general path tells. Each level looks at one word. There is no inclusive
//! cache, no buffer and no store that is passed down, so a line that is evicted changes nothing in the level above, and
//! the victim may leave its set before its line is written back.

use binhop_base::{Agent, Kind, LineAddr, Translation};

use crate::{
    Answer, Level, MissedLine, RemovalCause, RemovedLine, Witness,
    cache::{Cache, access::cache, lines::Word},
    memory::Memory,
};

/// `TwoLevels` are the caches of a tree that allows [`FastPath::TwoLevels`](crate::FastPath::TwoLevels).
#[derive(Debug)]
pub struct TwoLevels<'a> {
    pub(crate) front: &'a mut [Option<Cache>],
    pub(crate) back: &'a mut [Option<Cache>],
    pub(crate) memory: &'a mut Memory,
    /// The caches that the processor asks for instructions and for data.
    pub(crate) serving: [usize; 2],
    pub(crate) add_costs: bool,
    /// The cycles since the start. The caller adds the cycles of its instructions.
    pub now: u64,
}

/// `Asked` is what all steps of an access have in common.
struct Asked<'a, T, W> {
    agent: Agent,
    translation: &'a T,
    witness: &'a mut W,
}

impl TwoLevels<'_> {
    /// Returns the cache that the processor asks for accesses of a kind.
    #[inline]
    fn first(&self, kind: Kind) -> usize {
        self.serving[usize::from(kind != Kind::Fetch)]
    }

    /// Returns whether level 1 holds a line that the processor may ask for, named as in
    /// [`Computer::access`](crate::Computer::access). Nothing changes, and nothing is counted.
    #[must_use]
    #[inline]
    pub fn holds<T: Translation>(&self, kind: Kind, at: LineAddr, translation: &T) -> bool {
        let first = self.front[self.first(kind)].as_ref().expect("the front has the caches that serve");
        first.holds(at, translation)
    }

    /// Returns whether the last level holds a line, which is named as in [`TwoLevels::holds`]. Nothing changes, and
    /// nothing is counted.
    #[must_use]
    #[inline]
    pub fn holds_behind<T: Translation>(&self, kind: Kind, at: LineAddr, translation: &T) -> bool {
        let first = self.front[self.first(kind)].as_ref().expect("the front has the caches that serve");
        let behind = first.name_behind(first.place_of_mapping(at, translation).key, translation);
        let last = self.back[usize::from(first.next)].as_ref().expect("level 1 asks the last level");
        last.holds_requested(behind, translation)
    }

    /// Does what [`Computer::access`](crate::Computer::access) does.
    #[inline]
    pub fn access<T: Translation, W: Witness>(
        &mut self,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &T,
        witness: &mut W,
    ) -> Answer {
        let number = self.first(kind);
        let first = cache(self.front, number);
        first.count_access(agent, kind);
        if agent != Agent::User {
            first.of(agent).asked[kind] += 1;
        }
        let (place, store) = (first.place_of_mapping(at, translation), kind == Kind::Store);
        if let Some(newly_dirty) = first.lines.touch_hot(place.set, place.key, store) {
            first.counters.dirtied += u64::from(newly_dirty);
            return Answer { cycles: 0, served: Level::Cache(number) };
        }
        first.count_miss(agent, kind, place.key, translation);
        first.counters.fills += 1;
        first.counters.dirtied += u64::from(store);
        first.count_sent(agent, kind);
        let victim = first.lines.put_hot(place.set, Word::new(place.key, store));
        let (evict_first, last) = (first.evict_first, first.next);
        let (behind, line) = (first.name_behind(place.key, translation), first.line_of(place.key));
        let mut asked = Asked { agent, translation, witness };
        asked.witness.missed(MissedLine { cache: number, at: line, kind });
        if let (true, Some(victim)) = (evict_first, victim) {
            self.evict(number, victim, &mut asked);
        }
        let answer = self.read(usize::from(last), kind, behind, &mut asked);
        asked.witness.filled(number, line);
        if let (false, Some(victim)) = (evict_first, victim) {
            self.evict(number, victim, &mut asked);
        }
        if agent.is_waited_for() {
            self.now += answer.cycles;
        }
        answer
    }

    /// Evicts a line of level 1 that has left its set.
    #[inline]
    fn evict<T: Translation, W: Witness>(
        &mut self,
        number: usize,
        victim: Word,
        asked: &mut Asked<'_, T, W>,
    ) {
        let first = cache(self.front, number);
        first.counters.evictions += 1;
        let at = first.line_of(victim.key());
        let dirty = victim.dirty();
        asked.witness.removed(RemovedLine { cache: number, at, dirty, cause: RemovalCause::Evicted });
        if dirty {
            first.counters.evictions_dirty += 1;
            first.count_sent(asked.agent, Kind::Writeback);
            let (at, data) = (first.name_behind(victim.key(), asked.translation), first.line_log2);
            let last = usize::from(first.next);
            self.write_back(last, at, data, asked);
        }
    }

    /// Reads a line from the last level.
    #[inline]
    fn read<T: Translation, W: Witness>(
        &mut self,
        number: usize,
        kind: Kind,
        at: LineAddr,
        asked: &mut Asked<'_, T, W>,
    ) -> Answer {
        let last = cache(self.back, number);
        last.count_access(asked.agent, kind);
        let place = last.place_of_request(at, asked.translation);
        if last.lines.touch_hot(place.set, place.key, false).is_some() {
            asked.witness.served(Level::Cache(number));
            return Answer { cycles: last.cost, served: Level::Cache(number) };
        }
        last.count_miss(asked.agent, kind, place.key, asked.translation);
        let line = MissedLine { cache: number, at: last.line_of(place.key), kind };
        let passed = if self.add_costs { last.cost } else { 0 };
        asked.witness.missed(line);
        self.bring_in(number, Word::new(place.key, false), place.set, Some(kind), asked);
        Answer { cycles: self.memory.cost + passed, served: Level::Memory }
    }

    /// Writes a line of level 1 of 2^`data` bytes back to the last level.
    #[inline]
    fn write_back<T: Translation, W: Witness>(
        &mut self,
        number: usize,
        at: LineAddr,
        data: u32,
        asked: &mut Asked<'_, T, W>,
    ) {
        let last = cache(self.back, number);
        last.count_access(asked.agent, Kind::Writeback);
        let place = last.place_of_request(at, asked.translation);
        if let Some(newly_dirty) = last.lines.touch_hot(place.set, place.key, true) {
            last.counters.dirtied += u64::from(newly_dirty);
            return;
        }
        last.count_miss(asked.agent, Kind::Writeback, place.key, asked.translation);
        let rest = (data != last.line_log2).then_some(Kind::Fill);
        self.bring_in(number, Word::new(place.key, true), place.set, rest, asked);
    }

    /// Brings a line into the last level, and reads it from memory as `read`.
    #[inline]
    fn bring_in<T: Translation, W: Witness>(
        &mut self,
        number: usize,
        line: Word,
        set: usize,
        read: Option<Kind>,
        asked: &mut Asked<'_, T, W>,
    ) {
        let last = cache(self.back, number);
        last.counters.fills += 1;
        last.counters.dirtied += u64::from(line.dirty());
        let victim = last.lines.put_hot(set, line);
        if let (true, Some(victim)) = (last.evict_first, victim) {
            Self::evict_last(number, last, victim, self.memory, asked);
        }
        if let Some(kind) = read {
            last.count_sent(asked.agent, kind);
            self.memory.count(asked.agent, kind);
            if kind.is_demand() {
                asked.witness.served(Level::Memory);
            }
        }
        asked.witness.filled(number, last.line_of(line.key()));
        if let (false, Some(victim)) = (last.evict_first, victim) {
            Self::evict_last(number, last, victim, self.memory, asked);
        }
    }

    /// Evicts a line of the last level that has left its set.
    #[inline]
    fn evict_last<T: Translation, W: Witness>(
        number: usize,
        last: &mut Cache,
        victim: Word,
        memory: &mut Memory,
        asked: &mut Asked<'_, T, W>,
    ) {
        last.counters.evictions += 1;
        let (at, dirty) = (last.line_of(victim.key()), victim.dirty());
        asked.witness.removed(RemovedLine { cache: number, at, dirty, cause: RemovalCause::Evicted });
        if dirty {
            last.counters.evictions_dirty += 1;
            last.count_sent(asked.agent, Kind::Writeback);
            memory.count(asked.agent, Kind::Writeback);
        }
    }
}
