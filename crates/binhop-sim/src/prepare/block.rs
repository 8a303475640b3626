//! `Block` is what preparation hands on: rows, and between rows the controls, which are rare.

use std::sync::Arc;

use binhop_base::{Asid, Kind, LineAddr, MappingId, PageId, PageNo};
use binhop_hw::{Access, CacheCounters, CommonCounts, DirectMappedFilter, Front, Request};
use binhop_os::Request as PageRequest;

use super::lives::Turn;
use crate::machine::MOST_LINES;
use crate::occasion::Occasion;

/// One access of one line at a first-level cache: a mapping, a line of its page, and a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    id: u32,
    word: u32,
}

impl Row {
    /// The bits that number a line of its page.
    const LINE: u32 = (MOST_LINES - 1) as u32;
    const GOES_ON: u32 = 1 << 31;

    /// An access to line `line` (in lines of the cache that serves `kind`) of a mapping's page.
    #[inline]
    #[must_use]
    pub fn new(mapping: MappingId, line: u32, kind: Kind) -> Self {
        debug_assert!(line <= Self::LINE && kind.is_demand());
        Self { id: mapping.0, word: line | (kind as u32) << 24 }
    }

    /// The same, with the next row the rest of its reference: under cachegrind's rules.
    #[must_use]
    pub fn continues(self) -> Self {
        Self { word: self.word | Self::GOES_ON, ..self }
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
}

/// Counts of the stream itself, the same for every placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Instructions executed.
    pub instructions: u64,
    /// References: instructions fetched plus data references.
    pub references: u64,
    /// Accesses at the first level: fetch, load, store.
    pub accesses: [u64; 3],
    /// Those of them that preparation proved to be hits.
    pub dropped: [u64; 3],
}

impl std::ops::AddAssign for Stream {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.references += other.references;
        for kind in 0..3 {
            self.accesses[kind] += other.accesses[kind];
            self.dropped[kind] += other.dropped[kind];
        }
    }
}

impl std::ops::Sub for Stream {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            instructions: self.instructions - earlier.instructions,
            references: self.references - earlier.references,
            accesses: std::array::from_fn(|kind| self.accesses[kind] - earlier.accesses[kind]),
            dropped: std::array::from_fn(|kind| self.dropped[kind] - earlier.dropped[kind]),
        }
    }
}

/// `Mark` is the reason why counters are read at a point of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The stream belongs to this process from here on.
    Process(Turn),
    /// The stream belongs to this interval from here on.
    Interval(u64),
    /// The stream is measured from here on; it was warm-up before.
    Measured,
    /// Nothing follows.
    End,
}

/// Something between rows.
#[derive(Clone, Debug)]
pub enum Control {
    /// Pages' times of last reference up to here: what exact recency needs before the next placement.
    Recency(Vec<(PageId, u64)>),
    /// This page is referenced next. Where it is not resident it must be placed now.
    Place(PageRequest),
    /// This page's last mapping ended.
    Died(PageId),
    /// The pages an address space maps at its exit, or at the end of the stream, each with whether another
    /// mapping leads to it, or led.
    Footprint(Asid, Arc<[(PageId, bool)]>),
    /// Something may happen here that is not in the stream: see [`crate::unit`].
    Occasion {
        /// The occasion. A page that it names is resident in every lane.
        occasion: Occasion,
        /// Instructions executed before it.
        instructions: u64,
        /// True if a unit may touch level 1: then no front is shared from here on.
        touches_front: bool,
    },
    /// Counters are read here. `Stream` counts up to here; the last part is what a shared front counted.
    Mark(Mark, Stream, Option<Arc<FrontCounts>>),
    /// From here on a placement may take a page's frame, evicted or dead: lanes no longer agree on what is resident,
    /// nor on what their caches lose.
    Evictions,
    /// From here on first-level caches are simulated per placement; each starts as a copy of this one.
    Unshare(Arc<EndedFront>),
}

/// The counts of a shared front up to a mark.
#[derive(Clone, Debug)]
pub struct FrontCounts {
    /// Demand misses of each of the machine's caches; those behind the front counted nothing here.
    pub misses: Box<[u64]>,
    /// Every counter of each cache, at the end of a phase; empty at other marks.
    pub caches: Vec<CacheCounters>,
    /// Cycles waited within the front.
    pub waited: u64,
}

/// A front that was shared, where sharing ends.
#[derive(Clone, Debug)]
pub struct EndedFront {
    /// Its caches, as they are now.
    pub front: Front,
    /// The direct-mapped filter that worked for all backs, if there was one.
    pub direct_mapped: Option<DirectMappedFilter>,
    /// Cycles waited within the front so far.
    pub waited: u64,
}

/// The entries between the controls: references for first-level caches, or the requests that one front shared by
/// all placements let through.
#[derive(Clone, Debug)]
pub enum Entries {
    /// For a front of each placement's own.
    Rows(Vec<Row>),
    /// BackModel a shared front.
    Requests(Vec<Request>),
}

/// A stretch of the prepared stream.
#[derive(Clone, Debug)]
pub struct Block {
    /// The entries, in order.
    pub entries: Entries,
    /// The controls, each with the number of the entry of `entries` that it stands before; ascending.
    pub controls: Vec<(u32, Control)>,
    /// Mappings first seen in this block, in order of their numbers.
    pub mappings: Vec<Mapped>,
    /// Instructions executed before each row and after the row or mark before it; empty where time does not matter.
    pub gaps: Vec<u64>,
    /// The common counts of all lanes' backs: those of the entries before each control, and after the last. Empty
    /// where backs have not that much in common.
    pub common_counts: Vec<CommonCounts>,
}

impl Block {
    /// Its rows.
    ///
    /// # Panics
    /// It holds requests.
    pub(crate) fn rows(&self) -> &[Row] {
        let Entries::Rows(rows) = &self.entries else {
            unreachable!("only what stands before a front is rows")
        };
        rows
    }

    /// Entries of its tape.
    pub(crate) fn entries(&self) -> usize {
        match &self.entries {
            Entries::Rows(rows) => rows.len(),
            Entries::Requests(requests) => requests.len(),
        }
    }
}

/// The facts about a new mapping that the hardware may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The page behind it.
    pub page: PageId,
    /// Its virtual page number.
    pub virtual_page: PageNo,
}
