//! Preparation makes rows of events. It depends on no lane and is done once for any number of placements.
//!
//! Counting rules
//! - A reference is one instruction fetched, or one load, store or modify.
//! - A fetch run of n instructions over m lines makes max(n, m) accesses. Each line is accessed once, in
//!   order; the accesses beyond m hit. All m lines are accessed at the cycle of the run's first instruction,
//!   each after the processor has waited for the line before. Then the n instructions take their cycles. The
//!   trace does not say where in the run an instruction begins; without a write buffer the sum of cycles does
//!   not depend on it.
//! - A load or store makes one access for each line it touches, in order of address. A modify makes the
//!   accesses of a load, then the accesses of a store. Each page of a straddling reference is translated for
//!   itself.
//! - A row across the end of the warm-up, of an interval or of the length belongs to what follows: the
//!   measured part, the next interval, or nothing. (The length is cut before preparation: see
//!   `binhop_trace::transform::head`.)
//! - A row is taken as it stands: a size of 0 is one byte, and a data reference's count is not read. `binhop lint`
//!   finds such rows. A reference beyond [`binhop_trace::bounds`] is refused, and so is a fetch of no instruction.
//! - Cachegrind's rules count otherwise: see `cachegrind.rs`.
//! - Before a reference to a page that some lane may not hold, every lane is asked to place the page.

mod aliases;
mod block;
mod cachegrind;
mod cuts;
mod devices;
mod equal_caches;
mod filter;
mod global;
mod growth;
mod huge_pages;
mod known_pages;
mod last_level;
mod lives;
mod needs;
mod occasions;
mod pages;
mod piece;
mod plain;
mod protection;
mod references;
mod residency;
mod routes;
mod setup;
mod softvm;
mod system;
mod trace_segments;
mod translation;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use binhop_base::{Asid, Kind, PowerOfTwo, Result, VirtAddr};
use binhop_os::{SegmentId, Spaces};
use binhop_trace::bounds::{Exceeded, chunk_rows, chunks};
use binhop_trace::{EventBatch, Op};

use crate::events::Switch;
use crate::io_path::HALF;
use crate::occasion::OccasionKind;
use crate::soft_tlb::SoftTlb;
use aliases::Aliases;
pub use block::{Block, Control, EndedFront, Entries, FrontCounts, Mapped, Mark, Row, StreamCounts};
pub use cuts::Cuts;
use devices::SharedMaps;
use filter::Filters;
use global::GlobalSpace;
pub(crate) use growth::Growth;
use lives::Lives;
pub use lives::{Process, Turn};
pub(crate) use needs::{Needs, SegmentNeeds};
use occasions::Occasions;
use pages::TRANSLATIONS;
pub(crate) use pages::own_page;
use protection::Protection;
pub(crate) use protection::in_words;
use residency::ResidencyHorizon;
pub(crate) use setup::Setup;
use softvm::MissTables;
use trace_segments::TraceSegment;
pub(crate) use trace_segments::{CODE_WINDOW, INTERVAL_LENGTHS, INTERVALS_OF_A_SEGMENT};
use translation::Translator;

/// `Seen` counts the events that are no references, and the events that were not simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The switches of the running thread.
    pub switches: u64,
    /// The system calls and their further ranges. They are skipped: the kernel's own copying is not in the
    /// trace.
    pub syscalls: u64,
    /// The pages that were first referenced outside every map.
    pub outside: u64,
    /// The pages outside every map that a device referenced first, in an address space that had mapped nothing.
    pub outside_of_devices: u64,
    /// The forks that give a child the number of an address space that is alive.
    pub forks_onto_living: u64,
    /// The number in the first of these forks.
    pub first_living: Asid,
    /// The switches to an address space that had ended, and that no fork had made anew.
    pub switches_to_ended: u64,
    /// The number in the first of these switches.
    pub first_ended: Asid,
    /// The data references that touch two lines, and among them those that touch two pages.
    pub straddling: [u64; 2],
}

const FETCH: usize = 0;

/// The rows of a block: so many that a lane's tables, fetched anew for each block, are used many times.
pub(crate) const BLOCK_ROWS: usize = 1 << 17;
/// The controls of a block.
pub(crate) const BLOCK_CONTROLS: usize = 1 << 12;
/// The number of listed segments at which a block ends. The size of a block is thus bounded, however many
/// segments the spaces have.
const BLOCK_SEGMENTS: usize = 1 << 20;

/// `Prepare` is the preparing stage.
pub struct Prepare {
    place: String,
    /// The rows of the batches before the current batch.
    rows_before: u64,
    page: PowerOfTwo,
    spaces: Spaces,
    filters: Filters,
    /// The filter that serves data references: 0 where one cache serves all references.
    data: usize,
    line_log2: [u32; 2],
    timed: bool,
    /// Under cachegrind's rules, the bytes of the longest reference.
    longest_reference: Option<u64>,
    trusted: [bool; 2],
    /// The occasions for which a unit asks, if there is a unit.
    occasions: Option<Occasions>,
    /// TLBs and page tables, if addresses are translated.
    translator: Option<Box<Translator>>,
    /// The page table, if software translates when the last level misses.
    miss_tables: Option<Box<MissTables>>,
    /// The accesses that pages allow, if lines keep the protection of their pages.
    protection: Option<Box<Protection>>,
    /// The names of pages, if synonyms are looked for.
    aliases: Option<Box<Aliases>>,
    /// The global addresses of pages, if caches or page tables need them.
    global: Option<Box<GlobalSpace>>,
    /// The lines of data that were accessed before this time may have left level 1 for a handler's lines.
    disturbed: u64,
    soft_tlb: SoftTlb<TRANSLATIONS>,
    horizon: ResidencyHorizon,
    safe: Option<u64>,
    /// The segments of the address space for which a placement was last asked, if any placement reads
    /// segments.
    segments: Option<Arc<[SegmentId]>>,
    /// The segments listed in the current block.
    listed: usize,
    reuses: bool,
    /// True if a placement may ask when pages were referenced last.
    follows: bool,
    /// The residency horizon knows of every access up to this time.
    noted: u64,
    died: bool,
    placed: u64,
    evicting: bool,
    clock: u64,
    stream: StreamCounts,
    /// The rows passed to level 1: fetch, load, store. An access that was not passed is known to hit.
    passed: [u64; 3],
    cuts: Cuts,
    /// The instructions at which the next interval of the series begins.
    next_of_series: u64,
    /// The instructions before which no interval ends, no piece of a segment ends, and the stream does not end.
    next_interval: u64,
    /// The running segment, if lanes divide what lives run into segments.
    trace_segment: Option<TraceSegment>,
    next_cut: u64,
    measuring: bool,
    instructions_at_row: u64,
    running: Process,
    /// The number of kernel-enter events that no kernel-leave has answered.
    kernel_entries: u64,
    /// The last switch.
    switch: Switch,
    lives: Lives,
    /// The life that runs.
    life: u32,
    processes: Vec<Process>,
    numbers: BTreeMap<Process, u32>,
    seen: Seen,
    rows: Vec<Row>,
    gaps: Vec<u64>,
    controls: Vec<(u32, Control)>,
    /// The rows of the block that follow walks.
    after_walks: usize,
    mappings: Vec<Mapped>,
    known_mappings: usize,
    /// The pages of the machine and of its unit: those of page tables and of handlers. They are no pages of the trace.
    own_pages: u32,
    finished: bool,
    /// Where segments are mapped, if devices act.
    shared_maps: Option<SharedMaps>,
    /// The bytes of a page of the trace.
    trace_page: u64,
    /// The requests of devices so far.
    device_requests: u64,
}

/// `Flow` says whether the stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// There is room for more events.
    On,
    /// The stream has reached the instructions asked for.
    Done,
}

/// `EmitBlock` is the function that takes finished blocks.
pub(crate) type EmitBlock<'a> = &'a mut dyn FnMut(Arc<Block>) -> Result<()>;

impl Prepare {
    pub(crate) fn new(setup: &Setup, place: &str) -> Result<Self> {
        let Setup { needs, cuts, .. } = setup;
        let horizon = ResidencyHorizon::new(setup.safe);
        let first = Process { asid: Asid(0), kernel: false };
        let mut spaces = match setup.safe {
            None => Spaces::identity(needs.page),
            Some(_) => Spaces::new(needs.page, setup.trace_page),
        };
        if setup.shares_kernel_half {
            spaces.share_from(VirtAddr(HALF))?;
        }
        let devices =
            setup.subscription.as_ref().is_some_and(|all| all.touched(OccasionKind::Device).is_some());
        let translator = needs
            .translation
            .as_ref()
            .map(|config| {
                let first = setup.pages_of_unit();
                let in_rows = setup.collapse && setup.subscription.is_none() && needs.walks_may_be_rows();
                let data = usize::from(needs.split);
                let keeps_two = setup.keeps_two;
                Translator::new(config, first, (needs.shapes, data), in_rows, keeps_two).map(Box::new)
            })
            .transpose()?;
        let slots_sleep = translator.as_ref().is_some_and(|translator| translator.knows_pages());
        let mut prepare = Self {
            place: place.to_string(),
            rows_before: 0,
            page: needs.page,
            spaces,
            // The residency horizon and placements need times, and so do slots that sleep. Where physical = virtual
            // there is neither a horizon nor a placement.
            filters: Filters::new(
                needs.shapes,
                needs.split,
                setup.safe.is_some() && (needs.follows || !needs.tight)
                    || needs.softvm.is_some()
                    || slots_sleep,
            ),
            data: usize::from(needs.split),
            line_log2: needs.shapes.map(|shape| shape.line_log2),
            timed: needs.timed,
            longest_reference: needs.longest_reference,
            trusted: needs.trusted.map(|trusted| setup.collapse && trusted),
            occasions: setup.subscription.as_ref().map(|subscription| {
                Occasions::new(Arc::clone(subscription), &needs.shapes, needs.split, needs.page.log2())
            }),
            translator,
            miss_tables: needs
                .softvm
                .as_ref()
                .map(|config| {
                    let first = setup.pages_of_unit();
                    let stated = needs.segments.iter().flat_map(|segments| segments.stated.ids());
                    MissTables::new(config, first, needs.shapes, stated, setup.collapse).map(Box::new)
                })
                .transpose()?,
            protection: needs.protection.as_ref().map(|config| Box::new(Protection::new(config))),
            aliases: setup.looks_for_synonyms.then(|| Box::new(Aliases::new(setup.subscription.is_some()))),
            global: needs
                .segments
                .as_ref()
                .map(|segments| Box::new(GlobalSpace::new(needs.page.log2(), segments))),
            disturbed: 0,
            soft_tlb: SoftTlb::new(),
            horizon,
            safe: setup.safe,
            segments: setup.lists_segments.then(|| [].into()),
            listed: 0,
            reuses: needs.reuses,
            follows: needs.follows,
            noted: 0,
            died: false,
            placed: 0,
            evicting: false,
            clock: 0,
            stream: StreamCounts::default(),
            passed: [0; 3],
            cuts: *cuts,
            next_of_series: cuts.interval.unwrap_or(u64::MAX),
            next_interval: u64::MAX,
            trace_segment: cuts.segments.then(TraceSegment::new),
            next_cut: if cuts.warmup == 0 { u64::MAX } else { cuts.warmup },
            measuring: cuts.warmup == 0,
            instructions_at_row: 0,
            running: first,
            kernel_entries: 0,
            switch: Switch::default(),
            lives: Lives::default(),
            life: 0,
            processes: vec![first],
            numbers: BTreeMap::from([(first, 0)]),
            seen: Seen::default(),
            rows: Vec::with_capacity(BLOCK_ROWS + 16),
            gaps: Vec::new(),
            controls: Vec::new(),
            after_walks: 0,
            mappings: Vec::new(),
            known_mappings: 0,
            own_pages: setup.own_pages(),
            finished: false,
            shared_maps: devices.then(SharedMaps::default),
            trace_page: setup.trace_page.0,
            device_requests: 0,
        };
        if slots_sleep {
            prepare.filters.let_slots_sleep();
        }
        // Some forms of tables take pages before the first walk.
        prepare.stream.tables = prepare.page_tables().map_or(0, |tables| tables.most_used().into());
        prepare.set_next_interval();
        prepare.set_trust();
        prepare.make_own_pages(setup)?;
        if prepare.has_huge_pages() {
            prepare.unshare_tlbs();
        }
        Ok(prepare)
    }

    /// Returns whether the warm-up is over.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.measuring
    }

    /// Returns every process seen so far. A [`Mark::Process`] names a process by its place here.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns the counts of the stream's events that are no references.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Returns the counts of the stream so far.
    #[must_use]
    pub fn stream(&self) -> StreamCounts {
        let dropped = std::array::from_fn(|kind| self.stream.accesses[kind] - self.passed[kind]);
        StreamCounts { dropped, ..self.stream }
    }

    /// Returns whether a page has died.
    #[must_use]
    pub(crate) fn saw_death(&self) -> bool {
        self.died
    }

    /// Returns the address spaces as they are now.
    #[must_use]
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Returns the counts, so far, of what makes a run's memory grow.
    pub(crate) fn growth(&self) -> Growth {
        let pages = self.spaces.pages().max(self.spaces.mappings()) as u64 - u64::from(self.own_pages);
        let intervals = self.cuts.interval.map_or(0, |each| self.stream.instructions / each);
        Growth { pages, processes: self.processes.len() as u64, intervals }
    }

    /// Takes in a batch. Full blocks go to `emit`.
    pub(crate) fn feed(&mut self, batch: &EventBatch, emit: EmitBlock<'_>) -> Result<Flow> {
        match (self.longest_reference, self.occasions.is_some() || self.translator.is_some()) {
            _ if self.finished => Ok(Flow::Done),
            (None, false) => self.feed_by::<false, false>(batch, emit),
            (None, true) => self.feed_by::<false, true>(batch, emit),
            (Some(_), false) => self.feed_by::<true, false>(batch, emit),
            (Some(_), true) => unreachable!("units are for machines that count lines"),
        }
    }

    /// Takes in events. The compiler specialises the function for references that stay whole, as cachegrind's
    /// rules need them (`WHOLE`), and for units that ask for occasions or TLBs (`OCCASIONS`).
    fn feed_by<const WHOLE: bool, const OCCASIONS: bool>(
        &mut self,
        batch: &EventBatch,
        emit: EmitBlock<'_>,
    ) -> Result<Flow> {
        if !WHOLE && self.occasions.is_none() && self.lines_are_bounded() {
            for rows in chunk_rows(batch.len()) {
                if self.feed_plain::<OCCASIONS>(batch, rows, emit)? == Flow::Done {
                    return Ok(Flow::Done);
                }
            }
        } else {
            for (rows, exceeded) in chunks(batch) {
                if self.feed_rows::<WHOLE, OCCASIONS>(batch, rows, emit)? == Flow::Done {
                    return Ok(Flow::Done);
                }
                if let Some(exceeded) = exceeded {
                    return self.end_at(batch, exceeded, emit);
                }
            }
        }
        self.rows_before += batch.len() as u64;
        Ok(Flow::On)
    }

    /// Ends at a reference that exceeds a bound. This is no error if the stream ends before the reference.
    #[cold]
    fn end_at(&mut self, batch: &EventBatch, exceeded: Exceeded, emit: EmitBlock<'_>) -> Result<Flow> {
        if batch.op()[exceeded.row] == Op::Fetch as u8 && self.cuts.end_before_fetch(&self.stream) {
            return self.finish(emit).map(|()| Flow::Done);
        }
        Err(exceeded.problem(&self.place, self.rows_before))
    }

    fn feed_rows<const WHOLE: bool, const OCCASIONS: bool>(
        &mut self,
        batch: &EventBatch,
        rows: Range<usize>,
        emit: EmitBlock<'_>,
    ) -> Result<Flow> {
        for row in rows {
            let ends = self.feed_row::<WHOLE, OCCASIONS>(batch, row);
            if ends.map_err(|problem| self.at_row(problem, row))? {
                return self.finish(emit).map(|()| Flow::Done);
            }
            self.flush_if_full(emit)?;
        }
        Ok(Flow::On)
    }

    /// Takes in one row of any kind. Returns whether the stream ends before the row.
    #[inline(always)]
    fn feed_row<const WHOLE: bool, const OCCASIONS: bool>(
        &mut self,
        batch: &EventBatch,
        row: usize,
    ) -> Result<bool> {
        let (addr, size, count) = (batch.addr()[row], batch.size()[row], batch.count()[row]);
        match batch.op()[row] {
            0 if WHOLE && count == 1 => return self.instruction(addr, size),
            1 | 3 if WHOLE => self.cachegrind_reference(addr, size, Kind::Load)?,
            2 if WHOLE => self.cachegrind_reference(addr, size, Kind::Store)?,
            0 => return self.fetch::<OCCASIONS>(addr, size, u64::from(count)),
            1 => self.data_reference::<OCCASIONS>(addr, size, true, false)?,
            2 => self.data_reference::<OCCASIONS>(addr, size, false, true)?,
            3 => self.data_reference::<OCCASIONS>(addr, size, true, true)?,
            _ => self.system(batch, row)?,
        }
        Ok(false)
    }

    #[inline]
    fn flush_if_full(&mut self, emit: EmitBlock<'_>) -> Result<()> {
        // A shared front may make two controls of each access after a walk.
        if self.rows.len() >= BLOCK_ROWS
            || self.after_walks >= BLOCK_CONTROLS / 2
            || self.controls.len() >= BLOCK_CONTROLS
            || self.listed >= BLOCK_SEGMENTS
        {
            self.flush(emit)?;
        }
        Ok(())
    }

    /// Ends the stream: emits the last block, closed by [`Mark::End`].
    pub(crate) fn finish(&mut self, emit: EmitBlock<'_>) -> Result<()> {
        if !self.finished {
            self.finished = true;
            self.last_footprints(emit)?;
            self.mark(Mark::End);
            self.flush(emit)?;
        }
        Ok(())
    }

    fn flush(&mut self, emit: EmitBlock<'_>) -> Result<()> {
        self.flush_leaving(Vec::with_capacity(BLOCK_ROWS + 16), emit)
    }

    /// Emits a block, and leaves `room` for the rows of the next block.
    fn flush_leaving(&mut self, room: Vec<Row>, emit: EmitBlock<'_>) -> Result<()> {
        self.listed = 0;
        self.after_walks = 0;
        let rows = std::mem::replace(&mut self.rows, room);
        let gaps = if self.timed { Vec::with_capacity(rows.capacity()) } else { Vec::new() };
        // The next block will hold about as many controls.
        let controls = Vec::with_capacity(self.controls.len());
        emit(Arc::new(Block {
            entries: Entries::Rows(rows),
            controls: std::mem::replace(&mut self.controls, controls),
            mappings: std::mem::take(&mut self.mappings),
            gaps: std::mem::replace(&mut self.gaps, gaps),
            common_counts: Vec::new(),
        }))
    }

    fn control(&mut self, control: Control) {
        self.controls.push((self.rows.len() as u32, control));
    }
}
