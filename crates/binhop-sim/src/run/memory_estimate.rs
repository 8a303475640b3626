//! `MemoryEstimate` estimates the memory of a run, from its options before it starts and from what its trace
//! has held since.
//!
//! Rules
//! - *A seed* takes memory for each of its lanes: the frames; the caches of its front (a copy of a shared
//!   front from where the sharing may end) and of each back, or of a stack in place of several backs; buffers
//!   between levels; its tallies and its meter. Each page takes its place in two tables, and a bit for each
//!   of its lines in each cache. Each process takes a share until the meter's table is full; a record that
//!   goes to the disk leaves a place in a list. If switches are observed, each process takes private caches, in which
//!   pages take chunks of sets, and has marks and a curve. The tables of switches are made when the private caches are
//!   gone.
//! - *A bundle* of lanes that are bits takes memory once for all its lanes: two words of 8, 16, 32 or 64 bits, by the
//!   number of lanes, for each line of each page in each cache behind level 1, 4 B more for the line where a set has
//!   several ways, and room for the accesses of a block. Where the sharing of a front or of TLBs ends, each lane gets
//!   caches of its own beside the bundle's.
//! - *Equal lanes* take memory for the caches of one lane in each group. Each lane gets caches of its own where its
//!   placement may evict pages.
//! - *Shared* memory exists once, whatever the number of seeds: the source's batches, blocks on their way,
//!   preparation, and what each worker must know of pages.
//! - *Translation* takes memory where it is active: TLBs and page tables exist once, and each lane has TLBs of its own
//!   once its placement may evict pages. The pages of page tables are pages like those of the trace, and all of them
//!   exist from the start.
//! - *Tables* are the tables of results of all seeds, and the logs of their meters. Tables of intervals and
//!   processes are made as they are read; the counts of all processes under one seed are in memory then.
//! - The numbers of pages, processes and intervals of a trace are known only while it is read. A run starts
//!   with a guess ([`guess`]) and compares after every batch.
//!
//! Every part is taken at its maximum: a vector that doubles counts twice. What a policy in Python keeps is
//! not estimated.

mod fit;
mod sum;

use binhop_hw::{CacheConfig, CacheCounters, FastPath, LaneBits, MOST_MARKS, Request, SetsBytes};

use super::lane::equal_lanes_together;
use super::lane_bundle::{PIECE, bundles, lanes_of_bundle, most_waiting};
use super::passed_mark::PassedMark;
use super::private::PrivateBytes;
use crate::machine::Machine;
use crate::occasion::Subscription;
use crate::options::RunOptions;
use crate::prepare::{BLOCK_CONTROLS, BLOCK_ROWS, Control, Growth, Row, SegmentNeeds};
use crate::results::meter::OF_STREAM;
use crate::results::spill::CHUNK;
use crate::results::tally::Tally;
use crate::sharing::{FEWEST_SEEDS_IN_BITS, FrontGroup, FrontSharing};
use crate::sharing::{LaneCells, SharingPlan};
use crate::softvm::PageEntries;
use crate::synonyms::{HeldCopy, WatchedAccess};
use crate::translation::{HUGE_PAGE, RUN, TranslationBytes};
use fit::{LargestSetting, SettingBytes};
use sum::{Sum, WhenFull};

/// The number of blocks on their way to each worker, the current block included.
const BLOCKS: u64 = super::threads::QUEUE as u64 + 2;
/// The bytes of the requests of a lane that wait for a back that is not simulated in bits. A row makes two requests at
/// most, and lists of requests double.
const WAITING_REQUESTS: u64 = (4 * PIECE * size_of::<Request>()) as u64;
/// The bytes of the source's batches, decoded and read ahead, and of the tables of preparation that do not
/// grow.
const SOURCE: u64 = 24 << 20;
/// The bytes of one page or mapping in address spaces, the residency horizon and translation.
const PREPARED: u64 = 256;
/// The bytes of one page in the tables of a worker, with its time of last reference and the earlier time to
/// which the next lane returns.
const KNOWN: u64 = 96;
/// The bytes of the buffers between the levels of one back.
const BUFFERS: u64 = 256 << 10;
/// The bytes of one placement that is logged.
const LOGGED: u64 = 192;
/// The bytes of a row of a table of results, while it is made and when it is handed over.
const TABLE_ROW: u64 = 256;
/// The bytes of a page of the tables that software reads at cache misses: its mapping, its frame, and its facts.
const OWN_PAGE: u64 = 512;
/// The bytes of a page of the program in these tables, of the places of its entries, and of their lines.
const MAPPED_AT_MISSES: u64 = 304;
/// The bytes of a page of the program in the regions that have segments, with its name. A page among many pages of a
/// region was measured at up to 49 B, and the only page of a shared region at 352 B. A list that grows may be twice as
/// long as it needs to be.
const IN_REGION: u64 = 512;
/// The bytes of a page and of its names, where synonyms are looked for.
const NAMED: u64 = 8;
/// The bytes of a page of the program in what preparation knows of protection.
const PROTECTED: u64 = 64;

/// The bytes of a set of level 1 that continues in bits, and of a line of it.
const LRU_SLOT: u64 = 64;
const LINE_OF_LRU_SLOT: u64 = 24;
/// The bytes of the marks that a bundle passes before lanes learn of them, each with the counts of a shared front.
const PASSED_MARKS: u64 = (MOST_MARKS * (size_of::<PassedMark>() + 256)) as u64;

/// The bytes of a line of level 1 where lanes are bits.
const LINE_OF_LEVEL1: u64 = 32;
/// The lines for which a slot of level 1 takes room at once.
const LINES_OF_SLOT: u64 = 16;

/// Returns the bytes of the accesses that a block tells lanes to watch, with the copies that a shared front holds. The
/// list of controls may be twice as long as it needs to be.
fn of_watches(machines: &[Machine], group: &FrontGroup) -> u64 {
    let cells = group.lanes.iter().flat_map(|cells| &cells.machines);
    let copies_of = |&cell: &usize| {
        let tree = machines[cell].tree();
        let caches = tree.config().caches.iter().enumerate();
        let of_front = caches.filter(|&(number, cache)| tree.in_front(number) && cache.keyed_by_mapping());
        of_front.map(|(_, cache)| tree.places_of_line_number(cache)).sum::<u64>()
    };
    let copies = cells.map(copies_of).max().unwrap_or(0).saturating_mul(size_of::<HeldCopy>() as u64);
    let control = (2 * size_of::<(u32, Control)>() + size_of::<WatchedAccess>()) as u64;
    (BLOCK_CONTROLS as u64).saturating_mul(control.saturating_add(copies))
}

/// Returns what is assumed of a trace before it is read: no more pages than most short traces touch.
pub(crate) fn guess(options: &RunOptions) -> Growth {
    let end = [options.length, options.instructions].into_iter().flatten().min();
    let intervals =
        options.interval.zip(options.instructions.or(options.length)).map_or(0, |(each, all)| all / each);
    Growth { pages: (1 << 14).min(end.unwrap_or(u64::MAX)), processes: 1, intervals }
}

/// Returns the bytes of one cache of a lane.
fn of_cache(cache: &CacheConfig, machine: &Machine, options: &RunOptions) -> Sum {
    let lines = machine.memory().page.bytes() >> cache.line.log2();
    let repeats = if options.watch.is_some() { 8 } else { 0 };
    Sum {
        fixed: cache.state_bytes(machine.memory().page),
        page: lines.div_ceil(8) + repeats,
        ..Sum::default()
    }
}

/// Returns the bytes of the private caches of processes, with what is known of them.
///
/// Each process is one life. The pages of a trace are counted as its mappings, so a page that several processes share
/// counts once for each.
fn of_private(machine: &Machine) -> Sum {
    let PrivateBytes { life, page_in_caches, most_in_caches, page_in_lists, page_in_marks } =
        PrivateBytes::of(machine.tree());
    Sum {
        process: life,
        private_of_process: most_in_caches,
        private_of_page: page_in_caches,
        page: page_in_lists,
        page_alone: page_in_marks,
        ..Sum::default()
    }
}

/// Returns the bytes of a process's share in the table of a meter.
fn of_slot(caches: usize) -> u64 {
    2 * ((1 + OF_STREAM + caches) * size_of::<u64>()) as u64
}

/// Returns the bytes of a meter's logs that are not on the disk, while it works and afterwards.
fn of_logs(options: &RunOptions) -> Sum {
    let logs = if options.interval.is_some() { 3 } else { 2 };
    // Each process and each interval takes a record on the disk. Five hundred bytes on the disk take one byte
    // in memory.
    let interval = u64::from(options.interval.is_some());
    Sum { fixed: (logs * CHUNK) as u64, process: 1, interval, ..Sum::default() }
}

/// `MemoryEstimate` is the memory that a run takes, part by part.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryEstimate {
    shared: Sum,
    /// The page tables, which exist once.
    page_tables: Vec<WhenFull>,
    /// `bundle` is the memory of each bundle of lanes.
    bundle: Sum,
    /// The parts of the memory of each bundle that have a maximum.
    in_bundles: Vec<WhenFull>,
    /// `equal` is the memory of the caches of each group of equal lanes.
    equal: Sum,
    /// The lines of a page in the caches of a bundle behind level 1.
    lines_in_bundle: u64,
    /// The number of placements whose lanes stand in bundles.
    placements_in_bundles: usize,
    /// Lanes are divided among this number of threads.
    workers: usize,
    seed: Sum,
    when_full: Vec<WhenFull>,
    /// The pages that are no pages of the trace: those of units, of page tables and of handlers.
    own_pages: u64,
    tables: Sum,
    /// The setting that takes the most memory in one lane.
    largest: Option<LargestSetting>,
    /// The memory of a round of fewer seeds than are simulated in bits, where more seeds are.
    without_bits: Option<Box<MemoryEstimate>>,
}

impl MemoryEstimate {
    /// Estimates a round of these machines, with the tables of `all` machines of the run. The backs of lanes are not
    /// divided among threads where a policy of the caller's own, `own_policy`, places pages.
    pub(crate) fn of(machines: &[Machine], all: &[Machine], options: &RunOptions, own_policy: bool) -> Self {
        let seeds = options.seeds.len();
        let threads = if own_policy { 1 } else { options.threads };
        let of = |seeds| Self::of_seeds((machines, all), options, seeds, threads);
        let few = (seeds >= FEWEST_SEEDS_IN_BITS).then(|| Box::new(of(FEWEST_SEEDS_IN_BITS - 1)));
        Self { without_bits: few, ..of(seeds) }
    }

    /// Estimates a round with the plan for so many seeds, where the backs of lanes may be divided among `threads`
    /// threads.
    fn of_seeds(
        (machines, all): (&[Machine], &[Machine]),
        options: &RunOptions,
        seeds: usize,
        threads: usize,
    ) -> Self {
        let sharing_plan = SharingPlan::of(
            machines,
            seeds,
            options.shares_stages(),
            options.subscription(),
            options.switched_off(),
        )
        .among_threads(machines, seeds, threads);
        let of_unit = options.subscription().map_or(0, Subscription::owned);
        let of_tables =
            machines.iter().filter_map(Machine::translation).map(|translation| translation.pages()).max();
        let mut estimate = Self {
            shared: Sum { fixed: SOURCE, ..Sum::default() },
            own_pages: u64::from(of_unit) + u64::from(of_tables.unwrap_or(0)),
            workers: options.threads,
            ..Self::default()
        };
        let workers = options.threads as u64;
        // Each thread makes the frames of a lane.
        let making_of =
            |machine: &Machine| machine.placement().policy().lane_bytes(&machine.placement().settings).making;
        let making = machines.iter().map(making_of).max().unwrap_or(0).saturating_mul(workers);
        estimate.shared.add(Sum { fixed: making, ..Sum::default() });
        let blocks = if workers > 1 { BLOCKS } else { 2 };
        let row = (size_of::<Row>() + size_of::<Request>() + size_of::<u64>()) as u64;
        let block = BLOCK_ROWS as u64 * row;
        for stream in &sharing_plan.preparations {
            estimate.shared.add(Sum { fixed: block, page: PREPARED, ..Sum::default() });
            let first =
                stream.groups.iter().flat_map(|group| &group.lanes).next().map(|cells| cells.machines[0]);
            if first.is_some_and(|cell| SegmentNeeds::of(&machines[cell]).is_some()) {
                estimate.shared.add(Sum { page_alone: IN_REGION, ..Sum::default() });
            }
            if first.is_some_and(|cell| machines[cell].protection().is_some()) {
                estimate.shared.add(Sum { page_alone: PROTECTED, ..Sum::default() });
            }
            if stream.looks_for_synonyms {
                estimate.shared.add(Sum { page_alone: NAMED, ..Sum::default() });
            }
            let walks = first.map_or(0, |cell| estimate.add_translation(&machines[cell]));
            for group in &stream.groups {
                let watches = if stream.looks_for_synonyms { of_watches(machines, group) } else { 0 };
                let (fixed, page) = (blocks * (block + walks + watches), KNOWN * (workers + 1));
                estimate.shared.add(Sum { fixed, page, ..Sum::default() });
                let lanes = group.lanes.iter();
                lanes.for_each(|cells| estimate.add_lane(machines, cells, (group, stream.safe), options));
            }
        }
        all.iter().for_each(|machine| estimate.add_tables(machine, options));
        estimate
    }

    /// Adds what the lanes of a preparation share of translation. Returns the bytes of the walks of a block.
    fn add_translation(&mut self, machine: &Machine) -> u64 {
        if let Some(config) = machine.softvm() {
            // Every page of the tables has a frame, a mapping and its facts; every page of the program has an entry.
            let fixed = (OWN_PAGE * u64::from(config.pages())).saturating_add(config.bytes_of_known_lines());
            let huge = config.huge_log2.map_or(0, |_| HUGE_PAGE);
            self.shared.add(Sum { fixed, page_alone: MAPPED_AT_MISSES + huge, ..Sum::default() });
            return BLOCK_CONTROLS as u64 * size_of::<PageEntries>() as u64;
        }
        let Some(config) = machine.translation() else { return 0 };
        let bytes = TranslationBytes::of(config);
        self.shared.add(Sum {
            fixed: bytes.tlbs.saturating_add(bytes.tables),
            page_alone: bytes.told + bytes.huge_pages,
            ..Sum::default()
        });
        let sum = Sum { page_alone: bytes.table_page, ..Sum::default() };
        self.page_tables.push(WhenFull { safe: 0, sum, most: bytes.most_in_tables });
        BLOCK_CONTROLS as u64 * (2 * size_of::<(u32, Control)>() as u64 + bytes.walk)
    }

    /// Adds what a seed takes for a lane of a group. `safe` is the number of pages that may be placed before a page may
    /// be evicted in some lane of the preparation: there lanes stop sharing.
    fn add_lane(
        &mut self,
        machines: &[Machine],
        cells: &LaneCells,
        (group, safe): (&FrontGroup, Option<u64>),
        options: &RunOptions,
    ) {
        let sharing = group.sharing;
        let in_bits = group.paths.takes(FastPath::LaneBits);
        let has_bundles = cells.bundled;
        let takes_back = |machine: &Machine| has_bundles && LaneBits::takes_back(machine.tree(), !in_bits);
        if has_bundles {
            self.placements_in_bundles += 1;
            let others = cells.machines.iter().any(|&cell| !takes_back(&machines[cell]));
            let waiting = LaneBits::waiting_bytes(most_waiting(!in_bits, others)) as u64;
            let fixed = waiting + LaneBits::request_bytes() + PASSED_MARKS;
            self.bundle.add(Sum { fixed, ..Sum::default() });
            let waiting = if in_bits && others { WAITING_REQUESTS } else { 0 };
            self.seed.add(Sum { fixed: waiting, page: size_of::<u32>() as u64, ..Sum::default() });
        }
        if group.paths.takes(FastPath::FrontBits) {
            self.add_front_bits(machines, cells, safe);
        }
        let first = &machines[cells.machines[0]];
        let (settings, frames) =
            (&first.placement().settings, first.placement().policy().lane_bytes(&first.placement().settings));
        let sum = Sum { page_alone: frames.page, ..Sum::default() };
        self.when_full.push(WhenFull { safe: 0, sum, most: frames.all_pages });
        let sum = Sum { fixed: frames.whole, ..Sum::default() };
        // A unit's pages are taken from the order, too. The frames of page tables are not, so this is at most too
        // early.
        let safe_order = frames.part.saturating_sub(self.own_pages);
        self.when_full.push(WhenFull { safe: safe_order, sum, most: u64::MAX });
        if let Some(own_safe) = first.safe_frames() {
            // An entry for each frame in use, and what the pool takes.
            let sum = Sum { page: frames.entry, ..Sum::default() };
            self.when_full.push(WhenFull { safe: own_safe, sum, most: frames.full });
            let sum = Sum { fixed: frames.once, ..Sum::default() };
            self.when_full.push(WhenFull { safe: own_safe, sum, most: u64::MAX });
            if let Some(translation) = first.translation() {
                let TranslationBytes { tlbs, told_in_lane, run, most_in_runs, .. } =
                    TranslationBytes::of(translation);
                let sum = Sum { fixed: tlbs, page_alone: told_in_lane, ..Sum::default() };
                // Each lane has TLBs of its own once a page may be evicted, or from the start with huge pages.
                self.add_at_eviction(safe, run > 0, sum);
                let sum = Sum { page_alone: run, ..Sum::default() };
                self.when_full.push(WhenFull { safe: 0, sum, most: most_in_runs });
            }
            if let Some(log2) = first.softvm().and_then(|config| config.huge_log2) {
                let sum = Sum { page_alone: RUN + (1 << log2), ..Sum::default() };
                let most = (settings.frames >> log2).saturating_mul(sum.page_alone);
                self.when_full.push(WhenFull { safe: 0, sum, most });
            }
            let size = first.memory().page.bytes().saturating_mul(settings.frames);
            let fixed = [frames.start, frames.whole, frames.once, frames.full]
                .into_iter()
                .fold(0, u64::saturating_add);
            let bytes = SettingBytes { fixed, page: frames.page, most: frames.all_pages };
            self.note("memory.size".to_string(), size, bytes);
        }
        let of_page = 16 + frames.placed + if options.log { LOGGED } else { 0 };
        self.seed.add(Sum { fixed: frames.start, page: of_page, process: frames.owner, ..Sum::default() });
        for stack in &cells.stacks {
            let sum = Sum { fixed: stack.shape.bytes(stack.ways), page: 8, ..Sum::default() };
            self.add_caches(first, (cells, safe), sum);
        }
        for &cell in &cells.machines {
            let machine = &machines[cell];
            let config = machine.tree().config();
            let tally = (size_of::<Tally>() + config.caches.len() * size_of::<CacheCounters>()) as u64;
            // One tally is kept of a warm-up, one is kept at the end, and one is current.
            let behind = (0..config.caches.len()).filter(|&cache| !machine.tree().in_front(cache)).count();
            let buffers = if behind > 1 { BUFFERS } else { 0 };
            self.seed.add(Sum { fixed: 3 * tally, ..Sum::default() });
            let buffers = Sum { fixed: buffers, ..Sum::default() };
            if !takes_back(machine) {
                self.add_caches(machine, (cells, safe), buffers);
            } else if !in_bits || machine.translation().is_some() {
                // A lane has a back of its own only when it has left its bundle.
                self.add_at_eviction(safe, false, buffers);
            }
            self.seed.add(Sum { slot: of_slot(config.caches.len()), ..Sum::default() });
            if options.switches.is_some() {
                self.seed.add(of_private(machine));
            }
            let stacked = cells.stack_of(cell, machines).is_some();
            for (number, cache) in config.caches.iter().enumerate() {
                let sum = of_cache(cache, machine, options);
                if !machine.tree().in_front(number) {
                    if !stacked && takes_back(machine) {
                        self.add_bits(cache, machine, !in_bits);
                        if !in_bits || machine.translation().is_some() {
                            self.add_at_eviction(safe, false, sum);
                        }
                        continue;
                    }
                    // A machine in a stack has no back of its own.
                    self.add_caches(machine, (cells, safe), if stacked { Sum::default() } else { sum });
                } else if in_bits && cell == cells.machines[0] {
                    // A lane holds at most one line of each set.
                    let lines = LINE_OF_LEVEL1 * cache.sets();
                    self.seed.add(Sum { fixed: lines.max(sum.fixed), ..Sum::default() });
                    // Each slot has a list, with room for some lines more.
                    let slots =
                        cache.sets() * (size_of::<Vec<u64>>() as u64 + LINES_OF_SLOT * LINE_OF_LEVEL1);
                    // Each bit of the frame that chooses the set has a word for each page.
                    let bins = (cache.sets() * cache.line.bytes()).div_ceil(machine.memory().page.bytes());
                    let page = sum.page + u64::from(bins.ilog2()) * size_of::<u64>() as u64;
                    let fixed = slots + LaneBits::mark_bytes();
                    self.bundle.add(Sum { fixed, page, ..Sum::default() });
                    if machine.translation().is_some() {
                        self.add_at_eviction(safe, false, sum);
                    }
                } else if cell == cells.machines[0] && sharing == FrontSharing::Shared {
                    // The front exists once for all lanes, until a frame changes hands.
                    self.shared.add(sum);
                    // A unit may end the sharing at once.
                    let of_units = options.units.as_ref().map(|_| 0);
                    self.add_at_eviction(
                        safe.or(of_units),
                        machine.reuses_frames() || of_units.is_some(),
                        sum,
                    );
                } else if cell == cells.machines[0] {
                    self.add_caches(machine, (cells, safe), sum);
                }
                self.note(format!("cache.{}.size", cache.name), cache.size.0, SettingBytes::fixed(sum.fixed));
            }
        }
    }

    /// Adds what lanes take whose level 1 continues in bits where they no longer share a front.
    fn add_front_bits(&mut self, machines: &[Machine], cells: &LaneCells, safe: Option<u64>) {
        let reuses = cells.machines.iter().any(|&cell| machines[cell].reuses_frames());
        self.add_at_eviction(safe, reuses, Sum { fixed: WAITING_REQUESTS, ..Sum::default() });
        let tree = machines[cells.machines[0]].tree();
        let caches = tree.config().caches.iter().enumerate();
        let slots = caches.filter(|&(number, _)| tree.in_front(number)).map(|(_, cache)| {
            // Lanes hold lines of their own, but seldom more than twice as many as the set has ways, and lists double.
            cache.sets() * (LRU_SLOT + 4 * u64::from(cache.ways) * LINE_OF_LRU_SLOT) + LaneBits::mark_bytes()
        });
        let waiting = LaneBits::waiting_bytes(PIECE) as u64 + LaneBits::request_bytes();
        let sum = Sum { fixed: slots.sum::<u64>() + waiting, ..Sum::default() };
        let safe = safe.map(|safe| if reuses { 0 } else { safe });
        self.in_bundles.extend(safe.map(|safe| WhenFull { safe, sum, most: u64::MAX }));
    }

    /// Adds caches that each lane has for itself, or that the first of equal lanes has until a page may be evicted.
    fn add_caches(&mut self, machine: &Machine, (cells, safe): (&LaneCells, Option<u64>), sum: Sum) {
        if !cells.are_equal {
            return self.seed.add(sum);
        }
        self.equal.add(sum);
        self.add_at_eviction(safe, machine.reuses_frames(), sum);
    }

    /// Adds what a seed takes once its lanes stop sharing: where more pages are placed than are safe from eviction, or
    /// from the start.
    fn add_at_eviction(&mut self, safe: Option<u64>, from_the_start: bool, sum: Sum) {
        let safe = safe.map(|safe| if from_the_start { 0 } else { safe });
        self.when_full.extend(safe.map(|safe| WhenFull { safe, sum, most: u64::MAX }));
    }

    /// Adds the cache behind level 1 of a machine, where lanes are bits.
    fn add_bits(&mut self, cache: &CacheConfig, machine: &Machine, shared_front: bool) {
        let lines = machine.memory().page.bytes() >> cache.line.log2();
        self.lines_in_bundle += lines;
        let SetsBytes { fixed, page, crowding, most } = LaneBits::shared_bytes(cache, machine.memory().page);
        let fixed = fixed + LaneBits::mark_bytes();
        self.bundle.add(Sum { fixed, page: page + lines.div_ceil(8), ..Sum::default() });
        let sum = Sum { page_alone: crowding, ..Sum::default() };
        self.in_bundles.push(WhenFull { safe: 0, sum, most });
        let SetsBytes { fixed, page, crowding, most } =
            LaneBits::lane_bytes(cache, machine.memory().page, shared_front);
        self.seed.add(Sum { fixed, page, ..Sum::default() });
        let sum = Sum { page_alone: crowding, ..Sum::default() };
        self.when_full.push(WhenFull { safe: 0, sum, most });
        self.note(
            format!("cache.{}.size", cache.name),
            cache.size.0,
            SettingBytes { fixed, page: crowding, most },
        );
    }

    fn note(&mut self, key: String, size: u64, bytes: SettingBytes) {
        if self.largest.as_ref().is_none_or(|largest| bytes.of(u64::MAX) > largest.bytes.of(u64::MAX)) {
            self.largest = Some(LargestSetting { key, size, bytes });
        }
    }

    fn add_tables(&mut self, machine: &Machine, options: &RunOptions) {
        let caches = machine.tree().config().caches.len() as u64;
        let of_cache = CacheCounters::LIST.len() as u64 * 4;
        let phases = if options.warmup > 0 { 2 } else { 1 };
        let rows = phases * (caches * of_cache + 16);
        let each = |rows: u64| rows * TABLE_ROW;
        self.tables.add(Sum {
            fixed: each(rows),
            page: if options.log { TABLE_ROW } else { 0 },
            ..Sum::default()
        });
        // Meters leave logs for each seed, which are read one seed at a time.
        self.tables.add(of_logs(options));
        let process = (OF_STREAM as u64 + caches) * 8 + (2 + 2 * caches) * 8 + 16;
        self.shared.process = self.shared.process.max(process);
    }

    /// Returns the bytes that a run takes with `seeds` seeds at once, of `all` seeds.
    pub(crate) fn bytes(&self, seeds: usize, all: usize, growth: Growth) -> u64 {
        if let Some(few) = self.without_bits.as_ref().filter(|_| seeds < FEWEST_SEEDS_IN_BITS) {
            return few.bytes(seeds, all, growth);
        }
        let all_pages = self.with_own_pages(growth);
        let tables = self.tables.of(growth).saturating_mul(all as u64);
        let shared = self.page_tables.iter().map(|part| part.of(growth.pages, growth));
        let shared = shared.fold(self.shared.of(all_pages).saturating_add(tables), u64::saturating_add);
        let bundles = bundles(seeds, self.workers.max(1)) as u64;
        let groups = seeds.div_ceil(equal_lanes_together(seeds, self.workers)) as u64;
        let page = self.lines_in_bundle.saturating_mul(self.line_bytes(seeds));
        let bundle = self.in_bundles.iter().map(|part| part.of(growth.pages, all_pages));
        let bundle = bundle.fold(self.bundle.of(all_pages), u64::saturating_add);
        shared
            .saturating_add(bundle.saturating_mul(bundles))
            .saturating_add(self.equal.of(all_pages).saturating_mul(groups))
            .saturating_add(Sum { page, ..Sum::default() }.of(all_pages))
            .saturating_add(self.of_a_seed(growth).saturating_mul(seeds as u64))
    }

    /// Returns the bytes that a line of a page takes in all bundles of one placement, at most. The lanes of any number
    /// of other placements may stand in the same bundles.
    fn line_bytes(&self, seeds: usize) -> u64 {
        let workers = self.workers.max(1);
        let of = |lanes: usize| {
            bundles(lanes, workers) as u64 * LaneBits::line_bytes(lanes_of_bundle(lanes, workers).min(lanes))
        };
        let together = 1..=self.placements_in_bundles.max(1);
        together.map(|placements| of(seeds * placements).div_ceil(placements as u64)).max().unwrap_or(0)
    }

    fn of_a_seed(&self, growth: Growth) -> u64 {
        let all_pages = self.with_own_pages(growth);
        let full = self.when_full.iter().map(|part| part.of(growth.pages, all_pages));
        full.fold(self.seed.of(all_pages), u64::saturating_add)
    }

    /// Counts the pages that are no pages of the trace, too.
    fn with_own_pages(&self, growth: Growth) -> Growth {
        Growth { pages: growth.pages.saturating_add(self.own_pages), ..growth }
    }
}
