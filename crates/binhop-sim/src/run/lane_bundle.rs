//! `LaneBundle` simulates up to 64 lanes together, where a lane is a bit of its caches.

use binhop_base::{MappingId, Result, Rng, Translation};
use binhop_hw::{LaneBits, MOST_LANES};

use super::lane::{Lane, PlacedPage};
use super::recency::BlockRecency;
use crate::frame_map::{LaneTranslation, Tables};
use crate::prepare::{Block, Row};

/// Lanes are not divided among threads into bundles of fewer lanes: what lanes have in common is done once for each bundle.
const FEWEST_LANES: usize = 16;

/// The rows that go through level 1 before the other backs handle their requests. The requests of all lanes wait meanwhile.
pub(super) const PIECE: usize = 4096;

/// Returns the number of bundles of some lanes.
pub(super) fn bundles(lanes: usize, workers: usize) -> usize {
    if lanes == 0 { 0 } else { lanes.div_ceil(lanes_of_bundle(lanes, workers)) }
}

/// Returns the largest number of lanes of one bundle.
pub(super) fn lanes_of_bundle(lanes: usize, workers: usize) -> usize {
    lanes.div_ceil(workers).clamp(FEWEST_LANES, MOST_LANES)
}

/// `LaneBundle` holds lanes of the same machines, and their caches.
pub(super) struct LaneBundle {
    pub(super) lanes: Vec<Lane>,
    bits: LaneBits,
    /// True if some backs are not simulated in bits.
    has_other_backs: bool,
}

impl LaneBundle {
    /// Makes a bundle of lanes of the same machines, each in its initial state.
    pub(super) fn new(lanes: Vec<Lane>) -> Self {
        let trees = lanes[0].trees_in_bits();
        let has_other_backs = trees.iter().any(|(_, in_bits)| !in_bits);
        let seeds: Vec<Rng> = lanes.iter().map(|lane| Rng::new(lane.seed)).collect();
        let bits = LaneBits::new(&trees, &seeds);
        Self { lanes, bits, has_other_backs }
    }

    /// Simulates a block in all lanes.
    pub(super) fn run(&mut self, block: &Block, tables: &Tables, recency: &mut BlockRecency) -> Result<()> {
        let mut at = 0;
        for (number, &(position, _)) in block.controls.iter().enumerate() {
            self.advance(&block.rows()[at..position as usize], tables);
            at = position as usize;
            let Self { lanes, bits, has_other_backs } = self;
            for (place, lane) in lanes.iter_mut().enumerate() {
                let placed =
                    lane.control_in_bundle(&block.controls, number, tables, recency, (bits, place))?;
                let Some(PlacedPage { page, frame, flushed }) = placed else { continue };
                if let Some(held) = flushed {
                    bits.flush_page(place, held);
                    if *has_other_backs {
                        lane.flush_behind(held, bits.requests(place), tables);
                    }
                }
                bits.put(place, page, frame);
            }
        }
        self.advance(&block.rows()[at..], tables);
        Ok(())
    }

    /// Simulates rows without a control between them.
    fn advance(&mut self, rows: &[Row], tables: &Tables) {
        if rows.is_empty() {
            return;
        }
        let Self { lanes, bits, has_other_backs } = self;
        let translation = LaneTranslation { tables, frames: None };
        let page_of = |mapping| translation.page(MappingId(mapping));
        if !*has_other_backs {
            return bits.access_all(rows, page_of);
        }
        for rows in rows.chunks(PIECE) {
            bits.access_all(rows, page_of);
            for (place, lane) in lanes.iter_mut().enumerate() {
                lane.answer_bundle(bits.requests(place), tables);
            }
        }
    }

    /// Returns how many entries are handled one by one in a block of so many: those of all lanes if some backs are not
    /// simulated in bits.
    pub(super) fn work(&self, entries: usize) -> usize {
        if self.has_other_backs { entries * self.lanes.len() } else { entries }
    }

    /// Ends the simulation. Returns the lanes with their final counts.
    pub(super) fn into_lanes(self) -> Vec<Lane> {
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
