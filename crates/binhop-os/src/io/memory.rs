//! `MemoryOrder` holds the order in which the page cache and all other pages leave memory, for which they compete.
//!
//! # Rules
//! - The order is the order of last references. The program, the kernel's copies and devices make references. Memory
//!   has room for [`MemoryRoom::pages`] of each color. The driver's descriptors and the kernel's text do not count; the
//!   caller leaves room for them.
//! - Page n of a file, and page n of the packets' buffers or of pipes, has color n mod colors, as if the kernel reached
//!   it at virtual page n. The caller states the color of a page of a process. There may be one color.
//! - Before a page that is not in memory is referenced, pages of its color are *reclaimed* until it has room, the page
//!   that was referenced longest ago first. A clean page of the page cache leaves the cache. A dirty page of the page
//!   cache is written to the disk with its dirty neighbours. The device reads the page then, so it becomes the page
//!   referenced last. It leaves when it is the oldest page again and still clean. Any other page leaves the order, and
//!   nothing else happens: the placement of each lane decides when its frame is taken. If several pages come together,
//!   the first of them whose color has no room says in which color a page is reclaimed.
//! - A page that dies or leaves the page cache keeps its place in the order, as its frame does in memory. Where dead
//!   frames are reused at once ([`MemoryRoom::reuses_frames`]), the page leaves the order, too, unless a process has
//!   had it in a mapping.
//! - The pages of a copy, of a fill, and of a request to the disk come together: all of them are in memory before
//!   the first step is made. The pages of a reference of the program, which the caller names, come together, too.
//!   Each color has room for all pages that come together.
//!
//! So a page of the page cache leaves memory here, at the same moment under every placement. No placement takes its
//! frame, because fewer than S other pages of its color have been referenced since its own last reference
//! ([`Policy::safe_frames`](crate::placement::Policy::safe_frames)).

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

use binhop_base::PageNo;

use super::config::MemoryRoom;
use super::rings::Data;
use super::{BufferPool, Emit, FilePage, IoPath, IoStep, Location};
use crate::placement::PageColors;

/// `MemoryPage` is a page of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryPage {
    /// A page of a file.
    File(FilePage),
    /// A page with buffers of the kernel, by its number in the pool.
    Buffer(BufferPool, u64),
    /// Another page of processes.
    Own {
        /// The number that the caller gives the page.
        number: u64,
        /// The color of the page, which never changes.
        color: u64,
    },
}

impl MemoryPage {
    /// Returns the color of the page.
    fn color(self, colors: PageColors) -> usize {
        let color = match self {
            Self::File(FilePage { page, .. }) | Self::Buffer(_, page) => colors.of(PageNo(page), None),
            Self::Own { color, .. } => color,
        };
        color as usize
    }
}

/// `OrderedPage` is a slot of the order: a page, and the time of its last reference.
#[derive(Clone, Copy, Debug)]
struct OrderedPage {
    /// The time of the last reference; 0 if the page is not in memory.
    last: u64,
    /// The page; `None` after it has died.
    page: Option<MemoryPage>,
    /// The color of the page.
    color: usize,
    /// True while the page is among the pages for which room is sought.
    is_wanted: bool,
    /// True if a process has had the page in a mapping.
    is_mapped: bool,
}

/// `ColorOrder` holds the pages of one color.
#[derive(Clone, Debug, Default)]
struct ColorOrder {
    /// The slot of each page in memory, once, by a time at which the page was referenced. A page may leave memory
    /// before it is the oldest page. Its slot stays here until all older slots are gone.
    by_time: BinaryHeap<Reverse<(u64, u32)>>,
    /// The number of pages in memory.
    held: u64,
    /// The number of pages for which room is sought.
    wanted: u64,
}

/// `MemoryOrder` holds the pages in memory by last reference. A reference to a page in memory costs O(1) once its slot
/// is known. To find the oldest page of a color, outdated times in `by_time` are replaced by the last ones. A time is
/// replaced at most once for each reference, at O(log n).
#[derive(Debug)]
pub(super) struct MemoryOrder {
    room: MemoryRoom,
    clock: u64,
    slots: Vec<OrderedPage>,
    by_page: BTreeMap<MemoryPage, u32>,
    free: Vec<u32>,
    colors: Vec<ColorOrder>,
}

impl MemoryOrder {
    pub(super) fn new(room: MemoryRoom) -> Self {
        Self {
            room,
            clock: 0,
            slots: Vec::new(),
            by_page: BTreeMap::new(),
            free: Vec::new(),
            colors: vec![ColorOrder::default(); room.colors.number as usize],
        }
    }

    /// Notes a reference to the page of a slot, and returns whether the page is in memory.
    #[inline]
    fn refer_again(&mut self, slot: u32) -> bool {
        let slot = &mut self.slots[slot as usize];
        let holds = slot.last > 0;
        if holds {
            self.clock += 1;
            slot.last = self.clock;
        }
        holds
    }

    fn holds(&self, page: MemoryPage) -> bool {
        self.by_page.get(&page).is_some_and(|&slot| self.slots[slot as usize].last > 0)
    }

    fn slot_of(&mut self, page: MemoryPage) -> u32 {
        if let Some(&slot) = self.by_page.get(&page) {
            return slot;
        }
        let color = page.color(self.room.colors);
        let new = OrderedPage { last: 0, page: Some(page), color, is_wanted: false, is_mapped: false };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(new);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = new;
        self.by_page.insert(page, slot);
        slot
    }

    /// Notes references to pages, and returns `None`, if memory has room for all of them. Otherwise the pages that are
    /// in memory become the youngest, and the function returns a color without room: the caller must make room there
    /// first.
    fn refer(&mut self, pages: &[MemoryPage]) -> Option<usize> {
        let mut missing = Vec::new();
        for &page in pages {
            let number = self.slot_of(page);
            if !self.refer_again(number) {
                let slot = &mut self.slots[number as usize];
                if !core::mem::replace(&mut slot.is_wanted, true) {
                    self.colors[slot.color].wanted += 1;
                    missing.push(number);
                }
            }
        }
        if missing.is_empty() {
            return None;
        }
        let color_of = |slots: &[OrderedPage], number: u32| slots[number as usize].color;
        let full = missing.iter().map(|&number| color_of(&self.slots, number)).find(|&color| {
            let ColorOrder { held, wanted, .. } = &self.colors[color];
            held + wanted > self.room.pages
        });
        for &number in &missing {
            let slot = &mut self.slots[number as usize];
            slot.is_wanted = false;
            self.colors[slot.color].wanted = 0;
        }
        if full.is_some() {
            return full;
        }
        for &page in pages {
            let number = self.slot_of(page);
            if !self.refer_again(number) {
                self.clock += 1;
                let slot = &mut self.slots[number as usize];
                slot.last = self.clock;
                let order = &mut self.colors[slot.color];
                order.by_time.push(Reverse((self.clock, number)));
                order.held += 1;
            }
        }
        None
    }

    /// Returns the slot of a color that was referenced longest ago.
    fn oldest(&mut self, color: usize) -> Option<u32> {
        let by_time = &mut self.colors[color].by_time;
        loop {
            let &Reverse((time, number)) = by_time.peek()?;
            let slot = self.slots[number as usize];
            if slot.last == time {
                return Some(number);
            }
            by_time.pop();
            if slot.last > 0 {
                by_time.push(Reverse((slot.last, number)));
            } else {
                self.free.push(number);
            }
        }
    }

    /// Lets the oldest page of a color leave the order. A page of a process keeps its slot, because the caller may know
    /// the slot.
    fn forget_oldest(&mut self, color: usize) {
        let Some(number) = self.oldest(color) else { return };
        let order = &mut self.colors[color];
        order.by_time.pop();
        order.held -= 1;
        let slot = &mut self.slots[number as usize];
        slot.last = 0;
        if slot.page.is_none() {
            self.free.push(number);
        }
    }

    /// Notes that a page has died.
    fn lose(&mut self, page: MemoryPage) {
        let Some(number) = self.by_page.remove(&page) else { return };
        let slot = &mut self.slots[number as usize];
        slot.page = None;
        if slot.last == 0 {
            self.free.push(number);
        } else if self.room.reuses_frames && !slot.is_mapped {
            // `oldest` gives the slot back to `free` when it meets the slot in `by_time`.
            slot.last = 0;
            self.colors[slot.color].held -= 1;
        }
    }
}

impl IoPath {
    /// Notes that the running program references pages next, together. First, pages are reclaimed until the referenced
    /// pages have room.
    pub fn refer(&mut self, pages: &[MemoryPage], emit: Emit<'_>) {
        for &page in pages {
            self.note_mapped(page);
        }
        self.make_room_for(pages, emit);
    }

    /// Returns a number by which the program can [refer again](Self::refer_again) to a page that is in memory. The
    /// number holds until the page dies or leaves the page cache; `None` where no page competes for memory.
    pub fn memory_slot(&mut self, page: MemoryPage) -> Option<u32> {
        self.memory.as_mut().map(|memory| memory.slot_of(page))
    }

    /// Notes that the running program references a page, if the page is in memory. Returns whether the page is there.
    ///
    /// # Panics
    /// No page competes for memory.
    #[inline]
    pub fn refer_again(&mut self, slot: u32) -> bool {
        self.memory.as_mut().expect("a slot is of a memory").refer_again(slot)
    }

    /// Notes that a page of processes has died.
    pub fn lose_page(&mut self, page: MemoryPage) {
        if let Some(memory) = &mut self.memory {
            memory.lose(page);
        }
    }

    /// Notes that a process has a page in a mapping.
    pub(super) fn note_mapped(&mut self, page: MemoryPage) {
        if let Some(memory) = &mut self.memory {
            let slot = memory.slot_of(page);
            memory.slots[slot as usize].is_mapped = true;
        }
    }

    /// Emits the steps that `make` makes. Before each step the user's pages of the step fault, and room is made in
    /// memory for all pages of the step.
    pub(super) fn in_memory(&mut self, emit: Emit<'_>, make: impl FnOnce(&mut Self, Emit<'_>)) {
        if self.memory.is_none() && self.user_pages.is_empty() {
            make(self, emit);
            return;
        }
        let mut steps = Vec::new();
        make(self, &mut |step| steps.push(step));
        for step in steps {
            self.fault_for(&step, emit);
            match step {
                IoStep::Copy { from, to, .. } => self.make_room_at(&[from, to], emit),
                IoStep::Fill { at, .. } | IoStep::Transfer { at, .. } => self.make_room_at(&[at], emit),
                _ => {}
            }
            emit(step);
        }
    }

    /// Makes a request to the disk. Memory has room for its pages before the first step.
    pub(super) fn transfer(&mut self, writes: bool, data: Vec<Data>, emit: Emit<'_>) {
        if self.memory.is_some() {
            let places: Vec<Location> = data.iter().map(|&(at, ..)| at).collect();
            self.make_room_at(&places, emit);
        }
        self.disk.transfer(writes, data, &mut self.counts, emit);
    }

    fn make_room_at(&mut self, places: &[Location], emit: Emit<'_>) {
        let pages: Vec<MemoryPage> = places.iter().filter_map(|&at| self.page_of(at)).collect();
        self.make_room_for(&pages, emit);
    }

    /// Returns the page of a location; `None` for descriptors, which do not count.
    fn page_of(&mut self, at: Location) -> Option<MemoryPage> {
        let size = self.config.page;
        Some(match at {
            Location::User(user) => {
                let number = user.0 / size;
                let color = self.config.memory.map_or(0, |room| number % room.colors.number);
                let own = MemoryPage::Own { number, color };
                let page = self.named_page(number).unwrap_or(own);
                self.note_mapped(page);
                page
            }
            Location::File(file, byte) => MemoryPage::File(FilePage { file, page: byte / size }),
            Location::Buffer(BufferPool::Packets, number, byte) => {
                let first = u64::from(number) * self.config.buffer;
                MemoryPage::Buffer(BufferPool::Packets, (first + byte) / size)
            }
            Location::Buffer(BufferPool::Pipes, number, _) => {
                MemoryPage::Buffer(BufferPool::Pipes, number.into())
            }
            Location::Descriptor(..) => return None,
        })
    }

    fn make_room_for(&mut self, pages: &[MemoryPage], emit: Emit<'_>) {
        if let Some(memory) = &self.memory {
            assert!(pages.len() as u64 <= memory.room.pages, "pages that come together fit into memory");
        }
        while let Some(color) = self.memory.as_mut().and_then(|memory| memory.refer(pages)) {
            self.reclaim(color, emit);
        }
    }

    /// Reclaims the page of a color that was referenced longest ago, or lets it become the youngest because it is
    /// written.
    fn reclaim(&mut self, color: usize, emit: Emit<'_>) {
        let Some((number, page)) = self.oldest(color) else { return };
        let Some(MemoryPage::File(page)) = page.filter(|&page| self.caches(page)) else {
            self.memory.as_mut().expect("a page is in memory").forget_oldest(color);
            return;
        };
        // A page that the disk was asked to read or write is locked until the disk has done so.
        self.wait_for(page, emit);
        if self.cache.is_dirty(page) {
            self.write_dirty(page, emit);
        }
        self.wait_for_writes(&(page..=page), emit);
        if self.oldest(color).is_some_and(|(now, _)| now == number) {
            self.drop_page(page, emit);
            self.counts.pages_reclaimed += 1;
        }
    }

    fn oldest(&mut self, color: usize) -> Option<(u32, Option<MemoryPage>)> {
        let memory = self.memory.as_mut()?;
        let number = memory.oldest(color)?;
        Some((number, memory.slots[number as usize].page))
    }

    fn caches(&self, page: MemoryPage) -> bool {
        matches!(page, MemoryPage::File(page) if self.cache.contains(page))
    }

    /// Returns the pages in memory, in no order; pages that have died are absent. Tests read them.
    pub fn in_memory_now(&self) -> impl Iterator<Item = MemoryPage> {
        let memory = self.memory.as_ref();
        memory
            .into_iter()
            .flat_map(|memory| memory.by_page.keys().copied().filter(|&page| memory.holds(page)))
    }
}
