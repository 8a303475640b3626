//! What travels between the levels.

use binhop_base::{Kind, LineAddr};

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
    /// The line, in units of `unit`. A page's line when the cache asked takes pages, and always at memory.
    pub at: LineAddr,
    /// The cache that is asked, by its index in the tree, or [`MEMORY`].
    pub to: u8,
    /// Why.
    pub kind: Kind,
    /// Logarithm of the bytes of the lines that `at.line` counts: those of the cache asked; at memory,
    /// those of the cache that asks.
    pub unit: u8,
    /// Logarithm of the bytes asked or carried, or [`PART`].
    pub data: u8,
}

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
