//! This part of preparation knows the pages that have several names in caches with virtual tags. The top of
//! [`crate::synonyms`] has the rules.

use binhop_base::{Kind, MappingId, PageId};

use super::{Control, Prepare};
use crate::synonyms::WatchedAccess;

/// The flag of a page that has a name.
const NAMED: u8 = 1;
/// The flag of a page that has several names.
const ALIASED: u8 = 2;
/// The flag of a page that may have dirty lines.
const STORED: u8 = 4;

/// `Aliases` knows the names of pages.
pub(super) struct Aliases {
    /// For each mapping, true if the program has accessed a page by this name.
    names: Vec<bool>,
    /// The flags of each page: `NAMED`, `ALIASED` and `STORED`.
    pages: Vec<u8>,
    /// True if a unit may store to any page, of which preparation does not know.
    units_store: bool,
}

impl Aliases {
    pub(super) fn new(units_store: bool) -> Self {
        Self { names: Vec::new(), pages: Vec::new(), units_store }
    }

    /// Notes that the program accesses a page by a name. Returns whether the name is a new alias.
    #[inline]
    fn note_name(&mut self, name: MappingId, page: PageId) -> bool {
        if self.names.get(name.index()) == Some(&true) {
            return false;
        }
        self.note_new_name(name, page)
    }

    #[cold]
    fn note_new_name(&mut self, name: MappingId, page: PageId) -> bool {
        if name.index() >= self.names.len() {
            self.names.resize(name.index() + 1, false);
        }
        self.names[name.index()] = true;
        if page.index() >= self.pages.len() {
            // A unit may access the page by a name that the program never uses.
            self.pages.resize(page.index() + 1, if self.units_store { STORED | ALIASED } else { 0 });
        }
        let known = &mut self.pages[page.index()];
        let is_alias = *known & NAMED != 0;
        *known |= if is_alias { ALIASED } else { NAMED };
        is_alias
    }

    /// Notes an access. Returns whether caches may hold two copies of its line, and a copy is dirty.
    #[inline]
    fn accessed(&mut self, page: PageId, kind: Kind) -> bool {
        let known = &mut self.pages[page.index()];
        if kind == Kind::Store {
            *known |= STORED;
        }
        *known & (ALIASED | STORED) == ALIASED | STORED
    }
}

impl Prepare {
    /// Counts the name of an access that is passed, if the name is a new alias. If the access may leave two different
    /// copies, lanes look for copies before it. Returns the access for a second look, which lanes take when the access
    /// has been made.
    #[inline]
    pub(super) fn watch(
        &mut self,
        port: usize,
        line: u64,
        mapping: MappingId,
        kind: Kind,
    ) -> Option<Box<WatchedAccess>> {
        self.aliases.as_ref()?;
        let (name, page) = (self.name_of(mapping), self.spaces.page_of(mapping));
        let aliases = self.aliases.as_mut()?;
        if aliases.note_name(name, page) {
            let flags = self.spaces.flags_of(self.spaces.segment_of(page));
            self.stream.aliases[0] += 1;
            self.stream.aliases[1] += u64::from(flags.shared() && flags.write());
        }
        if !aliases.accessed(page, kind) {
            return None;
        }
        let log2 = self.line_log2[port];
        let in_page = self.page.log2() - log2;
        let offset = ((line & ((1 << in_page) - 1)) << log2) as u32;
        let access = Box::new(WatchedAccess { kind, name, offset, is_made: false, of_front: None });
        let made = Box::new(WatchedAccess { is_made: true, ..(*access).clone() });
        self.control(Control::Watch(access));
        Some(made)
    }
}
