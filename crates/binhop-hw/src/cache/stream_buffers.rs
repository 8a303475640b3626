//! `StreamBuffers` fetch lines ahead for one cache, without putting them into the cache (Jouppi, "Improving
//! Direct-Mapped Cache Performance by the Addition of a Small Fully-Associative Cache and Prefetch Buffers", ISCA
//! 1990).
//!
//! Counting rules
//! - A cache has some stream buffers. Each buffer holds up to `depth` successive lines of one page, the lowest at its
//!   head.
//! - A demand miss that brings its line in compares the line with the head of each buffer. If a head holds the line,
//!   the line comes from this buffer: `stream.hits` counts this, and the level behind is not asked. If the heads of
//!   several buffers hold the line, it comes from the most recently used buffer among them. The next line of the buffer
//!   becomes its head, and the buffer prefetches one more line.
//! - Otherwise the level behind is asked as without stream buffers. Then the least recently used buffer is emptied, and
//!   prefetches the `depth` lines behind the missed line.
//! - A prefetch is one request to the level behind, of kind `fetch` for an instruction and of kind `load` for data,
//!   by the agent `prefetch`. Nobody waits for it, and its line is in the buffer at once: a real prefetch takes the
//!   time of a miss, so the result is an upper bound of what the buffers gain. A line is prefetched whether the cache
//!   holds it or not.
//! - A stream ends at the end of its page: the next page may lie anywhere in memory.
//! - The miss counts as a miss of the cache. It costs what a hit in the cache costs: nothing at the level that the
//!   processor asks, otherwise the cycles of the cache.
//! - What the cache passes down also updates the copy of a buffer, so a store empties no buffer, and a buffer never
//!   serves data that are older than what is behind the cache. An instruction cache is the exception: it does not look
//!   at stores, and neither do its buffers.
//! - Where a page's frame changes hands, or some of its bytes become invalid, the buffers that hold lines of the page
//!   are emptied. A line that leaves a buffer is discarded, because it is clean.
//! - Reads that complete a partial write (`fill`) neither look into a buffer nor begin a stream.

use std::ops::Range;

use binhop_base::LineAddr;

use crate::StreamConfig;

/// `BufferedStream` holds the lines of one buffer: successive lines of a mapping or page, named as the cache's keys
/// name it.
#[derive(Clone, Debug)]
pub(crate) struct BufferedStream {
    pub(crate) id: u32,
    pub(crate) lines: Range<u32>,
}

impl BufferedStream {
    /// Empties the buffer, and returns the stream that it held.
    fn empty(&mut self) -> Self {
        Self { id: self.id, lines: std::mem::take(&mut self.lines) }
    }
}

/// `StreamBuffers` holds the stream buffers of one cache.
#[derive(Clone, Debug)]
pub(crate) struct StreamBuffers {
    depth: u32,
    lines_in_page: u32,
    /// The streams, the most recently used stream first.
    streams: Box<[BufferedStream]>,
}

impl StreamBuffers {
    pub(crate) fn new(config: StreamConfig, lines_in_page: u32) -> Self {
        let streams = vec![BufferedStream { id: 0, lines: 0..0 }; config.buffers as usize];
        Self { depth: config.depth, lines_in_page, streams: streams.into() }
    }

    /// Takes a line from the buffer that has it at its head. Returns the lines to prefetch then, at most one; `None` if
    /// no head holds the line.
    pub(crate) fn take(&mut self, at: LineAddr) -> Option<Range<u32>> {
        let at_head = |stream: &BufferedStream| {
            stream.id == at.id && stream.lines.start == at.line && !stream.lines.is_empty()
        };
        let used = self.streams.iter().position(at_head)?;
        let lines = &mut self.streams[used].lines;
        let next = lines.end..lines.end.saturating_add(1).min(self.lines_in_page);
        (lines.start, lines.end) = (lines.start + 1, next.end);
        self.streams[..=used].rotate_right(1);
        Some(next)
    }

    /// Begins a stream behind a missed line, in the least recently used buffer. Returns the lines to prefetch.
    /// `dropped` gets the stream that the buffer held.
    pub(crate) fn begin(&mut self, missed: LineAddr, mut dropped: impl FnMut(BufferedStream)) -> Range<u32> {
        let first = missed.line + 1;
        let lines = first..first.saturating_add(self.depth).min(self.lines_in_page);
        self.streams.rotate_right(1);
        dropped(std::mem::replace(
            &mut self.streams[0],
            BufferedStream { id: missed.id, lines: lines.clone() },
        ));
        lines
    }

    /// Empties every buffer. `dropped` gets the streams.
    pub(crate) fn forget_all(&mut self, mut dropped: impl FnMut(BufferedStream)) {
        self.streams.iter_mut().for_each(|stream| dropped(stream.empty()));
    }

    /// Empties the buffers that hold lines of a mapping or page. `dropped` gets the streams.
    pub(crate) fn forget(&mut self, id: u32, mut dropped: impl FnMut(BufferedStream)) {
        self.streams.iter_mut().filter(|stream| stream.id == id).for_each(|stream| dropped(stream.empty()));
    }

    /// Returns whether a buffer holds a line, named as the cache's keys name it.
    pub(crate) fn hold(&self, at: LineAddr) -> bool {
        self.streams.iter().any(|stream| stream.id == at.id && stream.lines.contains(&at.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(id: u32, line: u32) -> LineAddr {
        LineAddr { id, line }
    }

    /// Two buffers of three lines each; a page has eight lines.
    #[test]
    fn the_head_is_taken_and_the_least_recently_used_buffer_begins_anew() {
        let mut buffers = StreamBuffers::new(StreamConfig { buffers: 2, depth: 3 }, 8);
        let missed_then_begun: [(LineAddr, Option<Range<u32>>, Range<u32>); 8] = [
            (at(7, 0), None, 1..4),       // 7: 1 2 3
            (at(9, 4), None, 5..8),       // 9: 5 6 7, 7: 1 2 3
            (at(7, 1), Some(4..5), 0..0), // 7: 2 3 4, 9: 5 6 7
            (at(7, 3), None, 4..7),       // 7: 4 5 6, 7: 2 3 4: only a head is compared
            (at(9, 5), None, 6..8),       // 9: 6 7, 7: 4 5 6: the stream of 9 was the oldest
            (at(9, 6), Some(8..8), 0..0), // 9: 7: the page ends
            (at(9, 7), Some(8..8), 0..0), // 9: empty
            (at(7, 4), Some(7..8), 0..0), // 7: 5 6 7
        ];
        for (line, taken, begun) in missed_then_begun {
            let found = buffers.take(line);
            assert_eq!(found, taken, "{line:?}");
            if found.is_none() {
                assert_eq!(buffers.begin(line, |_| {}), begun, "{line:?}");
            }
        }
        assert_eq!(buffers.take(at(9, 8)), None, "an empty buffer has no head");
        assert!(buffers.hold(at(7, 7)) && !buffers.hold(at(7, 4)) && !buffers.hold(at(9, 7)));
        let mut dropped = Vec::new();
        buffers.forget(7, |stream| dropped.push((stream.id, stream.lines)));
        assert_eq!(dropped, [(7, 5..8)]);
        assert_eq!(buffers.take(at(7, 5)), None);
    }
}
