//! `Routes` remembers what recent walks have read. The entries of a tree stay where they are as long as the page is
//! mapped, so a walk to the same page reads the same entries. In the chains of other tables, entries move.

use std::sync::Arc;

use binhop_base::{Asid, PageId};
use binhop_os::page_table::TableKind;

use crate::translation::WalkStep;

/// The number of routes that are remembered.
const PLACES: usize = 1 << 12;

/// `Route` is what the walk to a page reads, and what it disturbs.
#[derive(Clone)]
pub(super) struct Route {
    /// The entries, root first.
    pub(super) steps: Arc<[WalkStep]>,
    /// For each filter, the slots of the lines that the walk may access.
    pub(super) disturbs: Arc<[Vec<u32>; 2]>,
}

/// `Routes` is a direct-mapped table of routes: a page has one place in it.
pub(super) struct Routes {
    routes: Vec<Option<(Asid, u64, PageId, Route)>>,
}

impl Routes {
    /// Makes the routes through tables of this kind; none is known.
    pub(super) fn new(kind: TableKind) -> Self {
        let is_tree = matches!(kind, TableKind::Mips | TableKind::Radix { .. });
        Self { routes: vec![None; if is_tree { PLACES } else { 0 }] }
    }

    fn place(asid: Asid, page_no: u64) -> usize {
        (page_no ^ u64::from(asid.0).wrapping_mul(0x9E37_79B9)) as usize % PLACES
    }

    /// Returns the route to a page that a space maps at a page number.
    #[inline]
    pub(super) fn find(&self, asid: Asid, page_no: u64, page: PageId) -> Option<&Route> {
        let known = self.routes.get(Self::place(asid, page_no))?.as_ref();
        known.filter(|known| (known.0, known.1, known.2) == (asid, page_no, page)).map(|known| &known.3)
    }

    /// Remembers a route.
    pub(super) fn put(&mut self, asid: Asid, page_no: u64, page: PageId, route: &Route) {
        if let Some(place) = self.routes.get_mut(Self::place(asid, page_no)) {
            *place = Some((asid, page_no, page, route.clone()));
        }
    }

    /// Forgets all routes, because entries may be removed.
    pub(super) fn clear(&mut self) {
        self.routes.fill(None);
    }
}
