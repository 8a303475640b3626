//! `Lane` simulates one placement of one seed: its frames, its front unless the front is shared, and one back
//! for each of its cells.

mod in_bits;
mod old_protection;
mod one_by_one;
mod protection;
mod softvm;
mod table_frames;
mod translate;

use std::ops::Range;
use std::sync::Arc;

use binhop_base::{Agent, FrameNo, MappingId, PageId, Result, Rng};
use binhop_hw::{Access, Computer, FastPath, FastPaths, Front, KnownHitFilter, LaneBits, LruStack, Request};
use binhop_os::PoolPolicy;
use binhop_os::page_table::PageTables;
use binhop_os::{Frames, Recency, WiredKind};
use binhop_trace::export::MemoryAccess;

use crate::frame_map::{FrameMap, LaneTranslation, Tables};
use crate::front_event::FrontEvent;
use crate::machine::Machine;
use crate::occasion::{Occasion, Subscription};
use crate::options::RunOptions;
use crate::prepare::{Block, Control, Entries, Mark, own_page};
use crate::results::account::Account;
use crate::results::detail::{Logged, Repeats};
use crate::results::spill::Spill;
use crate::results::switches::{SwitchReadings, SwitchTally};
use crate::run::back_model::{BackModel, BackPlace, Clock, Common};
use crate::run::bundle_walks::BundleWalks;
use crate::run::front_tap::FrontTap;
use crate::run::private::PrivateCaches;
use crate::run::recency::BlockRecency;
use crate::sharing::LaneCells;
use crate::synonyms::WatchedAccess;
use crate::unit::{InLane, Injector, PrivateSide};
use in_bits::InBits;
pub(crate) use in_bits::PageInFrame;
use protection::LineProtection;
use softvm::MissHandlers;
use translate::LaneTranslator;

/// `Lane` is one placement of one seed, with everything that depends on the placement.
pub(crate) struct Lane {
    pub(crate) seed: u64,
    frames: Frames,
    frame_map: FrameMap,
    /// The lane's own front; `None` while the front is shared, and where lanes are bits.
    front: Option<Front>,
    /// One back for each cell. The cells are machines of one placement and one front.
    pub(crate) backs: Vec<BackModel>,
    /// Stacks, each of which simulates several backs that differ in ways only.
    stacks: Vec<LruStack>,
    /// The filter behind a front of the lane's own. It removes requests that change nothing in any back.
    known_hits: Option<KnownHitFilter>,
    /// `InBits` serves the lane's bundle, if lanes are bits.
    bits: Option<InBits>,
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
    /// The handlers, if software translates when the last level misses. Then the lane has one cell and a front of its
    /// own.
    miss_handlers: Option<Box<MissHandlers>>,
    /// The protection of lines, if lines keep protection on a machine without handlers. Then the lane has one cell and
    /// a front of its own.
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

/// `Here` is the place of a control in its block, with the parts of the block that all lanes read alike.
struct Here<'a> {
    /// All controls of the block.
    controls: &'a [(u32, Control)],
    /// The number of the control among them.
    number: usize,
    tables: &'a Tables,
    recency: &'a mut BlockRecency,
    /// The caches of all lanes of the bundle and the lane's number among them, if lanes are bits.
    bits: Option<(&'a LaneBits, usize)>,
    /// The walks of the bundle with their counts, if addresses are translated.
    walks: Option<&'a BundleWalks>,
}

/// `LaneSetup` holds what a lane is made from.
pub(crate) struct LaneSetup<'a> {
    /// All machines of the run.
    pub(crate) machines: &'a [Machine],
    /// The numbers of the machines that this lane simulates: they have one placement and one front.
    pub(crate) cells: &'a LaneCells,
    pub(crate) seed: u64,
    pub(crate) shared_front: bool,
    /// The fast paths that are taken behind this front.
    pub(crate) paths: &'a FastPaths,
    pub(crate) options: &'a RunOptions,
    /// The temporary file for counts that memory does not hold.
    pub(crate) spill: &'a Arc<Spill>,
}

impl Lane {
    pub(crate) fn new(setup: &LaneSetup<'_>, custom: Option<Box<dyn PoolPolicy>>) -> Result<Self> {
        let LaneSetup { machines, cells, seed, paths, options, .. } = *setup;
        let machine = &machines[cells.machines[0]];
        let tree = machine.tree();
        let watched = options.watch.as_deref().map(|name| machine.cache(name)).transpose()?;
        let front_in_bits = paths.takes(FastPath::LaneBits);
        let in_bits = cells.bundled;
        let mut places = 0..;
        let mut model = |&cell: &usize| {
            let place = match cells.stack_of(cell, machines) {
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
            (!setup.shared_front && !front_in_bits).then(|| Front::with(tree, Rng::new(seed), paths));
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
        Ok(Self {
            seed,
            frames,
            frame_map,
            front,
            backs,
            known_hits: paths
                .takes(FastPath::KnownHits)
                .then(|| KnownHitFilter::new(&cells.trees(machines)))
                .flatten(),
            stacks: cells.stacks.iter().map(|stack| LruStack::new(stack.shape, stack.ways)).collect(),
            bits: in_bits.then(|| InBits::new(!front_in_bits, *paths)),
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
        1 + self.backs.len() + self.stacks.len()
    }

    /// Simulates a block. `requests` is room for the requests that the front lets through; its contents are
    /// overwritten.
    pub(crate) fn run(
        &mut self,
        block: &Block,
        tables: &Tables,
        recency: &mut BlockRecency,
        requests: &mut Vec<Request>,
    ) -> Result<()> {
        let controls = &*block.controls;
        let mut at = 0;
        for (number, (position, control)) in controls.iter().enumerate() {
            // Machines with physical tags may share the preparation with machines that look for synonyms.
            if matches!(control, Control::Watch(_)) && !self.backs[0].has_virtual_tags() {
                continue;
            }
            self.advance(block, number, at..*position as usize, tables, requests)?;
            at = *position as usize;
            self.control(
                control,
                Here { controls, number, tables, recency, bits: None, walks: None },
                requests,
            )?;
        }
        self.advance(block, controls.len(), at..block.entries(), tables, requests)
    }

    /// Simulates the entries before control number `span`, or after the last control.
    fn advance(
        &mut self,
        block: &Block,
        span: usize,
        entries: Range<usize>,
        tables: &Tables,
        passed: &mut Vec<Request>,
    ) -> Result<()> {
        if self.unit.as_ref().is_some_and(|unit| unit.subscription.wants_misses()) {
            return self.step(block, entries, tables);
        }
        if self.front_tap.is_some() {
            self.listen(block, entries, tables);
            return Ok(());
        }
        if self.private.is_some() {
            self.compare(block, entries, tables);
            return Ok(());
        }
        if self.miss_handlers.is_some() {
            return self.handle_misses(block, entries, tables);
        }
        if self.protection.is_some() {
            return self.access_protected(block, entries, tables);
        }
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        match &block.entries {
            Entries::Requests(requests) => {
                let requests = &requests[entries];
                if let Some(translator) =
                    self.translator.as_mut().filter(|translator| translator.is_passing())
                {
                    for request in requests {
                        let before = self.backs[0].waited();
                        self.backs[0].replay(std::slice::from_ref(request), None, &translation);
                        translator.waited_for(request, self.backs[0].waited() - before);
                    }
                    return Ok(());
                }
                for back in &mut self.backs {
                    back.replay(requests, block.common_counts.get(span), &translation);
                }
                self.stacks.iter_mut().for_each(|stack| stack.replay(requests, &translation));
            }
            Entries::Rows(_) if entries.is_empty() => {}
            Entries::Rows(rows) => {
                let front = self.front.as_mut().expect("rows are for a front of one's own");
                if let ([only], true) = (&mut *self.backs, self.immediate) {
                    only.answer(front, block, entries, &mut self.clock, &translation);
                    if let Some(tap) = &mut self.tap {
                        only.tapped(&translation, tap);
                    }
                    return Ok(());
                }
                passed.clear();
                self.waited += front.access_all(&rows[entries], &translation, passed);
                if let Some(known_hits) = &mut self.known_hits {
                    let hits = known_hits.filter(passed, &translation);
                    self.backs.iter_mut().for_each(|back| back.add_known_hits(&hits));
                    self.stacks.iter_mut().for_each(|stack| stack.add_hits(&hits));
                }
                for back in &mut self.backs {
                    back.replay(passed, None, &translation);
                }
                self.stacks.iter_mut().for_each(|stack| stack.replay(passed, &translation));
            }
        }
        Ok(())
    }

    /// Simulates rows one by one. The unit may act before each row that level 1 does not hold.
    fn step(&mut self, block: &Block, entries: Range<usize>, tables: &Tables) -> Result<()> {
        for at in entries {
            let row = block.rows()[at];
            if let Some(&gap) = block.gaps.get(at) {
                self.clock.pass(gap);
                self.private.iter_mut().for_each(|private| private.pass(gap));
            }
            let (kind, line) = (row.kind(), row.at());
            let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
            let front = self.front.as_ref().expect("rows are for a front of one's own");
            let (number, line_log2) = self.backs[0].serving(kind);
            if !front.holds(number, line, &translation) {
                let offset = u64::from(line.line) << line_log2;
                self.act(&Occasion::Miss { kind, mapping: MappingId(line.id), offset }, tables)?;
            }
            let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
            let front = self.front.as_mut().expect("rows are for a front of one's own");
            let (back, waited) = self.backs[0].own();
            let mut computer = Computer::over(front, back, self.clock.now);
            *waited += match &mut self.private {
                Some(private) => private.access(&mut computer, Agent::User, kind, line, &translation).cycles,
                None => computer.access(Agent::User, kind, line, &translation, &mut ()).cycles,
            };
            self.clock.now = computer.now;
            if let Some(tap) = &mut self.tap {
                self.backs[0].tapped(&translation, tap);
            }
        }
        Ok(())
    }

    /// Simulates rows one by one, and notes what passes below the caches.
    fn listen(&mut self, block: &Block, entries: Range<usize>, tables: &Tables) {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let tap = self.front_tap.as_mut().expect("called while the front is tapped");
        let front = self.front.as_mut().expect("rows are for a front of one's own");
        let (back, waited) = self.backs[0].own();
        for at in entries {
            let row = block.rows()[at];
            if let Some(&gap) = block.gaps.get(at) {
                self.clock.pass(gap);
            }
            let mut computer = Computer::over(&mut *front, &mut *back, self.clock.now);
            let left = &mut tap.left;
            *waited += computer.access(Agent::User, row.kind(), row.at(), &translation, left).cycles;
            self.clock.now = computer.now;
            tap.note(front, back, &translation);
        }
    }

    /// Simulates rows one by one, in the lane's caches and in the private caches of the life that runs.
    fn compare(&mut self, block: &Block, entries: Range<usize>, tables: &Tables) {
        if entries.is_empty() {
            return;
        }
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let private = self.private.as_mut().expect("called while switches are observed");
        let front = self.front.as_mut().expect("rows are for a front of one's own");
        let (back, waited) = self.backs[0].own();
        let mut computer = Computer::over(front, back, self.clock.now);
        let (mut waits, mut executed) = (0, 0);
        let (rows, gaps) = (block.rows(), &*block.gaps);
        for at in entries {
            let row = rows[at];
            if let Some(&gap) = gaps.get(at) {
                computer.now += gap;
                executed += gap;
                private.pass(gap);
            }
            waits += private.access(&mut computer, Agent::User, row.kind(), row.at(), &translation).cycles;
        }
        *waited += waits;
        self.clock.pass(executed);
        self.clock.now = computer.now;
    }

    /// Lets the unit act at an occasion that has arisen in this lane.
    fn act(&mut self, occasion: &Occasion, tables: &Tables) -> Result<()> {
        let Some(InLane { subscription, unit }) = &mut self.unit else { return Ok(()) };
        let kind = occasion.kind();
        let Some(touched) = subscription.touched(kind) else { return Ok(()) };
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let frames = &self.frames;
        let (tree, back) = self.backs[0].parts();
        let mut injector = Injector {
            kind,
            touched,
            tree,
            front: self.front.as_mut(),
            back,
            translation,
            resident: &|page| frames.frame_of(page).is_some(),
            private: self.private.as_deref_mut().map(|private| private as &mut dyn PrivateSide),
            owned: subscription.owned(),
            agents: subscription.agents(),
            now: self.clock.now,
            waited: 0,
            left: self.front_tap.as_deref_mut().map(|tap| &mut tap.left),
        };
        unit.act(occasion, &mut injector)?;
        let Injector { now, waited, .. } = injector;
        self.clock.now = now;
        self.waited += waited;
        if let Some(tap) = &mut self.tap {
            self.backs[0].tapped(&translation, tap);
        }
        if let (Some(front), Some(tap)) = (&self.front, &mut self.front_tap) {
            tap.note_device(occasion, front, self.backs[0].own().0, &translation);
        }
        Ok(())
    }

    fn control(&mut self, control: &Control, here: Here<'_>, passed: &mut Vec<Request>) -> Result<()> {
        match control {
            Control::Recency(_) | Control::Evictions => {}
            Control::Piece { since, instructions } => {
                if let Some(private) = &mut self.private {
                    private.piece(*since, *instructions);
                }
            }
            Control::SameLife => self.private.iter_mut().for_each(|private| private.same_life()),
            Control::LifeEnded(asid, life) => {
                self.private.iter_mut().try_for_each(|private| private.life_ended(*asid, *life))?;
            }
            Control::Occasion { occasion, instructions, .. } => {
                self.clock.reach(*instructions);
                self.private.iter_mut().for_each(|private| private.reach(*instructions));
                let is_fault = match occasion {
                    Occasion::Return { .. } => self.placed,
                    Occasion::FirstTouch { .. } => !self.joined,
                    _ => true,
                };
                if is_fault {
                    self.act(occasion, here.tables)?;
                }
            }
            Control::Walk(walk) => {
                self.clock.reach(walk.instructions);
                self.translate(walk, here.tables)?;
            }
            Control::WalkPassed(cycles) => {
                if let Some(translator) = &mut self.translator {
                    translator.passed(*cycles);
                }
                self.note_before_access();
            }
            Control::AfterWalk(kind, missed) => self.after_walk(*kind, *missed),
            Control::Entries(mapping, entries) => {
                if let Some(handlers) = &mut self.miss_handlers {
                    handlers.told(*mapping, **entries);
                }
            }
            Control::Watch(access) => self.watch(access, here.tables),
            Control::Protect(changes) => self.protect(changes, here.tables),
            Control::Tlb(event) => {
                if let Some(translator) = &mut self.translator {
                    translator.event(event);
                }
            }
            Control::Place { request, fault } => {
                self.placed = self.frames.frame_of(request.page).is_none();
                self.joined = false;
                if self.placed {
                    self.place(request, here, passed)?;
                }
                if let (Some(cause), Some(translator), false) = (fault, &mut self.translator, self.joined) {
                    translator.faulted(*cause);
                }
            }
            Control::Died(page) => {
                if let Some(frame) = self.frames.release(*page) {
                    self.frame_map.died(*page, frame);
                    self.note_splits();
                }
            }
            Control::Footprint(asid, pages) => {
                let resident =
                    pages.iter().filter_map(|&(page, shared)| Some((self.frames.frame_of(page)?, shared)));
                let (frames, shared): (Vec<_>, Vec<bool>) = resident.unzip();
                let shared = shared.into_iter().filter(|&shared| shared).count() as u64;
                for back in &mut self.backs {
                    back.footprint(*asid, &frames, shared)?;
                }
            }
            Control::Unshare(ended) => {
                self.front = Some(ended.front.clone());
                self.waited += ended.waited;
                self.translator.iter_mut().for_each(|translator| translator.add(ended.translation));
                if let Some(direct_mapped) = &ended.direct_mapped {
                    self.backs.iter_mut().for_each(|back| back.continue_alone(direct_mapped));
                }
            }
            Control::Mark(mark, stream, shared) => {
                self.clock.reach(stream.instructions);
                let common = Common {
                    front: self.front.as_ref(),
                    shared: shared.as_deref(),
                    stacks: &self.stacks,
                    bits: here.bits,
                    stream: **stream,
                    translation: self.translator.as_ref().map(|translator| {
                        let of_front =
                            shared.as_ref().map_or_else(Default::default, |shared| shared.translation);
                        // Processes and intervals count no walks.
                        let is_read = matches!(mark, Mark::Measured | Mark::End);
                        let bundle = here.walks.zip(here.bits).filter(|_| is_read);
                        let of_bundle = bundle.map(|(walks, (bits, lane))| walks.counts(bits, lane));
                        translator.counts() + of_front + of_bundle.unwrap_or_default()
                    }),
                    at_misses: self.miss_handlers.as_ref().map(|handlers| handlers.counts()),
                    sweeps: self.line_protection().map(|protection| protection.counts),
                    faults: self.frames.faults(),
                    evictions: self.frames.evictions(),
                    runs: self.frames.run_counts(),
                    waited: self.waited
                        + shared.as_ref().map_or(0, |shared| shared.waited)
                        + here.walks.map_or(0, BundleWalks::waited),
                };
                for back in &mut self.backs {
                    back.mark(*mark, &common)?;
                }
                if let Some(private) = &mut self.private {
                    match mark {
                        Mark::Process(turn) => private.turn(turn, stream.instructions)?,
                        Mark::Measured => private.measure(stream.instructions),
                        Mark::End => private.end(stream)?,
                        Mark::Interval(_) => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn place(
        &mut self,
        request: &binhop_os::PageRequest,
        here: Here<'_>,
        passed: &mut Vec<Request>,
    ) -> Result<()> {
        let Here { controls, number, tables, recency, .. } = here;
        let faults = self.frames.faults();
        let placed = self.frames.place(request, recency.at(controls, number))?;
        self.joined = self.frames.faults() == faults;
        self.note_splits();
        if let (Some(handlers), Some(place)) = (&mut self.miss_handlers, request.run) {
            handlers.run_is(place.run, self.frames.holds_run(place.run));
        }
        if let (Some(translator), Some(evicted)) = (&mut self.translator, placed.evicted) {
            translator.evicted(evicted);
        }
        // The frame changes hands, so the lines of the page that it held leave every level. They are found by
        // the frame.
        let held = placed.evicted.or_else(|| self.frame_map.take_dead(placed.frame));
        if let Some(in_bits) = &mut self.bits {
            in_bits.placed = Some(PageInFrame { page: request.page, frame: placed.frame, flushed: held });
        } else if let Some(held) = held {
            self.note_flushed_protection();
            let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
            self.mappings.clear();
            self.mappings.extend(tables.mappings_of(held));
            self.mappings.reverse();
            let (mappings, now) = (&*self.mappings, self.clock.now);
            if let (Some(private), Some(front), [only]) =
                (&mut self.private, &mut self.front, &mut *self.backs)
            {
                let mut computer = Computer::over(front, only.own().0, now);
                private.flush_page(&mut computer, held, mappings, &translation);
            } else if let (Some(front), [only], Some(tap)) =
                (&mut self.front, &mut *self.backs, &mut self.front_tap)
            {
                let back = only.own().0;
                let mut computer = Computer::over(&mut *front, &mut *back, now);
                computer.flush_page(Agent::User, held, mappings, &translation, &mut tap.left);
                tap.note_flush(held, back, &translation);
            } else if let (Some(front), [only], true) = (&mut self.front, &mut *self.backs, self.immediate) {
                only.flush_page_everywhere(front, held, mappings, now, &translation);
                if let Some(tap) = &mut self.tap {
                    only.tapped(&translation, tap);
                }
            } else {
                if let Some(front) = &mut self.front {
                    passed.clear();
                    front.flush_page(held, mappings, now, &translation, passed);
                    for back in &mut self.backs {
                        back.replay(passed, None, &translation);
                    }
                    self.stacks.iter_mut().for_each(|stack| stack.replay(passed, &translation));
                }
                for back in &mut self.backs {
                    back.flush_page(held, mappings, now, &translation);
                }
            }
            self.stacks.iter_mut().for_each(|stack| stack.flush_page(held, &translation));
            if let Some(known_hits) = &mut self.known_hits {
                known_hits.forget(held, &translation);
            }
        }
        self.frame_map.put(request.page, placed.frame);
        if let Some(log) = &mut self.log {
            log.push(Logged { request: request.clone(), placed });
        }
        Ok(())
    }

    /// Removes the translations of huge pages whose runs were split.
    fn note_splits(&mut self) {
        if self.translator.is_none() && self.miss_handlers.is_none() {
            return;
        }
        for run in self.frames.take_split() {
            self.translator.iter_mut().for_each(|translator| translator.split(run));
            self.miss_handlers.iter_mut().for_each(|handlers| handlers.run_is(run, false));
        }
    }

    /// Looks for two different copies before or after an access, in caches with virtual tags.
    fn watch(&mut self, access: &WatchedAccess, tables: &Tables) {
        let translation = LaneTranslation { tables, frames: Some(&self.frame_map) };
        let own = self.front.as_ref().filter(|_| access.of_front.is_none());
        let own = own.map(|front| self.backs[0].copies_in_front(front, access, &translation));
        let of_front = access.of_front.as_deref().or(own.as_deref());
        let of_front =
            of_front.expect("a front is shared, or the lane's own, where caches have virtual tags");
        for back in &mut self.backs {
            back.watch(access, of_front, &translation);
        }
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
