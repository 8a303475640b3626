//! A search compares a tag with the tags of all ways of a set at once, or a word with several words.
//!
//! [`Instructions`] is chosen once for many accesses, because a function with wide instructions cannot be compiled
//! into its caller. So the whole loop over accesses is compiled for each choice: see [`Instructions::run`]. Every choice
//! returns the same bits, and every processor has [`Instructions::Portable`].
#![allow(
    unsafe_code,
    reason = "only unsafe code can call functions for processors that have some instructions"
)]

use super::MOST_PACKED;

/// The tags of a set. Bit 0 of a tag says whether the line is dirty.
pub(crate) type Tags = [u32; MOST_PACKED];

/// The number of words among which [`Search::find_word`] finds a word.
pub(crate) const WORDS: usize = 16;

/// `Search` finds a tag among the tags of a set.
pub(crate) trait Search {
    /// Returns a bit for each way whose tag is `tag`, apart from the dirty bits of both.
    fn find(tags: &Tags, tag: u32) -> u32;

    /// Returns a bit for each word that is `word`.
    fn find_word(words: &[u64; WORDS], word: u64) -> u32;
}

/// `Portable` searches with instructions of every processor.
pub(crate) struct Portable;

impl Search for Portable {
    #[inline(always)]
    fn find(tags: &Tags, tag: u32) -> u32 {
        tags.iter().enumerate().fold(0, |ways, (way, other)| ways | u32::from(other | 1 == tag | 1) << way)
    }

    #[inline(always)]
    fn find_word(words: &[u64; WORDS], word: u64) -> u32 {
        words.iter().enumerate().fold(0, |found, (at, &other)| found | u32::from(other == word) << at)
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
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1"),
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_cmpeq_epi64,
        _mm256_loadu_si256, _mm256_movemask_pd, _mm256_movemask_ps, _mm256_or_si256, _mm256_set1_epi32,
        _mm256_set1_epi64x, _mm512_cmpeq_epi32_mask, _mm512_cmpeq_epi64_mask, _mm512_loadu_si512,
        _mm512_or_si512, _mm512_set1_epi32, _mm512_set1_epi64,
    };

    use super::{Search, SearchVisitor, Tags, WORDS};

    /// `Avx2` may be used in [`run_avx2`] alone.
    struct Avx2;

    impl Search for Avx2 {
        #[inline(always)]
        fn find(tags: &Tags, tag: u32) -> u32 {
            let tags: *const __m256i = tags.as_ptr().cast();
            // SAFETY: `run_avx2` alone compiles this function, and the tags fill two vectors.
            unsafe {
                let (one, tag) = (_mm256_set1_epi32(1), _mm256_set1_epi32((tag | 1) as i32));
                let equal = |half| {
                    let half = _mm256_or_si256(_mm256_loadu_si256(tags.add(half)), one);
                    _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(half, tag))) as u32
                };
                equal(0) | equal(1) << 8
            }
        }

        #[inline(always)]
        fn find_word(words: &[u64; WORDS], word: u64) -> u32 {
            let words: *const __m256i = words.as_ptr().cast();
            // SAFETY: `run_avx2` alone compiles this function, and the words fill four vectors.
            unsafe {
                let word = _mm256_set1_epi64x(word as i64);
                let equal = |quarter| {
                    let equal = _mm256_cmpeq_epi64(_mm256_loadu_si256(words.add(quarter)), word);
                    _mm256_movemask_pd(_mm256_castsi256_pd(equal)) as u32
                };
                equal(0) | equal(1) << 4 | equal(2) << 8 | equal(3) << 12
            }
        }
    }

    /// `Avx512` may be used in [`run_avx512`] alone.
    struct Avx512;

    impl Search for Avx512 {
        #[inline(always)]
        fn find(tags: &Tags, tag: u32) -> u32 {
            // SAFETY: `run_avx512` alone compiles this function, and the tags fill a vector.
            unsafe {
                let all = _mm512_or_si512(_mm512_loadu_si512(tags.as_ptr().cast()), _mm512_set1_epi32(1));
                u32::from(_mm512_cmpeq_epi32_mask(all, _mm512_set1_epi32((tag | 1) as i32)))
            }
        }

        #[inline(always)]
        fn find_word(words: &[u64; WORDS], word: u64) -> u32 {
            let words: *const __m512i = words.as_ptr().cast();
            // SAFETY: `run_avx512` alone compiles this function, and the words fill two vectors.
            unsafe {
                let word = _mm512_set1_epi64(word as i64);
                let equal =
                    |half| u32::from(_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(words.add(half)), word));
                equal(0) | equal(1) << 8
            }
        }
    }

    #[target_feature(enable = "avx2,bmi1")]
    pub(super) fn run_avx2(visitor: impl SearchVisitor) {
        visitor.visit::<Avx2>();
    }

    #[target_feature(enable = "avx512f,avx2,bmi1")]
    pub(super) fn run_avx512(visitor: impl SearchVisitor) {
        visitor.visit::<Avx512>();
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

    /// `FindWord` keeps what a search among words finds.
    struct FindWord<'a>(&'a [u64; WORDS], u64, &'a mut u32);

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

    #[test]
    fn every_processor_has_a_search() {
        assert_eq!(Instructions::ALL.last(), Some(&Instructions::Portable));
        assert!(Instructions::Portable.are_here());
    }
}
