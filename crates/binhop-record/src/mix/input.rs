//! `InputReader` reads one trace of a mix. It replaces the trace's numbers by the numbers of the mix, and reports where
//! the trace's processor was idle.

use std::collections::BTreeMap;

use binhop_base::Result;
use binhop_trace::event::{Cause, EventBuilder};
use binhop_trace::source::ProcessMeta;
use binhop_trace::transform::Limit;
use binhop_trace::{EventBatch, Meta, Op, Source};

use super::numbers::Numbers;
use super::{MixInput, Output};

/// `Next` is what comes next in a trace.
#[expect(clippy::large_enum_variant, reason = "one exists at a time, and it is rows")]
pub(super) enum Next {
    /// Rows that may go into the mix as they are. The mix takes as many as fit, and calls
    /// [`InputReader::ran`].
    Rows(EventBatch),
    /// A row that does not go into the mix as it is. The reader has written it with the mix's numbers, or
    /// has left it out.
    Handled,
    /// The trace's processor was idle here.
    Idle { cause: Cause, number: Option<u32> },
    /// The trace has ended.
    End,
}

/// `InputReader` reads a trace.
pub(super) struct InputReader {
    source: Box<dyn Source>,
    /// The current batch, and the position of the next row in it.
    batch: Option<EventBatch>,
    at: usize,
    /// The first row at or after `at` that does not go into the mix as it is.
    special: usize,
    /// The limit on the references that may still be read, if there is one.
    limit: Option<Limit>,
    /// The process that runs, by the trace's own number, and its thread.
    asid: u64,
    tid: u32,
    /// True if the trace has had its first turn.
    begun: bool,
    /// The number of kernel entries without a leave.
    kernel: u32,
    /// The mix's numbers of the live address spaces, and of all address spaces so far.
    spaces: BTreeMap<u64, u32>,
    born: Vec<(u64, u32)>,
    segments: BTreeMap<u64, u64>,
    files: BTreeMap<u64, u64>,
}

/// Returns whether rows of this kind are handled one by one.
fn is_special(op: u8) -> bool {
    use Op::{Exec, Exit, Fork, KernelEnter, KernelLeave, Map, Switch, Syscall, Time, Unmap};
    const SPECIAL: u32 =
        bits(&[Switch, Syscall, Map, Unmap, Fork, Exec, Exit, Time, KernelEnter, KernelLeave]);
    op > Op::Modify as u8 && SPECIAL & (1 << op) != 0
}

const fn bits(ops: &[Op]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < ops.len() {
        bits |= 1 << ops[at] as u8;
        at += 1;
    }
    bits
}

impl InputReader {
    /// Opens a trace.
    pub(super) fn open(input: &mut MixInput) -> Result<Self> {
        Ok(Self {
            source: (input.open)()?,
            batch: None,
            at: 0,
            special: 0,
            limit: input.length.map(Limit::new),
            asid: 0,
            tid: 0,
            begun: false,
            kernel: 0,
            spaces: BTreeMap::new(),
            born: Vec::new(),
            segments: BTreeMap::new(),
            files: BTreeMap::new(),
        })
    }

    pub(super) fn meta(&self) -> &Meta {
        self.source.meta()
    }

    pub(super) fn in_kernel(&self) -> bool {
        self.kernel > 0
    }

    /// Begins a turn of the trace: writes a switch to its running process. `cause` is `None` at the beginning
    /// of the mix, where no switch is written.
    pub(super) fn resume(&mut self, output: &mut Output, cause: Option<(Cause, Option<u32>)>) -> Result<()> {
        if !self.begun {
            self.begun = true;
            // If the first event is a switch, it names the process that begins.
            if self.fill()? && self.op() == Some(Op::Switch) {
                let batch = self.batch.as_ref().expect("a batch was read");
                (self.asid, self.tid) = (batch.addr()[self.at], batch.size()[self.at]);
                self.advance(1);
            } else {
                self.tid = self.pid(0);
            }
        }
        let (asid, tid) = (self.running(&mut output.numbers), self.tid);
        if let Some((cause, number)) = cause {
            output.batches.switch(asid, tid, cause, number);
        }
        Ok(())
    }

    /// Returns what comes next. A row that cannot go into the mix as it is, is written with the mix's numbers.
    pub(super) fn step(&mut self, output: &mut Output) -> Result<Next> {
        if !self.fill()? {
            return Ok(Next::End);
        }
        let batch = self.batch.as_ref().expect("a batch was read");
        if self.at < self.special {
            return Ok(Next::Rows(batch.slice(self.at, self.special - self.at)));
        }
        let at = self.at;
        let row = (batch.addr()[at], batch.size()[at], batch.count()[at], batch.arg0(at), batch.arg1(at));
        let op = self.op().expect("readers refuse codes without a meaning");
        self.advance(1);
        Ok(self.handle(op, row, output))
    }

    /// Returns the number of the running address space in the mix.
    pub(super) fn running(&mut self, numbers: &mut Numbers) -> u32 {
        self.space(self.asid, None, numbers)
    }

    /// Gives back the memory of rows that were decoded, because the trace is not wanted for some time.
    pub(super) fn rest(&mut self) {
        if self.limit.as_ref().is_some_and(Limit::has_ended) {
            // The last rows under a limit may be cut, so they stay, as a copy of their own. Nothing is read after them.
            if self.source.rest(0)
                && let Some(batch) = self.batch.take()
            {
                let mut rows = EventBuilder::default();
                rows.append(&batch.slice(self.at, batch.len() - self.at));
                (self.batch, self.at) = (Some(rows.finish()), 0);
                self.find_special();
            }
            return;
        }
        let unread = self.batch.as_ref().map_or(0, |batch| batch.len() - self.at);
        if self.source.rest(unread)
            && let Some(batch) = self.batch.take()
        {
            if let Some(limit) = &mut self.limit {
                limit.take_back(&batch.slice(self.at, unread));
            }
            (self.at, self.special) = (0, 0);
        }
    }

    /// Notes that the first `rows` of the offered rows went into the mix.
    pub(super) fn ran(&mut self, rows: usize) {
        self.at += rows;
    }

    fn handle(
        &mut self,
        op: Op,
        (addr, size, count, arg0, arg1): (u64, u32, u32, Option<u64>, Option<u64>),
        output: &mut Output,
    ) -> Next {
        let Output { batches, numbers, touches } = output;
        match op {
            Op::Switch => return self.switch(addr, size, arg0, arg1, output),
            Op::Fork => {
                let parent = self.space(arg0.unwrap_or(self.asid), None, numbers);
                self.spaces.remove(&addr);
                let born = self.space(addr, Some(parent), numbers);
                batches.row(op, born.into(), size, count, [Some(parent.into()), arg1]);
                touches.iter_mut().for_each(|touches| touches.fork(born.into(), parent.into()));
            }
            Op::Exec => {
                let asid = self.space(addr, None, numbers);
                batches.row(op, asid.into(), size, count, [arg0, arg1]);
                touches.iter_mut().for_each(|touches| touches.clear(asid.into()));
            }
            Op::Exit => {
                let asid = self.space(addr, None, numbers);
                batches.row(op, asid.into(), size, count, [arg0, arg1]);
                self.spaces.remove(&addr);
                touches.iter_mut().for_each(|touches| touches.clear(asid.into()));
            }
            Op::Map => {
                let is_file = arg0.is_some_and(|segment| self.is_file(segment));
                let segment = arg0.map(|segment| self.segment(segment, numbers));
                batches.row(op, addr, size, count, [segment, arg1]);
                if let Some(touches) = touches {
                    let file = segment.filter(|_| is_file).map(|segment| (segment, arg1.unwrap_or(0)));
                    touches.map(self.running(numbers).into(), addr, count, file);
                }
            }
            Op::Unmap => {
                batches.row(op, addr, size, count, [arg0, arg1]);
                if let Some(touches) = touches {
                    touches.unmap(self.running(numbers).into(), addr, count);
                }
            }
            Op::Syscall => {
                let file = arg0.map(|file| self.file(file, numbers));
                batches.row(op, addr, size, count, [file, arg1]);
            }
            Op::Time => {}
            _ => {
                match op {
                    Op::KernelEnter => self.kernel += 1,
                    _ => self.kernel = self.kernel.saturating_sub(1),
                }
                batches.row(op, addr, size, count, [arg0, arg1]);
            }
        }
        Next::Handled
    }

    /// Handles a switch of the trace. A switch to itself after a wait means an idle processor; other switches
    /// are written.
    fn switch(
        &mut self,
        asid: u64,
        tid: u32,
        cause: Option<u64>,
        number: Option<u64>,
        output: &mut Output,
    ) -> Next {
        let waited =
            [Cause::SystemCall, Cause::PageFault].into_iter().find(|&waited| cause == Some(waited as u64));
        if let Some(cause) = waited
            && !self.in_kernel()
            && (asid, tid) == (self.asid, self.tid)
        {
            let number = number.and_then(|number| u32::try_from(number).ok());
            return Next::Idle { cause, number };
        }
        (self.asid, self.tid) = (asid, tid);
        let asid = self.running(&mut output.numbers);
        output.batches.row(Op::Switch, asid.into(), tid, 0, [cause, number]);
        Next::Handled
    }

    /// Describes the trace's processes to the mix. An importer may know them only at its end.
    pub(super) fn describe(self, numbers: &mut Numbers) {
        let processes = &self.source.meta().processes;
        for (asid, born) in self.born {
            if let Some(described) = u32::try_from(asid).ok().and_then(|asid| processes.get(&asid)) {
                numbers.describe(born, described);
            }
        }
    }

    /// Writes the exits of the trace's live processes.
    pub(super) fn exit(&mut self, output: &mut Output) {
        let Output { batches, touches, .. } = output;
        (0..std::mem::take(&mut self.kernel)).for_each(|_| batches.event(Op::KernelLeave, 0, 0, [None; 2]));
        for asid in std::mem::take(&mut self.spaces).into_values() {
            batches.event(Op::Exit, asid.into(), 0, [None; 2]);
            touches.iter_mut().for_each(|touches| touches.clear(asid.into()));
        }
    }

    /// Returns the process id of an address space, as a thread id; 0 if it is not known.
    fn pid(&self, asid: u64) -> u32 {
        let described = u32::try_from(asid).ok().and_then(|asid| self.meta().processes.get(&asid));
        described.and_then(|process| process.pid).and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)
    }

    fn space(&mut self, asid: u64, parent: Option<u32>, numbers: &mut Numbers) -> u32 {
        if let Some(&known) = self.spaces.get(&asid) {
            return known;
        }
        let described =
            u32::try_from(asid).ok().and_then(|asid| self.source.meta().processes.get(&asid)).cloned();
        let born = numbers.space(ProcessMeta { parent, ..described.unwrap_or_default() });
        self.spaces.insert(asid, born);
        self.born.push((asid, born));
        born
    }

    fn is_file(&self, segment: u64) -> bool {
        self.meta().segments.get(&segment).is_some_and(|segment| segment.file.is_some())
    }

    fn segment(&mut self, segment: u64, numbers: &mut Numbers) -> u64 {
        let described = self.source.meta().segments.get(&segment);
        *self.segments.entry(segment).or_insert_with(|| numbers.segment(described))
    }

    fn file(&mut self, file: u64, numbers: &mut Numbers) -> u64 {
        let meta = self.source.meta();
        let (path, bytes) = (meta.files.get(&file), meta.file_bytes.get(&file).copied());
        let is_direct = meta.direct_files.contains(&file);
        *self.files.entry(file).or_insert_with(|| numbers.file(path, is_direct, bytes))
    }

    fn op(&self) -> Option<Op> {
        self.batch.as_ref().and_then(|batch| Op::from_code(batch.op()[self.at]))
    }

    /// Reads the next batch if the current batch is used up. Returns whether there is a row.
    fn fill(&mut self) -> Result<bool> {
        loop {
            if self.batch.as_ref().is_some_and(|batch| self.at < batch.len()) {
                return Ok(true);
            }
            if self.limit.as_ref().is_some_and(Limit::has_ended) {
                return Ok(false);
            }
            let Some(batch) = self.source.next_batch()? else { return Ok(false) };
            self.batch = match &mut self.limit {
                Some(limit) => limit.take(batch),
                None => Some(batch),
            };
            (self.at, self.special) = (0, 0);
            self.find_special();
        }
    }

    fn advance(&mut self, rows: usize) {
        self.at += rows;
        if self.at > self.special {
            self.find_special();
        }
    }

    fn find_special(&mut self) {
        let ops = self.batch.as_ref().map_or(&[][..], |batch| &batch.op()[self.at..]);
        self.special = self.at + ops.iter().position(|&op| is_special(op)).unwrap_or(ops.len());
    }
}
