//! The events that change address spaces, and the deaths they cause.

use alloc::{format, string::String};

use binhop_base::{Asid, Problem, Result, VirtAddr, forest::Root};

use super::{
    MapFlags, NO_PLACE, Owner, Spaces,
    areas::{Area, Backing, Where},
    extents::What,
    lineage::Lineage,
};
use crate::table::Pair;

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
            Some(name) => Some(self.segments.named(name, flags)?),
            None if flags.shared() => Some(self.segments.add(Owner::Anonymous, flags)?),
            None => None,
        };
        let backing = segment.map(|segment| Backing {
            segment,
            base: first.wrapping_sub(offset),
            shared: flags.shared(),
        });
        self.replace(
            asid,
            first,
            last,
            Some(Area { last, grows: flags.grows(), writable: flags.write(), backing }),
        );
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

    /// The protection of a range changes: nothing else does, and nothing is kept of it.
    ///
    /// # Errors
    /// The range ends above the largest address.
    pub fn protect(&self, asid: Asid, start: VirtAddr, trace_pages: u64) -> Result<()> {
        self.range(start, trace_pages, || format!("protect in asid {asid}")).map(drop)
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
        self.forks += 1;
        let from = &mut self.spaces[parent as usize];
        from.generation += 1;
        from.forked = self.forks;
        from.lineage = self.lineages.handed_down(from.lineage, from.private);
        let lineage = from.lineage;
        let (areas, extents) = (self.areas.share(from.areas), self.extents.share(from.extents));
        let to = &mut self.spaces[child as usize];
        to.areas = areas;
        to.extents = extents;
        to.forked = self.forks;
        to.lineage = lineage;
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
        let log2 = self.page.log2();
        let (low, high) = (first >> log2, last >> log2);
        let borders = self.borders(space, first, last);
        let home = &mut self.spaces[space as usize];
        home.generation += 1;
        home.areas = self.areas.carve(home.areas, first, last);
        // Pages wholly inside begin anew.
        let inside = (low + u64::from(borders[0].is_some()))..(high + u64::from(borders[1].is_none()));
        if !inside.is_empty() {
            home.extents = self.extents.carve(home.extents, inside.start, inside.end - 1, &mut self.segments);
        }
        // Pages at a border keep a page of the space's own, unless they lost their last area.
        for (page, had) in borders.into_iter().flatten() {
            let bytes = self.bytes_of(page);
            let home = &mut self.spaces[space as usize];
            let lost = had && !self.areas.any(home.areas, bytes.0, bytes.1);
            if lost || !matches!(self.extents.at(home.extents, page), Some(What::Own { .. })) {
                home.extents = self.extents.carve(home.extents, page, page, &mut self.segments);
            }
        }
        if let Some(area) = area {
            let home = &mut self.spaces[space as usize];
            home.areas = self.areas.insert(home.areas, first, area);
            if let (Some(backing), false) = (area.backing, inside.is_empty()) {
                self.lead(space, (inside.start, inside.end - 1), backing);
            }
        }
        for (page, _) in borders.into_iter().flatten() {
            self.lead_at_border(space, page);
        }
        self.report_dead_pages();
    }

    /// The pages at the borders of `first..=last` that are not wholly inside, each with whether an area holds a byte
    /// of it there. A page that has both borders is the first.
    fn borders(&self, space: u32, first: u64, last: u64) -> [Option<(u64, bool)>; 2] {
        let home = &self.spaces[space as usize];
        let border = |page: u64| {
            let (low, high) = self.bytes_of(page);
            let part = (low.max(first), high.min(last));
            (part != (low, high)).then(|| (page, self.areas.any(home.areas, part.0, part.1)))
        };
        let log2 = self.page.log2();
        let (low, high) = (first >> log2, last >> log2);
        [border(low), if low == high { None } else { border(high) }]
    }

    /// The first and the last byte of a page.
    fn bytes_of(&self, page: u64) -> (u64, u64) {
        let first = page << self.page.log2();
        (first, first | (self.page.bytes() - 1))
    }

    /// The free pages `pages` lie in an area with this backing: they lead to its segment, if they do congruently.
    pub(super) fn lead(&mut self, space: u32, pages: (u64, u64), backing: Backing) {
        let (first, last) = pages;
        let log2 = self.page.log2();
        let byte = (first << log2).wrapping_sub(backing.base);
        if byte & (self.page.bytes() - 1) != 0 {
            return;
        }
        // Numbers in a segment may run past the largest to 0: a stack that grew below the segment's start.
        let (index, most) = (byte >> log2, u64::MAX >> log2);
        let before = (most - index).min(last - first);
        self.run(space, (first, first + before), backing, index);
        if before < last - first {
            self.run(space, (first + before + 1, last), backing, 0);
        }
    }

    fn run(&mut self, space: u32, pages: (u64, u64), backing: Backing, index: u64) {
        let run = What::Run { segment: backing.segment, shared: backing.shared, index };
        let home = &mut self.spaces[space as usize];
        home.extents = self.extents.insert_run(home.extents, pages, run, &mut self.segments);
    }

    /// A page of which areas hold parts leads to a segment, unless it is one of the space's own.
    fn lead_at_border(&mut self, space: u32, page: u64) {
        let home = &self.spaces[space as usize];
        if self.extents.at(home.extents, page).is_some() {
            return;
        }
        if let Where::Segment { segment, index, shared } = self.areas.lookup(home.areas, page, self.page) {
            let run = What::Run { segment, shared, index };
            let home = &mut self.spaces[space as usize];
            home.extents = self.extents.insert_run(home.extents, (page, page), run, &mut self.segments);
        }
    }

    /// Lets the growing area above a page that is touched, and lies in no area, grow down to it, if there is one
    /// within reach. Returns whether it did.
    pub(super) fn grow(&mut self, space: u32, page: u64) -> bool {
        let (first, last) = self.bytes_of(page);
        let home = &mut self.spaces[space as usize];
        let Some((areas, start, area)) = self.areas.grow(home.areas, first, last) else { return false };
        home.areas = areas;
        let Some(backing) = area.backing else { return true };
        let end = start >> self.page.log2();
        // A page that was touched outside every map stays the space's own.
        let mut at = page;
        if end > page {
            for own in self.extents.own(self.spaces[space as usize].extents, page, end - 1) {
                if own > at {
                    self.lead(space, (at, own - 1), backing);
                }
                at = own + 1;
            }
            if at < end {
                self.lead(space, (at, end - 1), backing);
            }
        }
        if start > self.bytes_of(end).0 {
            self.lead_at_border(space, end);
        }
        true
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
        home.lineage = Lineage::NONE;
        let touched = core::mem::replace(&mut home.touched, NO_PLACE);
        self.areas.release(core::mem::replace(&mut home.areas, Root::EMPTY));
        self.extents.release(core::mem::replace(&mut home.extents, Root::EMPTY));
        self.report_dead_pages();
        self.reclaim(space, touched);
    }

    /// Gives up the places of a life that ended, the last of them `touched`, where the only page ever found has died.
    /// The place of a page that lives on remains: if the space returns, it finds the mapping that it had there.
    fn reclaim(&mut self, space: u32, touched: u32) {
        let mut next = touched;
        while next != NO_PLACE {
            let number = next;
            let place = &self.places[number as usize];
            next = place.before;
            if !place.has_others && self.ids.is_dead(self.ids.page_of(place.newest)) {
                self.table.remove(Pair::new(space, self.ids.virtual_page(place.newest).0));
                self.free_places.push(number);
            }
        }
    }

    /// Buries what no space leads to any more.
    pub(super) fn report_dead_pages(&mut self) {
        let told = self.dead.len();
        self.extents.report_dead_pages(&mut self.segments, &mut self.dead);
        self.dead[told..].iter().for_each(|&page| self.ids.mark_dead(page));
    }
}
