//! `LeftLines` is a witness of what leaves the caches of a lane.

use std::ops::Range;

use binhop_base::LineAddr;
use binhop_hw::{RemovedLine, Witness};

/// `LeftLine` is a line that left a cache or a stream buffer of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftLine {
    /// The cache, by its index in the tree.
    pub(crate) cache: usize,
    /// The line, as the cache's keys name it.
    pub(crate) at: LineAddr,
    /// True if the line was in the cache, and dirty.
    pub(crate) dirty: bool,
    /// True if a stream buffer held the line.
    pub(crate) was_buffered: bool,
}

/// `LeftLines` are the lines that left caches and stream buffers, in order.
#[derive(Debug, Default)]
pub(crate) struct LeftLines(pub(crate) Vec<LeftLine>);

impl Witness for LeftLines {
    fn removed(&mut self, line: RemovedLine) {
        let RemovedLine { cache, at, dirty, .. } = line;
        self.0.push(LeftLine { cache, at, dirty, was_buffered: false });
    }

    fn dropped(&mut self, cache: usize, id: u32, lines: Range<u32>) {
        let left = |line| LeftLine { cache, at: LineAddr { id, line }, dirty: false, was_buffered: true };
        self.0.extend(lines.map(left));
    }
}
