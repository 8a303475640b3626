//! This file has the types of what the processor, the levels above and agents from outside ask of caches, and of
//! the answer to an access.

use std::ops::Range;

use binhop_base::{Agent, Kind, LineAddr, MappingId, PageId, PowerOfTwo};

use crate::{Level, Witness};

/// The [`Request::to`] of memory.
pub const MEMORY: u8 = u8::MAX;

/// The [`Request::data`] of a store's bytes: some part of a line.
pub const PART: u8 = u8::MAX;

/// `Request` is one request of a cache to the level behind it. It takes twelve bytes, because a front that many
/// placements share stores millions of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Request {
    /// The line, in lines of the size that `origin` tells. At memory, and at a cache that takes pages, it is the
    /// line of a page.
    pub at: LineAddr,
    /// The cache that is asked, by its index in the tree, or [`MEMORY`].
    pub to: u8,
    /// The kind of access that the request is at the level asked.
    pub kind: Kind,
    /// The agent that caused the request, and the size of the lines that `at` counts.
    pub origin: Origin,
    /// The logarithm of the number of bytes asked for or carried, or [`PART`].
    pub data: u8,
}

/// `Origin` holds the agent that caused a request, and the size of the lines in which the request names its line: the
/// size at the cache asked or, at memory, the size at the cache that asks. Both take one byte, which no loop looks at
/// where the user alone makes accesses. The byte also says whether the user's access came after a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u8);

impl Origin {
    const UNIT_BITS: u32 = 5;
    /// The number of the user's accesses after walks, which no agent has.
    const AFTER_WALK: u8 = (1 << (u8::BITS - Self::UNIT_BITS)) - 1;
    /// The logarithm of the number of bytes in the longest line.
    pub(crate) const LONGEST: u32 = (1 << Self::UNIT_BITS) - 1;

    /// Makes the origin of an agent's request in lines of 2^`unit` bytes.
    #[inline(always)]
    #[must_use]
    pub const fn new(agent: Agent, unit: u8) -> Self {
        debug_assert!(unit as u32 <= Self::LONGEST);
        Self((agent as u8) << Self::UNIT_BITS | unit)
    }

    /// Returns the agent whose access caused the request.
    #[inline(always)]
    #[must_use]
    pub const fn agent(self) -> Agent {
        // Nearly all requests are the user's: a branch that is predicted costs less than a table.
        let number = self.0 >> Self::UNIT_BITS;
        if number == Agent::User as u8 || number == Self::AFTER_WALK {
            Agent::User
        } else {
            Agent::ALL[number as usize]
        }
    }

    /// Returns the origin of a request that the user's access after a walk has caused.
    #[inline(always)]
    #[must_use]
    pub const fn after_walk(self) -> Self {
        Self(Self::AFTER_WALK << Self::UNIT_BITS | self.unit())
    }

    /// Returns whether the user's access after a walk has caused the request.
    #[inline(always)]
    #[must_use]
    pub const fn is_after_walk(self) -> bool {
        self.0 >> Self::UNIT_BITS == Self::AFTER_WALK
    }

    /// Returns 0 for the user, 1 for another agent, and 2 for the user's access after a walk.
    #[inline(always)]
    pub(crate) const fn class(self) -> usize {
        let number = self.0 >> Self::UNIT_BITS;
        (number != Agent::User as u8) as usize + (number == Self::AFTER_WALK) as usize
    }

    /// Returns the logarithm of the number of bytes in a line.
    #[inline(always)]
    #[must_use]
    pub const fn unit(self) -> u8 {
        self.0 & Self::LONGEST as u8
    }
}

const _: () = assert!(Agent::ALL.len() <= Origin::AFTER_WALK as usize);
const _: () = assert!(size_of::<Request>() == 12);

/// Returns whether a request brings data, and so leaves its line dirty.
#[inline(always)]
pub(crate) const fn is_data(kind: Kind) -> bool {
    matches!(kind, Kind::Write | Kind::Writeback)
}

/// `Below` handles the requests of a front. As a [`Witness`] it is also told what happens on the way; most
/// implementations ignore that.
pub trait Below: Witness {
    /// Handles a request made at cycle `now`. Returns the cycles that the processor waits for the request.
    fn request(&mut self, request: Request, now: u64) -> u64;

    /// Notes that a front makes an access after a walk next ([`Access::is_after_walk`]).
    fn begin_after_walk(&mut self) {}

    /// Notes that a front has made `accesses` accesses of a kind after walks, which have all missed, or have all hit.
    /// An access that missed is reported by itself, just behind its requests.
    fn end_after_walk(&mut self, _kind: Kind, _missed: bool, _accesses: u64) {}
}

impl Witness for Vec<Request> {}

/// A vector records requests without their cycles. That suffices for trees without write buffers.
impl Below for Vec<Request> {
    #[inline]
    fn request(&mut self, request: Request, _now: u64) -> u64 {
        self.push(request);
        0
    }
}

/// `Access` is one access of a block, at the cache that serves its kind.
pub trait Access: Copy {
    /// Returns the kind: fetch, load or store.
    fn kind(self) -> Kind;
    /// Returns the line of a mapping, in lines of the cache that serves the kind.
    fn at(self) -> LineAddr;
    /// Returns whether the next access is the rest of the same reference. It is so only under cachegrind's rules,
    /// where a reference that straddles two lines is one access.
    fn goes_on(self) -> bool {
        false
    }
    /// Returns the agent that makes the access. Only the user makes stores.
    #[inline(always)]
    fn agent(self) -> Agent {
        Agent::User
    }
    /// Returns whether the user makes the access after a walk. Then it is told which accesses miss.
    #[inline(always)]
    fn is_after_walk(self) -> bool {
        false
    }
    /// Returns whether another agent makes the access, or the user makes it after a walk.
    #[inline(always)]
    fn is_marked(self) -> bool {
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

/// `DirtyData` decides about dirty lines, and their data, when lines are taken out of caches from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyData {
    /// The data goes to memory, as accesses of kind `system`.
    WriteBack,
    /// The data is dropped: the same bytes are being overwritten in memory. A line that also holds other bytes is
    /// written back all the same.
    Discard,
    /// The data goes to memory, as accesses of kind `system`, and the lines stay where they are. Dirty lines become
    /// clean. A device that reads memory asks for this.
    Clean,
}

/// `Invalidation` names lines that are taken out of all caches from outside, or cleaned in all caches.
#[derive(Clone, Debug)]
pub struct Invalidation<'a> {
    /// The page that the lines belong to.
    pub page: PageId,
    /// Every mapping that has led to the page since its last flush.
    pub mappings: &'a [MappingId],
    /// The bytes of the page that become invalid or clean. Every line that holds one of these bytes leaves or becomes
    /// clean. Above an inclusive cache, all lines that a leaving line covers leave.
    pub bytes: Range<u64>,
    /// The treatment of dirty lines.
    pub data: DirtyData,
}

impl<'a> Invalidation<'a> {
    /// Makes the invalidation of all lines of a page whose frame changes hands.
    #[must_use]
    pub fn of_page(page: PageId, mappings: &'a [MappingId], size: PowerOfTwo) -> Self {
        Self { page, mappings, bytes: 0..size.bytes(), data: DirtyData::WriteBack }
    }
}

/// `Answer` is the result of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Cycles until the access is done, beyond the instruction's own cycle. The processor waits for them if it waits
    /// for the agent ([`Agent::is_waited_for`]).
    pub cycles: u64,
    /// The level that held the line: see *Served by* at the top of `cache/access.rs`.
    pub served: Level,
}
