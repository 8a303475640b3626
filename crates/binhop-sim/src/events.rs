//! System events are the events that are no references. They say who runs and what address spaces look
//! like. Every reader of a stream uses this file to read system events.

use binhop_base::{Asid, Problem, Result, VirtAddr};
use binhop_os::{MapFlags, Spaces};
use binhop_trace::bounds::unknown_op;
use binhop_trace::event::Cause;
use binhop_trace::{EventBatch, Op};

/// `Switch` describes the thread that a switch brings, and why the thread before left. It is empty before the
/// first switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// The thread that runs from here on.
    pub tid: u32,
    /// The processor on which the thread runs.
    pub cpu: u32,
    /// The reason why the thread before left, where the trace gives one.
    pub cause: Option<Cause>,
    /// The system call that the thread before left in, where the trace says so.
    pub syscall: Option<u64>,
}

/// `SystemEvent` is the meaning of an event that is no reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemEvent {
    /// A thread of this address space runs from here on.
    Switch(Asid, Switch),
    /// The kernel runs on behalf of the process from here on (true), or the process itself (false).
    Kernel(bool),
    /// A system call, or a further range of a system call.
    Syscall,
    /// An event that changes nothing: wall time, or a protection.
    Nothing,
    /// Address spaces have changed. What was known of any page may no longer hold.
    Spaces,
}

/// `EventPlace` is the position of an event, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPlace<'a> {
    /// The name of the trace in errors.
    pub(crate) trace: &'a str,
    /// The row in the trace, from 0.
    pub(crate) row: u64,
}

impl EventPlace<'_> {
    /// Adds the event's row to a problem that the address spaces report.
    fn of(&self, done: Result<()>) -> Result<()> {
        done.map_err(|mut problem| {
            problem.place = format!("{}: row {}", self.trace, self.row);
            problem
        })
    }
}

/// Reads the event at `row` of a batch, which must not be a reference, and changes address spaces
/// accordingly. `here` is the running address space.
///
/// # Errors
/// The event's code is unknown, the event is a device's, or its numbers are out of range.
#[cold]
pub(crate) fn read_event(
    batch: &EventBatch,
    row: usize,
    place: &EventPlace<'_>,
    here: Asid,
    spaces: &mut Spaces,
) -> Result<SystemEvent> {
    let (code, addr) = (batch.op()[row], batch.addr()[row]);
    let Some(op) = Op::from_code(code) else {
        return Err(unknown_op(code, place.trace, place.row));
    };
    let (size, count) = (batch.size()[row], u64::from(batch.count()[row]));
    let (start, flags) = (VirtAddr(addr), MapFlags::from(size));
    match op {
        Op::Fetch | Op::Load | Op::Store | Op::Modify => unreachable!("references are no system events"),
        Op::Switch => {
            let cause = batch.arg0(row).and_then(Cause::from_code);
            let switch = Switch { tid: size, cpu: batch.count()[row], cause, syscall: batch.arg1(row) };
            return Ok(SystemEvent::Switch(asid(addr, place)?, switch));
        }
        Op::KernelEnter => return Ok(SystemEvent::Kernel(true)),
        Op::KernelLeave => return Ok(SystemEvent::Kernel(false)),
        Op::Syscall | Op::Range => return Ok(SystemEvent::Syscall),
        Op::Time => return Ok(SystemEvent::Nothing),
        Op::DmaRead | Op::DmaWrite => {
            return Err(Problem::request(
                op.name(),
                &format!("{}: row {}", place.trace, place.row),
                "here no device acts: nothing says what its data do to the caches",
                "ask binhop io about traces with device events",
            ));
        }
        Op::Map => {
            let (segment, offset) = (batch.arg0(row), batch.arg1(row).unwrap_or(0));
            place.of(spaces.map(here, start, count, flags, segment, offset))?;
        }
        Op::Protect => {
            place.of(spaces.protect(here, start, count))?;
            return Ok(SystemEvent::Nothing);
        }
        Op::Unmap => place.of(spaces.unmap(here, start, count))?,
        Op::Fork => {
            let parent = batch.arg0(row).map_or(Ok(here), |number| asid(number, place))?;
            place.of(spaces.fork(asid(addr, place)?, parent))?;
        }
        Op::Exec => spaces.exec(asid(addr, place)?),
        Op::Exit => spaces.exit(asid(addr, place)?),
    }
    Ok(SystemEvent::Spaces)
}

fn asid(number: u64, place: &EventPlace<'_>) -> Result<Asid> {
    u32::try_from(number).map(Asid).map_err(|_| {
        Problem::request(
            &number.to_string(),
            &format!("{}: row {}: asid", place.trace, place.row),
            "an address space's number fits in 32 bits",
            "number the address spaces from 0",
        )
    })
}
