//! `Fifo` evicts the line that came first. It keeps the ways of a set in order of arrival, the latest first. A hit
//! changes nothing.

use super::{
    ArrayShape, PackedPolicy, Policy, move_to_back, move_to_front, move_to_front_of_order, way_in_order,
};

#[derive(Clone, Debug)]
pub(crate) struct Fifo;

impl Policy for Fifo {
    const NAME: &str = "fifo";
    const MEANING: &str = "The line that came first.";
    const DRAWS: bool = false;
    const REHIT_IS_NEUTRAL: bool = true;
    const HITS_ARE_NEUTRAL: bool = true;
    const EMPTY_WAYS_ARE_LAST: bool = true;

    fn new(_array: &ArrayShape) -> Self {
        Self
    }

    fn bytes_of_a_set(_ways: u64) -> u64 {
        0
    }

    #[inline]
    fn hit<W: Copy>(&mut self, _ways: &mut [W], _set: usize, _way: usize) {}

    #[inline]
    fn filled<W: Copy>(&mut self, ways: &mut [W], _set: usize, way: usize) {
        move_to_front(ways, way);
    }

    #[inline]
    fn victim<W: Copy>(&mut self, ways: &[W], _set: usize) -> usize {
        ways.len() - 1
    }

    fn removed<W: Copy>(&mut self, ways: &mut [W], _set: usize, way: usize) {
        move_to_back(ways, way);
    }
}

/// The state is the order of the ways, the latest arrival first.
impl PackedPolicy for Fifo {
    fn packed(_array: &ArrayShape) -> Self {
        Self
    }

    #[inline(always)]
    fn hit_packed(_state: &mut u64, _way: usize, _ways: usize) {}

    #[inline(always)]
    fn filled_packed(state: &mut u64, way: usize, _ways: usize) {
        move_to_front_of_order(state, way);
    }

    #[inline(always)]
    fn victim_packed(&mut self, state: &mut u64, _set: usize, ways: usize) -> usize {
        Self::way_at(*state, ways - 1)
    }

    #[inline(always)]
    fn way_at(state: u64, place: usize) -> usize {
        way_in_order(state, place)
    }
}
