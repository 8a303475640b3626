//! `wire!` lists the numbers of the recorder's pipe. `recorder/wire.h` says what they mean; a test
//! compares this list with the header.

macro_rules! wire {
    ($($name:ident = $value:literal;)*) => {
        $(#[doc = concat!("`WIRE_", stringify!($name), "` of `recorder/wire.h`.")]
        #[cfg_attr(not(test), allow(dead_code, reason = "the list is complete, as the header is"))]
        pub(crate) const $name: u64 = $value;)*
        /// Every number with its name, in the header's order.
        #[cfg(test)]
        const ALL: &[(&str, u64)] = &[$((stringify!($name), $name),)*];
    };
}

wire! {
    VERSION = 5;
    RUN = 0xA1;
    RECORD = 0xA2;
    NOT_MADE = 0xA3;
    START = 1;
    BLOCK = 2;
    PARTIAL = 3;
    ENTER = 4;
    LEAVE = 5;
    FILE = 6;
    MAP = 7;
    UNMAP = 8;
    PROTECT = 9;
    MOVE = 10;
    THREAD = 11;
    FORK = 12;
    EXIT = 13;
    TIME = 14;
    PARTIAL_WORDS = 256;
    ITEM_LENGTH = 48;
    ITEM_REFERENCE = 63;
    ITEM_KIND = 32;
    ITEM_GUARDED = 40;
    LOAD = 1;
    STORE = 2;
    MODIFY = 3;
    BY_KERNEL = 63;
    OF_A_MESSAGE = 62;
    DIRECT = 63;
    NO_BYTES = 0xFFFF_FFFF_FFFF_FFFF;
    NO_BIRTH = 0;
    READ = 1;
    WRITE = 2;
    EXEC = 4;
    SHARED = 8;
    GROWS = 16;
    KIND = 8;
    ANONYMOUS = 0;
    MAPPED_FILE = 1;
    STACK = 2;
    HEAP = 3;
    SYSTEM_V = 4;
    LEFT_CALL = 0;
    LEFT_INVOLUNTARY = 2;
    LEFT_EXIT = 3;
    HELLO = 0xA4;
    HELLO_WORDS = 6;
    NO_IMAGE = 0xFFFF_FFFF;
}

/// The kinds of records: name and number, in the header's order.
#[cfg(test)]
pub(crate) fn record_kinds() -> impl Iterator<Item = (&'static str, u64)> {
    let from_start = ALL.iter().copied().skip_while(|&(name, _)| name != "START");
    from_start.take_while(|&(name, _)| name != "PARTIAL_WORDS")
}

/// Returns the top byte of a word.
pub(crate) const fn tag(word: u64) -> u64 {
    word >> 56
}

/// Returns the low half of a word.
pub(crate) const fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use binhop_trace::event::map_flags;

    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_header() {
        let header = include_str!("../../../recorder/wire.h");
        let mut header_numbers = Vec::new();
        for line in header.lines() {
            let mut words = line.split_whitespace();
            if words.next() != Some("#define") {
                continue;
            }
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            let name = name.strip_prefix("WIRE_").unwrap();
            let value = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
                None => value.parse().unwrap(),
            };
            header_numbers.push((name, value));
        }
        for (at, number) in header_numbers.iter().enumerate() {
            let (name, value) = number;
            let place = "at this place of `wire!` in crates/binhop-record/src/wire.rs";
            assert_eq!(ALL.get(at), Some(number), "recorder/wire.h: write `{name} = {value};` {place}");
        }
        assert_eq!(ALL.len(), header_numbers.len(), "recorder/wire.h lacks the last numbers of `wire!`");
    }

    #[test]
    fn flags_of_a_mapping_equal_those_of_map_events() {
        let ours = [READ, WRITE, EXEC, SHARED, GROWS].map(|flag| u32::try_from(flag).unwrap());
        use map_flags::{EXEC as X, GROWS as G, READ as R, SHARED as S, WRITE as W};
        assert_eq!(ours, [R, W, X, S, G]);
    }
}
