//! The areas of address spaces: which bytes are mapped, and to what.

use binhop_base::PowerOfTwo;
use binhop_base::forest::{Forest, Root};

use super::{PageOrigin, SegmentId};

/// The distance below its start at which a touch still makes a growing area grow: the limit of a stack that Linux
/// sets by default. A touch further down is not taken for the stack.
pub(super) const GROWTH_LIMIT: u64 = 8 << 20;

/// The segment behind an area that is not private and anonymous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    pub(super) segment: SegmentId,
    /// The address at which the segment's byte 0 lies or would lie, modulo 2⁶⁴. Neighbours with equal
    /// backing continue each other.
    pub(super) base: u64,
    /// Writes go to the segment's page. Otherwise a write makes a page of the space's own.
    pub(super) shared: bool,
}

/// A run of mapped bytes of one kind. Its first byte is its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) last: u64,
    pub(super) grows: bool,
    /// The area was mapped to be written.
    pub(super) writable: bool,
    /// `None`: private and anonymous.
    pub(super) backing: Option<Backing>,
}

/// `Where` says what the areas of a space hold at one machine page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Page `index` of a segment: the page lies wholly and congruently inside it.
    Segment { segment: SegmentId, index: u64, shared: bool },
    /// Private to the space.
    Private {
        /// No area touches the page.
        outside: bool,
        /// A part of the page belongs to a segment, but not the whole of it, or not congruently.
        unaligned: bool,
    },
}

/// The areas of all spaces; those of one are a [`Root`]. They never overlap.
pub(super) struct Areas(Forest<Area>);

impl Areas {
    pub(super) const fn new() -> Self {
        Self(Forest::new())
    }

    pub(super) fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// The same areas for another space.
    pub(super) fn share(&mut self, areas: Root) -> Root {
        self.0.share(areas)
    }

    /// Ends all areas of a space.
    pub(super) fn release(&mut self, areas: Root) {
        self.0.release(areas);
        self.0.forget_gone();
    }

    /// The areas that hold a byte of `first..=last`, in order of address.
    fn overlapping(&self, areas: Root, first: u64, last: u64) -> impl Iterator<Item = (u64, Area)> {
        let before = self.0.at_or_below(areas, first).filter(|(_, area)| area.last >= first);
        let after = first.checked_add(1).filter(|&next| next <= last);
        before.into_iter().chain(after.into_iter().flat_map(move |next| self.0.range(areas, next, last)))
    }

    /// Returns whether an area holds a byte of `first..=last`.
    pub(super) fn any(&self, areas: Root, first: u64, last: u64) -> bool {
        self.0.at_or_below(areas, last).is_some_and(|(_, area)| area.last >= first)
    }

    /// All of a space, in order of address.
    pub(super) fn iter(&self, areas: Root) -> impl Iterator<Item = (u64, Area)> {
        self.0.range(areas, 0, u64::MAX)
    }

    /// Frees `first..=last`: areas inside go, areas across a border are cut there.
    pub(super) fn carve(&mut self, areas: Root, first: u64, last: u64) -> Root {
        let head =
            self.0.at_or_below(areas, first).filter(|(start, area)| *start < first && area.last >= first);
        let tail = self.0.at_or_below(areas, last).filter(|(_, area)| area.last > last);
        let mut areas = self.0.remove_range(areas, first, last);
        if let Some((start, area)) = head {
            areas = self.0.remove(areas, start);
            areas = self.0.insert(areas, start, Area { last: first - 1, ..area });
        }
        if let Some((_, area)) = tail {
            areas = self.0.insert(areas, last + 1, area);
        }
        self.0.forget_gone();
        areas
    }

    /// Puts an area where nothing is.
    pub(super) fn insert(&mut self, areas: Root, start: u64, area: Area) -> Root {
        debug_assert!(!self.any(areas, start, area.last));
        self.0.insert(areas, start, area)
    }

    /// Extends the growing area just above `first..=last` down to `first`, if there is one within reach
    /// and the page lies in no area. The areas, and the area with its former start.
    pub(super) fn grow(&mut self, areas: Root, first: u64, last: u64) -> Option<(Root, u64, Area)> {
        if self.any(areas, first, last) {
            return None;
        }
        let (start, area) = self.0.at_or_above(areas, last)?;
        if !area.grows || start - first > GROWTH_LIMIT {
            return None;
        }
        let areas = self.0.remove(areas, start);
        let areas = self.0.insert(areas, first, area);
        self.0.forget_gone();
        Some((areas, start, area))
    }

    /// Returns what a space's own page is made of at machine page `page`. Of several areas, the first in a segment decides.
    pub(super) fn origin(&self, areas: Root, page: u64, size: PowerOfTwo) -> PageOrigin {
        let first = page << size.log2();
        let mut within = self.overlapping(areas, first, first | (size.bytes() - 1));
        let Some((start, area)) = within.next() else { return PageOrigin::Outside };
        let backing = area.backing.or_else(|| within.find_map(|(_, next)| next.backing));
        if let Some(backing) = backing {
            return PageOrigin::Segment(backing.segment);
        }
        if area.grows {
            return PageOrigin::Stack;
        }
        let before = start.checked_sub(1).and_then(|end| self.0.at_or_below(areas, end));
        let before = before.filter(|(_, before)| before.last.wrapping_add(1) == start);
        match before.filter(|(_, before)| before.writable).and_then(|(_, before)| before.backing) {
            Some(backing) if !backing.shared => PageOrigin::Behind(backing.segment),
            _ => PageOrigin::Anonymous,
        }
    }

    /// Returns what lies at machine page `page`.
    pub(super) fn lookup(&self, areas: Root, page: u64, size: PowerOfTwo) -> Where {
        let first = page << size.log2();
        let last = first | (size.bytes() - 1);
        let mut within = self.overlapping(areas, first, last);
        let Some((start, area)) = within.next() else {
            return Where::Private { outside: true, unaligned: false };
        };
        let Some(backing) = area.backing else {
            let unaligned = within.any(|(_, next)| next.backing.is_some());
            return Where::Private { outside: false, unaligned };
        };
        let byte = first.wrapping_sub(backing.base);
        let mut whole = start <= first && byte & (size.bytes() - 1) == 0;
        let mut covered = area.last;
        while let Some((start, next)) = within.next().filter(|_| whole) {
            whole = start == covered.wrapping_add(1) && next.backing == Some(backing);
            covered = next.last;
        }
        if !whole || covered < last {
            return Where::Private { outside: false, unaligned: true };
        }
        Where::Segment { segment: backing.segment, index: byte >> size.log2(), shared: backing.shared }
    }
}
