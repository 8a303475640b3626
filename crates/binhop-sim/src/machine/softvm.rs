//! `softvm` checks the keys of `[translation]` of a machine whose software translates when the last level misses
//! (JM97 §4).

use std::ops::Range;

use binhop_base::{Agent, Agents, Problem, Result};
use binhop_hw::{CacheConfig, IndexBy, Rules, TagBy, TreeConfig, WritePolicy, WritebackOrder};
use binhop_os::page_table::{DisjunctLayout, TableConfig, TableKind};

use super::memory::Memory;
use super::protection::chains;

/// The handlers begin at multiples of this number of bytes.
pub(crate) const HANDLER_ALIGNMENT: u64 = 128;

/// `WriteBacks` states how a line that is written back to memory is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteBacks {
    /// A handler looks the page up in the page table.
    Table,
    /// The translation was kept with the line. This costs nothing.
    Kept,
}

impl WriteBacks {
    pub(super) const ALL: &'static [Self] = &[Self::Table, Self::Kept];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Kept => "kept",
        }
    }
}

/// `Sharing` states how address spaces share memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Regions of 256 MiB that are shared as a whole have one segment, and so one global address.
    Segments,
    /// Every address space has segments of its own: shared memory has a global address in each.
    Aliases,
}

impl Sharing {
    pub(super) const ALL: &'static [Self] = &[Self::Segments, Self::Aliases];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Aliases => "aliases",
        }
    }
}

/// `SoftvmConfig` says how software translates when the last level misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoftvmConfig {
    pub(crate) table: TableConfig,
    pub(crate) layout: DisjunctLayout,
    /// The first frame above the programs' memory.
    pub(crate) above: u64,
    /// The number of instructions that a handler executes.
    pub(crate) handler: u64,
    pub(crate) write_backs: WriteBacks,
    pub(crate) sharing: Sharing,
    /// The logarithm of the pages in a superpage, which one user entry maps. `None`: there are no superpages.
    pub(crate) huge_log2: Option<u32>,
    /// The caches that an instruction fetch asks in turn, and the caches that a load or store asks in turn.
    pub(crate) chains: [Vec<usize>; 2],
    /// For each chain, true if the last level has longer lines than the level before it. Then a write-back may have to
    /// read memory.
    pub(crate) last_level_fills: [bool; 2],
    /// For each chain, the sets of its caches, if they are two direct-mapped caches with lines of equal size, and the
    /// second cache has at least as many sets as the first.
    pub(crate) last_levels: [Option<LastLevelShape>; 2],
    /// The shapes of both chains, if each is two direct-mapped caches.
    pub(crate) direct_mapped: Option<[DirectMappedChain; 2]>,
}

/// `DirectMappedChain` is the shape of a chain of two direct-mapped caches. Preparation can simulate such a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectMappedChain {
    /// The sets of level 1 and of the last level.
    pub(crate) sets: [u64; 2],
    /// The logarithm of the lines of level 1 in a line of the last level.
    pub(crate) wider: u32,
    /// For each level, true if the victim leaves before the line is read.
    pub(crate) evict_first: [bool; 2],
}

impl DirectMappedChain {
    fn of(chain: &[usize], tree: &TreeConfig) -> Option<Self> {
        let &[first, last] = chain else { return None };
        let caches = [&tree.caches[first], &tree.caches[last]];
        let [first, last] = caches.map(|cache| cache.line.log2());
        caches.iter().all(|cache| is_direct_mapped(cache)).then(|| Self {
            sets: caches.map(CacheConfig::sets),
            wider: last - first,
            evict_first: caches.map(|cache| cache.writeback_order == WritebackOrder::BeforeFill),
        })
    }
}

/// Returns whether a line has one place in a cache, which its number tells.
fn is_direct_mapped(cache: &CacheConfig) -> bool {
    cache.ways == 1 && !cache.hashed && cache.streams.is_none()
}

/// `LastLevelShape` is the shape of a last level whose contents preparation can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastLevelShape {
    pub(crate) sets: u64,
    /// The sets of level 1.
    pub(crate) first_sets: u64,
}

impl LastLevelShape {
    fn of(chain: &[usize], tree: &TreeConfig) -> Option<Self> {
        let &[first, last] = chain else { return None };
        let [first, last] = [&tree.caches[first], &tree.caches[last]];
        let [first_sets, sets] = [first.sets(), last.sets()];
        (is_direct_mapped(first) && is_direct_mapped(last) && first.line == last.line && first_sets <= sets)
            .then_some(Self { sets, first_sets })
    }
}

impl SoftvmConfig {
    /// Returns the bytes of the two handlers, counted from the first byte of their pages: the handler of misses, then
    /// the handler of write-backs.
    pub(crate) fn handlers(&self) -> [Range<u64>; 2] {
        let bytes = 4 * self.handler;
        let second = bytes.next_multiple_of(HANDLER_ALIGNMENT);
        [0..bytes, second..second + bytes]
    }

    /// Returns the number of pages above the programs' memory: the pages of tables, and the pages of handlers.
    pub(crate) fn pages(&self) -> u32 {
        self.layout.pages() + self.handler_pages()
    }

    /// Returns the number of pages in which the handlers lie.
    pub(crate) fn handler_pages(&self) -> u32 {
        let [_, last] = self.handlers();
        last.end.div_ceil(self.table.page.bytes()).max(1) as u32
    }

    /// Returns the bit mask of a user entry's byte within the superpage's entries.
    pub(crate) fn within_huge(&self) -> u32 {
        (self.table.entry << self.huge_log2.unwrap_or(0)) - 1
    }

    /// Returns the number of segments for which the page table has room.
    pub(crate) fn segments(&self) -> Option<u32> {
        match self.table.kind {
            TableKind::Disjunct { segments, .. } => Some(segments),
            _ => None,
        }
    }

    /// Returns the bytes that preparation takes to know lines of the caches.
    pub(crate) fn bytes_of_known_lines(&self) -> u64 {
        let levels = self.direct_mapped.iter().flatten().flat_map(|chain| chain.sets);
        let last_levels = self.last_levels.iter().flatten().map(|shape| shape.sets);
        levels.map(|sets| 8 * sets).chain(last_levels.map(|sets| 12 * sets)).fold(0, u64::saturating_add)
    }

    /// Returns the agents that translation adds to a tree.
    pub(crate) fn agents() -> Agents {
        Agents::USER.with(Agent::Handler)
    }
}

/// `SoftvmKeys` are the keys of `[translation]` that matter here, as read.
pub(super) struct SoftvmKeys<'a> {
    pub(super) table: TableConfig,
    pub(super) layout: DisjunctLayout,
    pub(super) handler: u64,
    pub(super) write_backs: WriteBacks,
    pub(super) sharing: Sharing,
    pub(super) huge_log2: Option<u32>,
    /// The place of the machine in error messages.
    pub(super) place: &'a str,
}

/// Checks the machine around the keys.
pub(super) fn check_softvm(keys: SoftvmKeys<'_>, tree: &TreeConfig, memory: &Memory) -> Result<SoftvmConfig> {
    let SoftvmKeys { table, layout, handler, write_backs, sharing, huge_log2, place } = keys;
    let refused = |value: &str, place: &str, rule: &str, remedy: &str| {
        Err(Problem::request(value, place, rule, remedy))
    };
    if tree.rules == Rules::Cachegrind {
        return refused(
            "cachegrind",
            &format!("{place}: rules"),
            "cachegrind's rules count what a program references, and no handler",
            "take rules = \"lines\", or translation.active = false",
        );
    }
    let Some(above) = memory.frames else {
        return refused(
            "identity",
            &format!("{place}: placement.policy"),
            "with placement identity, physical = virtual: there are no frames for page tables",
            "give the machine a memory.size and another placement.policy, like --set memory.size=128MiB --set placement.policy=random",
        );
    };
    let chains = chains(tree);
    if let Some(&both) = chains[0].iter().find(|cache| chains[1].contains(cache)) {
        return refused(
            &tree.caches[both].name,
            &format!("{place}: cache.{}", tree.caches[both].name),
            "where software translates at cache misses, instructions and data have caches of their own at every level (JM97 §5.1)",
            "give each side its own last level",
        );
    }
    for cache in &tree.caches {
        let place = |key: &str| format!("{place}: cache.{}.{key}", cache.name);
        let rule = |what: &str| format!("where software translates at cache misses, {what} (JM97 §4)");
        let remedy = "change the cache, or take refill = \"software\" with a [tlb.NAME]";
        if cache.index != IndexBy::Virtual || cache.tag == TagBy::Physical {
            let rule = rule("every cache is virtual, because an address is translated behind the last level");
            return refused(
                cache.index.name(),
                &place("index"),
                &rule,
                "set index = \"virtual\", and tag = \"global\" or tag = \"asid\"",
            );
        }
        if cache.write != WritePolicy::Back || !cache.allocate || cache.write_buffer.is_some() {
            let rule = rule("stores stay in the caches until their line leaves");
            return refused(
                cache.write.name(),
                &place("write"),
                &rule,
                "set write = \"back\" and allocate = true",
            );
        }
        if cache.inclusive {
            return refused("true", &place("inclusive"), &rule("no cache is inclusive"), remedy);
        }
        if cache.streams.is_some() {
            return refused("stream-buffers", &place("name"), &rule("nothing is prefetched"), remedy);
        }
    }
    let fills = |chain: &Vec<usize>| {
        let lines: Vec<_> = chain.iter().rev().map(|&cache| tree.caches[cache].line).collect();
        lines.len() > 1 && lines[0] > lines[1]
    };
    let last_level_fills = chains.each_ref().map(fills);
    Ok(SoftvmConfig {
        table,
        layout,
        above,
        handler,
        write_backs,
        sharing,
        huge_log2,
        last_levels: chains.each_ref().map(|chain| LastLevelShape::of(chain, tree)),
        direct_mapped: match chains.each_ref().map(|chain| DirectMappedChain::of(chain, tree)) {
            [Some(fetch), Some(data)] => Some([fetch, data]),
            _ => None,
        },
        chains,
        last_level_fills,
    })
}
