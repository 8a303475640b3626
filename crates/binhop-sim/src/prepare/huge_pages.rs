//! `HugePages` knows which pages of address spaces belong to huge pages. This knowledge is the same in every lane. A
//! lane decides by itself whether a huge page has a run of frames, and until when the run is whole
//! (`binhop_os::RunPlace`).
//!
//! # Rules
//! - A huge page has 2^n pages, and begins at a multiple of its size. Only private anonymous memory has huge pages, or
//!   memory outside every map.
//! - The first page that an address space touches in a huge page begins a run, if the whole huge page is such memory
//!   and the address space has no other page there. Otherwise the space maps the memory of the huge page by pages of
//!   the usual size.
//! - A page that the space makes later in the huge page joins the run. After a fork no page joins: each page that
//!   parent or child makes then is a page of its own.
//! - A space maps the run by one entry as long as every page that it touches in the huge page belongs to the run. After
//!   a copy on write, or a page that could not join, it maps pages of the usual size. The run stays whole for other
//!   spaces.
//! - Unmapping, mapping or protecting a part of a huge page also ends the one entry. A child inherits its parent's
//!   entries.
//!
//! This is what Linux does with transparent huge pages of anonymous memory (mm/huge_memory.c), with two differences. A
//! page that a space first touches after a fork does not join the run, because a page that the parent had not touched
//! is not inherited here. No daemon makes huge pages of small pages later.

use std::collections::BTreeMap;

use binhop_base::{Asid, PageId, PageNo};
use binhop_os::{RunPlace, Spaces, Touch};

/// The number that stands for no run.
const NO_RUN: u32 = u32::MAX;

/// `HugeRun` is the run of a huge page.
struct HugeRun {
    begins: PageId,
    /// True if no page joins any more.
    closed: bool,
}

/// `HugePages` knows which pages belong to huge pages.
pub(super) struct HugePages {
    /// The logarithm of the pages in a huge page.
    log2: u32,
    /// For each huge page of a space in which pages were touched, the run that one entry maps; `None`: pages of the
    /// usual size.
    entries: BTreeMap<(Asid, u64), Option<u32>>,
    runs: Vec<HugeRun>,
    /// For each page the number of its run.
    run_of: Vec<u32>,
}

impl HugePages {
    pub(super) fn new(log2: u32) -> Self {
        Self { log2, entries: BTreeMap::new(), runs: Vec::new(), run_of: Vec::new() }
    }

    /// Returns the first and the last page of a huge page.
    fn pages(&self, number: u64) -> [u64; 2] {
        let first = number << self.log2;
        [first, first | ((1 << self.log2) - 1)]
    }

    fn run_of(&self, page: PageId) -> Option<u32> {
        self.run_of.get(page.index()).copied().filter(|&run| run != NO_RUN)
    }

    /// Returns whether a page belongs to the run of a huge page.
    pub(super) fn is_in_run(&self, page: PageId) -> bool {
        self.run_of(page).is_some()
    }

    fn join(&mut self, page: PageId, run: u32) {
        if page.index() >= self.run_of.len() {
            self.run_of.resize(page.index() + 1, NO_RUN);
        }
        self.run_of[page.index()] = run;
    }

    /// Returns the place of a page in its run, if it has a run.
    pub(super) fn place_of(&self, page: PageId, page_no: u64) -> Option<RunPlace> {
        let run = self.run_of(page)?;
        let index = (page_no & ((1 << self.log2) - 1)) as u32;
        Some(RunPlace { run, index, frames_log2: self.log2, begins: self.runs[run as usize].begins == page })
    }

    /// Returns the run that one entry of a space maps around a page.
    pub(super) fn mapped(&self, asid: Asid, page_no: u64) -> Option<u32> {
        self.entries.get(&(asid, page_no >> self.log2)).copied().flatten()
    }

    /// Notes a touch. Returns the first and the last page of a huge page whose one entry ends.
    pub(super) fn touch(
        &mut self,
        spaces: &Spaces,
        asid: Asid,
        page_no: u64,
        touch: &Touch,
    ) -> Option<[u64; 2]> {
        let place = (asid, page_no >> self.log2);
        let pages = self.pages(place.1);
        let page = touch.page;
        match self.entries.get(&place) {
            None => {
                let [first, last] = pages.map(PageNo);
                let begins = touch.new_page
                    && spaces.is_anonymous(asid, first, last)
                    && spaces.own_pages(asid, first, last) == 1;
                let run = begins.then_some(self.runs.len() as u32);
                if let Some(run) = run {
                    self.runs.push(HugeRun { begins: page, closed: false });
                    self.join(page, run);
                }
                self.entries.insert(place, run);
            }
            Some(None) => {}
            Some(&Some(run)) if self.run_of(page) == Some(run) => {}
            Some(&Some(run)) if touch.new_page && !self.runs[run as usize].closed => self.join(page, run),
            Some(Some(_)) => {
                self.entries.insert(place, None);
                return Some(pages);
            }
        }
        None
    }

    /// Forgets the huge pages of a space around the pages from the first to the last. The next touch in such a huge
    /// page decides anew.
    pub(super) fn forget(&mut self, asid: Asid, [first, last]: [u64; 2]) {
        let range = (asid, first >> self.log2)..=(asid, last >> self.log2);
        let gone: Vec<_> = self.entries.range(range).map(|(&place, _)| place).collect();
        for place in &gone {
            self.entries.remove(place);
        }
    }

    /// Ends the one entry of each huge page of which only a part lies in the pages from the first to the last.
    pub(super) fn cut(&mut self, asid: Asid, pages: [u64; 2]) {
        for number in pages.map(|page| page >> self.log2) {
            let [first, last] = self.pages(number);
            if first < pages[0] || last > pages[1] {
                self.entries.entry((asid, number)).and_modify(|run| *run = None);
            }
        }
    }

    /// Gives a child its parent's entries. From now on no page joins these runs.
    pub(super) fn fork(&mut self, child: Asid, parent: Asid) {
        self.forget(child, [0, u64::MAX]);
        let inherited: Vec<_> = self
            .entries
            .range((parent, 0)..=(parent, u64::MAX))
            .map(|(&(_, number), &run)| ((child, number), run))
            .collect();
        inherited.iter().filter_map(|&(_, run)| run).for_each(|run| self.runs[run as usize].closed = true);
        self.entries.extend(inherited);
    }
}
