//! `WriteBuffer` computes the cycles that a write waits for room in a write buffer.
//!
//! Counting rules
//! - A write is pushed at a cycle, takes one entry, and drains in `drain_cycles`, one write after another:
//!   its drain ends at max(end of the drain before it, time of the push) + `drain_cycles`.
//! - Its entry is free again at the cycle its drain ends: a push exactly then finds it free, a push one
//!   cycle earlier does not.
//! - A push into a full buffer is one stall: the processor waits until the oldest write has drained, and
//!   the push happens then.
//! - Writes to one line do not merge. The data reaches the next level at once: the buffer is time only.

use crate::WriteBufferConfig;

/// The drains of one busy period follow each other without a gap. So the end of the last drain determines all others:
/// the drain that is k places before the last ends k × `drain_cycles` earlier.
#[derive(Clone, Debug)]
pub(crate) struct WriteBuffer {
    drain_cycles: u64,
    /// Cycles that all entries except one take to drain.
    all_but_one: u64,
    /// The cycle at which the last write's drain ends.
    last_end: u64,
}

impl WriteBuffer {
    pub(crate) fn new(config: WriteBufferConfig) -> Self {
        let all_but_one = (u64::from(config.entries) - 1).saturating_mul(config.drain_cycles);
        Self { drain_cycles: config.drain_cycles, all_but_one, last_end: 0 }
    }

    /// Pushes a write at cycle `now`; returns the cycles the processor stalls before it.
    #[inline]
    pub(crate) fn push(&mut self, now: u64) -> u64 {
        let oldest_end_if_full = self.last_end.saturating_sub(self.all_but_one);
        let stall = oldest_end_if_full.saturating_sub(now);
        self.last_end = self.last_end.max(now + stall) + self.drain_cycles;
        stall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(entries: u32, drain_cycles: u64) -> WriteBuffer {
        WriteBuffer::new(WriteBufferConfig { entries, drain_cycles })
    }

    /// Two entries, ten cycles each: pushes at 0 and 1 drain at 10 and 20.
    fn full() -> WriteBuffer {
        let mut buffer = buffer(2, 10);
        assert_eq!(buffer.push(0), 0);
        assert_eq!(buffer.push(1), 0);
        buffer
    }

    #[test]
    fn an_entry_is_free_exactly_when_its_drain_ends_and_not_one_cycle_earlier() {
        for now in 1..=25 {
            assert_eq!(full().push(now), 10u64.saturating_sub(now), "push at {now}");
        }
    }

    #[test]
    fn a_stalled_push_happens_when_the_oldest_has_drained() {
        let mut buffer = full();
        assert_eq!(buffer.push(4), 6); // pushed at 10; drains 20..30
        assert_eq!(buffer.push(11), 9); // until 20
        assert_eq!(buffer.push(30), 0); // the other ends at 40; this one at 50
        assert_eq!(buffer.push(31), 9); // until 40
    }

    #[test]
    fn after_an_idle_time_the_drain_starts_at_the_push() {
        let mut buffer = buffer(1, 10);
        assert_eq!(buffer.push(0), 0);
        assert_eq!(buffer.push(100), 0); // until 110, not 20
        assert_eq!(buffer.push(109), 1);
    }

    #[test]
    fn a_buffer_that_drains_at_once_never_stalls() {
        let mut buffer = buffer(1, 0);
        assert!((0..10).all(|_| buffer.push(5) == 0));
    }
}
