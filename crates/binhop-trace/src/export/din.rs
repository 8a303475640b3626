//! `DinExport` writes Dinero's text: "din" and "xdin".
//!
//! A fetch run becomes a line for each instruction, a load or a store becomes a line, and a modify becomes a
//! read and a write. A trace does not record where instructions begin within a run. Of n instructions in b
//! bytes, instruction i (from 0) is assumed to begin at byte ⌊i·b/n⌋, so that the instructions cover the run
//! without gap or overlap.

use std::io::Write;

use super::{Exporter, RecordSink, Virtual, Wanted, Writes};
use crate::event::{Event, Op};
use binhop_base::counted_notes;

/// The entry of "din" in the list.
pub(super) const DIN: Exporter = Exporter {
    name: "din",
    what: "Dinero III's text: label (0 read, 1 write, 2 fetch) and hexadecimal address",
    example: "2 408ed4",
    lost: "sizes; where instructions begin within a run; which process runs, and all system events; a modify becomes a read and a write",
    writes: Writes::Virtual(|| Box::new(DinExport { sized: false, ..DinExport::default() })),
};

/// The entry of "xdin" in the list.
pub(super) const XDIN: Exporter = Exporter {
    name: "xdin",
    what: "Dinero IV's text: letter (i fetch, r read, w write), hexadecimal address, hexadecimal size",
    example: "r 7fffd8c7c 4",
    lost: "where instructions begin within a run; which process runs, and all system events; a modify becomes a read and a write",
    writes: Writes::Virtual(|| Box::new(DinExport { sized: true, ..DinExport::default() })),
};

#[derive(Default)]
struct DinExport {
    sized: bool,
    left_out: LeftOut,
}

impl DinExport {
    fn line(&self, out: &mut RecordSink<'_>, op: Op, addr: u64, size: u64) -> Wanted {
        let label = match (op, self.sized) {
            (Op::Fetch, false) => '2',
            (Op::Fetch, true) => 'i',
            (Op::Load, false) => '0',
            (Op::Load, true) => 'r',
            (_, false) => '1',
            (_, true) => 'w',
        };
        out.put(|out| {
            let _ = if self.sized {
                writeln!(out, "{label} {addr:x} {:x}", size.max(1))
            } else {
                writeln!(out, "{label} {addr:x}")
            };
        })
    }
}

impl Virtual for DinExport {
    fn event(&mut self, event: &Event, out: &mut RecordSink<'_>) -> Wanted {
        self.left_out.note(event);
        match event.op {
            Op::Fetch => {
                instructions(event).try_for_each(|(addr, size)| self.line(out, Op::Fetch, addr, size))
            }
            Op::Load | Op::Store => self.line(out, event.op, event.addr, event.size.into()),
            Op::Modify => {
                self.line(out, Op::Load, event.addr, event.size.into())?;
                self.line(out, Op::Store, event.addr, event.size.into())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, _: &mut RecordSink<'_>) -> Wanted {
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.left_out.notes()
    }
}

/// Returns the address and size of each instruction of a fetch run, as the top of this file defines.
pub(super) fn instructions(run: &Event) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (addr, bytes, count) = (run.addr, u64::from(run.size), u64::from(run.count));
    let at = move |number: u64| number * bytes / count;
    (0..count).map(move |number| (addr.wrapping_add(at(number)), at(number + 1) - at(number)))
}

/// `LeftOut` counts the events that a format changes or leaves out because it knows neither runs, modifies,
/// processes nor system events.
#[derive(Default)]
pub(super) struct LeftOut {
    runs: u64,
    modifies: u64,
    switches: u64,
    system: u64,
}

impl LeftOut {
    pub(super) fn note(&mut self, event: &Event) {
        self.runs += u64::from(event.op == Op::Fetch && event.count > 1);
        self.modifies += u64::from(event.op == Op::Modify);
        self.switches += u64::from(event.op == Op::Switch);
        self.system += u64::from(!event.op.is_reference() && event.op != Op::Switch);
    }

    pub(super) fn notes(&self) -> Vec<String> {
        counted_notes([
            (
                self.runs,
                ["run of several instructions is", "runs of several instructions are"],
                "spread evenly over the bytes of the run",
            ),
            (self.modifies, ["modify is", "modifies are each"], "written as a load and a store"),
            (
                self.switches,
                ["switch is", "switches are"],
                "left out, so addresses of different processes cannot be told apart (`binhop trace filter` keeps one \
                 process)",
            ),
            (self.system, ["other system event is", "other system events are"], "left out"),
        ])
    }
}
