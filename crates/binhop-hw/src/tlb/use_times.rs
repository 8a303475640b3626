//! `UseTimes` holds when each slot of all TLBs and walk caches was last used (LRU) or filled.

/// The time of an empty slot.
const EMPTY: i32 = 0;

/// The last time. When the clock reaches it, times are numbered anew.
const LAST_TIME: i32 = i32::MAX - 1;

/// `UseTimes` has one clock for all slots, so that a use is one store wherever it is noted. The first of the times
/// belongs to no slot: uses that change nothing are noted there.
#[derive(Clone, Debug)]
pub(super) struct UseTimes {
    times: Vec<i32>,
    clock: i32,
    /// The number of renumberings of times.
    numbering: u32,
}

/// The place of the time that belongs to no slot.
pub(super) const NO_SLOT: usize = 0;

impl UseTimes {
    pub(super) fn new() -> Self {
        Self { times: vec![EMPTY], clock: EMPTY, numbering: 0 }
    }

    /// Adds empty slots. Returns the place of the first of them.
    pub(super) fn add(&mut self, slots: usize) -> usize {
        let first = self.times.len();
        self.times.resize(first + slots, EMPTY);
        first
    }

    /// Notes a use of the slot at a place.
    #[inline(always)]
    pub(super) fn stamp(&mut self, place: usize) {
        self.reserve(1);
        self.clock += 1;
        self.times[place] = self.clock;
    }

    /// Notes that the slot at a place is empty.
    pub(super) fn empty(&mut self, place: usize) {
        self.times[place] = EMPTY;
    }

    /// Returns the times of some slots.
    pub(super) fn of(&self, places: core::ops::Range<usize>) -> &[i32] {
        &self.times[places]
    }

    /// Returns how often times were numbered anew.
    pub(super) fn numbering(&self) -> u32 {
        self.numbering
    }

    /// Makes room for the times of `uses` uses.
    #[inline(always)]
    fn reserve(&mut self, uses: usize) {
        if uses > (LAST_TIME - self.clock) as usize {
            self.renumber();
        }
    }

    /// Begins to note uses, at most `most` uses. [`UseTimes::end`] ends this.
    #[inline]
    pub(super) fn begin(&mut self, most: usize) -> TlbUses<'_> {
        self.reserve(most);
        TlbUses { times: &mut self.times, start: self.clock }
    }

    /// Moves the clock on by `uses` uses.
    #[inline]
    pub(super) fn end(&mut self, uses: usize) {
        self.clock += uses as i32;
    }

    /// Returns the bytes that the times take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.times)
    }

    /// Gives the slots the times 1, 2, … in the same order.
    #[cold]
    #[inline(never)]
    fn renumber(&mut self) {
        let used = |&place: &usize| self.times[place] != EMPTY;
        let mut order: Vec<usize> = (0..self.times.len()).filter(used).collect();
        order.sort_by_key(|&place| self.times[place]);
        self.numbering += 1;
        self.clock = EMPTY;
        for place in order {
            self.clock += 1;
            self.times[place] = self.clock;
        }
    }
}

/// `TlbUses` notes uses of entries of first-level TLBs, in order.
#[derive(Debug)]
pub struct TlbUses<'a> {
    times: &'a mut [i32],
    start: i32,
}

impl TlbUses<'_> {
    /// Notes the use with this number, from 0, of the entry at a place. Returns false if there is no such place.
    #[inline(always)]
    pub fn note(&mut self, place: u32, number: usize) -> bool {
        let Some(time) = self.times.get_mut(place as usize) else { return false };
        *time = self.start + 1 + number as i32;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_numbered_anew_keep_their_order() {
        let mut times = UseTimes::new();
        let first = times.add(4);
        times.clock = LAST_TIME - 4;
        for slot in [0, 1, 2, 0] {
            times.stamp(first + slot);
        }
        times.stamp(first + 1);
        assert_eq!((times.clock, times.of(first..first + 4)), (4, &[3, 4, 2, EMPTY][..]));
        let mut uses = times.begin(10);
        assert!(uses.note(first as u32 + 3, 2) && !uses.note(first as u32 + 4, 3));
        times.end(3);
        times.stamp(first + 2);
        assert_eq!(times.of(first..first + 4), &[3, 4, 8, 7]);
    }
}
