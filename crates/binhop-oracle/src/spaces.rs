//! `Spaces` holds slow, obvious address spaces. Every unit of every address space has its own entry in one map.
//! After every event, all pages are searched for in all address spaces.
//!
//! A *unit* is the smaller of the trace's page and the machine's page. Events start at multiples of a unit.
//! Pages and mappings are numbered in order of first touch, as in the fast model.

use std::collections::{BTreeMap, BTreeSet};

use binhop_base::{Asid, MappingId, PageId, PageNo};

/// `Object` is the object to which a unit of mapped memory belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Named(u64),
    SharedAnonymous(u64),
}

/// `SharedUnit` is a unit of shared memory: its number within the range that was asked for, and the unit of the
/// object that lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedUnit(u64, Object, i128);

#[derive(Clone, Copy, Debug)]
struct MappedUnit {
    /// The object, and the number of the unit within the object. `None` for private anonymous memory.
    object: Option<(Object, i128)>,
    shared: bool,
    grows: bool,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    page: PageId,
    copy_on_write: bool,
    outside: bool,
}

/// `Touched` is the answer to a touch, in the fast model's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The number of the mapping.
    pub mapping: MappingId,
    /// The number of the page.
    pub page: PageId,
    /// True if the touch made the page.
    pub new_page: bool,
    /// True if no copy is pending.
    pub write_free: bool,
    /// True if the page was made outside every map.
    pub outside: bool,
}

/// `Spaces` holds all address spaces.
pub struct Spaces {
    unit: u64,
    /// The units per trace page and per machine page. One of the two numbers is 1.
    trace_units: u64,
    machine_units: u64,
    units: BTreeMap<(Asid, u64), MappedUnit>,
    own: BTreeMap<(Asid, u64), Own>,
    segment_pages: BTreeMap<(Object, i128), PageId>,
    mappings: BTreeMap<(Asid, u64, PageId), MappingId>,
    /// The kernel's pages by virtual page, each with its mapping.
    kernel: BTreeMap<u64, (PageId, MappingId)>,
    /// The page that each address space last found at each machine page. The birth, an exec and the exit of a
    /// space clear its entries.
    found: BTreeMap<(Asid, u64), PageId>,
    pages: u32,
    anonymous: u64,
    growth_units: u64,
    dead: Vec<PageId>,
    known_dead: BTreeSet<PageId>,
    /// The number of machine pages that only a part of a segment covers.
    pub unaligned: u64,
    /// The first machine page that belongs to all address spaces.
    pub shared_from: Option<u64>,
}

/// The number under which the pages of all address spaces are kept.
const ALL: Asid = Asid(u32::MAX);

enum Found {
    Segment(Object, i128, bool),
    Private { outside: bool, unaligned: bool },
}

impl Spaces {
    /// Makes a model without any address space. The sizes are in bytes: a machine page, a page of the trace,
    /// and the largest growth of a stack at once.
    #[must_use]
    pub fn new(machine_page: u64, trace_page: u64, growth: u64) -> Self {
        let unit = machine_page.min(trace_page);
        Self {
            unit,
            trace_units: trace_page / unit,
            machine_units: machine_page / unit,
            units: BTreeMap::new(),
            own: BTreeMap::new(),
            segment_pages: BTreeMap::new(),
            mappings: BTreeMap::new(),
            kernel: BTreeMap::new(),
            found: BTreeMap::new(),
            pages: 0,
            anonymous: 0,
            growth_units: growth / unit,
            dead: Vec::new(),
            known_dead: BTreeSet::new(),
            unaligned: 0,
            shared_from: None,
        }
    }

    /// Returns the address space that owns a machine page.
    fn owner(&self, asid: Asid, page: u64) -> Asid {
        if self.shared_from.is_some_and(|first| page >= first) { ALL } else { asid }
    }

    fn units_of(&self, page: u64) -> std::ops::Range<u64> {
        page * self.machine_units..(page + 1) * self.machine_units
    }

    fn mapped_units(&self, asid: Asid, page: u64) -> usize {
        self.units_of(page).filter(|&unit| self.units.contains_key(&(asid, unit))).count()
    }

    /// Returns what the maps alone say about a machine page.
    fn look(&self, asid: Asid, page: u64) -> Found {
        let parts: Vec<Option<MappedUnit>> =
            self.units_of(page).map(|unit| self.units.get(&(asid, unit)).copied()).collect();
        if let Some((object, first)) = parts[0].and_then(|unit| unit.object) {
            let shared = parts[0].is_some_and(|unit| unit.shared);
            let whole = parts.iter().zip(0..).all(|(part, i)| {
                part.is_some_and(|unit| unit.object == Some((object, first + i)) && unit.shared == shared)
            });
            let units = i128::from(self.machine_units);
            if whole && first.rem_euclid(units) == 0 {
                return Found::Segment(object, first.div_euclid(units), shared);
            }
        }
        Found::Private {
            outside: parts.iter().all(Option::is_none),
            unaligned: parts.iter().flatten().any(|unit| unit.object.is_some()),
        }
    }

    fn grow(&mut self, asid: Asid, page: u64) {
        if self.mapped_units(asid, page) > 0 {
            return;
        }
        let first = page * self.machine_units;
        let Some((&(_, above), &unit)) =
            self.units.range((asid, first)..=(asid, u64::MAX)).next().filter(|(_, unit)| unit.grows)
        else {
            return;
        };
        if above - first <= self.growth_units {
            for below in first..above {
                let object = unit.object.map(|(object, i)| (object, i - i128::from(above - below)));
                self.units.insert((asid, below), MappedUnit { object, ..unit });
            }
        }
    }

    fn new_page(&mut self) -> PageId {
        self.pages += 1;
        PageId(self.pages - 1)
    }

    fn next_mapping(&self) -> MappingId {
        MappingId((self.mappings.len() + self.kernel.len()) as u32)
    }

    /// Notes a reference to a page of the kernel. Returns its page, its mapping, and whether the page is new.
    pub fn touch_kernel(&mut self, page_no: PageNo) -> (PageId, MappingId, bool) {
        if let Some(&(page, mapping)) = self.kernel.get(&page_no.0) {
            return (page, mapping, false);
        }
        let new = (self.new_page(), self.next_mapping());
        self.kernel.insert(page_no.0, new);
        (new.0, new.1, true)
    }

    /// Notes a reference to a machine page.
    pub fn touch(&mut self, asid: Asid, page_no: PageNo, write: bool) -> Touched {
        let asid = self.owner(asid, page_no.0);
        let pages = self.pages;
        let (page, write_free, outside) = self.page_behind(asid, page_no.0, write);
        let next = self.next_mapping();
        let mapping = *self.mappings.entry((asid, page_no.0, page)).or_insert(next);
        self.found.insert((asid, page_no.0), page);
        if self.pages > pages {
            // Only a new page replaces another page.
            self.report_dead_pages();
        }
        Touched { mapping, page, new_page: self.pages > pages, write_free, outside }
    }

    fn page_behind(&mut self, asid: Asid, page_no: u64, write: bool) -> (PageId, bool, bool) {
        let here = (asid, page_no);
        let outside = match self.own.get(&here) {
            Some(own) if !write || !own.copy_on_write => return (own.page, !own.copy_on_write, own.outside),
            Some(own) => own.outside,
            None => {
                self.grow(asid, page_no);
                match self.look(asid, page_no) {
                    Found::Segment(object, index, shared) if shared || !write => {
                        if !self.segment_pages.contains_key(&(object, index)) {
                            let page = self.new_page();
                            self.segment_pages.insert((object, index), page);
                        }
                        return (self.segment_pages[&(object, index)], shared, false);
                    }
                    Found::Segment(..) => false,
                    Found::Private { outside, unaligned } => {
                        self.unaligned += u64::from(unaligned);
                        outside
                    }
                }
            }
        };
        let page = self.new_page();
        self.own.insert(here, Own { page, copy_on_write: false, outside });
        (page, true, outside)
    }

    /// Searches for every page in every address space, and reports the pages that it does not find as dead.
    fn report_dead_pages(&mut self) {
        let mut alive: BTreeSet<PageId> = self.own.values().map(|own| own.page).collect();
        alive.extend(self.kernel.values().map(|(page, _)| *page));
        let everywhere: BTreeSet<(Asid, u64)> =
            self.units.keys().map(|&(asid, unit)| (asid, unit / self.machine_units)).collect();
        for (asid, page) in everywhere {
            if let (None, Found::Segment(object, index, _)) =
                (self.own.get(&(asid, page)), self.look(asid, page))
            {
                alive.extend(self.segment_pages.get(&(object, index)));
            }
        }
        let known_dead: BTreeSet<PageId> =
            (0..self.pages).map(PageId).filter(|page| !alive.contains(page)).collect();
        self.segment_pages.retain(|_, page| alive.contains(page));
        self.dead.extend(known_dead.difference(&self.known_dead).copied());
        self.known_dead = known_dead;
    }

    /// Returns the pages that died since the last call, in order.
    pub fn dead(&mut self) -> Vec<PageId> {
        std::mem::take(&mut self.dead)
    }

    /// Handles a map event. `start` and the offset are multiples of a unit. `segment` is a name and an
    /// offset.
    pub fn map(
        &mut self,
        asid: Asid,
        start: u64,
        pages: u64,
        (shared, grows): (bool, bool),
        segment: Option<(u64, u64)>,
    ) {
        let asid = self.owner(asid, start / self.unit / self.machine_units);
        self.anonymous += 1;
        let object = match segment {
            Some((name, offset)) => Some((Object::Named(name), i128::from(offset / self.unit))),
            None if shared => Some((Object::SharedAnonymous(self.anonymous), 0)),
            None => None,
        };
        self.clear(asid, start, pages);
        for i in 0..pages * self.trace_units {
            let object = object.map(|(object, first)| (object, first + i128::from(i)));
            self.units.insert((asid, start / self.unit + i), MappedUnit { object, shared, grows });
        }
        self.report_dead_pages();
    }

    /// Handles an unmap event.
    pub fn unmap(&mut self, asid: Asid, start: u64, pages: u64) {
        let asid = self.owner(asid, start / self.unit / self.machine_units);
        self.clear(asid, start, pages);
        self.report_dead_pages();
    }

    /// Removes units. A machine page that lies wholly inside the range, or that loses its last unit, also loses
    /// its private page.
    fn clear(&mut self, asid: Asid, start: u64, pages: u64) {
        let range = start / self.unit..start / self.unit + pages * self.trace_units;
        let own: Vec<u64> =
            self.own.range((asid, 0)..=(asid, u64::MAX)).map(|(&(_, page), _)| page).collect();
        let before: Vec<usize> = own.iter().map(|&page| self.mapped_units(asid, page)).collect();
        for unit in range.clone() {
            self.units.remove(&(asid, unit));
        }
        for (page, before) in own.into_iter().zip(before) {
            let inside = self.units_of(page).all(|unit| range.contains(&unit));
            if inside || before > 0 && self.mapped_units(asid, page) == 0 {
                self.own.remove(&(asid, page));
            }
        }
    }

    /// Handles a fork event.
    pub fn fork(&mut self, child: Asid, parent: Asid) {
        self.forget(child);
        let units: Vec<_> =
            self.units.iter().filter(|((asid, _), _)| *asid == parent).map(|(k, v)| (k.1, *v)).collect();
        self.units.extend(units.into_iter().map(|(unit, what)| ((child, unit), what)));
        for own in self.own.iter_mut().filter(|((asid, _), _)| *asid == parent) {
            own.1.copy_on_write = true;
        }
        let own: Vec<_> =
            self.own.iter().filter(|((asid, _), _)| *asid == parent).map(|(k, v)| (k.1, *v)).collect();
        self.own.extend(own.into_iter().map(|(page, what)| ((child, page), what)));
        self.report_dead_pages();
    }

    /// Handles an exec event or an exit event.
    pub fn end(&mut self, asid: Asid) {
        self.forget(asid);
        self.report_dead_pages();
    }

    fn forget(&mut self, asid: Asid) {
        self.units.retain(|(space, _), _| *space != asid);
        self.own.retain(|(space, _), _| *space != asid);
        self.found.retain(|(space, _), _| *space != asid);
    }

    /// Returns whether machine pages are private anonymous memory as a whole, or lie outside every map as a whole.
    #[must_use]
    pub fn is_anonymous(&self, asid: Asid, pages: std::ops::Range<u64>) -> bool {
        let units = pages.flat_map(|page| self.units_of(page));
        let all: Vec<_> = units.map(|unit| self.units.get(&(asid, unit))).collect();
        all.iter().all(Option::is_none)
            || all.iter().all(|unit| unit.is_some_and(|unit| unit.object.is_none()))
    }

    /// Returns what a space maps of these machine pages, if it maps something, and nothing but shared memory.
    #[must_use]
    pub fn shared_memory(&self, asid: Asid, pages: std::ops::Range<u64>) -> Option<Vec<SharedUnit>> {
        let asid = self.owner(asid, pages.start);
        let units = pages.start * self.machine_units..pages.end * self.machine_units;
        let mut all = Vec::new();
        for (&(_, unit), mapped) in self.units.range((asid, units.start)..(asid, units.end)) {
            let (object, at) = mapped.object.filter(|_| mapped.shared)?;
            all.push(SharedUnit(unit - units.start, object, at));
        }
        (!all.is_empty()).then_some(all)
    }

    /// Returns whether anything is mapped in the address space that holds a machine page of `asid`.
    #[must_use]
    pub fn maps_anything(&self, asid: Asid, page: u64) -> bool {
        let owner = self.owner(asid, page);
        self.units.keys().any(|&(asid, _)| asid == owner)
    }

    /// Returns how many of these machine pages an address space has as pages of its own.
    #[must_use]
    pub fn own_pages(&self, asid: Asid, pages: std::ops::Range<u64>) -> usize {
        self.own.range((asid, pages.start)..(asid, pages.end)).count()
    }

    /// Returns the pages that an address space found last and would find again in the same place, each once.
    #[must_use]
    pub fn pages_of_space(&self, asid: Asid) -> BTreeSet<PageId> {
        let mut pages = BTreeSet::new();
        for (&(_, page), &found) in self.found.range((asid, 0)..=(asid, u64::MAX)) {
            let now = match (self.own.get(&(asid, page)), self.look(asid, page)) {
                (Some(own), _) => Some(own.page),
                (None, Found::Segment(object, index, _)) => self.segment_pages.get(&(object, index)).copied(),
                (None, Found::Private { .. }) => None,
            };
            pages.extend(now.filter(|&now| now == found));
        }
        pages
    }
}
