//! `Lines` holds the lines of a cache under one replacement policy. It chooses the type of the sets once, so that each
//! access runs code that is compiled for the policy and, where the number of ways is common, for this number.

mod array;
mod narrow;
mod ordered;
mod packed;
pub(crate) mod search;
mod sparse;
#[cfg(test)]
mod steps;
mod tag_sets;

use std::{borrow::Cow, ops::Range};

use binhop_base::{PowerOfTwo, Rng};

use crate::{
    CacheConfig, Replacement,
    replacement::{ArrayShape, FEW, Fifo, Lru, Plru, Random, Srrip, each_policy},
};
pub(crate) use array::{Array, EMPTY, Line, SelectedLines, Sets, Word, put, put_word, put_word_with, touch};
use array::{clean_ways, touch_once};
pub(crate) use narrow::NarrowArray;
pub(crate) use ordered::OrderedArray;
pub(crate) use packed::{MOST_PACKED, PackedArray};
pub use sparse::SparseBytes;
use sparse::SparseLines;
pub(crate) use sparse::Storage;

/// `InLines` is a type of array that [`Lines`] may hold.
pub(crate) trait InLines: Sized {
    /// Returns the array, if the lines are in an array of this type.
    fn of(lines: &mut Lines) -> Option<&mut Self>;
}

/// `SetsVisitor` is a loop over the lines of a cache that is compiled for each type of sets.
pub(crate) trait SetsVisitor {
    /// True if the index of the cache is hashed.
    const IS_HASHED: bool = false;

    fn visit<S: Sets>(self, sets: &mut S);
}

/// The numbers of ways whose sets are packed, under a policy of the list `packed`. With fewer ways, a search of all
/// words costs less than the heads.
const PACKED: std::ops::RangeInclusive<usize> = FEW + 1..=MOST_PACKED;

/// Dispatches once per access to the type of the sets; the branch is the same every time for one cache. Every policy
/// has an array of any number of ways; the commonest numbers of ways have an array of their own, in the list of
/// `fixed` ones. The policies of the list `packed` have packed sets of more than a few ways.
macro_rules! lines {
    (
        any: [$($policy:ident)*]
        fixed: [$($fixed:ident($of:ident, $ways:literal))*]
        packed: [$($packed:ident($narrow:ident($narrow_array:ty), $by:ident))*]
    ) => {
        impl InLines for Array<Fifo, 1> {
            fn of(lines: &mut Lines) -> Option<&mut Self> {
                if let Lines::Direct(array) = lines { Some(array) } else { None }
            }
        }

        $(impl InLines for Array<$of, $ways> {
            fn of(lines: &mut Lines) -> Option<&mut Self> {
                if let Lines::$fixed(array) = lines { Some(array) } else { None }
            }
        })*

        $(impl InLines for PackedArray<$by> {
            fn of(lines: &mut Lines) -> Option<&mut Self> {
                if let Lines::$packed(array) = lines { Some(array) } else { None }
            }
        })*

        $(impl InLines for $narrow_array {
            fn of(lines: &mut Lines) -> Option<&mut Self> {
                if let Lines::$narrow(array) = lines { Some(array) } else { None }
            }
        })*

        /// The lines of one cache.
        #[derive(Clone, Debug)]
        pub(crate) enum Lines {
            /// One way, for which all policies are the same.
            Direct(Array<Fifo, 1>),
            $($fixed(Array<$of, $ways>),)*
            $($packed(PackedArray<$by>),)*
            $($narrow($narrow_array),)*
            $($policy(Array<crate::replacement::$policy, 0>),)*
            /// Chunks of sets, each in one of the forms above.
            Sparse(Box<SparseLines>),
        }

        impl Lines {
            /// Makes the empty lines of sets of this shape, all allocated.
            ///
            /// `page_lines_log2` is the logarithm of the lines in a page, if a set holds lines of one line number
            /// within the page, which is the lower part of the number of the set.
            fn of_shape(replacement: Replacement, shape: &ArrayShape, page_lines_log2: Option<u32>) -> Self {
                match (replacement, shape.ways) {
                    (_, 1) => Lines::Direct(Array::new(shape)),
                    $((Replacement::$of, $ways) => Lines::$fixed(Array::new(shape)),)*
                    $((Replacement::$by, ways) if PACKED.contains(&ways) => match page_lines_log2 {
                        Some(log2) => Lines::$narrow(<$narrow_array>::new(shape, log2)),
                        None => Lines::$packed(PackedArray::new(shape)),
                    },)*
                    $((Replacement::$policy, _) => Lines::$policy(Array::new(shape)),)*
                }
            }

            /// Returns the bytes of a packed set with its policy's state; `None` if the sets of such a cache are not
            /// packed. The lines are `narrow` if a set tells the number of its lines.
            fn packed_set_bytes(replacement: Replacement, ways: usize, narrow: bool) -> Option<u64> {
                match replacement {
                    $(Replacement::$by if PACKED.contains(&ways) => Some(if narrow {
                        <$narrow_array>::SET_BYTES
                    } else {
                        packed::set_bytes(ways)
                    }),)*
                    _ => None,
                }
            }

            /// Calls a visitor with the sets, under their own type.
            ///
            /// # Panics
            /// The lines are sparse: no fast path serves such caches.
            pub(crate) fn visit<V: SetsVisitor>(&mut self, visitor: V) {
                match self {
                    Lines::Direct(array) => visitor.visit(array),
                    $(Lines::$fixed(array) => visitor.visit(array),)*
                    $(Lines::$packed(array) => visitor.visit(array),)*
                    $(Lines::$narrow(array) => array.visit(visitor),)*
                    $(Lines::$policy(array) => visitor.visit(array),)*
                    Lines::Sparse(_) => unreachable!("fast paths are for dense lines"),
                }
            }

            /// Looks for a line. If the line is there, touches it, and makes it dirty if `dirty`. Returns `Some` for
            /// a hit: true if the line was clean and is dirty now.
            #[inline(never)]
            pub(crate) fn touch(&mut self, set: usize, key: u64, dirty: bool) -> Option<bool> {
                match self {
                    Lines::Direct(array) => touch_once(array, set, key, dirty),
                    $(Lines::$fixed(array) => touch_once(array, set, key, dirty),)*
                    $(Lines::$packed(array) => touch_once(array, set, key, dirty),)*
                    $(Lines::$narrow(array) => touch_once(array, set, key, dirty),)*
                    $(Lines::$policy(array) => touch_once(array, set, key, dirty),)*
                    Lines::Sparse(sparse) => sparse.touch(set, key, dirty),
                }
            }

            /// Makes room in a set. Returns the victim if the set was full.
            pub(crate) fn evict(&mut self, set: usize) -> Option<Word> {
                match self {
                    Lines::Direct(array) => array.evict(set),
                    $(Lines::$fixed(array) => array.evict(set),)*
                    $(Lines::$packed(array) => array.evict(set),)*
                    $(Lines::$narrow(array) => array.evict(set),)*
                    $(Lines::$policy(array) => array.evict(set),)*
                    Lines::Sparse(sparse) => sparse.evict(set),
                }
            }

            /// Puts a line in the lowest empty way, or in the place of a victim. Returns the victim.
            #[inline]
            pub(crate) fn put(&mut self, set: usize, line: Word) -> Option<Word> {
                match self {
                    Lines::Direct(array) => array.put(set, line),
                    $(Lines::$fixed(array) => array.put(set, line),)*
                    $(Lines::$packed(array) => array.put(set, line),)*
                    $(Lines::$narrow(array) => array.put(set, line),)*
                    $(Lines::$policy(array) => array.put(set, line),)*
                    Lines::Sparse(sparse) => sparse.put(set, line),
                }
            }

            /// Removes the selected lines of a set. Calls `removed` with each line.
            pub(crate) fn remove(
                &mut self,
                set: usize,
                selected: SelectedLines<'_>,
                removed: &mut dyn FnMut(Word),
            ) {
                match self {
                    Lines::Direct(array) => array.remove(set, selected, removed),
                    $(Lines::$fixed(array) => array.remove(set, selected, removed),)*
                    $(Lines::$packed(array) => array.remove(set, selected, removed),)*
                    $(Lines::$narrow(array) => array.remove(set, selected, removed),)*
                    $(Lines::$policy(array) => array.remove(set, selected, removed),)*
                    Lines::Sparse(sparse) => sparse.remove(set, selected, removed),
                }
            }

            /// Makes the selected dirty lines of a set clean. Calls `cleaned` with each such line as it was before.
            pub(crate) fn clean(
                &mut self,
                set: usize,
                selected: SelectedLines<'_>,
                cleaned: &mut dyn FnMut(Word),
            ) {
                match self {
                    Lines::Direct(array) => array.clean(set, selected, cleaned),
                    $(Lines::$fixed(array) => array.clean(set, selected, cleaned),)*
                    $(Lines::$packed(array) => array.clean(set, selected, cleaned),)*
                    $(Lines::$narrow(array) => array.clean(set, selected, cleaned),)*
                    $(Lines::$policy(array) => array.clean(set, selected, cleaned),)*
                    Lines::Sparse(sparse) => sparse.clean(set, selected, cleaned),
                }
            }

            /// Notes that a set has had `victims` victims, which another policy of the same type has chosen: see
            /// [`Policy::set_victims`](crate::replacement::Policy::set_victims).
            ///
            /// # Panics
            /// The lines are sparse: no fast path serves such caches.
            pub(crate) fn set_victims(&mut self, set: usize, victims: u64) {
                match self {
                    Lines::Direct(array) => array.set_victims(set, victims),
                    $(Lines::$fixed(array) => array.set_victims(set, victims),)*
                    $(Lines::$packed(array) => array.set_victims(set, victims),)*
                    $(Lines::$narrow(array) => array.set_victims(set, victims),)*
                    $(Lines::$policy(array) => array.set_victims(set, victims),)*
                    Lines::Sparse(_) => unreachable!("fast paths are for dense lines"),
                }
            }

            /// Returns the words of a set in the order of its policy. A set that is not allocated has no words.
            pub(crate) fn in_order(&self, set: usize) -> Vec<u64> {
                match self {
                    $(Lines::$packed(array) => array.in_order(set),)*
                    $(Lines::$narrow(array) => array.in_order(set),)*
                    Lines::Sparse(sparse) => {
                        sparse.chunks.get(set).map_or_else(Vec::new, |(lines, set)| lines.in_order(set))
                    }
                    _ => self.ways(set).to_vec(),
                }
            }

            /// Returns the words of adjacent sets, way by way. Sparse lines answer for sets of one chunk, with no
            /// words if the chunk is not allocated.
            fn words(&self, sets: Range<usize>) -> Cow<'_, [u64]> {
                match self {
                    Lines::Direct(array) => array.words(sets).into(),
                    $(Lines::$fixed(array) => array.words(sets).into(),)*
                    $(Lines::$packed(array) => array.words(sets).into(),)*
                    $(Lines::$narrow(array) => array.words(sets).into(),)*
                    $(Lines::$policy(array) => array.words(sets).into(),)*
                    Lines::Sparse(sparse) => sparse.words(sets),
                }
            }
        }
    };
}

macro_rules! arrays {
    ($($module:ident::$policy:ident),*) => {
        lines! {
            any: [$($policy)*]
            fixed: [Lru2(Lru, 2) Lru4(Lru, 4) Lru8(Lru, 8) Random2(Random, 2) Random4(Random, 4)]
            packed: [
                PackedLru(OrderedLru(OrderedArray), Lru)
                PackedFifo(NarrowFifo(NarrowArray<Fifo>), Fifo)
                PackedRandom(NarrowRandom(NarrowArray<Random>), Random)
                PackedPlru(NarrowPlru(NarrowArray<Plru>), Plru)
                PackedSrrip(NarrowSrrip(NarrowArray<Srrip>), Srrip)
            ]
        }
    };
}

each_policy!(arrays);

impl Lines {
    /// Makes the empty lines of a cache, in a machine with pages of this size.
    pub(crate) fn new(
        config: &CacheConfig,
        cache: usize,
        rng: Rng,
        storage: Storage,
        page: PowerOfTwo,
    ) -> Self {
        let shape =
            ArrayShape { ways: config.ways as usize, sets: config.sets() as usize, first: 0, cache, rng };
        let sparse = if storage == Storage::Sparse { SparseLines::new(config, shape, page) } else { None };
        match sparse {
            Some(sparse) => Lines::Sparse(Box::new(sparse)),
            None => Lines::of_shape(config.replacement, &shape, config.page_lines_log2(page)),
        }
    }

    /// Returns the words of a set, way by way. A set that is not allocated has no words.
    pub(crate) fn ways(&self, set: usize) -> Cow<'_, [u64]> {
        self.words(set..set + 1)
    }

    /// Visits the lines of adjacent sets, set by set, way by way.
    pub(crate) fn each_resident(&self, sets: Range<usize>, mut visit: impl FnMut(Word)) {
        // Narrow sets make their words, so few sets are visited at once.
        const AT_ONCE: usize = 64;
        let chunk =
            if let Lines::Sparse(sparse) = self { sparse.chunks.sets().min(AT_ONCE) } else { AT_ONCE };
        let mut at = sets.start;
        while at < sets.end {
            let end = sets.end.min((at / chunk + 1).saturating_mul(chunk));
            self.words(at..end).iter().filter(|&&word| word != EMPTY).for_each(|&word| visit(Word(word)));
            at = end;
        }
    }

    /// Does what [`Lines::touch`] does, with the commonest level-1 caches inlined.
    #[inline(always)]
    pub(crate) fn touch_hot(&mut self, set: usize, key: u64, dirty: bool) -> Option<bool> {
        if let Lines::Direct(array) = self {
            touch_once(array, set, key, dirty)
        } else if let Lines::Lru8(array) = self {
            touch_once(array, set, key, dirty)
        } else {
            self.touch(set, key, dirty)
        }
    }

    /// Does what [`Lines::put`] does, with direct-mapped caches inlined.
    #[inline(always)]
    pub(crate) fn put_hot(&mut self, set: usize, line: Word) -> Option<Word> {
        if let Lines::Direct(array) = self { array.put(set, line) } else { self.put(set, line) }
    }

    /// Returns whether a set holds a line. Nothing changes.
    #[inline]
    pub(crate) fn holds(&self, set: usize, key: u64) -> bool {
        if let Lines::Direct(array) = self {
            return array.words(set..set + 1)[0] & !1 == Word::new(key, false).0;
        }
        self.state(set, key).is_some()
    }

    /// Returns whether a line of a set is dirty; `None` if the set does not hold the line. Nothing changes.
    pub(crate) fn state(&self, set: usize, key: u64) -> Option<bool> {
        let ways = self.ways(set);
        let words = ways.iter().map(|&word| Word(word));
        words.filter(|word| word.0 != EMPTY).find(|word| word.key() == key).map(Word::dirty)
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::{Domain, PowerOfTwo, Stream};

    use super::*;

    /// Four sets of four ways.
    fn lines(replacement: Replacement, seed: u64) -> Lines {
        let config = CacheConfig::of_tests(256, 16, 4, replacement);
        Lines::new(&config, 0, Rng::new(seed), Storage::Dense, PowerOfTwo::from_log2(6))
    }

    /// Calls `each` after every access of a random stream, with the line that was accessed.
    fn run(lines: &mut Lines, mut each: impl FnMut(&mut Lines, usize, u64)) {
        let draw = |step, which, below| Rng::new(3).below(Stream::new(Domain::Test, which), step, below);
        for step in 0..5000 {
            let (set, key) = (draw(step, 0, 4) as usize, draw(step, 1, 7));
            match draw(step, 2, 8) {
                0 => lines.remove(set, SelectedLines::Key(key), &mut |_| {}),
                _ if lines.touch(set, key, false).is_some() => {}
                _ => {
                    let _victim = lines.put(set, Word::new(key, false));
                }
            }
            each(lines, set, key);
        }
    }

    #[test]
    fn every_policy_says_truly_whether_a_repeated_hit_changes_anything() {
        for &replacement in Replacement::ALL {
            let (mut repeats, mut changed, mut changed_again) = (0, 0, 0);
            run(&mut lines(replacement, 0), |lines, set, key| {
                // The line was accessed last in its set, by a hit or by its fill. The text shows all that a policy
                // keeps.
                let before = format!("{lines:?}");
                if lines.touch(set, key, false).is_some() {
                    repeats += 1;
                    let once = format!("{lines:?}");
                    changed += u32::from(before != once);
                    lines.touch(set, key, false);
                    changed_again += u32::from(once != format!("{lines:?}"));
                }
            });
            assert!(repeats > 3000, "{replacement:?}: {repeats}");
            assert_eq!(
                changed == 0,
                replacement.rehit_is_neutral(),
                "{replacement:?}: REHIT_IS_NEUTRAL is wrong: {changed} repeated hits changed something"
            );
            assert_eq!(
                changed_again, 0,
                "{replacement:?}: a second repeated hit changes something, but binhop-sim's prepare/filter.rs drops it: \
                 let the filter pass every hit of this policy"
            );
        }
    }

    #[test]
    fn every_policy_says_truly_whether_hits_change_anything() {
        for &replacement in Replacement::ALL {
            let (mut hits, mut changed) = (0, 0);
            run(&mut lines(replacement, 0), |lines, set, _| {
                for key in 0..7 {
                    let before = format!("{lines:?}");
                    if lines.touch(set, key, false).is_some() {
                        hits += 1;
                        changed += u32::from(before != format!("{lines:?}"));
                    }
                }
            });
            assert!(hits > 3000, "{replacement:?}: {hits}");
            assert_eq!(
                changed == 0,
                replacement.hits_are_neutral(),
                "{replacement:?}: HITS_ARE_NEUTRAL is wrong: {changed} hits changed something"
            );
        }
    }

    #[test]
    fn every_policy_says_truly_whether_it_draws() {
        for &replacement in Replacement::ALL {
            let contents = |seed| {
                let mut lines = lines(replacement, seed);
                run(&mut lines, |_, _, _| {});
                format!("{:?}", lines.words(0..4))
            };
            assert_eq!(
                contents(1) != contents(2),
                replacement.draws(),
                "{replacement:?}: DRAWS is wrong: lanes of several seeds would share one front"
            );
        }
    }
}
