//! What travels between the levels.

use binhop_base::{Agent, Kind, LineAddr};

use crate::Witness;

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
