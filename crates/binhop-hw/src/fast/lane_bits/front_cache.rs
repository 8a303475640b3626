//! `FrontCache` is one direct-mapped cache of level 1 in every lane.

use binhop_base::{Kind, PageId, PerKind};

use super::{LinesOf, LinesOfLanes, Mask, counter::LaneCounter, frames::LaneFrames};
use crate::{CacheConfig, CacheCounters, Request, Resident, cache::is_first};

/// The lines of one slot that some lane holds. An access makes its line resident in every lane, so a line that is not
/// asked for again soon loses its lanes: few lines stand in a slot.
type SlotLines = Vec<PresentLine>;

/// The lines by which the room of a slot grows. Slots are many, so that room which doubled would cost memory.
const SPARE_LINES: usize = 4;

/// A line that some lane holds.
#[derive(Clone, Copy, Debug)]
struct PresentLine {
    key: u64,
    /// The lanes that hold the line, and those in which it is dirty.
    resident: Mask,
    dirty: Mask,
}

/// A line that is written back, and the lanes in which it is.
pub(super) type WrittenBack = (u64, Mask);

/// `FrontCache` is one direct-mapped cache of level 1 in every lane.
///
/// A *slot* holds the lines whose line number within the page has the same lower bits. In one lane, two lines of a slot
/// meet in a set if the frames of their pages agree in the bits of the set above the page.
#[derive(Clone, Debug)]
pub(super) struct FrontCache {
    /// The number of the cache in the tree.
    pub(super) number: usize,
    lines_of: LinesOf,
    /// The number of the lowest bits of a frame that choose the set.
    bin_bits: u32,
    slots: Vec<SlotLines>,
    touched: Vec<u64>,
    accesses: PerKind<u64>,
    compulsory: PerKind<u64>,
    misses: PerKind<LaneCounter>,
    evictions: LaneCounter,
    written_back: LaneCounter,
    dirtied: LaneCounter,
    /// For each lane, the lines that were flushed, and the dirty lines among them.
    purged: Vec<[u64; 2]>,
}

impl FrontCache {
    pub(super) fn new(number: usize, cache: &CacheConfig, lines_of: LinesOf, lanes: usize) -> Self {
        let slots = cache.sets().min(1 << lines_of.log2);
        Self {
            number,
            lines_of,
            bin_bits: cache.sets().ilog2().saturating_sub(lines_of.log2),
            slots: vec![SlotLines::new(); slots as usize],
            touched: Vec::new(),
            accesses: PerKind::default(),
            compulsory: PerKind::default(),
            misses: PerKind::default(),
            evictions: LaneCounter::default(),
            written_back: LaneCounter::default(),
            dirtied: LaneCounter::default(),
            purged: vec![[0; 2]; lanes],
        }
    }

    /// Returns the number of the lowest bits of a frame that choose the set.
    pub(super) fn bin_bits(&self) -> u32 {
        self.bin_bits
    }

    /// Accesses a line in all lanes, `lanes`. Returns the lanes that miss, and appends the lines that are written back.
    #[inline]
    pub(super) fn access(
        &mut self,
        key: u64,
        kind: Kind,
        lanes: Mask,
        frames: &LaneFrames,
        written_back: &mut Vec<WrittenBack>,
    ) -> Mask {
        self.accesses[kind] += 1;
        let slots = self.slots.len();
        let slot = &mut self.slots[key as usize & (slots - 1)];
        let stored = if kind == Kind::Store { lanes } else { 0 };
        // The line that was accessed last stands first. It is often the line that is accessed next.
        match slot.iter().position(|line| line.key == key) {
            Some(0) => {}
            Some(place) => slot.swap(0, place),
            None => {
                if slot.len() == slot.capacity() {
                    slot.reserve_exact(SPARE_LINES);
                }
                slot.push(PresentLine { key, resident: 0, dirty: 0 });
                let last = slot.len() - 1;
                slot.swap(0, last);
            }
        }
        let PresentLine { resident, dirty, .. } = slot[0];
        slot[0] = PresentLine { key, resident: lanes, dirty: dirty | stored };
        if stored & !dirty != 0 {
            self.dirtied.add(stored & !dirty);
        }
        let missed = lanes & !resident;
        if missed == 0 {
            return 0;
        }
        self.misses[kind].add(missed);
        let page = self.lines_of.page(key);
        let (mut evicted, mut evicted_dirty) = (0, 0);
        let mut at = 1;
        while let Some(line) = slot.get_mut(at) {
            // Where the accessed line is resident, no other line is in its set.
            let taken = line.resident & frames.agree(page, self.lines_of.page(line.key), self.bin_bits);
            debug_assert_eq!(taken & !missed, 0, "two lines in one set");
            evicted |= taken;
            let taken_dirty = line.dirty & taken;
            if taken_dirty != 0 {
                evicted_dirty |= taken_dirty;
                written_back.push((line.key, taken_dirty));
            }
            line.resident &= !taken;
            line.dirty &= !taken;
            if line.resident == 0 {
                slot.swap_remove(at);
            } else {
                at += 1;
            }
        }
        self.evictions.add(evicted);
        if evicted_dirty != 0 {
            self.written_back.add(evicted_dirty);
        }
        if resident == 0 && is_first(&mut self.touched, key) {
            self.compulsory[kind] += 1;
        }
        missed
    }

    /// Removes the lines of a page from one lane. Appends the writes of its dirty lines to `requests`.
    pub(super) fn flush_page(&mut self, lane: usize, page: PageId, mut requests: Option<&mut Vec<Request>>) {
        let bit: Mask = 1 << lane;
        let slots = self.slots.len();
        for key in self.lines_of.keys(page) {
            let slot = &mut self.slots[key as usize & (slots - 1)];
            let Some(at) = slot.iter().position(|line| line.key == key) else { continue };
            let line = &mut slot[at];
            self.purged[lane][0] += line.resident >> lane & 1;
            self.purged[lane][1] += line.dirty >> lane & 1;
            if let (Some(requests), true) = (&mut requests, line.dirty & bit != 0) {
                requests.push(self.lines_of.written_by_system(key));
            }
            line.resident &= !bit;
            line.dirty &= !bit;
            if line.resident == 0 {
                slot.swap_remove(at);
            }
        }
    }

    /// Returns the dirty lines of a lane that were flushed.
    pub(super) fn purged_dirty(&self, lane: usize) -> u64 {
        self.purged[lane][1]
    }

    /// Returns the demand misses of a lane.
    pub(super) fn demand_misses(&self, lane: usize) -> u64 {
        [Kind::Fetch, Kind::Load, Kind::Store].iter().map(|&kind| self.misses[kind].get(lane)).sum()
    }

    /// Returns the counts of a lane.
    pub(super) fn counters(&self, lane: usize) -> CacheCounters {
        let misses = PerKind(std::array::from_fn(|kind| self.misses.0[kind].get(lane)));
        let [purged, purged_dirty] = self.purged[lane];
        let evictions_dirty = self.written_back.get(lane);
        let mut sent = misses;
        (sent[Kind::Writeback], sent[Kind::System]) = (evictions_dirty, purged_dirty);
        CacheCounters {
            accesses: self.accesses,
            misses,
            compulsory: self.compulsory,
            sent,
            fills: misses.total(),
            evictions: self.evictions.get(lane),
            evictions_dirty,
            purged,
            purged_dirty,
            dirtied: self.dirtied.get(lane),
            // No cache of this path is below an inclusive cache, or has stream buffers or a write buffer.
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
        LinesOfLanes::of(self.slots.iter().flatten().map(|line| [line.resident, line.dirty]))
    }

    /// Visits the lines that a lane holds.
    pub(super) fn each(&self, lane: usize, mut visit: impl FnMut(Resident)) {
        for line in self.slots.iter().flatten().filter(|line| line.resident >> lane & 1 == 1) {
            visit(self.lines_of.resident(line.key, line.dirty >> lane & 1 == 1));
        }
    }
}
