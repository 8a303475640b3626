//! `Bins` keeps state by bin, for a policy that declares what it asks about ([`BinCounts`]). The
//! state of a bin is the pool's frames in order of age, and the number of frames that each segment or address
//! space uses.
//!
//! # Cost
//! A frame that enters or leaves the pool changes one count for each level kept, and the links of its
//! neighbours. A page that is placed, evicted or dies changes one count for each level. There is one level,
//! or log2 bins + 1 levels for a tree. The memory is 8 B per frame and 12 B per bin. A policy that asks about
//! used frames pays 8 B more per frame, and 4 B per bin (8 B with a tree) for each owner that has a page in
//! memory. When the last page of an owner leaves, another owner takes over these counts.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use binhop_base::{Bin, FrameNo, PowerOfTwo};

use super::{PageRequest, bin_tree::BinTree, content::Contents};

/// `BinCounts` declares what a policy asks the pool about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinCounts {
    /// The number of bins that the policy tells apart.
    pub bins: PowerOfTwo,
    /// True if the policy also asks about coarser divisions
    /// ([`Pool::available_below`](crate::Pool::available_below)).
    pub tree: bool,
    /// The owner by which the policy asks for used frames; `None` if it does not ask.
    pub used: Option<StateScope>,
}

/// `StateScope` says whether a policy keeps its state per segment or per address space. The two differ where
/// address spaces share pages (KH90 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateScope {
    /// The state is kept per segment. An address space uses the sum over its segments, so a shared page
    /// counts for each of its sharers.
    #[default]
    Segment,
    /// The state is kept per address space. A page counts only for the address space whose touch placed it.
    Space,
}

impl StateScope {
    /// Every scope.
    pub const ALL: &'static [Self] = &[Self::Segment, Self::Space];

    /// Returns the name that users write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::Space => "space",
        }
    }
}

/// The number that stands for no frame.
const NONE: u32 = u32::MAX;

/// `Neighbours` links a frame to the older and the younger frame in the list of its bin.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Neighbours {
    older: u32,
    younger: u32,
}

const NOT_LISTED: Neighbours = Neighbours { older: NONE, younger: NONE };

pub(super) struct Bins {
    bins: PowerOfTwo,
    layout: BinTree,
    links: Vec<Neighbours>,
    /// For each bin the youngest frame as `older` (the frame before the end), and the oldest frame as
    /// `younger`.
    ends: Vec<Neighbours>,
    available: Vec<u32>,
    used: Option<Used>,
}

/// `Used` counts used frames by owner (a segment or an address space) and bin.
struct Used {
    sharing: StateScope,
    layout: BinTree,
    /// The slot of each owner that has a page in memory.
    slots: BTreeMap<u32, u32>,
    /// The counts of all trees, slot after slot.
    counts: Vec<u32>,
    /// For each slot the owner and the number of its pages.
    owners: Vec<(u32, u32)>,
    /// The slots without an owner.
    idle: Vec<u32>,
    /// For each frame the slot in which its page counts.
    slot_of: Vec<u32>,
    /// The positions of the trees that belong to the request at hand.
    asked: Vec<usize>,
}

impl Used {
    fn owner(&self, request: &PageRequest) -> u32 {
        match self.sharing {
            StateScope::Segment => request.segment.0,
            StateScope::Space => request.asid.0,
        }
    }

    fn prepare_for(&mut self, request: &PageRequest) {
        self.asked.clear();
        let len = self.layout.len();
        let mut ask = |owner| self.asked.extend(self.slots.get(&owner).map(|&slot| slot as usize * len));
        match self.sharing {
            StateScope::Segment => request.segments.iter().for_each(|segment| ask(segment.0)),
            StateScope::Space => ask(request.asid.0),
        }
    }

    fn fill(&mut self, frame: u32, bin: Bin, request: &PageRequest) {
        let owner = self.owner(request);
        let slot = match self.slots.get(&owner) {
            Some(&slot) => slot,
            None => {
                let slot = self.idle.pop().unwrap_or(self.owners.len() as u32);
                if slot as usize == self.owners.len() {
                    self.owners.push((owner, 0));
                    self.counts.resize(self.counts.len() + self.layout.len(), 0);
                }
                self.owners[slot as usize].0 = owner;
                self.slots.insert(owner, slot);
                slot
            }
        };
        self.slot_of[frame as usize] = slot;
        self.owners[slot as usize].1 += 1;
        self.change(slot, bin, 1);
    }

    fn empty(&mut self, frame: u32, bin: Bin) {
        let slot = self.slot_of[frame as usize];
        self.change(slot, bin, -1);
        let (owner, pages) = &mut self.owners[slot as usize];
        *pages -= 1;
        if *pages == 0 {
            self.slots.remove(owner);
            self.idle.push(slot);
        }
    }

    fn change(&mut self, slot: u32, bin: Bin, change: i32) {
        let start = slot as usize * self.layout.len();
        self.layout.add(&mut self.counts[start..start + self.layout.len()], bin, change);
    }
}

impl Bins {
    pub(super) fn new(counts: BinCounts, frames: usize, pool: &[u32]) -> Self {
        let layout = BinTree::new(counts.bins, counts.tree);
        let used = counts.used.map(|sharing| Used {
            sharing,
            layout,
            slots: BTreeMap::new(),
            counts: Vec::new(),
            owners: Vec::new(),
            idle: Vec::new(),
            slot_of: vec![0; frames],
            asked: Vec::new(),
        });
        let mut bins = Self {
            bins: counts.bins,
            layout,
            links: vec![NOT_LISTED; frames],
            ends: vec![NOT_LISTED; counts.bins.bytes() as usize],
            available: vec![0; layout.len()],
            used,
        };
        pool.iter().for_each(|&frame| bins.enter(frame));
        bins
    }

    fn bin(&self, frame: u32) -> Bin {
        FrameNo(u64::from(frame)).bin(self.bins)
    }

    /// Adds a frame that enters the pool, as the youngest frame.
    pub(super) fn enter(&mut self, frame: u32) {
        let bin = self.bin(frame);
        self.layout.add(&mut self.available, bin, 1);
        let older = core::mem::replace(&mut self.ends[bin.index()].older, frame);
        self.links[frame as usize] = Neighbours { older, younger: NONE };
        match older {
            NONE => self.ends[bin.index()].younger = frame,
            older => self.links[older as usize].younger = frame,
        }
    }

    /// Removes a frame that leaves the pool.
    pub(super) fn leave(&mut self, frame: u32) {
        let bin = self.bin(frame);
        self.layout.add(&mut self.available, bin, -1);
        let Neighbours { older, younger } = core::mem::replace(&mut self.links[frame as usize], NOT_LISTED);
        match older {
            NONE => self.ends[bin.index()].younger = younger,
            older => self.links[older as usize].younger = younger,
        }
        match younger {
            NONE => self.ends[bin.index()].older = older,
            younger => self.links[younger as usize].older = older,
        }
    }

    /// Counts the page of a request, which is put into the frame.
    pub(super) fn fill(&mut self, frame: u32, request: &PageRequest) {
        let bin = self.bin(frame);
        if let Some(used) = &mut self.used {
            used.fill(frame, bin, request);
        }
    }

    /// Removes the page that a frame loses from the counts.
    pub(super) fn empty(&mut self, frame: u32) {
        let bin = self.bin(frame);
        if let Some(used) = &mut self.used {
            used.empty(frame, bin);
        }
    }

    /// Prepares the answers about used frames for a request.
    pub(super) fn prepare_for(&mut self, request: &PageRequest) {
        if let Some(used) = &mut self.used {
            used.prepare_for(request);
        }
    }

    /// Returns the number of the pool's frames in each bin.
    #[inline]
    pub(super) fn available(&self) -> &[u32] {
        &self.available[self.layout.leaves()..]
    }

    #[inline]
    pub(super) fn available_below(&self, level: u32, low: u32) -> u32 {
        self.available[self.layout.node(level, low)]
    }

    /// Returns the least recently used frame of the pool in a bin.
    #[inline]
    pub(super) fn oldest_in(&self, bin: Bin) -> Option<u32> {
        Some(self.ends[bin.index()].younger).filter(|&frame| frame != NONE)
    }

    #[inline]
    pub(super) fn used_below(&self, level: u32, low: u32) -> u32 {
        let used = self.used();
        let node = used.layout.node(level, low);
        used.asked.iter().map(|start| used.counts[start + node]).sum()
    }

    /// Returns the counts of used frames in each bin, owner by owner. Their sums are the frames that the
    /// request's address space uses.
    #[inline]
    pub(super) fn used_parts(&self) -> impl Iterator<Item = &[u32]> {
        let used = self.used();
        let (leaves, len) = (used.layout.leaves(), used.layout.len());
        used.asked.iter().map(move |start| &used.counts[start + leaves..start + len])
    }

    #[inline]
    pub(super) fn bins(&self) -> PowerOfTwo {
        self.bins
    }

    #[inline]
    fn used(&self) -> &Used {
        self.used.as_ref().expect("a policy that asks for used frames declares by which owner")
    }

    /// Returns whether lists and counts agree with the pool's frames, in order, and with the contents of
    /// frames.
    pub(super) fn are_consistent(&self, pool: impl Iterator<Item = u32>, contents: &Contents) -> bool {
        let mut lists = vec![Vec::new(); self.ends.len()];
        let mut available = vec![0; self.layout.len()];
        for frame in pool {
            lists[self.bin(frame).index()].push(frame);
            self.layout.add(&mut available, self.bin(frame), 1);
        }
        let list = |ends: &Neighbours| {
            let after = |&frame: &u32| Some(self.links[frame as usize].younger).filter(|&next| next != NONE);
            core::iter::successors(Some(ends.younger).filter(|&first| first != NONE), after)
                .collect::<Vec<u32>>()
        };
        let listed = self.ends.iter().zip(&lists).all(|(ends, frames)| list(ends) == *frames);
        let counted = self.used.as_ref().is_none_or(|used| {
            let mut counts = vec![0; used.counts.len()];
            let mut pages = vec![0; used.owners.len()];
            let holds_user_page = |&frame: &u32| {
                let content = contents.of(frame);
                content.page().is_some() && !content.is_wired()
            };
            for frame in (0..self.links.len() as u32).filter(holds_user_page) {
                let slot = used.slot_of[frame as usize];
                let start = slot as usize * used.layout.len();
                used.layout.add(&mut counts[start..start + used.layout.len()], self.bin(frame), 1);
                pages[slot as usize] += 1;
            }
            counts == used.counts && pages.iter().eq(used.owners.iter().map(|(_, pages)| pages))
        });
        listed && available == self.available && counted
    }

    /// Returns the number of slots, in use or not.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.used().owners.len()
    }
}
