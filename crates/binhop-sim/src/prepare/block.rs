//! `Block` is what preparation emits: rows, and between rows the controls, which are rare.

use std::sync::Arc;

use binhop_base::{Agent, Asid, Kind, LineAddr, MappingId, PageId, PageNo};
use binhop_hw::{Access, AgentCounters, CacheCounters, CommonCounts, DirectMappedFilter, Front, Request};
use binhop_os::PageRequest;

use super::lives::Turn;
use crate::machine::MOST_LINES;
use crate::occasion::Occasion;
use crate::softvm::{PageEntries, ProtectionChange, ProtectionCounts};
use crate::synonyms::WatchedAccess;
use crate::translation::{Fault, TlbEvent, TranslationCounts, Walk};

/// `Row` is one access of one line at a first-level cache: a mapping, a line of its page, and a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    id: u32,
    word: u32,
}

impl Row {
    /// The bits that number a line of its page.
    const LINE: u32 = (MOST_LINES - 1) as u32;
    const GOES_ON: u32 = 1 << 31;
    const NO_HANDLERS: u32 = 1 << 30;
    /// The place of two bits that say who makes the access: the user, the user after a walk, a handler, or a page walk.
    const BY: u32 = 26;
    const AFTER_WALK: u32 = 1;
    const HANDLER: u32 = 2;
    const WALK: u32 = 3;

    /// Makes an access to line `line` of a mapping's page, in lines of the cache that serves `kind`.
    #[inline]
    #[must_use]
    pub fn new(mapping: MappingId, line: u32, kind: Kind) -> Self {
        debug_assert!(line <= Self::LINE && kind.is_demand());
        Self { id: mapping.0, word: line | (kind as u32) << 24 }
    }

    /// Returns the same row, marked to say that the next row is the rest of its reference. Only cachegrind's
    /// rules have such rows.
    #[must_use]
    pub fn continues(self) -> Self {
        Self { word: self.word | Self::GOES_ON, ..self }
    }

    /// Returns the same row, made by the agent that reads page tables.
    #[must_use]
    pub(super) fn of_walk(self, agent: Agent) -> Self {
        debug_assert!(matches!(agent, Agent::Handler | Agent::Walk));
        let by = if agent == Agent::Handler { Self::HANDLER } else { Self::WALK };
        Self { word: self.word | by << Self::BY, ..self }
    }

    /// Returns the same row, marked to say that a page table was walked before it.
    #[must_use]
    pub(super) fn after_walk(self) -> Self {
        Self { word: self.word | Self::AFTER_WALK << Self::BY, ..self }
    }

    #[inline(always)]
    fn by(self) -> u32 {
        self.word >> Self::BY & 3
    }

    /// Returns the same row, marked to say that no handler runs for it in any lane, where software translates at
    /// misses.
    #[must_use]
    pub(super) fn without_handlers(self) -> Self {
        Self { word: self.word | Self::NO_HANDLERS, ..self }
    }

    /// Returns whether surely no handler runs for the row.
    #[inline]
    pub(crate) fn is_without_handlers(self) -> bool {
        self.word & Self::NO_HANDLERS != 0
    }
}

impl Access for Row {
    #[inline]
    fn kind(self) -> Kind {
        match self.word >> 24 & 3 {
            0 => Kind::Fetch,
            1 => Kind::Load,
            _ => Kind::Store,
        }
    }

    #[inline]
    fn at(self) -> LineAddr {
        LineAddr { id: self.id, line: self.word & Self::LINE }
    }

    #[inline]
    fn goes_on(self) -> bool {
        self.word & Self::GOES_ON != 0
    }

    #[inline(always)]
    fn agent(self) -> Agent {
        match self.by() {
            Self::HANDLER => Agent::Handler,
            Self::WALK => Agent::Walk,
            _ => Agent::User,
        }
    }

    #[inline(always)]
    fn is_after_walk(self) -> bool {
        self.by() == Self::AFTER_WALK
    }

    #[inline(always)]
    fn is_marked(self) -> bool {
        self.by() != 0
    }
}

/// `StreamCounts` counts the stream itself. The counts are the same for every placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// The instructions executed.
    pub instructions: u64,
    /// The references: instructions fetched and data references.
    pub references: u64,
    /// The accesses at the first level: fetch, load, store.
    pub accesses: [u64; 3],
    /// The accesses among them that preparation knows to be hits.
    pub dropped: [u64; 3],
    /// The fetches and the loads of walks and handlers that preparation knows to be hits, and has skipped.
    pub dropped_of_walks: [u64; 2],
    /// What TLBs that all lanes share have counted.
    pub translation: TranslationCounts,
    /// The maximum number of pages that page tables took at one time, up to here.
    pub tables: u64,
    /// The names of pages beyond the first in caches with virtual tags, and the number of these names that lead to
    /// writable shared memory.
    pub aliases: [u64; 2],
    /// The changes of protection and the violations, if software translates at cache misses.
    pub protection: ProtectionCounts,
}

impl std::ops::AddAssign for StreamCounts {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.references += other.references;
        self.translation += other.translation;
        self.tables = self.tables.max(other.tables);
        self.protection += other.protection;
        self.aliases = std::array::from_fn(|at| self.aliases[at] + other.aliases[at]);
        self.dropped_of_walks =
            std::array::from_fn(|at| self.dropped_of_walks[at] + other.dropped_of_walks[at]);
        for kind in 0..3 {
            self.accesses[kind] += other.accesses[kind];
            self.dropped[kind] += other.dropped[kind];
        }
    }
}

impl std::ops::Sub for StreamCounts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            instructions: self.instructions - earlier.instructions,
            references: self.references - earlier.references,
            accesses: std::array::from_fn(|kind| self.accesses[kind] - earlier.accesses[kind]),
            dropped: std::array::from_fn(|kind| self.dropped[kind] - earlier.dropped[kind]),
            dropped_of_walks: std::array::from_fn(|at| {
                self.dropped_of_walks[at] - earlier.dropped_of_walks[at]
            }),
            translation: self.translation - earlier.translation,
            tables: self.tables,
            protection: self.protection - earlier.protection,
            aliases: std::array::from_fn(|at| self.aliases[at] - earlier.aliases[at]),
        }
    }
}

/// `Mark` is the reason why counters are read at a point of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// From here on the stream belongs to this process.
    Process(Turn),
    /// From here on the stream belongs to this interval.
    Interval(u64),
    /// From here on the stream is measured. Before, it was warm-up.
    Measured,
    /// The stream ends.
    End,
}

/// `Control` is an instruction to lanes that stands between rows.
#[derive(Clone, Debug)]
pub enum Control {
    /// The pages' times of last reference up to here, which exact recency needs before the next placement.
    Recency(Vec<(PageId, u64)>),
    /// This page is referenced next. A lane in which the page is not resident places it now.
    Place {
        /// What a lane needs to know to place the page.
        request: PageRequest,
        /// The cause of the page fault, if lanes count it: a page that joins the run of a huge page causes no fault.
        fault: Option<Fault>,
    },
    /// The last mapping of this page has ended.
    Died(PageId),
    /// The pages that an address space maps at its exit or at the end of the stream. Each page has a flag
    /// that says whether another mapping leads, or led, to it.
    Footprint(Asid, Arc<[(PageId, bool)]>),
    /// An occasion for units: see [`crate::unit`].
    Occasion {
        /// The occasion. If it names a page, the page is resident in every lane.
        occasion: Occasion,
        /// The instructions executed before the occasion.
        instructions: u64,
        /// True if a unit may touch level 1 here. From here on no front is shared.
        touches_front: bool,
    },
    /// A reference may need a translation. If it walks the page table, its access follows, then
    /// [`Control::AfterWalk`].
    Walk(Arc<Walk>),
    /// The access of this kind, before which the page table was walked, is done. `true`: it missed a shared front.
    AfterWalk(Kind, Option<bool>),
    /// From here on the entries that lead to this mapping's page lie here: software reads them when the last level
    /// misses.
    Entries(MappingId, Box<PageEntries>),
    /// An access may leave two different copies in caches with virtual tags: it follows, or it has just been made.
    Watch(Box<WatchedAccess>),
    /// The protection of these pages changes.
    Protect(Box<[ProtectionChange]>),
    /// Something happens to the TLBs of each lane, or lanes get TLBs of their own.
    Tlb(TlbEvent),
    /// The accesses of a walk that a shared front has made end here. Its fetches and its loads took so many cycles
    /// within the front.
    WalkPassed([u64; 2]),
    /// Lanes read their counters here; lanes in bits read their misses up to a process or interval later.
    /// `StreamCounts` holds the counts of the stream up to here, and `FrontCounts` the counts of a shared front.
    Mark(Mark, Box<StreamCounts>, Option<Arc<FrontCounts>>),
    /// An interval after the last switch ends here, `since` instructions after the switch. `instructions` is the
    /// number of instructions executed before.
    Piece {
        /// The end of the interval, in instructions since the switch.
        since: u64,
        /// The instructions of the stream up to here.
        instructions: u64,
    },
    /// Another thread of the life that runs comes, or the same thread goes on.
    SameLife,
    /// A life has ended. The process may still run up to the next switch.
    LifeEnded(Asid, u32),
    /// From here on a placement may take the frame of an evicted or dead page. Lanes no longer agree on what
    /// is resident, nor on what their caches lose.
    Evictions,
    /// From here on the first-level caches are simulated for each placement. Each front starts as a copy of
    /// this front.
    Unshare(Arc<EndedFront>),
}

/// `FrontCounts` are the counts of a shared front up to a mark.
#[derive(Clone, Debug)]
pub struct FrontCounts {
    /// The demand misses of each cache of the machine; 0 for the caches behind the front.
    pub misses: Box<[u64]>,
    /// Every counter of each cache at the end of a phase; empty at other marks.
    pub caches: Vec<CacheCounters>,
    /// The cycles waited within the front.
    pub waited: u64,
    /// What each cache of the front has counted of each agent other than the user, cache by cache; empty if there is no
    /// such agent.
    pub agents: Vec<Vec<AgentCounters>>,
    /// The front's counts of walks that no lane needs to know of.
    pub translation: TranslationCounts,
}

/// `EndedFront` is a front that was shared, at the point where sharing ends.
#[derive(Clone, Debug)]
pub struct EndedFront {
    /// The front's caches as they are now.
    pub front: Front,
    /// The direct-mapped filter that worked for all backs, if there was a filter.
    pub direct_mapped: Option<DirectMappedFilter>,
    /// The cycles waited within the front so far.
    pub waited: u64,
    /// The front's counts of walks.
    pub translation: TranslationCounts,
}

/// `Entries` are what stands between the controls: rows for first-level caches, or requests that a shared
/// front has let through.
#[derive(Clone, Debug)]
pub enum Entries {
    /// Rows, for a front of each placement's own.
    Rows(Vec<Row>),
    /// Requests behind a shared front.
    Requests(Vec<Request>),
}

/// `Block` is a piece of the prepared stream.
#[derive(Clone, Debug)]
pub struct Block {
    /// The entries, in order.
    pub entries: Entries,
    /// The controls in ascending order, each with the number of the entry that it precedes.
    pub controls: Vec<(u32, Control)>,
    /// The mappings first seen in this block, in order of their numbers.
    pub mappings: Vec<Mapped>,
    /// The instructions executed before each row and after the row or mark before it; empty where time does
    /// not matter.
    pub gaps: Vec<u64>,
    /// The counts that the backs of all lanes have in common: of the entries before each control, and after
    /// the last control. Empty where backs have no counts in common.
    pub common_counts: Vec<CommonCounts>,
}

impl Block {
    /// Returns the rows.
    ///
    /// # Panics
    /// The block holds requests.
    pub(crate) fn rows(&self) -> &[Row] {
        let Entries::Rows(rows) = &self.entries else {
            unreachable!("only what stands before a front is rows")
        };
        rows
    }

    /// Returns the number of entries.
    pub(crate) fn entries(&self) -> usize {
        match &self.entries {
            Entries::Rows(rows) => rows.len(),
            Entries::Requests(requests) => requests.len(),
        }
    }
}

/// `Mapped` holds the facts about a new mapping for which the hardware may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The page of the mapping.
    pub page: PageId,
    /// The virtual page number of the mapping.
    pub virtual_page: PageNo,
}
