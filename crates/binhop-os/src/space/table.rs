//! A hash table from (address space, virtual page) to a dense number.
//!
//! Only looked up, never walked: its order shows in no result. Nothing is ever removed.

use alloc::{vec, vec::Vec};
use core::num::NonZeroU32;

#[derive(Clone, Copy, Default)]
struct Entry {
    page: u64,
    space: u32,
    /// The value plus one.
    value: Option<NonZeroU32>,
}

/// Open addressing with linear probing, at most three quarters full.
pub(super) struct Table {
    entries: Vec<Entry>,
    len: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { entries: vec![Entry::default(); 64], len: 0 }
    }

    #[inline]
    fn slot(&self, space: u32, page: u64) -> usize {
        // Fibonacci hashing: neighbouring pages spread over the upper bits.
        let key = page.wrapping_add(u64::from(space).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - self.entries.len().trailing_zeros())) as usize
    }

    #[inline]
    pub(super) fn get(&self, space: u32, page: u64) -> Option<u32> {
        let mut slot = self.slot(space, page);
        loop {
            let entry = &self.entries[slot];
            let value = entry.value?;
            if entry.page == page && entry.space == space {
                return Some(value.get() - 1);
            }
            slot = (slot + 1) & (self.entries.len() - 1);
        }
    }

    /// Adds a pair that is not there. `value` is below `u32::MAX`.
    pub(super) fn insert(&mut self, space: u32, page: u64, value: u32) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            let old = core::mem::take(&mut self.entries);
            self.entries = vec![Entry::default(); old.len() * 2];
            for entry in old.into_iter().filter(|entry| entry.value.is_some()) {
                self.put(entry);
            }
        }
        self.len += 1;
        self.put(Entry { page, space, value: NonZeroU32::new(value + 1) });
    }

    fn put(&mut self, entry: Entry) {
        let mut slot = self.slot(entry.space, entry.page);
        while self.entries[slot].value.is_some() {
            slot = (slot + 1) & (self.entries.len() - 1);
        }
        self.entries[slot] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_keeps_its_value_through_growth() {
        let mut table = Table::new();
        let pairs = (0..10_000u32).map(|i| (i % 7, u64::from(i) << (i % 40)));
        let mut model = alloc::collections::BTreeMap::new();
        for (value, (space, page)) in pairs.enumerate() {
            if model.insert((space, page), value as u32).is_none() {
                table.insert(space, page, value as u32);
            } else {
                model.insert((space, page), table.get(space, page).unwrap());
            }
        }
        assert!(model.iter().all(|(&(space, page), &value)| table.get(space, page) == Some(value)));
        assert_eq!(table.get(7, 0), None);
        assert_eq!(table.get(0, u64::MAX), None);
    }
}
