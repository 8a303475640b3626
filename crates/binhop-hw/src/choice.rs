//! This file declares the choices that a cache and a TLB offer. Each choice is one list of names and meanings. The
//! machine parser, the help, the documentation and the tests walk these lists.

macro_rules! choices {
    ($(#[$doc:meta])* $type:ident { $($name:ident = $text:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type { $(#[doc = $meaning] $name,)* }

        impl $type {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name in a machine file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns the meaning, in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }

            /// Returns the choice of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|choice| choice.name() == name)
            }
        }
    };
}

pub(crate) use choices;

choices! {
    /// `Rules` are the rules by which references become accesses.
    Rules {
        Lines = "lines", "Every line that a reference touches is one access, and a modify is a load and a store; written data waits or goes down as each cache is told.";
        Cachegrind = "cachegrind", "As Valgrind's cachegrind counts: a reference is one access and at most one miss, a modify is one load, and written data leaves no trace.";
    }
}

choices! {
    /// `IndexBy` is the address that chooses the set.
    IndexBy {
        Virtual = "virtual", "The virtual address.";
        Physical = "physical", "The physical address.";
    }
}

choices! {
    /// `TagBy` is the address by which a line is recognised.
    TagBy {
        Physical = "physical", "The physical address: one line for all mappings of a page.";
        Asid = "asid", "The virtual address together with the address space: mappings of one page are different lines.";
        Global = "global", "The virtual address in a global space, to which segments lead: address spaces that share a segment share its lines.";
    }
}

choices! {
    /// `WritePolicy` is the treatment of data that is written.
    WritePolicy {
        Back = "back", "It stays in the line, which becomes dirty and is written back when it leaves.";
        Through = "through", "It is passed down at once; lines never become dirty.";
    }
}

choices! {
    /// `WritebackOrder` is the order of the two transactions of a miss that evicts a dirty line.
    WritebackOrder {
        BeforeFill = "before-fill", "The victim is chosen and written back first, then the line is read (KH90, footnote 3).";
        AfterFill = "after-fill", "The line is read first, then the victim is chosen and written back (as Dinero and pycachesim do).";
    }
}

choices! {
    /// `CostRule` decides the cost of a demand access that several levels handle.
    CostRule {
        Total = "total", "The cost of the level that serves it, alone.";
        Add = "add", "The costs of all levels it passes, the serving one included, behind the first.";
    }
}

choices! {
    /// `TlbReplacement` chooses the entry of a TLB that leaves when another entry needs its slot.
    TlbReplacement {
        Lru = "lru", "The entry used least recently.";
        Fifo = "fifo", "The entry that came first.";
        Random = "random", "An entry drawn uniformly: a function of the TLB, the set and the number of victims that set has had, and of no seed.";
        Plru = "plru", "The entry a binary tree of one bit per node points to; every use turns the bits on its path away. Ways must be a power of two.";
    }
}

impl TlbReplacement {
    /// Returns whether a hit changes the order in which entries leave.
    #[must_use]
    pub const fn notes_hits(self) -> bool {
        matches!(self, Self::Lru | Self::Plru)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Replacement;

    #[test]
    fn every_choice_is_found_by_its_name_and_explained() {
        macro_rules! walk {
            ($($type:ident),*) => {$(
                for &choice in $type::ALL {
                    assert_eq!($type::from_name(choice.name()), Some(choice));
                    assert!(choice.meaning().ends_with('.'), "{choice:?}");
                }
                assert_eq!($type::from_name("Lru "), None);
            )*};
        }
        walk!(Replacement, IndexBy, TagBy, WritePolicy, WritebackOrder, CostRule, TlbReplacement);
    }
}
