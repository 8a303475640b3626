//! `TablePages` numbers the table pages in use.

use alloc::{collections::BTreeSet, format};

use binhop_base::{Bytes, PowerOfTwo, Problem, Result, counted};

use super::config::TableConfig;

/// `TablePages` hands out table pages, the lowest free number first.
pub(super) struct TablePages {
    size: PowerOfTwo,
    reserve: u32,
    /// Pages from here on were never used.
    fresh: u32,
    /// Pages below `fresh` that are free.
    freed: BTreeSet<u32>,
    most_used: u32,
}

impl TablePages {
    pub(super) fn new(config: &TableConfig) -> Self {
        Self { size: config.page, reserve: config.reserve, fresh: 0, freed: BTreeSet::new(), most_used: 0 }
    }

    /// Returns the logarithm of the bytes of a page.
    pub(super) fn page_log2(&self) -> u32 {
        self.size.log2()
    }

    /// Checks that `needed` pages are free.
    ///
    /// # Errors
    /// Fewer pages are free.
    pub(super) fn room(&self, needed: u64) -> Result<()> {
        let used = u64::from(self.used());
        if needed <= u64::from(self.reserve) - used {
            return Ok(());
        }
        let size = |pages: u64| Bytes(pages.saturating_mul(self.size.bytes()));
        let all = used.saturating_add(needed);
        Err(Problem::request(
            &format!("{} ({})", counted(all, ["table page", "table pages"]), size(all)),
            "translation.reserve",
            &format!(
                "the reserve for page tables holds {} ({})",
                counted(self.reserve.into(), ["page", "pages"]),
                size(self.reserve.into())
            ),
            "raise translation.reserve, or take a table that needs less memory",
        ))
    }

    /// Takes the free page with the lowest number. [`TablePages::room`] has found it.
    pub(super) fn take(&mut self) -> u32 {
        let page = self.freed.pop_first().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        self.most_used = self.most_used.max(self.used());
        page
    }

    /// Takes table pages for an array that stays, and returns how many pages it took. The pages have ascending
    /// numbers from the first number that was never used.
    ///
    /// # Errors
    /// Fewer pages are free.
    pub(super) fn take_array(&mut self, entries: u64, entry_log2: u32) -> Result<u32> {
        let needed = u64::max(entries.saturating_mul(1 << entry_log2).div_ceil(self.size.bytes()), 1);
        self.room(needed)?;
        self.fresh += needed as u32;
        self.most_used = self.most_used.max(self.used());
        Ok(needed as u32)
    }

    pub(super) fn give_back(&mut self, page: u32) {
        let was_used = self.freed.insert(page);
        debug_assert!(was_used && page < self.fresh, "table page {page} is given back twice");
    }

    pub(super) fn used(&self) -> u32 {
        self.fresh - self.freed.len() as u32
    }

    pub(super) fn free(&self) -> u32 {
        self.reserve - self.fresh + self.freed.len() as u32
    }

    pub(super) fn most_used(&self) -> u32 {
        self.most_used
    }

    /// Checks that the table holds all pages in use, and no other.
    pub(super) fn check(&self, held: u64) -> Result<()> {
        let free = self.free();
        if held == u64::from(self.used()) && held + u64::from(free) == self.reserve.into() {
            return Ok(());
        }
        Err(Problem::run(
            &format!("{held} table pages with entries, {} in use, {free} free", self.used()),
            "page tables",
            &format!("pages with entries are in use, and with the free pages make up {}", self.reserve),
            "report a bug of binhop",
        ))
    }
}

/// Returns the problem of a broken invariant.
pub(super) fn broken(value: &str, rule: &str) -> alloc::boxed::Box<Problem> {
    Problem::run(value, "page tables", rule, "report a bug of binhop")
}
