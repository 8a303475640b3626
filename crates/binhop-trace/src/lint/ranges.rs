//! `MappedRanges` holds the mapped ranges of address spaces, as map and unmap events define them.

use binhop_base::forest::Root;

use crate::event::map_flags;
use crate::mappings::{GROWTH, Mapping, Mappings};

/// `SpaceRanges` holds the mapped ranges of one address space.
#[derive(Debug, Default)]
pub(super) struct SpaceRanges {
    covered: Root,
    growing: Root,
    /// The range of the last answer, because successive references often lie in one range.
    last: (u64, u64),
}

/// `MappedRanges` holds the live ranges of all address spaces. Mapped ranges and growing ranges are kept in
/// separate tables. So adjacent mapped ranges always merge, and one look-up answers for a range of any
/// length.
#[derive(Debug, Default)]
pub(super) struct MappedRanges {
    covered: Mappings,
    growing: Mappings,
}

const COVERED: Mapping = Mapping { end: 0, flags: 0, segment: None, offset: None };

impl MappedRanges {
    /// Copies the ranges of a space for another space.
    pub(super) fn share(&mut self, space: &SpaceRanges) -> SpaceRanges {
        let (covered, growing) = (self.covered.share(space.covered), self.growing.share(space.growing));
        SpaceRanges { covered, growing, last: space.last }
    }

    /// Releases all ranges of a space.
    pub(super) fn release(&mut self, space: SpaceRanges) {
        self.covered.release(space.covered);
        self.growing.release(space.growing);
    }

    /// Maps a range, and replaces what the range covered.
    pub(super) fn map(&mut self, space: &mut SpaceRanges, start: u64, end: u64, flags: u32) {
        space.last = (0, 0);
        if start >= end {
            return;
        }
        space.growing = match flags & map_flags::GROWS {
            0 => self.growing.unmap(space.growing, start, end),
            _ => self.growing.map(space.growing, start, Mapping { end, ..COVERED }),
        };
        let first = start.checked_sub(1).and_then(|below| self.covered.at(space.covered, below));
        let last = self.covered.at(space.covered, end);
        let start = first.map_or(start, |(from, _)| from);
        let end = last.map_or(end, |(_, mapping)| mapping.end);
        space.covered = self.covered.map(space.covered, start, Mapping { end, ..COVERED });
    }

    /// Unmaps a range. Returns whether every byte of the range was mapped.
    pub(super) fn unmap(&mut self, space: &mut SpaceRanges, start: u64, end: u64) -> bool {
        let whole = self.covers(space, start, end);
        space.last = (0, 0);
        space.covered = self.covered.unmap(space.covered, start, end);
        space.growing = self.growing.unmap(space.growing, start, end);
        whole
    }

    /// Returns whether every byte of a range is mapped.
    pub(super) fn covers(&self, space: &mut SpaceRanges, start: u64, end: u64) -> bool {
        if space.last.0 <= start && end <= space.last.1 || start >= end {
            return true;
        }
        let Some((from, mapping)) = self.covered.at(space.covered, start) else { return false };
        space.last = (from, mapping.end);
        end <= mapping.end
    }

    /// Returns what [`MappedRanges::covers`] returns, for a reference. A reference just below a growing range
    /// makes the range grow.
    pub(super) fn touch(&mut self, space: &mut SpaceRanges, start: u64, end: u64) -> bool {
        if self.covers(space, start, end) {
            return true;
        }
        match self.covered.next(space.covered, start) {
            Some((from, _)) if from - start <= GROWTH && self.growing.at(space.growing, from).is_some() => {
                let free_from = self.covered.below(space.covered, from).map_or(0, |(_, below)| below.end);
                self.map(space, start.max(free_from), from, map_flags::GROWS);
                self.covers(space, start, end)
            }
            _ => false,
        }
    }

    /// Returns the number of look-ups so far.
    #[cfg(test)]
    pub(super) fn lookups(&self) -> u64 {
        self.covered.lookups() + self.growing.lookups()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_replaces_and_an_unmap_cuts() {
        let (mut maps, mut space) = (MappedRanges::default(), SpaceRanges::default());
        maps.map(&mut space, 0x1000, 0x5000, map_flags::READ);
        assert!(
            maps.covers(&mut space, 0x1000, 0x5000)
                && !maps.covers(&mut space, 0xfff, 0x2000)
                && !maps.covers(&mut space, 0x4000, 0x5001)
        );
        maps.map(&mut space, 0x2000, 0x3000, map_flags::WRITE);
        assert!(maps.covers(&mut space, 0x1000, 0x5000));
        assert!(maps.unmap(&mut space, 0x2000, 0x3000) && !maps.unmap(&mut space, 0x2000, 0x3000));
        assert!(
            maps.covers(&mut space, 0x1000, 0x2000)
                && maps.covers(&mut space, 0x3000, 0x5000)
                && !maps.covers(&mut space, 0x1fff, 0x2001)
        );
        assert!(!maps.unmap(&mut space, 0x1000, 0x5000) && !maps.covers(&mut space, 0x1000, 0x1001));
    }

    #[test]
    fn a_stack_grows_down_to_its_neighbour_and_by_no_more_than_linux_allows() {
        let (mut maps, mut space) = (MappedRanges::default(), SpaceRanges::default());
        maps.map(&mut space, 0x7000_0000, 0x7001_0000, map_flags::GROWS);
        assert!(!maps.touch(&mut space, 0x7000_0000 - GROWTH - 1, 0x7000_0000 - GROWTH));
        assert!(
            maps.touch(&mut space, 0x7000_0000 - GROWTH, 0x7000_0000 - GROWTH + 8)
                && maps.covers(&mut space, 0x6fff_0000, 0x7000_0000)
        );
        maps.map(&mut space, 0x1000, 0x2000, 0);
        assert!(!maps.touch(&mut space, 0x800, 0x808));
        maps.map(&mut space, 0x3000, 0x4000, map_flags::GROWS);
        // A reference reaches from the last bytes of the neighbour to the stack's start, so the stack grows
        // to the neighbour's end.
        assert!(maps.touch(&mut space, 0x1ff8, 0x3000) && maps.covers(&mut space, 0x1000, 0x4000));
    }

    /// Growing ranges and other ranges lie side by side. An event that covers all ranges costs as much as an
    /// event that covers one range.
    #[test]
    fn an_event_costs_the_same_whatever_it_covers() {
        let lookups = |ranges: u64| {
            let (mut maps, mut space) = (MappedRanges::default(), SpaceRanges::default());
            for number in 0..ranges {
                let flags = if number % 2 == 0 { map_flags::GROWS } else { 0 };
                maps.map(&mut space, number << 12, (number + 1) << 12, flags);
            }
            let before = maps.lookups();
            for _ in 0..ranges {
                assert!(!maps.covers(&mut space, 0, (ranges + 1) << 12));
                assert!(maps.covers(&mut space, 0, ranges << 12));
            }
            maps.lookups() - before
        };
        assert_eq!([lookups(500), lookups(1000)], [500, 1000]);
    }
}
