//! `Sum` adds up the memory of the parts of a run, by what each part depends on.

use crate::prepare::Growth;
use crate::results::meter::SLOTS;

/// `Sum` is a sum of bytes, divided by what each part depends on. A sum or product that would overflow stays
/// at the maximum.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) fixed: u64,
    pub(super) page: u64,
    pub(super) process: u64,
    /// The bytes of a process, as long as the table of a meter has room for it.
    pub(super) slot: u64,
    pub(super) interval: u64,
    /// The most bytes that pages take in the private caches of a process, and the bytes of each page in them. The
    /// smaller of both sums counts.
    pub(super) private_of_process: u64,
    pub(super) private_of_page: u64,
    /// The bytes of a page in no list that doubles.
    pub(super) page_alone: u64,
}

impl Sum {
    pub(super) fn of(&self, growth: Growth) -> u64 {
        let private = self.private_of_process.saturating_mul(growth.processes);
        let parts = [
            private.min(self.private_of_page.saturating_mul(growth.pages.max(1))),
            self.page_alone.saturating_mul(growth.pages),
            self.fixed,
            self.page.saturating_mul(growth.pages.max(1).checked_next_power_of_two().unwrap_or(u64::MAX)),
            self.process.saturating_mul(growth.processes),
            self.slot.saturating_mul(growth.processes.min(SLOTS as u64)),
            self.interval.saturating_mul(growth.intervals),
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.fixed = self.fixed.saturating_add(other.fixed);
        self.page = self.page.saturating_add(other.page);
        self.process = self.process.saturating_add(other.process);
        self.slot = self.slot.saturating_add(other.slot);
        self.interval = self.interval.saturating_add(other.interval);
        self.private_of_process = self.private_of_process.saturating_add(other.private_of_process);
        self.private_of_page = self.private_of_page.saturating_add(other.private_of_page);
        self.page_alone = self.page_alone.saturating_add(other.page_alone);
    }
}

/// `WhenFull` is the memory that a lane takes in addition once `safe` pages are placed. From then on the
/// order of its frames must be known, and the front is no longer shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct WhenFull {
    pub(super) safe: u64,
    pub(super) sum: Sum,
    /// The maximum of this part.
    pub(super) most: u64,
}

impl WhenFull {
    /// Returns the bytes of this part. `placed` is the number of pages of the trace, and `growth` counts all pages.
    pub(super) fn of(&self, placed: u64, growth: Growth) -> u64 {
        if placed < self.safe { 0 } else { self.sum.of(growth).min(self.most) }
    }
}
