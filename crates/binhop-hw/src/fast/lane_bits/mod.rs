//! `LaneBits` simulates many lanes at once: a lane is a bit.
//!
//! # Rules
//! - Level 1 is direct-mapped, write-back and allocating. Every lane makes the same accesses in the same order; only the
//!   frames differ. A back is simulated in the same words if it is one cache whose replacement ignores hits: a direct-mapped
//!   cache, or one with random or first-in, first-out replacement. Other backs get the requests of each lane, and are
//!   simulated lane by lane.
//! - A set holds lines of one line number within the page only (of one *slot* where the cache is smaller than a page), and
//!   the frame of a page chooses among the sets of this number. For each line of each page, one word says in which lanes
//!   the line is resident, and one word in which lanes it is dirty.
//! - An access misses in the lanes in which its line is not resident. There it takes the place of the line whose frame has
//!   the same bits. Afterwards it is resident in every lane.
//! - Level 1 finds these lines among the few that stand in its slot. Each bit of the frame that chooses the set has a word
//!   for each page, so that one operation says in which lanes two pages meet.
//! - The cache behind has too many bins for this. A lane that misses there is visited by itself.
//! - Counts are sums over accesses, and lines of different line numbers never meet. A policy decides about each set by
//!   itself. So accesses of different line numbers may be simulated in any order.
//!
//! # Cost
//! An access that misses level 1 costs as much for 64 lanes as for one, besides the visits. In the cache behind level 1, a
//! line of a page takes 16 B for 64 lanes, less for fewer, and a way 4 B for each lane.

mod back_cache;
mod bucket;
mod counter;
mod counts;
mod frames;
mod front_cache;
mod lane_sets;
mod line_masks;

use binhop_base::{Agent, FrameNo, Kind, LineAddr, PageId, PowerOfTwo, Rng};

use crate::{
    Access, CacheConfig, CacheCounters, CostRule, FastPath, MEMORY, MemoryCounters, Next, Origin, Request,
    Resident, Tree, WritebackOrder, fast::back_in_bits,
};
use back_cache::BackCache;
use bucket::BucketOf;
pub use counts::CountsOfLane;
use counts::LinesOfLanes;
use frames::LaneFrames;
use front_cache::{FrontCache, WrittenBack};
use lane_sets::LaneSets;
use line_masks::LineMasks;

/// A set of lanes.
type Mask = u64;

/// The most lanes that one [`LaneBits`] simulates.
pub const MOST_LANES: usize = Mask::BITS as usize;

/// The fewest rows for each line number that are worth being sorted by line number.
const FEWEST_IN_BUCKET: usize = 8;

/// `LinesOf` names the lines of a cache by one number, the *key*: the page, then the line within the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinesOf {
    line_log2: u32,
    /// Logarithm of the lines of a page.
    log2: u32,
}

impl LinesOf {
    fn new(cache: &CacheConfig, page: PowerOfTwo) -> Self {
        Self { line_log2: cache.line.log2(), log2: page.log2() - cache.line.log2() }
    }

    #[inline]
    fn page(self, key: u64) -> PageId {
        PageId((key >> self.log2) as u32)
    }

    /// Returns the number of a line within its page.
    #[inline]
    fn line(self, key: u64) -> u64 {
        key & ((1 << self.log2) - 1)
    }

    fn keys(self, page: PageId) -> std::ops::Range<u64> {
        u64::from(page.0) << self.log2..(u64::from(page.0) + 1) << self.log2
    }

    fn name(self, key: u64) -> LineAddr {
        LineAddr { id: self.page(key).0, line: self.line(key) as u32 }
    }

    fn resident(self, key: u64, dirty: bool) -> Resident {
        Resident { at: self.name(key), dirty }
    }

    /// Returns the request by which a dirty line goes to memory when its frame changes hands.
    fn written_by_system(self, key: u64) -> Request {
        let log2 = self.line_log2 as u8;
        let origin = Origin::new(Agent::User, log2);
        Request { at: self.name(key), to: MEMORY, kind: Kind::System, origin, data: log2 }
    }
}

/// An access, with its page in place of its mapping.
#[derive(Clone, Copy, Debug)]
struct PageAccess {
    page: u32,
    line: u32,
    kind: Kind,
}

/// `Port` says which cache serves a kind of access, and what this cache asks of the level behind it.
#[derive(Clone, Copy, Debug)]
struct Port {
    lines_of: LinesOf,
    /// The cache, among the caches of level 1.
    front: usize,
    /// True if a victim is written back before the new line is read.
    writes_first: bool,
    /// The level that is asked, and the logarithm of the bytes of the lines that it is asked for.
    to: u8,
    unit: u32,
}

impl Port {
    fn request(self, key: u64, kind: Kind) -> Request {
        let line = self.lines_of.line(key) >> (self.unit - self.lines_of.line_log2);
        Request {
            at: LineAddr { id: self.lines_of.page(key).0, line: line as u32 },
            to: self.to,
            kind,
            origin: Origin::new(Agent::User, self.unit as u8),
            data: self.lines_of.line_log2 as u8,
        }
    }
}

/// `LaneBits` holds level 1 of up to [`MOST_LANES`] lanes, and any number of caches that stand behind it, each for itself.
/// Other backs get the requests of each lane.
#[derive(Clone, Debug)]
pub struct LaneBits {
    /// One bit for each lane.
    all: Mask,
    frames: LaneFrames,
    /// The caches of level 1: one cache, or that of instructions and that of data.
    fronts: Vec<FrontCache>,
    /// For fetches, and for data.
    ports: [Port; 2],
    backs: Vec<BackCache>,
    /// The tree of each back.
    trees: Vec<Tree>,
    /// The requests of each lane; empty if every back is one of `backs`.
    requests: Vec<Vec<Request>>,
    bucket: BucketOf,
    /// Room for the lines that an access writes back, and for the accesses of a block by bucket.
    written_back: Vec<WrittenBack>,
    starts: Vec<u32>,
    sorted: Vec<PageAccess>,
}

impl LaneBits {
    /// Empty caches for lanes of these trees, whose fronts are equal. Each lane has a generator, from which policies draw
    /// that need random numbers. For each tree, `in_bits` tells whether the cache behind its front is simulated here, too;
    /// see [`LaneBits::takes_back`].
    ///
    /// # Panics
    /// There is no tree, no lane, or there are more than [`MOST_LANES`] lanes. A tree does not allow
    /// [`FastPath::LaneBits`], or does not allow its back here.
    #[must_use]
    pub fn new(trees: &[(&Tree, bool)], seeds: &[Rng]) -> Self {
        let lanes = seeds.len();
        assert!((1..=MOST_LANES).contains(&lanes), "{lanes} lanes");
        let tree = trees.first().expect("there is a tree").0;
        let config = tree.config();
        for (tree, _) in trees {
            assert_eq!(FastPath::of(tree).why_not(FastPath::LaneBits), None);
        }
        let mut numbers = vec![config.fetch];
        numbers.extend((config.data != config.fetch).then_some(config.data));
        let lines_of = |cache: &CacheConfig| LinesOf::new(cache, config.page);
        let fronts: Vec<FrontCache> = numbers
            .iter()
            .map(|&number| {
                FrontCache::new(number, &config.caches[number], lines_of(&config.caches[number]), lanes)
            })
            .collect();
        let port = |number: usize| {
            let cache = &config.caches[number];
            let (to, unit) = match cache.next {
                Next::Cache(next) => (next as u8, config.caches[next].line.log2()),
                Next::Memory => (MEMORY, cache.line.log2()),
            };
            Port {
                lines_of: lines_of(cache),
                front: numbers
                    .iter()
                    .position(|&front| front == number)
                    .expect("a front serves the processor"),
                writes_first: cache.writeback_order == WritebackOrder::BeforeFill,
                to,
                unit,
            }
        };
        let (own, others): (Vec<_>, Vec<_>) = trees.iter().partition(|(_, in_bits)| *in_bits);
        let trees: Vec<Tree> = own.iter().map(|(tree, _)| (*tree).clone()).collect();
        let back = |tree: &Tree| {
            let number = back_in_bits(tree).expect("the caller has asked whether the back may be here");
            let cache = &tree.config().caches[number];
            BackCache::new(number, cache, lines_of(cache), seeds)
        };
        let all_caches = || own.iter().chain(&others).flat_map(|(tree, _)| &tree.config().caches);
        let bin_bits = fronts.iter().map(FrontCache::bin_bits).max().unwrap_or(0);
        Self {
            all: Mask::MAX >> (MOST_LANES - lanes),
            frames: LaneFrames::new(lanes, bin_bits),
            ports: [config.fetch, config.data].map(port),
            bucket: BucketOf::new(all_caches(), config.page),
            fronts,
            backs: trees.iter().map(back).collect(),
            trees,
            requests: if others.is_empty() { Vec::new() } else { vec![Vec::new(); lanes] },
            written_back: Vec::new(),
            starts: Vec::new(),
            sorted: Vec::new(),
        }
    }

    /// Returns whether the cache behind the front of a tree may be simulated in bits.
    #[must_use]
    pub fn takes_back(tree: &Tree) -> bool {
        back_in_bits(tree).is_ok()
    }

    /// Returns the bytes that the sets of a cache behind level 1 take here for each lane.
    #[must_use]
    pub fn lane_bytes(cache: &CacheConfig) -> u64 {
        LaneSets::lane_bytes(cache)
    }

    /// Returns the bytes that a line of a page takes here, in a cache behind level 1, for so many lanes together.
    #[must_use]
    pub fn line_bytes(lanes: usize) -> u64 {
        LineMasks::bytes(lanes)
    }

    /// Notes the frame of a page in one lane. Lines of the page that the lane may still hold must have been flushed.
    pub fn put(&mut self, lane: usize, page: PageId, frame: FrameNo) {
        self.frames.put(lane, page, frame);
        self.backs.iter_mut().for_each(|back| back.make_room(page));
    }

    /// The frame of a page changes hands in one lane: see [`Front::flush_page`](crate::Front::flush_page).
    pub fn flush_page(&mut self, lane: usize, page: PageId) {
        let Self { fronts, backs, frames, requests, .. } = self;
        for front in fronts {
            front.flush_page(lane, page, requests.get_mut(lane));
        }
        backs.iter_mut().for_each(|back| back.flush_page(lane, page, frames));
    }

    /// The requests that level 1 of a lane has made, for the backs that are not simulated here. The caller empties the list
    /// when these backs have handled them.
    ///
    /// # Panics
    /// Every back is simulated here.
    pub fn requests(&mut self, lane: usize) -> &mut Vec<Request> {
        &mut self.requests[lane]
    }

    /// The processor makes the accesses of `rows` in order, in every lane. `page_of` returns the page of a mapping.
    pub fn access_all<A: Access>(&mut self, rows: &[A], page_of: impl Fn(u32) -> PageId) {
        let access = |row: &A| {
            let LineAddr { id, line } = row.at();
            PageAccess { page: page_of(id).0, line, kind: row.kind() }
        };
        if rows.len() < self.bucket.buckets() * FEWEST_IN_BUCKET {
            return rows.iter().for_each(|row| self.access(access(row)));
        }
        let mut sorted = std::mem::take(&mut self.sorted);
        self.sort(rows, access, &mut sorted);
        sorted.iter().for_each(|&access| self.access(access));
        self.sorted = sorted;
    }

    /// Sorts accesses by bucket, and leaves the accesses of one bucket in their order.
    fn sort<A: Access>(
        &mut self,
        rows: &[A],
        access: impl Fn(&A) -> PageAccess,
        sorted: &mut Vec<PageAccess>,
    ) {
        let Self { starts, ports, bucket, .. } = self;
        let logs = ports.map(|port| port.lines_of.line_log2);
        let number = |line: u32, kind: Kind| bucket.of(line, logs[usize::from(kind != Kind::Fetch)]);
        starts.clear();
        starts.resize(bucket.buckets() + 1, 0);
        for row in rows {
            starts[number(row.at().line, row.kind()) + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        sorted.clear();
        sorted.resize(rows.len(), PageAccess { page: 0, line: 0, kind: Kind::Fetch });
        for row in rows {
            let access = access(row);
            let start = &mut starts[number(access.line, access.kind)];
            sorted[*start as usize] = access;
            *start += 1;
        }
    }

    #[inline]
    fn access(&mut self, PageAccess { page, line, kind }: PageAccess) {
        let Self { all, frames, fronts, ports, backs, requests, written_back, .. } = self;
        let port = ports[usize::from(kind != Kind::Fetch)];
        let lines_of = port.lines_of;
        let key = u64::from(page) << lines_of.log2 | u64::from(line);
        let missed = fronts[port.front].access(key, kind, *all, frames, written_back);
        if missed == 0 {
            return;
        }
        for back in backs {
            let writes = |back: &mut BackCache| {
                for &(key, lanes) in &*written_back {
                    back.request(key, lines_of, Kind::Writeback, lanes, *all, frames);
                }
            };
            if port.writes_first {
                writes(back);
            }
            back.request(key, lines_of, kind, missed, *all, frames);
            if !port.writes_first {
                writes(back);
            }
        }
        if !requests.is_empty() {
            send(requests, port, (key, kind, missed), written_back);
        }
        written_back.clear();
    }

    /// Returns the demand misses of a cache of level 1 in one lane.
    ///
    /// # Panics
    /// The cache is no cache of level 1.
    #[must_use]
    pub fn front_misses(&self, lane: usize, cache: usize) -> u64 {
        let front = self.fronts.iter().find(|front| front.number == cache);
        front.expect("the cache belongs to level 1").demand_misses(lane)
    }

    /// Returns the demand misses of a back in one lane, by its place among the backs that are simulated here.
    #[must_use]
    pub fn back_misses(&self, lane: usize, back: usize) -> u64 {
        self.backs[back].demand_misses(lane)
    }

    /// Returns what a cache of level 1 has counted in one lane.
    ///
    /// # Panics
    /// The cache is no cache of level 1.
    #[must_use]
    pub fn front_counters(&self, lane: usize, cache: usize) -> CacheCounters {
        let front = self.fronts.iter().find(|front| front.number == cache);
        front.expect("the cache belongs to level 1").counters(lane)
    }

    /// Returns for each lane what level 1 has counted, and how many lines it holds.
    #[must_use]
    pub fn fronts(&self) -> Vec<CountsOfLane> {
        let resident: Vec<LinesOfLanes> = self.fronts.iter().map(FrontCache::resident).collect();
        let counts = |lane| {
            let mut counts = CountsOfLane::default();
            for (front, resident) in self.fronts.iter().zip(&resident) {
                counts.put(front.number, front.counters(lane), resident.of_lane(lane));
            }
            counts
        };
        (0..self.lanes()).map(counts).collect()
    }

    /// Returns for each lane what a back and its memory have counted, and how many lines the back holds, by the back's
    /// place among the backs that are simulated here.
    #[must_use]
    pub fn backs(&self, back: usize) -> Vec<CountsOfLane> {
        let resident = self.backs[back].resident();
        let counts = |lane| {
            let (counters, memory, _) = self.back_counters(lane, back);
            CountsOfLane::of_back(self.backs[back].number, (counters, memory), resident.of_lane(lane))
        };
        (0..self.lanes()).map(counts).collect()
    }

    fn lanes(&self) -> usize {
        self.all.count_ones() as usize
    }

    /// Returns what a back and its memory have counted in one lane, and the cycles that the processor waited for them.
    #[must_use]
    pub fn back_counters(&self, lane: usize, back: usize) -> (CacheCounters, MemoryCounters, u64) {
        let (config, back) = (self.trees[back].config(), &self.backs[back]);
        let counters = back.counters(lane);
        let mut accesses = counters.sent;
        accesses[Kind::System] += self.fronts.iter().map(|front| front.purged_dirty(lane)).sum::<u64>();
        let cost = config.caches[back.number].cost;
        let waited =
            counters.waited(cost, config.cost_rule == CostRule::Add) + accesses.demand() * config.memory_cost;
        (counters, MemoryCounters { accesses }, waited)
    }

    /// Returns the lines that a cache of level 1 holds in one lane, in no particular order.
    #[must_use]
    pub fn front_contents(&self, lane: usize, cache: usize) -> Vec<Resident> {
        let mut lines = Vec::new();
        for front in self.fronts.iter().filter(|front| front.number == cache) {
            front.each(lane, |line| lines.push(line));
        }
        lines
    }

    /// Returns the lines that a back holds in one lane, in no particular order.
    #[must_use]
    pub fn back_contents(&self, lane: usize, back: usize) -> Vec<Resident> {
        let mut lines = Vec::new();
        self.backs[back].each(lane, |line| lines.push(line));
        lines
    }
}

/// Appends the requests of an access to those of each lane that makes them: a read, and the lines that are written back.
fn send(
    requests: &mut [Vec<Request>],
    port: Port,
    (key, kind, missed): (u64, Kind, Mask),
    written_back: &[WrittenBack],
) {
    let mut to_lanes = |request: Request, mut lanes: Mask| {
        while lanes != 0 {
            requests[lanes.trailing_zeros() as usize].push(request);
            lanes &= lanes - 1;
        }
    };
    let read = port.request(key, kind);
    if !port.writes_first {
        to_lanes(read, missed);
    }
    for &(key, lanes) in written_back {
        to_lanes(port.request(key, Kind::Writeback), lanes);
    }
    if port.writes_first {
        to_lanes(read, missed);
    }
}
