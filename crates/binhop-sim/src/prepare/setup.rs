//! `Setup` says what a preparation is made from.

use std::sync::Arc;

use binhop_base::Bytes;

use super::{Cuts, Needs};
use crate::occasion::Subscription;

/// `Setup` holds what a preparation is made from.
pub(crate) struct Setup {
    pub(crate) needs: Needs,
    /// P − K: the frames that no placement may choose; the smallest number, where several machines share a
    /// preparation. `None`: physical = virtual, and nothing is ever evicted.
    pub(crate) safe: Option<u64>,
    /// True if some placement reads the segments of the address space that faults.
    pub(crate) lists_segments: bool,
    /// True if some machine looks for synonyms.
    pub(crate) looks_for_synonyms: bool,
    /// True if the caches that serve data keep the two lines that were accessed last in a set, and a repetition of
    /// these accesses changes nothing (LRU and PLRU).
    pub(crate) keeps_two: bool,
    pub(crate) trace_page: Bytes,
    pub(crate) cuts: Cuts,
    /// The occasions for which a unit asks, if there is a unit.
    pub(crate) subscription: Option<Arc<Subscription>>,
    /// True if rows are skipped where that is exact. Tests set it to false to show that it is exact.
    pub(crate) collapse: bool,
    /// True if all address spaces share the kernel's half.
    pub(crate) shares_kernel_half: bool,
}

impl Setup {
    /// Returns the number of pages that the unit owns.
    pub(super) fn pages_of_unit(&self) -> u32 {
        self.subscription.as_ref().map_or(0, |subscription| subscription.owned())
    }

    /// Returns the number of pages that are no pages of the trace: those of the unit, of page tables and of handlers.
    pub(super) fn own_pages(&self) -> u32 {
        let of_tables = self.needs.translation.as_ref().map_or(0, |translation| translation.pages());
        let at_misses = self.needs.softvm.as_ref().map_or(0, |softvm| softvm.pages());
        self.pages_of_unit() + of_tables + at_misses
    }
}
