//! `UseTimes` holds when each slot of all TLBs and walk caches was last used (LRU) or filled.

/// The time of an empty slot.
const EMPTY: i64 = 0;

/// The look-ups and fills of one reference change at most so many times. See [`UseTimes::advance`].
const CHANGES_LOG2: u32 = 8;

/// `UseTimes` has one clock for all slots.
#[derive(Clone, Debug)]
pub(super) struct UseTimes {
    times: Vec<i64>,
    clock: i64,
}

impl UseTimes {
    pub(super) fn new() -> Self {
        Self { times: Vec::new(), clock: EMPTY }
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
        self.clock += 1;
        self.times[place] = self.clock;
    }

    /// Notes that the slot at a place is empty.
    pub(super) fn empty(&mut self, place: usize) {
        self.times[place] = EMPTY;
    }

    /// Returns the times of some slots.
    pub(super) fn of(&mut self, places: core::ops::Range<usize>) -> &mut [i64] {
        &mut self.times[places]
    }

    /// Moves the clock on to a reference of the caller's clock. The times that follow are later than the caller's use
    /// at this time, and earlier than the caller's use at the next time.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        let now = time_of_use(now);
        debug_assert!(self.clock < now + (1 << CHANGES_LOG2), "a reference changes few times");
        self.clock = self.clock.max(now);
    }

    /// Moves the clock on so that the next use is later than all times.
    pub(super) fn pass_all(&mut self) {
        self.clock = self.times.iter().fold(self.clock, |last, &time| time.max(last));
    }

    /// Returns the bytes that the times take.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.times)
    }
}

/// Returns the time, among the times of slots, of a use at a time of the caller's clock.
#[inline]
fn time_of_use(now: u64) -> i64 {
    (now << CHANGES_LOG2) as i64
}

/// `LastUses` are the uses of entries of first-level TLBs that the caller notes instead of the TLBs, at times of its
/// own clock. An entry's number is [`Mmu::entry_of_last`](super::Mmu::entry_of_last).
///
/// The TLBs ask only where a time may choose a victim. Uses from before an entry was filled change nothing.
pub trait LastUses {
    /// Returns the time of a use of an entry after `time`, if there is one. It need not be the last use.
    fn later(&self, entry: u32, time: u64) -> Option<u64>;

    /// Calls `note` with entries and times. The last use of each entry is among them.
    fn all(&self, note: impl FnMut(u32, u64));
}

/// The caller notes no uses.
impl LastUses for () {
    #[inline(always)]
    fn later(&self, _: u32, _: u64) -> Option<u64> {
        None
    }

    #[inline(always)]
    fn all(&self, _: impl FnMut(u32, u64)) {}
}

/// `UsesOf` are the uses of the entries of some slots. The first slot has the number `first`.
pub(super) struct UsesOf<'a, U> {
    pub(super) uses: &'a U,
    pub(super) first: u32,
}

impl<U: LastUses> UsesOf<'_, U> {
    /// Gives a slot a later time, if there is a later use. Returns whether the time has changed.
    #[inline]
    pub(super) fn update(&self, times: &mut [i64], position: usize) -> bool {
        let time = times[position];
        let later = self.uses.later(self.first + position as u32, (time >> CHANGES_LOG2) as u64);
        later.into_iter().for_each(|later| times[position] = time_of_use(later));
        later.is_some()
    }

    /// Brings the times of all slots that are not empty up to date.
    pub(super) fn update_all(&self, times: &mut [i64]) {
        let first = self.first;
        self.uses.all(|entry, time| {
            if let Some(known) = times.get_mut(entry.wrapping_sub(first) as usize)
                && *known != EMPTY
            {
                *known = time_of_use(time).max(*known);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_clock_of_the_caller() {
        let mut times = UseTimes::new();
        let first = times.add(3);
        times.stamp(first);
        times.advance(7);
        times.stamp(first + 1);
        times.stamp(first + 1);
        times.advance(7);
        times.stamp(first + 2);
        let [a, b, c] = *times.of(first..first + 3) else { unreachable!() };
        assert!(a < time_of_use(7) && time_of_use(7) < b && b < c && c < time_of_use(8));
        assert_eq!(c - b, 1);
    }
}
