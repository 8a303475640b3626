//! `Cpu` is the instrumented processor: it turns a program's execution into rows.
//!
//! Counting rules. An instruction is 4 bytes. A fetch row is a run of instructions in sequence; it ends at
//! the instruction that makes a data reference (that reference is the next row) and at a taken branch. A
//! load or store moves 4 or 8 bytes, aligned. The programs decide *what* is referenced.

use binhop_trace::Op;

use crate::address_space::AddressSpace;
use crate::rows::StepRows;

/// `Cpu` holds the processor's state for one process, and the rows of the current step.
pub(crate) struct Cpu {
    pub(crate) rows: StepRows,
    /// The address space: text, data, heap and stack.
    pub(crate) space: AddressSpace,
    /// The address of the first instruction of the current run.
    start: u64,
    /// The number of instructions in the current run so far.
    run: u32,
    /// The stack pointer.
    sp: u64,
    /// Return addresses, as the stack frames hold them.
    returns: Vec<u64>,
    /// Instructions executed since the process began.
    instructions: u64,
}

impl Cpu {
    pub(crate) fn new(space: AddressSpace) -> Self {
        let sp = space.stack_top();
        Self { rows: StepRows::new(), space, start: 0, run: 0, sp, returns: Vec::new(), instructions: 0 }
    }

    /// Ends the current run, if there is one.
    #[inline(always)]
    fn flush(&mut self) {
        if self.run > 0 {
            self.rows.push(Op::Fetch, self.start, 4 * self.run, self.run);
            self.instructions += u64::from(self.run);
            self.start += 4 * u64::from(self.run);
            self.run = 0;
        }
    }

    /// Continues at `pc`: a taken branch, or a jump.
    #[inline(always)]
    pub(crate) fn jump(&mut self, pc: u64) {
        self.flush();
        self.start = pc;
    }

    /// Executes `n` instructions that touch no data.
    #[inline(always)]
    pub(crate) fn run(&mut self, n: u32) {
        self.run += n;
    }

    /// Executes a load of `size` bytes.
    #[inline(always)]
    pub(crate) fn load(&mut self, addr: u64, size: u32) {
        self.run += 1;
        self.flush();
        self.rows.push(Op::Load, addr, size, 1);
    }

    /// Executes a store of `size` bytes.
    #[inline(always)]
    pub(crate) fn store(&mut self, addr: u64, size: u32) {
        self.run += 1;
        self.flush();
        self.rows.push(Op::Store, addr, size, 1);
    }

    /// Executes a load from the current stack frame.
    #[inline(always)]
    pub(crate) fn load_local(&mut self, slot: u64) {
        self.load(self.sp + 4 * slot, 4);
    }

    /// Executes a store into the current stack frame.
    #[inline(always)]
    pub(crate) fn store_local(&mut self, slot: u64) {
        self.store(self.sp + 4 * slot, 4);
    }

    /// Calls the function at `pc`: a jump and its delay slot, then the function makes a stack frame of
    /// `locals` words and saves the return address and `saves` registers.
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
        self.jump(back);
        self.sp = sp;
    }

    /// Returns the number of instructions executed since the process began.
    pub(crate) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Returns the program counter and the stack pointer, for a child that starts as a copy.
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.start + 4 * u64::from(self.run), self.sp)
    }

    /// Returns the number of open calls.
    #[cfg(test)]
    pub(crate) fn depth(&self) -> usize {
        self.returns.len() / 2
    }

    /// Makes a system call: the instructions that enter the kernel, then the call's row.
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

    /// Loads the program: maps text, data and stack, and continues at the entry point.
    pub(crate) fn load_image(&mut self) {
        self.flush();
        self.space.map_image(&mut self.rows);
        self.start = crate::address_space::TEXT;
    }

    /// Ends a step: the run under way becomes a row, and the number of rows is checked.
    pub(crate) fn finish_step(&mut self) {
        self.flush();
        self.rows.check_length();
    }
}
