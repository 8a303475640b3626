//! `Picoseconds` is a time as a user writes it (`40ns`).

use alloc::{format, string::ToString};
use core::fmt;

use crate::{Problem, Result};

/// `Picoseconds` is a time, exact to the picosecond. It is displayed in nanoseconds (`40ns`, `2.5ns`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picoseconds(pub u64);

/// The units: the name, the number of picoseconds, and the most digits after the decimal point.
const UNITS: [(&str, u64, usize); 3] = [("ps", 1, 0), ("ns", 1000, 3), ("us", 1_000_000, 6)];

impl Picoseconds {
    /// Reads a time such as `40ns`, `2.5 ns`, `333ps` or `1us`. `place` names the place of the text, for the error.
    ///
    /// # Errors
    /// The text is not a decimal number with one of the units ps, ns, us; the time has a fraction of a picosecond, or
    /// exceeds 64 bits.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        let wrong = || {
            Problem::request(
                text,
                place,
                "a time is a number with a unit: ps, ns or us; it is a whole number of picoseconds",
                "write it like \"40ns\" or \"2.5ns\"",
            )
        };
        let trimmed = text.trim();
        let unit_at = trimmed.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(wrong)?;
        let unit = trimmed[unit_at..].trim();
        let &(_, scale, digits) = UNITS.iter().find(|(name, ..)| *name == unit).ok_or_else(wrong)?;
        let (whole, fraction) = match trimmed[..unit_at].split_once('.') {
            Some((_, "")) => return Err(wrong()),
            Some((whole, fraction)) => (whole, fraction.trim_end_matches('0')),
            None => (&trimmed[..unit_at], ""),
        };
        if fraction.len() > digits {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let part: u64 = format!("0{fraction:0<digits$}").parse().map_err(|_| wrong())?;
        let time = whole.checked_mul(scale).and_then(|whole| whole.checked_add(part));
        time.map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Picoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        let fraction = if part == 0 {
            "".to_string()
        } else {
            format!(".{}", format!("{part:03}").trim_end_matches('0'))
        };
        f.pad(&format!("{whole}{fraction}ns"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_and_print_alike() {
        for (text, time) in [("40ns", 40_000), ("2.5ns", 2500), ("0.333ns", 333), ("1000ns", 1_000_000)] {
            assert_eq!(Picoseconds::parse(text, "here").unwrap(), Picoseconds(time));
            assert_eq!(Picoseconds(time).to_string(), text);
        }
        for (text, time) in [("333ps", 333), (" 1.5 us ", 1_500_000), ("3.000ns", 3000), ("7.0ps", 7)] {
            assert_eq!(Picoseconds::parse(text, "here").unwrap(), Picoseconds(time), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "40",
            "ns",
            ".5ns",
            "1.ns",
            "1.2.3ns",
            "-1ns",
            "0.5ps",
            "2.0005ns",
            "4GHz",
            "99999999999999999us",
        ] {
            let problem = Picoseconds::parse(text, "here").unwrap_err();
            assert_eq!((&*problem.value, &*problem.place), (text, "here"));
        }
    }
}
