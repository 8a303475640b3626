//! `LastLevel` knows lines that the last level surely holds, where software translates at its misses. An access to such
//! a line runs no handler of misses. If the line that it removes from level 1 is there, too, no line leaves the last
//! level, and no handler of write-backs runs either.
//!
//! `LastLevel` works for a side of two direct-mapped virtual caches with lines of equal size, if the second cache has
//! at least as many sets as the first. Then the lines of a set of the last level all fall into one set of level 1, and
//! a set of level 1 is a slot of the filters. So the last line of the program that was accessed in a slot is the line
//! of the program, if any, that level 1 holds there. A handler's line may have replaced it.
//!
//! - A line that was accessed while level 1 surely held another line was read from the last level, so both caches hold
//!   the line now.
//! - A line that level 1 writes back is either in the last level, or replaces nothing that is known there: if another
//!   line of its set had been accessed since, this access would have removed the line from level 1.
//! - A set that may hold a line of a handler, or an entry of the table, is never known.
//!
//! The lines are forgotten where the filters forget lines, and where lanes may flush a page.

use std::ops::Range;

use super::filter::{Shape, SlotLine};
use crate::machine::LastLevelShape;

/// The time of sets that hold lines of handlers.
const NEVER: u32 = u32::MAX;

/// The sets of the last level of one side.
#[derive(Default)]
struct KnownLines {
    /// For each set, the line that it held last.
    lines: Vec<u64>,
    /// For each set, the time at which the line was noted. The line is known if nothing was forgotten since.
    times: Vec<u32>,
}

impl KnownLines {
    #[inline]
    fn set(&self, line: u64) -> usize {
        line as usize & (self.lines.len() - 1)
    }
}

/// `LastLevel` holds the known lines of both sides: instructions, data.
pub(super) struct LastLevel {
    sides: [KnownLines; 2],
    now: u32,
}

impl LastLevel {
    /// Makes the last levels of these shapes beside filters of these shapes. A side without a shape is never known.
    pub(super) fn new(last: [Option<LastLevelShape>; 2], filters: [Shape; 2]) -> Self {
        let side = |at: usize| match last[at] {
            Some(LastLevelShape { sets, first_sets }) if filters[at].has_slots(first_sets) => {
                KnownLines { lines: vec![0; sets as usize], times: vec![0; sets as usize] }
            }
            _ => KnownLines::default(),
        };
        Self { sides: [side(0), side(1)], now: 1 }
    }

    #[inline]
    fn knows(&self, side: usize, line: u64) -> bool {
        let side = &self.sides[side];
        let set = side.set(line);
        side.lines[set] == line && side.times[set] == self.now
    }

    /// Returns whether an access to a line surely runs no handler. `slot` is what the filter knows of the line's slot
    /// before the access, and `writes_back` says whether lines of data that leave the last level run a handler.
    #[inline]
    pub(super) fn spares_handlers(&self, side: usize, line: u64, slot: SlotLine, writes_back: bool) -> bool {
        if self.sides[side].lines.is_empty() {
            return false;
        }
        match slot {
            SlotLine::Held(held) if held == line => true,
            _ if !self.knows(side, line) => false,
            SlotLine::Held(other) | SlotLine::Last(other) => {
                side == 0 || !writes_back || other == line || self.knows(side, other)
            }
            SlotLine::Unknown => side == 0 || !writes_back,
        }
    }

    /// Notes an access to a line that may have changed what the last level holds.
    #[inline]
    pub(super) fn accessed(&mut self, side: usize, line: u64, slot: SlotLine) {
        let now = self.now;
        let side = &mut self.sides[side];
        if side.lines.is_empty() {
            return;
        }
        let set = side.set(line);
        if side.times[set] == NEVER {
            return;
        }
        let held = side.lines[set] == line && side.times[set] == now;
        let other = match slot {
            SlotLine::Held(other) | SlotLine::Last(other) if other != line => Some(other),
            _ => None,
        };
        let read = other.is_some_and(|other| side.set(other) != set);
        // Without another line in its set of level 1, the access may have hit there.
        let known = read || held && other.is_none() && slot != SlotLine::Unknown;
        (side.lines[set], side.times[set]) = (line, if known { now } else { 0 });
    }

    /// Notes that a line of a handler or of the table may be in the last level.
    pub(super) fn of_handlers(&mut self, side: usize, line: u64) {
        let side = &mut self.sides[side];
        if !side.lines.is_empty() {
            let set = side.set(line);
            side.times[set] = NEVER;
        }
    }

    /// Forgets these lines.
    pub(super) fn forget_lines(&mut self, side: usize, lines: Range<u64>) {
        let side = &mut self.sides[side];
        if side.lines.is_empty() {
            return;
        }
        for line in lines {
            let set = side.set(line);
            if side.lines[set] == line && side.times[set] != NEVER {
                side.times[set] = 0;
            }
        }
    }

    /// Forgets all lines.
    pub(super) fn forget(&mut self) {
        self.now += 1;
        if self.now == NEVER {
            self.now = 1;
            let sides = self.sides.iter_mut().flat_map(|side| &mut side.times);
            sides.filter(|time| **time != NEVER).for_each(|time| *time = 0);
        }
    }
}
