//! The mapped ranges of address spaces, as map and unmap events define them.

use binhop_base::forest::Root;

use crate::event::map_flags;
use crate::mappings::{GROWTH, Mapping, Mappings};

/// `Mapped` holds the mapped ranges of one address space.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    root: Root,
    /// The range that answered last: references come in runs.
    last: (u64, u64),
}

/// `Maps` holds the live ranges of all address spaces. Adjacent ranges merge if both grow, or neither does.
#[derive(Debug, Default)]
pub(super) struct Maps(Mappings);

impl Maps {
    /// Copies the ranges of a space for another space.
    pub(super) fn share(&mut self, space: &Mapped) -> Mapped {
        Mapped { root: self.0.share(space.root), last: space.last }
    }

    /// Releases all ranges of a space.
    pub(super) fn release(&mut self, space: Mapped) {
        self.0.release(space.root);
    }

    /// Maps a range; what it covers is replaced.
    pub(super) fn map(&mut self, space: &mut Mapped, start: u64, end: u64, flags: u32) {
        space.last = (0, 0);
        if start >= end {
            return;
        }
        let flags = flags & map_flags::GROWS;
        let alike = |&(_, mapping): &(u64, Mapping)| mapping.flags == flags;
        let first = start.checked_sub(1).and_then(|below| self.0.at(space.root, below)).filter(alike);
        let last = self.0.at(space.root, end).filter(alike);
        let start = first.map_or(start, |(from, _)| from);
        let end = last.map_or(end, |(_, mapping)| mapping.end);
        space.root = self.0.map(space.root, start, Mapping { end, flags, segment: None, offset: None });
    }

    /// Unmaps a range; `false` unless all of it was mapped.
    pub(super) fn unmap(&mut self, space: &mut Mapped, start: u64, end: u64) -> bool {
        let whole = self.covers(space, start, end);
        space.last = (0, 0);
        space.root = self.0.unmap(space.root, start, end);
        whole
    }

    /// Whether every byte of a range is mapped.
    pub(super) fn covers(&self, space: &mut Mapped, start: u64, end: u64) -> bool {
        if space.last.0 <= start && end <= space.last.1 {
            return true;
        }
        let mut at = start;
        while at < end {
            let Some((from, mapping)) = self.0.at(space.root, at) else { return false };
            space.last = (from, mapping.end);
            at = mapping.end;
        }
        true
    }

    /// Returns what [`Maps::covers`] returns, for a reference. A reference just below a growing range makes
    /// the range grow.
    pub(super) fn touch(&mut self, space: &mut Mapped, start: u64, end: u64) -> bool {
        if self.covers(space, start, end) {
            return true;
        }
        match self.0.next(space.root, start) {
            Some((from, above)) if above.flags & map_flags::GROWS != 0 && from - start <= GROWTH => {
                let free_from = self.0.below(space.root, from).map_or(0, |(_, below)| below.end);
                self.map(space, start.max(free_from), above.end, above.flags);
                self.covers(space, start, end)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_replaces_and_an_unmap_cuts() {
        let (mut maps, mut space) = (Maps::default(), Mapped::default());
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
    fn a_stack_grows_down_to_its_neighbour_and_no_further_than_linux_lets_it() {
        let (mut maps, mut space) = (Maps::default(), Mapped::default());
        maps.map(&mut space, 0x7000_0000, 0x7001_0000, map_flags::GROWS);
        assert!(!maps.touch(&mut space, 0x7000_0000 - GROWTH - 1, 0x7000_0000 - GROWTH));
        assert!(
            maps.touch(&mut space, 0x7000_0000 - GROWTH, 0x7000_0000 - GROWTH + 8)
                && maps.covers(&mut space, 0x6fff_0000, 0x7000_0000)
        );
        maps.map(&mut space, 0x1000, 0x2000, 0);
        assert!(!maps.touch(&mut space, 0x800, 0x808));
        maps.map(&mut space, 0x3000, 0x4000, map_flags::GROWS);
        // From its neighbour's last bytes up to its own start: it grows to where the neighbour ends.
        assert!(maps.touch(&mut space, 0x1ff8, 0x3000) && maps.covers(&mut space, 0x1000, 0x4000));
    }
}
