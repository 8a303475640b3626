//! This part of a lane translates addresses: it makes the accesses of walks and handlers, and keeps the lane's own TLBs
//! once placements may evict pages.

use std::sync::Arc;

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, Result, Translation};
use binhop_hw::{Computer, Front, Origin, Request};
use binhop_os::Frames;
use binhop_os::page_table::PageTables;

use super::Lane;
use super::table_frames::TableFrames;
use crate::frame_map::{FrameMap, LaneTranslation, Tables};
use crate::machine::{Machine, TranslationConfig, WalkEntry};
use crate::occasion::{OccasionKind, TouchedLines};
use crate::prepare::Row;
use crate::run::after_walks::AfterWalks;
use crate::run::back_model::BackModel;
use crate::translation::{
    Decision, Fault, ServedLevel, TlbEvent, Tlbs, TranslationCause, TranslationCounts, Walk, accesses,
    handler_instructions,
};
use crate::unit::Injector;

/// `LaneTranslator` is what a lane knows of TLBs and page tables.
pub(super) struct LaneTranslator {
    config: Arc<TranslationConfig>,
    /// The frames of the tables and handlers.
    frames: TableFrames,
    /// The mapping of page 0 of the tables.
    first: MappingId,
    /// For each level of a radix table, the bits of a page number below it.
    shifts: Vec<u32>,
    /// The lane's own TLBs; `None` while all lanes share them.
    tlbs: Option<Tlbs>,
    counts: TranslationCounts,
    /// The demand misses of level 1 and the accesses to memory before the access that a walk precedes.
    before: Option<[u64; 2]>,
    /// Room for the accesses of a walk.
    room: Vec<(Kind, MappingId, u64)>,
    /// The accesses after walks of the rows that are being simulated, which the back does not count.
    after_walks: AfterWalks,
}

/// `Need` is what a reference needs beyond a first-level TLB.
#[derive(Clone, Copy, Default)]
struct Need {
    /// The cycles of the handlers' instructions.
    handler: u64,
    /// The cycles of a hit in a second-level TLB.
    second_level: u64,
    /// The maker of the walk's accesses, if the table is walked.
    walker: Option<Walker>,
}

/// `Walker` makes the accesses of a walk.
#[derive(Clone, Copy)]
struct Walker {
    agent: Agent,
    reads: WalkEntry,
    /// True if the accesses begin at level 1.
    in_level_1: bool,
}

impl LaneTranslator {
    /// Makes the translator of a lane, and gives the tables and handlers their frames above the machine's memory.
    /// `first` is the number of the first page of the tables.
    pub(super) fn new(machine: &Machine, seed: u64, first: u32, map: &mut FrameMap) -> Result<Option<Self>> {
        let Some(config) = machine.translation() else { return Ok(None) };
        Ok(Some(Self {
            config: Arc::clone(config),
            frames: TableFrames::place(machine, config, seed, first, map)?,
            first: MappingId(first),
            shifts: PageTables::new(&config.table)?.shifts().to_vec(),
            tlbs: None,
            counts: TranslationCounts::default(),
            before: None,
            room: Vec::new(),
            after_walks: AfterWalks::default(),
        }))
    }

    /// Checks that the tables have frames of their own.
    ///
    /// # Errors
    /// An invariant is broken; the error names it.
    pub(super) fn check(&self, map: &FrameMap, tables: &PageTables, seed: u64) -> Result<()> {
        self.frames.check(map, tables, seed)
    }

    /// Returns how addresses are translated, and the mapping of page 0 of the tables.
    pub(super) fn translation(&self) -> (Arc<TranslationConfig>, MappingId) {
        (Arc::clone(&self.config), self.first)
    }

    /// Returns what the lane has counted. What lanes share is counted in the stream.
    pub(super) fn counts(&self) -> TranslationCounts {
        self.counts
    }

    /// Applies an event to the lane's TLBs.
    pub(super) fn event(&mut self, event: &TlbEvent) {
        match (event, &mut self.tlbs) {
            (TlbEvent::Own(tlbs), _) => self.tlbs = Some((**tlbs).clone()),
            (event, Some(tlbs)) => event.apply(tlbs, &self.config),
            (_, None) => unreachable!("preparation keeps the TLBs that lanes share"),
        }
    }

    /// Counts the fault of a page that did not join the run of a huge page.
    pub(super) fn faulted(&mut self, cause: Fault) {
        self.counts.faulted(cause);
    }

    /// Removes the translations of a huge page whose run was split.
    pub(super) fn split(&mut self, run: u32) {
        if let (Some(tlbs), Some(log2)) = (&mut self.tlbs, self.config.huge_log2()) {
            tlbs.split(run, log2);
        }
    }

    /// Removes the translations of a page that has left memory.
    pub(super) fn evicted(&mut self, page: PageId) {
        self.tlbs.iter_mut().for_each(|tlbs| tlbs.evict(page));
    }

    /// Simulates requests in a back, and counts the cycles that the processor waits for walks and handlers.
    pub(super) fn replay(
        &mut self,
        back: &mut BackModel,
        requests: &[Request],
        translation: &LaneTranslation<'_>,
    ) {
        let replayed = back.replay_by_agent(requests, translation);
        self.counts.waited(TranslationCause::HandlerFetch, replayed.fetches);
        self.counts.waited(TranslationCause::Entries, replayed.others);
        for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
            self.counts.add_served(kind, ServedLevel::Behind, replayed.behind[kind as usize]);
            self.counts.add_served(kind, ServedLevel::Memory, replayed.in_memory[kind as usize]);
        }
    }

    /// Makes the accesses of rows in the lane's own front and back. Counts the levels that serve accesses after walks.
    /// `passed` is empty room for requests. Returns the cycles waited within the front.
    pub(super) fn access_all(
        &mut self,
        front: &mut Front,
        back: &mut BackModel,
        rows: &[Row],
        translation: &LaneTranslation<'_>,
        passed: &mut Vec<Request>,
    ) -> u64 {
        let waited = front.access_all(rows, translation, &mut self.after_walks.of(passed));
        self.after_walks.count(&mut self.counts);
        self.replay(back, passed, translation);
        waited
    }

    /// Takes a copy of the TLBs and the counts of the leading lane's translator, which stood for this translator.
    pub(super) fn continue_from(&mut self, leader: &Self) {
        let Self { tlbs, counts, before, .. } = leader;
        self.tlbs.clone_from(tlbs);
        (self.counts, self.before) = (*counts, *before);
    }

    /// Adds the counts of a shared front that has ended.
    pub(super) fn add(&mut self, counts: TranslationCounts) {
        self.counts += counts;
    }

    /// Notes that the requests of a walk have arrived. The arguments are the cycles that its fetches, and its loads,
    /// took in the shared front.
    pub(super) fn passed(&mut self, [fetches, entries]: [u64; 2]) {
        self.counts.waited(TranslationCause::HandlerFetch, fetches);
        self.counts.waited(TranslationCause::Entries, entries);
    }

    /// Decides what a reference needs, and counts it. If the table is walked, `room` holds the accesses of the walk from
    /// now on. `line` is the bytes of a line of instructions.
    fn begin(&mut self, walk: &Walk, frames: &Frames, line: u64) -> Need {
        let config = &*self.config;
        let whole = walk.run.filter(|&run| frames.holds_run(run));
        let huge_log2 = whole.and(config.huge_log2()).unwrap_or(0);
        // The last level that the walk reads is the first whose entries map no more than the page.
        let levels = self.shifts.iter().filter(|&&shift| shift >= huge_log2).count();
        let decision = match (walk.decision, &mut self.tlbs) {
            (Some(decision), _) => decision,
            (None, Some(tlbs)) => {
                let decision =
                    walk.decide(tlbs, config, &self.shifts[..levels], whole, &mut self.counts, &());
                if matches!(decision, Decision::Walk { .. }) {
                    tlbs.tell(config, walk, whole);
                }
                decision
            }
            (None, None) => unreachable!("preparation decides while lanes share TLBs"),
        };
        let (spared, root, second) = match decision {
            Decision::First => return Need::default(),
            Decision::Second => return Need { second_level: config.second_level, ..Need::default() },
            Decision::Walk { spared, root, second } => (spared, root, second),
        };
        self.counts.walked(walk.kind, spared, root);
        let steps = if whole.is_some() { &walk.steps()[..levels] } else { walk.steps() };
        let frame = |page: PageId| frames.frame_of(page);
        accesses(config, self.first, steps, (spared, root), line, frame, &mut self.room);
        self.counts.read(self.room.iter().filter(|(kind, ..)| *kind == Kind::Load).count() as u64);
        Need {
            handler: handler_instructions(config, root),
            second_level: if second { config.second_level } else { 0 },
            walker: Some(Walker {
                agent: config.agent(),
                reads: config.reads,
                in_level_1: config.reads_level_1(),
            }),
        }
    }
}

impl Lane {
    /// Translates a reference, if the lane's TLBs or the shared TLBs say that it needs more than a first-level TLB.
    pub(super) fn translate(&mut self, walk: &Walk, tables: &Tables) -> Result<()> {
        let (_, line_log2) = self.backs[0].serving(Kind::Fetch);
        let translator = self.translator.as_mut().expect("walks are for lanes that translate");
        let need = translator.begin(walk, &self.frames, 1 << line_log2);
        self.wait_for_translation(TranslationCause::Handler, need.handler);
        self.wait_for_translation(TranslationCause::SecondLevel, need.second_level);
        let Some(walker) = need.walker else { return Ok(()) };
        let translator = self.translator.as_mut().expect("as above");
        let all = std::mem::take(&mut translator.room);
        if walker.in_level_1 && self.front.is_none() {
            // A shared front has made the accesses, and their requests follow.
        } else if walker.in_level_1 {
            self.walk_through_level_1(walker.agent, &all, tables);
        } else {
            for &(kind, mapping, byte) in &all {
                let cycles = self.access_table(walker, kind, mapping, byte, tables)?;
                let cause = if kind == Kind::Fetch {
                    TranslationCause::HandlerFetch
                } else {
                    TranslationCause::Entries
                };
                let translator = self.translator.as_mut().expect("as above");
                translator.counts.waited(cause, cycles);
            }
        }
        self.translator.as_mut().expect("as above").room = all;
        self.note_before_access();
        Ok(())
    }

    /// Notes the counts that tell which level serves the access after a walk.
    pub(super) fn note_before_access(&mut self) {
        let before = [self.level_1_misses(), self.backs[0].demand_at_memory()];
        if let Some(translator) = &mut self.translator {
            translator.before = Some(before);
        }
    }

    /// Returns the user's demand misses of the lane's own level 1.
    fn level_1_misses(&self) -> u64 {
        let caches = [Kind::Fetch, Kind::Load].map(|kind| self.backs[0].serving(kind).0);
        let Some(front) = &self.front else { return 0 };
        let of = |cache: usize| front.counters(cache).misses.demand();
        if caches[0] == caches[1] { of(caches[0]) } else { of(caches[0]) + of(caches[1]) }
    }

    /// Counts the level that has served an access after a walk. `missed` says whether it missed a shared front.
    pub(super) fn after_walk(&mut self, kind: Kind, missed: Option<bool>) {
        let now = [self.level_1_misses(), self.backs[0].demand_at_memory()];
        let Some(translator) = &mut self.translator else { return };
        let Some(before) = translator.before.take() else { return };
        let level = if now[1] > before[1] {
            ServedLevel::Memory
        } else if missed.unwrap_or(now[0] > before[0]) {
            ServedLevel::Behind
        } else {
            ServedLevel::First
        };
        translator.counts.served(kind, level);
    }

    /// Makes the processor wait for a cause that is no access.
    fn wait_for_translation(&mut self, cause: TranslationCause, cycles: u64) {
        self.clock.now += cycles;
        self.waited += cycles;
        self.translator.as_mut().expect("called where addresses are translated").counts.waited(cause, cycles);
    }

    /// Makes the accesses of a walk, from level 1 on, in the lane's own caches.
    fn walk_through_level_1(&mut self, agent: Agent, all: &[(Kind, MappingId, u64)], tables: &Tables) {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let only = &mut self.backs[0];
        let line_log2 = [Kind::Fetch, Kind::Load].map(|kind| only.serving(kind).1);
        let front = self.front.as_mut().expect("a lane with caches of its own has a front");
        let mut computer = Computer::over(front, only.own().0, self.clock.now);
        let mut cycles = [0; 2];
        for &(kind, mapping, byte) in all {
            let side = usize::from(kind != Kind::Fetch);
            let at = LineAddr { id: mapping.0, line: (byte >> line_log2[side]) as u32 };
            cycles[side] += computer.access(agent, kind, at, &translation, &mut ()).cycles;
        }
        self.waited += computer.now - self.clock.now;
        self.clock.now = computer.now;
        if let Some(tap) = &mut self.tap {
            self.backs[0].tapped(&translation, tap);
        }
        if let Some(translator) = &mut self.translator {
            translator.counts.waited(TranslationCause::HandlerFetch, cycles[0]);
            translator.counts.waited(TranslationCause::Entries, cycles[1]);
        }
    }

    /// Makes one access of a walk that begins behind level 1. Returns the cycles that the processor waits.
    fn access_table(
        &mut self,
        Walker { agent, reads, .. }: Walker,
        kind: Kind,
        mapping: MappingId,
        byte: u64,
        tables: &Tables,
    ) -> Result<u64> {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let (tree, back) = self.backs[0].parts();
        let cycles = if reads == WalkEntry::Memory {
            let unit = tree.config().caches[tree.config().data].line.log2();
            let at = LineAddr { id: translation.page(mapping).0, line: (byte >> unit) as u32 };
            let cycles = back.ask_memory(kind, at, Origin::new(agent, unit as u8), self.clock.now);
            self.clock.now += cycles;
            self.waited += cycles;
            cycles
        } else {
            let mut injector = Injector {
                kind: OccasionKind::PageChange,
                touched: &TouchedLines::EVERYTHING,
                tree,
                front: self.front.as_mut(),
                back,
                translation,
                resident: &|_| true,
                private: None,
                owned: 0,
                agents: tree.config().agents,
                now: self.clock.now,
                waited: 0,
                left: None,
            };
            let cycles = match reads {
                WalkEntry::Cache(cache) if kind == Kind::Load => {
                    injector.ask(cache, agent, kind, mapping, byte)?
                }
                _ => injector.access(agent, kind, mapping, byte)?.cycles,
            };
            let Injector { now, waited, .. } = injector;
            self.clock.now = now;
            self.waited += waited;
            cycles
        };
        if let Some(tap) = &mut self.tap {
            self.backs[0].tapped(&translation, tap);
        }
        Ok(cycles)
    }
}
