//! `Pieces` cuts table pages into equal pieces: root tables of MIPS, or the entries of an overflow area.

use alloc::collections::{BTreeMap, BTreeSet};

use super::table_pages::TablePages;

/// `Piece` is a part of a table page: the number of the page, and the piece's ordinal in it.
pub(super) type Piece = (u32, u32);

/// `Pieces` hands out pieces, the lowest free piece of the lowest page first. A page without pieces in use is
/// given back.
pub(super) struct Pieces {
    /// The number of pieces in a page.
    per_page: u32,
    free: BTreeSet<Piece>,
    /// The number of pieces in use, by page.
    used: BTreeMap<u32, u32>,
}

impl Pieces {
    pub(super) fn new(per_page: u32) -> Self {
        Self { per_page, free: BTreeSet::new(), used: BTreeMap::new() }
    }

    /// Returns the number of table pages that the next piece needs: 0 or 1.
    pub(super) fn pages_needed(&self) -> u64 {
        self.free.is_empty().into()
    }

    pub(super) fn take(&mut self, pages: &mut TablePages) -> Piece {
        let piece = self.free.pop_first().unwrap_or_else(|| {
            let page = pages.take();
            self.free.extend((1..self.per_page).map(|ordinal| (page, ordinal)));
            (page, 0)
        });
        *self.used.entry(piece.0).or_default() += 1;
        piece
    }

    /// Gives a piece back. Returns true if its page is thereby free.
    pub(super) fn give_back(&mut self, pages: &mut TablePages, piece: Piece) -> bool {
        let used = self.used.entry(piece.0).or_default();
        *used -= 1;
        if *used > 0 {
            self.free.insert(piece);
            return false;
        }
        self.used.remove(&piece.0);
        for ordinal in 0..self.per_page {
            self.free.remove(&(piece.0, ordinal));
        }
        pages.give_back(piece.0);
        true
    }

    /// Returns the number of pages and of pieces in use.
    pub(super) fn in_use(&self) -> (u64, u64) {
        (self.used.len() as u64, self.used.values().map(|&used| u64::from(used)).sum())
    }
}
