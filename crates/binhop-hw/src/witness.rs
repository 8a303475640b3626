//! A `Witness` is told what an access does on its way: the level that served it, the misses, and the lines that
//! came and left.

use std::ops::Range;

use binhop_base::{Kind, LineAddr};

/// `Level` is a level of the memory system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A cache, by its index in the tree.
    Cache(usize),
    /// Memory.
    Memory,
}

/// `RemovalCause` is the reason why a line left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalCause {
    /// Another line needed the way.
    Evicted,
    /// An inclusive cache behind lost the line that covers it.
    Invalidated,
    /// A flush or an invalidation from outside removed the line.
    Flushed,
}

/// `RemovedLine` is a line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedLine {
    /// The cache, by its index in the tree.
    pub cache: usize,
    /// The line, in lines of that cache: of a mapping if the cache has a virtual tag, otherwise of a page.
    pub at: LineAddr,
    /// True if the line held data that the level behind did not have. An evicted line of an inclusive cache has the
    /// data of the lines that it covers, which were invalidated just before.
    pub dirty: bool,
    /// The reason why the line left.
    pub cause: RemovalCause,
}

/// `MissedLine` is the line of a demand miss of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedLine {
    /// The cache, by its index in the tree.
    pub cache: usize,
    /// The line that was not there, named as in [`RemovedLine::at`].
    pub at: LineAddr,
    /// Fetch, load or store.
    pub kind: Kind,
}

/// A `Witness` is told what an access does on its way, in the order in which it happens. The witness `()` ignores
/// everything, and costs nothing.
pub trait Witness {
    /// Learns that this level served the access, or the data of a store. Only the first call for an access counts:
    /// a store that reads its line from one level passes its data down to further levels.
    #[inline(always)]
    fn served(&mut self, _by: Level) {}

    /// Learns that a cache counted a demand miss of an agent other than `prefetch`. The call comes before the calls
    /// for everything that follows from the miss.
    #[inline(always)]
    fn missed(&mut self, _line: MissedLine) {}

    /// Learns that a line came into a cache, by its index in the tree. `_at` names the line as [`RemovedLine::at`]
    /// does. With `before-fill` the call for the line's victim comes before this call, and with `after-fill` it
    /// comes after this call.
    #[inline(always)]
    fn filled(&mut self, _cache: usize, _at: LineAddr) {}

    /// Learns that a line left a cache. Lines that leave for one other line, or in one flush, come in no particular
    /// order.
    #[inline(always)]
    fn removed(&mut self, _line: RemovedLine) {}

    /// Learns that the stream buffers of a cache discarded lines of a mapping or page, which `_id` names as
    /// [`RemovedLine::at`] does. There may be no lines.
    #[inline(always)]
    fn dropped(&mut self, _cache: usize, _id: u32, _lines: Range<u32>) {}

    /// Learns that a write buffer was full, and that the processor waits this number of cycles for it.
    #[inline(always)]
    fn stalled(&mut self, _cycles: u64) {}
}

/// Passes the events about lines on to the witness in the field `witness`.
macro_rules! pass_on_lines {
    () => {
        #[inline]
        fn missed(&mut self, line: $crate::MissedLine) {
            self.witness.missed(line);
        }

        #[inline]
        fn filled(&mut self, cache: usize, at: binhop_base::LineAddr) {
            self.witness.filled(cache, at);
        }

        #[inline]
        fn removed(&mut self, line: $crate::RemovedLine) {
            self.witness.removed(line);
        }

        #[inline]
        fn dropped(&mut self, cache: usize, id: u32, lines: std::ops::Range<u32>) {
            self.witness.dropped(cache, id, lines);
        }

        #[inline]
        fn stalled(&mut self, cycles: u64) {
            self.witness.stalled(cycles);
        }
    };
}
pub(crate) use pass_on_lines;

impl Witness for () {}

/// A vector lists the lines that left, in order.
impl Witness for Vec<RemovedLine> {
    #[inline]
    fn removed(&mut self, line: RemovedLine) {
        self.push(line);
    }
}
