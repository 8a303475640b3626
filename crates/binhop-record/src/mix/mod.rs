//! `Mix` puts traces that were made separately into one stream, as one processor would have run their programs side by
//! side.
//!
//! **Turns.** Each input runs for a quantum of instructions. Then another input runs (cause: involuntary); the
//! order decides which, see [`Order`](binhop_os::scheduler::Order). A turn ends before a fetch, and a fetch of
//! several instructions is not split. So a turn is longer than the quantum only if a single fetch is longer than the
//! quantum. Between kernel-enter and kernel-leave no other input gets a turn. If the next turn is the same input's, no
//! switch is written.
//! **A quantum in cycles** is measured in the caches of the lane that simulates the mix ([`Steered`]). The turn ends
//! before the first fetch whose instructions alone would exceed what is left of the quantum. So a turn exceeds its
//! quantum by the cycles that its last fetch and the data of this fetch wait. If nothing waits, the mix equals the mix
//! with the same quantum in instructions.
//! **Waiting.** A trace marks an idle processor by a switch from a process to itself, with a system call or a
//! page fault as its cause. There the input leaves the processor for a time of [`Latencies`], and is ready again
//! afterwards. The time is counted in instructions of all inputs, or in cycles if the quantum is in cycles. If every
//! input waits, time passes until the first input is ready. If this input also ran last, a switch to itself is written,
//! as in its own trace.
//! **Page faults.** [`Faults`] says which further references wait for their page; see `faults.rs`.
//! **An input of several processes** takes part as one input. Its own switches are kept with their causes, so
//! its processes stay in their order. Its quantum counts their instructions together. While one of its processes
//! waits, the others wait, too.
//! **The end of an input** ends its processes (exit), and the other inputs go on; see [`EndsWhen`]. The metadata
//! say when each input ended ([`MixedMeta`]).
//!
//! **Numbers.** Address spaces are numbered 0, 1, 2, … in order of their first event in the mix. Segments of
//! one file are one segment in all inputs, and files of one path are one file. Segments without a file stay
//! separate. Time events are left out, because different traces have different clocks. Metadata of the inputs
//! are the mix's metadata where all inputs agree.

mod faults;
mod input;
mod numbers;
mod settings;

use binhop_base::{Problem, Result, counted};
use binhop_os::scheduler::Scheduler;
use binhop_trace::event::Cause;
use binhop_trace::source::{LaneView, MixedMeta, Steered};
use binhop_trace::{EventBatch, Failure, Meta, Op, Source};

use crate::batch_builder::BatchBuilder;
use crate::turn::{instructions, rows_within};
use faults::FirstTouches;
use input::{InputReader, Next};
use numbers::Numbers;
pub use settings::{EndsWhen, Faults, Latencies, Mixing, Quantum};

/// `OpenTrace` opens a trace at its beginning.
pub type OpenTrace = Box<dyn FnMut() -> Result<Box<dyn Source>> + Send>;

/// `MixInput` is a trace to mix.
pub struct MixInput {
    /// The name under which errors report the trace.
    pub name: String,
    /// Opens the trace; called again if the trace is repeated.
    pub open: OpenTrace,
    /// The number of references to read; `None`: all.
    pub length: Option<u64>,
}

/// The number of inputs, from the first, that keep what they have decoded while others run: 11 bytes for each row of a
/// row group of a million rows. The further inputs decode a row group again in each turn.
const DECODED: usize = 32;

/// `Mix` is a source: a mix of traces.
pub struct Mix {
    name: String,
    meta: Meta,
    inputs: Vec<InputState>,
    mixing: Mixing,
    output: Output,
    /// The scheduler of the inputs; its time is counted in instructions of all inputs, or in cycles of the lane. A
    /// task is an input's place in the list.
    scheduler: Scheduler,
    /// The cycles of the lane that were added to the scheduler's time.
    cycles: u64,
    /// The instructions of the mix so far. The scheduler's time also holds the times when all inputs waited.
    instructions: u64,
    fresh: bool,
    started: bool,
    failed: Failure,
}

/// `Output` is what inputs write: rows of the mix, and what their numbers stand for.
struct Output {
    batches: BatchBuilder,
    numbers: Numbers,
    /// The pages of files that were referenced, if first touches block.
    touches: Option<FirstTouches>,
}

/// `InputState` is the state of an input in the mix.
struct InputState {
    input: MixInput,
    /// `None` before its first turn, and after its end.
    reader: Option<InputReader>,
    /// True if the input itself marked a page fault before its next reference.
    marked_fault: bool,
    /// True if the next reference has waited for a page that the lane had evicted.
    has_waited: bool,
}

impl Mix {
    /// Mixes traces. All traces are opened at once, because their metadata must agree.
    ///
    /// # Errors
    /// There is no input; the quantum is 0; an input cannot be opened; the inputs' page sizes differ.
    pub fn new(inputs: Vec<MixInput>, mixing: Mixing) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Problem::request("no trace", "mix", "there must be one", "name two traces or more"));
        }
        if mixing.quantum.length() == 0 {
            let (rule, remedy) = ("a turn has at least one instruction", "say --quantum 400k");
            return Err(Problem::request("0", "--quantum", rule, remedy));
        }
        let mut states = Vec::with_capacity(inputs.len());
        let mut metas = Vec::with_capacity(inputs.len());
        for mut input in inputs {
            let reader = InputReader::open(&mut input)?;
            metas.push((input.name.clone(), reader.meta().clone()));
            states.push(InputState { input, reader: Some(reader), marked_fault: false, has_waited: false });
        }
        let mut scheduler = Scheduler::new(mixing.order);
        (0..states.len() as u32).for_each(|input| scheduler.add(input));
        let mixed = metas.iter().map(|(name, _)| MixedMeta::new(name)).collect();
        let meta = Meta { schedule: Some(mixing.schedule()), mixed, ..common(&metas)? };
        let name = metas.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" + ");
        let touches = (mixing.faults != Faults::None).then(|| FirstTouches::new(meta.page_size));
        Ok(Self {
            name,
            meta,
            inputs: states,
            mixing,
            output: Output { batches: BatchBuilder::default(), numbers: Numbers::default(), touches },
            scheduler,
            cycles: 0,
            instructions: 0,
            fresh: true,
            started: false,
            failed: Failure::default(),
        })
    }

    fn reader(&mut self, at: usize) -> (&mut InputReader, &mut Output) {
        let reader = self.inputs[at].reader.as_mut().expect("an input that has its turn is open");
        (reader, &mut self.output)
    }

    /// Runs the input whose turn it is, up to its next row that does not go into the mix as it is.
    fn step(&mut self, at: usize, lane: Option<&mut dyn LaneView>) -> Result<()> {
        let (reader, output) = self.reader(at);
        match reader.step(output)? {
            Next::Rows(rows) => self.run_rows(at, &rows, lane),
            Next::Handled => Ok(()),
            Next::Idle { cause, number } => {
                self.inputs[at].marked_fault = cause == Cause::PageFault;
                self.scheduler.sleep(self.mixing.latencies.of(cause, number));
                self.next_turn(at, cause, number)
            }
            Next::End => self.end(at),
        }
    }

    /// Runs rows of the input whose turn it is, up to the end of its turn, to a page that has not been read, or to
    /// where the lane must be asked again.
    fn run_rows(&mut self, at: usize, rows: &EventBatch, mut lane: Option<&mut dyn LaneView>) -> Result<()> {
        let wait = self.page_wait(at, rows);
        let wait = wait.or_else(|| self.return_wait(at, rows, lane.as_deref_mut()?));
        if let Some(latency) = wait {
            self.scheduler.sleep(latency);
            return self.next_turn(at, Cause::PageFault, None);
        }
        let alone = self.scheduler.len() == 1;
        let (left, fresh) = (self.scheduler.left(), self.fresh);
        let in_cycles = self.cycles_of_quantum().is_some();
        let (mut end, mut over) = match lane.as_deref_mut().filter(|_| in_cycles) {
            _ if alone || self.reader(at).0.in_kernel() => (rows.len(), false),
            Some(lane) => rows_within_cycles(rows, left, fresh, lane),
            None => {
                let end = rows_within(rows, left, fresh).0;
                (end, end < rows.len())
            }
        };
        // The fetch that would exceed the turn is included: if this fetch faults, the input leaves the processor
        // because of the fault.
        if let Some(unread) = self.first_unread(at, &rows.slice(0, rows.len().min(end + 1))) {
            (end, over) = (unread, false);
        }
        // A row that places a page goes by itself, because it may evict a page that a later row references.
        if let Some(lane) = lane.filter(|_| end > 0 && self.asks_for_returns(at)) {
            let before = lane.rows_before_placement(&rows.slice(0, end)).0;
            if before < end {
                (end, over) = (before.max(1), false);
            }
        }
        self.take_rows(at, rows.slice(0, end));
        if over {
            self.scheduler.preempt();
            return self.next_turn(at, Cause::Involuntary, None);
        }
        Ok(())
    }

    /// Puts the next rows of an input into the mix.
    fn take_rows(&mut self, at: usize, rows: EventBatch) {
        let ran = instructions(&rows);
        let (reader, output) = self.reader(at);
        reader.ran(rows.len());
        if at >= DECODED {
            output.batches.copies(&rows);
        } else if !rows.is_empty() {
            output.batches.rows(rows);
        }
        if let Quantum::Instructions(_) = self.mixing.quantum {
            self.scheduler.ran(ran);
        }
        self.instructions += ran;
        self.fresh &= ran == 0;
    }

    /// Returns the first row whose pages have not all been read, if first touches block.
    fn first_unread(&mut self, at: usize, rows: &EventBatch) -> Option<usize> {
        let now = self.scheduler.now();
        let (asid, touches) = self.touches(at)?;
        touches.first_unread(asid, rows, now)
    }

    /// Returns how long the reference in the first row waits for its pages; `None` if it does not wait.
    fn page_wait(&mut self, at: usize, rows: &EventBatch) -> Option<u64> {
        let (now, latency) = (self.scheduler.now(), self.mixing.latencies.fault);
        let marked = self.inputs[at].marked_fault;
        let (asid, touches) = self.touches(at)?;
        let row = rows.op().iter().position(|&op| op <= Op::Modify as u8)?;
        let (addr, size) = (rows.addr()[row], rows.size()[row]);
        if marked {
            touches.note_read(asid, addr, size, now);
            self.inputs[at].marked_fault = false;
        } else if row == 0 {
            return touches.wait(asid, addr, size, now, latency);
        }
        None
    }

    /// Returns whether a reference of an input waits here for pages that the lane has evicted.
    fn asks_for_returns(&self, at: usize) -> bool {
        self.mixing.faults == Faults::All
            && self.inputs[at].reader.as_ref().is_some_and(|reader| !reader.in_kernel())
    }

    /// Returns how long the reference in the first row waits for pages that the lane has evicted; `None` if it does not
    /// wait.
    fn return_wait(&mut self, at: usize, rows: &EventBatch, lane: &mut dyn LaneView) -> Option<u64> {
        if !self.asks_for_returns(at) || *rows.op().first()? > Op::Modify as u8 {
            return None;
        }
        let has_waited = std::mem::take(&mut self.inputs[at].has_waited);
        let returns = !has_waited && lane.rows_before_placement(&rows.slice(0, 1)) == (0, true);
        self.inputs[at].has_waited = returns;
        returns.then_some(self.mixing.latencies.fault)
    }

    /// Returns the running address space of an input, and what is known of first touches, if they block here.
    fn touches(&mut self, at: usize) -> Option<(u64, &mut FirstTouches)> {
        let reader = self.inputs[at].reader.as_mut().filter(|reader| !reader.in_kernel())?;
        let Output { numbers, touches, .. } = &mut self.output;
        Some((reader.running(numbers).into(), touches.as_mut()?))
    }

    /// Ends an input and its processes.
    fn end(&mut self, at: usize) -> Result<()> {
        let (reader, output) = self.reader(at);
        reader.exit(output);
        let reader = self.inputs[at].reader.take().expect("an input that ends was open");
        reader.describe(&mut self.output.numbers);
        (self.inputs[at].marked_fault, self.inputs[at].has_waited) = (false, false);
        self.meta.mixed[at].end(self.instructions);
        let finished = match self.mixing.ends {
            EndsWhen::First => true,
            EndsWhen::All => false,
            EndsWhen::Repeat => self.meta.mixed.iter().all(|input| input.ended > 0),
        };
        if finished {
            self.finish();
            return Ok(());
        }
        if self.mixing.ends == EndsWhen::Repeat {
            let input = &mut self.inputs[at];
            input.reader = Some(InputReader::open(&mut input.input)?);
            self.meta.mixed[at].begun += 1;
            self.scheduler.preempt();
        } else {
            self.scheduler.exit();
        }
        self.next_turn(at, Cause::Exit, None)
    }

    /// Ends the mix. Processes that still live get no exit.
    fn finish(&mut self) {
        self.scheduler = Scheduler::new(self.mixing.order);
        for input in &mut self.inputs {
            if let Some(reader) = input.reader.take() {
                reader.describe(&mut self.output.numbers);
            }
        }
    }

    fn next_turn(&mut self, leaving: usize, cause: Cause, number: Option<u32>) -> Result<()> {
        let Some(next) = self.begin_turn() else { return Ok(()) };
        if next != leaving && leaving >= DECODED {
            self.inputs[leaving].reader.iter_mut().for_each(InputReader::rest);
        }
        if next != leaving || cause != Cause::Involuntary {
            let (reader, output) = self.reader(next);
            reader.resume(output, Some((cause, number)))?;
        }
        Ok(())
    }

    /// Begins the next turn and returns its input; `None` if every input has ended.
    fn begin_turn(&mut self) -> Option<usize> {
        self.fresh = true;
        self.scheduler.next_turn(self.mixing.quantum.length()).map(|input| input as usize)
    }

    /// Begins the first turn.
    fn start(&mut self) -> Result<()> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let first = self.begin_turn().expect("a mix has an input");
        let (reader, output) = self.reader(first);
        reader.resume(output, None)
    }
}

impl Mix {
    /// Returns the error of a reader that reads the mix without a lane.
    fn has_no_lane(&self) -> Box<Problem> {
        let remedy = "simulate the mix on a machine, or";
        match self.cycles_of_quantum() {
            Some(cycles) => Problem::request(
                &counted(cycles, ["cycle", "cycles"]),
                "quantum",
                "cycles are those of a machine's own caches, so the mix differs from placement to placement, and no \
                 file holds it",
                &format!("{remedy} give the quantum in instructions"),
            ),
            None => Problem::request(
                "all",
                "faults",
                "which pages return depends on what a placement has evicted, so the mix differs from placement to \
                 placement, and no file holds it",
                &format!("{remedy} say faults first"),
            ),
        }
    }

    /// Mixes until a batch is ready, or to the end.
    fn advance(&mut self) -> Result<Option<EventBatch>> {
        if self.needs_lane() {
            return Err(self.has_no_lane());
        }
        if !self.output.batches.is_ready() {
            self.start()?;
            while let Some(at) = self.scheduler.running().filter(|_| !self.output.batches.is_ready()) {
                self.step(at as usize, None)?;
            }
            if self.scheduler.running().is_none() {
                self.output.batches.flush();
            }
            self.output.numbers.write_to(&mut self.meta);
        }
        Ok(self.output.batches.next())
    }

    /// Mixes until the lane must be asked again, or to the end.
    fn advance_in(&mut self, lane: &mut dyn LaneView) -> Result<Option<EventBatch>> {
        if self.scheduler.running().is_some() && self.cycles_of_quantum().is_some() {
            let now = lane.cycles();
            self.scheduler.ran(now - self.cycles);
            self.cycles = now;
        }
        self.start()?;
        loop {
            if let Some(batch) = self.output.batches.next() {
                self.output.numbers.write_to(&mut self.meta);
                return Ok(Some(batch));
            }
            let Some(at) = self.scheduler.running() else { return Ok(None) };
            self.step(at as usize, Some(lane))?;
            self.output.batches.flush();
        }
    }
}

impl Steered for Mix {
    fn needs_lane(&self) -> bool {
        self.cycles_of_quantum().is_some() || self.mixing.faults == Faults::All
    }

    fn cycles_of_quantum(&self) -> Option<u64> {
        match self.mixing.quantum {
            Quantum::Instructions(_) => None,
            Quantum::Cycles(cycles) => Some(cycles),
        }
    }

    fn next_piece(&mut self, lane: &mut dyn LaneView) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, |source| source.advance_in(lane))
    }
}

/// Returns how many rows run until the lane must be asked again, and whether the turn ends there. `left` are the
/// cycles that are left of the quantum.
fn rows_within_cycles(rows: &EventBatch, left: u64, fresh: bool, lane: &mut dyn LaneView) -> (usize, bool) {
    let sure = lane.rows_within(rows, left);
    if sure > 0 {
        return (sure, false);
    }
    // The turn may end only before a fetch. So a fetch goes with its data.
    let is_fetch = |row: usize| rows.op()[row] == Op::Fetch as u8;
    if is_fetch(0) && !fresh && u64::from(rows.count()[0]) > left {
        return (0, true);
    }
    ((1..rows.len()).find(|&row| is_fetch(row)).unwrap_or(rows.len()), false)
}

impl Source for Mix {
    fn name(&self) -> &str {
        &self.name
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        Failure::stays(self, |source| &mut source.failed, Self::advance)
    }
}

/// Returns the metadata in which all inputs agree.
fn common(metas: &[(String, Meta)]) -> Result<Meta> {
    let mut pages = metas.iter().filter_map(|(name, meta)| meta.page_size.map(|page| (name, page)));
    let first = pages.next();
    if let (Some((one, page)), Some((other, differs))) =
        (first, first.and_then(|(_, page)| pages.find(|&(_, other)| other != page)))
    {
        return Err(Problem::request(
            &format!("pages of {differs} bytes"),
            other,
            &format!("traces of one mix were made with pages of one size, and {one} has {page} bytes"),
            "record them on machines of one page size",
        ));
    }
    let sizes = |word: &str| Some(word.to_owned());
    let all = |word: &str| metas.iter().all(|(_, meta)| meta.sizes.as_deref() == Some(word));
    let any = |word: &str| metas.iter().any(|(_, meta)| meta.sizes.as_deref() == Some(word));
    let commands = metas.iter().map(|(name, meta)| meta.command.as_deref().unwrap_or(name));
    Ok(Meta {
        page_size: first.map(|(_, page)| page),
        recorder: Some(format!("binhop {} mix", env!("CARGO_PKG_VERSION"))),
        command: Some(commands.collect::<Vec<_>>().join(" + ")),
        sizes: if any("assumed") { sizes("assumed") } else { sizes("exact").filter(|_| all("exact")) },
        system_calls: Meta::joint_call_system(metas.iter().map(|(_, meta)| meta)),
        describes_calls: metas.iter().all(|(_, meta)| meta.describes_calls),
        ..Meta::default()
    })
}
