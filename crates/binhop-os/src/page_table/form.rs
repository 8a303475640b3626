//! `TableForm` describes a form of page table before a run; `TableKind` chooses one.

use binhop_base::{Problem, Result};

/// `TableForm` describes a form of page table: its texts and defaults. Each form is one file, and
/// [`FORMS`](super::FORMS) lists them.
#[derive(Debug)]
pub struct TableForm {
    /// The name that users write in `translation.table`.
    pub name: &'static str,
    /// The form, in a sentence.
    pub rule: &'static str,
    /// The origin of the form: document and section, and what is ours.
    pub source: &'static str,
    /// True if the form has a number of levels to choose.
    pub has_levels: bool,
    /// Returns the usual size of an entry, in bytes. Forms without levels ignore the number.
    pub(super) entry: fn(levels: u32) -> u32,
    /// Makes the kind. Forms without levels ignore the number.
    pub(super) kind: fn(levels: u32) -> TableKind,
}

impl TableForm {
    /// Returns the form as a machine chooses it.
    ///
    /// # Errors
    /// The form needs a number of levels and has none, or has no levels to choose.
    pub fn kind(&self, levels: Option<u32>) -> Result<TableKind> {
        match levels {
            Some(levels) if !self.has_levels => Err(Problem::request(
                &alloc::format!("{levels}"),
                "translation.levels",
                &alloc::format!("a page table of the form {} has no levels to choose", self.name),
                "leave the key out, or choose table = \"radix\"",
            )),
            None if self.has_levels => Err(Problem::request(
                self.name,
                "translation.table",
                "this form of page table needs a number of levels",
                "set translation.levels: 2, 4 or 5",
            )),
            _ => Ok((self.kind)(levels.unwrap_or(0))),
        }
    }

    /// Returns the usual size of an entry of a kind of this form, in bytes.
    #[must_use]
    pub fn usual_entry(&self, kind: TableKind) -> u32 {
        (self.entry)(if let TableKind::Radix { levels } = kind { levels } else { 0 })
    }
}

/// `TableKind` is a form of page table with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// The two tiers of MIPS: a linear user table, and a root table for each address space.
    Mips,
    /// The tree of x86.
    Radix {
        /// The number of levels.
        levels: u32,
    },
    /// A hash table of entries, with chains.
    Hashed,
    /// One entry for each frame, behind a table of hash anchors.
    Inverted,
    /// A linear global table of segments, and a root table for each address space.
    Disjunct {
        /// The number of segments for which the global table has room.
        segments: u32,
        /// The regions that an address space may use at one time: a power of two.
        regions: u32,
    },
}
