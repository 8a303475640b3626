//! The private segments that address spaces inherit: each space knows the youngest, and each the one before.

use alloc::vec::Vec;

use super::SegmentId;

/// The private segments that a space inherits, as the end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lineage(u32);

impl Lineage {
    /// Nothing.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// All chains. They share what they have in common.
#[derive(Default)]
pub(super) struct Lineages(Vec<(SegmentId, Lineage)>);

impl Lineages {
    /// Returns what a space hands down that inherits `lineage` and has private pages in `private`.
    pub(super) fn handed_down(&mut self, lineage: Lineage, private: Option<SegmentId>) -> Lineage {
        let Some(private) = private else { return lineage };
        if lineage != Lineage::NONE && self.0[lineage.0 as usize].0 == private {
            return lineage; // it forked before
        }
        // No more chains than private segments, whose numbers fit.
        self.0.push((private, lineage));
        Lineage((self.0.len() - 1) as u32)
    }

    /// The segments of a chain, youngest first.
    pub(super) fn segments(&self, lineage: Lineage) -> impl Iterator<Item = SegmentId> {
        let mut next = lineage;
        core::iter::from_fn(move || {
            let (segment, before) = *self.0.get(next.0 as usize)?;
            next = before;
            Some(segment)
        })
    }
}
