//! Requests replayed into the commonest back: one cache before memory.
//!
//! A front that many placements share is simulated once, so nearly all of a study's time is spent here: the
//! rules are those of [`crate::flow`], written out for a cache that is write-back, allocates, is not
//! inclusive and has no buffer, whose every request ends at memory. Then nothing depends on the order
//! within a miss, and cycles follow from the counts.

use binhop_base::{Kind, LineAddr, PageId, Translation};

use crate::{
    CacheCounters, MemoryCounters,
    cache::{Cache, Index, note_repeat},
    lines::{Array, InLines, Word, put, touch},
    replacement::{Fifo, Lru, Plru, Policy, Random, Srrip},
    request::{MEMORY, Request},
};

/// Where lines of pages belong.
trait Locate: Copy {
    /// The page number that chooses the set together with the offset.
    fn upper<T: Translation>(page: PageId, translation: &T) -> u64;
}

#[derive(Clone, Copy)]
struct ByFrame;

impl Locate for ByFrame {
    #[inline(always)]
    fn upper<T: Translation>(page: PageId, translation: &T) -> u64 {
        translation.frame(page).0
    }
}

#[derive(Clone, Copy)]
struct ByOffset;

impl Locate for ByOffset {
    #[inline(always)]
    fn upper<T: Translation>(_page: PageId, _translation: &T) -> u64 {
        0
    }
}

/// Replays requests into a cache and the memory behind it, if they are as this file wants them; then
/// returns true.
pub(crate) fn replay<T: Translation>(
    cache: &mut Cache,
    memory: &mut MemoryCounters,
    requests: &[Request],
    translation: &T,
) -> bool {
    let simple = cache.write_back && cache.allocate && cache.buffer.is_none() && cache.takes_along.is_empty();
    if !simple || cache.takes_mapping || cache.next != MEMORY {
        return false;
    }
    match cache.plain_index() {
        Some(Index::Frame) => replay_by::<ByFrame, T>(cache, memory, requests, translation),
        Some(Index::Offset) => replay_by::<ByOffset, T>(cache, memory, requests, translation),
        _ => false,
    }
}

fn replay_by<L: Locate, T: Translation>(
    cache: &mut Cache,
    memory: &mut MemoryCounters,
    requests: &[Request],
    translation: &T,
) -> bool {
    replay_if::<L, Fifo, 1, T>(cache, memory, requests, translation)
        || replay_if::<L, Lru, 2, T>(cache, memory, requests, translation)
        || replay_if::<L, Lru, 4, T>(cache, memory, requests, translation)
        || replay_if::<L, Lru, 8, T>(cache, memory, requests, translation)
        || replay_if::<L, Lru, 16, T>(cache, memory, requests, translation)
        || replay_if::<L, Random, 2, T>(cache, memory, requests, translation)
        || replay_if::<L, Random, 4, T>(cache, memory, requests, translation)
        || replay_if::<L, Lru, 0, T>(cache, memory, requests, translation)
        || replay_if::<L, Fifo, 0, T>(cache, memory, requests, translation)
        || replay_if::<L, Random, 0, T>(cache, memory, requests, translation)
        || replay_if::<L, Plru, 0, T>(cache, memory, requests, translation)
        || replay_if::<L, Srrip, 0, T>(cache, memory, requests, translation)
}

/// The loop, if the cache stores its lines as `Array<P, W>`.
fn replay_if<L: Locate, P: Policy, const W: usize, T: Translation>(
    cache: &mut Cache,
    memory: &mut MemoryCounters,
    requests: &[Request],
    translation: &T,
) -> bool
where
    Array<P, W>: InLines,
{
    let (log2, mask) = cache.geometry();
    let line_log2 = cache.line_log2 as u8;
    let Some(array) = Array::<P, W>::of(&mut cache.lines) else { return false };
    let number_of_ways = array.ways();
    let (words, policy) = array.parts();
    let (counters, touched, repeats) = (&mut cache.counters, &mut cache.touched, &mut cache.repeats);
    for &request in requests {
        let kind = request.kind;
        if request.to == MEMORY {
            memory.accesses[kind] += 1;
            continue;
        }
        let LineAddr { id, line } = request.at;
        let upper = L::upper(PageId(id), translation);
        let set = ((upper << log2 | u64::from(line)) & mask) as usize;
        let key = u64::from(id) << log2 | u64::from(line);
        let is_data = matches!(kind, Kind::Write | Kind::Writeback);
        counters.accesses[kind] += 1;
        let ways = &mut words[set * number_of_ways..][..number_of_ways];
        if touch(ways, policy, set, key, u64::from(is_data), &mut counters.dirtied) {
            continue;
        }
        counters.misses[kind] += 1;
        let first = is_first(touched, key);
        counters.compulsory[kind] += u64::from(first);
        if !first && kind.is_demand() {
            note_repeat(repeats, u64::from(id));
        }
        if !is_data {
            ask(counters, memory, kind);
        } else if request.data != line_log2 {
            ask(counters, memory, Kind::Fill);
        }
        counters.fills += 1;
        counters.dirtied += u64::from(is_data);
        if let Some(victim) = put(ways, policy, set, Word::new(key, is_data)) {
            counters.evictions += 1;
            if victim.dirty() {
                counters.evictions_dirty += 1;
                ask(counters, memory, Kind::Writeback);
            }
        }
    }
    true
}

#[inline(always)]
fn ask(counters: &mut CacheCounters, memory: &mut MemoryCounters, kind: Kind) {
    counters.sent[kind] += 1;
    memory.accesses[kind] += 1;
}

/// Whether a line is accessed for the first time ever; from now on it is not.
#[inline(always)]
pub(crate) fn is_first(touched: &mut Vec<u64>, line: u64) -> bool {
    let (word, mask) = ((line / 64) as usize, 1 << (line % 64));
    if word >= touched.len() {
        touched.resize(word + 1, 0);
    }
    let first = touched[word] & mask == 0;
    touched[word] |= mask;
    first
}
