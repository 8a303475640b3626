//! `BucketOf` divides the lines of a page so that accesses may be simulated bucket by bucket.

use binhop_base::PowerOfTwo;

use crate::CacheConfig;

/// `BucketOf` says in which bucket a line falls. Two lines of different buckets are never in one set, nor in one line
/// of a cache behind them.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketOf {
    /// The bits of a byte's number within the page that choose its bucket.
    shift: u32,
    mask: u32,
}

impl BucketOf {
    pub(super) fn new<'a>(caches: impl Iterator<Item = &'a CacheConfig>, page: PowerOfTwo) -> Self {
        let (mut shift, mut end) = (0, page.log2());
        for cache in caches {
            shift = shift.max(cache.line.log2());
            end = if cache.hashed { 0 } else { end.min(cache.line.log2() + cache.sets().ilog2()) };
        }
        Self { shift, mask: (1 << end.saturating_sub(shift)) - 1 }
    }

    pub(super) fn buckets(self) -> usize {
        self.mask as usize + 1
    }

    #[inline]
    pub(super) fn of(self, line: u32, line_log2: u32) -> usize {
        (line >> (self.shift - line_log2) & self.mask) as usize
    }
}
