//! These tests check that lanes that are bits walk page tables as each lane does by itself: in ample memory, and until
//! a page may be evicted.

use super::design::{Design, design};
use super::{agree, designed};
use crate::common::{Event, SMALL, behind_warm_up, cases, event, machine, reference, run};
use binhop_hw::{FastPath, FastPathSet};
use binhop_os::page_table::TableKind;
use binhop_sim::{Machine, RunOptions, explain};
use binhop_trace::Op;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

const SEEDS: std::ops::Range<u64> = 0..3;

fn options(seeds: std::ops::Range<u64>) -> RunOptions {
    RunOptions { seeds: seeds.collect(), ..RunOptions::default() }
}

/// Returns the lines of the plan that name a path.
fn plan(machine: &Machine, seeds: std::ops::Range<u64>) -> String {
    explain(std::slice::from_ref(machine), &[String::new()], &options(seeds), None).unwrap().join("\n")
}

/// Returns the line of the plan that lists the fast paths.
fn paths(machine: &Machine) -> String {
    plan(machine, SEEDS).lines().find(|line| line.contains("fast paths:")).unwrap().to_string()
}

/// Returns machines in which lanes may be bits, with this design: level 1 in bits, and a shared front of either kind.
fn machines(design: &Design, memory: &str) -> Vec<Machine> {
    let small = |number: usize, settings: &[&str]| {
        let settings: Vec<String> =
            settings.iter().copied().chain([memory]).map(ToString::to_string).collect();
        Machine::parse(&machine(number).resolved(), "bits", &settings).unwrap()
    };
    let level3 = ["cache.l2.next=l3", "cache.l3.size=64KiB", "cache.l3.line=128B", "cache.l3.ways=2"];
    let level3 = [&level3[..], &["cache.l3.replacement=random", "cache.l3.next=memory"]].concat();
    let all = [
        small(0, &["placement.pool=32KiB"]),
        small(SMALL.len() - 1, &["placement.pool=32KiB"]),
        small(1, &[&["cache.l2.ways=4", "cache.l2.replacement=lru"], &level3[..]].concat()),
        small(2, &["placement.pool=32KiB", "cache.l2.ways=2", "cache.l2.replacement=random"]),
    ];
    all.iter().filter_map(|machine| designed(machine, design)).collect()
}

fn compare(design: &Design, memory: &str, events: &[Event]) {
    let options = RunOptions { interval: Some(97), warmup: 30, ..options(0..5) };
    let events = behind_warm_up(options.warmup, events);
    for machine in machines(design, memory) {
        agree(&machine, design, &events);
        let off = FastPathSet::NONE.with(FastPath::LaneBits).with(FastPath::BackBits);
        let bits = run(&machine, &events, 500, &options);
        let lanes = run(&machine, &events, 500, &RunOptions { without: off, ..options.clone() });
        let one_by_one = RunOptions { without: off.with(FastPath::Chain), ..options.clone() };
        let one_by_one = run(&machine, &events, 500, &one_by_one);
        let threads = run(&machine, &events, 500, &RunOptions { threads: 3, ..options.clone() });
        for other in [lanes, one_by_one, threads] {
            assert_eq!(bits.results, other.results, "{}", machine.name());
            assert_eq!(bits.series.whole().unwrap(), other.series.whole().unwrap());
            assert_eq!(bits.processes.whole().unwrap(), other.processes.whole().unwrap());
        }
    }
}

fn without_huge_pages() -> impl Strategy<Value = Design> {
    design().prop_filter("huge pages keep lanes from being bits", |design| design.huge.is_none())
}

proptest! {
    #![proptest_config(cases(3, 10))]

    #[test]
    fn walks_in_bits_are_the_walks_of_each_lane(
        design in without_huge_pages(),
        memory in prop::sample::select(vec!["memory.size=96KiB", "memory.size=1MiB"]),
        events in prop::collection::vec(event(), 1..500),
    ) {
        compare(&design, memory, &events);
    }

    #[test]
    fn walks_in_bits_are_the_walks_of_each_lane_while_pages_are_evicted(
        design in without_huge_pages(),
        events in prop::collection::vec(reference(), 1..900),
    ) {
        compare(&design, "memory.size=96KiB", &events);
    }
}

/// More accesses of walks wait than a bundle keeps, and no row of the user is simulated among them.
#[test]
fn walks_without_other_accesses_are_made_in_time() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let drawn = without_huge_pages().new_tree(&mut runner).unwrap().current();
    let mut design =
        Design { kind: TableKind::Radix { levels: 4 }, entry: 8, software: false, random: false, ..drawn };
    design.mmu.walk_caches.clear();
    design.mmu.tlbs.truncate(1);
    design.mmu.ports = [vec![0], vec![0]];
    design.names.truncate(1);
    (design.mmu.tlbs[0].next, design.mmu.tlbs[0].wired) = (None, 0);
    (design.mmu.tlbs[0].sets, design.mmu.tlbs[0].ways) = (1, 1);
    let load = |page: u8, offset: u16| Event::Data { op: Op::Load, page, offset, size: 8 };
    let mut events: Vec<Event> =
        (0..9_000).map(|turn| if turn % 2 == 0 { load(1, 0x800) } else { load(2, 0xC00) }).collect();
    events.extend((3..6).map(|page| load(page, 0)));
    for reads in [None, Some("l2")] {
        compare(&Design { reads, ..design.clone() }, "memory.size=1MiB", &events);
    }
}

/// The plan says where walks keep lanes from being bits.
#[test]
fn lanes_are_bits_where_every_lane_walks_alike() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let drawn = without_huge_pages().new_tree(&mut runner).unwrap().current();
    let design =
        Design { kind: TableKind::Radix { levels: 2 }, entry: 4, software: false, reads: None, ..drawn };
    let design = Design {
        mmu: {
            let mut mmu = design.mmu.clone();
            mmu.walk_caches.clear();
            mmu
        },
        ..design
    };
    let taken = |design: &Design| {
        let has = |paths: &String| ["lane-bits", "back-bits"].map(|path| paths.contains(path));
        machines(design, "memory.size=1MiB").iter().map(paths).map(|paths| has(&paths)).collect::<Vec<_>>()
    };
    let (lane, back, neither) = ([true, false], [false, true], [false, false]);
    assert_eq!(taken(&design), [lane, lane, back, back]);
    for machine in &machines(&design, "memory.size=1MiB") {
        let plan = plan(machine, SEEDS);
        assert!(plan.contains("in the bits of their lanes, until a frame may change hands"), "{plan}");
    }
    assert_eq!(taken(&Design { software: true, ..design.clone() }), [lane, lane, back, back]);
    assert_eq!(taken(&Design { reads: Some("l2"), ..design.clone() }), [neither, neither, back, back]);
    assert_eq!(taken(&Design { reads: Some("memory"), ..design.clone() }), [neither; 4]);
    let inverted = Design { kind: TableKind::Inverted, entry: 16, ..design };
    assert_eq!(taken(&inverted), [neither; 4]);
    let machine = &machines(&inverted, "memory.size=1MiB")[1];
    let why = "lane-bits is not taken: each placement's frames decide which entries a walk reads";
    assert!(plan(machine, SEEDS).contains(why), "{}", plan(machine, SEEDS));
}
