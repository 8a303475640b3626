//! `BackCache` is one cache behind level 1, in every lane.

use binhop_base::{Kind, PageId, PerKind, Rng};

use super::{
    By, LinesOf, LinesOfLanes, MOST_LANES, Mask, WrittenBack,
    after_marks::{MissesAfterMarks, Part},
    counter::LaneCounter,
    frames::{LaneFrames, PlacedPage},
    front_requests::{FrontRequest, RequestCounts},
    lane_sets::LaneSets,
    line_masks::LineMasks,
};
use crate::{
    AgentCounters, CacheConfig, CacheCounters, Resident,
    cache::{Cache, is_first, lines::Word},
    request::is_data,
};

/// `BitsRequest` is a request for a line of a cache. Its data may be smaller than the line: then the request `is_part`
/// of the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct BitsRequest {
    pub(super) key: u64,
    pub(super) kind: Kind,
    pub(super) by: By,
    pub(super) is_part: bool,
    /// The part of the stream that makes the request.
    pub(super) part: Part,
}

/// The requests of one agent, and what followed from them.
#[derive(Clone, Debug, Default)]
struct RequestsOfAgent {
    accesses: PerKind<LaneCounter>,
    compulsory: PerKind<u64>,
    misses: PerKind<LaneCounter>,
    /// The misses of data that is smaller than the line. The rest of the line is read.
    in_part: LaneCounter,
    written_back: LaneCounter,
}

/// The counts of [`RequestsOfAgent`] in one lane.
struct RequestsInLane {
    accesses: PerKind<u64>,
    misses: PerKind<u64>,
    /// The requests to the next level, without the requests that flushes send.
    sent: PerKind<u64>,
}

impl RequestsOfAgent {
    fn in_lane(&self, lane: usize) -> RequestsInLane {
        let of_lane =
            |counts: &PerKind<LaneCounter>| PerKind(std::array::from_fn(|kind| counts.0[kind].get(lane)));
        let (accesses, misses) = (of_lane(&self.accesses), of_lane(&self.misses));
        let mut sent = misses;
        (sent[Kind::Write], sent[Kind::Writeback]) = (0, self.written_back.get(lane));
        sent[Kind::Fill] += self.in_part.get(lane);
        RequestsInLane { accesses, misses, sent }
    }
}

/// `BackCache` is one cache in every lane. Each line of each page has a word of the lanes that hold the line, and a
/// word of the lanes in which the line is dirty. Only a lane that misses is visited by itself, to find the victim.
#[derive(Clone, Debug)]
pub(super) struct BackCache {
    /// The number of the cache in its tree.
    pub(super) number: usize,
    pub(super) lines_of: LinesOf,
    lines: LineMasks,
    sets: LaneSets,
    touched: Vec<u64>,
    /// By the place of the agent: see [`By::agent`].
    by_agent: [RequestsOfAgent; 2],
    evictions: LaneCounter,
    dirtied: LaneCounter,
    pub(super) after_marks: MissesAfterMarks,
    /// For each lane, the lines that were flushed, and the dirty lines among them.
    purged: Vec<[u64; 2]>,
    /// Room for the victims of a request.
    victims: Box<[WrittenBack; MOST_LANES]>,
}

impl BackCache {
    /// Makes an empty cache. Each lane draws from a generator of its own. `agent_counts` says whether the demand misses
    /// of the agent other than the user count at marks, too.
    pub(super) fn new(
        number: usize,
        cache: &CacheConfig,
        (lines_of, seeds): (LinesOf, &[Rng]),
        agent_counts: bool,
    ) -> Self {
        Self {
            number,
            lines_of,
            lines: LineMasks::new(lines_of, seeds.len()),
            sets: LaneSets::new(number, cache, lines_of, seeds),
            touched: Vec::new(),
            by_agent: Default::default(),
            evictions: LaneCounter::default(),
            dirtied: LaneCounter::default(),
            after_marks: MissesAfterMarks::new(agent_counts),
            purged: vec![[0; 2]; seeds.len()],
            victims: Box::new([(0, 0); MOST_LANES]),
        }
    }

    /// Places a page in a frame in one lane.
    #[inline]
    pub(super) fn place(&mut self, PlacedPage { lane, page, lower }: PlacedPage) {
        self.lines.make_room(page);
        self.sets.place(lane, page, lower, &self.lines);
    }

    /// Handles a request of some lanes, without counting the access. `all` are all lanes. Returns the lanes that miss.
    /// In these lanes the line takes its place, and `written_back` gets the dirty lines that have to leave.
    #[inline]
    pub(super) fn request(
        &mut self,
        request: BitsRequest,
        lanes: Mask,
        all: Mask,
        frames: &LaneFrames,
        written_back: &mut Vec<WrittenBack>,
    ) -> Mask {
        let BitsRequest { key, kind, by, is_part, part } = request;
        let written = if is_data(kind) { lanes } else { 0 };
        let [resident, dirty] = self.lines.get(key);
        let missed = lanes & !resident;
        let dirtied = written & !dirty;
        self.sets.touch(key);
        if dirtied != 0 {
            self.dirtied.add(dirtied);
        }
        if missed | dirtied != 0 {
            self.lines.set(key, [resident | lanes, dirty | written]);
        }
        if missed == 0 {
            return 0;
        }
        let counts = &mut self.by_agent[by.agent()];
        counts.misses[kind].add(missed);
        if part > 0 && kind.is_demand() {
            self.after_marks.count(part, by, missed);
        }
        if is_data(kind) && is_part {
            counts.in_part.add(missed);
        }
        // The first request for a line comes from all lanes at once.
        if missed == all && is_first(&mut self.touched, key) {
            counts.compulsory[kind] += 1;
        }
        self.replace((key, by), missed, frames, written_back);
        missed
    }

    /// Counts accesses.
    pub(super) fn count_accesses(&mut self, counts: &RequestCounts) {
        for (own, counts) in self.by_agent.iter_mut().zip(counts) {
            for (own, count) in
                own.accesses.0.iter_mut().zip(&counts.0).filter(|(_, count)| !count.is_clear())
            {
                own.add_all(count);
            }
        }
    }

    /// Returns the number of requests before the first request that changes something. The replacement ignores hits.
    #[inline]
    pub(super) fn find_change(&self, requests: &[FrontRequest]) -> usize {
        self.lines.find_change(requests, self.lines_of.line_log2)
    }

    /// Tells the processor that a line is requested soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: u64) {
        self.lines.prefetch(key);
    }

    /// Counts an access of some lanes.
    #[inline]
    pub(super) fn count_access(&mut self, kind: Kind, by: By, lanes: Mask) {
        self.by_agent[by.agent()].accesses[kind].add(lanes);
    }

    /// Handles lines of one line number that the cache above writes back, at most one line of each lane. Appends the
    /// lines that this cache lacks to `missing`. The replacement ignores hits, because this cache is not the first.
    pub(super) fn take_data(
        &mut self,
        lines: &[WrittenBack],
        (above, by): (LinesOf, By),
        missing: &mut Vec<WrittenBack>,
    ) {
        let smaller = self.lines_of.line_log2 - above.line_log2;
        let asking = lines.iter().fold(0, |asking, (_, lanes)| asking | lanes);
        let dirtied = self.lines.write(lines, smaller, missing);
        self.by_agent[by.agent()].accesses[Kind::Writeback].add(asking);
        if dirtied != 0 {
            self.dirtied.add(dirtied);
        }
    }

    /// Puts a line into its set in the lanes that lacked it. The line that lay there leaves.
    fn replace(
        &mut self,
        (key, by): (u64, By),
        missed: Mask,
        frames: &LaneFrames,
        written_back: &mut Vec<WrittenBack>,
    ) {
        let Self { lines_of, lines, sets, victims, .. } = self;
        let number = lines_of.line(key);
        // The victims are found first, and taken afterwards: so a processor waits for the memory of several lanes at
        // once. Sets call with no bit in a lane that no line leaves, because a branch could not be predicted.
        let mut leaving = 0;
        sets.put(key, missed, frames, |lanes, page| {
            victims[leaving % MOST_LANES] = (page.0.into(), lanes);
            leaving += usize::from(lanes != 0);
        });
        let ([evicted, evicted_dirty], dirty_victims) = lines.take(number as usize, &mut victims[..leaving]);
        let dirty =
            victims[..dirty_victims].iter().map(|&(page, lanes)| (page << lines_of.log2 | number, lanes));
        written_back.extend(dirty);
        if evicted != 0 {
            self.evictions.add(evicted);
        }
        if evicted_dirty != 0 {
            self.by_agent[by.agent()].written_back.add(evicted_dirty);
        }
    }

    /// Gives an empty cache the contents and counts that this cache has in one lane.
    pub(super) fn restore(&self, lane: usize, agent_asks: bool, cache: &mut Cache) {
        let Self { lines_of, lines, sets, touched, .. } = self;
        cache.counters = self.counters(lane);
        let of_agent = self.counters_of_agent(lane, agent_asks);
        cache.by_agent.iter_mut().for_each(|counters| *counters = of_agent);
        cache.touched.clone_from(touched);
        sets.each_set(lane, lines, |set, pages, victims| {
            let number = (set as u64) & ((1 << lines_of.log2) - 1);
            for page in pages {
                let key = u64::from(page.0) << lines_of.log2 | number;
                let dirty = lines.get(key)[1] >> lane & 1 == 1;
                let victim = cache.lines.put(set, Word::new(key, dirty));
                debug_assert!(victim.is_none(), "a set holds as many lines as it has ways");
            }
            cache.lines.set_victims(set, victims);
        });
    }

    /// Removes the lines of a page from one lane.
    pub(super) fn flush_page(&mut self, lane: usize, page: PageId, frames: &LaneFrames) {
        let bit = 1 << lane;
        self.sets.lose(lane, &self.lines);
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

    /// Returns the counts of the agent other than the user in a lane. `asks` says whether the agent asks this cache
    /// itself.
    pub(super) fn counters_of_agent(&self, lane: usize, asks: bool) -> AgentCounters {
        let RequestsInLane { accesses, misses, sent } = self.by_agent[1].in_lane(lane);
        let mut asked = PerKind::default();
        if asks {
            for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
                asked[kind] = accesses[kind];
            }
        }
        let compulsory = self.by_agent[1].compulsory;
        // Devices alone discard and clean lines.
        AgentCounters { accesses, misses, compulsory, sent, asked, discarded: 0, cleaned: 0 }
    }

    /// Returns the counts of a lane.
    pub(super) fn counters(&self, lane: usize) -> CacheCounters {
        let [user, other] = self.by_agent.each_ref().map(|counts| counts.in_lane(lane));
        let RequestsInLane { accesses, misses, mut sent } = user;
        let [purged, purged_dirty] = self.purged[lane];
        let evictions_dirty = sent[Kind::Writeback] + other.sent[Kind::Writeback];
        sent[Kind::System] += purged_dirty;
        CacheCounters {
            accesses,
            misses,
            compulsory: self.by_agent[0].compulsory,
            sent,
            fills: misses.total() + other.misses.total(),
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

    fn keys(&self) -> std::ops::Range<u64> {
        0..self.lines.pages() << self.lines_of.log2
    }

    /// Returns for each lane how many lines it holds, and how many of them are dirty.
    pub(super) fn resident(&self) -> LinesOfLanes {
        LinesOfLanes::of(self.keys().map(|key| self.lines.get(key)))
    }

    /// Visits the lines that a lane holds.
    pub(super) fn each(&self, lane: usize, mut visit: impl FnMut(Resident)) {
        for key in self.keys() {
            let [resident, dirty] = self.lines.get(key);
            if resident >> lane & 1 == 1 {
                visit(self.lines_of.resident(key, dirty >> lane & 1 == 1));
            }
        }
    }
}
