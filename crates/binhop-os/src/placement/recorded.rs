//! `recorded` repeats placements that were made elsewhere: by another run, or by a real machine.
//!
//! The n-th placement of a page takes the n-th frame recorded for the page. Address space and virtual page of
//! the fault name the page. After the last recorded frame, the page takes this frame again. A page of a map
//! always has one frame. The page that the frame holds is evicted. A page that the recording does not name
//! ends the run: the policy invents no frame. Its only state is the number of placements of each page.
//!
//! A wired page takes the lowest frame that the recording never gives. A recording says where programs' pages
//! lie, and says nothing about other pages; so every program's page keeps its recorded frame. If the
//! recording gives every frame of memory, the wired page is refused.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec::Vec,
};

use binhop_base::{Asid, FrameNo, PageId, PageNo, Problem, Result};

use super::recording::Recording;
use super::settings::FILE;
use super::{AllocatorPolicy, Mechanism, Policy};
use crate::{Allocator, Draws, PageRequest, Placed, Recency};

pub(super) static POLICY: Policy = Policy {
    name: "recorded",
    rule: "The policy takes the frame that a recording gives: the n-th placement of a page takes the n-th frame \
           recorded for the page.",
    source: "binhop",
    cost: "16 B for each frame and a counter for each page; O(log pages); no draw.",
    parameters: &[FILE],
    mechanism: Mechanism::Allocator(AllocatorPolicy {
        build: |settings, _| Box::new(Recorded::new(settings.frames, Arc::clone(&settings.recording))),
        // A recording may evict any page, unless it says that it never evicts.
        safe_frames: |settings| if settings.recording.evicts { 0 } else { settings.frames - 1 },
        // A real machine may reuse a dead page's frame at any time.
        reuses_frames: true,
        largest_run_log2: None,
        reads_recency: false,
        is_random: |_| false,
        has_lists: false,
    }),
};

struct Recorded {
    recording: Arc<Recording>,
    /// The frames that neither the recording nor a wired page uses. The list is made when the first page is
    /// wired.
    spare: Option<BTreeSet<u64>>,
    wired: BTreeSet<u64>,
    /// The number of placements of each page.
    placed: BTreeMap<(Asid, PageNo), usize>,
    /// The page in each frame.
    pages: Vec<Option<PageId>>,
}

impl Recorded {
    fn new(frames: u64, recording: Arc<Recording>) -> Self {
        let (spare, wired, placed) = (None, BTreeSet::new(), BTreeMap::new());
        Self { recording, spare, wired, placed, pages: alloc::vec![None; frames as usize] }
    }
}

impl Allocator for Recorded {
    fn frames(&self) -> u64 {
        self.pages.len() as u64
    }

    fn needs_recency(&self) -> bool {
        false
    }

    fn place(&mut self, request: &PageRequest, _: &Recency, draws: Draws) -> Result<Placed> {
        let key = (request.asid, request.page_no);
        let problem = |value: &str, rule: &str, remedy: &str| {
            let place = format!(
                "placement policy recorded, fault {}: virtual page {} of asid {}",
                draws.fault(),
                key.1,
                key.0
            );
            Problem::request(value, &place, rule, remedy)
        };
        let ordinal = self.placed.entry(key).or_insert(0);
        let Some(frame) = self.recording.frame(key, *ordinal) else {
            let rule = "every page that is touched has a frame in the recording";
            let remedy =
                "replay the trace that the recording was made on; if it is a map, add this page to it";
            return Err(problem("no frame", rule, remedy));
        };
        *ordinal += 1;
        let Some(held) = self.pages.get_mut(frame.0 as usize) else {
            let rule = "the frames of a recording lie in memory";
            return Err(problem(&format!("frame {frame}"), rule, "set memory.size as in the recorded run"));
        };
        let evicted = held.replace(request.page);
        if let (Some(page), false) = (evicted, self.recording.evicts) {
            let rule = "the recording says that no page leaves its frame for another";
            let remedy = "replay the whole trace that the recording was made on";
            return Err(problem(&format!("frame {frame}, which holds page {page}"), rule, remedy));
        }
        Ok(Placed { frame, evicted })
    }

    fn wire(&mut self, page: PageId, _: &Recency, _: Draws) -> Result<Placed> {
        let Self { recording, spare, pages, .. } = self;
        let spare = spare.get_or_insert_with(|| recording.spare(pages.len() as u64));
        let Some(frame) = spare.pop_first() else {
            return Err(Problem::request(
                &format!("wired page {page}"),
                "placement policy recorded",
                "a wired page takes a frame that the recording does not use, and the recording uses all frames that are left",
                "make memory.size larger, or set another placement.policy",
            ));
        };
        self.wired.insert(frame);
        self.pages[frame as usize] = Some(page);
        Ok(Placed { frame: FrameNo(frame), evicted: None })
    }

    fn unwire(&mut self, frame: FrameNo) {
        assert!(self.wired.remove(&frame.0), "only a wired page is unwired");
        self.pages[frame.0 as usize] = None;
        self.spare.get_or_insert_default().insert(frame.0);
    }

    fn wired(&self) -> u64 {
        self.wired.len() as u64
    }

    fn release(&mut self, frame: FrameNo) {
        assert!(!self.wired.contains(&frame.0), "a wired page does not die");
        self.pages[frame.0 as usize] = None;
    }

    fn page_in(&self, frame: FrameNo) -> Option<PageId> {
        self.pages[frame.0 as usize]
    }

    fn held(&self) -> u64 {
        self.pages.iter().flatten().count() as u64
    }

    fn is_consistent(&self) -> bool {
        let mut spare = self.spare.iter().flatten();
        let wired = self.wired.iter().all(|&frame| self.pages[frame as usize].is_some());
        wired && spare.all(|&frame| self.pages[frame as usize].is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frames;
    use crate::placement::Settings;
    use crate::placement::bench::page;

    fn frames(evicts: bool) -> Frames {
        let rows = [(0, 7, 3), (1, 7, 0), (0, 7, 2), (0, 8, 3), (0, 9, 64)];
        let rows = rows.map(|(asid, page, frame)| (Asid(asid), PageNo(page), FrameNo(frame)));
        let recording = Arc::new(Recording::new(rows, evicts));
        assert_eq!(recording.last_frame(), Some(FrameNo(64)));
        POLICY.frames(&Settings { recording, ..Settings::new(8, 1) }, 0).unwrap()
    }

    #[test]
    fn each_page_gets_its_frames_in_order_and_evicts_the_page_there() {
        let mut frames = frames(true);
        let mut place = |number: u32, page_no: u64, asid: u32| {
            let placed = frames.place(&page(number).at(page_no).by(asid), &Recency::new()).unwrap();
            (placed.frame.0, placed.evicted)
        };
        assert_eq!(place(0, 7, 0), (3, None));
        assert_eq!(place(1, 7, 1), (0, None));
        assert_eq!(place(2, 8, 0), (3, Some(PageId(0))));
        assert_eq!(place(0, 7, 0), (2, None), "the page has a second frame");
        frames.release(PageId(0));
        let mut place = |number: u32, page_no: u64| {
            frames.place(&page(number).at(page_no).by(0), &Recency::new()).map(|placed| placed.frame.0)
        };
        assert_eq!(place(3, 7), Ok(2), "the page takes its last frame again");
        assert!(place(4, 11).unwrap_err().rule.contains("every page"));
        assert!(place(5, 9).unwrap_err().rule.contains("lie in memory"));
        frames.check().unwrap();
    }

    #[test]
    fn a_recording_that_says_that_it_never_evicts_is_held_to_it() {
        let mut frames = frames(false);
        frames.place(&page(0).at(7).by(0), &Recency::new()).unwrap();
        let problem = frames.place(&page(2).at(8).by(0), &Recency::new()).unwrap_err();
        assert!(problem.rule.contains("no page leaves"), "{problem}");
    }
}
