//! `synonyms` is what preparation and lanes have in common where caches have virtual tags (JM97 §3.1).
//!
//! # Rules
//! - With `tag = "asid"` a page has a *name* for each of its mappings. With `tag = "global"` it has a name for each of
//!   its global addresses: mappings that share a segment have one name (`prepare/global.rs`).
//! - A name of a page beyond the first is an *alias*. An alias is counted at the first access of the program by it. A
//!   device names memory by its physical address, so a device counts no alias. A page with several names has a line in
//!   caches with virtual tags for each of them. Caches with physical tags have one line for all names.
//! - Where physical = virtual (placement `identity`), pages have no frames, and two spaces that use one address do not
//!   share memory. So neither aliases nor synonyms are counted there.
//! - The byte of an access is the first byte of its line, in the cache that serves the access. A cache holds a copy of
//!   the byte under a name if it holds the line of this name that covers the byte.
//! - A *synonym* is two different copies. A store leaves different copies if some cache holds a copy under another
//!   name. Any other access leaves different copies if caches hold copies under the name of the access and under
//!   another name, and a line of these copies is dirty. So an access that reads an old copy from memory leaves
//!   different copies, too.
//! - An access of the program that leaves different copies is counted, unless there were copies under its name and
//!   under another name before it, and a copy was dirty. A unit that acts because the access misses level 1 acts
//!   between these two looks. Where caches write through, no line is dirty: each store is counted that leaves an old
//!   copy.
//! - The first such access is reported with both addresses. Nothing is flushed: the problem is shown, not solved.
//! - Two copies of which neither is dirty are taken for equal, although one of them may be older than memory.
//!
//! An access that is skipped changes no copy: it hits, and a store among them hits a dirty line. Only a page that was
//! stored to has a dirty line. So preparation asks lanes about the accesses that are passed, to pages with several
//! names that were stored to ([`WatchedAccess`]). Where a unit may store to a page, the page counts as stored to.

use binhop_base::{Kind, MappingId};

/// `HeldCopy` is a copy of a byte in the caches of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldCopy {
    pub(crate) name: MappingId,
    pub(crate) dirty: bool,
}

/// `WatchedAccess` is an access that may leave two different copies: it is made next, or has just been made.
#[derive(Clone, Debug)]
pub struct WatchedAccess {
    pub(crate) kind: Kind,
    pub(crate) name: MappingId,
    /// The first byte of the line within the page.
    pub(crate) offset: u32,
    /// True if the access has been made.
    pub(crate) is_made: bool,
    /// The copies that a shared front holds, if a front is shared.
    pub(crate) of_front: Option<Box<[HeldCopy]>>,
}

/// `Synonym` is a part of a page of which an access left two different copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Synonym {
    /// The kind of the access.
    pub(crate) kind: Kind,
    /// The mapping that the access named, and the mapping that names the other copy.
    pub(crate) names: [MappingId; 2],
    /// The first byte of the line within the page.
    pub(crate) offset: u32,
}

/// Returns another name under which there is a different copy. `stored` says that data were stored under the first
/// name.
fn other_copy(copies: &[HeldCopy], name: MappingId, stored: bool) -> Option<MappingId> {
    let own = copies.iter().filter(|copy| copy.name == name).map(|copy| copy.dirty).max();
    let different = match own {
        _ if stored => true,
        Some(dirty) => dirty,
        None => return None,
    };
    let mut others = copies.iter().filter(|copy| copy.name != name);
    others.find(|copy| different || copy.dirty).map(|copy| copy.name)
}

/// `SynonymCounts` counts the accesses that leave two different copies in the caches of one machine in one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SynonymCounts {
    /// True if there were two different copies before the access that is made next.
    differed: bool,
    pub(crate) count: u64,
    pub(crate) first: Option<Synonym>,
}

impl SynonymCounts {
    /// Follows an access, with the copies that caches hold.
    pub(crate) fn follow(&mut self, access: &WatchedAccess, copies: &[HeldCopy]) {
        let WatchedAccess { kind, name, offset, is_made, .. } = *access;
        let other = other_copy(copies, name, is_made && kind == Kind::Store);
        if !is_made {
            self.differed = other.is_some();
        } else if let (Some(other), false) = (other, self.differed) {
            self.count += 1;
            self.first.get_or_insert(Synonym { kind, names: [name, other], offset });
        }
    }
}
