//! The features of JM97 §2 and §4.3 on the machine softvm: protection between address spaces, memory shared by global
//! address and by alias, large and sparse address spaces, protection of pages, and pages of a size that software
//! chooses.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::common::Fixed;
use crate::whole_engine::counts;
use binhop_base::Problem;
use binhop_hw::{SchemeKind, TapEvent};
use binhop_sim::device_data::{FrontEvent, compare_schemes};
use binhop_sim::io_path::RUNNING_SPACE;
use binhop_sim::{Machine, Outcome, RunOptions, front_stream, simulate};
use binhop_trace::Op;
use binhop_trace::event::EventBuilder;

pub const REGION: u64 = 1 << 28;
pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const EXEC: u32 = 4;
pub const SHARED: u32 = 8;

/// `Trace` is a trace that is written event by event.
#[derive(Default)]
pub struct Trace {
    events: EventBuilder,
    /// The bytes of a page in events; `None`: 4 KiB.
    page: Option<u64>,
}

impl Trace {
    pub fn switch(mut self, asid: u64) -> Self {
        self.events.push(Op::Switch, asid, 1, 0);
        self
    }

    /// Maps pages of a segment.
    pub fn map(mut self, addr: u64, pages: u32, flags: u32, segment: u64, first: u64) -> Self {
        self.events.push_args(Op::Map, addr, flags, pages, [Some(segment), Some(first)]);
        self
    }

    pub fn unmap(mut self, addr: u64, pages: u32) -> Self {
        self.events.push(Op::Unmap, addr, 0, pages);
        self
    }

    /// Changes the protection of pages.
    pub fn protect(mut self, addr: u64, pages: u32, flags: u32) -> Self {
        self.events.push(Op::Protect, addr, flags, pages);
        self
    }

    pub fn fork(mut self, child: u64, parent: u64) -> Self {
        self.events.push_args(Op::Fork, child, 0, 0, [Some(parent), None]);
        self
    }

    pub fn fetch(mut self, addr: u64) -> Self {
        self.events.push(Op::Fetch, addr, 4, 1);
        self
    }

    pub fn load(mut self, addr: u64) -> Self {
        self.events.push(Op::Load, addr, 4, 1);
        self
    }

    pub fn store(mut self, addr: u64) -> Self {
        self.events.push(Op::Store, addr, 4, 1);
        self
    }

    /// A device reads or writes bytes of the address space that runs.
    pub fn device(mut self, op: Op, addr: u64, bytes: u32) -> Self {
        self.events.push_args(op, addr, bytes, 7, [None, Some(RUNNING_SPACE)]);
        self
    }

    pub fn outcome(self, settings: &[&str]) -> Result<Outcome, Box<Problem>> {
        self.outcome_on("softvm", &[settings, &["translation=on"]].concat())
    }

    pub fn outcome_on(mut self, machine: &str, settings: &[&str]) -> Result<Outcome, Box<Problem>> {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let machine = Machine::load(machine, &settings)?;
        let options = RunOptions { seeds: vec![0], ..RunOptions::default() };
        let source = Fixed::new(self.events.finish(), 100).with_pages_of(self.page.unwrap_or(4096));
        simulate(&machine, Box::new(source), &options, None, &mut |_| Ok(()))
    }

    /// Runs the trace on softvm, and returns its counts and notes.
    pub fn run(self, settings: &[&str]) -> (BTreeMap<String, f64>, Vec<String>) {
        let outcome = self.outcome(settings).unwrap();
        (counts(&outcome, 0, 1), outcome.notes)
    }

    /// Runs the trace on a machine, and returns its counts and notes.
    pub fn run_on(
        self,
        (machine, translation): (&str, &str),
        settings: &[&str],
    ) -> (BTreeMap<String, f64>, Vec<String>) {
        let outcome = self.outcome_on(machine, &[settings, &[translation]].concat()).unwrap();
        (counts(&outcome, 0, 1), outcome.notes)
    }
}

pub fn of(counts: &BTreeMap<String, f64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or(0.0) as u64
}

/// Two spaces use the same addresses. No space finds the other's lines: each has segments of its own.
#[test]
fn address_spaces_are_protected_from_each_other() {
    // The line meets no entry of the table in any set.
    let page = 5 * REGION + 0x7740;
    let trace = Trace::default().switch(1).store(page).switch(2).load(page).switch(1).load(page);
    let (counts, _) = trace.run(&[]);
    let of = |name: &str| of(&counts, name);
    // The line of space 2 drives that of space 1 out of level 1, to level 2.
    assert_eq!((of("l1d.store.misses"), of("l1d.load.misses")), (1, 2));
    assert_eq!([of("translation.store.cache-misses"), of("translation.load.cache-misses")], [1, 1]);
    assert_eq!([of("translation.aliases"), of("translation.synonyms")], [0, 0]);
    // Each space has a root entry and a page of the global table of its own; the roots share a page.
    assert_eq!((of("translation.entries.user-misses"), of("translation.tables")), (2, 4 << 12));
}

/// A segment of 8 pages at two addresses: one page has two virtual addresses, and a line for each.
fn aliased(second: u64) -> Trace {
    let map = |trace: Trace, addr| trace.map(addr, 8, READ | WRITE | SHARED, 7, 0);
    map(map(Trace::default().switch(1), 3 * REGION), second)
}

/// The machines with virtual caches: without a TLB, with a TLB, and without translation.
pub const VIRTUAL: [(&str, &str); 3] =
    [("softvm", "translation=on"), ("jm97", "translation=on"), ("jm97", "translation=off")];

/// Memory is shared at two virtual addresses: a store through one leaves an old copy behind the other (§3.1).
#[test]
fn an_alias_shows_the_synonym_problem_and_is_detected() {
    let second = 4 * REGION + (3 << 12);
    for machine in VIRTUAL {
        let trace = aliased(second).load(second + 64).store(3 * REGION + 64).load(second + 64);
        let (counts, notes) = trace.run_on(machine, &[]);
        let of = |name: &str| of(&counts, name);
        assert_eq!([of("translation.aliases"), of("translation.aliases.writable")], [1, 1], "{machine:?}");
        assert_eq!(of("translation.synonyms"), 1);
        let note = notes.iter().find(|note| note.contains("two different copies")).unwrap();
        assert!(note.contains("a store of 0x30000040 in asid 1"), "{note}");
        assert!(note.contains("0x40003040 in asid 1"), "{note}");
        // A load that reads an old copy from memory brings a synonym about, too.
        let trace = aliased(second).store(3 * REGION + 64).load(second + 64);
        let (counts, notes) = trace.run_on(machine, &[]);
        assert_eq!(crate::features_of_jm97::of(&counts, "translation.synonyms"), 1);
        assert!(notes.iter().any(|note| note.contains("a load of 0x40003040")), "{notes:?}");
    }
}

/// An alias that is only read is counted, and does no harm.
#[test]
fn an_alias_that_is_only_read_is_no_synonym() {
    for machine in VIRTUAL {
        let read = |trace: Trace, addr| trace.map(addr, 8, READ | SHARED, 7, 0).load(addr);
        let trace = read(read(Trace::default().switch(1), 3 * REGION), 4 * REGION + (3 << 12));
        let (counts, _) = trace.run_on(machine, &[]);
        let of = |name: &str| of(&counts, name);
        assert_eq!(
            [of("translation.aliases"), of("translation.aliases.writable"), of("translation.synonyms")],
            [1, 0, 0]
        );
        assert_eq!(of("l2d.load.misses"), 2);
    }
}

/// LOAD&MAP takes the physical address of the data, and caches find lines by virtual tags. So data that are cached
/// under another tag come from memory, and both lines stay (§4.1).
#[test]
fn load_and_map_does_not_find_a_line_under_another_tag() {
    let (here, there) = (3 * REGION + 64, 4 * REGION + (3 << 12) + 64);
    let both = |trace: Trace| trace.load(there).load(here).load(there);
    let alias = || aliased(4 * REGION + (3 << 12));
    for (trace, [loads, stores, synonyms]) in
        [(both(alias().load(here)), [2, 0, 0]), (both(alias().store(here)), [1, 1, 1])]
    {
        let (counts, _) = trace.run(&[]);
        let of = |name: &str| of(&counts, name);
        assert_eq!([of("memory.load.accesses"), of("memory.store.accesses")], [loads, stores]);
        let misses = [of("translation.load.cache-misses"), of("translation.store.cache-misses")];
        assert_eq!(misses, [loads, stores]);
        // The dirty line is not written back before memory is read: the data of the load are old.
        assert_eq!((of("translation.write-backs"), of("translation.synonyms")), (0, synonyms));
    }
}

/// Physical tags name memory by its frame: there is one copy, and no alias.
#[test]
fn physical_tags_know_no_synonyms() {
    let second = 4 * REGION + (3 << 12);
    let make = |key: &str, caches: &[&str]| -> Vec<String> {
        caches.iter().map(|cache| format!("cache.{cache}.{key}=physical")).collect()
    };
    let physical = [make("tag", &["l1i", "l1d", "l2i", "l2d"]), make("index", &["l2i", "l2d"])].concat();
    let physical: Vec<&str> = physical.iter().map(String::as_str).collect();
    let trace = aliased(second).load(second + 64).store(3 * REGION + 64).load(second + 64);
    let (counts, notes) = trace.run_on(("jm97", "translation=off"), &physical);
    assert_eq!([of(&counts, "translation.aliases"), of(&counts, "translation.synonyms")], [0, 0]);
    assert!(!notes.iter().any(|note| note.contains("two different copies")), "{notes:?}");
}

/// Where physical = virtual, two spaces that use one address do not share memory: equal addresses are no aliases.
#[test]
fn machines_without_frames_know_no_synonyms() {
    let trace = Trace::default().switch(1).store(3 * REGION).switch(2).load(3 * REGION).store(3 * REGION);
    let by_asid = ["l1i", "l1d", "l2i", "l2d"].map(|cache| format!("cache.{cache}.tag=asid"));
    let by_asid: Vec<&str> =
        by_asid.iter().map(String::as_str).chain(["placement.policy=identity"]).collect();
    let (counts, notes) = trace.run_on(("jm97", "translation=off"), &by_asid);
    assert!(!counts.keys().any(|name| name.starts_with("translation.")), "{counts:?}");
    assert!(!notes.iter().any(|note| note.contains("two different copies")), "{notes:?}");
}

/// Where caches write through, no line is dirty: each store that leaves an old copy is counted.
#[test]
fn a_store_that_is_written_through_leaves_an_old_copy() {
    let second = 4 * REGION + (3 << 12);
    let through = ["cache.l1d.write=through", "cache.l2d.write=through"];
    let trace =
        aliased(second).store(3 * REGION).load(second).store(3 * REGION).store(3 * REGION).load(second);
    let (counts, notes) = trace.run_on(("jm97", "translation=off"), &through);
    assert_eq!(of(&counts, "translation.synonyms"), 2);
    assert!(notes.iter().any(|note| note.contains("a store of 0x30000000")), "{notes:?}");
}

/// Aliases that are aligned to the size of the cache meet in one set (§3.1, footnote 1). A direct-mapped cache holds
/// one of them, if a dirty victim is written back before its successor is read. A set-associative cache holds both.
#[test]
fn aligned_aliases_are_safe_in_direct_mapped_caches_alone() {
    for machine in VIRTUAL {
        aligned_aliases_on(machine);
    }
}

fn aligned_aliases_on(machine: (&str, &str)) {
    let by_asid = ["l1i", "l1d", "l2i", "l2d"].map(|cache| format!("cache.{cache}.tag=asid"));
    let orders = ["cache.l1d.writeback-order=before-fill", "cache.l2d.writeback-order=before-fill"];
    let before: Vec<&str> = by_asid.iter().map(String::as_str).chain(orders).collect();
    let accesses = |trace: Trace| {
        let (here, there) = (3 * REGION + 64, 4 * REGION + 64);
        trace.store(here).load(there).store(there).load(here).store(here).store(there).load(here)
    };
    let synonyms = |settings: &[&str]| {
        let (counts, _) = accesses(aliased(4 * REGION)).run_on(machine, &[&before[..], settings].concat());
        of(&counts, "translation.synonyms")
    };
    assert_eq!(synonyms(&[]), 0);
    assert!(synonyms(&["cache.l1d.ways=2"]) > 0);
    assert!(synonyms(&["cache.l2d.ways=2"]) > 0);
    // Aliases that are not aligned are not safe there either.
    let trace = aliased(4 * REGION + (1 << 12)).store(3 * REGION).load(4 * REGION + (1 << 12));
    assert!(of(&trace.run_on(machine, &before).0, "translation.synonyms") > 0);
}

/// Two spaces map one segment alone in a region, at different addresses.
fn shared_region() -> Trace {
    let map = |trace: Trace, addr| trace.map(addr, 8, READ | WRITE | SHARED, 7, 0);
    map(map(Trace::default().switch(1), 3 * REGION).switch(2), 6 * REGION)
}

/// A region that two spaces share as a whole has one segment id: one global address, one line, and no synonym.
#[test]
fn memory_is_shared_by_global_address() {
    let (here, there) = (3 * REGION + 64, 6 * REGION + 64);
    let accesses = |trace: Trace| trace.switch(1).store(here).switch(2).load(there).switch(1).load(here);
    let (counts, _) = accesses(shared_region()).run(&[]);
    let of = |name: &str| of(&counts, name);
    // The load of the second space hits in the line that the first has made dirty.
    assert_eq!((of("l1d.store.misses"), of("l1d.load.misses")), (1, 0));
    assert_eq!([of("translation.store.cache-misses"), of("translation.load.cache-misses")], [1, 0]);
    assert_eq!([of("translation.aliases"), of("translation.synonyms")], [0, 0]);
    // One page of the global table serves both spaces. Their root tables share a page, and the segment map has one.
    assert_eq!(of("translation.tables"), 3 << 12);
    let (counts, _) = accesses(shared_region()).run(&["translation.sharing=aliases"]);
    let of = |name: &str| crate::features_of_jm97::of(&counts, name);
    assert_eq!([of("translation.aliases.writable"), of("translation.synonyms")], [1, 1]);
    assert_eq!(of("translation.tables"), 4 << 12);
}

/// With tags by address space, a shared segment has a line for each space. They are aligned aliases, of which one is
/// dirty.
#[test]
fn a_shared_segment_has_a_line_for_each_space_under_tags_by_asid() {
    let (here, there) = (3 * REGION + 64, 6 * REGION + 64);
    let by_asid = ["l1i", "l1d", "l2i", "l2d"].map(|cache| format!("cache.{cache}.tag=asid"));
    let accesses = shared_region().switch(1).store(here).switch(2).load(there).switch(1).load(here);
    let (counts, _) = accesses.run(&by_asid.each_ref().map(String::as_str));
    let of = |name: &str| of(&counts, name);
    assert_eq!((of("l1d.store.misses"), of("l1d.load.misses")), (1, 2));
    assert_eq!([of("translation.store.cache-misses"), of("translation.load.cache-misses")], [1, 1]);
    assert_eq!([of("translation.aliases.writable"), of("translation.synonyms")], [1, 1]);
    // The page table is shared all the same.
    assert_eq!(of("translation.tables"), 3 << 12);
}

/// The group of a shared segment is duplicated in each sharer's root table: each space's handler reads its own.
#[test]
fn each_sharer_has_a_root_entry_of_its_own() {
    let here = 3 * REGION;
    // The entries of both spaces are in one line of the global table, and the roots in lines of their own.
    let trace = shared_region().switch(1).load(here).switch(2).load(6 * REGION + 16);
    let (counts, _) = trace.run(&["cache.l1d.size=16B", "cache.l2d.size=16B"]);
    assert_eq!(of(&counts, "translation.entries.user-misses"), 2);
    assert_eq!(of(&counts, "l1d.handler.load.compulsory"), 3);
}

/// A region that two spaces share as a whole cannot hold a page of one of them.
#[test]
fn a_shared_segment_has_the_same_pages_in_every_space() {
    let trace = shared_region().switch(1).load(3 * REGION).switch(2).load(6 * REGION).load(6 * REGION + 4096);
    // The second space maps memory of its own where the first still has the shared page.
    let trace = trace.unmap(6 * REGION, 1).map(6 * REGION, 1, READ | WRITE, 9, 0).load(6 * REGION);
    let problem = trace.outcome(&[]).unwrap_err();
    assert!(problem.rule.contains("shared as a whole"), "{problem}");
    assert!(problem.value.contains("0x60000000"), "{problem}");
}

/// Large and sparse address spaces: eight regions far apart take a page of the global table each. A ninth is refused.
#[test]
fn address_spaces_are_large_and_sparse() {
    let at = |region: u64| region * 0x1234_5000_0000 + 0x7000;
    let trace = (0..8).fold(Trace::default(), |trace, region| trace.store(at(region)));
    let (counts, _) = trace.run(&[]);
    assert_eq!(of(&counts, "translation.tables"), (1 + 1 + 8) << 12);
    let trace = (0..9).fold(Trace::default(), |trace, region| trace.store(at(region)));
    let problem = trace.outcome(&[]).unwrap_err();
    assert!(problem.value.starts_with("9 regions of 256MiB"), "{problem}");
    // A root table with more groups has room for a ninth region, and takes 4 KiB.
    let trace = (0..9).fold(Trace::default(), |trace, region| trace.store(at(region)));
    let (counts, _) = trace.run(&["translation.regions=16"]);
    assert_eq!(of(&counts, "translation.tables"), (1 + 1 + 9) << 12);
}

/// A fork that gives a child the number of an address space that lives ends that space: the child has eight regions of
/// its own, and the pages of the global table serve them.
#[test]
fn a_fork_onto_a_living_number_ends_the_tables_of_the_earlier_space() {
    let stores = |trace: Trace, first: u64| {
        (first..first + 8).fold(trace, |trace, region| trace.store(region * REGION))
    };
    for machine in ["softvm", "jm97"] {
        let tables =
            |trace: Trace| of(&trace.run_on((machine, "translation=on"), &[]).0, "translation.tables");
        let forked = stores(Trace::default().switch(2), 8).switch(1).fork(2, 1).switch(2);
        let once = stores(Trace::default().switch(2), 8);
        assert_eq!(tables(stores(forked, 20)), tables(once), "{machine}");
    }
}

/// The size of a page is software's choice, down to a line: SPECIFYVTAG assumes nothing beyond the offset in a line.
#[test]
fn software_chooses_the_size_of_pages_down_to_a_line() {
    let accesses = || (0..64).fold(Trace::default(), |trace, line| trace.store(3 * REGION + 64 * line));
    let run = |page: &str, segments: &str| {
        let settings = lines_of_64_bytes(page, segments);
        let (counts, _) = accesses().run(&settings.each_ref().map(String::as_str));
        ["os.faults", "translation.store.cache-misses", "translation.tables"].map(|name| of(&counts, name))
    };
    // 64 lines of 64 bytes lie in one page of 4 KiB, in 4 pages of 1 KiB, in 64 pages of 64 bytes.
    assert_eq!(run("4KiB", "256"), [1, 64, 3 << 12]);
    // A root table has 32 KiB.
    assert_eq!(run("1KiB", "16"), [4, 64, (1 + 32 + 1) << 10]);
    // A root table has 8 MiB, and a page of the global table 16 entries.
    assert_eq!(run("64B", "1"), [64, 64, 64 + (8 << 20) + 4 * 64]);
}

/// A page holds at least a line.
#[test]
fn a_page_smaller_than_a_line_is_refused() {
    let problem = Machine::load("softvm", &lines_of_64_bytes("32B", "1")).unwrap_err();
    assert_eq!(problem.rule, "a line is no larger than a page (32B)");
}

/// Protection down to one line: with pages of one line a change of protection concerns one line of either level.
#[test]
fn protection_is_of_a_single_line_where_pages_are_lines() {
    let settings = lines_of_64_bytes("64B", "1");
    let settings = settings.each_ref().map(String::as_str);
    let here = 3 * REGION;
    let area = || {
        let trace = Trace { page: Some(64), ..Trace::default() };
        trace.map(here, 4, READ | WRITE, 7, 0).store(here).store(here + 64)
    };
    let (counts, _) = area().protect(here + 64, 1, READ).store(here).store(here + 64).run(&settings);
    assert_eq!(of(&counts, "translation.store.violations"), 1);
    let swept = ["pages", "level-1.checked", "level-1.updated", "level-2.checked", "level-2.updated"]
        .map(|name| of(&counts, &format!("translation.protection.{name}")));
    assert_eq!(swept, [1; 5]);
    assert_eq!(of(&counts, "translation.protection.cycles"), 5 + 40);
}

/// Returns the settings of a machine whose lines have 64 bytes, and whose pages have some size.
fn lines_of_64_bytes(page: &str, segments: &str) -> [String; 6] {
    let line = |cache: &str| format!("cache.{cache}.line=64B");
    [
        line("l1i"),
        line("l1d"),
        line("l2i"),
        line("l2d"),
        format!("memory.page={page}"),
        format!("translation.segments={segments}"),
    ]
}

/// A superpage is mapped through the page table: one line of entries, and one miss of the table, serve all of its
/// pages.
#[test]
fn a_superpage_has_one_entry() {
    let here = 3 * REGION;
    // A line has 4 entries. Each access is in another line, and in a page 4 pages on.
    let area = || {
        let trace = Trace::default().switch(1);
        (0..16).fold(trace, |trace, page| trace.store(here + page * 4 * 4096 + page * 16 + 0x1000))
    };
    let run = |huge: &str| {
        let settings = [
            "placement.policy=buddy",
            "placement.fragmentation=0",
            &format!("translation.huge-pages={huge}"),
        ];
        let (counts, _) = area().run(&settings);
        ["translation.store.cache-misses", "translation.entries.user-misses", "translation.huge-pages"]
            .map(|name| of(&counts, name))
    };
    assert_eq!(run("4KiB"), [16, 16, 0]);
    assert_eq!(run("64KiB"), [16, 4, 4]);
    assert_eq!(run("256KiB"), [16, 1, 1]);
    let refused = |settings: &[&str]| area().outcome(settings).unwrap_err();
    // A page of the global table maps 4 MiB.
    let problem = refused(&["placement.policy=buddy", "translation.huge-pages=8MiB"]);
    assert!(problem.rule.contains("maps 4MiB"), "{problem}");
    let problem = refused(&["translation.huge-pages=2MiB"]);
    assert!(problem.rule.contains("run of neighbouring frames"), "{problem}");
}

/// An area of 2 pages of private memory, of which three lines of the first page and one of the second are stored to.
fn area() -> Trace {
    let here = 3 * REGION + 0x7000;
    let trace = Trace::default().switch(1).map(here, 2, READ | WRITE, 7, 0);
    [0x100, 0x110, 0x480, 0x1240].iter().fold(trace, |trace, at| trace.store(here + at))
}

/// A change of protection sweeps the page's lines in both caches of the data side (§5.4). The lines that are present
/// are measured.
#[test]
fn a_change_of_protection_sweeps_the_lines_of_its_pages() {
    let here = 3 * REGION + 0x7000;
    let run = |trace: Trace, settings: &[&str]| {
        let (counts, _) = trace.run(settings);
        ["changes", "pages", "level-1.checked", "level-1.updated", "level-2.checked", "level-2.updated"]
            .map(|name| of(&counts, &format!("translation.protection.{name}")))
            .into_iter()
            .chain([of(&counts, "translation.protection.cycles")])
            .collect::<Vec<_>>()
    };
    // A page has 256 lines of 16 bytes at either level.
    let page = |held: u64| held * 5 + (256 - held) * 3 + held * 40 + (256 - held) * 20;
    assert_eq!(run(area().protect(here, 1, READ), &[]), [1, 1, 256, 3, 256, 3, page(3)]);
    let both = [1, 2, 512, 4, 512, 4, page(3) + page(1)];
    assert_eq!(run(area().protect(here, 2, READ), &[]), both);
    // Nothing changes: the flags are those that the pages have, or the page is not in the page table.
    assert_eq!(run(area().protect(here, 2, READ | WRITE), &[]), [0; 7]);
    assert_eq!(run(area().protect(here - 4096, 1, READ), &[]), [0; 7]);
    // A right that is taken away is never lazy. A right that is added is, and costs the one line that is stored to.
    let lazy = &["translation.protection-changes=lazy"];
    assert_eq!(run(area().protect(here, 1, READ), lazy), [1, 1, 256, 3, 256, 3, page(3)]);
    let and_back = || area().protect(here, 1, READ).protect(here, 1, READ | WRITE);
    let again = || and_back().store(here + 0x110).store(here + 0x114).load(here + 0x100).store(here + 0x200);
    assert_eq!(run(again(), &[]), [2, 2, 512, 6, 512, 6, 2 * page(3)]);
    assert_eq!(run(again(), lazy), [2, 2, 256, 3, 256, 3, page(3) + 5]);
    let (counts, _) = again().run(lazy);
    assert_eq!(of(&counts, "translation.protection.late-updates"), 1);
}

/// Code has caches of its own: only a change of the right to execute sweeps them.
#[test]
fn a_page_of_code_is_swept_on_the_side_of_instructions() {
    let here = 3 * REGION + 0x7000;
    let code = || Trace::default().switch(1).map(here, 1, READ | EXEC, 7, 0).fetch(here + 0x200);
    let run = |trace: Trace| {
        let (counts, _) = trace.run(&[]);
        ["level-1.checked", "level-1.updated", "level-2.checked"]
            .map(|name| of(&counts, &format!("translation.protection.{name}")))
    };
    assert_eq!(run(code().protect(here, 1, EXEC)), [256, 0, 256]);
    assert_eq!(run(code().protect(here, 1, READ)), [256, 1, 256]);
    assert_eq!(run(code().protect(here, 1, READ | WRITE)), [512, 1, 512]);
}

/// An access that its page does not allow is counted, or stops the run with the reference, the protection and the row.
#[test]
fn violations_of_protection_are_counted_or_stop_the_run() {
    let here = 3 * REGION + 0x7000;
    let wrong = || {
        let trace = area().protect(here, 1, READ).load(here + 0x100).store(here + 0x108).store(here + 0x108);
        trace.fetch(here + 0x1240).protect(here, 1, 0).load(here + 0x480).load(here + 0x480)
    };
    let violations = |counts: &BTreeMap<String, f64>| {
        ["fetch", "load", "store"].map(|kind| of(counts, &format!("translation.{kind}.violations")))
    };
    let (counts, notes) = wrong().run(&[]);
    assert_eq!(violations(&counts), [1, 2, 2]);
    let note = notes.iter().find(|note| note.contains("protection")).unwrap();
    assert!(note.contains("a store of 0x30007100 in asid 1, whose page allows loads"), "{note}");
    let (counts, notes) = wrong().run(&["translation.protection-violations=ignore"]);
    assert_eq!(violations(&counts), [0; 3]);
    assert!(!notes.iter().any(|note| note.contains("protection")), "{notes:?}");
    let problem = wrong().outcome(&["translation.protection-violations=stop"]).unwrap_err();
    assert_eq!(problem.value, "a store of 0x30007100 in asid 1");
    assert!(problem.rule.contains("allows loads"), "{problem}");
    // A switch, a map and 4 stores come before the change of protection and the load.
    assert!(problem.place.ends_with(": row 8"), "{problem}");
    // A page outside every map allows everything, and so does a private page that a store copies.
    let (counts, _) = area().fetch(REGION).store(REGION).run(&[]);
    assert_eq!(violations(&counts), [0; 3]);
}

/// Direct memory access by a flush (§4.3): before a transfer the pages leave both levels, dirty lines are written
/// back, and the processor finds no line of the pages before the transfer has ended. What it reads afterwards comes
/// from memory.
#[test]
fn a_device_transfers_pages_that_are_flushed_before() {
    let page = 0x1000_0000;
    let trace = || {
        let mut trace = Trace::default().map(page, 2, READ | WRITE, 1, 0);
        for line in 0..4 {
            trace = trace.store(page + line * 16); // four dirty lines of the page
        }
        trace = trace.load(page + 512).store(page + 4096).device(Op::DmaWrite, page + 32, 16);
        for line in [0, 1, 2, 3, 32] {
            trace = trace.load(page + line * 16);
        }
        trace.load(page + 4096).device(Op::DmaRead, page, 64).load(page)
    };
    let machine = Machine::load("softvm", &[]).unwrap();
    let options = RunOptions { seeds: vec![0], ..RunOptions::default() };
    let source = || Box::new(Fixed::new(trace().events.finish(), 100).with_pages_of(4096));
    let mut events = Vec::new();
    let mut take = |_, some: &[FrontEvent]| {
        events.extend(some.iter().filter_map(|event| match event {
            FrontEvent::Line(event) => Some(*event),
            FrontEvent::Request(_) => None,
        }));
        Ok(())
    };
    front_stream(&machine.front().unwrap(), source(), &options, &mut take, &mut |_| Ok(())).unwrap();
    let at = |wanted: fn(&TapEvent) -> bool| events.iter().position(wanted).unwrap();
    let write = at(|event| matches!(event, TapEvent::DeviceWrite { .. }));
    let (before, after) = events.split_at(write);
    let lines = |events: &[TapEvent], wanted: fn(&TapEvent) -> bool| -> Vec<u64> {
        events.iter().filter(|event| wanted(event)).map(TapEvent::line).collect()
    };
    let first = before[0].line();
    let of_page = |line: &u64| line / 256 == first / 256;
    let flushed = lines(before, |event| matches!(event, TapEvent::WriteBack { .. }));
    assert_eq!(
        flushed,
        [first, first + 1, first + 2, first + 3],
        "dirty lines, with the one that is overwritten"
    );
    let read = lines(after, |event| matches!(event, TapEvent::Read { .. }));
    assert_eq!(
        read,
        [0, 1, 2, 3, 32, 0].map(|line| first + line),
        "the last load follows the second transfer"
    );
    assert!(read.iter().all(of_page), "the second page was left alone");
    let setup = machine.scheme_setup(SchemeKind::Flush, "flush").unwrap();
    let found = compare_schemes(&machine, source(), &options, &[setup], &mut |_| Ok(())).unwrap();
    let scheme = &found.placements[0].schemes[0];
    let fates = scheme.counters.fates;
    assert_eq!((fates.written, fates.read_from_memory), (1, 1));
    assert!(scheme.last_level.is_none() && scheme.dma_cache.is_none());
    assert_eq!(scheme.counters.device_data.io_hits, 0, "memory serves every device");
    let refused = machine.scheme_setup(SchemeKind::SnoopingCache, "snooping-cache").unwrap_err();
    assert_eq!(refused.place, "machine softvm: cache.l1i.tag=global");
}
