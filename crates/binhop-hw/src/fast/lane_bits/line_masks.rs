//! `LineMasks` keeps two words for each line of each page: the lanes that hold the line, and the lanes in which the
//! line is dirty.

use binhop_base::PageId;

use super::{LinesOf, Mask, page_rows::PageRows};

macro_rules! line_masks {
    ($($variant:ident($word:ty),)*) => {
        /// `LineMasks` holds the words of all lines, by the key of the line. A word has no more bits than the lanes
        /// need: few lanes with many pages take little memory.
        #[derive(Clone, Debug)]
        pub(super) enum LineMasks {
            $($variant(PageRows<[$word; 2]>),)*
        }

        impl LineMasks {
            /// Makes room for no line yet, for this number of lanes.
            pub(super) fn new(lines_of: LinesOf, lanes: usize) -> Self {
                $(if lanes <= <$word>::BITS as usize {
                    return Self::$variant(PageRows::new(lines_of));
                })*
                unreachable!("{lanes} lanes in a word")
            }

            /// Returns the bytes that the two words of a line take.
            pub(super) fn bytes(lanes: usize) -> u64 {
                $(if lanes <= <$word>::BITS as usize {
                    return size_of::<[$word; 2]>() as u64;
                })*
                unreachable!("{lanes} lanes in a word")
            }

            /// Makes room for the lines of a page.
            pub(super) fn make_room(&mut self, page: PageId) {
                match self {
                    $(Self::$variant(words) => words.make_room(page.index()),)*
                }
            }

            /// Returns the lanes that hold a line, and the lanes in which the line is dirty.
            #[inline(always)]
            pub(super) fn get(&self, key: u64) -> [Mask; 2] {
                match self {
                    $(Self::$variant(words) => words.get(key).map(Mask::from),)*
                }
            }

            /// Replaces the words of a line. A bit may be set only for a lane that exists.
            #[inline(always)]
            pub(super) fn set(&mut self, key: u64, masks: [Mask; 2]) {
                match self {
                    $(Self::$variant(words) => words.set(key, masks.map(|mask| mask as $word)),)*
                }
            }

            /// Returns the number of pages that there is room for.
            pub(super) fn pages(&self) -> u64 {
                match self {
                    $(Self::$variant(words) => words.pages() as u64,)*
                }
            }
        }
    };
}

line_masks! {
    Lanes8(u8),
    Lanes16(u16),
    Lanes32(u32),
    Lanes64(u64),
}
