//! `MmuConfig` describes the TLBs and walk caches of a machine.

use crate::choice::TlbReplacement;

/// `TlbConfig` describes one TLB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlbConfig {
    /// The name in a machine file and in metrics.
    pub name: String,
    /// The number of entries, wired slots included.
    pub entries: u32,
    /// The entries of one set; `entries` if the TLB is fully associative.
    pub ways: u32,
    /// The rule that chooses a victim in a full set.
    pub replacement: TlbReplacement,
    /// The number of slots that only wired fills use. Only a fully associative TLB has wired slots.
    pub wired: u32,
    /// The logarithms to base two of the page sizes, in bytes, of which the TLB holds entries.
    pub pages: Vec<u32>,
    /// The index of the second-level TLB that the misses of this TLB ask.
    pub next: Option<usize>,
}

impl TlbConfig {
    /// Returns the rule that the description breaks by itself; `None` if such a TLB can be built.
    #[must_use]
    pub fn broken_rule(&self) -> Option<&'static str> {
        if self.entries == 0 || self.ways == 0 || !self.entries.is_multiple_of(self.ways) {
            return Some("a TLB has whole sets: its entries are a multiple of its ways, and at least one");
        }
        if self.wired > 0 && self.ways != self.entries {
            return Some("only a fully associative TLB has wired slots");
        }
        if self.wired >= self.entries {
            return Some("a TLB has more entries than wired slots");
        }
        if self.replacement == TlbReplacement::Plru && self.wired > 0 {
            return Some("tree-PLRU cannot leave out wired slots");
        }
        if self.replacement == TlbReplacement::Plru && !self.ways.is_power_of_two() {
            return Some("tree-PLRU needs a power of two of ways");
        }
        if self.pages.is_empty() {
            return Some("a TLB holds pages of one size at least");
        }
        None
    }

    /// Returns whether the TLB holds pages of this size.
    #[must_use]
    pub fn holds(&self, size_log2: u32) -> bool {
        self.pages.contains(&size_log2)
    }
}

/// `WalkCacheConfig` describes a walk cache, which replaces the entry used least recently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkCacheConfig {
    /// The level of the walk whose entries the cache keeps; 0 is the level of the root.
    pub level: u32,
    /// The number of entries.
    pub entries: u32,
    /// The entries of one set.
    pub ways: u32,
}

/// `MmuConfig` describes all TLBs and walk caches of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmuConfig {
    /// The logarithm to base two of the smallest page's bytes. Numbers of *base pages* are in pages of this size.
    pub base_log2: u32,
    /// Every TLB.
    pub tlbs: Vec<TlbConfig>,
    /// The indices of the first-level TLBs that fetches ask, with different page sizes.
    pub fetch: Vec<usize>,
    /// The indices of the first-level TLBs that loads and stores ask, with different page sizes.
    pub data: Vec<usize>,
    /// True if entries carry the number of their address space. If false, a switch to another space flushes all
    /// entries but wired and global entries.
    pub tagged: bool,
    /// The number of address spaces that tags can tell apart; `None` for any number. When a further space runs, all
    /// entries but global entries are flushed, and the numbers are handed out anew.
    pub spaces: Option<u32>,
    /// The walk caches, at most one for each level.
    pub walk_caches: Vec<WalkCacheConfig>,
}

impl MmuConfig {
    /// Returns the rule that the description breaks, with the name of the TLB that breaks it; `None` if such hardware
    /// can be built.
    #[must_use]
    pub fn broken_rule(&self) -> Option<(&str, &'static str)> {
        for tlb in &self.tlbs {
            if let Some(rule) = tlb.broken_rule() {
                return Some((&tlb.name, rule));
            }
            if tlb.pages.iter().any(|&size| size < self.base_log2 || size > 63) {
                return Some((&tlb.name, "no page is smaller than the base page"));
            }
            let Some(next) = tlb.next else { continue };
            if self.tlbs.get(next).is_none_or(|second| second.next.is_some()) {
                return Some((&tlb.name, "there are two levels of TLBs: a second-level TLB has no next one"));
            }
        }
        for port in [&self.fetch, &self.data] {
            for (position, &first) in port.iter().enumerate() {
                let Some(tlb) = self.tlbs.get(first) else {
                    return Some(("", "a port asks a TLB of the machine"));
                };
                let held = |&other: &usize| tlb.pages.iter().any(|&size| self.tlbs[other].holds(size));
                if port[..position].iter().any(held) {
                    return Some((&tlb.name, "one first-level TLB of a port holds pages of a size"));
                }
            }
        }
        if self.spaces == Some(0) {
            return Some(("", "tags tell one address space apart at least"));
        }
        for (position, cache) in self.walk_caches.iter().enumerate() {
            if cache.entries == 0 || cache.ways == 0 || !cache.entries.is_multiple_of(cache.ways) {
                return Some((
                    "",
                    "a walk cache has whole sets: its entries are a multiple of its ways, and at least one",
                ));
            }
            if self.walk_caches[..position].iter().any(|other| other.level == cache.level) {
                return Some(("", "a level of the walk has one walk cache at most"));
            }
        }
        None
    }
}
