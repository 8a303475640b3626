//! Least recently used. The ways of a set are kept in order of their last access, the latest first, so
//! the victim is the last one and empty ways are at the end.

use super::{Policy, Ways, move_to_back, move_to_front};

#[derive(Clone, Debug)]
pub(crate) struct Lru;

impl Policy for Lru {
    const REHIT_IS_NEUTRAL: bool = true;
    const EMPTY_WAYS_ARE_LAST: bool = true;

    #[inline]
    fn hit(&mut self, ways: &mut Ways, _set: usize, way: usize) {
        move_to_front(ways, way);
    }

    #[inline]
    fn filled(&mut self, ways: &mut Ways, _set: usize, way: usize) {
        move_to_front(ways, way);
    }

    #[inline]
    fn victim(&mut self, ways: &Ways, _set: usize) -> usize {
        ways.len() - 1
    }

    fn removed(&mut self, ways: &mut Ways, _set: usize, way: usize) {
        move_to_back(ways, way);
    }
}
