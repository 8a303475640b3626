//! `OldestSlots` finds the least time among many slots without a look at each of them at each fill.

use super::use_times::{LastUses, UsesOf};

/// `OldestSlots` is a tournament of the slots of the only set of an array: each node of a binary tree names the slot
/// below it that has the least time.
///
/// The tournament knows times of its own. Times only grow, so the time that the tournament knows of a slot is not later
/// than the slot's time. If the winner's time is still the time that the tournament knows, the winner has the least
/// time of all. Otherwise the winner plays again with its time, and another slot may win. A use of a slot thus costs
/// nothing, and a slot that was used often since it won last plays once.
///
/// This holds until a time becomes less: [`OldestSlots::forget`] must be called where a slot becomes empty.
///
/// The caller of the TLBs may know later uses of slots. A winner of which the caller knows a later use plays again,
/// too.
#[derive(Clone, Debug)]
pub(super) struct OldestSlots {
    /// The times that the tournament knows, by position. A place without a slot has a time that no slot has.
    times: Vec<i64>,
    /// The winner of each node: the root is node 1, and the nodes below node `n` are `2n` and `2n + 1`. Each leaf names
    /// its own slot. Empty until the first victim is asked for, and after a slot has become empty.
    winners: Vec<u32>,
}

impl OldestSlots {
    pub(super) fn new() -> Self {
        Self { times: Vec::new(), winners: Vec::new() }
    }

    /// Takes the position of the least time of a set, none of whose slots is empty. The caller gives the slot a later
    /// time next.
    #[inline]
    pub(super) fn take<U: LastUses>(&mut self, times: &mut [i64], uses: &UsesOf<'_, U>) -> usize {
        if self.winners.is_empty() {
            self.begin(times);
        }
        loop {
            let position = self.winners[1] as usize;
            // A slot that plays again plays with its last use at once.
            uses.update(times, position);
            if times[position] == self.times[position] {
                return position;
            }
            self.play(position, times[position]);
        }
    }

    /// Forgets all times, because a slot has become empty.
    pub(super) fn forget(&mut self) {
        self.winners.clear();
    }

    /// Returns the bytes that the tournament takes for an array of so many slots.
    pub(super) fn bytes(&self, slots: usize) -> usize {
        let leaves = slots.next_power_of_two();
        leaves * size_of::<i64>() + 2 * leaves * size_of::<u32>()
    }

    /// Lets all slots play.
    #[cold]
    fn begin(&mut self, times: &[i64]) {
        let leaves = times.len().next_power_of_two();
        self.times.clear();
        self.times.extend(times);
        self.times.resize(leaves, i64::MAX);
        self.winners.resize(leaves, 0);
        self.winners.extend(0..leaves as u32);
        for node in (1..leaves).rev() {
            let [left, right] = [2 * node, 2 * node + 1].map(|below| self.winners[below]);
            let is_older = self.times[right as usize] < self.times[left as usize];
            self.winners[node] = if is_older { right } else { left };
        }
    }

    /// Lets the slot at a position play with a later time.
    #[inline]
    fn play(&mut self, position: usize, time: i64) {
        self.times[position] = time;
        let (mut winner, mut least) = (position as u32, time);
        let mut node = self.winners.len() / 2 + position;
        while node > 1 {
            let other = self.winners[node ^ 1];
            let time = self.times[other as usize];
            (winner, least) = if time < least { (other, time) } else { (winner, least) };
            node /= 2;
            self.winners[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of the last uses that the caller has noted.
    struct Noted(Vec<u64>);

    impl LastUses for Noted {
        fn later(&self, entry: u32, time: u64) -> Option<u64> {
            // Any later time is an answer.
            let last = self.0[entry as usize];
            (last > time).then(|| if last > time + 2 { last - 1 } else { last })
        }

        fn all(&self, note: impl FnMut(u32, u64)) {
            let mut note = note;
            self.0.iter().zip(0..).for_each(|(&time, entry)| note(entry, time));
        }
    }

    #[test]
    fn the_least_time_is_taken_while_slots_are_used() {
        let mut oldest = OldestSlots::new();
        let mut times: Vec<i64> = (1..=40).map(|at| (at * 7 % 41) << 8).collect();
        let (mut truth, mut noted) = (times.clone(), Noted(vec![0; 45]));
        let mut clock = 41;
        for turn in 0..400_usize {
            for used in 0..turn % 5 {
                clock += 1;
                let slot = (turn * 17 + used * used * 3) % 40;
                truth[slot] = clock << 8;
                if (turn + used).is_multiple_of(3) {
                    times[slot] = clock << 8;
                } else {
                    noted.0[slot + 5] = clock as u64;
                }
            }
            let expected = (0..40).min_by_key(|&slot| truth[slot]).unwrap();
            let uses = UsesOf { uses: &noted, first: 5 };
            assert_eq!(oldest.take(&mut times, &uses), expected, "turn {turn}");
            clock += 1;
            times[expected] = clock << 8;
            truth[expected] = clock << 8;
            if turn % 31 == 30 {
                oldest.forget();
                clock += 1;
                times[turn % 40] = clock << 8;
                truth[turn % 40] = clock << 8;
            }
        }
    }
}
