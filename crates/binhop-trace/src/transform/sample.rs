//! `Windows` samples a trace.

use binhop_base::{Domain, Problem, Result, Rng, Stream, counted};

use super::part::{Choice, Choose};
use super::position;
use crate::event::Event;
use crate::source::Meta;

/// `Windows` keeps a window of `window` references in every period of `every` references.
///
/// A cache that is simulated on a sample enters each window cold, or warm from the window before. So the
/// first misses of a window are partly misses of references that were left out. Use long windows, or a
/// warm-up within each window whose counts are dropped. A sample suits statistics that do not depend on
/// earlier references.
#[derive(Clone, Debug)]
pub struct Windows {
    every: u64,
    window: u64,
    /// The seed that draws the place of each window in its period. If absent, the window is at the
    /// beginning.
    seed: Option<u64>,
    at: u64,
    period: u64,
    /// The window in the current period: its first reference, and the reference behind its last.
    open: (u64, u64),
}

impl Windows {
    /// Makes a sample: a window of `window` references in every period of `every` references. The window is
    /// at the beginning of its period, or where the seed places it.
    ///
    /// # Errors
    /// A length is 0, or a window is longer than its period.
    pub fn new(every: u64, window: u64, seed: Option<u64>) -> Result<Self> {
        if window == 0 || window > every {
            return Err(Problem::request(
                &format!("{window} of every {every}"),
                "sample",
                "a window holds at least one reference, and is no longer than its period",
                "write it like --every 10M --window 1M",
            ));
        }
        let mut windows = Self { every, window, seed, at: 0, period: 0, open: (0, 0) };
        windows.open_window();
        Ok(windows)
    }

    fn open_window(&mut self) {
        let stream = Stream::new(Domain::Sample, 0);
        let places = self.every - self.window + 1;
        let place = self.seed.map_or(0, |seed| Rng::new(seed).below(stream, self.period, places));
        let first = self.period.saturating_mul(self.every).saturating_add(place);
        self.open = (first, first.saturating_add(self.window));
    }
}

impl Choose for Windows {
    fn choose(&mut self, event: &Event, _: &Meta) -> Choice {
        self.at += event.references();
        let at = position(self.at);
        let period = at / self.every;
        if period != self.period {
            self.period = period;
            self.open_window();
        }
        if (self.open.0..self.open.1).contains(&at) { Choice::Keep } else { Choice::State }
    }

    fn nothing(&self) -> (String, String) {
        let rule = format!(
            "no window lies within the trace, which has {}",
            counted(self.at, ["reference", "references"])
        );
        (format!("{} of every {}", self.window, self.every), rule)
    }
}
