//! `TagSets` holds sets of up to 16 ways, with a tag of 32 bits for each line.
//!
//! The number of a set tells the number of its lines within the page, unless the index is hashed or the cache is
//! smaller than a page. So the *tag* of a line names its page and nothing else. A search compares all tags of a set
//! at once (`search.rs`), and the tags of a set fill one line of the processor's cache.
//!
//! A tag is the number of the page + 1, × 2, plus 1 if the line is dirty. The tag of a way that holds no line is 0,
//! and so are the tags beyond the last way.

use std::ops::Range;

use super::{EMPTY, MOST_PACKED, SelectedLines, Word, search::Tags};
use crate::replacement::ArrayShape;

/// The most pages whose lines have tags. The lines of so many pages do not fit into any memory.
const MOST_PAGES: u32 = u32::MAX / 2;

/// `TagSets` holds sets of up to [`MOST_PACKED`] ways.
#[derive(Clone, Debug)]
pub(super) struct TagSets {
    /// The tags of all sets, from `start` on. Allocators align words less than the processor's cache does its lines.
    tags: Vec<u32>,
    start: usize,
    ways: usize,
    /// The logarithm of the lines in a page.
    page_lines_log2: u32,
}

/// Returns the tag of the line of a page. `dirty` is 0 or 1.
#[inline(always)]
pub(super) fn tag_of(page: u32, dirty: u64) -> u32 {
    assert!(page < MOST_PAGES, "a cache holds lines of page {page}");
    (page + 1) << 1 | dirty as u32
}

/// Returns the page of the line with a tag; some page if the tag is 0.
#[inline(always)]
pub(super) fn page_of(tag: u32) -> u32 {
    (tag >> 1).wrapping_sub(1)
}

/// Returns the word of a line in some set, or [`EMPTY`].
#[inline(always)]
pub(super) fn word_of(page_lines_log2: u32, set: usize, tag: u32) -> Word {
    if tag == 0 {
        return Word(EMPTY);
    }
    let number = set as u64 & ((1 << page_lines_log2) - 1);
    Word::new(u64::from(page_of(tag)) << page_lines_log2 | number, tag & 1 == 1)
}

impl TagSets {
    /// Makes empty sets of lines, in a machine whose pages have 2^`page_lines_log2` lines.
    pub(super) fn new(shape: &ArrayShape, page_lines_log2: u32) -> Self {
        let &ArrayShape { ways, sets, .. } = shape;
        assert!(ways <= MOST_PACKED && sets.is_multiple_of(1 << page_lines_log2));
        let tags = vec![0; (sets + 1) * MOST_PACKED];
        let start = tags.as_ptr().align_offset(size_of::<Tags>()).min(MOST_PACKED);
        Self { tags, start, ways, page_lines_log2 }
    }

    pub(super) fn ways(&self) -> usize {
        self.ways
    }

    pub(super) fn page_lines_log2(&self) -> u32 {
        self.page_lines_log2
    }

    /// Returns the tags of a set.
    pub(super) fn of(&self, set: usize) -> &Tags {
        &self.tags[self.start..].as_chunks().0[set]
    }

    /// Returns the tags of a set, to be changed.
    pub(super) fn of_mut(&mut self, set: usize) -> &mut Tags {
        &mut self.all_mut()[set]
    }

    /// Returns the tags of all sets, to be changed.
    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut [Tags] {
        self.tags[self.start..].as_chunks_mut().0
    }

    /// Returns the word of the line in a way, or [`EMPTY`].
    pub(super) fn word(&self, set: usize, way: usize) -> Word {
        word_of(self.page_lines_log2, set, self.of(set)[way])
    }

    /// Returns the words of adjacent sets.
    pub(super) fn words(&self, sets: Range<usize>) -> Vec<u64> {
        let ways = |set| (0..self.ways).map(move |way| self.word(set, way).0);
        sets.flat_map(ways).collect()
    }

    /// Makes the selected dirty lines of a set clean. Calls `cleaned` with each such line as it was before.
    pub(super) fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
        for way in 0..self.ways {
            let word = self.word(set, way);
            if word.dirty() && selected.contain(word) {
                self.of_mut(set)[way] &= !1;
                cleaned(word);
            }
        }
    }
}
