//! This part of a lane updates the lines of pages whose protection changes, on machines whose lines keep the protection
//! of their pages. The top of [`crate::softvm`]'s `protection` has the rules.

use std::ops::Range;
use std::sync::Arc;

use binhop_base::{Agent, Kind, LineAddr, MappingId, Result};
use binhop_hw::{Access, Answer, Computer, RemovedLine, Witness};

use super::Lane;
use super::old_protection::OldProtection;
use super::one_by_one::{RowStepper, SteppedCaches};
use crate::frame_map::{LaneTranslation, Tables};
use crate::machine::{ProtectionChanges, ProtectionConfig};
use crate::prepare::{Block, Row};
use crate::softvm::{ProtectionChange, SweepCounts};
use crate::unit::SharedCaches;

/// `AllLeaving` notes every line that leaves a cache, and passes every event on to another witness.
struct AllLeaving<'a, W> {
    left: &'a mut Vec<(usize, LineAddr)>,
    other: W,
}

impl<W: Witness> Witness for AllLeaving<'_, W> {
    fn filled(&mut self, cache: usize, at: LineAddr) {
        self.other.filled(cache, at);
    }

    fn removed(&mut self, line: RemovedLine) {
        self.left.push((line.cache, line.at));
        self.other.removed(line);
    }
}

/// `LineProtection` is what a lane knows of the protection of lines.
#[derive(Clone)]
pub(super) struct LineProtection {
    config: Arc<ProtectionConfig>,
    /// The lines whose protection is older than the protection of their page.
    old: OldProtection,
    pub(super) counts: SweepCounts,
}

impl LineProtection {
    pub(super) fn new(config: &Arc<ProtectionConfig>) -> Self {
        Self { config: Arc::clone(config), old: OldProtection::default(), counts: SweepCounts::default() }
    }

    /// Returns whether every line has the protection of its page.
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.old.is_empty()
    }

    /// Notes that the lines of a page have left every cache.
    pub(super) fn flushed(&mut self) {
        self.old.flushed = true;
    }

    /// Counts lines that were checked and updated. Returns the cycles.
    fn swept(&mut self, sweep: SweepCounts) -> u64 {
        self.counts += sweep;
        sweep.cycles()
    }

    /// Returns whether some cache of a side holds a line of level 1.
    fn is_held(
        &self,
        computer: &SharedCaches<'_>,
        (side, mapping, line): (usize, MappingId, u32),
        translation: &LaneTranslation<'_>,
    ) -> bool {
        let chain = &self.config.chains[side];
        let offset = line << self.config.line_log2[chain[0]];
        chain.iter().any(|&cache| {
            let at = LineAddr { id: mapping.0, line: offset >> self.config.line_log2[cache] };
            computer.holds_line(cache, at, translation)
        })
    }

    /// Updates the lines of pages whose protection changes. Returns the cycles.
    fn protect(
        &mut self,
        computer: &SharedCaches<'_>,
        changes: &[ProtectionChange],
        translation: &LaneTranslation<'_>,
    ) -> u64 {
        let mut swept = SweepCounts::default();
        for change in changes {
            for side in (0..2).filter(|&side| change.changes(side)) {
                if self.config.changes == ProtectionChanges::Lazy && change.only_adds(side) {
                    self.keep_protection(computer, side, *change, translation);
                } else {
                    swept += self.sweep(computer, side, change.name, translation);
                }
            }
        }
        self.swept(swept)
    }

    /// Checks every line of a page in the caches of a side, and updates the lines that a cache holds.
    fn sweep(
        &mut self,
        computer: &SharedCaches<'_>,
        side: usize,
        name: MappingId,
        translation: &LaneTranslation<'_>,
    ) -> SweepCounts {
        let ProtectionConfig { chains, line_log2, page_log2, .. } = &*self.config;
        let mut swept = SweepCounts::default();
        for (depth, &cache) in chains[side].iter().enumerate() {
            let (level, lines) = (depth.min(1), 1 << (page_log2 - line_log2[cache]));
            let held = |&line: &u32| computer.holds_line(cache, LineAddr { id: name.0, line }, translation);
            swept.checked[level] += u64::from(lines);
            swept.updated[level] += (0..lines).filter(held).count() as u64;
        }
        let of_page = self.old.lines.range((side, name, 0)..=(side, name, u32::MAX)).map(|(&line, _)| line);
        for line in of_page.collect::<Vec<_>>() {
            self.old.lines.remove(&line);
        }
        swept
    }

    /// Notes that the lines of a page in the caches of a side keep their protection.
    fn keep_protection(
        &mut self,
        computer: &SharedCaches<'_>,
        side: usize,
        change: ProtectionChange,
        translation: &LaneTranslation<'_>,
    ) {
        self.forget_flushed(computer, translation);
        let lines = 1 << (self.config.page_log2 - self.config.line_log2[self.config.chains[side][0]]);
        for line in 0..lines {
            let key = (side, change.name, line);
            if self.is_held(computer, key, translation) {
                self.old.lines.entry(key).or_insert(change.before);
            }
        }
    }

    /// Forgets the lines that left with a flushed page.
    #[cold]
    pub(super) fn forget_flushed(&mut self, computer: &SharedCaches<'_>, translation: &LaneTranslation<'_>) {
        if std::mem::take(&mut self.old.flushed) {
            let lines: Vec<_> = self.old.lines.keys().copied().collect();
            lines.into_iter().for_each(|line| self.forget_if_gone(computer, line, translation));
        }
    }

    fn forget_if_gone(
        &mut self,
        computer: &SharedCaches<'_>,
        key: (usize, MappingId, u32),
        translation: &LaneTranslation<'_>,
    ) {
        if !self.is_held(computer, key, translation) {
            self.old.lines.remove(&key);
        }
    }

    /// Updates the line of an access that has been made, if the line's protection is old and does not allow the access.
    /// Returns the cycles.
    #[cold]
    pub(super) fn update_line(&mut self, kind: Kind, at: LineAddr) -> u64 {
        let key = (usize::from(kind != Kind::Fetch), MappingId(at.id), at.line);
        if self.old.lines.get(&key).is_none_or(|rights| rights.allow(kind)) {
            return 0;
        }
        self.old.lines.remove(&key);
        self.swept(SweepCounts { late: 1, ..SweepCounts::default() })
    }

    /// Makes an access while the protection of some lines is old, and forgets such a line if it leaves.
    #[cold]
    pub(super) fn access_beside_old(
        &mut self,
        computer: &mut SharedCaches<'_>,
        (agent, kind, at): (Agent, Kind, LineAddr),
        translation: &LaneTranslation<'_>,
        other: impl Witness,
    ) -> Answer {
        let mut left = std::mem::take(&mut self.old.left);
        let answer =
            computer.access(agent, kind, at, translation, &mut AllLeaving { left: &mut left, other });
        for (cache, at) in left.drain(..) {
            let chains = &self.config.chains;
            let Some(side) = (0..2).find(|&side| chains[side].contains(&cache)) else { continue };
            let wider = self.config.line_log2[cache] - self.config.line_log2[chains[side][0]];
            let first = at.line << wider;
            for line in first..first + (1 << wider) {
                let key = (side, MappingId(at.id), line);
                if self.old.lines.contains_key(&key) {
                    self.forget_if_gone(computer, key, translation);
                }
            }
        }
        self.old.left = left;
        answer
    }
}

/// On a machine without handlers, a row is an access of the program.
impl RowStepper for LineProtection {
    fn takes_two_levels(&self) -> bool {
        self.is_current()
    }

    #[inline]
    fn step<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        row: Row,
        translation: &LaneTranslation<'_>,
    ) -> Result<u64> {
        let (kind, at) = (row.kind(), row.at());
        if !self.is_current()
            && let Some(computer) = caches.general()
        {
            self.forget_flushed(computer, translation);
            let answer = self.access_beside_old(computer, (Agent::User, kind, at), translation, ());
            let late = self.update_line(kind, at);
            computer.now += late;
            return Ok(answer.cycles + late);
        }
        Ok(caches.access(Agent::User, kind, at, translation, &mut ()).cycles)
    }
}

impl Lane {
    /// Returns what the lane knows of the protection of lines, if lines keep protection.
    pub(super) fn line_protection(&self) -> Option<&LineProtection> {
        let of_handlers = self.miss_handlers.as_ref().map(|handlers| &handlers.protection);
        of_handlers.or(self.protection.as_deref())
    }

    /// Notes that the lines of a page have left every cache.
    pub(super) fn note_flushed_protection(&mut self) {
        self.protection.iter_mut().for_each(|protection| protection.flushed());
        self.miss_handlers.iter_mut().for_each(|handlers| handlers.protection.flushed());
    }

    /// Simulates rows one by one, where lines keep the protection of their pages.
    pub(super) fn access_protected(
        &mut self,
        block: &Block,
        entries: Range<usize>,
        tables: &Tables,
    ) -> Result<()> {
        let mut protection = self.protection.take().expect("called where lines keep protection");
        let done = self.access_one_by_one(block, entries, tables, &mut *protection);
        self.protection = Some(protection);
        done
    }

    /// Changes the protection of pages.
    pub(super) fn protect(&mut self, changes: &[ProtectionChange], tables: &Tables) {
        let of_handlers = self.miss_handlers.as_mut().map(|handlers| &mut handlers.protection);
        let Some(protection) = of_handlers.or(self.protection.as_deref_mut()) else { return };
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let front = self.front.as_mut().expect("lines keep protection behind a front of the lane's own");
        let (back, waited) = self.backs[0].own();
        let computer = Computer::over(front, back, self.clock.now);
        let cycles = protection.protect(&computer, changes, &translation);
        *waited += cycles;
        self.clock.now += cycles;
    }
}
