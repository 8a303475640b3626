//! `Progress` tells how far a run is. `ProgressReporter` asks whether the run goes on.

use std::cell::{Cell, RefCell};

use binhop_base::Result;

/// `Progress` tells how far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The references prepared so far.
    pub references: u64,
    /// The references that the run will prepare, if their number is known. The number is estimated where the
    /// options count instructions.
    pub of: Option<u64>,
}

/// `Tell` is a function that hears how far a run is. An error that it returns ends the run.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(&Progress) -> Result<()>;

/// `InterruptCheck` is a function that long work calls from time to time. An error that it returns means that
/// the work must stop.
pub type InterruptCheck<'a> = &'a dyn Fn() -> Result<()>;

/// `ProgressReporter` calls the listener between batches and within them, so that a run that must stop does not first
/// simulate a batch in all lanes.
pub(crate) struct ProgressReporter<'a> {
    progress: RefCell<Tell<'a>>,
    last: Cell<Progress>,
}

impl<'a> ProgressReporter<'a> {
    /// Makes a reporter for a run of `of` references, if their number is known.
    pub(crate) fn new(of: Option<u64>, progress: Tell<'a>) -> Self {
        Self { progress: RefCell::new(progress), last: Cell::new(Progress { references: 0, of }) }
    }

    /// Reports how far the run is now.
    pub(crate) fn report(&self, now: Progress) -> Result<()> {
        self.last.set(now);
        self.check_interrupt()
    }

    /// Reports the same progress again, and so asks whether the run goes on.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        (self.progress.borrow_mut())(&self.last.get())
    }
}
