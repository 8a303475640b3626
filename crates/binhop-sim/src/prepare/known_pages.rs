//! `KnownPages` knows the entries of first-level TLBs, so that few references are looked up.
//!
//! `KnownPages` has the entry of each mapping whose page is in the first-level TLB of a port. A row that is passed
//! finds the entry by its mapping. Only a page without an entry is looked up. A row that is skipped does not even look
//! for an entry: the slot of its line sleeps if the page is in no entry (see `filter/sleep.rs`). An entry is forgotten
//! when it leaves the TLB. A copy on write ends translations, so an entry serves stores and reads alike.
//!
//! The loop that skips rows notes the time of a reference under the mapping of its line, which it finds beside the slot
//! of the line. It neither asks whether the page is in the TLB, nor looks for the entry. When the TLB chooses a victim,
//! it asks for the time of the mapping that an entry translates ([`LastUses`]).
//!
//! This is exact where a hit in a first-level TLB changes at most a time (see [`Mmu::uses_are_times`]), and where each
//! filter serves one first-level TLB.

use binhop_base::MappingId;
use binhop_hw::{LastUses, Mmu};

use super::filter::{Filters, SkippedPages};
use crate::occasion::Port;

/// An entry that is not known. No entry has this number.
const UNKNOWN: u32 = u32::MAX;

/// The mapping that an entry is not known to translate. No mapping has this number.
const NO_MAPPING: u32 = u32::MAX;

/// `KnownPages` holds the known pages of the space that runs.
pub(super) struct KnownPages {
    /// True if one filter and one TLB serve both ports.
    is_unified: bool,
    /// For each mapping, the entry that translates its page for each port, or [`UNKNOWN`].
    entries: Vec<[u32; 2]>,
    /// For each entry, the mapping whose page it is known to translate, or [`NO_MAPPING`].
    mappings: Vec<u32>,
    /// For each mapping and port, the time of the last reference that was not looked up.
    uses: Vec<[u64; 2]>,
    /// True if no entry is known, and all slots of the filters are asleep or empty.
    is_empty: bool,
}

impl KnownPages {
    /// Makes the known pages of these TLBs, none yet. `None`: pages must be looked up. `is_split` says whether fetches
    /// and data have a filter each.
    pub(super) fn new(mmu: &Mmu, is_split: bool) -> Option<Self> {
        (mmu.uses_are_times() && (mmu.shares_first_level() || is_split)).then(|| Self {
            is_unified: !is_split,
            entries: Vec::new(),
            mappings: Vec::new(),
            uses: Vec::new(),
            is_empty: true,
        })
    }

    /// Returns whether the page of a mapping is known to be in the first-level TLB of a port.
    #[inline]
    pub(super) fn knows(&self, port: Port, mapping: MappingId) -> bool {
        self.entry(port as usize, mapping).is_some()
    }

    #[inline]
    fn entry(&self, port: usize, mapping: MappingId) -> Option<u32> {
        let entry = self.entries.get(mapping.index())?[port];
        (entry != UNKNOWN).then_some(entry)
    }

    /// Notes that an entry has just translated a mapping's page for a port.
    pub(super) fn know(&mut self, port: Port, mapping: MappingId, entry: u32) {
        if self.mappings.len() <= entry as usize {
            self.mappings.resize(entry as usize + 1, NO_MAPPING);
        }
        if self.entries.len() <= mapping.index() {
            self.entries.resize(mapping.index() + 1, [UNKNOWN; 2]);
            self.uses.resize(mapping.index() + 1, [0; 2]);
        }
        self.is_empty = false;
        self.mappings[entry as usize] = mapping.0;
        for of in 0..2 {
            if self.is_unified || of == port as usize {
                self.entries[mapping.index()][of] = entry;
            }
        }
    }

    /// Notes the time of a reference through a port to a page that is known.
    #[inline]
    pub(super) fn note(&mut self, port: Port, mapping: MappingId, time: u64) {
        self.uses().note(port as usize, mapping.0, time);
    }

    /// Returns the times of uses, so that rows may be skipped.
    #[inline]
    pub(super) fn uses(&mut self) -> KnownUses<'_> {
        KnownUses(&mut self.uses)
    }

    /// Notes that an entry has left its TLB. The slots that hold lines of its page sleep from now on.
    pub(super) fn forget(&mut self, entry: u32, filters: &mut Filters) {
        let Some(mapping) = self.mappings.get_mut(entry as usize) else { return };
        let mapping = MappingId(std::mem::replace(mapping, NO_MAPPING));
        let Some(entries) = self.entries.get_mut(mapping.index()) else { return };
        for (port, known) in entries.iter_mut().enumerate() {
            if *known == entry {
                *known = UNKNOWN;
                filters.sleep(port, mapping);
            }
        }
    }

    /// Notes that any entry may leave its TLB. The TLBs take over the times of uses. All slots sleep from now on.
    pub(super) fn forget_all(&mut self, mmu: &mut Mmu, filters: &mut Filters) {
        if self.is_empty {
            return;
        }
        mmu.take_uses(&*self);
        for mapping in &mut self.mappings {
            let mapping = MappingId(std::mem::replace(mapping, NO_MAPPING));
            self.entries.get_mut(mapping.index()).into_iter().for_each(|entries| *entries = [UNKNOWN; 2]);
        }
        filters.sleep_all();
        self.is_empty = true;
    }
}

impl LastUses for KnownPages {
    #[inline]
    fn later(&self, entry: u32, time: u64) -> Option<u64> {
        let mapping = MappingId(*self.mappings.get(entry as usize)?);
        let (known, uses) = (self.entries.get(mapping.index())?, self.uses[mapping.index()]);
        let of = |port: usize| if known[port] == entry { uses[port] } else { 0 };
        let last = of(0).max(of(1));
        (last > time).then_some(last)
    }

    fn all(&self, mut note: impl FnMut(u32, u64)) {
        for entry in 0..self.mappings.len() as u32 {
            self.later(entry, 0).into_iter().for_each(|time| note(entry, time));
        }
    }
}

/// `KnownUses` notes the times of rows that are skipped. The slots of lines whose pages must be looked up are asleep.
pub(super) struct KnownUses<'a>(&'a mut [[u64; 2]]);

impl SkippedPages for KnownUses<'_> {
    const NOTES: bool = true;

    #[inline(always)]
    fn note(&mut self, port: usize, id: u32, time: u64) {
        if let Some(uses) = self.0.get_mut(id as usize) {
            uses[port] = time;
        }
    }
}

#[cfg(test)]
mod tests {
    use binhop_hw::{MmuConfig, TlbConfig, TlbPage, TlbReplacement};

    use super::super::filter::Shape;
    use super::*;

    fn mmu(is_shared: bool) -> Mmu {
        let tlb = TlbConfig {
            name: "tlb".into(),
            entries: 8,
            ways: 8,
            replacement: TlbReplacement::Lru,
            wired: 0,
            pages: vec![12],
            next: None,
        };
        Mmu::new(&MmuConfig {
            base_log2: 12,
            tlbs: vec![tlb.clone(), tlb],
            fetch: vec![0],
            data: vec![usize::from(!is_shared)],
            tagged: true,
            spaces: None,
            walk_caches: vec![],
        })
    }

    fn filters() -> Filters {
        Filters::new([Shape::of_slots(6, 64); 2], true, true)
    }

    #[test]
    fn a_page_is_known_from_its_look_up_until_its_entry_leaves() {
        let (mut mmu, mut filters) = (mmu(false), filters());
        let mut known = KnownPages::new(&mmu, true).unwrap();
        let knows = |known: &KnownPages, mapping| {
            [Port::Fetch, Port::Data].map(|port| known.knows(port, MappingId(mapping)))
        };
        assert_eq!(knows(&known, 3), [false; 2]);
        known.know(Port::Data, MappingId(3), 5);
        assert_eq!(knows(&known, 3), [false, true]);
        known.know(Port::Fetch, MappingId(3), 2);
        known.know(Port::Data, MappingId(4), 6);
        assert_eq!([knows(&known, 3), knows(&known, 4)], [[true; 2], [false, true]]);
        known.forget(7, &mut filters);
        known.forget(5, &mut filters);
        assert_eq!([knows(&known, 3), knows(&known, 4)], [[true, false], [false, true]]);
        // Another entry translates the page now. What the old entry does no longer matters.
        known.know(Port::Data, MappingId(3), 8);
        known.forget(5, &mut filters);
        assert_eq!(knows(&known, 3), [true; 2]);
        known.forget_all(&mut mmu, &mut filters);
        assert_eq!([knows(&known, 3), knows(&known, 4)], [[false; 2]; 2]);
    }

    #[test]
    fn the_last_use_of_an_entry_is_the_last_use_of_its_page() {
        let mut filters = filters();
        let mut mmu = mmu(true);
        mmu.switch(0);
        let mut known = KnownPages::new(&mmu, false).unwrap();
        mmu.advance(1);
        mmu.fill(1, TlbPage { space: 0, number: 9, size_log2: 12 });
        let entry = mmu.entry_of_last(1).unwrap();
        known.know(Port::Data, MappingId(3), entry);
        assert!(known.knows(Port::Fetch, MappingId(3)));
        let last = |known: &KnownPages| {
            let mut all = 0;
            known.all(|of, time| all = if of == entry { time.max(all) } else { all });
            assert_eq!(known.later(entry, all), None);
            assert!(all == 0 || known.later(entry, all - 1) == Some(all));
            all
        };
        assert_eq!(last(&known), 0);
        known.note(Port::Data, MappingId(3), 3);
        known.uses().note(0, 3, 2);
        known.uses().note(1, 9, 7);
        assert_eq!(last(&known), 3);
        known.uses().note(0, 3, 4);
        assert_eq!(last(&known), 4);
        filters.pass(1, 7, 3, false, 5);
        known.forget(entry, &mut filters);
        assert_eq!(last(&known), 0);
        assert_eq!(filters.drops_or_wakes(1, 7, false, 6), (false, true));
    }
}
