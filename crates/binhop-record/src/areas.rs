//! `Areas` holds the mapped ranges of a process. The decoder needs them to report moves, changes and unmaps
//! exactly, and a mix needs them to know which pages belong to files.

use std::collections::BTreeMap;

/// `Area` is a mapped range: its end, its segment, the offset of its first byte in the segment, its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) end: u64,
    pub(crate) segment: Option<u64>,
    pub(crate) first: u64,
    pub(crate) flags: u32,
}

/// `Areas` holds disjoint mapped ranges, by their first address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Areas(BTreeMap<u64, Area>);

impl Areas {
    /// Adds a range. Nothing may be mapped there; an empty range is ignored.
    pub(crate) fn insert(&mut self, start: u64, area: Area) {
        if start < area.end {
            self.0.insert(start, area);
        }
    }

    /// Returns the range that holds an address, and its first address.
    pub(crate) fn at(&self, address: u64) -> Option<(u64, &Area)> {
        let (&from, area) = self.0.range(..=address).next_back()?;
        (address < area.end).then_some((from, area))
    }

    /// Returns the parts of ranges that lie in `start..end`, in order of their addresses.
    pub(crate) fn parts(&self, start: u64, end: u64) -> Vec<(u64, Area)> {
        let inside = |(&from, area): (&u64, &Area)| {
            let (low, high) = (from.max(start), area.end.min(end));
            let first = area.first.wrapping_add(low - from);
            (low < high).then_some((low, Area { end: high, first, ..*area }))
        };
        let mut parts: Vec<(u64, Area)> = self.overlapping(start, end).filter_map(inside).collect();
        parts.reverse();
        parts
    }

    /// Removes `start..end` and returns the ranges that were there.
    pub(crate) fn cut(&mut self, start: u64, end: u64) -> Vec<(u64, Area)> {
        let parts = self.parts(start, end);
        let whole: Vec<(u64, Area)> =
            self.overlapping(start, end).map(|(&from, area)| (from, *area)).collect();
        for (from, area) in whole {
            self.0.remove(&from);
            self.insert(from, Area { end: area.end.min(start), ..area });
            if area.end > end {
                let first = area.first.wrapping_add(end - from);
                self.insert(end, Area { first, ..area });
            }
        }
        parts
    }

    /// Returns the ranges that overlap `start..end`, the highest first.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (&u64, &Area)> {
        self.0.range(..end).rev().take_while(move |(_, area)| area.end > start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The slow model has one entry for each page.
        #[test]
        fn areas_equal_a_table_of_pages(edits in prop::collection::vec((0u64..30, 1u64..12, prop::option::of(0u64..5)), 1..40)) {
            let (mut areas, mut pages) = (Areas::default(), BTreeMap::new());
            for (index, (start, length, segment)) in edits.into_iter().enumerate() {
                let end = start + length;
                let removed = areas.cut(start, end);
                let lost: u64 = removed.iter().map(|(from, area)| area.end - from).sum();
                let expected = (start..end).filter(|page| pages.remove(page).is_some()).count() as u64;
                prop_assert_eq!(lost, expected);
                if segment.is_some() {
                    let first = 100 * index as u64;
                    areas.insert(start, Area { end, segment, first, flags: 1 });
                    pages.extend((start..end).map(|page| (page, (segment, first + page - start))));
                }
                let mut found = BTreeMap::new();
                for (from, area) in areas.parts(0, u64::MAX) {
                    found.extend((from..area.end).map(|page| (page, (area.segment, area.first + page - from))));
                }
                prop_assert_eq!(&found, &pages);
                for page in 0..50 {
                    let at = areas.at(page).map(|(from, area)| (area.segment, area.first + page - from));
                    prop_assert_eq!(at, pages.get(&page).copied());
                }
            }
        }
    }
}
