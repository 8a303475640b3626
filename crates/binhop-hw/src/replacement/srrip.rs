//! `Srrip` is static re-reference interval prediction with hit priority (SRRIP-HP) of M = 2 bits (Jaleel, Theobald,
//! Steely, Emer: High Performance Cache Replacement Using Re-Reference Interval Prediction, ISCA 2010).
//!
//! Each line has a predicted re-reference value, from 0 (near-immediate) to 3 (distant). A line that comes gets 2,
//! and a hit sets 0. The victim is the lowest way with 3. While no way has 3, all ways of the set grow by 1.

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

/// The ways with each prediction are 16 bits of the word: the lowest 16 bits are the ways with 0, and the highest 16
/// bits are the ways with 3. A shift of the word by 16 bits lets all ways grow by 1.
const PREDICTION: u32 = 16;

/// Way 0 with any prediction.
const ANY: u64 = 0x0001_0001_0001_0001;

/// Gives a way another prediction.
#[inline(always)]
fn predict(state: &mut u64, way: usize, prediction: u8) {
    *state = *state & !(ANY << way) | 1 << (PREDICTION * u32::from(prediction)) << way;
}

impl PackedPolicy for Srrip {
    const HAS_WIDE_LOOPS: bool = true;

    fn packed(_array: &ArrayShape) -> Self {
        Self { predicted: Vec::new() }
    }

    #[inline(always)]
    fn hit_packed(state: &mut u64, way: usize, _ways: usize) {
        predict(state, way, 0);
    }

    #[inline(always)]
    fn filled_packed(state: &mut u64, way: usize, _ways: usize) {
        predict(state, way, LONG);
    }

    #[inline(always)]
    fn victim_packed(&mut self, state: &mut u64, _set: usize, _ways: usize) -> usize {
        // All ways grow until the farthest has 3. A word of 0 stays 0.
        *state <<= state.leading_zeros() & (u64::BITS - PREDICTION);
        (*state >> (PREDICTION * u32::from(DISTANT))).trailing_zeros() as usize
    }
}
