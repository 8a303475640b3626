//! What hardware sees of the operating system, in one lane.

use std::collections::BTreeMap;

use binhop_base::{FrameNo, MappingId, PageId, PageNo, Translation};
use binhop_os::Frames;

use crate::prepare::Mapped;

/// What the hardware may ask about mappings and pages, the same in every lane. Each worker keeps one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    page: Vec<PageId>,
    virtual_page: Vec<PageNo>,
    /// By page: its first mapping, then the others.
    mappings: Vec<Vec<MappingId>>,
}

impl Tables {
    pub(crate) fn extend(&mut self, new: &[Mapped]) {
        for mapped in new {
            let mapping = MappingId(self.page.len() as u32);
            self.page.push(mapped.page);
            self.virtual_page.push(mapped.virtual_page);
            if mapped.page.index() >= self.mappings.len() {
                self.mappings.resize(mapped.page.index() + 1, Vec::new());
            }
            self.mappings[mapped.page.index()].push(mapping);
        }
    }

    pub(crate) fn mappings_of(&self, page: PageId) -> &[MappingId] {
        &self.mappings[page.index()]
    }
}

/// The tables together with one lane's frames: what its hardware sees of the operating system.
pub(crate) struct View<'a> {
    pub(crate) tables: &'a Tables,
    /// `None` in front of a stage that all placements share: it must not ask.
    pub(crate) frames: Option<(&'a Frames, &'a Ghosts)>,
}

/// Frames whose page died. They are free, but caches still hold the page's lines, which are found by the
/// frame until it changes hands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ghosts {
    frame_of: BTreeMap<PageId, FrameNo>,
    page_in: BTreeMap<FrameNo, PageId>,
}

impl Ghosts {
    pub(crate) fn insert(&mut self, page: PageId, frame: FrameNo) {
        self.frame_of.insert(page, frame);
        self.page_in.insert(frame, page);
    }

    /// The dead page whose lines a frame still has, if any: the frame changes hands.
    pub(crate) fn take(&mut self, frame: FrameNo) -> Option<PageId> {
        let page = self.page_in.remove(&frame)?;
        self.frame_of.remove(&page);
        Some(page)
    }
}

impl Translation for View<'_> {
    #[inline]
    fn page(&self, mapping: MappingId) -> PageId {
        self.tables.page[mapping.index()]
    }

    #[inline]
    fn frame(&self, page: PageId) -> FrameNo {
        let (frames, ghosts) = self.frames.expect("a shared front does not ask for frames");
        let frame = frames.frame_of(page).or_else(|| ghosts.frame_of.get(&page).copied());
        frame.expect("a page is placed before its lines are asked for")
    }

    #[inline]
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.tables.virtual_page[mapping.index()]
    }

    #[inline]
    fn global_page(&self, page: PageId) -> PageNo {
        self.tables.virtual_page[self.tables.mappings[page.index()][0].index()]
    }
}

/// A lane's view while a frame changes hands: the page it held is still found there.
pub(crate) struct Held<'a> {
    pub(crate) view: View<'a>,
    pub(crate) page: PageId,
    pub(crate) frame: FrameNo,
}

impl Translation for Held<'_> {
    fn page(&self, mapping: MappingId) -> PageId {
        self.view.page(mapping)
    }

    fn frame(&self, page: PageId) -> FrameNo {
        if page == self.page { self.frame } else { self.view.frame(page) }
    }

    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.view.virtual_page(mapping)
    }

    fn global_page(&self, page: PageId) -> PageNo {
        self.view.global_page(page)
    }
}
