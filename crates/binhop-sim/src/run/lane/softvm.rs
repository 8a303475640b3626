//! This part of a lane runs the handlers of a machine whose software translates when the last level misses. The top of
//! [`crate::softvm`] has the rules.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use binhop_base::{Agent, Kind, LineAddr, MappingId, Result};
use binhop_hw::{Access, Answer, CostRule, Level, RemovalCause, RemovedLine, Witness};
use binhop_os::page_table::PageTables;

use super::Lane;
use super::one_by_one::{RowStepper, SteppedCaches};
use super::protection::LineProtection;
use crate::frame_map::{FrameMap, LaneTranslation, Tables};
use crate::machine::{Machine, SoftvmConfig, WriteBacks};
use crate::prepare::{Block, Row, own_page};
use crate::results::account::broken;
use crate::softvm::{Entry, MissCause, PageEntries, SoftvmCounts, TagRegister, own_code, own_frame};

/// `MissHandlers` are the handlers of a lane, and what they know.
#[derive(Clone)]
pub(super) struct MissHandlers {
    config: Arc<SoftvmConfig>,
    /// The mapping of page 0 of the tables.
    first: MappingId,
    /// The handlers' bytes, cut into the lines of level 1: of misses, and of write-backs.
    code: [Vec<Entry>; 2],
    /// For each mapping, where the entries lie that lead to its page.
    entries: Vec<Option<PageEntries>>,
    /// The lines that wait for the handler of write-backs, by their mappings.
    waiting: VecDeque<MappingId>,
    /// The lines of all caches. No queue is longer.
    lines: u64,
    /// For each cache, the logarithm of its lines' bytes.
    line_log2: Vec<u32>,
    /// The cycles of a line from memory.
    memory: u64,
    adds: bool,
    counts: SoftvmCounts,
    /// The tag that a handler has specified for the data that it loads next.
    tag: TagRegister,
    /// The runs of superpages that are whole in the lane.
    whole: BTreeSet<u32>,
    /// The protection of lines.
    pub(super) protection: LineProtection,
}

/// `Leaving` notes the lines that an access lets the last level write to memory, or read for a write-back.
struct Leaving<'a> {
    /// The last caches, for instructions and for data.
    last: [usize; 2],
    /// The line that the access itself asks of the last level, if a line that a write-back reads there is noted.
    own: Option<LineAddr>,
    waiting: &'a mut VecDeque<MappingId>,
}

impl<'a> Leaving<'a> {
    /// Returns the witness of an access to a byte.
    #[inline]
    fn of(
        config: &SoftvmConfig,
        line_log2: &[u32],
        waiting: &'a mut VecDeque<MappingId>,
        kind: Kind,
        Entry { mapping, offset }: Entry,
    ) -> Self {
        let side = usize::from(kind != Kind::Fetch);
        let last = [0, 1].map(|side| config.chains[side][config.chains[side].len() - 1]);
        let own = config.last_level_fills[side]
            .then(|| LineAddr { id: mapping.0, line: offset >> line_log2[last[side]] });
        Self { last, own, waiting }
    }
}

impl Witness for Leaving<'_> {
    #[inline]
    fn filled(&mut self, cache: usize, at: LineAddr) {
        if self.own.is_some_and(|own| own != at) && self.last.contains(&cache) {
            self.waiting.push_back(MappingId(at.id));
        }
    }

    #[inline]
    fn removed(&mut self, line: RemovedLine) {
        if line.dirty && line.cause == RemovalCause::Evicted && self.last.contains(&line.cache) {
            self.waiting.push_back(MappingId(line.at.id));
        }
    }
}

impl MissHandlers {
    /// Makes the handlers of a lane, and gives the tables and handlers their frames above the machine's memory.
    /// `first` is the number of the first page of the tables.
    pub(super) fn new(machine: &Machine, first: u32, map: &mut FrameMap) -> Option<Self> {
        let config = Arc::clone(machine.softvm()?);
        for number in 0..config.pages() {
            let (page, _) = own_page(first + number, machine.memory().page);
            map.put(page, binhop_base::FrameNo(own_frame(&config, number)));
        }
        let tree = machine.tree().config();
        let line = tree.caches[tree.fetch].line.bytes();
        let cut = |bytes: Range<u64>| {
            let lines = bytes.start / line..bytes.end.div_ceil(line).max(bytes.start / line);
            lines.map(|number| own_code(&config, first, number * line)).collect()
        };
        Some(Self {
            first: MappingId(first),
            code: config.handlers().map(cut),
            entries: Vec::new(),
            waiting: VecDeque::new(),
            lines: tree.caches.iter().map(|cache| cache.sets() * u64::from(cache.ways)).sum(),
            line_log2: tree.caches.iter().map(|cache| cache.line.log2()).collect(),
            memory: tree.memory_cost,
            adds: tree.cost_rule == CostRule::Add,
            counts: SoftvmCounts::default(),
            tag: TagRegister::default(),
            whole: BTreeSet::new(),
            protection: LineProtection::new(machine.protection()?),
            config,
        })
    }

    /// Notes where the entries of a mapping's page lie.
    pub(super) fn told(&mut self, mapping: MappingId, entries: PageEntries) {
        let index = mapping.index();
        if index >= self.entries.len() {
            self.entries.resize(index + 1, None);
        }
        self.entries[index] = Some(entries);
    }

    /// Notes whether the run of a superpage is whole.
    pub(super) fn run_is(&mut self, run: u32, whole: bool) {
        if whole {
            self.whole.insert(run);
        } else {
            self.whole.remove(&run);
        }
    }

    /// Returns what the lane has counted.
    pub(super) fn counts(&self) -> SoftvmCounts {
        self.counts
    }

    /// Checks that the tables have frames of their own, and that table pages in use and free ones make them up.
    ///
    /// # Errors
    /// An invariant is broken; the error names it.
    pub(super) fn check(&self, map: &FrameMap, tables: &PageTables, seed: u64) -> Result<()> {
        tables.check()?;
        let of_tables = self.first.0..self.first.0 + self.config.pages();
        let reserve = self.config.above..self.config.above + u64::from(self.config.pages());
        if tables.used() + tables.free() + self.config.handler_pages() != self.config.pages() {
            let value = format!("{} table pages in use, {} free", tables.used(), tables.free());
            let rule =
                format!("table pages in use + free ones + pages of handlers = {}", self.config.pages());
            return Err(broken(&value, &rule, seed));
        }
        for (page, frame) in map.all() {
            if of_tables.contains(&page.0) != reserve.contains(&frame.0) {
                return Err(broken(
                    &format!("page {page} in frame {frame}"),
                    &format!("pages of tables, and no others, have frames {reserve:?}"),
                    seed,
                ));
            }
        }
        if !self.waiting.is_empty() {
            let value = format!("{} lines wait for the handler of write-backs", self.waiting.len());
            return Err(broken(&value, "the queue is empty after each access", seed));
        }
        Ok(())
    }

    /// Makes an access of the program, with the handlers that it needs. Returns the cycles that the processor waits.
    #[inline]
    fn refer<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> Result<u64> {
        if caches.holds(kind, at, translation) {
            let cycles = caches.access(Agent::User, kind, at, translation, &mut ()).cycles;
            if self.protection.is_current() {
                return Ok(cycles);
            }
            return Ok(cycles + self.protection.update_line(kind, at));
        }
        let side = usize::from(kind != Kind::Fetch);
        let mapping = MappingId(at.id);
        let offset = at.line << self.line_log2[self.config.chains[side][0]];
        let mut cycles = 0;
        let mut line = Entry { mapping, offset };
        if !self.protection.is_current()
            && let Some(computer) = caches.general()
        {
            self.protection.forget_flushed(computer, translation);
        }
        if !self.is_held_behind(caches, kind, line, translation) {
            self.counts.missed(kind);
            let cause = if kind == Kind::Fetch { MissCause::FetchMiss } else { MissCause::DataMiss };
            cycles += self.handle(caches, mapping, Some(cause), translation)?;
            line = self.insert(line)?;
        }
        cycles += self.access(caches, Agent::User, kind, line, translation).cycles;
        if !self.protection.is_current() {
            cycles += self.protection.update_line(kind, at);
        }
        let mut waiting = self.waiting.len() as u64;
        while let Some(mapping) = self.waiting.pop_front() {
            self.counts.wrote_back(waiting);
            cycles += self.handle(caches, mapping, None, translation)?;
            waiting = self.waiting.len() as u64;
            if waiting > self.lines {
                return Err(broken(
                    &format!("{waiting} lines wait for the handler of write-backs"),
                    &format!("the caches have {} lines, and no more are dirty", self.lines),
                    0,
                ));
            }
        }
        Ok(cycles)
    }

    /// Returns whether some cache behind level 1 holds the line of a byte.
    #[inline]
    fn is_held_behind<'a, C: SteppedCaches<'a>>(
        &self,
        caches: &C,
        kind: Kind,
        Entry { mapping, offset }: Entry,
        translation: &LaneTranslation<'_>,
    ) -> bool {
        let line = |cache: usize| LineAddr { id: mapping.0, line: offset >> self.line_log2[cache] };
        caches.hold_behind(&self.config.chains[usize::from(kind != Kind::Fetch)], kind, line, translation)
    }

    /// Returns whether some cache holds the line of an entry.
    #[inline]
    fn is_held<'a, C: SteppedCaches<'a>>(
        &self,
        caches: &C,
        entry: Entry,
        translation: &LaneTranslation<'_>,
    ) -> bool {
        let line = entry.offset >> self.line_log2[self.config.chains[1][0]];
        caches.holds(Kind::Load, LineAddr { id: entry.mapping.0, line }, translation)
            || self.is_held_behind(caches, Kind::Load, entry, translation)
    }

    /// Runs the handler of misses with the cause of its instructions, or the handler of write-backs.
    fn handle<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        mapping: MappingId,
        miss: Option<MissCause>,
        translation: &LaneTranslation<'_>,
    ) -> Result<u64> {
        let Some(entries) = self.entries.get(mapping.index()).copied().flatten() else {
            let value = format!("a line of mapping {mapping}");
            return Err(broken(&value, "a page is in the table before its lines are in a cache", 0));
        };
        let is_whole = entries.run.is_some_and(|run| self.whole.contains(&run));
        let mut user = if is_whole { entries.of_huge(&self.config) } else { entries.user };
        let mut cycles = self.run_code(caches, miss, translation);
        if !self.is_held(caches, user, translation) {
            self.counts.missed_entry();
            cycles += self.run_code(caches, miss.map(|_| MissCause::DataMiss), translation);
            if miss.is_none() {
                cycles += self.load(caches, entries.segment, [MissCause::WriteBack; 2], translation);
            }
            let causes = match miss {
                Some(_) => [MissCause::HandlerData, MissCause::RootEntry],
                None => [MissCause::WriteBack; 2],
            };
            cycles += self.load(caches, entries.root, causes, translation);
            user = self.insert(user)?;
        }
        let causes = match miss {
            Some(_) => [MissCause::HandlerData, MissCause::UserEntry],
            None => [MissCause::WriteBack; 2],
        };
        Ok(cycles + self.load(caches, user, causes, translation))
    }

    /// Specifies the tag of a line, and returns the line into which LOAD&MAP then puts the data.
    fn insert(&mut self, line: Entry) -> Result<Entry> {
        let rule = "SPECIFYVTAG and LOAD&MAP are a pair, and pairs do not nest (JM97 §4.1)";
        let open = |open: Entry| broken(&format!("a pair of mapping {} is open", open.mapping), rule, 0);
        self.tag.specify(line).map_err(open)?;
        self.tag.load_and_map().ok_or_else(|| broken("LOAD&MAP without a tag", rule, 0))
    }

    /// Executes the instructions of a handler. Returns the cycles.
    fn run_code<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        miss: Option<MissCause>,
        translation: &LaneTranslation<'_>,
    ) -> u64 {
        let instructions = self.config.handler;
        self.counts.waited(miss.unwrap_or(MissCause::WriteBack), instructions);
        *caches.now() += instructions;
        let causes = match miss {
            Some(_) => [MissCause::HandlerCode, MissCause::HandlerCodeMemory],
            None => [MissCause::WriteBack; 2],
        };
        let mut cycles = instructions;
        for number in 0..self.code[usize::from(miss.is_none())].len() {
            let line = self.code[usize::from(miss.is_none())][number];
            let answer = self.access(caches, Agent::Handler, Kind::Fetch, line, translation);
            cycles += self.count(answer, causes);
        }
        cycles
    }

    /// Loads an entry. Returns the cycles.
    fn load<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        entry: Entry,
        causes: [MissCause; 2],
        translation: &LaneTranslation<'_>,
    ) -> u64 {
        let answer = self.access(caches, Agent::Handler, Kind::Load, entry, translation);
        self.count(answer, causes)
    }

    /// Counts the cycles of an access of a handler: what it waited for caches, and what it waited for memory.
    fn count(&mut self, Answer { cycles, served }: Answer, causes: [MissCause; 2]) -> u64 {
        let memory = match served {
            Level::Memory if self.adds => self.memory.min(cycles),
            Level::Memory => cycles,
            Level::Cache(_) => 0,
        };
        self.counts.waited(causes[0], cycles - memory);
        self.counts.waited(causes[1], memory);
        cycles
    }

    /// Makes an access, and notes the lines that it lets leave for memory.
    fn access<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        agent: Agent,
        kind: Kind,
        Entry { mapping, offset }: Entry,
        translation: &LaneTranslation<'_>,
    ) -> Answer {
        let side = usize::from(kind != Kind::Fetch);
        let line = |cache: usize| LineAddr { id: mapping.0, line: offset >> self.line_log2[cache] };
        let at = line(self.config.chains[side][0]);
        let is_kept = self.config.write_backs == WriteBacks::Kept;
        if !self.protection.is_current()
            && let Some(computer) = caches.general()
        {
            let access = (agent, kind, at);
            if is_kept {
                return self.protection.access_beside_old(computer, access, translation, ());
            }
            let Self { protection, config, line_log2, waiting, .. } = self;
            let leaving = Leaving::of(config, line_log2, waiting, kind, Entry { mapping, offset });
            return protection.access_beside_old(computer, access, translation, leaving);
        }
        if is_kept {
            return caches.access(agent, kind, at, translation, &mut ());
        }
        let Self { config, line_log2, waiting, .. } = self;
        let mut leaving = Leaving::of(config, line_log2, waiting, kind, Entry { mapping, offset });
        caches.access(agent, kind, at, translation, &mut leaving)
    }
}

impl RowStepper for MissHandlers {
    fn takes_two_levels(&self) -> bool {
        self.protection.is_current()
    }

    #[inline]
    fn step<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        row: Row,
        translation: &LaneTranslation<'_>,
    ) -> Result<u64> {
        if row.is_without_handlers() && self.protection.is_current() {
            return Ok(caches.access(Agent::User, row.kind(), row.at(), translation, &mut ()).cycles);
        }
        self.refer(caches, row.kind(), row.at(), translation)
    }
}

impl Lane {
    /// Simulates rows one by one, with the handlers that translate when the last level misses.
    pub(super) fn handle_misses(
        &mut self,
        block: &Block,
        entries: Range<usize>,
        tables: &Tables,
    ) -> Result<()> {
        let mut handlers = self.miss_handlers.take().expect("called where software translates");
        let done = self.access_one_by_one(block, entries, tables, &mut *handlers);
        self.miss_handlers = Some(handlers);
        done
    }
}
