//! `LaneBits` simulates many lanes at once: a lane is a bit.
//!
//! # Rules
//! - Every lane makes the same accesses in the same order; only the frames differ. Level 1 is direct-mapped, writes
//!   back, and allocates a line at a store. Or level 1 does not depend on the placement: then it is simulated once for
//!   all lanes, and every lane gets the same requests.
//! - Where lanes no longer share level 1, it may also replace the least recently used line, if the offset within the
//!   page chooses the set: one order of a set's lines serves all lanes. See `lru_slot.rs`.
//! - A back is simulated in the same words if it is a chain of caches whose replacement ignores hits: direct-mapped
//!   caches, or caches with random or first-in, first-out replacement. Behind a shared level 1, the first cache may
//!   also replace the least recently used line: see `lru_sets.rs`. Other backs get the requests of each lane, and are
//!   simulated lane by lane.
//! - A set holds lines of one line number within the page only (of one *slot* where the cache is smaller than a page),
//!   and the frame of a page chooses among the sets of this number. For each line of each page, one word says in which
//!   lanes the line is resident, and one word in which lanes it is dirty.
//! - An access misses in the lanes in which its line is not resident. There the line replaces the line whose frame has
//!   the same bits. Afterwards the line is resident in every lane.
//! - Level 1 finds these lines among the few that stand in its slot. Each bit of the frame that chooses the set has a
//!   word for each page, so that one operation says in which lanes two pages meet.
//! - A cache behind level 1 has too many bins for this. A lane that misses there is visited by itself if a set may be
//!   full. The lanes that miss make one request of the next cache together.
//! - One agent beside the user may make accesses, in every lane the same: a page walk, or a handler. Counts of accesses
//!   are kept for each agent, and the level is counted that serves an access of the user after a walk ([`By`]).
//! - Level 1 does not depend on the backs. So its requests wait in a list, and each back handles many of them in turn:
//!   see `front_requests.rs`.
//! - Counts are sums over accesses, and lines of different line numbers never meet. A policy decides about each set by
//!   itself. So accesses of different line numbers may be simulated in any order.
//!
//! # Cost
//! Besides the visits, an access that misses level 1 costs as much for 64 lanes as for one lane. In each cache behind
//! level 1, a line of a page takes 16 B for 64 lanes and less for fewer lanes, and 4 B more where a set has several
//! ways. A way takes 4 B for each lane, or 2 B where it is the only way and there are few pages: see
//! `direct_sets.rs`. In a cache with several ways, a way takes this memory only when its bin has more pages than ways:
//! see `occupants.rs`. The ways of an LRU cache take no memory: see `lru_sets.rs`.

mod access;
mod after_marks;
mod back_cache;
mod back_chain;
mod bucket;
mod counter;
mod counts;
mod direct_sets;
mod frames;
mod front_cache;
mod front_requests;
mod lane_sets;
mod line_masks;
mod lru_sets;
mod lru_slot;
mod making;
mod occupants;
mod page_rows;
mod port;
mod reading;
mod slot_lines;
mod waiting;

use binhop_base::{Agent, FrameNo, Kind, LineAddr, PageId, PowerOfTwo, Rng};

use crate::{
    Access, CacheConfig, FastPath, MEMORY, Next, Origin, Request, Resident, Tree, TreeConfig, WritebackOrder,
    cache::Cache,
    fast::{back_in_bits, behind_shared_front},
};
pub use access::{BitsAccess, By};
pub use after_marks::MOST_MARKS;
use after_marks::MissesAfterMarks;
use back_cache::BackCache;
use back_chain::BackChain;
use bucket::BucketOf;
use counter::LaneCounter;
pub use counts::CountsOfLane;
use counts::LinesOfLanes;
use frames::{LaneFrames, PlacedPage};
use front_cache::FrontCache;
use front_requests::FrontRequests;
use lane_sets::LaneSets;
use line_masks::LineMasks;
pub(crate) use lru_slot::MOST_WAYS;
pub use occupants::SetsBytes;
use port::Port;
use waiting::WaitingAccesses;

/// A set of lanes.
type Mask = u64;

/// A line that is written back, and the lanes in which it is.
type WrittenBack = (u64, Mask);

/// The most pages that are placed, each in one lane, before the backs are told.
const MOST_PLACED: usize = 1024;

/// The most lanes that one [`LaneBits`] simulates.
pub const MOST_LANES: usize = Mask::BITS as usize;

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

    #[inline(always)]
    fn key(self, page: PageId, line: u32) -> u64 {
        u64::from(page.0) << self.log2 | u64::from(line)
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

/// The accesses of the user after walks, by the level that served them.
#[derive(Clone, Debug, Default)]
struct Served {
    all: u64,
    behind: LaneCounter,
    memory: LaneCounter,
}

/// `LaneBits` holds level 1 of up to [`MOST_LANES`] lanes, and any number of backs that stand behind it, each for
/// itself. Other backs get the requests of each lane. Behind a shared front, it holds the backs alone.
#[derive(Clone, Debug)]
pub struct LaneBits {
    /// One bit for each lane.
    all: Mask,
    frames: LaneFrames,
    /// The caches of level 1: one cache, or that of instructions and that of data; none behind a shared front.
    fronts: Vec<FrontCache>,
    /// For fetches, and for data.
    ports: [Port; 2],
    backs: Vec<BackChain>,
    /// The pages that were placed, of which the backs do not know yet. They are told of many pages at once, so that a
    /// processor waits for the memory of several lanes together.
    placed: Vec<PlacedPage>,
    /// The requests of each lane; empty if every back is one of `backs`.
    requests: Vec<Vec<Request>>,
    waiting: WaitingAccesses,
    /// The requests of level 1 that the backs have not handled yet.
    asked: FrontRequests,
    /// Room for the lines that an access writes back.
    written_back: Vec<WrittenBack>,
    /// The accesses of the user after walks: of fetches, loads and stores.
    served: [Served; 3],
}

impl LaneBits {
    /// Makes empty caches for lanes of these trees, whose fronts are equal. Each lane has a generator, from which
    /// policies draw that need random numbers. For each tree, `in_bits` tells whether the cache behind its front is
    /// simulated here, too; see [`LaneBits::takes_back`].
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
        let agent_counts = config.agents.others().any(Agent::counts_in_mpi);
        let fronts: Vec<FrontCache> = numbers_of_fronts(config)
            .into_iter()
            .map(|number| {
                let cache = &config.caches[number];
                FrontCache::new(number, cache, (LinesOf::new(cache, config.page), lanes), agent_counts)
            })
            .collect();
        let (own, others): (Vec<_>, Vec<_>) = trees.iter().partition(|(_, in_bits)| *in_bits);
        let back = |(tree, _): &(&Tree, bool)| {
            let chain = back_in_bits(tree).expect("the caller has asked whether the back may be here");
            BackChain::new(tree, &chain, seeds, false)
        };
        let all_caches = || own.iter().chain(&others).flat_map(|(tree, _)| &tree.config().caches);
        let ports = ports(config);
        let bin_bits = fronts.iter().map(FrontCache::bin_bits).max().unwrap_or(0);
        Self {
            all: all_of(lanes),
            frames: LaneFrames::new(lanes, bin_bits),
            ports,
            waiting: waiting(all_caches(), config.page, ports),
            fronts,
            backs: own.iter().map(back).collect(),
            placed: Vec::new(),
            requests: if others.is_empty() { Vec::new() } else { vec![Vec::new(); lanes] },
            asked: FrontRequests::default(),
            written_back: Vec::new(),
            served: Default::default(),
        }
    }

    /// Makes level 1 of so many lanes that have shared a front: see [`Front::in_bits`](crate::Front::in_bits). `shared`
    /// returns a cache of the front.
    pub(crate) fn after_shared_front<'a>(
        shared: impl Fn(usize) -> &'a Cache,
        trees: &[&Tree],
        lanes: usize,
    ) -> Self {
        assert!((1..=MOST_LANES).contains(&lanes), "{lanes} lanes");
        for tree in trees {
            assert_eq!(FastPath::of(tree).why_not(FastPath::FrontBits), None);
        }
        let config = trees.first().expect("there is a tree").config();
        let of_shared = |number: usize| {
            let lines_of = LinesOf::new(&config.caches[number], config.page);
            FrontCache::of_shared(number, shared(number), lines_of, lanes)
        };
        let ports = ports(config);
        let all_caches = trees.iter().flat_map(|tree| &tree.config().caches);
        Self {
            all: all_of(lanes),
            frames: LaneFrames::new(lanes, 0),
            ports,
            waiting: waiting(all_caches, config.page, ports),
            fronts: numbers_of_fronts(config).into_iter().map(of_shared).collect(),
            backs: Vec::new(),
            placed: Vec::new(),
            requests: vec![Vec::new(); lanes],
            asked: FrontRequests::default(),
            written_back: Vec::new(),
            served: Default::default(),
        }
    }

    /// Makes empty backs of these trees, which have one front that all lanes share: see [`LaneBits::wait`]. Each lane
    /// has a generator, from which policies draw that need random numbers. `agent_asks` says whether the agent other
    /// than the user asks the first cache of each back itself; otherwise its requests come from the front.
    ///
    /// # Panics
    /// There is no tree, no lane, or there are more than [`MOST_LANES`] lanes. A tree does not allow
    /// [`FastPath::BackBits`].
    #[must_use]
    pub fn behind_shared_front(trees: &[&Tree], seeds: &[Rng], agent_asks: bool) -> Self {
        let lanes = seeds.len();
        assert!((1..=MOST_LANES).contains(&lanes), "{lanes} lanes");
        let config = trees.first().expect("there is a tree").config();
        let back = |tree: &&Tree| {
            let chain = behind_shared_front(tree).expect("the caller has asked whether the back may be here");
            BackChain::new(tree, &chain, seeds, agent_asks)
        };
        let backs: Vec<BackChain> = trees.iter().map(back).collect();
        let caches = backs
            .iter()
            .flat_map(|back| back.levels.iter().map(|level| &back.tree.config().caches[level.cache.number]));
        // No access is made here: the ports tell the size of lines alone.
        let first = backs[0].levels[0].cache.lines_of;
        let port = Port { lines_of: first, front: 0, writes_first: false, to: MEMORY, unit: first.line_log2 };
        Self {
            all: all_of(lanes),
            frames: LaneFrames::new(lanes, 0),
            ports: [port; 2],
            waiting: waiting(caches, config.page, [port; 2]),
            fronts: Vec::new(),
            backs,
            placed: Vec::new(),
            requests: Vec::new(),
            asked: FrontRequests::default(),
            written_back: Vec::new(),
            served: Default::default(),
        }
    }

    /// Returns whether the levels behind the front of a tree may be simulated in bits: behind a shared front, or behind
    /// level 1 in bits.
    #[must_use]
    pub fn takes_back(tree: &Tree, shared_front: bool) -> bool {
        if shared_front { behind_shared_front(tree).is_ok() } else { back_in_bits(tree).is_ok() }
    }

    /// Returns the bytes that the sets of a cache behind level 1 take here for each lane. Behind a shared front, no
    /// lane loses a page.
    #[must_use]
    pub fn lane_bytes(cache: &CacheConfig, page: PowerOfTwo, shared_front: bool) -> SetsBytes {
        LaneSets::bytes(cache, LinesOf::new(cache, page), !shared_front)
    }

    /// Returns the bytes that a line of a page takes here, in any cache behind level 1, for so many lanes together.
    #[must_use]
    pub fn line_bytes(lanes: usize) -> u64 {
        LineMasks::bytes(lanes)
    }

    /// Returns the bytes that the requests of level 1 take here while they wait for the backs.
    #[must_use]
    pub const fn request_bytes() -> u64 {
        FrontRequests::bytes()
    }

    /// Returns the bytes that the marks that were passed take here for each cache.
    #[must_use]
    pub const fn mark_bytes() -> u64 {
        MissesAfterMarks::bytes()
    }

    /// Returns the bytes that the sets of a cache behind level 1 take here for all lanes together, without
    /// [`LaneBits::line_bytes`].
    #[must_use]
    pub fn shared_bytes(cache: &CacheConfig, page: PowerOfTwo) -> SetsBytes {
        LaneSets::shared_bytes(cache, LinesOf::new(cache, page))
    }

    /// Returns whether a page may have a frame in some lane.
    #[must_use]
    pub fn knows(&self, page: PageId) -> bool {
        self.frames.know(page)
    }

    /// Notes the frame of a page in one lane. Lines of the page that the lane may still hold must have been flushed.
    pub fn put(&mut self, lane: usize, page: PageId, frame: FrameNo) {
        if self.backs.is_empty() && self.fronts.iter().all(|front| front.bin_bits() == 0) {
            // Nothing here depends on the frame.
            return;
        }
        self.frames.put(lane, page, frame);
        self.placed.push(PlacedPage { lane, page, lower: frame.0 as u32 });
        if self.placed.len() == MOST_PLACED {
            self.place_pages();
        }
    }

    /// Tells the backs of pages that were placed.
    fn place_pages(&mut self) {
        let Self { backs, placed, .. } = self;
        backs.iter_mut().for_each(|back| back.place(placed));
        placed.clear();
    }

    /// Removes the lines of a page, whose frame changes hands, in one lane: see
    /// [`Front::flush_page`](crate::Front::flush_page).
    pub fn flush_page(&mut self, lane: usize, page: PageId) {
        self.place_pages();
        let Self { fronts, backs, frames, requests, .. } = self;
        for front in fronts {
            front.flush_page(lane, page, requests.get_mut(lane));
        }
        backs.iter_mut().for_each(|back| back.flush_page(lane, page, frames));
    }

    /// Returns the requests that level 1 of a lane has made, for the backs that are not simulated here. The caller
    /// empties the list when these backs have handled them.
    ///
    /// # Panics
    /// Every back is simulated here.
    pub fn requests(&mut self, lane: usize) -> &mut Vec<Request> {
        &mut self.requests[lane]
    }

    /// Makes the accesses of `rows` in order, in every lane. `page_of` returns the page of a mapping.
    pub fn access_all<A: Access>(&mut self, rows: &[A], page_of: impl Fn(u32) -> PageId) {
        for row in rows {
            let LineAddr { id, line } = row.at();
            self.wait(BitsAccess { page: page_of(id), line, kind: row.kind(), by: By::User, is_part: false });
        }
        self.access_waiting();
    }

    /// Lets an access wait. Accesses that wait are made later, in every lane. Level 1 is accessed; behind
    /// a shared front, the access is a request of the first cache of each back, which the front has let through or
    /// which the agent makes of this cache itself.
    ///
    /// A page that gets its first frame changes nothing for the accesses that wait. Before counts are read, and before
    /// a page is flushed, [`LaneBits::access_waiting`] must be called.
    #[inline]
    pub fn wait(&mut self, access: BitsAccess) {
        if !self.waiting.takes(access) {
            self.access_now(access);
            return;
        }
        self.waiting.push(access);
        if self.waiting.is_full() {
            self.access_waiting();
        }
    }

    /// Makes room for accesses that wait. When so many accesses wait, they are made.
    pub fn let_wait(&mut self, most: usize) {
        self.waiting.make_room(most);
    }

    /// Returns the bytes that so many waiting accesses take at most.
    #[must_use]
    pub fn waiting_bytes(accesses: usize) -> usize {
        WaitingAccesses::bytes(accesses)
    }
}

/// Returns a bit for each of so many lanes, at least 1 and at most [`MOST_LANES`].
fn all_of(lanes: usize) -> Mask {
    Mask::MAX >> (MOST_LANES - lanes)
}

/// Makes room for accesses of caches that lie behind these ports.
fn waiting<'a>(
    caches: impl Iterator<Item = &'a CacheConfig>,
    page: PowerOfTwo,
    ports: [Port; 2],
) -> WaitingAccesses {
    WaitingAccesses::new(BucketOf::new(caches, page), page.log2(), ports.map(|port| port.lines_of.line_log2))
}

/// Returns the numbers of the caches of level 1: one cache, or that of instructions and that of data.
fn numbers_of_fronts(config: &TreeConfig) -> Vec<usize> {
    let mut numbers = vec![config.fetch];
    numbers.extend((config.data != config.fetch).then_some(config.data));
    numbers
}

/// Returns the ports of a machine, for fetches and for data.
fn ports(config: &TreeConfig) -> [Port; 2] {
    let numbers = numbers_of_fronts(config);
    [config.fetch, config.data].map(|number| {
        let cache = &config.caches[number];
        let (to, unit) = match cache.next {
            Next::Cache(next) => (next as u8, config.caches[next].line.log2()),
            Next::Memory => (MEMORY, cache.line.log2()),
        };
        Port {
            lines_of: LinesOf::new(cache, config.page),
            front: numbers.iter().position(|&front| front == number).expect("a front serves the processor"),
            writes_first: cache.writeback_order == WritebackOrder::BeforeFill,
            to,
            unit,
        }
    })
}
