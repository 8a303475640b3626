//! This part of an [`Mmu`] looks pages up, and fills TLBs.

use super::{Mmu, Tlb, TlbOutcome};
use crate::tlb::array::Put;
use crate::tlb::page::{PageKey, TlbPage};
use crate::tlb::use_times::LastUses;

impl Mmu {
    /// Looks a page up in the first level, for one reference. If the page is not there, nothing changes, and the
    /// reference is not counted: the caller looks it up with [`Mmu::look_up`].
    ///
    /// # Panics
    /// The port has no TLB for pages of this size.
    #[inline(always)]
    pub fn find_first(&mut self, port: usize, page: TlbPage) -> bool {
        let key = PageKey::new(page);
        let first = self.first_level(port, key);
        let Some(slot) = self.tlbs[first].array.find(key) else { return false };
        self.note_pending();
        let tlb = &mut self.tlbs[first];
        tlb.counts.ports[port].accesses += 1;
        tlb.array.touch(slot, &mut self.times);
        self.set_last(port, first, slot, key);
        true
    }

    /// Looks up a page for one reference. A hit in a second-level TLB fills the first level.
    ///
    /// # Panics
    /// The port has no TLB for pages of this size.
    #[inline(always)]
    pub fn look_up(&mut self, port: usize, page: TlbPage) -> TlbOutcome {
        self.look_up_knowing(port, page, false, &())
    }

    /// Does what [`Mmu::look_up`] does, where the caller has noted uses. If `of_table`, the page is a page of a page
    /// table: a hit in a second-level TLB fills a wired slot of the first level, if the first level has wired slots.
    ///
    /// # Panics
    /// The port has no TLB for pages of this size.
    #[inline(always)]
    pub fn look_up_knowing(
        &mut self,
        port: usize,
        page: TlbPage,
        of_table: bool,
        uses: &impl LastUses,
    ) -> TlbOutcome {
        self.note_pending();
        let key = PageKey::new(page);
        let first = self.first_level(port, key);
        let tlb = &mut self.tlbs[first];
        tlb.counts.ports[port].accesses += 1;
        if let Some(slot) = tlb.array.find(key) {
            tlb.array.touch(slot, &mut self.times);
            self.set_last(port, first, slot, key);
            return TlbOutcome::First(first);
        }
        self.look_behind(port, first, key, of_table, uses)
    }

    /// Continues a lookup that has missed the first level. `wired` says whether a hit fills a wired slot there.
    #[inline(never)]
    fn look_behind(
        &mut self,
        port: usize,
        first: usize,
        key: PageKey,
        wired: bool,
        uses: &impl LastUses,
    ) -> TlbOutcome {
        self.tlbs[first].counts.ports[port].misses += 1;
        let Some(second) = self.second_level(first, key) else { return TlbOutcome::Miss };
        let Tlb { counts, array, .. } = &mut self.tlbs[second];
        counts.ports[port].accesses += 1;
        let Some(slot) = array.find(key) else {
            counts.ports[port].misses += 1;
            return TlbOutcome::Miss;
        };
        array.touch(slot, &mut self.times);
        let slot = self.insert(first, key, wired, uses);
        self.set_last(port, first, slot, key);
        TlbOutcome::Second(second)
    }

    /// Fills the port's first level and the second level behind it, after a walk.
    ///
    /// # Panics
    /// The port has no TLB for pages of this size.
    #[inline]
    pub fn fill(&mut self, port: usize, page: TlbPage) {
        self.fill_knowing(port, page, false, &());
    }

    /// Does what [`Mmu::fill`] does, where the caller has noted uses. If `of_table`, the page is a page of a page
    /// table, and its entries go into the wired slots of each level that has such slots.
    ///
    /// # Panics
    /// The port has no TLB for pages of this size.
    pub fn fill_knowing(&mut self, port: usize, page: TlbPage, of_table: bool, uses: &impl LastUses) {
        self.fill_by(port, page, |mmu, tlb, key| mmu.put(tlb, key, of_table, uses));
    }

    /// Does what [`Mmu::fill_knowing`] does for a page that no TLB of the port holds: the port's last look-up has
    /// missed the page, and nothing has filled the page since.
    ///
    /// # Panics
    /// The port has no TLB for pages of this size.
    #[inline]
    pub fn fill_missed(&mut self, port: usize, page: TlbPage, uses: &impl LastUses) {
        self.fill_by(port, page, |mmu, tlb, key| mmu.insert(tlb, key, false, uses));
    }

    /// Fills the port's first level and the second level behind it. `put` puts a page into a TLB, and returns the slot.
    #[inline(always)]
    fn fill_by(&mut self, port: usize, page: TlbPage, put: impl Fn(&mut Self, usize, PageKey) -> usize) {
        let key = PageKey::new(page);
        self.note_pending();
        let first = self.first_level(port, key);
        if let Some(second) = self.second_level(first, key) {
            put(self, second, key);
        }
        let slot = put(self, first, key);
        self.set_last(port, first, slot, key);
    }

    fn put(&mut self, tlb: usize, key: PageKey, wired: bool, uses: &impl LastUses) -> usize {
        let put = self.tlbs[tlb].array.put(key, wired, &mut self.times, uses);
        self.count_put(tlb, put)
    }

    /// Puts a page into a TLB that does not hold the page.
    fn insert(&mut self, tlb: usize, key: PageKey, wired: bool, uses: &impl LastUses) -> usize {
        let put = self.tlbs[tlb].array.insert(key, wired, &mut self.times, uses);
        self.count_put(tlb, put)
    }

    /// Counts what has come and left. Returns the slot.
    #[inline]
    fn count_put(&mut self, tlb: usize, put: Put) -> usize {
        let Tlb { counts, array, is_first, .. } = &mut self.tlbs[tlb];
        counts.entries.fills += u64::from(!put.was_present);
        if put.evicted {
            counts.entries.evictions += 1;
            if *is_first && let Some(left) = &mut self.left {
                left.push(array.number_of(put.slot));
            }
            self.forget_last(tlb, put.slot);
        }
        put.slot
    }
}
