//! `DramConfig` describes memory and its controller. [`DramConfig::check`] refuses what cannot be built.

use binhop_base::{Problem, Result};

use super::{AddressMapping, DramOrganisation, DramTiming};
use crate::choice::choices;

choices! {
    /// `PagePolicy` says when a row is closed.
    PagePolicy {
        Open = "open", "A row stays open until another row of its bank is wanted.";
        Closed = "closed", "A row is closed when no waiting request wants it.";
    }
}

/// `DramConfig` describes memory and its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramConfig {
    /// The parts.
    pub organisation: DramOrganisation,
    /// The distances between commands.
    pub timing: DramTiming,
    /// The rule that finds the place of a line.
    pub mapping: AddressMapping,
    /// The requests that wait in each queue of a channel: of reads, and of writes.
    pub queue: u32,
    /// The number of waiting writes from which on writes are served first.
    pub drain_high: u32,
    /// The number of waiting writes at which reads are served first again.
    pub drain_low: u32,
    /// The rule that closes rows.
    pub pages: PagePolicy,
}

/// The longest queue.
const MOST_QUEUE: u32 = 64;

impl DramConfig {
    /// Checks the parts, the timing, the mapping and the queue.
    ///
    /// # Errors
    /// A number is no power of two, distances contradict each other, the mapping does not name each part once, the
    /// queue is empty, or its marks lie outside it.
    pub fn check(&self) -> Result<()> {
        for (key, number) in self.organisation.parts() {
            if !number.is_power_of_two() {
                return Err(Problem::request(
                    &number.to_string(),
                    &format!("dram.{key}"),
                    "the parts of a memory are counted in powers of two, because bits of the address choose them",
                    &format!("take {}", number.max(1).next_power_of_two()),
                ));
            }
        }
        if self.organisation.ranks * self.organisation.banks_of_rank() > 64 {
            let banks = self.organisation.ranks * self.organisation.banks_of_rank();
            let rule = "a channel has at most 64 banks, over all its ranks";
            return Err(Problem::request(
                &banks.to_string(),
                "dram.banks",
                rule,
                "take fewer ranks or banks",
            ));
        }
        self.timing.check()?;
        if self.queue == 0 || self.queue > MOST_QUEUE {
            return Err(Problem::request(
                &self.queue.to_string(),
                "dram.queue",
                "a queue has a place for 1 request at least, and for 64 at most",
                "say 32",
            ));
        }
        if self.drain_high == 0 || self.drain_high > self.queue || self.drain_low >= self.drain_high {
            return Err(Problem::request(
                &format!("{} to {}", self.drain_high, self.drain_low),
                "dram.drain-high, dram.drain-low",
                "writes begin to go first at an upper mark of 1 to the queue's length, and end at a lower mark below it",
                &format!("say {} and {}", (self.queue * 3 / 4).max(1), self.queue / 4),
            ));
        }
        Ok(())
    }
}
