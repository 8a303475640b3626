//! `FrontCache` is one cache of level 1 in every lane: a direct-mapped cache, or a cache of several ways whose sets the
//! frame does not choose.

use binhop_base::{Kind, LineAddr, PageId, PerKind};

use super::{
    By, LinesOf, LinesOfLanes, Mask, WrittenBack,
    after_marks::{MissesAfterMarks, Part},
    all_of,
    counter::LaneCounter,
    frames::LaneFrames,
    front_requests::RequestCounts,
    lru_slot::LruSlot,
    slot_lines::{Held, SlotLines},
};
use crate::{
    AgentCounters, CacheConfig, CacheCounters, Request, Resident,
    cache::{
        Cache, is_first,
        lines::{Word, search::Search},
    },
};

/// The accesses of one agent, and what followed from them.
#[derive(Clone, Debug, Default)]
struct AccessesOfAgent {
    accesses: PerKind<u64>,
    compulsory: PerKind<u64>,
    misses: PerKind<LaneCounter>,
    written_back: LaneCounter,
}

/// `FrontAccess` is an access of a cache of level 1, with the number of the line's slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrontAccess {
    pub(super) key: u64,
    pub(super) slot: u32,
    /// The place of the access's port: 0 for a fetch.
    pub(super) port: u8,
    /// The cache, among the caches of level 1.
    pub(super) front: u8,
    pub(super) kind: Kind,
    pub(super) by: By,
}

impl FrontAccess {
    /// No access.
    pub(super) const NONE: Self =
        Self { key: 0, slot: 0, port: 0, front: 0, kind: Kind::Fetch, by: By::User };
}

/// `Slots` holds the lines of all slots.
#[derive(Clone, Debug)]
enum Slots {
    /// The slots of a direct-mapped cache. The `bin_bits` lowest bits of a frame choose the set.
    Direct { slots: Vec<SlotLines>, bin_bits: u32 },
    /// The slots of a cache that replaces the least recently used line. Each slot is a set.
    Lru { slots: Vec<LruSlot>, ways: u32 },
}

impl Slots {
    fn len(&self) -> usize {
        match self {
            Self::Direct { slots, .. } => slots.len(),
            Self::Lru { slots, .. } => slots.len(),
        }
    }

    /// Returns the number of the slot of a line.
    #[inline(always)]
    fn of(&self, key: u64) -> usize {
        key as usize & (self.len() - 1)
    }

    /// Removes a line from a lane. Returns the line as it was, if some lane holds it.
    fn remove(&mut self, key: u64, lane: usize) -> Option<Held> {
        let slot = self.of(key);
        match self {
            Self::Direct { slots, .. } => slots[slot].remove(key, lane),
            Self::Lru { slots, .. } => slots[slot].remove(key, lane),
        }
    }

    /// Visits the lines that some lane holds. If the lines of a lane come to empty sets in this order, the sets get the
    /// same order.
    fn each(&self, visit: impl FnMut(Held)) {
        match self {
            Self::Direct { slots, .. } => slots.iter().flat_map(SlotLines::iter).for_each(visit),
            Self::Lru { slots, .. } => slots.iter().flat_map(LruSlot::iter).for_each(visit),
        }
    }
}

/// `FrontCache` is one cache of level 1 in every lane.
///
/// A *slot* holds the lines whose line number within the page has the same lower bits. In one lane, two lines of a slot
/// meet in a set if the frames of their pages agree in the bits of the set above the page.
#[derive(Clone, Debug)]
pub(super) struct FrontCache {
    /// The number of the cache in the tree.
    pub(super) number: usize,
    lines_of: LinesOf,
    slots: Slots,
    touched: Vec<u64>,
    /// By the place of the agent: see [`By::agent`].
    by_agent: [AccessesOfAgent; 2],
    /// The lines that came to a free way. Every other line that came has evicted a line.
    filled: LaneCounter,
    dirtied: LaneCounter,
    pub(super) after_marks: MissesAfterMarks,
    /// For each lane, the lines that were flushed, and the dirty lines among them.
    purged: Vec<[u64; 2]>,
}

impl FrontCache {
    /// Makes an empty cache. `agent_counts` says whether the demand misses of the agent other than the user count at
    /// marks, too.
    pub(super) fn new(
        number: usize,
        cache: &CacheConfig,
        (lines_of, lanes): (LinesOf, usize),
        agent_counts: bool,
    ) -> Self {
        let slots = cache.sets().min(1 << lines_of.log2);
        let bin_bits = cache.sets().ilog2().saturating_sub(lines_of.log2);
        Self {
            number,
            lines_of,
            slots: Slots::Direct { slots: vec![SlotLines::default(); slots as usize], bin_bits },
            touched: Vec::new(),
            by_agent: Default::default(),
            filled: LaneCounter::default(),
            dirtied: LaneCounter::default(),
            after_marks: MissesAfterMarks::new(agent_counts),
            purged: vec![[0; 2]; lanes],
        }
    }

    /// Makes a cache that has in each of so many lanes the lines and the counts of a cache that these lanes have
    /// shared. The user alone has accessed it. It replaces the least recently used line, and the offset within the
    /// page chooses the set.
    pub(super) fn of_shared(number: usize, shared: &Cache, lines_of: LinesOf, lanes: usize) -> Self {
        let CacheCounters { accesses, misses, compulsory, sent, fills, evictions, dirtied, purged, .. } =
            shared.counters;
        assert_eq!(purged, 0, "no page leaves a shared cache");
        let all = all_of(lanes);
        let slot = |lines: &Vec<Option<Resident>>| {
            let key = |at: LineAddr| lines_of.key(PageId(at.id), at.line);
            LruSlot::of_lanes(all, lines.iter().flatten().map(|line| (key(line.at), line.dirty)))
        };
        let sets = shared.contents();
        let ways = sets[0].len() as u32;
        let started = LaneCounter::of_all;
        let user = AccessesOfAgent {
            accesses,
            compulsory,
            misses: PerKind(misses.0.map(started)),
            written_back: started(sent[Kind::Writeback]),
        };
        Self {
            number,
            lines_of,
            slots: Slots::Lru { slots: sets.iter().map(slot).collect(), ways },
            touched: shared.touched.clone(),
            by_agent: [user, AccessesOfAgent::default()],
            filled: started(fills - evictions),
            dirtied: started(dirtied),
            after_marks: MissesAfterMarks::new(false),
            purged: vec![[0; 2]; lanes],
        }
    }

    /// Returns the number of the lowest bits of a frame that choose the set.
    pub(super) fn bin_bits(&self) -> u32 {
        match self.slots {
            Slots::Direct { bin_bits, .. } => bin_bits,
            Slots::Lru { .. } => 0,
        }
    }

    /// Counts an access, and returns the number of its slot.
    #[inline(always)]
    pub(super) fn count_access(&mut self, key: u64, kind: Kind, by: By) -> u32 {
        self.by_agent[by.agent()].accesses[kind] += 1;
        self.slots.of(key) as u32
    }

    /// Accesses a line of a slot in all lanes, `lanes`, without counting the access. Returns the lanes that miss, and
    /// appends the lines that are written back. [`FrontCache::count_requests`] counts both.
    #[inline(always)]
    pub(super) fn access<S: Search>(
        &mut self,
        (part, FrontAccess { key, slot, kind, by, .. }): (Part, FrontAccess),
        lanes: Mask,
        frames: &LaneFrames,
        written_back: &mut Vec<WrittenBack>,
    ) -> Mask {
        let stored = if kind == Kind::Store { lanes } else { 0 };
        let (own, evicted) = match &mut self.slots {
            Slots::Direct { slots, bin_bits } => {
                let slot = &mut slots[slot as usize];
                let place = slot.place::<S>(key);
                let own = slot.held(place);
                if stored & !own.dirty != 0 {
                    self.dirtied.add(stored & !own.dirty);
                }
                if lanes & !own.resident == 0 {
                    if stored & !own.dirty != 0 {
                        slot.write::<S>(place, stored);
                    }
                    return 0;
                }
                let page = self.lines_of.page(key);
                let bins = match *bin_bits {
                    0 => 0,
                    1 => frames.lowest_bit(page),
                    bits => {
                        slot.note_meeting(|other| frames.agree(page, self.lines_of.page(other), bits));
                        Mask::MAX
                    }
                };
                let evicted = slot.evict::<S>((place, own), bins, written_back);
                slot.put::<S>(place, Held { key, resident: lanes, dirty: own.dirty | stored }, bins);
                (own, evicted.lanes)
            }
            Slots::Lru { slots, ways } => {
                let slot = &mut slots[slot as usize];
                let own = slot.touch(key, lanes, stored);
                if stored & !own.dirty != 0 {
                    self.dirtied.add(stored & !own.dirty);
                }
                if lanes & !own.resident == 0 {
                    return 0;
                }
                (own, slot.evict(lanes & !own.resident, *ways, written_back))
            }
        };
        let missed = lanes & !own.resident;
        if part > 0 {
            self.after_marks.count(part, by, missed);
        }
        if missed & !evicted != 0 {
            self.filled.add(missed & !evicted);
        }
        if own.resident == 0 && is_first(&mut self.touched, key) {
            self.by_agent[by.agent()].compulsory[kind] += 1;
        }
        missed
    }

    /// Counts the requests of these kinds that followed from accesses.
    pub(super) fn count_requests(&mut self, counts: &RequestCounts, kinds: &[Kind]) {
        for (own, counts) in self.by_agent.iter_mut().zip(counts) {
            for &kind in kinds.iter().filter(|&&kind| !counts[kind].is_clear()) {
                let of_kind =
                    if kind == Kind::Writeback { &mut own.written_back } else { &mut own.misses[kind] };
                of_kind.add_all(&counts[kind]);
            }
        }
    }

    /// Removes the lines of a page from one lane. Appends the writes of its dirty lines to `requests`.
    pub(super) fn flush_page(&mut self, lane: usize, page: PageId, mut requests: Option<&mut Vec<Request>>) {
        let bit: Mask = 1 << lane;
        for key in self.lines_of.keys(page) {
            let Some(line) = self.slots.remove(key, lane) else { continue };
            self.purged[lane][0] += line.resident >> lane & 1;
            self.purged[lane][1] += line.dirty >> lane & 1;
            if let (Some(requests), true) = (&mut requests, line.dirty & bit != 0) {
                requests.push(self.lines_of.written_by_system(key));
            }
        }
    }

    /// Returns the dirty lines of a lane that were flushed.
    pub(super) fn purged_dirty(&self, lane: usize) -> u64 {
        self.purged[lane][1]
    }

    /// Returns the demand misses of the user and of the other agent in a lane.
    pub(super) fn demand_misses(&self, lane: usize) -> [u64; 2] {
        let kinds = [Kind::Fetch, Kind::Load, Kind::Store];
        self.by_agent.each_ref().map(|counts| kinds.iter().map(|&kind| counts.misses[kind].get(lane)).sum())
    }

    /// Fills `at_marks` with the demand misses of a lane up to each mark that was passed.
    pub(super) fn misses_at_marks(&self, lane: usize, at_marks: &mut [u64]) {
        self.after_marks.at_marks(lane, self.demand_misses(lane), at_marks);
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
            debug_assert!(victim.is_none(), "a set holds no more lines than it has ways");
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
        let fills = misses.total() + of_lane(&other.misses).total();
        let mut sent = misses;
        (sent[Kind::Writeback], sent[Kind::System]) = (written_back, purged_dirty);
        CacheCounters {
            accesses: user.accesses,
            misses,
            compulsory: user.compulsory,
            sent,
            fills,
            evictions: fills - self.filled.get(lane),
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
        let mut lines = Vec::new();
        self.slots.each(|line| lines.push([line.resident, line.dirty]));
        LinesOfLanes::of(lines.into_iter())
    }

    /// Visits the lines that a lane holds.
    pub(super) fn each(&self, lane: usize, mut visit: impl FnMut(Resident)) {
        self.slots.each(|line| {
            if line.resident >> lane & 1 == 1 {
                visit(self.lines_of.resident(line.key, line.dirty >> lane & 1 == 1));
            }
        });
    }
}
