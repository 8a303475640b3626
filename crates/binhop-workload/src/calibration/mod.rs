//! `TARGETS` holds the documents' figures for the traces that the built-in workloads represent. `measure` measures a
//! stream's structure, to compare it with the figures.

mod trial;

use std::collections::HashSet;

use binhop_base::Result;
use binhop_trace::event::Cause;
use binhop_trace::{Op, Source};

pub use trial::{ProgramSize, SWITCHES, TRIAL_TARGETS, Trial, TrialTarget, measure_trial};

/// `Target` holds KH90's and LF91's figures for one workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The workload.
    pub workload: &'static str,
    /// The number of references, and the pages of 4 KiB that these references touch (LF91 Tables 1 to 6; Mult is
    /// mult1).
    pub pages: Option<(u64, u64)>,
    /// Mean instructions between switches (KH90 §4.1.1).
    pub switch_interval: Option<u64>,
    /// Level-2 misses per 1000 instructions under random placement (KH90 Appendix A), for 1 way and 4 ways,
    /// at 1, 4 and 16 MiB. Compare them at 3 G instructions.
    pub mpi1000: [[f64; 3]; 2],
}

/// Data references per instruction (MB90 Table 4, trial A: 149 M / 555 M).
pub const DATA_PER_INSTRUCTION: f64 = 0.27;

/// The workloads that represent TB10's applications. The document's figures for them stand beside its study
/// (`python/binhop/reproduce/tb10/expected.csv`), which measures them.
pub const OF_DEVICES: &[&str] = &["file-copy", "tpch", "specweb"];

/// The documents' figures, in the order of KH90's Table 2.
pub const TARGETS: &[Target] = &[
    target("mult1", Some((1_283_000_000, 12_480)), Some(138_000), [[1.82, 0.81, 0.38], [1.12, 0.53, 0.27]]),
    target("mult1.2", None, Some(195_000), [[1.75, 0.89, 0.48], [1.13, 0.54, 0.28]]),
    target("mult2", None, Some(134_000), [[1.57, 0.74, 0.34], [0.97, 0.52, 0.24]]),
    target("mult2.2", None, Some(214_000), [[1.50, 0.71, 0.33], [0.96, 0.51, 0.24]]),
    target("tv", Some((1_511_000_000, 5_771)), None, [[3.36, 2.12, 1.19], [2.31, 1.78, 0.99]]),
    target("sor", Some((1_531_000_000, 12_416)), None, [[14.98, 9.47, 4.22], [14.58, 8.35, 2.42]]),
    target("tree", Some((1_158_000_000, 4_518)), None, [[3.91, 1.21, 0.54], [1.86, 0.53, 0.26]]),
    target("lin", Some((1_232_000_000, 1_158)), None, [[1.15, 0.53, 0.15], [1.06, 0.16, 0.018]]),
];

const fn target(
    workload: &'static str,
    pages: Option<(u64, u64)>,
    switch_interval: Option<u64>,
    mpi1000: [[f64; 3]; 2],
) -> Target {
    Target { workload, pages, switch_interval, mpi1000 }
}

/// `Structure` counts what a stream consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// Instructions executed.
    pub instructions: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Pages of 4 KiB touched: (address space, page). A page of shared text counts once per segment.
    pub pages: u64,
    /// Switches, without the first dispatch.
    pub switches: u64,
    /// Switches by cause: system call, page fault, involuntary, exit.
    pub causes: [u64; 4],
    /// Address spaces seen.
    pub processes: u64,
}

impl Structure {
    /// Returns the number of references: instructions, loads and stores.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.instructions + self.loads + self.stores
    }
}

/// Measures a stream over its first `references` references, to the end of the row in which the last one
/// lies.
///
/// # Errors
/// The source fails.
pub fn measure(source: &mut dyn Source, references: u64) -> Result<Structure> {
    let mut structure = Structure::default();
    let mut pages = Pages::default();
    let mut done = 0;
    while done < references {
        let Some(batch) = source.next_batch()? else { break };
        let (ops, addrs, sizes, counts) = (batch.op(), batch.addr(), batch.size(), batch.count());
        for row in 0..batch.len() {
            if done >= references {
                break;
            }
            match Op::from_code(ops[row]) {
                Some(Op::Fetch) => {
                    structure.instructions += u64::from(counts[row]);
                    done += u64::from(counts[row]);
                    pages.touch(addrs[row], addrs[row] + u64::from(sizes[row]) - 1);
                }
                Some(Op::Load | Op::Modify) => {
                    structure.loads += 1;
                    done += 1;
                    pages.touch(addrs[row], addrs[row]);
                }
                Some(Op::Store) => {
                    structure.stores += 1;
                    done += 1;
                    pages.touch(addrs[row], addrs[row]);
                }
                Some(Op::Switch) => {
                    pages.space = addrs[row];
                    structure.processes = structure.processes.max(addrs[row]);
                    if let Some(cause) = batch.arg0(row) {
                        structure.switches += 1;
                        structure.causes[(cause as usize).min(Cause::Exit as usize)] += 1;
                    }
                }
                Some(Op::Map) => pages.map(addrs[row], counts[row], batch.arg0(row)),
                _ => {}
            }
        }
    }
    structure.processes = structure.processes.max(1);
    structure.pages = pages.seen.len() as u64;
    Ok(structure)
}

/// `Pages` collects the pages touched. Text pages are distinguished by segment, other pages by address space.
#[derive(Default)]
struct Pages {
    space: u64,
    /// (address space or 2⁴⁰ + segment, page).
    seen: HashSet<(u64, u64)>,
    /// Text mapping of each space: (first page, end, segment).
    text: std::collections::BTreeMap<u64, (u64, u64, u64)>,
    last: [u64; 4],
    last_space: u64,
}

impl Pages {
    fn map(&mut self, start: u64, pages: u32, segment: Option<u64>) {
        if let (crate::address_space::TEXT, Some(segment)) = (start, segment) {
            let first = start / 4096;
            self.text.insert(self.space, (first, first + u64::from(pages), segment));
            self.last = [u64::MAX; 4];
        }
    }

    #[inline]
    fn touch(&mut self, first: u64, last: u64) {
        let (first, last) = (first / 4096, last / 4096);
        let slot = (first & 3) as usize;
        if first == last && self.last[slot] == first && self.last_space == self.space {
            return;
        }
        if self.last_space != self.space {
            self.last = [u64::MAX; 4];
            self.last_space = self.space;
        }
        self.last[slot] = first;
        for page in first..=last {
            let owner = match self.text.get(&self.space) {
                Some(&(from, to, segment)) if (from..to).contains(&page) => (1 << 40) + segment,
                _ => self.space,
            };
            self.seen.insert((owner, page));
        }
    }
}
