//! `SparseLines` holds the lines of a cache in chunks of sets, which are allocated as lines come. `SparseBytes` is the
//! memory that such lines take, and [`CacheConfig::state_bytes`] the memory of lines that are allocated at once.

use std::{borrow::Cow, ops::Range};

use binhop_base::PowerOfTwo;

use super::{Lines, SelectedLines, Word};
use crate::{CacheConfig, Replacement, cache::chunks::Chunks, replacement::ArrayShape};

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
    pub(super) chunks: Chunks<Lines>,
    replacement: Replacement,
    /// The shape of the first chunk.
    shape: ArrayShape,
}

impl SparseLines {
    /// Makes the empty lines of a cache; `None` if the cache has too few chunks.
    pub(super) fn new(config: &CacheConfig, shape: ArrayShape, page: PowerOfTwo) -> Option<Self> {
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

    pub(super) fn touch(&mut self, set: usize, key: u64, dirty: bool) -> Option<bool> {
        let (lines, set) = self.chunks.get_mut(set)?;
        lines.touch_hot(set, key, dirty)
    }

    pub(super) fn evict(&mut self, set: usize) -> Option<Word> {
        let (lines, set) = self.chunks.get_mut(set)?;
        lines.evict(set)
    }

    pub(super) fn put(&mut self, set: usize, line: Word) -> Option<Word> {
        let Self { chunks, replacement, shape } = self;
        let make = |first| Lines::of_shape(*replacement, &ArrayShape { first, ..*shape }, None);
        let (lines, set) = chunks.get_or_make(set, make);
        lines.put(set, line)
    }

    pub(super) fn remove(&mut self, set: usize, selected: SelectedLines<'_>, removed: &mut dyn FnMut(Word)) {
        if let Some((lines, set)) = self.chunks.get_mut(set) {
            lines.remove(set, selected, removed);
        }
    }

    pub(super) fn clean(&mut self, set: usize, selected: SelectedLines<'_>, cleaned: &mut dyn FnMut(Word)) {
        if let Some((lines, set)) = self.chunks.get_mut(set) {
            lines.clean(set, selected, cleaned);
        }
    }

    pub(super) fn words(&self, sets: Range<usize>) -> Cow<'_, [u64]> {
        let Some((lines, first)) = self.chunks.get(sets.start) else { return Cow::Borrowed(&[]) };
        lines.words(first..first + sets.len())
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
    /// Returns the logarithm of the lines in a page, if a set holds lines of one line number within the page, which is
    /// the lower part of the number of the set.
    pub(super) fn page_lines_log2(&self, page: PowerOfTwo) -> Option<u32> {
        let log2 = page.log2() - self.line.log2();
        (!self.hashed && self.sets() >> log2 > 0).then_some(log2)
    }

    /// Returns the bytes that one such cache allocates from the start, in a machine with pages of this size: what its
    /// lines take, and what the replacement keeps. The system provides this memory page by page, as sets are touched.
    /// In addition, the cache keeps a bit for each line of each page that was accessed.
    #[must_use]
    pub fn state_bytes(&self, page: PowerOfTwo) -> u64 {
        self.bytes_of_lines(self.page_lines_log2(page).is_some())
    }

    /// Returns the bytes of all lines. They may be `narrow` if a set tells the number of its lines.
    fn bytes_of_lines(&self, narrow: bool) -> u64 {
        let ways = u64::from(self.ways);
        let policy = if ways == 1 { 0 } else { self.replacement.bytes_of_a_set(ways) };
        let set = match Lines::packed_set_bytes(self.replacement, self.ways as usize, narrow) {
            // A packed set holds the state of every policy.
            Some(packed) => packed,
            None => ways * size_of::<u64>() as u64 + policy,
        };
        self.sets().saturating_mul(set)
    }

    /// Returns the bytes that one such cache takes if it is sparse, in a machine with pages of this size.
    pub(crate) fn sparse_bytes(&self, page: PowerOfTwo) -> SparseBytes {
        let Some((chunks, _)) = SparseLines::divided(self, page) else {
            return SparseBytes { fixed: self.state_bytes(page), ..SparseBytes::default() };
        };
        let fixed = size_of::<SparseLines>() as u64 + chunks * size_of::<Option<Box<Lines>>>() as u64;
        let chunk = size_of::<Lines>() as u64 + self.bytes_of_lines(false).div_ceil(chunks);
        SparseBytes { fixed, page: chunk, most: chunk.saturating_mul(chunks) }
    }
}
