//! `StepRows` holds the rows of one step of a program, before they are put into batches.
//!
//! Cost: two array writes of 17 bytes per data reference. The arrays have a constant size and are addressed
//! modulo it, so that no bound is checked per row; [`crate::cpu::Cpu::finish_step`] checks once per step.

use binhop_trace::Op;

/// The most rows that one step of a program should emit.
pub(crate) const STEP_ROWS: usize = 1 << 15;
/// The room for rows. A step exceeds its bound if its data are large: a long expression, for example.
const ROWS: usize = 4 * STEP_ROWS;

/// `StepRows` holds the rows of the current step, in the columns of the event schema.
pub(crate) struct StepRows {
    op: Box<[u8; ROWS]>,
    addr: Box<[u64; ROWS]>,
    size: Box<[u32; ROWS]>,
    count: Box<[u32; ROWS]>,
    /// The rows that have arguments, in order: (row, arguments).
    args: Vec<(usize, [Option<u64>; 2])>,
    len: usize,
}

fn column<T: Copy + Default>() -> Box<[T; ROWS]> {
    vec![T::default(); ROWS].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("ROWS elements"))
}

impl StepRows {
    pub(crate) fn new() -> Self {
        Self { op: column(), addr: column(), size: column(), count: column(), args: Vec::new(), len: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, op: Op, addr: u64, size: u32, count: u32) {
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

    /// Checks that the rows of the step did not overwrite each other.
    pub(crate) fn check_length(&self) {
        assert!(self.len <= ROWS, "a step emitted {} rows, more than {ROWS}", self.len);
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.args.clear();
    }
}
