//! The areas of one address space: which bytes are mapped, and to what.

use alloc::{collections::BTreeMap, vec::Vec};

use binhop_base::PowerOfTwo;

use super::{MapFlags, SegmentId};

/// How far below its start a touch still makes a growing area grow: the limit of a stack that Linux
/// sets by default. Anything further down is not taken for the stack.
pub(super) const GROWTH_LIMIT: u64 = 8 << 20;

/// What lies behind an area that is not private and anonymous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    pub(super) segment: SegmentId,
    /// The address at which the segment's byte 0 lies or would lie, modulo 2⁶⁴. Neighbours with equal
    /// backing continue each other.
    pub(super) base: u64,
    /// Writes go to the segment's page. Otherwise a write makes a page of the space's own.
    pub(super) shared: bool,
}

/// A run of mapped bytes of one kind. Its first byte is its key in [`Areas`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) last: u64,
    pub(super) flags: MapFlags,
    /// `None`: private and anonymous.
    pub(super) backing: Option<Backing>,
}

/// What an address space says about one machine page that it holds no page of its own for.
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

/// What an edit took away and put in, by first byte.
#[derive(Default)]
pub(super) struct Edit {
    pub(super) gone: Vec<(u64, Area)>,
    pub(super) come: Vec<(u64, Area)>,
}

/// Areas by first byte; they never overlap.
#[derive(Clone, Default)]
pub(super) struct Areas(BTreeMap<u64, Area>);

impl Areas {
    /// The area that starts at this byte.
    pub(super) fn get(&self, start: u64) -> Option<&Area> {
        self.0.get(&start)
    }

    /// The areas that hold a byte of `first..=last`, in order of address.
    pub(super) fn overlapping(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, &Area)> {
        let before = self.0.range(..first).next_back().filter(|(_, area)| area.last >= first);
        before.into_iter().chain(self.0.range(first..=last)).map(|(&start, area)| (start, area))
    }

    /// All of them, in order of address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Area)> {
        self.0.iter().map(|(&start, area)| (start, area))
    }

    /// Frees `first..=last`: areas inside go, areas across a border are cut there.
    pub(super) fn carve(&mut self, first: u64, last: u64) -> Edit {
        let gone: Vec<_> = self.overlapping(first, last).map(|(start, area)| (start, *area)).collect();
        let mut come = Vec::new();
        for &(start, area) in &gone {
            if start < first {
                come.push((start, Area { last: first - 1, ..area }));
            }
            if area.last > last {
                come.push((last + 1, area));
            }
        }
        for (start, _) in &gone {
            self.0.remove(start);
        }
        self.0.extend(come.iter().copied());
        Edit { gone, come }
    }

    /// Puts an area where nothing is.
    pub(super) fn insert(&mut self, start: u64, area: Area) {
        debug_assert!(self.overlapping(start, area.last).next().is_none());
        self.0.insert(start, area);
    }

    /// Extends the growing area just above `first..=last` down to `first`, if there is one within reach
    /// and the page lies in no area.
    pub(super) fn grow(&mut self, first: u64, last: u64) -> Option<Edit> {
        if self.overlapping(first, last).next().is_some() {
            return None;
        }
        let (&start, &area) = self.0.range(last..).next()?;
        if !area.flags.grows() || start - first > GROWTH_LIMIT {
            return None;
        }
        self.0.remove(&start);
        self.0.insert(first, area);
        Some(Edit { gone: [(start, area)].into(), come: [(first, area)].into() })
    }

    /// What lies at machine page `page`.
    pub(super) fn lookup(&self, page: u64, size: PowerOfTwo) -> Where {
        let first = page << size.log2();
        let last = first | (size.bytes() - 1);
        let mut within = self.overlapping(first, last);
        let Some((start, area)) = within.next() else {
            return Where::Private { outside: true, unaligned: false };
        };
        let Some(backing) = area.backing else {
            let unaligned = within.any(|(_, next)| next.backing.is_some());
            return Where::Private { outside: false, unaligned };
        };
        let mut covered = area.last;
        let mut whole = start <= first;
        for (start, next) in within {
            whole &= start == covered.wrapping_add(1) && next.backing == Some(backing);
            covered = next.last;
        }
        let byte = first.wrapping_sub(backing.base);
        if !whole || covered < last || byte & (size.bytes() - 1) != 0 {
            return Where::Private { outside: false, unaligned: true };
        }
        Where::Segment { segment: backing.segment, index: byte >> size.log2(), shared: backing.shared }
    }
}
