//! `Bytes` is a size as a user writes it (`32KiB`); `PowerOfTwo` is a size as the simulator needs it.

use alloc::{format, string::String};
use core::fmt;

use crate::{Problem, Result};

/// `Bytes` is a number of bytes. It is displayed and parsed with binary units: `512B`, `32KiB`, `4MiB`,
/// `1GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl Bytes {
    /// Reads a size such as `32KiB`, `128 B` or `1GiB`. `place` names the place of the text, for the error.
    ///
    /// # Errors
    /// The text is not a whole number with one of the units B, KiB, MiB, GiB, TiB, or the size exceeds 64
    /// bits.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let wrong = || {
            Problem::request(
                text,
                place,
                "a size is a whole number with a unit: B, KiB, MiB, GiB or TiB",
                "write it like \"32KiB\" (1 KiB = 1024 bytes)",
            )
        };
        let trimmed = text.trim();
        let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = trimmed[..digits].parse().map_err(|_| wrong())?;
        let unit = trimmed[digits..].trim();
        let (_, shift) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        number.checked_mul(1 << shift).map(Bytes).ok_or_else(wrong)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |shift: u32| self.0 != 0 && self.0.trailing_zeros() >= shift;
        let (unit, shift) = UNITS.iter().find(|(_, shift)| fits(*shift)).unwrap_or(&("B", 0));
        f.pad(&format!("{}{unit}", self.0 >> shift))
    }
}

/// `PowerOfTwo` is a count that must be a power of two: a page's bytes, a line's bytes, sets, bins. It is
/// kept as its logarithm, so a division by it is a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PowerOfTwo(u8);

impl PowerOfTwo {
    /// The number one.
    pub const ONE: Self = Self(0);

    /// Makes a power of two; `None` if `value` is not a power of two.
    #[must_use]
    pub const fn new(value: Bytes) -> Option<Self> {
        if value.0.is_power_of_two() { Some(Self(value.0.trailing_zeros() as u8)) } else { None }
    }

    /// Makes the power of two with a logarithm below 64.
    #[must_use]
    pub const fn from_log2(log2: u32) -> Self {
        assert!(log2 < 64);
        Self(log2 as u8)
    }

    /// Returns the number itself.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// Returns the logarithm to base two.
    #[inline]
    #[must_use]
    pub const fn log2(self) -> u32 {
        self.0 as u32
    }

    /// Checks a size that a user wrote.
    ///
    /// # Errors
    /// `size` is not a power of two.
    pub fn check(size: Bytes, what: &str, place: &str) -> Result<Self> {
        Self::new(size).ok_or_else(|| {
            let below = if size.0 == 0 { 1 } else { 1 << size.0.ilog2() };
            let above = Bytes(size.0.checked_next_power_of_two().unwrap_or(1 << 63));
            let remedy: String = format!("the nearest are {} and {above}", Bytes(below));
            Problem::request(&format!("{size}"), place, &format!("{what} must be a power of two"), &remedy)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn sizes_read_and_print_alike() {
        for (text, bytes) in [("512B", 512), ("32KiB", 32 << 10), ("4MiB", 4 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(Bytes::parse(text, "here").unwrap(), Bytes(bytes));
            assert_eq!(Bytes(bytes).to_string(), text);
        }
        assert_eq!(Bytes::parse(" 16 KiB ", "here").unwrap(), Bytes(16 << 10));
        assert_eq!(Bytes(1536).to_string(), "1536B");
        assert_eq!(Bytes(3 << 10).to_string(), "3KiB");
    }

    #[test]
    fn a_wrong_size_is_refused_with_its_place() {
        for text in ["", "32", "32KB", "KiB", "-1B", "1.5KiB", "99999999999TiB"] {
            let problem = Bytes::parse(text, "cache.l2.size").unwrap_err();
            assert_eq!(problem.place, "cache.l2.size");
            assert_eq!(problem.value, text);
        }
    }

    #[test]
    fn only_powers_of_two_pass() {
        assert_eq!(PowerOfTwo::new(Bytes(4096)).map(PowerOfTwo::log2), Some(12));
        assert_eq!(PowerOfTwo::new(Bytes(0)), None);
        let problem = PowerOfTwo::check(Bytes(3 << 20), "a page", "memory.page").unwrap_err();
        assert!(problem.remedy.contains("2MiB and 4MiB"), "{problem}");
    }
}
