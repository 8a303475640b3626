//! `DataRng` generates the data that programs work on.

use binhop_base::{Rng, Stream};

/// `DataRng` is a cheap generator: xorshift64*, seeded by binhop's generator.
#[derive(Clone, Debug)]
pub(crate) struct DataRng(u64);

impl DataRng {
    /// Makes the generator of process or purpose `number`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self(Rng::new(seed).draw(Stream::new(binhop_base::Domain::Workload, number), 0) | 1)
    }

    /// Returns 64 random bits.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a uniform number below `n` (n ≥ 1).
    #[inline(always)]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a uniform number in [0, 1).
    #[inline(always)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
