//! What is mapped in one address space, as map and unmap events say.

use std::collections::BTreeMap;

use crate::event::map_flags;

/// A growing mapping takes in a reference this far below its start, as Linux lets a stack grow (8 MiB).
const GROWTH: u64 = 8 << 20;

/// Disjoint live ranges: start → (end, flags).
#[derive(Clone, Debug, Default)]
pub(super) struct Maps {
    ranges: BTreeMap<u64, (u64, u32)>,
    /// The range that answered last: references come in runs.
    last: (u64, u64),
}

impl Maps {
    /// Maps a range; what it covers is replaced.
    pub(super) fn map(&mut self, start: u64, end: u64, flags: u32) {
        self.unmap(start, end);
        if start < end {
            self.ranges.insert(start, (end, flags));
        }
    }

    /// Unmaps a range; `false` unless all of it was mapped.
    pub(super) fn unmap(&mut self, start: u64, end: u64) -> bool {
        let whole = self.covers(start, end);
        self.last = (0, 0);
        let overlapping = self.ranges.range(..end).rev().take_while(|&(_, &(stop, _))| stop > start);
        let overlapping: Vec<(u64, u64, u32)> =
            overlapping.map(|(&from, &(stop, flags))| (from, stop, flags)).collect();
        for (from, stop, flags) in overlapping {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, (start, flags));
            }
            if stop > end {
                self.ranges.insert(end, (stop, flags));
            }
        }
        whole
    }

    /// Whether every byte of a range is mapped.
    pub(super) fn covers(&mut self, start: u64, end: u64) -> bool {
        if self.last.0 <= start && end <= self.last.1 {
            return true;
        }
        let mut at = start;
        while at < end {
            match self.ranges.range(..=at).next_back() {
                Some((&from, &(stop, _))) if stop > at => {
                    self.last = (from, stop);
                    at = stop;
                }
                _ => return false,
            }
        }
        true
    }

    /// As [`Maps::covers`], for a reference: one just below a growing mapping makes it grow.
    pub(super) fn touch(&mut self, start: u64, end: u64) -> bool {
        if self.covers(start, end) {
            return true;
        }
        let above = self.ranges.range(start..).next().map(|(&from, &(stop, flags))| (from, stop, flags));
        match above {
            Some((from, stop, flags)) if flags & map_flags::GROWS != 0 && from - start <= GROWTH => {
                self.ranges.remove(&from);
                let free_from = self.ranges.range(..from).next_back().map_or(0, |(_, &(stop, _))| stop);
                self.ranges.insert(start.max(free_from), (stop, flags));
                self.covers(start, end)
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
        let mut maps = Maps::default();
        maps.map(0x1000, 0x5000, map_flags::READ);
        assert!(maps.covers(0x1000, 0x5000) && !maps.covers(0xfff, 0x2000) && !maps.covers(0x4000, 0x5001));
        maps.map(0x2000, 0x3000, map_flags::WRITE);
        assert!(maps.covers(0x1000, 0x5000));
        assert!(maps.unmap(0x2000, 0x3000) && !maps.unmap(0x2000, 0x3000));
        assert!(maps.covers(0x1000, 0x2000) && maps.covers(0x3000, 0x5000) && !maps.covers(0x1fff, 0x2001));
        assert!(!maps.unmap(0x1000, 0x5000) && !maps.covers(0x1000, 0x1001));
    }

    #[test]
    fn a_stack_grows_down_to_its_neighbour_and_no_further_than_linux_lets_it() {
        let mut maps = Maps::default();
        maps.map(0x7000_0000, 0x7001_0000, map_flags::GROWS);
        assert!(!maps.touch(0x7000_0000 - GROWTH - 1, 0x7000_0000 - GROWTH));
        assert!(
            maps.touch(0x7000_0000 - GROWTH, 0x7000_0000 - GROWTH + 8)
                && maps.covers(0x6fff_0000, 0x7000_0000)
        );
        maps.map(0x1000, 0x2000, 0);
        assert!(!maps.touch(0x800, 0x808));
        maps.map(0x3000, 0x4000, map_flags::GROWS);
        // From its neighbour's last bytes up to its own start: it grows to where the neighbour ends.
        assert!(maps.touch(0x1ff8, 0x3000) && maps.covers(0x1000, 0x4000));
    }
}
