//! `Lineages` holds the private segments that address spaces inherit, as chains. An address space knows the
//! youngest segment of its chain, and each segment knows the segment before.

use alloc::vec::Vec;

use super::SegmentId;

/// `Lineage` is the end of a chain: the private segments that an address space inherits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lineage(u32);

impl Lineage {
    /// The empty chain.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// `Lineages` holds all chains. Chains share their common part.
#[derive(Default)]
pub(super) struct Lineages(Vec<(SegmentId, Lineage)>);

impl Lineages {
    /// Returns the chain for the child of an address space that inherits `lineage` and has private pages in
    /// `private`.
    pub(super) fn handed_down(&mut self, lineage: Lineage, private: Option<SegmentId>) -> Lineage {
        let Some(private) = private else { return lineage };
        if lineage != Lineage::NONE && self.0[lineage.0 as usize].0 == private {
            return lineage; // the address space forked before
        }
        // There are no more chains than private segments, whose numbers fit.
        self.0.push((private, lineage));
        Lineage((self.0.len() - 1) as u32)
    }

    /// Returns the segments of a chain, youngest first.
    pub(super) fn segments(&self, lineage: Lineage) -> impl Iterator<Item = SegmentId> {
        let mut next = lineage;
        core::iter::from_fn(move || {
            let (segment, before) = *self.0.get(next.0 as usize)?;
            next = before;
            Some(segment)
        })
    }
}
