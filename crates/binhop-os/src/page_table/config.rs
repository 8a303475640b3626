//! `TableConfig` holds the sizes of a machine's page tables.

use alloc::format;

use binhop_base::{Bytes, PowerOfTwo, Problem, Result};

use super::form::{TableForm, TableKind};

/// `TableConfig` describes a machine's page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableConfig {
    /// The form of the table.
    pub kind: TableKind,
    /// The size of a base page, which is also the size of a table page.
    pub page: PowerOfTwo,
    /// The size of an entry, in bytes.
    pub entry: u32,
    /// The maximum number of table pages.
    pub reserve: u32,
    /// The number of frames that hold users' pages. It sizes the hashed and the inverted table.
    pub frames: u64,
}

impl TableConfig {
    /// Checks the sizes that every form shares.
    pub(super) fn check(&self, form: &TableForm) -> Result<()> {
        PowerOfTwo::check(Bytes(self.entry.into()), "a page-table entry", "translation.entry")?;
        if self.page.log2() > 31 {
            return Err(Problem::request(
                &format!("{}", Bytes(self.page.bytes())),
                "memory.page",
                "a table page has at most 2GiB",
                "take smaller pages",
            ));
        }
        if self.entry >= 4 && u64::from(self.entry) * 2 <= self.page.bytes() {
            return Ok(());
        }
        Err(Problem::request(
            &format!("{}", Bytes(self.entry.into())),
            "translation.entry",
            "a page-table entry has at least 4 bytes, and a page holds at least 2 entries",
            &format!("set translation.entry to {}B", form.usual_entry(self.kind)),
        ))
    }

    /// Returns the logarithm of the entry's size in bytes.
    pub(super) fn entry_log2(&self) -> u32 {
        self.entry.trailing_zeros()
    }

    /// Returns the logarithm of the number of entries in a table page.
    pub(super) fn index_bits(&self) -> u32 {
        self.page.log2() - self.entry_log2()
    }
}

/// Checks the size of a page in a table that has base pages only.
pub(super) fn one_size(form: &TableForm, page_log2: u32, size_log2: u32) -> Result<()> {
    if size_log2 == page_log2 {
        return Ok(());
    }
    Err(Problem::request(
        &format!("a page of {}", Bytes(1 << size_log2)),
        "page table",
        &format!("the {} table expresses pages of {}", form.name, Bytes(1 << page_log2)),
        "take pages of this size, or a radix table whose levels have the size",
    ))
}
