//! `Array` holds sets of lines under one replacement policy: one word per way, set after set.
//!
//! The word of a line is its key + 1, × 2, plus 1 if the line is dirty. A key is at most 2⁶². So no line's word equals
//! [`EMPTY`], or differs from it in the dirty bit alone. `EMPTY` is 0, and so is the initial state of every policy: the
//! system gives zeroed memory page by page as it is touched. So an empty cache takes no memory, however large it is.

use std::{hint::select_unpredictable, ops::Range};

use binhop_base::LineAddr;

use crate::{
    cache::prefetch::prefetch,
    replacement::{ArrayShape, FEW, Policy},
};

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
    put_word_with(ways, policy, set, line, P::victim)
}

/// Does what [`put_word`] does. `victim` returns what [`Policy::victim`] returns.
#[inline(always)]
pub(crate) fn put_word_with<P: Policy, W: Copy + Default + PartialEq>(
    ways: &mut [W],
    policy: &mut P,
    set: usize,
    line: W,
    victim: impl FnOnce(&mut P, &[W], usize) -> usize,
) -> Option<W> {
    let empty = first_empty::<P, W>(ways);
    let way = empty.unwrap_or_else(|| victim(policy, ways, set));
    let before = ways[way];
    ways[way] = line;
    policy.filled(ways, set, way);
    if empty.is_none() { Some(before) } else { None }
}

/// `SelectedLines` says which lines of a set leave the set, or become clean. Functions that take it are compiled once
/// for each type of sets, and not again for each closure of a caller.
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
    pub(super) fn contain(self, word: Word) -> bool {
        word.0 != EMPTY
            && match self {
                Self::All => true,
                Self::Key(key) => word.key() == key,
                Self::Keys(are_selected) => are_selected(word.key()),
            }
    }
}

/// Makes the selected dirty lines of a set clean. Calls `cleaned` with each such line as it was before.
pub(super) fn clean_ways(ways: &mut [u64], selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
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

    /// Tells the processor that a set is asked for soon.
    #[inline(always)]
    fn read_ahead(&self, _set: usize) {}

    /// True if [`Sets::exchange`] has no branch on whether the line is there.
    const EXCHANGES: bool = false;

    /// Looks for a line, and puts it in its set if it is not there. A line that is there becomes dirty if `dirty` is 1.
    /// This is [`Sets::touch`] and, after a miss, [`Sets::put`].
    #[inline(always)]
    fn exchange(&mut self, set: usize, line: Line, dirty: u64) -> Exchange {
        touch_or_put(self, set, line, dirty)
    }
}

/// `Line` is a line by the number of its mapping or page, and its number within the page. Its key joins both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) at: LineAddr,
    /// The logarithm of the lines in a page.
    pub(crate) page_lines_log2: u32,
}

impl Line {
    #[inline(always)]
    pub(crate) fn key(self) -> u64 {
        u64::from(self.at.id) << self.page_lines_log2 | u64::from(self.at.line)
    }

    /// Returns the line that a key names. Any key names a line.
    #[inline(always)]
    fn named(self, key: u64) -> LineAddr {
        let line = key & ((1 << self.page_lines_log2) - 1);
        LineAddr { id: (key >> self.page_lines_log2) as u32, line: line as u32 }
    }

    /// Returns what happened if the word of the line's way was `before`, and the line was `found` there.
    #[inline(always)]
    pub(super) fn exchanged(self, found: bool, before: u64, dirty: u64) -> Exchange {
        let old = select_unpredictable(found, EMPTY, before);
        Exchange {
            missed: u64::from(!found),
            dirtied: dirty & !(u64::from(found) & before),
            evicted: u64::from(old != EMPTY),
            evicted_dirty: old & 1,
            victim: self.named((old >> 1).wrapping_sub(1)),
        }
    }
}

/// `Exchange` says what [`Sets::exchange`] did. The counts are 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// 1 if the line was not there.
    pub(crate) missed: u64,
    /// 1 if the line is dirty now, and was not there or was clean.
    pub(crate) dirtied: u64,
    /// 1 if a line left.
    pub(crate) evicted: u64,
    /// 1 if a dirty line left.
    pub(crate) evicted_dirty: u64,
    /// The line that left; some line if no line left.
    pub(crate) victim: LineAddr,
}

#[cfg(test)]
impl Exchange {
    /// Returns the counts, and the victim if a line left.
    pub(super) fn counts(self) -> ([u64; 4], Option<LineAddr>) {
        let Self { missed, dirtied, evicted, evicted_dirty, victim } = self;
        ([missed, dirtied, evicted, evicted_dirty], (evicted == 1).then_some(victim))
    }
}

/// Does what [`Sets::exchange`] does, with a branch on whether the line is there.
#[inline(always)]
pub(super) fn touch_or_put(sets: &mut (impl Sets + ?Sized), set: usize, line: Line, dirty: u64) -> Exchange {
    let mut dirtied = 0;
    if sets.touch(set, line.key(), dirty, &mut dirtied) {
        return Exchange { dirtied, ..line.exchanged(true, EMPTY, 0) };
    }
    let victim = sets.put(set, Word::new(line.key(), dirty == 1)).unwrap_or(Word(EMPTY));
    line.exchanged(false, victim.0, dirty)
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

    #[inline(always)]
    fn read_ahead(&self, set: usize) {
        prefetch(&self.words[set * self.ways()]);
    }

    const EXCHANGES: bool = W == 1;

    #[inline(always)]
    fn exchange(&mut self, set: usize, line: Line, dirty: u64) -> Exchange {
        if W != 1 {
            return touch_or_put(self, set, line, dirty);
        }
        let clean = Word::new(line.key(), false).0;
        let before = self.words[set];
        let found = before ^ clean <= 1;
        self.words[set] = clean | dirty | u64::from(found) & before & 1;
        line.exchanged(found, before, dirty)
    }
}

/// Looks for a line and touches it. Returns `Some` for a hit: true if the line was clean and is dirty now.
#[inline(always)]
pub(super) fn touch_once(sets: &mut impl Sets, set: usize, key: u64, dirty: bool) -> Option<bool> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        cache::lines::steps::{Compared, compare, shape, steps},
        replacement::Fifo,
    };

    impl<P: Policy, const W: usize> Compared for Array<P, W> {
        fn evict(&mut self, set: usize) -> Option<Word> {
            self.evict(set)
        }
        fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
            self.remove(set, selected, removed);
        }
        fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
            self.clean(set, selected, cleaned);
        }
        fn set_victims(&mut self, set: usize, victims: u64) {
            self.set_victims(set, victims);
        }
        fn in_order(&self, set: usize) -> Vec<u64> {
            self.words(set..set + 1).to_vec()
        }
    }

    proptest! {
        #[test]
        fn a_set_of_one_way_exchanges_its_line(steps in steps()) {
            compare::<Fifo, _>(&shape(1), &mut [Array::<Fifo, 1>::new(&shape(1))], &steps);
        }
    }
}
