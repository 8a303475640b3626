//! This part of a lane simulates a block: the accesses between controls, and each control in its place.

use std::ops::Range;

use binhop_base::Result;
use binhop_hw::Request;

use super::Lane;
use super::control::{CONTROL, Here, concerns_led_lanes};
use crate::frame_map::{LaneTranslation, Tables};
use crate::prepare::{Block, Control, Entries};
use crate::run::recency::BlockRecency;

impl Lane {
    /// Simulates a block. `requests` is room for the requests that the front lets through; its contents are
    /// overwritten.
    pub(crate) fn run(
        &mut self,
        block: &Block,
        tables: &Tables,
        recency: &mut BlockRecency,
        requests: &mut Vec<Request>,
    ) -> Result<()> {
        self.lead(&mut [], block, tables, recency, requests, &mut |_| Ok(()))
    }

    /// Simulates a block in this lane, and in the lanes `led` whose caches this lane's caches stand for. `check` is told
    /// of the work in the led lanes, as the number of entries that would cost as much. An error of `check` ends the run.
    pub(super) fn lead(
        &mut self,
        led: &mut [Self],
        block: &Block,
        tables: &Tables,
        recency: &mut BlockRecency,
        requests: &mut Vec<Request>,
        check: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let controls = &*block.controls;
        let mut at = 0;
        for (number, (position, control)) in controls.iter().enumerate() {
            // Machines with physical tags may share the preparation with machines that look for synonyms.
            if matches!(control, Control::Watch(_)) && !self.backs[0].has_virtual_tags() {
                continue;
            }
            self.advance(block, number, at..*position as usize, tables, requests)?;
            at = *position as usize;
            let here = Here { controls, number, tables, recency, bits: None, walks: None, leader: None };
            self.control(control, here, requests)?;
            if led.is_empty() || !concerns_led_lanes(control) {
                continue;
            }
            check(led.len() * CONTROL)?;
            for lane in &mut *led {
                let leader = Some(&*self);
                let here = Here { controls, number, tables, recency, bits: None, walks: None, leader };
                lane.control(control, here, requests)?;
            }
        }
        self.advance(block, controls.len(), at..block.entries(), tables, requests)
    }

    /// Simulates the entries before control number `span`, or after the last control.
    fn advance(
        &mut self,
        block: &Block,
        span: usize,
        entries: Range<usize>,
        tables: &Tables,
        passed: &mut Vec<Request>,
    ) -> Result<()> {
        if self.unit.as_ref().is_some_and(|unit| unit.subscription.wants_misses()) {
            return self.step(block, entries, tables);
        }
        if self.front_tap.is_some() {
            self.listen(block, entries, tables);
            return Ok(());
        }
        if self.private.is_some() {
            self.compare(block, entries, tables);
            return Ok(());
        }
        if self.miss_handlers.is_some() {
            return self.handle_misses(block, entries, tables);
        }
        if self.protection.is_some() {
            return self.access_protected(block, entries, tables);
        }
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        match &block.entries {
            Entries::Requests(requests) => {
                let requests = &requests[entries];
                if let Some(translator) = &mut self.translator {
                    translator.replay(&mut self.backs[0], requests, &translation);
                    return Ok(());
                }
                for back in &mut self.backs {
                    back.replay(requests, block.common_counts.get(span), &translation);
                }
                self.stacks.iter_mut().for_each(|stack| stack.replay(requests, &translation));
            }
            Entries::Rows(_) if entries.is_empty() => {}
            Entries::Rows(rows) => {
                let front = self.front.as_mut().expect("rows are for a front of one's own");
                if let ([only], true) = (&mut *self.backs, self.immediate) {
                    only.answer(front, block, entries, &mut self.clock, &translation);
                    if let Some(tap) = &mut self.tap {
                        only.tapped(&translation, tap);
                    }
                    return Ok(());
                }
                passed.clear();
                if let Some(translator) = &mut self.translator {
                    let rows = &rows[entries];
                    self.waited +=
                        translator.access_all(front, &mut self.backs[0], rows, &translation, passed);
                    return Ok(());
                }
                self.waited += front.access_all(&rows[entries], &translation, passed);
                if let Some(known_hits) = &mut self.known_hits {
                    let hits = known_hits.filter(passed, &translation);
                    self.backs.iter_mut().for_each(|back| back.add_known_hits(&hits));
                    self.stacks.iter_mut().for_each(|stack| stack.add_hits(&hits));
                }
                for back in &mut self.backs {
                    back.replay(passed, None, &translation);
                }
                self.stacks.iter_mut().for_each(|stack| stack.replay(passed, &translation));
            }
        }
        Ok(())
    }
}
