//! `SchemeMemory` is the memory behind a scheme for device data. It has a fixed latency, with or without a queue of
//! posted requests, or it has a controller.

use binhop_base::Result;
use binhop_hw::{
    DramCounters, DramMemory, DramRequest, DramUseCounters, FixedLatency, LineMemory, PostedMemory, Scheme,
    TapClass, TapEvent,
};

use crate::machine::SchemeSetup;

/// `SchemeMemory` is the memory behind a scheme.
pub(super) enum SchemeMemory {
    Fixed(FixedLatency),
    Posted(PostedMemory),
    Dram(Box<DramMemory>),
}

impl SchemeMemory {
    pub(super) fn of(setup: &SchemeSetup) -> Result<Self> {
        Ok(match (setup.dram, setup.posted) {
            (Some(dram), _) => Self::Dram(Box::new(DramMemory::new(dram.config, dram.ratio)?)),
            (None, Some(places)) => Self::Posted(PostedMemory::new(setup.fixed, places)),
            (None, None) => Self::Fixed(setup.fixed),
        })
    }

    /// Lets a scheme handle an event.
    pub(super) fn serve(&mut self, scheme: &mut dyn Scheme, event: TapEvent) {
        match self {
            Self::Fixed(memory) => drop(scheme.event(event, memory)),
            Self::Posted(memory) => serve_and_pass(scheme, memory, event),
            Self::Dram(memory) => serve_and_pass(scheme, &mut **memory, event),
        }
    }

    /// Returns the cycles that memory with a queue of posted requests has passed.
    pub(super) const fn clock(&self) -> Option<u64> {
        match self {
            Self::Posted(memory) => Some(memory.clock()),
            Self::Fixed(_) | Self::Dram(_) => None,
        }
    }

    /// Keeps the requests to a memory with a controller from here on.
    pub(super) fn keep_requests(&mut self) {
        if let Self::Dram(memory) = self {
            memory.keep_requests();
        }
    }

    /// Moves the requests that were kept to the end of a list.
    pub(super) fn take_requests(&mut self, list: &mut Vec<DramRequest>) {
        if let Self::Dram(memory) = self {
            memory.take_requests(list);
        }
    }

    /// Ends the run of a memory with a controller, and returns its counts.
    pub(super) fn finish(self) -> Option<DramData> {
        let Self::Dram(mut memory) = self else { return None };
        let cycles = memory.finish();
        let dram = memory.dram();
        let classes = [0, 1, 2, 3].map(|class| *dram.class(class));
        let reference_cycles = memory.end_of_references();
        Some(DramData { cycles, reference_cycles, classes, commands: dram.counters() })
    }
}

/// Lets a scheme handle an event, and memory pass its cycles.
fn serve_and_pass(scheme: &mut dyn Scheme, memory: &mut dyn LineMemory, event: TapEvent) {
    let answer = scheme.event(event, memory);
    if let (Some(class), Some(answer)) = (event.class(), answer) {
        memory.pass(class, answer.cycles);
    }
}

/// `DramData` holds the counts of a memory with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramData {
    /// The cycle of the memory's clock at which the last data were on the bus.
    pub cycles: u64,
    /// The cycle of the memory's clock at which the last reference was complete.
    pub reference_cycles: u64,
    /// The counts of requests, by class of the reference ([`TapClass::ALL`]).
    pub classes: [DramUseCounters; TapClass::ALL.len()],
    /// The counts of commands and buses.
    pub commands: DramCounters,
}
