//! Transformations make a source of one or several sources: a part of a trace, or several traces joined. They
//! stream, and their memory does not grow with the trace.
//!
//! **A part is a trace.** A part leaves out references, system calls, times and events of devices. It keeps
//! every event that changes the state of the address spaces (switch, map, protect, unmap, fork, exec, exit,
//! kernel-enter, kernel-leave), wherever the event stands. So each reference of the part finds its mappings,
//! and pages shared by a fork are shared. Of several switches that are left out with no kept row between them,
//! only the last switch is kept.
//!
//! **Positions** are numbers of references, counted as everywhere (see `totals.rs`). A row lies at the
//! position of its last reference (see `head.rs`). So a run across a boundary belongs to the part behind the
//! boundary, as with the warm-up and the intervals of a simulation. Only slices split runs of one-byte instructions,
//! as a length does. Consecutive parts together hold every row once.

mod head;
mod join;
mod part;
mod regions;
mod sample;
mod select;

use binhop_base::{Problem, Result, counted};

pub use head::{Limit, head};
pub use join::Joined;
pub use sample::Windows;
pub use select::{Mode, Selection};

use crate::event::{Event, EventBatch};
use crate::source::{Meta, Source};
use part::{Choice, Choose, TracePart};

/// Keeps the first `rows` rows of a trace, of any kind.
#[must_use]
pub fn first_rows(source: Box<dyn Source>, rows: u64) -> Box<dyn Source> {
    Box::new(FirstRows { source, left: rows })
}

struct FirstRows {
    source: Box<dyn Source>,
    left: u64,
}

impl Source for FirstRows {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn meta(&self) -> &Meta {
        self.source.meta()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(batch) = self.source.next_batch()? else { return Ok(None) };
        let rows = self.left.min(batch.len() as u64);
        self.left -= rows;
        Ok(Some(batch.slice(0, rows as usize)))
    }
}

/// Keeps the references from position `from` up to `to` (to the end, if absent), and the state that they
/// need.
///
/// # Errors
/// `to` is not greater than `from`.
pub fn slice(source: Box<dyn Source>, from: u64, to: Option<u64>) -> Result<Box<dyn Source>> {
    if to.is_some_and(|to| to <= from) {
        return Err(Problem::request(
            &format!("{from} to {}", to.unwrap_or_default()),
            "slice",
            "a slice ends behind its beginning",
            "give the position of its first reference, then that behind its last",
        ));
    }
    Ok(TracePart::source(head(source, to), Slice { at: 0, from }))
}

struct Slice {
    at: u64,
    from: u64,
}

impl Choose for Slice {
    fn choose(&mut self, event: &Event, _: &Meta) -> Choice {
        let before = self.from.saturating_sub(self.at);
        self.at += event.references();
        if position(self.at) >= self.from {
            match head::split(event, before) {
                None => Choice::Keep,
                Some((_, behind)) => Choice::Part(behind),
            }
        } else {
            Choice::State
        }
    }

    fn nothing(&self) -> (String, String) {
        let rule = format!(
            "the trace holds {} up to there, and no whole row behind",
            counted(self.at, ["reference", "references"])
        );
        (format!("from {}", self.from), rule)
    }
}

/// Returns the position of a row after which this many references have been read.
fn position(references: u64) -> u64 {
    references.saturating_sub(1)
}

/// Keeps windows of a trace, and the state that they need. The windows lie at even distances or at random
/// places.
#[must_use]
pub fn sample(source: Box<dyn Source>, windows: Windows) -> Box<dyn Source> {
    TracePart::source(source, windows)
}

/// Keeps the rows of a trace that pass a selection.
///
/// # Errors
/// The selection names what the trace's metadata do not know.
pub fn select(source: Box<dyn Source>, selection: &Selection) -> Result<Box<dyn Source>> {
    let selected = select::Selector::new(selection, source.meta())?;
    Ok(TracePart::source(source, selected))
}
