//! `ReuseStack` measures reuse distances exactly (Mattson et al., *IBM Systems Journal* 1970; the search over times is
//! due to Bennett and Kruskal, *IBM Journal of Research and Development* 1975).
//!
//! # How it works
//! Time counts touches. Each time has a bit, which is 1 if the unit touched at this time has not been touched since.
//! The reuse distance of a unit is the number of bits that are 1 behind the time of its last touch. Bits stand in
//! blocks of 512. A tree of partial sums (Fenwick, *Software: Practice and Experience* 1994) counts the bits of whole
//! blocks. The last block joins the tree when it is full.
//!
//! When the times run out, the living units get new times from 0 on, in the same order. So memory follows the units,
//! not the touches.
//!
//! # Cost
//! A touch of the unit touched last costs a comparison. Any other touch costs O(log n) for n units.

/// The bits of a block.
const BLOCK: u32 = 512;
const WORDS: usize = (BLOCK / u64::BITS) as usize;
/// The fewest times. They are a multiple of `BLOCK`.
const LEAST_TIMES: u32 = 1 << 16;
const NEVER: u32 = u32::MAX;

/// `ReuseStack` knows the order in which units were last touched.
#[derive(Clone, Debug)]
pub struct ReuseStack {
    /// The time of each unit's last touch.
    last: Vec<u32>,
    /// The unit touched at each time.
    touched: Vec<u32>,
    /// A bit for each time at which a unit was touched that has not been touched since.
    alive: Vec<[u64; WORDS]>,
    /// The partial sums over the blocks that are full.
    sums: Vec<u32>,
    /// The time of the next touch.
    now: u32,
    /// The number of units touched so far.
    units: u32,
    /// The unit touched last.
    top: u32,
}

impl Default for ReuseStack {
    fn default() -> Self {
        Self::new()
    }
}

impl ReuseStack {
    /// Makes an empty stack.
    #[must_use]
    pub fn new() -> Self {
        let mut stack = Self {
            last: Vec::new(),
            touched: Vec::new(),
            alive: Vec::new(),
            sums: Vec::new(),
            now: 0,
            units: 0,
            top: NEVER,
        };
        stack.resize(LEAST_TIMES);
        stack
    }

    /// Returns the number of units touched so far.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Touches a unit, and returns its reuse distance: the number of other units touched since its last touch. `None`
    /// means that the unit was never touched before.
    ///
    /// Units are small numbers: memory grows with the largest number.
    #[inline]
    pub fn touch(&mut self, unit: u32) -> Option<u32> {
        if unit == self.top {
            return Some(0);
        }
        self.touch_another(unit)
    }

    #[inline(never)]
    fn touch_another(&mut self, unit: u32) -> Option<u32> {
        if unit as usize >= self.last.len() {
            let room = (unit as usize + 1).next_power_of_two();
            self.last.resize(room, NEVER);
        }
        if self.now as usize == self.touched.len() {
            self.renumber();
        }
        let before = self.last[unit as usize];
        let distance = if before == NEVER {
            self.units += 1;
            None
        } else {
            // Every other unit was last touched before or after this unit's last touch. The distance counts the units
            // touched after it.
            let distance = self.units - 1 - self.alive_before(before);
            self.die(before);
            Some(distance)
        };
        self.live(unit);
        distance
    }

    /// Returns the number of bits that are 1 before a time.
    #[inline]
    fn alive_before(&self, time: u32) -> u32 {
        let (block, bit) = ((time / BLOCK) as usize, time % BLOCK);
        let (word, bit) = ((bit / u64::BITS) as usize, bit % u64::BITS);
        let words = &self.alive[block];
        let mut sum = (words[word] & ((1 << bit) - 1)).count_ones();
        sum += words[..word].iter().map(|word| word.count_ones()).sum::<u32>();
        let mut at = block;
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }

    /// Clears the bit of a time.
    #[inline]
    fn die(&mut self, time: u32) {
        let (block, bit) = ((time / BLOCK) as usize, time % BLOCK);
        self.alive[block][(bit / u64::BITS) as usize] &= !(1 << (bit % u64::BITS));
        // A block that is not full is in no sum.
        let full = (self.now / BLOCK) as usize;
        let mut at = block + 1;
        while at <= full {
            self.sums[at] -= 1;
            at += at & at.wrapping_neg();
        }
    }

    /// Notes that a unit is touched at the present time, and moves on to the next time.
    #[inline]
    fn live(&mut self, unit: u32) {
        let (block, bit) = ((self.now / BLOCK) as usize, self.now % BLOCK);
        self.alive[block][(bit / u64::BITS) as usize] |= 1 << (bit % u64::BITS);
        self.last[unit as usize] = self.now;
        self.touched[self.now as usize] = unit;
        self.top = unit;
        self.now += 1;
        if self.now.is_multiple_of(BLOCK) {
            self.close(block + 1);
        }
    }

    /// Adds a block that is full to the sums. The tree's place `at`, from 1, covers as many blocks as its lowest bit
    /// says.
    fn close(&mut self, at: usize) {
        let mut sum: u32 = self.alive[at - 1].iter().map(|word| word.count_ones()).sum();
        let covered = at & at.wrapping_neg();
        let mut part = 1;
        while part < covered {
            sum += self.sums[at - part];
            part *= 2;
        }
        self.sums[at] = sum;
    }

    /// Gives the living units new times, in the same order. There is room for as many touches again.
    #[cold]
    fn renumber(&mut self) {
        let living: Vec<u32> = (0..self.now)
            .filter(|&time| self.last[self.touched[time as usize] as usize] == time)
            .map(|time| self.touched[time as usize])
            .collect();
        let times = (living.len() as u64 * 2).next_multiple_of(u64::from(BLOCK));
        self.now = 0;
        self.resize(u32::try_from(times).expect("units are numbered in 31 bits").max(LEAST_TIMES));
        living.into_iter().for_each(|unit| self.live(unit));
    }

    /// Forgets all times, and makes room for this number.
    fn resize(&mut self, times: u32) {
        let blocks = (times / BLOCK) as usize;
        self.touched.clear();
        self.touched.resize(times as usize, NEVER);
        self.alive.clear();
        self.alive.resize(blocks, [0; WORDS]);
        self.sums.clear();
        self.sums.resize(blocks + 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mattson et al., Figure 4's idea: the stack after each touch, most recent first.
    #[test]
    fn the_stack_by_hand() {
        let mut stack = ReuseStack::new();
        let distances: Vec<_> = [7, 3, 7, 7, 5, 3, 7, 5].map(|unit| stack.touch(unit)).into();
        let cold = None;
        assert_eq!(distances, [cold, cold, Some(1), Some(0), cold, Some(2), Some(2), Some(2)]);
        assert_eq!(stack.units(), 3);
    }

    /// More touches than times, with more and fewer units than half of the times.
    #[test]
    fn times_run_out() {
        let mut stack = ReuseStack::new();
        for units in [5, 40_000, 200_000, 3] {
            for round in 0..4 {
                for unit in 0..units {
                    let distance = stack.touch(unit);
                    if round > 0 && units > 1 {
                        assert_eq!(distance, Some(units - 1), "{units} units, round {round}, unit {unit}");
                    }
                }
            }
        }
        assert_eq!(stack.units(), 200_000);
        assert!(stack.touched.len() <= 400_000 + BLOCK as usize);
    }
}
