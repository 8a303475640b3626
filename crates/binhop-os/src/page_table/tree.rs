//! `TreeTable` holds the tables that are trees: an entry leads to a table page of the next level, or maps a
//! page. The forms `mips` and `radix` choose its shape.

use alloc::{boxed::Box, collections::BTreeMap, format, vec, vec::Vec};

use binhop_base::{Asid, Bytes, PageId, PageNo, Problem, Result};

use super::pieces::{Piece, Pieces};
use super::regions::{RegionShape, Regions};
use super::table_pages::{TablePages, broken};
use super::{Step, Walked};

/// `TreeShape` describes a tree.
pub(super) struct TreeShape {
    /// The name of the form.
    pub(super) form: &'static str,
    pub(super) page_log2: u32,
    pub(super) entry_log2: u32,
    /// The logarithm of the entries in a table page.
    pub(super) index_bits: u32,
    /// The bits of a page's number in the table.
    pub(super) bits: u32,
    /// The bits of a page's number below the index of each level, root first.
    pub(super) shifts: Box<[u32]>,
    pub(super) roots_per_page: u32,
    /// The regions of a table for 32-bit addresses. Other tables take canonical addresses.
    pub(super) regions: Option<RegionShape>,
    /// True if an entry above the last level may map a page.
    pub(super) huge_pages: bool,
}

impl TreeShape {
    fn index(&self, level: usize, at: u64) -> usize {
        (at >> self.shifts[level]) as usize & ((1 << self.index_bits) - 1)
    }

    fn offset(&self, index: usize) -> u32 {
        (index as u32) << self.entry_log2
    }

    /// Returns the number of entries in a root table.
    fn root_entries(&self) -> u32 {
        1 << (self.bits - self.shifts[0])
    }

    /// Returns the first page number that belongs to the upper half of canonical addresses, and the last.
    fn upper_half(&self) -> (u64, u64) {
        let last = u64::MAX >> self.page_log2;
        (last - ((1 << (self.bits - 1)) - 1), last)
    }

    /// Returns the number of a canonical page in the table.
    fn canonical(&self, page_no: PageNo) -> Option<u64> {
        let (upper, last) = self.upper_half();
        let fits = page_no.0 < 1 << (self.bits - 1) || (upper..=last).contains(&page_no.0);
        fits.then_some(page_no.0 & ((1 << self.bits) - 1))
    }

    /// Returns the level whose entries map pages of a size.
    fn leaf_level(&self, page_no: PageNo, size_log2: u32) -> Result<usize> {
        let shift = size_log2.checked_sub(self.page_log2);
        let level = self.shifts.iter().position(|level| Some(*level) == shift);
        let level = level.filter(|level| self.huge_pages || level + 1 == self.shifts.len());
        let Some(level) = level else {
            let usable = self.shifts.iter().rev().take(if self.huge_pages { self.shifts.len() } else { 1 });
            let sizes: Vec<_> =
                usable.map(|shift| format!("{}", Bytes(1 << (shift + self.page_log2)))).collect();
            return Err(Problem::request(
                &format!("a page of {}", Bytes(1 << size_log2)),
                "page table",
                &format!("the {} table expresses pages of {}", self.form, sizes.join(", ")),
                "take a page size of the table, or a radix table whose levels have the size",
            ));
        };
        if page_no.0.trailing_zeros() < self.shifts[level] {
            return Err(Problem::run(
                &format!("page {:#x}", page_no.0),
                "page table",
                &format!("a page of {} begins at a multiple of its size", Bytes(1 << size_log2)),
                "report a bug of binhop",
            ));
        }
        Ok(level)
    }

    #[cold]
    fn not_canonical(&self, asid: Asid, page_no: PageNo) -> Box<Problem> {
        let address = u128::from(page_no.0) << self.page_log2;
        Problem::request(
            &format!("address {address:#x}"),
            &format!("page table of address space {asid}"),
            &format!(
                "a {} table of {} levels translates addresses of {} bits, of which the highest is repeated above",
                self.form,
                self.shifts.len(),
                self.bits + self.page_log2,
            ),
            "take a table with more levels, or table = \"hashed\"",
        )
    }
}

/// `TreeEntry` is an entry of a table page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeEntry {
    Empty,
    /// The entry leads to a table page of the next level.
    Next(u32),
    /// The entry maps a page.
    Leaf(PageId),
}

/// `TreePage` is a table page.
#[derive(Default)]
struct TreePage {
    /// The entries. A free page has no entries.
    entries: Box<[TreeEntry]>,
    /// The number of entries that are not empty.
    live: u32,
}

struct TreeSpace {
    root: Piece,
    /// The number of translations.
    entries: u64,
    /// The regions, in a table for 32-bit addresses.
    regions: Option<Regions>,
}

/// `TreeTable` holds the trees of all address spaces.
pub(super) struct TreeTable {
    shape: TreeShape,
    /// The table pages by number.
    nodes: Vec<TreePage>,
    roots: Pieces,
    /// The address spaces that have pages mapped.
    spaces: BTreeMap<Asid, TreeSpace>,
}

/// `Descent` is what a map finds on its way down the tree.
struct Descent {
    /// The level of the entry at which the way ends.
    level: usize,
    /// What the entry holds; `None` if there is no root table.
    found: Option<TreeEntry>,
}

impl TreeTable {
    pub(super) fn new(shape: TreeShape) -> Self {
        let roots = Pieces::new(shape.roots_per_page);
        Self { shape, nodes: Vec::new(), roots, spaces: BTreeMap::new() }
    }

    pub(super) fn shifts(&self) -> &[u32] {
        &self.shape.shifts
    }

    pub(super) fn entries(&self) -> u64 {
        self.spaces.values().map(|space| space.entries).sum()
    }

    fn root_base(&self, root: Piece) -> usize {
        (root.1 * self.shape.root_entries()) as usize
    }

    pub(super) fn walk(&self, asid: Asid, page_no: PageNo, steps: &mut Vec<Step>) -> Option<Walked> {
        let space = self.spaces.get(&asid)?;
        let at = match (&space.regions, self.shape.regions) {
            (Some(regions), Some(shape)) => regions.locate(shape, page_no)?,
            _ => self.shape.canonical(page_no)?,
        };
        let (mut table, mut base) = (space.root.0, self.root_base(space.root));
        for level in 0..self.shape.shifts.len() {
            let index = base + self.shape.index(level, at);
            steps.push(Step::Entry { table, offset: self.shape.offset(index), level: level as u32 });
            match self.nodes[table as usize].entries[index] {
                TreeEntry::Empty => return None,
                TreeEntry::Next(next) => (table, base) = (next, 0),
                TreeEntry::Leaf(page) => {
                    let size_log2 = self.shape.page_log2 + self.shape.shifts[level];
                    return Some(Walked { page, size_log2 });
                }
            }
        }
        None
    }

    pub(super) fn check_size(&self, size_log2: u32) -> Result<()> {
        self.shape.leaf_level(PageNo(0), size_log2).map(drop)
    }

    pub(super) fn map(
        &mut self,
        pages: &mut TablePages,
        asid: Asid,
        page_no: PageNo,
        page: PageId,
        size_log2: u32,
    ) -> Result<()> {
        let leaf = self.shape.leaf_level(page_no, size_log2)?;
        let at = self.plan(asid, page_no)?;
        let descent = self.descend(asid, at, leaf);
        let needed = match descent.found {
            None => self.roots.pages_needed() + leaf as u64,
            Some(TreeEntry::Empty) => (leaf - descent.level) as u64,
            Some(TreeEntry::Leaf(_)) if descent.level == leaf => 0,
            Some(_) => return Err(overlap(asid, page_no, size_log2, self.shape.page_log2)),
        };
        pages.room(needed)?;
        if descent.found.is_none() {
            self.add_space(pages, asid);
        }
        let replaced = self.enter(pages, asid, at, leaf, page);
        if let (false, Some(space)) = (replaced, self.spaces.get_mut(&asid)) {
            space.entries += 1;
            if let (Some(regions), Some(shape)) = (&mut space.regions, self.shape.regions) {
                regions.add(shape, at, page_no);
            }
        }
        Ok(())
    }

    /// Returns the page's number in the table if it is mapped now.
    fn plan(&self, asid: Asid, page_no: PageNo) -> Result<u64> {
        let Some(shape) = self.shape.regions else {
            return self.shape.canonical(page_no).ok_or_else(|| self.shape.not_canonical(asid, page_no));
        };
        match self.spaces.get(&asid).and_then(|space| space.regions.as_ref()) {
            Some(regions) => regions.plan(shape, asid, page_no),
            None => Regions::new(shape).plan(shape, asid, page_no),
        }
    }

    fn descend(&self, asid: Asid, at: u64, leaf: usize) -> Descent {
        let Some(space) = self.spaces.get(&asid) else {
            return Descent { level: 0, found: None };
        };
        let (mut table, mut base) = (space.root.0, self.root_base(space.root));
        let mut level = 0;
        loop {
            let found = self.nodes[table as usize].entries[base + self.shape.index(level, at)];
            match found {
                TreeEntry::Next(next) if level < leaf => (table, base) = (next, 0),
                found => return Descent { level, found: Some(found) },
            }
            level += 1;
        }
    }

    fn add_space(&mut self, pages: &mut TablePages, asid: Asid) {
        let root = self.roots.take(pages);
        self.open(root.0);
        let regions = self.shape.regions.map(Regions::new);
        self.spaces.insert(asid, TreeSpace { root, entries: 0, regions });
    }

    /// Gives a table page its entries, unless it has them.
    fn open(&mut self, table: u32) {
        let table = table as usize;
        if table >= self.nodes.len() {
            self.nodes.resize_with(table + 1, TreePage::default);
        }
        if self.nodes[table].entries.is_empty() {
            self.nodes[table].entries = vec![TreeEntry::Empty; 1 << self.shape.index_bits].into();
        }
    }

    /// Writes the entry of a page, and makes the table pages above it. Returns true if the entry was there.
    fn enter(&mut self, pages: &mut TablePages, asid: Asid, at: u64, leaf: usize, page: PageId) -> bool {
        let root = self.spaces[&asid].root;
        let (mut table, mut base) = (root.0 as usize, self.root_base(root));
        for level in 0..leaf {
            let index = base + self.shape.index(level, at);
            let next = match self.nodes[table].entries[index] {
                TreeEntry::Next(next) => next,
                _ => {
                    let next = pages.take();
                    self.open(next);
                    self.nodes[table].entries[index] = TreeEntry::Next(next);
                    self.nodes[table].live += 1;
                    next
                }
            };
            (table, base) = (next as usize, 0);
        }
        let node = &mut self.nodes[table];
        let entry = &mut node.entries[base + self.shape.index(leaf, at)];
        let replaced = *entry != TreeEntry::Empty;
        *entry = TreeEntry::Leaf(page);
        node.live += u32::from(!replaced);
        replaced
    }

    pub(super) fn unmap(&mut self, pages: &mut TablePages, asid: Asid, first: PageNo, last: PageNo) {
        let Some(mut space) = self.spaces.remove(&asid) else {
            return;
        };
        for (region, first, last) in self.ranges(&space, first.0, last.0) {
            let base = self.root_base(space.root);
            let removed = self.clear(pages, (space.root.0, base), 0, (first, last));
            space.entries -= removed;
            if let Some(regions) = &mut space.regions {
                regions.remove(region, removed);
            }
        }
        if space.entries > 0 {
            self.spaces.insert(asid, space);
        } else if self.roots.give_back(pages, space.root) {
            self.nodes[space.root.0 as usize] = TreePage::default();
        }
    }

    /// Returns the parts of a range that the table can express, each with its region. Pages have their numbers in
    /// the table.
    fn ranges(&self, space: &TreeSpace, first: u64, last: u64) -> Vec<(usize, u64, u64)> {
        if let (Some(regions), Some(shape)) = (&space.regions, self.shape.regions) {
            return regions.ranges(shape, first, last);
        }
        let mask = (1 << self.shape.bits) - 1;
        let halves = [(0, (1 << (self.shape.bits - 1)) - 1), self.shape.upper_half()];
        let cut = halves.map(|(begin, end)| (first.max(begin), last.min(end)));
        cut.into_iter()
            .filter(|(first, last)| first <= last)
            .map(|(first, last)| (0, first & mask, last & mask))
            .collect()
    }

    /// Removes the entries of a range below a table that begins at an entry of a table page. Returns the
    /// number of translations removed.
    fn clear(
        &mut self,
        pages: &mut TablePages,
        (table, base): (u32, usize),
        level: usize,
        (first, last): (u64, u64),
    ) -> u64 {
        let shift = self.shape.shifts[level];
        let mut removed = 0;
        for upper in first >> shift..=last >> shift {
            let (begin, end) = (upper << shift, (upper << shift) + ((1 << shift) - 1));
            let index = base + self.shape.index(level, begin);
            let gone = match self.nodes[table as usize].entries[index] {
                TreeEntry::Empty => false,
                TreeEntry::Leaf(_) => {
                    let covered = first <= begin && end <= last;
                    removed += u64::from(covered);
                    covered
                }
                TreeEntry::Next(next) => {
                    let inside = (first.max(begin), last.min(end));
                    removed += self.clear(pages, (next, 0), level + 1, inside);
                    let empty = self.nodes[next as usize].live == 0;
                    if empty {
                        self.nodes[next as usize] = TreePage::default();
                        pages.give_back(next);
                    }
                    empty
                }
            };
            if gone {
                let node = &mut self.nodes[table as usize];
                node.entries[index] = TreeEntry::Empty;
                node.live -= 1;
            }
        }
        removed
    }

    /// Checks the counts of entries. Returns the number of table pages that hold entries.
    pub(super) fn check(&self) -> Result<u64> {
        let full = |entry: &&TreeEntry| **entry != TreeEntry::Empty;
        let leads = |entry: &&TreeEntry| matches!(entry, TreeEntry::Next(_));
        let (mut held, mut links, mut leaves) = (0, 0, 0);
        for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.entries.is_empty()) {
            let live = node.entries.iter().filter(full).count() as u64;
            if live == 0 || live != node.live.into() {
                let value = format!("table page {number} with {live} entries, {} counted", node.live);
                return Err(broken(&value, "a table page in use holds the counted entries"));
            }
            let next = node.entries.iter().filter(leads).count() as u64;
            (held, links, leaves) = (held + 1, links + next, leaves + live - next);
        }
        let in_regions = |space: &TreeSpace| match &space.regions {
            Some(regions) => regions.entries(),
            None => space.entries,
        };
        let (root_pages, roots) = self.roots.in_use();
        let counted = (self.entries(), self.spaces.values().map(in_regions).sum(), roots);
        if (leaves, leaves, self.spaces.len() as u64) != counted || links + root_pages != held {
            let value = format!("{leaves} translations in {held} table pages, {links} below another page");
            return Err(broken(&value, "address spaces, regions and roots count the same entries and pages"));
        }
        Ok(held)
    }
}

#[cold]
fn overlap(asid: Asid, page_no: PageNo, size_log2: u32, page_log2: u32) -> Box<Problem> {
    Problem::run(
        &format!("a page of {} at {:#x}", Bytes(1 << size_log2), u128::from(page_no.0) << page_log2),
        &format!("page table of address space {asid}"),
        "pages of different sizes do not overlap",
        "unmap the range before it is mapped with another page size",
    )
}
