//! The one list of fast paths, with the trees that each path allows.
//!
//! [`Computer`](crate::Computer) is the general path, one access at a time. A fast path leaves the same counts,
//! contents and cycles for less work, under assumptions about the tree. This file checks the assumptions, once for
//! each tree. The file of each path says why its assumptions suffice. No path looks at a tree's properties by itself.
//!
//! No path is taken where each request is answered before the next access (a write buffer, an inclusive cache,
//! cachegrind's rules): there the counts depend on the general path's order. The chain, lane-bits and back-bits handle
//! the requests of the user and of a second agent, and front-bits and the other paths behind the front those of the
//! user alone. The two-levels path makes accesses of every agent.

pub(crate) mod chain;
pub(crate) mod direct_mapped;
pub(crate) mod known_hits;
pub(crate) mod lane_bits;
pub(crate) mod lru_stack;
pub(crate) mod two_levels;
pub(crate) mod two_phase;

use binhop_base::{Agent, Agents};

use crate::{
    CacheConfig, IndexBy, Next, Replacement, Rules, Tree, WritePolicy,
    cache::{Cache, Index, lines::MOST_PACKED},
};
use lane_bits::MOST_WAYS;
use two_phase::FETCH_WAYS;

macro_rules! paths {
    ($($name:ident = $text:literal, $doc:literal;)*) => {
        /// `FastPath` is a way to simulate that is faster than one access at a time, and leaves the same results.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FastPath { $(#[doc = $doc] $name,)* }

        impl FastPath {
            /// Every fast path, in the order of their discriminants.
            pub const ALL: &'static [FastPath] = &[$(FastPath::$name,)*];
            /// The name in a plan.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(FastPath::$name => $text,)* }
            }
            /// Returns what the path does, in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(FastPath::$name => $doc,)* }
            }
        }
    };
}

paths! {
    TwoPhase = "two-phase", "Level 1 looks up many accesses in one loop, and does what their misses ask for in a second.";
    Chain = "chain", "Each level behind the front goes through many requests before the next level does.";
    DirectMapped = "direct-mapped", "Behind a shared front, what is the same in all lanes is worked out once, and the rest is replayed without a branch.";
    KnownHits = "known-hits", "Requests that hit in every back of a lane and change nothing are taken out once for all of them.";
    LruStack = "lru-stack", "Backs of equal sets that replace the least recently used are simulated in one stack.";
    LaneBits = "lane-bits", "Up to 64 lanes are simulated together, one bit for each lane; level 1 is direct-mapped.";
    BackBits = "back-bits", "Behind a shared front, the levels of up to 64 lanes are simulated together, one bit for each lane.";
    FrontBits = "front-bits", "Where a front is no longer shared, level 1 of up to 64 lanes continues together, one bit for each lane.";
    TwoLevels = "two-levels", "Where accesses are made one by one, two direct-mapped levels have code of their own.";
}

/// A set of fast paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastPathSet(u16);

impl FastPathSet {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// The set of all fast paths.
    pub const ALL: Self = Self((1 << FastPath::ALL.len()) - 1);

    /// Returns this set with another path.
    #[must_use]
    pub const fn with(self, path: FastPath) -> Self {
        Self(self.0 | 1 << path as u8)
    }

    /// Returns the paths of either set.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether a path is in the set.
    #[must_use]
    pub const fn contains(self, path: FastPath) -> bool {
        self.0 & 1 << path as u8 != 0
    }
}

/// `FastPaths` holds for each fast path the reason why it is not taken, or that it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPaths([Option<&'static str>; FastPath::ALL.len()]);

impl FastPaths {
    /// Decides about each path. `why_not` returns the reason why a path is not taken, or `None`.
    #[must_use]
    pub fn decide(why_not: impl Fn(FastPath) -> Option<&'static str>) -> Self {
        let mut decided = [None; FastPath::ALL.len()];
        FastPath::ALL.iter().for_each(|&path| decided[path as usize] = why_not(path));
        Self(decided)
    }

    /// Returns whether a path is taken.
    #[must_use]
    pub fn takes(&self, path: FastPath) -> bool {
        self.0[path as usize].is_none()
    }

    /// Returns the reason why a path is not taken; `None` if it is taken.
    #[must_use]
    pub fn why_not(&self, path: FastPath) -> Option<&'static str> {
        self.0[path as usize]
    }

    /// Returns the same decisions, with the paths in `off` switched off.
    #[must_use]
    pub fn without(&self, off: FastPathSet) -> Self {
        Self::decide(|path| if off.contains(path) { Some("switched off") } else { self.why_not(path) })
    }
}

impl FastPath {
    /// Returns the fast paths that a tree allows. [`FastPath::DirectMapped`], [`FastPath::KnownHits`],
    /// [`FastPath::LruStack`], [`FastPath::LaneBits`] and [`FastPath::BackBits`] serve several backs. Their types say
    /// what these backs must have in common.
    #[must_use]
    pub fn of(tree: &Tree) -> FastPaths {
        FastPaths::decide(|path| {
            let allowed = match path {
                FastPath::TwoPhase => two_phase(tree),
                FastPath::Chain => chain(tree).map(|_| ()),
                FastPath::DirectMapped => direct_mapped(tree).map(|_| ()),
                FastPath::KnownHits => known_hits(tree).map(|_| ()),
                FastPath::LruStack => lru_stack(tree).map(|_| ()),
                FastPath::LaneBits => lane_bits(tree),
                FastPath::BackBits => behind_shared_front(tree).map(|_| ()),
                FastPath::FrontBits => front_bits(tree),
                FastPath::TwoLevels => two_levels(tree),
            };
            allowed.err()
        })
    }
}

/// The answer of a rule: a value that the path needs, or the reason why the tree does not allow the path.
type Verdict<T = ()> = Result<T, &'static str>;

/// The most ways that one [`LruStack`](crate::LruStack) keeps. A search looks at one position after another.
pub(crate) const MOST_STACKED: u32 = 32;

fn refuse(refused: bool, why: &'static str) -> Verdict {
    if refused { Err(why) } else { Ok(()) }
}

/// Checks that requests may be recorded, and handled after later requests were made.
fn may_wait(tree: &Tree) -> Verdict {
    refuse(
        tree.config().rules == Rules::Cachegrind,
        "cachegrind's rules ask for whole references at every level",
    )?;
    refuse(
        tree.answers_at_once(),
        "a write buffer or an inclusive cache answers every request before the next access",
    )
}

fn is_plain(cache: &CacheConfig) -> Verdict {
    refuse(cache.hashed && cache.sets() > 1, "a cache has a hashed index")
}

fn stores_stay(cache: &CacheConfig) -> Verdict {
    refuse(
        cache.write != WritePolicy::Back || !cache.allocate,
        "a cache writes through, or does not allocate for a store",
    )
}

fn reads_no_stream(cache: &CacheConfig) -> Verdict {
    refuse(cache.streams.is_some(), "a cache has stream buffers")
}

/// Checks that the processor alone asks a cache of the front, and that the cache is plain, write-back and allocating.
fn is_asked_alone(tree: &Tree, number: usize) -> Verdict {
    let config = tree.config();
    let cache = &config.caches[number];
    let serves = [config.fetch, config.data].contains(&number);
    refuse(!serves, "the front has a cache that the processor does not ask")?;
    let inside = matches!(cache.next, Next::Cache(next) if tree.in_front(next));
    refuse(inside, "the processor and another cache ask the same cache")?;
    stores_stay(cache)?;
    reads_no_stream(cache)?;
    is_plain(cache)
}

/// Checks that the processor alone asks the front's caches, and that each is write-back and allocating. A miss only
/// brings its line and evicts a victim. The first phase has a loop for the ways and the replacement. Two caches have
/// the same shape, or the cache of data has more ways.
fn two_phase(tree: &Tree) -> Verdict {
    may_wait(tree)?;
    let config = tree.config();
    for (number, cache) in config.caches.iter().enumerate().filter(|&(number, _)| tree.in_front(number)) {
        is_asked_alone(tree, number)?;
        match (Cache::index_of(tree, number), cache.keyed_by_mapping()) {
            (Index::Offset, _) | (Index::Frame, false) | (Index::VirtualPage, true) => {}
            _ => return Err("level 1 is indexed by one kind of address and tagged by another"),
        }
    }
    if differ_in_ways(tree) {
        return Ok(());
    }
    for cache in [config.fetch, config.data].map(|number| &config.caches[number]) {
        let known =
            cache.ways == 1 || cache.replacement == Replacement::Lru && matches!(cache.ways, 2 | 4 | 8);
        let why = "level 1 is neither direct-mapped, nor LRU of 2, 4 or 8 ways, nor LRU of 8 ways beside 9 to 16 for data";
        refuse(!known, why)?;
    }
    let common_counts = |number: usize| {
        let cache = &config.caches[number];
        let index = Cache::index_of(tree, number);
        (cache.line, cache.sets(), cache.ways, index, cache.keyed_by_mapping())
    };
    refuse(
        common_counts(config.fetch) != common_counts(config.data),
        "the two caches of level 1 differ in shape",
    )
}

/// Returns whether the first phase has a loop for two caches of level 1 that differ in ways: both replace the least
/// recently used line, and the offset within the page chooses the set.
fn differ_in_ways(tree: &Tree) -> bool {
    let config = tree.config();
    let [fetch, data] = [config.fetch, config.data].map(|number| &config.caches[number]);
    let is_known = |number: usize| {
        config.caches[number].replacement == Replacement::Lru
            && Cache::index_of(tree, number) == Index::Offset
    };
    is_known(config.fetch)
        && is_known(config.data)
        && fetch.ways as usize == FETCH_WAYS
        && (FETCH_WAYS + 1..=MOST_PACKED).contains(&(data.ways as usize))
}

/// Returns the caches behind the front in the order in which they ask each other. Each cache asks the next cache, the
/// last cache asks memory, and [`crate::fast::chain`] has a loop for each.
pub(crate) fn chain(tree: &Tree) -> Verdict<Box<[usize]>> {
    by_two_agents(tree)?;
    may_wait(tree)?;
    let config = tree.config();
    let behind: Vec<usize> = (0..config.caches.len()).filter(|&cache| !tree.in_front(cache)).collect();
    let next = |number: usize| match config.caches[number].next {
        Next::Cache(next) => Some(next),
        Next::Memory => None,
    };
    let mut starts =
        behind.iter().copied().filter(|&number| !behind.iter().any(|&b| next(b) == Some(number)));
    let start = starts.next().ok_or("no cache stands behind the front")?;
    refuse(starts.next().is_some(), "the caches behind the front form no chain")?;
    let chain: Vec<usize> = std::iter::successors(Some(start), |&at| next(at)).collect();
    refuse(
        chain.iter().any(|&number| tree.in_front(number)),
        "the processor and another cache ask the same cache",
    )?;
    debug_assert_eq!(chain.len(), behind.len(), "one start: every other cache is asked by one of them");
    chain.iter().try_for_each(|&number| is_simple(tree, number))?;
    Ok(chain.into())
}

/// Checks that a cache is asked for the lines of pages, keeps stored data, and does not depend on the levels behind it.
fn is_simple(tree: &Tree, number: usize) -> Verdict {
    let cache = &tree.config().caches[number];
    stores_stay(cache)?;
    reads_no_stream(cache)?;
    refuse(
        tree.takes_mapping(number) || cache.keyed_by_mapping(),
        "a cache behind level 1 has a virtual tag",
    )?;
    let physical = matches!(Cache::index_of(tree, number), Index::Frame | Index::Offset);
    refuse(!physical, "a cache behind level 1 has a virtual index")
}

/// Checks that each cache of level 1 asks a last level, that all caches are direct-mapped, write-back and allocating,
/// and that the processor alone asks level 1.
fn two_levels(tree: &Tree) -> Verdict {
    may_wait(tree)?;
    let config = tree.config();
    for (number, cache) in config.caches.iter().enumerate() {
        refuse(cache.ways != 1, "a cache is not direct-mapped")?;
        is_plain(cache)?;
        stores_stay(cache)?;
        reads_no_stream(cache)?;
        let is_last = cache.next == Next::Memory;
        refuse(is_last == tree.in_front(number), "there are not two levels of caches")?;
        let inside = matches!(cache.next, Next::Cache(next) if tree.in_front(next));
        refuse(inside, "the processor and another cache ask the same cache")?;
    }
    Ok(())
}

fn by_the_user(tree: &Tree) -> Verdict {
    refuse(tree.config().agents != Agents::USER, "an agent other than the user makes accesses")
}

/// Checks that the user alone makes accesses, or the user and one further agent for which the processor waits.
fn by_two_agents(tree: &Tree) -> Verdict {
    let others = || tree.config().agents.others();
    refuse(others().count() > 1, "several agents other than the user make accesses")?;
    refuse(!others().all(Agent::is_waited_for), "the processor does not wait for an agent's accesses")
}

/// Returns the only cache behind the front, if it is simple and has a plain index.
fn only_behind(tree: &Tree) -> Verdict<usize> {
    by_the_user(tree)?;
    let &[number] = &*chain(tree)? else { return Err("several caches stand behind the front") };
    is_plain(&tree.config().caches[number])?;
    Ok(number)
}

/// Returns the caches behind the front in the order in which they ask each other, if both caches of level 1 ask the
/// first cache behind them for the lines of pages, and the frame chooses the set in each cache behind the front: then a
/// set holds lines of one line number within the page only.
fn by_line_number(tree: &Tree) -> Verdict<Box<[usize]>> {
    let (chain, config) = (chain(tree)?, tree.config());
    for front in [config.fetch, config.data].map(|front| &config.caches[front]) {
        refuse(front.next != Next::Cache(chain[0]), "a cache of level 1 does not ask the back")?;
        refuse(front.keyed_by_mapping(), "level 1 has a virtual tag")?;
    }
    for cache in chain.iter().map(|&number| &config.caches[number]) {
        is_plain(cache)?;
        let way = cache.sets() * cache.line.bytes();
        let by_frame = cache.index == IndexBy::Physical && way >= config.page.bytes();
        refuse(!by_frame, "a way of the back is smaller than a page")?;
    }
    Ok(chain)
}

/// Returns the only cache behind the front, if it is direct-mapped, too.
pub(crate) fn direct_mapped(tree: &Tree) -> Verdict<usize> {
    let number = only_behind(tree)?;
    by_line_number(tree)?;
    refuse(tree.config().caches[number].ways != 1, "the back is not direct-mapped")?;
    Ok(number)
}

fn ignore_hits(tree: &Tree, numbers: &[usize]) -> Verdict {
    let mut caches = numbers.iter().map(|&number| &tree.config().caches[number]);
    let remembers = |cache: &CacheConfig| cache.ways > 1 && !cache.replacement.hits_are_neutral();
    refuse(caches.any(remembers), "the replacement of a back remembers the hits of each lane")
}

/// Returns the caches behind the front in the order in which they ask each other, if [`LaneBits`](crate::LaneBits) may
/// simulate them behind level 1 in bits: their replacement ignores hits, so that a hit needs no visit to the lane.
pub(crate) fn back_in_bits(tree: &Tree) -> Verdict<Box<[usize]>> {
    let chain = by_line_number(tree)?;
    ignore_hits(tree, &chain)?;
    Ok(chain)
}

/// Returns the caches behind the front in the order in which they ask each other, if [`LaneBits`](crate::LaneBits) may
/// simulate them behind a shared front. Every lane sends the first cache the same requests, so it may replace the least
/// recently used line: one time for each line serves all lanes.
pub(crate) fn behind_shared_front(tree: &Tree) -> Verdict<Box<[usize]>> {
    let chain = by_line_number(tree)?;
    let lru = tree.config().caches[chain[0]].replacement == Replacement::Lru;
    ignore_hits(tree, if lru { &chain[1..] } else { &chain })?;
    Ok(chain)
}

/// Returns the only cache behind the front, if its replacement ignores a repeated hit.
pub(crate) fn known_hits(tree: &Tree) -> Verdict<usize> {
    let number = only_behind(tree)?;
    let cache = &tree.config().caches[number];
    refuse(!cache.rehit_is_neutral(), "the replacement policy of the back remembers a repeated hit")?;
    refuse(cache.index != IndexBy::Physical, "a cache behind level 1 has a virtual index")?;
    Ok(number)
}

/// Returns the only cache behind the front, if it replaces the least recently used line or has one way.
pub(crate) fn lru_stack(tree: &Tree) -> Verdict<usize> {
    let number = only_behind(tree)?;
    let cache = &tree.config().caches[number];
    let lru = cache.replacement == Replacement::Lru || cache.ways == 1;
    refuse(!lru, "the backs do not replace the least recently used line")?;
    refuse(cache.ways > MOST_STACKED, "a back has too many ways")?;
    Ok(number)
}

/// Checks that the front's caches are direct-mapped, write-back and allocating, and that the frame or the offset within
/// the page chooses a line's set.
pub(crate) fn lane_bits(tree: &Tree) -> Verdict {
    may_wait(tree)?;
    by_two_agents(tree)?;
    let config = tree.config();
    for (number, cache) in config.caches.iter().enumerate().filter(|&(number, _)| tree.in_front(number)) {
        is_asked_alone(tree, number)?;
        refuse(cache.ways != 1, "level 1 is not direct-mapped")?;
        let physical = matches!(Cache::index_of(tree, number), Index::Frame | Index::Offset);
        refuse(!physical, "level 1 has a virtual index")?;
        sends_pages(tree, cache)?;
    }
    Ok(())
}

/// Checks that the front's caches replace the least recently used line, are write-back and allocating, and that the
/// offset within the page chooses a line's set: then every lane accesses the same lines of a set in the same order.
pub(crate) fn front_bits(tree: &Tree) -> Verdict {
    may_wait(tree)?;
    by_the_user(tree)?;
    let config = tree.config();
    for (number, cache) in config.caches.iter().enumerate().filter(|&(number, _)| tree.in_front(number)) {
        is_asked_alone(tree, number)?;
        let lru = cache.ways == 1 || cache.replacement == Replacement::Lru;
        refuse(!lru, "level 1 does not replace the least recently used line")?;
        refuse(cache.ways > MOST_WAYS, "level 1 has too many ways")?;
        refuse(Cache::index_of(tree, number) != Index::Offset, "level 1 is not indexed by the page offset")?;
        sends_pages(tree, cache)?;
    }
    Ok(())
}

/// Checks that a cache of level 1 names lines by page, and that the cache behind it does, too.
fn sends_pages(tree: &Tree, cache: &CacheConfig) -> Verdict {
    refuse(cache.keyed_by_mapping(), "level 1 has a virtual tag")?;
    let by_mapping = matches!(cache.next, Next::Cache(next) if tree.takes_mapping(next));
    refuse(by_mapping, "a cache behind level 1 has a virtual tag")
}
