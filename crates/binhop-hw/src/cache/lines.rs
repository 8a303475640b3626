//! `Lines` holds the lines of a cache: one word per way, set after set, with a replacement policy.
//!
//! The word of a line is its key + 1, × 2, plus 1 if the line is dirty. A key is at most 2⁶². So no line's word equals
//! [`EMPTY`], or differs from it in the dirty bit alone. `EMPTY` is 0, and so is the initial state of every policy: the
//! system gives zeroed memory page by page as it is touched. So an empty cache takes no memory, however large it is.
//! Where many caches hold few lines each, [`Storage::Sparse`] takes memory for chunks of sets, as lines come.

mod packed;

use std::ops::Range;

use binhop_base::{PowerOfTwo, Rng};

use super::chunks::Chunks;
use crate::{
    CacheConfig, Replacement,
    replacement::{ArrayShape, FEW, Fifo, Lru, Plru, Policy, Random, Srrip, each_policy},
};
use packed::{HEAD_BYTES, MOST_PACKED, PackedArray};

/// The word of a way that holds no line.
pub(crate) const EMPTY: u64 = 0;

/// The word of a line: its key and its dirty bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    #[inline]
    pub(crate) const fn new(key: u64, dirty: bool) -> Self {
        Self((key + 1) << 1 | dirty as u64)
    }

    #[inline]
    pub(crate) const fn key(self) -> u64 {
        (self.0 >> 1) - 1
    }

    #[inline]
    pub(crate) const fn dirty(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Returns the way of the line whose clean word is `clean`. Where the ways are few the search has no early end: a few
/// more comparisons cost less than a branch that cannot be predicted.
#[inline(always)]
fn find(ways: &[u64], clean: u64) -> Option<usize> {
    if ways.len() > FEW {
        return ways.iter().position(|&word| word ^ clean <= 1);
    }
    let mut found = usize::MAX;
    for (way, &word) in ways.iter().enumerate() {
        found = if word ^ clean <= 1 { way } else { found };
    }
    (found != usize::MAX).then_some(found)
}

/// Returns the lowest empty way. The word of an empty way is its type's default.
#[inline(always)]
fn first_empty<P: Policy, W: Copy + Default + PartialEq>(ways: &[W]) -> Option<usize> {
    if P::EMPTY_WAYS_ARE_LAST && ways[ways.len() - 1] != W::default() {
        return None;
    }
    ways.iter().position(|&word| word == W::default())
}

/// Looks for a line among the ways of a set, and touches the line if it is there. `dirty` is 0 or 1. `newly_dirty`
/// grows by 1 if the line was clean and is dirty now.
#[inline(always)]
pub(crate) fn touch<P: Policy>(
    ways: &mut [u64],
    policy: &mut P,
    set: usize,
    key: u64,
    dirty: u64,
    newly_dirty: &mut u64,
) -> bool {
    let clean = Word::new(key, false).0;
    let way = if ways[0] ^ clean <= 1 {
        0
    } else if let Some(way) = find(&ways[1..], clean) {
        way + 1
    } else {
        return false;
    };
    // A line becomes dirty once and is written often. So this branch can be predicted, and a branch on `dirty`
    // cannot.
    if dirty & !ways[way] != 0 {
        ways[way] |= 1;
        *newly_dirty += 1;
    }
    policy.hit(ways, set, way);
    true
}

/// Puts a line in the lowest empty way of a set, or in the place of a victim. Returns the victim.
#[inline(always)]
pub(crate) fn put<P: Policy>(ways: &mut [u64], policy: &mut P, set: usize, line: Word) -> Option<Word> {
    put_word(ways, policy, set, line.0).map(Word)
}

/// Puts a line, by its word, in the lowest empty way of a set, or in the place of a victim. Returns the word of the
/// victim. The word of an empty way is its type's default.
#[inline(always)]
pub(crate) fn put_word<P: Policy, W: Copy + Default + PartialEq>(
    ways: &mut [W],
    policy: &mut P,
    set: usize,
    line: W,
) -> Option<W> {
    let empty = first_empty::<P, W>(ways);
    let way = empty.unwrap_or_else(|| policy.victim(ways, set));
    let before = ways[way];
    ways[way] = line;
    policy.filled(ways, set, way);
    if empty.is_none() { Some(before) } else { None }
}

/// `SelectedLines` says which lines of a set leave the set, or become clean. Functions that take it are compiled once for
/// each type of sets, and not again for each closure of a caller.
#[derive(Clone, Copy)]
pub(crate) enum SelectedLines<'a> {
    /// Every line.
    All,
    /// The line with this key.
    Key(u64),
    /// The lines whose keys the function selects.
    Keys(&'a dyn Fn(u64) -> bool),
}

impl SelectedLines<'_> {
    /// Returns whether the word is that of a selected line.
    #[inline(always)]
    fn contain(self, word: Word) -> bool {
        word.0 != EMPTY
            && match self {
                Self::All => true,
                Self::Key(key) => word.key() == key,
                Self::Keys(are_selected) => are_selected(word.key()),
            }
    }
}

/// Makes the selected dirty lines of a set clean. Calls `cleaned` with each such line as it was before.
fn clean_ways(ways: &mut [u64], selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
    for way in ways {
        let word = Word(*way);
        if word.dirty() && selected.contain(word) {
            *way = Word::new(word.key(), false).0;
            cleaned(word);
        }
    }
}

/// `Sets` are sets of lines under one policy, for a loop that is compiled for each type of sets.
pub(crate) trait Sets {
    /// Does what [`touch`] does, in one of these sets.
    fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool;

    /// Does what [`put`] does, in one of these sets.
    fn put(&mut self, set: usize, line: Word) -> Option<Word>;
}

impl<P: Policy, const W: usize> Sets for Array<P, W> {
    #[inline(always)]
    fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
        let (ways, policy) = self.set(set);
        touch(ways, policy, set, key, dirty, newly_dirty)
    }

    #[inline(always)]
    fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        let (ways, policy) = self.set(set);
        put(ways, policy, set, line)
    }
}

/// Looks for a line and touches it. Returns `Some` for a hit: true if the line was clean and is dirty now.
#[inline(always)]
fn touch_once(sets: &mut impl Sets, set: usize, key: u64, dirty: bool) -> Option<bool> {
    let mut newly_dirty = 0;
    sets.touch(set, key, u64::from(dirty), &mut newly_dirty).then_some(newly_dirty != 0)
}

/// `Array` holds sets of `W` ways under one policy; `W` = 0 means a number of ways that is known only at run time.
/// A fixed `W` unrolls the search.
#[derive(Clone, Debug)]
pub(crate) struct Array<P, const W: usize> {
    words: Vec<u64>,
    ways: usize,
    policy: P,
}

impl<P: Policy, const W: usize> Array<P, W> {
    pub(super) fn new(shape: &ArrayShape) -> Self {
        let &ArrayShape { ways, sets, .. } = shape;
        assert!(W == 0 || W == ways);
        Self { words: vec![EMPTY; sets * ways], ways, policy: P::new(shape) }
    }

    /// Returns the number of ways. The compiler knows it unless `W` is 0.
    #[inline(always)]
    pub(crate) fn ways(&self) -> usize {
        if W == 0 { self.ways } else { W }
    }

    #[inline(always)]
    fn set(&mut self, set: usize) -> (&mut [u64], &mut P) {
        let ways = self.ways();
        (&mut self.words[set * ways..][..ways], &mut self.policy)
    }

    /// Returns all words and the policy, for a loop that keeps both in registers.
    pub(crate) fn parts(&mut self) -> (&mut [u64], &mut P) {
        (&mut self.words, &mut self.policy)
    }

    /// Returns the words of adjacent sets.
    pub(super) fn words(&self, sets: Range<usize>) -> &[u64] {
        &self.words[sets.start * self.ways()..sets.end * self.ways()]
    }

    #[inline(always)]
    pub(super) fn evict(&mut self, set: usize) -> Option<Word> {
        let (ways, policy) = self.set(set);
        if first_empty::<P, u64>(ways).is_some() {
            return None;
        }
        let way = policy.victim(ways, set);
        let victim = Word(ways[way]);
        ways[way] = EMPTY;
        policy.removed(ways, set, way);
        Some(victim)
    }

    pub(super) fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
        let (ways, policy) = self.set(set);
        // The loop goes from the last way down, because a policy that closes the gap moves the ways behind it. The loop
        // has already looked at these ways.
        for way in (0..ways.len()).rev() {
            let word = Word(ways[way]);
            if selected.contain(word) {
                ways[way] = EMPTY;
                policy.removed(ways, set, way);
                removed(word);
            }
        }
    }

    pub(super) fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
        clean_ways(self.set(set).0, selected, cleaned);
    }

    pub(super) fn set_victims(&mut self, set: usize, victims: u64) {
        self.policy.set_victims(set, victims);
    }
}

/// `Storage` says how the sets of a cache are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// All sets are allocated at once.
    Dense,
    /// A chunk of sets is allocated when a line first comes to one of its sets. An access takes a little longer.
    /// Caches of few chunks are dense, because a few pages reach all their sets.
    Sparse,
}

/// The smallest number of chunks of a sparse cache. A cache of fewer chunks is dense.
const FEWEST_CHUNKS: u64 = 4;

/// `SparseLines` holds the lines of a cache in chunks of sets. The lines of a page may be in as many sets as a chunk
/// has, so a page touches one chunk where the index is not hashed beyond the page.
#[derive(Clone, Debug)]
pub(crate) struct SparseLines {
    chunks: Chunks<Lines>,
    replacement: Replacement,
    /// The shape of the first chunk.
    shape: ArrayShape,
}

impl SparseLines {
    /// Makes the empty lines of a cache; `None` if the cache has too few chunks.
    fn new(config: &CacheConfig, shape: ArrayShape, page: PowerOfTwo) -> Option<Self> {
        let (chunks, sets) = Self::divided(config, page)?;
        let shape = ArrayShape { sets: sets as usize, ..shape };
        let chunks = Chunks::new(chunks as usize, sets.ilog2());
        Some(Self { chunks, replacement: config.replacement, shape })
    }

    /// Returns the number of chunks of a cache, and the sets of a chunk; `None` if the cache is dense.
    fn divided(config: &CacheConfig, page: PowerOfTwo) -> Option<(u64, u64)> {
        let lines_in_page = (page.bytes() / config.line.bytes()).max(1);
        let chunks = config.sets() / lines_in_page;
        (chunks >= FEWEST_CHUNKS).then_some((chunks, lines_in_page))
    }

    fn touch(&mut self, set: usize, key: u64, dirty: bool) -> Option<bool> {
        let (lines, set) = self.chunks.get_mut(set)?;
        lines.touch_hot(set, key, dirty)
    }

    fn evict(&mut self, set: usize) -> Option<Word> {
        let (lines, set) = self.chunks.get_mut(set)?;
        lines.evict(set)
    }

    fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        let Self { chunks, replacement, shape } = self;
        let make = |first| Lines::of_shape(*replacement, &ArrayShape { first, ..*shape });
        let (lines, set) = chunks.get_or_make(set, make);
        lines.put(set, line)
    }

    fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
        if let Some((lines, set)) = self.chunks.get_mut(set) {
            lines.remove(set, selected, removed);
        }
    }

    fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
        if let Some((lines, set)) = self.chunks.get_mut(set) {
            lines.clean(set, selected, cleaned);
        }
    }

    fn words(&self, sets: Range<usize>) -> &[u64] {
        let Some((lines, first)) = self.chunks.get(sets.start) else { return &[] };
        lines.words(first..first + sets.len())
    }
}

/// `InLines` is a type of array that [`Lines`] may hold.
pub(crate) trait InLines: Sized {
    /// Returns the array, if the lines are in an array of this type.
    fn of(lines: &mut Lines) -> Option<&mut Self>;
}

/// `SetsVisitor` is a loop over the lines of a cache that is compiled for each type of sets.
pub(crate) trait SetsVisitor {
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
        packed: [$($packed:ident($by:ident))*]
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

        /// The lines of one cache.
        #[derive(Clone, Debug)]
        pub(crate) enum Lines {
            /// One way, for which all policies are the same.
            Direct(Array<Fifo, 1>),
            $($fixed(Array<$of, $ways>),)*
            $($packed(PackedArray<$by>),)*
            $($policy(Array<crate::replacement::$policy, 0>),)*
            /// Chunks of sets, each in one of the forms above.
            Sparse(Box<SparseLines>),
        }

        impl Lines {
            /// Makes the empty lines of sets of this shape, all allocated.
            fn of_shape(replacement: Replacement, shape: &ArrayShape) -> Self {
                match (replacement, shape.ways) {
                    (_, 1) => Lines::Direct(Array::new(shape)),
                    $((Replacement::$of, $ways) => Lines::$fixed(Array::new(shape)),)*
                    $((Replacement::$by, ways) if PACKED.contains(&ways) => {
                        Lines::$packed(PackedArray::new(shape))
                    })*
                    $((Replacement::$policy, _) => Lines::$policy(Array::new(shape)),)*
                }
            }

            /// Returns whether the sets of such a cache are packed.
            fn are_packed(replacement: Replacement, ways: usize) -> bool {
                PACKED.contains(&ways) && [$(Replacement::$by),*].contains(&replacement)
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
                    $(Lines::$policy(array) => array.clean(set, selected, cleaned),)*
                    Lines::Sparse(sparse) => sparse.clean(set, selected, cleaned),
                }
            }

            /// Notes that a set has had `victims` victims, which another policy of the same type has chosen: see
            /// [`Policy::set_victims`].
            ///
            /// # Panics
            /// The lines are sparse: no fast path serves such caches.
            pub(crate) fn set_victims(&mut self, set: usize, victims: u64) {
                match self {
                    Lines::Direct(array) => array.set_victims(set, victims),
                    $(Lines::$fixed(array) => array.set_victims(set, victims),)*
                    $(Lines::$packed(array) => array.set_victims(set, victims),)*
                    $(Lines::$policy(array) => array.set_victims(set, victims),)*
                    Lines::Sparse(_) => unreachable!("fast paths are for dense lines"),
                }
            }

            /// Returns the words of a set in the order of its policy. A set that is not allocated has no words.
            pub(crate) fn in_order(&self, set: usize) -> Vec<u64> {
                match self {
                    $(Lines::$packed(array) => array.in_order(set),)*
                    Lines::Sparse(sparse) => {
                        sparse.chunks.get(set).map_or_else(Vec::new, |(lines, set)| lines.in_order(set))
                    }
                    _ => self.ways(set).to_vec(),
                }
            }

            /// Returns the words of adjacent sets, way by way. Sparse lines answer for sets of one chunk, with no
            /// words if the chunk is not allocated.
            fn words(&self, sets: Range<usize>) -> &[u64] {
                match self {
                    Lines::Direct(array) => array.words(sets),
                    $(Lines::$fixed(array) => array.words(sets),)*
                    $(Lines::$packed(array) => array.words(sets),)*
                    $(Lines::$policy(array) => array.words(sets),)*
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
            packed: [PackedLru(Lru) PackedFifo(Fifo) PackedRandom(Random) PackedPlru(Plru) PackedSrrip(Srrip)]
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
            None => Lines::of_shape(config.replacement, &shape),
        }
    }

    /// Returns the words of a set, way by way. A set that is not allocated has no words.
    pub(crate) fn ways(&self, set: usize) -> &[u64] {
        self.words(set..set + 1)
    }

    /// Visits the lines of adjacent sets, set by set, way by way.
    pub(crate) fn each_resident(&self, sets: Range<usize>, mut visit: impl FnMut(Word)) {
        let chunk = if let Lines::Sparse(sparse) = self { sparse.chunks.sets() } else { usize::MAX };
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
}

/// `SparseBytes` is the memory that sparse caches take: see [`Front::sparse`](crate::Front::sparse).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SparseBytes {
    /// The bytes from the start.
    pub fixed: u64,
    /// The bytes for each page whose lines come, where the index is not hashed beyond the page.
    pub page: u64,
    /// The most bytes that pages take.
    pub most: u64,
}

impl CacheConfig {
    /// Returns the bytes that one such cache allocates from the start: a word for each line, and what the
    /// replacement keeps. The system provides this memory page by page, as sets are touched. In addition, the cache
    /// keeps a bit for each line of each page that was accessed.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        let (ways, sets) = (u64::from(self.ways), self.sets());
        let kept = if ways == 1 {
            0
        } else if Lines::are_packed(self.replacement, self.ways as usize) {
            // The heads hold the state of every policy. A policy that draws keeps its draws beside them.
            HEAD_BYTES + if self.draws() { self.replacement.bytes_of_a_set(ways) } else { 0 }
        } else {
            self.replacement.bytes_of_a_set(ways)
        };
        sets.saturating_mul(ways * size_of::<u64>() as u64 + kept)
    }

    /// Returns the bytes that one such cache takes if it is sparse, in a machine with pages of this size.
    pub(crate) fn sparse_bytes(&self, page: PowerOfTwo) -> SparseBytes {
        let Some((chunks, _)) = SparseLines::divided(self, page) else {
            return SparseBytes { fixed: self.state_bytes(), ..SparseBytes::default() };
        };
        let fixed = size_of::<SparseLines>() as u64 + chunks * size_of::<Option<Box<Lines>>>() as u64;
        let chunk = size_of::<Lines>() as u64 + self.state_bytes().div_ceil(chunks);
        SparseBytes { fixed, page: chunk, most: chunk.saturating_mul(chunks) }
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::{Bytes, Domain, PowerOfTwo, Stream};

    use super::*;
    use crate::{IndexBy, Next, TagBy, WritePolicy, WritebackOrder};

    /// Four sets of four ways.
    fn lines(replacement: Replacement, seed: u64) -> Lines {
        let config = CacheConfig {
            name: "c".into(),
            size: Bytes(256),
            line: PowerOfTwo::from_log2(4),
            ways: 4,
            index: IndexBy::Physical,
            hashed: false,
            tag: TagBy::Physical,
            write: WritePolicy::Back,
            allocate: true,
            replacement,
            writeback_order: WritebackOrder::AfterFill,
            inclusive: false,
            write_buffer: None,
            streams: None,
            cost: 0,
            next: Next::Memory,
        };
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
