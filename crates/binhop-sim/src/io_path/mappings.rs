//! `Mappings` finds the references that fault because they touch a page of a mapped file.
//!
//! # Rules
//! - A segment is a file on the disk if its name is an absolute path to a file ([`is_on_disk`]).
//! - A page of a mapped file enters the page tables of an address space at a fault: at its first touch there since the
//!   range was mapped, and since the page came into the page cache. So a page that leaves the page cache leaves all
//!   page tables. A child of a fork begins without such pages (Linux, `vma_needs_copy`).
//! - A store through a shared mapping is a fault, too, if the page is clean.
//! - The first store through a private mapping faults for a read, and then gives the address space a page of its own.
//!   A page that an address space has of its own does not fault.
//! - A file has all pages that a mapping leads to, if the trace does not say how long it is.
//! - Where pages have colors, the color of a page of a process follows from the touch that makes the page.
//! - Where the page cache competes for memory ([`IoConfig::memory`](binhop_os::io::IoConfig)), every page that the
//!   program touches takes part. All pages of a reference are in memory together. If room for one page of the reference
//!   pushed out another page of the reference, that page faults again, and is then read alone.
//! - The kernel's copies from and to the user's memory, and direct transfers, fault where the buffer lies in a mapped
//!   file ([`UserPage`]).
//!
//! Our own rules: A touch without a fault does not change the order of the page cache. Requests of devices that the
//! trace itself holds take no part in the competition. A page of the machine that is not one page of a segment
//! ([`Spaces`]) does not fault. A call that reads from a pipe more bytes than the path has seen in it touches all pages
//! of its buffer.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use binhop_base::{Asid, Bytes, PageId, PageNo, PowerOfTwo, Result, VirtAddr};
use binhop_os::Spaces;
use binhop_os::io::{FileId, FilePage, IoPath, IoStep, MemoryPage, UserPage};
use binhop_os::placement::PageColors;
use binhop_trace::bounds::LARGEST_REFERENCE;
use binhop_trace::event::Event;
use binhop_trace::{EventBatch, Op};

use super::HALF;
use crate::events::{EventPlace, SystemEvent, read_event};

/// Returns whether an absolute path leads to a device, or to memory that Linux shows as a file.
pub(super) fn is_elsewhere(path: &str) -> bool {
    let elsewhere = ["/dev/", "/proc/", "/sys/", "/memfd:", "/SYSV", "/anon_hugepage", "/[aio]"];
    elsewhere.iter().any(|&start| path.starts_with(start))
}

/// Returns whether a name names a file on the disk: the name is an absolute path, and leads neither to a device nor to
/// memory that Linux shows as a file.
pub(super) fn is_on_disk(name: &str) -> bool {
    name.starts_with('/') && !is_elsewhere(name)
}

/// `KnownPage` is a virtual page whose next reference does not fault. If `stores` is true, a store does not fault
/// either.
#[derive(Clone, Copy)]
struct KnownPage {
    asid: Asid,
    page: u64,
    stores: bool,
    /// The page's slot in the order of pages in memory, if pages compete.
    memory: Option<u32>,
}

impl KnownPage {
    /// No page has this number.
    const NONE: Self = Self { asid: Asid(0), page: u64::MAX, stores: false, memory: None };
}

/// `RecentPages` holds the last two pages among the pages of references that could not fault. Mostly these are a page
/// of text and a page of data.
pub(super) struct RecentPages {
    pages: [KnownPage; 2],
    /// The place of the page that was referenced last.
    last: usize,
}

impl Default for RecentPages {
    fn default() -> Self {
        Self { pages: [KnownPage::NONE; 2], last: 0 }
    }
}

/// `Touched` is a virtual page that a reference touches.
struct Touched {
    faults: bool,
    /// True if a later store does not fault, and leads to the same page.
    stores_pass: bool,
    /// The page in memory, if pages compete.
    behind: Option<MemoryPage>,
}

/// The number of pages that are remembered.
const KNOWN_PAGES: usize = 1024;

/// `Mappings` holds the page tables of all address spaces, as far as they lead to files.
pub(super) struct Mappings {
    spaces: Spaces,
    here: Asid,
    log2: u32,
    page: u64,
    trace_page: u64,
    /// The file behind each segment.
    files: BTreeMap<u64, FileId>,
    /// The pages in the page tables, by address space and virtual page. Each entry has the number of times that its
    /// page had left the page cache when the entry was made: if the page has left again, the entry no longer holds.
    tables: BTreeMap<(Asid, u64), (FilePage, u64)>,
    /// The number of times that a page has left the page cache.
    left: BTreeMap<FilePage, u64>,
    known: Box<[KnownPage; KNOWN_PAGES]>,
    /// The colors of pages, if pages compete for memory.
    competes: Option<PageColors>,
    /// The revision of the page cache for which `known` holds.
    revision: u64,
}

impl Mappings {
    /// Makes empty page tables. `files` has the file behind each segment. `competes` has the colors of pages if pages
    /// compete for memory.
    ///
    /// # Errors
    /// The kernel's half does not begin with a page.
    pub(super) fn new(
        page: u64,
        trace_page: u64,
        files: BTreeMap<u64, FileId>,
        competes: Option<PageColors>,
    ) -> Result<Self> {
        let log2 = page.ilog2();
        let mut spaces = Spaces::new(PowerOfTwo::from_log2(log2), Bytes(trace_page));
        spaces.share_from(VirtAddr(HALF))?;
        Ok(Self {
            spaces,
            here: Asid(0),
            log2,
            page,
            trace_page,
            files,
            tables: BTreeMap::new(),
            left: BTreeMap::new(),
            known: Box::new([KnownPage::NONE; KNOWN_PAGES]),
            competes,
            revision: 0,
        })
    }

    /// Follows an event that is no reference.
    ///
    /// # Errors
    /// The numbers of the event are out of range.
    pub(super) fn event(
        &mut self,
        batch: &EventBatch,
        row: usize,
        place: &EventPlace<'_>,
        path: &mut IoPath,
    ) -> Result<()> {
        let event = Event::of(batch, row);
        match event.op {
            Op::Map | Op::Unmap => {
                let bytes = u64::from(event.count) * self.trace_page;
                let last = event.addr.saturating_add(bytes.saturating_sub(1));
                self.forget(self.here, event.addr >> self.log2..=last >> self.log2);
            }
            Op::Fork | Op::Exec | Op::Exit => {
                if let Ok(asid) = u32::try_from(event.addr) {
                    self.forget(Asid(asid), 0..=u64::MAX);
                }
            }
            Op::Switch => {}
            _ => return Ok(()),
        }
        if let SystemEvent::Switch(asid, _) = read_event(batch, row, place, self.here, &mut self.spaces)? {
            self.here = asid;
            return Ok(());
        }
        self.lose_dead(path);
        self.known.fill(KnownPage::NONE);
        if event.op == Op::Map
            && let Some(&file) = event.arg0.and_then(|segment| self.files.get(&segment))
            && let Some(before) = u64::from(event.count).checked_sub(1)
        {
            let last = before.checked_mul(self.trace_page).and_then(|last| last.checked_add(event.arg1?));
            if let Some(last) = last.filter(|&last| last < IoPath::LARGEST) {
                path.reach_mapped(file, last + 1);
            }
        }
        Ok(())
    }

    /// Removes virtual pages of an address space from its page table.
    fn forget(&mut self, asid: Asid, pages: RangeInclusive<u64>) {
        let (first, last) = ((asid, *pages.start()), (asid, *pages.end()));
        let gone: Vec<_> = self.tables.range(first..=last).map(|(&key, _)| key).collect();
        for key in gone {
            self.tables.remove(&key);
        }
    }

    /// Follows a reference, and returns whether it faults: `steps` gets the steps of its faults. `now` is the time in
    /// instructions.
    ///
    /// # Errors
    /// The trace has more pages than a number of 32 bits tells apart.
    #[inline]
    pub(super) fn reference(
        &mut self,
        (addr, bytes, stores): (u64, u32, bool),
        now: u64,
        path: &mut IoPath,
        steps: &mut Vec<IoStep>,
    ) -> Result<bool> {
        if bytes > LARGEST_REFERENCE {
            // Preparation refuses the row.
            return Ok(false);
        }
        let first = addr >> self.log2;
        let last = addr.saturating_add(u64::from(bytes.saturating_sub(1))) >> self.log2;
        if self.competes.is_some() && first != last {
            // No page of the reference becomes the page used last before the other pages of the reference have faulted.
            return self.touch_all(first..=last, stores, now, path, steps);
        }
        for page in first..=last {
            let known = &self.known[self.slot(page)];
            if known.page != page
                || known.asid != self.here
                || (stores && !known.stores)
                || known.memory.is_some_and(|slot| !path.refer_again(slot))
            {
                return self.touch_all(first..=last, stores, now, path, steps);
            }
        }
        Ok(false)
    }

    /// Follows a reference to a single page, if the page is known: then the reference cannot fault. Returns whether the
    /// reference was followed. `recent` has seen exactly the references since the last reference that this function did
    /// not follow.
    #[inline]
    pub(super) fn passes(
        &self,
        (addr, bytes, stores): (u64, u32, bool),
        recent: &mut RecentPages,
        path: &mut IoPath,
    ) -> bool {
        let page = addr >> self.log2;
        if addr.saturating_add(u64::from(bytes.saturating_sub(1))) >> self.log2 != page {
            return false;
        }
        let is_last = recent.pages[recent.last].page == page;
        if !is_last {
            recent.last = 1 - recent.last;
        }
        let place = &mut recent.pages[recent.last];
        let is_recent = place.page == page;
        if !is_recent || (stores && !place.stores) {
            let known = &self.known[self.slot(page)];
            if known.page != page || known.asid != self.here || (stores && !known.stores) {
                return false;
            }
            *place = *known;
        }
        // A second reference in a row changes no order.
        is_last || place.memory.is_none_or(|slot| path.refer_again(slot))
    }

    /// Follows a reference to pages. All of these pages are in memory afterwards. Returns whether the reference faults
    /// or makes steps.
    #[cold]
    fn touch_all(
        &mut self,
        pages: RangeInclusive<u64>,
        stores: bool,
        now: u64,
        path: &mut IoPath,
        steps: &mut Vec<IoStep>,
    ) -> Result<bool> {
        let mut faults = false;
        let mut touched: Vec<Touched> = Vec::new();
        // Every pass but the first brings in a page that stays. A page cache that is too small for all pages never
        // settles.
        let passes = pages.end() - pages.start() + 3;
        for pass in 0..passes {
            let before = steps.len();
            let again = pass > 0;
            touched.clear();
            for page in pages.clone() {
                let page_touched = self.touch(page, (stores, again), now, path, steps)?;
                // `note` forgets the pages that leave at the fault of a later page.
                self.know(page, page_touched.stores_pass, None);
                touched.push(page_touched);
            }
            faults |= touched.iter().any(|page| page.faults);
            if self.competes.is_none() {
                // No page was ever pushed out to make room for another page in memory.
                break;
            }
            let behind: Vec<MemoryPage> = touched.iter().filter_map(|page| page.behind).collect();
            let first = steps.len();
            path.refer(&behind, &mut |step| steps.push(step));
            self.note(&steps[first..], path);
            for (page, touched) in pages.clone().zip(&touched) {
                let memory = touched.behind.and_then(|behind| path.memory_slot(behind));
                self.know(page, touched.stores_pass, memory);
            }
            if steps.len() == before {
                break;
            }
            // The steps may have pushed some of the pages out.
            self.known.fill(KnownPage::NONE);
        }
        Ok(faults || !steps.is_empty())
    }

    /// Remembers a virtual page whose next reference does not fault.
    fn know(&mut self, page: u64, stores: bool, memory: Option<u32>) {
        self.known[self.slot(page)] = KnownPage { asid: self.here, page, stores, memory };
    }

    /// Returns the page behind a virtual page that leads to no file, and whether a later store leads to the same page.
    fn own_page(&mut self, page: u64, stores: bool, path: &mut IoPath) -> Result<(MemoryPage, bool)> {
        let touch = self.spaces.touch(self.here, PageNo(page), stores)?;
        self.lose_dead(path);
        Ok((self.in_memory(touch.page), touch.write_free))
    }

    /// Returns a page of an address space as a page of memory.
    fn in_memory(&self, page: PageId) -> MemoryPage {
        let color = self.competes.map_or(0, |colors| {
            let asid = if colors.pid_hash { self.spaces.first_space(page) } else { None };
            colors.of(self.spaces.global_page(page), asid)
        });
        MemoryPage::Own { number: page.0.into(), color }
    }

    /// Forgets pages that have died.
    fn lose_dead(&mut self, path: &mut IoPath) {
        for page in self.spaces.drain_dead() {
            path.lose_page(self.in_memory(page));
        }
    }

    /// Returns the first byte of these buffers that lies in no memory of the running process: nobody has mapped or
    /// referenced it, and the process has mapped something.
    ///
    /// # Errors
    /// The trace has more pages than a number of 32 bits tells apart.
    pub(super) fn outside_memory(
        &mut self,
        buffers: impl Iterator<Item = (u64, u32)>,
        stores: bool,
        path: &mut IoPath,
    ) -> Result<Option<u64>> {
        if self.competes.is_none() {
            // Every address is memory where physical = virtual.
            return Ok(None);
        }
        for (start, bytes) in buffers {
            let last = start.saturating_add(u64::from(bytes.saturating_sub(1))) >> self.log2;
            for page in start >> self.log2..=last {
                let page_no = PageNo(page);
                let is_known = self.spaces.existing_page(self.here, page_no).is_some();
                if is_known || self.spaces.segment_page_at(self.here, page_no).is_some() {
                    continue;
                }
                // Only a touch tells whether a stack grows to the page.
                let touch = self.spaces.touch(self.here, page_no, stores)?;
                self.lose_dead(path);
                if touch.outside && self.spaces.maps_anything(self.here, page_no) {
                    return Ok(Some(start.max(page << self.log2)));
                }
            }
        }
        Ok(None)
    }

    /// Tells the path what lies behind the user's buffers of the next call, all bytes of which the call moves. `stores`
    /// says that the kernel or a device writes the buffers.
    ///
    /// # Errors
    /// The trace has more pages than a number of 32 bits tells apart.
    pub(super) fn name_buffers(
        &mut self,
        buffers: impl Iterator<Item = (u64, u32)>,
        stores: bool,
        path: &mut IoPath,
    ) -> Result<()> {
        let mut named = BTreeMap::new();
        for (start, bytes) in buffers {
            let last = start.saturating_add(u64::from(bytes.saturating_sub(1))) >> self.log2;
            for page in start >> self.log2..=last {
                if named.contains_key(&page) {
                    continue;
                }
                let behind = match self.file_page(page) {
                    Some((of, shared)) => {
                        let is_entered =
                            self.tables.get(&(self.here, page)) == Some(&(of, self.times_left(of)));
                        let copy =
                            (stores && !shared).then(|| self.own_page(page, true, path)).transpose()?;
                        UserPage::Mapped { of, is_entered, copy: copy.map(|(copy, _)| copy) }
                    }
                    None if self.competes.is_none() => continue,
                    // The touch may copy a page that was shared since a fork, so that the space has a page of its own
                    // now.
                    None => UserPage::Own(self.own_page(page, stores, path)?.0),
                };
                let slot = self.slot(page);
                self.known[slot] = KnownPage::NONE;
                named.insert(page, behind);
            }
        }
        path.name_user_pages(named);
        Ok(())
    }

    /// Enters pages of mapped files into the page table: the pages that faulted during the last call, because the
    /// call's buffers lie there.
    pub(super) fn enter_buffers(&mut self, path: &mut IoPath) {
        for (&page, behind) in path.user_pages() {
            if let UserPage::Mapped { of, is_entered: true, .. } = *behind {
                self.tables.insert((self.here, page), (of, self.times_left(of)));
            }
        }
        path.name_user_pages(BTreeMap::new());
    }

    /// Returns the page of a file behind a virtual page, and whether the mapping is shared.
    fn file_page(&self, page: u64) -> Option<(FilePage, bool)> {
        let behind = self.spaces.segment_page_at(self.here, PageNo(page))?;
        let file = *self.files.get(&behind.segment)?;
        let end = behind.index.checked_add(1)?.checked_mul(self.page)?;
        (end <= IoPath::LARGEST).then_some((FilePage { file, page: behind.index }, behind.shared))
    }

    #[inline]
    const fn slot(&self, page: u64) -> usize {
        (page ^ (self.here.0 as u64) << 5) as usize % KNOWN_PAGES
    }

    /// Makes a page fault if the rules say so. `again` says that the page may have been pushed out to make room for
    /// another page of the reference.
    fn touch(
        &mut self,
        page: u64,
        (stores, again): (bool, bool),
        now: u64,
        path: &mut IoPath,
        steps: &mut Vec<IoStep>,
    ) -> Result<Touched> {
        let (asid, key) = (self.here, (self.here, page));
        let mut faults = false;
        if let Some((file_page, shared)) = self.file_page(page) {
            let dirties = stores && shared;
            let is_in_table = self.tables.get(&key) == Some(&(file_page, self.times_left(file_page)));
            if !is_in_table || (dirties && !path.is_dirty(file_page)) {
                faults = true;
                let first = steps.len();
                let emit = &mut |step| steps.push(step);
                path.pass_time(now, emit);
                if again {
                    path.fault_again(file_page, dirties, emit);
                } else {
                    path.fault(file_page, dirties, emit);
                }
                self.note(&steps[first..], path);
                self.tables.insert(key, (file_page, self.times_left(file_page)));
            }
            if !stores || shared {
                let behind = Some(MemoryPage::File(file_page)).filter(|_| self.competes.is_some());
                return Ok(Touched { faults, stores_pass: stores, behind });
            }
            self.spaces.touch(asid, PageNo(page), true)?;
            self.lose_dead(path);
        }
        if self.competes.is_none() {
            return Ok(Touched { faults, stores_pass: true, behind: None });
        }
        let (behind, stores_pass) = self.own_page(page, stores, path)?;
        Ok(Touched { faults, stores_pass, behind: Some(behind) })
    }

    /// Returns the runs of pages of files that shared mappings show in a range of the running address space: the first
    /// page and the number of pages.
    pub(super) fn shared_runs(&self, start: u64, bytes: u64) -> Vec<(FilePage, u64)> {
        let last = start.saturating_add(bytes.saturating_sub(1)) >> self.log2;
        let mut runs: Vec<(FilePage, u64)> = Vec::new();
        for page in start >> self.log2..=last {
            let Some(behind) =
                self.spaces.segment_page_at(self.here, PageNo(page)).filter(|behind| behind.shared)
            else {
                continue;
            };
            let Some(&file) = self.files.get(&behind.segment) else { continue };
            match runs.last_mut() {
                Some((first, pages)) if first.file == file && first.page + *pages == behind.index => {
                    *pages += 1;
                }
                _ => runs.push((FilePage { file, page: behind.index }, 1)),
            }
        }
        runs
    }

    fn times_left(&self, page: FilePage) -> u64 {
        self.left.get(&page).copied().unwrap_or(0)
    }

    /// Notes what the steps of a call or a fault did to the page cache.
    pub(super) fn note(&mut self, steps: &[IoStep], path: &IoPath) {
        for step in steps {
            if let IoStep::Dropped(page) = step {
                *self.left.entry(*page).or_insert(0) += 1;
            }
        }
        if self.revision != path.revision() {
            self.revision = path.revision();
            self.known.fill(KnownPage::NONE);
        }
    }
}
