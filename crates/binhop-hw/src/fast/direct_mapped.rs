//! `DirectMappedFilter` computes once what is the same in every back that one stream of requests reaches.
//!
//! The filter serves the commonest back behind a shared front: one direct-mapped cache before memory, write-back and
//! allocating, indexed by the frame. Under every placement:
//! - Accesses are equal. Compulsory misses are equal, because the first request for a line misses everywhere.
//! - A set holds lines of one *line number within the page* only. The sets of one line number are a *slot*. The line
//!   requested last in its slot is present everywhere. A request that repeats it changes at most the dirty bit, and is
//!   replayed only if it makes the line dirty.
//!
//! The remaining requests are replayed without a branch: whether a line is there differs from lane to lane, and
//! cannot be predicted. Requests of different slots never meet in a set, so a block of requests is replayed slot by
//! slot.

use binhop_base::{Kind, PageId, PerKind, Translation};

use crate::{
    CacheCounters, MemoryCounters, Tree,
    cache::{
        Cache, is_first,
        lines::{Array, EMPTY, InLines, Word},
    },
    fast::{direct_mapped, known_hits::LastRequests},
    replacement::Fifo,
    request::{Request, is_data},
};

/// `CommonCounts` holds the counts of a block of requests that are the same in every back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommonCounts {
    accesses: PerKind<u64>,
    compulsory: PerKind<u64>,
}

/// `DirectMappedFilter` filters the requests that all backs of a tree get.
#[derive(Clone, Debug)]
pub struct DirectMappedFilter {
    /// The logarithm of the number of lines in a page.
    log2: u32,
    /// The line requested last in each slot.
    last: LastRequests,
    /// The lines requested so far, a bit for each line.
    touched: Vec<u64>,
    /// Room for [`DirectMappedFilter::sort`]: the start of each slot's requests, and the requests in order.
    starts: Vec<usize>,
    sorted: Vec<Request>,
}

impl DirectMappedFilter {
    /// Makes a filter for a tree that allows [`FastPath::DirectMapped`](crate::FastPath). Returns `None` for other
    /// trees.
    #[must_use]
    pub fn new(tree: &Tree) -> Option<Self> {
        let config = tree.config();
        let cache = &config.caches[direct_mapped(tree).ok()?];
        let log2 = config.page.log2() - cache.line.log2();
        let (touched, starts, sorted) = (Vec::new(), Vec::new(), Vec::new());
        Some(Self { log2, last: LastRequests::new(1 << log2), touched, starts, sorted })
    }

    /// Counts the requests from `from` on, and removes the requests that change nothing in any back.
    pub fn filter(&mut self, requests: &mut Vec<Request>, from: usize) -> CommonCounts {
        let mut common_counts = CommonCounts::default();
        let mut kept = from;
        for at in from..requests.len() {
            let request = requests[at];
            common_counts.accesses[request.kind] += 1;
            let key = u64::from(request.at.id) << self.log2 | u64::from(request.at.line);
            if self.last.repeats(request.at.line as usize, key, request.kind) {
                continue;
            }
            common_counts.compulsory[request.kind] += u64::from(is_first(&mut self.touched, key));
            requests[kept] = request;
            kept += 1;
        }
        requests.truncate(kept);
        self.sort(&mut requests[from..]);
        common_counts
    }

    /// Returns the lines requested so far, a bit for each line.
    pub(crate) fn touched(&self) -> &Vec<u64> {
        &self.touched
    }

    /// Sorts requests by slot, and leaves the requests of one slot in their order. No set holds lines of two slots,
    /// so no count changes. The sets that a lane goes through then stay in the processor's nearest cache.
    fn sort(&mut self, requests: &mut [Request]) {
        if requests.len() < self.last.slots() {
            return;
        }
        let Self { starts, sorted, last, .. } = self;
        starts.clear();
        starts.resize(last.slots() + 1, 0);
        for request in &*requests {
            starts[request.at.line as usize + 1] += 1;
        }
        for slot in 1..starts.len() {
            starts[slot] += starts[slot - 1];
        }
        sorted.clear();
        sorted.extend_from_slice(requests);
        for &request in &*requests {
            let start = &mut starts[request.at.line as usize];
            sorted[*start] = request;
            *start += 1;
        }
        requests.copy_from_slice(sorted);
    }
}

/// The number of bits that count the misses of one kind. One word has such bits for every kind, side by side.
const LANE: u32 = u64::BITS / Kind::ALL.len() as u32;
/// The number of requests counted in the word before the word is emptied. With so few requests no count overflows.
const CHUNK: usize = (1 << LANE) - 1;

/// Replays the requests that [`DirectMappedFilter::filter`] left into one back's only cache. `common_counts` are the
/// counts that the filter returned with these requests.
pub(crate) fn replay<T: Translation>(
    cache: &mut Cache,
    memory: &mut MemoryCounters,
    requests: &[Request],
    common_counts: &CommonCounts,
    translation: &T,
) {
    let (log2, mask) = cache.geometry();
    let array = Array::<Fifo, 1>::of(&mut cache.lines).expect("the filter is for direct-mapped caches");
    let (words, _) = array.parts();
    assert_eq!(words.len() as u64, mask + 1);
    let (mut misses, mut dirtied, mut evicted, mut evicted_dirty) = (PerKind::default(), 0, 0, 0);
    for chunk in requests.chunks(CHUNK) {
        let mut missed = 0u64;
        for request in chunk {
            let (id, line) = (request.at.id, u64::from(request.at.line));
            let set = ((translation.frame(PageId(id)).0 << log2 | line) & mask) as usize;
            let clean = Word::new(u64::from(id) << log2 | line, false).0;
            let data = u64::from(is_data(request.kind));
            let old = words[set];
            let hit = u64::from(old ^ clean <= 1);
            let was_dirty = hit & old;
            words[set] = clean | data | was_dirty;
            let miss = hit ^ 1;
            missed += miss << (LANE * request.kind as u32);
            dirtied += data & !was_dirty;
            let evicts = miss & u64::from(old != EMPTY);
            evicted += evicts;
            evicted_dirty += evicts & old;
        }
        for &kind in Kind::ALL {
            misses[kind] += missed >> (LANE * kind as u32) & CHUNK as u64;
        }
    }
    let mut sent = misses;
    for kind in [Kind::Write, Kind::Writeback] {
        // If the data is smaller than a line, the rest of the line is read. All write-backs of a block have one
        // size.
        let whole = requests
            .iter()
            .find(|request| request.kind == kind)
            .is_some_and(|request| u32::from(request.data) == cache.line_log2);
        sent[Kind::Fill] += if whole { 0 } else { misses[kind] };
        sent[kind] = 0;
    }
    sent[Kind::Writeback] += evicted_dirty;
    cache.counters += CacheCounters {
        accesses: common_counts.accesses,
        misses,
        compulsory: if cache.counts_compulsory { common_counts.compulsory } else { PerKind::default() },
        sent,
        fills: misses.total(),
        evictions: evicted,
        evictions_dirty: evicted_dirty,
        dirtied,
        // The cache is not inclusive and has no write buffer; a flush takes the general path.
        invalidated: 0,
        invalidated_dirty: 0,
        purged: 0,
        purged_dirty: 0,
        stream_hits: 0,
        merges: 0,
        stalls: 0,
        stall_cycles: 0,
    };
    *memory += MemoryCounters { accesses: sent };
}
