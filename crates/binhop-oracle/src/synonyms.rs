//! `Synonyms` looks for different copies of memory in caches with virtual tags (JM97 §3.1), in every line of every
//! cache.
//!
//! # Counting rules
//! - A page has a *name* for each mapping by which caches with virtual tags know it. Each name beyond the first is an
//!   alias, counted at the first access of the program by it.
//! - A cache holds a copy of a byte under a name if it holds a line of this name that covers the byte. Physical tags
//!   name no mapping, so a cache with physical tags holds no such copy.
//! - The byte of an access is the first byte of its line, in the cache that serves the access.
//! - Copies *differ* after a store if some cache holds a copy under another name: the copy is old. After any other
//!   access copies differ if caches hold a copy under the name of the access and a copy under another name, and a line
//!   of these copies is dirty.
//! - An access that leaves different copies is counted, unless there were copies under its name and under another name
//!   before it, and a copy was dirty.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Kind, MappingId, PageId, Translation};

use crate::cache::Name;
use crate::cache_tree::CacheTree;

/// `NamedAccess` is an access of the program, by the name of its page.
#[derive(Clone, Copy, Debug)]
pub struct NamedAccess {
    /// The kind of the access.
    pub kind: Kind,
    /// The cache that serves it.
    pub cache: usize,
    /// The mapping that names the page.
    pub mapping: u32,
    /// The byte within the page.
    pub offset: u64,
}

/// `Synonyms` counts aliases, and accesses that leave different copies.
#[derive(Clone, Debug, Default)]
pub struct Synonyms {
    names: BTreeMap<PageId, BTreeSet<u32>>,
    differed: bool,
    /// The names of pages beyond the first.
    pub aliases: u64,
    /// The accesses that left different copies.
    pub synonyms: u64,
}

impl Synonyms {
    /// Notes an access that comes next.
    pub fn before(&mut self, next: &NamedAccess, tree: &CacheTree, world: &dyn Translation) {
        let names = self.names.entry(world.page(MappingId(next.mapping))).or_default();
        let is_first = names.is_empty();
        if names.insert(next.mapping) && !is_first {
            self.aliases += 1;
        }
        self.differed = differ(next, false, tree, world);
    }

    /// Counts the access, which has been made, if it leaves different copies.
    pub fn after(&mut self, made: &NamedAccess, tree: &CacheTree, world: &dyn Translation) {
        if differ(made, made.kind == Kind::Store, tree, world) && !self.differed {
            self.synonyms += 1;
        }
    }
}

fn differ(access: &NamedAccess, stored: bool, tree: &CacheTree, world: &dyn Translation) -> bool {
    let line = tree.caches[access.cache].config.line;
    let (page, byte) = (world.page(MappingId(access.mapping)), access.offset / line * line);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for cache in &tree.caches {
        for held in cache.sets.iter().flatten().flatten() {
            let Name::Mapping(mapping) = held.name else { continue };
            let covers = (held.offset..held.offset + cache.config.line).contains(&byte);
            if covers && world.page(MappingId(mapping)) == page {
                if mapping == access.mapping { own.push(held.dirty) } else { others.push(held.dirty) }
            }
        }
    }
    let is_dirty = own.contains(&true) || others.contains(&true);
    !others.is_empty() && (stored || !own.is_empty() && is_dirty)
}
