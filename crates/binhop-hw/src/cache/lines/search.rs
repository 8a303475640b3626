//! A search compares a tag with the tags of all ways of a set at once, or a word with several words.
//!
//! [`Instructions`] is chosen once for many accesses, because a function with wide instructions cannot be compiled
//! into its caller. So the whole loop over accesses is compiled for each choice: see [`Instructions::run`]. Every
//! choice returns the same bits, and every processor has [`Instructions::Portable`].
#![allow(
    unsafe_code,
    reason = "only unsafe code can call functions for processors that have some instructions"
)]

#[cfg(target_arch = "x86_64")]
mod x86;

use std::hint::select_unpredictable;

use super::MOST_PACKED;

/// The tags of a set. Bit 0 of a tag says whether the line is dirty.
pub(crate) type Tags = [u32; MOST_PACKED];

/// The number of words that an operation of [`Search`] takes at once.
pub(crate) const WORDS: usize = 16;

/// Several words, for example a set of lanes for each of several lines.
pub(crate) type Words = [u64; WORDS];

/// `Eight` is eight words that a vector holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Eight(pub(crate) [u64; 8]);

/// `Brought` says what [`Search::bring_to_front`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Brought {
    /// True if the tag was there.
    pub(crate) found: bool,
    /// 1 if the tag was there and dirty.
    pub(crate) was_dirty: u32,
    /// The tag that was lost; 0 if no tag was lost.
    pub(crate) lost: u32,
}

/// `Search` finds a tag among the tags of a set, and computes with several words at once.
pub(crate) trait Search {
    /// Returns a bit for each way whose tag is `tag`, apart from the dirty bits of both.
    fn find(tags: &Tags, tag: u32) -> u32;

    /// Puts a tag in front of the tags. The tags before a place move up by one, and the tag at the place is lost.
    fn move_up(tags: &mut Tags, place: usize, first: u32);

    /// Brings a tag to the front of tags that stand in the order of their last access. If the tag is not there, it is
    /// put there, and the tag at `last` is lost. A tag that was dirty stays dirty, whether `tag` is dirty or not.
    #[inline(always)]
    fn bring_to_front(tags: &mut Tags, tag: u32, last: usize) -> Brought {
        let equal = Self::find(tags, tag);
        let found = equal != 0;
        let way = select_unpredictable(found, equal.trailing_zeros() as usize, last) % MOST_PACKED;
        let before = tags[way];
        let was_dirty = u32::from(found) & before;
        Self::move_up(tags, way, tag | was_dirty);
        Brought { found, was_dirty, lost: select_unpredictable(found, 0, before) }
    }

    /// Returns a bit for each word that is `word`.
    fn find_word(words: &Words, word: u64) -> u32;

    /// Clears in each word of both lists the bits in which the word of `keys` equals `key`. The words of `cleared`
    /// become the bits that the second list had and loses where the first list loses them, too. Returns the bits that
    /// some word of the first list loses, and the bits of `cleared`.
    fn clear_equal(lists: [&mut Words; 2], keys: &Words, key: u64, cleared: &mut Words) -> [u64; 2];

    /// Replaces a word. An operation on all words that follows does not wait for this write, as it does where a
    /// processor writes one word and then reads several together.
    fn set_word(words: &mut Words, at: usize, word: u64);

    /// Takes eight words, `held`, and then eight words for each word of `bits`. Returns the bits of `held` that are set
    /// in `lanes`, too, and in whose place each of the further words agrees with its word of `bits`. The number that is
    /// also returned has a bit for each word that is not 0 then.
    fn meet(words: &[Eight], bits: &[u64], lanes: u64) -> (Eight, u32);
}

/// `Moved` has all bits of each tag up to some place, and no bit of the others.
#[repr(align(64))]
struct Moved([u32; MOST_PACKED]);

/// The tags up to each place.
const MOVED: &[Moved; MOST_PACKED] = &{
    let mut moved = [const { Moved([0; MOST_PACKED]) }; MOST_PACKED];
    let mut place = 0;
    while place < MOST_PACKED {
        let mut at = 0;
        while at <= place {
            moved[place].0[at] = u32::MAX;
            at += 1;
        }
        place += 1;
    }
    moved
};

/// `Portable` searches with instructions of every processor.
pub(crate) struct Portable;

impl Search for Portable {
    #[inline(always)]
    fn find(tags: &Tags, tag: u32) -> u32 {
        tags.iter().enumerate().fold(0, |ways, (way, other)| ways | u32::from(other | 1 == tag | 1) << way)
    }

    #[inline(always)]
    fn move_up(tags: &mut Tags, place: usize, first: u32) {
        let (before, moved) = (*tags, &MOVED[place].0);
        for at in 1..MOST_PACKED {
            tags[at] = before[at - 1] & moved[at] | before[at] & !moved[at];
        }
        tags[0] = first;
    }

    #[inline(always)]
    fn find_word(words: &Words, word: u64) -> u32 {
        words.iter().enumerate().fold(0, |found, (at, &other)| found | u32::from(other == word) << at)
    }

    #[inline(always)]
    fn clear_equal(
        [first, second]: [&mut Words; 2],
        keys: &Words,
        key: u64,
        cleared: &mut Words,
    ) -> [u64; 2] {
        let mut all = [0; 2];
        for at in 0..WORDS {
            let lost = first[at] & !(keys[at] ^ key);
            cleared[at] = second[at] & lost;
            first[at] &= !lost;
            second[at] &= !lost;
            all = [all[0] | lost, all[1] | cleared[at]];
        }
        all
    }

    #[inline(always)]
    fn set_word(words: &mut Words, at: usize, word: u64) {
        words[at] = word;
    }

    #[inline(always)]
    fn meet(words: &[Eight], bits: &[u64], lanes: u64) -> (Eight, u32) {
        let (held, of_bits) = words.split_first().expect("there are eight words");
        let mut differ = Eight::default();
        for (words, &bit) in of_bits.iter().zip(bits) {
            for (differ, &word) in differ.0.iter_mut().zip(&words.0) {
                *differ |= word ^ bit;
            }
        }
        let met: [u64; 8] = std::array::from_fn(|at| held.0[at] & lanes & !differ.0[at]);
        (Eight(met), met.iter().enumerate().fold(0, |some, (at, &met)| some | u32::from(met != 0) << at))
    }
}

/// The instructions that a search uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// Those of every processor.
    Portable,
    /// 256 bits at once.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512 bits at once.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// `SearchVisitor` is a loop over accesses that is compiled for each kind of search.
pub(crate) trait SearchVisitor {
    fn visit<S: Search>(self);
}

impl Instructions {
    /// Every choice, the fastest first.
    const ALL: &[Self] = &[
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        Self::Portable,
    ];

    /// Returns whether this processor has the instructions.
    pub(super) fn are_here(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Self::Avx2.are_here() && is_x86_feature_detected!("avx512f"),
        }
    }

    /// Returns every choice that this processor has, the fastest first.
    pub(crate) fn here() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|instructions| instructions.are_here())
    }

    /// Runs a loop with these instructions.
    ///
    /// # Panics
    /// This processor lacks the instructions.
    #[inline(always)]
    pub(crate) fn run(self, visitor: impl SearchVisitor) {
        assert!(self.are_here(), "this processor lacks the instructions {self:?}");
        match self {
            Self::Portable => visitor.visit::<Portable>(),
            // SAFETY: this processor has the instructions for which the function is compiled.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86::run_avx2(visitor) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => unsafe { x86::run_avx512(visitor) },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `Find` keeps what a search finds.
    struct Find<'a>(&'a Tags, u32, &'a mut u32);

    impl SearchVisitor for Find<'_> {
        #[inline(always)]
        fn visit<S: Search>(self) {
            *self.2 = S::find(self.0, self.1);
        }
    }

    proptest! {
        #[test]
        fn every_search_finds_the_same_ways(
            tags in prop::array::uniform16(prop_oneof![0u32..8, u32::MAX - 3..=u32::MAX]),
            tag in prop_oneof![2u32..8, u32::MAX - 3..=u32::MAX],
        ) {
            let expected: u32 = (0..MOST_PACKED).filter(|&way| tags[way] / 2 == tag / 2).map(|way| 1 << way).sum();
            for instructions in Instructions::here() {
                let mut found = 0;
                instructions.run(Find(&tags, tag, &mut found));
                prop_assert_eq!(found, expected, "{:?}", instructions);
            }
        }
    }

    /// `MoveUp` moves tags up.
    struct MoveUp<'a>(&'a mut Tags, usize, u32);

    impl SearchVisitor for MoveUp<'_> {
        #[inline(always)]
        fn visit<S: Search>(self) {
            S::move_up(self.0, self.1, self.2);
        }
    }

    proptest! {
        #[test]
        fn every_search_moves_the_same_tags(
            tags in prop::array::uniform16(any::<u32>()),
            place in 0..MOST_PACKED,
            first: u32,
        ) {
            let mut expected = tags;
            expected[..=place].rotate_right(1);
            expected[0] = first;
            for instructions in Instructions::here() {
                let mut moved = tags;
                instructions.run(MoveUp(&mut moved, place, first));
                prop_assert_eq!(moved, expected, "{:?}", instructions);
            }
        }
    }

    /// `BringToFront` brings a tag to the front.
    struct BringToFront<'a>(&'a mut Tags, u32, usize, &'a mut Option<Brought>);

    impl SearchVisitor for BringToFront<'_> {
        #[inline(always)]
        fn visit<S: Search>(self) {
            *self.3 = Some(S::bring_to_front(self.0, self.1, self.2));
        }
    }

    proptest! {
        #[test]
        fn every_search_brings_the_same_tag_to_the_front(
            ways in 1..=MOST_PACKED,
            dirty: u16,
            held in 0..=MOST_PACKED,
            tag in 2u32..48,
        ) {
            let mut tags: Tags = std::array::from_fn(|way| ((way as u32 + 1) << 1) | u32::from(dirty) >> way & 1);
            tags[held.min(ways)..].fill(0);
            let found = tags.iter().position(|other| other / 2 == tag / 2);
            let before = tags[found.unwrap_or(ways - 1)];
            let was_dirty = if found.is_some() { before & 1 } else { 0 };
            let lost = if found.is_some() { 0 } else { before };
            let mut expected = tags;
            expected[..=found.unwrap_or(ways - 1)].rotate_right(1);
            expected[0] = tag | was_dirty;
            for instructions in Instructions::here() {
                let (mut moved, mut brought) = (tags, None);
                instructions.run(BringToFront(&mut moved, tag, ways - 1, &mut brought));
                prop_assert_eq!(moved, expected, "{:?}", instructions);
                let brought = brought.expect("the visitor was called");
                prop_assert_eq!(brought, Brought { found: found.is_some(), was_dirty, lost }, "{:?}", instructions);
            }
        }
    }

    /// `FindWord` keeps what a search among words finds.
    struct FindWord<'a>(&'a Words, u64, &'a mut u32);

    impl SearchVisitor for FindWord<'_> {
        #[inline(always)]
        fn visit<S: Search>(self) {
            *self.2 = S::find_word(self.0, self.1);
        }
    }

    proptest! {
        #[test]
        fn every_search_finds_the_same_words(
            words in prop::array::uniform16(prop_oneof![0u64..4, u64::MAX - 1..=u64::MAX, Just(1 << 32)]),
            word in prop_oneof![0u64..4, Just(u64::MAX), Just(1 << 32)],
        ) {
            let expected: u32 = (0..WORDS).filter(|&at| words[at] == word).map(|at| 1 << at).sum();
            for instructions in Instructions::here() {
                let mut found = 0;
                instructions.run(FindWord(&words, word, &mut found));
                prop_assert_eq!(found, expected, "{:?}", instructions);
            }
        }
    }

    /// `ClearEqual` keeps what [`Search::clear_equal`] leaves and returns, after [`Search::set_word`] on each list.
    struct ClearEqual<'a> {
        lists: &'a mut [Words; 2],
        keys: &'a mut Words,
        set: (usize, u64),
        key: u64,
        cleared: (&'a mut Words, &'a mut [u64; 2]),
    }

    impl SearchVisitor for ClearEqual<'_> {
        #[inline(always)]
        fn visit<S: Search>(self) {
            let Self { lists: [first, second], keys, set: (at, word), key, cleared: (words, all) } = self;
            for list in [&mut *first, &mut *second, &mut *keys] {
                S::set_word(list, at, word ^ list[at]);
            }
            *all = S::clear_equal([first, second], keys, key, words);
        }
    }

    proptest! {
        #[test]
        fn every_choice_clears_the_same_bits(
            lists in prop::array::uniform2(prop::array::uniform16(any::<u64>())),
            keys in prop::array::uniform16(any::<u64>()),
            set in (0..WORDS, any::<u64>()),
            key in any::<u64>(),
        ) {
            let (mut model, mut model_keys) = (lists, keys);
            for list in model.iter_mut().chain([&mut model_keys]) {
                list[set.0] ^= set.1;
            }
            let (mut expected_cleared, mut expected_all) = ([0; WORDS], [0; 2]);
            for at in 0..WORDS {
                for bit in (0..64).map(|bit| 1_u64 << bit).filter(|bit| (model_keys[at] ^ key) & bit == 0) {
                    expected_all[0] |= model[0][at] & bit;
                    if model[0][at] & bit != 0 {
                        expected_cleared[at] |= model[1][at] & bit;
                        model[1][at] &= !bit;
                    }
                    model[0][at] &= !bit;
                }
                expected_all[1] |= expected_cleared[at];
            }
            for instructions in Instructions::here() {
                let (mut lists, mut keys, mut cleared, mut all) = (lists, keys, [7; WORDS], [7; 2]);
                let visitor =
                    ClearEqual { lists: &mut lists, keys: &mut keys, set, key, cleared: (&mut cleared, &mut all) };
                instructions.run(visitor);
                prop_assert_eq!((lists, keys), (model, model_keys), "{:?}", instructions);
                prop_assert_eq!((cleared, all), (expected_cleared, expected_all), "{:?}", instructions);
            }
        }
    }

    /// `Meet` keeps the words that meet.
    struct Meet<'a>(&'a [Eight], &'a [u64], u64, &'a mut (Eight, u32));

    impl SearchVisitor for Meet<'_> {
        #[inline(always)]
        fn visit<S: Search>(self) {
            *self.3 = S::meet(self.0, self.1, self.2);
        }
    }

    proptest! {
        #[test]
        fn every_search_finds_the_same_words_that_meet(
            words in prop::collection::vec(prop::array::uniform8(any::<u64>()).prop_map(Eight), 1..6),
            bits in prop::array::uniform5(any::<u64>()),
            lanes in any::<u64>(),
        ) {
            let bits = &bits[..words.len() - 1];
            let agrees = |lane: u32, at: usize, (words, bit): (&Eight, &u64)| (words.0[at] ^ bit) >> lane & 1 == 0;
            let expected: [u64; 8] = std::array::from_fn(|at| {
                let asked = (0..64).filter(|&lane| words[0].0[at] & lanes & 1 << lane != 0);
                let meets = |&lane: &u32| words[1..].iter().zip(bits).all(|pair| agrees(lane, at, pair));
                asked.filter(meets).map(|lane| 1 << lane).sum()
            });
            let some = (0..8).filter(|&at| expected[at] != 0).map(|at| 1 << at).sum();
            for instructions in Instructions::here() {
                let mut met = Default::default();
                instructions.run(Meet(&words, bits, lanes, &mut met));
                prop_assert_eq!(met, (Eight(expected), some), "{:?}", instructions);
            }
        }
    }

    #[test]
    fn every_processor_has_a_search() {
        assert_eq!(Instructions::ALL.last(), Some(&Instructions::Portable));
        assert!(Instructions::Portable.are_here());
    }
}
