//! State by bin, kept only for a policy that declares what it asks about ([`BinCounts`]): the frames of the pool in
//! each, in order of age, and the frames that each segment or address space uses there.
//!
//! Cost: a frame that enters or leaves the pool, a page placed, evicted or dead changes one count for each
//! level kept (one, or log2 bins + 1), and a link. 8 B per frame and 12 B per bin; a policy that asks
//! what is used pays 8 B per frame more, and 4 B per bin (8 B with a tree) for each segment or space that has
//! a page in memory: when its last page leaves, its counts serve another.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use binhop_base::{Bin, FrameNo, PowerOfTwo};

use super::{PageRequest, content::Content, tree::Shape};

/// `BinCounts` declares what a policy asks the pool about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinCounts {
    /// The number of bins it tells apart.
    pub bins: PowerOfTwo,
    /// True if it asks about coarser divisions too ([`Pool::available_below`](crate::Pool::available_below)).
    pub tree: bool,
    /// The owner by which it asks for used frames, a segment or an address space; `None` if it does not ask.
    pub used: Option<StateScope>,
}

/// `StateScope` says whether a policy keeps its state per segment or per address space, where address spaces share
/// pages (KH90 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateScope {
    /// By segment: what an address space uses is the sum over its segments, so that a shared page counts in
    /// each of its sharers.
    #[default]
    Segment,
    /// By address space: a page counts for the one whose touch placed it, and for no other.
    Space,
}

impl StateScope {
    /// Both.
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

/// No frame.
const NONE: u32 = u32::MAX;

/// Neighbours of a frame in its bin's list, or a list's ends: the older and the younger.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Neighbours {
    older: u32,
    younger: u32,
}

const NOT_LISTED: Neighbours = Neighbours { older: NONE, younger: NONE };

pub(super) struct Bins {
    bins: PowerOfTwo,
    shape: Shape,
    links: Vec<Neighbours>,
    /// For each bin its youngest frame as `older` (what comes before the end), its oldest as `younger`.
    ends: Vec<Neighbours>,
    available: Vec<u32>,
    used: Option<Used>,
}

/// Frames used, by owner (a segment or a space) and bin.
struct Used {
    sharing: StateScope,
    shape: Shape,
    /// The slots of the owners that have a page in memory.
    slots: BTreeMap<u32, u32>,
    /// The trees, slot after slot.
    counts: Vec<u32>,
    /// For each slot its owner and its number of pages.
    owners: Vec<(u32, u32)>,
    /// Slots without an owner.
    idle: Vec<u32>,
    /// The slot that the page in each frame counts in.
    slot_of: Vec<u32>,
    /// The beginnings of the trees of the request at hand.
    asked: Vec<usize>,
}

impl Used {
    fn owner(&self, request: &PageRequest) -> u32 {
        match self.sharing {
            StateScope::Segment => request.segment.0,
            StateScope::Space => request.asid.0,
        }
    }

    fn look_at(&mut self, request: &PageRequest) {
        self.asked.clear();
        let len = self.shape.len();
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
                    self.counts.resize(self.counts.len() + self.shape.len(), 0);
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
        let start = slot as usize * self.shape.len();
        self.shape.add(&mut self.counts[start..start + self.shape.len()], bin, change);
    }
}

impl Bins {
    pub(super) fn new(counts: BinCounts, frames: usize, pool: &[u32]) -> Self {
        let shape = Shape::new(counts.bins, counts.tree);
        let used = counts.used.map(|sharing| Used {
            sharing,
            shape,
            slots: BTreeMap::new(),
            counts: Vec::new(),
            owners: Vec::new(),
            idle: Vec::new(),
            slot_of: vec![0; frames],
            asked: Vec::new(),
        });
        let mut bins = Self {
            bins: counts.bins,
            shape,
            links: vec![NOT_LISTED; frames],
            ends: vec![NOT_LISTED; counts.bins.bytes() as usize],
            available: vec![0; shape.len()],
            used,
        };
        pool.iter().for_each(|&frame| bins.enter(frame));
        bins
    }

    fn bin(&self, frame: u32) -> Bin {
        FrameNo(u64::from(frame)).bin(self.bins)
    }

    /// A frame enters the pool, as its youngest.
    pub(super) fn enter(&mut self, frame: u32) {
        let bin = self.bin(frame);
        self.shape.add(&mut self.available, bin, 1);
        let older = core::mem::replace(&mut self.ends[bin.index()].older, frame);
        self.links[frame as usize] = Neighbours { older, younger: NONE };
        match older {
            NONE => self.ends[bin.index()].younger = frame,
            older => self.links[older as usize].younger = frame,
        }
    }

    /// A frame leaves the pool.
    pub(super) fn leave(&mut self, frame: u32) {
        let bin = self.bin(frame);
        self.shape.add(&mut self.available, bin, -1);
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

    /// A frame gets the page of a request.
    pub(super) fn fill(&mut self, frame: u32, request: &PageRequest) {
        let bin = self.bin(frame);
        if let Some(used) = &mut self.used {
            used.fill(frame, bin, request);
        }
    }

    /// A frame loses its page.
    pub(super) fn empty(&mut self, frame: u32) {
        let bin = self.bin(frame);
        if let Some(used) = &mut self.used {
            used.empty(frame, bin);
        }
    }

    /// The questions that follow are about this request.
    pub(super) fn look_at(&mut self, request: &PageRequest) {
        if let Some(used) = &mut self.used {
            used.look_at(request);
        }
    }

    /// Frames of the pool in each bin.
    #[inline]
    pub(super) fn available(&self) -> &[u32] {
        &self.available[self.shape.leaves()..]
    }

    #[inline]
    pub(super) fn available_below(&self, level: u32, low: u32) -> u32 {
        self.available[self.shape.node(level, low)]
    }

    /// The least recently used frame of the pool in a bin.
    #[inline]
    pub(super) fn oldest_in(&self, bin: Bin) -> Option<u32> {
        Some(self.ends[bin.index()].younger).filter(|&frame| frame != NONE)
    }

    #[inline]
    pub(super) fn used_below(&self, level: u32, low: u32) -> u32 {
        let used = self.used();
        let node = used.shape.node(level, low);
        used.asked.iter().map(|start| used.counts[start + node]).sum()
    }

    /// Returns the counts of used frames in each bin, part by part: their sums, bin by bin, are what the request's
    /// space uses.
    #[inline]
    pub(super) fn used_parts(&self) -> impl Iterator<Item = &[u32]> {
        let used = self.used();
        let (leaves, len) = (used.shape.leaves(), used.shape.len());
        used.asked.iter().map(move |start| &used.counts[start + leaves..start + len])
    }

    #[inline]
    pub(super) fn bins(&self) -> PowerOfTwo {
        self.bins
    }

    #[inline]
    fn used(&self) -> &Used {
        self.used.as_ref().expect("a policy that asks what is used declares by what")
    }

    /// Returns whether all of it agrees with the pool's frames, in order, and with what frames hold.
    pub(super) fn are_true(&self, pool: impl Iterator<Item = u32>, content: &[Content]) -> bool {
        let mut lists = vec![Vec::new(); self.ends.len()];
        let mut available = vec![0; self.shape.len()];
        for frame in pool {
            lists[self.bin(frame).index()].push(frame);
            self.shape.add(&mut available, self.bin(frame), 1);
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
            for (frame, _) in content
                .iter()
                .enumerate()
                .filter(|(_, content)| content.page().is_some() && !content.is_wired())
            {
                let slot = used.slot_of[frame];
                let start = slot as usize * used.shape.len();
                used.shape.add(&mut counts[start..start + used.shape.len()], self.bin(frame as u32), 1);
                pages[slot as usize] += 1;
            }
            counts == used.counts && pages.iter().eq(used.owners.iter().map(|(_, pages)| pages))
        });
        listed && available == self.available && counted
    }

    /// Slots that exist, in use or not.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.used().owners.len()
    }
}
