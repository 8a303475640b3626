//! The wide instructions of x86-64 processors.

use std::arch::x86_64::{
    __m256i, __m512i, _mm_cvtsi32_si128, _mm256_and_si256, _mm256_andnot_si256, _mm256_blend_epi32,
    _mm256_blendv_epi8, _mm256_castsi128_si256, _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmpeq_epi32,
    _mm256_cmpeq_epi64, _mm256_load_si256, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_movemask_pd,
    _mm256_movemask_ps, _mm256_or_si256, _mm256_packs_epi32, _mm256_permutevar8x32_epi32, _mm256_set_epi32,
    _mm256_set_epi64x, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_store_si256,
    _mm256_storeu_si256, _mm256_xor_si256, _mm512_and_si512, _mm512_andnot_si512, _mm512_cmpeq_epi32_mask,
    _mm512_cmpeq_epi64_mask, _mm512_load_si512, _mm512_loadu_si512, _mm512_mask_set1_epi64, _mm512_or_si512,
    _mm512_reduce_or_epi64, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_store_si512,
    _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_test_epi64_mask, _mm512_xor_si512,
};
use std::hint::select_unpredictable;

use super::{Brought, Eight, MOST_PACKED, MOVED, Moved, Search, SearchVisitor, Tags, WORDS, Words};

/// The words of a vector of 256 bits, and of 512 bits.
const QUARTER: usize = WORDS / 4;
const HALF: usize = WORDS / 2;

/// The tags up to each place, in the order in which [`_mm256_packs_epi32`] packs the places.
const MOVED_AS_PACKED: &[Moved; MOST_PACKED] = &{
    let mut moved = [const { Moved([0; MOST_PACKED]) }; MOST_PACKED];
    let mut place = 0;
    while place < MOST_PACKED {
        moved[packed_at(place)] = Moved(MOVED[place].0);
        place += 1;
    }
    moved
};

/// Returns the place to which [`_mm256_packs_epi32`] packs a place: four places of the first vector come before four of
/// the second.
#[inline(always)]
const fn packed_at(place: usize) -> usize {
    place & 3 | (place & 4) << 1 | (place & 8) >> 1
}

/// Returns both halves of the tags.
///
/// # Safety
/// The caller is compiled for AVX2.
#[inline(always)]
unsafe fn load_tags(tags: &Tags) -> [__m256i; 2] {
    let tags: *const __m256i = tags.as_ptr().cast();
    // SAFETY: the processor has AVX2, and the tags fill two vectors.
    unsafe { [_mm256_loadu_si256(tags), _mm256_loadu_si256(tags.add(1))] }
}

/// Stores the halves of the tags. `first` comes first, and each tag of `moved` gets the value before it.
///
/// # Safety
/// The caller is compiled for AVX2.
#[inline(always)]
unsafe fn store_moved(tags: &mut Tags, [lower, upper]: [__m256i; 2], first: u32, moved: &Moved) {
    let tags: *mut __m256i = tags.as_mut_ptr().cast();
    let moved: *const __m256i = moved.0.as_ptr().cast();
    // SAFETY: the processor has AVX2, and the tags fill two vectors.
    unsafe {
        // Each half moves by one, its last tag to the front.
        let by_one = _mm256_set_epi32(6, 5, 4, 3, 2, 1, 0, 7);
        let lower_by_one = _mm256_permutevar8x32_epi32(lower, by_one);
        let upper_by_one = _mm256_permutevar8x32_epi32(upper, by_one);
        let upper_by_one = _mm256_blend_epi32::<1>(upper_by_one, lower_by_one);
        let first = _mm256_castsi128_si256(_mm_cvtsi32_si128(first as i32));
        let lower_by_one = _mm256_blend_epi32::<1>(lower_by_one, first);
        let lower = _mm256_blendv_epi8(lower, lower_by_one, _mm256_load_si256(moved));
        let upper = _mm256_blendv_epi8(upper, upper_by_one, _mm256_load_si256(moved.add(1)));
        _mm256_storeu_si256(tags, lower);
        _mm256_storeu_si256(tags.add(1), upper);
    }
}

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
    fn move_up(tags: &mut Tags, place: usize, first: u32) {
        // SAFETY: `run_avx2` alone compiles this function, and the tags fill two vectors.
        unsafe {
            let halves = load_tags(tags);
            store_moved(tags, halves, first, &MOVED[place]);
        }
    }

    #[inline(always)]
    fn bring_to_front(tags: &mut Tags, tag: u32, last: usize) -> Brought {
        // SAFETY: `run_avx2` alone compiles this function, and the tags fill two vectors.
        unsafe {
            let halves = load_tags(tags);
            let clean = _mm256_set1_epi32((tag & !1) as i32);
            let equal = |tag| {
                let [lower, upper] = halves.map(|half| _mm256_cmpeq_epi32(half, tag));
                // Two bits for each tag, in the order of `MOVED_AS_PACKED`.
                _mm256_movemask_epi8(_mm256_packs_epi32(lower, upper)) as u32
            };
            let dirty = equal(_mm256_or_si256(clean, _mm256_set1_epi32(1)));
            let equal = equal(clean) | dirty;
            let found = equal != 0;
            let was_dirty = u32::from(dirty != 0);
            let lost = select_unpredictable(found, 0, tags[last]);
            let row = select_unpredictable(found, equal.trailing_zeros() as usize / 2, packed_at(last));
            store_moved(tags, halves, tag | was_dirty, &MOVED_AS_PACKED[row % MOST_PACKED]);
            Brought { found, was_dirty, lost }
        }
    }

    #[inline(always)]
    fn find_word(words: &Words, word: u64) -> u32 {
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

    #[inline(always)]
    fn clear_equal(
        [first, second]: [&mut Words; 2],
        keys: &Words,
        key: u64,
        cleared: &mut Words,
    ) -> [u64; 2] {
        let (first, second): (*mut __m256i, *mut __m256i) =
            (first.as_mut_ptr().cast(), second.as_mut_ptr().cast());
        let (keys, cleared): (*const __m256i, *mut __m256i) =
            (keys.as_ptr().cast(), cleared.as_mut_ptr().cast());
        let mut all = [[0; QUARTER]; 2];
        // SAFETY: `run_avx2` alone compiles this function, each list fills four vectors, and each array a vector.
        unsafe {
            let key = _mm256_set1_epi64x(key as i64);
            let (mut all_lost, mut all_cleared) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            for at in 0..WORDS / QUARTER {
                let differ = _mm256_xor_si256(_mm256_loadu_si256(keys.add(at)), key);
                let had = _mm256_loadu_si256(first.add(at));
                let lost = _mm256_andnot_si256(differ, had);
                let second_had = _mm256_loadu_si256(second.add(at));
                let lost_by_second = _mm256_and_si256(second_had, lost);
                _mm256_storeu_si256(first.add(at), _mm256_and_si256(had, differ));
                _mm256_storeu_si256(second.add(at), _mm256_andnot_si256(lost, second_had));
                _mm256_storeu_si256(cleared.add(at), lost_by_second);
                all_lost = _mm256_or_si256(all_lost, lost);
                all_cleared = _mm256_or_si256(all_cleared, lost_by_second);
            }
            _mm256_storeu_si256(all[0].as_mut_ptr().cast(), all_lost);
            _mm256_storeu_si256(all[1].as_mut_ptr().cast(), all_cleared);
        }
        all.map(|[a, b, c, d]| a | b | c | d)
    }

    #[inline(always)]
    fn set_word(words: &mut Words, at: usize, word: u64) {
        assert!(at < WORDS, "there is a word at {at}");
        // SAFETY: `run_avx2` alone compiles this function, and the vector that is replaced lies within the words.
        unsafe {
            let quarter = words.as_mut_ptr().cast::<__m256i>().add(at / QUARTER);
            let own =
                _mm256_cmpeq_epi64(_mm256_set_epi64x(3, 2, 1, 0), _mm256_set1_epi64x((at % QUARTER) as i64));
            let replaced =
                _mm256_blendv_epi8(_mm256_loadu_si256(quarter), _mm256_set1_epi64x(word as i64), own);
            _mm256_storeu_si256(quarter, replaced);
        }
    }

    #[inline(always)]
    fn meet(words: &[Eight], bits: &[u64], lanes: u64) -> (Eight, u32) {
        let (held, of_bits) = words.split_first().expect("there are eight words");
        let mut met = Eight::default();
        let mut none = 0;
        for half in 0..2 {
            // SAFETY: `run_avx2` alone compiles this function, and eight words fill two aligned vectors.
            unsafe {
                let load = |words: &Eight| _mm256_load_si256(words.0.as_ptr().cast::<__m256i>().add(half));
                let mut differ = _mm256_setzero_si256();
                for (words, &bit) in of_bits.iter().zip(bits) {
                    let differs = _mm256_xor_si256(load(words), _mm256_set1_epi64x(bit as i64));
                    differ = _mm256_or_si256(differ, differs);
                }
                let asked = _mm256_and_si256(load(held), _mm256_set1_epi64x(lanes as i64));
                let of_half = _mm256_andnot_si256(differ, asked);
                _mm256_store_si256(met.0.as_mut_ptr().cast::<__m256i>().add(half), of_half);
                let zero = _mm256_cmpeq_epi64(of_half, _mm256_setzero_si256());
                none |= (_mm256_movemask_pd(_mm256_castsi256_pd(zero)) as u32) << (4 * half);
            }
        }
        (met, !none & 0xff)
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
    fn move_up(tags: &mut Tags, place: usize, first: u32) {
        Avx2::move_up(tags, place, first);
    }

    #[inline(always)]
    fn bring_to_front(tags: &mut Tags, tag: u32, last: usize) -> Brought {
        Avx2::bring_to_front(tags, tag, last)
    }

    #[inline(always)]
    fn find_word(words: &Words, word: u64) -> u32 {
        let words: *const __m512i = words.as_ptr().cast();
        // SAFETY: `run_avx512` alone compiles this function, and the words fill two vectors.
        unsafe {
            let word = _mm512_set1_epi64(word as i64);
            let equal = |half| u32::from(_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(words.add(half)), word));
            equal(0) | equal(1) << 8
        }
    }

    #[inline(always)]
    fn clear_equal(
        [first, second]: [&mut Words; 2],
        keys: &Words,
        key: u64,
        cleared: &mut Words,
    ) -> [u64; 2] {
        let (first, second): (*mut __m512i, *mut __m512i) =
            (first.as_mut_ptr().cast(), second.as_mut_ptr().cast());
        let (keys, cleared): (*const __m512i, *mut __m512i) =
            (keys.as_ptr().cast(), cleared.as_mut_ptr().cast());
        // SAFETY: `run_avx512` alone compiles this function, and each list fills two vectors.
        unsafe {
            let key = _mm512_set1_epi64(key as i64);
            let (mut all_lost, mut all_cleared) = (_mm512_setzero_si512(), _mm512_setzero_si512());
            for at in 0..WORDS / HALF {
                let differ = _mm512_xor_si512(_mm512_loadu_si512(keys.add(at)), key);
                let had = _mm512_loadu_si512(first.add(at));
                let lost = _mm512_andnot_si512(differ, had);
                let second_had = _mm512_loadu_si512(second.add(at));
                let lost_by_second = _mm512_and_si512(second_had, lost);
                _mm512_storeu_si512(first.add(at), _mm512_and_si512(had, differ));
                _mm512_storeu_si512(second.add(at), _mm512_andnot_si512(lost, second_had));
                _mm512_storeu_si512(cleared.add(at), lost_by_second);
                all_lost = _mm512_or_si512(all_lost, lost);
                all_cleared = _mm512_or_si512(all_cleared, lost_by_second);
            }
            [all_lost, all_cleared].map(|all| _mm512_reduce_or_epi64(all) as u64)
        }
    }

    #[inline(always)]
    fn set_word(words: &mut Words, at: usize, word: u64) {
        assert!(at < WORDS, "there is a word at {at}");
        // SAFETY: `run_avx512` alone compiles this function, and the vector that is replaced lies within the words.
        unsafe {
            let half = words.as_mut_ptr().cast::<__m512i>().add(at / HALF);
            let own = 1 << (at % HALF);
            _mm512_storeu_si512(half, _mm512_mask_set1_epi64(_mm512_loadu_si512(half), own, word as i64));
        }
    }

    #[inline(always)]
    fn meet(words: &[Eight], bits: &[u64], lanes: u64) -> (Eight, u32) {
        /// The function of three bits a, b and c: a | (b ^ c).
        const OR_DIFFERS: i32 = 0b1111_0110;
        /// The function of three bits a, b and c: !a & b & c.
        const AND_NOT: i32 = 0b0000_1000;
        let (held, of_bits) = words.split_first().expect("there are eight words");
        let mut met = Eight::default();
        // SAFETY: `run_avx512` alone compiles this function, and eight words fill an aligned vector.
        unsafe {
            let load = |words: &Eight| _mm512_load_si512(words.0.as_ptr().cast());
            let mut differ = _mm512_setzero_si512();
            for (words, &bit) in of_bits.iter().zip(bits) {
                let bit = _mm512_set1_epi64(bit as i64);
                differ = _mm512_ternarylogic_epi64::<OR_DIFFERS>(differ, load(words), bit);
            }
            let lanes = _mm512_set1_epi64(lanes as i64);
            let all = _mm512_ternarylogic_epi64::<AND_NOT>(differ, load(held), lanes);
            _mm512_store_si512(met.0.as_mut_ptr().cast(), all);
            (met, u32::from(_mm512_test_epi64_mask(all, all)))
        }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
pub(super) fn run_avx2(visitor: impl SearchVisitor) {
    visitor.visit::<Avx2>();
}

#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,lzcnt")]
pub(super) fn run_avx512(visitor: impl SearchVisitor) {
    visitor.visit::<Avx512>();
}
