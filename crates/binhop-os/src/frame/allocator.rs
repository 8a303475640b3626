//! `Allocator` hands out the frames of a lane. There are two kinds: the pool with a policy that picks from
//! it, and a policy with free lists and victims of its own.

use alloc::{boxed::Box, format, vec::Vec};

use binhop_base::{FrameNo, PageId, Problem, Result};

use super::{Draws, PageRequest, Placed, Pool, PoolPolicy, Recency, RunCounts, lru::LruList};

/// `Allocator` hands out the frames of one lane, numbered from 0. One instance serves one lane.
///
/// [`Frames`](crate::Frames) knows which page is in which frame; an allocator keeps what it needs to choose.
pub trait Allocator: Send {
    /// Returns P, the number of frames.
    fn frames(&self) -> u64;

    /// Returns whether the next [`place`](Self::place) reads its [`Recency`]. Once the answer is true, it
    /// stays true.
    fn needs_recency(&self) -> bool;

    /// Gives a page a frame. Returns the frame and the page that it held.
    ///
    /// # Errors
    /// A policy that is not built in may fail in its own ways. The run stops.
    fn place(&mut self, request: &PageRequest, recency: &Recency, draws: Draws) -> Result<Placed>;

    /// Wires a frame for a page, which is never evicted. Returns the frame and the page that it held. `draws`
    /// are the draws of wired pages.
    ///
    /// # Errors
    /// Every frame is wired already, or the policy knows no frame for a wired page.
    fn wire(&mut self, page: PageId, recency: &Recency, draws: Draws) -> Result<Placed>;

    /// Frees a wired frame whose page has died. The frame was last used at this moment.
    fn unwire(&mut self, frame: FrameNo);

    /// Counts the wired frames, one by one.
    fn wired(&self) -> u64;

    /// Frees a frame that is not wired and whose page has died.
    fn release(&mut self, frame: FrameNo);

    /// Returns whether a run of frames is whole. An allocator without runs has none.
    fn holds_run(&self, _run: u32) -> bool {
        false
    }

    /// Takes the runs that were split since the last call.
    fn take_split(&mut self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the counts of runs.
    fn run_counts(&self) -> RunCounts {
        RunCounts::default()
    }

    /// Returns the page in a frame.
    fn page_in(&self, frame: FrameNo) -> Option<PageId>;

    /// Counts the frames that hold a page, one by one.
    fn held(&self) -> u64;

    /// Returns whether every frame is in the lists exactly once, and all counts are true.
    fn is_consistent(&self) -> bool;

    /// Drops a frame, so that a test can see the check fail.
    #[cfg(test)]
    fn corrupt_for_test(&mut self) {}
}

/// `PoolAllocator` lets a policy pick from the K least recently used frames.
pub(super) struct PoolAllocator {
    pub(super) list: LruList,
    pub(super) policy: Box<dyn PoolPolicy>,
}

impl Allocator for PoolAllocator {
    fn frames(&self) -> u64 {
        self.list.len() as u64
    }

    fn needs_recency(&self) -> bool {
        self.list.needs_recency()
    }

    fn place(&mut self, request: &PageRequest, recency: &Recency, draws: Draws) -> Result<Placed> {
        let Self { list, policy } = self;
        list.refresh(request, recency);
        check_unwired(list.unwired())?;
        list.expect(|ordinal, len| policy.rank(draws.later(ordinal), len));
        let chosen = policy.choose(request, &Pool::new(list), draws)?;
        if !list.holds(chosen.0) {
            return Err(outside(chosen, policy.name(), request, draws, list));
        }
        let evicted = list.take(chosen.0 as u32, request);
        Ok(Placed { frame: chosen, evicted })
    }

    fn wire(&mut self, page: PageId, recency: &Recency, draws: Draws) -> Result<Placed> {
        self.list.renew(recency);
        check_unwired(self.list.unwired())?;
        let rank = draws.below(0, self.list.pool_len() as u64);
        let frame = self.list.frame(rank as usize);
        let evicted = self.list.wire(frame, page);
        Ok(Placed { frame: FrameNo(u64::from(frame)), evicted })
    }

    fn unwire(&mut self, frame: FrameNo) {
        self.list.unwire(frame.0 as u32);
    }

    fn wired(&self) -> u64 {
        self.list.wired()
    }

    fn release(&mut self, frame: FrameNo) {
        self.list.release(frame.0 as u32);
    }

    fn page_in(&self, frame: FrameNo) -> Option<PageId> {
        self.list.content(frame.0 as u32).page()
    }

    fn held(&self) -> u64 {
        self.list.held()
    }

    fn is_consistent(&self) -> bool {
        self.list.is_consistent()
    }

    #[cfg(test)]
    fn corrupt_for_test(&mut self) {
        self.list.corrupt_for_test();
    }
}

/// Checks that a frame is left for a page, where `unwired` frames are not wired.
///
/// # Errors
/// Every frame is wired.
pub(crate) fn check_unwired(unwired: usize) -> Result<()> {
    if unwired > 0 {
        return Ok(());
    }
    Err(Problem::run(
        "every frame is wired",
        "frames",
        "a page takes a frame that is not wired",
        "make memory.size larger: page tables, the page cache and the kernel take all of it",
    ))
}

/// Returns the problem of a policy that chose a frame outside the pool.
#[cold]
fn outside(
    chosen: FrameNo,
    policy: &str,
    request: &PageRequest,
    draws: Draws,
    list: &LruList,
) -> Box<Problem> {
    let PageRequest { page, asid, page_no, .. } = request;
    let fault = draws.fault();
    Problem::run(
        &format!("frame {chosen}"),
        &format!(
            "placement policy {policy}, fault {fault}: page {page}, virtual page {page_no} of asid {asid}"
        ),
        &format!("a policy chooses one of the {} frames of the pool", Pool::new(list).len()),
        "take one that the pool lists",
    )
}
