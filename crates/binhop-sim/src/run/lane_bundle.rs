//! `LaneBundle` simulates up to 64 lanes together, where a lane is a bit of its caches.

use std::ops::Range;

use binhop_base::{Agent, LineAddr, MappingId, PageId, Result, Rng, Translation};
use binhop_hw::{Access, BitsAccess, By, Front, LaneBits, MOST_LANES, MOST_MARKS};

use super::bundle_walks::BundleWalks;
use super::lane::{CONTROL, Lane, PageInFrame};
use super::passed_mark::PassedMark;
use super::recency::BlockRecency;
use crate::frame_map::{LaneTranslation, Tables};
use crate::prepare::{Block, Control, Entries, Mark, Row};
use crate::sharing::FEWEST_LANES;
use crate::translation::TlbEvent;

/// Returns the most accesses that wait in a bundle. If lanes have level 1 of their own, backs that are not bits handle
/// the requests of each [`PIECE`] of rows.
pub(super) fn most_waiting(shared_front: bool, has_other_backs: bool) -> usize {
    if has_other_backs && !shared_front { PIECE } else { MOST_WAITING }
}

/// The number of rows that go through level 1 before backs that are not bits handle the requests of these rows. The
/// requests of all lanes wait meanwhile.
pub(super) const PIECE: usize = 4096;

/// The most accesses that wait until they are simulated together: see [`LaneBundle::bits`].
const MOST_WAITING: usize = 3 << 17;

/// The cost of a walk in all lanes, in entries.
const WALK: usize = 8;

/// Returns the number of bundles of some lanes.
pub(super) fn bundles(lanes: usize, workers: usize) -> usize {
    if lanes == 0 { 0 } else { lanes.div_ceil(lanes_of_bundle(lanes, workers)) }
}

/// Returns the largest number of lanes of one bundle.
pub(super) fn lanes_of_bundle(lanes: usize, workers: usize) -> usize {
    lanes.div_ceil(workers).clamp(FEWEST_LANES, MOST_LANES)
}

/// `LaneBundle` holds lanes whose caches are equal, under any placements, and these caches.
pub(super) struct LaneBundle {
    pub(super) lanes: Vec<Lane>,
    /// The caches of all lanes, and the accesses that wait: the requests of a shared front, or the accesses of rows and
    /// walks. A page that is new to the lanes changes nothing for the accesses before it. So accesses wait until a
    /// control reads all their counts or flushes a page, or until there are [`MOST_WAITING`] of them. The more accesses
    /// are simulated together, the more accesses fall into one row of the bits' tables.
    bits: LaneBits,
    /// The marks that were passed while accesses waited. Lanes learn of them when these accesses have been made.
    passed: Vec<PassedMark>,
    /// Room for what a lane counts at these marks.
    room: Vec<u64>,
    /// The walks of all lanes, if addresses are translated.
    walks: Option<BundleWalks>,
    /// True if some backs are not simulated in bits.
    has_other_backs: bool,
}

impl LaneBundle {
    /// Makes a bundle of lanes whose caches are equal, each in its initial state.
    pub(super) fn new(lanes: Vec<Lane>) -> Self {
        let trees = lanes[0].trees_in_bits();
        let has_other_backs = trees.iter().any(|(_, in_bits)| !in_bits);
        let seeds: Vec<Rng> = lanes.iter().map(|lane| Rng::new(lane.seed)).collect();
        let mut bits = if lanes[0].is_behind_shared_front() {
            let own: Vec<_> = trees.iter().filter(|(_, in_bits)| *in_bits).map(|(tree, _)| *tree).collect();
            let asks = lanes[0].translation().is_some_and(|(config, _)| !config.reads_level_1());
            LaneBits::behind_shared_front(&own, &seeds, asks)
        } else {
            LaneBits::new(&trees, &seeds)
        };
        bits.let_wait(most_waiting(lanes[0].is_behind_shared_front(), has_other_backs));
        let walks = lanes[0].translation().map(|(config, first)| BundleWalks::new(config, first, trees[0].0));
        assert!(walks.is_none() || !has_other_backs, "walks are made in the bits alone");
        Self { walks, lanes, bits, passed: Vec::new(), room: Vec::new(), has_other_backs }
    }

    /// Makes a bundle of lanes with equal caches that have shared a front up to now. Level 1 of each lane continues in
    /// bits, and the lane simulates its backs itself.
    pub(super) fn after_shared_front(mut lanes: Vec<Lane>, front: &Front) -> Self {
        let trees: Vec<_> = lanes[0].trees_in_bits().into_iter().map(|(tree, _)| tree).collect();
        let mut bits = front.in_bits(&trees, lanes.len());
        bits.let_wait(most_waiting(false, true));
        lanes.iter_mut().for_each(Lane::join_bundle);
        Self { walks: None, lanes, bits, passed: Vec::new(), room: Vec::new(), has_other_backs: true }
    }

    /// Returns whether the bundle must end before this block, because a front is no longer shared or each lane gets
    /// TLBs of its own.
    pub(super) fn ends_before(&self, block: &Block) -> bool {
        let ends = |control: &Control| matches!(control, Control::Tlb(TlbEvent::Own(_)));
        matches!(block.controls.first(), Some((_, Control::Unshare(_))))
            || self.walks.is_some() && block.controls.iter().any(|(_, control)| ends(control))
    }

    /// Ends the bundle. Each lane continues by itself.
    pub(super) fn split(mut self) -> Result<Vec<Lane>> {
        assert!(
            self.walks.is_some() || self.lanes[0].is_behind_shared_front(),
            "level 1 in bits stays in bits"
        );
        self.access_waiting()?;
        let Self { mut lanes, bits, walks, .. } = self;
        let leave = |(place, lane): (usize, &mut Lane)| lane.leave_bundle(&bits, place, walks.as_ref());
        lanes.iter_mut().enumerate().for_each(leave);
        Ok(lanes)
    }

    /// Makes the accesses that wait. Then lanes learn of the marks that were passed meanwhile.
    fn access_waiting(&mut self) -> Result<()> {
        let Self { lanes, bits, passed, room, .. } = self;
        bits.access_waiting();
        if !passed.is_empty() {
            let pass = |(place, lane): (usize, &mut Lane)| lane.pass_marks(passed, (bits, place), room);
            lanes.iter_mut().enumerate().try_for_each(pass)?;
            bits.forget_marks();
            passed.clear();
        }
        Ok(())
    }

    /// Passes a mark without making the accesses that wait. Returns false if lanes must read all their counts at it.
    fn pass(&mut self, mark: &Control) -> Result<bool> {
        let Control::Mark(mark @ (Mark::Process(_) | Mark::Interval(_)), stream, shared) = mark else {
            return Ok(false);
        };
        if self.has_other_backs {
            return Ok(false);
        }
        if self.passed.len() == MOST_MARKS {
            self.access_waiting()?;
        }
        self.bits.pass_mark();
        self.passed.push(PassedMark { mark: *mark, stream: **stream, shared: shared.clone() });
        Ok(true)
    }

    /// Simulates a block in all lanes. `check` is told of work other than entries, as the number of entries that would
    /// cost as much. An error of `check` ends the run.
    pub(super) fn run(
        &mut self,
        block: &Block,
        tables: &Tables,
        recency: &mut BlockRecency,
        check: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        for (number, (position, control)) in block.controls.iter().enumerate() {
            // The caches of lanes that are bits have physical tags, and machines with virtual tags may share the
            // preparation.
            if matches!(control, Control::Watch(_)) {
                continue;
            }
            let position = *position;
            if let (Some(walks), Control::AfterWalk(_, Some(true))) = (&mut self.walks, control) {
                walks.await_request();
            }
            self.advance(&block.entries, at..position as usize, tables);
            at = position as usize;
            if self.walk(control, tables) {
                check(WALK)?;
                continue;
            }
            if self.pass(control)? {
                check(self.lanes.len() * CONTROL)?;
                continue;
            }
            match control {
                Control::Mark(..) => self.access_waiting()?,
                Control::Place { request, .. } if self.bits.knows(request.page) => self.bits.access_waiting(),
                _ => {}
            }
            check(self.lanes.len() * CONTROL)?;
            let Self { lanes, bits, walks, has_other_backs, .. } = self;
            for (place, lane) in lanes.iter_mut().enumerate() {
                let placed =
                    lane.control_in_bundle(block, number, tables, recency, (bits, place, walks.as_ref()))?;
                let Some(PageInFrame { page, frame, flushed }) = placed else { continue };
                if let Some(held) = flushed {
                    // The accesses before the flush find the lines of the page.
                    bits.access_waiting();
                    bits.flush_page(place, held);
                    if *has_other_backs {
                        lane.flush_behind(held, bits.requests(place), tables);
                    }
                }
                bits.put(place, page, frame);
            }
        }
        self.advance(&block.entries, at..block.entries(), tables);
        Ok(())
    }

    /// Obeys a control that belongs to a walk. Returns false for other controls.
    fn walk(&mut self, control: &Control, tables: &Tables) -> bool {
        let Self { lanes, bits, walks: Some(walks), .. } = self else { return false };
        match control {
            Control::Walk(walk) => {
                let frame = |lane: usize, page| lanes[lane].frame_of_table(page);
                walks.walk(walk, (lanes.len(), frame), bits, tables);
            }
            Control::WalkPassed(cycles) => walks.passed(*cycles),
            Control::AfterWalk(kind, missed) => walks.after_walk(*kind, *missed),
            _ => return false,
        }
        true
    }

    /// Simulates entries without a control between them.
    fn advance(&mut self, entries: &Entries, range: Range<usize>, tables: &Tables) {
        match entries {
            _ if range.is_empty() => {}
            Entries::Rows(rows) => self.access(&rows[range], tables),
            Entries::Requests(requests) => {
                let requests = &requests[range];
                let Self { lanes, bits, walks, .. } = self;
                match walks {
                    Some(walks) => {
                        let frame = |lane: usize, page| lanes[lane].frame_of_table(page);
                        for request in requests {
                            // An agent reads its own pages only. The pages of victims are known.
                            if request.origin.agent() != Agent::User && request.kind.is_demand() {
                                walks.place(PageId(request.at.id), (lanes.len(), frame), bits);
                            }
                            bits.wait(walks.of_request(request));
                        }
                    }
                    None => requests.iter().for_each(|request| bits.wait(BitsAccess::of_request(request))),
                }
                if self.has_other_backs {
                    self.lanes.iter_mut().for_each(|lane| lane.replay_behind(requests, tables));
                }
            }
        }
    }

    /// Simulates rows.
    fn access(&mut self, rows: &[Row], tables: &Tables) {
        let translation = LaneTranslation { tables, frames: None };
        let page_of = |mapping| translation.page(MappingId(mapping));
        if self.has_other_backs {
            let Self { lanes, bits, .. } = self;
            for rows in rows.chunks(PIECE) {
                bits.access_all(rows, page_of);
                for (place, lane) in lanes.iter_mut().enumerate() {
                    lane.answer_bundle(bits.requests(place), tables);
                }
            }
            return;
        }
        let Self { lanes, bits, walks, .. } = self;
        let frame = |lane: usize, page| lanes[lane].frame_of_table(page);
        for &row in rows {
            let LineAddr { id, line } = row.at();
            let page = page_of(id);
            let by = walks.as_mut().map_or(By::User, |walks| {
                let by = walks.of_row(row);
                if by == By::Agent {
                    walks.place(page, (lanes.len(), frame), bits);
                }
                by
            });
            bits.wait(BitsAccess { page, line, kind: row.kind(), by, is_part: false });
        }
    }

    /// Returns how many entries are handled one by one in a block of `entries` entries. If some backs are not simulated
    /// in bits, each lane handles all entries of the block by itself.
    pub(super) fn work(&self, entries: usize) -> usize {
        if self.has_other_backs { entries * self.lanes.len() } else { entries }
    }

    /// Ends the simulation. Returns the lanes with their final counts.
    pub(super) fn into_lanes(mut self) -> Vec<Lane> {
        self.bits.access_waiting();
        assert!(self.passed.is_empty(), "the end of the stream is a mark at which every count is read");
        let Self { mut lanes, bits, .. } = self;
        let in_bits = lanes[0].trees_in_bits().iter().filter(|(_, in_bits)| *in_bits).count();
        let mut backs: Vec<_> = (0..in_bits).map(|back| bits.backs(back).into_iter()).collect();
        for (lane, front) in lanes.iter_mut().zip(bits.fronts()) {
            let of_lane = backs.iter_mut().map(|lanes| lanes.next().expect("each lane has counts"));
            lane.end_in_bundle(front, of_lane.collect());
        }
        lanes
    }
}
