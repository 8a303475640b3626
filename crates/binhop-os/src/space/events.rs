//! The events that change address spaces, and the deaths they cause.

use alloc::{format, string::String, vec::Vec};

use binhop_base::{Asid, PageId, Problem, Result, VirtAddr};

use super::{
    MapFlags, Owner, SegmentId, Spaces,
    areas::{Area, Backing, Edit, Where},
};

impl Spaces {
    /// Pages appear at `start`, `trace_pages` pages of the trace's size long, over whatever was there.
    /// `segment` is the trace's name for what is mapped (`None`: anonymous memory), `offset` the first byte in it.
    ///
    /// # Errors
    /// The range ends above the largest address, or there are too many segments.
    pub fn map(
        &mut self,
        asid: Asid,
        start: VirtAddr,
        trace_pages: u64,
        flags: MapFlags,
        segment: Option<u64>,
        offset: u64,
    ) -> Result<()> {
        let Some((first, last)) = self.range(start, trace_pages, || format!("map in asid {asid}"))? else {
            return Ok(());
        };
        if self.memory.is_some() {
            return Ok(());
        }
        self.has_maps = true;
        let segment = match segment {
            Some(name) => Some(self.segments.named(name)?),
            None if flags.shared() => Some(self.segments.add(Owner::Anonymous)?),
            None => None,
        };
        let backing = segment.map(|segment| Backing {
            segment,
            base: first.wrapping_sub(offset),
            shared: flags.shared(),
        });
        self.replace(asid, first, last, Some(Area { last, flags, backing }));
        Ok(())
    }

    /// Pages disappear. A later touch there finds a new page.
    ///
    /// # Errors
    /// The range ends above the largest address.
    pub fn unmap(&mut self, asid: Asid, start: VirtAddr, trace_pages: u64) -> Result<()> {
        let range = self.range(start, trace_pages, || format!("unmap in asid {asid}"))?;
        if let (Some((first, last)), None) = (range, self.memory) {
            self.replace(asid, first, last, None);
        }
        Ok(())
    }

    /// The protection of a range changes; whether it is shared or grows does not. No page changes.
    ///
    /// # Errors
    /// The range ends above the largest address.
    pub fn protect(&mut self, asid: Asid, start: VirtAddr, trace_pages: u64, flags: MapFlags) -> Result<()> {
        let range = self.range(start, trace_pages, || format!("protect in asid {asid}"))?;
        let (Some((first, last)), None) = (range, self.memory) else { return Ok(()) };
        let space = self.space(asid);
        let areas = &mut self.spaces[space as usize].areas;
        let mut edit = areas.carve(first, last);
        for (start, area) in edit.gone.clone() {
            let (start, last) = (start.max(first), area.last.min(last));
            let part = Area { last, flags: area.flags.with_protection(flags), ..area };
            areas.insert(start, part);
            edit.come.push((start, part));
        }
        self.index(space, &edit);
        Ok(())
    }

    /// `child` is born as a copy of `parent`. If an address space of that number lives, it ends first.
    ///
    /// # Errors
    /// `child` is `parent`.
    pub fn fork(&mut self, child: Asid, parent: Asid) -> Result<()> {
        if child == parent {
            return Err(Problem::request(
                &format!("fork of asid {parent} into itself"),
                "address spaces",
                "a child is another address space than its parent",
                "give the child an asid of its own (addr of the fork event)",
            ));
        }
        if self.memory.is_some() {
            return Ok(());
        }
        self.end(child);
        let (child, parent) = (self.space(child), self.space(parent));
        let from = &mut self.spaces[parent as usize];
        from.generation += 1;
        for own in from.own.values_mut() {
            own.pending = true;
            self.ids.hold(own.page);
        }
        let (areas, own) = (from.areas.clone(), from.own.clone());
        let inherited = from.inherited.iter().copied().chain(from.private).collect();
        let edit =
            Edit { gone: Vec::new(), come: areas.iter().map(|(start, area)| (start, *area)).collect() };
        self.index(child, &edit);
        let to = &mut self.spaces[child as usize];
        to.areas = areas;
        to.own = own;
        to.inherited = inherited;
        Ok(())
    }

    /// An address space gets a new program: all its mappings end.
    pub fn exec(&mut self, asid: Asid) {
        self.end(asid);
    }

    /// An address space ends, and all its mappings. If its number comes again, it is another space.
    pub fn exit(&mut self, asid: Asid) {
        self.end(asid);
    }

    /// First and last byte of an event's range; `None` if it is empty.
    fn range(
        &self,
        start: VirtAddr,
        trace_pages: u64,
        what: impl Fn() -> String,
    ) -> Result<Option<(u64, u64)>> {
        if trace_pages == 0 {
            return Ok(None);
        }
        let last = trace_pages.checked_mul(self.trace_page).and_then(|bytes| start.0.checked_add(bytes - 1));
        last.map(|last| Some((start.0, last))).ok_or_else(|| {
            Problem::request(
                &format!(
                    "{} at address {start:#x}: {trace_pages} pages of {} B",
                    what(),
                    self.trace_page,
                    start = start.0
                ),
                "address spaces",
                "a range ends at or below address 2^64 - 1",
                "run binhop lint on the trace; its page size of origin may be wrong",
            )
        })
    }

    /// Ends whatever lies in `first..=last` of a space, and puts `area` there.
    fn replace(&mut self, asid: Asid, first: u64, last: u64, area: Option<Area>) {
        let space = self.space(asid);
        let home = &mut self.spaces[space as usize];
        home.generation += 1;
        let mut edit = home.areas.carve(first, last);
        let lost = self.lost_pages(space, first, last, &edit);
        let home = &mut self.spaces[space as usize];
        if let Some(area) = area {
            home.areas.insert(first, area);
            edit.come.push((first, area));
        }
        let deaths = self.dead.len();
        for page in lost {
            if let Some(own) = self.spaces[space as usize].own.remove(&page) {
                self.let_go(own.page);
            }
        }
        self.index(space, &edit);
        self.bury_behind(&edit, first, last);
        self.dead[deaths..].sort_unstable();
    }

    /// The space's own pages that end when `first..=last` was carved: those wholly inside, and one at
    /// either border if it lost its last area there.
    fn lost_pages(&self, space: u32, first: u64, last: u64, edit: &Edit) -> Vec<u64> {
        let home = &self.spaces[space as usize];
        let size = self.page;
        let bounds = |page: u64| (page << size.log2(), page << size.log2() | (size.bytes() - 1));
        let ends = |page: u64| {
            let (low, high) = bounds(page);
            let inside = first <= low && high <= last;
            let had = edit.gone.iter().any(|(start, area)| *start <= high && area.last >= low);
            inside || had && home.areas.overlapping(low, high).next().is_none()
        };
        let pages = first >> size.log2()..=last >> size.log2();
        home.own.range(pages).map(|(&page, _)| page).filter(|&page| ends(page)).collect()
    }

    /// Ends all of a space.
    fn end(&mut self, asid: Asid) {
        if self.memory.is_some() {
            return;
        }
        let space = self.space(asid);
        let home = &mut self.spaces[space as usize];
        home.generation += 1;
        home.born = home.generation;
        home.private = None;
        home.inherited.clear();
        let areas = core::mem::take(&mut home.areas);
        let own = core::mem::take(&mut home.own);
        let edit =
            Edit { gone: areas.iter().map(|(start, area)| (start, *area)).collect(), come: Vec::new() };
        let deaths = self.dead.len();
        for own in own.values() {
            self.let_go(own.page);
        }
        self.index(space, &edit);
        self.bury_behind(&edit, 0, u64::MAX);
        self.dead[deaths..].sort_unstable();
    }

    /// Keeps each segment's list of the areas that lie in it.
    pub(super) fn index(&mut self, space: u32, edit: &Edit) {
        for (start, area) in &edit.gone {
            if let Some(backing) = area.backing {
                self.segments.get_mut(backing.segment).areas.remove(&(space, *start));
            }
        }
        for (start, area) in &edit.come {
            if let Some(backing) = area.backing {
                self.segments.get_mut(backing.segment).areas.insert((space, *start));
            }
        }
    }

    /// One space less holds a page of its own; it dies with the last.
    pub(super) fn let_go(&mut self, page: PageId) {
        if self.ids.let_go(page) {
            self.dead.push(page);
        }
    }

    /// Buries what the areas that went from `first..=last` led to and nothing leads to now.
    fn bury_behind(&mut self, edit: &Edit, first: u64, last: u64) {
        for (start, area) in &edit.gone {
            let Some(backing) = area.backing else { continue };
            if backing.base & (self.page.bytes() - 1) != 0 {
                continue; // not congruent: no page of the segment was reached through it
            }
            let index = |byte: u64| byte.wrapping_sub(backing.base) >> self.page.log2();
            // A page across a border is counted in: it is no longer wholly in the segment.
            self.bury_unmapped(backing.segment, index((*start).max(first)), index(area.last.min(last)));
        }
    }

    /// Buries the live pages among `first..=last` of a segment to which no space's maps lead.
    pub(super) fn bury_unmapped(&mut self, segment: SegmentId, first: u64, last: u64) {
        for index in self.segments.get(segment).live(first, last) {
            if !self.is_mapped(segment, index) {
                self.dead.extend(self.segments.get_mut(segment).pages.remove(&index));
            }
        }
    }

    /// Whether a touch in some space would find this page of a segment.
    fn is_mapped(&self, segment: SegmentId, index: u64) -> bool {
        self.segments.get(segment).areas.iter().any(|&(space, start)| {
            let home = &self.spaces[space as usize];
            let Some((area, base)) =
                home.areas.get(start).and_then(|area| Some((area, area.backing?.base)))
            else {
                return false;
            };
            let first = base.wrapping_add(index << self.page.log2());
            let page = first >> self.page.log2();
            let reached = first & (self.page.bytes() - 1) == 0
                && start <= first + (self.page.bytes() - 1)
                && area.last >= first
                && !home.own.contains_key(&page);
            let found = || home.areas.lookup(page, self.page);
            reached && matches!(found(), Where::Segment { segment: s, index: i, .. } if s == segment && i == index)
        })
    }
}
