//! `Filters` skip references that a first-level cache need not see: they hit whatever the placement, and
//! change nothing.
//!
//! A set of a first-level cache holds only lines with the same *line number modulo slots*, where slots is the
//! smaller of the cache's sets and the lines of a page, because the frame number decides only upper index
//! bits. So the line accessed last among all lines of one slot is the most recently used line of its set
//! under *every* placement. Another reference to this line hits. The hit leaves the replacement state as it
//! is where the policy says that a repeated hit is neutral; any other policy (SRRIP) must see the first hit
//! after a fill. What remains is the dirty state: a store passes unless the line is known to be dirty, and
//! always passes to a write-through cache.
//!
//! This is exact as long as nothing outside takes a line out of the cache. So filters are off above an
//! inclusive cache, and the lines of an evicted page are not trusted (see [`super::residency`]). Where a
//! unit may access a cache between two rows, the slots of the lines that it may touch are forgotten (see
//! [`super::occasions`]). A hashed index can put any line into any set: it has one slot. Accesses of walks are
//! skipped by the same rule (see [`walks`]).

mod skipped;
mod sleep;
mod walks;

use std::ops::Range;

use binhop_base::{MappingId, PowerOfTwo};
use binhop_hw::{CacheConfig, IndexBy, WritePolicy};
use binhop_trace::EventBatch;

pub(super) use skipped::{Skipped, SkippedPages};
use sleep::PagePlaces;
pub(super) use walks::WalkAccess;

const DIRTY: u64 = 1;
/// The bit of a tag whose line may hit without its cache: the cache has seen a hit since the fill, or need not see a
/// hit.
const REHIT: u64 = 2;
const EMPTY: u64 = u64::MAX;
/// A bit that no tag of a reference's line has, because a line number has at most 61 bits.
const NO_LINE: u64 = 1 << 63;

/// The mapping of a slot that no line has taken. No mapping has this number.
const NO_MAPPING: u32 = u32::MAX;

/// The number of slots beyond which a page's lines share slots: more slots would not stay in the host's
/// caches.
const MOST_SETS: u64 = 1 << 12;

/// `Shape` is what a filter knows of the first-level cache whose references it skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The logarithm of the bytes of a line.
    pub(crate) line_log2: u32,
    slots: u64,
    /// True if the cache must see the first hit after a fill (SRRIP).
    needs_first_hit: bool,
    write_back: bool,
    allocate: bool,
}

impl Shape {
    /// Makes the shape of a cache that writes back and allocates.
    #[cfg(test)]
    pub(super) fn of_slots(line_log2: u32, slots: u64) -> Self {
        Self { line_log2, slots, needs_first_hit: false, write_back: true, allocate: true }
    }

    /// Returns the slots into which line `line` of a page of `in_page` lines may fall, whatever the page.
    pub(super) fn slots_of(&self, line: u64, in_page: u64) -> impl Iterator<Item = u32> + use<> {
        let first = line & (self.slots - 1) & (in_page - 1);
        (first..self.slots).step_by(in_page as usize).map(|slot| slot as u32)
    }

    /// Returns whether each set of a cache of so many sets has a slot of its own.
    pub(super) fn has_slots(&self, sets: u64) -> bool {
        self.slots == sets
    }

    /// Returns the slot of a virtual line.
    pub(super) fn slot_of(&self, line: u64) -> u32 {
        (line & (self.slots - 1)) as u32
    }

    /// Makes the shape of a cache of a machine with pages of `page` bytes. Where physical = virtual
    /// (`identity`), and where the virtual address that is referenced chooses the set, no frame number decides
    /// anything, and each set is a slot.
    pub(crate) fn of(cache: &CacheConfig, page: PowerOfTwo, identity: bool) -> Self {
        let lines_per_page = page.bytes() >> cache.line.log2();
        let sure = if identity || cache.index == IndexBy::Virtual {
            lines_per_page.max(MOST_SETS)
        } else {
            lines_per_page
        };
        Self {
            line_log2: cache.line.log2(),
            slots: if cache.hashed { 1 } else { sure.min(cache.sets()) },
            needs_first_hit: !cache.rehit_is_neutral(),
            write_back: cache.write == WritePolicy::Back,
            allocate: cache.allocate,
        }
    }
}

/// `Table` says where the slots of one port lie, and how the port's cache writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Table {
    base: usize,
    mask: u64,
    line_log2: u32,
    /// The bits that a new line starts with: SRRIP must still see a first hit.
    fresh: u64,
    write_back: bool,
    allocate: bool,
    /// A line whose last access is before this time is not trusted.
    trusted: u64,
}

/// `Filters` are direct-mapped tables of the lines accessed last, one table for each first-level cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filters {
    slots: Vec<Slot>,
    /// For each slot, the mapping of its line.
    ids: Vec<u32>,
    /// For each slot that is asleep, the time of the last access; 0 for each other slot. See [`sleep`].
    asleep: Vec<u64>,
    /// The slots of each page, if slots sleep.
    places: Option<PagePlaces>,
    /// For each slot whose line was accessed last by a walk, the tag of the line before, if a walk accessed it, too;
    /// otherwise 0.
    before: Vec<u64>,
    /// The tables of instructions and of data; the same table, where one cache serves both.
    ports: [Table; 2],
    ways: [Way; 4],
    /// True if slots and lines are the same for instructions and for data.
    same_slots: bool,
    /// True if preparation needs the times of skipped accesses.
    timed: bool,
}

/// `Slot` is what a filter knows of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// The virtual line number of the line accessed last × 4, plus [`DIRTY`] and [`REHIT`].
    tag: u64,
    /// The time of the last access, or 0 if the slot is asleep. The time is exact only where `timed`.
    time: u64,
}

/// `Way` is what an operation requires of its port so that its row is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    base: usize,
    mask: u64,
    line_log2: u32,
    trusted: u64,
    /// The bits of a tag that may have either value: a read does not depend on whether its line is dirty.
    either: u64,
    /// The accesses of a line: a modify makes two.
    accesses: u64,
}

/// `Columns` are some rows of a batch; all columns have the same length.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) op: &'a [u8],
    pub(super) addr: &'a [u64],
    pub(super) size: &'a [u32],
    pub(super) count: &'a [u32],
}

impl<'a> Columns<'a> {
    /// Returns the columns of these rows of a batch.
    pub(super) fn of(batch: &'a EventBatch, rows: Range<usize>) -> Self {
        Self {
            op: &batch.op()[rows.clone()],
            addr: &batch.addr()[rows.clone()],
            size: &batch.size()[rows.clone()],
            count: &batch.count()[rows],
        }
    }

    /// Returns the columns of some of the rows.
    #[inline]
    pub(super) fn part(self, rows: Range<usize>) -> Self {
        Self {
            op: &self.op[rows.clone()],
            addr: &self.addr[rows.clone()],
            size: &self.size[rows.clone()],
            count: &self.count[rows],
        }
    }
}

/// `SlotLine` is what a filter knows of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotLine {
    /// Nothing.
    Unknown,
    /// This line was accessed last in the slot. Something else may have removed it since.
    Last(u64),
    /// The cache holds this line, which was accessed last.
    Held(u64),
}

/// Returns the first and the last line of a reference. An address that wraps lies on other lines than the
/// last lines of memory.
#[inline]
pub(super) fn lines(addr: u64, size: u32, line_log2: u32) -> (u64, u64) {
    (addr >> line_log2, addr.wrapping_add(u64::from(size.max(1) - 1)) >> line_log2)
}

impl Filters {
    /// Makes the filters beside caches of these shapes, for instructions and for data; one filter, if the
    /// caches are not `split`. `timed` says whether preparation needs the times of skipped accesses.
    pub(crate) fn new(shapes: [Shape; 2], split: bool, timed: bool) -> Self {
        let table = |shape: Shape, base: u64| Table {
            base: base as usize,
            mask: shape.slots - 1,
            line_log2: shape.line_log2,
            fresh: if shape.needs_first_hit { 0 } else { REHIT },
            write_back: shape.write_back,
            allocate: shape.allocate,
            trusted: u64::MAX,
        };
        let fetch = table(shapes[0], 0);
        let data = if split { table(shapes[1], shapes[0].slots) } else { fetch };
        let slots = data.base + data.mask as usize + 1;
        let way = |Table { base, mask, line_log2, .. }: Table, either, accesses| Way {
            base,
            mask,
            line_log2,
            trusted: u64::MAX,
            either,
            accesses,
        };
        Self {
            slots: vec![Slot { tag: EMPTY, time: 0 }; slots],
            ids: vec![NO_MAPPING; slots],
            asleep: vec![0; slots],
            places: None,
            before: vec![0; slots],
            ports: [fetch, data],
            // By the code of the operation: fetch, load, store, modify.
            ways: [way(fetch, DIRTY, 1), way(data, DIRTY, 1), way(data, 0, 1), way(data, 0, 2)],
            same_slots: (fetch.mask, fetch.line_log2) == (data.mask, data.line_log2),
            timed,
        }
    }

    /// Sets the times, for instructions and for data, before which lines are not trusted.
    pub(crate) fn trust(&mut self, since: [u64; 2]) {
        for (port, trusted) in self.ports.iter_mut().zip(since) {
            port.trusted = trusted;
        }
        for (op, Way { trusted, either, .. }) in self.ways.iter_mut().enumerate() {
            *trusted = since[usize::from(op > 0)];
            // If no line of a port is trusted, no tag matches the lines of the port.
            *either = *either & DIRTY | if *trusted == u64::MAX { NO_LINE } else { 0 };
        }
    }

    /// Skips rows as long as all their accesses may be skipped, notes when their lines were accessed, and
    /// moves the clock on: by one for each access, if preparation needs times. Returns the number of rows
    /// skipped. The function stops at the latest at a row that is no reference, and at a row that touches
    /// more than one line, or more than two lines in a run of instructions. `runs` says whether the columns
    /// hold such runs.
    ///
    /// A row is skipped only if `pages` says that its page needs no look-up.
    #[inline(always)]
    pub(super) fn skip<P: SkippedPages>(
        &mut self,
        columns: Columns<'_>,
        runs: bool,
        clock: &mut u64,
        pages: &mut P,
    ) -> usize {
        match (self.timed, runs, self.same_slots) {
            (false, false, true) => self.skip_by::<false, false, true, P>(columns, clock, pages),
            (false, false, false) => self.skip_by::<false, false, false, P>(columns, clock, pages),
            (false, true, _) => self.skip_by::<false, true, false, P>(columns, clock, pages),
            (true, false, _) => self.skip_by::<true, false, false, P>(columns, clock, pages),
            (true, true, _) => self.skip_by::<true, true, false, P>(columns, clock, pages),
        }
    }

    #[inline(always)]
    fn skip_by<const TIMED: bool, const RUNS: bool, const ALIKE: bool, P: SkippedPages>(
        &mut self,
        columns: Columns<'_>,
        clock: &mut u64,
        pages: &mut P,
    ) -> usize {
        let Columns { op, addr, size, count } = columns;
        let rows = op.len();
        let (addr, size, count) = (&addr[..rows], &size[..rows], &count[..rows]);
        let slots = self.slots.as_mut_slice();
        let ways = &self.ways;
        let (line_log2, mask) = (ways[0].line_log2, ways[0].mask);
        let mut now = *clock;
        let mut row = 0;
        while row < rows {
            let op = usize::from(op[row]);
            let Some(way) = ways.get(op) else { break };
            let (line_log2, mask) = if ALIKE { (line_log2, mask) } else { (way.line_log2, way.mask) };
            // A reference of no byte seems to end before it begins, perhaps on another line. In this
            // case the reference is not skipped.
            let end = addr[row].wrapping_add(u64::from(size[row])).wrapping_sub(1);
            let (first, last) = (addr[row] >> line_log2, end >> line_log2);
            let at = |line: u64| way.base + (line & mask) as usize;
            let sure = |slot: &Slot, line: u64| {
                slot.tag | way.either == line << 2 | (DIRTY | REHIT) && !(TIMED && slot.time < way.trusted)
            };
            let slot = &mut slots[at(first)];
            if !sure(slot, first) {
                break;
            }
            let time = if TIMED { now + 1 } else { now + row as u64 + 1 };
            let reference = Skipped { op, addr: addr[row], time };
            if first != last {
                if !RUNS || last.wrapping_sub(first) > u64::from(op == 0 && count[row] > 1) {
                    break;
                }
                let second = &slots[at(last)];
                if !sure(second, last) || pages.crosses([addr[row], end]) || !pages.translate(reference) {
                    break;
                }
                if TIMED {
                    slots[at(first)].time = now + 1;
                    slots[at(last)].time = now + 2;
                    now += 2;
                }
            } else {
                if !pages.translate(reference) {
                    break;
                }
                if TIMED {
                    now += way.accesses;
                    slot.time = now;
                }
            }
            row += 1;
        }
        // Without times the clock need only move on.
        *clock = if TIMED { now } else { now + row as u64 };
        row
    }

    #[inline]
    fn slot(&self, port: usize, line: u64) -> usize {
        let Table { base, mask, .. } = self.ports[port];
        base + (line & mask) as usize
    }

    #[inline(always)]
    fn drops_if(&mut self, port: usize, line: u64, either: u64, now: u64) -> bool {
        let Table { base, mask, trusted, .. } = self.ports[port];
        let slot = &mut self.slots[base + (line & mask) as usize];
        let sure = slot.tag | either == line << 2 | (DIRTY | REHIT) && slot.time >= trusted;
        if sure && self.timed {
            slot.time = now;
        }
        sure
    }

    /// Skips a read of this line if that is exact, and notes the time. Returns true if the read was skipped.
    #[inline(always)]
    pub(crate) fn drops_read(&mut self, port: usize, line: u64, now: u64) -> bool {
        self.drops_if(port, line, DIRTY, now)
    }

    /// Skips a store to this line if that is exact, and notes the time. Returns true if the store was
    /// skipped.
    #[inline(always)]
    pub(crate) fn drops_store(&mut self, port: usize, line: u64, now: u64) -> bool {
        self.drops_if(port, line, 0, now)
    }

    /// Skips a store to this line, or a read of it, if that is exact, and notes the time. Returns true if the
    /// access was skipped.
    #[inline(always)]
    pub(crate) fn drops(&mut self, port: usize, line: u64, store: bool, now: u64) -> bool {
        if store { self.drops_store(port, line, now) } else { self.drops_read(port, line, now) }
    }

    /// Returns what is known of a line's slot.
    #[inline]
    pub(super) fn slot_line(&self, port: usize, line: u64) -> SlotLine {
        let slot = &self.slots[self.slot(port, line)];
        match slot.tag {
            EMPTY => SlotLine::Unknown,
            tag if slot.time >= self.ports[port].trusted => SlotLine::Held(tag >> 2),
            tag => SlotLine::Last(tag >> 2),
        }
    }

    /// Returns the mapping of the line in this line's slot.
    #[inline]
    pub(crate) fn mapping_of(&self, port: usize, line: u64) -> MappingId {
        MappingId(self.ids[self.slot(port, line)])
    }

    /// Notes that a reference passes: its line is from now on the line of its slot. Returns the mapping that
    /// leaves the slot and the time of its last access, if the mapping differs and preparation needs times.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        port: usize,
        line: u64,
        id: u32,
        store: bool,
        now: u64,
    ) -> Option<(u32, u64)> {
        let Table { base, mask, fresh, write_back, allocate, trusted, .. } = self.ports[port];
        let place = base + (line & mask) as usize;
        let slot = &mut self.slots[place];
        let Slot { tag, mut time } = *slot;
        if time == 0 {
            time = std::mem::take(&mut self.asleep[place]);
        }
        let held = std::mem::replace(&mut self.ids[place], id);
        if held != id
            && let Some(places) = &mut self.places
        {
            places.add(port, (line & mask) as u32, id);
        }
        let known = tag != EMPTY && tag >> 2 == line && held == id && time >= trusted;
        let left = (self.timed && time > 0 && held != id).then_some((held, time));
        slot.time = now;
        slot.tag = if !store {
            line << 2 | if known { tag & DIRTY | REHIT } else { fresh }
        } else if known {
            line << 2 | REHIT | (tag & DIRTY) | u64::from(write_back)
        } else if allocate {
            line << 2 | fresh | u64::from(write_back)
        } else {
            // If the store hit, its line is the most recent line; if it missed, its line is absent.
            EMPTY
        };
        left
    }

    /// Forgets every line, because the address space or its mappings change. Times stay.
    pub(crate) fn forget(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.tag = EMPTY);
    }

    /// Forgets the lines of these slots of a port. Times stay.
    pub(crate) fn forget_slots(&mut self, port: usize, slots: &[u32]) {
        for &slot in slots {
            self.slots[self.ports[port].base + slot as usize].tag = EMPTY;
        }
    }

    /// Forgets these lines, where they are the last lines of their slots. Times stay.
    pub(super) fn forget_lines(&mut self, port: usize, lines: Range<u64>) {
        for line in lines {
            let slot = self.slot(port, line);
            if self.slots[slot].tag >> 2 == line {
                self.slots[slot].tag = EMPTY;
            }
        }
    }

    /// Forgets the line in the slot of a line. Times stay.
    pub(crate) fn forget_line(&mut self, port: usize, line: u64) {
        let slot = self.slot(port, line);
        self.slots[slot].tag = EMPTY;
    }

    /// Returns the mapping and the time of the last access of every slot that was accessed after `time`.
    pub(crate) fn accesses_since(&self, time: u64) -> impl Iterator<Item = (MappingId, u64)> {
        debug_assert!(self.timed);
        let times = self.slots.iter().zip(&self.asleep).map(|(slot, &asleep)| slot.time.max(asleep));
        times.zip(&self.ids).filter(move |&(last, _)| last > time).map(|(last, &id)| (MappingId(id), last))
    }
}

#[cfg(test)]
mod tests;
