//! `Recording` holds the placements that the policy `recorded` repeats.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use binhop_base::{Asid, FrameNo, PageNo};

/// `Recording` holds the frames that each virtual page of each address space was given, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    frames: BTreeMap<(Asid, PageNo), Vec<FrameNo>>,
    /// Runs of pages in runs of frames. The key is the first page; the value is the number of pages and the
    /// first frame.
    runs: BTreeMap<(Asid, PageNo), (u64, FrameNo)>,
    /// True if a page may leave its frame for another page.
    pub(super) evicts: bool,
}

impl Recording {
    /// Makes a recording of one row for each placement, in order. `evicts` is true if a page may leave its
    /// frame for another page.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = (Asid, PageNo, FrameNo)>, evicts: bool) -> Self {
        let mut frames: BTreeMap<_, Vec<FrameNo>> = BTreeMap::new();
        for (asid, page_no, frame) in rows {
            frames.entry((asid, page_no)).or_default().push(frame);
        }
        Self { frames, runs: BTreeMap::new(), evicts }
    }

    /// Adds the runs of a map: pages in a row, from the first page on, in frames in a row. Runs must not
    /// overlap. A frame recorded for a single page holds instead of the frame of a run.
    #[must_use]
    pub fn with_runs(self, runs: impl IntoIterator<Item = (Asid, PageNo, FrameNo, u64)>) -> Self {
        let runs =
            runs.into_iter().map(|(asid, page, frame, pages)| ((asid, page), (pages, frame))).collect();
        Self { runs, ..self }
    }

    /// Returns the highest frame that the recording gives, if it gives any.
    #[must_use]
    pub fn last_frame(&self) -> Option<FrameNo> {
        let runs = self.runs.values().map(|(pages, first)| FrameNo(first.0.saturating_add(pages - 1)));
        self.frames.values().flatten().copied().chain(runs).max()
    }

    /// Returns the frames of a memory that the recording never gives.
    pub(super) fn spare(&self, frames: u64) -> BTreeSet<u64> {
        let mut spare: BTreeSet<u64> = (0..frames).collect();
        self.frames.values().flatten().for_each(|frame| {
            spare.remove(&frame.0);
        });
        for &(pages, FrameNo(first)) in self.runs.values() {
            let end = first.saturating_add(pages).min(frames);
            (first..end).for_each(|frame| {
                spare.remove(&frame);
            });
        }
        spare
    }

    /// Returns the frame for the placement of a page that was placed `before` times.
    pub(super) fn frame(&self, page: (Asid, PageNo), before: usize) -> Option<FrameNo> {
        if let Some(frames) = self.frames.get(&page) {
            return Some(frames[before.min(frames.len() - 1)]);
        }
        let (&(asid, first), &(pages, frame)) = self.runs.range(..=page).next_back()?;
        let ahead = page.1.0.checked_sub(first.0).filter(|&ahead| asid == page.0 && ahead < pages)?;
        Some(FrameNo(frame.0 + ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_gives_pages_in_a_row_frames_in_a_row() {
        let rows = [(Asid(1), PageNo(5), FrameNo(0))];
        let runs = [(Asid(0), PageNo(512), FrameNo(2), 3), (Asid(1), PageNo(4), FrameNo(5), 2)];
        let recording = Recording::new(rows, false).with_runs(runs);
        assert_eq!(recording.last_frame(), Some(FrameNo(6)));
        let frame = |asid, page| recording.frame((Asid(asid), PageNo(page)), 0).map(|frame| frame.0);
        assert_eq!(
            (511..=515).map(|page| frame(0, page)).collect::<Vec<_>>(),
            [None, Some(2), Some(3), Some(4), None]
        );
        assert_eq!((3..=6).map(|page| frame(1, page)).collect::<Vec<_>>(), [None, Some(5), Some(0), None]);
        assert_eq!(frame(2, 4), None);
    }
}
