//! This part of a lane simulates rows one by one, where what an access does depends on what the access before it did.

use std::ops::Range;

use binhop_base::{Agent, Kind, LineAddr, Result};
use binhop_hw::{Access, Answer, Computer, TwoLevels, Witness};

use super::Lane;
use crate::frame_map::{LaneTranslation, Tables};
use crate::prepare::{Block, Row};
use crate::unit::SharedCaches;

/// `SteppedCaches` are the caches of a lane in which accesses are made one by one: by the general path, or by a path
/// that serves two direct-mapped levels.
pub(super) trait SteppedCaches<'a> {
    /// Returns the clock.
    fn now(&mut self) -> &mut u64;

    /// Returns the caches of the general path. [`TwoLevels`] has none: it serves lanes only while every line has the
    /// protection of its page.
    fn general(&mut self) -> Option<&mut SharedCaches<'a>>;

    /// Makes an access of an agent, as [`Computer::access`] does.
    fn access<W: Witness>(
        &mut self,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
        witness: &mut W,
    ) -> Answer;

    /// Returns whether level 1 holds a line that an access of this kind would ask for.
    fn holds(&self, kind: Kind, at: LineAddr, translation: &LaneTranslation<'_>) -> bool;

    /// Returns whether some cache behind level 1 holds the line of a byte. `chain` are the caches that an access of
    /// this kind asks, and `line` returns the line of the byte in a cache.
    fn hold_behind(
        &self,
        chain: &[usize],
        kind: Kind,
        line: impl Fn(usize) -> LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> bool;
}

impl<'a> SteppedCaches<'a> for SharedCaches<'a> {
    #[inline]
    fn now(&mut self) -> &mut u64 {
        &mut self.now
    }

    #[inline]
    fn general(&mut self) -> Option<&mut SharedCaches<'a>> {
        Some(self)
    }

    #[inline]
    fn access<W: Witness>(
        &mut self,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
        witness: &mut W,
    ) -> Answer {
        Computer::access(self, agent, kind, at, translation, witness)
    }

    #[inline]
    fn holds(&self, kind: Kind, at: LineAddr, translation: &LaneTranslation<'_>) -> bool {
        let config = self.front.tree().config();
        self.front.holds(if kind == Kind::Fetch { config.fetch } else { config.data }, at, translation)
    }

    #[inline]
    fn hold_behind(
        &self,
        chain: &[usize],
        _kind: Kind,
        line: impl Fn(usize) -> LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> bool {
        chain[1..].iter().any(|&cache| self.holds_line(cache, line(cache), translation))
    }
}

impl<'a> SteppedCaches<'a> for TwoLevels<'_> {
    #[inline]
    fn now(&mut self) -> &mut u64 {
        &mut self.now
    }

    #[inline]
    fn general(&mut self) -> Option<&mut SharedCaches<'a>> {
        None
    }

    #[inline]
    fn access<W: Witness>(
        &mut self,
        agent: Agent,
        kind: Kind,
        at: LineAddr,
        translation: &LaneTranslation<'_>,
        witness: &mut W,
    ) -> Answer {
        TwoLevels::access(self, agent, kind, at, translation, witness)
    }

    #[inline]
    fn holds(&self, kind: Kind, at: LineAddr, translation: &LaneTranslation<'_>) -> bool {
        TwoLevels::holds(self, kind, at, translation)
    }

    #[inline]
    fn hold_behind(
        &self,
        chain: &[usize],
        kind: Kind,
        line: impl Fn(usize) -> LineAddr,
        translation: &LaneTranslation<'_>,
    ) -> bool {
        self.holds_behind(kind, line(chain[0]), translation)
    }
}

/// `RowStepper` makes the access of a row, with all that belongs to it.
pub(super) trait RowStepper {
    /// Returns whether [`TwoLevels`] may serve the next rows.
    fn takes_two_levels(&self) -> bool;

    /// Makes the access of a row. Returns the cycles that the processor waits.
    ///
    /// # Errors
    /// An invariant is broken.
    fn step<'a, C: SteppedCaches<'a>>(
        &mut self,
        caches: &mut C,
        row: Row,
        translation: &LaneTranslation<'_>,
    ) -> Result<u64>;
}

/// Makes the access of each row. Returns the instructions executed, and the cycles that the processor waits.
fn step_rows<'a, C: SteppedCaches<'a>>(
    stepper: &mut impl RowStepper,
    caches: &mut C,
    block: &Block,
    entries: Range<usize>,
    translation: &LaneTranslation<'_>,
) -> Result<[u64; 2]> {
    let (mut executed, mut waited) = (0, 0);
    let (rows, gaps) = (block.rows(), &*block.gaps);
    for at in entries {
        if let Some(&gap) = gaps.get(at) {
            *caches.now() += gap;
            executed += gap;
        }
        waited += stepper.step(caches, rows[at], translation)?;
    }
    Ok([executed, waited])
}

impl Lane {
    /// Makes the access of each row.
    ///
    /// # Errors
    /// The first error of the stepper.
    pub(super) fn access_one_by_one(
        &mut self,
        block: &Block,
        entries: Range<usize>,
        tables: &Tables,
        stepper: &mut impl RowStepper,
    ) -> Result<()> {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let front = self.front.as_mut().expect("rows are for a front of one's own");
        let (back, waited) = self.backs[0].own();
        let mut computer = Computer::over(front, back, self.clock.now);
        let levels = if stepper.takes_two_levels() { computer.two_levels() } else { None };
        let [executed, waits] = if let Some(mut levels) = levels {
            let stepped = step_rows(stepper, &mut levels, block, entries, &translation)?;
            computer.now = levels.now;
            stepped
        } else {
            step_rows(stepper, &mut computer, block, entries, &translation)?
        };
        *waited += waits;
        self.clock.pass(executed);
        self.clock.now = computer.now;
        if let Some(tap) = &mut self.tap {
            self.backs[0].tapped(&translation, tap);
        }
        Ok(())
    }

    /// Simulates rows one by one, and notes what passes below the caches.
    pub(super) fn listen(&mut self, block: &Block, entries: Range<usize>, tables: &Tables) {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let tap = self.front_tap.as_mut().expect("called while the front is tapped");
        let front = self.front.as_mut().expect("rows are for a front of one's own");
        let (back, waited) = self.backs[0].own();
        for at in entries {
            let row = block.rows()[at];
            if let Some(&gap) = block.gaps.get(at) {
                self.clock.pass(gap);
            }
            let mut computer = Computer::over(&mut *front, &mut *back, self.clock.now);
            let left = &mut tap.left;
            *waited += computer.access(Agent::User, row.kind(), row.at(), &translation, left).cycles;
            self.clock.now = computer.now;
            tap.note(front, back, &translation);
        }
    }

    /// Simulates rows one by one, in the lane's caches and in the private caches of the life that runs.
    pub(super) fn compare(&mut self, block: &Block, entries: Range<usize>, tables: &Tables) {
        if entries.is_empty() {
            return;
        }
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let private = self.private.as_mut().expect("called while switches are observed");
        let front = self.front.as_mut().expect("rows are for a front of one's own");
        let (back, waited) = self.backs[0].own();
        let mut computer = Computer::over(front, back, self.clock.now);
        let (mut waits, mut executed) = (0, 0);
        let (rows, gaps) = (block.rows(), &*block.gaps);
        for at in entries {
            let row = rows[at];
            if let Some(&gap) = gaps.get(at) {
                computer.now += gap;
                executed += gap;
                private.pass(gap);
            }
            waits += private.access(&mut computer, Agent::User, row.kind(), row.at(), &translation).cycles;
        }
        *waited += waits;
        self.clock.pass(executed);
        self.clock.now = computer.now;
    }
}
