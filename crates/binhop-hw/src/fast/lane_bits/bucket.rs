//! `BucketOf` divides the lines of a page so that accesses may be simulated bucket by bucket.

use binhop_base::PowerOfTwo;

use crate::CacheConfig;

/// The logarithm of the most buckets. More buckets would hold few accesses each.
const MOST_LOG2: u32 = 8;
/// The most buckets.
pub(super) const MOST_BUCKETS: usize = 1 << MOST_LOG2;

/// `BucketOf` says in which bucket a line falls. Two lines of different buckets are never in one set, nor in one line
/// of a cache behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketOf {
    /// The bits of a byte's number within the page that choose its bucket.
    shift: u32,
    mask: u32,
}

impl BucketOf {
    /// All lines fall into one bucket.
    pub(super) const ONE: Self = Self { shift: 0, mask: 0 };

    pub(super) fn new<'a>(caches: impl Iterator<Item = &'a CacheConfig>, page: PowerOfTwo) -> Self {
        let (mut shift, mut end) = (0, page.log2());
        for cache in caches {
            shift = shift.max(cache.line.log2());
            end = if cache.hashed { 0 } else { end.min(cache.line.log2() + cache.sets().ilog2()) };
        }
        Self { shift, mask: (1 << end.saturating_sub(shift).min(MOST_LOG2)) - 1 }
    }

    /// Makes buckets that these bits of a byte's number within the page choose.
    #[cfg(test)]
    pub(super) fn of_bits(shift: u32, bits: u32) -> Self {
        Self { shift, mask: (1 << bits) - 1 }
    }

    pub(super) fn buckets(self) -> usize {
        self.mask as usize + 1
    }

    /// Returns the number of bits of a line's number below the bits that choose its bucket.
    pub(super) fn lower(self, line_log2: u32) -> u32 {
        self.shift.saturating_sub(line_log2)
    }

    #[inline]
    pub(super) fn of(self, line: u32, line_log2: u32) -> usize {
        (line >> (self.shift - line_log2) & self.mask) as usize
    }
}
