//! `hashed` is a hash table of entries, which all address spaces share, with a chain behind each slot (after
//! J. Huck and J. Hays, "Architectural support for translation table management in large address space
//! machines", ISCA 1993: the hashed page table of PA-RISC).
//!
//! # Form
//! A slot holds an entry, not an anchor: the first entry of a chain lies in the slot itself, so most walks read one
//! entry. Further entries lie in an overflow area. An entry names its page and the next entry, and takes 16 bytes.
//!
//! Ours:
//! - The table has a power of two of slots, at least two for each frame, and all its pages are in use from the
//!   start.
//! - A chain begins with its oldest translation. When the translation in the slot leaves, the next translation of
//!   the chain moves into the slot.
//! - The overflow area takes table pages as it grows, and uses the lowest free entry of the lowest page.
//! - A walk reads the chain up to the page's entry. The walk of a page that is not mapped reads the whole
//!   chain, and the slot if the chain is empty.
//! - [`chains`](super::chains) defines the hash.

use alloc::{format, vec::Vec};

use binhop_base::{Asid, PageId, PageNo, Result};

use super::chains::{Chains, slots_log2};
use super::config::{TableConfig, one_size};
use super::form::{TableForm, TableKind};
use super::pieces::Pieces;
use super::table_pages::{TablePages, broken};
use super::{Step, Walked};

pub(super) static FORM: TableForm = TableForm {
    name: "hashed",
    rule: "All address spaces share a hash table of entries with two slots for each frame; further entries of a slot \
           are chained.",
    source: "Huck and Hays, ISCA 1993; the number of slots, the hash and the order of a chain are ours",
    has_levels: false,
    entry: |_| 16,
    kind: |_| TableKind::Hashed,
};

/// `HashedTable` is the hashed page table.
pub(super) struct HashedTable {
    chains: Chains,
    overflow: Pieces,
    page_log2: u32,
    entry_log2: u32,
    /// The number of table pages that hold the slots. They are the first table pages.
    fixed: u32,
}

impl HashedTable {
    pub(super) fn new(config: &TableConfig, pages: &mut TablePages) -> Result<Self> {
        let slots_log2 = slots_log2(config.frames);
        let fixed = pages.take_array(1 << slots_log2, config.entry_log2())?;
        Ok(Self {
            chains: Chains::new(slots_log2),
            overflow: Pieces::new(1 << config.index_bits()),
            page_log2: config.page.log2(),
            entry_log2: config.entry_log2(),
            fixed,
        })
    }

    pub(super) fn entries(&self) -> u64 {
        self.chains.len()
    }

    /// Returns the read of an entry: in the slot, or in the overflow area.
    fn step(&self, slot: usize, link: Option<u32>) -> Step {
        match link.and_then(|link| self.chains.link(link).overflow) {
            None => {
                let byte = (slot as u64) << self.entry_log2;
                let offset = (byte & ((1 << self.page_log2) - 1)) as u32;
                Step::Entry { table: (byte >> self.page_log2) as u32, offset, level: 0 }
            }
            Some((table, ordinal)) => Step::Entry { table, offset: ordinal << self.entry_log2, level: 1 },
        }
    }

    pub(super) fn walk(&self, asid: Asid, page_no: PageNo, steps: &mut Vec<Step>) -> Option<Walked> {
        let slot = self.chains.slot(asid, page_no);
        let mut empty = true;
        for link in self.chains.chain(slot) {
            empty = false;
            steps.push(self.step(slot, Some(link)));
            let found = self.chains.link(link);
            if (found.asid, found.page_no) == (asid, page_no) {
                return Some(Walked { page: found.page, size_log2: self.page_log2 });
            }
        }
        if empty {
            steps.push(self.step(slot, None));
        }
        None
    }

    pub(super) fn check_size(&self, size_log2: u32) -> Result<()> {
        one_size(&FORM, self.page_log2, size_log2)
    }

    pub(super) fn map(
        &mut self,
        pages: &mut TablePages,
        asid: Asid,
        page_no: PageNo,
        page: PageId,
        size_log2: u32,
    ) -> Result<()> {
        self.check_size(size_log2)?;
        if let Some(link) = self.chains.find(asid, page_no) {
            self.chains.link_mut(link).page = page;
            return Ok(());
        }
        let slot = self.chains.slot(asid, page_no);
        let mut overflow = None;
        if self.chains.chain(slot).next().is_some() {
            pages.room(self.overflow.pages_needed())?;
            overflow = Some(self.overflow.take(pages));
        }
        self.chains.append(asid, page_no, page, overflow);
        Ok(())
    }

    pub(super) fn unmap(&mut self, pages: &mut TablePages, asid: Asid, first: PageNo, last: PageNo) {
        for page_no in self.chains.mapped(asid, first, last) {
            let Some(link) = self.chains.find(asid, page_no) else { continue };
            let mut free = self.chains.remove(link).overflow;
            if free.is_none() {
                // The slot is free: the next translation of the chain moves into it.
                let next = self.chains.chain(self.chains.slot(asid, page_no)).next();
                free = next.and_then(|next| self.chains.link_mut(next).overflow.take());
            }
            if let Some(piece) = free {
                self.overflow.give_back(pages, piece);
            }
        }
    }

    /// Checks the places of entries. Returns the number of table pages that hold entries.
    pub(super) fn check(&self) -> Result<u64> {
        let (overflow_pages, overflow_entries) = self.overflow.in_use();
        let (mut all, mut chained) = (0, 0);
        for (place, link) in self.chains.all() {
            let in_slot = self.chains.link(link).overflow.is_none();
            if in_slot != (place == 0) {
                return Err(broken(
                    &format!("entry {place} of a chain"),
                    "the first entry alone lies in the slot",
                ));
            }
            (all, chained) = (all + 1, chained + u64::from(!in_slot));
        }
        if (all, chained) != (self.chains.len(), overflow_entries) {
            let value = format!("{all} entries in chains, {chained} in the overflow area");
            return Err(broken(
                &value,
                "chains hold every translation, and the overflow area no other entry",
            ));
        }
        Ok(u64::from(self.fixed) + overflow_pages)
    }
}
