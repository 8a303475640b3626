//! A walk of each form of page table is followed by hand: addresses, levels and cycles.
//!
//! Memory has 256 frames, so page n of the tables lies in frame 256 + n, at address 0x100000 + n × 0x1000. The reserve
//! has 16 pages, so the handlers lie at 0x110000. Level 1 is a direct-mapped cache of one page, with lines of 32 bytes.
//! A miss takes 100 cycles. Lines are named by their addresses.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::Fixed;
use crate::whole_engine::counts;
use binhop_sim::{Machine, RunOptions, memory_stream};
use binhop_trace::Op;
use binhop_trace::event::EventBuilder;

/// Returns the addresses and times of the accesses that reach memory, and a way to read counts, of loads at these
/// addresses.
fn loads(settings: &[&str], addresses: &[u64]) -> (Vec<(u64, u64)>, impl Fn(&str) -> f64 + use<>) {
    let text = r#"
memory = { page = "4KiB", size = "1MiB" }
placement = { policy = "first", pool = "64KiB" }
[cache.l1]
serves = "all"
size = "4KiB"
line = "32B"
next = "memory"
[cost]
memory = 100
[tlb.tlb]
serves = "all"
entries = 8
[translation]
active = true
table = "radix"
reserve = "64KiB"
placement = "fixed"
"#;
    loads_of(text, settings, addresses)
}

/// Returns what [`loads`] returns, for another machine.
fn loads_of(
    text: &str,
    settings: &[&str],
    addresses: &[u64],
) -> (Vec<(u64, u64)>, impl Fn(&str) -> f64 + use<>) {
    let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let machine = Machine::parse(text, "by-hand", &settings).unwrap();
    let mut events = EventBuilder::default();
    addresses.iter().for_each(|&address| events.push(Op::Load, address, 4, 1));
    let source = Box::new(Fixed::new(events.finish(), 100));
    let options = RunOptions { seeds: vec![0], ..RunOptions::default() };
    let mut accesses = Vec::new();
    let mut take = |some: &[binhop_trace::export::MemoryAccess]| {
        accesses.extend(some.iter().map(|access| (access.addr, access.cycle)));
        Ok(())
    };
    let outcome = memory_stream(&machine, source, &options, &mut take, &mut |_| Ok(())).unwrap();
    let counts = counts(&outcome, 0, 1);
    (accesses, move |name: &str| counts.get(name).copied().unwrap_or(0.0))
}

/// Checks accesses to tables, and that the last access is the program's access to this line of its page. Returns the
/// frame of the program's page.
fn assert_walk(accesses: &[(u64, u64)], walk: &[(u64, u64)], (line, time): (u64, u64)) -> u64 {
    let (last, before) = accesses.split_last().unwrap();
    assert_eq!(before, walk, "{accesses:x?}");
    assert_eq!((last.0 % 4096, last.1), (line, time));
    assert!(last.0 < 0x10_0000);
    last.0 / 4096
}

#[test]
fn a_radix_table_of_four_levels() {
    // Address 0x7fff_f7dd_1234: indices 0xff, 0x1ff, 0x1be and 0x1d1, with entries of 8 bytes.
    let (accesses, count) = loads(&[], &[0x7fff_f7dd_1234]);
    let walk = [(0x10_07e0, 0), (0x10_1fe0, 100), (0x10_2de0, 200), (0x10_3e80, 300)];
    assert_walk(&accesses, &walk, (0x220, 400));
    assert_eq!(
        (count("translation.entries"), count("translation.cycles"), count("cycles")),
        (4.0, 400.0, 500.0)
    );
    assert_eq!((count("translation.load.walks"), count("translation.load.tlb-miss.memory")), (1.0, 1.0));
    assert_eq!(count("translation.tables"), 16384.0);
    // The TLB holds the page at the second load. The entries of the next page lie in lines that level 1 holds.
    let (accesses, count) = loads(&[], &[0x7fff_f7dd_1234, 0x7fff_f7dd_1238, 0x7fff_f7dd_2234]);
    assert_eq!((accesses.len(), accesses[5].0 % 4096, accesses[5].1), (6, 0x220, 500));
    assert_eq!(
        (count("translation.entries"), count("translation.cycles"), count("cycles")),
        (8.0, 400.0, 600.0)
    );
}

#[test]
fn walk_caches_spare_the_upper_levels() {
    // Level 2 of the walk is the last level that a walk cache may keep.
    let settings = ["walk-cache.0.entries=1", "walk-cache.2.entries=1"];
    let (_, count) = loads(&settings, &[0x7fff_f7dd_1234, 0x7fff_f7dd_2234]);
    assert_eq!((count("translation.entries"), count("translation.entries.spared")), (5.0, 3.0));
    // Two mebibytes away, the entry of level 2 is another entry, and the entry of level 0 is the same entry.
    let (_, count) = loads(&settings, &[0x7fff_f7dd_1234, 0x7fff_f7bd_1234]);
    assert_eq!((count("translation.entries"), count("translation.entries.spared")), (7.0, 1.0));
}

#[test]
fn a_radix_table_of_two_levels() {
    // Address 0x1234_5678 lies in region 1, which is the first region touched: 0x0234_5678 has indices 8 and 0x345.
    // The entries of such a table have 4 bytes unless the machine says otherwise.
    let (accesses, count) = loads(&["translation.levels=2"], &[0x1234_5678]);
    assert_walk(&accesses, &[(0x10_0020, 0), (0x10_1d00, 100)], (0x660, 200));
    assert_eq!((count("translation.entries"), count("cycles")), (2.0, 300.0));
}

#[test]
fn a_walker_that_reads_memory() {
    let (accesses, count) = loads(&["translation.reads=memory"], &[0x7fff_f7dd_1234, 0x7fff_f7dd_2234]);
    assert_eq!(accesses.len(), 10);
    assert_eq!((count("translation.cycles.entries"), count("cycles")), (800.0, 1000.0));
}

#[test]
fn the_table_of_mips() {
    // The root's entry 8, and entry 0x345 of page 8 of the user table. Both handlers have 40 bytes, in two lines each.
    let settings = ["translation.table=mips", "translation.entry=4B", "translation.refill=software"];
    let (accesses, count) = loads(&settings, &[0x1234_5678]);
    let handlers = [(0x11_0000, 20), (0x11_0020, 120), (0x11_0080, 220), (0x11_00a0, 320)];
    let walk = [&handlers[..], &[(0x10_0020, 420), (0x10_1d00, 520)]].concat();
    assert_walk(&accesses, &walk, (0x660, 620));
    assert_eq!(
        (count("translation.cycles.handler"), count("translation.cycles.handler-fetch")),
        (20.0, 400.0)
    );
    assert_eq!((count("translation.cycles.entries"), count("cycles")), (200.0, 720.0));
    assert_eq!((count("tlb.load.accesses"), count("tlb.load.misses")), (1.0, 1.0));
    assert_eq!((count("tlb.handler.load.accesses"), count("tlb.handler.load.misses")), (1.0, 1.0));
    // The TLB holds the page of the user table at the second walk, so one handler runs. The root's entry has taken the
    // set of its second line.
    let (accesses, count) = loads(&settings, &[0x1234_5678, 0x1234_6678]);
    assert_eq!((accesses.len(), accesses[7], accesses[8].1), (9, (0x11_0020, 730), 830));
    assert_eq!((count("translation.entries"), count("translation.entries.root")), (3.0, 1.0));
    assert_eq!((count("tlb.handler.load.accesses"), count("tlb.handler.load.misses")), (2.0, 1.0));
    assert_eq!(count("cycles"), 930.0);
}

#[test]
fn the_hashed_table() {
    // 512 slots: page 0x12345 has slot 0x145 ^ 0x91 = 468, at byte 7488 of the table.
    let (accesses, count) = loads(&["translation.table=hashed", "translation.entry=16B"], &[0x1234_5678]);
    assert_walk(&accesses, &[(0x10_1d40, 0)], (0x660, 100));
    assert_eq!((count("translation.entries"), count("cycles")), (1.0, 200.0));
}

#[test]
fn the_inverted_table() {
    // Anchor 468 lies at byte 1872. The entry of the page's frame lies in the second page of the table.
    let (accesses, count) = loads(&["translation.table=inverted", "translation.entry=16B"], &[0x1234_5678]);
    let frame = accesses[2].0 / 4096;
    let walk = [(0x10_0740, 0), (0x10_1000 + frame * 16 / 32 * 32, 100)];
    assert_eq!(assert_walk(&accesses, &walk, (0x660, 200)), frame);
    assert_eq!((count("translation.entries"), count("cycles")), (2.0, 300.0));
}

/// Software of this machine translates at cache misses. The handlers' page lies above memory, at 0x100000, then come
/// the segment map, 128 pages of root tables, and the global table at 0x182000.
const AT_MISSES: &str = r#"
memory = { page = "4KiB", size = "1MiB" }
placement = { policy = "first", pool = "64KiB" }
[cache.l1i]
serves = "fetch"
size = "4KiB"
line = "32B"
index = "virtual"
tag = "asid"
next = "memory"
[cache.l1d]
serves = "data"
size = "4KiB"
line = "32B"
index = "virtual"
tag = "asid"
next = "memory"
[cost]
memory = 100
[translation]
active = true
table = "disjunct"
refill = "cache-miss"
"#;

#[test]
fn the_disjunct_table_at_a_cache_miss() {
    // Address 0x1234_5678 lies in the first region touched, so in segment 0: page 0x2345 of it has byte 0x8d14 of the
    // global table, and entry 8 of the root. The handler has 40 bytes, in two lines. It takes 10 cycles, and 10 more
    // for its own miss.
    let (accesses, count) = loads_of(AT_MISSES, &[], &[0x1234_5678]);
    let walk = [(0x10_0000, 10), (0x10_0020, 110), (0x10_2020, 220), (0x18_ad00, 320)];
    assert_walk(&accesses, &walk, (0x660, 420));
    let causes =
        ["data-miss", "handler-code", "handler-code-memory", "handler-data", "root-entry", "user-entry"];
    let cycles = causes.map(|cause| count(&format!("translation.cycles.{cause}")));
    assert_eq!(cycles, [20.0, 0.0, 200.0, 0.0, 100.0, 100.0]);
    assert_eq!((count("translation.cycles"), count("cycles")), (420.0, 520.0));
    assert_eq!(count("translation.tables"), 3.0 * 4096.0);
    // The entry of the next page lies in the same line: the handler runs once, and memory is asked for the line alone.
    let (accesses, count) = loads_of(AT_MISSES, &[], &[0x1234_5678, 0x1234_6690]);
    assert_eq!((accesses.len(), accesses[5].0 % 4096, accesses[5].1), (6, 0x680, 530));
    assert_eq!(
        (count("translation.load.cache-misses"), count("translation.entries.user-misses")),
        (2.0, 1.0)
    );
    assert_eq!((count("translation.cycles"), count("cycles")), (430.0, 630.0));
}
