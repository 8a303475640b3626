//! This part of the filters says what the loop that skips rows does about the pages of their references.

/// `SkippedPages` translates the pages of rows that are skipped.
pub(in crate::prepare) trait SkippedPages {
    /// True if times are noted.
    const NOTES: bool = false;

    /// Returns whether a row is not skipped because it touches two pages. The arguments are the addresses of the first
    /// and the last byte.
    fn crosses(&self, bytes: [u64; 2]) -> bool;

    /// Translates the page of a reference. Returns false if the row must not be skipped; nothing has changed then.
    fn translate(&mut self, reference: Skipped) -> bool;

    /// Notes the time of a skipped reference through a port to a line of a mapping's page.
    fn note(&mut self, _port: usize, _id: u32, _time: u64) {}
}

/// `Skipped` is a reference whose row is skipped.
#[derive(Clone, Copy)]
pub(in crate::prepare) struct Skipped {
    /// The code of the operation.
    pub(in crate::prepare) op: usize,
    pub(in crate::prepare) addr: u64,
    pub(in crate::prepare) time: u64,
}

/// Addresses are translated at no cost.
impl SkippedPages for () {
    #[inline(always)]
    fn crosses(&self, _: [u64; 2]) -> bool {
        false
    }

    #[inline(always)]
    fn translate(&mut self, _: Skipped) -> bool {
        true
    }
}
