//! `BackCache` is the only cache behind level 1, in every lane.

use binhop_base::{Kind, PageId, PerKind, Rng};

use super::{
    LinesOf, LinesOfLanes, Mask, counter::LaneCounter, frames::LaneFrames, lane_sets::LaneSets,
    line_masks::LineMasks,
};
use crate::{CacheConfig, CacheCounters, Resident, cache::is_first, request::is_data};

/// `BackCache` is one cache in every lane, whose replacement ignores hits. Each line of each page has a word of the lanes
/// that hold the line, and a word of the lanes in which the line is dirty. Only a lane that misses is visited by itself, to
/// find the victim.
#[derive(Clone, Debug)]
pub(super) struct BackCache {
    /// The number of the cache in its tree.
    pub(super) number: usize,
    lines_of: LinesOf,
    lines: LineMasks,
    sets: LaneSets,
    touched: Vec<u64>,
    accesses: PerKind<LaneCounter>,
    compulsory: PerKind<u64>,
    misses: PerKind<LaneCounter>,
    /// The misses of data that is smaller than the line. The rest of the line is read.
    in_part: LaneCounter,
    evictions: LaneCounter,
    written_back: LaneCounter,
    dirtied: LaneCounter,
    /// For each lane, the lines that were flushed, and the dirty lines among them.
    purged: Vec<[u64; 2]>,
}

impl BackCache {
    /// An empty cache. Each lane draws from a generator of its own.
    pub(super) fn new(number: usize, cache: &CacheConfig, lines_of: LinesOf, seeds: &[Rng]) -> Self {
        Self {
            number,
            lines_of,
            lines: LineMasks::new(seeds.len()),
            sets: LaneSets::new(number, cache, lines_of, seeds),
            touched: Vec::new(),
            accesses: PerKind::default(),
            compulsory: PerKind::default(),
            misses: PerKind::default(),
            in_part: LaneCounter::default(),
            evictions: LaneCounter::default(),
            written_back: LaneCounter::default(),
            dirtied: LaneCounter::default(),
            purged: vec![[0; 2]; seeds.len()],
        }
    }

    /// Makes room for the lines of a page.
    pub(super) fn make_room(&mut self, page: PageId) {
        self.lines.make_room((page.index() + 1) << self.lines_of.log2);
    }

    /// Handles a request of some lanes, for a line of level 1 or with its data. `all` are all lanes, and `above` names the
    /// lines of the cache that asks.
    #[inline]
    pub(super) fn request(
        &mut self,
        key: u64,
        above: LinesOf,
        kind: Kind,
        lanes: Mask,
        all: Mask,
        frames: &LaneFrames,
    ) {
        self.accesses[kind].add(lanes);
        let smaller = self.lines_of.line_log2 - above.line_log2;
        let key = key >> smaller;
        let written = if is_data(kind) { lanes } else { 0 };
        let [resident, dirty] = self.lines.get(key);
        let missed = lanes & !resident;
        let dirtied = written & !dirty;
        if dirtied != 0 {
            self.dirtied.add(dirtied);
        }
        if missed | dirtied != 0 {
            self.lines.set(key, [resident | lanes, dirty | written]);
        }
        if missed == 0 {
            return;
        }
        self.misses[kind].add(missed);
        if is_data(kind) && smaller > 0 {
            self.in_part.add(missed);
        }
        // The first request for a line comes from all lanes at once.
        if missed == all && is_first(&mut self.touched, key) {
            self.compulsory[kind] += 1;
        }
        self.replace(key, missed, frames);
    }

    /// Puts a line into its set in the lanes that lacked it. The line that lay there leaves.
    fn replace(&mut self, key: u64, missed: Mask, frames: &LaneFrames) {
        let Self { lines_of, lines, sets, .. } = self;
        let number = lines_of.line(key);
        let (mut evicted, mut evicted_dirty) = (0, 0);
        sets.put(key, missed, frames, |bit, page| {
            let victim = u64::from(page.0) << lines_of.log2 | number;
            let [resident, dirty] = lines.get(victim);
            debug_assert!(resident & bit != 0, "the occupant of a way lies there");
            evicted |= bit;
            evicted_dirty |= dirty & bit;
            lines.set(victim, [resident & !bit, dirty & !bit]);
        });
        self.evictions.add(evicted);
        if evicted_dirty != 0 {
            self.written_back.add(evicted_dirty);
        }
    }

    /// Removes the lines of a page from one lane.
    pub(super) fn flush_page(&mut self, lane: usize, page: PageId, frames: &LaneFrames) {
        let bit = 1 << lane;
        for key in self.lines_of.keys(page) {
            let [resident, dirty] = self.lines.get(key);
            if resident & bit == 0 {
                continue;
            }
            self.purged[lane][0] += 1;
            self.purged[lane][1] += dirty >> lane & 1;
            self.lines.set(key, [resident & !bit, dirty & !bit]);
            self.sets.remove(key, lane, frames);
        }
    }

    /// Returns the demand misses of a lane.
    pub(super) fn demand_misses(&self, lane: usize) -> u64 {
        [Kind::Fetch, Kind::Load, Kind::Store].iter().map(|&kind| self.misses[kind].get(lane)).sum()
    }

    /// Returns the counts of a lane.
    pub(super) fn counters(&self, lane: usize) -> CacheCounters {
        let of_lane =
            |counts: &PerKind<LaneCounter>| PerKind(std::array::from_fn(|kind| counts.0[kind].get(lane)));
        let (accesses, misses) = (of_lane(&self.accesses), of_lane(&self.misses));
        let [purged, purged_dirty] = self.purged[lane];
        let evictions_dirty = self.written_back.get(lane);
        let mut sent = misses;
        (sent[Kind::Write], sent[Kind::Writeback]) = (0, evictions_dirty);
        sent[Kind::Fill] += self.in_part.get(lane);
        sent[Kind::System] += purged_dirty;
        CacheCounters {
            accesses,
            misses,
            compulsory: self.compulsory,
            sent,
            fills: misses.total(),
            evictions: self.evictions.get(lane),
            evictions_dirty,
            purged,
            purged_dirty,
            dirtied: self.dirtied.get(lane),
            // No cache of this path is inclusive, or has stream buffers or a write buffer.
            invalidated: 0,
            invalidated_dirty: 0,
            stream_hits: 0,
            merges: 0,
            stalls: 0,
            stall_cycles: 0,
        }
    }

    /// Returns for each lane how many lines it holds, and how many of them are dirty.
    pub(super) fn resident(&self) -> LinesOfLanes {
        LinesOfLanes::of((0..self.lines.lines()).map(|key| self.lines.get(key)))
    }

    /// Visits the lines that a lane holds.
    pub(super) fn each(&self, lane: usize, mut visit: impl FnMut(Resident)) {
        for key in 0..self.lines.lines() {
            let [resident, dirty] = self.lines.get(key);
            if resident >> lane & 1 == 1 {
                visit(self.lines_of.resident(key, dirty >> lane & 1 == 1));
            }
        }
    }
}
