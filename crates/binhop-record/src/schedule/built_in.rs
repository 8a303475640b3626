//! `BuiltIn` is the schedule where no order was observed. Its turns are as long as real turns.
//!
//! **The draw** decides only how long a process runs until it is preempted; it follows the quantiles in
//! [`PREEMPTED`]. The recording itself says where a process gives up the processor (it waits in a system
//! call, or it ends).
//! **Between the quantiles** the logarithm of the length is linear in the probability. Below the first
//! quantile and above the last, the neighbouring line is continued (our choice). Microseconds become
//! instructions at a stated rate.
//! **The next process** is the process whose last turn is longest ago.
//!
//! Source of the quantiles: a compilation, a sort and two processes that pass bytes to each other, side by
//! side on Linux 6.18 with 250 ticks a second, observed with the kernel's tracing.

use binhop_base::{Domain, Rng, Stream};

use super::{Ready, Schedule, longest_ago};

/// The times that processes ran until they were preempted: (probability in percent, microseconds).
pub const PREEMPTED: [(u32, u32); 4] = [(10, 4), (50, 1220), (90, 4054), (99, 8672)];

/// `BuiltIn` draws turns from the lengths of real turns.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    rng: Rng,
    instructions_per_us: u64,
    turns: u64,
}

impl BuiltIn {
    /// The default number of instructions in a microsecond: one a nanosecond.
    pub const RATE: u64 = 1000;

    /// Makes the schedule of a seed. A process runs `instructions_per_us` (1 or more) instructions in a
    /// microsecond.
    #[must_use]
    pub fn new(seed: u64, instructions_per_us: u64) -> Self {
        assert!(instructions_per_us > 0, "a process runs at least one instruction in a microsecond");
        Self { rng: Rng::new(seed), instructions_per_us, turns: 0 }
    }
}

impl Default for BuiltIn {
    fn default() -> Self {
        Self::new(0, Self::RATE)
    }
}

impl Schedule for BuiltIn {
    fn name(&self) -> &str {
        "built-in"
    }

    fn choose(&mut self, ready: &[Ready]) -> usize {
        longest_ago(ready)
    }

    fn turn(&mut self, _: u32) -> u64 {
        let draw = self.rng.draw(Stream::new(Domain::Schedule, 0), self.turns);
        self.turns += 1;
        ((microseconds(draw) * self.instructions_per_us as f64) as u64).max(1)
    }
}

/// Returns the length at a probability of `draw` / 2⁶⁴, in microseconds.
///
/// The function interpolates by halving, and takes the middle of two logarithms by a square root. IEEE 754
/// defines how square roots are rounded, so every machine gives the same result; it does not define this for
/// logarithms and powers.
fn microseconds(draw: u64) -> f64 {
    let percent = draw as f64 / 2f64.powi(64) * 100.0;
    let line = PREEMPTED.windows(2).find(|pair| percent < f64::from(pair[1].0)).unwrap_or(&PREEMPTED[2..]);
    let [(mut low, mut short), (mut high, mut long)] =
        [line[0], line[1]].map(|(percent, us)| (f64::from(percent), f64::from(us)));
    // Outside the line's ends, reflect the line as often as needed, until it contains the probability.
    while percent < low {
        (low, short, high, long) = (2.0 * low - high, short * short / long, low, short);
    }
    while percent > high {
        (low, short, high, long) = (high, long, 2.0 * high - low, long * long / short);
    }
    for _ in 0..HALVINGS {
        let (middle, between) = (f64::midpoint(low, high), (short * long).sqrt());
        if percent < middle {
            (high, long) = (middle, between);
        } else {
            (low, short) = (middle, between);
        }
    }
    short
}

/// The number of halvings. The length is then exact to 2⁻⁴⁰ of the line.
const HALVINGS: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantiles_are_the_stated_ones() {
        let at = |percent: f64| microseconds((percent / 100.0 * 2f64.powi(64)) as u64);
        for (percent, us) in PREEMPTED {
            let found = at(f64::from(percent));
            assert!((found / f64::from(us) - 1.0).abs() < 1e-6, "{percent}%: {found}");
        }
        // The length halfway between two quantiles is their geometric mean. The outer lines are continued.
        assert!((at(70.0) / (1220f64 * 4054.0).sqrt() - 1.0).abs() < 1e-6);
        assert!((at(30.0) / (4f64 * 1220.0).sqrt() - 1.0).abs() < 1e-6);
        assert!((at(0.0) / (4.0 * (4f64 / 1220.0).powf(0.25)) - 1.0).abs() < 1e-6);
        assert!((microseconds(u64::MAX) / (8672.0 * (8672f64 / 4054.0).powf(1.0 / 9.0)) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn turns_have_the_stated_quantiles() {
        let mut schedule = BuiltIn::new(7, 1000);
        let mut turns: Vec<u64> = (0..100_000).map(|_| schedule.turn(0)).collect();
        turns.sort_unstable();
        for (percent, us) in PREEMPTED {
            // The share of turns below a quantile is within 5 standard deviations of the stated share.
            let (share, turn) = (f64::from(percent) / 100.0, u64::from(us) * 1000);
            let below = turns.partition_point(|&t| t < turn) as f64 / 1e5;
            assert!(
                (below - share).abs() < 5.0 * (share * (1.0 - share) / 1e5).sqrt(),
                "{percent}%: {below}"
            );
        }
    }

    #[test]
    fn a_seed_decides_all_turns() {
        let turns = |seed| {
            let mut schedule = BuiltIn::new(seed, 1000);
            (0..5).map(|_| schedule.turn(3)).collect::<Vec<u64>>()
        };
        assert_eq!(turns(1), turns(1));
        assert_ne!(turns(1), turns(2));
    }

    #[test]
    fn the_first_turns_of_seed_0_are_these() {
        let mut schedule = BuiltIn::default();
        let turns: Vec<u64> = (0..4).map(|_| schedule.turn(0)).collect();
        assert_eq!(turns, [131_957, 4_464_078, 1_803_366, 2_264_557]);
    }
}
