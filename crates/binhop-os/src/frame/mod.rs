//! `Frames` knows which page is in which frame, under one placement of one seed (a lane).
//!
//! # Rules (KH90 §4.1.2)
//! - At every placement the policy may choose one of exactly K frames, the *pool*: the K least recently used
//!   frames, even while all of memory is unused. The list of frames starts in a random order drawn from the
//!   seed.
//! - Every reference moves the frame of its page to the most recent end of the list, and so out of the pool.
//! - A frame in the pool may still hold a page. The page stays mapped until the frame is chosen; then it is
//!   evicted.
//! - When a page dies, its frame becomes free and keeps its place in the list.
//! - User + tables + cache + kernel + free = P holds always, and no frame is in two places
//!   ([`Frames::check`]). `wired.rs` has the rules of wired frames, which are not in the list.

pub(crate) mod age_queue;
pub(crate) mod allocator;
mod bin_tree;
mod bins;
pub(crate) mod content;
mod draws;
mod fresh;
pub(crate) mod lru;
mod pool;
mod ranks;
mod recency;
mod run;
mod used_pool;
mod wired;

use alloc::{boxed::Box, format, sync::Arc, vec::Vec};

use binhop_base::{Asid, FrameNo, PageId, PageNo, Problem, Result, Rng, counted};

use crate::SegmentId;
pub use allocator::Allocator;
use allocator::PoolAllocator;
pub use bins::{BinCounts, StateScope};
pub use draws::Draws;
pub(crate) use fresh::part_at_start;
use lru::LruList;
pub use pool::{Pool, PoolPolicy};
pub use recency::Recency;
pub use run::{RunCounts, RunPlace};
pub use wired::{Holdings, WiredKind};

/// `PageRequest` asks for a frame: it names the page of a fault, the address space that touched the page, and
/// the place of the touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// The page that needs a frame.
    pub page: PageId,
    /// The address space that touched the page.
    pub asid: Asid,
    /// The virtual page number at which the page was touched.
    pub page_no: PageNo,
    /// The segment of the page (see [`Spaces::segment_of`](crate::Spaces::segment_of)).
    pub segment: SegmentId,
    /// All segments in which the address space can have pages, each once, with the page's own segment (see
    /// [`Spaces::segments_of_space`](crate::Spaces::segments_of_space)). The list is empty if no policy reads
    /// it.
    pub segments: Arc<[SegmentId]>,
    /// The page's place in a run of frames, if the page is touched for the first time and is a part of a huge page.
    /// Allocators without runs do not read it.
    pub run: Option<RunPlace>,
    /// True if the page was touched at an address that all address spaces share, as they share the kernel's half.
    pub in_kernel: bool,
}

/// `Placed` is the result of a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The frame that the page is in.
    pub frame: FrameNo,
    /// The page that was evicted from the frame, if the frame held a page.
    pub evicted: Option<PageId>,
}

/// `Slot` is the frame of a page, or no frame. Frame 2⁶⁴ − 1 cannot exist, because a page has at least two
/// bytes.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    const NONE: Self = Self(u64::MAX);

    #[inline]
    fn get(self) -> Option<FrameNo> {
        (self.0 != u64::MAX).then_some(FrameNo(self.0))
    }
}

enum Memory {
    /// The frame is the virtual page number. Memory has no size and no list, and evicts nothing.
    Identity,
    Sized {
        allocator: Box<dyn Allocator>,
        rng: Rng,
    },
}

/// `Frames` is the memory of one lane.
///
/// ```
/// use binhop_base::{Asid, PageId, PageNo};
/// use binhop_os::placement::{self, Settings};
/// use binhop_os::{PageRequest, Recency, SegmentId};
///
/// let first = placement::policy("first").unwrap();
/// let mut frames = first.frames(&Settings::new(2, 1), 0)?; // two frames, a pool of one
/// let mut recency = Recency::new();
/// for number in 0..3 {
///     let page = PageId(number);
///     let (asid, page_no, segment) = (Asid(0), PageNo(number.into()), SegmentId(0));
///     recency.note(page, u64::from(number) + 1);
///     let (segments, run, in_kernel) = ([segment].into(), None, false);
///     let request = PageRequest { page, asid, page_no, segment, segments, run, in_kernel };
///     let placed = frames.place(&request, &recency)?;
///     assert_eq!(placed.evicted, (number == 2).then_some(PageId(0)));
/// }
/// # Ok::<(), Box<binhop_base::Problem>>(())
/// ```
pub struct Frames {
    slots: Vec<Slot>,
    memory: Memory,
    mapped: u64,
    /// The number of wired frames, by [`WiredKind`].
    wired: [u64; WiredKind::ALL.len()],
    /// The number of pages that were ever wired.
    wirings: u64,
    faults: u64,
    /// The number of pages that joined a run of frames, without a fault.
    joined: u64,
    evictions: u64,
}

impl Frames {
    /// Makes `frames` unused frames in an order drawn from `seed`. The policy chooses from a pool of `pool`
    /// frames.
    ///
    /// # Errors
    /// There is no frame, there are 2³² − 1 frames or more, or the pool is empty or larger than memory.
    pub fn new(frames: u64, pool: u64, policy: Box<dyn PoolPolicy>, seed: u64) -> Result<Self> {
        let count = check_count(frames)?;
        if pool == 0 || pool > frames {
            return Err(Problem::request(
                &counted(pool, ["frame", "frames"]),
                "placement.pool",
                &format!("the pool has at least one frame and at most all {frames} of memory"),
                "change placement.pool or memory.size",
            ));
        }
        let list = LruList::new(count, Rng::new(seed), 0, pool as usize, policy.bin_counts());
        Ok(Self::with(Box::new(PoolAllocator { list, policy }), seed))
    }

    /// Makes a memory whose frames an allocator hands out.
    #[must_use]
    pub fn with(allocator: Box<dyn Allocator>, seed: u64) -> Self {
        Self::of(Memory::Sized { allocator, rng: Rng::new(seed) })
    }

    /// Makes a memory where physical = virtual: every page lies in the frame of its virtual page number.
    #[must_use]
    pub fn identity() -> Self {
        Self::of(Memory::Identity)
    }

    fn of(memory: Memory) -> Self {
        let (slots, wired) = (Vec::new(), [0; WiredKind::ALL.len()]);
        Self { slots, memory, mapped: 0, wired, wirings: 0, faults: 0, joined: 0, evictions: 0 }
    }

    /// Returns the frame that holds a page, if the page is resident.
    #[inline]
    #[must_use]
    pub fn frame_of(&self, page: PageId) -> Option<FrameNo> {
        self.slots.get(page.index()).and_then(|slot| slot.get())
    }

    /// Returns whether the next [`place`](Self::place) reads its [`Recency`]. It does when fewer than K
    /// frames were never used, and from then on always. As long as no page has returned, placement n reads it
    /// if and only if P − n < K, where n counts placements and wired pages from 0. Where physical = virtual,
    /// no placement reads it.
    #[must_use]
    pub fn needs_recency(&self) -> bool {
        match &self.memory {
            Memory::Identity => false,
            Memory::Sized { allocator, .. } => allocator.needs_recency(),
        }
    }

    /// Gives a page a frame, and evicts the page that the frame holds.
    ///
    /// If [`needs_recency`](Self::needs_recency), `recency` must hold the last reference to every page that
    /// is or was resident in this lane. The caller may note the faulting reference before or after the call,
    /// but must note it before the next placement.
    ///
    /// # Errors
    /// The policy failed, or chose a frame outside the pool.
    ///
    /// # Panics
    /// The page is resident already.
    pub fn place(&mut self, request: &PageRequest, recency: &Recency) -> Result<Placed> {
        assert!(self.frame_of(request.page).is_none(), "page {} has a frame already", request.page);
        let mut joins = false;
        let placed = match &mut self.memory {
            Memory::Identity => Placed { frame: FrameNo(request.page_no.0), evicted: None },
            Memory::Sized { allocator, rng } => {
                joins = request.run.is_some_and(|place| !place.begins && allocator.holds_run(place.run));
                allocator.place(request, recency, Draws::new(*rng, self.faults))?
            }
        };
        self.faults += u64::from(!joins);
        self.joined += u64::from(joins);
        self.enter(request.page, placed);
        Ok(placed)
    }

    /// Wires a frame for a page of the operating system (see [`WiredKind`]). Where physical = virtual, the
    /// frame has the number `page_no`. `recency` is as for [`place`](Self::place).
    ///
    /// # Errors
    /// Every frame is wired already, or the policy has no frame for a wired page. The policy `recorded` has
    /// no such frame where the recording uses every frame.
    ///
    /// # Panics
    /// The page is resident already.
    pub fn wire(
        &mut self,
        page: PageId,
        page_no: PageNo,
        kind: WiredKind,
        recency: &Recency,
    ) -> Result<Placed> {
        assert!(self.frame_of(page).is_none(), "page {page} has a frame already");
        let placed = match &mut self.memory {
            Memory::Identity => Placed { frame: FrameNo(page_no.0), evicted: None },
            Memory::Sized { allocator, rng } => {
                allocator.wire(page, recency, Draws::wired(*rng, self.wirings))?
            }
        };
        self.wired[kind as usize] += 1;
        self.wirings += 1;
        self.enter(page, placed);
        Ok(placed)
    }

    /// Frees the frame of a wired page that has died for good, and returns the frame. This is the frame's
    /// last use, so the caller must note the page in the [`Recency`] before the next placement.
    ///
    /// # Panics
    /// The page is not wired.
    pub fn unwire(&mut self, page: PageId, kind: WiredKind) -> FrameNo {
        let frame = self.frame_of(page).expect("a wired page has a frame");
        if let Memory::Sized { allocator, .. } = &mut self.memory {
            allocator.unwire(frame);
        }
        let wired = &mut self.wired[kind as usize];
        *wired = wired.checked_sub(1).expect("a page of this kind is wired");
        self.slots[page.index()] = Slot::NONE;
        self.mapped -= 1;
        frame
    }

    /// Notes that a page is in a frame from now on, and that the evicted page is not.
    fn enter(&mut self, page: PageId, placed: Placed) {
        self.mapped += 1;
        if let Some(evicted) = placed.evicted {
            self.slots[evicted.index()] = Slot::NONE;
            self.mapped -= 1;
            self.evictions += 1;
        }
        if page.index() >= self.slots.len() {
            self.slots.resize((page.index() + 1).next_power_of_two(), Slot::NONE);
        }
        self.slots[page.index()] = Slot(placed.frame.0);
    }

    /// Frees the frame of a page that is not wired and has died for good. Returns the frame, or `None` if the
    /// page was not resident. The frame keeps its place in the list.
    pub fn release(&mut self, page: PageId) -> Option<FrameNo> {
        let frame = self.frame_of(page)?;
        self.slots[page.index()] = Slot::NONE;
        self.mapped -= 1;
        if let Memory::Sized { allocator, .. } = &mut self.memory {
            allocator.release(frame);
        }
        Some(frame)
    }

    /// Returns whether a run of frames is whole.
    #[must_use]
    pub fn holds_run(&self, run: u32) -> bool {
        matches!(&self.memory, Memory::Sized { allocator, .. } if allocator.holds_run(run))
    }

    /// Takes the runs that were split since the last call.
    #[must_use]
    pub fn take_split(&mut self) -> Vec<u32> {
        match &mut self.memory {
            Memory::Identity => Vec::new(),
            Memory::Sized { allocator, .. } => allocator.take_split(),
        }
    }

    /// Returns the counts of runs.
    #[must_use]
    pub fn run_counts(&self) -> RunCounts {
        match &self.memory {
            Memory::Identity => RunCounts::default(),
            Memory::Sized { allocator, .. } => allocator.run_counts(),
        }
    }

    /// Returns the number of faults so far: first touches, and returns of evicted pages. A page that joins a run of
    /// frames causes no fault.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Returns the number of pages that were evicted for another page.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns P, the number of frames; `None` where physical = virtual.
    #[must_use]
    pub fn frames(&self) -> Option<u64> {
        match &self.memory {
            Memory::Identity => None,
            Memory::Sized { allocator, .. } => Some(allocator.frames()),
        }
    }

    /// Returns the number of frames by what they hold.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        let wired = self.wired;
        let user = self.mapped - wired.iter().sum::<u64>();
        Holdings { user, wired, free: self.free().unwrap_or(0) }
    }

    /// Returns the number of frames that hold a page, wired or not.
    #[must_use]
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Returns the number of frames that hold no page; `None` where physical = virtual.
    #[must_use]
    pub fn free(&self) -> Option<u64> {
        self.frames().map(|frames| frames - self.mapped)
    }

    /// Checks the invariants of frames by counting everything: user + tables + cache + kernel + free = P;
    /// every resident page is in the frame that holds it; every frame that is not wired is in the list once.
    ///
    /// # Errors
    /// An invariant does not hold. This is a defect of the simulator, never of the input.
    pub fn check(&self) -> Result<()> {
        let broken = |value: &str, rule: &str| {
            Err(Problem::run(value, "frames", rule, "this is a defect of binhop: please report it"))
        };
        let resident = self.slots.iter().filter(|slot| slot.get().is_some()).count() as u64;
        if resident != self.mapped {
            return broken(
                &format!("{resident} resident pages, {} mapped frames", self.mapped),
                "they are equal",
            );
        }
        let all_wired: u64 = self.wired.iter().sum();
        let placed = self.faults + self.joined + self.wirings;
        if placed.checked_sub(self.evictions).is_none_or(|placed| placed < self.mapped) {
            let value = format!("{placed} faults, {} evictions, {resident} resident", self.evictions);
            return broken(&value, "faults and wired pages = evictions + pages that died + resident pages");
        }
        let Memory::Sized { allocator, .. } = &self.memory else { return Ok(()) };
        if allocator.held() != self.mapped {
            let value = format!("{} frames hold a page, {} are mapped", allocator.held(), self.mapped);
            return broken(&value, "mapped + free = all frames");
        }
        if allocator.wired() != all_wired {
            let parts =
                WiredKind::ALL.iter().map(|&kind| format!("{} {}", self.wired[kind as usize], kind.name()));
            let value =
                format!("{} wired frames, {}", allocator.wired(), parts.collect::<Vec<_>>().join(", "));
            return broken(&value, "user + tables + cache + kernel + free = all frames");
        }
        for (page, frame) in
            self.slots.iter().enumerate().filter_map(|(page, slot)| Some((page, slot.get()?)))
        {
            if allocator.page_in(frame).map(PageId::index) != Some(page) {
                return broken(
                    &format!("page {page} in frame {frame}"),
                    "the frame of a resident page holds it",
                );
            }
        }
        if allocator.is_consistent() {
            Ok(())
        } else {
            broken("the lists of frames", "every frame is in them exactly once, and all counts are true")
        }
    }
}

/// Checks the number of frames of a memory.
///
/// # Errors
/// There is no frame, or there are 2³² − 1 frames or more.
pub(crate) fn check_count(frames: u64) -> Result<u32> {
    u32::try_from(frames).ok().filter(|&count| count > 0 && count < u32::MAX).ok_or_else(|| {
        Problem::request(
            &counted(frames, ["frame", "frames"]),
            "memory.size",
            "memory has at least one frame and fewer than 2^32 - 1",
            "change memory.size or memory.page",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{self, Settings};

    /// Makes a memory of six frames in which eight pages were placed, two were evicted and one died.
    fn used_memory() -> Frames {
        let policy = placement::policy("first").unwrap();
        let mut frames = policy.frames(&Settings::new(6, 2), 0).unwrap();
        let mut recency = Recency::new();
        for number in 0..8 {
            let page = PageId(number);
            recency.note(page, u64::from(number) + 1);
            let (asid, page_no, segment) = (Asid(0), PageNo(9), SegmentId(0));
            let request = PageRequest {
                page,
                asid,
                page_no,
                segment,
                segments: [segment].into(),
                run: None,
                in_kernel: false,
            };
            frames.place(&request, &recency).unwrap();
        }
        frames.release(PageId(4));
        frames.check().unwrap();
        frames
    }

    fn allocator(frames: &mut Frames) -> &mut dyn Allocator {
        let Memory::Sized { allocator, .. } = &mut frames.memory else { panic!("memory has a size") };
        &mut **allocator
    }

    #[test]
    fn every_invariant_of_frames_is_checked() {
        let broken = |damage: fn(&mut Frames), value: &str| {
            let mut frames = used_memory();
            damage(&mut frames);
            let problem = frames.check().unwrap_err();
            assert_eq!((problem.class, &*problem.value), (binhop_base::Class::Run, value));
        };
        broken(|frames| frames.mapped += 1, "5 resident pages, 6 mapped frames");
        broken(|frames| frames.evictions += 2, "8 faults, 4 evictions, 5 resident");
        broken(
            |frames| {
                let frame = frames.frame_of(PageId(5)).unwrap();
                allocator(frames).release(frame);
            },
            "4 frames hold a page, 5 are mapped",
        );
        broken(
            |frames| {
                let (a, b) = (PageId(5).index(), PageId(6).index());
                frames.slots[a] = frames.slots[b];
            },
            &format!("page 5 in frame {}", used_memory().frame_of(PageId(6)).unwrap()),
        );
        broken(|frames| allocator(frames).corrupt_for_test(), "the lists of frames");
        let miscounted = |frames: &mut Frames| frames.wired[WiredKind::Cache as usize] += 1;
        broken(miscounted, "0 wired frames, 0 tables, 1 cache, 0 kernel");
    }
}
