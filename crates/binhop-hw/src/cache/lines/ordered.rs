//! `OrderedArray` holds sets of 9 to 16 ways that replace the least recently used line.
//!
//! The tags of a set (`tag_sets.rs`) stand in the order of their last access, the latest first, and empty ways are at
//! the end. So a set has no further state, its last tag is the victim, and an access moves tags by one place, all of
//! them at once.

use std::{marker::PhantomData, ops::Range};

use binhop_base::LineAddr;

use super::{
    EMPTY, MOST_PACKED, SelectedLines, Sets, SetsVisitor, Word,
    array::{Exchange, Line},
    search::{Brought, Instructions, Portable, Search, SearchVisitor, Tags},
    tag_sets::{TagSets, page_of, tag_of, word_of},
};
use crate::{cache::prefetch::prefetch, replacement::ArrayShape};

/// `OrderedArray` holds sets of up to [`MOST_PACKED`](super::MOST_PACKED) ways.
#[derive(Clone, Debug)]
pub(crate) struct OrderedArray {
    tags: TagSets,
}

impl OrderedArray {
    /// The bytes of a set.
    pub(super) const SET_BYTES: u64 = size_of::<Tags>() as u64;

    /// Makes empty sets of lines, in a machine whose pages have 2^`page_lines_log2` lines.
    pub(super) fn new(shape: &ArrayShape, page_lines_log2: u32) -> Self {
        Self { tags: TagSets::new(shape, page_lines_log2) }
    }

    /// Returns the words of adjacent sets.
    pub(super) fn words(&self, sets: Range<usize>) -> Vec<u64> {
        self.tags.words(sets)
    }

    /// Returns the words of a set, the latest accessed first.
    pub(super) fn in_order(&self, set: usize) -> Vec<u64> {
        self.words(set..set + 1)
    }

    /// Removes the line in a way. The ways behind it move up.
    fn remove_from(&mut self, set: usize, way: usize) {
        let tags = self.tags.of_mut(set);
        tags[way] = 0;
        tags[way..].rotate_left(1);
    }

    pub(super) fn evict(&mut self, set: usize) -> Option<Word> {
        let last = self.tags.ways() - 1;
        let word = self.tags.word(set, last);
        if word.0 == EMPTY {
            return None;
        }
        self.remove_from(set, last);
        Some(word)
    }

    pub(super) fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
        // The lines leave in the order in which they leave an `Array`: the last first.
        for way in (0..self.tags.ways()).rev() {
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

    /// The policy keeps no count of victims.
    pub(super) fn set_victims(&mut self, _set: usize, _victims: u64) {}

    /// Returns the sets for a loop that is compiled for one kind of search.
    #[inline(always)]
    fn searched<S: Search>(&mut self) -> SearchedTags<'_, S> {
        let (last, page_lines_log2) = (self.tags.ways() - 1, self.tags.page_lines_log2());
        SearchedTags { tags: self.tags.all_mut(), last, page_lines_log2, search: PhantomData }
    }

    /// Calls a visitor with the sets, with the fastest search that this processor has.
    pub(crate) fn visit<V: SetsVisitor>(&mut self, visitor: V) {
        self.visit_with(Instructions::here().next().unwrap_or(Instructions::Portable), visitor);
    }

    fn visit_with<V: SetsVisitor>(&mut self, instructions: Instructions, visitor: V) {
        if V::IS_HASHED {
            unreachable!("a hashed index does not tell the number of a line");
        }
        instructions.run(OrderedVisitor { array: self, visitor });
    }
}

/// `OrderedVisitor` is a loop over the lines of an array that is compiled for each kind of search.
struct OrderedVisitor<'a, V> {
    array: &'a mut OrderedArray,
    visitor: V,
}

impl<V: SetsVisitor> SearchVisitor for OrderedVisitor<'_, V> {
    #[inline(always)]
    fn visit<S: Search>(self) {
        self.visitor.visit(&mut self.array.searched::<S>());
    }
}

/// `SearchedTags` is the tags of an array, for a loop that is compiled for one kind of search.
struct SearchedTags<'a, S> {
    tags: &'a mut [Tags],
    /// The last way.
    last: usize,
    page_lines_log2: u32,
    search: PhantomData<S>,
}

impl<S: Search> SearchedTags<'_, S> {
    /// Returns the page of a line of some set.
    #[inline(always)]
    fn page(&self, key: u64) -> u32 {
        (key >> self.page_lines_log2) as u32
    }
}

impl<S: Search> Sets for SearchedTags<'_, S> {
    #[inline(always)]
    fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
        let clean = tag_of(self.page(key), 0);
        let tags = &mut self.tags[set];
        let found = S::find(tags, clean);
        if found == 0 {
            return false;
        }
        let way = found.trailing_zeros() as usize % MOST_PACKED;
        let before = tags[way];
        *newly_dirty += dirty & u64::from(!before);
        S::move_up(tags, way, before | dirty as u32);
        true
    }

    #[inline(always)]
    fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        let tag = tag_of(self.page(line.key()), u64::from(line.dirty()));
        let tags = &mut self.tags[set];
        let last = self.last % MOST_PACKED;
        let before = tags[last];
        S::move_up(tags, last, tag);
        (before != 0).then(|| word_of(self.page_lines_log2, set, before))
    }

    #[inline(always)]
    fn read_ahead(&self, set: usize) {
        prefetch(&self.tags[set]);
    }

    const EXCHANGES: bool = true;

    #[inline(always)]
    fn exchange(&mut self, set: usize, line: Line, dirty: u64) -> Exchange {
        let tags = &mut self.tags[set];
        let Brought { found, was_dirty, lost } =
            S::bring_to_front(tags, tag_of(line.at.id, dirty), self.last % MOST_PACKED);
        Exchange {
            missed: u64::from(!found),
            dirtied: dirty & u64::from(!was_dirty),
            evicted: u64::from(lost != 0),
            evicted_dirty: u64::from(lost & 1),
            // All lines of a set have one number within the page.
            victim: LineAddr { id: page_of(lost), ..line.at },
        }
    }
}

/// An access that stands alone searches with the instructions of every processor.
impl Sets for OrderedArray {
    #[inline(always)]
    fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
        self.searched::<Portable>().touch(set, key, dirty, newly_dirty)
    }

    #[inline(always)]
    fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        self.searched::<Portable>().put(set, line)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        cache::lines::steps::{Call, PAGE_LINES_LOG2, compare, compared, shape, steps},
        replacement::Lru,
    };

    /// `Forced` is an array that is searched with some instructions.
    struct Forced {
        array: OrderedArray,
        instructions: Instructions,
    }

    impl Sets for Forced {
        fn touch(&mut self, set: usize, key: u64, dirty: u64, newly_dirty: &mut u64) -> bool {
            Call::touch(set, key, dirty, newly_dirty, |call| self.array.visit_with(self.instructions, call))
        }

        fn put(&mut self, set: usize, line: Word) -> Option<Word> {
            Call::put(set, line, |call| self.array.visit_with(self.instructions, call))
        }

        const EXCHANGES: bool = true;

        fn exchange(&mut self, set: usize, line: Line, dirty: u64) -> Exchange {
            Call::exchange(set, line, dirty, |call| self.array.visit_with(self.instructions, call))
        }
    }

    compared!([] Forced, array);

    proptest! {
        #[test]
        fn ordered_sets_equal_plain_sets(ways in prop_oneof![Just(MOST_PACKED), 2..=MOST_PACKED], steps in steps()) {
            let forced = |instructions| {
                Forced { array: OrderedArray::new(&shape(ways), PAGE_LINES_LOG2), instructions }
            };
            let mut arrays: Vec<_> = Instructions::here().map(forced).collect();
            compare::<Lru, _>(&shape(ways), &mut arrays, &steps);
        }
    }
}
