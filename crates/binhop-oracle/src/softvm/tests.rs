//! These tests follow softvm by hand. Caches are direct-mapped. Level 2 costs 20 cycles and memory 90. The handlers
//! have 10 instructions, which fill 3 lines. The code for misses lies in sets 0 to 2, and the code for write-backs
//! in sets 8 to 10.

use super::*;
use crate::cache::Config;
use binhop_base::Rng;

/// The segment map. Root tables follow at 0x102000.
const MAP: u64 = 0x10_1000;

/// `Program` holds the virtual page of each mapping. Each mapping leads to a page of its own.
struct Program(Vec<u64>);

impl Translation for Program {
    fn page(&self, mapping: MappingId) -> PageId {
        PageId(mapping.0)
    }
    fn frame(&self, _: PageId) -> FrameNo {
        unreachable!("no cache is physical")
    }
    fn virtual_page(&self, mapping: MappingId) -> PageNo {
        PageNo(self.0[mapping.index()])
    }
}

struct Bench {
    program: Program,
    softvm: SoftVm,
    tree: CacheTree,
}

impl Bench {
    /// Makes caches of 16 lines of 16 bytes, and behind each a cache of 1 KiB with lines of `line` bytes.
    fn new(line: u64, kept: bool) -> Self {
        let cache = |sets, line, cost, next| Config {
            sets,
            ways: 1,
            line,
            index: "virtual",
            hashed: false,
            tag: "asid",
            write: "back",
            allocate: true,
            replacement: "lru",
            writeback_order: "after-fill",
            inclusive: false,
            write_buffer: None,
            streams: None,
            cost,
            next,
        };
        let caches = vec![
            cache(16, 16, 1, Some(2)),
            cache(16, 16, 1, Some(3)),
            cache(1024 / line, line, 20, None),
            cache(1024 / line, line, 20, None),
        ];
        let design = SoftVmDesign {
            handler: 10,
            kept,
            segments: 256,
            regions: 8,
            code: 0x10_0000,
            map: MAP,
            pages_of_superpage: 1,
            memory_cost: 90,
        };
        Self {
            program: Program(Vec::new()),
            softvm: SoftVm::new(design, [0, 1]),
            tree: CacheTree::new(caches, PAGE, 90, true, Rng::new(0)),
        }
    }

    /// Accesses an address. The first access of a page makes its mapping. Returns the cycles of the access, with
    /// all handlers.
    fn access(&mut self, kind: Kind, address: u64) -> u64 {
        let page = address / PAGE;
        let known = self.program.0.iter().rposition(|&known| known == page);
        let mapping = known.unwrap_or_else(|| self.map(page)) as u32;
        let (page_no, offset) = (PageNo(page), address % PAGE);
        let before = self.tree.now;
        let next = Reference {
            kind,
            asid: Asid(0),
            page_no,
            segment: Segment::Own(Asid(0), page_no.0 >> 16),
            mapping,
            offset,
            run: None,
        };
        self.softvm.before(&next, &mut self.tree, &self.program);
        self.tree.access(self.softvm.serving(kind), kind, mapping, offset, &self.program);
        self.softvm.after(&mut self.tree, &self.program);
        self.tree.now - before
    }

    /// Makes a mapping of a page, and returns its number.
    fn map(&mut self, page: u64) -> usize {
        self.program.0.push(page);
        self.program.0.len() - 1
    }

    fn load(&mut self, address: u64) -> u64 {
        self.access(Kind::Load, address)
    }

    fn store(&mut self, address: u64) -> u64 {
        self.access(Kind::Store, address)
    }

    fn count(&self, name: &str) -> u64 {
        self.softvm.counts.get(&format!("translation.{name}")).copied().unwrap_or(0)
    }

    /// Returns the address of the line that a cache holds in a set, with its dirty bit. Lines of handlers have
    /// addresses of 52 bits.
    fn line(&self, cache: usize, set: usize) -> Option<(u64, bool)> {
        let line = self.tree.caches[cache].sets[set][0]?;
        let Name::Mapping(mapping) = line.name else { unreachable!("lines are named by mappings") };
        let world = HandlerWorld { program: &self.program, pages: &self.softvm.pages };
        Some((world.virtual_page(MappingId(mapping)).0 * PAGE + line.offset, line.dirty))
    }
}

/// The handler's code, the user entry and the root entry come from memory once, at the first miss.
#[test]
fn the_first_miss_is_nested_and_the_next_finds_its_entry() {
    let mut bench = Bench::new(16, false);
    // 3 lines of code, the root entry and the user entry miss both levels; so does the access.
    assert_eq!(bench.load(0x1040), 10 + 3 * 110 + 10 + 110 + 110 + 110);
    assert_eq!((bench.count("load.cache-misses"), bench.count("entries.user-misses")), (1, 1));
    let cycles = |bench: &Bench| {
        ["data-miss", "fetch-miss", "handler-data", "root-entry", "user-entry", "handler-code"]
            .map(|cause| bench.count(&format!("cycles.{cause}")))
    };
    assert_eq!(cycles(&bench), [20, 0, 40, 90, 90, 60]);
    assert_eq!(bench.count("cycles.handler-code-memory"), 270);
    // Root entry and user entry share set 0. The user entry came last.
    assert_eq!(bench.line(1, 0), Some((0xf_fc00_0000_0000, false)));
    assert_eq!(bench.line(0, 2), Some((0xf_f800_0010_0020, false)));
    assert_eq!(bench.line(3, 4), Some((0x1040, false)));
    // Another line of the page: the handler's instructions, and the access.
    assert_eq!(bench.load(0x1050), 10 + 110);
    // The last access hits. The line after it is in level 2 alone and raises nothing.
    assert_eq!(bench.load(0x1058), 0);
    bench.load(0x1150);
    assert_eq!(bench.load(0x1050), 20);
    assert_eq!(bench.count("load.cache-misses"), 3);
    assert_eq!(cycles(&bench), [40, 0, 40, 90, 90, 60]);
    assert_eq!(bench.count("write-backs"), 0);
}

#[test]
fn the_handlers_instructions_at_a_miss_of_instructions_are_apart() {
    let mut bench = Bench::new(16, false);
    bench.load(0x1040);
    // The entry of page 1 also maps page 2. The line is fetched into set 4.
    assert_eq!(bench.access(Kind::Fetch, 0x2040), 10 + 110);
    // A handler that lost a line of code to the program fetches the line again.
    assert_eq!(bench.access(Kind::Fetch, 0x2100), 10 + 110);
    assert_eq!(bench.access(Kind::Fetch, 0x2200), 10 + 20 + 110);
    // The entry of page 8 lies in another line: the nested run is one of data.
    assert_eq!(bench.access(Kind::Fetch, 0x8050), 10 + 20 + 10 + 110 + 110 + 110);
    assert_eq!(bench.count("fetch.cache-misses"), 4);
    assert_eq!(bench.count("cycles.fetch-miss"), 40);
    assert_eq!(bench.count("cycles.data-miss"), 20 + 10);
    assert_eq!(bench.count("cycles.handler-code"), 60 + 40);
    assert_eq!(bench.count("cycles.handler-code-memory"), 270);
}

#[test]
fn a_copy_on_write_has_the_entries_of_its_original() {
    let mut bench = Bench::new(16, false);
    bench.store(0x1040);
    bench.map(1);
    // The copy's line is another line in the same sets. The original's line is written back to level 2.
    assert_eq!(bench.store(0x1040), 10 + 110);
    assert_eq!(bench.count("entries.user-misses"), 1);
    assert_eq!((bench.line(1, 4), bench.line(3, 4)), (Some((0x1040, true)), Some((0x1040, true))));
    // The original's line leaves level 2, and is translated.
    assert_eq!(bench.load(0x1440), 10 + 110 + 10 + 330);
    assert_eq!(bench.count("write-backs"), 1);
}

#[test]
fn a_dirty_line_that_leaves_level_2_is_translated_behind_the_access() {
    for kept in [false, true] {
        let mut bench = Bench::new(16, kept);
        bench.store(0x1040);
        // The line leaves level 2 clean and level 1 dirty. So it takes the place of the new line in level 2.
        assert_eq!(bench.load(0x1440), 10 + 110);
        assert_eq!((bench.line(1, 4), bench.line(3, 4)), (Some((0x1440, false)), Some((0x1040, true))));
        // The handler of write-backs comes from memory. The entry is in level 1.
        let write_back = if kept { 0 } else { 10 + 330 };
        assert_eq!(bench.load(0x1840), 10 + 110 + write_back);
        assert_eq!(bench.line(3, 4), Some((0x1840, false)));
        assert_eq!(bench.count("write-backs"), u64::from(!kept));
        assert_eq!(bench.softvm.most_waiting, usize::from(!kept));
        assert_eq!(bench.count("cycles.write-back"), write_back);
        assert_eq!(bench.line(0, 8).is_some(), !kept);
        assert_eq!(bench.count("entries.user-misses"), 1);
    }
}

/// The entry of page 4 shares set 1 with a line of page 8.
#[test]
fn a_write_back_that_causes_a_write_back_ends() {
    let mut bench = Bench::new(16, false);
    bench.store(0x4040);
    bench.load(0x8440);
    assert_eq!(bench.line(3, 4), Some((0x4040, true)));
    bench.store(0x8010);
    bench.load(0x8410);
    assert_eq!(bench.line(3, 1), Some((0x8010, true)));
    assert_eq!((bench.count("entries.user-misses"), bench.count("write-backs")), (2, 0));
    // Line 0x4040 leaves. Its handler lacks the user entry, and loads the entries of the map, the root and the user.
    // The user entry replaces line 0x8010, whose handler finds everything in level 1.
    let first = 10 + 330 + 10 + 110 + 110 + 110;
    assert_eq!(bench.load(0x8840), 10 + 110 + first + 10);
    assert_eq!((bench.count("entries.user-misses"), bench.count("write-backs")), (3, 2));
    assert_eq!(bench.count("cycles.write-back"), first + 10);
    assert_eq!(bench.softvm.most_waiting, 1);
    assert_eq!(bench.line(3, 1), Some((0xf_fc00_0000_0010, false)));
    assert_eq!(bench.line(3, 0), Some((0xf_f800_0010_2000, false)));
}

#[test]
fn a_line_that_is_read_for_a_write_back_is_translated() {
    let mut bench = Bench::new(64, false);
    bench.store(0x1040);
    // Other lines of level 1, in the set of level 2: the dirty line stays in level 1 alone.
    bench.load(0x1450);
    assert_eq!((bench.line(1, 4), bench.line(3, 1)), (Some((0x1040, true)), Some((0x1440, false))));
    // The dirty line leaves level 1. Level 2 reads the rest of the line, and loses the line of the access. The code of
    // write-backs is one line of level 2.
    assert_eq!(bench.load(0x1840), 10 + 110 + 10 + 110 + 2 * 20);
    assert_eq!((bench.line(1, 4), bench.line(3, 1)), (Some((0x1840, false)), Some((0x1040, true))));
    assert_eq!(bench.tree.memory[Kind::Fill], 1);
    assert_eq!((bench.count("write-backs"), bench.tree.memory[Kind::Writeback]), (1, 0));
    // The line leaves level 2, and is translated once more.
    assert_eq!(bench.load(0x1c50), 10 + 110 + 10);
    assert_eq!((bench.count("write-backs"), bench.tree.memory[Kind::Writeback]), (2, 1));
    assert_eq!(bench.count("cycles.write-back"), 10 + 110 + 2 * 20 + 10);
}
