//! This part of preparation tells the huge pages of a machine what the running space touches, and where pages lie in
//! runs of frames.

use binhop_base::PageId;
use binhop_os::{RunPlace, Touch};

use crate::prepare::Prepare;
use crate::prepare::huge_pages::HugePages;
use crate::translation::{Fault, TlbEvent};

impl Prepare {
    /// Returns whether the machine has huge pages. Then each lane has TLBs of its own from the start, because only the
    /// lane knows which huge pages have a run of frames.
    pub(in crate::prepare) fn has_huge_pages(&self) -> bool {
        self.translator.as_ref().is_some_and(|translator| translator.huge_pages.is_some())
    }

    /// Notes a touch of the running space for its huge pages.
    pub(in crate::prepare) fn touch_huge_page(&mut self, page_no: u64, touch: &Touch) {
        let asid = self.running.asid;
        let huge = match (&mut self.translator, &mut self.miss_tables) {
            (Some(translator), _) => translator.huge_pages.as_mut(),
            (None, Some(tables)) => tables.huge_pages.as_mut(),
            (None, None) => None,
        };
        let Some(huge) = huge else { return };
        if let Some(pages) = huge.touch(&self.spaces, asid, page_no, touch) {
            self.tell_tlbs(TlbEvent::Pages(asid.0, pages));
            self.end_superpages();
        }
    }

    /// Makes the filters forget all lines where software translates at cache misses, because pages may have other
    /// entries.
    pub(super) fn end_superpages(&mut self) {
        if self.miss_tables.is_some() {
            self.forget_lines();
        }
    }

    /// Takes the cause of the fault of the page that lanes are about to place, if lanes count it.
    pub(in crate::prepare) fn take_fault(&mut self) -> Option<Fault> {
        self.translator.as_mut()?.fault_in_run.take()
    }

    /// Returns the place of a page in the run of a huge page.
    pub(in crate::prepare) fn place_in_run(&self, page: PageId, page_no: u64) -> Option<RunPlace> {
        let of_tlbs = self.translator.as_ref().and_then(|translator| translator.huge_pages.as_ref());
        let at_misses = self.miss_tables.as_ref().and_then(|tables| tables.huge_pages.as_ref());
        of_tlbs.or(at_misses)?.place_of(page, page_no)
    }

    pub(super) fn huge_pages(&mut self) -> Option<&mut HugePages> {
        match (&mut self.translator, &mut self.miss_tables) {
            (Some(translator), _) => translator.huge_pages.as_mut(),
            (None, Some(tables)) => tables.huge_pages.as_mut(),
            (None, None) => None,
        }
    }
}
