//! `KnownPages` knows the entries of first-level TLBs, so that few references are looked up.
//!
//! Each entry has a *place of use*, where the times of its uses are noted. `KnownPages` has this place for each mapping
//! whose page is in the first-level TLB of a port. A filter slot names the mapping of its line. So the loop that skips
//! rows notes the use of a skipped row with two loads and a store, and compares no pages. A row that is passed finds
//! the place by its mapping, too. Only a page without a place is looked up.
//!
//! A place is forgotten when its entry leaves the TLB. A copy on write ends translations, so a place serves stores and
//! reads alike.
//!
//! This is exact where a hit in a first-level TLB changes at most a time (see [`Mmu::uses_are_times`]).

use binhop_base::MappingId;
use binhop_hw::{Mmu, TlbUses};

use super::filter::{Skipped, SkippedPages};
use crate::occasion::Port;

/// The place of use of an entry that is not known. No entry has this place.
const UNKNOWN: u32 = u32::MAX;

/// The mapping that an entry is not known to translate. No mapping has this number.
const NO_MAPPING: u32 = u32::MAX;

/// `KnownPages` holds the known pages of the space that runs.
#[derive(Default)]
pub(super) struct KnownPages {
    /// For each mapping, the place of use of the entry that translates its page for each port, or [`UNKNOWN`].
    places: Vec<[u32; 2]>,
    /// For each entry, the mapping whose page it is known to translate, or [`NO_MAPPING`].
    mappings: Vec<u32>,
}

impl KnownPages {
    /// Returns the place of use of the entry that translates a mapping's page for a port, if the place is known.
    #[inline]
    pub(super) fn find(&self, port: Port, mapping: MappingId) -> Option<u32> {
        let place = self.places.get(mapping.index())?[port as usize];
        (place != UNKNOWN).then_some(place)
    }

    /// Notes that an entry has just translated a mapping's page for a port. `place` is the place of use of the entry.
    pub(super) fn know(&mut self, port: Port, mapping: MappingId, entry: u32, place: u32) {
        if self.mappings.len() <= entry as usize {
            self.mappings.resize(entry as usize + 1, NO_MAPPING);
        }
        if self.places.len() <= mapping.index() {
            self.places.resize(mapping.index() + 1, [UNKNOWN; 2]);
        }
        self.mappings[entry as usize] = mapping.0;
        self.places[mapping.index()][port as usize] = place;
    }

    /// Notes that an entry has left its TLB.
    pub(super) fn forget(&mut self, entry: u32) {
        if let Some(mapping) = self.mappings.get_mut(entry as usize)
            && let Some(places) = self.places.get_mut(std::mem::replace(mapping, NO_MAPPING) as usize)
        {
            *places = [UNKNOWN; 2];
        }
    }

    /// Notes that any entry may have left its TLB.
    pub(super) fn forget_all(&mut self) {
        (0..self.mappings.len() as u32).for_each(|entry| self.forget(entry));
    }

    /// Begins to skip at most so many rows.
    #[inline]
    pub(super) fn begin<'a>(&'a self, mmu: &'a mut Mmu, rows: usize) -> KnownUses<'a> {
        KnownUses { uses: mmu.begin_uses(rows), places: &self.places }
    }
}

/// `KnownUses` notes the uses of entries while rows are skipped.
pub(super) struct KnownUses<'a> {
    uses: TlbUses<'a>,
    places: &'a [[u32; 2]],
}

impl SkippedPages for KnownUses<'_> {
    const READS_MAPPINGS: bool = true;

    #[inline(always)]
    fn crosses(&self, [first, second]: [u32; 2], _: [u64; 2]) -> bool {
        first != second
    }

    #[inline(always)]
    fn translate(&mut self, Skipped { op, id, row, .. }: Skipped) -> bool {
        let Some(places) = self.places.get(id as usize) else { return false };
        self.uses.note(places[usize::from(op > 0)], row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_from_its_look_up_until_its_entry_leaves() {
        let mut known = KnownPages::default();
        let finds = |known: &KnownPages, mapping| {
            [Port::Fetch, Port::Data].map(|port| known.find(port, MappingId(mapping)))
        };
        assert_eq!(finds(&known, 3), [None; 2]);
        known.know(Port::Data, MappingId(3), 5, 5);
        assert_eq!(finds(&known, 3), [None, Some(5)]);
        known.know(Port::Fetch, MappingId(3), 5, 5);
        known.know(Port::Data, MappingId(4), 6, 0);
        assert_eq!([finds(&known, 3), finds(&known, 4)], [[Some(5); 2], [None, Some(0)]]);
        known.forget(7);
        known.forget(5);
        assert_eq!([finds(&known, 3), finds(&known, 4)], [[None; 2], [None, Some(0)]]);
        // Another entry translates the page now. What the old entry does no longer matters.
        known.know(Port::Data, MappingId(3), 8, 8);
        known.forget(5);
        assert_eq!(finds(&known, 3), [None, Some(8)]);
        known.forget_all();
        assert_eq!([finds(&known, 3), finds(&known, 4)], [[None; 2]; 2]);
    }
}
