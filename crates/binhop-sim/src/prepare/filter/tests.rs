//! Tests of the filters.

use proptest::prelude::*;

use super::*;

/// Some rows, as the columns of a batch.
#[derive(Clone, Debug, Default)]
struct Rows {
    op: Vec<u8>,
    addr: Vec<u64>,
    size: Vec<u32>,
    count: Vec<u32>,
}

impl Rows {
    fn columns(&self) -> Columns<'_> {
        Columns { op: &self.op, addr: &self.addr, size: &self.size, count: &self.count }
    }

    /// Returns the rows from this row on.
    fn from(&self, row: usize) -> Self {
        Self {
            op: self.op[row..].to_vec(),
            addr: self.addr[row..].to_vec(),
            size: self.size[row..].to_vec(),
            count: self.count[row..].to_vec(),
        }
    }
}

/// Returns the accesses of a row one by one: port, line, and whether it stores. `None`: the row is never
/// skipped.
fn accesses(filters: &Filters, rows: &Rows, row: usize) -> Option<Vec<(usize, u64, bool)>> {
    let (op, addr, size) = (rows.op[row], rows.addr[row], rows.size[row]);
    let port = usize::from(op > 0);
    let end = addr.checked_add(u64::from(size.max(1) - 1))?;
    let log2 = filters.ports[port].line_log2;
    let lines: Vec<u64> = (addr >> log2..=end >> log2).collect();
    let few = if op == 0 && rows.count[row] > 1 { 2 } else { 1 };
    let stores: &[bool] = match op {
        0 | 1 => &[false],
        2 => &[true],
        3 => &[false, true],
        _ => return None,
    };
    (lines.len() <= few).then(|| {
        stores.iter().flat_map(|&store| lines.iter().map(move |&line| (port, line, store))).collect()
    })
}

/// Skips as [`Filters::skip`] does, one access at a time.
fn skip_slowly(filters: &mut Filters, rows: &Rows, clock: &mut u64) -> usize {
    for row in 0..rows.op.len() {
        let Some(accesses) = accesses(filters, rows, row) else { return row };
        // A reference of no byte at the start of a line passes, even if it need not pass.
        let line = 1 << filters.ports[accesses[0].0].line_log2;
        if rows.size[row] == 0 && rows.addr[row].is_multiple_of(line) {
            return row;
        }
        let (mut after, mut now) = (filters.clone(), *clock);
        let all = accesses.iter().all(|&(port, line, store)| {
            now += 1;
            after.drops(port, line, store, now)
        });
        if !all {
            return row;
        }
        *clock = if filters.timed { now } else { *clock + 1 };
        *filters = after;
    }
    rows.op.len()
}

fn shape() -> impl Strategy<Value = Shape> {
    (3..6u32, 0..4u32, any::<[bool; 3]>()).prop_map(
        |(line_log2, slots_log2, [needs_first_hit, write_back, allocate])| Shape {
            line_log2,
            slots: 1 << slots_log2,
            needs_first_hit,
            write_back,
            allocate,
        },
    )
}

/// Draws a row: mostly a small reference near the others, sometimes at the end of memory, sometimes no
/// reference.
fn row() -> impl Strategy<Value = (u8, u64, u32, u32)> {
    let addr = prop_oneof![20 => 0..256u64, 1 => (0..64u64).prop_map(|below| u64::MAX - below)];
    let op = prop_oneof![40 => 0..4u8, 1 => 4..8u8];
    (op, addr, prop_oneof![20 => 0..9u32, 1 => 9..80u32], 0..4u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_skipped_as_their_accesses_would_be(
        shapes in [shape(), shape()],
        split in any::<bool>(),
        timed in any::<bool>(),
        runs in any::<bool>(),
        rows in prop::collection::vec(row(), 1..200),
        trusted in prop_oneof![4 => Just([0, 0]), 1 => [0..60u64, 0..60u64], 1 => Just([u64::MAX; 2])],
    ) {
        let shapes = if split { shapes } else { [shapes[0]; 2] };
        let mut filters = Filters::new(shapes, split, timed);
        // Without times there is no time before which lines are not trusted.
        let since = trusted.map(|time| if timed || time == u64::MAX { time } else { 0 });
        filters.trust(if split { since } else { [since[0]; 2] });
        let (mut rest, mut clock) = (Rows::default(), 0);
        for (op, addr, size, count) in rows {
            rest.op.push(op);
            rest.addr.push(addr);
            rest.size.push(size);
            rest.count.push(if runs { count } else { count.min(1) });
        }
        while !rest.op.is_empty() {
            let (mut slow, mut slow_clock) = (filters.clone(), clock);
            let expected = skip_slowly(&mut slow, &rest, &mut slow_clock);
            let skipped = filters.skip(rest.columns(), runs, &mut clock, &mut ());
            prop_assert_eq!((skipped, clock), (expected, slow_clock));
            prop_assert_eq!(&filters, &slow);
            rest = rest.from(skipped);
            if !rest.op.is_empty() {
                // The row that stopped the loop passes, even if it need not pass.
                for (port, line, store) in accesses(&filters, &rest, 0).unwrap_or_default() {
                    clock += 1;
                    filters.pass(port, line, 0, store, clock);
                }
                rest = rest.from(1);
            }
        }
    }
}
