//! This part of a lane serves the bundle that simulates the lane's caches as bits.

use std::sync::Arc;

use binhop_base::{FrameNo, MappingId, PageId, Result, Rng};
use binhop_hw::{CountsOfLane, FastPaths, Front, LaneBits, Request, Tree};

use super::Lane;
use super::control::Here;
use crate::frame_map::{LaneTranslation, Tables};
use crate::machine::TranslationConfig;
use crate::prepare::Block;
use crate::run::bundle_walks::BundleWalks;
use crate::run::passed_mark::PassedMark;
use crate::run::recency::BlockRecency;

/// `InBits` is what a lane keeps for the bundle that simulates its caches.
pub(super) struct InBits {
    /// True if the bundle simulates the backs alone, behind a shared front.
    shared_front: bool,
    /// The fast paths that the lane takes when it leaves the bundle.
    paths: FastPaths,
    /// The page that was placed last, until the bundle takes it.
    pub(super) placed: Option<PageInFrame>,
    /// The final counts of level 1, and of each back that was simulated in bits.
    pub(super) front: CountsOfLane,
    pub(super) backs: Vec<CountsOfLane>,
}

impl InBits {
    pub(super) fn new(shared_front: bool, paths: FastPaths) -> Self {
        Self { shared_front, paths, placed: None, front: CountsOfLane::default(), backs: Vec::new() }
    }
}

/// `PageInFrame` is a page that has got a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageInFrame {
    pub(crate) page: PageId,
    pub(crate) frame: FrameNo,
    /// The page whose lines must leave, because the frame was its frame.
    pub(crate) flushed: Option<PageId>,
}

impl Lane {
    /// Obeys a control in a lane whose bundle simulates its caches. Returns the page that was placed, if a page
    /// was placed.
    pub(crate) fn control_in_bundle(
        &mut self,
        block: &Block,
        number: usize,
        tables: &Tables,
        recency: &mut BlockRecency,
        (bits, place, walks): (&LaneBits, usize, Option<&BundleWalks>),
    ) -> Result<Option<PageInFrame>> {
        let controls = &*block.controls;
        let here = Here { controls, number, tables, recency, bits: Some((bits, place)), walks, leader: None };
        self.control(&controls[number].1, here, &mut Vec::new())?;
        Ok(self.bits.as_mut().and_then(|in_bits| in_bits.placed.take()))
    }

    /// Passes marks between processes or intervals, whose demand misses the bits have counted apart. `place` is the
    /// lane's number in the bundle, and `room` is room for these counts.
    pub(crate) fn pass_marks(
        &mut self,
        marks: &[PassedMark],
        (bits, place): (&LaneBits, usize),
        room: &mut Vec<u64>,
    ) -> Result<()> {
        debug_assert!(self.private.is_none(), "no lane is a bit where switches are observed");
        self.backs.iter_mut().try_for_each(|back| back.pass_marks(marks, (bits, place), room))
    }

    /// Returns whether this lane and another lane of its front group, in their initial state, may belong to one bundle.
    /// Their placements may differ, and their caches are equal.
    pub(crate) fn shares_bits(&self, other: &Self) -> bool {
        self.is_in_bits()
            && other.is_in_bits()
            && self.is_behind_shared_front() == other.is_behind_shared_front()
            && self.has_caches_of(other)
    }

    /// Returns whether this lane and another lane have equal caches, simulated in bits or not.
    pub(crate) fn has_caches_of(&self, other: &Self) -> bool {
        let caches = |(tree, in_bits): &(&Tree, bool)| (tree.config().clone(), *in_bits);
        self.trees_in_bits().iter().map(caches).eq(other.trees_in_bits().iter().map(caches))
    }

    /// Returns whether level 1 of the lane continues in bits where the sharing of a front ends.
    pub(crate) fn continues_in_bits(&self) -> bool {
        self.front_bits.is_some()
    }

    /// Prepares the lane for a bundle that simulates its level 1 from now on.
    pub(crate) fn join_bundle(&mut self) {
        let paths = self.front_bits.expect("the lane continues in bits");
        self.bits = Some(InBits::new(false, paths));
    }

    /// Returns whether a bundle simulates the caches of this lane.
    pub(crate) fn is_in_bits(&self) -> bool {
        self.bits.is_some()
    }

    /// Returns whether a bundle simulates the backs of this lane behind a shared front.
    pub(crate) fn is_behind_shared_front(&self) -> bool {
        self.bits.as_ref().is_some_and(|in_bits| in_bits.shared_front)
    }

    /// Takes the lane out of its bundle, with everything that its caches hold and have counted. `place` is the lane's
    /// number in the bundle, and `walks` are the walks of the bundle, if addresses are translated.
    pub(crate) fn leave_bundle(&mut self, bits: &LaneBits, place: usize, walks: Option<&BundleWalks>) {
        let in_bits = self.bits.take().expect("the lane is in a bundle");
        if bits.has_fronts() {
            let (tree, rng) = (self.backs[0].tree(), Rng::new(self.seed));
            self.front = Some(Front::split_off(bits, place, tree, rng, &in_bits.paths));
        }
        self.backs.iter_mut().for_each(|back| back.leave_bits(bits, place, self.seed, &in_bits.paths));
        if let (Some(walks), Some(translator)) = (walks, &mut self.translator) {
            self.waited += walks.waited();
            translator.add(walks.counts(bits, place));
        }
    }

    /// Returns how the lane translates addresses, and the mapping of page 0 of the tables. Returns `None` if it
    /// translates none.
    pub(crate) fn translation(&self) -> Option<(Arc<TranslationConfig>, MappingId)> {
        self.translator.as_ref().map(|translator| translator.translation())
    }

    /// Returns the frame of a page of the tables or handlers.
    pub(crate) fn frame_of_table(&self, page: PageId) -> FrameNo {
        self.frame_map.last(page).expect("pages of tables have frames from the start")
    }

    /// Returns the trees of the lane's backs, and for each whether the back is simulated in bits.
    pub(crate) fn trees_in_bits(&self) -> Vec<(&Tree, bool)> {
        self.backs.iter().map(|back| (back.tree(), back.place_in_bits().is_some())).collect()
    }

    /// Handles the requests that a bundle's level 1 has made in this lane, in the backs that are not simulated in bits.
    pub(crate) fn answer_bundle(&mut self, requests: &mut Vec<Request>, tables: &Tables) {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        if let Some(known_hits) = &mut self.known_hits {
            let hits = known_hits.filter(requests, &translation);
            self.backs.iter_mut().for_each(|back| back.add_known_hits(&hits));
            self.stacks.iter_mut().for_each(|stack| stack.add_hits(&hits));
        }
        self.replay_behind(requests, tables);
        requests.clear();
    }

    /// Handles requests in every back that is not simulated in bits.
    pub(crate) fn replay_behind(&mut self, requests: &[Request], tables: &Tables) {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        self.backs.iter_mut().for_each(|back| back.replay(requests, None, &translation));
        self.stacks.iter_mut().for_each(|stack| stack.replay(requests, &translation));
    }

    /// Removes the lines of a page, whose frame has changed hands, from the backs that are not simulated in bits.
    /// `requests` are the writes of the dirty lines that left level 1.
    pub(crate) fn flush_behind(&mut self, held: PageId, requests: &mut Vec<Request>, tables: &Tables) {
        self.replay_behind(requests, tables);
        requests.clear();
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        self.mappings.clear();
        self.mappings.extend(tables.mappings_of(held));
        self.mappings.reverse();
        for back in &mut self.backs {
            back.flush_page(held, &self.mappings, self.clock.now, &translation);
        }
        self.stacks.iter_mut().for_each(|stack| stack.flush_page(held, &translation));
        self.known_hits.iter_mut().for_each(|known_hits| known_hits.forget(held, &translation));
    }

    /// Takes the final counts of level 1, and of each back in bits, from the bundle.
    pub(crate) fn end_in_bundle(&mut self, front: CountsOfLane, backs: Vec<CountsOfLane>) {
        let in_bits = self.bits.as_mut().expect("the lane is in a bundle");
        (in_bits.front, in_bits.backs) = (front, backs);
    }
}
