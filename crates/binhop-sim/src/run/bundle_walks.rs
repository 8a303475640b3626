//! `BundleWalks` makes the accesses of walks and handlers in all lanes of a bundle, and counts what lanes share of
//! them.
//!
//! As long as lanes share their TLBs, each lane makes the same walks, and the entries lie in the same lines of the same
//! pages. So the accesses of a walk are handled like the accesses of rows, but another agent makes them. Each lane has
//! frames of its own for the pages of the tables. Cycles that the processor waits for an agent, and the level that
//! serves an access after a walk, are counted by the bits.

use std::sync::Arc;

use binhop_base::{Agent, FrameNo, Kind, MappingId, PageId, Translation};
use binhop_hw::{Access, BitsAccess, By, LaneBits, Request, Tree};

use crate::frame_map::{LaneTranslation, Tables};
use crate::machine::{TranslationConfig, WalkEntry};
use crate::prepare::Row;
use crate::translation::{
    Decision, ServedLevel, TranslationCause, TranslationCounts, Walk, accesses, handler_instructions,
};

/// `BundleWalks` is what a bundle knows of walks.
pub(super) struct BundleWalks {
    config: Arc<TranslationConfig>,
    /// The mapping of page 0 of the tables.
    first: MappingId,
    /// Logarithms of the bytes of the lines that are fetched and loaded, at the cache that walks ask.
    line_log2: [u32; 2],
    /// The counts that are the same in every lane.
    counts: TranslationCounts,
    /// The cycles waited for handlers' instructions and second-level TLBs, which are the same in every lane.
    waited: u64,
    /// True if a walk was made just before the next access of the user.
    awaits: bool,
    /// For each page of the tables and handlers, whether the bits know its frames. A page whose lines nobody asks for
    /// would only take a place in its bin.
    placed: Vec<bool>,
    /// Room for the accesses of a walk.
    room: Vec<(Kind, MappingId, u64)>,
}

impl BundleWalks {
    /// Makes the walks of a bundle whose lanes have caches of a tree. `first` is the mapping of page 0 of the tables.
    pub(super) fn new(config: Arc<TranslationConfig>, first: MappingId, tree: &Tree) -> Self {
        let log2 = |cache: usize| tree.config().caches[cache].line.log2();
        let loads = match config.reads {
            WalkEntry::Cache(cache) => cache,
            WalkEntry::Data | WalkEntry::Memory => tree.config().data,
        };
        Self {
            first,
            line_log2: [log2(tree.config().fetch), log2(loads)],
            config,
            counts: TranslationCounts::default(),
            waited: 0,
            awaits: false,
            placed: Vec::new(),
            room: Vec::new(),
        }
    }

    /// Returns the cycles that the processor waited in every lane alike.
    pub(super) fn waited(&self) -> u64 {
        self.waited
    }

    /// Returns what was counted in one lane.
    pub(super) fn counts(&self, bits: &LaneBits, lane: usize) -> TranslationCounts {
        let mut counts = self.counts;
        let [fetches, loads] = bits.waited_for_agent(lane, 0);
        counts.waited(TranslationCause::HandlerFetch, fetches);
        counts.waited(TranslationCause::Entries, loads);
        for kind in [Kind::Fetch, Kind::Load, Kind::Store] {
            let [first, behind, memory] = bits.served(lane, kind);
            for (level, accesses) in
                [(ServedLevel::First, first), (ServedLevel::Behind, behind), (ServedLevel::Memory, memory)]
            {
                counts.add_served(kind, level, accesses);
            }
        }
        counts
    }

    /// Counts a walk. Its accesses wait in the bits, unless a shared front makes them. `lanes` is the number of lanes,
    /// and `frame` returns the frame that a page of the tables has in a lane.
    pub(super) fn walk(
        &mut self,
        walk: &Walk,
        (lanes, frame): (usize, impl Fn(usize, PageId) -> FrameNo),
        bits: &mut LaneBits,
        tables: &Tables,
    ) {
        let (spared, root, second) = match walk.decision {
            Some(Decision::Walk { spared, root, second }) => (spared, root, second),
            Some(Decision::Second) => {
                return self.wait(TranslationCause::SecondLevel, self.config.second_level);
            }
            _ => unreachable!("lanes of a bundle share TLBs, and hear of no hit in a first-level TLB"),
        };
        self.counts.walked(walk.kind, spared, root);
        let Self { config, first, room, .. } = self;
        let no_frame = |_| unreachable!("the entries depend on no frame where lanes are bits");
        accesses(config, *first, walk.steps(), (spared, root), 1 << self.line_log2[0], no_frame, room);
        self.counts.read(self.room.iter().filter(|(kind, ..)| *kind == Kind::Load).count() as u64);
        self.wait(TranslationCause::Handler, handler_instructions(&self.config, root));
        if second {
            self.wait(TranslationCause::SecondLevel, self.config.second_level);
        }
        self.awaits = bits.has_fronts();
        let by_front = !bits.has_fronts() && self.config.reads_level_1();
        let translation = LaneTranslation { tables, frames: None };
        let room = std::mem::take(&mut self.room);
        for &(kind, mapping, byte) in &room {
            let page = translation.page(mapping);
            self.place(page, (lanes, &frame), bits);
            if !by_front {
                let line = (byte >> self.line_log2[usize::from(kind != Kind::Fetch)]) as u32;
                bits.wait(BitsAccess { page, line, kind, by: By::Agent, is_part: false });
            }
        }
        self.room = room;
    }

    /// Tells the bits the frames of a page of the tables or handlers, if they do not know them. `lanes` is the number
    /// of lanes, and `frame` returns the frame that the page has in a lane.
    pub(super) fn place(
        &mut self,
        page: PageId,
        (lanes, frame): (usize, impl Fn(usize, PageId) -> FrameNo),
        bits: &mut LaneBits,
    ) {
        // The page and the mapping of a page of the tables have one number.
        let number = (page.0 - self.first.0) as usize;
        if self.placed.len() <= number {
            self.placed.resize(number + 1, false);
        }
        if !std::mem::replace(&mut self.placed[number], true) {
            (0..lanes).for_each(|lane| bits.put(lane, page, frame(lane, page)));
        }
    }

    /// Returns who makes a row's access.
    #[inline]
    pub(super) fn of_row(&mut self, row: Row) -> By {
        if row.agent() != Agent::User {
            By::Agent
        } else if row.is_after_walk() || std::mem::take(&mut self.awaits) {
            By::UserAfterWalk
        } else {
            By::User
        }
    }

    /// Notes that the access after a walk missed a shared front, and that its requests come next.
    pub(super) fn await_request(&mut self) {
        self.awaits = true;
    }

    /// Returns a request of a shared front as an access.
    #[inline]
    pub(super) fn of_request(&mut self, request: &Request) -> BitsAccess {
        let mut access = BitsAccess::of_request(request);
        if self.awaits && access.by == By::User && access.kind.is_demand() {
            self.awaits = false;
            access.by = By::UserAfterWalk;
        }
        access
    }

    /// Notes the cycles that the fetches and the loads of a walk took within a shared front.
    pub(super) fn passed(&mut self, [fetches, loads]: [u64; 2]) {
        self.counts.waited(TranslationCause::HandlerFetch, fetches);
        self.counts.waited(TranslationCause::Entries, loads);
    }

    /// Ends the access after a walk. Counts the level that served the access, if the bits did not simulate the access.
    /// `missed` says whether the access missed a shared front.
    pub(super) fn after_walk(&mut self, kind: Kind, missed: Option<bool>) {
        let unheard = std::mem::take(&mut self.awaits);
        match missed {
            // Preparation knows that the access hits, and has skipped it.
            None if unheard => self.counts.served(kind, ServedLevel::First),
            Some(false) => self.counts.served(kind, ServedLevel::First),
            // A store missed a cache that does not allocate: its data was passed down, and no demand request came.
            Some(true) if unheard => self.counts.served(kind, ServedLevel::Behind),
            None | Some(true) => {}
        }
    }

    fn wait(&mut self, cause: TranslationCause, cycles: u64) {
        self.counts.waited(cause, cycles);
        self.waited += cycles;
    }
}
