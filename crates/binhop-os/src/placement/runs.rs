//! `Runs` holds the whole runs of frames that an allocator has handed out (see [`RunPlace`](crate::RunPlace)).

use alloc::{collections::BTreeMap, collections::BTreeSet, vec::Vec};

use crate::{RunCounts, RunPlace};

/// `WholeRun` is a run of frames that was not split.
struct WholeRun {
    first: u32,
    /// For each frame, true if a page has joined.
    joined: Vec<bool>,
    unused: u32,
}

/// `Runs` holds the whole runs of a lane.
#[derive(Default)]
pub(super) struct Runs {
    whole: BTreeMap<u32, WholeRun>,
    /// The number of each run, by its first frame.
    by_frame: BTreeMap<u32, u32>,
    /// The runs that have frames which no page has joined. The run that was taken longest ago has the lowest number.
    underused: BTreeSet<u32>,
    /// The runs that were split and not yet reported.
    split: Vec<u32>,
    counts: RunCounts,
}

impl Runs {
    pub(super) fn counts(&self) -> RunCounts {
        self.counts
    }

    /// Returns whether a run is whole.
    pub(super) fn holds(&self, run: u32) -> bool {
        self.whole.contains_key(&run)
    }

    /// Notes that a run begins at a frame, or that no run was free.
    pub(super) fn begin(&mut self, place: RunPlace, first: Option<u32>) {
        let Some(first) = first else {
            self.counts.fallbacks += 1;
            return;
        };
        let frames = 1 << place.frames_log2;
        self.whole
            .insert(place.run, WholeRun { first, joined: alloc::vec![false; frames], unused: frames as u32 });
        self.by_frame.insert(first, place.run);
        self.underused.insert(place.run);
        self.counts.taken += 1;
        // The page that begins the run joins it at once.
        self.counts.unused += frames as u64;
        self.counts.most_unused = self.counts.most_unused.max(self.counts.unused - 1);
    }

    /// Lets a page join its run, if the run is whole. Returns the page's frame.
    pub(super) fn join(&mut self, place: RunPlace) -> Option<u32> {
        let run = self.whole.get_mut(&place.run)?;
        let joined = &mut run.joined[place.index as usize];
        assert!(!*joined, "a place in a run belongs to one page");
        *joined = true;
        run.unused -= 1;
        if run.unused == 0 {
            self.underused.remove(&place.run);
        }
        self.counts.unused -= 1;
        Some(run.first + place.index)
    }

    /// Returns the whole run in which a frame lies.
    pub(super) fn of_frame(&self, frame: u32) -> Option<u32> {
        let (&first, &run) = self.by_frame.range(..=frame).next_back()?;
        let frames = self.whole[&run].joined.len();
        (((frame - first) as usize) < frames).then_some(run)
    }

    /// Returns the run that was taken longest ago among those with frames that no page has joined.
    pub(super) fn oldest_underused(&self) -> Option<u32> {
        self.underused.first().copied()
    }

    /// Splits a run. Returns the frames that no page has joined, in order.
    pub(super) fn split(&mut self, run: u32) -> Vec<u32> {
        let WholeRun { first, joined, unused } = self.whole.remove(&run).expect("a whole run is split");
        self.by_frame.remove(&first);
        self.underused.remove(&run);
        self.split.push(run);
        self.counts.splits += 1;
        self.counts.unused -= u64::from(unused);
        (first..).zip(joined).filter(|(_, joined)| !joined).map(|(frame, _)| frame).collect()
    }

    /// Takes the runs that were split since the last call.
    pub(super) fn take_split(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.split)
    }

    /// Returns the frames of whole runs that no page has joined.
    pub(super) fn unused(&self) -> impl Iterator<Item = u32> {
        self.whole.values().flat_map(|run| {
            (run.first..).zip(&run.joined).filter(|(_, joined)| !**joined).map(|(frame, _)| frame)
        })
    }

    /// Returns whether all counts are true.
    pub(super) fn is_consistent(&self) -> bool {
        let unused = |run: &WholeRun| run.joined.iter().filter(|joined| !**joined).count();
        self.unused().count() as u64 == self.counts.unused
            && self.by_frame.len() == self.whole.len()
            && self.whole.values().all(|run| unused(run) == run.unused as usize)
            && self.whole.iter().all(|(number, run)| self.underused.contains(number) == (run.unused > 0))
    }
}
