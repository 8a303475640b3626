//! `SwitchReadings` is what one lane has counted of switches, from which tables are made.

use std::sync::Arc;

use binhop_base::{Asid, PageId, Result};

use super::counts::{CauseOfSegment, Layout, REORDERED};
use super::curves::{Curve, POINT_WIDTH};
use crate::results::spill::{Log, Records};

/// `SegmentKey` says what a segment's counts are added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentKey {
    pub(crate) asid: Asid,
    pub(crate) life: u32,
    pub(crate) cause: CauseOfSegment,
    /// The system call in which the life had left, where the trace says so.
    pub(crate) syscall: Option<u64>,
}

impl SegmentKey {
    /// The number of numbers that a key takes in a log.
    pub(crate) const WIDTH: usize = 4;

    /// Returns the key as numbers.
    pub(crate) fn record(&self) -> [u64; Self::WIDTH] {
        let call = self.syscall.map_or(0, |call| call.saturating_add(1));
        [self.asid.0.into(), self.life.into(), self.cause as u64, call]
    }

    pub(crate) fn of_record(record: &[u64]) -> Self {
        Self {
            asid: Asid(record[0] as u32),
            life: record[1] as u32,
            cause: CauseOfSegment::ALL[record[2] as usize].0,
            syscall: record[3].checked_sub(1),
        }
    }
}

/// `CodePage` counts, by cause, what was waited for while a page of code ran.
#[derive(Clone, Debug)]
pub(crate) struct CodePage {
    pub(crate) page: PageId,
    /// For each cause the lines fetched, and the cycles of the shared and of the private caches. Preparation passes
    /// every fetch here, so the number does not depend on what is skipped.
    pub(crate) counts: [[u64; 3]; CauseOfSegment::ALL.len()],
}

/// The number of numbers of a point in a log: asid, life, length, number of the interval, and the point.
pub(crate) const POINT_RECORD: usize = 4 + POINT_WIDTH;

/// `SwitchReadings` is what one lane has counted of switches.
#[derive(Clone, Debug)]
pub(crate) struct SwitchReadings {
    pub(super) layout: Layout,
    pub(super) costs: Arc<Log>,
    pub(super) points: Arc<Log>,
    pub(super) all: Curve,
    pub(super) by_cause: [Curve; CauseOfSegment::ALL.len()],
    pub(super) pages: Vec<CodePage>,
    pub(crate) pieces: Option<Arc<Log>>,
}

impl SwitchReadings {
    pub(super) fn caches(&self) -> usize {
        self.layout.caches()
    }

    /// Visits the counts of each kind of segment.
    pub(super) fn each_cost(&self, mut visit: impl FnMut(SegmentKey, &[u64])) -> Result<()> {
        let (mut records, mut record) =
            (Records::new(&self.costs), vec![0; SegmentKey::WIDTH + self.layout.width()]);
        while records.next(&mut record)? {
            let (key, counts) = record.split_at(SegmentKey::WIDTH);
            visit(SegmentKey::of_record(key), counts);
        }
        Ok(())
    }

    /// Returns the reordered misses of a cache in all segments.
    pub(crate) fn reordered(&self, cache: usize) -> Result<u64> {
        Ok(self.sum_of_costs()?[self.layout.cache(cache, REORDERED)])
    }

    /// Adds up the counts of all segments.
    pub(crate) fn sum_of_costs(&self) -> Result<Vec<u64>> {
        let mut sums = vec![0; self.layout.width()];
        self.each_cost(|_, counts| sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count))?;
        Ok(sums)
    }
}
