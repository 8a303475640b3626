//! `FrontCache` is one direct-mapped cache of level 1 in every lane.

use binhop_base::{Kind, PageId, PerKind};

use super::{By, LinesOf, LinesOfLanes, Mask, counter::LaneCounter, frames::LaneFrames};
use crate::{
    AgentCounters, CacheConfig, CacheCounters, Request, Resident,
    cache::{Cache, is_first, lines::Word},
};

/// The lines of one slot that some lane holds. An access makes its line resident in every lane, so a line that is not
/// asked for again soon loses its lanes: few lines stand in a slot.
type SlotLines = Vec<PresentLine>;

/// The number of lines by which the room of a slot grows. There are many slots, so doubling the room would cost memory.
const SPARE_LINES: usize = 4;

/// A line that some lane holds.
#[derive(Clone, Copy, Debug)]
struct PresentLine {
    key: u64,
    /// The lanes that hold the line. `dirty` has the lanes in which the line is dirty.
    resident: Mask,
    dirty: Mask,
}

/// A line that is written back, and the lanes in which it is.
pub(super) type WrittenBack = (u64, Mask);

/// The accesses of one agent, and what followed from them.
#[derive(Clone, Debug, Default)]
struct AccessesOfAgent {
    accesses: PerKind<u64>,
    compulsory: PerKind<u64>,
    misses: PerKind<LaneCounter>,
    written_back: LaneCounter,
}

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
    /// By the place of the agent: see [`By::agent`].
    by_agent: [AccessesOfAgent; 2],
    evictions: LaneCounter,
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
            by_agent: Default::default(),
            evictions: LaneCounter::default(),
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
        (key, kind, by): (u64, Kind, By),
        lanes: Mask,
        frames: &LaneFrames,
        written_back: &mut Vec<WrittenBack>,
    ) -> Mask {
        let counts = &mut self.by_agent[by.agent()];
        counts.accesses[kind] += 1;
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
        counts.misses[kind].add(missed);
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
            counts.written_back.add(evicted_dirty);
        }
        if resident == 0 && is_first(&mut self.touched, key) {
            counts.compulsory[kind] += 1;
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

    /// Returns the user's demand misses of a lane.
    pub(super) fn demand_misses(&self, lane: usize) -> u64 {
        let misses = &self.by_agent[0].misses;
        [Kind::Fetch, Kind::Load, Kind::Store].iter().map(|&kind| misses[kind].get(lane)).sum()
    }

    /// Gives an empty cache the contents and counts that this cache has in one lane.
    pub(super) fn restore(&self, lane: usize, frames: &LaneFrames, cache: &mut Cache) {
        cache.counters = self.counters(lane);
        cache.by_agent.iter_mut().for_each(|counters| *counters = self.counters_of_agent(lane));
        cache.touched.clone_from(&self.touched);
        self.each(lane, |line| {
            let frame = frames.lower(PageId(line.at.id))[lane];
            let key = u64::from(line.at.id) << self.lines_of.log2 | u64::from(line.at.line);
            let victim = cache.lines.put(cache.set(frame.into(), line.at.line), Word::new(key, line.dirty));
            debug_assert!(victim.is_none(), "a lane holds one line of each set");
        });
    }

    /// Returns the counts of the agent other than the user in a lane.
    pub(super) fn counters_of_agent(&self, lane: usize) -> AgentCounters {
        let AccessesOfAgent { accesses, compulsory, misses, written_back } = &self.by_agent[1];
        let misses = PerKind(std::array::from_fn(|kind| misses.0[kind].get(lane)));
        let mut sent = misses;
        sent[Kind::Writeback] = written_back.get(lane);
        AgentCounters {
            accesses: *accesses,
            misses,
            compulsory: *compulsory,
            sent,
            // The agent asks level 1 as the processor does.
            asked: *accesses,
            // Devices alone discard and clean lines.
            discarded: 0,
            cleaned: 0,
        }
    }

    /// Returns the counts of a lane.
    pub(super) fn counters(&self, lane: usize) -> CacheCounters {
        let [user, other] = &self.by_agent;
        let of_lane = |misses: &PerKind<LaneCounter>| -> PerKind<u64> {
            PerKind(std::array::from_fn(|kind| misses.0[kind].get(lane)))
        };
        let misses = of_lane(&user.misses);
        let [purged, purged_dirty] = self.purged[lane];
        let written_back = user.written_back.get(lane);
        let evictions_dirty = written_back + other.written_back.get(lane);
        let mut sent = misses;
        (sent[Kind::Writeback], sent[Kind::System]) = (written_back, purged_dirty);
        CacheCounters {
            accesses: user.accesses,
            misses,
            compulsory: user.compulsory,
            sent,
            fills: misses.total() + of_lane(&other.misses).total(),
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
