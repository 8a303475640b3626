//! What one cell has counted in one lane: its tallies at every mark, told apart by process, interval and
//! phase.

use binhop_base::{Asid, Problem, Result};

use crate::prepare::Mark;
use crate::tally::Tally;

/// One interval of a series.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) number: u64,
    pub(crate) instructions: u64,
    /// Demand misses, one for each cache.
    pub(crate) misses: Vec<u64>,
}

/// The pages an address space had in memory at its exit, or at the end of the stream (KH90 §2).
#[derive(Clone, Debug)]
pub(crate) struct Footprint {
    pub(crate) asid: Asid,
    /// U: its resident pages.
    pub(crate) pages: u64,
    /// Those of them that another mapping leads to, or led to.
    pub(crate) shared: u64,
    /// For each cache whose sets a frame chooses: pages in conflict, and the fewest that so many pages
    /// could be.
    pub(crate) conflicts: Vec<Option<Conflicts>>,
}

/// Pages beyond what the sets they map to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflicts {
    /// C: in each bin the pages beyond its ways, summed.
    pub(crate) pages: u64,
    /// C_min: what no placement could avoid.
    pub(crate) fewest: u64,
}

/// The tallies of one cell in one lane.
#[derive(Debug)]
pub(crate) struct Account {
    /// Where the last mark of each kind stood.
    at_process: Tally,
    at_interval: Tally,
    at_measured: Option<Tally>,
    at_end: Option<Tally>,
    running: u32,
    interval: u64,
    wants_series: bool,
    /// What is reported of each process of the measured part, by its number.
    processes: Shares,
    /// The sum of all they count.
    of_processes: Tally,
    pub(crate) series: Vec<Interval>,
    /// In order of exit; an asid that was used again comes again.
    pub(crate) footprints: Vec<Footprint>,
}

impl Account {
    pub(crate) fn new(caches: usize, wants_series: bool) -> Self {
        Self {
            at_process: Tally::zero(caches),
            at_interval: Tally::zero(caches),
            at_measured: None,
            at_end: None,
            running: 0,
            interval: 0,
            wants_series,
            processes: Shares { caches, counts: Vec::new() },
            of_processes: Tally::zero(caches),
            series: Vec::new(),
            footprints: Vec::new(),
        }
    }

    /// Everything counted up to a mark.
    pub(crate) fn mark(&mut self, mark: Mark, tally: Tally) {
        if !matches!(mark, Mark::Interval(_)) {
            let part = tally.since(&self.at_process);
            self.processes.add(self.running, &part);
            self.of_processes.add(&part);
            self.at_process = tally.clone();
        }
        if matches!(mark, Mark::Interval(_) | Mark::End) && self.wants_series {
            let part = tally.since(&self.at_interval);
            if part.stream.instructions > 0 || mark != Mark::End {
                self.series.push(Interval {
                    number: self.interval,
                    instructions: part.stream.instructions,
                    misses: (0..part.caches.len()).map(|cache| part.demand_misses(cache)).collect(),
                });
            }
            self.at_interval = tally.clone();
        }
        match mark {
            Mark::Process(turn) => self.running = turn.process,
            Mark::Interval(number) => self.interval = number,
            Mark::Measured => {
                // What processes did during the warm-up is reported nowhere else.
                self.processes.counts.clear();
                self.of_processes = Tally::zero(tally.caches.len());
                self.at_measured = Some(tally);
            }
            Mark::End => self.at_end = Some(tally),
        }
    }

    /// What each process did in the measured part, by its number; those with the highest numbers may be missing.
    pub(crate) fn processes(&self) -> impl Iterator<Item = Share<'_>> {
        self.processes.counts.chunks_exact(2 + self.processes.caches).map(|counts| Share {
            instructions: counts[0],
            references: counts[1],
            misses: &counts[2..],
        })
    }

    /// Counts of the whole run.
    pub(crate) fn end(&self) -> &Tally {
        self.at_end.as_ref().expect("the stream is over")
    }

    /// Counts of the warm-up, if there was one, and of the measured part.
    pub(crate) fn phases(&self) -> (Option<&Tally>, Tally) {
        match &self.at_measured {
            None => (None, self.end().clone()),
            Some(warmup) => (Some(warmup), self.end().since(warmup)),
        }
    }

    /// The sum over processes is the total.
    ///
    /// # Errors
    /// It is not: a defect of the simulator.
    pub(crate) fn check(&self, seed: u64) -> Result<()> {
        let (_, measured) = self.phases();
        let sum = &self.of_processes;
        if *sum != measured || !counts_of(&measured).eq(self.processes.sum()) {
            let (sum, total) = (sum.memory.accesses.total(), measured.memory.accesses.total());
            return Err(broken(
                &format!("{sum} memory accesses over all processes"),
                &format!("the sum over processes is the total ({total}), for every counter"),
                seed,
            ));
        }
        Ok(())
    }
}

/// What a process is reported to have done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share<'a> {
    pub(crate) instructions: u64,
    pub(crate) references: u64,
    /// Demand misses, one for each cache.
    pub(crate) misses: &'a [u64],
}

/// The shares of all processes. There may be very many processes, so no more is kept than is reported.
#[derive(Debug)]
struct Shares {
    caches: usize,
    /// For each process its instructions, its references and its misses in each cache.
    counts: Vec<u64>,
}

/// What a tally adds to a process's share.
fn counts_of(tally: &Tally) -> impl Iterator<Item = u64> {
    let misses = (0..tally.caches.len()).map(|cache| tally.demand_misses(cache));
    [tally.stream.instructions, tally.stream.references].into_iter().chain(misses)
}

impl Shares {
    fn add(&mut self, process: u32, part: &Tally) {
        let width = 2 + self.caches;
        let first = process as usize * width;
        if self.counts.len() < first + width {
            self.counts.resize(first + width, 0);
        }
        for (count, more) in self.counts[first..].iter_mut().zip(counts_of(part)) {
            *count += more;
        }
    }

    fn sum(&self) -> Vec<u64> {
        let mut sum = vec![0; 2 + self.caches];
        for share in self.counts.chunks_exact(2 + self.caches) {
            sum.iter_mut().zip(share).for_each(|(sum, count)| *sum += count);
        }
        sum
    }
}

/// A law of a run does not hold.
pub(crate) fn broken(value: &str, rule: &str, seed: u64) -> Box<Problem> {
    Problem::run(
        value,
        &format!("seed {seed}"),
        rule,
        "this is a defect of binhop: please report it with the command",
    )
}
