//! `Walk` passes over the events once and keeps the state that the rules need: live address spaces, mappings,
//! the kernel.

use std::collections::BTreeMap;

use super::ranges::{MappedRanges, SpaceRanges};
use super::{Findings, RuleId};
use crate::bounds::exceeds;
use crate::event::{Cause, Event, EventBatch, Op, map_flags};
use crate::source::{ASSUMED_PAGE, Meta};
use binhop_base::counted;

/// The longest instruction of the machines traced (Intel SDM vol. 2, §2.3.11: 15 bytes).
const LONGEST_INSTRUCTION: u64 = 15;

/// `SpaceState` is the state of an address space, as its events define it.
#[derive(Debug)]
struct SpaceState {
    alive: bool,
    /// True once a map event came. From then on, references outside the mappings are findings.
    mapped: bool,
    maps: SpaceRanges,
    /// The row of the first switch to the address space.
    first_switch: Option<u64>,
    /// True once the address space made a reference of its own, in this life or an earlier one.
    has_run: bool,
}

impl Default for SpaceState {
    fn default() -> Self {
        Self { alive: true, mapped: false, maps: SpaceRanges::default(), first_switch: None, has_run: false }
    }
}

/// `Walk` is the state between two events.
pub(super) struct Walk {
    page: u64,
    row: u64,
    spaces: BTreeMap<u64, SpaceState>,
    maps: MappedRanges,
    current: u64,
    kernel: u32,
    time: u64,
    /// True if there was a system call since the last switch.
    called: bool,
}

impl Walk {
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            page: meta.known_page_size().unwrap_or(ASSUMED_PAGE),
            row: 0,
            spaces: BTreeMap::from([(0, SpaceState::default())]),
            maps: MappedRanges::default(),
            current: 0,
            kernel: 0,
            time: 0,
            called: false,
        }
    }

    pub(super) fn add(&mut self, batch: &EventBatch, findings: &mut Findings) {
        for row in 0..batch.len() {
            match Op::from_code(batch.op()[row]) {
                Some(op) if op.is_reference() => self.reference(&Event::of(batch, row), findings),
                Some(_) => self.system_event(&Event::of(batch, row), findings),
                None => findings.add(RuleId::UnknownOp, Some(self.row), || format!("op {}", batch.op()[row])),
            }
            self.row += 1;
        }
    }

    fn reference(&mut self, event: &Event, findings: &mut Findings) {
        let Event { op, addr, size, count, .. } = *event;
        let row = Some(self.row);
        let shape = || format!("{} at {addr:#x}, size {size}, count {count}", op.name());
        if exceeds(op as u8, size, count).is_some() {
            findings.add(RuleId::ReferenceLarge, row, shape);
        }
        if op == Op::Fetch {
            if size == 0 || count == 0 {
                findings.add(RuleId::FetchEmpty, row, shape);
            } else if u64::from(size) > LONGEST_INSTRUCTION * u64::from(count) {
                findings.add(RuleId::FetchLong, row, shape);
            }
        } else {
            if count != 1 {
                findings.add(RuleId::DataCount, row, shape);
            }
            if size == 0 {
                findings.add(RuleId::DataEmpty, row, shape);
            }
        }
        // The last byte may be the last of all addresses, so the end need not fit into 64 bits.
        let Some(last) = addr.checked_add(u64::from(size).saturating_sub(1)) else {
            return findings.add(RuleId::AddressOverflow, row, shape);
        };
        if self.kernel == 0 {
            let space = self.spaces.entry(self.current).or_default();
            space.has_run = true;
            if space.mapped && !self.maps.touch(&mut space.maps, addr, last.saturating_add(1)) {
                findings.add(RuleId::OutsideMaps, row, || {
                    format!("{} in address space {}", shape(), self.current)
                });
            }
        }
    }

    fn system_event(&mut self, event: &Event, findings: &mut Findings) {
        let (op, row) = (event.op, Some(self.row));
        match op {
            Op::Switch => self.switch(event, findings),
            Op::Syscall => self.called = true,
            Op::Range if !self.called => {
                findings.add(RuleId::RangeAlone, row, || format!("range at {:#x}", event.addr));
            }
            Op::Map | Op::Protect | Op::Unmap => self.mapping(event, findings),
            Op::Fork => self.fork(event, findings),
            Op::Exec | Op::Exit => self.end(event, findings),
            Op::DmaRead | Op::DmaWrite
                if event.addr.checked_add(u64::from(event.size).saturating_sub(1)).is_none() =>
            {
                let detail = || format!("{} at {:#x}, size {}", op.name(), event.addr, event.size);
                findings.add(RuleId::AddressOverflow, row, detail);
            }
            Op::Time => {
                if event.addr < self.time {
                    let detail = || format!("{} ns after {} ns", event.addr, self.time);
                    findings.add(RuleId::TimeBackward, row, detail);
                }
                self.time = self.time.max(event.addr);
            }
            Op::KernelEnter => self.kernel += 1,
            Op::KernelLeave => match self.kernel.checked_sub(1) {
                Some(depth) => self.kernel = depth,
                None => findings.add(RuleId::KernelLeave, row, || "kernel-leave without kernel-enter".into()),
            },
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event, findings: &mut Findings) {
        let row = Some(self.row);
        if event.arg0.is_none_or(|cause| cause > Cause::Exit as u64) {
            let cause = event.arg0.map_or("no cause".to_owned(), |cause| format!("cause {cause}"));
            findings
                .add(RuleId::SwitchCause, row, || format!("switch to address space {}, {cause}", event.addr));
        }
        self.called = false;
        self.current = event.addr;
        // An address space without an earlier event lived before the trace began.
        let space = self.spaces.entry(event.addr).or_default();
        space.first_switch.get_or_insert(self.row);
        if !space.alive {
            space.alive = true; // reported once only
            findings.add(RuleId::SwitchToExited, row, || format!("address space {}", event.addr));
        }
    }

    fn fork(&mut self, event: &Event, findings: &mut Findings) {
        let row = Some(self.row);
        let parent = event.arg0.and_then(|parent| self.spaces.get(&parent)).filter(|space| space.alive);
        let born = parent.map(|parent| SpaceState {
            alive: true,
            mapped: parent.mapped,
            maps: self.maps.share(&parent.maps),
            ..SpaceState::default()
        });
        if born.is_none() {
            let parent = event.arg0.map_or("no parent".to_owned(), |parent| format!("parent {parent}"));
            findings.add(RuleId::ForkParent, row, || format!("address space {}, {parent}", event.addr));
        }
        if let Some(before) = self.spaces.insert(event.addr, born.unwrap_or_default()) {
            if before.alive {
                findings.add(RuleId::ForkOfLive, row, || format!("address space {}", event.addr));
            }
            self.maps.release(before.maps);
            let born = self.spaces.get_mut(&event.addr).expect("the address space was just born");
            (born.first_switch, born.has_run) = (before.first_switch, before.has_run);
        }
    }

    /// Finds the broken rules that show only at the end of the trace.
    pub(super) fn finish(self, findings: &mut Findings) {
        let idle = self.spaces.iter().filter(|(_, space)| !space.has_run);
        for (asid, row) in idle.filter_map(|(asid, space)| Some((asid, space.first_switch?))) {
            findings.add(RuleId::SwitchNeverRuns, Some(row), || format!("address space {asid}"));
        }
    }

    fn end(&mut self, event: &Event, findings: &mut Findings) {
        match self.spaces.get_mut(&event.addr).filter(|space| space.alive) {
            Some(space) => {
                space.alive = event.op == Op::Exec;
                space.mapped &= event.op == Op::Exec;
                self.maps.release(std::mem::take(&mut space.maps));
            }
            None => {
                let detail = || format!("{} of address space {}", event.op.name(), event.addr);
                findings.add(RuleId::EndOfDead, Some(self.row), detail);
            }
        }
    }

    fn mapping(&mut self, event: &Event, findings: &mut Findings) {
        let (op, row) = (event.op, Some(self.row));
        let shape = || {
            let pages = counted(event.count.into(), ["page", "pages"]);
            format!("{} at {:#x}, {pages}, flags {}", op.name(), event.addr, event.size)
        };
        if !event.addr.is_multiple_of(self.page) {
            findings.add(RuleId::MapAligned, row, shape);
        }
        if op != Op::Unmap && event.size & !map_flags::ALL != 0 {
            findings.add(RuleId::MapFlags, row, shape);
        }
        // A mapping may reach the end of the address space. Its last byte then stands for its end.
        let bytes = u64::from(event.count) * self.page;
        let end = match event.addr.checked_add(bytes.saturating_sub(1)) {
            Some(last) if bytes > 0 => last.saturating_add(1),
            _ => return findings.add(RuleId::MapEmpty, row, shape),
        };
        let space = self.spaces.entry(self.current).or_default();
        let known = match op {
            Op::Map => {
                space.mapped = true;
                self.maps.map(&mut space.maps, event.addr, end, event.size);
                true
            }
            Op::Unmap => self.maps.unmap(&mut space.maps, event.addr, end),
            _ => self.maps.covers(&mut space.maps, event.addr, end),
        };
        if !known {
            findings.add(RuleId::UnmapUnmapped, row, shape);
        }
    }
}
