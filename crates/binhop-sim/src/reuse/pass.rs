//! `ReusePass` reads a trace once, and asks the stack for each access.

use std::collections::BTreeMap;

use binhop_base::{Asid, Bytes, PageNo, PowerOfTwo, Problem, Result};
use binhop_os::Spaces;
use binhop_trace::bounds::{exceeded_at, may_break};
use binhop_trace::{EventBatch, Meta, Source};

use super::histogram::{Histogram, ReuseCurve};
use super::stack::ReuseStack;
use super::{Reuse, ReuseKinds};
use crate::events::{EventPlace, SystemEvent, read_event};
use crate::results::SegmentNames;
use crate::soft_tlb::{SoftTlb, SoftTlbEntry};

/// The number of entries in the table of recent translations.
const TRANSLATIONS: usize = 4096;
const FETCH: usize = 0;
const LOAD: usize = 1;
const STORE: usize = 2;

pub(super) struct ReusePass {
    place: String,
    meta: Meta,
    /// The number of rows in the batches before the current batch.
    rows_before: u64,
    unit_log2: u32,
    /// The logarithm of the units in a page.
    in_page_log2: u32,
    /// True for each kind whose accesses are measured. The other references still copy pages on write.
    measured: [bool; 3],
    spaces: Spaces,
    running: Asid,
    soft_tlb: SoftTlb<TRANSLATIONS>,
    stack: ReuseStack,
    curve: ReuseCurve,
    /// The accesses of the process that runs, since it runs.
    process: Histogram,
    processes: BTreeMap<Asid, Histogram>,
    /// The number of each page's segment among the names.
    segment_of: Vec<u32>,
    names: BTreeMap<String, u32>,
    segments: Vec<Histogram>,
    outside: u64,
    references: u64,
    instructions: u64,
}

impl ReusePass {
    pub(super) fn new(unit: PowerOfTwo, kinds: ReuseKinds, source: &dyn Source) -> Self {
        let trace = source.meta().known_page_size().unwrap_or(4096);
        let page = PowerOfTwo::new(Bytes(trace.max(unit.bytes()))).unwrap_or(unit);
        Self {
            place: source.name().to_owned(),
            meta: source.meta().clone(),
            rows_before: 0,
            unit_log2: unit.log2(),
            in_page_log2: page.log2() - unit.log2(),
            measured: [kinds != ReuseKinds::Data, kinds != ReuseKinds::Fetch, kinds != ReuseKinds::Fetch],
            spaces: Spaces::new(page, Bytes(trace)),
            running: Asid(0),
            soft_tlb: SoftTlb::new(),
            stack: ReuseStack::new(),
            curve: ReuseCurve::default(),
            process: Histogram::default(),
            processes: BTreeMap::new(),
            segment_of: Vec::new(),
            names: BTreeMap::new(),
            segments: Vec::new(),
            outside: 0,
            references: 0,
            instructions: 0,
        }
    }

    pub(super) fn references(&self) -> u64 {
        self.references
    }

    /// Measures the rows of a batch.
    pub(super) fn feed(&mut self, batch: &EventBatch) -> Result<()> {
        let columns = batch.op().iter().zip(batch.addr()).zip(batch.size()).zip(batch.count());
        for (row, (((&code, &addr), &size), &count)) in columns.enumerate() {
            if may_break(size, count) {
                self.check(batch, row)?;
            }
            let first = addr >> self.unit_log2;
            let last = addr.saturating_add(u64::from(size.max(1) - 1)) >> self.unit_log2;
            let references = if code == 0 { u64::from(count) } else { u64::from(code <= 3) };
            self.references += references;
            match code {
                0 => {
                    self.instructions += references;
                    self.touch_all::<FETCH>(first, last)?;
                    self.repeat(last, references.saturating_sub(last - first + 1))?;
                }
                1 => self.touch_all::<LOAD>(first, last)?,
                2 => self.touch_all::<STORE>(first, last)?,
                3 => {
                    self.touch_all::<LOAD>(first, last)?;
                    self.touch_all::<STORE>(first, last)?;
                }
                _ => self.system(batch, row)?,
            }
        }
        self.rows_before += batch.len() as u64;
        Ok(())
    }

    /// Refuses a reference that breaks a bound.
    #[cold]
    fn check(&self, batch: &EventBatch, row: usize) -> Result<()> {
        exceeded_at(batch, row)
            .map_or(Ok(()), |exceeded| Err(exceeded.problem(&self.place, self.rows_before)))
    }

    #[inline(always)]
    fn touch_all<const KIND: usize>(&mut self, first: u64, last: u64) -> Result<()> {
        for unit in first..=last {
            let page = self.page_of(unit >> self.in_page_log2, KIND == STORE)?;
            if !self.measured[KIND] {
                continue;
            }
            let within = unit & ((1 << self.in_page_log2) - 1);
            let distance = self.stack.touch((page << self.in_page_log2) | within as u32);
            self.curve.add(distance);
            self.process.add(KIND, distance, 1);
            self.segments[self.segment_of[page as usize] as usize].add(KIND, distance, 1);
        }
        Ok(())
    }

    /// Counts further fetches from the unit fetched last.
    #[inline(always)]
    fn repeat(&mut self, unit: u64, accesses: u64) -> Result<()> {
        if accesses > 0 && self.measured[FETCH] {
            let page = self.page_of(unit >> self.in_page_log2, false)?;
            self.curve.add_repeated(accesses);
            self.process.add(FETCH, Some(0), accesses);
            self.segments[self.segment_of[page as usize] as usize].add(FETCH, Some(0), accesses);
        }
        Ok(())
    }

    #[inline(always)]
    fn page_of(&mut self, page_no: u64, write: bool) -> Result<u32> {
        match self.soft_tlb.find(self.running, page_no, write) {
            Some(entry) => Ok(entry.page),
            None => self.look_up(page_no, write),
        }
    }

    /// Asks the address spaces for the page, and stores the answer in the table.
    #[cold]
    #[inline(never)]
    fn look_up(&mut self, page_no: u64, write: bool) -> Result<u32> {
        let touch = self.spaces.touch(self.running, PageNo(page_no), write)?;
        if self.spaces.has_dead() {
            drop(self.spaces.drain_dead()); // The units of dead pages stay in the stack, as lines stay in a cache.
        }
        if touch.new_page {
            let units = (touch.page.index() as u64 + 1) << self.in_page_log2;
            if units >= 1 << 31 {
                return Err(Problem::run(
                    &format!("{units} lines"),
                    &self.place,
                    "a pass tells 2147483647 lines apart",
                    "measure larger lines, or a shorter part of the trace",
                ));
            }
            self.outside += u64::from(touch.outside);
            let name = SegmentNames::new(&self.meta).of(&self.spaces, touch.page);
            let next = self.segments.len() as u32;
            let segment = *self.names.entry(name).or_insert(next);
            if segment == next {
                self.segments.push(Histogram::default());
            }
            debug_assert_eq!(
                self.segment_of.len(),
                touch.page.index(),
                "pages are numbered in order of touch"
            );
            self.segment_of.push(segment);
        }
        self.soft_tlb.put(SoftTlbEntry::new(self.running, PageNo(page_no), &touch));
        Ok(touch.page.0)
    }

    #[cold]
    fn system(&mut self, batch: &EventBatch, row: usize) -> Result<()> {
        let place = EventPlace { trace: &self.place, row: self.rows_before + row as u64 };
        match read_event(batch, row, &place, self.running, &mut self.spaces)? {
            SystemEvent::Switch(asid, _) => {
                if asid != self.running {
                    self.end_turn();
                    self.running = asid;
                }
            }
            SystemEvent::Spaces => {
                self.soft_tlb.clear();
                drop(self.spaces.drain_dead());
            }
            SystemEvent::Kernel(_) | SystemEvent::Syscall | SystemEvent::Nothing => {}
        }
        Ok(())
    }

    /// Gives the accesses since the last switch to the process that runs.
    fn end_turn(&mut self) {
        let turn = std::mem::take(&mut self.process);
        if turn != Histogram::default() {
            self.processes.entry(self.running).or_default().add_all(&turn);
        }
    }

    pub(super) fn finish(mut self) -> Reuse {
        self.end_turn();
        self.curve.trim();
        let mut segments = self.segments;
        let named = self.names.into_iter();
        Reuse {
            references: self.references,
            instructions: self.instructions,
            curve: self.curve,
            processes: self.processes,
            segments: named.map(|(name, at)| (name, std::mem::take(&mut segments[at as usize]))).collect(),
            outside: if self.spaces.has_maps() { self.outside } else { 0 },
            unaligned: self.spaces.unaligned(),
        }
    }
}
