//! `Curve` adds up the pieces of segments, by interval since the switch.

use super::counts::Side;
use crate::prepare::{INTERVAL_LENGTHS, INTERVALS_OF_A_SEGMENT};

/// `Piece` is an interval of a segment, or the part of an interval in which the segment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The place of the interval's length in [`INTERVAL_LENGTHS`].
    pub(crate) length: usize,
    /// The number of the interval in its segment, from 0.
    pub(crate) number: usize,
    /// True if the segment was alive at the interval's end.
    pub(crate) complete: bool,
    pub(crate) instructions: u64,
    /// The cycles of the shared and of the private caches.
    pub(crate) cycles: [u64; 2],
}

/// `Point` holds the sums over the pieces of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// The segments with a piece in the interval.
    pub(crate) segments: u64,
    /// The segments that were alive at the interval's end.
    pub(crate) complete: u64,
    pub(crate) instructions: u64,
    pub(crate) cycles: [u64; 2],
    /// The largest cycles of a complete interval.
    pub(crate) most: [u64; 2],
    /// The sums of cycles² / instructions: shared, private, and of the difference.
    pub(crate) squares: [f64; 3],
}

/// The number of integers and squares of a point in a log.
pub(crate) const POINT_WIDTH: usize = 10;

impl Point {
    fn add(&mut self, piece: &Piece) {
        let Piece { complete, instructions, cycles, .. } = *piece;
        self.segments += 1;
        self.complete += u64::from(complete);
        self.instructions += instructions;
        for side in [Side::Shared as usize, Side::Private as usize] {
            self.cycles[side] += cycles[side];
            if complete {
                self.most[side] = self.most[side].max(cycles[side]);
            }
        }
        if instructions > 0 {
            let [shared, private] = cycles.map(|cycles| cycles as f64);
            for (sum, value) in self.squares.iter_mut().zip([shared, private, shared - private]) {
                *sum += value * value / instructions as f64;
            }
        }
    }

    pub(crate) fn record(&self) -> [u64; POINT_WIDTH] {
        let [shared, private, excess] = self.squares.map(f64::to_bits);
        let [most_shared, most_private] = self.most;
        let Self { segments, complete, instructions, cycles, .. } = *self;
        [
            segments,
            complete,
            instructions,
            cycles[0],
            cycles[1],
            most_shared,
            most_private,
            shared,
            private,
            excess,
        ]
    }

    pub(crate) fn of_record(record: &[u64]) -> Self {
        Self {
            segments: record[0],
            complete: record[1],
            instructions: record[2],
            cycles: [record[3], record[4]],
            most: [record[5], record[6]],
            squares: [record[7], record[8], record[9]].map(f64::from_bits),
        }
    }
}

/// `Curve` holds the points of all intervals, for each length. It is as long as the longest segment so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Curve {
    points: [Vec<Point>; INTERVAL_LENGTHS.len()],
}

impl Curve {
    pub(crate) fn add(&mut self, piece: &Piece) {
        debug_assert!((piece.number as u64) < INTERVALS_OF_A_SEGMENT);
        let points = &mut self.points[piece.length];
        if points.len() <= piece.number {
            points.resize(piece.number + 1, Point::default());
        }
        points[piece.number].add(piece);
    }

    /// The most bytes of the points of a curve.
    pub(crate) const MOST_BYTES: usize =
        INTERVAL_LENGTHS.len() * (INTERVALS_OF_A_SEGMENT as usize).next_power_of_two() * size_of::<Point>();

    /// Returns every point with its interval's length in instructions and its number.
    pub(crate) fn points(&self) -> impl Iterator<Item = (u64, usize, &Point)> {
        INTERVAL_LENGTHS.iter().zip(&self.points).flat_map(|(&length, points)| {
            points.iter().enumerate().map(move |(number, point)| (length, number, point))
        })
    }
}
