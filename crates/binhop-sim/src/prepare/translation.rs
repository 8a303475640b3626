//! This part of preparation translates references. Until a placement may evict pages, nothing in a TLB depends on the
//! placement: the TLBs are simulated here, once for all lanes, and lanes are told of walks only. From then on each lane
//! has TLBs of its own, and is told of every reference that may change them.
//!
//! A reference is not looked up in two cases:
//! - A hit changes at most the time of the entry's last use, and the page is known to be in the first-level TLB
//!   ([`KnownPages`]). Only the time is noted.
//! - A hit changes more than a time (PLRU), the page is the page that its port referenced last, and no fill has removed
//!   the page's entry since. Such a look-up hits, and changes at most the order between the ports, which
//!   [`Mmu::note_last_use`](binhop_hw::Mmu::note_last_use) keeps.

mod events;
mod huge;
mod rows;

use std::ops::Range;
use std::sync::Arc;

use binhop_base::{Asid, Kind, MappingId, PageId, PageNo, Result};
use binhop_hw::{Mmu, TlbPage};
use binhop_os::page_table::{PageTables, Step};

use super::filter::{Filters, Shape, Skipped, SkippedPages, WalkAccess};
use super::huge_pages::HugePages;
use super::known_pages::KnownPages;
use super::routes::{Route, Routes};
use super::{Control, FETCH, Prepare};
use crate::machine::{Refill, TranslationConfig, WalkEntry};
use crate::occasion::Port;
use crate::translation::{Decision, Fault, TlbEvent, Tlbs, TranslationCause, Walk, WalkStep};

/// `Translator` is what preparation knows of TLBs and page tables.
pub(super) struct Translator {
    config: Arc<TranslationConfig>,
    /// The TLBs; `None` once each lane has TLBs of its own.
    tlbs: Option<Tlbs>,
    tables: PageTables,
    /// The mapping of page 0 of the tables. The page of the handlers comes behind the pages of the tables.
    first: MappingId,
    /// The page of the last reference of which lanes were told, at the reference's port, once each lane has TLBs of its
    /// own.
    last: [Option<u64>; 2],
    shapes: [Shape; 2],
    /// The number of the filter that serves data.
    data: usize,
    /// True while the accesses of walks are rows. Otherwise a control tells lanes of each walk.
    in_rows: bool,
    /// True if the caches that serve data keep the two lines that were accessed last in a set.
    keeps_two: bool,
    /// The accesses that fetch the handler, and the handler for pages of the table, if walks are rows.
    code: [Vec<WalkAccess>; 2],
    /// The huge pages, if the machine has huge pages.
    huge_pages: Option<HugePages>,
    /// The cause of the fault of a page in a run of a huge page, until lanes are asked to place the page.
    fault_in_run: Option<Fault>,
    /// Room for the steps of a walk.
    steps: Vec<Step>,
    /// The pages that need no look-up. `None`: a hit changes more than a time, a filter serves two TLBs, or each lane
    /// has TLBs of its own.
    known: Option<KnownPages>,
    /// The routes of recent walks, with the entries that each has read.
    routes: Routes,
}

impl Translator {
    /// Makes the translator of machines of one configuration. `first` is the number of the first page of the tables,
    /// `data` is the number of the filter that serves data, and `in_rows` says whether the accesses of walks are rows.
    pub(super) fn new(
        config: &Arc<TranslationConfig>,
        first: u32,
        (shapes, data): ([Shape; 2], usize),
        in_rows: bool,
        keeps_two: bool,
    ) -> Result<Self> {
        let mut tlbs = Tlbs::new(config);
        let known = KnownPages::new(&tlbs.mmu, data != FETCH);
        tlbs.mmu.report_left(known.is_some());
        Ok(Self {
            config: Arc::clone(config),
            tlbs: Some(tlbs),
            tables: PageTables::new(&config.table)?,
            first: MappingId(first),
            last: [None; 2],
            code: if in_rows {
                rows::of_code(config, MappingId(first), &shapes[FETCH])
            } else {
                [const { Vec::new() }; 2]
            },
            in_rows,
            keeps_two,
            shapes,
            data,
            huge_pages: config.huge_log2().map(HugePages::new),
            fault_in_run: None,
            steps: Vec::new(),
            known,
            routes: Routes::new(config.table.kind),
        })
    }

    /// Returns whether the page of a mapping is known to be in the port's first-level TLB.
    #[inline]
    fn knows(&self, port: Port, mapping: MappingId) -> bool {
        self.known.as_ref().is_some_and(|known| known.knows(port, mapping))
    }

    /// Returns whether a reference need not be looked up, where no page is known. If so, notes the reference's time.
    #[inline]
    fn drops(&mut self, port: Port, page_no: u64, now: u64) -> bool {
        match &mut self.tlbs {
            Some(Tlbs { mmu, .. }) => {
                let last = self.known.is_none() && mmu.is_last(port as usize, page_no);
                if last {
                    mmu.note_last_use(port as usize, 1, now);
                }
                last
            }
            // The last look-up was this port's look-up of this page, so a further use changes nothing.
            None => self.last[port as usize] == Some(page_no),
        }
    }

    /// Returns the TLBs for rows that are skipped, while all lanes share the TLBs.
    pub(super) fn skipped_pages(&mut self, asid: Asid) -> Option<TlbPages<'_>> {
        let (log2, mmu) = (self.config.table.page.log2(), &mut self.tlbs.as_mut()?.mmu);
        Some(TlbPages { last: mmu.last_pages(), mmu, log2, space: asid.0, references: [0; 2], times: [0; 2] })
    }

    /// Returns whether slots of the filters sleep while their pages must be looked up.
    #[inline]
    pub(super) fn knows_pages(&self) -> bool {
        self.known.is_some()
    }

    /// Notes that a line of a mapping's page has left a slot of a filter, with the time of its last access there.
    #[inline]
    pub(super) fn left(&mut self, filter: usize, mapping: MappingId, time: u64) {
        self.known.iter_mut().for_each(|known| known.left(filter, mapping, time));
    }

    /// Forgets which pages need no look-up.
    pub(super) fn forget_known(&mut self, filters: &mut Filters) {
        if let (Some(known), Some(tlbs)) = (&mut self.known, &mut self.tlbs) {
            known.forget_all(&mut tlbs.mmu, filters);
        }
    }

    /// Returns the page that the table maps at a page of a space.
    fn maps(&mut self, asid: Asid, page_no: u64) -> Option<PageId> {
        self.steps.clear();
        self.tables.walk(asid, PageNo(page_no), &mut self.steps).map(|walked| walked.page)
    }

    /// Returns the page tables.
    fn tables(&self) -> &PageTables {
        &self.tables
    }

    /// Returns what the walk to a page reads, and what it disturbs. The table maps the page from now on.
    fn walk(&mut self, asid: Asid, page_no: u64, page: PageId) -> Result<&Route> {
        if self.routes.knows(asid, page_no, page) {
            return Ok(self.routes.known(asid, page_no));
        }
        let log2 = self.config.table.page.log2();
        self.tables.map(asid, PageNo(page_no), page, log2)?;
        self.steps.clear();
        self.tables.walk(asid, PageNo(page_no), &mut self.steps);
        let first = self.first.0;
        let of = |step: &Step| match *step {
            Step::Entry { table, offset, .. } => {
                WalkStep::Entry { mapping: MappingId(first + table), offset }
            }
            Step::Frame { page, base } => WalkStep::Frame { page, base },
        };
        let steps: Arc<[WalkStep]> = self.steps.iter().map(of).collect();
        let accesses = if self.in_rows { self.accesses(&steps) } else { Box::default() };
        let mut disturbs = Box::new([Vec::new(), Vec::new()]);
        if !self.in_rows {
            self.disturbs(&steps, |filter, slots| disturbs[filter].extend(slots));
        }
        self.routes.put(asid, page_no, page, Route { steps, accesses, disturbs });
        Ok(self.routes.known(asid, page_no))
    }

    /// Returns the bytes of the handlers' code in their page, if there are handlers: first the handler that refills,
    /// then the handler for pages of the table.
    fn code(&self) -> Range<u64> {
        let [refill, root] = crate::translation::handlers(&self.config);
        refill.start..root.end.max(refill.end)
    }

    /// Calls `forget` with the filter and the slots of every line that a walk may access.
    fn disturbs(&self, steps: &[WalkStep], mut forget: impl FnMut(usize, Vec<u32>)) {
        let page = self.config.table.page.bytes();
        let data = self.data;
        let mut line = |filter: usize, byte: u64| {
            let shape = &self.shapes[filter];
            forget(filter, shape.slots_of(byte >> shape.line_log2, page >> shape.line_log2).collect());
        };
        if self.config.refill == Refill::Software {
            let code = self.code();
            code.step_by(1 << self.shapes[FETCH].line_log2.min(6)).for_each(|byte| line(FETCH, byte));
        }
        if self.config.refill == Refill::Hardware && self.config.reads != WalkEntry::Data {
            return;
        }
        for step in steps {
            match *step {
                WalkStep::Entry { offset, .. } => line(data, offset.into()),
                // The frame decides which entry is read.
                WalkStep::Frame { .. } => {
                    let lines = 1u64 << self.shapes[data].line_log2;
                    (0..page).step_by(lines as usize).for_each(|byte| line(data, byte));
                }
            }
        }
    }
}

/// `TlbPages` are TLBs that all lanes share, while rows are skipped.
pub(super) struct TlbPages<'a> {
    mmu: &'a mut Mmu,
    log2: u32,
    space: u32,
    /// The page that each port referenced last; `u64::MAX` for no page.
    last: [u64; 2],
    /// The references of each port to this page that the TLBs do not know of, and the time of the last of them.
    references: [u64; 2],
    times: [u64; 2],
}

impl TlbPages<'_> {
    /// Tells the TLBs of the references that they do not know of.
    #[inline]
    pub(super) fn tell(&mut self) {
        for port in 0..2 {
            if self.references[port] > 0 {
                self.mmu.note_last_use(port, self.references[port], self.times[port]);
                self.references[port] = 0;
            }
        }
    }

    /// Asks the first-level TLB for a page that its port did not reference last.
    #[inline(always)]
    fn find(&mut self, port: usize, number: u64) -> bool {
        self.tell();
        let page = TlbPage { space: self.space, number, size_log2: self.log2 };
        let found = self.mmu.find_first(port, page);
        if found {
            self.last[port] = number;
        }
        found
    }
}

impl SkippedPages for TlbPages<'_> {
    #[inline(always)]
    fn crosses(&self, [first, last]: [u64; 2]) -> bool {
        first >> self.log2 != last >> self.log2
    }

    #[inline(always)]
    fn translate(&mut self, Skipped { op, addr, time }: Skipped) -> bool {
        let (port, number) = (usize::from(op > 0), addr >> self.log2);
        if self.last[port] == number {
            self.references[port] += 1;
            self.times[port] = time;
            return true;
        }
        self.find(port, number)
    }
}

impl Prepare {
    /// Translates an access. Returns whether a walk goes before the access.
    #[inline]
    pub(super) fn translate(
        &mut self,
        port: Port,
        page_no: u64,
        mapping: MappingId,
        kind: Kind,
    ) -> Result<bool> {
        let now = self.clock;
        let Some(translator) = &mut self.translator else { return Ok(false) };
        if translator.knows(port, mapping) || translator.drops(port, page_no, now) {
            return Ok(false);
        }
        let walks = self.look_up(port, page_no, mapping, kind)?;
        self.know_page(port, page_no, mapping);
        Ok(walks)
    }

    /// Takes in an access of a stream with translation, and without units.
    #[inline(never)]
    pub(super) fn access_translated(&mut self, port: usize, line: u64, kind: Kind) -> Result<()> {
        let (sure, slept) = self.filters.drops_or_wakes(port, line, kind == Kind::Store, self.clock);
        let by = Port::of(kind);
        if sure && !slept && self.translator.as_deref().is_some_and(Translator::knows_pages) {
            return Ok(());
        }
        let mapping = if sure { self.filters.mapping_of(port, line) } else { self.reach(port, line, kind)? };
        if !self.translator.as_deref().is_some_and(|translator| translator.knows(by, mapping)) {
            return self.access_unknown(port, line, mapping, kind, sure);
        }
        if !sure {
            self.push(port, line, mapping, kind);
        }
        Ok(())
    }

    /// Takes in an access to a page that may be in no TLB. `sure` says whether the access may be skipped unless a walk
    /// disturbs the slot of its line.
    fn access_unknown(
        &mut self,
        port: usize,
        line: u64,
        mapping: MappingId,
        kind: Kind,
        sure: bool,
    ) -> Result<()> {
        let page_no = line >> (self.page.log2() - self.line_log2[port]);
        let walks = self.translate(Port::of(kind), page_no, mapping, kind)?;
        debug_assert!(
            self.translator
                .iter()
                .flat_map(|translator| &translator.known)
                .all(|known| known.knows(Port::of(kind), mapping)),
            "a slot that is awake has a page that need not be looked up"
        );
        let passes = !(sure && self.filters.drops(port, line, kind == Kind::Store, self.clock));
        if passes {
            self.push(port, line, mapping, kind);
        }
        if walks {
            self.after_walk(kind, passes);
        }
        Ok(())
    }

    /// Looks a page up. Returns whether a walk goes before the access.
    #[inline(never)]
    fn look_up(&mut self, port: Port, page_no: u64, mapping: MappingId, kind: Kind) -> Result<bool> {
        let asid = self.running.asid;
        let translator = self.translator.as_mut().expect("called where addresses are translated");
        let size_log2 = translator.config.table.page.log2();
        let page = TlbPage { space: asid.0, number: page_no, size_log2 };
        if let Some(tlbs) = &mut translator.tlbs {
            if translator.known.is_some() {
                // No entry is known to translate the page, so a hit is rare.
                tlbs.mmu.advance(self.clock);
            } else if tlbs.mmu.find_first(port as usize, page) {
                return Ok(false);
            }
        }
        let mut walk = Walk {
            port,
            kind,
            page,
            mapped: self.spaces.page_of(mapping),
            run: translator.huge_pages.as_ref().and_then(|huge| huge.mapped(asid, page_no)),
            steps: None,
            decision: None,
            instructions: self.stream.instructions,
        };
        if let Some(tlbs) = &mut translator.tlbs {
            let counts = &mut self.stream.translation;
            let shifts = translator.tables.shifts();
            let decision = match &mut translator.known {
                Some(known) => {
                    let uses = &known.uses(&self.filters);
                    let decision = walk.decide(tlbs, &translator.config, shifts, None, counts, uses);
                    tlbs.mmu.take_left().for_each(|entry| known.forget(entry, &mut self.filters));
                    decision
                }
                None => walk.decide(tlbs, &translator.config, shifts, None, counts, &()),
            };
            match decision {
                Decision::First => return Ok(false),
                Decision::Second if !self.timed => {
                    counts.waited(TranslationCause::SecondLevel, translator.config.second_level);
                    return Ok(false);
                }
                Decision::Second => {}
                // Whoever found a known route has told the TLBs of its page.
                Decision::Walk { .. } if translator.routes.knows(asid, page_no, walk.mapped) => {}
                Decision::Walk { .. } => tlbs.tell(&translator.config, &walk, None),
            }
            walk.decision = Some(decision);
        } else {
            // A lane may fill a TLB here, and so remove the page of the other port.
            translator.last = [None; 2];
            translator.last[port as usize] = Some(page_no);
        }
        if let (true, Some(Decision::Walk { spared, root, second })) = (translator.in_rows, walk.decision) {
            self.walk_in_rows(&walk, (spared, root, second))?;
            return Ok(true);
        }
        if walk.decision != Some(Decision::Second) {
            let Route { steps, disturbs, .. } = translator.walk(asid, page_no, walk.mapped)?;
            walk.steps = Some(Arc::clone(steps));
            for (filter, slots) in disturbs.iter().enumerate() {
                self.filters.forget_slots(filter, slots);
            }
            self.stream.tables = translator.tables.most_used().into();
        }
        let walks = walk.decision != Some(Decision::Second);
        self.instructions_at_row = self.stream.instructions;
        self.control(Control::Walk(Arc::new(walk)));
        Ok(walks)
    }

    /// Notes that the last look-up of a port has found a mapping's page, or has put it into a first-level TLB.
    fn know_page(&mut self, port: Port, page_no: u64, mapping: MappingId) {
        if let Some(Translator { known: Some(known), tlbs: Some(Tlbs { mmu, .. }), .. }) =
            self.translator.as_deref_mut()
            && mmu.is_last(port as usize, page_no)
            && let Some(entry) = mmu.entry_of_last(port as usize)
        {
            known.know(port, mapping, entry, &mut self.filters);
        }
    }

    /// Gives each lane TLBs of its own, because placements may evict pages from here on.
    pub(super) fn unshare_tlbs(&mut self) {
        if let Some(translator) = &mut self.translator
            && translator.tlbs.is_some()
        {
            translator.forget_known(&mut self.filters);
            let mut tlbs = translator.tlbs.take().expect("lanes share the TLBs");
            tlbs.mmu.report_left(false);
            tlbs.mmu.forget_last_pages();
            translator.known = None;
            translator.in_rows = false;
            translator.routes.clear();
            self.control(Control::Tlb(TlbEvent::Own(Arc::new(tlbs))));
        }
    }

    /// Notes that a page may have been placed: TLBs are asked at its next reference.
    pub(super) fn forget_translated(&mut self) {
        if let Some(translator) = &mut self.translator {
            translator.last = [None; 2];
        }
    }

    /// Returns the page tables, if addresses are translated.
    pub(crate) fn page_tables(&self) -> Option<&PageTables> {
        let at_misses = self.miss_tables.as_deref().map(|tables| &tables.tables);
        self.translator.as_deref().map(Translator::tables).or(at_misses)
    }
}
