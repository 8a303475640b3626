//! This file applies the events that change address spaces, and reports the deaths of pages that they
//! cause.

use alloc::{format, string::String};

use binhop_base::{Asid, Problem, Result, VirtAddr, counted, forest::Root};

use super::{
    MapFlags, NO_TOUCHED_PAGE, Owner, Spaces,
    areas::{Area, Backing, MappedAs},
    extents::ExtentKind,
    lineage::Lineage,
};
use crate::table::Pair;

impl Spaces {
    /// Maps `trace_pages` pages of the trace's size from `start` on, and replaces what was there. `segment`
    /// is the trace's name of the mapped object (`None`: anonymous memory), and `offset` is the first byte of
    /// the mapping in it.
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

    /// Unmaps pages. A later touch there makes a new page.
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

    /// Checks the range of a change of protection. The change has no effect.
    ///
    /// # Errors
    /// The range ends above the largest address.
    pub fn protect(&self, asid: Asid, start: VirtAddr, trace_pages: u64) -> Result<()> {
        self.range(start, trace_pages, || format!("protect in asid {asid}")).map(drop)
    }

    /// Makes `child` as a copy of `parent`. If an address space with the child's number lives, it ends first.
    ///
    /// # Errors
    /// `child` is `parent`.
    pub fn fork(&mut self, child: Asid, parent: Asid) -> Result<()> {
        if child == parent {
            return Err(Problem::request(
                &format!("fork of asid {parent} into itself"),
                "address spaces",
                "the child of a fork is another address space than the parent",
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

    /// Ends all mappings of an address space, which gets a new program.
    pub fn exec(&mut self, asid: Asid) {
        self.end(asid);
    }

    /// Ends an address space and all its mappings. If its number comes again, it is another address space.
    pub fn exit(&mut self, asid: Asid) {
        self.end(asid);
    }

    /// Returns the first and the last byte of an event's range, or `None` if the range is empty.
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
        let log2 = self.page.log2();
        if let Some(last) = last
            && start.0 >> log2 < self.shared.0
            && last >> log2 >= self.shared.0
        {
            return Err(Problem::request(
                &format!("{} from {:#x} to {last:#x}", what(), start.0),
                "address spaces",
                &format!("a range lies below the shared address {:#x} or above", self.shared.0 << log2),
                "cut the range there",
            ));
        }
        last.map(|last| Some((start.0, last))).ok_or_else(|| {
            Problem::request(
                &format!(
                    "{} at address {start:#x}: {} of {} B",
                    what(),
                    counted(trace_pages, ["page", "pages"]),
                    self.trace_page,
                    start = start.0
                ),
                "address spaces",
                "a range ends at or below address 2^64 - 1",
                "run binhop lint on the trace; its page size of origin may be wrong",
            )
        })
    }

    /// Ends everything in `first..=last` of an address space, and puts `area` there.
    fn replace(&mut self, asid: Asid, first: u64, last: u64, area: Option<Area>) {
        let log2 = self.page.log2();
        let (low, high) = (first >> log2, last >> log2);
        let space = self.space_at(asid, low);
        let borders = self.borders(space, first, last);
        let home = &mut self.spaces[space as usize];
        home.generation += 1;
        home.areas = self.areas.carve(home.areas, first, last);
        // Pages that lie wholly inside begin anew.
        let inside = (low + u64::from(borders[0].is_some()))..(high + u64::from(borders[1].is_none()));
        if !inside.is_empty() {
            home.extents = self.extents.carve(home.extents, inside.start, inside.end - 1, &mut self.segments);
        }
        // A page at a border that is the address space's own stays, unless it lost its last area.
        for (page, had) in borders.into_iter().flatten() {
            let bytes = self.bytes_of(page);
            let home = &mut self.spaces[space as usize];
            let lost = had && !self.areas.any(home.areas, bytes.0, bytes.1);
            if lost || !matches!(self.extents.at(home.extents, page), Some(ExtentKind::Own { .. })) {
                home.extents = self.extents.carve(home.extents, page, page, &mut self.segments);
            }
        }
        if let Some(area) = area {
            let home = &mut self.spaces[space as usize];
            home.areas = self.areas.insert(home.areas, first, area);
            if let (Some(backing), false) = (area.backing, inside.is_empty()) {
                self.map_to_segment(space, (inside.start, inside.end - 1), backing);
            }
        }
        for (page, _) in borders.into_iter().flatten() {
            self.map_border_to_segment(space, page);
        }
        self.report_dead_pages();
    }

    /// Returns the pages at the borders of `first..=last` that do not lie wholly inside. Each page comes
    /// with the answer whether an area holds any of its bytes inside the range. If one page has both borders,
    /// the page stands first, and there is no second page.
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

    /// Returns the first and the last byte of a page.
    fn bytes_of(&self, page: u64) -> (u64, u64) {
        let first = page << self.page.log2();
        (first, first | (self.page.bytes() - 1))
    }

    /// Maps free pages in an area with a backing to the segment, if they lie in the segment congruently.
    pub(super) fn map_to_segment(&mut self, space: u32, pages: (u64, u64), backing: Backing) {
        let (first, last) = pages;
        let log2 = self.page.log2();
        let byte = (first << log2).wrapping_sub(backing.base);
        if byte & (self.page.bytes() - 1) != 0 {
            return;
        }
        // Page numbers in a segment may wrap around to 0: a stack may grow below the start of its segment.
        let (index, most) = (byte >> log2, u64::MAX >> log2);
        let before = (most - index).min(last - first);
        self.insert_run(space, (first, first + before), backing, index);
        if before < last - first {
            self.insert_run(space, (first + before + 1, last), backing, 0);
        }
    }

    fn insert_run(&mut self, space: u32, pages: (u64, u64), backing: Backing, index: u64) {
        let run = ExtentKind::Run { segment: backing.segment, shared: backing.shared, index };
        let home = &mut self.spaces[space as usize];
        home.extents = self.extents.insert_run(home.extents, pages, run, &mut self.segments);
    }

    /// Maps a page of which areas hold parts to a segment, unless it is the address space's own page.
    fn map_border_to_segment(&mut self, space: u32, page: u64) {
        let home = &self.spaces[space as usize];
        if self.extents.at(home.extents, page).is_some() {
            return;
        }
        if let MappedAs::Segment { segment, index, shared } = self.areas.lookup(home.areas, page, self.page) {
            let run = ExtentKind::Run { segment, shared, index };
            let home = &mut self.spaces[space as usize];
            home.extents = self.extents.insert_run(home.extents, (page, page), run, &mut self.segments);
        }
    }

    /// Lets the growing area above a touched page grow down to the page, if the page lies in no area and the
    /// area is within reach. Returns whether the area grew.
    pub(super) fn grow(&mut self, space: u32, page: u64) -> bool {
        let (first, last) = self.bytes_of(page);
        let home = &mut self.spaces[space as usize];
        let Some((areas, start, area)) = self.areas.grow(home.areas, first, last) else { return false };
        home.areas = areas;
        let Some(backing) = area.backing else { return true };
        let end = start >> self.page.log2();
        // A page that was touched outside every map stays the address space's own.
        let mut at = page;
        if end > page {
            for own in self.extents.own(self.spaces[space as usize].extents, page, end - 1) {
                if own > at {
                    self.map_to_segment(space, (at, own - 1), backing);
                }
                at = own + 1;
            }
            if at < end {
                self.map_to_segment(space, (at, end - 1), backing);
            }
        }
        if start > self.bytes_of(end).0 {
            self.map_border_to_segment(space, end);
        }
        true
    }

    /// Ends everything in an address space.
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
        let touched = core::mem::replace(&mut home.last_touched, NO_TOUCHED_PAGE);
        self.areas.release(core::mem::replace(&mut home.areas, Root::EMPTY));
        self.extents.release(core::mem::replace(&mut home.extents, Root::EMPTY));
        self.report_dead_pages();
        self.reclaim(space, touched);
    }

    /// Frees the `TouchedPage`s of a life that ended, from the last one, `touched`, back to the first. A
    /// `TouchedPage` is freed if its virtual page led to one page only, and this page has died. The `TouchedPage`
    /// of a page that lives on remains: if the address space returns, it finds its former mapping there.
    fn reclaim(&mut self, space: u32, touched: u32) {
        let mut next = touched;
        while next != NO_TOUCHED_PAGE {
            let number = next;
            let entry = &self.touched[number as usize];
            next = entry.before;
            if !entry.has_others && self.ids.is_dead(self.ids.page_of(entry.newest)) {
                self.table.remove(Pair::new(space, self.ids.virtual_page(entry.newest).0));
                self.free_touched.push(number);
            }
        }
    }

    /// Reports the pages that no address space has mapped any more as dead.
    pub(super) fn report_dead_pages(&mut self) {
        let reported = self.dead.len();
        self.extents.report_dead_pages(&mut self.segments, &mut self.dead);
        self.dead[reported..].iter().for_each(|&page| self.ids.mark_dead(page));
    }
}
