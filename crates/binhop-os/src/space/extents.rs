//! `Extents` holds what is behind the pages of address spaces: their own pages, and runs of segments' pages.

use alloc::vec::Vec;

use binhop_base::PageId;
use binhop_base::forest::{Forest, Root};

use super::SegmentId;
use super::segment::Segments;

/// `Extent` is a run of neighbouring machine pages of one kind. The key of an extent is its first page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) last: u64,
    pub(super) kind: ExtentKind,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ExtentKind {
    /// One page of the address space's own. Since a fork other address spaces may hold the same page.
    Own {
        page: PageId,
        outside: bool,
        /// The number of forks before the page was made.
        forks: u64,
    },
    /// Pages of a segment, from page `index` on, where the address space has no page of its own.
    Run { segment: SegmentId, shared: bool, index: u64 },
}

/// `Extents` holds the extents of all address spaces. The extents of one address space are a [`Root`], and
/// never overlap. Every run covers its pages of the segment.
pub(super) struct Extents(Forest<Extent>);

impl Extents {
    pub(super) const fn new() -> Self {
        Self(Forest::new())
    }

    pub(super) fn steps(&self) -> u64 {
        self.0.steps()
    }

    /// Returns the same extents for another address space.
    pub(super) fn share(&mut self, extents: Root) -> Root {
        self.0.share(extents)
    }

    /// Ends all extents of an address space.
    pub(super) fn release(&mut self, extents: Root) {
        self.0.release(extents);
    }

    /// Returns what is behind a page. The index of a run is the index of this page.
    pub(super) fn at(&self, extents: Root, page: u64) -> Option<ExtentKind> {
        let (first, extent) = self.0.at_or_below(extents, page).filter(|(_, extent)| extent.last >= page)?;
        Some(match extent.kind {
            ExtentKind::Run { segment, shared, index } => {
                ExtentKind::Run { segment, shared, index: index + (page - first) }
            }
            own @ ExtentKind::Own { .. } => own,
        })
    }

    /// Returns the address space's own pages among `first..=last`.
    pub(super) fn own(&self, extents: Root, first: u64, last: u64) -> Vec<u64> {
        let own =
            |(page, extent): (u64, Extent)| matches!(extent.kind, ExtentKind::Own { .. }).then_some(page);
        self.0.range(extents, first, last).filter_map(own).collect()
    }

    /// Inserts a page of the address space's own where no extent is.
    pub(super) fn insert_own(
        &mut self,
        extents: Root,
        at: u64,
        page: PageId,
        outside: bool,
        forks: u64,
    ) -> Root {
        self.0.insert(extents, at, Extent { last: at, kind: ExtentKind::Own { page, outside, forks } })
    }

    /// Inserts a run where no extent is.
    pub(super) fn insert_run(
        &mut self,
        extents: Root,
        pages: (u64, u64),
        run: ExtentKind,
        segments: &mut Segments,
    ) -> Root {
        let (first, last) = pages;
        if let ExtentKind::Run { segment, index, .. } = run {
            segments.cover(segment, index, index + (last - first));
        }
        self.0.insert(extents, first, Extent { last, kind: run })
    }

    /// Frees `first..=last`. Extents inside are removed, and runs across a border are cut there.
    pub(super) fn carve(&mut self, extents: Root, first: u64, last: u64, segments: &mut Segments) -> Root {
        let head =
            self.0.at_or_below(extents, first).filter(|(start, it)| *start < first && it.last >= first);
        let tail = self.0.at_or_below(extents, last).filter(|(_, it)| it.last > last);
        let mut extents = self.0.remove_range(extents, first, last);
        if let Some((start, Extent { kind, .. })) = head {
            extents = self.0.remove(extents, start);
            extents = self.insert_run(extents, (start, first - 1), kind, segments);
        }
        if let Some((start, Extent { last: end, kind: ExtentKind::Run { segment, shared, index } })) = tail {
            let rest = ExtentKind::Run { segment, shared, index: index + (last + 1 - start) };
            extents = self.insert_run(extents, (last + 1, end), rest, segments);
        }
        extents
    }

    /// Reports dead pages: own pages that no address space holds any more, and segments' pages that no run
    /// covers now.
    pub(super) fn report_dead_pages(&mut self, segments: &mut Segments, dead: &mut Vec<PageId>) {
        let deaths = dead.len();
        let mut uncovered = Vec::new();
        for (first, extent) in self.0.take_released() {
            match extent.kind {
                ExtentKind::Own { page, .. } => dead.push(page),
                ExtentKind::Run { segment, index, .. } => {
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
