//! `PrivateCaches` simulates, beside the shared caches of a lane, caches for each life, as if each life ran on a
//! computer of its own (MB90 §3.2), and compares the two.
//!
//! # Rules
//! - A life's own computer sees the accesses of the life, and those that the kernel makes on its behalf, under the
//!   lane's frames. When a frame changes hands, the lines of its page leave every computer. Where the kernel flushes
//!   caches, they are flushed in every computer.
//! - A computer's clock moves on with the instructions and waits of its life alone.
//! - A page that several lives share is in the computer of each life that accessed it.
//! - Accesses that preparation skips hit in the private caches, too: filters know nothing of what was accessed
//!   before the last switch to another life.
//!
//! What is counted beside cycles and misses (see [`SwitchTally`]):
//! - A demand miss of a shared cache on a line that the private cache holds is *reordered* if the life's own
//!   accesses evicted the line last, and *replaced* if accesses of another life evicted it last.
//! - The lines *held* by a life are the lines that both the shared and its private cache hold when it leaves. A held
//!   line is *lost* if it is not in both caches when the life returns; a flushed line is lost, too. A lost line is
//!   *restored* if it comes back before the life leaves again, and the private cache has held it all the time: a line
//!   that the life's own accesses evict there would be missed without switches, too. A flushed line is never restored.
//! - A cache that may hold a line in two places cannot be followed, and is refused before the run.

mod evictors;
mod happenings;
mod holdings;
mod life;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use binhop_base::{Agent, Asid, Kind, LineAddr, MappingId, PageId, Problem, Result, Rng, Translation};
use binhop_hw::{Answer, Computer, Invalidation, Level, Tree};

use crate::frame_map::LaneTranslation;
use crate::prepare::{StreamCounts, Turn};
use crate::results::switches::{
    CauseOfSegment, MeasuredTotals, SegmentKey, Side, SideAccess, SwitchReadings, SwitchTally,
};
use crate::unit::{PrivateSide, SharedCaches};
use evictors::Evictors;
use happenings::{Happenings, Move};
use holdings::{HolderId, HoldingId, LineHoldings, LineMark};
pub(crate) use life::PrivateBytes;
use life::PrivateLife;

/// `PrivateCaches` holds the computers of all lives, and what is known of the difference to the shared caches.
pub(crate) struct PrivateCaches {
    tree: Tree,
    rng: Rng,
    /// The lives, and the places of lives that have ended.
    lives: Vec<PrivateLife>,
    places: BTreeMap<(Asid, u32), usize>,
    free: Vec<usize>,
    /// The place of the life that runs.
    running: usize,
    /// The instructions of the stream up to which the clock of the running life has come.
    instructions: u64,
    holdings: LineHoldings,
    /// For each cache, the last life whose accesses evicted each line; `None` for a cache that only the processor
    /// asks. There the marks of reordered lines suffice.
    evictors: Box<[Option<Evictors>]>,
    born: u32,
    /// The cycles on the clocks of the computers that were dropped.
    cycles_of_ended: u64,
    /// The cycles on all clocks when the measured part began.
    cycles_before: u64,
    /// Buffers for what happens in an access.
    in_shared: Happenings,
    in_private: Happenings,
    tally: SwitchTally,
}

impl PrivateCaches {
    pub(crate) fn new(tree: &Tree, seed: u64, tally: SwitchTally) -> Self {
        let mut caches = Self {
            tree: tree.clone(),
            rng: Rng::new(seed),
            lives: Vec::new(),
            places: BTreeMap::new(),
            free: Vec::new(),
            running: 0,
            instructions: 0,
            holdings: LineHoldings::new(tree),
            evictors: (0..tree.config().caches.len()).map(|cache| Evictors::of(tree, cache)).collect(),
            born: 0,
            cycles_of_ended: 0,
            cycles_before: 0,
            in_shared: Happenings::default(),
            in_private: Happenings::default(),
            tally,
        };
        caches.running = caches.place_of((Asid(0), 0));
        caches
    }

    /// Returns the place of a life, which is made if it is not known.
    fn place_of(&mut self, key: (Asid, u32)) -> usize {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let caches = self.evictors.len();
        self.born += 1;
        let life = PrivateLife {
            key,
            number: self.born,
            times_left: 0,
            computer: Some(Box::new(Computer::sparse(&self.tree, self.rng))),
            ended: false,
            left: None,
            held: vec![0; caches].into(),
            held_before: vec![0; caches].into(),
            lost: vec![0; caches].into(),
            has_run: false,
        };
        let place = self.free.pop().unwrap_or(self.lives.len());
        if place == self.lives.len() {
            self.lives.push(life);
        } else {
            self.lives[place] = life;
        }
        self.places.insert(key, place);
        place
    }

    /// Lets instructions pass on the clock of the running life, at one cycle each.
    #[inline]
    pub(crate) fn pass(&mut self, instructions: u64) {
        self.instructions += instructions;
        if let Some(computer) = &mut self.lives[self.running].computer {
            computer.now += instructions;
        }
    }

    /// Brings the clock of the running life to the stream's count of instructions.
    pub(crate) fn reach(&mut self, instructions: u64) {
        self.pass(instructions - self.instructions);
    }

    /// Makes an access in the shared caches and in those of the running life. Returns the answer of the shared
    /// caches.
    #[inline]
    pub(crate) fn access(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> Answer {
        if kind == Kind::Fetch && agent == Agent::User {
            self.tally.code_page(translation.page(MappingId(at.id)));
        }
        self.both(shared, agent, kind != Kind::Fetch, translation, |computer, witness| match computer {
            Either::Shared(shared) => shared.access(agent, kind, at, translation, witness),
            Either::Private(private) => private.access(agent, kind, at, translation, witness),
        })
    }

    #[inline(always)]
    fn both(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        data: bool,
        translation: &LaneTranslation<'_>,
        act: impl Fn(Either<'_, '_>, &mut Happenings) -> Answer,
    ) -> Answer {
        self.in_shared.clear();
        let answer = act(Either::Shared(shared), &mut self.in_shared);
        self.in_private.clear();
        let private = self.lives[self.running].computer.as_mut().expect("a life that runs has a computer");
        let own = act(Either::Private(private), &mut self.in_private);
        if !(self.in_shared.is_empty() && self.in_private.is_empty()) {
            // A life's first access misses, so a life that has accessed anything has passed here.
            self.lives[self.running].has_run |= !self.in_private.is_empty();
            if self.in_shared.did_the_same_as(&self.in_private) {
                self.follow_same(agent, translation);
            } else {
                self.follow_shared(agent, translation);
                self.follow_private(shared, agent, translation);
            }
        }
        if agent == Agent::User {
            let caches = self.evictors.len();
            let access = |answer: Answer, stalled| SideAccess {
                level: if let Level::Cache(cache) = answer.served { cache } else { caches },
                cycles: answer.cycles,
                stalled,
            };
            let sides = [access(answer, self.in_shared.stalled), access(own, self.in_private.stalled)];
            self.tally.access(data, sides);
        } else if agent.is_waited_for() {
            self.tally.kernel(Side::Shared, answer.cycles);
            self.tally.kernel(Side::Private, own.cycles);
        }
        answer
    }

    /// Follows an access that did the same in the shared caches and in those of the running life. The result is that of
    /// [`PrivateCaches::follow_shared`] and [`PrivateCaches::follow_private`]: a line that came is held, and without
    /// marks. A line that left was held, and loses its marks. Nothing is lost, restored, replaced or reordered. Most
    /// accesses that miss end here.
    #[inline(never)]
    fn follow_same(&mut self, agent: Agent, translation: &LaneTranslation<'_>) {
        let happenings = std::mem::take(&mut self.in_shared);
        if agent == Agent::User {
            for &(cache, _) in &happenings.missed {
                self.tally.missed(cache, Side::Shared);
                self.tally.missed(cache, Side::Private);
            }
        }
        for &(cache, at, how) in &happenings.moved {
            let holder = self.lives[self.running].holder(self.running);
            if let (Some(evictors), Move::Evicted) = (&mut self.evictors[cache], how) {
                evictors.note(at, holder.number);
            }
            let (mut own, mut next) = (None, self.holdings.first(cache, at));
            while let Some(holding) = next {
                next = self.holdings.next(holding);
                let of = self.holdings.holder(holding);
                if of.place != holder.place {
                    self.follow_shared_for(holding, of, cache, at, how, translation);
                } else if of.number == holder.number {
                    own = Some(holding);
                }
            }
            let life = &mut self.lives[self.running];
            match (how, own) {
                (Move::Filled, own) => {
                    life.held[cache] += 1;
                    if own.is_none() {
                        self.holdings.add(cache, at, holder);
                    }
                }
                (_, own) => {
                    life.held[cache] -= 1;
                    if let Some(own) = own {
                        self.holdings.unmark(own, cache, at.line);
                    }
                }
            }
        }
        self.in_shared = happenings;
    }

    /// Returns whether a life's private cache held a line before the access that `in_private` tells of.
    fn held_before(
        &self,
        place: usize,
        cache: usize,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> bool {
        let own = if place == self.running { self.in_private.held_before(cache, at) } else { None };
        own.unwrap_or_else(|| {
            let computer = self.lives[place].computer.as_deref();
            computer.is_some_and(|computer| computer.holds_line(cache, at, translation))
        })
    }

    /// Follows what an access did in the shared caches. `in_private` tells what the access did in the private caches.
    #[inline(never)]
    fn follow_shared(&mut self, agent: Agent, translation: &LaneTranslation<'_>) {
        let happenings = std::mem::take(&mut self.in_shared);
        let running = self.running;
        for &(cache, at) in &happenings.missed {
            if agent == Agent::User {
                self.tally.missed(cache, Side::Shared);
                if self.held_before(running, cache, at, translation) {
                    let life = &self.lives[running];
                    let reordered = match &self.evictors[cache] {
                        Some(evictors) => evictors.of_line(at) == life.number,
                        None => self.holdings.find(cache, at, life.holder(running)).is_some_and(|holding| {
                            self.holdings.has(holding, LineMark::Reordered, cache, at.line, life.times_left)
                        }),
                    };
                    self.tally.excess_miss(cache, reordered);
                }
            }
        }
        for &(cache, at, how) in &happenings.moved {
            if let (Some(evictors), Move::Evicted) = (&mut self.evictors[cache], how) {
                evictors.note(at, self.lives[running].number);
            }
            let mut next = self.holdings.first(cache, at);
            while let Some(holding) = next {
                next = self.holdings.next(holding);
                self.follow_shared_for(holding, self.holdings.holder(holding), cache, at, how, translation);
            }
        }
        self.in_shared = happenings;
    }

    /// Follows how a line moved in a shared cache, for the life of a holding.
    fn follow_shared_for(
        &mut self,
        holding: HoldingId,
        HolderId { place, number }: HolderId,
        cache: usize,
        at: LineAddr,
        how: Move,
        translation: &LaneTranslation<'_>,
    ) {
        let place = place as usize;
        if self.lives[place].number != number || !self.held_before(place, cache, at, translation) {
            return;
        }
        let away = place != self.running;
        let life = &mut self.lives[place];
        let times_left = life.times_left;
        let mut mark = |mark, to| self.holdings.set(holding, mark, cache, at.line, times_left, to);
        match how {
            Move::Filled => {
                life.held[cache] += 1;
                mark(LineMark::Reordered, false);
                let was_lost = mark(LineMark::Changed, false);
                if !away {
                    if was_lost {
                        self.tally.restored(cache);
                    }
                } else if was_lost {
                    life.lost[cache] -= 1;
                } else {
                    mark(LineMark::Changed, true);
                }
            }
            Move::Evicted => {
                life.held[cache] -= 1;
                let was_brought = mark(LineMark::Changed, false);
                if away && !was_brought {
                    mark(LineMark::Changed, true);
                    life.lost[cache] += 1;
                } else if !away && self.evictors[cache].is_none() {
                    mark(LineMark::Reordered, true);
                }
            }
            Move::Flushed => {
                life.held[cache] -= 1;
                let was_brought = mark(LineMark::Changed, false);
                life.lost[cache] += u64::from(away && !was_brought);
            }
        }
    }

    /// Follows what an access did in the private caches of the running life. The shared caches have made the access.
    #[inline(never)]
    fn follow_private(&mut self, shared: &SharedCaches<'_>, agent: Agent, translation: &LaneTranslation<'_>) {
        let happenings = std::mem::take(&mut self.in_private);
        if agent == Agent::User {
            happenings.missed.iter().for_each(|&(cache, _)| self.tally.missed(cache, Side::Private));
        }
        for &(cache, at, how) in &happenings.moved {
            let both = shared.holds_line(cache, at, translation);
            let life = &mut self.lives[self.running];
            let holder = life.holder(self.running);
            if how == Move::Filled {
                self.holdings.add(cache, at, holder);
                life.held[cache] += u64::from(both);
            } else {
                life.held[cache] -= u64::from(both);
                // Only a flush reaches the caches of a life that is away. A lost line that is flushed stays lost.
                if let Some(holding) = self.holdings.find(cache, at, holder) {
                    self.holdings.unmark(holding, cache, at.line);
                }
            }
        }
        self.in_private = happenings;
    }

    /// Removes lines from the shared caches and from those of every life.
    pub(crate) fn invalidate(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        what: &Invalidation<'_>,
        translation: &LaneTranslation<'_>,
    ) {
        self.in_shared.clear();
        self.in_private.clear();
        shared.invalidate(agent, what, translation, &mut self.in_shared);
        self.follow_shared(agent, translation);
        let running = self.running;
        for holder in self.holdings.holders(what.page, what.mappings) {
            self.running = holder.place as usize;
            self.in_private.clear();
            let Some(computer) = &mut self.lives[self.running].computer else { continue };
            computer.invalidate(agent, what, translation, &mut self.in_private);
            self.follow_private(shared, agent, translation);
        }
        self.running = running;
    }

    /// Flushes caches: those of the lane, and those of every life.
    pub(crate) fn flush(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        caches: &[usize],
        translation: &LaneTranslation<'_>,
    ) {
        self.in_shared.clear();
        self.in_private.clear();
        shared.flush(agent, caches, translation, &mut self.in_shared);
        self.follow_shared(agent, translation);
        let running = self.running;
        for place in 0..self.lives.len() {
            self.running = place;
            self.in_private.clear();
            let Some(computer) = &mut self.lives[place].computer else { continue };
            computer.flush(agent, caches, translation, &mut self.in_private);
            self.follow_private(shared, agent, translation);
        }
        self.running = running;
    }

    /// Removes the lines of a page whose frame changes hands.
    pub(crate) fn flush_page(
        &mut self,
        shared: &mut SharedCaches<'_>,
        page: PageId,
        mappings: &[MappingId],
        translation: &LaneTranslation<'_>,
    ) {
        let what = Invalidation::of_page(page, mappings, self.tree.config().page);
        self.invalidate(shared, Agent::User, &what, translation);
        self.holdings.clear(page, mappings);
    }

    /// Begins the turn of a process after so many instructions of the stream.
    pub(crate) fn turn(&mut self, turn: &Turn, instructions: u64) -> Result<()> {
        self.reach(instructions);
        let key = (turn.asid, turn.life);
        if key == self.lives[self.running].key {
            return Ok(());
        }
        let (cause, syscall) = (CauseOfSegment::of(turn.switch.cause), turn.switch.syscall);
        self.leave(instructions, cause, syscall)?;
        self.running = self.place_of(key);
        let life = &mut self.lives[self.running];
        let (cause, syscall) = life.left.unwrap_or((CauseOfSegment::Start, None));
        self.tally
            .begin_segment(SegmentKey { asid: turn.asid, life: turn.life, cause, syscall }, instructions);
        life.has_run = true;
        if life.left.is_some() {
            for (cache, (&held, &lost)) in life.held_before.iter().zip(&life.lost).enumerate() {
                self.tally.returned(cache, held, lost);
            }
        }
        Ok(())
    }

    /// Ends the segment of the running life.
    fn leave(&mut self, instructions: u64, cause: CauseOfSegment, syscall: Option<u64>) -> Result<()> {
        self.tally.end_segment(instructions, cause)?;
        let life = &mut self.lives[self.running];
        // The life in which a stream begins has run, if anything has run.
        life.has_run |= instructions > 0;
        life.left = life.has_run.then_some((cause, syscall));
        life.held_before.copy_from_slice(&life.held);
        life.times_left += 1;
        life.lost.fill(0);
        if life.ended {
            self.retire(self.running)?;
        }
        Ok(())
    }

    /// Notes that a life has ended.
    pub(crate) fn life_ended(&mut self, asid: Asid, life: u32) -> Result<()> {
        let Some(&place) = self.places.get(&(asid, life)) else { return Ok(()) };
        self.lives[place].ended = true;
        if place == self.running { Ok(()) } else { self.retire(place) }
    }

    /// Drops the computer of a life that has ended and left.
    fn retire(&mut self, place: usize) -> Result<()> {
        let life = &mut self.lives[place];
        if let Some(computer) = life.computer.take() {
            computer.check()?;
            self.cycles_of_ended += computer.now;
        }
        let (asid, number) = life.key;
        self.places.remove(&life.key);
        self.free.push(place);
        self.tally.end_life(asid, number)
    }

    /// Counts a switch to the life that runs.
    pub(crate) fn same_life(&mut self) {
        self.tally.same_life();
    }

    /// Passes the end of an interval after a switch.
    pub(crate) fn piece(&mut self, since: u64, instructions: u64) {
        self.reach(instructions);
        self.tally.piece(since, instructions);
    }

    /// Returns the cycles on the clocks of all computers.
    fn clocks(&self) -> u64 {
        let alive = self.lives.iter().filter_map(|life| life.computer.as_ref());
        self.cycles_of_ended + alive.map(|computer| computer.now).sum::<u64>()
    }

    /// Begins the measured part.
    pub(crate) fn measure(&mut self, instructions: u64) {
        self.reach(instructions);
        self.cycles_before = self.clocks();
        self.tally.measure(instructions);
    }

    /// Ends the last segment.
    pub(crate) fn end(&mut self, stream: &StreamCounts) -> Result<()> {
        self.reach(stream.instructions);
        let ended = self.lives[self.running].ended;
        let cause = if ended { CauseOfSegment::Exit } else { CauseOfSegment::End };
        self.tally.end_segment(stream.instructions, cause)
    }

    /// Returns what was counted in the measured part, which had so many instructions and waits.
    ///
    /// # Errors
    /// An invariant of the private caches is broken; sums are not the totals, or not what the clocks show.
    pub(crate) fn finish(self, instructions: u64, waited: u64, seed: u64) -> Result<SwitchReadings> {
        for life in &self.lives {
            if let Some(computer) = &life.computer {
                computer.check()?;
            }
        }
        // No line can leave the shared cache by the life's own accesses and stay in its private cache, where every
        // access of both goes through the cache, and each line has one place.
        let config = self.tree.config();
        let inclusive = config.caches.iter().any(|cache| cache.inclusive);
        let direct: Vec<usize> = (0..self.evictors.len())
            .filter(|&cache| config.caches[cache].ways == 1 && self.evictors[cache].is_none() && !inclusive)
            .collect();
        let cycles = [instructions + waited, self.clocks() - self.cycles_before];
        let readings = self.tally.finish(&MeasuredTotals { instructions, cycles }, seed)?;
        for cache in direct {
            let reordered = readings.reordered(cache)?;
            if reordered > 0 {
                return Err(Problem::run(
                    &format!("{reordered} reordered misses"),
                    &format!("seed {seed}: {}", self.tree.config().caches[cache].name),
                    "in a direct-mapped level 1 no line that a life's own accesses evict stays in its private cache",
                    "this is a defect of binhop: please report it with the command",
                ));
            }
        }
        Ok(readings)
    }

    /// Returns the computer of a life, for tests.
    #[cfg(test)]
    pub(crate) fn computer_of(&self, asid: Asid, life: u32) -> Option<&Computer> {
        self.lives[*self.places.get(&(asid, life))?].computer.as_deref()
    }
}

impl PrivateSide for PrivateCaches {
    fn access(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> Answer {
        self.access(shared, agent, kind, at, translation)
    }

    fn ask(
        &mut self,
        shared: &mut SharedCaches<'_>,
        cache: usize,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> Answer {
        self.both(shared, agent, kind != Kind::Fetch, translation, |computer, witness| match computer {
            Either::Shared(shared) => shared.ask(cache, agent, kind, at, translation, witness),
            Either::Private(private) => private.ask(cache, agent, kind, at, translation, witness),
        })
    }

    fn invalidate(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        what: &Invalidation<'_>,
        translation: &LaneTranslation<'_>,
    ) {
        self.invalidate(shared, agent, what, translation);
    }

    fn flush(
        &mut self,
        shared: &mut SharedCaches<'_>,
        agent: Agent,
        caches: &[usize],
        translation: &LaneTranslation<'_>,
    ) {
        self.flush(shared, agent, caches, translation);
    }

    fn wait(&mut self, cycles: u64) {
        if let Some(computer) = &mut self.lives[self.running].computer {
            computer.now += cycles;
        }
        self.tally.kernel(Side::Shared, cycles);
        self.tally.kernel(Side::Private, cycles);
    }
}

/// `Either` is one of the two computers that make an access.
enum Either<'a, 'b> {
    Shared(&'a mut SharedCaches<'b>),
    Private(&'a mut Computer),
}
