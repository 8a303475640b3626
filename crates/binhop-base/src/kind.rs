//! `Kind` is the purpose of an access. Every count is kept per kind.

use core::ops::{AddAssign, Index, IndexMut, Sub};

macro_rules! kinds {
    ($($name:ident = $text:literal, $demand:literal, $doc:literal;)*) => {
        /// `Kind` is the purpose for which a level of the memory system is accessed. Every count is kept per
        /// kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind { $(#[doc = $doc] $name,)* }

        impl Kind {
            /// Every kind, in the order of their discriminants.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];
            /// Returns the kind's part of a metric's name: `l2.load.misses`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$name => $text,)* }
            }
            /// Returns whether the access asks for data on behalf of an instruction. Other accesses pass data
            /// down or complete a line. MPI and waiting also depend on the [`Agent`](crate::Agent).
            #[must_use]
            pub const fn is_demand(self) -> bool {
                match self { $(Kind::$name => $demand,)* }
            }
            /// Returns the meaning of the kind, for the glossary.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Kind::$name => $doc,)* }
            }
        }
    };
}

kinds! {
    Fetch = "fetch", true, "An instruction fetch, or the fill that one caused further up.";
    Load = "load", true, "A load, or the fill that one caused further up.";
    Store = "store", true, "A store by the processor; below the first level, the fill that a store's miss caused: it reads, and leaves no dirty line.";
    Write = "write", false, "Data passed down by a write-through cache, or by a store that missed and does not allocate.";
    Writeback = "writeback", false, "A dirty line leaving the level above.";
    Fill = "fill", false, "The rest of a line, read because a write, or a write-back of a shorter line, allocates the line. A write counts as a part of a line, however many bytes the store has.";
    System = "system", false, "A dirty line written out by the operating system because its frame changes hands.";
}

/// `PerKind` holds one value for each [`Kind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T>(pub [T; Kind::ALL.len()]);

impl<T> Index<Kind> for PerKind<T> {
    type Output = T;
    #[inline]
    fn index(&self, kind: Kind) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Kind> for PerKind<T> {
    #[inline]
    fn index_mut(&mut self, kind: Kind) -> &mut T {
        &mut self.0[kind as usize]
    }
}

impl PerKind<u64> {
    /// Returns the sum over the demand kinds: fetch, load and store.
    #[inline]
    #[must_use]
    pub fn demand(&self) -> u64 {
        Kind::ALL.iter().filter(|kind| kind.is_demand()).map(|&kind| self[kind]).sum()
    }

    /// Returns the sum over all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl AddAssign for PerKind<u64> {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

impl Sub for PerKind<u64> {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine -= theirs;
        }
        self
    }
}
