//! `NarrowArray` holds sets of 9 to 16 ways, with 32 bits for each line.
//!
//! No line moves: the state of the replacement is one word of each set. `tag_sets.rs` says what a set has of each line.
//! Ordered sets (`ordered.rs`) serve caches that replace the least recently used line, and packed sets (`packed.rs`)
//! serve the other caches.

use std::{hint::select_unpredictable, marker::PhantomData, ops::Range};

use binhop_base::LineAddr;

use super::{
    EMPTY, MOST_PACKED, SelectedLines, Sets, SetsVisitor, Word,
    array::{Exchange, Line, touch_or_put},
    search::{Instructions, Portable, Search, SearchVisitor, Tags},
    tag_sets::{TagSets, page_of, tag_of, word_of},
};
use crate::{
    cache::prefetch::prefetch,
    replacement::{ArrayShape, PackedPolicy},
};

/// `SetState` is what a set has beside its tags. All of it is 0 for an empty set.
/// - [`STATE`]: the state of the replacement.
/// - [`HELD`]: the ways that hold a line, a bit each.
type SetState = [u64; 2];

const STATE: usize = 0;
const HELD: usize = 1;

/// `NarrowArray` holds sets of up to [`MOST_PACKED`] ways.
#[derive(Clone, Debug)]
pub(crate) struct NarrowArray<P> {
    tags: TagSets,
    states: Vec<SetState>,
    policy: P,
}

impl<P: PackedPolicy> NarrowArray<P> {
    /// The bytes of a set.
    pub(super) const SET_BYTES: u64 = (size_of::<Tags>() + size_of::<SetState>()) as u64;

    /// Makes empty sets of lines, in a machine whose pages have 2^`page_lines_log2` lines.
    pub(super) fn new(shape: &ArrayShape, page_lines_log2: u32) -> Self {
        let tags = TagSets::new(shape, page_lines_log2);
        Self { tags, states: vec![[0; 2]; shape.sets], policy: P::packed(shape) }
    }

    /// Returns the sets for a loop that is compiled for one kind of search.
    #[inline(always)]
    fn searched<S: Search, const W: usize>(&mut self) -> Searched<'_, P, S, W> {
        let Self { tags, states, policy } = self;
        let (ways, page_lines_log2) = (tags.ways(), tags.page_lines_log2());
        Searched { tags: tags.all_mut(), states, ways, page_lines_log2, policy, search: PhantomData }
    }

    /// Returns the words of adjacent sets.
    pub(super) fn words(&self, sets: Range<usize>) -> Vec<u64> {
        self.tags.words(sets)
    }

    /// Returns the words of a set in the order in which an [`Array`](super::Array) keeps them.
    pub(super) fn in_order(&self, set: usize) -> Vec<u64> {
        let way_at = |place| P::way_at(self.states[set][STATE], place);
        let mut ordered: Vec<u64> =
            (0..self.tags.ways()).map(|place| self.tags.word(set, way_at(place)).0).collect();
        if P::EMPTY_WAYS_ARE_LAST {
            ordered.sort_by_key(|&word| word == EMPTY);
        }
        ordered
    }

    /// Removes the line in a way.
    fn remove_from(&mut self, set: usize, way: usize) {
        self.states[set][HELD] &= !(1 << way);
        self.tags.of_mut(set)[way] = 0;
    }

    pub(super) fn evict(&mut self, set: usize) -> Option<Word> {
        let way = self.searched::<Portable, 0>().victim(set).ok()?;
        let word = self.tags.word(set, way);
        self.remove_from(set, way);
        Some(word)
    }

    pub(super) fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
        // The lines leave in the order in which they leave an `Array`: the last first.
        for place in (0..self.tags.ways()).rev() {
            let way = P::way_at(self.states[set][STATE], place);
            let word = self.tags.word(set, way);
            if selected.contain(word) {
                self.remove_from(set, way);
                removed(word);
            }
        }
    }

    pub(super) fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
        self.tags.clean(set, selected, cleaned);
    }

    pub(super) fn set_victims(&mut self, set: usize, victims: u64) {
        self.policy.set_victims_packed(&mut self.states[set][STATE], victims);
    }
}

/// `Searched` is the sets of an array, for a loop that is compiled for one kind of search and, unless `W` is 0, for `W`
/// ways.
struct Searched<'a, P, S, const W: usize> {
    tags: &'a mut [Tags],
    states: &'a mut [SetState],
    ways: usize,
    page_lines_log2: u32,
    policy: &'a mut P,
    search: PhantomData<S>,
}

impl<P: PackedPolicy, S: Search, const W: usize> Searched<'_, P, S, W> {
    /// Returns the number of ways. The compiler knows it unless `W` is 0.
    #[inline(always)]
    fn ways(&self) -> usize {
        if W == 0 { self.ways } else { W }
    }

    /// Returns the lowest empty way as an error, or the way of the victim of a full set.
    #[inline(always)]
    fn victim(&mut self, set: usize) -> Result<usize, usize> {
        let ways = self.ways();
        let of_set = &mut self.states[set];
        let empty = !of_set[HELD] & ((1 << ways) - 1);
        if empty != 0 {
            return Err(empty.trailing_zeros() as usize);
        }
        Ok(self.policy.victim_packed(&mut of_set[STATE], set, ways))
    }
}

impl<P: PackedPolicy, S: Search, const W: usize> Sets for Searched<'_, P, S, W> {
    #[inline(always)]
    fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
        let clean = tag_of((key >> self.page_lines_log2) as u32, 0);
        let (ways, tags) = (self.ways(), &mut self.tags[set]);
        let found = S::find(tags, clean);
        if found == 0 {
            return false;
        }
        let way = found.trailing_zeros() as usize % MOST_PACKED;
        // A line becomes dirty once and is written often. So this branch can be predicted, and a branch on `dirty`
        // cannot.
        if dirty as u32 & !tags[way] != 0 {
            tags[way] |= 1;
            *newly_dirty += 1;
        }
        P::hit_packed(&mut self.states[set][STATE], way, ways);
        true
    }

    #[inline(always)]
    fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        let tag = tag_of((line.key() >> self.page_lines_log2) as u32, u64::from(line.dirty()));
        let victim = self.victim(set);
        let (Ok(way) | Err(way)) = victim;
        let before = std::mem::replace(&mut self.tags[set][way], tag);
        let (ways, of_set) = (self.ways(), &mut self.states[set]);
        of_set[HELD] |= 1 << way;
        P::filled_packed(&mut of_set[STATE], way, ways);
        victim.is_ok().then(|| word_of(self.page_lines_log2, set, before))
    }

    #[inline(always)]
    fn read_ahead(&self, set: usize) {
        prefetch(&self.tags[set]);
        prefetch(&self.states[set]);
    }

    const EXCHANGES: bool = P::VICTIMS_ARE_CHEAP;

    #[inline(always)]
    fn exchange(&mut self, set: usize, line: Line, dirty: u64) -> Exchange {
        if !Self::EXCHANGES {
            return touch_or_put(self, set, line, dirty);
        }
        let ways = self.ways();
        let (tags, of_set) = (&mut self.tags[set], &mut self.states[set]);
        let tag = tag_of(line.at.id, dirty);
        let equal = S::find(tags, tag);
        let found = equal != 0;
        let before_hit = of_set[STATE];
        let mut before_fill = before_hit;
        let mut victim = self.policy.victim_packed(&mut before_fill, set, ways);
        let empty = !of_set[HELD] & ((1 << ways) - 1);
        // Processors predict this branch, because most sets stay full.
        if empty != 0 && !found {
            (victim, before_fill) = (empty.trailing_zeros() as usize, before_hit);
            of_set[HELD] |= 1 << victim;
        }
        let way = select_unpredictable(found, equal.trailing_zeros() as usize, victim) % MOST_PACKED;
        let state = select_unpredictable(found, before_hit, before_fill);
        let (mut after_hit, mut after_fill) = (state, state);
        P::hit_packed(&mut after_hit, way, ways);
        P::filled_packed(&mut after_fill, way, ways);
        of_set[STATE] = select_unpredictable(found, after_hit, after_fill);
        let before = tags[way];
        let was_dirty = u32::from(found) & before;
        tags[way] = tag | was_dirty;
        let old = select_unpredictable(found, 0, before);
        Exchange {
            missed: u64::from(!found),
            dirtied: dirty & u64::from(!was_dirty),
            evicted: u64::from(old != 0),
            evicted_dirty: u64::from(old & 1),
            // All lines of a set have one number within the page.
            victim: LineAddr { id: page_of(old), ..line.at },
        }
    }
}

/// `ArrayVisitor` is a loop over the lines of an array that is compiled for each kind of search and, unless `W` is 0,
/// for `W` ways.
struct ArrayVisitor<'a, P, V, const W: usize> {
    array: &'a mut NarrowArray<P>,
    visitor: V,
}

impl<P: PackedPolicy, V: SetsVisitor, const W: usize> SearchVisitor for ArrayVisitor<'_, P, V, W> {
    #[inline(always)]
    fn visit<S: Search>(self) {
        self.visitor.visit(&mut self.array.searched::<S, W>());
    }
}

impl<P: PackedPolicy> NarrowArray<P> {
    /// Calls a visitor with the sets, with the fastest search that this processor has.
    pub(super) fn visit<V: SetsVisitor>(&mut self, visitor: V) {
        let fastest = Instructions::here().next().unwrap_or(Instructions::Portable);
        self.visit_with(fastest, visitor);
    }

    /// Calls a visitor with the sets. 16 ways are so common that the loop is compiled for them and each kind of search.
    fn visit_with<V: SetsVisitor>(&mut self, instructions: Instructions, visitor: V) {
        if V::IS_HASHED {
            unreachable!("a hashed index does not tell the number of a line");
        }
        if P::HAS_WIDE_LOOPS && self.tags.ways() == MOST_PACKED && instructions != Instructions::Portable {
            instructions.run(ArrayVisitor::<_, _, MOST_PACKED> { array: self, visitor });
        } else {
            visitor.visit(&mut self.searched::<Portable, 0>());
        }
    }
}

/// An access that stands alone searches with the instructions of every processor.
impl<P: PackedPolicy> Sets for NarrowArray<P> {
    #[inline(always)]
    fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
        self.searched::<Portable, 0>().touch(set, key, dirty, newly_dirty)
    }

    #[inline(always)]
    fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        self.searched::<Portable, 0>().put(set, line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        cache::lines::steps::{Call, PAGE_LINES_LOG2, Step, compare, compared, shape, steps},
        replacement::{Fifo, Plru, Random, Srrip},
    };

    /// `Forced` is an array that is searched with some instructions, even where no loop of another kind is compiled for
    /// them and the number of ways.
    struct Forced<P> {
        array: NarrowArray<P>,
        instructions: Instructions,
        always: bool,
    }

    impl<P: PackedPolicy> Forced<P> {
        fn call(&mut self, call: Call<'_>) {
            let Self { array, instructions, always } = self;
            if *always {
                instructions.run(ArrayVisitor::<_, _, 0> { array, visitor: call });
            } else {
                array.visit_with(*instructions, call);
            }
        }
    }

    impl<P: PackedPolicy> Sets for Forced<P> {
        fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
            Call::touch(set, key, dirty, newly_dirty, |call| self.call(call))
        }

        fn put(&mut self, set: usize, line: Word) -> Option<Word> {
            Call::put(set, line, |call| self.call(call))
        }

        const EXCHANGES: bool = true;

        fn exchange(&mut self, set: usize, line: Line, dirty: u64) -> Exchange {
            Call::exchange(set, line, dirty, |call| self.call(call))
        }
    }

    compared!([P: PackedPolicy] Forced<P>, array);

    /// Compares the array with a plain array, once with the instructions of every processor, and once with each
    /// further choice that this processor has.
    fn equals_plain_array<P: PackedPolicy>(ways: usize, steps: &[Step]) {
        let forced = |(instructions, always)| {
            let array = NarrowArray::<P>::new(&shape(ways), PAGE_LINES_LOG2);
            Forced { array, instructions, always }
        };
        let both = |instructions| [false, true].map(|always| (instructions, always));
        let mut arrays: Vec<_> = Instructions::here().flat_map(both).map(forced).collect();
        compare::<P, _>(&shape(ways), &mut arrays, steps);
    }

    proptest! {
        #[test]
        fn narrow_sets_equal_plain_sets(ways in prop_oneof![Just(MOST_PACKED), 2..=MOST_PACKED], steps in steps()) {
            equals_plain_array::<Fifo>(ways, &steps);
            equals_plain_array::<Srrip>(ways, &steps);
            equals_plain_array::<Random>(ways, &steps);
            equals_plain_array::<Plru>(ways.next_power_of_two(), &steps);
        }
    }
}
