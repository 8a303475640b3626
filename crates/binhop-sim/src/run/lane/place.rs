//! This part of a lane places pages, and flushes the page whose frame a placed page takes.

use binhop_base::{Agent, PageId, Result};
use binhop_hw::{Computer, Request};
use binhop_os::PageRequest;

use super::Lane;
use super::control::Here;
use super::in_bits::PageInFrame;
use crate::frame_map::{LaneTranslation, Tables};
use crate::results::detail::Logged;

impl Lane {
    /// Places a page that is not in memory, and flushes the page that the frame held before.
    pub(super) fn place(
        &mut self,
        request: &PageRequest,
        here: Here<'_>,
        passed: &mut Vec<Request>,
    ) -> Result<()> {
        let Here { controls, number, tables, recency, .. } = here;
        let faults = self.frames.faults();
        let placed = self.frames.place(request, recency.at(controls, number))?;
        self.joined = self.frames.faults() == faults;
        self.note_splits();
        if let (Some(handlers), Some(place)) = (&mut self.miss_handlers, request.run) {
            handlers.run_is(place.run, self.frames.holds_run(place.run));
        }
        if let (Some(translator), Some(evicted)) = (&mut self.translator, placed.evicted) {
            translator.evicted(evicted);
        }
        // The frame changes hands, so the lines of the page that it held leave every level.
        let held = placed.evicted.or_else(|| self.frame_map.take_dead(placed.frame));
        if let Some(in_bits) = &mut self.bits {
            in_bits.placed = Some(PageInFrame { page: request.page, frame: placed.frame, flushed: held });
        } else if let Some(held) = held {
            self.flush_page(held, tables, passed);
        }
        self.frame_map.put(request.page, placed.frame);
        if let Some(log) = &mut self.log {
            log.push(Logged { request: request.clone(), placed });
        }
        Ok(())
    }

    /// Removes the lines of a page whose frame changes hands from every level. The lines are found by the frame, which
    /// the frame map still gives to the page.
    fn flush_page(&mut self, page: PageId, tables: &Tables, passed: &mut Vec<Request>) {
        self.note_flushed_protection();
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        self.mappings.clear();
        self.mappings.extend(tables.mappings_of(page));
        self.mappings.reverse();
        let (mappings, now) = (&*self.mappings, self.clock.now);
        if let (Some(private), Some(front), [only]) = (&mut self.private, &mut self.front, &mut *self.backs) {
            let mut computer = Computer::over(front, only.own().0, now);
            private.flush_page(&mut computer, page, mappings, &translation);
        } else if let (Some(front), [only], Some(tap)) =
            (&mut self.front, &mut *self.backs, &mut self.front_tap)
        {
            let back = only.own().0;
            let mut computer = Computer::over(&mut *front, &mut *back, now);
            computer.flush_page(Agent::User, page, mappings, &translation, &mut tap.left);
            tap.note_flush(page, back, &translation);
        } else if let (Some(front), [only], true) = (&mut self.front, &mut *self.backs, self.immediate) {
            only.flush_page_everywhere(front, page, mappings, now, &translation);
            if let Some(tap) = &mut self.tap {
                only.tapped(&translation, tap);
            }
        } else {
            if let Some(front) = &mut self.front {
                passed.clear();
                front.flush_page(page, mappings, now, &translation, passed);
                for back in &mut self.backs {
                    back.replay(passed, None, &translation);
                }
                self.stacks.iter_mut().for_each(|stack| stack.replay(passed, &translation));
            }
            for back in &mut self.backs {
                back.flush_page(page, mappings, now, &translation);
            }
        }
        self.stacks.iter_mut().for_each(|stack| stack.flush_page(page, &translation));
        if let Some(known_hits) = &mut self.known_hits {
            known_hits.forget(page, &translation);
        }
    }

    /// Removes the translations of huge pages whose runs were split.
    pub(super) fn note_splits(&mut self) {
        if self.translator.is_none() && self.miss_handlers.is_none() {
            return;
        }
        for run in self.frames.take_split() {
            self.translator.iter_mut().for_each(|translator| translator.split(run));
            self.miss_handlers.iter_mut().for_each(|handlers| handlers.run_is(run, false));
        }
    }
}
