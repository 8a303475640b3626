//! The kernel's address space holds the operating system's own text and data. Every process finds these pages
//! at the same virtual addresses.
//!
//! # Rules
//! - A virtual page of the kernel is one page with one mapping, whichever process runs. The text of a handler
//!   therefore exists once, not once for each process.
//! - Pages that units inject may lie here. References that a trace holds between kernel-enter and
//!   kernel-leave lie in the address space of the process, so a kernel page that two processes reference
//!   there is two pages, unless it lies among the shared addresses ([`Spaces::share_from`]).
//! - A page is made by its first touch and never dies: no event of a process changes the kernel's address
//!   space.
//! - The kernel's virtual pages have numbers of their own: page 5 of the kernel is not page 5 of a process.
//! - A reference to a kernel page is made on behalf of the running process, and counts for it. The process is
//!   no part of the page's identity. Policies that tell processes apart by segment do not see the kernel: its
//!   pages lie in [wired](crate::WiredKind) frames.
//! - The kernel's segment has a number of its own ([`SegmentId::KERNEL`]), so kernel pages change the segment
//!   of no page of a process.
//! - Where physical = virtual, the kernel's page is memory's page of the same number, under a mapping of its
//!   own.

use alloc::format;

use binhop_base::{Asid, MappingId, PageNo, Problem, Result, VirtAddr};

use super::{PageOrigin, SegmentId, Space, Spaces, Touch};
use crate::table::Pair;

/// The number of the kernel's address space in the table of touched pages. No process has this number,
/// because there are fewer address spaces than numbers.
const KERNEL: u32 = u32::MAX;

impl Spaces {
    /// Lets all address spaces share what lies at `first` and above, as processes share the kernel's half. The mappings
    /// there are the kernel's: they have no address space. Where physical = virtual, all pages are shared already, and
    /// only the mappings become one.
    ///
    /// # Errors
    /// `first` is not the first byte of a machine page.
    ///
    /// # Panics
    /// There are address spaces already.
    pub fn share_from(&mut self, first: VirtAddr) -> Result<()> {
        assert!(
            self.spaces.is_empty(),
            "shared addresses are named before the first event and the first touch"
        );
        if first.0 & (self.page.bytes() - 1) != 0 {
            return Err(Problem::request(
                &format!("{:#x}", first.0),
                "address spaces: first shared address",
                &format!("shared addresses begin with a machine page, which has {} B", self.page.bytes()),
                "name a multiple of the page size",
            ));
        }
        self.spaces.push(Space::new(Asid(u32::MAX)));
        self.shared = (first.0 >> self.page.log2(), 0);
        Ok(())
    }

    /// Returns whether all address spaces share a virtual page.
    #[inline]
    #[must_use]
    pub fn is_shared(&self, page_no: PageNo) -> bool {
        page_no.0 >= self.shared.0
    }

    /// Returns the number of the address space that holds a virtual page of `asid`. The address space
    /// begins here if it is new.
    pub(super) fn space_at(&mut self, asid: Asid, page_no: u64) -> u32 {
        if page_no >= self.shared.0 { self.shared.1 } else { self.space(asid) }
    }

    /// Returns the number of the address space that holds a virtual page of `asid`, if the address space has begun.
    pub(super) fn known_space(&self, asid: Asid, page_no: u64) -> Option<u32> {
        if page_no >= self.shared.0 { Some(self.shared.1) } else { self.by_asid.get(&asid).copied() }
    }

    /// Notes a reference to a virtual page of the kernel, counted in machine pages.
    ///
    /// # Errors
    /// The run has more pages or mappings than a number of 32 bits tells apart.
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
