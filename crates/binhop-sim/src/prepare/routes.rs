//! `Routes` remembers what recent walks have read. The entries of a tree stay where they are as long as the page is
//! mapped, so a walk to the same page reads the same entries. In the chains of other tables, entries move.

use std::sync::Arc;

use binhop_base::{Asid, PageId};
use binhop_os::page_table::TableKind;

use super::filter::WalkAccess;
use crate::translation::WalkStep;

/// The number of routes that are remembered: a power of two.
const PLACES: usize = 1 << 12;

/// `Route` is what the walk to a page reads, and what it disturbs.
pub(super) struct Route {
    /// The entries, root first.
    pub(super) steps: Arc<[WalkStep]>,
    /// The accesses that read the entries, if walks are rows.
    pub(super) accesses: Box<[WalkAccess]>,
    /// For each filter, the slots of the lines that the walk may access, if walks are controls.
    pub(super) disturbs: Box<[Vec<u32>; 2]>,
}

/// `Routes` is a direct-mapped table of routes: a page has one place in it.
pub(super) struct Routes {
    routes: Vec<Option<(Asid, u64, PageId, Route)>>,
    /// True if a route is still right when the page is walked to again.
    keeps: bool,
}

impl Routes {
    /// Makes the routes through tables of this kind; none is known.
    pub(super) fn new(kind: TableKind) -> Self {
        let is_tree = matches!(kind, TableKind::Mips | TableKind::Radix { .. });
        Self { routes: (0..if is_tree { PLACES } else { 1 }).map(|_| None).collect(), keeps: is_tree }
    }

    fn place(&self, asid: Asid, page_no: u64) -> usize {
        // The number of places is a power of two.
        (page_no ^ u64::from(asid.0).wrapping_mul(0x9E37_79B9)) as usize & (self.routes.len() - 1)
    }

    /// Returns whether the route to a page that a space maps at a page number is known.
    #[inline]
    pub(super) fn knows(&self, asid: Asid, page_no: u64, page: PageId) -> bool {
        let known = self.routes[self.place(asid, page_no)].as_ref();
        self.keeps && known.is_some_and(|known| (known.0, known.1, known.2) == (asid, page_no, page))
    }

    /// Returns the route that [`knows`](Self::knows) has found, or that was put last.
    #[inline]
    pub(super) fn known(&self, asid: Asid, page_no: u64) -> &Route {
        &self.routes[self.place(asid, page_no)].as_ref().expect("a route was found or put here").3
    }

    /// Remembers a route.
    pub(super) fn put(&mut self, asid: Asid, page_no: u64, page: PageId, route: Route) {
        let place = self.place(asid, page_no);
        self.routes[place] = Some((asid, page_no, page, route));
    }

    /// Forgets all routes, because entries may be removed.
    pub(super) fn clear(&mut self) {
        self.routes.fill_with(|| None);
    }
}
