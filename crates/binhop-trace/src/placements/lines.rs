//! These functions read lines and numbers in maps of addresses.

use std::io::{BufRead, BufReader, Read};

use binhop_base::Result;

use crate::input::Input;

/// The length that a line must not reach. A few packed bytes may unpack to gigabytes without an end of line.
pub(crate) const LONGEST_LINE: u64 = 64 << 10;

/// The bytes of a page in Linux's tables, on every machine whose `page-types` output was seen.
pub(crate) const USUAL_PAGE: u64 = 4096;

/// The rule that an overlong line breaks.
pub(crate) const LONG_RULE: &str = "a line of a map is shorter than 64 KiB";

/// The rule for a page size.
pub(crate) const PAGE_RULE: &str = "page_size is a power of two";

/// Replaces `line` by the next line and its newline. A line that is too long is cut. At the end of the text
/// `line` is empty.
pub(crate) fn next_line(text: &mut BufReader<Input>, line: &mut Vec<u8>) -> Result<()> {
    line.clear();
    let read = text.by_ref().take(LONGEST_LINE).read_until(b'\n', line);
    read.map(|_| ()).map_err(|error| text.get_ref().failed(&error))
}

/// Returns whether [`next_line`] cut the line because it is too long.
pub(crate) fn is_too_long(line: &[u8]) -> bool {
    line.len() as u64 == LONGEST_LINE
}

/// Returns the value of a hexadecimal number, with or without `0x`.
pub(crate) fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.starts_with('+') {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}
