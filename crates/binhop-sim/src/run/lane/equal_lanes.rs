//! `EqualLanes` simulates lanes whose caches are equal. The first lane *leads* the others: its caches stand for the
//! caches of all.
//!
//! Each lane places pages in frames of its own, and keeps its own meters. Everything else that a led lane counts is what
//! the leader counts. Lanes begin to differ where a placement may evict a page: each led lane takes a copy of the
//! leader's caches and counts, and continues by itself. The sharing plan ([`crate::sharing`]) says which lanes are
//! equal.

use binhop_base::Result;
use binhop_hw::{MOST_LANES, Request};

use super::Lane;
use crate::frame_map::Tables;
use crate::prepare::{Block, Control};
use crate::run::recency::BlockRecency;
use crate::translation::TlbEvent;

/// Returns the largest number of equal lanes of which one simulates the caches. Lanes may differ later, so they are
/// divided among all threads from the start.
pub(crate) fn equal_lanes_together(seeds: usize, workers: usize) -> usize {
    seeds.div_ceil(workers.max(1)).clamp(1, MOST_LANES)
}

/// `EqualLanes` holds lanes whose caches are equal.
pub(crate) struct EqualLanes {
    /// The lane that simulates the caches.
    leader: Lane,
    led: Vec<Lane>,
}

impl EqualLanes {
    /// Makes the group of a lane and the lanes that it leads, each in its initial state.
    pub(crate) fn new(leader: Lane, led: Vec<Lane>) -> Self {
        debug_assert!(!leader.led && led.iter().all(|lane| lane.led));
        Self { leader, led }
    }

    /// Returns whether lanes may begin to differ in this block.
    pub(crate) fn ends_before(&self, block: &Block) -> bool {
        let ends = |control: &Control| {
            matches!(control, Control::Evictions | Control::Unshare(_) | Control::Tlb(TlbEvent::Own(_)))
        };
        block.controls.iter().any(|(_, control)| ends(control))
    }

    /// Ends the group. Each lane continues by itself.
    pub(crate) fn split(self) -> impl Iterator<Item = Lane> {
        let Self { leader, mut led } = self;
        led.iter_mut().for_each(|lane| lane.continue_from(&leader));
        std::iter::once(leader).chain(led)
    }

    /// Simulates a block in all lanes. `requests` is room for the requests that the front lets through. `check` is told
    /// of work other than entries, as the number of entries that would cost as much. An error of `check` ends the run.
    pub(crate) fn run(
        &mut self,
        block: &Block,
        tables: &Tables,
        recency: &mut BlockRecency,
        requests: &mut Vec<Request>,
        check: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        self.leader.lead(&mut self.led, block, tables, recency, requests, check)
    }

    /// Ends the simulation. Returns the lanes with their final counts.
    pub(crate) fn into_lanes(self) -> impl Iterator<Item = Lane> {
        std::iter::once(self.leader).chain(self.led)
    }
}

impl Lane {
    /// Returns whether the caches of another lane stand for the caches of this lane.
    pub(crate) fn is_led(&self) -> bool {
        self.led
    }

    /// Takes a copy of the caches that stood for this lane's caches, and of everything that was counted there.
    fn continue_from(&mut self, leader: &Self) {
        self.led = false;
        self.front.clone_from(&leader.front);
        self.stacks.clone_from(&leader.stacks);
        self.known_hits.clone_from(&leader.known_hits);
        for (own, back) in self.backs.iter_mut().zip(&leader.backs) {
            own.continue_from(back);
        }
        (self.clock, self.waited) = (leader.clock, leader.waited);
        if let (Some(own), Some(translator)) = (&mut self.translator, &leader.translator) {
            own.continue_from(translator);
        }
        self.miss_handlers.clone_from(&leader.miss_handlers);
        self.protection.clone_from(&leader.protection);
    }
}
