//! Address spaces: from (address space, virtual page) to mappings and pages, once, at decode.
//!
//! # Rules
//! - A page is identified by (segment, page in segment): a segment's page is one page in every space, at
//!   whatever address it is mapped.
//! - Anonymous private memory, and what is touched outside every map, is private to its space: a page
//!   comes into being with its first touch.
//! - **Copy on write.** In a private mapping of a segment, reads share the segment's page, and a space's
//!   first write to it gives the space a page of its own. At a fork the child gets the parent's own pages
//!   too, and from then on *each* space's first write to one makes another page, whatever the other space
//!   does and even if it has ended: neither side keeps the original by being last. So which of a space's
//!   references go to one page depends on that space's events and its forefathers' alone, never on the
//!   schedule. A page that the parent had not touched before the fork is not handed down: it is private.
//! - **Death.** A page dies with its last mapping: when no space's maps lead to it any more, whether or not
//!   that space had touched it. A segment's page that died is gone: mapped again, it is a new page. A map
//!   over a live range replaces it in one step, so a segment mapped over itself keeps its pages.
//! - **Machine pages larger than the trace's.** A machine page belongs to a segment if it lies in it wholly
//!   (neighbouring areas of the segment count as one) and congruently (its first byte is the first of a page
//!   of the segment). Otherwise it is private to its space; [`Spaces::unaligned`] counts those of which a
//!   part belongs to a segment. An event that covers only a part of a machine page ends the space's own
//!   page there only if it takes the last area that the page touches.
//! - A mapping with the flag "grows" extends downward to a touch at most 8 MiB below its start.
//! - Protection changes nothing, and is not kept: the trace is what happened.
//!
//! # Cost
//! A touch of a known virtual page is one probe of a hash table. First touches, first writes, and the first
//! touch of each page after an event that changed its space cost a few searches in ordered maps. Each event costs
//! O(log n) whatever it covers, besides what it makes or ends: a fork shares the maps of its parent, and
//! either space copies what it changes. Memory grows with the pages touched and the events, not with references, nor
//! with spaces × maps.
//!
//! When a space ends, whatever finds its pages by virtual page is given up, where these pages died with it. What remains of
//! the dead is what numbers lead to, since numbers are never reused: some 45 B for a page and its mapping, with which
//! results name pages of ended processes; and a hundred bytes for a space. Caches hold a dead page's lines until its frame
//! changes hands, in each placement at another moment, so its number cannot serve another page.

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

use areas::{Areas, Where};
use extents::{Extents, What};
pub use flags::MapFlags;
use ids::Ids;
use lineage::{Lineage, Lineages};
use segment::Segments;

use crate::table::{Pair, Table};
pub use segment::{Owner, PageOrigin, SegmentId};

/// The answer to one touch.
///
/// It stays true for the same address space and virtual page until the next event that changes mappings
/// (map, unmap, fork, exec, exit, of whatever space) and, unless `write_free`, until the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The page as this space sees it here.
    pub mapping: MappingId,
    /// The page behind it.
    pub page: PageId,
    /// This touch made the page.
    pub new_page: bool,
    /// A later write leads to the same mapping: no copy is pending. True after any write.
    pub write_free: bool,
    /// The page was made outside every map (see [`Spaces::has_maps`]).
    pub outside: bool,
}

/// The segments of a space, true as long as its generation and private segment are these.
struct Remembered {
    when: (u64, Option<SegmentId>),
    segments: Arc<[SegmentId]>,
}

/// No place: the end of a space's list of touched places.
const NO_PLACE: u32 = u32::MAX;

struct Space {
    asid: Asid,
    /// Its areas, in `Spaces::areas`.
    areas: Root,
    /// The extents behind its pages, in `Spaces::extents`.
    extents: Root,
    /// The place it touched last for the first time in its present life; each knows the one before.
    touched: u32,
    /// Segment of its private pages, made with the first of them.
    private: Option<SegmentId>,
    /// Private segments of its forefathers, handed down at a fork; after a fork of its own, its own private segment, too.
    lineage: Lineage,
    /// The last answer of [`Spaces::shared_segments`], and the time for which it holds.
    segments: Option<Box<Remembered>>,
    /// The generation in which its present life began.
    born: u64,
    /// The number of forks after the last in which it took part: a page of its own that is older may have other
    /// holders, and the next write makes another.
    forked: u64,
    /// BinCounts the events that changed the space: what `Place` remembers holds within one of them.
    generation: u64,
    /// Mappings it ever made.
    footprint: u64,
}

/// `Place` remembers one virtual page of one space, so that a touch of it need not search.
struct Place {
    generation: u64,
    current: MappingId,
    page: PageId,
    /// The mapping made here last. Others are in `Spaces::others`.
    newest: MappingId,
    /// The place that its space touched before, in its present life.
    before: u32,
    write_free: bool,
    outside: bool,
    /// True if `Spaces::others` has mappings made here.
    has_others: bool,
}

/// All address spaces of a trace, seen in machine pages. The rules stand at the top of the module.
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
/// assert_eq!(read.page, before.page); // shared, though not one mapping
/// assert_ne!(read.mapping, before.mapping);
/// let written = spaces.touch(child, PageNo(5), true)?;
/// assert!(written.new_page); // the child's own from here on
/// # Ok::<(), Box<binhop_base::Problem>>(())
/// ```
pub struct Spaces {
    page: PowerOfTwo,
    trace_page: u64,
    /// Physical = virtual: the segment that all pages belong to.
    memory: Option<SegmentId>,
    by_asid: BTreeMap<Asid, u32>,
    /// The space of the last touch: most come from the one before.
    last: Option<(Asid, u32)>,
    spaces: Vec<Space>,
    areas: Areas,
    extents: Extents,
    lineages: Lineages,
    /// Forks so far.
    forks: u64,
    segments: Segments,
    /// From (space, virtual page) to the number of its place.
    table: Table<Pair>,
    places: Vec<Place>,
    /// Places that serve no virtual page any more.
    free_places: Vec<u32>,
    /// From (place, page) to the mapping, for all but the place's newest.
    others: Table<Pair>,
    ids: Ids,
    dead: Vec<PageId>,
    has_maps: bool,
    unaligned: u64,
}

impl Spaces {
    /// No space yet. `page` is the machine's page size; `trace_page` that of the trace's origin, in which its
    /// events count (4096 B where it is unknown).
    #[must_use]
    pub fn new(page: PowerOfTwo, trace_page: Bytes) -> Self {
        Self {
            page,
            trace_page: trace_page.0,
            memory: None,
            by_asid: BTreeMap::new(),
            last: None,
            spaces: Vec::new(),
            areas: Areas::new(),
            extents: Extents::new(),
            lineages: Lineages::default(),
            forks: 0,
            segments: Segments::default(),
            table: Table::new(),
            places: Vec::new(),
            free_places: Vec::new(),
            others: Table::new(),
            ids: Ids::new(),
            dead: Vec::new(),
            has_maps: false,
            unaligned: 0,
        }
    }

    /// Physical = virtual: one page for each virtual page number, the same in every space; events change
    /// nothing and no page dies. Mappings still tell the spaces apart.
    #[must_use]
    pub fn identity(page: PowerOfTwo) -> Self {
        let mut spaces = Self::new(page, Bytes(page.bytes()));
        let memory =
            spaces.segments.add(Owner::Memory, MapFlags::default()).expect("the first segment has a number");
        spaces.segments.cover(memory, 0, u64::MAX);
        spaces.memory = Some(memory);
        spaces
    }

    /// A reference to a virtual page, counted in machine pages.
    ///
    /// # Errors
    /// The run holds more pages or mappings than a number of 32 bits tells apart.
    #[inline]
    pub fn touch(&mut self, asid: Asid, page: PageNo, write: bool) -> Result<Touch> {
        let space = match self.last {
            Some((last, space)) if last == asid => space,
            _ => self.space(asid),
        };
        let known = self.table.get(Pair::new(space, page.0));
        if let Some(place) = known.map(|place| &self.places[place as usize])
            && place.generation == self.spaces[space as usize].generation
            && (place.write_free || !write)
        {
            let Place { current: mapping, page, write_free, outside, .. } = *place;
            return Ok(Touch { mapping, page, new_page: false, write_free, outside });
        }
        self.search(space, page, write, known)
    }

    /// The number of a space, which begins with its first event or touch.
    fn space(&mut self, asid: Asid) -> u32 {
        let space = *self.by_asid.entry(asid).or_insert_with(|| {
            self.spaces.push(Space {
                asid,
                areas: Root::EMPTY,
                extents: Root::EMPTY,
                touched: NO_PLACE,
                private: None,
                lineage: Lineage::NONE,
                segments: None,
                born: 0,
                forked: 0,
                generation: 0,
                footprint: 0,
            });
            (self.spaces.len() - 1) as u32
        });
        self.last = Some((asid, space));
        space
    }

    /// A touch that the table cannot answer.
    #[cold]
    fn search(&mut self, space: u32, page_no: PageNo, write: bool, known: Option<u32>) -> Result<Touch> {
        let Found { page, new_page, write_free, outside } = self.resolve(space, page_no, write)?;
        // There are no more places than mappings, and those are fewer than u32::MAX.
        let number = known.or_else(|| self.free_places.pop()).unwrap_or(self.places.len() as u32);
        let mut has_others = known.is_some_and(|known| self.places[known as usize].has_others);
        let mapping = match self.find_mapping(known, page) {
            Some(mapping) => mapping,
            None => {
                let home = &mut self.spaces[space as usize];
                home.footprint += 1;
                if let Some(place) = known.map(|known| &self.places[known as usize]) {
                    // A dead page never returns, and neither does a mapping to it.
                    let page = self.ids.page_of(place.newest);
                    if !self.ids.is_dead(page) {
                        self.others.insert(Pair::new(number, page.0.into()), place.newest.0);
                        has_others = true;
                    }
                }
                self.ids.add_mapping(home.asid, page_no, page)?
            }
        };
        let home = &mut self.spaces[space as usize];
        let old = known.map(|known| &self.places[known as usize]);
        let before = match old.filter(|old| old.generation >= home.born) {
            Some(old) => old.before,
            None => core::mem::replace(&mut home.touched, number),
        };
        let newest = old.map_or(mapping, |old| MappingId(old.newest.0.max(mapping.0)));
        let place = Place {
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
        match self.places.get_mut(number as usize) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        Ok(Touch { mapping, page, new_page, write_free, outside })
    }

    /// The mapping made at a place that leads to a page.
    fn find_mapping(&self, place: Option<u32>, page: PageId) -> Option<MappingId> {
        let place = place?;
        let newest = self.places[place as usize].newest;
        if self.ids.page_of(newest) == page {
            return Some(newest);
        }
        self.others.get(Pair::new(place, page.0.into())).map(MappingId)
    }

    /// The page behind a virtual page, made if it must be; a write's copy included.
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
            Some(What::Own { page, outside, forks }) => {
                let pending = forks < self.spaces[space as usize].forked;
                if write && pending {
                    self.own_page(space, page_no, outside, self.ids.origin_of(page), true)
                } else {
                    Ok(Found { page, new_page: false, write_free: !pending, outside })
                }
            }
            Some(What::Run { segment, shared, index }) if shared || !write => {
                self.segment_page(segment, index, page_no, shared)
            }
            Some(What::Run { segment, .. }) => {
                self.own_page(space, page_no, false, PageOrigin::Copy(segment), true)
            }
            None => {
                let home = &self.spaces[space as usize];
                let Where::Private { outside, unaligned } =
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

    /// Gives a space a new page of its own, in place of the extent that stood there if the place was `taken`.
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
                let owner = Owner::Space(home.asid);
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

    /// Steps that events and touches have taken through ordered maps: what tests count instead of time.
    #[doc(hidden)]
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.areas.steps() + self.extents.steps() + self.segments.steps()
    }

    /// Returns whether pages have died that [`drain_dead`](Self::drain_dead) has not yet told of.
    #[inline]
    #[must_use]
    pub fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// The pages that died since the last call, event by event, in increasing order within each. To be
    /// asked after every event but protect, and after a write. A dead page's number never comes back.
    #[must_use]
    pub fn drain_dead(&mut self) -> Vec<PageId> {
        core::mem::take(&mut self.dead)
    }
}

/// A page, before the mapping that leads to it is known.
struct Found {
    page: PageId,
    new_page: bool,
    write_free: bool,
    outside: bool,
}
