//! `BackModel` simulates the levels behind a lane's front for one cell, and keeps what was counted there.

mod check;
mod common;
mod conflicts;
mod mark;

use binhop_base::{Agent, Kind, MappingId, PageId, PerKind, Rng, Translation};
use binhop_hw::{
    Back, CommonCounts, Computer, Counted, DirectMappedFilter, FastPaths, Front, LaneBits, ReplayedByAgent,
    Request, Tree,
};
use binhop_trace::export::MemoryAccess;

use super::clock::Clock;
use super::virtual_caches::VirtualCaches;
use crate::frame_map::LaneTranslation;
use crate::prepare::Block;
use crate::results::account::Account;
use crate::synonyms::{HeldCopy, Synonym, SynonymCounts, WatchedAccess};
pub(crate) use common::Common;
use conflicts::Division;

/// `BackModel` is one cell in one lane.
#[derive(Debug)]
pub(crate) struct BackModel {
    /// The machine's place in the list of the run's machines.
    pub(crate) machine: usize,
    tree: Tree,
    kind_of_back: BackKind,
    /// For each cache, how frames divide it; `None` if they do not.
    sets: Vec<Option<Division>>,
    /// The cache whose repeated misses are counted by page.
    watched: Option<usize>,
    pub(crate) account: Account,
    /// The pages in each bin, while a footprint is counted.
    pages: Vec<u64>,
    virtual_caches: VirtualCaches,
    synonyms: SynonymCounts,
}

/// `BackPlace` says where the back of a cell is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BackPlace {
    /// By itself, in its lane.
    Own,
    /// In this stack of its lane, as the cache with this number of ways.
    Stack(usize, u32),
    /// In the bits of its lane's bundle, at this place among the backs there.
    Bits(usize),
    /// In the lane that leads its lane, at this place among the backs there.
    Led(usize),
}

/// `BackKind` says how the back of a cell is simulated: by itself, in a stack, in the bits of a bundle, or in the lane
/// that leads its lane.
#[derive(Clone, Debug)]
enum BackKind {
    Own {
        back: Box<Back>,
        /// The cycles waited for this back.
        waited: u64,
    },
    /// The back is simulated in a stack of its lane, together with backs of other ways.
    Stacked { stack: usize, ways: u32 },
    /// The back is simulated in the bits of its lane's bundle, at this place among the backs there.
    Bits(usize),
    /// The back at this place of the lane that leads this lane stands for the back.
    Led(usize),
}

/// `Division` states how frames divide a cache: into bins of some ways each.
impl BackModel {
    pub(crate) fn new(
        machine: usize,
        tree: &Tree,
        seed: u64,
        account: Account,
        watched: Option<usize>,
        place: BackPlace,
        paths: &FastPaths,
    ) -> Self {
        let config = tree.config();
        let divide = |cache| Division::of(cache, config.page.bytes());
        let own = || {
            let mut back = Box::new(Back::with(tree, Rng::new(seed), paths));
            if let Some(cache) = watched.filter(|&cache| !tree.in_front(cache)) {
                back.watch(cache);
            }
            BackKind::Own { back, waited: 0 }
        };
        Self {
            machine,
            tree: tree.clone(),
            kind_of_back: match place {
                BackPlace::Own => own(),
                BackPlace::Stack(stack, ways) => BackKind::Stacked { stack, ways },
                BackPlace::Bits(tree) => BackKind::Bits(tree),
                BackPlace::Led(place) => BackKind::Led(place),
            },
            watched,
            sets: config.caches.iter().map(divide).collect(),
            account,
            pages: Vec::new(),
            virtual_caches: VirtualCaches::of(tree),
            synonyms: SynonymCounts::default(),
        }
    }

    /// Returns the tree of the cell's machine.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the back's place among the backs that are simulated in the bits of the lane's bundle, if it is one.
    pub(crate) fn place_in_bits(&self) -> Option<usize> {
        match self.kind_of_back {
            BackKind::Bits(place) => Some(place),
            BackKind::Own { .. } | BackKind::Stacked { .. } | BackKind::Led(_) => None,
        }
    }

    /// The lane leaves its bundle: a back that was simulated in bits is simulated by itself from now on, and takes
    /// these fast paths.
    pub(crate) fn leave_bits(&mut self, bits: &LaneBits, lane: usize, seed: u64, paths: &FastPaths) {
        if let BackKind::Bits(back) = self.kind_of_back {
            let waited = bits.waited(lane, back);
            let back = Box::new(Back::split_off(bits, lane, back, Rng::new(seed), paths));
            self.kind_of_back = BackKind::Own { back, waited };
        }
    }

    /// Takes a copy of the back that stood for this back.
    pub(crate) fn continue_from(&mut self, leading: &Self) {
        self.kind_of_back = leading.kind_of_back.clone();
        self.synonyms = leading.synonyms;
    }

    /// Simulates requests that a front has let through. A back in a stack is simulated by the stack.
    pub(crate) fn replay(
        &mut self,
        requests: &[Request],
        common_counts: Option<&CommonCounts>,
        translation: &LaneTranslation<'_>,
    ) {
        if let BackKind::Own { back, waited } = &mut self.kind_of_back {
            *waited += match common_counts {
                Some(common_counts) => back.replay_common(requests, common_counts, translation),
                None => back.replay(requests, translation),
            };
        }
    }

    /// Simulates requests that a front has let through, in the lane's own back.
    pub(crate) fn replay_by_agent(
        &mut self,
        requests: &[Request],
        translation: &LaneTranslation<'_>,
    ) -> ReplayedByAgent {
        let (back, waited) = self.own();
        let replayed = back.replay_by_agent(requests, translation);
        *waited += replayed.user + replayed.fetches + replayed.others;
        replayed
    }

    /// Counts requests that are known to hit here and to change nothing.
    pub(crate) fn add_known_hits(&mut self, hits: &PerKind<u64>) {
        if let BackKind::Own { back, waited } = &mut self.kind_of_back {
            *waited += back.add_hits(hits);
        }
    }

    /// Removes the lines of a page whose frame changes hands from this back.
    pub(crate) fn flush_page(
        &mut self,
        page: PageId,
        mappings: &[MappingId],
        now: u64,
        translation: &LaneTranslation<'_>,
    ) {
        if let BackKind::Own { back, .. } = &mut self.kind_of_back {
            back.flush_page(page, mappings, now, translation);
        }
    }

    /// Removes the lines of a page whose frame changes hands from this back, and from the front whose every
    /// request this back answers at once.
    pub(crate) fn flush_page_everywhere(
        &mut self,
        front: &mut Front,
        page: PageId,
        mappings: &[MappingId],
        now: u64,
        translation: &LaneTranslation<'_>,
    ) {
        Computer::over(front, self.own().0, now).flush_page(
            Agent::User,
            page,
            mappings,
            translation,
            &mut (),
        );
    }

    /// Returns the cache that serves a kind of access for the processor, and the logarithm of its line size.
    pub(crate) fn serving(&self, kind: Kind) -> (usize, u32) {
        let config = self.tree.config();
        let cache = if kind == Kind::Fetch { config.fetch } else { config.data };
        (cache, config.caches[cache].line.log2())
    }

    /// Returns whether some cache has virtual tags.
    pub(crate) fn has_virtual_tags(&self) -> bool {
        !self.virtual_caches.is_empty()
    }

    /// Returns the copies of a byte that a front of the lane's own holds in caches with virtual tags.
    pub(crate) fn copies_in_front(
        &self,
        front: &Front,
        access: &WatchedAccess,
        translation: &LaneTranslation<'_>,
    ) -> Vec<HeldCopy> {
        self.virtual_caches.in_front(front, access, translation)
    }

    /// Looks for two different copies before or after an access. `of_front` are the copies in the front.
    pub(crate) fn watch(
        &mut self,
        access: &WatchedAccess,
        of_front: &[HeldCopy],
        translation: &LaneTranslation<'_>,
    ) {
        let back = || match &self.kind_of_back {
            BackKind::Own { back, .. } => &**back,
            BackKind::Stacked { .. } | BackKind::Bits(_) | BackKind::Led(_) => {
                unreachable!(
                    "only a lane's own back holds lines with virtual tags where copies are looked for"
                )
            }
        };
        let behind = self.virtual_caches.behind(back, access, translation);
        self.synonyms.follow(access, &[of_front, &behind].concat());
    }

    /// Returns the first access that left two different copies.
    pub(crate) fn synonym(&self) -> Option<Synonym> {
        self.synonyms.first
    }

    /// Returns the user's demand accesses to memory.
    pub(crate) fn demand_at_memory(&self) -> u64 {
        match &self.kind_of_back {
            BackKind::Own { back, .. } => Counted::memory(&**back).accesses.demand(),
            BackKind::Stacked { .. } | BackKind::Bits(_) | BackKind::Led(_) => {
                unreachable!(
                    "only a lane's own back is asked here: bits and the leading lane count by themselves"
                )
            }
        }
    }

    /// Returns the two things on which a unit acts: the tree, and this back.
    pub(crate) fn parts(&mut self) -> (&Tree, &mut Back) {
        match &mut self.kind_of_back {
            BackKind::Own { back, .. } => (&self.tree, back),
            BackKind::Stacked { .. } | BackKind::Bits(_) | BackKind::Led(_) => {
                unreachable!("no unit acts on stacks, on bits, or in a led lane")
            }
        }
    }

    /// Returns the cycles waited for this back.
    pub(crate) fn waited(&self) -> u64 {
        match &self.kind_of_back {
            BackKind::Own { waited, .. } => *waited,
            BackKind::Stacked { .. } | BackKind::Bits(_) | BackKind::Led(_) => {
                unreachable!("a lane of one cell with a front of its own has a back of its own")
            }
        }
    }

    pub(crate) fn own(&mut self) -> (&mut Back, &mut u64) {
        match &mut self.kind_of_back {
            BackKind::Own { back, waited } => (back, waited),
            BackKind::Stacked { .. } | BackKind::Bits(_) | BackKind::Led(_) => {
                unreachable!(
                    "only a lane's own back answers at once, or stands behind a direct-mapped filter"
                )
            }
        }
    }

    /// Simulates rows whose every request must be answered before the next access, because the machine has a
    /// write buffer or an inclusive cache, or counts by cachegrind's rules. Moves the lane's clock on.
    pub(crate) fn answer(
        &mut self,
        front: &mut Front,
        block: &Block,
        entries: std::ops::Range<usize>,
        clock: &mut Clock,
        translation: &LaneTranslation<'_>,
    ) {
        let gaps = if block.gaps.is_empty() { &[] } else { &block.gaps[entries.clone()] };
        let (back, waited) = self.own();
        let mut computer = Computer::over(front, back, clock.now);
        let waits = computer.run(&block.rows()[entries], gaps, translation);
        clock.come_to(computer.now, waits);
        *waited += waits;
    }

    /// Returns the repeated misses of the watched cache by page, and the number of its bins, if a cache is
    /// watched.
    pub(crate) fn repeats<'a>(&'a self, front: Option<&'a Front>) -> Option<(&'a [u64], u64)> {
        let cache = self.watched?;
        let bins = self.sets[cache].map_or(1, |sets| sets.bins);
        let misses = match (front.filter(|_| self.tree.in_front(cache)), &self.kind_of_back) {
            (Some(front), _) => front.repeats(cache),
            (None, BackKind::Own { back, .. }) => back.repeats(cache),
            (None, BackKind::Stacked { .. } | BackKind::Bits(_) | BackKind::Led(_)) => {
                unreachable!("a cache that is watched is in a lane's own back")
            }
        };
        Some((misses, bins))
    }

    /// Keeps every access that reaches memory from now on.
    pub(crate) fn tap(&mut self) {
        self.own().0.tap();
    }

    /// Takes the accesses that have reached memory since the last call, under the physical addresses that
    /// `translation` still knows.
    pub(crate) fn tapped(&mut self, translation: &LaneTranslation<'_>, out: &mut Vec<MemoryAccess>) {
        let page = self.tree.config().page.log2();
        let physical = |(request, cycle): (Request, u64)| MemoryAccess {
            addr: (translation.frame(PageId(request.at.id)).0 << page)
                + (u64::from(request.at.line) << request.origin.unit()),
            write: matches!(request.kind, Kind::Write | Kind::Writeback | Kind::System),
            cycle,
            of_memory: false,
        };
        out.extend(self.own().0.tapped().map(physical));
    }

    /// Ends the direct-mapped filter that worked for all backs, and takes over the lines that it knows.
    pub(crate) fn continue_alone(&mut self, direct_mapped: &DirectMappedFilter) {
        self.own().0.continue_alone(direct_mapped);
    }
}
