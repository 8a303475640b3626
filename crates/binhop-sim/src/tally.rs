//! What a lane counts, and how much of it between two marks.

use binhop_base::Kind;
use binhop_hw::{CacheCounters, Front, MemoryCounters};

use crate::prepare::Stream;

/// What a lane counts between two marks, or up to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) stream: Stream,
    pub(crate) caches: Vec<CacheCounters>,
    pub(crate) memory: MemoryCounters,
    pub(crate) faults: u64,
    pub(crate) evictions: u64,
    /// Cycles beyond one per instruction.
    pub(crate) waited: u64,
}

impl Tally {
    pub(crate) fn zero(caches: usize) -> Self {
        Self {
            stream: Stream::default(),
            caches: vec![CacheCounters::default(); caches],
            memory: MemoryCounters::default(),
            faults: 0,
            evictions: 0,
            waited: 0,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.stream += other.stream;
        for (mine, theirs) in self.caches.iter_mut().zip(&other.caches) {
            *mine += *theirs;
        }
        self.memory += other.memory;
        self.faults += other.faults;
        self.evictions += other.evictions;
        self.waited += other.waited;
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            stream: self.stream - earlier.stream,
            caches: self.caches.iter().zip(&earlier.caches).map(|(now, then)| *now - *then).collect(),
            memory: self.memory - earlier.memory,
            faults: self.faults - earlier.faults,
            evictions: self.evictions - earlier.evictions,
            waited: self.waited - earlier.waited,
        }
    }
}

/// Adds the accesses that preparation proved to be hits to the first level's counters.
pub(crate) fn add_dropped(caches: &mut [CacheCounters], stream: Stream, fetch: usize, data: usize) {
    caches[fetch].accesses[Kind::Fetch] += stream.dropped[0];
    caches[data].accesses[Kind::Load] += stream.dropped[1];
    caches[data].accesses[Kind::Store] += stream.dropped[2];
}

/// Tells a front of the accesses that preparation proved to be hits, so that the laws hold.
pub(crate) fn add_hits(front: &mut Front, stream: Stream, fetch: usize, data: usize) {
    front.add_hits(fetch, Kind::Fetch, stream.dropped[0]);
    front.add_hits(data, Kind::Load, stream.dropped[1]);
    front.add_hits(data, Kind::Store, stream.dropped[2]);
}
