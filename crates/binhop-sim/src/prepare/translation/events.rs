//! This part of preparation follows the events that end translations: in TLBs, in page tables, and in what other parts
//! of preparation know of mappings.

use binhop_base::{Asid, PageNo, Problem, Result};
use binhop_hw::GLOBAL_SPACE;
use binhop_os::Touch;
use binhop_os::page_table::PageTables;
use binhop_trace::{EventBatch, Op};

use crate::prepare::{Control, Prepare};
use crate::translation::{Fault, TlbEvent};

impl Prepare {
    /// Applies an event to the shared TLBs, or tells the lanes of it if each lane has TLBs of its own.
    pub(super) fn tell_tlbs(&mut self, event: TlbEvent) {
        let Some(translator) = &mut self.translator else { return };
        translator.last = [None; 2];
        translator.forget_known(&mut self.filters);
        match &mut translator.tlbs {
            Some(tlbs) => event.apply(tlbs, &translator.config),
            None => self.control(Control::Tlb(event)),
        }
    }

    /// Checks that TLBs can name an address space that is about to run.
    ///
    /// # Errors
    /// The address space has the number that TLBs keep for entries of all spaces.
    pub(in crate::prepare) fn check_space(&self, asid: Asid, row: usize) -> Result<()> {
        if self.translator.is_none() || asid.0 != GLOBAL_SPACE {
            return Ok(());
        }
        Err(Problem::request(
            &asid.to_string(),
            &format!("{}: row {}: asid", self.place, self.rows_before + row as u64),
            "TLBs keep this number for entries that belong to every address space",
            "give the address space another number, or set translation=off",
        ))
    }

    /// Notes that another address space runs.
    pub(in crate::prepare) fn switch_tlbs(&mut self) {
        self.tell_tlbs(TlbEvent::Switch(self.running.asid.0));
    }

    /// Removes the translations that an event ends. The event is no reference, and has been read.
    pub(in crate::prepare) fn end_translations(&mut self, batch: &EventBatch, row: usize) {
        let follows = self.translator.is_some() || self.miss_tables.is_some() || self.global.is_some();
        if !follows && self.protection.is_none() {
            return;
        }
        let Some(op) = Op::from_code(batch.op()[row]) else { return };
        let (addr, here) = (batch.addr()[row], self.running.asid);
        match op {
            Op::Map | Op::Unmap | Op::Protect => {
                let bytes = u64::from(batch.count()[row]).saturating_mul(self.trace_page);
                if bytes == 0 {
                    return;
                }
                let log2 = self.page.log2();
                let pages = [addr >> log2, addr.saturating_add(bytes - 1) >> log2];
                if let Some(huge) = self.huge_pages() {
                    match op {
                        Op::Protect => huge.cut(here, pages),
                        _ => huge.forget(here, pages),
                    }
                    self.tell_tlbs(TlbEvent::Pages(here.0, pages));
                    self.end_superpages();
                }
                if op == Op::Protect {
                    self.tell_tlbs(TlbEvent::Pages(here.0, pages));
                } else if let Some(pages) = self.pages_that_end(pages, [addr, addr.wrapping_add(bytes)]) {
                    if let Some(tables) = self.tables() {
                        tables.unmap(here, PageNo(pages[0]), PageNo(pages[1]));
                    }
                    self.global.iter_mut().for_each(|global| global.unmap(here, pages));
                    self.protection.iter_mut().for_each(|protection| protection.unmap(here, pages));
                    self.tell_tlbs(TlbEvent::Unmapped(here.0, pages));
                }
            }
            Op::Fork => {
                let parent = batch.arg0(row).map_or(here.0, |number| number as u32);
                // A process that had this number has ended.
                if let Some(tables) = self.tables() {
                    tables.drop_space(Asid(addr as u32));
                }
                self.global.iter_mut().for_each(|global| global.drop_space(Asid(addr as u32)));
                if let Some(huge) = self.huge_pages() {
                    huge.fork(Asid(addr as u32), Asid(parent));
                }
                self.tell_tlbs(TlbEvent::Space(parent));
                self.tell_tlbs(TlbEvent::SpaceEnds(addr as u32));
            }
            Op::Exec | Op::Exit => {
                if let Some(tables) = self.tables() {
                    tables.drop_space(Asid(addr as u32));
                }
                self.global.iter_mut().for_each(|global| global.drop_space(Asid(addr as u32)));
                if let Some(huge) = self.huge_pages() {
                    huge.forget(Asid(addr as u32), [0, u64::MAX]);
                }
                self.tell_tlbs(TlbEvent::SpaceEnds(addr as u32));
            }
            _ => {}
        }
    }

    /// Counts the fault of a page of the running space that has just been made, unless the page belongs to the run of a
    /// huge page: then each lane counts the fault, if there is a fault. If the first write to the page has copied
    /// another page, removes the translation that led to the other page.
    pub(in crate::prepare) fn new_page_to_translate(&mut self, page_no: u64, touch: &Touch, store: bool) {
        let asid = self.running.asid;
        let Some(translator) = &mut self.translator else { return };
        let copied = store && translator.maps(asid, page_no).is_some_and(|other| other != touch.page);
        let cause = match touch.outside && self.spaces.has_maps() {
            _ if copied => Fault::Copied,
            true => Fault::Unmapped,
            false => Fault::First,
        };
        match &translator.huge_pages {
            Some(huge) if huge.is_in_run(touch.page) => translator.fault_in_run = Some(cause),
            _ => self.stream.translation.faulted(cause),
        }
        if copied {
            self.tell_tlbs(TlbEvent::Pages(asid.0, [page_no; 2]));
        }
    }

    /// Returns the first and the last page whose translations end, of the pages that a map or unmap between two
    /// addresses touches. Where pages of the machine are larger than pages of the trace, the page at either end may
    /// stay mapped.
    pub(super) fn pages_that_end(
        &mut self,
        [first, last]: [u64; 2],
        addresses: [u64; 2],
    ) -> Option<[u64; 2]> {
        let asid = self.running.asid;
        let within = self.page.bytes() - 1;
        let cut = addresses.map(|addr| addr & within != 0);
        let mut goes_on = |cut: bool, number: u64| {
            if !cut {
                return false;
            }
            let there = match (&mut self.translator, &mut self.miss_tables) {
                (Some(translator), _) => translator.maps(asid, number),
                (None, Some(tables)) => tables.maps(asid, number),
                (None, None) => {
                    let of_global = self.global.as_ref().and_then(|global| global.page_at(asid, number));
                    let protection = self.protection.as_ref();
                    let mapping = protection.and_then(|protection| protection.mapping_at(asid, number));
                    of_global.or(mapping.map(|mapping| self.spaces.page_of(mapping)))
                }
            };
            there.is_some() && there == self.spaces.existing_page(asid, PageNo(number))
        };
        if first == last {
            return (!goes_on(cut[0] || cut[1], first)).then_some([first, last]);
        }
        let ends = [first + u64::from(goes_on(cut[0], first)), last - u64::from(goes_on(cut[1], last))];
        (ends[0] <= ends[1]).then_some(ends)
    }

    /// Returns the page tables, so that the caller may remove entries.
    pub(super) fn tables(&mut self) -> Option<&mut PageTables> {
        match (&mut self.translator, &mut self.miss_tables) {
            (Some(translator), _) => {
                translator.routes.clear();
                Some(&mut translator.tables)
            }
            (None, Some(tables)) => Some(&mut tables.tables),
            (None, None) => None,
        }
    }
}
