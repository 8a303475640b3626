//! `DramMemory` is memory with a controller behind a scheme for device data.
//!
//! # Rules
//! - The processor and the devices are two agents, each with one read outstanding: an agent's next reference arrives
//!   when its last read is done. Writes and prefetches are posted; an agent waits for them only where a queue is full.
//! - Requests enter the controller in the order of the stream. The agents overlap, because each has a clock of its own.
//! - The cycles of caches are cycles of the processor's clock, and `ratio` of these cycles make one cycle of the
//!   memory's clock.

use binhop_base::Result;

use super::{Dram, DramConfig, DramListener, DramRequest, RowOutcome};
use crate::dma::{LineMemory, LineUse, TapClass};

/// `Requester` is the processor or the devices, with a clock of its own.
#[derive(Clone, Copy, Debug, Default)]
struct Requester {
    /// The cycle of the memory at which the next request can arrive.
    time: u64,
    /// The cycles of the processor's clock that pass before the next request, beside the outstanding read.
    passes: u64,
    /// True if the next request belongs to another reference.
    ended: bool,
    /// The read that is outstanding: its number and its line.
    outstanding: Option<(u64, u64)>,
}

/// `DoneReads` notes when the outstanding reads are done, and when the last request is.
#[derive(Clone, Copy, Debug, Default)]
struct DoneReads {
    awaited: [Option<u64>; 2],
    at: [Option<u64>; 2],
    last: u64,
}

impl DramListener for DoneReads {
    fn done(&mut self, request: u64, cycle: u64, _: RowOutcome) {
        self.last = self.last.max(cycle);
        for (awaited, at) in self.awaited.iter().zip(&mut self.at) {
            if *awaited == Some(request) {
                *at = Some(cycle);
            }
        }
    }
}

/// `DramMemory` serves a scheme, and keeps the time of its agents.
#[derive(Clone, Debug)]
pub struct DramMemory {
    dram: Dram,
    ratio: u64,
    requesters: [Requester; 2],
    done: DoneReads,
    /// The requests since they were last taken, if they are kept.
    kept: Option<Vec<DramRequest>>,
}

impl DramMemory {
    /// Makes the memory. `ratio` is the number of cycles of the processor's clock in a cycle of the memory's clock.
    ///
    /// # Errors
    /// The configuration is refused by [`DramConfig::check`].
    pub fn new(config: DramConfig, ratio: u64) -> Result<Self> {
        let requesters = [Requester::default(); 2];
        let (dram, done) = (Dram::new(config)?, DoneReads::default());
        Ok(Self { dram, ratio: ratio.max(1), requesters, done, kept: None })
    }

    /// Keeps the requests from here on, for [`take_requests`](Self::take_requests).
    pub fn keep_requests(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// Moves the requests that were kept to the end of a list. Each arrives by its agent's clock, so a request may
    /// arrive earlier than the request before it.
    pub fn take_requests(&mut self, list: &mut Vec<DramRequest>) {
        if let Some(kept) = &mut self.kept {
            list.append(kept);
        }
    }

    /// Serves every request that waits, and lets memory run until the last reference is complete, too. Returns the
    /// cycle of the memory's clock at which the last data were on the bus.
    pub fn finish(&mut self) -> u64 {
        self.dram.finish(&mut self.done);
        let end = self.done.last.max(self.end_of_references());
        self.dram.go_on_until(end, &mut self.done);
        self.done.last
    }

    /// Returns the cycle of the memory's clock at which the last reference of the processor or of a device is
    /// complete, once every request is served. Posted writes may be on the bus later, and caches may serve references
    /// long after them.
    #[must_use]
    pub fn end_of_references(&self) -> u64 {
        let end = |(agent, done): (&Requester, &Option<u64>)| {
            agent.time.max(done.unwrap_or(0)) + agent.passes.div_ceil(self.ratio)
        };
        self.requesters.iter().zip(&self.done.at).map(end).max().unwrap_or(0)
    }

    /// Returns the memory with its counts. Its requests are counted by [`TapClass`].
    #[must_use]
    pub const fn dram(&self) -> &Dram {
        &self.dram
    }

    /// Lets an agent wait for its outstanding read.
    fn wait(&mut self, agent: usize) {
        let Some((number, line)) = self.requesters[agent].outstanding.take() else { return };
        debug_assert_eq!(self.done.awaited[agent], Some(number));
        let at = loop {
            if let Some(at) = self.done.at[agent].take() {
                break at;
            }
            self.dram.step(line, &mut self.done);
        };
        self.done.awaited[agent] = None;
        self.requesters[agent].time = self.requesters[agent].time.max(at);
    }

    /// Begins another reference of an agent, if its last one has ended.
    fn begin(&mut self, agent: usize) {
        if !self.requesters[agent].ended {
            return;
        }
        self.wait(agent);
        let requester = &mut self.requesters[agent];
        requester.time += requester.passes / self.ratio;
        requester.passes %= self.ratio;
        requester.ended = false;
    }
}

const fn agent_of(class: TapClass) -> usize {
    class.is_of_a_device() as usize
}

impl LineMemory for DramMemory {
    fn access(&mut self, line: u64, class: TapClass, line_use: LineUse) -> u64 {
        let agent = agent_of(class);
        self.begin(agent);
        if line_use == LineUse::Demand {
            self.wait(agent);
            self.done.awaited[agent] = Some(self.dram.next_number());
        }
        let request = DramRequest {
            arrival: self.requesters[agent].time,
            line,
            write: line_use == LineUse::PostedWrite,
            class: class as u8,
        };
        if let Some(kept) = &mut self.kept {
            kept.push(request);
        }
        let (number, enters) = self.dram.push(&request, &mut self.done);
        self.requesters[agent].time = self.requesters[agent].time.max(enters);
        if line_use == LineUse::Demand {
            self.requesters[agent].outstanding = Some((number, line));
        }
        0
    }

    fn pass(&mut self, class: TapClass, cycles: u64) {
        let requester = &mut self.requesters[agent_of(class)];
        requester.passes += cycles;
        requester.ended = true;
    }
}
