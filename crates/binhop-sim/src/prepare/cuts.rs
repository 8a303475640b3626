//! Where the stream is cut: warm-up, length, intervals, and the marks at which lanes read their counters.

use super::{Control, Mark, Prepare};

/// Where the stream is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// Stop before the row in which this reference lies.
    pub length: Option<u64>,
    /// Stop before the fetch in which this instruction lies.
    pub instructions: Option<u64>,
    /// References simulated before the measured part.
    pub warmup: u64,
    /// Instructions in an interval of the series.
    pub interval: Option<u64>,
}

impl Prepare {
    pub(super) fn mark(&mut self, mark: Mark) {
        // A lane's clock is right at every mark: the next row counts from here.
        self.instructions_at_row = self.stream.instructions;
        self.control(Control::Mark(mark, self.stream(), None));
    }

    /// Passes the boundaries (warm-up, length) that lie in the next `count` references. Returns whether
    /// the stream ends here.
    #[cold]
    pub(super) fn cut(&mut self, count: u64) -> bool {
        let end = self.stream.references + count;
        if !self.measuring && end > self.cuts.warmup {
            self.measuring = true;
            self.mark(Mark::Measured);
            self.next_cut = self.cut_after(self.cuts.warmup + 1);
        }
        self.cuts.length.is_some_and(|length| end > length)
    }

    /// The first boundary, in references, at or after `from`.
    pub(super) fn cut_after(&self, from: u64) -> u64 {
        let warmup = Some(self.cuts.warmup).filter(|&warmup| warmup > 0);
        [warmup, self.cuts.length].into_iter().flatten().filter(|&cut| cut >= from).min().unwrap_or(u64::MAX)
    }

    /// Passes the boundaries of intervals that lie in the next `count` instructions. Returns whether the
    /// stream ends here.
    #[cold]
    pub(super) fn cut_interval(&mut self, count: u64) -> bool {
        let end = self.stream.instructions + count;
        if self.cuts.instructions.is_some_and(|instructions| end > instructions) {
            return true;
        }
        if let Some(interval) = self.cuts.interval {
            while end > self.next_interval {
                self.mark(Mark::Interval(self.next_interval / interval));
                self.next_interval += interval;
            }
            self.next_interval = self.next_interval.min(self.cuts.instructions.unwrap_or(u64::MAX));
        }
        false
    }
}
