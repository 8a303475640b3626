//! `PrivateCaches` simulates, beside the shared caches of a lane, caches for each life, as if each life ran on a
//! computer of its own (MB90 §3.2), and compares the two.
//!
//! # Rules
//! - A life's own computer sees the accesses of the life, and those that the kernel makes on its behalf, under the
//!   lane's frames. When a frame changes hands, the lines of its page leave every computer.
//! - A computer's clock moves on with the instructions and waits of its life alone.
//! - A page that several lives share is in the computer of each life that accessed it.
//! - Accesses that preparation skips hit in the private caches, too: filters know nothing of what was accessed
//!   before the last switch to another life.
//!
//! What is counted beside cycles and misses (see [`SwitchTally`]):
//! - A demand miss of a shared cache on a line that the private cache holds is *reordered* if the life's own
//!   accesses evicted the line last, and *replaced* if accesses of another life evicted it last.
//! - The lines *held* by a life are the lines that both the shared and its private cache hold when it leaves. A
//!   held line is *lost* if it is not in both caches when the life returns; a flushed line is lost, too. A lost
//!   line is *restored* if it comes back before the life leaves again. A flushed line is never restored.
//! - A cache that may hold a line in two places cannot be followed, and is refused before the run.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use binhop_base::{Agent, Asid, Kind, LineAddr, MappingId, PageId, Problem, Result, Rng, Translation};
use binhop_hw::{
    Answer, CacheConfig, Computer, Invalidation, Level, MissedLine, Next, RemovalCause, RemovedLine, Tree,
    Witness,
};

use crate::frame_map::LaneTranslation;
use crate::prepare::{StreamCounts, Turn};
use crate::results::switches::{Access, CauseOfSegment, SegmentKey, Side, SwitchReadings, SwitchTally};
use crate::unit::{PrivateSide, SharedCaches};

/// `PrivateCaches` holds the computers of all lives, and what is known of the difference to the shared caches.
pub(crate) struct PrivateCaches {
    tree: Tree,
    rng: Rng,
    /// For each cache, true if it names lines by mapping.
    by_mapping: Box<[bool]>,
    /// The lives, and the places of lives that have ended.
    lives: Vec<PrivateLife>,
    places: BTreeMap<(Asid, u32), usize>,
    free: Vec<usize>,
    /// The place of the life that runs.
    running: usize,
    /// The instructions of the stream up to which the clock of the running life has come.
    instructions: u64,
    holders: Holders,
    /// For each cache, the last life whose accesses evicted each line; `None` for a cache that only the processor
    /// asks. There the sets of lines that are `reordered` suffice.
    evictors: Box<[Option<Evictors>]>,
    born: u32,
    /// Room for what happens in an access.
    in_shared: Happenings,
    in_private: Happenings,
    tally: SwitchTally,
}

/// `PrivateLife` is one life with its computer.
struct PrivateLife {
    key: (Asid, u32),
    /// The number of the life among all lives, from 1.
    number: u32,
    /// `None` once the life has ended and left.
    computer: Option<Box<Computer>>,
    ended: bool,
    /// Why the life has left; `None` if it has not run.
    left: Option<(CauseOfSegment, Option<u64>)>,
    /// For each cache, the lines that both the shared and the private cache hold, now and when the life left.
    held: Box<[u64]>,
    held_before: Box<[u64]>,
    /// The lines that the private caches hold and that the shared caches evicted: by accesses of this life (in caches
    /// without [`Evictors`]), and by accesses of other lives since this life left.
    reordered: LineSet,
    lost: LineSet,
    /// The lines that accesses of other lives have brought since this life left, and that it did not hold then.
    brought: LineSet,
    /// For each cache, the lines held when the life left that a flush has removed since.
    flushed: Box<[u64]>,
    /// True if the life has run.
    has_run: bool,
}

/// `LineSet` is a set of lines of all caches. Only membership is asked, so its order is in no result.
type LineSet = HashSet<LineOfCache, BuildHasherDefault<LineHasher>>;

/// `LineOfCache` is a line as one cache names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct LineOfCache(u64);

impl LineOfCache {
    fn new(cache: usize, at: LineAddr) -> Self {
        // A page has at most 2^24 lines.
        Self(u64::from(at.id) << 32 | (cache as u64) << 24 | u64::from(at.line))
    }

    fn cache(self) -> usize {
        (self.0 >> 24) as usize & 0xff
    }
}

/// `LineHasher` multiplies by an odd constant (2^64 divided by the golden ratio), and mixes the upper half in.
#[derive(Clone, Copy, Debug, Default)]
struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// `Happenings` are what a witness hears of one access.
#[derive(Debug, Default)]
struct Happenings {
    missed: Vec<(usize, LineAddr)>,
    /// The lines that came and went, in order.
    moved: Vec<(usize, LineAddr, Move)>,
    stalled: u64,
}

/// `Move` says how a line moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Filled,
    Evicted,
    Flushed,
}

impl Happenings {
    fn clear(&mut self) {
        self.missed.clear();
        self.moved.clear();
        self.stalled = 0;
    }
}

impl Witness for Happenings {
    #[inline]
    fn missed(&mut self, line: MissedLine) {
        self.missed.push((line.cache, line.at));
    }

    #[inline]
    fn filled(&mut self, cache: usize, at: LineAddr) {
        self.moved.push((cache, at, Move::Filled));
    }

    #[inline]
    fn removed(&mut self, line: RemovedLine) {
        let how = if line.cause == RemovalCause::Flushed { Move::Flushed } else { Move::Evicted };
        self.moved.push((line.cache, line.at, how));
    }

    #[inline]
    fn stalled(&mut self, cycles: u64) {
        self.stalled += cycles;
    }
}

/// `Evictors` knows the last life whose accesses evicted each line of a cache.
///
/// A cache behind another cache may lack a line that a private cache brings in, because the shared cache before it
/// still has the line. Then nothing but the last eviction tells why the shared cache lacks the line.
#[derive(Debug)]
struct Evictors {
    page_lines_log2: u32,
    /// For each line the number of a life; 0 if the line was never evicted.
    lives: Vec<u32>,
}

impl Evictors {
    fn of(tree: &Tree, cache: usize) -> Option<Self> {
        let config = tree.config();
        let asked = config.caches.iter().any(|above| above.next == Next::Cache(cache));
        let serves = cache == config.fetch || cache == config.data;
        let page_lines_log2 = config.page.log2() - config.caches[cache].line.log2();
        (asked || !serves).then(|| Self { page_lines_log2, lives: Vec::new() })
    }

    fn place(&self, at: LineAddr) -> usize {
        (at.id as usize) << self.page_lines_log2 | at.line as usize
    }

    fn of_line(&self, at: LineAddr) -> u32 {
        self.lives.get(self.place(at)).copied().unwrap_or(0)
    }

    fn note(&mut self, at: LineAddr, life: u32) {
        let place = self.place(at);
        if self.lives.len() <= place {
            self.lives.resize(((at.id as usize) + 1) << self.page_lines_log2, 0);
        }
        self.lives[place] = life;
    }
}

/// `Holders` knows for each page the lives whose computers may hold its lines. A place in the list of lives that
/// another life has taken over stays: nothing is wrong about asking a computer in vain.
#[derive(Debug, Default)]
struct Holders {
    /// For each page its holder plus one, 0 for none, or [`MANY`].
    first: Vec<u32>,
    many: BTreeMap<PageId, Vec<u32>>,
}

/// Several lives hold lines of a page.
const MANY: u32 = u32::MAX;

impl Holders {
    fn add(&mut self, page: PageId, life: usize) {
        if self.first.len() <= page.index() {
            self.first.resize(page.index() + 1, 0);
        }
        let (first, life) = (&mut self.first[page.index()], life as u32);
        if *first == 0 {
            *first = life + 1;
        } else if *first == MANY {
            let all = self.many.get_mut(&page).expect("pages with several holders are in the map");
            if !all.contains(&life) {
                all.push(life);
            }
        } else if *first != life + 1 {
            self.many.insert(page, vec![*first - 1, life]);
            *first = MANY;
        }
    }

    /// Returns the number of holders, to go through with [`Holders::holder`].
    fn count(&self, page: PageId) -> usize {
        match self.first.get(page.index()) {
            None | Some(0) => 0,
            Some(&MANY) => self.many[&page].len(),
            Some(_) => 1,
        }
    }

    fn holder(&self, page: PageId, number: usize) -> usize {
        match self.first[page.index()] {
            MANY => self.many[&page][number] as usize,
            only => only as usize - 1,
        }
    }

    fn clear(&mut self, page: PageId) {
        if let Some(first) = self.first.get_mut(page.index()) {
            *first = 0;
            self.many.remove(&page);
        }
    }
}

impl PrivateCaches {
    pub(crate) fn new(tree: &Tree, seed: u64, tally: SwitchTally) -> Self {
        let by_mapping = tree.config().caches.iter().map(CacheConfig::keyed_by_mapping).collect();
        let mut caches = Self {
            tree: tree.clone(),
            rng: Rng::new(seed),
            by_mapping,
            lives: Vec::new(),
            places: BTreeMap::new(),
            free: Vec::new(),
            running: 0,
            instructions: 0,
            holders: Holders::default(),
            evictors: (0..tree.config().caches.len()).map(|cache| Evictors::of(tree, cache)).collect(),
            born: 0,
            in_shared: Happenings::default(),
            in_private: Happenings::default(),
            tally,
        };
        caches.running = caches.place_of((Asid(0), 0));
        caches
    }

    /// Returns the place of a life, which is born here if it is not known.
    fn place_of(&mut self, key: (Asid, u32)) -> usize {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let caches = self.by_mapping.len();
        self.born += 1;
        let life = PrivateLife {
            key,
            number: self.born,
            computer: Some(Box::new(Computer::new(&self.tree, self.rng).without_compulsory())),
            ended: false,
            left: None,
            held: vec![0; caches].into(),
            held_before: vec![0; caches].into(),
            reordered: LineSet::default(),
            lost: LineSet::default(),
            brought: LineSet::default(),
            flushed: vec![0; caches].into(),
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

    fn page_of(&self, cache: usize, at: LineAddr, translation: &LaneTranslation<'_>) -> PageId {
        if self.by_mapping[cache] { translation.page(MappingId(at.id)) } else { PageId(at.id) }
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
        if !self.in_shared.moved.is_empty() || !self.in_shared.missed.is_empty() {
            self.follow_shared(agent, translation);
        }
        self.in_private.clear();
        let private = self.lives[self.running].computer.as_mut().expect("a life that runs has a computer");
        let own = act(Either::Private(private), &mut self.in_private);
        if !self.in_private.moved.is_empty() || !self.in_private.missed.is_empty() {
            // A life's first access misses, so a life that has accessed anything has passed here.
            self.lives[self.running].has_run = true;
            self.follow_private(shared, agent, translation);
        }
        if agent == Agent::User {
            let caches = self.by_mapping.len();
            let access = |answer: Answer, stalled| Access {
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

    /// Follows what an access did in the shared caches. The private caches are as they were before the access.
    #[inline(never)]
    fn follow_shared(&mut self, agent: Agent, translation: &LaneTranslation<'_>) {
        let happenings = std::mem::take(&mut self.in_shared);
        let running = self.running;
        for &(cache, at) in &happenings.missed {
            let life = &self.lives[running];
            let computer = life.computer.as_ref().expect("a life that runs has a computer");
            if agent == Agent::User {
                self.tally.missed(cache, Side::Shared);
                if computer.holds_line(cache, at, translation) {
                    let reordered = match &self.evictors[cache] {
                        Some(evictors) => evictors.of_line(at) == life.number,
                        None => life.reordered.contains(&LineOfCache::new(cache, at)),
                    };
                    self.tally.excess_miss(cache, reordered);
                }
            }
        }
        for &(cache, at, how) in &happenings.moved {
            let page = self.page_of(cache, at, translation);
            let line = LineOfCache::new(cache, at);
            if let (Some(evictors), Move::Evicted) = (&mut self.evictors[cache], how) {
                evictors.note(at, self.lives[running].number);
            }
            for number in 0..self.holders.count(page) {
                let place = self.holders.holder(page, number);
                let life = &mut self.lives[place];
                let holds = |computer: &Computer| computer.holds_line(cache, at, translation);
                if !life.computer.as_deref().is_some_and(holds) {
                    continue;
                }
                match how {
                    Move::Filled => {
                        life.held[cache] += 1;
                        life.reordered.remove(&line);
                        if life.lost.remove(&line) {
                            if place == running {
                                self.tally.restored(cache);
                            }
                        } else if place != running {
                            life.brought.insert(line);
                        }
                    }
                    Move::Evicted => {
                        life.held[cache] -= 1;
                        if place != running {
                            if !life.brought.remove(&line) {
                                life.lost.insert(line);
                            }
                        } else if self.evictors[cache].is_none() {
                            life.reordered.insert(line);
                        }
                    }
                    Move::Flushed => {
                        life.held[cache] -= 1;
                        if place != running && !life.brought.remove(&line) {
                            life.flushed[cache] += 1;
                        }
                    }
                }
            }
        }
        self.in_shared = happenings;
    }

    /// Follows what an access did in the private caches of the running life. The shared caches have made the access.
    #[inline(never)]
    fn follow_private(&mut self, shared: &SharedCaches<'_>, agent: Agent, translation: &LaneTranslation<'_>) {
        let happenings = std::mem::take(&mut self.in_private);
        if agent == Agent::User {
            happenings.missed.iter().for_each(|&(cache, _)| self.tally.missed(cache, Side::Private));
        }
        for &(cache, at, how) in &happenings.moved {
            let page = self.page_of(cache, at, translation);
            let both = shared.holds_line(cache, at, translation);
            let life = &mut self.lives[self.running];
            if how == Move::Filled {
                self.holders.add(page, self.running);
                life.held[cache] += u64::from(both);
            } else {
                life.held[cache] -= u64::from(both);
                let line = LineOfCache::new(cache, at);
                life.reordered.remove(&line);
                // Only a flush reaches the caches of a life that is away. What it removes stays lost.
                if life.lost.remove(&line) && how == Move::Flushed {
                    life.flushed[cache] += 1;
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
        shared.invalidate(agent, what, translation, &mut self.in_shared);
        self.follow_shared(agent, translation);
        let running = self.running;
        for number in 0..self.holders.count(what.page) {
            self.running = self.holders.holder(what.page, number);
            self.in_private.clear();
            let Some(computer) = &mut self.lives[self.running].computer else { continue };
            computer.invalidate(agent, what, translation, &mut self.in_private);
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
        self.holders.clear(page);
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
            let mut lost = life.flushed.clone();
            life.lost.iter().for_each(|line| lost[line.cache()] += 1);
            for (cache, (&held, &lost)) in life.held_before.iter().zip(&lost).enumerate() {
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
        life.lost.clear();
        life.brought.clear();
        life.flushed.fill(0);
        if life.ended {
            self.bury(self.running)?;
        }
        Ok(())
    }

    /// Notes that a life has ended.
    pub(crate) fn life_ended(&mut self, asid: Asid, life: u32) -> Result<()> {
        let Some(&place) = self.places.get(&(asid, life)) else { return Ok(()) };
        self.lives[place].ended = true;
        if place == self.running { Ok(()) } else { self.bury(place) }
    }

    /// Gives back the computer of a life that has ended and left.
    fn bury(&mut self, place: usize) -> Result<()> {
        let life = &mut self.lives[place];
        if let Some(computer) = life.computer.take() {
            computer.check()?;
        }
        (life.reordered, life.lost, life.brought) = Default::default();
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

    /// Begins the measured part.
    pub(crate) fn measure(&mut self, instructions: u64) {
        self.reach(instructions);
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
    /// An invariant of the private caches is broken; sums are not the totals.
    pub(crate) fn finish(self, instructions: u64, waited: u64, seed: u64) -> Result<SwitchReadings> {
        for life in &self.lives {
            if let Some(computer) = &life.computer {
                computer.check()?;
            }
        }
        // No line can leave the shared cache by the life's own accesses and stay in its private cache, where every access
        // of both goes through the cache, and each line has one place.
        let config = self.tree.config();
        let inclusive = config.caches.iter().any(|cache| cache.inclusive);
        let direct: Vec<usize> = (0..self.by_mapping.len())
            .filter(|&cache| config.caches[cache].ways == 1 && self.evictors[cache].is_none() && !inclusive)
            .collect();
        let readings = self.tally.finish(instructions, waited, seed)?;
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

#[cfg(test)]
mod tests {
    use binhop_base::{FrameNo, PageNo, Rng};
    use binhop_hw::{Back, Front};
    use binhop_oracle::cache::{Config, Name, WriteBuffer};
    use binhop_oracle::cache_tree::CacheTree;
    use proptest::prelude::*;

    use super::*;
    use crate::Machine;
    use crate::events::Switch;
    use crate::frame_map::{FrameMap, Tables};
    use crate::prepare::Mapped;

    const PAGE: u64 = 4096;
    const SPACES: u32 = 3;
    /// The pages that a space sees; the first two are the same in every space.
    const SEEN: u32 = 6;
    const FRAMES: u64 = 64;

    const MACHINE: &str = r#"
memory = { page = "4KiB", size = "256KiB" }
placement = { policy = "random", pool = "64KiB" }
[cache.l1i]
serves = "fetch"
size = "8KiB"
line = "64B"
TAG
next = "l2"
[cache.l1d]
serves = "data"
size = "8KiB"
line = "64B"
ways = 2
TAG
WRITE
next = "l2"
[cache.l2]
size = "16KiB"
line = "128B"
ways = 2
replacement = "REPLACEMENT"
next = "memory"
BUFFER
[cost]
l2 = 9
memory = 50
"#;

    #[derive(Clone, Debug)]
    enum Step {
        Access { kind: u8, page: u32, offset: u64, gap: u64 },
        Turn { asid: u32 },
        End { asid: u32 },
        Move { page: u32, frame: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let line = (0u64..8).prop_map(|line| line * 64 * 7 % PAGE);
        prop_oneof![
            30 => (0u8..3, 0..SEEN, line, 0u64..9).prop_map(|(kind, page, offset, gap)| Step::Access { kind, page, offset, gap }),
            3 => (0..SPACES).prop_map(|asid| Step::Turn { asid }),
            1 => (0..SPACES).prop_map(|asid| Step::End { asid }),
            1 => (0..2 + SPACES * (SEEN - 2), 0..FRAMES).prop_map(|(page, frame)| Step::Move { page, frame }),
        ]
    }

    /// Returns the oracle's tree of a machine's caches.
    fn slow_tree(machine: &Machine, seed: u64) -> CacheTree {
        let config = machine.tree().config();
        let caches = config.caches.iter().enumerate().map(|(number, cache)| Config {
            line: cache.line.bytes(),
            sets: cache.sets(),
            ways: cache.ways as usize,
            tag: if cache.keyed_by_mapping() { "asid" } else { "physical" },
            index: if cache.keyed_by_mapping() { "virtual" } else { "physical" },
            write: if cache.write == binhop_hw::WritePolicy::Through { "through" } else { "back" },
            allocate: cache.allocate,
            replacement: cache.replacement.name(),
            next: (number < 2).then_some(2),
            cost: cache.cost,
            write_buffer: (cache.write_buffer.is_some()).then_some(WriteBuffer {
                entries: 2,
                drain: 7,
                merge: false,
                stalls: true,
            }),
            streams: None,
            hashed: false,
            writeback_order: "after-fill",
            inclusive: false,
        });
        CacheTree::new(caches.collect(), PAGE, config.memory_cost, false, Rng::new(seed))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn private_caches_hold_what_a_computer_of_their_own_holds(
            tagged: bool,
            through: bool,
            random: bool,
            steps in prop::collection::vec(step(), 1..400),
        ) {
            let tag = if tagged { "index = \"virtual\"\ntag = \"asid\"" } else { "" };
            let write = if through { "write = \"through\"\nallocate = false" } else { "" };
            let buffer = if through { "[write-buffer.l1d]\nentries = 2\ndrain = 7" } else { "" };
            let toml = MACHINE.replace("TAG", tag).replace("WRITE", write).replace("BUFFER", buffer)
                .replace("REPLACEMENT", if random { "random" } else { "lru" });
            let machine = Machine::parse(&toml, "small", &[]).unwrap();
            let tree = machine.tree();
            let (mut tables, mut frames) = (Tables::default(), FrameMap::default());
            let page_of = |asid: u32, seen: u32| if seen < 2 { seen } else { 2 + asid * (SEEN - 2) + seen - 2 };
            for asid in 0..SPACES {
                let mapped = |seen| Mapped { page: PageId(page_of(asid, seen)), virtual_page: PageNo(seen.into()) };
                tables.extend(&(0..SEEN).map(mapped).collect::<Vec<_>>());
            }
            let pages = 2 + SPACES * (SEEN - 2);
            (0..pages).for_each(|page| frames.put(PageId(page), FrameNo(page.into())));
            let mut held_by: BTreeMap<u64, u32> = (0..pages).map(|page| (page.into(), page)).collect();
            let (mut front, mut back) = (Front::new(tree, Rng::new(5)), Back::new(tree, Rng::new(5)));
            let mut private =
                PrivateCaches::new(tree, 5, SwitchTally::new(3, false, &std::sync::Arc::default()));
            let mut slow: BTreeMap<(u32, u32), CacheTree> = BTreeMap::from([((0, 0), slow_tree(&machine, 5))]);
            let (mut asid, mut lives, mut now, mut executed) = (0, [0u32; SPACES as usize], 0, 0);
            for step in steps {
                let translation = LaneTranslation { tables: &tables, frames: Some(&frames) };
                let mut shared = Computer::over(&mut front, &mut back, now);
                match step {
                    Step::Access { kind, page, offset, gap } => {
                        let kind = [Kind::Fetch, Kind::Load, Kind::Store][usize::from(kind)];
                        let mapping = asid * SEEN + page;
                        let (cache, line) = (usize::from(kind != Kind::Fetch), (offset / 64) as u32);
                        private.pass(gap);
                        executed += gap;
                        shared.now += gap;
                        private.access(&mut shared, Agent::User, kind, LineAddr { id: mapping, line }, &translation);
                        now = shared.now;
                        let own = slow.get_mut(&(asid, lives[asid as usize])).unwrap();
                        own.now += gap;
                        own.access(cache, kind, mapping, offset, &translation);
                    }
                    Step::Turn { asid: next } => {
                        asid = next;
                        let life = lives[asid as usize];
                        let turn = Turn { process: asid, asid: Asid(asid), life, switch: Switch::default() };
                        private.turn(&turn, executed).unwrap();
                        slow.entry((asid, life)).or_insert_with(|| slow_tree(&machine, 5));
                    }
                    Step::End { asid: ends } if ends != asid => {
                        let life = lives[ends as usize];
                        private.life_ended(Asid(ends), life).unwrap();
                        if slow.remove(&(ends, life)).is_some() {
                            lives[ends as usize] += 1;
                        }
                    }
                    Step::End { .. } => {}
                    Step::Move { page, frame } => {
                        if held_by.contains_key(&frame) {
                            continue;
                        }
                        let mappings: Vec<MappingId> = tables.mappings_of(PageId(page)).collect();
                        private.flush_page(&mut shared, PageId(page), &mappings, &translation);
                        slow.values_mut().for_each(|tree| tree.flush_page(page, &translation));
                        held_by.retain(|_, holder| *holder != page);
                        held_by.insert(frame, page);
                        frames.put(PageId(page), FrameNo(frame));
                    }
                }
                for (&(asid, life), expected) in &slow {
                    let computer = private.computer_of(Asid(asid), life).expect("the life is alive");
                    prop_assert_eq!(computer.now, expected.now);
                    for cache in 0..3 {
                        let line = tree.config().caches[cache].line.bytes();
                        let mut held: Vec<(u32, u64, bool)> = computer.contents(cache).into_iter().flatten().flatten()
                            .map(|line_held| (line_held.at.id, u64::from(line_held.at.line) * line, line_held.dirty)).collect();
                        let mut wanted: Vec<(u32, u64, bool)> = expected.caches[cache].sets.iter().flatten().flatten()
                            .map(|line| match line.name { Name::Page(id) | Name::Mapping(id) => (id, line.offset, line.dirty) }).collect();
                        held.sort_unstable();
                        wanted.sort_unstable();
                        prop_assert_eq!(held, wanted, "cache {} of life {} of {}", cache, life, asid);
                    }
                }
            }
        }
    }
}
