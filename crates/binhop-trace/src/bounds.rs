//! This file bounds the size of a trace's references, so that the cost of reading a row is bounded.
//!
//! Reading a reference costs work for each line and page that it touches, and a fetch run may pass a boundary
//! of intervals with each instruction. A damaged file, or a column in another unit, can hold sizes of up to 4
//! GiB. Code that follows references refuses such a row by its number. It also refuses a fetch of no instruction, which
//! would be an access and no reference. The cost of a system event does not depend on its range, so system events have
//! no bound.

use std::ops::Range;

use binhop_base::{Problem, Result};

use crate::event::{EventBatch, Op};

/// The most bytes that a reference touches. The longest references of real traces are AMX's XSAVE area (11
/// KiB), a 16-bit size in drmemtrace (64 KiB − 1), and a run of instructions joined by the importers or the
/// recorder (16 KiB).
pub const LARGEST_REFERENCE: u32 = 64 << 10;

/// The most instructions of a fetch run: one for each byte.
pub const LONGEST_FETCH: u32 = LARGEST_REFERENCE;

/// `Exceeded` names the bound that a reference breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The row within its batch.
    pub row: usize,
    /// The column, and its value in the row.
    column: &'static str,
    value: u32,
    op: Op,
}

impl Exceeded {
    /// Returns the problem for the row. `place` names the trace, and `first_row` is the number of the batch's
    /// first row.
    #[must_use]
    pub fn problem(self, place: &str, first_row: u64) -> Box<Problem> {
        let Self { column, value, op, row } = self;
        let (most, what) = match column {
            "size" => (LARGEST_REFERENCE, "bytes"),
            _ => (LONGEST_FETCH, "instructions"),
        };
        let rule = match value {
            0 => format!("a {} has at least one instruction", op.name()),
            _ => format!("a {} has at most {most} {what}", op.name()),
        };
        Problem::request(
            &format!("{} with {column} {value}", op.name()),
            &format!("{place}: row {}", first_row + row as u64),
            &rule,
            "check that size is bytes and count instructions, split the row, or leave it out; `binhop lint` lists all such rows",
        )
    }
}

/// Returns the column that makes a reference exceed a bound, if a column does.
#[inline]
#[must_use]
pub(crate) fn exceeds(op: u8, size: u32, count: u32) -> Option<&'static str> {
    if op > Op::Modify as u8 {
        None
    } else if size > LARGEST_REFERENCE {
        Some("size")
    } else if op == Op::Fetch as u8 && count > LONGEST_FETCH {
        Some("count")
    } else {
        None
    }
}

/// Returns whether a reference of this size and count may break a bound. `false` is certain.
#[inline]
#[must_use]
pub const fn may_break(size: u32, count: u32) -> bool {
    // One comparison finds a count of 0, too.
    size > LARGEST_REFERENCE || count.wrapping_sub(1) >= LONGEST_FETCH
}

/// The rows of a chunk: few enough that its columns stay in the host's caches from the check to the use.
const CHUNK: usize = 1 << 13;

/// Splits a number of rows into chunks.
pub fn chunk_rows(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(CHUNK).map(move |start| start..rows.min(start + CHUNK))
}

/// Splits a batch into chunks of rows that keep the bounds. If a reference exceeds a bound, the chunk before
/// the reference is the last chunk, and comes with an [`Exceeded`].
///
/// Each chunk is checked when it is asked for. A caller who uses each chunk at once reads each column from
/// memory once.
pub fn chunks(batch: &EventBatch) -> impl Iterator<Item = (Range<usize>, Option<Exceeded>)> {
    let mut ended = false;
    chunk_rows(batch.len()).map_while(move |rows| {
        if ended {
            return None;
        }
        let exceeded = exceeded_among(batch, rows.clone());
        ended = exceeded.is_some();
        Some((rows.start..exceeded.map_or(rows.end, |exceeded| exceeded.row), exceeded))
    })
}

/// Returns the first reference of a batch that exceeds a bound.
#[must_use]
pub fn exceeded(batch: &EventBatch) -> Option<Exceeded> {
    chunks(batch).find_map(|(_, exceeded)| exceeded)
}

/// Returns the first reference in `rows` that breaks a bound.
#[must_use]
pub fn exceeded_among(batch: &EventBatch, rows: Range<usize>) -> Option<Exceeded> {
    let (sizes, counts) = (batch.size(), batch.count());
    // Such rows are rare, so one quick pass over all rows comes first. The bitwise or of all values is at least their
    // maximum.
    let union = sizes[rows.clone()].iter().chain(&counts[rows.clone()]).fold(0, |all, &value| all | value);
    let none = counts[rows.clone()].iter().fold(0, |none, &count| none | u32::from(count == 0));
    if union <= LARGEST_REFERENCE.min(LONGEST_FETCH) && none == 0 {
        return None;
    }
    rows.filter(|&row| may_break(sizes[row], counts[row])).find_map(|row| exceeded_at(batch, row))
}

/// Returns the bound that the reference of a row breaks.
#[must_use]
pub fn exceeded_at(batch: &EventBatch, row: usize) -> Option<Exceeded> {
    let (op, size, count) = (batch.op()[row], batch.size()[row], batch.count()[row]);
    let is_empty = op == Op::Fetch as u8 && count == 0;
    let column = if is_empty { "count" } else { exceeds(op, size, count)? };
    let value = if column == "size" { size } else { count };
    Some(Exceeded { row, column, value, op: Op::from_code(op)? })
}

/// Refuses an unknown operation code. `first_row` is the number of the batch's first row.
pub(crate) fn check_ops(batch: &EventBatch, first_row: u64, place: &str) -> Result<()> {
    let largest = batch.op().iter().copied().max().unwrap_or(0);
    if Op::from_code(largest).is_some() {
        return Ok(()); // codes are dense from 0
    }
    let row =
        batch.op().iter().position(|&op| Op::from_code(op).is_none()).expect("the largest code is unknown");
    Err(unknown_op(batch.op()[row], place, first_row + row as u64))
}

/// Returns the problem of an unknown operation code in row `row` of the trace.
#[must_use]
pub fn unknown_op(code: u8, place: &str, row: u64) -> Box<Problem> {
    let known: Vec<String> = Op::ALL.iter().map(|op| format!("{} {}", *op as u8, op.name())).collect();
    Problem::request(
        &code.to_string(),
        &format!("{place}: row {row}"),
        "no operation has this code",
        &format!("the codes are {}", known.join(", ")),
    )
}

/// Refuses an unknown operation code, and a reference that exceeds a bound.
pub(crate) fn check_rows(batch: &EventBatch, first_row: u64, place: &str) -> Result<()> {
    check_ops(batch, first_row, place)?;
    exceeded(batch).map_or(Ok(()), |exceeded| Err(exceeded.problem(place, first_row)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventBuilder;

    fn broken(rows: &[(Op, u32, u32)]) -> Option<(usize, &'static str, u32)> {
        let mut builder = EventBuilder::default();
        rows.iter().for_each(|&(op, size, count)| builder.push(op, 0, size, count));
        exceeded(&builder.finish()).map(|exceeded| (exceeded.row, exceeded.column, exceeded.value))
    }

    #[test]
    fn chunks_hold_each_row_once_and_end_before_the_first_row_that_exceeds_a_bound() {
        for (rows, broken) in [
            (0, None),
            (1, Some(0)),
            (CHUNK, None),
            (3 * CHUNK + 5, Some(CHUNK + 1)),
            (2 * CHUNK, Some(2 * CHUNK - 1)),
        ] {
            let mut builder = EventBuilder::default();
            (0..rows).for_each(|row| {
                builder.push(Op::Load, 0, if broken == Some(row) { LARGEST_REFERENCE + 1 } else { 8 }, 1);
            });
            let batch = builder.finish();
            let mut next = 0;
            for (chunk, exceeded) in chunks(&batch) {
                assert_eq!(chunk.start, next);
                assert_eq!(exceeded.map(|exceeded| exceeded.row), broken.filter(|&row| row == chunk.end));
                next = chunk.end;
            }
            assert_eq!(next, broken.unwrap_or(rows), "{rows} rows");
        }
    }

    #[test]
    fn a_reference_may_be_as_large_as_its_bound_and_no_larger() {
        const MOST: u32 = LARGEST_REFERENCE;
        for op in [Op::Fetch, Op::Load, Op::Store, Op::Modify] {
            assert_eq!(broken(&[(op, MOST, 1)]), None);
            assert_eq!(broken(&[(op, 1, 1), (op, MOST + 1, 1)]), Some((1, "size", MOST + 1)));
        }
        assert_eq!(broken(&[(Op::Fetch, MOST, LONGEST_FETCH)]), None);
        assert_eq!(broken(&[(Op::Fetch, 4, LONGEST_FETCH + 1)]), Some((0, "count", LONGEST_FETCH + 1)));
        assert_eq!(broken(&[(Op::Load, 4, 0), (Op::Switch, 0, 0), (Op::Fetch, 4, 0)]), Some((2, "count", 0)));
        // A data reference's count is not read, and system events have no bound.
        assert_eq!(broken(&[(Op::Load, 4, u32::MAX), (Op::Map, u32::MAX, u32::MAX)]), None);
        assert_eq!(
            broken(&[(Op::Syscall, u32::MAX, 0), (Op::Modify, u32::MAX, 1)]),
            Some((1, "size", u32::MAX))
        );
    }
}
