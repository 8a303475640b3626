//! This file declares the counters of caches and memory, each once, with name, unit and meaning.
//!
//! Counts per kind are also kept per agent. The plain name of a kind (`l2.load.misses`) counts the user's accesses
//! alone. The accesses of another agent are counted under the agent's name before the kind (`l2.walk.load.misses`),
//! on machines that have this agent. So counts of different names can be added. Counts of lines (fills, evictions, …)
//! are of all agents together: a line belongs to no agent.
//!
//! The general path (`cache/`) and every fast path (`fast/`) count for themselves. Each fast path, and cachegrind's
//! rules, name every counter and say how it is counted or why it stays 0: code that forgets a counter does not
//! compile. `tests/counters.rs` fails for a counter that the general path never counts.

use core::ops::{AddAssign, Sub};

use binhop_base::{Kind, PerKind};

/// `CounterInfo` is the declaration of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// The name in a metric: `<cache>.<kind>.<name>` if the counter is kept per kind, otherwise `<cache>.<name>`.
    pub name: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The meaning of one count.
    pub meaning: &'static str,
    /// True if the counter is kept per [`Kind`].
    pub per_kind: bool,
}

pub(crate) trait Value {
    const PER_KIND: bool;
    fn each(&self, visit: impl FnMut(Option<Kind>, u64));
}

impl Value for u64 {
    const PER_KIND: bool = false;
    fn each(&self, mut visit: impl FnMut(Option<Kind>, u64)) {
        visit(None, *self);
    }
}

impl Value for PerKind<u64> {
    const PER_KIND: bool = true;
    fn each(&self, mut visit: impl FnMut(Option<Kind>, u64)) {
        for &kind in Kind::ALL {
            visit(Some(kind), self[kind]);
        }
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* $type:ident { $($field:ident: $value:ty = $name:literal, $unit:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $type { $(#[doc = $meaning] pub $field: $value,)* }

        impl $type {
            /// Every counter, in order.
            pub const LIST: &'static [CounterInfo] = &[$(CounterInfo {
                name: $name, unit: $unit, meaning: $meaning, per_kind: <$value as Value>::PER_KIND,
            },)*];

            /// Visits every value with its declaration and, where it is kept per kind, each kind.
            pub fn each(&self, mut visit: impl FnMut(&'static CounterInfo, Option<Kind>, u64)) {
                let mut list = Self::LIST.iter();
                $({
                    let info = list.next().expect("one declaration per field");
                    self.$field.each(|kind, value| visit(info, kind, value));
                })*
            }
        }

        impl AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl Sub for $type {
            type Output = Self;
            fn sub(self, earlier: Self) -> Self {
                Self { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// `CacheCounters` holds the counts of one cache. Two snapshots can be subtracted.
    CacheCounters {
        accesses: PerKind<u64> = "accesses", "accesses", "Accesses to this cache, one per line touched (with rules = cachegrind one per reference).";
        misses: PerKind<u64> = "misses", "accesses", "Accesses that did not find their line here (or one of their two, with rules = cachegrind).";
        compulsory: PerKind<u64> = "compulsory", "accesses", "Misses that are the first access ever to that line of that page at this cache; a page that returns to memory is no first access.";
        sent: PerKind<u64> = "sent", "requests", "Requests this cache made of the level behind it, one per line (with rules = cachegrind one per miss).";
        fills: u64 = "fills", "lines", "Lines brought in.";
        evictions: u64 = "evictions", "lines", "Lines that left because another needed the room.";
        evictions_dirty: u64 = "evictions.dirty", "lines", "Evicted lines that were written back.";
        invalidated: u64 = "invalidated", "lines", "Lines that left because an inclusive cache behind lost the line that covers them.";
        invalidated_dirty: u64 = "invalidated.dirty", "lines", "Invalidated lines that were dirty; the inclusive cache's victim carries their data.";
        purged: u64 = "purged", "lines", "Lines that left because their frame changed hands, or because the kernel flushed the cache.";
        purged_dirty: u64 = "purged.dirty", "lines", "Purged lines that were dirty and went to memory, written by the system.";
        dirtied: u64 = "dirtied", "lines", "Times a clean or new line became dirty.";
        stream_hits: u64 = "stream.hits", "accesses", "Demand misses whose line came from a stream buffer.";
        merges: u64 = "write-buffer.merges", "writes", "Writes that joined a write to the same line that waited in the write buffer (with merge = true).";
        stalls: u64 = "write-buffer.stalls", "writes", "Writes that found the write buffer full.";
        stall_cycles: u64 = "write-buffer.stall-cycles", "cycles", "Cycles the processor waited for room in the write buffer.";
    }
}

counters! {
    /// `MemoryCounters` holds the counts of memory.
    MemoryCounters {
        accesses: PerKind<u64> = "accesses", "accesses", "Accesses to memory, one per line of the cache that asks (with rules = cachegrind one per miss).";
    }
}

counters! {
    /// `AgentCounters` holds the counts of one agent other than the user at one cache.
    AgentCounters {
        accesses: PerKind<u64> = "accesses", "accesses", "Accesses to this cache on behalf of the agent.";
        misses: PerKind<u64> = "misses", "accesses", "Accesses on behalf of the agent that did not find their line here.";
        compulsory: PerKind<u64> = "compulsory", "accesses", "Misses of the agent that are the first access ever, by anyone, to that line of that page at this cache.";
        sent: PerKind<u64> = "sent", "requests", "Requests this cache made of the level behind it on behalf of the agent.";
        asked: PerKind<u64> = "asked", "accesses", "Accesses that the agent made here itself, not through a cache above.";
        discarded: u64 = "discarded", "lines", "Dirty lines that left without being written back, because the agent overwrites their data in memory.";
        cleaned: u64 = "cleaned", "lines", "Dirty lines that were written back and stayed, clean, because the agent reads their data in memory.";
    }
}

counters! {
    /// `AgentMemoryCounters` holds the counts of one agent other than the user at memory.
    AgentMemoryCounters {
        accesses: PerKind<u64> = "accesses", "accesses", "Accesses to memory on behalf of the agent.";
        asked: PerKind<u64> = "asked", "accesses", "Accesses that the agent made at memory itself, not through a cache.";
    }
}

counters! {
    /// `TlbPortCounters` holds the counts of one port at one TLB.
    TlbPortCounters {
        accesses: u64 = "accesses", "lookups", "Lookups of a page, one per page touched; behind a first level, one per miss there.";
        misses: u64 = "misses", "lookups", "Lookups that did not find their page here.";
    }
}

counters! {
    /// `TlbCounters` holds the counts of the entries of one TLB. Fills = evictions + invalidated + flushed +
    /// resident.
    TlbCounters {
        fills: u64 = "fills", "entries", "Entries brought in.";
        evictions: u64 = "evictions", "entries", "Entries that left because another needed the slot.";
        invalidated: u64 = "invalidated", "entries", "Entries that left because their mapping changed or their address space ended.";
        flushed: u64 = "flushed", "entries", "Entries that left because another address space runs: at every switch without tags, otherwise when the hardware's numbers of spaces ran out.";
    }
}

counters! {
    /// `WalkCacheCounters` holds the counts of one walk cache. Fills = evictions + invalidated + flushed +
    /// resident.
    WalkCacheCounters {
        accesses: u64 = "accesses", "lookups", "Walks that asked this cache: those that no cache of a deeper level shortened.";
        hits: u64 = "hits", "lookups", "Walks that began behind the level of this cache.";
        fills: u64 = "fills", "entries", "Entries brought in.";
        evictions: u64 = "evictions", "entries", "Entries that left because another needed the slot.";
        invalidated: u64 = "invalidated", "entries", "Entries that left because a mapping below them changed or their address space ended.";
        flushed: u64 = "flushed", "entries", "Entries that left because another address space runs, as in a TLB.";
    }
}

impl CacheCounters {
    /// Counts hits that change nothing but these counts.
    pub fn add_hits(&mut self, kind: Kind, hits: u64) {
        let Self {
            accesses,
            // A hit makes no request to the level behind.
            misses: _,
            compulsory: _,
            sent: _,
            // No line comes, leaves or becomes dirty.
            fills: _,
            evictions: _,
            evictions_dirty: _,
            invalidated: _,
            invalidated_dirty: _,
            purged: _,
            purged_dirty: _,
            dirtied: _,
            stream_hits: _,
            merges: _,
            stalls: _,
            stall_cycles: _,
        } = self;
        accesses[kind] += hits;
    }

    /// Returns the cycles that a processor waits for one level: the level's cost for each demand access that it
    /// serves. In a tree whose costs add up, each demand access that misses in the level costs the same.
    pub(crate) fn waited(&self, cost: u64, add_costs: bool) -> u64 {
        let (accesses, misses) = (self.accesses.demand(), self.misses.demand());
        cost * if add_costs { accesses } else { accesses - misses }
    }
}

/// `CountedCaches` gives the counts of the caches of one stage, a front or a back, since the start.
pub trait CountedCaches {
    /// Returns what a cache of the stage has counted.
    ///
    /// # Panics
    /// The cache belongs to the other stage.
    fn counters(&self, cache: usize) -> &CacheCounters;
    /// Returns what a cache of the stage has counted of each agent other than the user, in the tree's order of agents.
    ///
    /// # Panics
    /// The cache belongs to the other stage.
    fn by_agent(&self, cache: usize) -> &[AgentCounters];
    /// Returns how many lines a cache of the stage holds, and how many of them are dirty. The lines themselves are
    /// looked at: no counter is read.
    ///
    /// # Panics
    /// The cache belongs to the other stage.
    fn resident(&self, cache: usize) -> (u64, u64);
}

/// `Counted` gives the counts of a back and of the memory behind it since the start.
pub trait Counted: CountedCaches {
    /// Returns what memory has counted.
    fn memory(&self) -> &MemoryCounters;
    /// Returns what memory has counted of each agent other than the user, in the tree's order of agents.
    fn memory_by_agent(&self) -> &[AgentMemoryCounters];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_visited_under_its_own_name_and_explained() {
        let mut counters = CacheCounters { fills: 7, stall_cycles: 9, ..CacheCounters::default() };
        counters.misses[Kind::Store] = 3;
        let mut seen = Vec::new();
        counters.each(|info, kind, value| {
            assert_eq!(info.per_kind, kind.is_some());
            assert!(info.meaning.ends_with('.') && !info.unit.is_empty());
            if value > 0 {
                seen.push((info.name, kind, value));
            }
        });
        assert_eq!(
            seen,
            [("misses", Some(Kind::Store), 3), ("fills", None, 7), ("write-buffer.stall-cycles", None, 9)]
        );
        let mut names: Vec<_> = CacheCounters::LIST.iter().map(|info| info.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CacheCounters::LIST.len());
    }

    #[test]
    fn snapshots_subtract() {
        let mut later = CacheCounters { fills: 7, ..CacheCounters::default() };
        later.accesses[Kind::Load] = 5;
        let earlier = CacheCounters { fills: 3, ..CacheCounters::default() };
        assert_eq!((later - earlier).fills, 4);
        assert_eq!((later - earlier).accesses[Kind::Load], 5);
    }
}
