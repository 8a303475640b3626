//! This part of preparation keeps the page table of a machine whose software translates when the last level misses. The
//! table is the same in every lane. Lanes are told where a page's entries lie, and they run the handlers.
//!
//! A region that address spaces share as a whole has one segment. Regions to which the user gives one segment id have
//! one segment, too. One part of the table serves such a segment (see [`super::global`]). If caches have global tags,
//! they know a page of the segment by one name. Each space has a root entry of its own. So if a row belongs to another
//! space than the row before, lanes are told the entries of this space first.
//!
//! A handler may run at each row that is passed, and its accesses go through level 1. As long as preparation can
//! simulate the caches (see [`super::equal_caches`]), it knows what the handlers do. Otherwise the filters forget what
//! a handler may disturb:
//! - the lines of the handlers' code, at every row;
//! - the lines of the page's entries, if lines that go back to memory keep their translation;
//! - otherwise every line of data, the row's own line included: the handler of write-backs runs behind the row, and
//!   loads the entries of any page.
//!
//! Nothing is forgotten where surely no handler runs (see [`super::last_level`]). Such a row is marked for the lanes.
//! Preparation does not simulate caches once a lane may flush a page, where one name of a page has several root
//! entries, or where lanes decide which superpages have a run of frames.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use binhop_base::{Asid, Kind, MappingId, PageId, PageNo, Result};
use binhop_os::Touch;
use binhop_os::page_table::{PageTables, RegionSegment, Step};

use super::equal_caches::{EqualCaches, Line};
use super::filter::{Filters, Shape, SlotLine};
use super::huge_pages::HugePages;
use super::last_level::LastLevel;
use super::{Control, FETCH, Prepare};
use crate::machine::{SoftvmConfig, WriteBacks};
use crate::softvm::{Entry, PageEntries, own_code, own_page_no};

/// No mapping has this number.
const NO_MAPPING: MappingId = MappingId(u32::MAX);

/// `MissTables` is the page table that software reads at cache misses.
pub(super) struct MissTables {
    config: Arc<SoftvmConfig>,
    pub(super) tables: PageTables,
    /// The superpages, if the machine has superpages.
    pub(super) huge_pages: Option<HugePages>,
    /// The mapping of page 0 of the tables.
    first: MappingId,
    /// For each mapping of which lanes were told, the places of its entries.
    told: Vec<Option<PageEntries>>,
    /// For each name that several mappings have, the mapping of whose root table lanes were told last.
    told_of: BTreeMap<MappingId, MappingId>,
    /// The slots of the lines of the handlers' code.
    code: Vec<u32>,
    /// The caches, as long as they are equal in all lanes.
    equal_caches: Option<EqualCaches>,
    /// The lines that the last levels surely hold, once the caches may differ.
    last_level: LastLevel,
    data_shape: Shape,
    page_log2: u32,
    steps: Vec<Step>,
}

impl MissTables {
    /// Makes the table. `first` is the number of the first page of the tables. `stated` are the numbers of the segments
    /// to which the user gives ids. If `simulates`, the caches are simulated where that is possible.
    pub(super) fn new(
        config: &Arc<SoftvmConfig>,
        first: u32,
        shapes: [Shape; 2],
        stated: impl Iterator<Item = u32>,
        simulates: bool,
    ) -> Result<Self> {
        let page_log2 = config.table.page.log2();
        let code_page = own_page_no(config, config.layout.pages());
        let line_log2 = shapes[FETCH].line_log2;
        let mut code = Vec::new();
        let mut last_level = LastLevel::new(config.last_levels, shapes);
        let mut lines_of_code = [Vec::new(), Vec::new()];
        for (bytes, lines_of_code) in config.handlers().into_iter().zip(&mut lines_of_code) {
            if bytes.is_empty() {
                continue;
            }
            let start = code_page.0 << page_log2;
            let lines = (start + bytes.start) >> line_log2..=(start + bytes.end - 1) >> line_log2;
            for line in lines {
                last_level.of_handlers(FETCH, line);
                code.push(shapes[FETCH].slot_of(line));
                let mapping = own_code(config, first, (line << line_log2) - start).mapping;
                lines_of_code.push(Line::new(mapping, line));
            }
        }
        code.sort_unstable();
        code.dedup();
        let mut tables = PageTables::new(&config.table)?;
        tables.state_segments(stated);
        Ok(Self {
            config: Arc::clone(config),
            tables,
            huge_pages: config.huge_log2.map(HugePages::new),
            first: MappingId(first),
            told: Vec::new(),
            told_of: BTreeMap::new(),
            code,
            equal_caches: config
                .direct_mapped
                .filter(|_| simulates && config.huge_log2.is_none())
                .map(|chains| EqualCaches::new(chains, shapes, lines_of_code, config.write_backs)),
            last_level,
            data_shape: shapes[1],
            page_log2,
            steps: Vec::new(),
        })
    }

    /// Returns the page that the table maps at a page of a space.
    pub(super) fn maps(&mut self, asid: Asid, page_no: u64) -> Option<PageId> {
        self.steps.clear();
        self.tables.walk(asid, PageNo(page_no), &mut self.steps).map(|walked| walked.page)
    }

    /// Maps a page in a region that takes this segment. `name` is the mapping by which caches know the page. Returns
    /// the places of the page's entries if lanes do not know these places.
    fn map(
        &mut self,
        asid: Asid,
        page_no: u64,
        touch: &Touch,
        segment: RegionSegment,
        name: MappingId,
    ) -> Result<Option<PageEntries>> {
        self.tables.map_in_segment(asid, PageNo(page_no), touch.page, segment)?;
        self.steps.clear();
        self.tables.walk(asid, PageNo(page_no), &mut self.steps);
        let run = self.run_around(asid, page_no);
        let entries = PageEntries::of(&self.config, self.first, &self.steps);
        let entries = entries.map(|entries| PageEntries { run, ..entries });
        let index = touch.mapping.index();
        if index >= self.told.len() {
            self.told.resize(index + 1, None);
        }
        if name != touch.mapping {
            self.told_of.entry(name).or_insert(name);
            self.equal_caches = None;
        }
        let changed = self.told[index] != entries;
        if let (true, Some(PageEntries { segment, root, user, .. })) = (changed, entries) {
            let of_huge = entries.map_or(user, |entries| entries.of_huge(&self.config));
            for entry in [segment, root, user, of_huge] {
                let line = self.line_of(entry);
                self.last_level.of_handlers(1, line);
            }
            let lines = [segment, root, user].map(|entry| Line::new(entry.mapping, self.line_of(entry)));
            self.equal_caches.iter_mut().for_each(|caches| caches.told(touch.mapping, lines));
        }
        if let (true, Some(last)) = (changed, self.told_of.get_mut(&name)) {
            // Lanes are told of this mapping now; they know its entries only if it is the name.
            *last = if name == touch.mapping { name } else { NO_MAPPING };
        }
        self.told[index] = entries;
        Ok(entries.filter(|_| changed))
    }

    /// Returns the run of the superpage that a space maps around a page.
    fn run_around(&self, asid: Asid, page_no: u64) -> Option<u32> {
        self.huge_pages.as_ref()?.mapped(asid, page_no)
    }

    /// Returns the places of a page's entries if the space now maps another superpage around the page, or none.
    fn follow_run(&mut self, mapping: MappingId, asid: Asid, page_no: u64) -> Option<PageEntries> {
        let run = self.run_around(asid, page_no);
        let told = self.told.get_mut(mapping.index())?.as_mut()?;
        (std::mem::replace(&mut told.run, run) != run).then_some(*told)
    }

    /// Returns the places of the entries of a mapping, if lanes were last told of another mapping that has its name,
    /// and this other mapping.
    fn tell_root(&mut self, name: MappingId, mapping: MappingId) -> Option<(PageEntries, MappingId)> {
        let last = self.told_of.get_mut(&name)?;
        let before = std::mem::replace(last, mapping);
        self.told[mapping.index()].filter(|_| before != mapping).map(|entries| (entries, before))
    }

    /// Returns the line of an entry.
    fn line_of(&self, Entry { mapping, offset }: Entry) -> u64 {
        let page = own_page_no(&self.config, mapping.0 - self.first.0);
        (page.0 << self.page_log2 | u64::from(offset)) >> self.data_shape.line_log2
    }

    /// Returns whether an access that is passed surely runs no handler. Pages that spaces share have several names,
    /// and the last level is not known there.
    #[inline]
    fn spares_handlers(&self, side: usize, line: u64, slot: SlotLine) -> bool {
        self.told_of.is_empty() && self.last_level.spares_handlers(side, line, slot, self.writes_back())
    }

    /// Notes that from now on a lane may flush a page: the page whose frame the next page gets.
    pub(super) fn lanes_may_flush(&mut self) {
        self.equal_caches = None;
        self.last_level.forget();
    }

    /// Forgets what the last levels hold.
    pub(super) fn forget_last_level(&mut self) {
        self.last_level.forget();
    }

    /// Forgets that the last level of a side holds any of these lines.
    pub(super) fn forget_last_level_of(&mut self, side: usize, lines: Range<u64>) {
        self.last_level.forget_lines(side, lines);
    }

    /// Returns whether lines that go back to memory are translated by a handler.
    fn writes_back(&self) -> bool {
        self.config.write_backs == WriteBacks::Table
    }

    /// Makes the filters forget what the handler of misses may disturb before an access to a mapping.
    fn disturb(&self, mapping: MappingId, filters: &mut Filters) {
        filters.forget_slots(FETCH, &self.code);
        if self.writes_back() {
            return;
        }
        let Some(entries) = self.told.get(mapping.index()).copied().flatten() else { return };
        let slot = |entry: Entry| self.data_shape.slot_of(self.line_of(entry));
        filters
            .forget_slots(1, &[slot(entries.root), slot(entries.user), slot(entries.of_huge(&self.config))]);
    }
}

impl Prepare {
    /// Maps a page of the running space that has just been touched, in a region that takes this segment.
    pub(super) fn map_for_misses(
        &mut self,
        page_no: u64,
        touch: &Touch,
        segment: RegionSegment,
    ) -> Result<()> {
        let (asid, name) = (self.running.asid, self.name_of(touch.mapping));
        let Some(tables) = &mut self.miss_tables else { return Ok(()) };
        let told = tables.map(asid, page_no, touch, segment, name)?;
        self.stream.tables = tables.tables.most_used().into();
        if let Some(entries) = told {
            self.control(Control::Entries(touch.mapping, Box::new(entries)));
        }
        Ok(())
    }

    /// Passes an access, behind whose miss a handler may run.
    pub(super) fn pass_handled(&mut self, port: usize, line: u64, mapping: MappingId, kind: Kind) {
        if self.pass_simulated(port, line, mapping, kind) {
            return;
        }
        let slot = self.filters.slot_line(port, line);
        let spared = self.miss_tables.as_ref().is_some_and(|tables| tables.spares_handlers(port, line, slot));
        self.before_handled_row(mapping, spared);
        self.push(port, line, mapping, kind);
        if spared {
            if let Some(row) = self.rows.last_mut() {
                *row = row.without_handlers();
            }
        } else {
            self.after_handled_row(port, line, slot);
        }
    }

    /// Passes an access if preparation simulates the caches. Returns whether it does.
    #[inline]
    fn pass_simulated(&mut self, port: usize, line: u64, mapping: MappingId, kind: Kind) -> bool {
        let of_row = Line::new(mapping, line);
        let Some((caches, filters)) = self.equal_caches() else { return false };
        let missed = caches.before_access(port, of_row, filters);
        self.push(port, line, mapping, kind);
        let Some((caches, filters)) = self.equal_caches() else { return true };
        let wrote_back = caches.access(port, of_row, kind == Kind::Store, filters);
        if let (false, Some(row)) = (missed || wrote_back, self.rows.last_mut()) {
            *row = row.without_handlers();
        }
        true
    }

    /// Returns the caches that preparation simulates, and the filters beside them.
    #[inline]
    fn equal_caches(&mut self) -> Option<(&mut EqualCaches, &mut Filters)> {
        Some((self.miss_tables.as_mut()?.equal_caches.as_mut()?, &mut self.filters))
    }

    /// Forgets what the handler of misses may disturb before an access that is passed, unless the access is spared all
    /// handlers.
    fn before_handled_row(&mut self, mapping: MappingId, spared: bool) {
        let name = self.name_of(mapping);
        let Some(tables) = &mut self.miss_tables else { return };
        let of_run = match tables.huge_pages {
            Some(_) => tables.follow_run(mapping, self.running.asid, self.spaces.virtual_page(mapping).0),
            None => None,
        };
        if !spared {
            tables.disturb(mapping, &mut self.filters);
        }
        let of_root = tables.tell_root(name, mapping);
        if let Some(entries) = of_root.map(|(entries, _)| entries).or(of_run) {
            self.control(Control::Entries(name, Box::new(entries)));
        }
        if let Some((_, before)) = of_root.filter(|&(_, before)| before != NO_MAPPING) {
            // A space may have both mappings: the next access by the other mapping must be passed, and tell its root.
            self.forget_lines_of(self.spaces.virtual_page(before).0);
        }
    }

    /// Forgets what the handler of write-backs may disturb behind an access that was passed. `slot` is what the filter
    /// knew before.
    fn after_handled_row(&mut self, port: usize, line: u64, slot: SlotLine) {
        let Some(tables) = &mut self.miss_tables else { return };
        tables.last_level.accessed(port, line, slot);
        if tables.writes_back() {
            self.filters.forget_slots(FETCH, &tables.code);
            self.disturbed = self.clock + 1;
            self.set_trust();
        }
    }
}
