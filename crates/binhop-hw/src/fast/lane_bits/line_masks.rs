//! `LineMasks` keeps two words for each line of each page: the lanes that hold the line, and the lanes in which the
//! line is dirty.

use binhop_base::PageId;

use super::{LinesOf, Mask, WrittenBack, front_requests::FrontRequest, page_rows::PageRows};
use crate::request::is_data;

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

            /// Tells the processor that the words of a line are needed soon.
            #[inline(always)]
            pub(super) fn prefetch(&self, key: u64) {
                match self {
                    $(Self::$variant(words) => words.prefetch(key),)*
                }
            }

            /// Makes lines of one line number within the page dirty in some lanes each. A line of this cache holds
            /// 2^`smaller` of the lines. Appends the lines that some of their lanes lack to `missing`, without any
            /// other change. Returns the lanes in which a line became dirty.
            #[inline]
            pub(super) fn write(
                &mut self,
                lines: &[WrittenBack],
                smaller: u32,
                missing: &mut Vec<WrittenBack>,
            ) -> Mask {
                let Some(&(first, _)) = lines.first() else { return 0 };
                let mut dirtied = 0;
                match self {
                    $(Self::$variant(words) => {
                        let lines_of = words.lines_of();
                        let number = lines_of.line(first >> smaller) as usize;
                        let (row, of_number) = words.group_mut(number);
                        for &(key, lanes) in lines {
                            debug_assert_eq!(lines_of.line(key >> smaller), number as u64);
                            let words = &mut row[of_number.place(lines_of.page(key >> smaller).index())];
                            let [resident, dirty] = words.map(Mask::from);
                            if resident & lanes != lanes {
                                missing.push((key, lanes));
                                continue;
                            }
                            dirtied |= lanes & !dirty;
                            words[1] = (dirty | lanes) as $word;
                        }
                    })*
                }
                dirtied
            }

            /// Returns the number of requests before the first request that misses in one of its lanes, or that makes
            /// its line dirty there. The lines of the cache have this size.
            #[inline]
            pub(super) fn find_change(&self, requests: &[FrontRequest], line_log2: u32) -> usize {
                match self {
                    $(Self::$variant(words) => {
                        let changes = |request: &FrontRequest| {
                            let [resident, dirty] = words.get(request.key(line_log2));
                            request.lanes as $word & !(if is_data(request.kind) { dirty } else { resident }) != 0
                        };
                        requests.iter().position(changes).unwrap_or(requests.len())
                    })*
                }
            }

            /// Replaces the words of a line. A bit may be set only for a lane that exists.
            #[inline(always)]
            pub(super) fn set(&mut self, key: u64, masks: [Mask; 2]) {
                match self {
                    $(Self::$variant(words) => words.set(key, masks.map(|mask| mask as $word)),)*
                }
            }

            /// Takes lines of one line number within the page from the lanes that lose them. `victims` holds the pages
            /// of the lines, each with its lanes. Returns the lanes that lose a line and the lanes that lose a dirty
            /// line. The dirty lines come first in `victims` now, each with the lanes in which it was dirty; their
            /// number is also returned.
            #[inline]
            pub(super) fn take(&mut self, number: usize, victims: &mut [WrittenBack]) -> ([Mask; 2], usize) {
                let (mut taken, mut taken_dirty, mut dirty_victims) = (0, 0, 0);
                match self {
                    $(Self::$variant(words) => {
                        let (row, of_number) = words.group_mut(number);
                        for at in 0..victims.len() {
                            let (page, lanes) = victims[at];
                            let words = &mut row[of_number.place(page as usize)];
                            let [resident, dirty] = words.map(Mask::from);
                            debug_assert!(resident & lanes == lanes, "the occupant of a way lies there");
                            taken |= lanes;
                            taken_dirty |= dirty & lanes;
                            *words = [resident & !lanes, dirty & !lanes].map(|mask| mask as $word);
                            // A branch on whether the victim is dirty could not be predicted, so there is none.
                            victims[dirty_victims] = (page, dirty & lanes);
                            dirty_victims += usize::from(dirty & lanes != 0);
                        }
                    })*
                }
                ([taken, taken_dirty], dirty_victims)
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
