//! `Rows` makes the rows of an importer and joins consecutive fetches into runs.
//!
//! A run is one row for instructions executed in sequence. It ends at the instruction that makes a data
//! reference (so that program order is kept), at a jump, and at [`LONGEST_RUN`] instructions.
//!
//! A fetch joins a run only if its bytes follow the bytes of the run without a gap. So a run touches the same
//! cache lines as its fetches, in the same order, for cache lines of four bytes and more.

use crate::event::Event;
use crate::event::{Cause, EventBatch, EventBuilder, Op};

/// The most instructions of a run. Intervals, the warm-up and quanta end between rows, so short runs keep
/// them precise. Straight-line code is rarely longer, so the limit costs no measurable space.
pub const LONGEST_RUN: u32 = 1024;

/// The most bytes of a run, which keep its size far below the limit of the column.
const LARGEST_RUN: u64 = 16 << 10;

/// The bytes of the longest x86 instruction. Where sizes are unknown, a fetch at a greater distance follows a
/// jump.
const LONGEST_INSTRUCTION: u64 = 15;

/// The bytes of a reference without a size: the aligned word, as Dinero assumes.
const WORD: u64 = 4;

/// `Left` is the last state that an importer knows of the thread that ran before a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The thread, or its process, ended.
    Ended,
    /// The thread is in the system call of this number.
    InCall(u64),
    /// The thread could have continued.
    Running,
}

/// `Rows` holds the finished rows that were not taken yet, and the open fetch run, which may still grow.
#[derive(Debug)]
pub struct Rows {
    out: EventBuilder,
    run: FetchRun,
    references: u64,
}

/// `FetchRun` is the open run. There is no open run if `count` is 0.
#[derive(Clone, Copy, Debug, Default)]
struct FetchRun {
    /// The address of the first byte.
    start: u64,
    /// The address behind the last byte.
    end: u64,
    /// The address of the last fetch, as the trace gives it.
    last: u64,
    /// The number of instructions.
    count: u32,
}

impl Rows {
    /// Makes an empty `Rows` with room for some rows.
    #[must_use]
    pub fn with_capacity(rows: usize) -> Self {
        Self { out: EventBuilder::with_capacity(rows + rows / 2), run: FetchRun::default(), references: 0 }
    }

    /// Returns the number of finished rows that were not taken yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether there is no finished row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Returns the number of references since the beginning.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Takes the finished rows as a batch. The open run stays open.
    #[must_use]
    pub fn take(&mut self, capacity: usize) -> EventBatch {
        let fresh = EventBuilder::with_capacity(capacity + capacity / 2);
        std::mem::replace(&mut self.out, fresh).finish()
    }

    /// Appends an instruction of known size. It joins the run if it starts where the run ends.
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

    /// Appends instructions in sequence, of `size` bytes together. The last instruction starts at `last`.
    /// They join the run as a single instruction would.
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

    /// Appends an instruction of unknown size: an access of the aligned word at its address.
    ///
    /// The instruction joins the run on two conditions. It lies 1 to 15 bytes behind the last instruction, so
    /// that it may be the next instruction. Its word is the last word of the run, or the word behind it.
    /// Without the second condition a run over a wider step (a long instruction, or a short jump) would cover
    /// words that the trace never names.
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

    /// Appends a load, store or modify of known size. The open run ends before it.
    #[inline]
    pub fn data(&mut self, op: Op, addr: u64, size: u32) {
        self.references += 1;
        self.end_run();
        self.out.push(op, addr, size, 1);
    }

    /// Appends a load or store of unknown size: an access of the aligned word at its address.
    #[inline]
    pub fn data_word(&mut self, op: Op, addr: u64) {
        self.data(op, addr & !(WORD - 1), WORD as u32);
    }

    /// Appends a system event. The open run ends before it.
    pub fn event(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        self.end_run();
        if args == [None, None] {
            self.out.push(op, addr, size, count);
        } else {
            self.out.push_args(op, addr, size, count, args);
        }
    }

    /// Appends a switch to a thread. `left`, the last known state of the previous thread, decides the cause.
    pub(super) fn switch(&mut self, asid: u32, tid: u32, cpu: u32, left: Left) {
        let (cause, call) = match left {
            Left::Ended => (Cause::Exit, None),
            Left::InCall(number) => (Cause::SystemCall, Some(number)),
            Left::Running => (Cause::Involuntary, None),
        };
        self.event(Op::Switch, asid.into(), tid, cpu, [Some(cause as u64), call]);
    }

    /// Returns the end of the open run, if there is an open run.
    pub(super) fn run_end(&self) -> Option<u64> {
        (self.run.count > 0).then_some(self.run.end)
    }

    /// Appends a row as it is. It joins no run.
    pub(super) fn row(&mut self, event: &Event) {
        self.references += event.references();
        let Event { op, addr, size, count, arg0, arg1 } = *event;
        self.event(op, addr, size, count, [arg0, arg1]);
    }

    /// Ends the open run, if there is an open run.
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
    /// Returns whether there is an open run that may grow up to `end`.
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
