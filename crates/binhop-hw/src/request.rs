//! What the caches are asked: by the processor, by the levels above, and from outside; and the answer to an access.

use std::ops::Range;

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, PowerOfTwo};

use crate::{Level, Witness};

/// The [`Request::to`] of memory.
pub const MEMORY: u8 = u8::MAX;

/// The [`Request::data`] of a store's bytes: some part of a line.
pub const PART: u8 = u8::MAX;

/// One request of a cache to the level behind it. Twelve bytes, because a front that many placements
/// share stores millions of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Request {
    /// The line, in lines of the size that `origin` tells. A page's line when the cache asked takes pages, and always at memory.
    pub at: LineAddr,
    /// The cache that is asked, by its index in the tree, or [`MEMORY`].
    pub to: u8,
    /// Why.
    pub kind: Kind,
    /// On whose behalf, and in lines of which size.
    pub origin: Origin,
    /// Logarithm of the bytes asked or carried, or [`PART`].
    pub data: u8,
}

/// On whose behalf a request is made, and the bytes of the lines in which it names its line: those of the cache asked;
/// at memory, those of whoever asks. Both in one byte, which no loop over the user's requests looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u8);

impl Origin {
    const UNIT_BITS: u32 = 5;
    /// Logarithm of the bytes of the longest line.
    pub(crate) const LONGEST: u32 = (1 << Self::UNIT_BITS) - 1;

    /// Lines of two to the power of `unit` bytes.
    #[inline(always)]
    #[must_use]
    pub const fn new(agent: Agent, unit: u8) -> Self {
        debug_assert!(unit as u32 <= Self::LONGEST);
        Self((agent as u8) << Self::UNIT_BITS | unit)
    }

    /// The agent whose access caused the request.
    #[inline(always)]
    #[must_use]
    pub const fn agent(self) -> Agent {
        // The user's comes first by far: a branch that is predicted costs less than a table.
        let number = self.0 >> Self::UNIT_BITS;
        if number == Agent::User as u8 { Agent::User } else { Agent::ALL[number as usize] }
    }

    /// Logarithm of the bytes of a line.
    #[inline(always)]
    #[must_use]
    pub const fn unit(self) -> u8 {
        self.0 & Self::LONGEST as u8
    }
}

const _: () = assert!(Agent::ALL.len() << Origin::UNIT_BITS <= 1 << u8::BITS);
const _: () = assert!(size_of::<Request>() == 12);

/// Whether a request brings data, and so leaves its line dirty.
pub(crate) const fn is_data(kind: Kind) -> bool {
    matches!(kind, Kind::Write | Kind::Writeback)
}

/// The levels behind: where the requests of a front go. It is also told what happens on the way, as a
/// [`Witness`]: most of those behind do not want to know.
pub trait Below: Witness {
    /// Handles a request made at cycle `now`; returns the cycles the processor waits for it.
    fn request(&mut self, request: Request, now: u64) -> u64;
}

impl Witness for Vec<Request> {}

/// The recorder. It keeps no time: of use only where no count depends on it (no write buffer).
impl Below for Vec<Request> {
    #[inline]
    fn request(&mut self, request: Request, _now: u64) -> u64 {
        self.push(request);
        0
    }
}

/// One access of a block: what it asks of the cache that serves its kind.
pub trait Access: Copy {
    /// Fetch, load or store.
    fn kind(self) -> Kind;
    /// The line: a mapping's, in lines of the cache that serves the kind.
    fn at(self) -> LineAddr;
    /// Whether the access after it is the rest of the same reference: only under cachegrind's rules, where a
    /// reference that straddles two lines is one access.
    fn goes_on(self) -> bool {
        false
    }
}

impl Access for (Kind, LineAddr) {
    #[inline]
    fn kind(self) -> Kind {
        self.0
    }
    #[inline]
    fn at(self) -> LineAddr {
        self.1
    }
}

/// `DirtyData` decides about the data of dirty lines that are taken out of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyData {
    /// It goes to memory, as accesses of kind `system`.
    WriteBack,
    /// Nobody wants it: the same bytes are being overwritten in memory. A line that also holds other bytes is written
    /// back all the same.
    Discard,
}

/// Lines that are taken out of all caches from outside.
#[derive(Clone, Debug)]
pub struct Invalidation<'a> {
    /// The page they belong to.
    pub page: PageId,
    /// Every mapping that has led to the page since its last purge.
    pub mappings: &'a [MappingId],
    /// The bytes of the page. Every line that holds one of them leaves; above an inclusive cache, all that its line
    /// covers.
    pub bytes: Range<u64>,
    /// The treatment of dirty lines.
    pub data: DirtyData,
}

impl<'a> Invalidation<'a> {
    /// All lines of a page, whose frame changes hands.
    #[must_use]
    pub fn of_page(page: PageId, mappings: &'a [MappingId], size: PowerOfTwo) -> Self {
        Self { page, mappings, bytes: 0..size.bytes(), data: DirtyData::WriteBack }
    }
}

/// `Answer` is the result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Cycles until the access is done, beyond the instruction's own. The processor waits for them if the agent is one
    /// that is waited for.
    pub cycles: u64,
    /// The level that held the line: see *Served by* at the top of `cache/access.rs`.
    pub served: Level,
}
