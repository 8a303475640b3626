//! `WriteBuffer` computes the cycles that a write waits for room in a write buffer.
//!
//! Counting rules
//! - A write is pushed at a cycle, takes one entry, and drains in `drain_cycles`, one write after another:
//!   its drain ends at max(end of the drain before it, time of the push) + `drain_cycles`.
//! - The entry of a write is free again at the cycle at which its drain ends: a push exactly then finds the entry
//!   free, and a push one cycle earlier does not.
//! - A push into a full buffer is one stall: the processor waits until the oldest write has drained, and
//!   the push happens then.
//! - With `merge`, a write joins a write to the same line that waits in the buffer. The write that joins takes no
//!   entry, and the processor does not stall for it. A write waits until its drain begins: a push one cycle earlier
//!   may join it, and a push exactly then may not. So a write that finds the buffer empty is never joined. A line
//!   is a line of the cache before the buffer. Without `merge`, each write to a line takes an entry of its own.
//! - The data reaches the next level at once: the buffer is time only. A write that joins another is therefore a
//!   `write` to the next level, too.
//! - A buffer without `stalls` is not simulated: see `Cache::new`.

use std::collections::VecDeque;

use crate::WriteBufferConfig;

/// `WriteBuffer` holds the end of the last drain. The drains of one busy period follow each other without a gap, so
/// this end determines all others: the drain that is k places before the last drain ends k × `drain_cycles`
/// earlier.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    drain_cycles: u64,
    /// Cycles that all entries except one take to drain.
    all_but_one: u64,
    /// The cycle at which the last write's drain ends.
    last_end: u64,
    /// The lines of the latest writes, if writes merge.
    merging: Option<Box<LatestLines>>,
}

/// `LatestLines` holds the lines of the latest writes, the latest last, and at most as many as there are entries.
#[derive(Clone, Debug)]
struct LatestLines {
    entries: usize,
    latest: VecDeque<u64>,
}

impl WriteBuffer {
    pub(crate) fn new(config: WriteBufferConfig) -> Self {
        let WriteBufferConfig { entries, drain_cycles, merge, stalls: _ } = config;
        let all_but_one = (u64::from(entries) - 1).saturating_mul(drain_cycles);
        let lines = || Box::new(LatestLines { entries: entries as usize, latest: VecDeque::new() });
        Self { drain_cycles, all_but_one, last_end: 0, merging: merge.then(lines) }
    }

    /// Pushes a write of a line at cycle `now`. Returns the cycles that the processor stalls before the push, or
    /// `None` if the write joins another write.
    #[inline]
    pub(crate) fn push(&mut self, now: u64, line: u64) -> Option<u64> {
        if self.merging.is_some() && self.merges(now, line) {
            return None;
        }
        let oldest_end_if_full = self.last_end.saturating_sub(self.all_but_one);
        let stall = oldest_end_if_full.saturating_sub(now);
        self.last_end = self.last_end.max(now + stall) + self.drain_cycles;
        Some(stall)
    }

    /// Returns whether a write of a line joins another write at cycle `now`. Otherwise notes the line as the
    /// latest.
    fn merges(&mut self, now: u64, line: u64) -> bool {
        let Self { drain_cycles, last_end, merging, .. } = self;
        let LatestLines { entries, latest } = &mut **merging.as_mut().expect("writes merge");
        // The oldest write that is left drains already.
        let left = last_end.saturating_sub(now).div_ceil((*drain_cycles).max(1));
        let waiting = usize::try_from(left.saturating_sub(1)).unwrap_or(usize::MAX).min(latest.len());
        if latest.range(latest.len() - waiting..).any(|&write| write == line) {
            return true;
        }
        if latest.len() == *entries {
            latest.pop_front();
        }
        latest.push_back(line);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(entries: u32, drain_cycles: u64) -> WriteBuffer {
        WriteBuffer::new(WriteBufferConfig { entries, drain_cycles, merge: false, stalls: true })
    }

    /// Pushes a write of a line of its own.
    fn push(buffer: &mut WriteBuffer, now: u64) -> u64 {
        buffer.push(now, 0).expect("writes do not merge")
    }

    /// Two entries, ten cycles each: pushes at 0 and 1 drain at 10 and 20.
    fn full() -> WriteBuffer {
        let mut buffer = buffer(2, 10);
        assert_eq!(push(&mut buffer, 0), 0);
        assert_eq!(push(&mut buffer, 1), 0);
        buffer
    }

    #[test]
    fn an_entry_is_free_exactly_when_its_drain_ends_and_not_one_cycle_earlier() {
        for now in 1..=25 {
            assert_eq!(push(&mut full(), now), 10u64.saturating_sub(now), "push at {now}");
        }
    }

    #[test]
    fn a_stalled_push_happens_when_the_oldest_has_drained() {
        let mut buffer = full();
        assert_eq!(push(&mut buffer, 4), 6); // pushed at 10; drains 20..30
        assert_eq!(push(&mut buffer, 11), 9); // until 20
        assert_eq!(push(&mut buffer, 30), 0); // the drain before it ends at 40, its own at 50
        assert_eq!(push(&mut buffer, 31), 9); // until 40
    }

    #[test]
    fn after_an_idle_time_the_drain_starts_at_the_push() {
        let mut buffer = buffer(1, 10);
        assert_eq!(push(&mut buffer, 0), 0);
        assert_eq!(push(&mut buffer, 100), 0); // until 110, not 20
        assert_eq!(push(&mut buffer, 109), 1);
    }

    #[test]
    fn a_buffer_that_drains_at_once_never_stalls() {
        let mut buffer = buffer(1, 0);
        assert!((0..10).all(|_| push(&mut buffer, 5) == 0));
    }

    /// Lines 1, 2 and 3 are written at 0, drain from 0, 10 and 20, and the buffer is full until 10.
    #[test]
    fn a_write_joins_a_write_to_its_line_until_that_begins_to_drain() {
        let pushed = |now, line| {
            let mut buffer = WriteBuffer::new(WriteBufferConfig {
                entries: 3,
                drain_cycles: 10,
                merge: true,
                stalls: true,
            });
            (1..=3).for_each(|line| assert_eq!(buffer.push(0, line), Some(0)));
            buffer.push(now, line)
        };
        assert_eq!(pushed(0, 1), Some(10), "line 1 drains already");
        assert_eq!(pushed(0, 2), None);
        assert_eq!(pushed(9, 2), None, "joins, although the buffer is full");
        assert_eq!(pushed(10, 2), Some(0), "line 2 begins to drain exactly now");
        assert_eq!((pushed(19, 3), pushed(20, 3)), (None, Some(0)));
        assert_eq!(pushed(5, 4), Some(5), "no write to line 4 waits");
    }
}
