//! `Areas` holds the mapped bytes of address spaces, and what they are mapped to.

use binhop_base::PowerOfTwo;
use binhop_base::forest::{Forest, Root};

use super::{PageOrigin, SegmentId};

/// The largest distance below a growing area at which a touch makes the area grow. It is Linux's default
/// limit of a stack. A touch further down does not belong to the stack.
pub(super) const GROWTH_LIMIT: u64 = 8 << 20;

/// `Backing` is the segment behind an area. An area that is private and anonymous has no backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    pub(super) segment: SegmentId,
    /// The address at which the segment's byte 0 lies or would lie, modulo 2⁶⁴. Neighbouring areas with equal
    /// backing continue each other.
    pub(super) base: u64,
    /// True if writes go to the segment's page. Otherwise a write makes a page of the address space's own.
    pub(super) shared: bool,
}

/// `Area` is a run of mapped bytes of one kind. The key of an area is its first byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) last: u64,
    pub(super) grows: bool,
    /// True if the area was mapped to be written.
    pub(super) writable: bool,
    /// The segment behind the area; `None` if the area is private and anonymous.
    pub(super) backing: Option<Backing>,
}

/// `MappedAs` says what the areas of an address space hold at one machine page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MappedAs {
    /// The page is page `index` of a segment. It lies in the segment wholly and congruently.
    Segment { segment: SegmentId, index: u64, shared: bool },
    /// The page is private to the address space.
    Private {
        /// True if no area touches the page.
        outside: bool,
        /// True if a part of the page belongs to a segment, but the page lies in it not wholly or not
        /// congruently.
        unaligned: bool,
    },
}

/// `Areas` holds the areas of all address spaces. The areas of one address space are a [`Root`], and never
/// overlap.
pub(super) struct Areas(Forest<Area>);

impl Areas {
    pub(super) const fn new() -> Self {
        Self(Forest::new())
    }

    pub(super) fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// Returns the same areas for another address space.
    pub(super) fn share(&mut self, areas: Root) -> Root {
        self.0.share(areas)
    }

    /// Ends all areas of an address space.
    pub(super) fn release(&mut self, areas: Root) {
        self.0.release(areas);
        self.0.forget_released();
    }

    /// Returns the areas that hold a byte of `first..=last`, in order of address.
    pub(super) fn overlapping(
        &self,
        areas: Root,
        first: u64,
        last: u64,
    ) -> impl Iterator<Item = (u64, Area)> {
        let before = self.0.at_or_below(areas, first).filter(|(_, area)| area.last >= first);
        let after = first.checked_add(1).filter(|&next| next <= last);
        before.into_iter().chain(after.into_iter().flat_map(move |next| self.0.range(areas, next, last)))
    }

    /// Returns whether an area holds a byte of `first..=last`.
    pub(super) fn any(&self, areas: Root, first: u64, last: u64) -> bool {
        self.0.at_or_below(areas, last).is_some_and(|(_, area)| area.last >= first)
    }

    /// Returns whether private anonymous memory covers `first..=last` as a whole.
    pub(super) fn anonymous(&self, areas: Root, first: u64, last: u64) -> bool {
        let mut next = Some(first);
        for (start, area) in self.overlapping(areas, first, last) {
            if area.backing.is_some() || next.is_none_or(|next| start > next) {
                return false;
            }
            next = area.last.checked_add(1);
        }
        next.is_none_or(|next| next > last)
    }

    /// Returns all areas of an address space, in order of address.
    pub(super) fn iter(&self, areas: Root) -> impl Iterator<Item = (u64, Area)> {
        self.0.range(areas, 0, u64::MAX)
    }

    /// Frees `first..=last`. Areas inside are removed, and areas across a border are cut there.
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
        self.0.forget_released();
        areas
    }

    /// Inserts an area where no area is.
    pub(super) fn insert(&mut self, areas: Root, start: u64, area: Area) -> Root {
        debug_assert!(!self.any(areas, start, area.last));
        self.0.insert(areas, start, area)
    }

    /// Extends the growing area just above `first..=last` down to `first`, if such an area is within reach
    /// and the page lies in no area. Returns the new areas, and the area with its former start.
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
        self.0.forget_released();
        Some((areas, start, area))
    }

    /// Returns the origin of an address space's own page at machine page `page`. Of several areas, the first
    /// area in a segment decides.
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
    pub(super) fn lookup(&self, areas: Root, page: u64, size: PowerOfTwo) -> MappedAs {
        let first = page << size.log2();
        let last = first | (size.bytes() - 1);
        let mut within = self.overlapping(areas, first, last);
        let Some((start, area)) = within.next() else {
            return MappedAs::Private { outside: true, unaligned: false };
        };
        let Some(backing) = area.backing else {
            let unaligned = within.any(|(_, next)| next.backing.is_some());
            return MappedAs::Private { outside: false, unaligned };
        };
        let byte = first.wrapping_sub(backing.base);
        let mut whole = start <= first && byte & (size.bytes() - 1) == 0;
        let mut covered = area.last;
        while let Some((start, next)) = within.next().filter(|_| whole) {
            whole = start == covered.wrapping_add(1) && next.backing == Some(backing);
            covered = next.last;
        }
        if !whole || covered < last {
            return MappedAs::Private { outside: false, unaligned: true };
        }
        MappedAs::Segment { segment: backing.segment, index: byte >> size.log2(), shared: backing.shared }
    }
}
