//! `SwitchTally` adds up, in one lane, what the accesses of segments cost in the shared and in the private caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use binhop_base::{Asid, PageId, Result};

use super::checks::{MeasuredTotals, check};
use super::counts::{
    BUFFER, CYCLES, CauseOfSegment, HELD, INSTRUCTIONS, KERNEL, LOST, Layout, MISSES, REORDERED, REPLACED,
    RESTORED, SAME, SEGMENTS, SHORT, Side, TRUNCATED,
};
use super::curves::{Curve, Piece};
use super::readings::{CodePage, POINT_RECORD, SegmentKey, SwitchReadings};
use crate::prepare::{CODE_WINDOW, INTERVAL_LENGTHS, INTERVALS_OF_A_SEGMENT};
use crate::results::spill::{Log, Spill};

/// `SideAccess` is what one access cost in the caches of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideAccess {
    /// The level that served the access; the level after all caches is memory.
    pub(crate) level: usize,
    /// The cycles that the processor waited, including the stalls of write buffers.
    pub(crate) cycles: u64,
    /// The cycles that write buffers stalled.
    pub(crate) stalled: u64,
}

/// `SwitchTally` holds the sums over the segments of one lane.
#[derive(Debug)]
pub(crate) struct SwitchTally {
    layout: Layout,
    key: SegmentKey,
    /// The number of the segment; the first segment after the first switch has number 1.
    number: u64,
    /// The instructions of the stream before the segment.
    start: u64,
    /// The counts of the segment, and the cycles waited in it on each side.
    counts: Box<[u64]>,
    waited: [u64; 2],
    /// For each length, the number of the interval that is under way, and the instructions and cycles of the
    /// segment where it began.
    open: [(usize, u64, [u64; 2]); INTERVAL_LENGTHS.len()],
    in_code_window: bool,
    /// The place of the running page of code.
    code: Option<usize>,
    costs: BTreeMap<SegmentKey, Box<[u64]>>,
    all: Curve,
    by_cause: [Curve; CauseOfSegment::ALL.len()],
    by_life: BTreeMap<(Asid, u32), Curve>,
    pages: Vec<CodePage>,
    /// For each page, its place among `pages` plus one.
    place_of_page: Vec<u32>,
    /// The costs and points of lives that have ended.
    ended_costs: Log,
    ended_points: Log,
    /// Every piece, if pieces are kept. The pieces of the segment wait until it is known why the segment ended.
    pieces: Option<Log>,
    waiting: Vec<(u64, Piece)>,
}

/// The number of numbers of a piece in a log: the segment's number and key, the reason why it ended, and the piece's
/// length, end, instructions and cycles.
pub(crate) const PIECE_RECORD: usize = 1 + SegmentKey::WIDTH + 1 + 5;

/// The causes and system calls for which most lives have costs at most.
const CAUSES_OF_A_LIFE: usize = 8;

impl SwitchTally {
    pub(crate) fn new(caches: usize, raw: bool, spill: &Arc<Spill>) -> Self {
        let layout = Layout::new(caches);
        Self {
            layout,
            key: SegmentKey { asid: Asid(0), life: 0, cause: CauseOfSegment::None, syscall: None },
            number: 0,
            start: 0,
            counts: vec![0; layout.width()].into(),
            waited: [0; 2],
            open: Default::default(),
            in_code_window: false,
            code: None,
            costs: BTreeMap::new(),
            all: Curve::default(),
            by_cause: Default::default(),
            by_life: BTreeMap::new(),
            pages: Vec::new(),
            place_of_page: Vec::new(),
            ended_costs: Log::new(spill),
            ended_points: Log::new(spill),
            pieces: raw.then(|| Log::new(spill)),
            waiting: Vec::new(),
        }
    }

    /// Returns the bytes of a page of code in lists, which may be twice as long as they need.
    pub(crate) fn bytes_of_page() -> u64 {
        (size_of::<CodePage>() + size_of::<u32>()) as u64
    }

    /// Returns the bytes of the curve of a life, and of its costs.
    pub(crate) fn bytes_of_life(caches: usize) -> u64 {
        let row = size_of::<(SegmentKey, Box<[u64]>)>() + Layout::new(caches).width() * size_of::<u64>();
        (Curve::MOST_BYTES + CAUSES_OF_A_LIFE * row) as u64
    }

    /// Adds what an access of the program cost.
    #[inline]
    pub(crate) fn access(&mut self, data: bool, sides: [SideAccess; 2]) {
        for (side, access) in [Side::Shared, Side::Private].into_iter().zip(sides) {
            if access.cycles > 0 {
                self.waited[side as usize] += access.cycles;
                self.counts[self.layout.wait(access.level, data, side)] += access.cycles - access.stalled;
                self.counts[BUFFER + side as usize] += access.stalled;
            }
        }
        if let Some(code) = self.code {
            let counts = &mut self.pages[code].counts[self.key.cause as usize];
            counts[0] += u64::from(!data);
            counts[1] += sides[0].cycles;
            counts[2] += sides[1].cycles;
        }
    }

    /// Adds cycles that the processor waited for the kernel.
    pub(crate) fn kernel(&mut self, side: Side, cycles: u64) {
        self.waited[side as usize] += cycles;
        self.counts[KERNEL + side as usize] += cycles;
    }

    /// Notes the page of code that runs from here on.
    #[inline]
    pub(crate) fn code_page(&mut self, page: PageId) {
        if self.in_code_window && self.code.is_none_or(|code| self.pages[code].page != page) {
            self.change_code_page(page);
        }
    }

    #[inline(never)]
    fn change_code_page(&mut self, page: PageId) {
        if self.place_of_page.len() <= page.index() {
            self.place_of_page.resize(page.index() + 1, 0);
        }
        let place = &mut self.place_of_page[page.index()];
        if *place == 0 {
            self.pages.push(CodePage { page, counts: Default::default() });
            *place = self.pages.len() as u32;
        }
        self.code = Some(*place as usize - 1);
    }

    /// Counts a demand miss of a cache.
    #[inline]
    pub(crate) fn missed(&mut self, cache: usize, side: Side) {
        self.counts[self.layout.cache(cache, MISSES) + side as usize] += 1;
    }

    /// Counts a demand miss of a shared cache on a line that the private cache holds. `reordered` says that accesses of
    /// the life itself, and not accesses of another life, had evicted the line.
    pub(crate) fn excess_miss(&mut self, cache: usize, reordered: bool) {
        self.counts[self.layout.cache(cache, if reordered { REORDERED } else { REPLACED })] += 1;
    }

    /// Counts a line that the life had lost while it was away, and that has come back.
    pub(crate) fn restored(&mut self, cache: usize) {
        self.counts[self.layout.cache(cache, RESTORED)] += 1;
    }

    /// Counts the lines of the life that a shared cache held when the life left, and the lines among them that the
    /// cache has lost since.
    pub(crate) fn returned(&mut self, cache: usize, held: u64, lost: u64) {
        self.counts[self.layout.cache(cache, HELD)] += held;
        self.counts[self.layout.cache(cache, LOST)] += lost;
    }

    /// Counts a switch to the life that runs.
    pub(crate) fn same_life(&mut self) {
        self.counts[SAME] += 1;
    }

    /// Passes the end of an interval.
    pub(crate) fn piece(&mut self, since: u64, instructions: u64) {
        if self.key.cause == CauseOfSegment::None {
            return;
        }
        for (place, length) in INTERVAL_LENGTHS.into_iter().enumerate() {
            if since.is_multiple_of(length) && since <= length * INTERVALS_OF_A_SEGMENT {
                self.end_interval(place, instructions, true);
            }
        }
        if since >= CODE_WINDOW {
            (self.in_code_window, self.code) = (false, None);
        }
    }

    /// Ends the current interval of a length.
    fn end_interval(&mut self, length: usize, instructions: u64, complete: bool) {
        let executed = instructions - self.start;
        let cycles = self.waited.map(|waited| executed + waited);
        let (number, before, cycles_before) = self.open[length];
        self.open[length] = (number + 1, executed, cycles);
        let piece = Piece {
            length,
            number,
            complete,
            instructions: executed - before,
            cycles: [cycles[0] - cycles_before[0], cycles[1] - cycles_before[1]],
        };
        self.all.add(&piece);
        self.by_cause[self.key.cause as usize].add(&piece);
        self.by_life.entry((self.key.asid, self.key.life)).or_default().add(&piece);
        if self.pieces.is_some() {
            self.waiting.push((executed, piece));
        }
    }

    /// Ends the segment after so many instructions of the stream.
    pub(crate) fn end_segment(&mut self, instructions: u64, ended: CauseOfSegment) -> Result<()> {
        let executed = instructions - self.start;
        if self.key.cause != CauseOfSegment::None {
            for (place, length) in INTERVAL_LENGTHS.into_iter().enumerate() {
                let (number, before, _) = self.open[place];
                let end = (number as u64 + 1) * length;
                if number < INTERVALS_OF_A_SEGMENT as usize && executed > before {
                    self.end_interval(place, instructions, executed == end);
                }
            }
            self.counts[SEGMENTS] = 1;
            self.counts[SHORT] = u64::from(executed < INTERVAL_LENGTHS[0]);
            self.counts[TRUNCATED] = u64::from(ended == CauseOfSegment::End);
        }
        self.counts[INSTRUCTIONS] = executed;
        for side in 0..2 {
            self.counts[CYCLES + side] = executed + self.waited[side];
        }
        if self.counts.iter().any(|&count| count > 0) {
            let width = self.counts.len();
            let sums = self.costs.entry(self.key).or_insert_with(|| vec![0; width].into());
            sums.iter_mut().zip(&*self.counts).for_each(|(sum, count)| *sum += count);
        }
        if let Some(log) = &mut self.pieces {
            for (since, piece) in self.waiting.drain(..) {
                let mut record = [0; PIECE_RECORD];
                record[0] = self.number;
                record[1..5].copy_from_slice(&self.key.record());
                record[5] = ended as u64;
                record[6..].copy_from_slice(&[
                    INTERVAL_LENGTHS[piece.length],
                    since,
                    piece.instructions,
                    piece.cycles[0],
                    piece.cycles[1],
                ]);
                log.push(&record)?;
            }
        }
        Ok(())
    }

    /// Begins a segment. The segment before has been ended.
    pub(crate) fn begin_segment(&mut self, key: SegmentKey, instructions: u64) {
        self.key = key;
        self.number += u64::from(key.cause != CauseOfSegment::None);
        self.start = instructions;
        self.counts.fill(0);
        self.waited = [0; 2];
        self.open = Default::default();
        self.in_code_window = key.cause != CauseOfSegment::None;
        self.code = None;
    }

    /// Begins the measured part: everything counted before is forgotten. The rest of the segment belongs to no switch.
    pub(crate) fn measure(&mut self, instructions: u64) {
        self.costs.clear();
        self.all = Curve::default();
        self.by_cause = Default::default();
        self.by_life.clear();
        self.pages.clear();
        self.place_of_page.clear();
        self.ended_costs.clear();
        self.ended_points.clear();
        self.pieces.iter_mut().for_each(Log::clear);
        self.waiting.clear();
        self.begin_segment(
            SegmentKey { cause: CauseOfSegment::None, syscall: None, ..self.key },
            instructions,
        );
    }

    /// Sends the counts of a life that has ended to the log.
    pub(crate) fn end_life(&mut self, asid: Asid, life: u32) -> Result<()> {
        let first = SegmentKey { asid, life, cause: CauseOfSegment::None, syscall: None };
        let last = SegmentKey { cause: CauseOfSegment::End, syscall: Some(u64::MAX), ..first };
        let keys: Vec<SegmentKey> = self.costs.range(first..=last).map(|(key, _)| *key).collect();
        for key in keys {
            let counts = self.costs.remove(&key).expect("the key is of the map");
            log_cost(&mut self.ended_costs, key, &counts)?;
        }
        if let Some(curve) = self.by_life.remove(&(asid, life)) {
            log_points(&mut self.ended_points, asid, life, &curve)?;
        }
        Ok(())
    }

    /// Returns everything counted. The last segment has been ended.
    ///
    /// # Errors
    /// The sums over the segments are not the totals of the measured part, or do not agree with each other, which is a
    /// defect of the simulator; or the log cannot be written.
    pub(crate) fn finish(mut self, totals: &MeasuredTotals, seed: u64) -> Result<SwitchReadings> {
        for (key, counts) in std::mem::take(&mut self.costs) {
            log_cost(&mut self.ended_costs, key, &counts)?;
        }
        for ((asid, life), curve) in std::mem::take(&mut self.by_life) {
            log_points(&mut self.ended_points, asid, life, &curve)?;
        }
        let readings = SwitchReadings {
            layout: self.layout,
            costs: self.ended_costs.seal(),
            points: self.ended_points.seal(),
            all: self.all,
            by_cause: self.by_cause,
            pages: self.pages,
            pieces: self.pieces.map(Log::seal),
        };
        check(&readings, totals, seed)?;
        Ok(readings)
    }

    /// Adds a piece to the sums over all segments, to break them.
    #[cfg(test)]
    pub(super) fn add_to_all(&mut self, piece: &Piece) {
        self.all.add(piece);
    }

    /// Adds a piece to the sums over the segments of a cause, to break them.
    #[cfg(test)]
    pub(super) fn add_to_cause(&mut self, cause: CauseOfSegment, piece: &Piece) {
        self.by_cause[cause as usize].add(piece);
    }

    /// Adds a piece to the sums over the segments of a life, to break them.
    #[cfg(test)]
    pub(super) fn add_to_life(&mut self, asid: Asid, life: u32, piece: &Piece) {
        self.by_life.entry((asid, life)).or_default().add(piece);
    }
}

fn log_cost(log: &mut Log, key: SegmentKey, counts: &[u64]) -> Result<()> {
    log.push(&[&key.record()[..], counts].concat())
}

fn log_points(log: &mut Log, asid: Asid, life: u32, curve: &Curve) -> Result<()> {
    for (length, number, point) in curve.points() {
        let mut record = [0; POINT_RECORD];
        record[..4].copy_from_slice(&[asid.0.into(), life.into(), length, number as u64]);
        record[4..].copy_from_slice(&point.record());
        log.push(&record)?;
    }
    Ok(())
}
