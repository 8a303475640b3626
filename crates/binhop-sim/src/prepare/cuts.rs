//! `Cuts` cut the stream at the end of the warm-up, at the ends of intervals, and at the marks at which
//! lanes read their counters. (The length is cut before preparation.)

use super::{Control, Mark, Prepare, StreamCounts};

/// `Cuts` are the points at which the stream is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    /// The stream stops before the fetch in which this instruction lies.
    pub instructions: Option<u64>,
    /// The references simulated before the measured part.
    pub warmup: u64,
    /// The instructions in an interval of the series.
    pub interval: Option<u64>,
    /// True if what each life runs is divided into segments and pieces.
    pub segments: bool,
}

impl Cuts {
    /// Returns whether the stream ends before a further fetch.
    pub(super) fn end_before_fetch(&self, stream: &StreamCounts) -> bool {
        self.instructions.is_some_and(|instructions| stream.instructions >= instructions)
    }
}

impl Prepare {
    pub(super) fn mark(&mut self, mark: Mark) {
        // A lane's clock is right at every mark, because the next row counts its instructions from here.
        self.instructions_at_row = self.stream.instructions;
        self.control(Control::Mark(mark, Box::new(self.stream()), None));
    }

    /// Passes the end of the warm-up, if it lies in the next `count` references.
    #[cold]
    pub(super) fn cut(&mut self, count: u64) {
        if !self.measuring && self.stream.references + count > self.cuts.warmup {
            self.measuring = true;
            self.mark(Mark::Measured);
            self.next_cut = u64::MAX;
        }
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
            while end > self.next_of_series {
                self.mark(Mark::Interval(self.next_of_series / interval));
                self.next_of_series += interval;
            }
        }
        while self.next_piece().is_some_and(|next| end > next) {
            self.end_piece();
        }
        self.set_next_interval();
        false
    }

    fn next_piece(&self) -> Option<u64> {
        self.trace_segment.and_then(|segment| segment.next_cut())
    }

    /// Finds the instructions up to which no fetch needs to be compared with a cut.
    pub(super) fn set_next_interval(&mut self) {
        let of_stream = self.cuts.instructions.unwrap_or(u64::MAX);
        let of_segment = self.next_piece().unwrap_or(u64::MAX);
        self.next_interval = self.next_of_series.min(of_stream).min(of_segment);
    }
}
