//! A mix puts traces that were made separately into one stream, as one processor would have run their
//! programs side by side.
//!
//! **Turns.** Each input runs for a quantum of instructions. Then the input whose last turn is longest ago
//! runs (cause: involuntary). A turn ends before a fetch, and a fetch of several instructions is not split.
//! So a turn is longer than the quantum only if a single fetch is. Between kernel-enter and kernel-leave no
//! other input gets a turn. If no other input is ready, the next turn is the same input's, and no switch is
//! written.
//! **Waiting.** A trace marks an idle processor by a switch from a process to itself, with a system call or a
//! page fault as its cause. There the input leaves the processor for [`Latencies`], counted in instructions
//! of all inputs, and is ready again afterwards. If every input waits, time passes until the first input is
//! ready. If this input also ran last, a switch to itself is written, as in its own trace.
//! **An input of several processes** takes part as one input. Its own switches are kept with their causes, so
//! its processes stay in their order. Its quantum counts their instructions together.
//! **The end of an input** ends its processes (exit), and the other inputs go on; see [`EndsWhen`].
//!
//! **Numbers.** Address spaces are numbered 0, 1, 2, … in order of their first event in the mix. Segments of
//! one file are one segment in all inputs, and files of one path are one file. Segments without a file stay
//! separate. Time events are left out, because different traces have different clocks. Metadata of the inputs
//! are the mix's metadata where all inputs agree.

mod input;
mod numbers;

use binhop_base::{Problem, Result};
use binhop_os::scheduler::{Order, Scheduler};
use binhop_trace::event::Cause;
use binhop_trace::{EventBatch, Failure, Meta, Source};

use crate::batch_builder::BatchBuilder;
use crate::piece::WaitsFor;
use crate::schedule::{Ready, Schedule, calls};
use crate::turn::rows_within;
use input::{InputReader, Next};
use numbers::Numbers;

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

/// `EndsWhen` says when the mix ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsWhen {
    /// The mix ends when the last input has ended. An input that ends before leaves the processor to the
    /// others.
    All,
    /// The mix ends when the first input has ended.
    First,
    /// The mix ends when every input has ended once. An input that ends before begins again, as new
    /// processes.
    Repeat,
}

/// `Latencies` says for how many instructions a waiting process leaves the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The wait for another process or a person: pipes, sockets, terminals, locks, children
    /// ([`WaitsFor::Given`], [`WaitsFor::Child`]). Unknown calls wait as long.
    pub given: u64,
    /// The wait for a device, or for time to pass ([`WaitsFor::Room`]).
    pub room: u64,
    /// The wait for a page.
    pub fault: u64,
}

impl Default for Latencies {
    /// The default is 100 µs for another process and 1 ms for a device or a page, at 1000 instructions a
    /// microsecond (our choice).
    fn default() -> Self {
        Self { given: 100_000, room: 1_000_000, fault: 1_000_000 }
    }
}

impl Latencies {
    /// Returns latencies that are all the same.
    #[must_use]
    pub const fn all(instructions: u64) -> Self {
        Self { given: instructions, room: instructions, fault: instructions }
    }

    fn of(self, cause: Cause, number: Option<u32>) -> u64 {
        let kind = number.map(calls::kind);
        match (cause, kind) {
            (Cause::PageFault, _) => self.fault,
            (_, Some(WaitsFor::Room)) => self.room,
            _ => self.given,
        }
    }
}

/// `Mix` is a source: a mix of traces.
pub struct Mix {
    name: String,
    meta: Meta,
    inputs: Vec<InputState>,
    schedule: Box<dyn Schedule>,
    latencies: Latencies,
    ends: EndsWhen,
    batches: BatchBuilder,
    numbers: Numbers,
    /// The scheduler of the inputs; its time is counted in instructions of all inputs. A task is an input's
    /// place in the list.
    scheduler: Scheduler,
    fresh: bool,
    started: bool,
    failed: Failure,
}

/// `InputState` is the state of an input in the mix.
struct InputState {
    input: MixInput,
    /// `None` before its first turn, and after its end.
    reader: Option<InputReader>,
    /// The number of times that the input has ended.
    ended: u32,
}

impl Mix {
    /// Mixes traces. All traces are opened at once, because their metadata must agree.
    ///
    /// # Errors
    /// There is no input; an input cannot be opened; the inputs' page sizes differ.
    pub fn new(
        inputs: Vec<MixInput>,
        schedule: Box<dyn Schedule>,
        latencies: Latencies,
        ends: EndsWhen,
    ) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Problem::request("no trace", "mix", "there must be one", "name two traces or more"));
        }
        let mut states = Vec::with_capacity(inputs.len());
        let mut metas = Vec::with_capacity(inputs.len());
        for mut input in inputs {
            let reader = InputReader::open(&mut input)?;
            metas.push((input.name.clone(), reader.meta().clone()));
            states.push(InputState { input, reader: Some(reader), ended: 0 });
        }
        let mut scheduler = Scheduler::new(Order::LongestAgo);
        (0..states.len() as u32).for_each(|input| scheduler.add(input));
        let meta = Meta { schedule: Some(schedule.name().to_owned()), ..common(&metas)? };
        let name = metas.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" + ");
        Ok(Self {
            name,
            meta,
            inputs: states,
            schedule,
            latencies,
            ends,
            batches: BatchBuilder::default(),
            numbers: Numbers::default(),
            scheduler,
            fresh: true,
            started: false,
            failed: Failure::default(),
        })
    }

    fn input(&mut self, at: usize) -> (&mut InputReader, &mut BatchBuilder, &mut Numbers) {
        let reader = self.inputs[at].reader.as_mut().expect("an input that has its turn is open");
        (reader, &mut self.batches, &mut self.numbers)
    }

    /// Runs the input whose turn it is, up to its next row that does not go into the mix as it is.
    fn step(&mut self, at: usize) -> Result<()> {
        let alone = self.scheduler.len() == 1;
        let (left, fresh) = (self.scheduler.left(), self.fresh);
        let (reader, batches, numbers) = self.input(at);
        match reader.step(batches, numbers)? {
            Next::Rows(rows) => {
                let limit = if alone || reader.in_kernel() { u64::MAX } else { left };
                let (end, ran) = rows_within(&rows, limit, fresh);
                reader.ran(end);
                if end > 0 {
                    batches.rows(rows.slice(0, end));
                }
                self.scheduler.ran(ran);
                self.fresh &= ran == 0;
                if end < rows.len() {
                    self.scheduler.preempt();
                    return self.next_turn(at, Cause::Involuntary, None);
                }
                Ok(())
            }
            Next::Handled => Ok(()),
            Next::Idle { cause, number } => {
                self.scheduler.sleep(self.latencies.of(cause, number));
                self.next_turn(at, cause, number)
            }
            Next::End => self.end(at),
        }
    }

    /// Ends an input and its processes.
    fn end(&mut self, at: usize) -> Result<()> {
        let (reader, batches, _) = self.input(at);
        reader.exit(batches);
        let reader = self.inputs[at].reader.take().expect("an input that ends was open");
        reader.describe(&mut self.numbers);
        self.inputs[at].ended += 1;
        let finished = match self.ends {
            EndsWhen::First => true,
            EndsWhen::All => false,
            EndsWhen::Repeat => self.inputs.iter().all(|input| input.ended > 0),
        };
        if finished {
            self.finish();
            return Ok(());
        }
        if self.ends == EndsWhen::Repeat {
            let input = &mut self.inputs[at];
            input.reader = Some(InputReader::open(&mut input.input)?);
            self.scheduler.preempt();
        } else {
            self.scheduler.exit();
        }
        self.next_turn(at, Cause::Exit, None)
    }

    /// Ends the mix. Processes that still live get no exit.
    fn finish(&mut self) {
        self.scheduler = Scheduler::new(Order::LongestAgo);
        for input in &mut self.inputs {
            if let Some(reader) = input.reader.take() {
                reader.describe(&mut self.numbers);
            }
        }
    }

    fn next_turn(&mut self, leaving: usize, cause: Cause, number: Option<u32>) -> Result<()> {
        if !self.scheduler.wake_sleepers() {
            return Ok(());
        }
        let of = |(asid, last_turn)| Ready { asid, last_turn };
        let ready: Vec<Ready> = self.scheduler.ready().map(of).collect();
        let next = ready[self.schedule.choose(&ready)].asid as usize;
        if next != leaving || cause != Cause::Involuntary {
            let (reader, batches, numbers) = self.input(next);
            reader.resume(batches, numbers, Some((cause, number)))?;
        }
        self.begin_turn(next);
        Ok(())
    }

    fn begin_turn(&mut self, at: usize) {
        let quantum = self.schedule.turn(at as u32);
        self.scheduler.begin(at as u32, quantum);
        self.fresh = true;
    }

    fn run(&mut self) -> Result<()> {
        if !self.started {
            self.started = true;
            let (reader, batches, numbers) = self.input(0);
            reader.resume(batches, numbers, None)?;
            self.begin_turn(0);
        }
        while let Some(at) = self.scheduler.running().filter(|_| !self.batches.is_ready()) {
            self.step(at as usize)?;
        }
        Ok(())
    }
}

impl Mix {
    /// Mixes until a batch is ready, or to the end.
    fn advance(&mut self) -> Result<Option<EventBatch>> {
        if !self.batches.is_ready() {
            self.run()?;
            if self.scheduler.running().is_none() {
                self.batches.flush();
            }
            self.numbers.write_to(&mut self.meta);
        }
        Ok(self.batches.next())
    }
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
        ..Meta::default()
    })
}
