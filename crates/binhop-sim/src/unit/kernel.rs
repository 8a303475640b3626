//! `KernelUnit` references and flushes what the kernel does at switches, page faults and system calls (MB90 §6.1).
//!
//! # Rules
//! - The footprint of a switch belongs to the process that comes. The footprint of a fault or a call belongs to the
//!   process that runs.
//! - The kernel first flushes the caches that are named. A flush takes no time. All private caches are flushed
//!   likewise.
//! - Code is fetched from its first line to its last line; then data is loaded, and then stored, in the same order.
//!   The processor waits for these accesses. Instructions of the kernel are not counted
//!   as instructions, and take no cycle beside the waits.
//! - The kernel's text and data lie in pages of their own, which are wired.

use std::ops::Range;
use std::sync::Arc;

use binhop_base::{Agent, Kind, PowerOfTwo, Result};
use binhop_hw::Tree;

use super::{Injector, Unit, Units};
use crate::machine::{Footprint, KernelConfig, Machine};
use crate::occasion::{Lines, Occasion, OccasionKind, Subscription, TouchedLines};

/// `KernelUnit` is the kernel of one lane.
struct KernelUnit {
    kernel: KernelConfig,
    page: PowerOfTwo,
    /// The pages of the kernel's text. Those of its data come next.
    text_pages: u64,
    /// The bytes of the lines in which instructions and data are accessed.
    lines: [u64; 2],
}

/// Makes the unit that acts as a machine's kernel; `None` if the kernel references nothing.
pub(crate) fn kernel_units(machine: &Machine) -> Option<Units> {
    let kernel = machine.kernel();
    kernel.footprints().next()?;
    let page = machine.memory().page;
    let [text, data] = kernel.extent().map(|bytes| bytes.div_ceil(page.bytes()));
    let mut subscription = Subscription::new((text + data) as u32, &[Agent::Kernel]);
    let kinds = [
        (&kernel.switch, &[OccasionKind::Switch][..]),
        (&kernel.fault, &[OccasionKind::FirstTouch, OccasionKind::Return][..]),
        (&kernel.syscall, &[OccasionKind::Syscall][..]),
    ];
    for (footprint, kinds) in kinds {
        for &kind in kinds {
            if let Some(footprint) = footprint {
                subscription = subscription.at(kind, touched(footprint, machine.tree(), page));
            }
        }
    }
    Some(Units::new(subscription, Arc::new(|machine: &Machine, _| Box::new(KernelUnit::new(machine)))))
}

/// Returns the lines that a footprint may touch.
fn touched(footprint: &Footprint, tree: &Tree, page: PowerOfTwo) -> TouchedLines {
    if footprint.flush.iter().any(|&cache| tree.in_front(cache)) {
        return TouchedLines::EVERYTHING;
    }
    let within = |bytes: &Range<u64>| {
        let (first, last) = (bytes.start % page.bytes(), bytes.end - bytes.start);
        match first + last {
            _ if bytes.is_empty() => Lines::None,
            end if end <= page.bytes() => Lines::Bytes(first..end),
            _ => Lines::All,
        }
    };
    let Footprint { code, loaded, stored, flush: _ } = footprint;
    // Loaded and stored data begin at the same place.
    let data = if loaded.end > stored.end { loaded } else { stored };
    TouchedLines { fetch: within(code), data: within(data) }
}

impl KernelUnit {
    fn new(machine: &Machine) -> Self {
        let config = machine.tree().config();
        Self {
            kernel: machine.kernel().clone(),
            page: machine.memory().page,
            text_pages: machine.kernel().extent()[0].div_ceil(machine.memory().page.bytes()),
            lines: [config.fetch, config.data].map(|cache| config.caches[cache].line.bytes()),
        }
    }

    /// Accesses every line that holds one of these bytes.
    fn walk(&self, kind: Kind, bytes: &Range<u64>, injector: &mut Injector<'_>) -> Result<()> {
        let (line, before) = match kind {
            Kind::Fetch => (self.lines[0], 0),
            _ => (self.lines[1], self.text_pages),
        };
        if bytes.is_empty() {
            return Ok(());
        }
        for number in bytes.start / line..bytes.end.div_ceil(line) {
            let at = number * line;
            let page = injector.own_page((before + at / self.page.bytes()) as u32);
            injector.access(Agent::Kernel, kind, page, at % self.page.bytes())?;
        }
        Ok(())
    }
}

impl Unit for KernelUnit {
    fn act(&mut self, occasion: &Occasion, injector: &mut Injector<'_>) -> Result<()> {
        let footprint = match occasion {
            Occasion::Switch { .. } => &self.kernel.switch,
            Occasion::Syscall { .. } => &self.kernel.syscall,
            Occasion::FirstTouch { .. } | Occasion::Return { .. } => &self.kernel.fault,
            Occasion::PageChange { .. } | Occasion::Miss { .. } | Occasion::Device { .. } => {
                unreachable!("the kernel does not ask for this occasion")
            }
        };
        let Some(footprint) = footprint else { return Ok(()) };
        injector.flush(Agent::Kernel, &footprint.flush)?;
        self.walk(Kind::Fetch, &footprint.code, injector)?;
        self.walk(Kind::Load, &footprint.loaded, injector)?;
        self.walk(Kind::Store, &footprint.stored, injector)
    }
}
