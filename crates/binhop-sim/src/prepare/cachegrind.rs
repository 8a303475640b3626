//! This part of preparation takes in rows under cachegrind's rules, by which each reference stays whole.
//!
//! Counting rules
//! - A reference is one access, of one line or of two lines. A reference that is longer than the smallest
//!   line of the machine's caches is cut to that length.
//! - A modify is one load. A fetch of one instruction is one reference. In a run of several instructions each
//!   line is one reference, and the instructions beyond the lines hit, because the trace does not say where
//!   an instruction begins and which instructions straddle.
//! - A reference is skipped if each of its lines may be skipped. Then it hits, and the level behind is not
//!   asked. If one line is passed, both lines are passed: the level behind is asked for the whole reference.

use binhop_base::{Kind, Result};

use super::{FETCH, Prepare};

impl Prepare {
    /// Takes in one instruction. Returns whether the stream ends before it.
    #[inline(always)]
    pub(super) fn instruction(&mut self, addr: u64, size: u32) -> Result<bool> {
        if self.stream.references + 1 > self.next_cut {
            self.cut(1);
        }
        if self.stream.instructions + 1 > self.next_interval && self.cut_interval(1) {
            return Ok(true);
        }
        self.refer(FETCH, addr, size, Kind::Fetch)?;
        self.stream.instructions += 1;
        self.stream.references += 1;
        Ok(false)
    }

    /// Takes in a load, a store, or a modify, which is a load.
    #[inline(always)]
    pub(super) fn cachegrind_reference(&mut self, addr: u64, size: u32, kind: Kind) -> Result<()> {
        if self.stream.references + 1 > self.next_cut {
            self.cut(1);
        }
        self.refer(self.data, addr, size, kind)?;
        self.stream.references += 1;
        Ok(())
    }

    #[inline(always)]
    fn refer(&mut self, port: usize, addr: u64, size: u32, kind: Kind) -> Result<()> {
        let longest = self.longest_reference.unwrap_or(u64::MAX);
        let log2 = self.line_log2[port];
        let end = addr.saturating_add(u64::from(size.max(1)).min(longest) - 1);
        let (first, last) = (addr >> log2, end >> log2);
        self.stream.accesses[kind as usize] += 1;
        self.clock += 1;
        // No line is ever dirty, so a store may be skipped where a load may be skipped.
        let sure = self.filters.drops_read(port, first, self.clock);
        if first == last {
            return if sure { Ok(()) } else { self.pass(port, first, kind) };
        }
        let two_pages = addr >> self.page.log2() != end >> self.page.log2();
        if kind != Kind::Fetch {
            self.seen.straddling[0] += 1;
            self.seen.straddling[1] += u64::from(two_pages);
        }
        if sure && self.filters.drops_read(port, last, self.clock) {
            return Ok(());
        }
        self.pass_both(port, [first, last], kind)
    }

    /// Passes a reference of two lines that level 1 must simulate: two rows with nothing between them.
    #[inline(never)]
    fn pass_both(&mut self, port: usize, lines: [u64; 2], kind: Kind) -> Result<()> {
        self.passed[kind as usize] += 1;
        let [first, last] = lines;
        let mappings = [self.reach(port, first, kind)?, self.reach(port, last, kind)?];
        let row = self.row(port, first, mappings[0], kind).continues();
        self.rows.push(row);
        let row = self.row(port, last, mappings[1], kind);
        self.rows.push(row);
        Ok(())
    }
}
