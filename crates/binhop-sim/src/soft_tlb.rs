//! `SoftTlb` caches recent translations of address spaces, because a look-up there costs more than a reference. It
//! belongs to the simulator, not to the simulated machine.
//!
//! The table is direct-mapped. Events that change address spaces clear it. When such events are frequent, few slots are
//! filled between two events, and clearing these slots costs less than clearing the whole table.

use binhop_base::{Asid, PageNo};
use binhop_os::Touch;

/// `SoftTlbEntry` is the last translation of a virtual page in one address space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoftTlbEntry {
    /// The number of the virtual page.
    pub(crate) page_no: u64,
    asid: u32,
    /// The number of the mapping.
    pub(crate) mapping: u32,
    /// The number of the page behind the mapping.
    pub(crate) page: u32,
    /// True if a store keeps the translation; false if the first store may copy the page.
    write_free: bool,
}

impl SoftTlbEntry {
    /// The entry of no page: no virtual page has this number.
    pub(crate) const EMPTY: Self =
        Self { page_no: u64::MAX, asid: 0, mapping: 0, page: 0, write_free: false };

    /// Makes the entry of a page that an address space has just translated.
    pub(crate) fn new(asid: Asid, page_no: PageNo, touch: &Touch) -> Self {
        let (mapping, page) = (touch.mapping.0, touch.page.0);
        Self { page_no: page_no.0, asid: asid.0, mapping, page, write_free: touch.write_free }
    }

    /// Returns whether this is the translation of a virtual page of the entry's address space, for a store or a read.
    #[inline(always)]
    pub(crate) fn translates(&self, page_no: u64, store: bool) -> bool {
        self.page_no == page_no && (self.write_free || !store)
    }
}

/// `SoftTlb` holds `N` entries, at most 2¹⁶.
pub(crate) struct SoftTlb<const N: usize> {
    entries: Vec<SoftTlbEntry>,
    /// The slots filled since the last clearing, as long as they are few.
    filled: Vec<u16>,
}

impl<const N: usize> SoftTlb<N> {
    /// Up to this many filled slots are cleared one by one. If more are filled, the whole table is cleared.
    const LISTED: usize = N / 16;

    /// Makes an empty table.
    pub(crate) fn new() -> Self {
        const { assert!(N <= 1 << 16) };
        Self { entries: vec![SoftTlbEntry::EMPTY; N], filled: Vec::new() }
    }

    #[inline(always)]
    fn slot(asid: u32, page_no: u64) -> usize {
        (page_no ^ u64::from(asid).wrapping_mul(0x9E37_79B9)) as usize % N
    }

    /// Returns the translation of a virtual page for a store or a read, if the table holds it.
    #[inline(always)]
    pub(crate) fn find(&self, asid: Asid, page_no: u64, store: bool) -> Option<SoftTlbEntry> {
        let entry = self.entries[Self::slot(asid.0, page_no)];
        (entry.asid == asid.0 && entry.translates(page_no, store)).then_some(entry)
    }

    /// Puts an entry into its slot.
    #[inline]
    pub(crate) fn put(&mut self, entry: SoftTlbEntry) {
        let slot = Self::slot(entry.asid, entry.page_no);
        if self.filled.len() < Self::LISTED {
            self.filled.push(slot as u16);
        }
        self.entries[slot] = entry;
    }

    /// Clears every slot.
    pub(crate) fn clear(&mut self) {
        if self.filled.len() < Self::LISTED {
            self.filled.iter().for_each(|&slot| self.entries[usize::from(slot)] = SoftTlbEntry::EMPTY);
        } else {
            self.entries.fill(SoftTlbEntry::EMPTY);
        }
        self.filled.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(asid: u32, page_no: u64, write_free: bool) -> SoftTlbEntry {
        SoftTlbEntry { page_no, asid, mapping: 1, page: 2, write_free }
    }

    #[test]
    fn whatever_was_put_is_found_until_the_table_is_cleared() {
        let mut tlb = SoftTlb::<1024>::new();
        let listed = SoftTlb::<1024>::LISTED as u64;
        for filled in [1, listed - 1, listed, listed + 1, 1024] {
            (0..filled).for_each(|page_no| tlb.put(entry(0, page_no, true)));
            assert!((0..filled).all(|page_no| tlb.find(Asid(0), page_no, true).is_some()));
            tlb.clear();
            assert!((0..1024).all(|page_no| tlb.find(Asid(0), page_no, false).is_none()), "{filled} filled");
        }
    }

    #[test]
    fn a_translation_is_of_one_address_space_and_serves_stores_only_where_nothing_is_copied() {
        let mut tlb = SoftTlb::<1024>::new();
        tlb.put(entry(3, 7, false));
        assert!(tlb.find(Asid(3), 7, false).is_some());
        assert!(tlb.find(Asid(3), 7, true).is_none() && tlb.find(Asid(4), 7, false).is_none());
        tlb.put(entry(3, 7, true));
        assert!(tlb.find(Asid(3), 7, true).is_some());
    }
}
