//! `Mappings` holds the live mappings of address spaces, as map, protect and unmap events define them.
//!
//! The mappings of all spaces lie in one forest, and the mappings of one space are a [`Root`]. A fork copies
//! nothing, and a change in one of two sharing spaces costs O(log n) expected. Work and memory therefore grow
//! with the rows, not with spaces × mappings.

use binhop_base::forest::{Forest, Root};

/// The distance below its start at which a growing mapping still covers a reference. Linux lets a stack grow
/// as far (8 MiB).
pub(crate) const GROWTH: u64 = 8 << 20;

/// `Mapping` is a live mapping, from its start (the key) up to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) end: u64,
    pub(crate) flags: u32,
    pub(crate) segment: Option<u64>,
    /// The offset of the mapping's first byte in the segment.
    pub(crate) offset: Option<u64>,
}

impl Mapping {
    /// Returns the mapping without its first bytes.
    pub(crate) fn without(self, bytes: u64) -> Self {
        Self { offset: self.offset.map(|offset| offset.wrapping_add(bytes)), ..self }
    }
}

/// `Mappings` holds the mappings of all address spaces. The mappings of one space never overlap.
#[derive(Debug, Default)]
pub(crate) struct Mappings(Forest<Mapping>, #[cfg(test)] std::cell::Cell<u64>);

impl Mappings {
    /// Copies the mappings of a space for another space.
    pub(crate) fn share(&mut self, space: Root) -> Root {
        self.0.share(space)
    }

    /// Releases all mappings of a space.
    pub(crate) fn release(&mut self, space: Root) {
        self.0.release(space);
        self.0.forget_released();
    }

    /// Maps a range from `start` on, and replaces what the range covered. An empty range maps nothing.
    pub(crate) fn map(&mut self, space: Root, start: u64, mapping: Mapping) -> Root {
        let space = self.unmap(space, start, mapping.end);
        if start < mapping.end { self.0.insert(space, start, mapping) } else { space }
    }

    /// Unmaps a range.
    pub(crate) fn unmap(&mut self, space: Root, start: u64, end: u64) -> Root {
        if start >= end {
            return space;
        }
        let first = self.0.at_or_below(space, start).filter(|(_, mapping)| mapping.end > start);
        let last = self.0.at_or_below(space, end - 1).filter(|(_, mapping)| mapping.end > end);
        let mut space = self.0.remove_range(space, start, end - 1);
        if let Some((from, mapping)) = first.filter(|&(from, _)| from < start) {
            space = self.0.remove(space, from);
            space = self.0.insert(space, from, Mapping { end: start, ..mapping });
        }
        if let Some((from, mapping)) = last {
            space = self.0.insert(space, end, mapping.without(end - from));
        }
        self.0.forget_released();
        space
    }

    /// Returns the mapping that holds an address, with its start.
    pub(crate) fn at(&self, space: Root, addr: u64) -> Option<(u64, Mapping)> {
        #[cfg(test)]
        self.1.set(self.1.get() + 1);
        self.0.at_or_below(space, addr).filter(|(_, mapping)| mapping.end > addr)
    }

    /// Returns how often [`Mappings::at`] was called.
    #[cfg(test)]
    pub(crate) fn lookups(&self) -> u64 {
        self.1.get()
    }

    /// Returns the first mapping that starts at an address or above it.
    pub(crate) fn next(&self, space: Root, addr: u64) -> Option<(u64, Mapping)> {
        self.0.at_or_above(space, addr)
    }

    /// Returns the last mapping that starts below an address.
    pub(crate) fn below(&self, space: Root, addr: u64) -> Option<(u64, Mapping)> {
        self.0.at_or_below(space, addr.checked_sub(1)?)
    }

    /// Returns all mappings of a space, in order.
    pub(crate) fn all(&self, space: Root) -> impl Iterator<Item = (u64, Mapping)> {
        self.0.range(space, 0, u64::MAX)
    }
}
