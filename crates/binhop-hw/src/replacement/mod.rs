//! A replacement policy chooses which line of a full set leaves. Each policy is one file of this module and one
//! word in the list below. The names in machine files, the arrays of lines, the loops of the chain and the tests
//! that walk the list derive from this list.
//!
//! To add a policy, write `name.rs` with its rule, its source and its [`Policy`], and put its name into the list. The
//! compiler and the tests then name what else the policy needs: a table in `tests/textbook.rs`, and its rule in
//! `binhop-oracle/src/cache.rs`. A policy may have packed sets, too, for speed: it has a [`PackedPolicy`] then, and
//! stands in the list `packed` of `cache/lines.rs`.
//!
//! Rules of all policies
//! - A line that comes takes the lowest empty way; only a full set has a victim.
//! - Every access that finds its line, of whatever kind, is a hit to the policy.
//! - With one way there is nothing to choose, and all policies are the same.

use binhop_base::Rng;

/// Calls a macro with every replacement policy, as `module::Type`, in the order in which they are shown.
macro_rules! each_policy {
    ($callback:ident) => {
        $callback! { lru::Lru, fifo::Fifo, random::Random, plru::Plru, srrip::Srrip }
    };
}
pub(crate) use each_policy;

macro_rules! replacements {
    ($($module:ident::$policy:ident),*) => {
        $(mod $module;)*
        $(pub(crate) use $module::$policy;)*

        /// `Replacement` is the rule that says which line of a full set leaves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Replacement {
            $(#[doc = concat!("`", stringify!($module), "`: the rule is in `replacement/", stringify!($module), ".rs`.")]
            $policy,)*
        }

        impl Replacement {
            /// Every replacement.
            pub const ALL: &'static [Self] = &[$(Self::$policy,)*];

            /// Returns the name in a machine file.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$policy => $policy::NAME,)* }
            }

            /// Returns [`Policy::WORDS_BESIDE`].
            pub(crate) const fn words_beside(self) -> usize {
                match self { $(Self::$policy => $policy::WORDS_BESIDE,)* }
            }

            /// Returns the rule, in a sentence.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$policy => $policy::MEANING,)* }
            }

            /// Returns whether a hit on the line of a set that was accessed last, by its fill or by another hit, leaves
            /// everything as it is, so that it need not be simulated.
            #[must_use]
            pub const fn rehit_is_neutral(self) -> bool {
                match self { $(Self::$policy => $policy::REHIT_IS_NEUTRAL,)* }
            }

            /// Returns whether a hit changes nothing, whichever line of a set is hit.
            #[must_use]
            pub const fn hits_are_neutral(self) -> bool {
                match self { $(Self::$policy => $policy::HITS_ARE_NEUTRAL,)* }
            }

            /// Returns whether the policy draws random numbers, so that its victims depend on the seed.
            #[must_use]
            pub const fn draws(self) -> bool {
                match self { $(Self::$policy => $policy::DRAWS,)* }
            }

            /// Returns the rule that this number of ways breaks; `None` if the policy takes it.
            #[must_use]
            pub fn refuses(self, ways: u32) -> Option<&'static str> {
                match self { $(Self::$policy => $policy::refuses(ways),)* }
            }

            /// Returns the bytes that the policy keeps for one set of several ways.
            pub(crate) fn bytes_of_a_set(self, ways: u64) -> u64 {
                match self { $(Self::$policy => $policy::bytes_of_a_set(ways),)* }
            }
        }
    };
}

each_policy!(replacements);

impl Replacement {
    /// Returns the replacement of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|replacement| replacement.name() == name)
    }
}

/// `ArrayShape` describes sets of one cache to a policy: all sets of the cache, or a chunk of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayShape {
    pub(crate) ways: usize,
    /// The sets whose state the policy keeps: none if the owner of the ways keeps the state.
    pub(crate) sets: usize,
    /// The number of the first set in the cache, a multiple of the number of sets in the cache or chunk.
    pub(crate) first: usize,
    /// The cache's index in the tree.
    pub(crate) cache: usize,
    pub(crate) rng: Rng,
}

/// `Policy` is a replacement policy with its state for all sets of a cache. What it decides about a set depends on
/// the accesses to this set alone, so sets may be simulated in any order.
///
/// The ways of a set are words of some type `W`, as the owner of the lines stores them. A policy may reorder the
/// ways, but never looks into the words.
pub(crate) trait Policy {
    /// The name in a machine file.
    const NAME: &str;

    /// The rule, in a sentence.
    const MEANING: &str;

    /// True if the policy draws random numbers. Then one simulation of a front does not serve several seeds.
    const DRAWS: bool;

    /// True if a hit on the line of a set that was accessed last, by its fill or by another hit, leaves everything as
    /// it is: the policy's state and the order of the ways. Such hits need not be simulated. Where this is false, only
    /// the first such hit may change something: preparation drops the further hits.
    const REHIT_IS_NEUTRAL: bool;

    /// True if the policy keeps the empty ways of a set behind all others.
    const EMPTY_WAYS_ARE_LAST: bool = false;

    /// True if a hit changes nothing, whichever line is hit: neither the policy's state nor the order of the ways.
    const HITS_ARE_NEUTRAL: bool = false;

    /// The number of words that may hold the policy's state of a set, if the owner of the ways keeps words beside them:
    /// see [`Policy::victim_beside`]. They are 0 before the first access. If the number is not 0, victims alone change
    /// the state: [`Policy::filled`], [`Policy::removed`] and hits do not.
    const WORDS_BESIDE: usize = 0;

    /// Makes the policy for these sets of a cache, which are empty. Its state is all zero bits: see
    /// `cache/lines.rs`.
    fn new(array: &ArrayShape) -> Self;

    /// Returns the bytes that [`Policy::new`] allocates for each set.
    fn bytes_of_a_set(ways: u64) -> u64;

    /// Returns the rule that this number of ways breaks; `None` if the policy takes it.
    fn refuses(_ways: u32) -> Option<&'static str> {
        None
    }

    /// Notes that the line at `way` was accessed.
    fn hit<W: Copy>(&mut self, ways: &mut [W], set: usize, way: usize);

    /// Notes that a line has just been put at `way`.
    fn filled<W: Copy>(&mut self, ways: &mut [W], set: usize, way: usize);

    /// Returns the way whose line leaves. The set is full.
    fn victim<W: Copy>(&mut self, ways: &[W], set: usize) -> usize;

    /// Does what [`Policy::victim`] does, where the owner of the ways keeps [`Policy::WORDS_BESIDE`] words of the set.
    /// If this number is not 0, the words hold the policy's state of the set, and [`ArrayShape::sets`] was 0.
    fn victim_beside<W: Copy>(&mut self, ways: &[W], _beside: &mut [u32], set: usize) -> usize {
        self.victim(ways, set)
    }

    /// Notes that the line at `way` was removed, and the way is empty.
    fn removed<W: Copy>(&mut self, ways: &mut [W], set: usize, way: usize);

    /// Returns the number of victims of a set with these words beside its ways, if later victims depend on it.
    fn victims_beside(&self, _beside: &[u32]) -> u64 {
        0
    }

    /// Notes that a set has had this number of victims, which another policy of this type has chosen.
    fn set_victims(&mut self, _set: usize, _victims: u64) {}
}

/// `PackedPolicy` is a policy for packed sets of up to 16 ways. Lines stay in their ways. Its decisions equal those
/// of its [`Policy`]. The state of a set is a word, which is 0 before the first access. The policy keeps nothing else
/// of a set.
pub(crate) trait PackedPolicy: Policy {
    /// True if choosing a victim costs a few operations and ends for any state. Then a victim may be chosen though the
    /// line turns out to be there, or though a way is empty. The state that the choice leaves is dropped there.
    const VICTIMS_ARE_CHEAP: bool = true;

    /// True if a loop over 16 ways is compiled for each kind of search. Each such loop takes time to compile.
    const HAS_WIDE_LOOPS: bool = false;

    /// Makes the policy for these sets, without what the words of the sets hold.
    fn packed(array: &ArrayShape) -> Self;

    /// Does what [`Policy::hit`] does, in a set of `ways` ways.
    fn hit_packed(state: &mut u64, way: usize, ways: usize);

    /// Does what [`Policy::filled`] does.
    fn filled_packed(state: &mut u64, way: usize, ways: usize);

    /// Returns what [`Policy::victim`] returns.
    fn victim_packed(&mut self, state: &mut u64, set: usize, ways: usize) -> usize;

    /// Does what [`Policy::set_victims`] does.
    fn set_victims_packed(&self, _state: &mut u64, _victims: u64) {}

    /// Returns the way that stands at a place, where the policy keeps the ways in an order.
    fn way_at(_state: u64, place: usize) -> usize {
        place
    }
}

/// Sixteen ways in order, four bits for each way. Way 0 is in the lowest bits.
const IN_ORDER: u64 = 0xFEDC_BA98_7654_3210;

/// Moves a way to the front of an order of 16 ways, which is stored as its difference from [`IN_ORDER`].
#[inline(always)]
fn move_to_front_of_order(state: &mut u64, way: usize) {
    const LOW_BITS: u64 = 0x1111_1111_1111_1111;
    let (order, way) = (*state ^ IN_ORDER, way as u64);
    let differing = order ^ (way * LOW_BITS);
    // The lowest four bits that are all zero have the lowest upper bit that remains.
    let place = (differing.wrapping_sub(LOW_BITS) & !differing & LOW_BITS << 3).trailing_zeros() & !3;
    let before = (1 << place) - 1;
    let behind = (u64::MAX << place) << 4;
    *state = (order & behind | (order & before) << 4 | way) ^ IN_ORDER;
}

/// Returns the way at a place of an order of 16 ways.
#[inline(always)]
fn way_in_order(state: u64, place: usize) -> usize {
    ((state ^ IN_ORDER) >> (4 * place) & 15) as usize
}

/// The largest number of ways for which a loop runs over all ways, if the compiler knows their number. An early end
/// would be a branch that cannot be predicted.
pub(crate) const FEW: usize = 8;

/// Moves the line at `way` to the front. The lines before it move up by one.
#[inline(always)]
fn move_to_front<W: Copy>(ways: &mut [W], way: usize) {
    if way == 0 {
        return;
    }
    if ways.len() <= FEW {
        let line = ways[way];
        for to in (1..ways.len()).rev() {
            ways[to] = if to <= way { ways[to - 1] } else { ways[to] };
        }
        ways[0] = line;
        return;
    }
    // This is a chain of swaps. For the ways of a set it beats the `memmove` that a rotation becomes.
    let mut carried = ways[way];
    for slot in &mut ways[..=way] {
        core::mem::swap(slot, &mut carried);
    }
}

/// Moves the way to the end. The ways behind it move down by one.
fn move_to_back<W>(ways: &mut [W], way: usize) {
    ways[way..].rotate_left(1);
}
