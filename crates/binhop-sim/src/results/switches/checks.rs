//! `check` compares the sums of switches with each other and with the totals of the run.
//!
//! # Invariants
//! - On either side, the instructions and the cycles of all segments add up to the totals. The total of the private
//!   side is counted apart, by the clocks of the private computers.
//! - The waits by level, the waits of write buffers and the waits of the kernel together are the cycles less the
//!   instructions.
//! - In each interval the sums over causes and the sums over lives are the sums over all segments.
//! - An interval of the longer length has as many instructions and cycles as the intervals of the shorter length in it
//!   have together, if there are such intervals.
//! - The intervals of a length have no more instructions and cycles than the segments after a switch.

use std::collections::BTreeMap;

use binhop_base::{Problem, Result};

use super::counts::{BUFFER, CYCLES, CauseOfSegment, INSTRUCTIONS, KERNEL, Layout, Side};
use super::curves::{Curve, Point};
use super::readings::{POINT_RECORD, SwitchReadings};
use crate::prepare::{INTERVAL_LENGTHS, INTERVALS_OF_A_SEGMENT};
use crate::results::account::broken;
use crate::results::spill::Records;

/// `MeasuredTotals` are what the measured part of a run took, counted apart from the segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredTotals {
    pub(crate) instructions: u64,
    /// The cycles of the shared and of the private caches.
    pub(crate) cycles: [u64; 2],
}

/// The sums of an interval over some curves: segments, complete intervals, instructions, and cycles of both sides.
type Sums = [u64; 5];
/// The sums of every interval, by length and number.
type IntervalSums = BTreeMap<(u64, usize), Sums>;

fn add(sums: &mut IntervalSums, length: u64, number: usize, point: &Point) {
    let [shared, private] = point.cycles;
    let counts = [point.segments, point.complete, point.instructions, shared, private];
    let of = sums.entry((length, number)).or_default();
    of.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn sums_of<'a>(curves: impl IntoIterator<Item = &'a Curve>) -> IntervalSums {
    let mut sums = IntervalSums::new();
    for (length, number, point) in curves.into_iter().flat_map(Curve::points) {
        add(&mut sums, length, number, point);
    }
    sums
}

/// Checks what one lane has counted.
///
/// # Errors
/// An invariant is broken, which is a defect of the simulator; or a log cannot be read.
pub(super) fn check(readings: &SwitchReadings, totals: &MeasuredTotals, seed: u64) -> Result<()> {
    check_totals(readings, totals, seed)?;
    let all = sums_of([&readings.all]);
    let mut by_life = IntervalSums::new();
    let (mut records, mut record) = (Records::new(&readings.points), [0; POINT_RECORD]);
    while records.next(&mut record)? {
        add(&mut by_life, record[2], record[3] as usize, &Point::of_record(&record[4..]));
    }
    for (what, parts) in [("causes", sums_of(&readings.by_cause)), ("lives", by_life)] {
        if parts != all {
            let differs = |(at, sums): &(&(u64, usize), &Sums)| parts.get(*at) != Some(*sums);
            let (&(length, number), sums) = all.iter().find(differs).unwrap_or((&(0, 0), &[0; 5]));
            let parts = parts.get(&(length, number)).copied().unwrap_or_default();
            return Err(broken(
                &format!("{parts:?} over the {what}"),
                &format!("in interval {number} of {length} instructions the sum over the {what} is {sums:?}"),
                seed,
            ));
        }
    }
    check_lengths(&all, seed)?;
    let mut after_switches = [0; 3];
    readings.each_cost(|key, counts| {
        if key.cause != CauseOfSegment::None {
            let of = [counts[INSTRUCTIONS], counts[CYCLES], counts[CYCLES + 1]];
            after_switches.iter_mut().zip(of).for_each(|(sum, count)| *sum += count);
        }
    })?;
    for length in INTERVAL_LENGTHS {
        let mut sums = [0; 3];
        for (_, of) in all.iter().filter(|((other, _), _)| *other == length) {
            sums.iter_mut().zip(&of[2..]).for_each(|(sum, count)| *sum += count);
        }
        if sums.iter().zip(after_switches).any(|(&sum, most)| sum > most) {
            return Err(broken(
                &format!("{sums:?} in the intervals of {length} instructions"),
                &format!("the segments after a switch have {after_switches:?} instructions and cycles"),
                seed,
            ));
        }
    }
    Ok(())
}

/// Checks the sums over segments against the totals of the run.
fn check_totals(readings: &SwitchReadings, totals: &MeasuredTotals, seed: u64) -> Result<()> {
    let sums = readings.sum_of_costs()?;
    let [shared, private] = totals.cycles;
    for (what, sum, total) in [
        ("instructions", sums[INSTRUCTIONS], totals.instructions),
        ("cycles", sums[CYCLES], shared),
        ("cycles in private caches", sums[CYCLES + 1], private),
    ] {
        if sum != total {
            return Err(unequal(sum, what, total, seed));
        }
    }
    let layout = Layout::new(readings.caches());
    for side in [Side::Shared, Side::Private] {
        let levels = (0..=readings.caches()).flat_map(|level| [(level, false), (level, true)]);
        let parts: u64 = levels.map(|(level, data)| sums[layout.wait(level, data, side)]).sum();
        let parts = parts + sums[BUFFER + side as usize] + sums[KERNEL + side as usize];
        let total = sums[CYCLES + side as usize] - sums[INSTRUCTIONS];
        if parts != total {
            return Err(unequal(parts, "cycles waited by level", total, seed));
        }
    }
    Ok(())
}

/// Checks each longer interval against the shorter intervals in it.
fn check_lengths(all: &IntervalSums, seed: u64) -> Result<()> {
    let [short, long] = INTERVAL_LENGTHS;
    let times = (long / short) as usize;
    let of =
        |length, number: usize| all.get(&(length, number)).map_or([0; 3], |sums| [sums[2], sums[3], sums[4]]);
    for number in 0..INTERVALS_OF_A_SEGMENT as usize / times {
        let mut parts = [0; 3];
        for part in number * times..(number + 1) * times {
            parts.iter_mut().zip(of(short, part)).for_each(|(sum, count)| *sum += count);
        }
        let whole = of(long, number);
        if parts != whole {
            return Err(broken(
                &format!("{parts:?} in intervals of {short} instructions"),
                &format!("interval {number} of {long} instructions has {whole:?} instructions and cycles"),
                seed,
            ));
        }
    }
    Ok(())
}

fn unequal(sum: u64, what: &str, total: u64, seed: u64) -> Box<Problem> {
    broken(
        &format!("{sum} {what} over all segments"),
        &format!("the sum over segments is the total ({total})"),
        seed,
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binhop_base::Asid;

    use super::*;
    use crate::results::switches::curves::Piece;
    use crate::results::switches::{SegmentKey, SideAccess, SwitchTally};

    /// Returns the tally of two segments of two lives, with the totals.
    fn counted() -> (SwitchTally, MeasuredTotals) {
        let mut tally = SwitchTally::new(1, false, &Arc::default());
        let waits =
            |shared, private| [shared, private].map(|cycles| SideAccess { level: 1, cycles, stalled: 0 });
        tally.end_segment(0, CauseOfSegment::Involuntary).unwrap();
        for (asid, start) in [(1, 0), (2, 2_500)] {
            let cause = if asid == 1 { CauseOfSegment::Start } else { CauseOfSegment::Involuntary };
            tally.begin_segment(SegmentKey { asid: Asid(asid), life: 0, cause, syscall: None }, start);
            for since in [1_000, 2_000] {
                tally.access(true, waits(60, 20));
                tally.piece(since, start + since);
            }
            tally.access(true, waits(7, 7));
            tally.end_segment(start + 2_500, CauseOfSegment::Involuntary).unwrap();
        }
        (tally, MeasuredTotals { instructions: 5_000, cycles: [5_000 + 254, 5_000 + 94] })
    }

    fn problem(tally: SwitchTally, totals: &MeasuredTotals) -> String {
        tally.finish(totals, 3).unwrap_err().to_string()
    }

    #[test]
    fn sums_that_are_equal_pass() {
        let (tally, totals) = counted();
        tally.finish(&totals, 3).unwrap();
    }

    #[test]
    fn each_sum_can_be_wrong_and_is_named() {
        let (tally, totals) = counted();
        let cycles = [totals.cycles[0], totals.cycles[1] + 1];
        assert!(problem(tally, &MeasuredTotals { cycles, ..totals }).contains("cycles in private caches"));
        let piece =
            Piece { length: 0, number: 1, complete: true, instructions: 1_000, cycles: [1_060, 1_020] };
        let (mut tally, totals) = counted();
        tally.add_to_cause(CauseOfSegment::Start, &piece);
        assert!(problem(tally, &totals).contains("the sum over the causes"));
        let (mut tally, totals) = counted();
        tally.add_to_life(Asid(2), 0, &piece);
        assert!(problem(tally, &totals).contains("the sum over the lives"));
        let everywhere = |piece: &Piece| {
            let (mut tally, totals) = counted();
            tally.add_to_all(piece);
            tally.add_to_cause(CauseOfSegment::Start, piece);
            tally.add_to_life(Asid(1), 0, piece);
            problem(tally, &totals)
        };
        assert!(everywhere(&piece).contains("interval 0 of 10000 instructions has"));
        assert!(
            everywhere(&Piece { length: 1, number: 50, ..piece }).contains("the segments after a switch")
        );
    }
}
