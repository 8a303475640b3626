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

/// `PageInTlb` is a page whose entry is in the TLB that its operation asks first.
#[derive(Clone, Copy)]
struct PageInTlb {
    number: u64,
    /// The place where uses of the entry are noted.
    uses: u32,
}

/// No page has this number.
const NONE: PageInTlb = PageInTlb { number: u64::MAX, uses: 0 };

/// `KnownPages` holds the known pages of the space that runs.
pub(super) struct KnownPages {
    /// The pages of each operation.
    pages: Box<[PageInTlb; OPERATIONS * PLACES]>,
    page_log2: u32,
}

impl KnownPages {
    /// Makes the known pages of a machine with pages of 2^`page_log2` bytes; none is known.
    pub(super) fn new(page_log2: u32) -> Self {
        Self { pages: Box::new([NONE; OPERATIONS * PLACES]), page_log2 }
    }

    #[inline(always)]
    fn place(op: usize, number: u64) -> usize {
        op % OPERATIONS * PLACES + number as usize % PLACES
    }

    /// Returns how many rows from the first on touch known pages alone, and notes the uses of these pages.
    pub(super) fn rows(&self, columns: Columns<'_>, mmu: &mut Mmu) -> usize {
        let Columns { op, addr, size, .. } = columns;
        let (addr, size) = (&addr[..op.len()], &size[..op.len()]);
        let mut uses = mmu.begin_uses(op.len());
        let mut row = 0;
        while row < op.len() && usize::from(op[row]) < OPERATIONS {
            // A reference of no byte seems to end before it begins, perhaps on another page. The loop stops there.
            let end = addr[row].wrapping_add(u64::from(size[row])).wrapping_sub(1);
            let number = addr[row] >> self.page_log2;
            let page = &self.pages[Self::place(op[row].into(), number)];
            if (page.number ^ number) | ((end >> self.page_log2) ^ number) != 0 {
                break;
            }
            uses.note(page.uses, row);
            row += 1;
        }
        mmu.end_uses(row);
        row
    }

    /// Notes that the last look-up, for an access of a kind, found a page in a first-level TLB or put it there.
    pub(super) fn know(&mut self, kind: Kind, number: u64, uses: u32) {
        // A modify needs the same translation as a store, and a translation for a store also serves a load.
        let ops = match kind {
            Kind::Fetch => 0..1,
            Kind::Load => 1..2,
            _ => 1..OPERATIONS,
        };
        for op in ops {
            self.pages[Self::place(op, number)] = PageInTlb { number, uses };
        }
    }

    /// Notes that a page may be in no first-level TLB any more.
    pub(super) fn forget(&mut self, TlbPage { number, .. }: TlbPage) {
        for op in 0..OPERATIONS {
            let page = &mut self.pages[Self::place(op, number)];
            if page.number == number {
                *page = NONE;
            }
        }
    }

    /// Notes that each page may be in no first-level TLB any more, and that a store may copy it.
    pub(super) fn forget_all(&mut self) {
        self.pages.fill(NONE);
    }
}
