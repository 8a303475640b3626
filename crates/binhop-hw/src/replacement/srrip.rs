//! `Srrip` is static re-reference interval prediction with hit priority (SRRIP-HP) of M = 2 bits (Jaleel, Theobald,
//! Steely, Emer: High Performance Cache Replacement Using Re-Reference Interval Prediction, ISCA 2010).
//!
//! Each line has a predicted re-reference value, from 0 (near-immediate) to 3 (distant). A line that comes gets 2,
//! and a hit sets 0. The victim is the lowest way with 3. While no way has 3, all ways of the set grow by 1.

use std::hint::select_unpredictable;

use super::{ArrayShape, PackedPolicy, Policy};

const DISTANT: u8 = 3;
const LONG: u8 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Srrip {
    predicted: Vec<u8>,
}

impl Policy for Srrip {
    const NAME: &str = "srrip";
    const MEANING: &str = "Static re-reference interval prediction, 2 bits, hit priority: the lowest way predicted \
        to be used in the distant future.";
    const DRAWS: bool = false;
    // The first hit after the fill brings the prediction from 2 to 0.
    const REHIT_IS_NEUTRAL: bool = false;

    fn new(array: &ArrayShape) -> Self {
        // Only a full set has a victim, so the predictions of empty ways do not matter.
        Self { predicted: vec![0; array.ways * array.sets] }
    }

    fn bytes_of_a_set(ways: u64) -> u64 {
        ways
    }

    #[inline]
    fn hit<W: Copy>(&mut self, ways: &mut [W], set: usize, way: usize) {
        self.predicted[set * ways.len() + way] = 0;
    }

    #[inline]
    fn filled<W: Copy>(&mut self, ways: &mut [W], set: usize, way: usize) {
        self.predicted[set * ways.len() + way] = LONG;
    }

    #[inline]
    fn victim<W: Copy>(&mut self, ways: &[W], set: usize) -> usize {
        let predicted = &mut self.predicted[set * ways.len()..][..ways.len()];
        let farthest = predicted.iter().copied().fold(0, u8::max);
        if farthest < DISTANT {
            predicted.iter_mut().for_each(|value| *value += DISTANT - farthest);
        }
        predicted.iter().position(|&value| value == DISTANT).expect("after ageing the farthest is distant")
    }

    fn removed<W: Copy>(&mut self, _ways: &mut [W], _set: usize, _way: usize) {}
}

/// The predictions of 16 ways lie in two planes of a bit for each way: first the lower bits, then the upper bits.
const UPPER: u32 = 16;

impl PackedPolicy for Srrip {
    const HAS_WIDE_LOOPS: bool = true;

    fn packed(_array: &ArrayShape) -> Self {
        Self { predicted: Vec::new() }
    }

    #[inline(always)]
    fn hit_packed(state: &mut u64, way: usize, _ways: usize) {
        *state &= !((1 | 1 << UPPER) << way);
    }

    #[inline(always)]
    fn filled_packed(state: &mut u64, way: usize, _ways: usize) {
        *state = *state & !(1 << way) | 1 << UPPER << way;
    }

    #[inline(always)]
    fn victim_packed(&mut self, state: &mut u64, _set: usize, ways: usize) -> usize {
        let all = (1 << ways) - 1;
        let (lower, upper) = (*state & all, *state >> UPPER & all);
        let distant = lower & upper != 0;
        // No way has 3. All ways grow until the farthest has it: from 2 by 1, from 1 by 2, and from 0 by 3.
        let (aged_lower, aged_upper) = if upper != 0 {
            (!lower & all, lower | upper)
        } else if lower != 0 {
            (lower, all)
        } else {
            (all, all)
        };
        let lower = select_unpredictable(distant, lower, aged_lower);
        let upper = select_unpredictable(distant, upper, aged_upper);
        *state = lower | upper << UPPER;
        (lower & upper).trailing_zeros() as usize
    }
}
