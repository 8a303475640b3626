//! Buffers of calls that lie in mapped files fault.
//!
//! # Rules
//! - A page of a mapped file faults when the kernel or a device first reads or stores there since the page entered the
//!   page table, and since it came into the page cache. A store through a shared mapping also faults if the page is
//!   clean. The fault is the [fault](IoPath::fault) of a program.
//! - A store through a private mapping faults for a read, unless the page is in the page table. Then the process gets a
//!   page of its own.
//! - The fault comes before the step that needs the page. The step's other pages of files stay in the page cache, or
//!   are brought in again, without read-ahead (ours: Linux keeps them locked).
//! - A write into the page cache brings the page of the buffer in before the page of the file (Linux,
//!   `fault_in_iov_iter_readable`), one page of the buffer after the other (ours).
//! - All pages of a direct request have faulted before the request is made. If a direct write covers a page that its
//!   own buffer shows, the page leaves the page cache again (Linux, `generic_file_direct_write`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Emit, FilePage, IoPath, IoStep, Location, MemoryPage};

/// `UserPage` is what lies behind a page of the user's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPage {
    /// A page that does not fault.
    Own(MemoryPage),
    /// A page of a file in a mapping.
    Mapped {
        /// The page of the file.
        of: FilePage,
        /// True if the page is in the page table.
        is_entered: bool,
        /// The page that the process gets of its own at a store, if the mapping is private.
        copy: Option<MemoryPage>,
    },
}

impl IoPath {
    /// Names the user's pages of the calls to come: what lies behind each virtual page. A page that is not named is the
    /// process's own page of that number.
    pub fn name_user_pages(&mut self, pages: BTreeMap<u64, UserPage>) {
        self.user_pages = pages;
    }

    /// Returns what lies behind the user's pages that were named, after the calls since then.
    #[must_use]
    pub const fn user_pages(&self) -> &BTreeMap<u64, UserPage> {
        &self.user_pages
    }

    /// Returns the page of memory behind a page of the user, if it was named.
    pub(super) fn named_page(&self, number: u64) -> Option<MemoryPage> {
        self.user_pages.get(&number).map(|page| match *page {
            UserPage::Own(page) => page,
            UserPage::Mapped { of, .. } => MemoryPage::File(of),
        })
    }

    fn user_page(&self, at: Location) -> Option<(u64, UserPage)> {
        let Location::User(user) = at else { return None };
        let number = user.0 / self.config.page;
        self.user_pages.get(&number).map(|&page| (number, page))
    }

    /// Returns whether any of these bytes of the user lies in a mapped file.
    pub(super) fn is_mapped(&self, user: u64, bytes: u64) -> bool {
        let size = self.config.page;
        let pages = user / size..(user + bytes).div_ceil(size);
        self.user_pages.range(pages).any(|(_, page)| matches!(page, UserPage::Mapped { .. }))
    }

    /// Returns whether the kernel's access to a piece of the user's memory faults.
    pub(super) fn must_fault(&self, at: Location, stores: bool) -> bool {
        match self.user_page(at) {
            Some((_, UserPage::Mapped { of, is_entered, copy })) => {
                !is_entered || (stores && copy.is_none() && !self.cache.is_dirty(of))
            }
            _ => false,
        }
    }

    /// Lets the user's pages of a step fault.
    pub(super) fn fault_for(&mut self, step: &IoStep, emit: Emit<'_>) {
        match *step {
            IoStep::Copy { from, to, .. } => self.fault_user(&[(from, false), (to, true)], emit),
            IoStep::Fill { at, .. } => self.fault_user(&[(at, true)], emit),
            IoStep::Transfer { at, writes, .. } => self.fault_user(&[(at, writes)], emit),
            _ => {}
        }
    }

    /// Lets the user's pages fault that a step reads, or stores into (true).
    pub(super) fn fault_user(&mut self, places: &[(Location, bool)], emit: Emit<'_>) {
        if self.user_pages.is_empty() {
            return;
        }
        let size = self.config.page;
        let mut kept: Vec<FilePage> = Vec::new();
        for &(at, _) in places {
            if let Location::File(file, byte) = at {
                kept.push(FilePage { file, page: byte / size });
            }
        }
        kept.retain(|&page| self.cache.contains(page));
        let mut again = false;
        while places.iter().any(|&(at, stores)| self.must_fault(at, stores))
            || (again && kept.iter().any(|&page| !self.cache.contains(page)))
        {
            for &page in &kept {
                self.keep(page, emit);
            }
            for &(at, stores) in places {
                if self.must_fault(at, stores) {
                    self.fault_at(at, stores, again, emit);
                }
            }
            again = true;
        }
        for &(at, stores) in places {
            if let Some((number, UserPage::Mapped { copy: Some(copy), .. })) = self.user_page(at)
                && stores
            {
                self.user_pages.insert(number, UserPage::Own(copy));
            }
        }
    }

    /// Lets a page of the user fault. `again` says that room for another page of the step may have pushed it out.
    fn fault_at(&mut self, at: Location, stores: bool, again: bool, emit: Emit<'_>) {
        let Some((number, UserPage::Mapped { of, copy, .. })) = self.user_page(at) else { return };
        let dirties = stores && copy.is_none();
        if again {
            self.fault_again(of, dirties, emit);
        } else {
            self.fault(of, dirties, emit);
        }
        let now = match copy {
            Some(copy) if stores => UserPage::Own(copy),
            _ => UserPage::Mapped { of, is_entered: true, copy },
        };
        self.user_pages.insert(number, now);
    }

    /// Notes that a page has left the page cache, and so all page tables.
    pub(super) fn leave_tables(&mut self, left: FilePage) {
        for page in self.user_pages.values_mut() {
            if let UserPage::Mapped { of, is_entered, .. } = page
                && *of == left
            {
                *is_entered = false;
            }
        }
    }
}
