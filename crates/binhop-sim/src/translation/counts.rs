//! `TranslationCounts` counts what translation does.

use binhop_base::Kind;

use crate::machine::MOST_TLBS;

/// `TranslationCause` is a cause of cycles that translation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum TranslationCause {
    /// Hits in a second-level TLB.
    SecondLevel,
    /// The handlers' instructions, one cycle each.
    Handler,
    /// Waits for the handlers' instructions.
    HandlerFetch,
    /// Waits for entries of the page table.
    Entries,
}

impl TranslationCause {
    /// Every cause, with its name in metrics and its meaning.
    pub(crate) const ALL: &'static [(Self, &'static str, &'static str)] = &[
        (
            Self::SecondLevel,
            "second-level",
            "Cycles of hits in a second-level TLB, also of handlers and walkers.",
        ),
        (Self::Handler, "handler", "Cycles of the handlers' instructions, one each."),
        (
            Self::HandlerFetch,
            "handler-fetch",
            "Cycles that the processor waited for the handlers' instructions.",
        ),
        (Self::Entries, "entries", "Cycles that the processor waited for entries of the page table."),
    ];
}

/// `ServedLevel` is the level that serves an access after its translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ServedLevel {
    /// Level 1.
    First,
    /// A cache behind level 1.
    Behind,
    /// Memory.
    Memory,
}

impl ServedLevel {
    /// Every level, with its name in metrics and its meaning.
    pub(crate) const ALL: &'static [(Self, &'static str, &'static str)] = &[
        (Self::First, "level-1", "Accesses after a walk that level 1 served."),
        (Self::Behind, "behind", "Accesses after a walk that a cache behind level 1 served."),
        (Self::Memory, "memory", "Accesses after a walk that memory served."),
    ];
}

/// `Fault` is the cause of a page fault at the first reference to a page. It is the same in every lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The page's first reference.
    First,
    /// The page's first reference, outside every map of a trace that has maps.
    Unmapped,
    /// A store to a page that the process shared: copy on write.
    Copied,
}

impl Fault {
    /// Every cause, with its name in metrics and its meaning.
    pub(crate) const ALL: &'static [(Self, &'static str, &'static str)] = &[
        (Self::First, "first", "Page faults at the first reference to a page."),
        (
            Self::Unmapped,
            "unmapped",
            "Page faults at the first reference to a page outside every map, where the trace has mapped something.",
        ),
        (
            Self::Copied,
            "copied",
            "Page faults at a store that copied a shared page to which the process had a translation; without a translation, the fault counts as first.",
        ),
    ];
}

const KINDS: usize = 3;
const WALKS: usize = MOST_TLBS * KINDS;
const READS: usize = WALKS + KINDS;
const SPARED: usize = READS + 1;
const ROOTS: usize = SPARED + 1;
const CYCLES: usize = ROOTS + 1;
const SERVED: usize = CYCLES + TranslationCause::ALL.len();
const OF_ENTRIES: usize = SERVED + KINDS * ServedLevel::ALL.len();
const FAULTS: usize = OF_ENTRIES + MOST_TLBS;
const ALL: usize = FAULTS + Fault::ALL.len();

/// `TranslationCounts` holds all counts, in one array so that they add up in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationCounts([u64; ALL]);

impl Default for TranslationCounts {
    fn default() -> Self {
        Self([0; ALL])
    }
}

impl TranslationCounts {
    /// Counts a miss of a TLB.
    pub(crate) fn missed(&mut self, tlb: usize, kind: Kind) {
        self.0[tlb * KINDS + kind as usize] += 1;
    }

    /// Returns the misses of a TLB.
    pub(crate) fn misses(&self, tlb: usize, kind: Kind) -> u64 {
        self.0[tlb * KINDS + kind as usize]
    }

    /// Counts a miss of a TLB that was asked for the page of an entry of the page table.
    pub(crate) fn missed_entry(&mut self, tlb: usize) {
        self.0[OF_ENTRIES + tlb] += 1;
    }

    /// Returns the misses of a TLB that was asked for pages of entries of the page table.
    pub(crate) fn misses_of_entries(&self, tlb: usize) -> u64 {
        self.0[OF_ENTRIES + tlb]
    }

    /// Counts a page fault.
    pub(crate) fn faulted(&mut self, cause: Fault) {
        self.0[FAULTS + cause as usize] += 1;
    }

    /// Returns the page faults of a cause.
    pub(crate) fn faults(&self, cause: Fault) -> u64 {
        self.0[FAULTS + cause as usize]
    }

    /// Counts a walk for an access of a kind. `spared` entries were in walk caches.
    pub(crate) fn walked(&mut self, kind: Kind, spared: u32, root: bool) {
        self.0[WALKS + kind as usize] += 1;
        self.0[SPARED] += u64::from(spared);
        self.0[ROOTS] += u64::from(root);
    }

    /// Counts entries that were read.
    pub(crate) fn read(&mut self, entries: u64) {
        self.0[READS] += entries;
    }

    /// Adds cycles of a cause.
    pub(crate) fn waited(&mut self, cause: TranslationCause, cycles: u64) {
        self.0[CYCLES + cause as usize] += cycles;
    }

    /// Counts an access that a level served after a walk.
    pub(crate) fn served(&mut self, kind: Kind, level: ServedLevel) {
        self.add_served(kind, level, 1);
    }

    /// Counts accesses that a level served after walks.
    pub(crate) fn add_served(&mut self, kind: Kind, level: ServedLevel, accesses: u64) {
        self.0[SERVED + kind as usize * ServedLevel::ALL.len() + level as usize] += accesses;
    }

    /// Returns the walks for accesses of a kind.
    pub(crate) fn walks(&self, kind: Kind) -> u64 {
        self.0[WALKS + kind as usize]
    }

    /// Returns the entries read, the entries that walk caches spared, and the walks that read the root's entry, too
    /// (MIPS).
    pub(crate) fn entries(&self) -> [u64; 3] {
        [self.0[READS], self.0[SPARED], self.0[ROOTS]]
    }

    /// Returns the cycles of a cause.
    pub(crate) fn cycles(&self, cause: TranslationCause) -> u64 {
        self.0[CYCLES + cause as usize]
    }

    /// Returns the cycles of all causes.
    pub(crate) fn all_cycles(&self) -> u64 {
        self.0[CYCLES..SERVED].iter().sum()
    }

    /// Returns the accesses of a kind that a level served after a walk.
    pub(crate) fn served_by(&self, kind: Kind, level: ServedLevel) -> u64 {
        self.0[SERVED + kind as usize * ServedLevel::ALL.len() + level as usize]
    }
}

impl std::ops::AddAssign for TranslationCounts {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }
}

impl std::ops::Add for TranslationCounts {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::ops::Sub for TranslationCounts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self(std::array::from_fn(|count| self.0[count] - earlier.0[count]))
    }
}
