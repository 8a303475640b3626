//! `Account` holds the counts of one cell in one lane: every counter at the ends of its phases, and what its
//! meter has logged.

use std::sync::Arc;

use binhop_base::{Problem, Result};

use super::meter::{Meter, Readings};
use super::spill::Spill;
use super::tally::Tally;
use crate::prepare::Mark;

/// `Account` holds the tallies and the meter of one cell in one lane.
#[derive(Debug)]
pub(crate) struct Account {
    /// The meter; `None` once the stream has ended.
    meter: Option<Meter>,
    readings: Option<Readings>,
    at_measured: Option<Tally>,
    at_end: Option<Tally>,
}

impl Account {
    pub(crate) fn new(caches: usize, wants_series: bool, spill: &Arc<Spill>) -> Self {
        Self {
            meter: Some(Meter::new(caches, wants_series, spill)),
            readings: None,
            at_measured: None,
            at_end: None,
        }
    }

    /// Returns the meter, which aggregates between marks.
    pub(crate) fn meter(&mut self) -> &mut Meter {
        self.meter.as_mut().expect("the stream is not over")
    }

    /// Takes every counter at the end of a phase. The meter has already passed the mark.
    pub(crate) fn end_phase(&mut self, mark: Mark, tally: Tally) {
        match mark {
            Mark::Measured => self.at_measured = Some(tally),
            Mark::End => {
                self.at_end = Some(tally);
                self.readings = self.meter.take().map(Meter::readings);
            }
            Mark::Process(_) | Mark::Interval(_) => unreachable!("no phase ends here"),
        }
    }

    /// Returns what the meter has logged of intervals, processes and footprints.
    pub(crate) fn readings(&self) -> &Readings {
        self.readings.as_ref().expect("the stream is over")
    }

    /// Returns the counts of the whole run.
    pub(crate) fn end(&self) -> &Tally {
        self.at_end.as_ref().expect("the stream is over")
    }

    /// Returns the counts of the warm-up, if there was a warm-up, and the counts of the measured part.
    pub(crate) fn phases(&self) -> (Option<&Tally>, Tally) {
        match &self.at_measured {
            None => (None, self.end().clone()),
            Some(warmup) => (Some(warmup), self.end().since(warmup)),
        }
    }

    /// Checks that the sum over processes in the logs is the total.
    ///
    /// # Errors
    /// The sum differs, which is a defect of the simulator; or the logs cannot be read.
    pub(crate) fn check(&self, seed: u64) -> Result<()> {
        let (_, measured) = self.phases();
        let sum = self.readings().sum_of_shares(measured.caches.len())?;
        let total = [measured.stream.instructions, measured.stream.references]
            .into_iter()
            .chain((0..measured.caches.len()).map(|cache| measured.demand_misses(cache)));
        for (place, (sum, total)) in sum.into_iter().zip(total).enumerate() {
            if sum != total {
                let what = match place {
                    0 => "instructions".to_string(),
                    1 => "references".to_string(),
                    cache => format!("misses of cache {}", cache - 1),
                };
                return Err(broken(
                    &format!("{sum} {what} over all processes"),
                    &format!("the sum over processes is the total ({total})"),
                    seed,
                ));
            }
        }
        Ok(())
    }
}

/// Returns the problem that an invariant of a run is broken.
pub(crate) fn broken(value: &str, rule: &str, seed: u64) -> Box<Problem> {
    Problem::run(
        value,
        &format!("seed {seed}"),
        rule,
        "this is a defect of binhop: please report it with the command",
    )
}
