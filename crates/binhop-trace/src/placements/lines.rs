//! Lines and numbers in maps of addresses.

use std::io::{BufRead, BufReader, Read};

use binhop_base::Result;

use crate::input::Input;

/// A line is shorter than that: a few packed bytes may be gigabytes without an end of line.
pub(crate) const LONGEST_LINE: u64 = 64 << 10;

/// The page of Linux's tables on all machines whose `page-types` was seen.
pub(crate) const USUAL_PAGE: u64 = 4096;

pub(crate) const LONG_RULE: &str = "a line of a map is shorter than 64 KiB";

pub(crate) const PAGE_RULE: &str = "page_size is a power of two";

/// Reads the next line, with its end, in place of the one before: as far as a line may go. Empty where the text ends.
pub(crate) fn next_line(text: &mut BufReader<Input>, line: &mut Vec<u8>) -> Result<()> {
    line.clear();
    let read = text.by_ref().take(LONGEST_LINE).read_until(b'\n', line);
    read.map(|_| ()).map_err(|error| text.get_ref().failed(&error))
}

/// Whether [`next_line`] read no whole line, since it is longer than a line may be.
pub(crate) fn is_too_long(line: &[u8]) -> bool {
    line.len() as u64 == LONGEST_LINE
}

/// A hexadecimal number, with or without `0x`.
pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}
