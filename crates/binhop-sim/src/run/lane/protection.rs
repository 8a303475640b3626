//! This part of a lane updates the lines of pages whose protection changes, on machines whose software translates at
//! cache misses. The top of [`crate::softvm`]'s `protection` has the rules.

use binhop_base::{Agent, Kind, LineAddr, MappingId};
use binhop_hw::{Answer, Computer, RemovedLine, Witness};

use super::Lane;
use super::softvm::MissHandlers;
use crate::frame_map::{LaneTranslation, Tables};
use crate::machine::{ProtectionChanges, WriteBacks};
use crate::softvm::{Entry, ProtectionChange, SweepCounts};
use crate::unit::SharedCaches;

/// `AllLeaving` notes every line that leaves a cache. It also does what `Leaving` does for lines that go to memory.
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

impl MissHandlers {
    /// Notes that the lines of a page have left every cache.
    pub(super) fn flushed(&mut self) {
        self.old.flushed = true;
    }

    /// Updates the lines of pages whose protection changes. Returns the cycles.
    fn protect(
        &mut self,
        computer: &SharedCaches<'_>,
        changes: &[ProtectionChange],
        translation: &LaneTranslation<'_>,
    ) -> u64 {
        let page_log2 = self.config.table.page.log2();
        let mut swept = SweepCounts::default();
        for change in changes {
            for side in (0..2).filter(|&side| change.changes(side)) {
                let lazy =
                    self.config.protection_changes == ProtectionChanges::Lazy && change.only_adds(side);
                if lazy {
                    self.keep_protection(computer, side, *change, page_log2, translation);
                } else {
                    swept += self.sweep(computer, side, change.name, page_log2, translation);
                }
            }
        }
        self.counts.swept(swept)
    }

    /// Checks every line of a page in the caches of a side, and updates the lines that a cache holds.
    fn sweep(
        &mut self,
        computer: &SharedCaches<'_>,
        side: usize,
        name: MappingId,
        page_log2: u32,
        translation: &LaneTranslation<'_>,
    ) -> SweepCounts {
        let mut swept = SweepCounts::default();
        for (depth, &cache) in self.config.chains[side].iter().enumerate() {
            let (level, lines) = (depth.min(1), 1 << (page_log2 - self.line_log2[cache]));
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
        page_log2: u32,
        translation: &LaneTranslation<'_>,
    ) {
        self.forget_flushed(computer, translation);
        let log2 = self.line_log2[self.config.chains[side][0]];
        for line in 0..1 << (page_log2 - log2) {
            let entry = Entry { mapping: change.name, offset: line << log2 };
            if self.is_held(computer, side, entry, translation) {
                self.old.lines.entry((side, change.name, line)).or_insert(change.before);
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
        let (side, mapping, line) = key;
        let offset = line << self.line_log2[self.config.chains[side][0]];
        if !self.is_held(computer, side, Entry { mapping, offset }, translation) {
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
        self.counts.swept(SweepCounts { late: 1, ..SweepCounts::default() })
    }

    /// Makes an access while the protection of some lines is old, and forgets such a line if it leaves.
    #[cold]
    pub(super) fn access_beside_old(
        &mut self,
        computer: &mut SharedCaches<'_>,
        agent: Agent,
        kind: Kind,
        entry: Entry,
        translation: &LaneTranslation<'_>,
    ) -> Answer {
        let front = self.config.chains[usize::from(kind != Kind::Fetch)][0];
        let at = LineAddr { id: entry.mapping.0, line: entry.offset >> self.line_log2[front] };
        let mut left = std::mem::take(&mut self.old.left);
        let answer = if self.config.write_backs == WriteBacks::Kept {
            let mut witness = AllLeaving { left: &mut left, other: () };
            computer.access(agent, kind, at, translation, &mut witness)
        } else {
            let mut witness = AllLeaving { left: &mut left, other: self.leaving(kind, entry) };
            computer.access(agent, kind, at, translation, &mut witness)
        };
        for (cache, at) in left.drain(..) {
            let Some(side) = (0..2).find(|&side| self.config.chains[side].contains(&cache)) else { continue };
            let wider = self.line_log2[cache] - self.line_log2[self.config.chains[side][0]];
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

impl Lane {
    /// Changes the protection of pages.
    pub(super) fn protect(&mut self, changes: &[ProtectionChange], tables: &Tables) {
        let Some(handlers) = &mut self.miss_handlers else { return };
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let front = self.front.as_mut().expect("software translates behind a front of the lane's own");
        let (back, waited) = self.backs[0].own();
        let computer = Computer::over(front, back, self.clock.now);
        let cycles = handlers.protect(&computer, changes, &translation);
        *waited += cycles;
        self.clock.now += cycles;
    }
}
