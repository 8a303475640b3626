//! A witness is told what an access does on its way: which level served it, and which lines left.

use binhop_base::LineAddr;

/// A level of the memory system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A cache, by its index in the tree.
    Cache(usize),
    /// Memory.
    Memory,
}

/// Why a line left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalCause {
    /// Another line needed the room.
    Evicted,
    /// An inclusive cache behind lost the line that covers it.
    Invalidated,
    /// It was taken out from outside: its frame changes hands, or someone invalidates the line.
    Purged,
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedLine {
    /// The cache, by its index in the tree.
    pub cache: usize,
    /// The line, in lines of that cache: of a mapping if the cache is tagged by address space, otherwise of a page.
    pub at: LineAddr,
    /// Whether it held data that the level behind did not. An evicted line of an inclusive cache has the data of the
    /// lines it covers, which were invalidated just before.
    pub dirty: bool,
    /// Why it left.
    pub cause: RemovalCause,
}

/// A `Witness` is told what an access does on its way, in the order in which it happens. `()` does not want to know, and
/// costs nothing.
pub trait Witness {
    /// The access, or a store's data, was served by this level. Only the first word of an access counts: a store that
    /// read its line from one level passes its data down to others.
    #[inline(always)]
    fn served(&mut self, _by: Level) {}

    /// A line left a cache. Among the lines that left for one other (or one purge), no order is promised.
    #[inline(always)]
    fn removed(&mut self, _line: RemovedLine) {}
}

impl Witness for () {}

/// The list of what left, in order.
impl Witness for Vec<RemovedLine> {
    #[inline]
    fn removed(&mut self, line: RemovedLine) {
        self.push(line);
    }
}
