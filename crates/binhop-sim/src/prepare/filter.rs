//! What a first-level cache need not be asked: references that hit whatever the placement, and change nothing.
//!
//! A set of a first-level cache holds only lines with the same *line number modulo slots*, where slots is
//! the smaller of the cache's sets and the lines of a page: the frame number decides only upper index bits.
//! So the line that was accessed last among all lines of one slot is the most recently used line of its
//! set under *every* placement. Another reference to it hits. It leaves the replacement as it is where the policy says
//! that a repeated hit is neutral; any other (SRRIP) must be told of the first hit after a fill. What
//! remains is the dirty state: a store passes unless the line is already known to be dirty, and always
//! in a write-through cache.
//!
//! Exact as long as nothing takes a line out of the cache from outside: not below an inclusive cache, and
//! an evicted page's lines may not be believed (see [`super::residency`]). Where a unit may access a cache between two rows,
//! the slots of the lines that it may touch are forgotten (see [`super::occasions`]). A hashed index can put any line
//! in any set: one slot remains.

use binhop_base::{MappingId, PowerOfTwo};
use binhop_hw::{CacheConfig, WritePolicy};

const DIRTY: u64 = 1;
const TOLD: u64 = 2;
const EMPTY: u64 = u64::MAX;

/// What a filter must know of the cache it stands beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Logarithm of the bytes of a line.
    pub(crate) line_log2: u32,
    slots: u64,
    /// Whether the cache must be told of the first hit after a fill (SRRIP).
    tells_first_hit: bool,
    write_back: bool,
    allocate: bool,
}

impl Shape {
    /// The slot of a line, by its number.
    pub(super) fn slot(&self, line: u64) -> u32 {
        (line & (self.slots - 1)) as u32
    }

    pub(crate) fn of(cache: &CacheConfig, page: PowerOfTwo) -> Self {
        let lines_per_page = page.bytes() >> cache.line.log2();
        Self {
            line_log2: cache.line.log2(),
            slots: if cache.hashed { 1 } else { lines_per_page.min(cache.sets()) },
            tells_first_hit: !cache.rehit_is_neutral(),
            write_back: cache.write == WritePolicy::Back,
            allocate: cache.allocate,
        }
    }
}

/// One direct-mapped table of the lines last accessed, beside one first-level cache.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    /// Virtual line number of each slot's last line × 4, plus [`DIRTY`] and [`TOLD`].
    tags: Vec<u64>,
    /// When each slot's line was last accessed.
    times: Vec<u64>,
    /// The mapping behind each slot's line.
    ids: Vec<u32>,
    mask: u64,
    /// Bits a new line starts with: SRRIP must still be told of a first hit.
    fresh: u64,
    write_back: bool,
    allocate: bool,
}

impl Filter {
    /// The filter in front of a cache.
    pub(crate) fn new(shape: Shape) -> Self {
        let slots = shape.slots as usize;
        Self {
            tags: vec![EMPTY; slots],
            times: vec![0; slots],
            ids: vec![0; slots],
            mask: shape.slots - 1,
            fresh: if shape.tells_first_hit { 0 } else { TOLD },
            write_back: shape.write_back,
            allocate: shape.allocate,
        }
    }

    /// A filter for nothing, to stand in while the real one is being read.
    pub(crate) const fn none() -> Self {
        Self {
            tags: Vec::new(),
            times: Vec::new(),
            ids: Vec::new(),
            mask: 0,
            fresh: 0,
            write_back: false,
            allocate: false,
        }
    }

    /// Whether a read of this line may be dropped. Notes the time if so. `horizon`: a line not accessed
    /// since then is not believed.
    #[inline(always)]
    pub(crate) fn drops_read(&mut self, line: u64, now: u64, horizon: u64) -> bool {
        let slot = (line & self.mask) as usize;
        let hit = self.tags[slot] | DIRTY == line << 2 | (DIRTY | TOLD) && self.times[slot] >= horizon;
        if hit {
            self.times[slot] = now;
        }
        hit
    }

    /// Whether an access of this line may be dropped: a store, or a read. Notes the time if so.
    #[inline]
    pub(crate) fn drops(&mut self, line: u64, store: bool, now: u64, horizon: u64) -> bool {
        if store { self.drops_store(line, now, horizon) } else { self.drops_read(line, now, horizon) }
    }

    /// The mapping behind the line of this line's slot.
    #[inline]
    pub(crate) fn mapping_of(&self, line: u64) -> MappingId {
        MappingId(self.ids[(line & self.mask) as usize])
    }

    /// Whether a store to this line may be dropped. Notes the time if so.
    #[inline(always)]
    pub(crate) fn drops_store(&mut self, line: u64, now: u64, horizon: u64) -> bool {
        let slot = (line & self.mask) as usize;
        let hit = self.tags[slot] == line << 2 | (DIRTY | TOLD) && self.times[slot] >= horizon;
        if hit {
            self.times[slot] = now;
        }
        hit
    }

    /// A reference passes: its line is from now on its slot's. Returns the mapping that the slot
    /// leaves and when that was last accessed, if it is another one.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        line: u64,
        id: u32,
        store: bool,
        now: u64,
        horizon: u64,
    ) -> Option<(u32, u64)> {
        let slot = (line & self.mask) as usize;
        let (tag, time) = (self.tags[slot], self.times[slot]);
        let known = tag != EMPTY && tag >> 2 == line && self.ids[slot] == id && time >= horizon;
        let left = (time > 0 && self.ids[slot] != id).then(|| (self.ids[slot], time));
        self.times[slot] = now;
        self.ids[slot] = id;
        self.tags[slot] = if !store {
            line << 2 | if known { tag & DIRTY | TOLD } else { self.fresh }
        } else if known {
            line << 2 | TOLD | (tag & DIRTY) | u64::from(self.write_back)
        } else if self.allocate {
            line << 2 | self.fresh | u64::from(self.write_back)
        } else {
            // The store may have hit, and then its line is the most recent; or not, and then it is absent.
            EMPTY
        };
        left
    }

    /// Believes no line any more (the address space changes, or the mappings do). Times stay.
    pub(crate) fn forget(&mut self) {
        self.tags.fill(EMPTY);
    }

    /// Believes the lines of these slots no more. Times stay.
    pub(crate) fn forget_slots(&mut self, slots: &[u32]) {
        for &slot in slots {
            self.tags[slot as usize] = EMPTY;
        }
    }

    /// Every slot's mapping and the time of its last access, for slots that were ever used.
    pub(crate) fn last_accesses(&self) -> impl Iterator<Item = (u32, u64)> {
        self.ids.iter().copied().zip(self.times.iter().copied()).filter(|(_, time)| *time > 0)
    }
}
