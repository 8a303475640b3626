//! `TRIAL_TARGETS` holds the figures of MB90's Tables 1, 2 and 4. `measure_trial` measures the same figures for a
//! workload.
//!
//! Counting rules. A trial begins at the workload's first event. If n switches are asked for, the trial ends before
//! switch n + 1, or where the source ends. Each switch begins a segment; the rows before the first switch with a cause
//! belong to no segment, but their instructions count in all. A process has the size of its text, data and heap, and of
//! the stack that it has touched; what it has touched counts in pages of 4 KiB. A program has the size of its largest
//! process. The total is the sum over all processes that ran, with each program's text once.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use binhop_base::Result;
use binhop_trace::event::{Cause, map_flags};
use binhop_trace::{EventBatch, Meta, Op, Source};

use crate::address_space::{DATA, PAGE, STACK_START};

/// `TrialTarget` holds MB90's figures for one benchmark set (Tables 1, 2 and 4; §5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialTarget {
    /// The workload.
    pub workload: &'static str,
    /// Table 1: programs with their maximum sizes in megabytes. The names are those of our images.
    pub programs: &'static [(&'static str, f64)],
    /// Table 2: the size of all programs in megabytes.
    pub megabytes: f64,
    /// §5.1, footnote 5: the number of processes in a trial. The other sets have no figure.
    pub processes: Option<u64>,
    /// Table 4: instructions in the shortest and the longest trial of 5,000 switches, in millions.
    pub instructions: (f64, f64),
    /// Table 4: data references per instruction, from the sums over the trials.
    pub data: f64,
    /// The least and the largest share of involuntary switches (§5.1: "most"; §5.2: all but 1%; §5.3: fewer
    /// than 0.1%).
    pub involuntary: (f64, f64),
}

/// The number of switches in each of MB90's trials (§3).
pub const SWITCHES: u64 = 5_000;

/// MB90's figures, in the order of its Table 2.
pub const TRIAL_TARGETS: &[TrialTarget] = &[
    TrialTarget {
        workload: "timesharing",
        programs: &[("magic", 10.0), ("scheme", 12.0)],
        megabytes: 75.0,
        processes: Some(85),
        instructions: (538.0, 732.0),
        data: 0.268,
        involuntary: (0.5, 1.0),
    },
    TrialTarget {
        workload: "compute-bound",
        programs: &[("tree", 65.0), ("tv", 3.4)],
        megabytes: 69.0,
        processes: None,
        instructions: (1_201.0, 1_313.0),
        data: 0.271,
        involuntary: (0.99, 1.0),
    },
    TrialTarget {
        workload: "client-server",
        programs: &[],
        megabytes: 0.6,
        processes: None,
        instructions: (33.0, 33.0),
        data: 0.303,
        involuntary: (0.0, 0.001),
    },
];

/// `ProgramSize` says how large the processes of one program became.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramSize {
    /// The processes that ran the program.
    pub processes: u64,
    /// The largest address space of a process, in bytes.
    pub bytes: u64,
    /// The most bytes that a process touched, in whole pages.
    pub touched: u64,
}

/// `Trial` holds what a workload did until its last switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Instructions executed.
    pub instructions: u64,
    /// Loads and stores.
    pub data: u64,
    /// The processes that ran.
    pub processes: u64,
    /// The size of all processes that ran, in bytes.
    pub bytes: u64,
    /// The bytes that all processes touched, in whole pages.
    pub touched: u64,
    /// The programs, by name.
    pub programs: BTreeMap<String, ProgramSize>,
    /// The switches by cause, and by the number of the system call.
    pub switches: BTreeMap<(u64, Option<u64>), u64>,
    /// The switches after which the same process continued.
    pub to_itself: u64,
    /// The instructions of each segment, in order of size.
    pub segments: Vec<u64>,
}

impl Trial {
    /// Returns the number of switches.
    #[must_use]
    pub fn all_switches(&self) -> u64 {
        self.switches.values().sum()
    }

    /// Returns the share of the switches that have this cause.
    #[must_use]
    pub fn share(&self, cause: Cause) -> f64 {
        let of = |(&(code, _), &count): (&(u64, Option<u64>), &u64)| (code == cause as u64).then_some(count);
        self.switches.iter().filter_map(of).sum::<u64>() as f64 / self.all_switches().max(1) as f64
    }

    /// Returns the mean instructions of a segment.
    #[must_use]
    pub fn mean_segment(&self) -> f64 {
        self.segments.iter().sum::<u64>() as f64 / self.segments.len().max(1) as f64
    }

    /// Returns the instructions of the segment in the middle, if there is a segment.
    #[must_use]
    pub fn median_segment(&self) -> Option<u64> {
        self.segments.get(self.segments.len() / 2).copied()
    }
}

/// `SpaceSize` holds the mappings of one address space.
#[derive(Clone, Copy, Debug, Default)]
struct SpaceSize {
    /// The number of the text segment.
    text: u64,
    text_bytes: u64,
    /// Bytes of data and heap.
    data_bytes: u64,
}

/// `TouchedBySpace` holds the bytes that one address space touched, in whole pages.
#[derive(Clone, Copy, Debug, Default)]
struct TouchedBySpace {
    text: u64,
    /// Data, heap and stack.
    private: u64,
    stack: u64,
}

/// `TouchedPages` collects the pages that each address space touches.
#[derive(Default)]
struct TouchedPages {
    space: u64,
    seen: HashSet<(u64, u64)>,
    /// Pages of the present space that `seen` holds, by the low bits of their numbers.
    last: [u64; 16],
}

impl TouchedPages {
    fn switch(&mut self, space: u64) {
        self.space = space;
        self.last = [0; 16];
    }

    /// Forgets what the present space touched, because the space executes a new image.
    fn forget(&mut self) {
        let space = self.space;
        self.seen.retain(|(of, _)| *of != space);
        self.switch(space);
    }

    #[inline]
    fn touch(&mut self, first: u64, last: u64) {
        for page in first / PAGE..=last / PAGE {
            let slot = (page % 16) as usize;
            if self.last[slot] != page {
                self.last[slot] = page;
                self.seen.insert((self.space, page));
            }
        }
    }
}

/// `TrialCounter` counts while the events pass.
#[derive(Default)]
struct TrialCounter {
    trial: Trial,
    pages: TouchedPages,
    spaces: BTreeMap<u64, SpaceSize>,
    current: u64,
    /// The instructions of the segment under way; `None` before the first switch with a cause.
    segment: Option<u64>,
}

impl TrialCounter {
    /// Counts a row. Returns false if the row is the switch that ends the trial.
    fn row(&mut self, batch: &EventBatch, row: usize, switches: u64) -> bool {
        let (addr, size, count) = (batch.addr()[row], batch.size()[row], batch.count()[row]);
        match Op::from_code(batch.op()[row]) {
            Some(Op::Fetch) => {
                self.trial.instructions += u64::from(count);
                if let Some(segment) = &mut self.segment {
                    *segment += u64::from(count);
                }
                self.pages.touch(addr, addr + u64::from(size) - 1);
            }
            Some(Op::Load | Op::Store | Op::Modify) => {
                self.trial.data += 1;
                self.pages.touch(addr, addr);
            }
            Some(Op::Switch) => {
                if let Some(cause) = batch.arg0(row) {
                    self.trial.segments.extend(self.segment.take());
                    if self.trial.all_switches() == switches {
                        return false;
                    }
                    *self.trial.switches.entry((cause, batch.arg1(row))).or_default() += 1;
                    self.trial.to_itself += u64::from(addr == self.current);
                    self.segment = Some(0);
                }
                self.current = addr;
                self.spaces.entry(addr).or_default();
                self.pages.switch(addr);
            }
            Some(Op::Exec) => {
                self.spaces.insert(self.current, SpaceSize::default());
                self.pages.forget();
            }
            Some(Op::Map) => self.map(u64::from(count), size, batch.arg0(row)),
            _ => {}
        }
        true
    }

    fn map(&mut self, pages: u64, flags: u32, segment: Option<u64>) {
        let space = self.spaces.entry(self.current).or_default();
        if flags & map_flags::EXEC != 0 {
            space.text = segment.unwrap_or_default();
            space.text_bytes = pages * PAGE;
        } else if flags & map_flags::GROWS == 0 {
            space.data_bytes += pages * PAGE;
        }
    }

    /// Adds up the sizes of programs and processes.
    fn finish(mut self, meta: &Meta) -> Trial {
        self.trial.segments.sort_unstable();
        let mut own: BTreeMap<u64, TouchedBySpace> = BTreeMap::new();
        let mut text_pages = BTreeSet::new();
        for &(asid, page) in &self.pages.seen {
            let bytes = own.entry(asid).or_default();
            if page < DATA / PAGE {
                bytes.text += PAGE;
                text_pages.insert((self.spaces[&asid].text, page));
            } else {
                bytes.private += PAGE;
                bytes.stack += if page < STACK_START / PAGE { 0 } else { PAGE };
            }
        }
        let mut texts = BTreeSet::new();
        for (asid, space) in &self.spaces {
            if space.text_bytes == 0 {
                continue;
            }
            let touched = own.get(asid).copied().unwrap_or_default();
            let bytes = space.data_bytes + touched.stack;
            let file = meta.segments.get(&space.text).and_then(|segment| segment.file.clone());
            let program = self.trial.programs.entry(file.unwrap_or_default()).or_default();
            program.processes += 1;
            program.bytes = program.bytes.max(space.text_bytes + bytes);
            program.touched = program.touched.max(touched.text + touched.private);
            self.trial.touched += touched.private;
            self.trial.processes += 1;
            self.trial.bytes += bytes;
            if texts.insert(space.text) {
                self.trial.bytes += space.text_bytes;
            }
        }
        self.trial.touched += PAGE * text_pages.len() as u64;
        self.trial
    }
}

/// Measures a source up to its `switches`-th switch and the segment that this switch begins. If the source ends
/// before, its last segment is left out. `tell` learns how many references were read, once for each batch.
///
/// # Errors
/// The source fails, or `tell` does.
pub fn measure_trial(
    source: &mut dyn Source,
    switches: u64,
    tell: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Trial> {
    let mut counter = TrialCounter::default();
    'batches: while let Some(batch) = source.next_batch()? {
        tell(counter.trial.instructions + counter.trial.data)?;
        for row in 0..batch.len() {
            if !counter.row(&batch, row, switches) {
                break 'batches;
            }
        }
    }
    Ok(counter.finish(source.meta()))
}
