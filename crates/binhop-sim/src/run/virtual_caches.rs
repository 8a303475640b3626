//! `VirtualCaches` finds the copies of memory that caches with virtual tags hold. The top of [`crate::synonyms`] has
//! the rules.
//!
//! # Cost
//! A page may have many names: a name for each process that maps it, with tags by address space. So the caches are asked
//! for the line of each name, or all their lines with this number within a page are looked at, whichever is less work.

use std::cmp::Reverse;

use binhop_base::{LineAddr, MappingId, Translation};
use binhop_hw::{Back, Front, Tree};

use crate::frame_map::LaneTranslation;
use crate::synonyms::{HeldCopy, WatchedAccess};

/// `VirtualCaches` are the caches of a machine that have virtual tags.
#[derive(Clone, Debug)]
pub(super) struct VirtualCaches {
    in_front: Tagged,
    behind: Tagged,
}

/// `Tagged` are the caches of a stage that have virtual tags.
#[derive(Clone, Debug, Default)]
struct Tagged {
    /// The numbers of the caches, each with the logarithm of its lines' bytes.
    caches: Vec<(usize, u32)>,
    /// The names for which the caches can be asked in as many steps as looking at every line takes.
    most_names: usize,
}

/// `Held` answers what a stage holds.
trait Held {
    fn state(&self, cache: usize, at: LineAddr, translation: &LaneTranslation<'_>) -> Option<bool>;
    fn lines(&self, cache: usize, line: u32) -> impl Iterator<Item = (LineAddr, bool)>;
}

macro_rules! held {
    ($($stage:ty),*) => {$(
        impl Held for $stage {
            fn state(&self, cache: usize, at: LineAddr, translation: &LaneTranslation<'_>) -> Option<bool> {
                self.line_state(cache, at, translation)
            }
            fn lines(&self, cache: usize, line: u32) -> impl Iterator<Item = (LineAddr, bool)> {
                self.lines_with_number(cache, line)
            }
        }
    )*};
}

held!(Front, Back);

impl VirtualCaches {
    pub(super) fn of(tree: &Tree) -> Self {
        let of = |in_front: bool| {
            let caches = tree.config().caches.iter().enumerate();
            let tagged = caches
                .filter(|&(number, cache)| cache.keyed_by_mapping() && tree.in_front(number) == in_front);
            let places: u64 = tagged.clone().map(|(_, cache)| tree.places_of_line_number(cache)).sum();
            let caches: Vec<_> = tagged.map(|(number, cache)| (number, cache.line.log2())).collect();
            Tagged { most_names: places as usize / caches.len().max(1), caches }
        };
        Self { in_front: of(true), behind: of(false) }
    }

    /// Returns whether no cache has virtual tags.
    pub(super) fn is_empty(&self) -> bool {
        self.in_front.caches.is_empty() && self.behind.caches.is_empty()
    }

    /// Returns the copies that a front holds.
    pub(super) fn in_front(
        &self,
        front: &Front,
        access: &WatchedAccess,
        translation: &LaneTranslation<'_>,
    ) -> Vec<HeldCopy> {
        self.in_front.copies(front, access, translation)
    }

    /// Returns the copies that a back holds. `back` is not called if the back has no cache with virtual tags.
    pub(super) fn behind<'a>(
        &self,
        back: impl FnOnce() -> &'a Back,
        access: &WatchedAccess,
        translation: &LaneTranslation<'_>,
    ) -> Vec<HeldCopy> {
        if self.behind.caches.is_empty() {
            return Vec::new();
        }
        self.behind.copies(back(), access, translation)
    }
}

impl Tagged {
    /// Returns the copies of the byte of an access, at most one copy for each name. The newest name comes first.
    fn copies(
        &self,
        held: &impl Held,
        access: &WatchedAccess,
        translation: &LaneTranslation<'_>,
    ) -> Vec<HeldCopy> {
        let page = translation.page(access.name);
        let names = translation.tables.mappings_of(page);
        if translation.tables.mappings_of(page).take(self.most_names + 1).count() <= self.most_names {
            return names.filter_map(|name| self.copy(name, held, access, translation)).collect();
        }
        let mut copies = Vec::new();
        for &(cache, log2) in &self.caches {
            for (at, dirty) in held.lines(cache, access.offset >> log2) {
                let name = MappingId(at.id);
                if translation.page(name) == page {
                    copies.push(HeldCopy { name, dirty });
                }
            }
        }
        // Several caches may hold copies of a name. A dirty copy comes first, and stays.
        copies.sort_unstable_by_key(|copy| (Reverse(copy.name), Reverse(copy.dirty)));
        copies.dedup_by_key(|copy| copy.name);
        copies
    }

    /// Returns the copy under a name.
    fn copy(
        &self,
        name: MappingId,
        held: &impl Held,
        access: &WatchedAccess,
        translation: &LaneTranslation<'_>,
    ) -> Option<HeldCopy> {
        let at = |log2: u32| LineAddr { id: name.0, line: access.offset >> log2 };
        let states = self.caches.iter().filter_map(|&(cache, log2)| held.state(cache, at(log2), translation));
        states.max().map(|dirty| HeldCopy { name, dirty })
    }
}
