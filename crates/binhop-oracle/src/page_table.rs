//! `PageTables` keeps the translations of all address spaces in one list, in the order in which they were made,
//! and finds by searching the list which table pages exist and what a walk reads.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Asid, PageId};

/// `TableDesign` is the form of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableDesign {
    /// The two tiers of MIPS.
    Mips,
    /// A tree with this number of levels.
    Radix(u32),
    /// A hash table of entries.
    Hashed,
    /// One entry for each frame.
    Inverted,
}

/// `Read` is one read of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read {
    /// The table page, the byte in it, and the level.
    Entry(u32, u32, u32),
    /// The entry of the frame that holds a page, and the first table page of these entries.
    Frame(PageId, u32),
}

/// `MappedPage` is one mapped page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedPage {
    asid: Asid,
    page_no: u64,
    page: PageId,
    size_log2: u32,
}

/// `PageTables` holds the translations of all address spaces.
#[derive(Clone, Debug)]
pub struct PageTables {
    kind: TableDesign,
    page_log2: u32,
    entry: u32,
    reserve: u32,
    /// The logarithm of the slots of a hash table.
    slots_log2: u32,
    /// The number of table pages of anchors, and the number of all table pages that stay in use.
    fixed: (u32, u32),
    /// The translations, the oldest first.
    translations: Vec<MappedPage>,
    /// The upper bits of each region, by address space and number.
    regions: BTreeMap<(Asid, u64), u64>,
    /// The table pages of trees, by address space, level and upper bits of the pages below.
    tables: BTreeMap<(Asid, u32, u64), u32>,
    /// The table page and ordinal of root tables (by address space) and overflow entries (by translation).
    pieces: BTreeMap<(Asid, u64), (u32, u32)>,
}

impl PageTables {
    /// Makes tables for memory of `frames` frames, with at most `reserve` table pages.
    #[must_use]
    pub fn new(kind: TableDesign, page_log2: u32, entry: u32, reserve: u32, frames: u64) -> Self {
        let slots = (2 * frames).next_power_of_two();
        let pages = |bytes: u64| bytes.div_ceil(1 << page_log2) as u32;
        let fixed = match kind {
            TableDesign::Mips | TableDesign::Radix(_) => (0, 0),
            TableDesign::Hashed => (0, pages(slots * u64::from(entry))),
            TableDesign::Inverted => (pages(slots * 4), pages(slots * 4) + pages(frames * u64::from(entry))),
        };
        Self {
            kind,
            page_log2,
            entry,
            reserve,
            slots_log2: slots.ilog2(),
            fixed,
            translations: Vec::new(),
            regions: BTreeMap::new(),
            tables: BTreeMap::new(),
            pieces: BTreeMap::new(),
        }
    }

    fn is_tree(&self) -> bool {
        matches!(self.kind, TableDesign::Mips | TableDesign::Radix(_))
    }

    fn levels(&self) -> u32 {
        if let TableDesign::Radix(levels) = self.kind { levels } else { 2 }
    }

    fn index_bits(&self) -> u32 {
        self.page_log2 - self.entry.ilog2()
    }

    /// Returns the number of page-number bits below the index of a level.
    fn shift(&self, level: u32) -> u32 {
        (self.levels() - 1 - level) * self.index_bits()
    }

    /// Returns the logarithm of the pages in a region: 256 MiB, or what an entry of the root maps if it is more.
    fn region_log2(&self) -> u32 {
        (28 - self.page_log2).max(if self.is_tree() { self.shift(0) } else { 0 })
    }

    /// Returns the bytes of a root table of MIPS.
    fn root_bytes(&self) -> u32 {
        self.entry << (31 - self.page_log2 - self.index_bits())
    }

    /// Returns the number of bits that the table translates.
    fn address_bits(&self) -> u32 {
        match self.kind {
            TableDesign::Mips => 31,
            _ => {
                let cap = if self.entry == 4 { 32 } else { 64 };
                cap.min(self.page_log2 + self.levels() * self.index_bits())
            }
        }
    }

    fn has_regions(&self) -> bool {
        self.is_tree() && self.address_bits() <= 32
    }

    /// Returns the number of a page in a tree; `None` if the tree cannot express the page, or its region has no
    /// number yet.
    fn number(&self, asid: Asid, page_no: u64) -> Option<u64> {
        let region_log2 = self.region_log2();
        if self.has_regions() {
            let mut numbers = self.regions.iter().filter(|((of, _), _)| *of == asid);
            let ((_, number), _) = numbers.find(|(_, upper)| **upper == page_no >> region_log2)?;
            return Some((number << region_log2) + page_no % (1 << region_log2));
        }
        let bits = self.address_bits();
        let address = page_no << self.page_log2;
        let extended = ((address << (64 - bits)) as i64 >> (64 - bits)) as u64;
        (extended == address).then_some((address << (64 - bits) >> (64 - bits)) >> self.page_log2)
    }

    fn slot(&self, asid: Asid, page_no: u64) -> u64 {
        let slots = 1 << self.slots_log2;
        let spread = (u128::from(asid.0) * 0x9E37_79B9_7F4A_7C15 % (1 << 64)) as u64;
        let mut slot = spread >> (64 - self.slots_log2);
        let mut rest = page_no;
        while rest > 0 {
            slot ^= rest % slots;
            rest /= slots;
        }
        slot
    }

    /// Returns the translations of a slot, the oldest first.
    fn chain(&self, slot: u64) -> Vec<MappedPage> {
        let all = self.translations.iter().copied();
        all.filter(|it| self.slot(it.asid, it.page_no) == slot).collect()
    }

    /// Returns true if the translation has an entry in the overflow area.
    fn overflows(&self, it: &MappedPage) -> bool {
        match self.kind {
            TableDesign::Hashed => self.chain(self.slot(it.asid, it.page_no)).first() != Some(it),
            _ => self.translations.iter().find(|other| other.page == it.page) != Some(it),
        }
    }

    /// Returns the names of the table pages of trees that the translations need. Roots of MIPS are pieces.
    fn needed_tables(&self) -> BTreeSet<(Asid, u32, u64)> {
        let mut needed = BTreeSet::new();
        for it in self.translations.iter().filter(|_| self.is_tree()) {
            let number = self.number(it.asid, it.page_no).expect("a mapped page has a number");
            for level in u32::from(self.kind == TableDesign::Mips)..self.levels() {
                let upper = if level == 0 { 0 } else { number >> self.shift(level - 1) };
                if level == 0 || self.shift(level - 1) > it.size_log2 - self.page_log2 {
                    needed.insert((it.asid, level, upper));
                }
            }
        }
        needed
    }

    fn needed_pieces(&self) -> BTreeSet<(Asid, u64)> {
        match self.kind {
            TableDesign::Radix(_) => BTreeSet::new(),
            TableDesign::Mips => self.translations.iter().map(|it| (it.asid, 0)).collect(),
            TableDesign::Hashed | TableDesign::Inverted => {
                let overflowing = self.translations.iter().filter(|it| self.overflows(it));
                overflowing.map(|it| (it.asid, it.page_no)).collect()
            }
        }
    }

    fn in_use(&self) -> BTreeSet<u32> {
        let pieces = self.pieces.values().map(|(table, _)| *table);
        (0..self.fixed.1).chain(self.tables.values().copied()).chain(pieces).collect()
    }

    /// Returns the number of table pages in use.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.in_use().len() as u32
    }

    /// Returns the number of translations.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.translations.len() as u64
    }

    fn lowest_free(&self) -> u32 {
        let used = self.in_use();
        (0..).find(|table| !used.contains(table)).expect("numbers do not end")
    }

    /// Forgets regions, table pages and pieces that hold nothing.
    fn shrink(&mut self) {
        let region_log2 = self.region_log2();
        let (translations, has_regions) = (&self.translations, self.has_regions());
        let lives = |asid: Asid, upper: u64| {
            translations.iter().any(|it| it.asid == asid && it.page_no >> region_log2 == upper)
        };
        self.regions.retain(|(asid, _), upper| has_regions && lives(*asid, *upper));
        let (tables, pieces) = (self.needed_tables(), self.needed_pieces());
        self.tables.retain(|name, _| tables.contains(name));
        self.pieces.retain(|name, _| pieces.contains(name));
    }

    /// Gives table pages and pieces to the roots, tree pages and overflow entries that need them now.
    fn grow(&mut self) {
        let per_page = match self.kind {
            TableDesign::Mips => (1 << self.page_log2) / self.root_bytes(),
            _ => 1 << self.index_bits(),
        };
        for name in self.needed_pieces() {
            if !self.pieces.contains_key(&name) {
                let taken: BTreeSet<_> = self.pieces.values().copied().collect();
                let pages: BTreeSet<u32> = taken.iter().map(|(page, _)| *page).collect();
                let all = pages.iter().flat_map(|page| (0..per_page).map(|ordinal| (*page, ordinal)));
                let free = all.into_iter().find(|piece| !taken.contains(piece));
                self.pieces.insert(name, free.unwrap_or_else(|| (self.lowest_free(), 0)));
            }
        }
        let mut missing: Vec<_> = self.needed_tables().into_iter().collect();
        missing.sort_by_key(|(_, level, _)| *level);
        for name in missing {
            if !self.tables.contains_key(&name) {
                self.tables.insert(name, self.lowest_free());
            }
        }
    }

    /// Maps a page. Returns false, and changes nothing, if the table cannot map the page.
    pub fn map(&mut self, asid: Asid, page_no: u64, page: PageId, size_log2: u32) -> bool {
        let before = self.clone();
        let fits = self.try_map(MappedPage { asid, page_no, page, size_log2 });
        if !fits {
            *self = before;
        }
        fits
    }

    fn try_map(&mut self, new: MappedPage) -> bool {
        let MappedPage { asid, page_no, page, size_log2 } = new;
        let pages = |it: &MappedPage| it.page_no..it.page_no + (1 << (it.size_log2 - self.page_log2));
        let overlaps = |it: &&MappedPage| {
            it.asid == asid && pages(it).start < pages(&new).end && pages(&new).start < pages(it).end
        };
        let old: Vec<MappedPage> = self.translations.iter().filter(overlaps).copied().collect();
        match old[..] {
            [] => self.translations.push(new),
            [old] if old.size_log2 == size_log2 => {
                let at = self.translations.iter().position(|it| *it == old).expect("it was found");
                if self.kind == TableDesign::Inverted && old.page != page {
                    self.translations.remove(at);
                    self.shrink();
                    self.translations.push(new);
                } else {
                    self.translations[at].page = page;
                }
            }
            _ => return false,
        }
        let region_log2 = self.region_log2();
        if self.has_regions() && self.number(asid, page_no).is_none() {
            let count = 1 << (self.address_bits() - self.page_log2 - region_log2);
            let Some(free) = (0..count).find(|number| !self.regions.contains_key(&(asid, *number))) else {
                return false;
            };
            self.regions.insert((asid, free), page_no >> region_log2);
        }
        if self.is_tree() && self.number(asid, page_no).is_none() {
            return false;
        }
        self.grow();
        self.used() <= self.reserve
    }

    /// Unmaps the pages that lie in `first..=last` wholly.
    pub fn unmap(&mut self, asid: Asid, first: u64, last: u64) {
        let page_log2 = self.page_log2;
        let inside = |it: &MappedPage| {
            it.asid == asid
                && it.page_no >= first
                && it.page_no + ((1 << (it.size_log2 - page_log2)) - 1) <= last
        };
        self.translations.retain(|it| !inside(it));
        self.shrink();
    }

    /// Returns the page and its size, and what a walk reads.
    #[must_use]
    pub fn walk(&self, asid: Asid, page_no: u64) -> (Option<(PageId, u32)>, Vec<Read>) {
        let covers = |it: &&MappedPage| {
            let shift = it.size_log2 - self.page_log2;
            it.asid == asid && it.page_no >> shift == page_no >> shift
        };
        let found = self.translations.iter().find(covers);
        let reads = if self.is_tree() {
            self.tree_reads(asid, page_no, found)
        } else {
            self.chain_reads(asid, page_no)
        };
        (found.map(|it| (it.page, it.size_log2)), reads)
    }

    fn tree_reads(&self, asid: Asid, page_no: u64, found: Option<&MappedPage>) -> Vec<Read> {
        let mut reads = Vec::new();
        let Some(number) = self.number(asid, page_no) else { return reads };
        for level in 0..self.levels() {
            let upper = if level == 0 { 0 } else { number >> self.shift(level - 1) };
            let root =
                (self.kind == TableDesign::Mips && level == 0).then(|| self.pieces.get(&(asid, 0))).flatten();
            let (table, base) = match (root, self.tables.get(&(asid, level, upper))) {
                (Some((table, ordinal)), _) => (*table, ordinal * self.root_bytes()),
                (None, Some(table)) => (*table, 0),
                (None, None) => break,
            };
            let index = (number >> self.shift(level)) % (1 << self.index_bits());
            reads.push(Read::Entry(table, base + index as u32 * self.entry, level));
            if found.is_some_and(|it| it.size_log2 == self.page_log2 + self.shift(level)) {
                break;
            }
        }
        reads
    }

    fn chain_reads(&self, asid: Asid, page_no: u64) -> Vec<Read> {
        let slot = self.slot(asid, page_no);
        let size = 1 << self.page_log2;
        let place = |byte: u64| Read::Entry((byte / size) as u32, (byte % size) as u32, 0);
        let in_slot = place(slot * u64::from(self.entry));
        let mut reads = Vec::new();
        if self.kind == TableDesign::Inverted {
            reads.push(place(slot * 4));
        }
        for it in self.chain(slot) {
            reads.push(match self.pieces.get(&(it.asid, it.page_no)) {
                Some((table, ordinal)) => Read::Entry(*table, ordinal * self.entry, 1),
                None if self.kind == TableDesign::Hashed => in_slot,
                None => Read::Frame(it.page, self.fixed.0),
            });
            if (it.asid, it.page_no) == (asid, page_no) {
                break;
            }
        }
        if reads.is_empty() {
            reads.push(in_slot);
        }
        reads
    }
}
