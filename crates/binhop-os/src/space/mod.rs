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
//! - Protection is kept and changes nothing: the trace is what happened.
//!
//! # Cost
//! A touch of a known virtual page is one probe of a hash table. First touches, first writes, and the first
//! touch of each page after an event that changed its space cost a few searches in ordered maps. Memory
//! grows with the pages touched, not with references.

mod areas;
mod events;
mod flags;
mod ids;
mod queries;
mod segment;
mod table;

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use binhop_base::{Asid, Bytes, MappingId, PageId, PageNo, PowerOfTwo, Result};

use areas::{Areas, Where};
pub use flags::MapFlags;
use ids::Ids;
use segment::Segments;
pub use segment::{Owner, SegmentId};
use table::Table;

/// What one touch found.
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

/// A page that a space holds as one of its own.
#[derive(Clone, Copy)]
struct Own {
    page: PageId,
    /// A fork has passed since the space last wrote it: the next write makes another.
    pending: bool,
    outside: bool,
}

/// The segments of a space, true as long as its generation and private segment are these.
struct Remembered {
    when: (u64, Option<SegmentId>),
    segments: Arc<[SegmentId]>,
}

struct Space {
    asid: Asid,
    areas: Areas,
    own: BTreeMap<u64, Own>,
    /// Segment of its private pages, made with the first of them.
    private: Option<SegmentId>,
    /// Private segments of its forefathers, handed down at a fork.
    inherited: Vec<SegmentId>,
    /// What [`Spaces::shared_segments`] said last, and when.
    segments: Option<Remembered>,
    /// The generation in which its present life began.
    born: u64,
    /// Counts the events that changed the space: what `Place` remembers holds within one of them.
    generation: u64,
    /// Mappings it ever made.
    footprint: u64,
}

/// What is remembered of one virtual page of one space, so that a touch of it need not search.
struct Place {
    generation: u64,
    current: MappingId,
    page: PageId,
    /// Head of the chain of all mappings made here.
    newest: MappingId,
    write_free: bool,
    outside: bool,
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
    segments: Segments,
    table: Table,
    places: Vec<Place>,
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
            segments: Segments::default(),
            table: Table::new(),
            places: Vec::new(),
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
        spaces.memory = Some(spaces.segments.add(Owner::Memory).expect("the first segment has a number"));
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
        let known = self.table.get(space, page.0);
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
                areas: Areas::default(),
                own: BTreeMap::new(),
                private: None,
                inherited: Vec::new(),
                segments: None,
                born: 0,
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
        let found = self.resolve(space, page_no, write)?;
        let home = &mut self.spaces[space as usize];
        let newest = known.map(|place| self.places[place as usize].newest);
        let old = if found.new_page { None } else { self.ids.find_here(newest, found.page) };
        let mapping = match old {
            Some(mapping) => mapping,
            None => {
                home.footprint += 1;
                self.ids.add_mapping(home.asid, page_no, found.page, newest)?
            }
        };
        let place = Place {
            generation: home.generation,
            current: mapping,
            page: found.page,
            newest: if old.is_some() { newest.unwrap_or(mapping) } else { mapping },
            write_free: found.write_free,
            outside: found.outside,
        };
        match known {
            Some(known) => self.places[known as usize] = place,
            None => {
                // There are no more places than mappings, and those are fewer than u32::MAX.
                self.table.insert(space, page_no.0, self.places.len() as u32);
                self.places.push(place);
            }
        }
        let Found { page, new_page, write_free, outside } = found;
        Ok(Touch { mapping, page, new_page, write_free, outside })
    }

    /// The page behind a virtual page, made if it must be; a write's copy included.
    fn resolve(&mut self, space: u32, page_no: PageNo, write: bool) -> Result<Found> {
        if let Some(memory) = self.memory {
            return self.segment_page(memory, page_no.0, page_no, true);
        }
        let home = &mut self.spaces[space as usize];
        if let Some(&own) = home.own.get(&page_no.0) {
            if !(write && own.pending) {
                let Own { page, pending, outside } = own;
                return Ok(Found { page, new_page: false, write_free: !pending, outside });
            }
            let found = self.own_page(space, page_no, own.outside)?;
            self.let_go(own.page);
            return Ok(found);
        }
        let first = page_no.0 << self.page.log2();
        if let Some(edit) = home.areas.grow(first, first | (self.page.bytes() - 1)) {
            self.index(space, &edit);
        }
        match self.spaces[space as usize].areas.lookup(page_no.0, self.page) {
            Where::Segment { segment, index, shared } if shared || !write => {
                self.segment_page(segment, index, page_no, shared)
            }
            Where::Segment { segment, index, .. } => {
                let found = self.own_page(space, page_no, false)?;
                self.bury_unmapped(segment, index, index);
                Ok(found)
            }
            Where::Private { outside, unaligned } => {
                self.unaligned += u64::from(unaligned);
                self.own_page(space, page_no, outside)
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
        if let Some(&page) = self.segments.get(segment).pages.get(&index) {
            return Ok(Found { page, new_page: false, write_free, outside: false });
        }
        let page = self.ids.add_page(segment, page_no)?;
        self.segments.get_mut(segment).pages.insert(index, page);
        Ok(Found { page, new_page: true, write_free, outside: false })
    }

    /// Gives a space a new page of its own.
    fn own_page(&mut self, space: u32, page_no: PageNo, outside: bool) -> Result<Found> {
        let home = &mut self.spaces[space as usize];
        let segment = match home.private {
            Some(segment) => segment,
            None => *home.private.insert(self.segments.add(Owner::Space(home.asid))?),
        };
        let page = self.ids.add_page(segment, page_no)?;
        self.ids.hold(page);
        home.own.insert(page_no.0, Own { page, pending: false, outside });
        Ok(Found { page, new_page: true, write_free: true, outside })
    }

    /// Whether pages have died that [`drain_dead`](Self::drain_dead) has not yet told of.
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
