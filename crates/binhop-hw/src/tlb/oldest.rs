//! `OldestSlots` finds the least time among many slots without a look at each of them at each fill.

use super::use_times::{LastUses, UsesOf};

/// `OldestSlots` holds the slots of the only set of an array in the order of their times, as they were when the list
/// was made.
///
/// A use gives its slot a time later than all others. So a slot whose time is still the time in the list is older than
/// every slot behind it in the list, and than every slot whose time has changed. The first such slot has the least
/// time. This holds until times change otherwise: [`OldestSlots::forget`] must be called where a slot becomes empty.
///
/// The caller of the TLBs may know later uses of slots. All times are brought up to date before a list is made. So a
/// slot of which the caller knows a later use was used since.
#[derive(Clone, Debug)]
pub(super) struct OldestSlots {
    /// The times with the positions of their slots, latest first.
    slots: Vec<(i64, u32)>,
}

impl OldestSlots {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// Takes the position of the least time of a set, none of whose slots is empty. The caller gives the slot a later
    /// time next.
    pub(super) fn take<U: LastUses>(&mut self, times: &mut [i64], uses: &UsesOf<'_, U>) -> usize {
        loop {
            while let Some((time, position)) = self.slots.pop() {
                let position = position as usize;
                if times[position] == time && !uses.update(times, position) {
                    return position;
                }
            }
            uses.update_all(times);
            self.slots.extend(times.iter().zip(0..).map(|(&time, position)| (time, position)));
            self.slots.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Forgets the order, because a slot has become empty.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
    }

    /// Returns the bytes that the list takes for an array of so many slots.
    pub(super) fn bytes(&self, slots: usize) -> usize {
        slots * size_of::<(i64, u32)>()
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
