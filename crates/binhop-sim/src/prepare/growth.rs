//! `Growth` counts what makes the memory of a run grow with its trace.

/// The things that a trace has held so far that make memory grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Pages, or mappings if they are more.
    pub(crate) pages: u64,
    pub(crate) processes: u64,
    pub(crate) intervals: u64,
}

impl Growth {
    /// The more of both.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            pages: self.pages.max(other.pages),
            processes: self.processes.max(other.processes),
            intervals: self.intervals.max(other.intervals),
        }
    }

    /// As much again.
    pub(crate) fn doubled(self) -> Self {
        let twice = |number: u64| number.saturating_mul(2);
        Self { pages: twice(self.pages), processes: twice(self.processes), intervals: twice(self.intervals) }
    }
}
