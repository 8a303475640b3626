//! `PageTables` holds the page tables of all address spaces as real structures: table pages with entries at
//! known bytes. A walk is the list of entries that a handler or a walker reads.
//!
//! # Rules
//! - **Table pages** are numbered from 0. Each lane gives a table page a frame of its own. A page of the table
//!   without entries is freed, and the lowest free number is used next. At most `reserve` pages are in use. A map
//!   that needs a further page is an error, and leaves the table unchanged.
//! - **An entry stays until its page is unmapped.** When a lane evicts the page, the lane's operating system
//!   marks the entry as invalid and leaves it in place. So the table is the same in every lane. The one
//!   exception is the frame entry of the inverted table ([`Step::Frame`]): it belongs to the frame, and a lane
//!   that does not hold the page skips it.
//! - **A map of a mapped page** replaces its translation (a copy on write, for example).
//! - **A huge page** is mapped by one entry. An unmap that covers a part of a huge page leaves the huge page mapped:
//!   segments with huge pages lose whole huge pages.
//! - **Address spaces are independent.** Processes that share a page have an entry each, as in the tables that
//!   the sources describe. The kernel is an address space like the others, if the caller gives it a number.
//!
//! # Regions
//! A table for 32-bit addresses serves programs with 64-bit addresses, too: each address space numbers the
//! regions of 256 MiB that it maps densely, in order of first touch, and the number replaces the upper bits of
//! the address. (A region is larger if an entry of the root maps more, with pages of 64 KiB for example.) A
//! region that loses its last page gives its number back, and the lowest free number is used next. The rule is
//! ours. A program whose addresses fit into the table needs no more regions than the table has.
//!
//! # Cost
//! A walk costs one lookup of the address space and a few loads. A map costs a walk. An unmap costs the
//! entries in the table pages that its range covers.

mod chains;
mod config;
mod disjunct;
mod form;
mod hashed;
mod inverted;
mod mips;
mod pieces;
mod radix;
mod regions;
mod table_pages;
mod tree;

use alloc::vec::Vec;

use binhop_base::{Asid, PageId, PageNo, Result};

pub use config::TableConfig;
use disjunct::DisjunctTable;
pub use disjunct::{DisjunctLayout, RegionSegment};
pub use form::{TableForm, TableKind};
use hashed::HashedTable;
use inverted::InvertedTable;
pub use regions::REGION_LOG2;
use table_pages::TablePages;
use tree::TreeTable;

/// Every form of page table, in the order in which lists show them.
pub static FORMS: &[&TableForm] =
    &[&mips::FORM, &radix::FORM, &hashed::FORM, &inverted::FORM, &disjunct::FORM];

/// Returns the form with a name.
#[must_use]
pub fn form(name: &str) -> Option<&'static TableForm> {
    FORMS.iter().find(|form| form.name == name).copied()
}

impl TableKind {
    /// Returns the form that describes the kind.
    #[must_use]
    pub fn form(self) -> &'static TableForm {
        match self {
            Self::Mips => &mips::FORM,
            Self::Radix { .. } => &radix::FORM,
            Self::Hashed => &hashed::FORM,
            Self::Inverted => &inverted::FORM,
            Self::Disjunct { .. } => &disjunct::FORM,
        }
    }
}

/// `Step` is one read of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The walk reads an entry at a byte of a table page.
    Entry {
        /// The number of the table page.
        table: u32,
        /// The first byte of the entry within the table page.
        offset: u32,
        /// The level of the entry: 0 is the root of a tree, the slot of a hash table, or the anchor. All
        /// further entries of a chain have level 1.
        level: u32,
    },
    /// The walk reads the entry of the frame that holds a page. The entry begins at byte `frame × entry size`
    /// of an array whose first table page is `base`. A lane that does not hold the page skips the step.
    Frame {
        /// The page.
        page: PageId,
        /// The first table page of the array of frame entries.
        base: u32,
    },
}

/// `Walked` is the translation that a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The page.
    pub page: PageId,
    /// The logarithm of the page's size in bytes, as the table's entry states it.
    pub size_log2: u32,
}

enum Form {
    Tree(TreeTable),
    Hashed(HashedTable),
    Inverted(InvertedTable),
    Disjunct(DisjunctTable),
}

/// `PageTables` holds the page tables of all address spaces. The top of the module has the rules.
///
/// ```
/// use binhop_base::{Asid, PageId, PageNo, PowerOfTwo};
/// use binhop_os::page_table::{PageTables, Step, TableConfig, TableKind};
///
/// let page = PowerOfTwo::from_log2(12);
/// let config =
///     TableConfig { kind: TableKind::Radix { levels: 4 }, page, entry: 8, reserve: 1024, frames: 65_536 };
/// let mut tables = PageTables::new(&config)?;
/// tables.map(Asid(7), PageNo(0x7fff_f7dd_1), PageId(0), 12)?;
/// let mut steps = Vec::new();
/// assert_eq!(tables.walk(Asid(7), PageNo(0x7fff_f7dd_1), &mut steps).map(|found| found.page), Some(PageId(0)));
/// // Bits 47–39 of the address are 0xff: entry 255 of the root, at byte 0x7f8.
/// assert_eq!(steps[0], Step::Entry { table: 0, offset: 0x7f8, level: 0 });
/// assert_eq!((steps.len(), tables.used()), (4, 4));
/// # Ok::<(), Box<binhop_base::Problem>>(())
/// ```
pub struct PageTables {
    form: Form,
    pages: TablePages,
}

impl PageTables {
    /// Makes the tables of a machine. The hashed and the inverted table take their fixed pages at once.
    ///
    /// # Errors
    /// The table cannot have this form with these sizes, or its fixed pages exceed the reserve.
    pub fn new(config: &TableConfig) -> Result<Self> {
        config.check(config.kind.form())?;
        let mut pages = TablePages::new(config);
        let form = match config.kind {
            TableKind::Mips => Form::Tree(TreeTable::new(mips::shape(config)?)),
            TableKind::Radix { levels } => Form::Tree(TreeTable::new(radix::shape(config, levels)?)),
            TableKind::Hashed => Form::Hashed(HashedTable::new(config, &mut pages)?),
            TableKind::Inverted => Form::Inverted(InvertedTable::new(config, &mut pages)?),
            TableKind::Disjunct { segments, regions } => {
                Form::Disjunct(DisjunctTable::new(config, [segments, regions])?)
            }
        };
        Ok(Self { form, pages })
    }

    /// Checks that an entry of the table may map a page of `2^size_log2` bytes.
    ///
    /// # Errors
    /// The table cannot express the size; the error names the table and its sizes.
    pub fn check_size(&self, size_log2: u32) -> Result<()> {
        match &self.form {
            Form::Tree(tree) => tree.check_size(size_log2),
            Form::Hashed(table) => table.check_size(size_log2),
            Form::Inverted(table) => table.check_size(size_log2),
            Form::Disjunct(table) => table.check_size(size_log2),
        }
    }

    /// Maps a page of `2^size_log2` bytes. `page_no` counts base pages, and is a multiple of the page's size.
    ///
    /// # Errors
    /// The table cannot express the address or the size, huge pages and others overlap, or the reserve has no
    /// page left. The table is then unchanged.
    pub fn map(&mut self, asid: Asid, page_no: PageNo, page: PageId, size_log2: u32) -> Result<()> {
        match &mut self.form {
            Form::Tree(tree) => tree.map(&mut self.pages, asid, page_no, page, size_log2),
            Form::Hashed(table) => table.map(&mut self.pages, asid, page_no, page, size_log2),
            Form::Inverted(table) => table.map(&mut self.pages, asid, page_no, page, size_log2),
            Form::Disjunct(table) => table.map(asid, page_no, page, size_log2, RegionSegment::Own),
        }
    }

    /// Maps a page in a region that takes a segment, which other address spaces may have, too: then the page has one
    /// entry in a disjunct table. Other tables have an entry for each address space.
    ///
    /// # Errors
    /// See [`PageTables::map`]; or another space maps another page at this place of the segment.
    pub fn map_in_segment(
        &mut self,
        asid: Asid,
        page_no: PageNo,
        page: PageId,
        segment: RegionSegment,
    ) -> Result<()> {
        match &mut self.form {
            Form::Disjunct(table) => {
                let size_log2 = table.layout().page_log2();
                table.map(asid, page_no, page, size_log2, segment)
            }
            _ => self.map(asid, page_no, page, self.pages.page_log2()),
        }
    }

    /// Keeps segments of a disjunct table for the regions that state their numbers. No page is mapped yet. Other tables
    /// have no segments.
    pub fn state_segments(&mut self, numbers: impl IntoIterator<Item = u32>) {
        if let Form::Disjunct(table) = &mut self.form {
            numbers.into_iter().for_each(|number| table.state_segment(number));
        }
    }

    /// Appends the entries that a walk reads to `steps`, in order, and returns the translation. Without a
    /// translation, the walk ends at the entry that shows it.
    pub fn walk(&self, asid: Asid, page_no: PageNo, steps: &mut Vec<Step>) -> Option<Walked> {
        match &self.form {
            Form::Tree(tree) => tree.walk(asid, page_no, steps),
            Form::Hashed(table) => table.walk(asid, page_no, steps),
            Form::Inverted(table) => table.walk(asid, page_no, steps),
            Form::Disjunct(table) => table.walk(asid, page_no, steps),
        }
    }

    /// Returns how many low bits of a base page's number the entries of each level leave out, root first. So
    /// `page_no >> shift` names the entry of a level within its address space. Tables that are no trees have
    /// no such levels.
    #[must_use]
    pub fn shifts(&self) -> &[u32] {
        match &self.form {
            Form::Tree(tree) => tree.shifts(),
            Form::Hashed(_) | Form::Inverted(_) | Form::Disjunct(_) => &[],
        }
    }

    /// Returns where the parts of a disjunct table lie.
    #[must_use]
    pub fn layout(&self) -> Option<DisjunctLayout> {
        match &self.form {
            Form::Disjunct(table) => Some(table.layout()),
            _ => None,
        }
    }

    /// Unmaps the pages `first..=last`, and frees table pages without entries.
    pub fn unmap(&mut self, asid: Asid, first: PageNo, last: PageNo) {
        match &mut self.form {
            Form::Tree(tree) => tree.unmap(&mut self.pages, asid, first, last),
            Form::Hashed(table) => table.unmap(&mut self.pages, asid, first, last),
            Form::Inverted(table) => table.unmap(&mut self.pages, asid, first, last),
            Form::Disjunct(table) => table.unmap(asid, first, last),
        }
    }

    /// Unmaps all pages of an address space.
    pub fn drop_space(&mut self, asid: Asid) {
        self.unmap(asid, PageNo(0), PageNo(u64::MAX));
    }

    /// Returns the number of table pages in use.
    #[must_use]
    pub fn used(&self) -> u32 {
        match &self.form {
            Form::Disjunct(table) => table.used(),
            _ => self.pages.used(),
        }
    }

    /// Returns the number of free table pages: the rest of the reserve.
    #[must_use]
    pub fn free(&self) -> u32 {
        match &self.form {
            Form::Disjunct(table) => table.free(),
            _ => self.pages.free(),
        }
    }

    /// Returns the maximum number of table pages that were in use at one time.
    #[must_use]
    pub fn most_used(&self) -> u32 {
        match &self.form {
            Form::Disjunct(table) => table.most_used(),
            _ => self.pages.most_used(),
        }
    }

    /// Returns the number of translations. Each mapped page is one translation, however large the page is.
    #[must_use]
    pub fn entries(&self) -> u64 {
        match &self.form {
            Form::Tree(tree) => tree.entries(),
            Form::Hashed(table) => table.entries(),
            Form::Inverted(table) => table.entries(),
            Form::Disjunct(table) => table.entries(),
        }
    }

    /// Checks the invariants: the used and the free table pages make up the reserve, each page in use holds
    /// entries, and the counts of entries are right.
    ///
    /// # Errors
    /// An invariant does not hold: the table has a bug.
    pub fn check(&self) -> Result<()> {
        let held = match &self.form {
            Form::Tree(tree) => tree.check()?,
            Form::Hashed(table) => table.check()?,
            Form::Inverted(table) => table.check()?,
            Form::Disjunct(table) => return table.check(),
        };
        self.pages.check(held)
    }
}
