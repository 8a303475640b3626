//! This part of a lane simulates rows one by one, where what an access does depends on what the access before it did.

use std::ops::Range;

use binhop_base::Result;
use binhop_hw::Computer;

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
}
