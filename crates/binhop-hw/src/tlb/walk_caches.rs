//! `WalkCaches` keeps entries of the upper levels of page tables, so that a walk need not read them. The top of
//! `tlb/mod.rs` has its rules.

use super::array::{ArraySize, PageArray, remove_where};
use super::config::MmuConfig;
use super::page::{PageKey, TlbPage};
use super::use_times::UseTimes;
use crate::choice::TlbReplacement;
use crate::counters::WalkCacheCounters;

#[derive(Clone, Debug)]
struct WalkCache {
    level: usize,
    counts: WalkCacheCounters,
    array: PageArray,
}

/// `WalkCaches` holds the walk caches of a processor. The times of their slots lie beside the times of the TLBs.
#[derive(Clone, Debug)]
pub(super) struct WalkCaches {
    /// The walk caches, in the order of the description.
    caches: Vec<WalkCache>,
    /// The indices of the walk caches, deepest level first.
    deepest_first: Vec<usize>,
    base_log2: u32,
}

impl WalkCaches {
    /// Makes empty walk caches.
    pub(super) fn new(config: &MmuConfig, times: &mut UseTimes) -> Self {
        let cache = |cache: &super::config::WalkCacheConfig| {
            let size = ArraySize { entries: cache.entries, ways: cache.ways, wired: 0 };
            WalkCache {
                level: cache.level as usize,
                counts: WalkCacheCounters::default(),
                array: PageArray::new(size, TlbReplacement::Lru, 0, times),
            }
        };
        let caches: Vec<WalkCache> = config.walk_caches.iter().map(cache).collect();
        let mut deepest_first: Vec<usize> = (0..caches.len()).collect();
        deepest_first.sort_by_key(|&index| core::cmp::Reverse(caches[index].level));
        Self { caches, deepest_first, base_log2: config.base_log2 }
    }

    /// Does what [`Mmu::walk_from`](super::Mmu::walk_from) does.
    pub(super) fn walk_from(
        &mut self,
        space: u32,
        base_page: u64,
        shifts: &[u32],
        times: &mut UseTimes,
    ) -> usize {
        for &index in &self.deepest_first {
            let cache = &mut self.caches[index];
            if cache.level + 1 >= shifts.len() {
                continue;
            }
            cache.counts.accesses += 1;
            let key = walk_key(space, base_page, shifts[cache.level], self.base_log2);
            if let Some(slot) = cache.array.find(key) {
                cache.array.touch(slot, times);
                cache.counts.hits += 1;
                return cache.level + 1;
            }
        }
        0
    }

    /// Does what [`Mmu::fill_walk_caches`](super::Mmu::fill_walk_caches) does.
    pub(super) fn fill(
        &mut self,
        space: u32,
        base_page: u64,
        shifts: &[u32],
        from: usize,
        times: &mut UseTimes,
    ) {
        for cache in &mut self.caches {
            if cache.level < from || cache.level + 1 >= shifts.len() {
                continue;
            }
            let key = walk_key(space, base_page, shifts[cache.level], self.base_log2);
            let put = cache.array.put(key, false, times, &());
            cache.counts.fills += u64::from(!put.was_present);
            cache.counts.evictions += u64::from(put.evicted);
        }
    }

    /// Removes the entries for which `leaves` holds.
    pub(super) fn invalidate(&mut self, leaves: impl Fn(TlbPage) -> bool, times: &mut UseTimes) {
        for cache in &mut self.caches {
            cache.counts.invalidated += remove_where(&mut cache.array, times, |_, page| leaves(page));
        }
    }

    /// Removes all entries because of a switch.
    pub(super) fn flush(&mut self, times: &mut UseTimes) {
        for cache in &mut self.caches {
            cache.counts.flushed += remove_where(&mut cache.array, times, |_, _| true);
        }
    }

    /// Returns the counts of each walk cache.
    pub(super) fn counts(&self) -> Vec<WalkCacheCounters> {
        self.caches.iter().map(|cache| cache.counts).collect()
    }

    /// Returns the slots of each walk cache, set by set.
    pub(super) fn contents(&self) -> Vec<Vec<Option<TlbPage>>> {
        self.caches.iter().map(|cache| cache.array.contents().collect()).collect()
    }

    /// Returns the bytes that the entries take, without their times.
    pub(super) fn bytes(&self) -> usize {
        self.caches.iter().map(|cache| cache.array.bytes()).sum()
    }
}

/// Returns the name of a walk's entry: all the memory below the entry.
fn walk_key(space: u32, base_page: u64, shift: u32, base_log2: u32) -> PageKey {
    PageKey::new(TlbPage { space, number: base_page >> shift, size_log2: base_log2 + shift })
}
