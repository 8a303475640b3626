//! `KnownPages` knows the entries of first-level TLBs, so that few references are looked up.
//!
//! `KnownPages` has the entry of each mapping whose page is in the first-level TLB of a port. A row that is passed
//! finds the entry by its mapping. Only a page without an entry is looked up. A row that is skipped does not even look
//! for an entry: the slot of its line sleeps if the page is in no entry (see `filter/sleep.rs`). An entry is forgotten
//! when it leaves the TLB. A copy on write ends translations, so an entry serves stores and reads alike.
//!
//! No reference notes the use of its page. The filters have the time of the last access to the line in each slot.
//! `KnownPages` notes this time when another line takes the slot. When the TLB chooses a victim, it asks for the last
//! use of the mapping that an entry translates ([`KnownUses`]): the latest of these times.
//!
//! This is exact where a hit in a first-level TLB changes at most a time (see [`Mmu::uses_are_times`]), and where each
//! filter serves one first-level TLB.

use binhop_base::MappingId;
use binhop_hw::{LastUses, Mmu};

use super::filter::Filters;
use crate::occasion::Port;

/// An entry that is not known. No entry has this number.
const UNKNOWN: u32 = u32::MAX;

/// The mapping that an entry is not known to translate. No mapping has this number.
const NO_MAPPING: u32 = u32::MAX;

/// `EntriesOfPage` is what is known of the entries that translate a page, and of their uses.
#[derive(Clone, Copy)]
struct EntriesOfPage {
    /// For each port, the entry that translates the page, or [`UNKNOWN`].
    entries: [u32; 2],
    /// For each filter, the time of the last access through a slot that another line has taken since.
    uses: [u64; 2],
}

impl EntriesOfPage {
    const UNKNOWN: Self = Self { entries: [UNKNOWN; 2], uses: [0; 2] };
}

/// `KnownPages` holds the known pages of the space that runs.
pub(super) struct KnownPages {
    /// True if one filter and one TLB serve both ports.
    is_unified: bool,
    /// For each mapping, the bits of the ports for which an entry is known to translate its page. A row that is passed
    /// reads no more than these bits, so they take little room.
    ports: Vec<u8>,
    /// The entries and the uses of the page of each mapping.
    pages: Vec<EntriesOfPage>,
    /// For each entry, the mapping whose page it is known to translate, or [`NO_MAPPING`].
    mappings: Vec<u32>,
    /// True if no entry is known, and all slots of the filters are asleep or empty.
    is_empty: bool,
}

impl KnownPages {
    /// Makes the known pages of these TLBs, none yet. `None`: pages must be looked up. `is_split` says whether fetches
    /// and data have a filter each.
    pub(super) fn new(mmu: &Mmu, is_split: bool) -> Option<Self> {
        (mmu.uses_are_times() && (mmu.shares_first_level() || is_split)).then(|| Self {
            is_unified: !is_split,
            ports: Vec::new(),
            pages: Vec::new(),
            mappings: Vec::new(),
            is_empty: true,
        })
    }

    /// Returns whether the page of a mapping is known to be in the first-level TLB of a port.
    #[inline]
    pub(super) fn knows(&self, port: Port, mapping: MappingId) -> bool {
        self.ports.get(mapping.index()).is_some_and(|ports| ports >> port as usize & 1 != 0)
    }

    /// Notes that an entry has just translated a mapping's page for a port. The slots that hold lines of the page are
    /// awake from now on.
    pub(super) fn know(&mut self, port: Port, mapping: MappingId, entry: u32, filters: &mut Filters) {
        if self.mappings.len() <= entry as usize {
            self.mappings.resize(entry as usize + 1, NO_MAPPING);
        }
        if self.pages.len() <= mapping.index() {
            self.pages.resize(mapping.index() + 1, EntriesOfPage::UNKNOWN);
            self.ports.resize(mapping.index() + 1, 0);
        }
        self.is_empty = false;
        self.mappings[entry as usize] = mapping.0;
        let entries = &mut self.pages[mapping.index()].entries;
        if self.is_unified {
            *entries = [entry; 2];
            self.ports[mapping.index()] = 0b11;
            filters.wake(0, mapping);
        } else {
            entries[port as usize] = entry;
            self.ports[mapping.index()] |= 1 << port as usize;
            filters.wake(port as usize, mapping);
        }
    }

    /// Notes that a line of a mapping's page has left a slot of a filter, with the time of its last access there.
    #[inline]
    pub(super) fn left(&mut self, filter: usize, mapping: MappingId, time: u64) {
        if let Some(page) = self.pages.get_mut(mapping.index()) {
            page.uses[filter] = time.max(page.uses[filter]);
        }
    }

    /// Returns the times of uses.
    #[inline]
    pub(super) fn uses<'a>(&'a self, filters: &'a Filters) -> KnownUses<'a> {
        KnownUses { known: self, filters }
    }

    /// Notes that an entry has left its TLB. The slots that hold lines of its page sleep from now on.
    pub(super) fn forget(&mut self, entry: u32, filters: &mut Filters) {
        let Some(mapping) = self.mappings.get_mut(entry as usize) else { return };
        let mapping = MappingId(std::mem::replace(mapping, NO_MAPPING));
        let Some(page) = self.pages.get_mut(mapping.index()) else { return };
        for (port, known) in page.entries.iter_mut().enumerate() {
            if *known == entry {
                *known = UNKNOWN;
                self.ports[mapping.index()] &= !(1 << port);
                filters.sleep(if self.is_unified { 0 } else { port }, mapping);
            }
        }
    }

    /// Notes that any entry may leave its TLB. The TLBs take over the times of uses. All slots sleep from now on.
    pub(super) fn forget_all(&mut self, mmu: &mut Mmu, filters: &mut Filters) {
        if self.is_empty {
            return;
        }
        mmu.take_uses(&self.uses(filters));
        for mapping in &mut self.mappings {
            let mapping = MappingId(std::mem::replace(mapping, NO_MAPPING));
            if let Some(page) = self.pages.get_mut(mapping.index()) {
                page.entries = [UNKNOWN; 2];
                self.ports[mapping.index()] = 0;
            }
        }
        filters.sleep_all();
        self.is_empty = true;
    }
}

/// `KnownUses` finds the last uses of entries.
pub(super) struct KnownUses<'a> {
    known: &'a KnownPages,
    filters: &'a Filters,
}

impl LastUses for KnownUses<'_> {
    #[inline]
    fn later(&self, entry: u32, time: u64) -> Option<u64> {
        let Self { known, filters } = self;
        let mapping = MappingId(*known.mappings.get(entry as usize)?);
        let page = known.pages.get(mapping.index())?;
        let of = |port: usize| {
            let is_used = page.entries[port] == entry && !(known.is_unified && port > 0);
            if is_used { filters.last_access(port, mapping).max(page.uses[port]) } else { 0 }
        };
        let last = of(0).max(of(1));
        (last > time).then_some(last)
    }

    fn all(&self, mut note: impl FnMut(u32, u64)) {
        for entry in 0..self.known.mappings.len() as u32 {
            self.later(entry, 0).into_iter().for_each(|time| note(entry, time));
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
        let mut filters = Filters::new([Shape::of_slots(6, 64); 2], true, true);
        filters.let_slots_sleep();
        filters
    }

    #[test]
    fn a_page_is_known_from_its_look_up_until_its_entry_leaves() {
        let (mut mmu, mut filters) = (mmu(false), filters());
        let mut known = KnownPages::new(&mmu, true).unwrap();
        let knows = |known: &KnownPages, mapping| {
            [Port::Fetch, Port::Data].map(|port| known.knows(port, MappingId(mapping)))
        };
        assert_eq!(knows(&known, 3), [false; 2]);
        known.know(Port::Data, MappingId(3), 5, &mut filters);
        assert_eq!(knows(&known, 3), [false, true]);
        known.know(Port::Fetch, MappingId(3), 2, &mut filters);
        known.know(Port::Data, MappingId(4), 6, &mut filters);
        assert_eq!([knows(&known, 3), knows(&known, 4)], [[true; 2], [false, true]]);
        known.forget(7, &mut filters);
        known.forget(5, &mut filters);
        assert_eq!([knows(&known, 3), knows(&known, 4)], [[true, false], [false, true]]);
        // Another entry translates the page now. What the old entry does no longer matters.
        known.know(Port::Data, MappingId(3), 8, &mut filters);
        known.forget(5, &mut filters);
        assert_eq!(knows(&known, 3), [true; 2]);
        known.forget_all(&mut mmu, &mut filters);
        assert_eq!([knows(&known, 3), knows(&known, 4)], [[false; 2]; 2]);
    }

    #[test]
    fn the_last_use_of_an_entry_is_the_last_use_of_its_page() {
        for is_unified in [true, false] {
            let (mut filters, mut mmu) = (filters(), mmu(true));
            mmu.switch(0);
            let mut known = KnownPages::new(&mmu, !is_unified).unwrap();
            mmu.advance(1);
            mmu.fill(1, TlbPage { space: 0, number: 9, size_log2: 12 });
            let entry = mmu.entry_of_last(1).unwrap();
            known.know(Port::Data, MappingId(3), entry, &mut filters);
            assert_eq!(known.knows(Port::Fetch, MappingId(3)), is_unified);
            let last = |known: &KnownPages, filters: &Filters| {
                let (uses, mut all) = (known.uses(filters), 0);
                uses.all(|of, time| all = if of == entry { time.max(all) } else { all });
                assert_eq!(uses.later(entry, all), None);
                assert!(all == 0 || uses.later(entry, all - 1) == Some(all));
                assert!(all == 0 || uses.later(entry, 0).is_some_and(|time| time <= all));
                all
            };
            assert_eq!(last(&known, &filters), 0);
            let port = usize::from(!is_unified);
            let pass = |known: &mut KnownPages, filters: &mut Filters, line, mapping, now| {
                if let Some((left, time)) = filters.pass(port, line, mapping, false, now) {
                    known.left(port, MappingId(left), time);
                }
            };
            pass(&mut known, &mut filters, 7, 3, 3);
            pass(&mut known, &mut filters, 8, 3, 2);
            pass(&mut known, &mut filters, 9, 9, 7);
            assert_eq!(last(&known, &filters), 3);
            filters.trust([1, 1]);
            assert!(filters.drops(port, 8, false, 4));
            assert_eq!(last(&known, &filters), 4);
            // Another page takes the slot.
            pass(&mut known, &mut filters, 8 + 64, 9, 6);
            assert_eq!(last(&known, &filters), 4);
            assert!(filters.drops(port, 7, false, 8));
            assert_eq!(last(&known, &filters), 8);
            known.forget(entry, &mut filters);
            assert_eq!(last(&known, &filters), 0);
            assert_eq!(filters.drops_or_wakes(port, 7, false, 9), (true, true));
        }
    }
}
