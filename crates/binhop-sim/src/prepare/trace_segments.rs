//! This part of preparation divides what each life runs into segments and pieces, for the tables of switches.
//!
//! # Rules
//! - A *segment* is what one life (see [`super::lives`]) runs from a switch to the next switch to another life.
//!   A switch to the same life ends no segment: another thread of the address space comes, or the same thread
//!   goes on.
//! - The first [`INTERVALS_OF_A_SEGMENT`] intervals of each length in [`INTERVAL_LENGTHS`] divide a segment into
//!   *pieces*. A row across the end of an interval belongs to the next interval.
//! - During the first [`CODE_WINDOW`] instructions of a segment every fetch is passed, so that lanes know which
//!   page of code runs.

use binhop_base::Asid;

use super::{Control, Prepare};

/// The lengths, in instructions, of the intervals after a switch (MB90 §3.2). Each length is a multiple of the
/// length before it.
pub(crate) const INTERVAL_LENGTHS: [u64; 2] = [1_000, 10_000];

/// The number of intervals of each length after a switch (MB90 §3.2).
pub(crate) const INTERVALS_OF_A_SEGMENT: u64 = 100;

/// The instructions after a switch in which cycles are counted by the page of code that runs (our choice).
pub(crate) const CODE_WINDOW: u64 = 10_000;

/// `TraceSegment` is the state of the running segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceSegment {
    /// The life that runs.
    life: u32,
    /// The instructions of the stream before the segment.
    start: u64,
    /// The instructions from the switch to the end of the current interval. `None` after the last interval.
    end: Option<u64>,
}

impl TraceSegment {
    pub(super) fn new() -> Self {
        Self { life: 0, start: 0, end: None }
    }

    /// Returns the instructions of the stream at which the next piece begins.
    pub(super) fn next_cut(&self) -> Option<u64> {
        self.end.map(|end| self.start + end)
    }

    /// Returns whether a process that runs next begins a segment: it has another life than the process that ran
    /// `before`.
    pub(super) fn is_of_another(&self, before: Asid, asid: Asid, life: u32) -> bool {
        before != asid || self.life != life
    }

    /// Returns whether every fetch is passed here.
    pub(super) fn in_code_window(&self) -> bool {
        self.end.is_some_and(|end| end <= CODE_WINDOW)
    }

    /// Ends the current interval. Returns its end, in instructions since the switch.
    fn end_interval(&mut self) -> u64 {
        let ended = self.end.expect("an interval is ended where one is under way");
        let next = |length: u64| ended / length * length + length;
        let within = |length: &&u64| ended < **length * INTERVALS_OF_A_SEGMENT;
        self.end = INTERVAL_LENGTHS.iter().find(within).map(|&length| next(length));
        ended
    }
}

impl Prepare {
    /// Returns whether a switch to this address space brings a new life, although the address space runs already.
    pub(super) fn brings_new_life(&self, asid: Asid) -> bool {
        self.trace_segment
            .is_some_and(|segment| asid == self.running.asid && self.lives.comes(asid) != segment.life)
    }

    /// Begins a segment, if another life runs from here on.
    pub(super) fn begin_segment(&mut self, life: u32) {
        if let Some(segment) = &mut self.trace_segment {
            *segment = TraceSegment { life, start: self.stream.instructions, end: Some(INTERVAL_LENGTHS[0]) };
            self.set_next_interval();
            self.set_trust();
        }
    }

    /// Emits the end of a piece.
    pub(super) fn end_piece(&mut self) {
        let segment = self.trace_segment.as_mut().expect("pieces are ends of intervals in segments");
        let was_in_window = segment.in_code_window();
        let since = segment.end_interval();
        let leaves_window = was_in_window && !segment.in_code_window();
        self.instructions_at_row = self.stream.instructions;
        self.control(Control::Piece { since, instructions: self.stream.instructions });
        if leaves_window {
            self.set_trust();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_a_hundred_intervals_of_each_length() {
        let mut segment = TraceSegment { life: 0, start: 0, end: Some(INTERVAL_LENGTHS[0]) };
        let mut ends = Vec::new();
        while segment.end.is_some() {
            ends.push(segment.end_interval());
        }
        let short = (1..=100).map(|number| number * 1_000);
        let long = (11..=100).map(|number| number * 10_000);
        assert_eq!(ends, short.chain(long).collect::<Vec<u64>>());
    }
}
