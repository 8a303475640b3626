//! `Segments` holds the segments: the units that address spaces share, and the private memory of each address
//! space.

use alloc::{collections::BTreeMap, format, vec::Vec};

use binhop_base::{Asid, PageId, Problem, Result};

use super::MapFlags;
use super::coverage::{Cover, Coverage};

/// `SegmentId` is the number of a segment. Segments are numbered densely in order of appearance, except
/// [`SegmentId::KERNEL`]. Every page belongs to one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

impl SegmentId {
    /// The segment of the kernel's pages. No segment of the trace has this number, so kernel pages shift no
    /// other number. Policies draw by these numbers.
    pub const KERNEL: Self = Self(u32::MAX);
}

/// `Owner` is the owner of a segment's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An address space owns its private pages, from its birth or last exec to its end: anonymous memory,
    /// copies of other pages, and memory that it touches outside every map.
    Space(Asid),
    /// The trace names the segment.
    Named(u64),
    /// The segment is anonymous memory that is mapped shared. Each such mapping is a segment.
    Anonymous,
    /// The kernel owns its pages, and no process does.
    Kernel,
    /// The segment is all of memory, where physical = virtual.
    Memory,
}

/// `PageOrigin` is the memory of which a page is made. Results name the page by its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrigin {
    /// The page lies in this segment. A page of the segment lies in it wholly and congruently.
    Segment(SegmentId),
    /// The page is a private copy of a page of this segment, made by a write.
    Copy(SegmentId),
    /// The page is anonymous memory directly behind a private writable area of this segment, such as a
    /// program's bss behind the data of its file.
    Behind(SegmentId),
    /// The page is anonymous memory that grows: a stack.
    Stack,
    /// The page is other anonymous memory.
    Anonymous,
    /// The page was first touched outside every map.
    Outside,
}

/// `Segment` is a segment in which areas can lie.
struct Segment {
    owner: Owner,
    /// The flags of the map in which the segment appeared.
    flags: MapFlags,
    /// The runs over the segment's pages, and the live pages of the segment.
    cover: Cover,
}

/// `Segments` holds all segments by number.
#[derive(Default)]
pub(super) struct Segments {
    all: Vec<Segment>,
    named: BTreeMap<u64, SegmentId>,
    coverage: Coverage,
}

impl Segments {
    pub(super) fn add(&mut self, owner: Owner, flags: MapFlags) -> Result<SegmentId> {
        let number = u32::try_from(self.all.len()).ok().filter(|&number| number < SegmentId::KERNEL.0);
        let number = number.ok_or_else(|| {
            Problem::run(
                &format!("{} segments", self.all.len()),
                "address spaces",
                "a run tells at most 4294967295 segments apart",
                "simulate a part of the trace (--length)",
            )
        })?;
        self.all.push(Segment { owner, flags, cover: Cover::NONE });
        Ok(SegmentId(number))
    }

    /// Returns the segment that the trace calls `name`, with the same number each time.
    pub(super) fn named(&mut self, name: u64, flags: MapFlags) -> Result<SegmentId> {
        if let Some(&segment) = self.named.get(&name) {
            return Ok(segment);
        }
        let segment = self.add(Owner::Named(name), flags)?;
        self.named.insert(name, segment);
        Ok(segment)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn owner(&self, segment: SegmentId) -> Owner {
        if segment == SegmentId::KERNEL { Owner::Kernel } else { self.all[segment.0 as usize].owner }
    }

    pub(super) fn flags(&self, segment: SegmentId) -> MapFlags {
        if segment == SegmentId::KERNEL { MapFlags::default() } else { self.all[segment.0 as usize].flags }
    }

    pub(super) fn steps(&self) -> u64 {
        self.coverage.steps()
    }

    /// Adds a run over the pages `first..=last` of a segment.
    pub(super) fn cover(&mut self, segment: SegmentId, first: u64, last: u64) {
        self.coverage.cover(&mut self.all[segment.0 as usize].cover, first, last);
    }

    /// Removes a run over the pages `first..=last` of a segment.
    pub(super) fn uncover(&mut self, segment: SegmentId, first: u64, last: u64) {
        self.coverage.uncover(&mut self.all[segment.0 as usize].cover, first, last);
    }

    /// Takes out the live pages of a segment that no run covers.
    pub(super) fn take_dead(&mut self, segment: SegmentId, dead: &mut Vec<PageId>) {
        self.coverage.take_dead(&mut self.all[segment.0 as usize].cover, dead);
    }

    /// Returns the live page with a number in a segment.
    pub(super) fn page(&self, segment: SegmentId, index: u64) -> Option<PageId> {
        self.coverage.page(self.all[segment.0 as usize].cover, index)
    }

    /// Adds a new live page of a segment. A run must cover the page.
    pub(super) fn add_page(&mut self, segment: SegmentId, index: u64, page: PageId) {
        self.coverage.add_page(&mut self.all[segment.0 as usize].cover, index, page);
    }
}
