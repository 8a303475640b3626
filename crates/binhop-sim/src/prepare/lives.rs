//! `Turn` says which process runs, why it came to run, and in which of its lives. A mark of a process
//! carries a turn.
//!
//! # Rules
//! - A *life* is an address space number from its birth (its fork, or else its first switch) to its exit. The
//!   lives of one number are counted from 0. A fork that gives a living number to a child ends that number's
//!   life and its address space.
//! - An exec continues the same life. The exit of a number that is not alive ends nothing.
//! - Tables of processes have one row for each number, because a trace that uses a number again says nothing
//!   else about it. Lives are told apart only here.

use std::collections::BTreeMap;

use binhop_base::Asid;

use crate::events::Switch;

/// `Process` says who executes: an address space, in user mode or in the kernel on its behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The address space.
    pub asid: Asid,
    /// True between kernel-enter and kernel-leave.
    pub kernel: bool,
}

/// `Turn` says who runs from a mark on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The process's number in [`super::Prepare::processes`].
    pub process: u32,
    /// The process's address space.
    pub asid: Asid,
    /// The life of its address space number, from 0.
    pub life: u32,
    /// The last switch. A process that enters or leaves the kernel keeps its switch.
    pub switch: Switch,
}

/// `Life` counts the lives of one address space number so far.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    number: u32,
    alive: bool,
}

/// `Lives` holds the lives of all address space numbers.
#[derive(Debug, Default)]
pub(super) struct Lives(BTreeMap<Asid, Life>);

impl Lives {
    /// Notes that a process of this number runs or is born, and is therefore alive. Returns its life.
    pub(super) fn live(&mut self, asid: Asid) -> u32 {
        let life = self.0.entry(asid).or_default();
        life.alive = true;
        life.number
    }

    /// Notes that the stream has begun in this address space. Later calls change nothing.
    pub(super) fn live_first(&mut self, asid: Asid) {
        self.0.entry(asid).or_insert(Life { number: 0, alive: true });
    }

    /// Returns the life that a process of this number would have if it ran now.
    pub(super) fn comes(&self, asid: Asid) -> u32 {
        self.0.get(&asid).map_or(0, |life| life.number)
    }

    /// Returns whether the last life of this number has ended, and no new life has begun.
    pub(super) fn has_ended(&self, asid: Asid) -> bool {
        self.0.get(&asid).is_some_and(|life| life.number > 0 && !life.alive)
    }

    /// Notes that a child is born under this number. Returns the life that ends thereby, if one does.
    pub(super) fn born(&mut self, asid: Asid) -> Option<u32> {
        let ended = self.ended(asid);
        self.live(asid);
        ended
    }

    /// Notes that the life under this number has ended. Returns the life, if there was a life.
    pub(super) fn ended(&mut self, asid: Asid) -> Option<u32> {
        let life = self.0.entry(asid).or_default();
        let ended = life.alive.then_some(life.number);
        life.number += u32::from(life.alive);
        life.alive = false;
        ended
    }
}

#[cfg(test)]
mod tests {
    use binhop_base::Result;
    use binhop_trace::event::{Cause, EventBuilder};
    use binhop_trace::{EventBatch, Op};

    use super::*;
    use crate::Machine;
    use crate::prepare::{Control, Cuts, Mark, Needs, Prepare, Process, Setup};

    const MACHINE: &str = r#"
memory = { page = "4KiB", size = "1MiB" }
placement = { policy = "random", pool = "64KiB" }
[cache.l1]
serves = "all"
size = "1KiB"
line = "32B"
next = "memory"
"#;

    /// Returns the processes that the marks of a stream name, each with its turn.
    fn turns(events: &EventBatch) -> Result<Vec<(Process, Turn)>> {
        let machine = Machine::parse(MACHINE, "small", &[])?;
        let mut prepare = Prepare::new(
            &Setup {
                needs: Needs::of(&machine),
                safe: machine.safe_frames(),
                lists_segments: false,
                looks_for_synonyms: false,
                keeps_two: false,
                trace_page: binhop_base::Bytes(4096),
                cuts: Cuts::default(),
                subscription: None,
                collapse: true,
                shares_kernel_half: false,
            },
            "test trace",
        )?;
        let mut turns = Vec::new();
        let mut keep = |block: std::sync::Arc<crate::prepare::Block>| {
            turns.extend(block.controls.iter().filter_map(|(_, control)| match control {
                Control::Mark(Mark::Process(turn), ..) => Some(*turn),
                _ => None,
            }));
            Ok(())
        };
        prepare.feed(events, &mut keep)?;
        prepare.finish(&mut keep)?;
        Ok(turns.into_iter().map(|turn| (prepare.processes()[turn.process as usize], turn)).collect())
    }

    #[test]
    fn a_mark_says_who_came_why_and_in_which_life() {
        let mut events = EventBuilder::default();
        let switch = |events: &mut EventBuilder, asid, tid, cpu, cause: Option<Cause>, call| {
            events.push_args(Op::Switch, asid, tid, cpu, [cause.map(|cause| cause as u64), call]);
            events.push(Op::Load, 0x5000, 8, 1);
        };
        let exit = |events: &mut EventBuilder, asid| events.push(Op::Exit, asid, 0, 0);
        let fork =
            |events: &mut EventBuilder, child| events.push_args(Op::Fork, child, 0, 0, [Some(0), None]);
        switch(&mut events, 7, 70, 1, Some(Cause::SystemCall), Some(61));
        events.push(Op::KernelEnter, 0, 0, 0);
        events.push(Op::KernelLeave, 0, 0, 0);
        // A switch to another thread of the process makes no mark. The next mark of the process carries the
        // switch.
        switch(&mut events, 7, 71, 2, Some(Cause::PageFault), None);
        events.push(Op::KernelEnter, 0, 0, 0);
        exit(&mut events, 7);
        events.push(Op::KernelLeave, 0, 0, 0);
        switch(&mut events, 0, 1, 0, Some(Cause::Exit), None);
        exit(&mut events, 7); // it lives no more
        fork(&mut events, 7);
        switch(&mut events, 7, 72, 0, Some(Cause::Involuntary), None);
        events.push(Op::Exec, 7, 0, 0);
        switch(&mut events, 0, 1, 0, None, None);
        fork(&mut events, 7); // the second child lived
        switch(&mut events, 7, 73, 0, Some(Cause::Involuntary), None);
        let turns = turns(&events.finish()).unwrap();
        let seen = turns.iter().map(|(process, turn)| {
            let Switch { tid, cpu, cause, syscall } = turn.switch;
            (process.asid.0, process.kernel, turn.life, tid, cpu, cause, syscall)
        });
        let (call, fault, left) = (Some(Cause::SystemCall), Some(Cause::PageFault), Some(Cause::Involuntary));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                (7, false, 0, 70, 1, call, Some(61)),
                (7, true, 0, 70, 1, call, Some(61)),
                (7, false, 0, 70, 1, call, Some(61)),
                (7, true, 0, 71, 2, fault, None),
                (7, false, 0, 71, 2, fault, None),
                (0, false, 0, 1, 0, Some(Cause::Exit), None),
                (7, false, 1, 72, 0, left, None),
                (0, false, 0, 1, 0, None, None),
                (7, false, 2, 73, 0, left, None),
            ]
        );
        // All lives have one number, because the tables of processes have one row for them.
        let numbers: Vec<u32> = turns.iter().map(|(_, turn)| turn.process).collect();
        assert_eq!(numbers, [1, 2, 1, 2, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn the_kernel_is_left_where_the_trace_says_so() {
        let mut events = EventBuilder::default();
        for op in [
            Op::KernelEnter,
            Op::KernelEnter, // an interrupt
            Op::Switch,
            Op::KernelLeave,
            Op::KernelLeave,
            Op::KernelLeave, // one leave too many
            Op::KernelEnter,
        ] {
            events.push(op, u64::from(op == Op::Switch), 0, 0);
            events.push(Op::Load, 0x5000, 8, 1);
        }
        let turns = turns(&events.finish()).unwrap();
        let seen: Vec<_> = turns.iter().map(|(process, _)| (process.asid.0, process.kernel)).collect();
        assert_eq!(seen, [(0, true), (1, true), (1, false), (1, true)]);
    }
}
