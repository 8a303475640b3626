//! `Protection` keeps what pages allow, and which lines have an older protection than their page (JM97 §5.4).
//!
//! # Counting rules
//! - A page allows what the last `map` or `protect` event that covers it states. Every other page allows everything. A
//!   fork gives the child the parent's flags.
//! - A `protect` event changes a page that is in the page table if the page then allows something else. The data
//!   side checks loads and stores, and the instruction side checks fetches. A side is swept if what it checks has
//!   changed: each line of the page is checked in both of its caches, and updated where a cache holds the line.
//! - With `lazy`, a side that keeps every right that it had before is not swept. The lines that a cache of the side
//!   holds, in pieces of level 1's line length, keep what the page allowed before. The first access that such a
//!   line does not allow updates the line. A line that no cache of the side holds after some access has no
//!   protection, until it comes from memory again.
//! - A sweep updates older lines, too.
//! - An access that its page does not allow is counted, and made.

use std::collections::BTreeMap;

use binhop_base::{Asid, Kind, PageNo, Translation};

use super::{HandlerWorld, PAGE, Reference, SoftVm, hold};
use crate::cache_tree::CacheTree;

/// The rights that a page gives: fetches, loads, stores.
type Allows = [bool; 3];

/// The cycles to check a line: in level 1, in level 2. `UPDATED` has the cycles to check and update a line.
const CHECKED: [u64; 2] = [3, 20];
const UPDATED: [u64; 2] = [5, 40];

/// The kinds of access that each side checks.
const SIDES: [&[Kind]; 2] = [&[Kind::Fetch], &[Kind::Load, Kind::Store]];

/// `Protection` keeps flags by page, and the lines of older protection.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// True if a change that only adds rights updates a line when the first access needs the change.
    pub lazy: bool,
    /// True if accesses that pages do not allow are counted.
    pub counts_violations: bool,
    flags: BTreeMap<(Asid, u64), u32>,
    /// The mapping that last led to each page.
    mappings: BTreeMap<(Asid, u64), u32>,
    /// The lines of older protection: side, mapping, first byte in the page.
    older: BTreeMap<(usize, u32, u64), Allows>,
}

fn allows(flags: u32) -> Allows {
    let [read, write, exec] = [1, 2, 4].map(|bit| flags & bit != 0);
    [exec, read || write, write]
}

impl Protection {
    /// Gives some pages the flags of a `map` event, or no flags (`None`).
    pub fn set(&mut self, asid: Asid, first: u64, last: u64, flags: Option<u32>) {
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
        self.flags.extend(of_parent.into_iter().map(|(page, flags)| ((child, page), flags)));
    }

    fn allows(&self, asid: Asid, page: u64) -> Allows {
        self.flags.get(&(asid, page)).map_or([true; 3], |&flags| allows(flags))
    }
}

impl SoftVm {
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
            let before = self.protection.allows(asid, page);
            self.protection.set(asid, page, page, Some(flags));
            let after = allows(flags);
            if before == after || !self.table.maps(asid, PageNo(page)) {
                continue;
            }
            pages += 1;
            let mapping = self.protection.mappings[&(asid, page)];
            for (side, kinds) in SIDES.iter().enumerate() {
                let has = |rights: Allows, kind: Kind| rights[kind as usize];
                if kinds.iter().all(|&kind| has(before, kind) == has(after, kind)) {
                    continue;
                }
                let loses = kinds.iter().any(|&kind| has(before, kind) && !has(after, kind));
                if self.protection.lazy && !loses {
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
                self.protection.older.entry((side, mapping, offset)).or_insert(before);
            }
        }
    }

    fn sweep(&mut self, side: usize, mapping: u32, tree: &mut CacheTree, program: &dyn Translation) {
        let mut cache = Some(self.serving[side]);
        for level in 0..2 {
            let here = cache.expect("there are two levels");
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
        self.protection.older.retain(|&(of, line, _), _| of != side || line != mapping);
    }

    /// Notes an access that comes next, and counts it if its page does not allow it.
    pub(super) fn check_protection(&mut self, next: &Reference) {
        let page = next.page_no.0;
        self.protection.mappings.insert((next.asid, page), next.mapping);
        if self.protection.counts_violations && !self.protection.allows(next.asid, page)[next.kind as usize] {
            self.add(&format!("{}.violations", next.kind.name()), 1);
        }
    }

    /// Updates the line of an access that has been made, if its protection is older and does not allow the access.
    pub(super) fn update_line(&mut self, made: &Reference, tree: &mut CacheTree) {
        let side = usize::from(made.kind != Kind::Fetch);
        let line = tree.caches[self.serving[side]].config.line;
        let key = (side, made.mapping, made.offset / line * line);
        if self.protection.older.get(&key).is_some_and(|rights| !rights[made.kind as usize]) {
            self.protection.older.remove(&key);
            self.add("protection.late-updates", 1);
            self.add("protection.cycles", UPDATED[0]);
            tree.now += UPDATED[0];
        }
    }

    /// Forgets the older protection of lines that no cache of their side holds.
    pub(super) fn forget_older(&mut self, tree: &CacheTree, program: &dyn Translation) {
        let mut older = std::mem::take(&mut self.protection.older);
        let world = HandlerWorld { program, pages: &self.pages };
        older.retain(|&(side, mapping, offset), _| hold(tree, self.serving[side], mapping, offset, &world));
        self.protection.older = older;
    }
}
