//! `Division` counts the pages in conflict: how many pages of an address space a cache has no room for.

use binhop_base::{Asid, FrameNo, Result};
use binhop_hw::{CacheConfig, IndexBy};

use super::BackModel;
use crate::results::meter::Conflicts;

#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    pub(super) bins: u64,
    ways: u64,
}

impl Division {
    pub(super) fn of(cache: &CacheConfig, page: u64) -> Option<Self> {
        let way = cache.sets() * cache.line.bytes();
        let divided = cache.index == IndexBy::Physical && !cache.hashed && way >= page;
        divided.then(|| Self { bins: way / page, ways: u64::from(cache.ways) })
    }

    /// Returns the pages in conflict among the pages in these frames (KH90 §2): in each bin the pages
    /// beyond its ways.
    pub(super) fn conflicts(self, frames: &[FrameNo], counts: &mut Vec<u64>) -> Conflicts {
        counts.clear();
        counts.resize(self.bins as usize, 0);
        for frame in frames {
            counts[(frame.0 & (self.bins - 1)) as usize] += 1;
        }
        let pages = counts.iter().map(|&used| used.saturating_sub(self.ways)).sum();
        Conflicts { pages, fewest: (frames.len() as u64).saturating_sub(self.bins * self.ways) }
    }
}

impl BackModel {
    /// Notes the pages that an address space has in memory: their frames, and how many of them are shared.
    pub(crate) fn footprint(&mut self, asid: Asid, frames: &[FrameNo], shared: u64) -> Result<()> {
        let Self { sets, account, pages, .. } = self;
        let conflicts = sets.iter().flatten().map(|sets| sets.conflicts(frames, pages));
        account.meter().footprint(asid, frames.len() as u64, shared, conflicts)
    }

    /// Returns for each cache whether footprints tell of conflicts in it.
    pub(crate) fn divided(&self) -> Vec<bool> {
        self.sets.iter().map(Option::is_some).collect()
    }
}
