//! `translation` holds what preparation and lanes share on machines with TLBs: the walk of a page table, and the
//! decision whether a reference needs a walk.
//!
//! # Rules
//! - A TLB is asked at every access, with the virtual page and the address space. A first-level TLB answers within the
//!   cycle of level 1.
//! - A fault is handled before its translation: when a TLB is asked, the page is in memory, and the table maps it.
//! - A miss of the last TLB walks the table. A page walker reads the entries in order, and begins behind the entries
//!   that its walk caches hold. A handler in software is fetched first; then it loads the entries.
//! - In the MIPS table an entry of the user table has a virtual address. Its page is looked up in the TLB that
//!   translates data. If no TLB holds the page, a second handler loads the root's entry first, and the page takes a
//!   wired slot. A hit in the second level takes its cycles, and the page takes a wired slot of the first level.
//! - When the walk is done, the TLBs are filled, and the access that missed is made.
//! - What a trace references while the kernel runs lies in the address space of the process, and is translated like the
//!   process's own references. What units reference on behalf of the kernel is not translated: the kernel's text and
//!   data lie at addresses that hardware does not map, as in segment kseg0 of MIPS. No entry belongs to all address
//!   spaces.
//! - Mapping, unmapping, a change of protection and copy on write remove the page's entries from TLBs and walk caches; an
//!   eviction removes them, too, in its lane. A fork removes all entries of the parent, whose pages it protects, and
//!   of the space that had the child's number. An exec and an exit remove all entries of the space.
//! - A lane in which the run of a huge page is whole asks its TLBs for the huge page, and its walk ends at the entry
//!   that maps the huge page (see `prepare/huge_pages.rs`).

mod bytes;
mod counts;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use binhop_base::{FrameNo, Kind, MappingId, PageId};
use binhop_hw::{LastUses, Mmu, TlbOutcome, TlbPage};
use binhop_os::page_table::TableKind;

use crate::machine::{HANDLER_ALIGNMENT, Refill, TranslationConfig};
use crate::occasion::Port;

pub(crate) use bytes::{HUGE_PAGE, RUN, TranslationBytes};
pub(crate) use counts::{Fault, ServedLevel, TranslationCause, TranslationCounts};

/// The bit that tells a page of the MIPS user table, as a TLB names it, from a page of the program.
const OF_TABLE: u64 = 1 << 60;

/// `WalkStep` is an entry that a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkStep {
    /// The entry at a byte of a page of the table.
    Entry { mapping: MappingId, offset: u32 },
    /// The entry of the frame that holds a page, in a table that begins at page number `base` of the tables. A lane
    /// that does not hold the page has no such entry in the chain.
    Frame { page: PageId, base: u32 },
}

/// `Walk` is a reference that may need a translation.
#[derive(Clone, Debug)]
pub struct Walk {
    pub(crate) port: Port,
    /// The kind of the access: fetch, load or store.
    pub(crate) kind: Kind,
    /// The page, as TLBs name it.
    pub(crate) page: TlbPage,
    /// The page that the table maps there.
    pub(crate) mapped: PageId,
    /// The run of frames of the huge page that the space maps there, if it maps one.
    pub(crate) run: Option<u32>,
    /// The entries of the table that lead to the page, root first; `None` if the table is surely not walked.
    pub(crate) steps: Option<Arc<[WalkStep]>>,
    /// The decision, if it is the same in every lane.
    pub(crate) decision: Option<Decision>,
    /// The instructions executed before the reference.
    pub(crate) instructions: u64,
}

/// `Decision` is what a reference needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// A first-level TLB holds the page.
    First,
    /// A second-level TLB holds the page.
    Second,
    /// The table is walked.
    Walk {
        /// The entries that walk caches spare.
        spared: u32,
        /// True if the entry's own page missed the TLBs, too (MIPS).
        root: bool,
        /// True if a second-level TLB held the entry's own page (MIPS).
        second: bool,
    },
}

impl Walk {
    /// Returns the entries of the table that lead to the page, root first.
    pub(crate) fn steps(&self) -> &[WalkStep] {
        self.steps.as_deref().unwrap_or_default()
    }

    /// Returns the name of the page of the MIPS user table that holds the page's entry.
    pub(crate) fn page_of_entry(config: &TranslationConfig, page: TlbPage) -> TlbPage {
        let in_table = config.table.page.log2() - config.table.entry.ilog2();
        TlbPage { number: OF_TABLE | page.number >> in_table, ..page }
    }

    /// Asks the TLBs, and fills them where they miss. Counts the misses. After a walk, the caller must see to it that
    /// the TLBs were told of the page ([`Tlbs::tell`]). `shifts` has a number for each level that the walk reads.
    /// `whole` is the run of the huge page, if the run is whole in the lane. `uses` are the uses of which the TLBs do
    /// not know.
    pub(crate) fn decide(
        &self,
        tlbs: &mut Tlbs,
        config: &TranslationConfig,
        shifts: &[u32],
        whole: Option<u32>,
        counts: &mut TranslationCounts,
        uses: &impl LastUses,
    ) -> Decision {
        let Self { port, kind, page: base, .. } = *self;
        let page = if whole.is_some() { config.huge_page(base) } else { base };
        let mmu = &mut tlbs.mmu;
        let first = config.serving[port as usize];
        match mmu.look_up_knowing(port as usize, page, false, uses) {
            TlbOutcome::First(_) => return Decision::First,
            TlbOutcome::Second(_) => {
                counts.missed(first, kind);
                return Decision::Second;
            }
            TlbOutcome::Miss => {
                counts.missed(first, kind);
                if let Some(second) = config.mmu.tlbs[first].next {
                    counts.missed(second, kind);
                }
            }
        }
        let (mut spared, mut of_entry) = (0, None);
        if config.table.kind == TableKind::Mips {
            let (data, page) = (Port::Data as usize, Self::page_of_entry(config, page));
            let outcome = mmu.look_up_knowing(data, page, true, uses);
            let first = config.serving[data];
            if !matches!(outcome, TlbOutcome::First(_)) {
                counts.missed_entry(first);
            }
            of_entry = Some(outcome);
            if outcome == TlbOutcome::Miss {
                config.mmu.tlbs[first].next.into_iter().for_each(|second| counts.missed_entry(second));
                mmu.fill_knowing(data, page, true, uses);
            }
        } else if !config.mmu.walk_caches.is_empty() {
            let from_caches = mmu.walk_from(base.space, base.number, shifts);
            mmu.fill_walk_caches(base.space, base.number, shifts, from_caches);
            spared = from_caches as u32;
        }
        mmu.fill_missed(port as usize, page, uses);
        let second = matches!(of_entry, Some(TlbOutcome::Second(_)));
        Decision::Walk { spared, root: of_entry == Some(TlbOutcome::Miss), second }
    }
}

/// `Told` remembers under which pages of spaces TLBs were told of something: a page, or the run of a huge page.
#[derive(Clone, Debug)]
pub(crate) struct Told<T> {
    /// For each page of a space, the thing of which TLBs were told last under this page.
    last: BTreeMap<(u32, u64), T>,
    /// For each thing, the pages of spaces under which TLBs were told of it.
    places: BTreeMap<T, Vec<(u32, u64)>>,
    /// Some entries of `last`, so that most fills need no search. A page of a space has one place in this table.
    recent: Vec<Option<((u32, u64), T)>>,
}

/// The places of [`Told::recent`].
const RECENT: usize = 1 << 10;

impl<T: Copy + Ord> Told<T> {
    /// The bytes of [`Told::recent`].
    const RECENT_BYTES: u64 = (RECENT * size_of::<Option<((u32, u64), T)>>()) as u64;

    fn new() -> Self {
        Self { last: BTreeMap::new(), places: BTreeMap::new(), recent: vec![None; RECENT] }
    }

    /// Returns the place in [`Told::recent`].
    fn recent_slot((space, number): (u32, u64)) -> usize {
        (number ^ u64::from(space) << 4) as usize % RECENT
    }

    /// Notes that TLBs were told of something.
    fn fill(&mut self, of_space: (u32, u64), what: T) {
        let recent = &mut self.recent[Self::recent_slot(of_space)];
        if recent.replace((of_space, what)) == Some((of_space, what)) {
            return;
        }
        if self.last.insert(of_space, what) != Some(what) {
            let places = self.places.entry(what).or_default();
            if !places.contains(&of_space) {
                places.push(of_space);
            }
        }
    }

    /// Notes that a space has nothing under its pages from the first to the last any more.
    fn forget(&mut self, space: u32, [first, last]: [u64; 2]) {
        let gone: Vec<_> =
            self.last.range((space, first)..=(space, last)).map(|(&of_space, _)| of_space).collect();
        for of_space in gone {
            self.last.remove(&of_space);
            self.recent[Self::recent_slot(of_space)] = None;
        }
    }

    /// Returns the pages of spaces under which TLBs were told of `what`, and of nothing else since.
    fn of(&self, what: T) -> impl Iterator<Item = (u32, u64)> {
        let places = self.places.get(&what).into_iter().flatten().copied();
        places.filter(move |place| self.last.get(place) == Some(&what))
    }
}

/// `Tlbs` are the TLBs of a processor, with the pages whose translations they have held.
#[derive(Clone, Debug)]
pub struct Tlbs {
    pub(crate) mmu: Mmu,
    pages: Told<PageId>,
    /// The runs of huge pages. A place is a huge page of a space.
    runs: Told<u32>,
}

impl Tlbs {
    /// The bytes of the lists that do not grow with pages.
    const LISTS: u64 = Told::<PageId>::RECENT_BYTES + Told::<u32>::RECENT_BYTES;

    /// Makes empty TLBs. Address space 0 runs.
    pub(crate) fn new(config: &TranslationConfig) -> Self {
        let mut mmu = Mmu::new(&config.mmu);
        mmu.switch(0);
        Self { mmu, pages: Told::new(), runs: Told::new() }
    }

    /// Notes that the TLBs hold the page of a walk. `whole` is the run of the huge page, if the run is whole in the
    /// lane.
    pub(crate) fn tell(&mut self, config: &TranslationConfig, walk: &Walk, whole: Option<u32>) {
        match whole {
            Some(run) => {
                let page = config.huge_page(walk.page);
                self.runs.fill((page.space, page.number), run);
            }
            None => self.pages.fill((walk.page.space, walk.page.number), walk.mapped),
        }
    }

    /// Notes that a space does not map its pages from the first to the last any more. A huge page of which the space
    /// has lost a part is no longer mapped as a whole.
    fn unmap(&mut self, space: u32, pages: [u64; 2], huge_log2: Option<u32>) {
        self.pages.forget(space, pages);
        self.end_huge_pages(space, pages, huge_log2);
    }

    /// Notes that a space has no huge page any more at its pages from the first to the last. A huge page that begins
    /// there later is told anew.
    fn end_huge_pages(&mut self, space: u32, pages: [u64; 2], huge_log2: Option<u32>) {
        if let Some(log2) = huge_log2 {
            self.runs.forget(space, pages.map(|page| page >> log2));
        }
    }

    /// Removes every translation of a page that has left memory. The page keeps its places. When the page leaves memory
    /// again, its translations are removed again, together with what walk caches hold of their entries.
    pub(crate) fn evict(&mut self, page: PageId) {
        for (space, number) in self.pages.of(page) {
            self.mmu.invalidate(space, number, number);
        }
    }

    /// Removes every translation of a huge page whose run was split. A huge page has 2^`log2` pages.
    pub(crate) fn split(&mut self, run: u32, log2: u32) {
        for (space, number) in self.runs.of(run) {
            self.mmu.invalidate(space, number << log2, ((number + 1) << log2) - 1);
        }
    }
}

/// `TlbEvent` is a change of TLBs other than look-ups, fills and evictions.
#[derive(Clone, Debug)]
pub enum TlbEvent {
    /// From here on each lane has TLBs of its own. They begin as a copy.
    Own(Arc<Tlbs>),
    /// Another address space runs.
    Switch(u32),
    /// The translations of a space's pages end, from the first to the last.
    Pages(u32, [u64; 2]),
    /// A space's pages are no longer mapped, from the first to the last. The pages of the table that held their entries
    /// may be free.
    Unmapped(u32, [u64; 2]),
    /// The translations of a whole space end. Its pages stay mapped.
    Space(u32),
    /// A space has no pages any more.
    SpaceEnds(u32),
}

impl TlbEvent {
    /// Applies the event to TLBs.
    pub(crate) fn apply(&self, tlbs: &mut Tlbs, config: &TranslationConfig) {
        match *self {
            // A huge page ends when a part of it is changed. Its pages go on with entries of their own.
            Self::Pages(space, pages) => tlbs.end_huge_pages(space, pages, config.huge_log2()),
            Self::Unmapped(space, pages) => tlbs.unmap(space, pages, config.huge_log2()),
            Self::SpaceEnds(space) => tlbs.unmap(space, [0, u64::MAX], config.huge_log2()),
            _ => {}
        }
        let mmu = &mut tlbs.mmu;
        match *self {
            Self::Own(_) => unreachable!("TLBs become a lane's own once"),
            Self::Switch(space) => mmu.switch(space),
            Self::Pages(space, pages) => mmu.invalidate(space, pages[0], pages[1]),
            Self::Unmapped(space, pages) => {
                mmu.invalidate(space, pages[0], pages[1]);
                if config.table.kind == TableKind::Mips {
                    let size_log2 = config.table.page.log2();
                    let of = |number| Walk::page_of_entry(config, TlbPage { space, number, size_log2 });
                    mmu.invalidate(space, of(pages[0]).number, of(pages[1]).number);
                }
            }
            Self::Space(space) | Self::SpaceEnds(space) => mmu.invalidate_space(space),
        }
    }
}

/// Returns the bytes of the two handlers in their page: the handler that refills a TLB, and the handler for a page of
/// the table itself. An instruction has four bytes.
pub(crate) fn handlers(config: &TranslationConfig) -> [Range<u64>; 2] {
    if config.refill == Refill::Hardware {
        return [0..0, 0..0];
    }
    let refill = 4 * config.handler;
    let root = refill.next_multiple_of(HANDLER_ALIGNMENT);
    [0..refill, root..root + 4 * config.root_handler]
}

/// Puts the accesses of a walk into `all`, in order: the kind, the mapping and the byte. `frame` returns the frame that
/// a page has in the lane, if it has a frame.
pub(crate) fn accesses(
    config: &TranslationConfig,
    first: MappingId,
    steps: &[WalkStep],
    (spared, root): (u32, bool),
    line: u64,
    frame: impl Fn(PageId) -> Option<FrameNo>,
    all: &mut Vec<(Kind, MappingId, u64)>,
) {
    let table = &config.table;
    all.clear();
    let code = MappingId(first.0 + table.reserve);
    let [refill, of_root] = handlers(config);
    let fetch = |all: &mut Vec<_>, bytes: std::ops::Range<u64>| {
        if !bytes.is_empty() {
            let lines = bytes.start / line..bytes.end.div_ceil(line);
            all.extend(lines.map(|number| (Kind::Fetch, code, number * line)));
        }
    };
    fetch(all, refill);
    let is_mips = table.kind == TableKind::Mips;
    let from = if is_mips { usize::from(!root) } else { spared as usize };
    if root {
        fetch(all, of_root);
    }
    for step in &steps[from.min(steps.len())..] {
        match *step {
            WalkStep::Entry { mapping, offset } => all.push((Kind::Load, mapping, offset.into())),
            WalkStep::Frame { page, base } => {
                if let Some(FrameNo(frame)) = frame(page) {
                    let byte = frame * u64::from(table.entry);
                    let page = table.page.bytes();
                    let mapping = MappingId(first.0 + base + (byte / page) as u32);
                    all.push((Kind::Load, mapping, byte % page));
                }
            }
        }
    }
}

/// Returns the instructions that the handlers of a walk execute. `root` says whether the handler for a page of the
/// table runs, too.
pub(crate) fn handler_instructions(config: &TranslationConfig, root: bool) -> u64 {
    if config.refill != Refill::Software {
        return 0;
    }
    config.handler + if root { config.root_handler } else { 0 }
}
