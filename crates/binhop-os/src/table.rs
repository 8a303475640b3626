//! `Table` is a hash table from a small key to a dense number.
//!
//! The order of the table shows in no result.

use alloc::{vec, vec::Vec};
use core::num::NonZeroU32;

use binhop_base::PageId;

/// `Key` is a key of a [`Table`].
pub(crate) trait Key: Copy + Default + Eq {
    /// Returns a number for the hash. Neighbouring keys have neighbouring numbers.
    fn number(self) -> u64;
}

/// `Pair` is a key of an owner and a number, such as an address space and a virtual page. The halves of the
/// number are fields of their own, so that an entry takes 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pair {
    of: u32,
    low: u32,
    high: u32,
}

impl Pair {
    #[inline]
    pub(crate) fn new(of: u32, number: u64) -> Self {
        Self { of, low: number as u32, high: (number >> 32) as u32 }
    }
}

impl Key for Pair {
    #[inline]
    fn number(self) -> u64 {
        let number = u64::from(self.high) << 32 | u64::from(self.low);
        number.wrapping_add(u64::from(self.of).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }
}

impl Key for PageId {
    #[inline]
    fn number(self) -> u64 {
        self.0.into()
    }
}

impl Key for u32 {
    #[inline]
    fn number(self) -> u64 {
        self.into()
    }
}

#[derive(Clone, Copy, Default)]
struct Entry<K> {
    key: K,
    /// The value plus one.
    value: Option<NonZeroU32>,
}

/// `Table` uses open addressing with linear probing, and is at most three quarters full.
pub(crate) struct Table<K> {
    entries: Vec<Entry<K>>,
    len: usize,
}

/// The number of entries of the smallest table.
const FEWEST: usize = 2;

impl<K: Key> Table<K> {
    /// The bytes of the entries of the smallest table.
    pub(crate) const FEWEST_BYTES: usize = FEWEST * size_of::<Entry<K>>();

    pub(crate) fn new() -> Self {
        Self::with_room(48)
    }

    /// Makes an empty table that holds `pairs` pairs before it grows.
    pub(crate) fn with_room(pairs: usize) -> Self {
        let entries = (pairs * 4).div_ceil(3).next_power_of_two().max(FEWEST);
        Self { entries: vec![Entry::default(); entries], len: 0 }
    }

    #[inline]
    fn slot(&self, key: K) -> usize {
        // Fibonacci hashing: neighbouring keys spread over the upper bits.
        let mixed = key.number().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> (64 - self.entries.len().trailing_zeros())) as usize
    }

    #[inline]
    pub(crate) fn get(&self, key: K) -> Option<u32> {
        let mut slot = self.slot(key);
        loop {
            let entry = &self.entries[slot];
            let value = entry.value?;
            if entry.key == key {
                return Some(value.get() - 1);
            }
            slot = (slot + 1) & (self.entries.len() - 1);
        }
    }

    /// Adds a key that the table lacks. `value` must be below `u32::MAX`.
    pub(crate) fn insert(&mut self, key: K, value: u32) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            let old = core::mem::take(&mut self.entries);
            self.entries = vec![Entry::default(); old.len() * 2];
            for entry in old.into_iter().filter(|entry| entry.value.is_some()) {
                self.put(entry);
            }
        }
        self.len += 1;
        self.put(Entry { key, value: NonZeroU32::new(value + 1) });
    }

    /// Returns each key with its value, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, u32)> {
        self.entries.iter().filter_map(|entry| Some((entry.key, entry.value?.get() - 1)))
    }

    /// Returns the bytes that the table takes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<K>>()
    }

    /// Removes all pairs, and keeps the capacity.
    pub(crate) fn clear(&mut self) {
        self.entries.fill(Entry::default());
        self.len = 0;
    }

    /// Removes a key that the table holds. Entries behind the key move up, so that no gap remains between an
    /// entry and its slot.
    pub(crate) fn remove(&mut self, key: K) {
        let mask = self.entries.len() - 1;
        let mut gap = self.slot(key);
        while self.entries[gap].key != key {
            debug_assert!(self.entries[gap].value.is_some(), "the table holds the key");
            gap = (gap + 1) & mask;
        }
        let mut next = gap;
        loop {
            next = (next + 1) & mask;
            let Entry { key, value } = self.entries[next];
            if value.is_none() {
                break;
            }
            // An entry may move into the gap unless its slot lies behind the gap.
            let home = self.slot(key);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(gap) & mask {
                self.entries[gap] = self.entries[next];
                gap = next;
            }
        }
        self.entries[gap] = Entry::default();
        self.len -= 1;
    }

    fn put(&mut self, entry: Entry<K>) {
        let mut slot = self.slot(entry.key);
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
        let key = |(space, page)| Pair::new(space, page);
        let pairs = (0..10_000u32).map(|i| (i % 7, u64::from(i) << (i % 40)));
        let mut model = alloc::collections::BTreeMap::new();
        for (value, pair) in pairs.enumerate() {
            if model.insert(pair, value as u32).is_none() {
                table.insert(key(pair), value as u32);
            } else {
                model.insert(pair, table.get(key(pair)).unwrap());
            }
        }
        assert!(model.iter().all(|(&pair, &value)| table.get(key(pair)) == Some(value)));
        assert_eq!(table.get(key((7, 0))), None);
        assert_eq!(table.get(key((0, u64::MAX))), None);
        // Half of the pairs leave in another order, then the rest. The table must find the remaining pairs
        // each time.
        let pairs: Vec<(u32, u64)> = model.keys().copied().collect();
        for odd in [1, 0] {
            for &pair in pairs.iter().rev().filter(|(space, page)| (page ^ u64::from(*space)) & 1 == odd) {
                table.remove(key(pair));
                model.remove(&pair);
                assert_eq!(table.get(key(pair)), None);
            }
            assert!(model.iter().all(|(&pair, &value)| table.get(key(pair)) == Some(value)));
        }
        assert_eq!(table.len, 0);
        assert!(table.entries.iter().all(|entry| entry.value.is_none()));
    }
}
