//! `LookupCache` is a small table of recent look-ups that is often cleared.
//!
//! Events that change address spaces clear the table. When such events are frequent, few slots are filled
//! between two of them, and clearing those slots costs less than filling the whole table.

use std::ops::Index;

/// `LookupCache` holds `N` slots, at most 2¹⁶.
pub(crate) struct LookupCache<T, const N: usize> {
    slots: Vec<T>,
    nothing: T,
    /// The slots filled since the last clearing, as long as they are few.
    filled: Vec<u16>,
}

impl<T: Copy, const N: usize> LookupCache<T, N> {
    /// Up to this many filled slots are cleared one by one. If more are filled, the whole table is cleared.
    const LISTED: usize = N / 16;

    /// Makes an empty table: every slot holds `nothing`.
    pub(crate) fn new(nothing: T) -> Self {
        const { assert!(N <= 1 << 16) };
        Self { slots: vec![nothing; N], nothing, filled: Vec::new() }
    }

    #[inline]
    pub(crate) fn put(&mut self, slot: usize, value: T) {
        if self.filled.len() < Self::LISTED {
            self.filled.push(slot as u16);
        }
        self.slots[slot] = value;
    }

    /// Clears every slot.
    pub(crate) fn forget(&mut self) {
        if self.filled.len() < Self::LISTED {
            self.filled.iter().for_each(|&slot| self.slots[usize::from(slot)] = self.nothing);
        } else {
            self.slots.fill(self.nothing);
        }
        self.filled.clear();
    }
}

impl<T, const N: usize> Index<usize> for LookupCache<T, N> {
    type Output = T;

    #[inline]
    fn index(&self, slot: usize) -> &T {
        &self.slots[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_was_filled_is_forgotten() {
        let mut slots = LookupCache::<u32, 1024>::new(0);
        let listed = LookupCache::<u32, 1024>::LISTED;
        for filled in [1, listed - 1, listed, listed + 1, 1024] {
            (0..filled).for_each(|slot| slots.put(slot, 7));
            assert!((0..filled).all(|slot| slots[slot] == 7));
            slots.forget();
            assert!((0..1024).all(|slot| slots[slot] == 0), "{filled} filled");
        }
    }
}
