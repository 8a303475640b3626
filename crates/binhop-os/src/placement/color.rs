//! The color of a page is the bin that a coloring policy prefers for the page, or the list of frames from which
//! `colored-lists` takes its frame.

use binhop_base::{Asid, Bin, FrameNo, PageNo, PowerOfTwo, Result};

use crate::Pool;

/// Returns the hash of an address space's number. It is Fibonacci hashing (Knuth, The Art of Computer
/// Programming 3, 6.4): the upper half of the product with 2⁶⁴/φ, which separates neighbouring numbers. Every
/// policy that hashes an address space uses this hash.
#[inline]
#[must_use]
pub fn fibonacci(asid: Asid) -> u64 {
    u64::from(asid.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// `PageColors` decides the color of a page by the touch at which the page is first placed (`colored-lists`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageColors {
    /// The number of colors; at least 1.
    pub number: u64,
    /// True if the address space's number enters into the color.
    pub pid_hash: bool,
}

impl PageColors {
    /// One color.
    pub const ONE: Self = Self { number: 1, pid_hash: false };

    /// Returns the color of a page that is touched at a virtual page of an address space. `None` is the kernel's half,
    /// which belongs to no process.
    #[inline]
    #[must_use]
    pub fn of(self, page_no: PageNo, asid: Option<Asid>) -> u64 {
        let hash = asid.filter(|_| self.pid_hash).map_or(0, fibonacci);
        (page_no.0 ^ hash) % self.number
    }
}

/// Returns the least recently used frame of the pool in the bin of `color`. If the pool has no frame there,
/// returns the least recently used frame of the whole pool.
#[inline]
pub(super) fn match_or_first(pool: &Pool<'_>, bins: PowerOfTwo, color: u64) -> Result<FrameNo> {
    let bin = Bin((color & (bins.bytes() - 1)) as u32);
    Ok(pool.oldest_in(bin).unwrap_or_else(|| pool.frame(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The multiplier is 2⁶⁴/φ = 11400714819323198485 = 0x9E3779B9_7F4A7C15.
    #[test]
    fn the_hash_is_the_upper_half_of_the_multiples_of_the_golden_ratio() {
        assert_eq!(fibonacci(Asid(0)), 0);
        assert_eq!(fibonacci(Asid(1)), 0x9E37_79B9);
        assert_eq!(fibonacci(Asid(2)), 0x3C6E_F372);
        assert_eq!(fibonacci(Asid(3)), 0xDAA6_6D2C);
    }
}
