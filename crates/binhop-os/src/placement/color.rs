//! The color of a page is the bin that a coloring policy prefers for the page.

use binhop_base::{Asid, Bin, FrameNo, PowerOfTwo, Result};

use crate::Pool;

/// Returns the hash of an address space's number. It is Fibonacci hashing (Knuth, The Art of Computer
/// Programming 3, 6.4): the upper half of the product with 2⁶⁴/φ, which separates neighbouring numbers. Every
/// policy that hashes an address space uses this hash.
#[inline]
#[must_use]
pub fn fibonacci(asid: Asid) -> u64 {
    u64::from(asid.0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
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
