//! `PrivateLife` is one life with its computer, and `PrivateBytes` is the memory that lives take.

use binhop_base::Asid;
use binhop_hw::{Computer, Tree};

use super::evictors::Evictors;
use super::holdings::{HolderId, LineHoldings};
use crate::results::switches::{CauseOfSegment, SwitchTally};

/// `PrivateLife` is one life with its computer.
pub(super) struct PrivateLife {
    pub(super) key: (Asid, u32),
    /// The number of the life among all lives, from 1.
    pub(super) number: u32,
    /// The number of times that the life has left.
    pub(super) times_left: u32,
    /// `None` once the life has ended and left.
    pub(super) computer: Option<Box<Computer>>,
    pub(super) ended: bool,
    /// Why the life has left; `None` if it has not run.
    pub(super) left: Option<(CauseOfSegment, Option<u64>)>,
    /// For each cache, the lines that both the shared and the private cache hold, now and when the life left.
    pub(super) held: Box<[u64]>,
    pub(super) held_before: Box<[u64]>,
    /// For each cache, the lines held when the life left that are not in both caches now.
    pub(super) lost: Box<[u64]>,
    /// True if the life has run.
    pub(super) has_run: bool,
}

impl PrivateLife {
    pub(super) fn holder(&self, place: usize) -> HolderId {
        HolderId { place: place as u32, number: self.number }
    }
}

/// `PrivateBytes` is the memory that private caches take in one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrivateBytes {
    /// The bytes of each life, without what its caches take for pages.
    pub(crate) life: u64,
    /// The bytes of each page in the caches of a life, and the most that they take for all pages of a life.
    pub(crate) page_in_caches: u64,
    pub(crate) most_in_caches: u64,
    /// The bytes of each page of a life in lists, which may be twice as long as they need.
    pub(crate) page_in_lists: u64,
    /// The bytes of the marks of each page of a life.
    pub(crate) page_in_marks: u64,
}

impl PrivateBytes {
    pub(crate) fn of(tree: &Tree) -> Self {
        let caches = Computer::sparse_bytes(tree);
        let [lists, page_in_marks] = LineHoldings::bytes_of_page(tree);
        let counts = 3 * tree.config().caches.len() * size_of::<u64>();
        let known = 2 * size_of::<PrivateLife>() + size_of::<((Asid, u32), usize)>() + counts;
        Self {
            life: caches.fixed + known as u64 + SwitchTally::bytes_of_life(tree.config().caches.len()),
            page_in_caches: caches.page,
            most_in_caches: caches.most,
            page_in_lists: lists + Evictors::bytes_of_page(tree) + SwitchTally::bytes_of_page(),
            page_in_marks,
        }
    }
}
