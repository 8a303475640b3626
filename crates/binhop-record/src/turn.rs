//! `rows_within` finds the end of a turn within a batch of rows. A turn ends before a fetch, so that an instruction
//! stays together with its data; a fetch of several instructions is not split.

use binhop_trace::{EventBatch, Op};

/// The number of rows that are summed up before the sum is compared.
const STRIDE: usize = 1 << 10;

/// Returns how many rows of a batch run within the `left` instructions of a turn, and how many instructions
/// these rows count. If the turn has run nothing yet (`fresh`), its first fetch runs however long it is.
pub(crate) fn rows_within(batch: &EventBatch, left: u64, fresh: bool) -> (usize, u64) {
    let (op, count) = (batch.op(), batch.count());
    let (mut row, mut ran, mut fresh) = (0, 0, fresh);
    while row < op.len() {
        let end = (row + STRIDE).min(op.len());
        let rows = op[row..end].iter().zip(&count[row..end]);
        let more: u64 = rows.map(|(&op, &n)| if op == Op::Fetch as u8 { u64::from(n) } else { 0 }).sum();
        if ran + more <= left {
            fresh &= more == 0;
            ran += more;
            row = end;
            continue;
        }
        for at in row..end {
            if op[at] == Op::Fetch as u8 {
                if !fresh && ran + u64::from(count[at]) > left {
                    return (at, ran);
                }
                ran += u64::from(count[at]);
                fresh = false;
            }
        }
        row = end;
    }
    (row, ran)
}

/// Returns the number of instructions of some rows.
pub(crate) fn instructions(rows: &EventBatch) -> u64 {
    rows_within(rows, u64::MAX, false).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_builder::tests::batch;

    #[test]
    fn a_turn_ends_before_the_fetch_that_would_exceed_it() {
        let rows = batch(&[3, 3, 3]);
        assert_eq!(rows_within(&rows, 9, true), (6, 9));
        assert_eq!(rows_within(&rows, 8, true), (4, 6));
        assert_eq!(rows_within(&rows, 6, false), (4, 6));
        assert_eq!(rows_within(&rows, 2, false), (0, 0));
        assert_eq!(rows_within(&rows, 2, true), (2, 3)); // one longer than the whole run is not split
        assert_eq!(rows_within(&rows.slice(1, 5), 0, false), (1, 0)); // the data of the instruction before
        let long = batch(&[1; 5000]);
        assert_eq!(rows_within(&long, 1500, false), (3000, 1500));
        assert_eq!(rows_within(&long, 5000, false), (10_000, 5000));
        assert_eq!(rows_within(&long, 0, true), (2, 1));
    }
}
