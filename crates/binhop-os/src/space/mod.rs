//! `Spaces` turns (address space, virtual page) into mappings and pages, once, when a trace is decoded.
//!
//! # Rules
//! - (segment, page in segment) identifies a page. So a segment's page is one page in every address space, at
//!   whatever address it is mapped.
//! - Anonymous private memory is private to its address space, and so is memory touched outside every map.
//!   Such a page is made by its first touch.
//! - **Copy on write.** In a private mapping of a segment, reads share the segment's page. An address space's
//!   first write to the page gives the address space a page of its own. At a fork the child also gets the
//!   parent's own pages. From then on *each* address space's first write to such a page makes another page,
//!   even if the other address space has ended: no address space keeps the original because it is the last.
//!   So which references share a page depends only on the events of their address space and its ancestors,
//!   never on the schedule. A page that the parent had not touched before the fork is not inherited: each
//!   address space makes its own.
//! - **Death.** A page dies with its last mapping: when no address space has it mapped any more, touched or
//!   not. If a segment's page has died and is mapped again, it is a new page. A map over a live range
//!   replaces the range in one step, so a segment mapped over itself keeps its pages.
//! - **Machine pages larger than the trace's.** A machine page belongs to a segment if it lies in the segment
//!   wholly and congruently. Neighbouring areas of a segment count as one area. Congruently means that the
//!   first byte of the machine page is the first byte of a page of the segment. Any other machine page is
//!   private to its address space; [`Spaces::unaligned`] counts such pages of which a part belongs to a
//!   segment. An event that covers only a part of a machine page ends the address space's own page there only
//!   if it takes the last area that the page touches.
//! - A mapping with the flag "grows" extends downward to a touch at most 8 MiB below its start.
//! - **Shared addresses.** All address spaces may share the memory from one address on ([`Spaces::share_from`]), as
//!   processes share the kernel's half. A page there is one page under one mapping, whichever process touches it.
//!   What a process maps there is mapped for all processes, until a process unmaps it. No fork copies this memory,
//!   and no end of a process ends it.
//! - Protection changes nothing and is not kept, because the trace says what happened.
//!
//! # Cost
//! A touch of a known virtual page is one probe of a hash table. A first touch, a first write, and the first
//! touch of a page after an event that changed its address space cost a few searches in ordered maps. An
//! event costs O(log n), whatever it covers, besides the pages that it makes or ends. A fork shares the maps
//! of the parent, and each address space copies the part that it changes. Memory grows with touched pages and
//! events, not with references, and not with address spaces × maps.
//!
//! When an address space ends, the entries that find its dead pages by virtual page are freed. Numbers are
//! never reused, so the tables by number remain: about 45 B for a page and its mapping, with which results
//! name pages of ended processes, and about 100 B for an address space. The number of a dead page cannot
//! serve another page, because caches hold the page's lines until its frame changes hands, and this moment
//! differs between placements.

mod areas;
mod coverage;
mod events;
mod extents;
mod flags;
mod ids;
mod kernel;
mod lineage;
mod queries;
mod segment;

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use binhop_base::{Asid, Bytes, MappingId, PageId, PageNo, PowerOfTwo, Result, forest::Root};

use areas::{Areas, MappedAs};
use extents::{ExtentKind, Extents};
pub use flags::MapFlags;
use ids::Ids;
use lineage::{Lineage, Lineages};
pub use queries::{NamedPage, SharedArea};
use segment::Segments;

use crate::table::{Pair, Table};
pub use segment::{Owner, PageOrigin, SegmentId};

/// `Touch` is the answer to one touch.
///
/// The answer holds for its address space and virtual page until the next event that changes mappings (map,
/// unmap, fork, exec or exit, of any address space). Without `write_free` it holds only until the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The mapping: the page as this address space sees it at this virtual page.
    pub mapping: MappingId,
    /// The page behind the mapping.
    pub page: PageId,
    /// True if this touch made the page.
    pub new_page: bool,
    /// True if a later write leads to the same mapping, because no copy is pending. It is true after any
    /// write.
    pub write_free: bool,
    /// True if the page was made outside every map (see [`Spaces::has_maps`]).
    pub outside: bool,
}

/// `KnownSegments` remembers the segments of an address space. The segments hold as long as the address
/// space's generation and private segment are `valid_for`.
struct KnownSegments {
    valid_for: (u64, Option<SegmentId>),
    segments: Arc<[SegmentId]>,
}

/// The end of an address space's list of touched pages.
const NO_TOUCHED_PAGE: u32 = u32::MAX;

struct Space {
    asid: Asid,
    /// The areas of the address space, in `Spaces::areas`.
    areas: Root,
    /// The extents behind the pages of the address space, in `Spaces::extents`.
    extents: Root,
    /// The number of the `TouchedPage` that the present life added last. Each `TouchedPage` names the
    /// `TouchedPage` that was added before it.
    last_touched: u32,
    /// The segment of the address space's private pages. The segment is made with the first private page.
    private: Option<SegmentId>,
    /// The private segments that the address space inherited from its ancestors. After a fork of the address
    /// space, its own private segment is among them.
    lineage: Lineage,
    /// The last answer of [`Spaces::shared_segments`].
    segments: Option<Box<KnownSegments>>,
    /// The generation in which the present life began.
    born: u64,
    /// The number of forks at the last fork in which the address space took part. An own page that is older
    /// may have other holders, so the next write makes another page.
    forked: u64,
    /// The number of events that changed the address space. A `TouchedPage` holds within one generation.
    generation: u64,
    /// The number of mappings that the address space ever made.
    footprint: u64,
}

impl Space {
    fn new(asid: Asid) -> Self {
        Self {
            asid,
            areas: Root::EMPTY,
            extents: Root::EMPTY,
            last_touched: NO_TOUCHED_PAGE,
            private: None,
            lineage: Lineage::NONE,
            segments: None,
            born: 0,
            forked: 0,
            generation: 0,
            footprint: 0,
        }
    }
}

/// `TouchedPage` remembers the answer for one virtual page of one address space, so that a touch need not
/// search.
struct TouchedPage {
    generation: u64,
    current: MappingId,
    page: PageId,
    /// The mapping that was made here last. Older mappings are in `Spaces::others`.
    newest: MappingId,
    /// The number of the `TouchedPage` that the same life of the address space added before this one.
    before: u32,
    write_free: bool,
    outside: bool,
    /// True if `Spaces::others` has mappings of this virtual page.
    has_others: bool,
}

/// `Spaces` holds all address spaces of a trace, in machine pages. The top of the module has the rules.
///
/// ```
/// use binhop_base::{Asid, Bytes, PageNo, PowerOfTwo, VirtAddr};
/// use binhop_os::{MapFlags, Spaces};
///
/// let (parent, child) = (Asid(1), Asid(2));
/// let mut spaces = Spaces::new(PowerOfTwo::from_log2(12), Bytes(4096));
/// let before = spaces.touch(parent, PageNo(5), true)?;
/// spaces.fork(child, parent)?;
/// let read = spaces.touch(child, PageNo(5), false)?;
/// assert_eq!(read.page, before.page); // one page, under two mappings
/// assert_ne!(read.mapping, before.mapping);
/// let written = spaces.touch(child, PageNo(5), true)?;
/// assert!(written.new_page); // the page is the child's own from here on
/// # Ok::<(), Box<binhop_base::Problem>>(())
/// ```
pub struct Spaces {
    page: PowerOfTwo,
    trace_page: u64,
    /// The segment of all pages, where physical = virtual.
    memory: Option<SegmentId>,
    by_asid: BTreeMap<Asid, u32>,
    /// The address space of the last touch. Most touches come from the same address space as the touch
    /// before.
    last: Option<(Asid, u32)>,
    /// The first machine page that all address spaces share, and the number of the address space that holds the shared
    /// pages. No page has the number `u64::MAX`.
    shared: (u64, u32),
    spaces: Vec<Space>,
    areas: Areas,
    extents: Extents,
    lineages: Lineages,
    /// The number of forks so far.
    forks: u64,
    segments: Segments,
    /// The number of the `TouchedPage` of each (address space, virtual page).
    table: Table<Pair>,
    touched: Vec<TouchedPage>,
    /// The numbers in `touched` that no virtual page uses any more.
    free_touched: Vec<u32>,
    /// The mapping of each (number in `touched`, page), except the newest mapping of each virtual page.
    others: Table<Pair>,
    ids: Ids,
    dead: Vec<PageId>,
    has_maps: bool,
    unaligned: u64,
}

impl Spaces {
    /// Makes `Spaces` without any address space. `page` is the machine's page size. `trace_page` is the page
    /// size of the trace's origin, in which its events count (4096 B if it is unknown).
    #[must_use]
    pub fn new(page: PowerOfTwo, trace_page: Bytes) -> Self {
        Self {
            page,
            trace_page: trace_page.0,
            memory: None,
            by_asid: BTreeMap::new(),
            last: None,
            shared: (u64::MAX, u32::MAX),
            spaces: Vec::new(),
            areas: Areas::new(),
            extents: Extents::new(),
            lineages: Lineages::default(),
            forks: 0,
            segments: Segments::default(),
            table: Table::new(),
            touched: Vec::new(),
            free_touched: Vec::new(),
            others: Table::new(),
            ids: Ids::new(),
            dead: Vec::new(),
            has_maps: false,
            unaligned: 0,
        }
    }

    /// Makes address spaces where physical = virtual. Each virtual page number is one page, the same in every
    /// address space. Events change nothing and no page dies. Mappings still tell the address spaces apart.
    #[must_use]
    pub fn identity(page: PowerOfTwo) -> Self {
        let mut spaces = Self::new(page, Bytes(page.bytes()));
        let memory =
            spaces.segments.add(Owner::Memory, MapFlags::default()).expect("the first segment has a number");
        spaces.segments.cover(memory, 0, u64::MAX);
        spaces.memory = Some(memory);
        spaces
    }

    /// Notes a reference to a virtual page, counted in machine pages.
    ///
    /// # Errors
    /// The run has more pages or mappings than a number of 32 bits tells apart.
    #[inline]
    pub fn touch(&mut self, asid: Asid, page: PageNo, write: bool) -> Result<Touch> {
        let space = match self.last {
            _ if page.0 >= self.shared.0 => self.shared.1,
            Some((last, space)) if last == asid => space,
            _ => self.space(asid),
        };
        let known = self.table.get(Pair::new(space, page.0));
        if let Some(entry) = known.map(|entry| &self.touched[entry as usize])
            && entry.generation == self.spaces[space as usize].generation
            && (entry.write_free || !write)
        {
            let TouchedPage { current: mapping, page, write_free, outside, .. } = *entry;
            return Ok(Touch { mapping, page, new_page: false, write_free, outside });
        }
        self.search(space, page, write, known)
    }

    /// Returns the number of an address space. The address space begins with its first event or touch.
    fn space(&mut self, asid: Asid) -> u32 {
        let space = *self.by_asid.entry(asid).or_insert_with(|| {
            self.spaces.push(Space::new(asid));
            (self.spaces.len() - 1) as u32
        });
        self.last = Some((asid, space));
        space
    }

    /// Answers a touch that the table cannot answer.
    #[cold]
    fn search(&mut self, space: u32, page_no: PageNo, write: bool, known: Option<u32>) -> Result<Touch> {
        let Found { page, new_page, write_free, outside } = self.resolve(space, page_no, write)?;
        // There are no more touched pages than mappings, and fewer mappings than u32::MAX.
        let number = known.or_else(|| self.free_touched.pop()).unwrap_or(self.touched.len() as u32);
        let mut has_others = known.is_some_and(|known| self.touched[known as usize].has_others);
        let mapping = match self.find_mapping(known, page) {
            Some(mapping) => mapping,
            None => {
                let home = &mut self.spaces[space as usize];
                home.footprint += 1;
                if let Some(entry) = known.map(|known| &self.touched[known as usize]) {
                    // A dead page never returns, and a mapping to it never returns.
                    let page = self.ids.page_of(entry.newest);
                    if !self.ids.is_dead(page) {
                        self.others.insert(Pair::new(number, page.0.into()), entry.newest.0);
                        has_others = true;
                    }
                }
                if space == self.shared.1 {
                    self.ids.add_kernel_mapping(page_no, page)?
                } else {
                    self.ids.add_mapping(home.asid, page_no, page)?
                }
            }
        };
        let home = &mut self.spaces[space as usize];
        let old = known.map(|known| &self.touched[known as usize]);
        let before = match old.filter(|old| old.generation >= home.born) {
            Some(old) => old.before,
            None => core::mem::replace(&mut home.last_touched, number),
        };
        let newest = old.map_or(mapping, |old| MappingId(old.newest.0.max(mapping.0)));
        let entry = TouchedPage {
            generation: home.generation,
            current: mapping,
            page,
            newest,
            before,
            write_free,
            outside,
            has_others,
        };
        if known.is_none() {
            self.table.insert(Pair::new(space, page_no.0), number);
        }
        match self.touched.get_mut(number as usize) {
            Some(free) => *free = entry,
            None => self.touched.push(entry),
        }
        Ok(Touch { mapping, page, new_page, write_free, outside })
    }

    /// Finds the mapping of a virtual page that leads to a page.
    fn find_mapping(&self, entry: Option<u32>, page: PageId) -> Option<MappingId> {
        let entry = entry?;
        let newest = self.touched[entry as usize].newest;
        if self.ids.page_of(newest) == page {
            return Some(newest);
        }
        self.others.get(Pair::new(entry, page.0.into())).map(MappingId)
    }

    /// Finds the page behind a virtual page. Makes the page if it is new, and the copy that a write needs.
    fn resolve(&mut self, space: u32, page_no: PageNo, write: bool) -> Result<Found> {
        if let Some(memory) = self.memory {
            return self.segment_page(memory, page_no.0, page_no, true);
        }
        let at = |spaces: &Self| spaces.extents.at(spaces.spaces[space as usize].extents, page_no.0);
        let mut behind = at(self);
        if behind.is_none() && self.grow(space, page_no.0) {
            behind = at(self);
        }
        match behind {
            Some(ExtentKind::Own { page, outside, forks }) => {
                let pending = forks < self.spaces[space as usize].forked;
                if write && pending {
                    self.own_page(space, page_no, outside, self.ids.origin_of(page), true)
                } else {
                    Ok(Found { page, new_page: false, write_free: !pending, outside })
                }
            }
            Some(ExtentKind::Run { segment, shared, index }) if shared || !write => {
                self.segment_page(segment, index, page_no, shared)
            }
            Some(ExtentKind::Run { segment, .. }) => {
                self.own_page(space, page_no, false, PageOrigin::Copy(segment), true)
            }
            None => {
                let home = &self.spaces[space as usize];
                let MappedAs::Private { outside, unaligned } =
                    self.areas.lookup(home.areas, page_no.0, self.page)
                else {
                    unreachable!("a page of a segment has an extent")
                };
                let origin = self.areas.origin(home.areas, page_no.0, self.page);
                self.unaligned += u64::from(unaligned);
                self.own_page(space, page_no, outside, origin, false)
            }
        }
    }

    fn segment_page(
        &mut self,
        segment: SegmentId,
        index: u64,
        page_no: PageNo,
        write_free: bool,
    ) -> Result<Found> {
        if let Some(page) = self.segments.page(segment, index) {
            return Ok(Found { page, new_page: false, write_free, outside: false });
        }
        let page = self.ids.add_page(segment, page_no, PageOrigin::Segment(segment))?;
        self.segments.add_page(segment, index, page);
        Ok(Found { page, new_page: true, write_free, outside: false })
    }

    /// Gives an address space a new page of its own. If the virtual page was `taken`, the page replaces the
    /// extent there.
    fn own_page(
        &mut self,
        space: u32,
        page_no: PageNo,
        outside: bool,
        origin: PageOrigin,
        taken: bool,
    ) -> Result<Found> {
        let home = &mut self.spaces[space as usize];
        let segment = match home.private {
            Some(segment) => segment,
            None => {
                let owner = if space == self.shared.1 { Owner::Kernel } else { Owner::Space(home.asid) };
                *home.private.insert(self.segments.add(owner, MapFlags::default())?)
            }
        };
        let page = self.ids.add_page(segment, page_no, origin)?;
        let mut extents = home.extents;
        if taken {
            extents = self.extents.carve(extents, page_no.0, page_no.0, &mut self.segments);
        }
        home.extents = self.extents.insert_own(extents, page_no.0, page, outside, self.forks);
        self.report_dead_pages();
        Ok(Found { page, new_page: true, write_free: true, outside })
    }

    /// Returns the number of steps that events and touches took through ordered maps. Tests count steps
    /// instead of time.
    #[doc(hidden)]
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.areas.steps() + self.extents.steps() + self.segments.steps()
    }

    /// Returns whether pages have died that [`drain_dead`](Self::drain_dead) has not yet returned.
    #[inline]
    #[must_use]
    pub fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Returns the pages that died since the last call, event by event, in increasing order within each
    /// event. The caller must call it after every event except protect, and after a write. The number of a
    /// dead page never comes back.
    #[must_use]
    pub fn drain_dead(&mut self) -> Vec<PageId> {
        core::mem::take(&mut self.dead)
    }
}

/// `Found` is a page whose mapping is not yet known.
struct Found {
    page: PageId,
    new_page: bool,
    write_free: bool,
    outside: bool,
}
