//! `recorded`: the frames that a placement made elsewhere gave: another run's, or a real machine's.
//!
//! The n-th placement of a page takes the n-th frame recorded for it (named by the address space and the virtual
//! page that fault), and after the last one the last again; a page of a map has one frame for all time. What else is
//! in the frame leaves. A page that the recording does not know ends the run: nothing is made up. No state but how often
//! each page was placed.
//!
//! A wired page takes the lowest frame that the recording never gives, because a recording says where the pages of programs
//! lie and nothing of others. So every program's page has the frame that was recorded. Where the recording gives every
//! frame of memory, the wired page is refused.

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
    rule: "The frame that a recording gives for the page: its n-th placement takes the n-th frame recorded for it.",
    source: "binhop",
    cost: "16 B for each frame and a counter for each page; O(log pages); no draw.",
    parameters: &[FILE],
    mechanism: Mechanism::Allocator(AllocatorPolicy {
        build: |settings, _| Box::new(Recorded::new(settings.frames, Arc::clone(&settings.recording))),
        // A recording may evict whatever it likes, unless it never does.
        safe_frames: |settings| if settings.recording.evicts { 0 } else { settings.frames - 1 },
        // A real machine gives away a dead page's frame when it likes.
        reuses_frames: true,
        reads_recency: false,
        is_random: |_| false,
    }),
};

struct Recorded {
    recording: Arc<Recording>,
    /// The frames that neither the recording nor a wired page uses; listed when the first page is wired.
    spare: Option<BTreeSet<u64>>,
    wired: BTreeSet<u64>,
    /// The number of times that each page was placed.
    placed: BTreeMap<(Asid, PageNo), usize>,
    /// By frame.
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
                "replay the trace that the recording was made on; to a map that leaves this page out, add it";
            return Err(problem("no frame", rule, remedy));
        };
        *ordinal += 1;
        let Some(held) = self.pages.get_mut(frame.0 as usize) else {
            let rule = "the frames of a recording lie in memory";
            return Err(problem(&format!("frame {frame}"), rule, "make memory.size what it was"));
        };
        let evicted = held.replace(request.page);
        if let (Some(page), false) = (evicted, self.recording.evicts) {
            let rule = "the recording says that no page leaves its frame for another";
            let remedy = "replay the trace that it was made on, whole";
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
                "a wired page takes a frame that the recording does not use, and it uses all frames that are left",
                "make memory.size larger, or take another placement.policy",
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

    fn is_whole(&self) -> bool {
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
    fn each_page_gets_its_frames_in_order_and_whoever_is_there_leaves() {
        let mut frames = frames(true);
        let mut place = |number: u32, page_no: u64, asid: u32| {
            let placed = frames.place(&page(number).at(page_no).by(asid), &Recency::new()).unwrap();
            (placed.frame.0, placed.evicted)
        };
        assert_eq!(place(0, 7, 0), (3, None));
        assert_eq!(place(1, 7, 1), (0, None));
        assert_eq!(place(2, 8, 0), (3, Some(PageId(0))));
        assert_eq!(place(0, 7, 0), (2, None), "its second frame");
        frames.release(PageId(0));
        let mut place = |number: u32, page_no: u64| {
            frames.place(&page(number).at(page_no).by(0), &Recency::new()).map(|placed| placed.frame.0)
        };
        assert_eq!(place(3, 7), Ok(2), "the last one again");
        assert!(place(4, 11).unwrap_err().rule.contains("every page"));
        assert!(place(5, 9).unwrap_err().rule.contains("lie in memory"));
        frames.check().unwrap();
    }

    #[test]
    fn a_recording_that_never_evicts_must_not() {
        let mut frames = frames(false);
        frames.place(&page(0).at(7).by(0), &Recency::new()).unwrap();
        let problem = frames.place(&page(2).at(8).by(0), &Recency::new()).unwrap_err();
        assert!(problem.rule.contains("no page leaves"), "{problem}");
    }
}
