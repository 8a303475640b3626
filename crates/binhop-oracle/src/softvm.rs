//! `SoftVm` is software-managed address translation (JM97 §4): virtual caches, no TLB, and handlers that translate when
//! the last level misses. The handlers' accesses are made one after the other in a slow cache tree.
//!
//! # Counting rules
//! - Instructions and data have caches of their own at both levels. A program's line is named by a mapping: its own, or
//!   the one that names its global address.
//! - An access of the program raises CACHEMISS if none of the caches on its way holds its line. Nothing in the caches
//!   has changed by then. The handler of misses runs. The access is made afterwards, and counts as every other access
//!   does.
//! - A run of a handler fetches each line of the handler's code once, in order, and takes a cycle for each instruction.
//!   Then it loads the user entry of the page.
//! - If no cache on the way holds the line of the user entry before that load, the load raises CACHEMISS itself: a
//!   *nested run* fetches the same code again and loads the root entry. The nested run of a write-back loads the entry
//!   of the segment map first. Root entries, the segment map and code have physical addresses, so loading them raises
//!   nothing.
//! - A line that the last level writes to memory because it evicts the line, or reads from memory because a shorter
//!   line is written back into it, waits in a queue. A read of the line that the access itself asks for does not: a
//!   handler has just translated it. When the access of the program is done, the handler of write-backs runs once for
//!   each waiting line, the first come first. The accesses of a handler may add lines to the queue.
//! - A line that leaves because its frame changes hands is not translated.
//! - Lines keep the protection of their page: see [`Protection`].
//! - While a superpage is mapped as a whole and its run of frames is whole, the user entry of its first page serves all
//!   of its pages.
//! - A page has the entries that it had when it was referenced last. A mapping whose page was unmapped, or was copied
//!   on write, keeps the place of its entries while its lines are in the caches. The copy is another mapping of the
//!   same virtual page, and its entries lie at the same place.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use binhop_base::{Agent, Asid, FrameNo, Kind, MappingId, PageId, PageNo, Translation};

use crate::cache::Name;
use crate::cache_tree::CacheTree;
use crate::disjunct::{DisjunctTable, Place, physical};
use crate::protection::{ProtectedAccess, Protection, hold};
use crate::segments::Segment;

const PAGE: u64 = 4096;
/// The bytes of a user entry.
const ENTRY: u64 = 4;
/// The bytes of an instruction.
const INSTRUCTION: u64 = 4;
/// The number of the mapping of the first page that only handlers access. When pages are flushed, the tree asks the
/// program's [`Translation`] for the pages of these mappings, too: it must answer with pages that the program does not
/// have.
const OF_HANDLERS: u32 = 1 << 30;

/// `SoftVmDesign` describes the handlers, and where they and the table lie.
#[derive(Clone, Copy, Debug)]
pub struct SoftVmDesign {
    /// The instructions of each handler.
    pub handler: u64,
    /// True if a translation is kept with each line. Then write-backs need no handler.
    pub kept: bool,
    /// The number of segments for which the table has room.
    pub segments: u64,
    /// The regions that an address space may use.
    pub regions: u64,
    /// The physical address of the page with the handlers' code.
    pub code: u64,
    /// The physical address of the segment map, which the root tables follow.
    pub map: u64,
    /// The pages in a superpage.
    pub pages_of_superpage: u64,
    /// The cycles of an access to memory, which are added to those of the caches passed.
    pub memory_cost: u64,
}

/// `Reference` is an access of the program.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// The kind of the access.
    pub kind: Kind,
    /// The address space.
    pub asid: Asid,
    /// The virtual page.
    pub page_no: PageNo,
    /// The segment of the page's region.
    pub segment: Segment,
    /// The mapping by which the caches know the page.
    pub mapping: u32,
    /// The byte within the page.
    pub offset: u64,
    /// The run of frames of the superpage that the space maps as a whole around the page, if there is one.
    pub run: Option<u32>,
}

impl Reference {
    fn protected(&self) -> ProtectedAccess {
        let &Self { kind, asid, page_no: PageNo(page_no), mapping, offset, .. } = self;
        ProtectedAccess { kind, asid, page_no, mapping, offset }
    }
}

/// `Run` is a cause of a handler's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Miss(Kind),
    WriteBack,
}

/// `HandlerWorld` answers the caches for pages of the program and of the handlers.
struct HandlerWorld<'a> {
    program: &'a dyn Translation,
    /// The 52-bit virtual pages of the handlers' mappings.
    pages: &'a [u64],
}

impl Translation for HandlerWorld<'_> {
    fn page(&self, mapping: MappingId) -> PageId {
        if mapping.0 >= OF_HANDLERS { PageId(mapping.0) } else { self.program.page(mapping) }
    }
    fn frame(&self, page: PageId) -> FrameNo {
        self.program.frame(page)
    }
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        match mapping.0.checked_sub(OF_HANDLERS) {
            Some(number) => PageNo(self.pages[number as usize]),
            None => self.program.virtual_page(mapping),
        }
    }
}

/// `SoftVm` holds the page table, the lines that wait for a handler, and the counts.
#[derive(Clone, Debug)]
pub struct SoftVm {
    design: SoftVmDesign,
    /// The level-1 caches of instructions and of data.
    serving: [usize; 2],
    /// The page table.
    pub table: DisjunctTable,
    /// The rights that pages give.
    pub protection: Protection,
    /// The place of the entries of each mapping's page.
    places: BTreeMap<u32, (Place, Option<u32>)>,
    /// The runs of superpages that are whole.
    pub whole: BTreeSet<u32>,
    /// The virtual pages that handlers have accessed. Each is a mapping.
    pages: Vec<u64>,
    /// The mappings of the lines that wait for the handler of write-backs.
    waiting: VecDeque<u32>,
    /// The access that is being made.
    access: Option<Reference>,
    /// Every count that adds up, by its metric's name.
    pub counts: BTreeMap<String, u64>,
    /// The maximum number of lines that waited at one time.
    pub most_waiting: usize,
}

impl SoftVm {
    /// Makes the model above the caches that serve instructions and data.
    #[must_use]
    pub fn new(design: SoftVmDesign, serving: [usize; 2]) -> Self {
        Self {
            design,
            serving,
            table: DisjunctTable::new(design.segments, design.regions, design.map),
            protection: Protection::new(serving),
            places: BTreeMap::new(),
            whole: BTreeSet::new(),
            pages: Vec::new(),
            waiting: VecDeque::new(),
            access: None,
            counts: BTreeMap::new(),
            most_waiting: 0,
        }
    }

    fn serving(&self, kind: Kind) -> usize {
        self.serving[usize::from(kind != Kind::Fetch)]
    }

    fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(format!("translation.{name}")).or_default() += count;
    }

    /// Maps the page of an access that comes next, and runs the handler of misses if the access raises CACHEMISS.
    pub fn before(&mut self, next: &Reference, tree: &mut CacheTree, program: &dyn Translation) {
        let page = program.page(MappingId(next.mapping));
        let place = self.table.map(next.asid, next.page_no, page, next.segment);
        self.protection.before(&next.protected());
        self.forget_older(tree, program);
        self.access = Some(*next);
        self.places.insert(next.mapping, (place, next.run));
        let first = self.serving(next.kind);
        tree.written_back.clear();
        if !hold(tree, first, next.mapping, next.offset, program) {
            self.add(&format!("{}.cache-misses", next.kind.name()), 1);
            self.run_handler(Run::Miss(next.kind), next.mapping, tree, program);
        }
    }

    /// Takes a `protect` event for the pages from a first page to a last page.
    pub fn protect(
        &mut self,
        asid: Asid,
        pages: [u64; 2],
        flags: u32,
        tree: &mut CacheTree,
        program: &dyn Translation,
    ) {
        self.protection.protect(asid, pages, flags, tree, program);
    }

    /// Returns every count that adds up, by its metric's name.
    #[must_use]
    pub fn all_counts(&self) -> BTreeMap<String, u64> {
        self.counts
            .iter()
            .chain(&self.protection.counts)
            .map(|(name, &count)| (name.clone(), count))
            .collect()
    }

    /// Forgets the older protection of lines that no cache of their side holds.
    fn forget_older(&mut self, tree: &CacheTree, program: &dyn Translation) {
        let world = HandlerWorld { program, pages: &self.pages };
        self.protection.forget_older(tree, &world);
    }

    /// Runs the handler of write-backs for the lines that the access, and the handler before it, sent to memory.
    ///
    /// # Panics
    /// The queue does not end.
    pub fn after(&mut self, tree: &mut CacheTree, program: &dyn Translation) {
        if let Some(access) = self.access.take() {
            self.queue(tree, access.kind, (access.mapping, access.offset));
            self.forget_older(tree, program);
            self.protection.update_line(&access.protected(), tree);
        }
        // A dirty line of level 1 may fill a line of level 2 and then leave level 2; a dirty line of level 2 may leave
        // it.
        let level_1 = dirty_lines(tree, self.serving[1]);
        let behind = tree.caches[self.serving[1]].config.next.map_or(0, |next| dirty_lines(tree, next));
        let most = self.waiting.len() + 2 * level_1 + behind;
        for runs in 1.. {
            let Some(mapping) = self.waiting.pop_front() else { break };
            assert!(runs <= most, "each write-back leaves one dirty line less");
            self.add("write-backs", 1);
            self.run_handler(Run::WriteBack, mapping, tree, program);
        }
    }

    /// Takes note of the lines that went to memory, or came from it, because of a write-back. `own` is the byte that
    /// the access asked for.
    fn queue(&mut self, tree: &mut CacheTree, kind: Kind, own: (u32, u64)) {
        let last = tree.caches[self.serving(kind)].config.next.expect("there are two levels");
        let line = tree.caches[last].config.line;
        for (name, offset, kind) in std::mem::take(&mut tree.written_back) {
            let Name::Mapping(mapping) = name else { panic!("every line is named by its mapping") };
            let is_own = mapping == own.0 && offset / line == own.1 / line;
            let translated = kind == Kind::Fill && is_own;
            if !(self.design.kept || translated) {
                self.waiting.push_back(mapping);
                self.most_waiting = self.most_waiting.max(self.waiting.len());
            }
        }
    }

    /// Returns the place of the entries that a handler loads for a mapping.
    fn place_of(&self, mapping: u32) -> Place {
        let (place, run) = self.places[&mapping];
        let bytes = self.design.pages_of_superpage * ENTRY;
        match run {
            // Tables begin at multiples of a superpage's entries.
            Some(run) if self.whole.contains(&run) => {
                Place { user_entry: place.user_entry / bytes * bytes, ..place }
            }
            _ => place,
        }
    }

    fn run_handler(&mut self, run: Run, mapping: u32, tree: &mut CacheTree, program: &dyn Translation) {
        let place = self.place_of(mapping);
        let cause = match run {
            Run::Miss(Kind::Fetch) => "fetch-miss",
            Run::Miss(_) => "data-miss",
            Run::WriteBack => "write-back",
        };
        self.instructions(run, cause, tree, program);
        let (mapping, offset) = self.name(place.user_entry);
        let world = HandlerWorld { program, pages: &self.pages };
        if !hold(tree, self.serving[1], mapping, offset, &world) {
            self.add("entries.user-misses", 1);
            // A load of the handler misses, which is a miss of data.
            let cause = if run == Run::WriteBack { "write-back" } else { "data-miss" };
            self.instructions(run, cause, tree, program);
            if run == Run::WriteBack {
                self.access(Kind::Load, place.map_entry, ["write-back"; 2], tree, program);
            }
            self.load(run, place.root_entry, "root-entry", tree, program);
        }
        self.load(run, place.user_entry, "user-entry", tree, program);
    }

    /// Executes a handler's instructions, whose own cycles belong to a cause.
    fn instructions(&mut self, run: Run, cause: &str, tree: &mut CacheTree, program: &dyn Translation) {
        tree.now += self.design.handler;
        self.add(&format!("cycles.{cause}"), self.design.handler);
        let bytes = self.design.handler * INSTRUCTION;
        let start = if run == Run::WriteBack { bytes.next_multiple_of(128) } else { 0 };
        let line = tree.caches[self.serving[0]].config.line;
        let causes = match run {
            Run::Miss(_) => ["handler-code", "handler-code-memory"],
            Run::WriteBack => ["write-back"; 2],
        };
        for number in start / line..(start + bytes).div_ceil(line) {
            let address = physical(self.design.code + number * line);
            self.access(Kind::Fetch, address, causes, tree, program);
        }
    }

    fn load(
        &mut self,
        run: Run,
        address: u64,
        memory: &str,
        tree: &mut CacheTree,
        program: &dyn Translation,
    ) {
        let causes = if run == Run::WriteBack { ["write-back"; 2] } else { ["handler-data", memory] };
        self.access(Kind::Load, address, causes, tree, program);
    }

    /// Makes an access of a handler. The cycles of caches belong to the first cause, those of memory to the second.
    fn access(
        &mut self,
        kind: Kind,
        address: u64,
        causes: [&str; 2],
        tree: &mut CacheTree,
        program: &dyn Translation,
    ) {
        let (mapping, offset) = self.name(address);
        let cache = self.serving(kind);
        let world = HandlerWorld { program, pages: &self.pages };
        tree.agent = Agent::Handler;
        let (cycles, served) = tree.ask(cache, kind, Name::Mapping(mapping), offset, false, &world);
        tree.agent = Agent::User;
        let of_memory = if served.is_none() { self.design.memory_cost } else { 0 };
        self.add(&format!("cycles.{}", causes[0]), cycles - of_memory);
        self.add(&format!("cycles.{}", causes[1]), of_memory);
        self.queue(tree, kind, (mapping, offset));
        self.forget_older(tree, program);
    }

    /// Returns the mapping of a 52-bit address, and the byte within the page.
    fn name(&mut self, address: u64) -> (u32, u64) {
        let page = address / PAGE;
        let number = self.pages.iter().position(|&known| known == page).unwrap_or_else(|| {
            self.pages.push(page);
            self.pages.len() - 1
        });
        (OF_HANDLERS + number as u32, address % PAGE)
    }
}

fn dirty_lines(tree: &CacheTree, cache: usize) -> usize {
    tree.caches[cache].sets.iter().flatten().flatten().filter(|line| line.dirty).count()
}

#[cfg(test)]
mod tests;
