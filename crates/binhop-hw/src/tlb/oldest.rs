//! `OldestSlots` finds the least time among many slots without a look at each of them at each fill.

/// `OldestSlots` holds the slots of the only set of an array in the order of their times, as they were when the list
/// was made.
///
/// A use gives its slot a time later than all others. So a slot whose time is still the time in the list is older than
/// every slot behind it in the list, and than every slot whose time has changed. The first such slot has the least
/// time. This holds until times change otherwise: [`OldestSlots::forget`] must be called where a slot becomes empty,
/// and times that are numbered anew are found by their number.
#[derive(Clone, Debug)]
pub(super) struct OldestSlots {
    /// The number of renumberings of times before the list was made.
    numbering: u32,
    /// The times with the positions of their slots, latest first.
    slots: Vec<(i32, u32)>,
}

impl OldestSlots {
    pub(super) fn new() -> Self {
        Self { numbering: 0, slots: Vec::new() }
    }

    /// Takes the position of the least time of a set, none of whose slots is empty. The caller gives the slot a later
    /// time next. `numbering` says how often times have been numbered anew.
    pub(super) fn take(&mut self, times: &[i32], numbering: u32) -> usize {
        if numbering != self.numbering {
            self.slots.clear();
            self.numbering = numbering;
        }
        loop {
            while let Some((time, position)) = self.slots.pop() {
                if times[position as usize] == time {
                    return position as usize;
                }
            }
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
        slots * size_of::<(i32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_is_taken_while_slots_are_used() {
        let mut oldest = OldestSlots::new();
        let mut times: Vec<i32> = (1..=40).map(|at| at * 7 % 41).collect();
        let (mut clock, mut numbering) = (41, 0);
        for turn in 0..400_usize {
            for used in 0..turn % 5 {
                clock += 1;
                times[(turn * 17 + used * used * 3) % 40] = clock;
            }
            if turn % 90 == 89 {
                let mut order: Vec<usize> = (0..40).collect();
                order.sort_by_key(|&slot| times[slot]);
                order.iter().zip(1..).for_each(|(&slot, time)| times[slot] = time);
                (clock, numbering) = (40, numbering + 1);
            }
            let expected = (0..40).min_by_key(|&slot| times[slot]).unwrap();
            assert_eq!(oldest.take(&times, numbering), expected, "turn {turn}");
            clock += 1;
            times[expected] = clock;
            if turn % 31 == 30 {
                oldest.forget();
                times[turn % 40] = clock + 1;
                clock += 1;
            }
        }
    }
}
