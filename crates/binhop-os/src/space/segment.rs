//! Segments: the units that address spaces share, and each space's private remainder.

use alloc::{collections::BTreeMap, format, vec::Vec};

use binhop_base::{Asid, PageId, Problem, Result};

use super::MapFlags;
use super::coverage::{Cover, Coverage};

/// A segment, numbered densely in order of appearance, but for [`SegmentId::KERNEL`]. Every page belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

impl SegmentId {
    /// The segment of the kernel's pages. Its number is none of the trace's segments, so that pages of the kernel
    /// shift no other number: policies draw by it.
    pub const KERNEL: Self = Self(u32::MAX);
}

/// Whose pages a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The private pages made by one address space, from its birth, or last exec, to its end: anonymous
    /// memory, its copies of other pages, and what it touches outside every map.
    Space(Asid),
    /// A segment that the trace names.
    Named(u64),
    /// Anonymous memory mapped shared: one segment for each such mapping.
    Anonymous,
    /// The kernel's pages, which no process owns.
    Kernel,
    /// All of memory, where physical = virtual.
    Memory,
}

/// `PageOrigin` is the memory that a page is made of; a reader may call the page by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrigin {
    /// It lies in this segment; wholly and congruently if it is one of the segment's own pages.
    Segment(SegmentId),
    /// A private copy of a page of this segment, made by a write.
    Copy(SegmentId),
    /// Anonymous memory directly behind a private writable area of this segment: behind a file's data, its bss.
    Behind(SegmentId),
    /// Anonymous memory that grows: a stack.
    Stack,
    /// Other anonymous memory.
    Anonymous,
    /// It was first touched outside every map.
    Outside,
}

/// One segment that areas can lie in.
struct Segment {
    owner: Owner,
    /// Those of the map in which it appeared.
    flags: MapFlags,
    /// The runs that lead to its pages, and its pages that were touched and live.
    cover: Cover,
}

/// All segments by number.
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

    /// The segment that the trace calls `name`; the same number each time.
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

    /// One more run leads to the pages `first..=last` of a segment.
    pub(super) fn cover(&mut self, segment: SegmentId, first: u64, last: u64) {
        self.coverage.cover(&mut self.all[segment.0 as usize].cover, first, last);
    }

    /// One run less leads to them.
    pub(super) fn uncover(&mut self, segment: SegmentId, first: u64, last: u64) {
        self.coverage.uncover(&mut self.all[segment.0 as usize].cover, first, last);
    }

    /// The live pages that no run leads to.
    pub(super) fn take_dead(&mut self, segment: SegmentId, dead: &mut Vec<PageId>) {
        self.coverage.take_dead(&mut self.all[segment.0 as usize].cover, dead);
    }

    /// The live page with this number in a segment.
    pub(super) fn page(&self, segment: SegmentId, index: u64) -> Option<PageId> {
        self.coverage.page(self.all[segment.0 as usize].cover, index)
    }

    /// A page of a segment comes to life. A run leads to it.
    pub(super) fn add_page(&mut self, segment: SegmentId, index: u64, page: PageId) {
        self.coverage.add_page(&mut self.all[segment.0 as usize].cover, index, page);
    }
}
