//! The instrumented processor: what a program's execution leaves behind as events.
//!
//! Counting rules. An instruction is 4 bytes. A fetch row is a run of instructions in sequence; it ends at
//! the instruction that makes a data reference (that reference is the next row) and at a taken branch. A
//! load or store moves 4 or 8 bytes, aligned. Nothing here decides *what* is referenced: programs do.
//!
//! Cost: two array writes of 17 bytes per data reference. The arrays have a constant size and are
//! addressed modulo it, so that no bound is checked per row; [`Cpu::settle`] checks once per step.

use binhop_base::{Rng, Stream};
use binhop_trace::Op;

use crate::space::Space;

/// Rows one step of a program should emit at most.
pub(crate) const STEP_ROWS: usize = 1 << 15;
/// Room for steps that go over the bound by a large datum (a long expression, say).
const ROWS: usize = 4 * STEP_ROWS;

/// Rows of the step that runs, in the columns of the event schema.
pub(crate) struct Rows {
    op: Box<[u8; ROWS]>,
    addr: Box<[u64; ROWS]>,
    size: Box<[u32; ROWS]>,
    count: Box<[u32; ROWS]>,
    /// (row, arguments) of the rows that have any, in order of their rows.
    args: Vec<(usize, [Option<u64>; 2])>,
    len: usize,
}

fn column<T: Copy + Default>() -> Box<[T; ROWS]> {
    vec![T::default(); ROWS].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("ROWS elements"))
}

impl Rows {
    pub(crate) fn new() -> Self {
        Self { op: column(), addr: column(), size: column(), count: column(), args: Vec::new(), len: 0 }
    }

    #[inline(always)]
    fn push(&mut self, op: Op, addr: u64, size: u32, count: u32) {
        let at = self.len & (ROWS - 1);
        self.op[at] = op as u8;
        self.addr[at] = addr;
        self.size[at] = size;
        self.count[at] = count;
        self.len += 1;
    }

    pub(crate) fn push_args(&mut self, op: Op, addr: u64, size: u32, count: u32, args: [Option<u64>; 2]) {
        self.args.push((self.len, args));
        self.push(op, addr, size, count);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn op(&self) -> &[u8] {
        &self.op[..self.len]
    }

    pub(crate) fn addr(&self) -> &[u64] {
        &self.addr[..self.len]
    }

    pub(crate) fn size(&self) -> &[u32] {
        &self.size[..self.len]
    }

    pub(crate) fn count(&self) -> &[u32] {
        &self.count[..self.len]
    }

    pub(crate) fn args(&self) -> &[(usize, [Option<u64>; 2])] {
        &self.args
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.args.clear();
    }
}

/// The state of the processor that belongs to one process, and the rows of the step that runs.
pub(crate) struct Cpu {
    pub(crate) rows: Rows,
    /// Address space: where text, data, heap and stack lie.
    pub(crate) space: Space,
    /// First instruction of the run under way.
    start: u64,
    /// Instructions in it so far.
    run: u32,
    /// Stack pointer.
    sp: u64,
    /// Return addresses, as the stack frames hold them.
    returns: Vec<u64>,
    /// Instructions executed since the process began.
    instructions: u64,
}

impl Cpu {
    pub(crate) fn new(space: Space) -> Self {
        let sp = space.stack_top();
        Self { rows: Rows::new(), space, start: 0, run: 0, sp, returns: Vec::new(), instructions: 0 }
    }

    /// Ends the run under way, if there is one.
    #[inline(always)]
    fn flush(&mut self) {
        if self.run > 0 {
            self.rows.push(Op::Fetch, self.start, 4 * self.run, self.run);
            self.instructions += u64::from(self.run);
            self.start += 4 * u64::from(self.run);
            self.run = 0;
        }
    }

    /// Execution goes on at `pc` (a taken branch, or a jump).
    #[inline(always)]
    pub(crate) fn at(&mut self, pc: u64) {
        self.flush();
        self.start = pc;
    }

    /// `n` instructions that touch no data.
    #[inline(always)]
    pub(crate) fn run(&mut self, n: u32) {
        self.run += n;
    }

    /// A load of `size` bytes.
    #[inline(always)]
    pub(crate) fn load(&mut self, addr: u64, size: u32) {
        self.run += 1;
        self.flush();
        self.rows.push(Op::Load, addr, size, 1);
    }

    /// A store of `size` bytes.
    #[inline(always)]
    pub(crate) fn store(&mut self, addr: u64, size: u32) {
        self.run += 1;
        self.flush();
        self.rows.push(Op::Store, addr, size, 1);
    }

    /// A load from the current frame.
    #[inline(always)]
    pub(crate) fn load_local(&mut self, slot: u64) {
        self.load(self.sp + 4 * slot, 4);
    }

    /// A store into the current frame.
    #[inline(always)]
    pub(crate) fn store_local(&mut self, slot: u64) {
        self.store(self.sp + 4 * slot, 4);
    }

    /// Calls the function at `pc`: jump and delay slot, then a frame of `locals` words in which the return
    /// address and `saves` registers are saved.
    #[inline(always)]
    pub(crate) fn call(&mut self, pc: u64, saves: u64, locals: u64) {
        self.run(2);
        self.flush();
        self.returns.push(self.start);
        self.returns.push(self.sp);
        self.start = pc;
        self.run(1);
        self.sp -= (4 * (saves + 1 + locals) + 7) & !7;
        for slot in 0..=saves {
            self.store_local(locals + slot);
        }
    }

    /// Returns from the function called with the same `saves` and `locals`.
    #[inline(always)]
    pub(crate) fn ret(&mut self, saves: u64, locals: u64) {
        for slot in 0..=saves {
            self.load_local(locals + slot);
        }
        self.run(2);
        let sp = self.returns.pop().expect("a return follows a call");
        let back = self.returns.pop().expect("a return follows a call");
        self.at(back);
        self.sp = sp;
    }

    /// Instructions executed since the process began.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Where execution stands and the stack pointer, for a child that starts as a copy.
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.start + 4 * u64::from(self.run), self.sp)
    }

    /// How many calls are open.
    #[cfg(test)]
    pub(crate) fn depth(&self) -> usize {
        self.returns.len() / 2
    }

    /// A system call: its row, after the instructions that enter the kernel.
    pub(crate) fn syscall(&mut self, number: u32, buffer: u64, bytes: u32, file: Option<(u64, u64)>) {
        self.run(4);
        self.flush();
        self.rows.push_args(Op::Syscall, buffer, bytes, number, [file.map(|f| f.0), file.map(|f| f.1)]);
    }

    /// Allocates `bytes` of heap (8-byte aligned) by moving the break; new pages appear as map rows.
    pub(crate) fn sbrk(&mut self, bytes: u64) -> u64 {
        if self.space.must_grow(bytes) {
            self.flush();
        }
        self.space.sbrk(bytes, &mut self.rows)
    }

    /// Maps text, data and stack, and goes to the entry point: the state right after the program is loaded.
    pub(crate) fn load_image(&mut self) {
        self.flush();
        self.space.map_image(&mut self.rows);
        self.start = crate::space::TEXT;
    }

    /// Closes a step: nothing is left in the pipeline, and the rows fit.
    pub(crate) fn settle(&mut self) {
        self.flush();
        assert!(self.rows.len <= ROWS, "a step emitted {} rows, more than {ROWS}", self.rows.len);
    }
}

/// A cheap generator for the data programs work on: xorshift64*, seeded by the one generator.
#[derive(Clone, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    /// The generator of process or purpose `number`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self(Rng::new(seed).draw(Stream::new(binhop_base::Domain::Workload, number), 0) | 1)
    }

    /// 64 bits.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform below `n` (n ≥ 1).
    #[inline(always)]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1).
    #[inline(always)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
