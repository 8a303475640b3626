//! A witness is told what an access does on its way: the level that served it, the misses, and the lines that came and
//! left.

use binhop_base::{Kind, LineAddr};

/// A level of the memory system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A cache, by its index in the tree.
    Cache(usize),
    /// Memory.
    Memory,
}

/// The reason why a line left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemovalCause {
    /// Another line needed the way.
    Evicted,
    /// An inclusive cache behind lost the line that covers it.
    Invalidated,
    /// A flush or an invalidation from outside removed the line.
    Flushed,
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedLine {
    /// The cache, by its index in the tree.
    pub cache: usize,
    /// The line, in lines of that cache: of a mapping if the cache has a virtual tag, otherwise of a page.
    pub at: LineAddr,
    /// True if it held data that the level behind did not. An evicted line of an inclusive cache has the data of the
    /// lines it covers, which were invalidated just before.
    pub dirty: bool,
    /// The reason why the line left.
    pub cause: RemovalCause,
}

/// A demand miss of a cache.
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
    /// This level served the access, or the data of a store. Only the first call for an access counts: a store that
    /// reads its line from one level passes its data down to further levels.
    #[inline(always)]
    fn served(&mut self, _by: Level) {}

    /// A cache counted a demand miss of an agent other than `prefetch`. The miss is told before everything that follows
    /// from it.
    #[inline(always)]
    fn missed(&mut self, _line: MissedLine) {}

    /// A line came into a cache, by its index in the tree. `_at` names the line as [`RemovedLine::at`] does. With
    /// `before-fill` the line's victim is told before the line, with `after-fill` behind it.
    #[inline(always)]
    fn filled(&mut self, _cache: usize, _at: LineAddr) {}

    /// A line left a cache. The lines that leave for one other line, or in one flush, come in no particular order.
    #[inline(always)]
    fn removed(&mut self, _line: RemovedLine) {}

    /// A write buffer was full, and the processor waits so many cycles for it.
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
