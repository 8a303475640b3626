//! `LineSet` is a set of lines of all caches of a tree.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use binhop_base::LineAddr;

/// `LineSet` is a set of lines of all caches. Only membership is asked, so its order is in no result.
pub(super) type LineSet = HashSet<LineOfCache, BuildHasherDefault<LineHasher>>;

/// `LineOfCache` is a line as one cache names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LineOfCache(u64);

impl LineOfCache {
    pub(super) fn new(cache: usize, at: LineAddr) -> Self {
        // A page has at most 2^24 lines.
        Self(u64::from(at.id) << 32 | (cache as u64) << 24 | u64::from(at.line))
    }

    pub(super) fn cache(self) -> usize {
        (self.0 >> 24) as usize & 0xff
    }
}

/// `LineHasher` multiplies by an odd constant (2^64 divided by the golden ratio), and mixes the upper half in.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}
