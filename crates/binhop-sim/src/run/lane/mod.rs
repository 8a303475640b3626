//! `Lane` simulates one placement of one seed: its frames, its front unless the front is shared, and one back
//! for each of its cells.

mod block;
mod control;
mod equal_lanes;
mod in_bits;
mod old_protection;
mod one_by_one;
mod place;
mod protection;
mod softvm;
mod table_frames;
mod translate;
mod unit;

use std::sync::Arc;

use binhop_base::{FrameNo, MappingId, PageId, Result, Rng};
use binhop_hw::{FastPath, FastPaths, Front, KnownHitFilter, LaneBits, LruStack};
use binhop_os::PoolPolicy;
use binhop_os::page_table::PageTables;
use binhop_os::{Frames, Recency, WiredKind};
use binhop_trace::export::MemoryAccess;

use crate::frame_map::FrameMap;
use crate::front_event::FrontEvent;
use crate::machine::Machine;
use crate::occasion::Subscription;
use crate::options::RunOptions;
use crate::prepare::own_page;
use crate::results::account::Account;
use crate::results::detail::{Logged, Repeats};
use crate::results::spill::Spill;
use crate::results::switches::{SwitchReadings, SwitchTally};
use crate::run::back_model::{BackModel, BackPlace};
use crate::run::clock::Clock;
use crate::run::front_tap::FrontTap;
use crate::run::private::PrivateCaches;
use crate::sharing::LaneCells;
use crate::unit::InLane;
pub(crate) use control::CONTROL;
pub(crate) use equal_lanes::{EqualLanes, equal_lanes_together};
use in_bits::InBits;
pub(crate) use in_bits::PageInFrame;
use protection::LineProtection;
use softvm::MissHandlers;
use translate::LaneTranslator;

/// `Lane` is one placement of one seed, with everything that depends on the placement.
pub(crate) struct Lane {
    pub(crate) seed: u64,
    /// True while the caches of another lane stand for this lane's caches ([`EqualLanes`]). Then the lane has none.
    led: bool,
    frames: Frames,
    frame_map: FrameMap,
    /// The lane's own front; `None` while the front is shared, where lanes are bits, and while the lane is led.
    front: Option<Front>,
    /// One back for each cell. The cells are machines of one placement and one front.
    pub(crate) backs: Vec<BackModel>,
    /// Stacks, each of which simulates several backs that differ in ways only.
    stacks: Vec<LruStack>,
    /// The filter behind a front of the lane's own. It removes requests that change nothing in any back.
    known_hits: Option<KnownHitFilter>,
    /// `InBits` serves the lane's bundle, if lanes are bits.
    bits: Option<InBits>,
    /// The fast paths of the lane, if its level 1 continues in bits where the sharing of a front ends.
    front_bits: Option<FastPaths>,
    /// True if each request must be answered before the next access. Then the lane has one cell.
    immediate: bool,
    clock: Clock,
    /// Room for the mappings of a page whose frame changes hands, oldest first.
    mappings: Vec<MappingId>,
    /// The private caches of each life, if switches are observed. Then the lane has one cell and a front of its own.
    private: Option<Box<PrivateCaches>>,
    /// The unit that acts at occasions, if there is a unit. Then the lane has one cell.
    unit: Option<InLane>,
    /// What the lane knows of TLBs and page tables, if addresses are translated. Then the lane has one cell.
    translator: Option<Box<LaneTranslator>>,
    /// The handlers, if software translates when the last level misses. Then the lane has one cell, and a front of its
    /// own unless it is led.
    miss_handlers: Option<Box<MissHandlers>>,
    /// The protection of lines, if lines keep protection on a machine without handlers. Then the lane has one cell, and
    /// a front of its own unless it is led.
    protection: Option<Box<LineProtection>>,
    /// True if the lane has just placed the page of the last [`Control::Place`].
    placed: bool,
    /// True if that page has joined the run of a huge page, without a fault.
    joined: bool,
    /// The cycles waited for the unit and within the front. The cycles within a shared front are added when
    /// the sharing ends.
    waited: u64,
    /// Every placement, if the options ask for placements.
    log: Option<Vec<Logged>>,
    /// The accesses that have reached memory and were not taken yet, if the options ask for them. Then the
    /// lane has one cell.
    tap: Option<Vec<MemoryAccess>>,
    /// The stream below the caches that was not taken yet, if the options ask for it. Then the lane has one cell
    /// and a front of its own.
    front_tap: Option<Box<FrontTap>>,
}

/// `LaneSetup` holds what a lane is made from.
pub(crate) struct LaneSetup<'a> {
    /// All machines of the run.
    pub(crate) machines: &'a [Machine],
    /// The numbers of the machines that this lane simulates: they have one placement and one front.
    pub(crate) cells: &'a LaneCells,
    pub(crate) seed: u64,
    pub(crate) shared_front: bool,
    /// True if the caches of another lane stand for the caches of this lane.
    pub(crate) led: bool,
    /// The fast paths that are taken behind this front.
    pub(crate) paths: &'a FastPaths,
    pub(crate) options: &'a RunOptions,
    /// The temporary file for counts that memory does not hold.
    pub(crate) spill: &'a Arc<Spill>,
}

impl Lane {
    pub(crate) fn new(setup: &LaneSetup<'_>, custom: Option<Box<dyn PoolPolicy>>) -> Result<Self> {
        let LaneSetup { machines, cells, seed, led, paths, options, .. } = *setup;
        let machine = &machines[cells.machines[0]];
        let tree = machine.tree();
        let watched = options.watch.as_deref().map(|name| machine.cache(name)).transpose()?;
        let front_in_bits = paths.takes(FastPath::LaneBits);
        let in_bits = cells.bundled;
        let mut places = 0..;
        let mut model = |&cell: &usize| {
            let place = match cells.stack_of(cell, machines) {
                _ if led => BackPlace::Led(places.next().expect("numbers do not end")),
                Some((stack, ways)) => BackPlace::Stack(stack, ways),
                None if in_bits && LaneBits::takes_back(machines[cell].tree(), !front_in_bits) => {
                    BackPlace::Bits(places.next().expect("numbers do not end"))
                }
                None => BackPlace::Own,
            };
            let tree = machines[cell].tree();
            let account = Account::new(tree.config().caches.len(), options.interval.is_some(), setup.spill);
            BackModel::new(cell, tree, seed, account, watched, place, paths)
        };
        let mut front =
            (!setup.shared_front && !front_in_bits && !led).then(|| Front::with(tree, Rng::new(seed), paths));
        if let (Some(front), Some(cache)) = (&mut front, watched.filter(|&cache| tree.in_front(cache))) {
            front.watch(cache);
        }
        let mut backs: Vec<BackModel> = cells.machines.iter().map(&mut model).collect();
        let (mut frames, mut frame_map) = (machine.frames(seed, custom)?, FrameMap::default());
        for number in 0..options.subscription().map_or(0, Subscription::owned) {
            let (page, page_no) = own_page(number, machine.memory().page);
            let placed = frames.wire(page, page_no, WiredKind::Kernel, &Recency::new())?;
            frame_map.put(page, placed.frame);
        }
        let of_unit = options.subscription().map_or(0, Subscription::owned);
        let translator = LaneTranslator::new(machine, seed, of_unit, &mut frame_map)?.map(Box::new);
        let miss_handlers = MissHandlers::new(machine, of_unit, &mut frame_map).map(Box::new);
        if options.tap || options.front_tap {
            backs.iter_mut().for_each(BackModel::tap);
        }
        let stacks = cells.stacks.iter().filter(|_| !led);
        Ok(Self {
            seed,
            led,
            frames,
            frame_map,
            front,
            backs,
            known_hits: (paths.takes(FastPath::KnownHits) && !led)
                .then(|| KnownHitFilter::new(&cells.trees(machines)))
                .flatten(),
            stacks: stacks.map(|stack| LruStack::new(stack.shape, stack.ways)).collect(),
            bits: in_bits.then(|| InBits::new(!front_in_bits, *paths)),
            front_bits: paths.takes(FastPath::FrontBits).then_some(*paths),
            immediate: tree.answers_at_once() || options.tap || options.front_tap,
            clock: Clock::default(),
            mappings: Vec::new(),
            private: options.switches.map(|switches| {
                let tally = SwitchTally::new(tree.config().caches.len(), switches.raw, setup.spill);
                Box::new(PrivateCaches::new(tree, seed, tally))
            }),
            translator,
            protection: machine
                .protection()
                .filter(|_| miss_handlers.is_none())
                .map(|config| Box::new(LineProtection::new(config))),
            miss_handlers,
            unit: options.units.as_ref().map(|units| units.make(machine, seed)),
            placed: false,
            joined: false,
            waited: 0,
            log: options.log.then(Vec::new),
            tap: options.tap.then(Vec::new),
            front_tap: options.front_tap.then(|| Box::new(FrontTap::new(tree, machine.longest_line()))),
        })
    }

    /// Returns the cost of simulating the lane: a front, and its backs. Lanes are assigned to workers by
    /// their cost.
    pub(crate) fn weight(&self) -> usize {
        if self.led { 0 } else { 1 + self.backs.len() + self.stacks.len() }
    }

    /// Returns whether a page is in memory.
    pub(crate) fn holds(&self, page: PageId) -> bool {
        self.frames.frame_of(page).is_some()
    }

    /// Returns the cycles that the processor has waited. The lane has one cell, and a front of its own.
    pub(crate) fn waited(&self) -> u64 {
        self.waited + self.backs[0].waited()
    }

    /// Takes the accesses that have reached memory since the last call, in order, if the options ask for
    /// them.
    pub(crate) fn take_tapped(&mut self, out: &mut Vec<MemoryAccess>) {
        if let Some(tap) = &mut self.tap {
            out.append(tap);
        }
    }

    /// Takes what has passed below the caches since the last call, in order, if the options ask for it.
    pub(crate) fn take_front_events(&mut self, out: &mut Vec<FrontEvent>) {
        if let Some(tap) = &mut self.front_tap {
            tap.take(out);
        }
    }

    /// Returns every placement in order, if placements are logged.
    pub(crate) fn log(&self) -> Option<&[Logged]> {
        self.log.as_deref()
    }

    /// Returns the repeated misses of a cell's watched cache, if a cache is watched.
    pub(crate) fn repeats<'a>(
        &'a self,
        behind: &'a BackModel,
        frame_of: &'a dyn Fn(PageId) -> Option<FrameNo>,
    ) -> Option<Repeats<'a>> {
        let (misses, bins) = behind.repeats(self.front.as_ref())?;
        Some(Repeats { seed: self.seed, misses, bins, frame_of })
    }

    /// Returns the frame in which a page is, or was last.
    pub(crate) fn last_frame(&self, page: PageId) -> Option<FrameNo> {
        self.frame_map.last(page)
    }

    /// Takes what was counted of switches, if switches are observed.
    ///
    /// # Errors
    /// An invariant is broken; the error names it.
    pub(crate) fn take_switches(&mut self) -> Result<Option<SwitchReadings>> {
        let Some(private) = self.private.take() else { return Ok(None) };
        let measured = self.backs[0].account.phases().1;
        private.finish(measured.stream.instructions, measured.waited, self.seed).map(Some)
    }

    /// Checks every invariant that must hold after a run. `shared` is the front that all lanes shared to the
    /// end, and `tables` are the page tables, if addresses are translated.
    ///
    /// # Errors
    /// An invariant is broken; the error names it.
    pub(crate) fn check(&mut self, shared: Option<&Front>, tables: Option<&PageTables>) -> Result<()> {
        self.frames.check()?;
        if let (Some(translator), Some(tables)) = (&self.translator, tables) {
            translator.check(&self.frame_map, tables, self.seed)?;
        }
        if let (Some(handlers), Some(tables)) = (&self.miss_handlers, tables) {
            handlers.check(&self.frame_map, tables, self.seed)?;
        }
        if self.led {
            // The leading lane checks the caches.
            return self.backs.iter().try_for_each(|back| back.check_counts(self.seed));
        }
        if let Some(InBits { front, backs, .. }) = &mut self.bits {
            if shared.is_none() {
                self.backs[0].add_hits_to_bits(front);
            }
            let check = |back: &BackModel| {
                let bits = back.place_in_bits().map(|place| &backs[place]);
                match shared {
                    Some(shared) => back.check(shared, &self.stacks, bits, self.seed),
                    None => back.check(front, &self.stacks, bits, self.seed),
                }
            };
            return self.backs.iter().try_for_each(check);
        }
        if let Some(front) = &mut self.front {
            self.backs[0].add_hits(front);
        }
        let front = self.front.as_ref().or(shared).expect("a front is shared, or the lane's own");
        self.backs.iter().try_for_each(|back| back.check(front, &self.stacks, None, self.seed))
    }
}
