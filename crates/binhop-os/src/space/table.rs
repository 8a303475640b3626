//! A hash table from (address space, virtual page) to a dense number.
//!
//! Only looked up, never walked: its order shows in no result.

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

    /// Takes out a pair that is there. Entries behind it move up, so that no gap stands between an entry and its slot.
    pub(super) fn remove(&mut self, space: u32, page: u64) {
        let mask = self.entries.len() - 1;
        let mut gap = self.slot(space, page);
        while self.entries[gap].page != page || self.entries[gap].space != space {
            debug_assert!(self.entries[gap].value.is_some(), "the pair is there");
            gap = (gap + 1) & mask;
        }
        let mut next = gap;
        loop {
            next = (next + 1) & mask;
            let Entry { page, space, value } = self.entries[next];
            if value.is_none() {
                break;
            }
            // An entry may move into the gap if its slot does not lie behind the gap.
            let home = self.slot(space, page);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(gap) & mask {
                self.entries[gap] = self.entries[next];
                gap = next;
            }
        }
        self.entries[gap] = Entry::default();
        self.len -= 1;
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
        // Half of them leave in another order, then the rest: what remains is found.
        let pairs: Vec<(u32, u64)> = model.keys().copied().collect();
        for odd in [1, 0] {
            for &(space, page) in
                pairs.iter().rev().filter(|(space, page)| (page ^ u64::from(*space)) & 1 == odd)
            {
                table.remove(space, page);
                model.remove(&(space, page));
                assert_eq!(table.get(space, page), None);
            }
            assert!(model.iter().all(|(&(space, page), &value)| table.get(space, page) == Some(value)));
        }
        assert_eq!(table.len, 0);
        assert!(table.entries.iter().all(|entry| entry.value.is_none()));
    }
}
