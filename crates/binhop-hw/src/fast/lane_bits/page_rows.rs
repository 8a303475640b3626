//! `PageRows` keeps a value for each line of each page.

use super::LinesOf;

/// The logarithm of the smallest number of pages for which there is room. Rows that began smaller would soon be copied
/// to larger rows.
const FEWEST_PAGES_LOG2: u32 = 6;

/// `PageRows` holds a value for each line of each page, in a row for each line number within the page. Accesses are
/// simulated line number by line number, and then use one row, which stays in the processor's nearest caches. The
/// number of pages in a row is a power of two.
#[derive(Clone, Debug)]
pub(super) struct PageRows<V> {
    lines_of: LinesOf,
    pages_log2: u32,
    values: Vec<V>,
}

impl<V: Copy + Default> PageRows<V> {
    /// Makes rows without room for any page.
    pub(super) fn new(lines_of: LinesOf) -> Self {
        Self { lines_of, pages_log2: 0, values: Vec::new() }
    }

    /// Makes room for the page with this number. New values are the default.
    pub(super) fn make_room(&mut self, page: usize) {
        if page < self.pages() {
            return;
        }
        let pages_log2 = (page + 1).next_power_of_two().ilog2().max(FEWEST_PAGES_LOG2);
        let mut values = vec![V::default(); 1 << (self.lines_of.log2 + pages_log2)];
        let pages = self.pages().max(1);
        for (old, new) in self.values.chunks(pages).zip(values.chunks_mut(1 << pages_log2)) {
            new[..pages].copy_from_slice(old);
        }
        (self.pages_log2, self.values) = (pages_log2, values);
    }

    /// Returns the number of pages that there is room for.
    pub(super) fn pages(&self) -> usize {
        if self.values.is_empty() { 0 } else { 1 << self.pages_log2 }
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        (self.lines_of.line(key) as usize) << self.pages_log2 | self.lines_of.page(key).index()
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> V {
        self.values[self.place(key)]
    }

    #[inline(always)]
    pub(super) fn set(&mut self, key: u64, value: V) {
        let place = self.place(key);
        self.values[place] = value;
    }

    /// Returns the values of one line number within the page, by page.
    #[inline(always)]
    pub(super) fn row(&self, number: usize) -> &[V] {
        &self.values[number << self.pages_log2..][..1 << self.pages_log2]
    }

    /// Returns what [`PageRows::row`] returns, to be changed.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, number: usize) -> &mut [V] {
        &mut self.values[number << self.pages_log2..][..1 << self.pages_log2]
    }
}
