//! `Cachegrind` counts by cachegrind's rules, in cachegrind's terms: references have an address and a size. Each of
//! three caches is a list of lines with the time of their last use.

use std::collections::{BTreeMap, BTreeSet};

/// `Level` is one cache.
#[derive(Clone, Debug)]
pub struct Level {
    /// Bytes of a line.
    pub line: u64,
    /// Number of sets.
    pub sets: u64,
    /// Lines of a set.
    pub ways: usize,
    /// The lines, by number, each with the time of its last use.
    pub lines: Vec<(u64, u64)>,
    /// The lines that were ever brought in.
    pub seen: BTreeSet<u64>,
    /// `accesses`, `misses`, `compulsory` of `fetch`, `load`, `store`.
    pub counts: BTreeMap<(&'static str, &'static str), u64>,
    /// Lines brought in.
    pub fills: u64,
    /// Lines evicted.
    pub evictions: u64,
    time: u64,
}

impl Level {
    /// Makes an empty cache.
    #[must_use]
    pub fn new(line: u64, sets: u64, ways: usize) -> Self {
        let (lines, seen, counts) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
        Self { line, sets, ways, lines, seen, counts, fills: 0, evictions: 0, time: 0 }
    }

    /// Returns a count; 0 if nothing was counted.
    #[must_use]
    pub fn count(&self, what: &'static str, kind: &'static str) -> u64 {
        self.counts.get(&(what, kind)).copied().unwrap_or(0)
    }

    /// Returns the lines of a set, the line used last first.
    #[must_use]
    pub fn set(&self, set: u64) -> Vec<u64> {
        let mut lines: Vec<_> = self.lines.iter().filter(|(line, _)| line % self.sets == set).collect();
        lines.sort_by_key(|(_, used)| std::cmp::Reverse(*used));
        lines.into_iter().map(|(line, _)| *line).collect()
    }

    /// Asks for bytes `first` to `last`. Returns whether a line of these bytes was absent.
    fn asked(&mut self, kind: &'static str, first: u64, last: u64) -> bool {
        let (mut absent, mut new) = (false, false);
        for line in first / self.line..=last / self.line {
            self.time += 1;
            let was_here = self.lines.iter_mut().find(|(held, _)| *held == line);
            if let Some((_, used)) = was_here {
                *used = self.time;
                continue;
            }
            absent = true;
            new |= self.seen.insert(line);
            if let (true, Some(oldest)) =
                (self.set(line % self.sets).len() == self.ways, self.set(line % self.sets).last())
            {
                self.lines.retain(|(held, _)| held != oldest);
                self.evictions += 1;
            }
            self.lines.push((line, self.time));
            self.fills += 1;
        }
        for (what, is) in [("accesses", true), ("misses", absent), ("compulsory", new)] {
            *self.counts.entry((what, kind)).or_default() += u64::from(is);
        }
        absent
    }
}

/// `Cachegrind` holds the three caches.
#[derive(Clone, Debug)]
pub struct Cachegrind {
    /// The first level for instructions.
    pub i1: Level,
    /// The first level for data.
    pub d1: Level,
    /// The cache behind both first levels.
    pub ll: Level,
}

impl Cachegrind {
    /// Executes one instruction of `size` bytes.
    pub fn instruction(&mut self, address: u64, size: u64) {
        let last = self.last(address, size);
        if self.i1.asked("fetch", address, last) {
            self.ll.asked("fetch", address, last);
        }
    }

    /// Reads data, even if the same instruction then writes the data.
    pub fn read(&mut self, address: u64, size: u64) {
        self.data("load", address, size);
    }

    /// Writes data.
    pub fn write(&mut self, address: u64, size: u64) {
        self.data("store", address, size);
    }

    fn data(&mut self, kind: &'static str, address: u64, size: u64) {
        let last = self.last(address, size);
        if self.d1.asked(kind, address, last) {
            self.ll.asked(kind, address, last);
        }
    }

    /// Returns the last byte of a reference, after the reference is cut to the size of the smallest line.
    fn last(&self, address: u64, size: u64) -> u64 {
        let most = self.i1.line.min(self.d1.line).min(self.ll.line);
        address.saturating_add(size.clamp(1, most) - 1)
    }

    /// Returns cachegrind's counts Ir, I1mr, ILmr, Dr, D1mr, DLmr, Dw, D1mw, DLmw.
    #[must_use]
    pub fn nine(&self) -> [u64; 9] {
        let mut nine = Vec::new();
        for (first, kind) in [(&self.i1, "fetch"), (&self.d1, "load"), (&self.d1, "store")] {
            nine.extend([
                first.count("accesses", kind),
                first.count("misses", kind),
                self.ll.count("misses", kind),
            ]);
        }
        nine.try_into().expect("three of each kind")
    }
}
