//! This part of preparation makes rows of references: of each line that a reference touches, unless the filters skip it.

use binhop_base::{Kind, MappingId, Result};

use super::{Control, FETCH, Prepare, Row};

impl Prepare {
    /// Takes in a fetch run. Returns whether the stream ends before the run.
    #[inline(always)]
    pub(super) fn fetch<const OCCASIONS: bool>(&mut self, addr: u64, size: u32, count: u64) -> Result<bool> {
        if self.stream.references + count > self.next_cut {
            self.cut(count);
        }
        if self.stream.instructions + count > self.next_interval && self.cut_interval(count) {
            return Ok(true);
        }
        let log2 = self.line_log2[FETCH];
        let first = addr >> log2;
        let last = addr.saturating_add(u64::from(size.max(1) - 1)) >> log2;
        self.access_lines::<OCCASIONS>(FETCH, (first, last), Kind::Fetch)?;
        let lines = last - first + 1;
        self.stream.accesses[0] += lines.max(count);
        self.stream.instructions += count;
        self.stream.references += count;
        Ok(false)
    }

    /// Takes in a load, a store, or both of the same bytes.
    #[inline(always)]
    pub(super) fn data_reference<const OCCASIONS: bool>(
        &mut self,
        addr: u64,
        size: u32,
        load: bool,
        store: bool,
    ) -> Result<()> {
        if self.stream.references + 1 > self.next_cut {
            self.cut(1);
        }
        let log2 = self.line_log2[self.data];
        let end = addr.saturating_add(u64::from(size.max(1) - 1));
        let (first, last) = (addr >> log2, end >> log2);
        if first != last {
            self.seen.straddling[0] += 1;
            self.seen.straddling[1] += u64::from(addr >> self.page.log2() != end >> self.page.log2());
        }
        if load {
            self.access_lines::<OCCASIONS>(self.data, (first, last), Kind::Load)?;
            self.stream.accesses[1] += last - first + 1;
        }
        if store {
            self.access_lines::<OCCASIONS>(self.data, (first, last), Kind::Store)?;
            self.stream.accesses[2] += last - first + 1;
        }
        self.stream.references += 1;
        Ok(())
    }

    /// Accesses each line from the first to the last.
    #[inline(always)]
    pub(super) fn access_lines<const OCCASIONS: bool>(
        &mut self,
        port: usize,
        (first, last): (u64, u64),
        kind: Kind,
    ) -> Result<()> {
        for line in first..=last {
            self.clock += 1;
            if OCCASIONS && self.occasions.is_some() {
                self.access_with_occasions(port, line, kind)?;
            } else if OCCASIONS {
                self.access_translated(port, line, kind)?;
            } else if !self.filters.drops(port, line, kind == Kind::Store, self.clock) {
                self.pass(port, line, kind)?;
            }
        }
        Ok(())
    }

    /// Passes an access that a first-level cache must simulate.
    #[inline(never)]
    pub(super) fn pass(&mut self, port: usize, line: u64, kind: Kind) -> Result<()> {
        let mapping = self.reach(port, line, kind)?;
        let violates = self.violates(port, line, mapping, kind)?;
        if self.miss_tables.is_some() {
            self.pass_handled(port, line, mapping, kind);
        } else {
            self.push(port, line, mapping, kind);
        }
        if violates {
            // The next access to the line is passed, too, and counted.
            self.filters.forget_line(port, line);
        }
        Ok(())
    }

    /// Passes an access of a page that every lane holds.
    #[inline]
    pub(super) fn push(&mut self, port: usize, line: u64, mapping: MappingId, kind: Kind) {
        self.passed[kind as usize] += 1;
        let watched = self.watch(port, line, mapping, kind);
        if self.timed {
            self.gaps.push(self.stream.instructions - self.instructions_at_row);
            self.instructions_at_row = self.stream.instructions;
        }
        let row = self.row(port, line, mapping, kind);
        self.rows.push(row);
        if let Some(made) = watched {
            self.control(Control::Watch(made));
        }
    }

    /// Returns the mapping by which the caches know the page of a mapping.
    #[inline]
    pub(super) fn name_of(&self, mapping: MappingId) -> MappingId {
        self.global.as_ref().map_or(mapping, |global| global.name_of(mapping))
    }

    /// Makes the row of an access. From now on the filter trusts the row's line.
    #[inline]
    pub(super) fn row(&mut self, port: usize, line: u64, mapping: MappingId, kind: Kind) -> Row {
        let in_page = self.page.log2() - self.line_log2[port];
        let store = kind == Kind::Store;
        if let Some((left, time)) = self.filters.pass(port, line, mapping.0, store, self.clock) {
            self.note(MappingId(left), time);
            self.translator.iter_mut().for_each(|translator| translator.left(port, MappingId(left), time));
        }
        Row::new(self.name_of(mapping), (line & ((1 << in_page) - 1)) as u32, kind)
    }
}
