//! This part of a lane lets the unit act, at the occasions that the unit asked for.

use std::ops::Range;

use binhop_base::{Agent, MappingId, Result};
use binhop_hw::{Access, Computer};

use super::Lane;
use crate::frame_map::{LaneTranslation, Tables};
use crate::occasion::Occasion;
use crate::prepare::Block;
use crate::unit::{InLane, Injector, PrivateSide};

impl Lane {
    /// Lets the unit act at an occasion that has arisen in this lane.
    pub(super) fn act(&mut self, occasion: &Occasion, tables: &Tables) -> Result<()> {
        let Some(InLane { subscription, unit }) = &mut self.unit else { return Ok(()) };
        let kind = occasion.kind();
        let Some(touched) = subscription.touched(kind) else { return Ok(()) };
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let frames = &self.frames;
        let (tree, back) = self.backs[0].parts();
        let mut injector = Injector {
            kind,
            touched,
            tree,
            front: self.front.as_mut(),
            back,
            translation,
            resident: &|page| frames.frame_of(page).is_some(),
            private: self.private.as_deref_mut().map(|private| private as &mut dyn PrivateSide),
            owned: subscription.owned(),
            agents: subscription.agents(),
            now: self.clock.now,
            waited: 0,
            left: self.front_tap.as_deref_mut().map(|tap| &mut tap.left),
        };
        unit.act(occasion, &mut injector)?;
        let Injector { now, waited, .. } = injector;
        self.clock.now = now;
        self.waited += waited;
        if let Some(tap) = &mut self.tap {
            self.backs[0].tapped(&translation, tap);
        }
        if let (Some(front), Some(tap)) = (&self.front, &mut self.front_tap) {
            tap.note_device(occasion, front, self.backs[0].own().0, &translation);
        }
        Ok(())
    }

    /// Simulates rows one by one. The unit may act before each row that level 1 does not hold.
    pub(super) fn step(&mut self, block: &Block, entries: Range<usize>, tables: &Tables) -> Result<()> {
        for at in entries {
            let row = block.rows()[at];
            if let Some(&gap) = block.gaps.get(at) {
                self.clock.pass(gap);
                self.private.iter_mut().for_each(|private| private.pass(gap));
            }
            let (kind, line) = (row.kind(), row.at());
            let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
            let front = self.front.as_ref().expect("rows are for a front of one's own");
            let (number, line_log2) = self.backs[0].serving(kind);
            if !front.holds(number, line, &translation) {
                let offset = u64::from(line.line) << line_log2;
                self.act(&Occasion::Miss { kind, mapping: MappingId(line.id), offset }, tables)?;
            }
            let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
            let front = self.front.as_mut().expect("rows are for a front of one's own");
            let (back, waited) = self.backs[0].own();
            let mut computer = Computer::over(front, back, self.clock.now);
            *waited += match &mut self.private {
                Some(private) => private.access(&mut computer, Agent::User, kind, line, &translation).cycles,
                None => computer.access(Agent::User, kind, line, &translation, &mut ()).cycles,
            };
            self.clock.now = computer.now;
            if let Some(tap) = &mut self.tap {
                self.backs[0].tapped(&translation, tap);
            }
        }
        Ok(())
    }
}
