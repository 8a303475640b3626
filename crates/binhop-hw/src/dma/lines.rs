//! `LineArray` is the array of lines of one cache: the last-level cache, or the DMA cache.
//!
//! - A line that comes takes the lowest empty way; only a full set has a victim.
//! - The state of a line changes by a table of `coherence.rs` and by nothing else.

use binhop_base::{Domain, Rng, Stream};

use super::{
    LineAction, LineEvent, LineState, TransitionTable, coherence::transition, counters::LineCounters,
};

/// The line holds data of a device.
pub(super) const DEVICE: u64 = 8;
/// The line was prefetched, and nothing has referenced it since.
pub(super) const PREFETCHED: u64 = 16;

const STATE: u64 = 7;
/// A line number stands above this many bits of an entry.
const LINE_SHIFT: u32 = 5;

/// The bytes of the shortest line. An entry holds every line of this length that has an address of 64 bits: where
/// physical = virtual, the kernel's half lies at the upper end. [`SchemeConfig::check`](super::SchemeConfig::check)
/// refuses shorter lines, whose numbers would lose their upper bits.
pub(super) const LEAST_LINE: u64 = 1 << LINE_SHIFT;

/// The largest line number + 1.
const LINES: u64 = 1 << (64 - LINE_SHIFT);

/// `VictimRule` is the rule that chooses the line of a full set that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VictimRule {
    /// The line is drawn uniformly.
    Random,
    /// The least recently used line leaves.
    Lru,
    /// The least recently used clean line leaves; without a clean line, the least recently used line.
    CleanLru,
}

/// `LineEntry` is a line in its way, by value: the line number, the flags and the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineEntry(u64);

impl LineEntry {
    #[inline]
    pub(super) const fn line(self) -> u64 {
        self.0 >> LINE_SHIFT
    }

    #[inline]
    pub(super) const fn state(self) -> LineState {
        LineState::from_bits(self.0 & STATE)
    }

    #[inline]
    pub(super) const fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
}

#[derive(Clone, Debug)]
pub(super) struct LineArray {
    /// For each set, its ways: line number, flags and state. An empty way is 0.
    entries: Vec<u64>,
    ways: usize,
    set_mask: u64,
    rule: VictimRule,
    /// The time of the last use of each way; empty if the rule is random.
    used: Vec<u64>,
    time: u64,
    rng: Rng,
    /// The number of the cache, in the upper bits of the stream number.
    stream: u64,
    /// The number of random victims that each set has had, and the draw of the next victim. The draw is made when
    /// the last victim leaves, so that nothing waits for it.
    victims: Vec<(u64, u64)>,
    pub(super) counters: LineCounters,
}

impl LineArray {
    /// Makes an empty array. `cache` tells the draws of caches of one machine apart.
    pub(super) fn new(sets: u64, ways: usize, rule: VictimRule, rng: Rng, cache: u64) -> Self {
        let slots = sets as usize * ways;
        let random = rule == VictimRule::Random;
        let stream = cache << 48;
        let first_draw = |set| (0, rng.draw(Stream::new(Domain::Victim, stream | set), 0));
        Self {
            entries: vec![0; slots],
            ways,
            set_mask: sets - 1,
            rule,
            used: if random { Vec::new() } else { vec![0; slots] },
            time: 0,
            rng,
            stream,
            victims: if random { (0..sets).map(first_draw).collect() } else { Vec::new() },
            counters: LineCounters::default(),
        }
    }

    pub(super) fn sets(&self) -> usize {
        self.set_mask as usize + 1
    }

    pub(super) fn ways(&self) -> usize {
        self.ways
    }

    /// Returns the slot of a line.
    #[inline]
    pub(super) fn find(&self, line: u64) -> Option<usize> {
        debug_assert!(line < LINES);
        let first = (line & self.set_mask) as usize * self.ways;
        let key = line << LINE_SHIFT;
        // An empty way looks like line 0, without a state.
        let same = |&entry: &u64| (entry ^ key) >> LINE_SHIFT == 0 && entry & STATE != 0;
        self.entries[first..first + self.ways].iter().position(same).map(|way| first + way)
    }

    #[inline]
    pub(super) fn entry(&self, slot: usize) -> LineEntry {
        LineEntry(self.entries[slot])
    }

    /// Notes a use of a line.
    #[inline]
    pub(super) fn touch(&mut self, slot: usize) {
        if self.rule != VictimRule::Random {
            self.time += 1;
            self.used[slot] = self.time;
        }
    }

    /// Sets or clears a flag of a line.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, flag: u64, on: bool) {
        let entry = &mut self.entries[slot];
        *entry = if on { *entry | flag } else { *entry & !flag };
    }

    /// Clears the flag of a prefetched line. Returns whether it was set.
    #[inline]
    pub(super) fn take_prefetched(&mut self, slot: usize) -> bool {
        let was = self.entries[slot] & PREFETCHED != 0;
        self.entries[slot] &= !PREFETCHED;
        was
    }

    /// Changes the state of a line as the table says. A line that becomes invalid leaves by a probe or by a
    /// replacement, and is counted so.
    #[inline]
    pub(super) fn apply(&mut self, slot: usize, table: &TransitionTable, event: LineEvent) -> LineAction {
        let entry = self.entries[slot];
        let (next, action) = self.step(LineEntry(entry).state(), table, event);
        if next == LineState::Invalid {
            self.entries[slot] = 0;
            if event == LineEvent::Replace {
                self.counters.evictions += 1;
            } else {
                self.counters.invalidated += 1;
            }
        } else {
            self.entries[slot] = entry & !STATE | next as u64;
        }
        action
    }

    #[inline]
    fn step(
        &mut self,
        state: LineState,
        table: &TransitionTable,
        event: LineEvent,
    ) -> (LineState, LineAction) {
        let to = transition(table, state, event);
        assert!(to.action != LineAction::Never, "{event:?} of a line that is {state:?}");
        match (state.is_dirty(), to.next.is_dirty()) {
            (false, true) => self.counters.dirtied += 1,
            (true, false) if to.action == LineAction::WriteBack => self.counters.written_back += 1,
            (true, false) => self.counters.passed_on += 1,
            _ => {}
        }
        (to.next, to.action)
    }

    /// Brings in a line that the array does not hold, in one of the lowest `among` ways. Returns the action that
    /// the table names for the new line, and the victim with the action that the table names for the victim.
    #[inline]
    pub(super) fn insert(
        &mut self,
        line: u64,
        flags: u64,
        table: &TransitionTable,
        event: LineEvent,
        among: usize,
    ) -> (LineAction, Option<(LineEntry, LineAction)>) {
        let set = (line & self.set_mask) as usize;
        let first = set * self.ways;
        let empty = self.entries[first..first + among].iter().position(|&entry| entry == 0);
        let (slot, victim) = if let Some(way) = empty {
            (first + way, None)
        } else {
            let slot = first + self.victim(set, among);
            let entry = self.entry(slot);
            // A victim's transitions are the same in both tables, except that IO-ESI has no dirty lines.
            let action = self.apply(slot, &super::IO_MOESI, LineEvent::Replace);
            (slot, Some((entry, action)))
        };
        let (next, action) = self.step(LineState::Invalid, table, event);
        self.counters.fills += 1;
        self.entries[slot] = line << LINE_SHIFT | flags | next as u64;
        self.touch(slot);
        (action, victim)
    }

    fn victim(&mut self, set: usize, among: usize) -> usize {
        let first = set * self.ways;
        match self.rule {
            VictimRule::Random => {
                let (count, draw) = &mut self.victims[set];
                let way = Rng::reduce(*draw, among as u64);
                *count += 1;
                *draw = self.rng.draw(Stream::new(Domain::Victim, self.stream | set as u64), *count);
                way as usize
            }
            VictimRule::Lru => (0..among).min_by_key(|way| self.used[first + way]).unwrap_or(0),
            VictimRule::CleanLru => {
                let order = |way: &usize| {
                    let slot = first + way;
                    (self.entry(slot).state().is_dirty(), self.used[slot])
                };
                (0..among).min_by_key(order).unwrap_or(0)
            }
        }
    }

    /// Takes a line out, because its way is flushed.
    pub(super) fn flush(&mut self, slot: usize) -> LineAction {
        let action = self.apply(slot, &super::IO_MOESI, LineEvent::Replace);
        self.counters.evictions -= 1;
        self.counters.flushed += 1;
        action
    }

    /// Takes a line out, because its frame changes hands.
    pub(super) fn purge(&mut self, slot: usize) -> LineAction {
        let action = self.apply(slot, &super::IO_MOESI, LineEvent::Replace);
        self.counters.evictions -= 1;
        self.counters.purged += 1;
        self.counters.purged_dirty += u64::from(action == LineAction::WriteBack);
        action
    }

    /// Returns every line with its set and way.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, usize, LineEntry)> {
        let ways = self.ways;
        let full = self.entries.iter().enumerate().filter(|&(_, &entry)| entry != 0);
        full.map(move |(slot, &entry)| (slot / ways, slot % ways, LineEntry(entry)))
    }

    /// Gives the array other ways: way `w` continues the way `kept[w]`, or starts empty. The lines of ways that are
    /// not continued must have left.
    pub(super) fn regroup(&mut self, kept: &[Option<usize>]) {
        let (sets, ways) = (self.sets(), kept.len());
        let timed = self.rule != VictimRule::Random;
        let mut entries = vec![0; sets * ways];
        let mut used = vec![0; if timed { sets * ways } else { 0 }];
        for set in 0..sets {
            for (way, &from) in kept.iter().enumerate() {
                let Some(from) = from else { continue };
                entries[set * ways + way] = self.entries[set * self.ways + from];
                if timed {
                    used[set * ways + way] = self.used[set * self.ways + from];
                }
            }
        }
        (self.entries, self.used, self.ways) = (entries, used, ways);
    }
}
