//! This part of the filters says what the loop that skips rows does about the pages of their references.

/// `SkippedPages` translates the pages of rows that are skipped. Unless an implementation says otherwise, addresses are
/// translated at no cost.
pub(in crate::prepare) trait SkippedPages {
    /// Returns whether a row is not skipped because it touches two pages. The arguments are the addresses of the first
    /// and the last byte.
    #[inline(always)]
    fn crosses(&self, _bytes: [u64; 2]) -> bool {
        false
    }

    /// Translates the page of a reference. Returns false if the row must not be skipped; nothing has changed then.
    #[inline(always)]
    fn translate(&mut self, _reference: Skipped) -> bool {
        true
    }
}

/// `Skipped` is a reference whose row is skipped.
#[derive(Clone, Copy)]
pub(in crate::prepare) struct Skipped {
    /// The code of the operation.
    pub(in crate::prepare) op: usize,
    pub(in crate::prepare) addr: u64,
    pub(in crate::prepare) time: u64,
}

impl SkippedPages for () {}
