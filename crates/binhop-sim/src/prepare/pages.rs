//! This part of preparation finds the page in which a line lies, and tells lanes what they must know of
//! pages.
//!
//! Lanes learn three things. Before a page is referenced that some lane may not hold, every lane is asked to
//! place it. Once a placement may evict, lanes learn when pages were last referenced. When a page dies, lanes
//! learn that.

use std::sync::Arc;

use binhop_base::{Kind, MappingId, PageId, PageNo, PowerOfTwo, Result};
use binhop_os::page_table::RegionSegment;
use binhop_os::{PageRequest, SegmentId};

use super::{Control, FETCH, Mapped, Prepare, Setup};
use crate::occasion::Occasion;
use crate::soft_tlb::SoftTlbEntry;
use crate::softvm::own_page_no;

/// The number of entries in the table of recent translations.
pub(super) const TRANSLATIONS: usize = 1 << 15;

/// Returns a page that a unit owns, by its number among the unit's pages. A unit's pages are the first pages
/// of the stream, at the upper end of the kernel's space.
pub(crate) fn own_page(number: u32, page: PowerOfTwo) -> (PageId, PageNo) {
    (PageId(number), PageNo((u64::MAX >> page.log2()) - u64::from(number)))
}

impl Prepare {
    /// Makes the pages of the machine and of its unit. No reference of the stream leads to them. Each lane gives them
    /// frames before it begins.
    pub(super) fn make_own_pages(&mut self, setup: &Setup) -> Result<()> {
        let (of_unit, softvm) = (setup.pages_of_unit(), setup.needs.softvm.as_deref());
        for number in 0..self.own_pages {
            let (page, mut page_no) = own_page(number, self.page);
            if let (Some(config), Some(of_tables)) = (softvm, number.checked_sub(of_unit)) {
                page_no = own_page_no(config, of_tables);
            }
            let touch = self.spaces.touch_kernel(page_no)?;
            debug_assert_eq!((touch.mapping, touch.page), (MappingId(number), page));
        }
        self.tell_mappings();
        Ok(())
    }

    /// Tells lanes of the mappings that were made since the last call.
    fn tell_mappings(&mut self) {
        for mapping in self.known_mappings..self.spaces.mappings() {
            let mapping = MappingId(mapping as u32);
            let (page, virtual_page) = (self.spaces.page_of(mapping), self.spaces.virtual_page(mapping));
            self.mappings.push(Mapped { page, virtual_page });
        }
        self.known_mappings = self.spaces.mappings();
    }

    /// Returns the mapping of a line that is referenced next. If some lane may not hold the line's page,
    /// every lane has been asked to place it.
    #[inline]
    pub(super) fn reach(&mut self, port: usize, line: u64, kind: Kind) -> Result<MappingId> {
        let in_page = self.page.log2() - self.line_log2[port];
        let (page_no, store) = (line >> in_page, kind == Kind::Store);
        let known = self.soft_tlb.find(self.running.asid, page_no, store);
        let entry = match known {
            Some(entry) => entry,
            None => self.touch(page_no, store)?,
        };
        if known.is_some() && self.safe.is_none() {
            // Physical = virtual: lanes were asked for the page when it was first translated, and the page
            // never leaves.
            return Ok(MappingId(entry.mapping));
        }
        let page = PageId(entry.page);
        if self.horizon.may_be_evicted(page) {
            self.ask_for(&entry);
        }
        // The page is known to be resident from now on, even before its line leaves the filter.
        self.horizon.note(page, self.clock);
        Ok(MappingId(entry.mapping))
    }

    #[inline(never)]
    fn touch(&mut self, page_no: u64, store: bool) -> Result<SoftTlbEntry> {
        let touch = self.spaces.touch(self.running.asid, PageNo(page_no), store)?;
        self.tell_mappings();
        self.seen.outside += u64::from(touch.outside && touch.new_page);
        if store && touch.new_page {
            // This may be a copy on write. Then the lines known under this virtual page belong to another
            // page.
            self.forget_lines_of(page_no);
        }
        self.touch_huge_page(page_no, &touch);
        if touch.new_page {
            self.new_page_to_translate(page_no, &touch, store);
        }
        let segment = match &mut self.global {
            Some(global) => global.touch(self.running.asid, page_no, &touch, &self.spaces)?,
            None => RegionSegment::Own,
        };
        if let Some(protection) = &mut self.protection {
            protection.touched(self.running.asid, page_no, touch.mapping);
        }
        self.map_for_misses(page_no, &touch, segment)?;
        self.report_dead_pages();
        let entry = SoftTlbEntry::new(self.running.asid, PageNo(page_no), &touch);
        self.soft_tlb.put(entry);
        Ok(entry)
    }

    /// Returns the segments of the running address space, if a placement reads segments.
    fn segments_of_running(&mut self) -> Arc<[SegmentId]> {
        let Some(last) = &mut self.segments else { return [].into() };
        let now = self.spaces.shared_segments(self.running.asid);
        if !Arc::ptr_eq(last, &now) {
            self.listed += now.len();
            *last = Arc::clone(&now);
        }
        now
    }

    /// Asks every lane to place a page that it may not hold.
    fn ask_for(&mut self, entry: &SoftTlbEntry) {
        let (page, mapping) = (PageId(entry.page), MappingId(entry.mapping));
        let fresh = self.horizon.is_new(page);
        let request = PageRequest {
            page,
            asid: self.running.asid,
            page_no: PageNo(entry.page_no),
            segment: self.spaces.segment_of(page),
            segments: self.segments_of_running(),
            run: if fresh { self.place_in_run(page, entry.page_no) } else { None },
            in_kernel: self.spaces.is_shared(PageNo(entry.page_no)),
        };
        let fault = self.take_fault();
        let Some(safe) = self.safe else {
            // Physical = virtual: nothing is ever evicted.
            self.control(Control::Place { request, fault });
            self.occasion(Occasion::FirstTouch { mapping });
            return;
        };
        let changes_hands = fresh && self.placed > safe || self.reuses && self.died;
        let lanes_ask = self.follows && (self.evicting || changes_hands);
        if lanes_ask || self.horizon.moves_next() {
            self.note_all();
        }
        if changes_hands && !self.evicting {
            self.evicting = true;
            if self.follows {
                let all = self.horizon.all();
                self.control(Control::Recency(all));
            }
            self.control(Control::Evictions);
            self.unshare_tlbs();
        }
        self.placed += u64::from(fresh);
        self.forget_translated();
        if self.evicting {
            // A lane may flush the page whose frame it takes.
            self.miss_tables.iter_mut().for_each(|tables| tables.lanes_may_flush());
        }
        self.control(Control::Place { request, fault });
        self.horizon.one_more(page);
        self.set_trust();
        self.occasion(if fresh { Occasion::FirstTouch { mapping } } else { Occasion::Return { mapping } });
    }

    pub(super) fn set_trust(&mut self) {
        let mut trusted = self.trusted;
        trusted[0] &= !self.trace_segment.is_some_and(|segment| segment.in_code_window());
        let mut since = trusted.map(|trusted| if trusted { self.horizon.time() } else { u64::MAX });
        since[1] = since[1].max(self.disturbed);
        self.filters.trust(since);
    }

    /// Notes that a mapping was last referenced at `time`.
    pub(super) fn note(&mut self, mapping: MappingId, time: u64) {
        let page = self.spaces.page_of(mapping);
        self.horizon.note(page, time);
    }

    /// Brings every page's time of last reference up to date. Once lanes need the times, they get the changed
    /// times.
    fn note_all(&mut self) {
        for (mapping, time) in self.filters.accesses_since(self.noted) {
            self.horizon.note(self.spaces.page_of(mapping), time);
        }
        self.noted = self.clock;
        if self.evicting && self.follows {
            let changes = self.horizon.take_changes();
            if !changes.is_empty() {
                self.control(Control::Recency(changes));
            }
        }
    }

    /// Reports the pages that have died since the last call.
    pub(super) fn report_dead_pages(&mut self) {
        if self.spaces.has_dead() {
            self.died = true;
            for page in self.spaces.drain_dead() {
                self.control(Control::Died(page));
            }
        }
    }

    /// Forgets the lines of a virtual page of the running space.
    pub(super) fn forget_lines_of(&mut self, page_no: u64) {
        for port in [FETCH, self.data] {
            let in_page = self.page.log2() - self.line_log2[port];
            let lines = page_no << in_page..(page_no + 1) << in_page;
            self.filters.forget_lines(port, lines.clone());
            self.miss_tables.iter_mut().for_each(|tables| tables.forget_last_level_of(port, lines.clone()));
        }
    }

    pub(super) fn forget_lines(&mut self) {
        self.filters.forget();
        self.miss_tables.iter_mut().for_each(|tables| tables.forget_last_level());
    }
}
