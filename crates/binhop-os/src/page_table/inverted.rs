//! `inverted` is a table with one entry for each frame, behind a table of hash anchors. All address spaces share both
//! (after A. Chang and M. Mergen, "801 storage: architecture and programming", ACM TOCS 6(1), 1988).
//!
//! # Form
//! The anchor of a page's hash leads to the first entry of a chain. The entry of a frame names the page that
//! the frame holds and the next entry. A walk reads the anchor, and then the chain up to the page's entry.
//!
//! Ours:
//! - The entry of a frame names one translation. If address spaces share a page, the oldest translation lies in the
//!   entry of the frame. Further translations of the page have *alias entries* of the same size in an overflow
//!   area, which takes table pages as it grows and uses the lowest free entry of the lowest page. When the oldest
//!   translation leaves, the next translation of the page moves into the frame's entry, and keeps its place in its
//!   chain.
//! - A chain begins with its oldest translation, whatever happens in a lane: a lane skips the entries of
//!   pages that it does not hold, and finds a page that returns to memory in its old place. A translation
//!   that is replaced moves to the end of its chain.
//! - An anchor takes 4 bytes. There is a power of two of anchors, at least two for each frame.
//! - The walk of a page that is not mapped reads the anchor and the whole chain.
//! - The table pages of anchors come first, then the table pages of frame entries; both are in use from the start.
//!   [`chains`](super::chains) defines the hash.

use alloc::{collections::BTreeMap, format, vec::Vec};

use binhop_base::{Asid, PageId, PageNo, Result};

use super::chains::{Chains, slots_log2};
use super::config::{TableConfig, one_size};
use super::form::{TableForm, TableKind};
use super::pieces::Pieces;
use super::table_pages::{TablePages, broken};
use super::{Step, Walked};

pub(super) static FORM: TableForm = TableForm {
    name: "inverted",
    rule: "All address spaces share a table with one entry for each frame, which chains behind hash anchors lead to.",
    source: "Chang and Mergen, ACM TOCS 6(1), 1988; alias entries, the number of anchors, the hash and the order of a \
             chain are ours",
    has_levels: false,
    entry: |_| 16,
    kind: |_| TableKind::Inverted,
};

/// The logarithm of the bytes of an anchor.
const ANCHOR_LOG2: u32 = 2;

/// The link of a page that has no translation.
const NONE: u32 = u32::MAX;

/// `InvertedTable` is the inverted page table.
pub(super) struct InvertedTable {
    chains: Chains,
    aliases: Pieces,
    /// By page: the link to the page's oldest translation, which lies in the frame's entry.
    oldest: Vec<u32>,
    /// The links to further translations of shared pages, the oldest first.
    further: BTreeMap<PageId, Vec<u32>>,
    page_log2: u32,
    entry_log2: u32,
    /// The number of table pages that hold anchors. The table pages of frame entries follow.
    anchors: u32,
    /// The number of table pages that hold anchors or frame entries.
    fixed: u32,
}

impl InvertedTable {
    pub(super) fn new(config: &TableConfig, pages: &mut TablePages) -> Result<Self> {
        let slots_log2 = slots_log2(config.frames);
        let anchors = pages.take_array(1 << slots_log2, ANCHOR_LOG2)?;
        let fixed = anchors + pages.take_array(config.frames, config.entry_log2())?;
        Ok(Self {
            chains: Chains::new(slots_log2),
            aliases: Pieces::new(1 << config.index_bits()),
            oldest: Vec::new(),
            further: BTreeMap::new(),
            page_log2: config.page.log2(),
            entry_log2: config.entry_log2(),
            anchors,
            fixed,
        })
    }

    pub(super) fn entries(&self) -> u64 {
        self.chains.len()
    }

    pub(super) fn walk(&self, asid: Asid, page_no: PageNo, steps: &mut Vec<Step>) -> Option<Walked> {
        let slot = self.chains.slot(asid, page_no);
        let byte = (slot as u64) << ANCHOR_LOG2;
        let offset = (byte & ((1 << self.page_log2) - 1)) as u32;
        steps.push(Step::Entry { table: (byte >> self.page_log2) as u32, offset, level: 0 });
        for link in self.chains.chain(slot) {
            let found = self.chains.link(link);
            steps.push(match found.overflow {
                None => Step::Frame { page: found.page, base: self.anchors },
                Some((table, ordinal)) => Step::Entry { table, offset: ordinal << self.entry_log2, level: 1 },
            });
            if (found.asid, found.page_no) == (asid, page_no) {
                return Some(Walked { page: found.page, size_log2: self.page_log2 });
            }
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
        let before = self.chains.find(asid, page_no);
        if before.is_some_and(|link| self.chains.link(link).page == page) {
            return Ok(());
        }
        let shared = self.oldest.get(page.index()).is_some_and(|link| *link != NONE);
        // An old translation with aliases frees an alias entry, which is enough for the new translation.
        let frees = before.is_some_and(|link| {
            let old = self.chains.link(link);
            old.overflow.is_some() || self.further.contains_key(&old.page)
        });
        if shared && !frees {
            pages.room(self.aliases.pages_needed())?;
        }
        if let Some(link) = before {
            self.remove(pages, link);
        }
        let alias = shared.then(|| self.aliases.take(pages));
        let link = self.chains.append(asid, page_no, page, alias);
        if shared {
            self.further.entry(page).or_default().push(link);
        } else {
            if page.index() >= self.oldest.len() {
                self.oldest.resize(page.index() + 1, NONE);
            }
            self.oldest[page.index()] = link;
        }
        Ok(())
    }

    fn remove(&mut self, pages: &mut TablePages, link: u32) {
        let gone = self.chains.remove(link);
        let mut further = self.further.remove(&gone.page).unwrap_or_default();
        let free = if gone.overflow.is_some() {
            further.retain(|alias| *alias != link);
            gone.overflow
        } else if further.is_empty() {
            self.oldest[gone.page.index()] = NONE;
            None
        } else {
            let heir = further.remove(0);
            self.oldest[gone.page.index()] = heir;
            self.chains.link_mut(heir).overflow.take()
        };
        if !further.is_empty() {
            self.further.insert(gone.page, further);
        }
        if let Some(piece) = free {
            self.aliases.give_back(pages, piece);
        }
    }

    pub(super) fn unmap(&mut self, pages: &mut TablePages, asid: Asid, first: PageNo, last: PageNo) {
        for page_no in self.chains.mapped(asid, first, last) {
            if let Some(link) = self.chains.find(asid, page_no) {
                self.remove(pages, link);
            }
        }
    }

    /// Checks the places of entries. Returns the number of table pages that hold entries.
    pub(super) fn check(&self) -> Result<u64> {
        let (alias_pages, alias_entries) = self.aliases.in_use();
        let (mut all, mut aliases) = (0, 0);
        for (_, link) in self.chains.all() {
            let found = self.chains.link(link);
            let in_frame = found.overflow.is_none();
            let listed = self.further.get(&found.page).is_some_and(|further| further.contains(&link));
            if in_frame != (self.oldest[found.page.index()] == link) || in_frame == listed {
                let value = format!("a translation of page {}", found.page);
                return Err(broken(
                    &value,
                    "the oldest translation of a page lies in the entry of its frame",
                ));
            }
            (all, aliases) = (all + 1, aliases + u64::from(!in_frame));
        }
        if (all, aliases) != (self.chains.len(), alias_entries) {
            let value = format!("{all} entries in chains, {aliases} of them aliases");
            return Err(broken(
                &value,
                "chains hold every translation, and the overflow area no other entry",
            ));
        }
        Ok(u64::from(self.fixed) + alias_pages)
    }
}
