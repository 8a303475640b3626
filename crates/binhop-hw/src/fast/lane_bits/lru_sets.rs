//! `LruSets` knows which line lies in each way of an LRU cache, in every lane, where all lanes ask for the same lines
//! in the same order.
//!
//! Whether a request hits or misses, the requested line becomes the most recently used line of its set. So every lane
//! that holds a line used it last at the same request. One time for each line serves all lanes, and a request that
//! hits in every lane stores one time. A lane that misses looks for the oldest of its lines.
//!
//! A set's ways are sorted by time now and then. Lines that no request asked for since then are older than all
//! others, and still stand in order. So the victim is the first of them, and a lane seldom looks at more than one or
//! two ways. When no such line is left, the ways are sorted anew, once for about as many misses as the set has ways.

use binhop_base::PageId;

use super::{
    LinesOf, MOST_LANES, Mask,
    frames::LaneFrames,
    line_masks::LineMasks,
    occupants::{Occupants, SetPages, WayOrder},
    page_rows::PageRows,
};
use crate::CacheConfig;

/// The number of ways for which the sort has a form of its own.
const FEW_WAYS: usize = 16;

/// `LruSets` holds the ways of one LRU cache in every lane. `W` = 0 means a number of ways that is known only at
/// run time.
#[derive(Clone, Debug)]
pub(super) struct LruSets<const W: usize> {
    lines_of: LinesOf,
    occupants: Occupants<W>,
    /// The time of the last request for each line, by the number of its page plus 1. Time counts the requests for
    /// lines of the same line number. The time of number 0 is 0: an empty way is older than every line.
    times: PageRows<u32>,
    /// The time of the last request for any line of each line number.
    clocks: Vec<u32>,
    /// Room for the victims of one request: the lanes that each line leaves, by the number of its page plus 1, and the
    /// lines. The same line is the oldest of its set in many lanes.
    leaving: Vec<Mask>,
    victims: Box<[u32; MOST_LANES]>,
}

impl<const W: usize> LruSets<W> {
    pub(super) fn new(cache: &CacheConfig, lines_of: LinesOf, lanes: usize) -> Self {
        Self {
            lines_of,
            // The ways need no order: the victim is the oldest line, in whichever way it lies.
            occupants: Occupants::new(cache, lines_of, lanes, false),
            times: PageRows::in_slices(lines_of),
            clocks: vec![0; 1 << lines_of.log2],
            leaving: Vec::new(),
            victims: Box::new([0; MOST_LANES]),
        }
    }

    /// Places a page in a frame in one lane. `lines` says which lines the lane holds.
    pub(super) fn place(&mut self, lane: usize, page: PageId, lower: u32, lines: &LineMasks) {
        self.times.make_room(page.index() + 1);
        if self.leaving.len() < self.times.pages() {
            self.leaving.resize(self.times.pages(), 0);
        }
        self.occupants.put((lane, page, lower), lines, |ways, _, occupant| {
            let way = ways.iter().position(|&occupant| occupant == 0);
            ways[way.expect("no set was full in a roomy bin")] = occupant;
        });
    }

    /// Notes that every lane asks for a line.
    #[inline(always)]
    pub(super) fn touch(&mut self, key: u64) {
        let (page, number) = (self.lines_of.page(key), self.lines_of.line(key) as usize);
        if self.clocks[number] == u32::MAX {
            self.clocks[number] = renumber(self.times.row_mut(number));
            self.occupants.forget_order(number);
        }
        self.clocks[number] += 1;
        self.times.row_mut(number)[page.index() + 1] = self.clocks[number];
    }

    /// Puts a line into its set in some lanes that lack it. Calls `evicted` with the page of each line that must leave,
    /// and the lanes that it must leave.
    #[inline]
    pub(super) fn put(
        &mut self,
        key: u64,
        lanes: Mask,
        _frames: &LaneFrames,
        mut evicted: impl FnMut(Mask, PageId),
    ) {
        let Self { lines_of, occupants, times, leaving, victims, .. } = self;
        let times = times.row(lines_of.line(key) as usize);
        let page = lines_of.page(key);
        let mut found = 0;
        occupants.miss_in_order(key, lanes, |bit, ways, order| {
            let way = oldest(ways, times, order);
            let victim = std::mem::replace(&mut ways[way], page.0 + 1);
            let lanes = &mut leaving[victim as usize];
            victims[found % MOST_LANES] = victim;
            found += usize::from(*lanes == 0);
            *lanes |= bit;
        });
        for &victim in &victims[..found] {
            let lanes = std::mem::take(&mut leaving[victim as usize]);
            if victim != 0 {
                evicted(lanes, PageId(victim - 1));
            }
        }
    }

    /// Cannot be called: no lane loses a page.
    pub(super) fn lose(&mut self, _lane: usize, _lines: &LineMasks) {
        unreachable!("lanes stand apart before the first page is flushed")
    }

    /// Cannot be called: no lane loses a line other than a victim.
    pub(super) fn remove(&mut self, _key: u64, _lane: usize, _frames: &LaneFrames) {
        unreachable!("lanes stand apart before the first page is flushed")
    }

    /// Calls `visit` with each set that holds lines in a lane, and the pages whose lines lie there, the least
    /// recently used first.
    pub(super) fn each_set(
        &self,
        lane: usize,
        lines: &LineMasks,
        mut visit: impl FnMut(usize, &[PageId], u64),
    ) {
        self.occupants.each_set(lane, lines, |set, SetPages { mut pages, .. }| {
            let times = self.times.row(self.lines_of.line(set as u64) as usize);
            pages.sort_by_key(|page| times[page.index() + 1]);
            if !pages.is_empty() {
                visit(set, &pages, 0);
            }
        });
    }
}

/// Returns the way whose line was used longest ago, or an empty way. A new line takes this way.
#[inline(always)]
fn oldest(ways: &mut [u32], times: &[u32], order: &mut WayOrder) -> usize {
    // The number of times is a power of two, and every occupant is smaller. The mask tells this to the compiler, which
    // then omits the check of bounds.
    let mask = times.len() - 1;
    let mut way = order.next as usize;
    while way < ways.len() {
        if times[ways[way] as usize & mask] <= order.sorted {
            order.next = way as u32 + 1;
            return way;
        }
        way += 1;
    }
    sort(ways, times, order);
    order.next = 1;
    0
}

/// Sorts the ways of a full set by time.
#[inline(never)]
fn sort(ways: &mut [u32], times: &[u32], order: &mut WayOrder) {
    let mask = times.len() - 1;
    let time = |occupant: u32| times[occupant as usize & mask];
    debug_assert!(ways.iter().all(|&occupant| occupant != 0), "an empty way is found without an order");
    if let Ok(ways) = <&mut [u32; FEW_WAYS]>::try_from(&mut *ways) {
        // No two lines were asked for at the same time, so the number of older lines is a line's place. Comparisons of
        // all lines with all lines need no branch, and vectors make several of them at once.
        let (before, times_of_ways) = (*ways, ways.map(time));
        let mut places = [0_u32; FEW_WAYS];
        for other in times_of_ways {
            for (place, own) in places.iter_mut().zip(times_of_ways) {
                *place += u32::from(other < own);
            }
        }
        for (place, occupant) in places.into_iter().zip(before) {
            ways[place as usize % FEW_WAYS] = occupant;
        }
    } else {
        ways.sort_unstable_by_key(|&occupant| time(occupant));
    }
    order.sorted = ways.last().map_or(0, |&occupant| time(occupant));
}

/// Replaces times by smaller times in the same order. Returns the latest.
#[cold]
fn renumber(times: &mut [u32]) -> u32 {
    let mut order: Vec<u32> = times.iter().copied().filter(|&time| time != 0).collect();
    order.sort_unstable();
    for time in times.iter_mut().filter(|time| **time != 0) {
        *time = order.binary_search(time).expect("every time is among them") as u32 + 1;
    }
    order.len() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_victim_is_an_empty_way_or_the_line_used_longest_ago(
            few in any::<bool>(),
            requests in prop::collection::vec(1..64_u32, 1..300),
        ) {
            let (mut ways, mut order) = (vec![0; if few { 4 } else { 16 }], WayOrder::default());
            let mut times = vec![0; 64];
            for (&page, time) in requests.iter().zip(1..) {
                times[page as usize] = time;
                if ways.contains(&page) {
                    continue;
                }
                let least = ways.iter().map(|&occupant: &u32| times[occupant as usize]).min();
                let way = oldest(&mut ways, &times, &mut order);
                prop_assert_eq!(Some(times[ways[way] as usize]), least);
                ways[way] = page;
            }
        }
    }

    #[test]
    fn renumbered_times_keep_their_order() {
        let mut times = [0, 7, u32::MAX, 0, 1_000_000, 3];
        assert_eq!(renumber(&mut times), 4);
        assert_eq!(times, [0, 2, 4, 0, 3, 1]);
    }
}
