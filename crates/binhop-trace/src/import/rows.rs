//! The rows an importer makes, and how its fetches join into runs.
//!
//! A run is one row for instructions executed in sequence. It ends at the instruction that makes a data
//! reference (so that program order is kept), at a jump, and at [`LONGEST_RUN`] instructions.
//!
//! Joining invents nothing: a fetch joins only if its bytes follow the run's without a gap, so a run touches
//! exactly the lines its fetches touch, in the same order, for lines of four bytes and more.

use crate::event::Event;
use crate::event::{Cause, EventBatch, EventBuilder, Op};

/// A run ends after this many instructions, so that intervals, warm-up and quanta, which break between
/// rows, stay sharp. Straight-line code is rarely that long; the limit costs no measurable space.
pub const LONGEST_RUN: u32 = 1024;

/// …and after this many bytes, which keeps its size far from the column's limit.
const LARGEST_RUN: u64 = 16 << 10;

/// The longest x86 instruction. Where sizes are unknown, a fetch further on than that follows a jump.
const LONGEST_INSTRUCTION: u64 = 15;

/// The bytes a size-less fetch or data reference is taken to touch: the aligned word, as Dinero does.
const WORD: u64 = 4;

/// `Left` is the last that an importer knows of the thread that ran before a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The thread, or its process, ended.
    Ended,
    /// The thread is in the system call of this number.
    InCall(u64),
    /// The thread could have gone on.
    Running,
}

/// Rows not yet handed on, and the fetch run that may still grow.
#[derive(Debug)]
pub struct Rows {
    out: EventBuilder,
    run: FetchRun,
    references: u64,
}

/// The open run; none if `count` is 0.
#[derive(Clone, Copy, Debug, Default)]
struct FetchRun {
    /// First byte.
    start: u64,
    /// The byte behind the last.
    end: u64,
    /// The last fetch's address as the trace gave it.
    last: u64,
    /// Instructions.
    count: u32,
}

impl Rows {
    /// No rows yet, with room for some.
    #[must_use]
    pub fn with_capacity(rows: usize) -> Self {
        Self { out: EventBuilder::with_capacity(rows + rows / 2), run: FetchRun::default(), references: 0 }
    }

    /// Finished rows that were not taken yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether there is no finished row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// References since the beginning.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.references
    }

    /// The finished rows as a batch; the open run stays open.
    #[must_use]
    pub fn take(&mut self, capacity: usize) -> EventBatch {
        let fresh = EventBuilder::with_capacity(capacity + capacity / 2);
        std::mem::replace(&mut self.out, fresh).finish()
    }

    /// An instruction of known size. It joins the run if it starts where the run ends.
    #[inline]
    pub fn fetch(&mut self, addr: u64, size: u32) {
        self.references += 1;
        let end = addr.wrapping_add(u64::from(size));
        let run = &mut self.run;
        if addr == run.end && addr > run.last && run.has_room(end) {
            run.join(addr, end);
        } else {
            self.begin(addr, addr, end);
        }
    }

    /// Instructions in sequence: `size` bytes, the last of them starting at `last`. They join the run as one would.
    #[inline]
    pub fn fetch_run(&mut self, addr: u64, last: u64, size: u32, count: u32) {
        self.references += u64::from(count);
        let end = addr.wrapping_add(u64::from(size));
        let run = &mut self.run;
        if addr == run.end && addr > run.last && run.count + count <= LONGEST_RUN && run.has_room(end) {
            run.last = last;
            run.end = end;
            run.count += count;
        } else {
            self.end_run();
            self.run = FetchRun { start: addr, end, last, count };
        }
    }

    /// An instruction of unknown size: one access of the aligned word at its address.
    ///
    /// It joins the run if it lies 1 to 15 bytes on, so that it may be the next instruction, *and* its word is
    /// the run's last word or the one behind it. The second condition is what keeps a run exact: over a
    /// wider step (a long instruction, or a short jump) the run would cover words that the trace never names.
    #[inline]
    pub fn fetch_word(&mut self, addr: u64) {
        self.references += 1;
        let word = addr & !(WORD - 1);
        let end = word.wrapping_add(WORD);
        let run = &mut self.run;
        let step = addr.wrapping_sub(run.last);
        let next = (1..=LONGEST_INSTRUCTION).contains(&step) && addr > run.last;
        if next && word <= run.end && run.end <= end && run.has_room(end) {
            run.join(addr, end);
        } else {
            self.begin(addr, word, end);
        }
    }

    /// A load, store or modify of known size. The open run ends before it.
    #[inline]
    pub fn data(&mut self, op: Op, addr: u64, size: u32) {
        self.references += 1;
        self.end_run();
        self.out.push(op, addr, size, 1);
    }

    /// A load or store of unknown size: the aligned word at its address.
    #[inline]
    pub fn data_word(&mut self, op: Op, addr: u64) {
        self.data(op, addr & !(WORD - 1), WORD as u32);
    }

    /// A system event. The open run ends before it.
    pub fn event(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        self.end_run();
        if args == [None, None] {
            self.out.push(op, addr, size, count);
        } else {
            self.out.push_args(op, addr, size, count, args);
        }
    }

    /// Appends a switch to a thread. How the thread before it left decides the cause.
    pub(super) fn switch(&mut self, asid: u32, tid: u32, cpu: u32, left: Left) {
        let (cause, call) = match left {
            Left::Ended => (Cause::Exit, None),
            Left::InCall(number) => (Cause::SystemCall, Some(number)),
            Left::Running => (Cause::Involuntary, None),
        };
        self.event(Op::Switch, asid.into(), tid, cpu, [Some(cause as u64), call]);
    }

    /// Where the open run ends, if there is one.
    pub(super) fn run_end(&self) -> Option<u64> {
        (self.run.count > 0).then_some(self.run.end)
    }

    /// A row as it is: it joins no run.
    pub(super) fn row(&mut self, event: &Event) {
        self.references += event.references();
        let Event { op, addr, size, count, arg0, arg1 } = *event;
        self.event(op, addr, size, count, [arg0, arg1]);
    }

    /// Ends the open run, if there is one.
    #[inline]
    pub fn end_run(&mut self) {
        let FetchRun { start, end, count, .. } = self.run;
        if count > 0 {
            self.out.push(Op::Fetch, start, end.wrapping_sub(start) as u32, count);
            self.run = FetchRun::default();
        }
    }

    #[inline]
    fn begin(&mut self, addr: u64, start: u64, end: u64) {
        self.end_run();
        self.run = FetchRun { start, end, last: addr, count: 1 };
    }
}

impl FetchRun {
    /// Whether there is a run that may grow up to `end`.
    #[inline]
    fn has_room(&self, end: u64) -> bool {
        (1..LONGEST_RUN).contains(&self.count) && end.wrapping_sub(self.start) <= LARGEST_RUN
    }

    #[inline]
    fn join(&mut self, addr: u64, end: u64) {
        self.last = addr;
        self.end = end;
        self.count += 1;
    }
}
