//! `FirstTouches` finds the page faults of a mix: the first reference to a page of a file must wait until the page has
//! been read.
//!
//! # Rules
//! - A page faults if it belongs to a segment with a file and no reference of the mix has touched this page of
//!   this file before. Segments of one file are one segment in all inputs, so a page of a shared file faults once
//!   for all processes and inputs. A process that touches the page while it is being read waits for the rest of the
//!   time. The page stays read to the end of the mix.
//! - A page without a file does not fault here: the system fills it with zeros, and needs no device.
//! - A page has the size that the traces name (4 KiB if they name none). Bytes outside every map have no file.
//! - The fault comes before the reference. The process leaves the processor with the cause page fault, and makes
//!   the reference when the wait is over. A reference waits once, also if it touches two such pages. If the
//!   quantum ends at the same reference, the process leaves because of the fault.
//! - A fault that an input marks itself is the fault of the reference behind the mark. The marked reference does not
//!   wait a second time.
//! - References between kernel-enter and kernel-leave do not fault.
//!
//! # Evicted pages
//! - With [`super::Faults::All`] a reference also waits if it brings back a page that the lane has evicted. The wait
//!   comes before the reference: the page gets its frame when the reference is made, as at a first touch. If the page
//!   is evicted once more before the reference is made, the reference does not wait a second time.
//! - A store that copies an evicted page waits, too, because the page must be read to be copied.
//! - A page that has died is not evicted. Its file stays read.
//!
//! # Cost
//! The rows that go into the mix are looked at once. A page that was looked at recently costs a comparison; any
//! other page costs a search among the maps of its address space.

use std::collections::{BTreeMap, HashMap};

use binhop_trace::{EventBatch, Op};

use crate::areas::{Area, Areas};

/// The page size where the traces name none, or no power of two.
const ASSUMED_PAGE: u64 = 4096;
/// The pages in the table of pages that are known not to fault.
const KNOWN: usize = 1 << 10;

/// `FirstTouches` knows which pages of files were referenced, and where address spaces map files.
pub(super) struct FirstTouches {
    page_log2: u32,
    /// The ranges that map files, of each address space.
    spaces: BTreeMap<u64, Areas>,
    /// When each page of a file that was referenced has been read: segment and page in the segment.
    read: HashMap<(u64, u64), u64>,
    /// The address space of the pages in `known`.
    asid: u64,
    /// Pages of this address space that do not fault, each plus 1, in the slot of its last bits.
    known: Box<[u64; KNOWN]>,
}

impl FirstTouches {
    pub(super) fn new(page_size: Option<u64>) -> Self {
        Self {
            page_log2: page_size.filter(|page| page.is_power_of_two()).unwrap_or(ASSUMED_PAGE).ilog2(),
            spaces: BTreeMap::new(),
            read: HashMap::new(),
            asid: 0,
            known: Box::new([0; KNOWN]),
        }
    }

    /// Notes a map event of an address space. `file` holds the segment, if it has a file, and the range's first
    /// byte in the segment.
    pub(super) fn map(&mut self, asid: u64, start: u64, pages: u32, file: Option<(u64, u64)>) {
        let end = self.unmap(asid, start, pages);
        if let Some((segment, first)) = file {
            let area = Area { end, segment: Some(segment), first, flags: 0 };
            self.spaces.entry(asid).or_default().insert(start, area);
        }
    }

    /// Notes an unmap event of an address space. Returns the end of the range.
    pub(super) fn unmap(&mut self, asid: u64, start: u64, pages: u32) -> u64 {
        let end = start.saturating_add(u64::from(pages) << self.page_log2);
        if let Some(areas) = self.spaces.get_mut(&asid) {
            areas.cut(start, end);
        }
        self.forget_known();
        end
    }

    /// Notes that an address space was born as a copy of another.
    pub(super) fn fork(&mut self, asid: u64, parent: u64) {
        let areas = self.spaces.get(&parent).cloned().unwrap_or_default();
        self.spaces.insert(asid, areas);
        self.forget_known();
    }

    /// Notes that the mappings of an address space have ended.
    pub(super) fn clear(&mut self, asid: u64) {
        self.spaces.remove(&asid);
        self.forget_known();
    }

    /// Returns the first row that touches a page which has not been read at time `now`, of rows that an address
    /// space makes.
    pub(super) fn first_unread(&mut self, asid: u64, rows: &EventBatch, now: u64) -> Option<usize> {
        self.set_asid(asid);
        let (op, addr, size) = (rows.op(), rows.addr(), rows.size());
        (0..rows.len()).find(|&row| {
            op[row] <= Op::Modify as u8
                && self.pages(addr[row], size[row]).any(|page| {
                    let slot = page as usize % KNOWN;
                    if self.known[slot] == page + 1 {
                        return false;
                    }
                    let read = |page| self.read.get(&page).is_some_and(|&time| time <= now);
                    let unread = self.file_page(page).is_some_and(|page| !read(page));
                    if !unread {
                        self.known[slot] = page + 1;
                    }
                    unread
                })
        })
    }

    /// Returns how long a reference at time `now` waits until its pages have been read; `None` if it does not wait.
    /// A page that nobody has referenced takes `latency` to read.
    pub(super) fn wait(&mut self, asid: u64, addr: u64, size: u32, now: u64, latency: u64) -> Option<u64> {
        self.set_asid(asid);
        let mut waits = None;
        for page in self.pages(addr, size) {
            let Some(page) = self.file_page(page) else { continue };
            let wait = match self.read.get(&page) {
                Some(&time) => Some(time.saturating_sub(now)).filter(|&rest| rest > 0),
                None => {
                    self.read.insert(page, now.saturating_add(latency));
                    Some(latency)
                }
            };
            waits = waits.max(wait);
        }
        waits
    }

    /// Notes that the pages of a reference have been read at time `now`.
    pub(super) fn note_read(&mut self, asid: u64, addr: u64, size: u32, now: u64) {
        self.set_asid(asid);
        for page in self.pages(addr, size) {
            if let Some(page) = self.file_page(page) {
                let read = self.read.entry(page).or_insert(now);
                *read = now.min(*read);
            }
        }
    }

    fn set_asid(&mut self, asid: u64) {
        if asid != self.asid {
            self.asid = asid;
            self.forget_known();
        }
    }

    fn pages(&self, addr: u64, size: u32) -> impl Iterator<Item = u64> + use<> {
        let last = addr.saturating_add(u64::from(size.max(1)) - 1);
        addr >> self.page_log2..=last >> self.page_log2
    }

    /// Returns the page of a file at a page of the present address space: its segment and its number there.
    fn file_page(&self, page: u64) -> Option<(u64, u64)> {
        let start = page << self.page_log2;
        let (from, area) = self.spaces.get(&self.asid)?.at(start)?;
        Some((area.segment?, area.first.wrapping_add(start.wrapping_sub(from)) >> self.page_log2))
    }

    fn forget_known(&mut self) {
        self.known.fill(0);
    }
}
