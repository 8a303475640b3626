//! `Pass` reads a trace once, for all color counts and memory sizes.
//!
//! A reference takes the cheapest of three ways. If its page is the page of the port's last reference (fetch or
//! data), the pass stores a time. If a small table knows the page, the pass looks up the page's number, too.
//! Only a page that some color count has moved out of its most recent group goes to the stacks.

use binhop_base::{Asid, Bytes, PageNo, PowerOfTwo, Result};
use binhop_os::Spaces;
use binhop_trace::bounds::{exceeded_at, may_break};
use binhop_trace::{EventBatch, Source};

use super::recent::Page;
use super::stacks::Stacks;
use super::{FirstTouch, Paging, PagingOptions};
use crate::events::{EventPlace, SystemEvent, read_event};
use crate::soft_tlb::{SoftTlb, SoftTlbEntry};

/// The number of entries in the table of recent translations.
const TRANSLATIONS: usize = 4096;
const FETCH: usize = 0;
const DATA: usize = 1;

pub(super) struct Pass {
    place: String,
    /// The number of rows in the batches before the current batch.
    rows_before: u64,
    page_log2: u32,
    pid_hash: bool,
    spaces: Spaces,
    running: Asid,
    soft_tlb: SoftTlb<TRANSLATIONS>,
    /// The page of each port's last reference, as long as every color count holds it in its recent group.
    ports: [SoftTlbEntry; 2],
    pages: Vec<Page>,
    clock: u64,
    colors: Vec<u64>,
    stacks: Vec<Stacks>,
    /// The rank of each memory size of the options among the sorted sizes.
    ranks: Vec<usize>,
    all_away: u64,
    first_touches: Vec<FirstTouch>,
    outside: u64,
    references: u64,
    instructions: u64,
}

impl Pass {
    /// Makes a pass for options that have been checked.
    pub(super) fn new(options: &PagingOptions, page: PowerOfTwo, source: &dyn Source) -> Self {
        let mut sizes = options.sizes.clone();
        sizes.sort_unstable();
        let frames = |colors: u64| -> Vec<u32> {
            sizes.iter().map(|size| (size.0 / page.bytes() / colors) as u32).collect()
        };
        let rank = |size| sizes.iter().position(|&other| other == size).expect("sorted from the same");
        Self {
            place: source.name().to_owned(),
            rows_before: 0,
            page_log2: page.log2(),
            pid_hash: options.pid_hash,
            spaces: Spaces::new(page, Bytes(source.meta().page_size.unwrap_or(4096))),
            running: Asid(0),
            soft_tlb: SoftTlb::new(),
            ports: [SoftTlbEntry::EMPTY; 2],
            pages: Vec::new(),
            clock: 0,
            colors: options.colors.clone(),
            stacks: options.colors.iter().map(|&colors| Stacks::new(colors, &frames(colors))).collect(),
            ranks: options.sizes.iter().map(|&size| rank(size)).collect(),
            all_away: u64::MAX >> (64 - options.colors.len()),
            first_touches: Vec::new(),
            outside: 0,
            references: 0,
            instructions: 0,
        }
    }

    pub(super) fn references(&self) -> u64 {
        self.references
    }

    /// Counts the rows of a batch.
    pub(super) fn feed(&mut self, batch: &EventBatch) -> Result<()> {
        let columns = batch.op().iter().zip(batch.addr()).zip(batch.size()).zip(batch.count());
        for (row, (((&code, &addr), &size), &count)) in columns.enumerate() {
            if may_break(size, count) {
                self.check(batch, row)?;
            }
            let first = addr >> self.page_log2;
            let last = addr.saturating_add(u64::from(size.max(1) - 1)) >> self.page_log2;
            let references = if code == 0 { u64::from(count) } else { u64::from(code <= 3) };
            self.references += references;
            match code {
                0 => {
                    self.instructions += references;
                    self.touch_all::<FETCH>(first, last, false)?;
                }
                1 => self.touch_all::<DATA>(first, last, false)?,
                2 => self.touch_all::<DATA>(first, last, true)?,
                3 => {
                    self.touch_all::<DATA>(first, last, false)?;
                    self.touch_all::<DATA>(first, last, true)?;
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
    fn touch_all<const PORT: usize>(&mut self, first: u64, last: u64, write: bool) -> Result<()> {
        let port = self.ports[PORT];
        if first == last && port.translates(first, write) {
            self.clock += 1;
            self.pages[port.page as usize].last = self.clock;
            return Ok(());
        }
        for page_no in first..=last {
            self.touch::<PORT>(page_no, write)?;
        }
        Ok(())
    }

    #[inline]
    fn touch<const PORT: usize>(&mut self, page_no: u64, write: bool) -> Result<()> {
        let entry = match self.soft_tlb.find(self.running, page_no, write) {
            Some(entry) => entry,
            None => self.look_up(page_no, write)?,
        };
        self.clock += 1;
        let page = &mut self.pages[entry.page as usize];
        page.last = self.clock;
        if page.away != 0 {
            self.bring_in(entry.page);
        }
        self.ports[PORT] = entry;
        Ok(())
    }

    /// Asks the address spaces for the page, and stores the answer in the table.
    #[cold]
    #[inline(never)]
    fn look_up(&mut self, page_no: u64, write: bool) -> Result<SoftTlbEntry> {
        let touch = self.spaces.touch(self.running, PageNo(page_no), write)?;
        if self.spaces.has_dead() {
            drop(self.spaces.drain_dead()); // Dead pages keep their frames and age.
        }
        if touch.new_page {
            let first = FirstTouch { page_no: PageNo(page_no), asid: self.running };
            self.first_touches.push(first);
            self.outside += u64::from(touch.outside);
            self.pages.push(Page { last: 0, away: self.all_away });
            for (stacks, &colors) in self.stacks.iter_mut().zip(&self.colors) {
                stacks.admit(first.color(colors, self.pid_hash));
            }
            debug_assert_eq!(
                self.pages.len(),
                touch.page.index() + 1,
                "pages are numbered in order of touch"
            );
        }
        if write {
            self.ports = [SoftTlbEntry::EMPTY; 2]; // A copy on write may have given the virtual page another page.
        }
        let entry = SoftTlbEntry::new(self.running, PageNo(page_no), &touch);
        self.soft_tlb.put(entry);
        Ok(entry)
    }

    /// Moves a touched page to the recent group of every color count that had moved it out.
    #[inline(never)]
    fn bring_in(&mut self, page: u32) {
        let mut away = std::mem::take(&mut self.pages[page as usize].away);
        while away != 0 {
            let index = away.trailing_zeros();
            away &= away - 1;
            if let Some(left) = self.stacks[index as usize].touch(page, &self.pages) {
                self.pages[left as usize].away |= 1 << index;
                for port in &mut self.ports {
                    if port.page == left {
                        *port = SoftTlbEntry::EMPTY;
                    }
                }
            }
        }
    }

    #[cold]
    fn system(&mut self, batch: &EventBatch, row: usize) -> Result<()> {
        let place = EventPlace { trace: &self.place, row: self.rows_before + row as u64 };
        match read_event(batch, row, &place, self.running, &mut self.spaces)? {
            SystemEvent::Switch(asid, _) => {
                self.running = asid;
                self.ports = [SoftTlbEntry::EMPTY; 2];
            }
            SystemEvent::Spaces => {
                self.soft_tlb.clear();
                self.ports = [SoftTlbEntry::EMPTY; 2];
                drop(self.spaces.drain_dead());
            }
            SystemEvent::Kernel(_) | SystemEvent::Syscall | SystemEvent::Nothing => {}
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Paging {
        let faults = |stacks: &Stacks| {
            let faults = stacks.faults();
            self.ranks.iter().map(|&rank| faults[rank]).collect()
        };
        Paging {
            references: self.references,
            instructions: self.instructions,
            faults: self.stacks.iter().map(faults).collect(),
            first_touches: self.first_touches,
            outside: if self.spaces.has_maps() { self.outside } else { 0 },
            unaligned: self.spaces.unaligned(),
        }
    }
}
