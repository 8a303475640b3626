//! `dram_stream` passes on the requests that a memory with a controller gets behind a scheme for device data.
//!
//! # Rules
//! - A request has the cycle of the memory's clock at which its agent makes it. The requests come in the order in which
//!   the controller takes them. If the clock of an agent is behind, its request has the cycle of the request before it,
//!   because the controller cannot take the request sooner.
//! - Therefore a controller that is given only these requests issues the same commands at the same cycles.
//! - The number of a line beyond the memory's end is taken modulo the number of lines in memory, as in
//!   [`AddressMapping`](binhop_hw::AddressMapping).

use binhop_base::{Problem, Result, counted};
use binhop_hw::{DramOrganisation, DramRequest, SchemeConfig, check_scheme, make_scheme};
use binhop_trace::Source;
use binhop_trace::export::MemoryAccess;

use super::FrontEvent;
use super::scheme_memory::{DramData, SchemeMemory};
use crate::machine::{Machine, SchemeSetup};
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::results::Outcome;
use crate::run::front_stream;

const LINE: u64 = DramOrganisation::LINE;

/// Simulates a scheme behind the front of a machine under one placement, and passes on the requests that its memory
/// gets. Returns the outcome of the front, with notes, and the counts of the memory.
///
/// # Errors
/// The errors of [`compare_schemes`](super::compare_schemes), or the memory has no controller. An error of `take` ends
/// the run.
///
/// # Panics
/// The options do not have exactly one seed.
pub fn dram_stream(
    machine: &Machine,
    source: Box<dyn Source>,
    options: &RunOptions,
    setup: &SchemeSetup,
    take: &mut dyn FnMut(&[MemoryAccess]) -> Result<()>,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<(Outcome, DramData)> {
    assert_eq!(options.seeds.len(), 1, "the requests are those of one placement");
    let Some(dram) = setup.dram else {
        return Err(Problem::request(
            "no [dram]",
            &format!("machine {}", machine.name()),
            "requests of a scheme go to a memory with a controller, which gives them their cycles",
            "name a memory, as in --set dram=ddr4-2400",
        ));
    };
    let config = SchemeConfig { seed: options.seeds[0], ..setup.config };
    let (mut scheme, mut memory) = (make_scheme(&config)?, SchemeMemory::of(setup)?);
    memory.keep_requests();
    let mut writer = AccessWriter::new(dram.config.organisation.bytes());
    let mut hear = |_: usize, events: &[FrontEvent]| {
        for event in events {
            if let FrontEvent::Line(event) = *event {
                memory.serve(&mut *scheme, event);
            }
        }
        memory.take_requests(&mut writer.requests);
        take(writer.accesses())
    };
    let mut front = front_stream(&machine.front()?, source, options, &mut hear, progress)?;
    check_scheme(&config, &*scheme)?;
    let counts = memory.finish().expect("the memory has a controller");
    front.notes.extend(writer.note());
    Ok((front, counts))
}

/// `AccessWriter` turns requests into accesses.
struct AccessWriter {
    requests: Vec<DramRequest>,
    accesses: Vec<MemoryAccess>,
    bytes: u64,
    /// The cycle of the last access.
    last: u64,
    /// The requests for lines beyond the memory.
    beyond: u64,
}

impl AccessWriter {
    fn new(bytes: u64) -> Self {
        Self { requests: Vec::new(), accesses: Vec::new(), bytes, last: 0, beyond: 0 }
    }

    /// Returns the accesses of the requests that have come since the last call.
    fn accesses(&mut self) -> &[MemoryAccess] {
        self.accesses.clear();
        let lines = self.bytes / LINE;
        for DramRequest { arrival, line, write, .. } in self.requests.drain(..) {
            self.last = self.last.max(arrival);
            self.beyond += u64::from(line >= lines);
            self.accesses.push(MemoryAccess {
                addr: line % lines * LINE,
                write,
                cycle: self.last,
                of_memory: true,
            });
        }
        &self.accesses
    }

    fn note(&self) -> Option<String> {
        let Self { beyond, bytes, .. } = self;
        (*beyond > 0).then(|| {
            format!(
                "{} beyond the {bytes} bytes of [dram]: the controller counts addresses from 0 again there",
                counted(*beyond, ["request lies", "requests lie"])
            )
        })
    }
}
