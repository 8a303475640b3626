//! This part of preparation takes in the rows of a stream without units, which is the common case.
//!
//! Most rows are references that no cache needs to see. They are skipped in one loop that reads the filters
//! alone. Their share of the stream's counts is summed from the columns afterwards. Nobody reads the counts
//! in between: there is no mark up to the next cut, and each event that is no reference ends the loop. Where time
//! matters, each row that is passed reads the count of instructions, which is kept up to date for it.

use std::ops::Range;

use binhop_base::{Kind, Result};
use binhop_trace::bounds::{LARGEST_REFERENCE, LONGEST_FETCH, exceeded_among, exceeded_at};
use binhop_trace::{EventBatch, Op};

use super::filter::{Columns, lines};
use super::{EmitBlock, FETCH, Flow, Prepare};

/// The number of rows whose operations are counted in 8-bit counters before the counts are added up.
const COUNTED_TOGETHER: usize = 128;

impl Prepare {
    /// Returns whether a reference beyond the bound on sizes would touch more lines than a row that is
    /// skipped.
    pub(super) fn lines_are_bounded(&self) -> bool {
        self.line_log2.iter().all(|&log2| 2 << log2 <= u64::from(LARGEST_REFERENCE))
    }

    /// Takes in rows. Where [`lines_are_bounded`](Self::lines_are_bounded), the bound on sizes is checked
    /// only for rows that are not skipped.
    pub(super) fn feed_plain<const TRANSLATES: bool>(
        &mut self,
        batch: &EventBatch,
        mut rows: Range<usize>,
        emit: EmitBlock<'_>,
    ) -> Result<Flow> {
        let counts = Counts::of(&batch.count()[rows.clone()]);
        // Few traces hold a count that a fetch may not have, and such a count may belong to a system event.
        let may_break = counts.none || counts.most > LONGEST_FETCH;
        let broken = if may_break { exceeded_among(batch, rows.clone()) } else { None };
        if let Some(exceeded) = broken {
            rows.end = exceeded.row;
        }
        let columns = Columns::of(batch, rows.clone());
        let mut row = 0;
        while row < rows.len() {
            let (from, before) = (row, self.stream.instructions);
            // Where time matters, the instructions before this row are in the stream's count already.
            let mut executed = row;
            let end = rows.len().min(row.saturating_add(self.rows_before_cut(counts.most)));
            while row < end {
                row += self.skip::<TRANSLATES>(columns.part(row..end), counts.most > 1);
                if row == end || !is_plain(columns, row, self.line_log2[FETCH], self.line_log2[self.data]) {
                    break;
                }
                if self.timed {
                    self.stream.instructions += instructions(columns.part(executed..row));
                    executed = row;
                }
                let done = self.refer_to_lines::<TRANSLATES>(columns, row);
                done.map_err(|problem| self.at_row(problem, rows.start + row))?;
                self.flush_if_full(emit)?;
                row += 1;
            }
            self.stream.instructions = before;
            self.count(columns.part(from..row), counts);
            if row < end || row == from && row < rows.len() {
                if columns.size[row] > LARGEST_REFERENCE
                    && let Some(exceeded) = exceeded_at(batch, rows.start + row)
                {
                    return self.end_at(batch, exceeded, emit);
                }
                let ends = self.feed_row::<false, TRANSLATES>(batch, rows.start + row);
                if ends.map_err(|problem| self.at_row(problem, rows.start + row))? {
                    return self.finish(emit).map(|()| Flow::Done);
                }
                self.flush_if_full(emit)?;
                row += 1;
            }
        }
        broken.map_or(Ok(Flow::On), |exceeded| self.end_at(batch, exceeded, emit))
    }

    /// Skips rows that no cache and no lane's TLB needs to see. Returns their number.
    #[inline]
    fn skip<const TRANSLATES: bool>(&mut self, columns: Columns<'_>, runs: bool) -> usize {
        if !TRANSLATES {
            return self.filters.skip(columns, runs, &mut self.clock, &mut ());
        }
        let translator = self.translator.as_mut().expect("called where addresses are translated");
        if translator.knows_pages() {
            // The slots of lines whose pages must be looked up are asleep.
            return self.filters.skip(columns, runs, &mut self.clock, &mut ());
        }
        let Some(mut pages) = translator.skipped_pages(self.running.asid) else { return 0 };
        let skipped = self.filters.skip(columns, runs, &mut self.clock, &mut pages);
        pages.tell();
        skipped
    }

    /// Returns the number of rows that surely lie before the next cut if each row holds at most `most`
    /// instructions.
    fn rows_before_cut(&self, most: u32) -> usize {
        let references = self.next_cut - self.stream.references;
        let instructions = self.next_interval - self.stream.instructions;
        usize::try_from(references.min(instructions) / u64::from(most)).unwrap_or(usize::MAX)
    }

    /// Makes the accesses of a reference that [`is_plain`].
    fn refer_to_lines<const TRANSLATES: bool>(&mut self, columns: Columns<'_>, row: usize) -> Result<()> {
        let op = columns.op[row];
        let port = if op == Op::Fetch as u8 { FETCH } else { self.data };
        let lines = lines(columns.addr[row], columns.size[row], self.line_log2[port]);
        match op {
            0 => self.access_lines::<TRANSLATES>(port, lines, Kind::Fetch),
            1 => self.access_lines::<TRANSLATES>(port, lines, Kind::Load),
            2 => self.access_lines::<TRANSLATES>(port, lines, Kind::Store),
            _ => {
                self.access_lines::<TRANSLATES>(port, lines, Kind::Load)?;
                self.access_lines::<TRANSLATES>(port, lines, Kind::Store)
            }
        }
    }

    /// Adds these rows to the counts of the stream. Each row [`is_plain`].
    fn count(&mut self, columns: Columns<'_>, counts: Counts) {
        let Columns { op, count, .. } = columns;
        let [mut fetches, mut loads, mut stores, mut instructions] = [0; 4];
        for (op, count) in op.chunks(COUNTED_TOGETHER).zip(count.chunks(COUNTED_TOGETHER)) {
            let [mut fetched, mut loaded, mut stored] = [0_u8; 3];
            for &op in op {
                fetched += u8::from(op == Op::Fetch as u8);
                // A modify, 3, is a load, 1, and a store, 2.
                loaded += op & 1;
                stored += op >> 1;
            }
            fetches += u64::from(fetched);
            loads += u64::from(loaded);
            stores += u64::from(stored);
            if !counts.single {
                // Each count is at most `LONGEST_FETCH`, so 32 bits hold their sum.
                let counted = |(&op, &count): (&u8, &u32)| if op == Op::Fetch as u8 { count } else { 0 };
                instructions += u64::from(op.iter().zip(count).map(counted).sum::<u32>());
            }
        }
        if counts.single {
            instructions = fetches;
        }
        self.stream.instructions += instructions;
        self.stream.references += instructions + op.len() as u64 - fetches;
        self.stream.accesses[0] += instructions;
        self.stream.accesses[1] += loads;
        self.stream.accesses[2] += stores;
    }
}

/// `Counts` summarises the counts of some rows.
#[derive(Clone, Copy)]
struct Counts {
    /// A number of at least 1 that no count exceeds.
    most: u32,
    /// True if each count is 1.
    single: bool,
    /// True if some count is 0.
    none: bool,
}

impl Counts {
    fn of(counts: &[u32]) -> Self {
        // No count has a bit that `union` lacks.
        let (union, none) =
            counts.iter().fold((1, 0), |(union, none), &count| (union | count, none | u32::from(count == 0)));
        Self { most: union, single: union == 1 && none == 0, none: none == 1 }
    }
}

/// Returns the instructions of some rows. Mostly the rows are few, because each row that is passed ends a call.
#[inline]
fn instructions(columns: Columns<'_>) -> u64 {
    let counted = |(&op, &count): (&u8, &u32)| if op == Op::Fetch as u8 { u64::from(count) } else { 0 };
    columns.op.iter().zip(columns.count).map(counted).sum()
}

/// Returns whether a row is a reference of one line, or a run of instructions over two lines. Each line of
/// the row is accessed once; a modify accesses its line twice, as a load and as a store.
#[inline]
fn is_plain(columns: Columns<'_>, row: usize, fetch_log2: u32, data_log2: u32) -> bool {
    let (op, addr, size) = (columns.op[row], columns.addr[row], columns.size[row]);
    if op > Op::Modify as u8 {
        return false;
    }
    let fetch = op == Op::Fetch as u8;
    let (first, last) = lines(addr, size, if fetch { fetch_log2 } else { data_log2 });
    last.wrapping_sub(first) <= u64::from(fetch && columns.count[row] > 1)
}
