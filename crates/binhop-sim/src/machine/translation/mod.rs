//! `translation` declares the keys of the sections `[translation]` and `[walk-cache.LEVEL]`: the page table, and how
//! a TLB is refilled.

mod check;

use binhop_base::{Agent, Agents, Bytes, Result};
use binhop_hw::{MmuConfig, TlbPage};
use binhop_os::page_table::{FORMS, TableConfig, TableForm, TableKind};

use super::cache::Associativity;
use super::document::Located;
use super::forms::{UpTo, choice, choose, either};
use super::keys::{At, Form, Key, Resolved, keys};
use super::protection::{ProtectionChanges, ProtectionViolations};
use super::segments::{SegmentIds, SharedIds};
use super::softvm::{Sharing, SoftvmConfig, WriteBacks};
pub(super) use check::{Around, check_translation};

keys! {
    /// The keys of `[translation]`.
    TranslationKeys of "translation" {
        active: bool = "active", absent "false",
            "whether a run simulates TLBs and page tables; --set translation=on says the same";
        table: At<TableName> = "table", "the form of the page table";
        levels: Option<At<UpTo<5>>> = "levels", form "2, 4 or 5", absent "4 for radix", "the levels of a radix table";
        entry: Option<At<Bytes>> = "entry", absent "the usual size of the form", "bytes of an entry of the table";
        refill: Refill = "refill", absent "hardware",
            "who translates: a page walker that refills a TLB, a handler in software that refills a TLB, or, without \
             a TLB, a handler that runs when the last level misses";
        reads: Option<At<String>> = "reads", form "a cache's name or \"memory\"",
            absent "the cache that serves data", "the level that a page walker asks first";
        tags: bool = "tags", absent "true",
            "whether entries of TLBs and walk caches carry the address space; without tags a switch removes all \
             entries but wired entries";
        asids: UpTo<{ 1 << 16 }> = "asids", absent "0",
            "the numbers that hardware has for address spaces; when they are used up, all entries are removed, wired \
             entries included. 0: no limit";
        handler: UpTo<1000> = "handler", absent "10", "instructions of the handler that refills a TLB in software";
        root_handler: UpTo<1000> = "root-handler", absent "10",
            "instructions of the handler for a page of the page table itself";
        write_backs: WriteBacks = "write-backs", absent "table",
            "where software translates at cache misses: how a line that goes back to memory is translated";
        sharing: Sharing = "sharing", absent "segments",
            "where software translates at cache misses: whether regions of 256 MiB that address spaces share as a \
             whole have one segment, or every space has segments of its own";
        protection_changes: ProtectionChanges = "protection-changes", absent "eager",
            "where lines keep the protection of their pages: whether a change of protection sweeps the page's lines \
             at once, or a line that gains rights is updated when an access needs them";
        protection_violations: ProtectionViolations = "protection-violations", absent "count",
            "where lines keep the protection of their pages: whether an access that its page does not allow stops \
             the run, is counted, or is not looked for";
        line_protection: bool = "line-protection", absent "false",
            "where nothing translates: whether the lines of virtual caches keep the protection of their pages, as \
             they do where software translates at cache misses";
        segments: Option<At<UpTo<{ 1 << 14 }>>> = "segments", absent "256 for disjunct",
            "the segments of 256 MiB for which a disjunct table has room";
        regions: Option<At<UpTo<256>>> = "regions", absent "8 for disjunct",
            "the regions of 256 MiB that an address space may use at one time under a disjunct table, a power of \
             two: the groups of its root table";
        segment_ids: Option<At<SegmentIds>> = "segment-ids", absent "none",
            "where caches have global tags, or software translates at cache misses: the segment ids of regions of \
             256 MiB; under a disjunct table an id is the number of the segment. Every other region gets its segment \
             by itself";
        shared_segments: Option<At<SharedIds>> = "shared-segments", absent "none",
            "the ids that several regions may have in segment-ids: these regions share their memory";
        second_level: UpTo<1000> = "second-level", absent "0", "cycles of a hit in a second-level TLB";
        huge_pages: Option<At<Bytes>> = "huge-pages", form "a size", absent "none",
            "the size of huge pages, which private anonymous memory takes; needs a placement with runs of frames \
             (buddy)";
        reserve: Bytes = "reserve", absent "4MiB", "frames for page tables, above the memory of programs";
        placement: TablePlacement = "placement", absent "random",
            "how tables take frames of the reserve: by draws of their own, in order, or by the machine's placement \
             policy";
    }
}

keys! {
    /// The keys of one `[walk-cache.LEVEL]`.
    WalkCacheKeys of "walk-cache" {
        entries: At<UpTo<{ 1 << 16 }>> = "entries", form "a whole number", "the entries that the walk cache holds";
        ways: Associativity = "ways", absent "full", "entries in a set";
    }
}

/// `TableName` is the form of a page table, as a description names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableName(&'static TableForm);

impl Form for TableName {
    fn form() -> String {
        either(FORMS.iter().map(|form| form.name))
    }

    fn read(located: Located, key: &Key) -> Result<Self> {
        choose(located, key, FORMS, |form| form.name).map(Self)
    }

    fn write(&self, name: &str, resolved: &mut Resolved<'_>) {
        resolved.line(name, &format!("{:?}", self.0.name));
    }
}

/// `Refill` states who refills a TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// A page walker reads the entries.
    Hardware,
    /// A handler loads the entries.
    Software,
    /// There is no TLB: a handler translates when the last level misses.
    CacheMiss,
}

impl Refill {
    const ALL: &'static [Self] = &[Self::Hardware, Self::Software, Self::CacheMiss];

    const fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Software => "software",
            Self::CacheMiss => "cache-miss",
        }
    }
}

/// `TablePlacement` is the rule by which page tables take frames of the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TablePlacement {
    /// A random frame, by draws of their own.
    Random,
    /// The lowest free frame.
    Fixed,
    /// The frame that the machine's placement policy chooses, by draws of its own.
    Policy,
}

impl TablePlacement {
    const ALL: &'static [Self] = &[Self::Random, Self::Fixed, Self::Policy];

    const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Fixed => "fixed",
            Self::Policy => "policy",
        }
    }
}

choice!(ProtectionChanges, ProtectionViolations, Refill, Sharing, TablePlacement, WriteBacks);

/// `WalkEntry` is the level that a page walker asks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEntry {
    /// The cache that serves data.
    Data,
    Cache(usize),
    Memory,
}

/// `TranslationConfig` says how a machine translates addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslationConfig {
    pub(crate) mmu: MmuConfig,
    /// The TLB that translates instruction fetches, and the TLB that translates loads and stores.
    pub(crate) serving: [usize; 2],
    pub(crate) table: TableConfig,
    pub(crate) refill: Refill,
    pub(crate) reads: WalkEntry,
    pub(crate) handler: u64,
    pub(crate) root_handler: u64,
    pub(crate) second_level: u64,
    pub(crate) placement: TablePlacement,
    /// The logarithm of the pages in a huge page; 0 if huge pages have the size of other pages. `None`: the description
    /// states none.
    pub(crate) huge_log2: Option<u32>,
}

impl TranslationConfig {
    /// Returns the logarithm of the pages in a huge page, if there are huge pages.
    pub(crate) fn huge_log2(&self) -> Option<u32> {
        self.huge_log2.filter(|&log2| log2 > 0)
    }

    /// Returns the huge page around a page, as TLBs name it.
    pub(crate) fn huge_page(&self, page: TlbPage) -> TlbPage {
        let log2 = self.huge_log2.unwrap_or(0);
        TlbPage { number: page.number >> log2, size_log2: page.size_log2 + log2, ..page }
    }

    /// Returns the number of pages above the programs' memory: those of tables, and one of handlers.
    pub(crate) fn pages(&self) -> u32 {
        self.table.reserve + 1
    }

    /// Returns whether the entries that a walk reads depend on the frames of pages.
    pub(crate) fn depends_on_frames(&self) -> bool {
        self.table.kind == TableKind::Inverted || self.huge_log2().is_some()
    }

    /// Returns whether a walk's entries in level 1 depend on the frames of pages.
    pub(crate) fn reads_by_frame(&self) -> bool {
        self.depends_on_frames() && self.reads_level_1()
    }

    /// Returns whether the accesses of walks or handlers go through level 1.
    pub(crate) fn reads_level_1(&self) -> bool {
        self.agent() == Agent::Handler || self.reads == WalkEntry::Data
    }

    /// Returns the agent that reads page tables.
    pub(crate) fn agent(&self) -> Agent {
        match self.refill {
            Refill::Hardware => Agent::Walk,
            Refill::Software | Refill::CacheMiss => Agent::Handler,
        }
    }

    /// Returns the agents that translation adds to a tree.
    pub(crate) fn agents(&self) -> Agents {
        Agents::USER.with(self.agent())
    }
}

/// Returns how address spaces share memory. Only software that translates at cache misses has a choice.
pub(super) fn sharing(keys: Option<&At<TranslationKeys>>) -> Sharing {
    let keys = keys.map(|at| &at.value).filter(|keys| keys.refill == Refill::CacheMiss);
    keys.map_or(Sharing::Segments, |keys| keys.sharing)
}

/// Returns whether the key with this name matters for the way in which the machine translates.
pub(super) fn states(keys: Option<&At<TranslationKeys>>, name: &str) -> bool {
    let at_misses = keys.is_some_and(|at| at.value.refill == Refill::CacheMiss);
    let keeps_protection = keys.is_some_and(|at| at.value.line_protection);
    match name {
        "write-backs" | "segments" | "regions" | "sharing" => at_misses,
        "protection-changes" | "protection-violations" => at_misses || keeps_protection,
        "line-protection" => keeps_protection,
        "levels" | "reads" | "tags" | "asids" | "root-handler" | "second-level" | "reserve" | "placement" => {
            !at_misses
        }
        _ => true,
    }
}

/// `Translates` is the way in which a machine translates addresses.
#[derive(Clone, Debug)]
pub(super) enum Translates {
    /// TLBs, which are refilled from a page table.
    ByTlbs(TranslationConfig),
    /// Software, when the last level misses.
    AtMisses(SoftvmConfig),
}

impl Translates {
    /// Returns the agents that translation adds to a tree.
    pub(super) fn agents(&self) -> Agents {
        match self {
            Self::ByTlbs(config) => config.agents(),
            Self::AtMisses(_) => SoftvmConfig::agents(),
        }
    }
}
