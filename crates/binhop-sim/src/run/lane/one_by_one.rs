//! This part of a lane simulates rows one by one, where what an access does depends on what the access before it did.

use std::ops::Range;

use binhop_base::{Agent, Result};
use binhop_hw::{Access, Computer};

use super::Lane;
use crate::frame_map::{LaneTranslation, Tables};
use crate::prepare::{Block, Row};
use crate::unit::SharedCaches;

impl Lane {
    /// Makes the access of each row by `access`, which returns the cycles that the processor waits.
    ///
    /// # Errors
    /// The first error of `access`.
    #[inline(always)]
    pub(super) fn access_one_by_one(
        &mut self,
        block: &Block,
        entries: Range<usize>,
        tables: &Tables,
        mut access: impl FnMut(&mut SharedCaches<'_>, Row, &LaneTranslation<'_>) -> Result<u64>,
    ) -> Result<()> {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let front = self.front.as_mut().expect("rows are for a front of one's own");
        let (back, waited) = self.backs[0].own();
        let mut computer = Computer::over(front, back, self.clock.now);
        let mut executed = 0;
        for at in entries {
            if let Some(&gap) = block.gaps.get(at) {
                computer.now += gap;
                executed += gap;
            }
            *waited += access(&mut computer, block.rows()[at], &translation)?;
        }
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
