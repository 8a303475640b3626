//! `Protection` keeps what pages allow, and which lines of virtual caches have an older protection than their page
//! (JM97 §5.4).
//!
//! # Counting rules
//! - A page allows what the last `map` or `protect` event that covers it states. Every other page allows everything. A
//!   fork gives the child the parent's flags.
//! - A `protect` event changes a page that its space has touched, and maps since, if the page then allows something
//!   else. The data side checks loads and stores, and the instruction side checks fetches. A side is swept if what it
//!   checks has changed: each line of the page is checked in both of its caches, and updated where a cache holds the
//!   line.
//! - With `lazy`, a side that keeps every right that it had before is not swept. The lines that a cache of the side
//!   holds, in pieces of level 1's line length, keep what the page allowed before. The first access that such a
//!   line does not allow updates the line. A line that no cache of the side holds after some access has no
//!   protection, until it comes from memory again.
//! - A sweep updates older lines, too.
//! - An access that its page does not allow is counted, and made.

use std::collections::BTreeMap;

use binhop_base::{Asid, Kind, Translation};

use crate::cache_tree::CacheTree;

const PAGE: u64 = 4096;

/// The rights that a page gives: fetches, loads, stores.
type Allows = [bool; 3];

/// The cycles to check a line: in level 1, in level 2. `UPDATED` has the cycles to check and update a line.
const CHECKED: [u64; 2] = [3, 20];
const UPDATED: [u64; 2] = [5, 40];

/// The kinds of access that each side checks.
const SIDES: [&[Kind]; 2] = [&[Kind::Fetch], &[Kind::Load, Kind::Store]];

/// `ProtectedAccess` is an access to a line that keeps the protection of its page.
#[derive(Clone, Copy, Debug)]
pub struct ProtectedAccess {
    /// The kind of the access.
    pub kind: Kind,
    /// The space that makes the access.
    pub asid: Asid,
    /// The virtual page.
    pub page_no: u64,
    /// The mapping that names the page.
    pub mapping: u32,
    /// The byte within the page.
    pub offset: u64,
}

/// `Protection` keeps flags by page, the lines of older protection, and the counts.
#[derive(Clone, Debug)]
pub struct Protection {
    /// The level-1 caches of instructions and of data.
    serving: [usize; 2],
    /// Every count that adds up, by its metric's name.
    pub counts: BTreeMap<String, u64>,
    /// True if a change that only adds rights updates a line when the first access needs the change.
    pub lazy: bool,
    /// True if accesses that pages do not allow are counted.
    pub counts_violations: bool,
    flags: BTreeMap<(Asid, u64), u32>,
    /// The mapping that last led to each page that was touched and is mapped since.
    mappings: BTreeMap<(Asid, u64), u32>,
    /// The lines of older protection: side, mapping, first byte in the page.
    older: BTreeMap<(usize, u32, u64), Allows>,
}

fn allows(flags: u32) -> Allows {
    let [read, write, exec] = [1, 2, 4].map(|bit| flags & bit != 0);
    [exec, read || write, write]
}

impl Protection {
    /// Makes the model above the caches that serve instructions and data.
    #[must_use]
    pub fn new(serving: [usize; 2]) -> Self {
        Self {
            serving,
            counts: BTreeMap::new(),
            lazy: false,
            counts_violations: false,
            flags: BTreeMap::new(),
            mappings: BTreeMap::new(),
            older: BTreeMap::new(),
        }
    }

    fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(format!("translation.{name}")).or_default() += count;
    }

    /// Maps some pages anew with the flags of a `map` event, or unmaps them (`None`).
    pub fn map(&mut self, asid: Asid, first: u64, last: u64, flags: Option<u32>) {
        self.set(asid, first, last, flags);
        self.mappings.retain(|&(of, page), _| of != asid || page < first || page > last);
    }

    /// Gives some pages the flags of a `map` event, or no flags (`None`).
    fn set(&mut self, asid: Asid, first: u64, last: u64, flags: Option<u32>) {
        for page in first..=last {
            match flags {
                Some(flags) => self.flags.insert((asid, page), flags),
                None => self.flags.remove(&(asid, page)),
            };
        }
    }

    /// Gives a child the flags of its parent. Without a parent, the child's pages have no flags.
    pub fn inherit(&mut self, child: Asid, parent: Option<Asid>) {
        let of_parent: Vec<(u64, u32)> = self
            .flags
            .iter()
            .filter(|((asid, _), _)| Some(*asid) == parent)
            .map(|(&(_, page), &flags)| (page, flags))
            .collect();
        self.flags.retain(|&(asid, _), _| asid != child);
        self.mappings.retain(|&(asid, _), _| asid != child);
        self.flags.extend(of_parent.into_iter().map(|(page, flags)| ((child, page), flags)));
    }

    fn allows(&self, asid: Asid, page: u64) -> Allows {
        self.flags.get(&(asid, page)).map_or([true; 3], |&flags| allows(flags))
    }

    /// Takes a `protect` event for the pages from a first page to a last page.
    pub fn protect(
        &mut self,
        asid: Asid,
        [first, last]: [u64; 2],
        flags: u32,
        tree: &mut CacheTree,
        program: &dyn Translation,
    ) {
        self.forget_older(tree, program);
        let mut pages = 0;
        for page in first..=last {
            let before = self.allows(asid, page);
            self.set(asid, page, page, Some(flags));
            let after = allows(flags);
            let Some(&mapping) = self.mappings.get(&(asid, page)).filter(|_| before != after) else {
                continue;
            };
            pages += 1;
            for (side, kinds) in SIDES.iter().enumerate() {
                let has = |rights: Allows, kind: Kind| rights[kind as usize];
                if kinds.iter().all(|&kind| has(before, kind) == has(after, kind)) {
                    continue;
                }
                let loses = kinds.iter().any(|&kind| has(before, kind) && !has(after, kind));
                if self.lazy && !loses {
                    self.keep(side, mapping, before, tree, program);
                } else {
                    self.sweep(side, mapping, tree, program);
                }
            }
        }
        if pages > 0 {
            self.add("protection.changes", 1);
            self.add("protection.pages", pages);
        }
    }

    fn keep(
        &mut self,
        side: usize,
        mapping: u32,
        before: Allows,
        tree: &CacheTree,
        program: &dyn Translation,
    ) {
        let line = tree.caches[self.serving[side]].config.line;
        for offset in (0..PAGE).step_by(line as usize) {
            if hold(tree, self.serving[side], mapping, offset, program) {
                self.older.entry((side, mapping, offset)).or_insert(before);
            }
        }
    }

    fn sweep(&mut self, side: usize, mapping: u32, tree: &mut CacheTree, program: &dyn Translation) {
        let mut cache = Some(self.serving[side]);
        let mut depth = 0;
        while let Some(here) = cache {
            let level = depth.min(1);
            depth += 1;
            let line = tree.caches[here].config.line;
            for offset in (0..PAGE).step_by(line as usize) {
                self.add(&format!("protection.level-{}.checked", level + 1), 1);
                let cycles = if tree.holds(here, mapping, offset, program) {
                    self.add(&format!("protection.level-{}.updated", level + 1), 1);
                    UPDATED[level]
                } else {
                    CHECKED[level]
                };
                self.add("protection.cycles", cycles);
                tree.now += cycles;
            }
            cache = tree.caches[here].config.next;
        }
        self.older.retain(|&(of, line, _), _| of != side || line != mapping);
    }

    /// Notes an access that comes next, and counts it if its page does not allow it.
    pub fn before(&mut self, next: &ProtectedAccess) {
        let page = next.page_no;
        self.mappings.insert((next.asid, page), next.mapping);
        if self.counts_violations && !self.allows(next.asid, page)[next.kind as usize] {
            self.add(&format!("{}.violations", next.kind.name()), 1);
        }
    }

    /// Updates the line of an access that has been made, if its protection is older and does not allow the access.
    pub fn update_line(&mut self, made: &ProtectedAccess, tree: &mut CacheTree) {
        let side = usize::from(made.kind != Kind::Fetch);
        let line = tree.caches[self.serving[side]].config.line;
        let key = (side, made.mapping, made.offset / line * line);
        if self.older.get(&key).is_some_and(|rights| !rights[made.kind as usize]) {
            self.older.remove(&key);
            self.add("protection.late-updates", 1);
            self.add("protection.cycles", UPDATED[0]);
            tree.now += UPDATED[0];
        }
    }

    /// Forgets the older protection of lines that no cache of their side holds.
    pub fn forget_older(&mut self, tree: &CacheTree, world: &dyn Translation) {
        let mut older = std::mem::take(&mut self.older);
        older.retain(|&(side, mapping, offset), _| hold(tree, self.serving[side], mapping, offset, world));
        self.older = older;
    }
}

/// Returns whether a cache, or a cache behind it, holds the line with this byte of a mapping.
pub fn hold(tree: &CacheTree, first: usize, mapping: u32, offset: u64, world: &dyn Translation) -> bool {
    tree.holds(first, mapping, offset, world)
        || tree.caches[first].config.next.is_some_and(|next| hold(tree, next, mapping, offset, world))
}
