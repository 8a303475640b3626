//! `Growth` counts what makes the memory of a run grow with its trace.

/// `Growth` holds what a trace has held so far that makes memory grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// The pages of the trace, or its mappings if there are more mappings than pages. Pages of page tables, of handlers
    /// and of units do not count.
    pub(crate) pages: u64,
    pub(crate) processes: u64,
    pub(crate) intervals: u64,
}

impl Growth {
    /// Returns the larger of each number.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            pages: self.pages.max(other.pages),
            processes: self.processes.max(other.processes),
            intervals: self.intervals.max(other.intervals),
        }
    }

    /// Returns twice each number.
    pub(crate) fn doubled(self) -> Self {
        let twice = |number: u64| number.saturating_mul(2);
        Self { pages: twice(self.pages), processes: twice(self.processes), intervals: twice(self.intervals) }
    }
}
