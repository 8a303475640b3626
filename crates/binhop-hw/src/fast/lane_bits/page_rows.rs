//! `PageRows` keeps a value for each line of each page.

use super::LinesOf;
use crate::cache::prefetch::prefetch;

/// The logarithm of the smallest number of pages for which there is room. Rows that began smaller would soon be copied
/// to larger rows.
const FEWEST_PAGES_LOG2: u32 = 6;

/// The bytes that a processor loads together.
pub(super) const LOADED: usize = 64;

/// `Groups` numbers the values of a table by line number within the page and by a further number, `other`. Accesses
/// are simulated line number by line number. So values of equal line number stand near each other, where the
/// processor's caches find them. Programs use neighbouring lines, so the values of some neighbouring line numbers stand
/// together in the bytes that a processor loads together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Groups {
    /// The logarithm of the number of line numbers that stand together.
    log2: u32,
}

impl Groups {
    /// Groups values of `bytes` bytes each.
    pub(super) fn new(lines_of: LinesOf, bytes: usize) -> Self {
        Self { log2: (LOADED / bytes.max(1)).max(1).ilog2().min(lines_of.log2) }
    }

    /// Returns the place of a value in a table with `others` values for each line number.
    #[inline(always)]
    pub(super) fn place(self, number: usize, others: usize, other: usize) -> usize {
        ((number >> self.log2) * others + other) << self.log2 | number & ((1 << self.log2) - 1)
    }
}

/// `PageRows` holds a value for each line of each page: see [`Groups`]. The number of pages is a power of two.
#[derive(Clone, Debug)]
pub(super) struct PageRows<V> {
    lines_of: LinesOf,
    groups: Groups,
    pages_log2: u32,
    values: Vec<V>,
}

impl<V: Copy + Default> PageRows<V> {
    /// Makes rows without room for any page. The values of neighbouring line numbers stand together.
    pub(super) fn new(lines_of: LinesOf) -> Self {
        Self { lines_of, groups: Groups::new(lines_of, size_of::<V>()), pages_log2: 0, values: Vec::new() }
    }

    /// Makes rows without room for any page. The values of one line number are a slice.
    pub(super) fn in_slices(lines_of: LinesOf) -> Self {
        Self { lines_of, groups: Groups { log2: 0 }, pages_log2: 0, values: Vec::new() }
    }

    /// Makes room for the page with this number. New values are the default.
    pub(super) fn make_room(&mut self, page: usize) {
        if page < self.pages() {
            return;
        }
        let pages_log2 = (page + 1).next_power_of_two().ilog2().max(FEWEST_PAGES_LOG2);
        let mut values = vec![V::default(); 1 << (self.lines_of.log2 + pages_log2)];
        let (pages, group) = (self.pages().max(1), self.groups.log2);
        for (old, new) in self.values.chunks(pages << group).zip(values.chunks_mut(1 << pages_log2 << group))
        {
            new[..pages << group].copy_from_slice(old);
        }
        (self.pages_log2, self.values) = (pages_log2, values);
    }

    /// Returns the number of pages that there is room for.
    pub(super) fn pages(&self) -> usize {
        if self.values.is_empty() { 0 } else { 1 << self.pages_log2 }
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        let (number, page) = (self.lines_of.line(key) as usize, self.lines_of.page(key).index());
        self.groups.place(number, 1 << self.pages_log2, page)
    }

    #[inline(always)]
    pub(super) fn get(&self, key: u64) -> V {
        self.values[self.place(key)]
    }

    /// Tells the processor that the value of a line is needed soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: u64) {
        prefetch(&self.values[self.place(key)]);
    }

    #[inline(always)]
    pub(super) fn set(&mut self, key: u64, value: V) {
        let place = self.place(key);
        self.values[place] = value;
    }

    /// Returns the values of one line number within the page, by page, to be changed, from rows that were made by
    /// [`PageRows::in_slices`].
    #[inline(always)]
    pub(super) fn row_mut(&mut self, number: usize) -> &mut [V] {
        debug_assert_eq!(self.groups.log2, 0);
        &mut self.values[number << self.pages_log2..][..1 << self.pages_log2]
    }

    pub(super) fn lines_of(&self) -> LinesOf {
        self.lines_of
    }

    /// Returns the values of a line number and of its neighbours. Function [`OfNumber::place`] finds the value of a
    /// page.
    #[inline(always)]
    pub(super) fn group_mut(&mut self, number: usize) -> (&mut [V], OfNumber) {
        let Groups { log2 } = self.groups;
        let values = 1 << log2 << self.pages_log2;
        let low = number & ((1 << log2) - 1);
        let of_number = OfNumber { log2, low, mask: values - 1 };
        (&mut self.values[number >> log2 << log2 << self.pages_log2..][..values], of_number)
    }
}

/// `OfNumber` finds the values of one line number among the values of its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfNumber {
    log2: u32,
    low: usize,
    mask: usize,
}

impl OfNumber {
    /// Returns the place of the value of a page.
    #[inline(always)]
    pub(super) fn place(self, page: usize) -> usize {
        // The number of values is a power of two. The mask tells the compiler that no page is too large.
        (page << self.log2 | self.low) & self.mask
    }
}
