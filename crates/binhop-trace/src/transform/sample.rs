//! Windows of a trace.

use binhop_base::{Domain, Problem, Result, Rng, Stream};

use super::part::{Choice, Choose};
use super::position;
use crate::event::Event;
use crate::source::Meta;

/// Which references a sample keeps: a window of so many references in every stretch of so many.
///
/// Caches that are simulated on a sample come cold, or warm with the window before, into each window: its first
/// misses are partly those of what was left out. Long windows, or a warm-up within each (the part of a window that
/// fills the caches and is not believed), are the remedy; a sample is right for what does not remember.
#[derive(Clone, Debug)]
pub struct Windows {
    every: u64,
    window: u64,
    /// Draws each window's place in its stretch; at its beginning if absent.
    seed: Option<u64>,
    at: u64,
    stretch: u64,
    /// The window in the current stretch: first reference, and the one behind the last.
    open: (u64, u64),
}

impl Windows {
    /// A window of `window` references in every stretch of `every`: at its beginning, or where the seed draws it.
    ///
    /// # Errors
    /// A length is 0, or a window longer than its stretch.
    pub fn new(every: u64, window: u64, seed: Option<u64>) -> Result<Self> {
        if window == 0 || window > every {
            return Err(Problem::request(
                &format!("{window} of every {every}"),
                "sample",
                "a window holds at least one reference, and at most those of its stretch",
                "write it like --every 10M --window 1M",
            ));
        }
        let mut windows = Self { every, window, seed, at: 0, stretch: 0, open: (0, 0) };
        windows.open_window();
        Ok(windows)
    }

    fn open_window(&mut self) {
        let stream = Stream::new(Domain::Sample, 0);
        let places = self.every - self.window + 1;
        let place = self.seed.map_or(0, |seed| Rng::new(seed).below(stream, self.stretch, places));
        let first = self.stretch.saturating_mul(self.every).saturating_add(place);
        self.open = (first, first.saturating_add(self.window));
    }
}

impl Choose for Windows {
    fn choose(&mut self, event: &Event, _: &Meta) -> Choice {
        self.at += event.references();
        let at = position(self.at);
        let stretch = at / self.every;
        if stretch != self.stretch {
            self.stretch = stretch;
            self.open_window();
        }
        if (self.open.0..self.open.1).contains(&at) { Choice::Keep } else { Choice::State }
    }

    fn nothing(&self) -> (String, String) {
        let rule = format!("no window lies within the trace's {} references", self.at);
        (format!("{} of every {}", self.window, self.every), rule)
    }
}
