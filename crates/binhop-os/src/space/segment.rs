//! Segments: the units that address spaces share, and each space's private remainder.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};

use binhop_base::{Asid, PageId, Problem, Result};

/// A segment, numbered densely in order of appearance. Every page belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

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
    /// All of memory, where physical = virtual.
    Memory,
}

/// One segment that areas can lie in.
pub(super) struct Segment {
    owner: Owner,
    /// Where it is mapped: (space, first byte of the area).
    pub(super) areas: BTreeSet<(u32, u64)>,
    /// Its pages that were touched and live, by number within the segment.
    pub(super) pages: BTreeMap<u64, PageId>,
}

/// All segments by number.
#[derive(Default)]
pub(super) struct Segments {
    all: Vec<Segment>,
    named: BTreeMap<u64, SegmentId>,
}

impl Segments {
    pub(super) fn add(&mut self, owner: Owner) -> Result<SegmentId> {
        let number = u32::try_from(self.all.len()).map_err(|_| {
            Problem::run(
                &format!("{} segments", self.all.len()),
                "address spaces",
                "a run tells at most 4294967296 segments apart",
                "simulate a part of the trace (--length)",
            )
        })?;
        self.all.push(Segment { owner, areas: BTreeSet::new(), pages: BTreeMap::new() });
        Ok(SegmentId(number))
    }

    /// The segment that the trace calls `name`; the same number each time.
    pub(super) fn named(&mut self, name: u64) -> Result<SegmentId> {
        if let Some(&segment) = self.named.get(&name) {
            return Ok(segment);
        }
        let segment = self.add(Owner::Named(name))?;
        self.named.insert(name, segment);
        Ok(segment)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn owner(&self, segment: SegmentId) -> Owner {
        self.all[segment.0 as usize].owner
    }

    pub(super) fn get(&self, segment: SegmentId) -> &Segment {
        &self.all[segment.0 as usize]
    }

    pub(super) fn get_mut(&mut self, segment: SegmentId) -> &mut Segment {
        &mut self.all[segment.0 as usize]
    }
}

impl Segment {
    /// Numbers of the live pages among the segment's pages `first..=last`, which may run past the
    /// largest number to 0 (a stack that grew below the segment's start).
    pub(super) fn live(&self, first: u64, last: u64) -> Vec<u64> {
        if first <= last {
            return self.pages.range(first..=last).map(|(&index, _)| index).collect();
        }
        self.pages.range(first..).chain(self.pages.range(..=last)).map(|(&index, _)| index).collect()
    }
}
