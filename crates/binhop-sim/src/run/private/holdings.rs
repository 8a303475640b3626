//! `LineHoldings` records for each page the lives whose computers may hold its lines, and keeps marks of these lines.
//!
//! A *holding* is a page with one life. Each cache that names its lines by mapping has holdings of mappings in place of
//! pages; a *name* is the number of either. A line that the life's private cache holds may have two marks:
//! - It is *changed* if the shared cache has it now and did not have it when the life left, or the other way round. So
//!   the line is lost if the shared cache lacks it, and brought if the shared cache has it. These marks end each time
//!   when the life leaves.
//! - It is *reordered* if an access of the life itself evicted it from the shared cache.

use binhop_base::{LineAddr, MappingId, PageId};
use binhop_hw::{CacheConfig, Tree};

/// `HolderId` identifies a life: its place in the list of lives, and its number. The life at a place
/// changes when the life has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HolderId {
    pub(super) place: u32,
    pub(super) number: u32,
}

/// `LineMark` is a mark of a line in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum LineMark {
    Changed,
    Reordered,
}

/// `Holding` is a name with a life whose computer may hold lines of it. The life may have ended, or lost the lines:
/// it does no harm to ask a computer that holds none of the lines.
#[derive(Debug)]
struct Holding {
    holder: HolderId,
    /// The next holding of the name plus 1; 0 for none.
    next: u32,
    /// The number of times that the life had left when a line was marked as changed.
    left: u32,
    /// A bit for each line and mark; empty if no line was ever marked.
    marks: Box<[u64]>,
}

/// `Names` are the holdings of all pages, or of all mappings.
#[derive(Debug, Default)]
struct Names {
    /// For each name its first holding plus 1; 0 for none.
    first: Vec<u32>,
    holdings: Vec<Holding>,
    free: Vec<u32>,
    /// The lines that a name has in all caches of the group.
    lines: usize,
}

/// `LineHoldings` records the lives that may hold lines, by page and by mapping.
#[derive(Debug)]
pub(super) struct LineHoldings {
    by_page: Names,
    by_mapping: Names,
    /// For each cache, true if it names lines by mapping, and the place of its first line among the lines of a name.
    caches: Box<[(bool, usize)]>,
}

/// `HoldingId` names a holding while no holding is removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldingId {
    by_mapping: bool,
    at: usize,
}

impl Names {
    /// The words of the marks of one kind in a holding.
    fn words(&self) -> usize {
        self.lines.div_ceil(64)
    }

    fn first(&self, name: u32) -> Option<usize> {
        (*self.first.get(name as usize)?).checked_sub(1).map(|at| at as usize)
    }

    fn next(&self, at: usize) -> Option<usize> {
        self.holdings[at].next.checked_sub(1).map(|at| at as usize)
    }

    fn find(&self, name: u32, place: u32) -> Option<usize> {
        let mut at = self.first(name);
        while let Some(found) = at.filter(|&at| self.holdings[at].holder.place != place) {
            at = self.next(found);
        }
        at
    }

    fn add(&mut self, name: u32, holder: HolderId) {
        if let Some(at) = self.find(name, holder.place) {
            let holding = &mut self.holdings[at];
            if holding.holder != holder {
                *holding = Holding { holder, next: holding.next, left: 0, marks: Box::default() };
            }
            return;
        }
        if self.first.len() <= name as usize {
            self.first.resize(name as usize + 1, 0);
        }
        let first = &mut self.first[name as usize];
        let holding = Holding { holder, next: *first, left: 0, marks: Box::default() };
        let at = if let Some(at) = self.free.pop() {
            self.holdings[at as usize] = holding;
            at
        } else {
            self.holdings.push(holding);
            self.holdings.len() as u32 - 1
        };
        *first = at + 1;
    }

    fn clear(&mut self, name: u32) {
        let mut at = self.first(name);
        while let Some(found) = at {
            at = self.next(found);
            self.holdings[found].marks = Box::default();
            self.free.push(found as u32);
        }
        if let Some(first) = self.first.get_mut(name as usize) {
            *first = 0;
        }
    }
}

impl LineHoldings {
    pub(super) fn new(tree: &Tree) -> Self {
        let config = tree.config();
        let (mut by_page, mut by_mapping) = (Names::default(), Names::default());
        let lines = |cache: &CacheConfig| {
            let names = if cache.keyed_by_mapping() { &mut by_mapping } else { &mut by_page };
            let first = names.lines;
            names.lines += 1 << (config.page.log2() - cache.line.log2());
            (cache.keyed_by_mapping(), first)
        };
        let caches = config.caches.iter().map(lines).collect();
        Self { by_page, by_mapping, caches }
    }

    /// Returns the bytes of a page that a life holds: in lists, which may be twice as long as they need, and for marks.
    pub(super) fn bytes_of_page(tree: &Tree) -> [u64; 2] {
        let Self { by_page, by_mapping, .. } = Self::new(tree);
        let used = [by_page, by_mapping].into_iter().filter(|names| names.lines > 0);
        used.fold([0; 2], |[lists, marks], names| {
            let list = size_of::<u32>() + size_of::<Holding>();
            [lists + list as u64, marks + (2 * names.words() * size_of::<u64>()) as u64]
        })
    }

    fn names(&self, by_mapping: bool) -> &Names {
        if by_mapping { &self.by_mapping } else { &self.by_page }
    }

    fn names_mut(&mut self, by_mapping: bool) -> &mut Names {
        if by_mapping { &mut self.by_mapping } else { &mut self.by_page }
    }

    /// Notes that a life's private cache holds a line.
    pub(super) fn add(&mut self, cache: usize, at: LineAddr, holder: HolderId) {
        self.names_mut(self.caches[cache].0).add(at.id, holder);
    }

    /// Forgets who holds lines of a page that is reached by these mappings. No computer holds a line of the page.
    pub(super) fn clear(&mut self, page: PageId, mappings: &[MappingId]) {
        self.by_page.clear(page.0);
        mappings.iter().for_each(|mapping| self.by_mapping.clear(mapping.0));
    }

    /// Returns the first holding of the page or mapping of a line in a cache. [`LineHoldings::next`] goes on from
    /// there.
    pub(super) fn first(&self, cache: usize, at: LineAddr) -> Option<HoldingId> {
        let by_mapping = self.caches[cache].0;
        self.names(by_mapping).first(at.id).map(|at| HoldingId { by_mapping, at })
    }

    pub(super) fn next(&self, holding: HoldingId) -> Option<HoldingId> {
        self.names(holding.by_mapping).next(holding.at).map(|at| HoldingId { at, ..holding })
    }

    pub(super) fn holder(&self, holding: HoldingId) -> HolderId {
        self.names(holding.by_mapping).holdings[holding.at].holder
    }

    /// Returns the holding of a life, of the page or mapping of a line in a cache.
    pub(super) fn find(&self, cache: usize, at: LineAddr, holder: HolderId) -> Option<HoldingId> {
        let by_mapping = self.caches[cache].0;
        let found = self.names(by_mapping).find(at.id, holder.place)?;
        (self.names(by_mapping).holdings[found].holder == holder)
            .then_some(HoldingId { by_mapping, at: found })
    }

    /// Returns the lives that may hold lines of a page that is reached by these mappings, each life once.
    pub(super) fn holders(&self, page: PageId, mappings: &[MappingId]) -> Vec<HolderId> {
        let mut found = Vec::new();
        let of_mappings = mappings.iter().map(|mapping| (&self.by_mapping, mapping.0));
        for (names, name) in std::iter::once((&self.by_page, page.0)).chain(of_mappings) {
            let mut at = names.first(name);
            while let Some(holding) = at {
                found.push(names.holdings[holding].holder);
                at = names.next(holding);
            }
        }
        found.sort_unstable_by_key(|holder| holder.place);
        found.dedup_by_key(|holder| holder.place);
        found
    }

    /// Returns whether a line of a holding has a mark, for a life that has left so many times.
    pub(super) fn has(&self, holding: HoldingId, mark: LineMark, cache: usize, line: u32, left: u32) -> bool {
        let names = self.names(holding.by_mapping);
        let of = &names.holdings[holding.at];
        let (word, bit) = self.place(mark, cache, line);
        (mark != LineMark::Changed || of.left == left)
            && of.marks.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Gives a mark to a line of a holding, or takes the mark away. `left` is as in [`LineHoldings::has`]. Returns
    /// whether the line had the mark.
    pub(super) fn set(
        &mut self,
        holding: HoldingId,
        mark: LineMark,
        cache: usize,
        line: u32,
        left: u32,
        to: bool,
    ) -> bool {
        let had = self.has(holding, mark, cache, line, left);
        if had == to {
            return had;
        }
        let (word, bit) = self.place(mark, cache, line);
        let names = self.names_mut(holding.by_mapping);
        let words = names.words();
        let of = &mut names.holdings[holding.at];
        if of.marks.is_empty() {
            of.marks = vec![0; 2 * words].into();
        }
        if mark == LineMark::Changed && of.left != left {
            of.marks[..words].fill(0);
            of.left = left;
        }
        of.marks[word] ^= bit;
        had
    }

    /// Takes both marks of a line of a holding away.
    #[inline]
    pub(super) fn unmark(&mut self, holding: HoldingId, cache: usize, line: u32) {
        if self.names(holding.by_mapping).holdings[holding.at].marks.is_empty() {
            return;
        }
        for mark in [LineMark::Changed, LineMark::Reordered] {
            let (word, bit) = self.place(mark, cache, line);
            // A mark from before the life last left does not count, so it may be taken away, too.
            self.names_mut(holding.by_mapping).holdings[holding.at].marks[word] &= !bit;
        }
    }

    /// Returns the word and the bit of a mark.
    fn place(&self, mark: LineMark, cache: usize, line: u32) -> (usize, u64) {
        let (by_mapping, first) = self.caches[cache];
        let place = first + line as usize;
        (mark as usize * self.names(by_mapping).words() + place / 64, 1 << (place % 64))
    }
}
