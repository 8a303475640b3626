//! `TranslationBytes` is the memory that translation takes, for the estimate of a run's memory.

use binhop_os::page_table::TableKind;

use super::{Tlbs, Walk, WalkStep};
use crate::machine::TranslationConfig;

/// The bytes of an entry of a TLB or walk cache: its slot, its time, up to eight heads of chains, the draws of its set,
/// its part of a tournament, which has up to two leaves for each entry, and the mapping that it is known to translate.
const ENTRY: u64 = 24 + 4 + 32 + 4 + 2 * 16 + 8;
/// The bytes of a page in the lists of what shared TLBs were told, while the lists grow.
const TOLD: u64 = 176;
/// The bytes of a page whose entry in shared TLBs may be known, in lists that double: its entries and last uses, the
/// bits of its ports, and the groups of its slots in the filters.
const KNOWN: u64 = 2 * (24 + 1 + 16);
/// The bytes of a page in the lists that a lane copies.
const COPIED: u64 = 128;
/// The bytes of an entry of a table page that belongs to a tree.
const TREE_ENTRY: u64 = 8;
/// The bytes of a translation in a chain: its link in a list that doubles, and its place in the order of pages.
const LINK: u64 = 2 * 32 + 48;
/// The bytes of a piece of a table page in the lists of free pieces.
const PIECE: u64 = 24;
/// The bytes of a page that has a huge page of its own, while the lists grow: the entry of the huge page, its run, and
/// the number of the page's run.
pub(crate) const HUGE_PAGE: u64 = 56 + 24 + 12;
/// The bytes of a run in the lists of a lane, besides a byte for each frame.
pub(crate) const RUN: u64 = 192;

/// `TranslationBytes` is the memory that translation takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TranslationBytes {
    /// The bytes of TLBs and walk caches, and of the lists of what they were told that do not grow.
    pub(crate) tlbs: u64,
    /// The bytes of each page in the lists of what shared TLBs were told, and of what they are known to hold.
    pub(crate) told: u64,
    /// The bytes of each page in the lists of what the TLBs of one lane were told.
    pub(crate) told_in_lane: u64,
    /// The bytes of the page tables that do not depend on pages.
    pub(crate) tables: u64,
    /// The bytes of the page tables for each page, and their maximum.
    pub(crate) table_page: u64,
    pub(crate) most_in_tables: u64,
    /// The bytes of each page in what preparation knows of huge pages.
    pub(crate) huge_pages: u64,
    /// The bytes of each page in the runs of one lane, and their maximum.
    pub(crate) run: u64,
    pub(crate) most_in_runs: u64,
    /// The bytes of a walk on its way to lanes.
    pub(crate) walk: u64,
}

impl TranslationBytes {
    /// Returns the memory that translation takes on a machine, at its maximum.
    pub(crate) fn of(config: &TranslationConfig) -> Self {
        let (mmu, table) = (&config.mmu, &config.table);
        let entries =
            mmu.tlbs.iter().map(|tlb| tlb.entries).chain(mmu.walk_caches.iter().map(|cache| cache.entries));
        let reserve = u64::from(table.reserve);
        let per_page = table.page.bytes() / u64::from(table.entry);
        // A page may need a table page of its own at each level of a tree.
        let levels = match table.kind {
            TableKind::Mips => 2,
            TableKind::Radix { levels } => levels,
            TableKind::Hashed | TableKind::Inverted => 0,
            TableKind::Disjunct { .. } => unreachable!("no TLB is refilled from a disjunct table"),
        };
        let chained = levels == 0;
        let in_tree = TREE_ENTRY * per_page + 64;
        let slots = table.frames.saturating_mul(2).next_power_of_two();
        let huge = config.huge_log2();
        let run = huge.map_or(0, |log2| RUN + (1 << log2));
        Self {
            tlbs: entries.map(|entries| ENTRY * u64::from(entries)).sum::<u64>() + 4096 + Tlbs::LISTS,
            // Huge pages leave each lane with TLBs of its own from the start.
            told: if huge.is_some() { 0 } else { TOLD + KNOWN },
            told_in_lane: if huge.is_some() { TOLD } else { COPIED },
            tables: if chained { 4 * slots } else { 0 } + 24 * reserve,
            table_page: if chained { LINK + PIECE } else { u64::from(levels) * in_tree },
            most_in_tables: if chained { u64::MAX } else { reserve.saturating_mul(in_tree) },
            huge_pages: huge.map_or(0, |_| HUGE_PAGE),
            run,
            most_in_runs: huge.map_or(0, |log2| (table.frames >> log2).saturating_mul(run)),
            walk: (size_of::<Walk>() + 16 + 5 * size_of::<WalkStep>()) as u64,
        }
    }
}
