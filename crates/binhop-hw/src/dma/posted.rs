//! `PostedMemory` is memory of fixed latency with a queue of posted requests.
//!
//! # Rules
//! - The references of a scheme are served one after another. A clock passes the cycles of each reference: first
//!   the cycles that it waits for memory, and then the cycles of its accesses to caches.
//! - A demand read takes the latency. A posted request, which is a write or a prefetch, takes a place in the queue for
//!   the latency, and nobody waits for it. If no place is free, the reference that posts waits for the oldest request.
//! - A reference to a line of a posted request waits for the request: a demand read before it begins, and the first
//!   use of a prefetched line in a cache.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use super::{FixedLatency, LineMemory, LineUse, TapClass};

/// `PostedMemory` serves a scheme, and keeps the time of its references.
#[derive(Clone, Debug)]
pub struct PostedMemory {
    latency: u64,
    places: usize,
    clock: u64,
    /// The cycles of the present reference that the clock has passed already.
    waited: u64,
    /// The posted requests that are under way, oldest first: the line, and the cycle at which the request is done.
    under_way: VecDeque<(u64, u64)>,
}

impl PostedMemory {
    /// Makes memory of a fixed latency whose queue has some places.
    #[must_use]
    pub fn new(fixed: FixedLatency, places: NonZeroU32) -> Self {
        let places = places.get() as usize;
        Self { latency: fixed.cycles, places, clock: 0, waited: 0, under_way: VecDeque::new() }
    }

    /// Returns the cycle at which the last reference has ended: the sum of the cycles of all references.
    #[must_use]
    pub const fn clock(&self) -> u64 {
        self.clock
    }

    /// Lets the present reference wait for some cycles. Requests that are done then leave the queue.
    fn wait(&mut self, cycles: u64) -> u64 {
        self.clock += cycles;
        self.waited += cycles;
        self.retire();
        cycles
    }

    fn retire(&mut self) {
        while self.under_way.front().is_some_and(|&(_, done)| done <= self.clock) {
            self.under_way.pop_front();
        }
    }

    /// Waits until the requests of a line that are under way are done.
    fn wait_for_line(&mut self, line: u64) -> u64 {
        let last = self.under_way.iter().rev().find(|&&(of, _)| of == line);
        let left = last.map_or(0, |&(_, done)| done - self.clock);
        self.wait(left)
    }
}

impl LineMemory for PostedMemory {
    fn access(&mut self, line: u64, _class: TapClass, line_use: LineUse) -> u64 {
        if line_use == LineUse::Demand {
            return self.wait_for_line(line) + self.wait(self.latency);
        }
        let oldest = self.under_way.front().filter(|_| self.under_way.len() == self.places);
        let left = oldest.map_or(0, |&(_, done)| done - self.clock);
        let waited = self.wait(left);
        self.under_way.push_back((line, self.clock + self.latency));
        waited
    }

    fn await_prefetch(&mut self, line: u64) -> u64 {
        self.wait_for_line(line)
    }

    fn pass(&mut self, _class: TapClass, cycles: u64) {
        self.clock += cycles - std::mem::take(&mut self.waited);
        self.retire();
    }
}
