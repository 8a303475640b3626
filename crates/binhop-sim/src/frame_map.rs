//! This file holds the operating system as the hardware sees it in one lane. `FrameMap` knows each page's
//! frame, and `LaneTranslation` answers the hardware's questions.

use std::collections::BTreeMap;

use binhop_base::{FrameNo, MappingId, PageId, PageNo, Translation};

use crate::prepare::Mapped;

/// `Tables` holds the facts about mappings and pages that the hardware may ask for. They are the same in
/// every lane, and each worker keeps one copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    page: Vec<PageId>,
    virtual_page: Vec<PageNo>,
    /// For each mapping, the previous mapping of the same page. A page's first mapping names itself.
    before: Vec<MappingId>,
    /// For each page, its newest mapping.
    newest: Vec<MappingId>,
}

impl Tables {
    pub(crate) fn extend(&mut self, new: &[Mapped]) {
        for mapped in new {
            let mapping = MappingId(self.page.len() as u32);
            self.page.push(mapped.page);
            self.virtual_page.push(mapped.virtual_page);
            let before = match self.newest.get_mut(mapped.page.index()) {
                Some(newest) => std::mem::replace(newest, mapping),
                // Pages are numbered in the order of their first mappings.
                None => {
                    debug_assert_eq!(mapped.page.index(), self.newest.len());
                    self.newest.push(mapping);
                    mapping
                }
            };
            self.before.push(before);
        }
    }

    /// Returns every mapping of a page, newest first.
    pub(crate) fn mappings_of(&self, page: PageId) -> impl Iterator<Item = MappingId> {
        let before = |mapping: &MappingId| {
            let before = self.before[mapping.index()];
            (before != *mapping).then_some(before)
        };
        std::iter::successors(Some(self.newest[page.index()]), before)
    }
}

/// `FrameMap` knows the frame of each page of one lane. A dead page keeps its frame until the frame changes
/// hands, because caches may still hold the page's lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameMap {
    /// The frame of each page.
    frame_of: Vec<FrameNo>,
    /// The dead pages, by the frames under which their lines are found.
    dead_in: BTreeMap<FrameNo, PageId>,
}

impl FrameMap {
    /// The value that stands for no frame. No frame has this number, because physical addresses have 64 bits
    /// and a page has more than one byte.
    const NOWHERE: FrameNo = FrameNo(u64::MAX);

    pub(crate) fn put(&mut self, page: PageId, frame: FrameNo) {
        if page.index() >= self.frame_of.len() {
            self.frame_of.resize(page.index() + 1, Self::NOWHERE);
        }
        self.frame_of[page.index()] = frame;
    }

    /// Returns the frame that holds a page, or that held it last.
    pub(crate) fn last(&self, page: PageId) -> Option<FrameNo> {
        self.frame_of.get(page.index()).copied().filter(|&frame| frame != Self::NOWHERE)
    }

    /// Returns every page that has or had a frame, with the frame that held it last.
    pub(crate) fn all(&self) -> impl Iterator<Item = (PageId, FrameNo)> {
        let pages = (0..).map(PageId).zip(self.frame_of.iter().copied());
        pages.filter(|&(_, frame)| frame != Self::NOWHERE)
    }

    /// Notes that a page died in this frame. Its lines stay in the caches.
    pub(crate) fn died(&mut self, page: PageId, frame: FrameNo) {
        self.dead_in.insert(frame, page);
    }

    /// Takes the dead page whose lines a frame still has. The caller gives the frame to another page.
    pub(crate) fn take_dead(&mut self, frame: FrameNo) -> Option<PageId> {
        self.dead_in.remove(&frame)
    }
}

/// `LaneTranslation` is what the hardware of one lane sees of the operating system: the tables and the lane's
/// frames.
#[derive(Clone, Copy)]
pub(crate) struct LaneTranslation<'a> {
    pub(crate) tables: &'a Tables,
    /// The frames; `None` for a front that all placements share, which must not ask for frames.
    pub(crate) frames: Option<&'a FrameMap>,
}

impl Translation for LaneTranslation<'_> {
    #[inline]
    fn page(&self, mapping: MappingId) -> PageId {
        self.tables.page[mapping.index()]
    }

    #[inline]
    fn frame(&self, page: PageId) -> FrameNo {
        let frame = self.frames.expect("a shared front does not ask for frames").frame_of[page.index()];
        debug_assert_ne!(frame, FrameMap::NOWHERE, "a page is placed before its lines are asked for");
        frame
    }

    #[inline]
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        self.tables.virtual_page[mapping.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mapping_of_a_page_is_found_newest_first() {
        let mut tables = Tables::default();
        let mapped = |page, virtual_page| Mapped { page: PageId(page), virtual_page: PageNo(virtual_page) };
        tables.extend(&[mapped(0, 7), mapped(1, 8), mapped(0, 9)]);
        tables.extend(&[mapped(2, 7), mapped(0, 3)]);
        let of = |page| tables.mappings_of(PageId(page)).map(|mapping| mapping.0).collect::<Vec<_>>();
        assert_eq!([of(0), of(1), of(2)], [vec![4, 2, 0], vec![1], vec![3]]);
        let view = LaneTranslation { tables: &tables, frames: None };
        assert_eq!((view.page(MappingId(4)), view.virtual_page(MappingId(4))), (PageId(0), PageNo(3)));
    }
}
