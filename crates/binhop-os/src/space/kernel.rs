//! The kernel's address space: the pages of the operating system's own text and data, which every process finds at the same
//! virtual addresses.
//!
//! # Rules
//! - A virtual page of the kernel is one page, with one mapping, whichever process runs: the text of a handler is there
//!   once, not once for each process.
//! - What units inject may lie here. The references that a trace holds between kernel-enter and kernel-leave do not: they lie
//!   in the space of the process, so that a page of the kernel that two processes reference is two pages.
//! - It comes into being with its first touch and never dies: no event of a process changes the kernel's space.
//! - The kernel's virtual pages are numbers of a space apart: page 5 of the kernel is no page 5 of a process.
//! - A reference to it is made on behalf of the process that runs, which is charged for it: by whom it is counted is no
//!   part of a page's identity. The kernel is no owner among segments that policies tell processes apart by; its pages
//!   lie in frames that are [wired](crate::WiredKind).
//! - The kernel's segment has a number of its own ([`SegmentId::KERNEL`]): no page of a process lies in another segment
//!   because the kernel has pages.
//! - Where physical = virtual, the kernel's page is the page of that number of memory, under a mapping of its own.

use binhop_base::{MappingId, PageNo, Result};

use super::{PageOrigin, SegmentId, Spaces, Touch};
use crate::table::Pair;

/// The number of the kernel's space in the table of places: no process has it, as there are fewer spaces than numbers.
const KERNEL: u32 = u32::MAX;

impl Spaces {
    /// A reference to a virtual page of the kernel, counted in machine pages.
    ///
    /// # Errors
    /// The run holds more pages or mappings than a number of 32 bits tells apart.
    pub fn touch_kernel(&mut self, page_no: PageNo) -> Result<Touch> {
        let known =
            |mapping, page, new_page| Touch { mapping, page, new_page, write_free: true, outside: false };
        if let Some(mapping) = self.table.get(Pair::new(KERNEL, page_no.0)).map(MappingId) {
            return Ok(known(mapping, self.ids.page_of(mapping), false));
        }
        let (page, new_page) = match self.memory {
            Some(memory) => {
                let found = self.segment_page(memory, page_no.0, page_no, true)?;
                (found.page, found.new_page)
            }
            None => {
                let segment = SegmentId::KERNEL;
                (self.ids.add_page(segment, page_no, PageOrigin::Segment(segment))?, true)
            }
        };
        let mapping = self.ids.add_kernel_mapping(page_no, page)?;
        self.table.insert(Pair::new(KERNEL, page_no.0), mapping.0);
        Ok(known(mapping, page, new_page))
    }
}
