//! How large the references of a trace may be: what a row costs its reader is bounded.
//!
//! Reading a reference costs work for each line and page that it touches, and a fetch run may pass a boundary of
//! intervals with each instruction. A damaged file, or a column in another unit, can hold sizes of up to 4 GiB. Whoever
//! follows references refuses such a row by its number; system events cost the same whatever they cover, and have no
//! bound.

use binhop_base::{Problem, Result};

use crate::event::{EventBatch, Op};

/// Bytes that a reference touches at most. The longest of real traces: AMX's XSAVE area (11 KiB), a size of 16 bits in
/// drmemtrace (64 KiB − 1), a run of instructions as the importers and the recorder join them (16 KiB).
pub const LARGEST_REFERENCE: u32 = 64 << 10;

/// Instructions that a fetch run holds at most: one for each byte.
pub const LONGEST_FETCH: u32 = LARGEST_REFERENCE;

/// The bound that a reference exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The row within its batch.
    pub row: usize,
    /// The column, and its value there.
    column: &'static str,
    value: u32,
    op: Op,
}

impl Exceeded {
    /// What is wrong with the row, which is number `row` of the trace that is called `place`.
    #[must_use]
    pub fn problem(self, place: &str, first_row: u64) -> Box<Problem> {
        let Self { column, value, op, row } = self;
        let (most, what) = match column {
            "size" => (LARGEST_REFERENCE, "bytes"),
            _ => (LONGEST_FETCH, "instructions"),
        };
        Problem::request(
            &format!("{} with {column} {value}", op.name()),
            &format!("{place}: row {}", first_row + row as u64),
            &format!("a {} has at most {most} {what}", op.name()),
            "check that size is bytes and count instructions, split the row, or leave it out; `binhop lint` lists all such rows",
        )
    }
}

/// Whether a reference of this size and count is too large: by which column.
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

/// The first reference of a batch that exceeds a bound.
#[must_use]
pub fn exceeded(batch: &EventBatch) -> Option<Exceeded> {
    let (ops, sizes, counts) = (batch.op(), batch.size(), batch.count());
    // Hardly a row is large: one quick look at all of them comes first. The union of all bits is at least the maximum.
    let union = sizes.iter().chain(counts).fold(0, |all, &value| all | value);
    if union <= LARGEST_REFERENCE.min(LONGEST_FETCH) {
        return None;
    }
    let row = (0..batch.len()).find(|&row| exceeds(ops[row], sizes[row], counts[row]).is_some())?;
    let column = exceeds(ops[row], sizes[row], counts[row])?;
    let value = if column == "size" { sizes[row] } else { counts[row] };
    Some(Exceeded { row, column, value, op: Op::from_code(ops[row])? })
}

/// Refuses a code that is no operation. `first_row` is the number of the batch's first row.
pub(crate) fn check_ops(batch: &EventBatch, first_row: u64, place: &str) -> Result<()> {
    let largest = batch.op().iter().copied().max().unwrap_or(0);
    if Op::from_code(largest).is_some() {
        return Ok(()); // codes are dense from 0
    }
    let row = batch.op().iter().position(|&op| Op::from_code(op).is_none()).expect("the largest is one");
    Err(unknown_op(batch.op()[row], place, first_row + row as u64))
}

/// A code that is no operation, in row `row` of the trace.
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

/// Refuses a code that is no operation and a reference that exceeds a bound.
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
    fn a_reference_may_be_as_large_as_the_bound_and_no_larger() {
        const MOST: u32 = LARGEST_REFERENCE;
        for op in [Op::Fetch, Op::Load, Op::Store, Op::Modify] {
            assert_eq!(broken(&[(op, MOST, 1)]), None);
            assert_eq!(broken(&[(op, 1, 1), (op, MOST + 1, 1)]), Some((1, "size", MOST + 1)));
        }
        assert_eq!(broken(&[(Op::Fetch, MOST, LONGEST_FETCH)]), None);
        assert_eq!(broken(&[(Op::Fetch, 4, LONGEST_FETCH + 1)]), Some((0, "count", LONGEST_FETCH + 1)));
        // A data reference's count is not read, and system events have no bound.
        assert_eq!(broken(&[(Op::Load, 4, u32::MAX), (Op::Map, u32::MAX, u32::MAX)]), None);
        assert_eq!(
            broken(&[(Op::Syscall, u32::MAX, 0), (Op::Modify, u32::MAX, 1)]),
            Some((1, "size", u32::MAX))
        );
    }
}
