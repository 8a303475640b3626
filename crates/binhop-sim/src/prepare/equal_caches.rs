//! `EqualCaches` simulates the caches of a machine whose software translates when the last level misses, as long as
//! they are equal in all lanes. So preparation knows at which rows handlers run, and which lines they replace in
//! level 1.
//!
//! The caches are virtual. Until a lane may flush a page, their lines follow from the stream alone. `EqualCaches` makes
//! every access that a lane makes: the accesses of rows that are passed, and the accesses of the handlers, by the rules
//! at the top of [`crate::softvm`]. (A row that is skipped hits in level 1, and changes nothing.) It counts nothing. It works
//! for chains of two direct-mapped caches, where an access looks at one line of each level.
//!
//! A line that the handlers replace in level 1 is forgotten by the filter in its slot. All other lines stay known, so
//! few rows are passed for the sake of handlers. A row for which no handler runs is marked for the lanes.

use std::collections::VecDeque;

use binhop_base::MappingId;

use super::FETCH;
use super::filter::{Filters, Shape};
use crate::machine::{DirectMappedChain, WriteBacks};

/// `Line` is a line of level 1 or of the last level: a mapping, the low bits of the line's number in virtual memory,
/// and a bit that says whether the line is dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line(u64);

impl Line {
    const DIRTY: u64 = 1;
    /// The content of an empty set. No mapping has this number, and the line is clean.
    const NONE: Self = Self(u64::MAX << 1);

    /// Makes a clean line. `number` counts the lines of virtual memory.
    #[inline]
    pub(super) fn new(mapping: MappingId, number: u64) -> Self {
        Self(u64::from(mapping.0) << 32 | (number << 1 & u64::from(u32::MAX)))
    }

    #[inline]
    fn mapping(self) -> MappingId {
        MappingId((self.0 >> 32) as u32)
    }

    /// Returns the low bits of the line's number, which are more than choose the set in any cache.
    #[inline]
    fn number(self) -> u64 {
        self.0 >> 1 & u64::from(u32::MAX >> 1)
    }

    #[inline]
    fn is_dirty(self) -> bool {
        self.0 & Self::DIRTY != 0
    }

    #[inline]
    fn clean(self) -> Self {
        Self(self.0 & !Self::DIRTY)
    }

    #[inline]
    fn dirty_if(self, dirty: bool) -> Self {
        Self(self.0 | u64::from(dirty))
    }

    /// Returns the clean line that covers this line in a cache whose lines are longer.
    #[inline]
    fn covering(self, wider: u32) -> Self {
        Self::new(self.mapping(), self.number() >> wider)
    }
}

/// `Chain` holds the lines of the two caches of one side.
struct Chain {
    levels: [Box<[Line]>; 2],
    shape: DirectMappedChain,
    /// The lines that the last level lets leave for memory, or reads from memory for a write-back.
    waiting: VecDeque<MappingId>,
}

impl Chain {
    fn new(shape: DirectMappedChain) -> Self {
        let level = |sets: u64| vec![Line::NONE; sets as usize].into_boxed_slice();
        Self { levels: shape.sets.map(level), shape, waiting: VecDeque::new() }
    }

    /// Returns the set of a line in a level. The line is a line of this level.
    #[inline]
    fn set(&self, level: usize, line: Line) -> usize {
        line.number() as usize & (self.levels[level].len() - 1)
    }

    #[inline]
    fn holds_in(&self, level: usize, line: Line) -> bool {
        self.levels[level][self.set(level, line)].clean() == line
    }

    /// Returns whether level 1 or the last level holds a line of level 1.
    #[inline]
    fn holds(&self, line: Line) -> bool {
        self.holds_in(0, line) || self.holds_in(1, line.covering(self.shape.wider))
    }

    /// Makes an access to a line of level 1. Returns whether level 1 missed.
    #[inline]
    fn access(&mut self, line: Line, store: bool) -> bool {
        let set = self.set(0, line);
        let held = self.levels[0][set];
        if held.clean() == line {
            self.levels[0][set] = held.dirty_if(store);
            return false;
        }
        let asked = line.covering(self.shape.wider);
        let [evicts_first, _] = self.shape.evict_first;
        if held.is_dirty() && evicts_first {
            self.write_back(held, asked);
        }
        if !self.holds_in(1, asked) {
            self.bring_in(asked, asked);
        }
        self.levels[0][set] = line.dirty_if(store);
        if held.is_dirty() && !evicts_first {
            self.write_back(held, asked);
        }
        true
    }

    /// Writes a line of level 1 back to the last level. `asked` is the line for which the last level is asked.
    fn write_back(&mut self, line: Line, asked: Line) {
        let line = line.covering(self.shape.wider);
        if !self.holds_in(1, line) {
            self.bring_in(line, asked);
        }
        let set = self.set(1, line);
        self.levels[1][set] = line.dirty_if(true);
    }

    /// Brings a line into the last level, clean.
    fn bring_in(&mut self, line: Line, asked: Line) {
        let set = self.set(1, line);
        let held = std::mem::replace(&mut self.levels[1][set], line);
        // A write-back of a whole line reads nothing. The access itself reads the line that it asks for.
        let reads = self.shape.wider > 0 && line != asked;
        let waiting = [held.is_dirty().then_some(held.mapping()), reads.then_some(line.mapping())];
        let [_, evicts_first] = self.shape.evict_first;
        let [first, second] = if evicts_first { waiting } else { [waiting[1], waiting[0]] };
        self.waiting.extend(first);
        self.waiting.extend(second);
    }
}

/// `EqualCaches` holds the caches of both sides, and what the handlers access.
pub(super) struct EqualCaches {
    sides: [Chain; 2],
    shapes: [Shape; 2],
    /// The lines of the code of the handler of misses, and of the handler of write-backs.
    code: [Vec<Line>; 2],
    /// For each mapping, the lines of its entries: of its segment, its root entry, its user entry.
    entries: Vec<[Line; 3]>,
    writes_back: bool,
}

impl EqualCaches {
    /// Makes empty caches beside filters of these shapes.
    pub(super) fn new(
        chains: [DirectMappedChain; 2],
        shapes: [Shape; 2],
        code: [Vec<Line>; 2],
        write_backs: WriteBacks,
    ) -> Self {
        let writes_back = write_backs == WriteBacks::Table;
        Self { sides: chains.map(Chain::new), shapes, code, entries: Vec::new(), writes_back }
    }

    /// Notes the lines of the entries that lead to the page of a mapping: of its segment, its root entry, its user
    /// entry.
    pub(super) fn told(&mut self, mapping: MappingId, entries: [Line; 3]) {
        let index = mapping.index();
        if index >= self.entries.len() {
            self.entries.resize(index + 1, [Line::NONE; 3]);
        }
        self.entries[index] = entries;
    }

    /// Runs the handler of misses, if an access to a line needs it. Returns whether the handler ran.
    #[inline]
    pub(super) fn before_access(&mut self, side: usize, line: Line, filters: &mut Filters) -> bool {
        let misses = !self.sides[side].holds(line);
        if misses {
            self.handle(line.mapping(), false, filters);
        }
        misses
    }

    /// Makes an access, and runs the handler of write-backs as often as it is needed. Returns whether this handler ran.
    #[inline]
    pub(super) fn access(&mut self, side: usize, line: Line, store: bool, filters: &mut Filters) -> bool {
        self.sides[side].access(line, store);
        if self.sides[1].waiting.is_empty() {
            return false;
        }
        if !self.writes_back {
            self.sides[1].waiting.clear();
            return false;
        }
        while let Some(mapping) = self.sides[1].waiting.pop_front() {
            self.handle(mapping, true, filters);
        }
        true
    }

    /// Runs the handler of misses, or the handler of write-backs.
    fn handle(&mut self, mapping: MappingId, of_write_back: bool, filters: &mut Filters) {
        // A lane reports a mapping whose entries are not known.
        let Some(&[segment, root, user]) = self.entries.get(mapping.index()) else { return };
        self.run_code(of_write_back, filters);
        if !self.sides[1].holds(user) {
            self.run_code(of_write_back, filters);
            if of_write_back {
                self.access_of_handler(1, segment, filters);
            }
            self.access_of_handler(1, root, filters);
        }
        self.access_of_handler(1, user, filters);
    }

    fn run_code(&mut self, of_write_back: bool, filters: &mut Filters) {
        for number in 0..self.code[usize::from(of_write_back)].len() {
            self.access_of_handler(FETCH, self.code[usize::from(of_write_back)][number], filters);
        }
    }

    /// Makes an access of a handler. If level 1 misses, the filter forgets the line that leaves level 1.
    #[inline]
    fn access_of_handler(&mut self, side: usize, line: Line, filters: &mut Filters) {
        if self.sides[side].access(line, false) {
            filters.forget_slots(side, &[self.shapes[side].slot_of(line.number())]);
        }
    }
}
