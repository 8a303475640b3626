//! The extents behind the pages of address spaces: pages of their own, and runs of segments' pages.

use alloc::vec::Vec;

use binhop_base::PageId;
use binhop_base::forest::{Forest, Root};

use super::SegmentId;
use super::segment::Segments;

/// Neighbouring machine pages of one kind. Its first page is its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) last: u64,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// One page that the space holds as its own, perhaps with others since a fork.
    Own {
        page: PageId,
        outside: bool,
        /// The number of forks that there had been when it was made.
        forks: u64,
    },
    /// Pages of a segment, from page `index` on, that no page of the space's own hides.
    Run { segment: SegmentId, shared: bool, index: u64 },
}

/// The extents of all spaces; those of one are a [`Root`]. They never overlap. A run that some space holds covers its
/// segment's pages.
pub(super) struct Extents(Forest<Extent>);

impl Extents {
    pub(super) const fn new() -> Self {
        Self(Forest::new())
    }

    pub(super) fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// The same extents for another space.
    pub(super) fn share(&mut self, extents: Root) -> Root {
        self.0.share(extents)
    }

    /// Ends all extents of a space.
    pub(super) fn release(&mut self, extents: Root) {
        self.0.release(extents);
    }

    /// Returns what stands behind a page; a run's index is that of the page.
    pub(super) fn at(&self, extents: Root, page: u64) -> Option<What> {
        let (first, extent) = self.0.at_or_below(extents, page).filter(|(_, extent)| extent.last >= page)?;
        Some(match extent.what {
            What::Run { segment, shared, index } => {
                What::Run { segment, shared, index: index + (page - first) }
            }
            own @ What::Own { .. } => own,
        })
    }

    /// The pages of a space's own among `first..=last`.
    pub(super) fn own(&self, extents: Root, first: u64, last: u64) -> Vec<u64> {
        let own = |(page, extent): (u64, Extent)| matches!(extent.what, What::Own { .. }).then_some(page);
        self.0.range(extents, first, last).filter_map(own).collect()
    }

    /// Puts a page of the space's own where nothing is.
    pub(super) fn insert_own(
        &mut self,
        extents: Root,
        at: u64,
        page: PageId,
        outside: bool,
        forks: u64,
    ) -> Root {
        self.0.insert(extents, at, Extent { last: at, what: What::Own { page, outside, forks } })
    }

    /// Puts a run where nothing is.
    pub(super) fn insert_run(
        &mut self,
        extents: Root,
        pages: (u64, u64),
        run: What,
        segments: &mut Segments,
    ) -> Root {
        let (first, last) = pages;
        if let What::Run { segment, index, .. } = run {
            segments.cover(segment, index, index + (last - first));
        }
        self.0.insert(extents, first, Extent { last, what: run })
    }

    /// Frees `first..=last`: what lies inside goes, runs across a border are cut there.
    pub(super) fn carve(&mut self, extents: Root, first: u64, last: u64, segments: &mut Segments) -> Root {
        let head =
            self.0.at_or_below(extents, first).filter(|(start, it)| *start < first && it.last >= first);
        let tail = self.0.at_or_below(extents, last).filter(|(_, it)| it.last > last);
        let mut extents = self.0.remove_range(extents, first, last);
        if let Some((start, Extent { what, .. })) = head {
            extents = self.0.remove(extents, start);
            extents = self.insert_run(extents, (start, first - 1), what, segments);
        }
        if let Some((start, Extent { last: end, what: What::Run { segment, shared, index } })) = tail {
            let rest = What::Run { segment, shared, index: index + (last + 1 - start) };
            extents = self.insert_run(extents, (last + 1, end), rest, segments);
        }
        extents
    }

    /// Ends what no space holds any more: pages of their own die, and so do segments' pages that no run covers now.
    pub(super) fn report_dead_pages(&mut self, segments: &mut Segments, dead: &mut Vec<PageId>) {
        let deaths = dead.len();
        let mut uncovered = Vec::new();
        for (first, extent) in self.0.take_gone() {
            match extent.what {
                What::Own { page, .. } => dead.push(page),
                What::Run { segment, index, .. } => {
                    segments.uncover(segment, index, index + (extent.last - first));
                    if uncovered.last() != Some(&segment) {
                        uncovered.push(segment);
                    }
                }
            }
        }
        for segment in uncovered {
            segments.take_dead(segment, dead);
        }
        dead[deaths..].sort_unstable();
    }
}
