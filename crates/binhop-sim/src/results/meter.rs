//! `Meter` aggregates, as the run goes, what one machine counts in one lane between two marks.
//!
//! Counting rules
//! - A mark reads what the tables report: instructions, references, and the demand misses of each cache. What
//!   lies between two marks is the difference of their counts.
//! - An interval ends at a mark of its own or at the end of the stream, and is written to a log at once.
//! - A process is charged when another process runs, when the measured part begins, and at the end. Its
//!   charges during the warm-up are forgotten.
//! - The shares of processes wait in a table of [`SLOTS`] places. A process that needs an occupied place
//!   sends the share of the other process to a log. A process may have several shares in the log; their sum
//!   is its count.
//! - A footprint is written to a log when an address space exits.
//!
//! A mark allocates nothing, and memory grows neither with the number of intervals nor with that of processes
//! ([`Log`](crate::results::spill::Log)).

use std::sync::Arc;

use binhop_base::{Asid, Result};

use super::spill::{Log, Records, Spill};
use crate::prepare::Mark;

/// The number of processes whose shares are in memory. Usually fewer processes are alive at a time.
pub(crate) const SLOTS: usize = 1024;

/// The number of counts that stand before the counts of the caches: instructions and references.
pub(crate) const OF_STREAM: usize = 2;

/// `Conflicts` counts the pages that exceed the ways of the sets to which they map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflicts {
    /// C: the pages beyond the ways of each bin, summed over the bins.
    pub(crate) pages: u64,
    /// C_min: the conflicts that no placement could avoid.
    pub(crate) fewest: u64,
}

/// `Meter` aggregates what is counted between marks, and writes it to logs.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The instructions, the references, and the demand misses of each cache up to now.
    now: Box<[u64]>,
    /// The same counts where a process was last charged, and where the current interval began.
    at_process: Box<[u64]>,
    at_interval: Box<[u64]>,
    running: u32,
    interval: u64,
    /// For each interval its instructions and its misses in each cache; `None` if no series is wanted.
    intervals: Option<Log>,
    shares: Shares,
    footprints: Log,
    /// Room for a record while it is put together.
    record: Vec<u64>,
}

impl Meter {
    pub(crate) fn new(caches: usize, wants_series: bool, spill: &Arc<Spill>) -> Self {
        let zero = || vec![0; OF_STREAM + caches].into_boxed_slice();
        Self {
            now: zero(),
            at_process: zero(),
            at_interval: zero(),
            running: 0,
            interval: 0,
            intervals: wants_series.then(|| Log::new(spill)),
            shares: Shares { width: 1 + OF_STREAM + caches, slots: Vec::new(), log: Log::new(spill) },
            footprints: Log::new(spill),
            record: Vec::new(),
        }
    }

    /// Returns the place for the counts up to a mark: instructions, references, and the demand misses of each
    /// cache.
    pub(crate) fn now(&mut self) -> &mut [u64] {
        &mut self.now
    }

    /// Passes a mark. The counts up to the mark are in [`now`](Self::now).
    pub(crate) fn mark(&mut self, mark: Mark) -> Result<()> {
        if !matches!(mark, Mark::Interval(_)) {
            self.charge()?;
        }
        if matches!(mark, Mark::Interval(_) | Mark::End) {
            self.end_interval(mark)?;
        }
        match mark {
            Mark::Process(turn) => self.running = turn.process,
            Mark::Interval(number) => {
                assert_eq!(number, self.interval + 1, "intervals follow each other");
                self.interval = number;
            }
            Mark::Measured => self.shares.clear(),
            Mark::End => self.shares.flush()?,
        }
        Ok(())
    }

    /// Adds what was counted since the last charge to the share of the process that ran.
    fn charge(&mut self) -> Result<()> {
        if self.now == self.at_process {
            return Ok(());
        }
        let share = self.shares.of(self.running)?;
        for ((share, before), &now) in share.iter_mut().zip(&mut self.at_process).zip(&self.now) {
            *share += now - *before;
            *before = now;
        }
        Ok(())
    }

    fn end_interval(&mut self, mark: Mark) -> Result<()> {
        let Some(log) = &mut self.intervals else { return Ok(()) };
        // The last interval counts only if something ran in it.
        if mark == Mark::End && self.now[0] == self.at_interval[0] {
            return Ok(());
        }
        self.record.clear();
        for (number, (before, &now)) in self.at_interval.iter_mut().zip(&self.now).enumerate() {
            if number != 1 {
                self.record.push(now - *before);
            }
            *before = now;
        }
        log.push(&self.record)
    }

    /// Notes how many pages an address space has in memory, how many of these pages are shared, and the
    /// conflicts among them in each cache that frames divide into bins.
    pub(crate) fn footprint(
        &mut self,
        asid: Asid,
        pages: u64,
        shared: u64,
        conflicts: impl Iterator<Item = Conflicts>,
    ) -> Result<()> {
        self.record.clear();
        self.record.extend([u64::from(asid.0), pages, shared]);
        for Conflicts { pages, fewest } in conflicts {
            self.record.extend([pages, fewest]);
        }
        self.footprints.push(&self.record)
    }

    /// Returns everything that the meter has logged. The stream is over.
    pub(crate) fn readings(self) -> Readings {
        Readings {
            intervals: self.intervals.map(Log::seal),
            shares: self.shares.log.seal(),
            footprints: self.footprints.seal(),
        }
    }
}

/// `Shares` holds the shares of processes: a table for processes that ran lately, and a log for other
/// processes.
#[derive(Debug)]
struct Shares {
    /// The number of values in a place of the table and in a record: the number of the process, and its counts.
    width: usize,
    /// Process p has place p modulo [`SLOTS`]. A place begins with the number of its process plus one; with 0
    /// if the place is free.
    slots: Vec<u64>,
    log: Log,
}

impl Shares {
    /// Returns the share of a process since it got its place.
    fn of(&mut self, process: u32) -> Result<&mut [u64]> {
        let first = process as usize % SLOTS * self.width;
        if self.slots.len() < first + self.width {
            self.slots.resize(first + self.width, 0);
        }
        let slot = &mut self.slots[first..first + self.width];
        let owner = u64::from(process) + 1;
        if slot[0] != owner {
            if slot[0] != 0 {
                self.log.push(slot)?;
            }
            slot.fill(0);
            slot[0] = owner;
        }
        Ok(&mut slot[1..])
    }

    fn clear(&mut self) {
        self.slots.fill(0);
        self.log.clear();
    }

    /// Sends every share to the log.
    fn flush(&mut self) -> Result<()> {
        for slot in self.slots.chunks_exact(self.width).filter(|slot| slot[0] != 0) {
            self.log.push(slot)?;
        }
        self.slots = Vec::new();
        Ok(())
    }
}

/// `Readings` hold what a meter has logged.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    intervals: Option<Arc<Log>>,
    shares: Arc<Log>,
    footprints: Arc<Log>,
}

impl Readings {
    /// Returns the number of intervals.
    pub(crate) fn intervals(&self) -> u64 {
        self.intervals.as_ref().map_or(0, |log| log.records())
    }

    /// Reads the intervals in order: for each interval its instructions, and its misses in each cache.
    pub(crate) fn each_interval(&self) -> Option<Records> {
        self.intervals.as_ref().map(Records::new)
    }

    /// Adds up the shares of all processes: instructions, references, and misses in each cache.
    pub(crate) fn sum_of_shares(&self, caches: usize) -> Result<Vec<u64>> {
        let mut sum = vec![0; OF_STREAM + caches];
        self.each_share(caches, |_, share| sum.iter_mut().zip(share).for_each(|(sum, more)| *sum += more))?;
        Ok(sum)
    }

    /// Visits the shares, each with its process. A process may have several shares.
    pub(crate) fn each_share(&self, caches: usize, mut visit: impl FnMut(u32, &[u64])) -> Result<()> {
        let (mut records, mut record) = (Records::new(&self.shares), vec![0; 1 + OF_STREAM + caches]);
        while records.next(&mut record)? {
            visit((record[0] - 1) as u32, &record[1..]);
        }
        Ok(())
    }

    /// Visits footprints in order of exit: pages, shared pages, and two numbers for each of so many caches.
    /// If the number of an address space was used again, the number comes again.
    pub(crate) fn each_footprint(&self, caches: usize, mut visit: impl FnMut(Asid, &[u64])) -> Result<()> {
        let (mut records, mut record) = (Records::new(&self.footprints), vec![0; 3 + 2 * caches]);
        while records.next(&mut record)? {
            visit(Asid(record[0] as u32), &record[1..]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::events::Switch;
    use crate::prepare::Turn;

    const CACHES: usize = 2;

    /// `Plain` counts without table and log: in a list of intervals, and in a map of processes.
    #[derive(Default)]
    struct Plain {
        now: [u64; OF_STREAM + CACHES],
        charged: [u64; OF_STREAM + CACHES],
        began: [u64; OF_STREAM + CACHES],
        running: u32,
        intervals: Vec<[u64; 1 + CACHES]>,
        processes: BTreeMap<u32, [u64; OF_STREAM + CACHES]>,
    }

    impl Plain {
        fn mark(&mut self, mark: Mark) {
            if !matches!(mark, Mark::Interval(_)) {
                let share = self.processes.entry(self.running).or_default();
                for (number, count) in share.iter_mut().enumerate() {
                    *count += self.now[number] - self.charged[number];
                }
                self.charged = self.now;
            }
            let part: Vec<u64> = self.now.iter().zip(&self.began).map(|(now, before)| now - before).collect();
            if matches!(mark, Mark::Interval(_)) || mark == Mark::End && part[0] > 0 {
                self.intervals.push([part[0], part[2], part[3]]);
                self.began = self.now;
            }
            match mark {
                Mark::Process(turn) => self.running = turn.process,
                Mark::Measured => self.processes.clear(),
                Mark::Interval(_) | Mark::End => {}
            }
        }
    }

    fn step() -> impl Strategy<Value = ([u64; OF_STREAM + CACHES], u8, u32)> {
        let count = || prop_oneof![4 => 0..3u64, 2 => 0..500u64, 1 => 0..1u64 << 40];
        // Some of the processes share a place.
        let process = prop_oneof![0..4u32, (0..4u32).prop_map(|n| n * SLOTS as u32), 0..9000u32];
        ([count(), count(), count(), count()], 0..20u8, process)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn a_meter_counts_what_is_counted_by_hand(steps in prop::collection::vec(step(), 0..2500)) {
            let mut meter = Meter::new(CACHES, true, &Arc::new(Spill::default()));
            let mut plain = Plain::default();
            let mut interval = 0;
            for (more, mark, process) in steps {
                plain.now.iter_mut().zip(more).for_each(|(now, more)| *now += more);
                let mark = match mark {
                    0 => Mark::Measured,
                    1..10 => Mark::Process(Turn { process, asid: Asid(process), life: 0, switch: Switch::default() }),
                    _ => {
                        interval += 1;
                        Mark::Interval(interval)
                    }
                };
                meter.now().copy_from_slice(&plain.now);
                meter.mark(mark).unwrap();
                plain.mark(mark);
            }
            meter.mark(Mark::End).unwrap();
            plain.mark(Mark::End);
            let readings = meter.readings();
            prop_assert_eq!(readings.intervals(), plain.intervals.len() as u64);
            let (mut records, mut record) = (readings.each_interval().unwrap(), [0; 1 + CACHES]);
            for expected in plain.intervals {
                prop_assert!(records.next(&mut record).unwrap());
                prop_assert_eq!(record, expected);
            }
            prop_assert!(!records.next(&mut record).unwrap());
            let mut shares: BTreeMap<u32, [u64; OF_STREAM + CACHES]> = BTreeMap::new();
            readings
                .each_share(CACHES, |process, share| {
                    let sum = shares.entry(process).or_default();
                    sum.iter_mut().zip(share).for_each(|(sum, more)| *sum += more);
                })
                .unwrap();
            plain.processes.retain(|_, share| *share != [0; OF_STREAM + CACHES]);
            prop_assert_eq!(&shares, &plain.processes);
            let mut sum = vec![0; OF_STREAM + CACHES];
            for share in plain.processes.values() {
                sum.iter_mut().zip(share).for_each(|(sum, more)| *sum += more);
            }
            prop_assert_eq!(readings.sum_of_shares(CACHES).unwrap(), sum);
        }
    }

    #[test]
    fn footprints_come_in_order_of_exit() {
        let mut meter = Meter::new(CACHES, false, &Arc::new(Spill::default()));
        for asid in [3, 9, 3] {
            let conflicts = Conflicts { pages: 5, fewest: 2 };
            meter.footprint(Asid(asid), 7, 1, [conflicts].into_iter()).unwrap();
        }
        meter.mark(Mark::End).unwrap();
        let (readings, mut seen) = (meter.readings(), Vec::new());
        readings.each_footprint(1, |asid, numbers| seen.push((asid.0, numbers.to_vec()))).unwrap();
        assert_eq!(seen, [(3, vec![7, 1, 5, 2]), (9, vec![7, 1, 5, 2]), (3, vec![7, 1, 5, 2])]);
        assert!(readings.each_interval().is_none() && readings.intervals() == 0);
    }
}
