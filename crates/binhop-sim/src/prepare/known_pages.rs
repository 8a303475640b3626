//! `KnownPages` are pages that the port of a reference finds in its first-level TLB. Rows that touch no other page need
//! no look-up: only the time of the page's use is noted.
//!
//! What is in a TLB depends on the pages of references alone, and not on what caches hold. So the pages of many rows
//! are looked at in one loop, before the caches see the first of these rows ([`KnownPages::rows`]). The loop stops at
//! the first row whose translation may change something else: a page that is not known, a reference that touches two
//! pages, an event that is no reference. A store also stops the loop if no store has gone to its page since the page
//! became known, because such a store may copy the page.
//!
//! This is exact where a hit in a first-level TLB changes at most a time (see [`Mmu::uses_are_times`]).

use binhop_base::Kind;
use binhop_hw::{Mmu, TlbPage};

use super::filter::Columns;

/// The number of places for pages of one operation. A page has one place among them.
const PLACES: usize = 512;
/// The operations that are references: fetch, load, store, modify.
const OPERATIONS: usize = 4;

/// `Words` holds, for each operation and place, a known page in one word, so that the words stay in the host's nearest
/// cache: the address of the page's first byte, plus the number of the place where uses of the page's TLB entry are
/// noted. The number is less than the bytes of a page.
type Words = [u64; OPERATIONS * PLACES];

/// Returns the word of a place without a page: a page that has another place.
const fn no_page(place: usize) -> u64 {
    if place.is_multiple_of(PLACES) { u64::MAX } else { 0 }
}

/// `KnownPages` holds the known pages of the space that runs.
pub(super) struct KnownPages {
    words: Box<Words>,
    page_log2: u32,
}

impl KnownPages {
    /// Makes the known pages of a machine with pages of 2^`page_log2` bytes; none is known.
    pub(super) fn new(page_log2: u32) -> Self {
        Self { words: Box::new(std::array::from_fn(no_page)), page_log2 }
    }

    #[inline(always)]
    fn place(op: usize, number: u64) -> usize {
        op % OPERATIONS * PLACES + number as usize % PLACES
    }

    /// Returns how many rows from the first on touch known pages alone, and notes the uses of these pages.
    ///
    /// The loop is a function of its own, so that its columns and tables stay in registers.
    #[inline(never)]
    pub(super) fn rows(&self, columns: Columns<'_>, mmu: &mut Mmu) -> usize {
        let Columns { op, addr, size, .. } = columns;
        let (addr, size) = (&addr[..op.len()], &size[..op.len()]);
        let in_page = (1 << self.page_log2) - 1;
        let mut uses = mmu.begin_uses(op.len());
        let mut row = 0;
        while row < op.len() && usize::from(op[row]) < OPERATIONS {
            // A reference of no byte seems to end before it begins, perhaps on another page. The loop stops there.
            let end = addr[row].wrapping_add(u64::from(size[row])).wrapping_sub(1);
            let word = self.words[Self::place(op[row].into(), addr[row] >> self.page_log2)];
            if (word ^ addr[row]) | (word ^ end) > in_page {
                break;
            }
            uses.note((word & in_page) as u32, row);
            row += 1;
        }
        mmu.end_uses(row);
        row
    }

    /// Notes that the last look-up, for an access of a kind, found a page in a first-level TLB or put it there.
    pub(super) fn know(&mut self, kind: Kind, number: u64, uses: u32) {
        // The word of a small page has no room for a number in so many entries. Then each use is looked up.
        let fits = u64::from(uses) >> self.page_log2 == 0;
        // A modify needs the same translation as a store, and a translation for a store also serves a load.
        let ops = match kind {
            Kind::Fetch => 0..1,
            Kind::Load => 1..2,
            _ => 1..OPERATIONS,
        };
        for op in ops {
            let place = Self::place(op, number);
            self.words[place] =
                if fits { number << self.page_log2 | u64::from(uses) } else { no_page(place) };
        }
    }

    /// Notes that a page may be in no first-level TLB any more.
    pub(super) fn forget(&mut self, TlbPage { number, .. }: TlbPage) {
        for op in 0..OPERATIONS {
            let place = Self::place(op, number);
            if self.words[place] >> self.page_log2 == number {
                self.words[place] = no_page(place);
            }
        }
    }

    /// Notes that each page may be in no first-level TLB any more, and that a store may copy it.
    pub(super) fn forget_all(&mut self) {
        *self.words = std::array::from_fn(no_page);
    }
}

#[cfg(test)]
mod tests {
    use binhop_hw::{MmuConfig, TlbConfig, TlbReplacement};

    use super::*;

    fn mmu() -> Mmu {
        let tlb = TlbConfig {
            name: "tlb".into(),
            entries: 16,
            ways: 16,
            replacement: TlbReplacement::Lru,
            wired: 0,
            pages: vec![12],
            next: None,
        };
        let ports = vec![0];
        let (fetch, data) = (ports.clone(), ports);
        let (tlbs, walk_caches) = (vec![tlb], vec![]);
        Mmu::new(&MmuConfig { base_log2: 12, tlbs, fetch, data, tagged: true, spaces: None, walk_caches })
    }

    #[test]
    fn a_page_is_known_from_its_look_up_until_its_entry_leaves() {
        let (mut known, mut mmu) = (KnownPages::new(12), mmu());
        for number in [0, 1, 511, 512, 513, u64::MAX >> 12] {
            let mut finds = |known: &KnownPages, op: u8, addr: u64, size: u32| {
                known.rows(Columns { op: &[op], addr: &[addr], size: &[size], count: &[1] }, &mut mmu) == 1
            };
            let first = number << 12;
            let mut ops = |known: &KnownPages| [0, 1, 2, 3].map(|op| finds(known, op, first, 8));
            assert_eq!(ops(&known), [false; 4]);
            known.know(Kind::Load, number, 7);
            assert_eq!(ops(&known), [false, true, false, false]);
            known.know(Kind::Store, number, 8);
            assert_eq!(ops(&known), [false, true, true, true]);
            known.know(Kind::Fetch, number, 9);
            assert_eq!(ops(&known), [true; 4]);
            assert!(finds(&known, 0, first + 4088, 8));
            assert!(!finds(&known, 0, first + 4089, 8), "the reference touches two pages");
            assert!(!finds(&known, 0, first, 0), "a reference of no byte is looked up");
            assert!(!finds(&known, 0, first ^ 512 << 12, 8), "another page with this place");
            assert!(!finds(&known, 4, first, 8), "the row is no reference");
            known.forget(TlbPage { space: 0, number, size_log2: 12 });
            assert_eq!([0, 1, 2, 3].map(|op| finds(&known, op, first, 8)), [false; 4]);
            known.know(Kind::Store, number, 8);
            known.know(Kind::Store, number, 4096);
            assert!(!finds(&known, 2, first, 8), "the number does not fit beside the address");
            known.know(Kind::Store, number, 0);
            assert!(finds(&known, 2, first, 8));
            known.forget_all();
            assert!(!finds(&known, 2, first, 8));
        }
    }
}
