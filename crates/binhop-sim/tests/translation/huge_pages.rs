//! These tests follow huge pages by hand.

use std::collections::BTreeMap;

use super::design::PAGE;
use crate::common::{Event, Fixed, batch, machine, run};
use crate::whole_engine::counts;
use binhop_sim::{Machine, RunOptions, simulate};
use binhop_trace::Op;

/// Returns the counts of a machine of 4 KiB pages with huge pages of `size` bytes.
fn with_huge_pages(size: &str, events: &[Event]) -> BTreeMap<String, f64> {
    with_huge_pages_and(size, "placement.fragmentation=0", events)
}

/// Returns the counts of a machine of 4 KiB pages with huge pages of `size` bytes and a further setting.
fn with_huge_pages_and(size: &str, setting: &str, events: &[Event]) -> BTreeMap<String, f64> {
    counts(&run(&huge(size, setting), &batch(events), 500, &RunOptions::default()), 0, 1)
}

/// Returns a machine of 4 KiB pages with huge pages of `size` bytes and a further setting. A table page has 16 entries.
fn huge(size: &str, setting: &str) -> Machine {
    let settings = [
        "translation=on",
        "translation.table=radix",
        "translation.levels=5",
        "translation.entry=256B",
        "placement.policy=buddy",
        "tlb.tlb.serves=all",
        "tlb.tlb.entries=4",
        &format!("translation.huge-pages={size}"),
        setting,
    ];
    Machine::parse(&machine(0).resolved(), "huge", &settings.map(String::from)).unwrap()
}

fn store(page: u8) -> Event {
    Event::Data { op: Op::Store, page, offset: 0, size: 8 }
}

/// A table page has 16 entries, so a huge page has 16 pages.
#[test]
fn a_huge_page_is_one_fault_one_walk_and_one_entry_of_the_tlb() {
    let map = Event::Map { page: 0, pages: 40, segment: None, shared: false };
    let sixteen = (0..16).chain(0..16).map(store);
    let events: Vec<Event> = std::iter::once(map).chain(sixteen).chain([store(20), store(35)]).collect();
    let of = |counts: &BTreeMap<String, f64>| {
        let names = [
            "os.faults",
            "translation.walks",
            "translation.misses",
            "translation.entries",
            "translation.huge-pages",
            "translation.huge-pages.lost",
        ];
        names.map(|name| counts.get(name).copied().unwrap_or(0.0))
    };
    assert_eq!(of(&with_huge_pages("4KiB", &events)), [18.0, 34.0, 34.0, 170.0, 0.0, 0.0]);
    // The huge page of page 35 reaches beyond the map, so pages of the usual size are taken there. The first huge page
    // is used as a whole. One page of the second huge page is used.
    let pages = 15.0 * PAGE as f64;
    assert_eq!(of(&with_huge_pages("64KiB", &events)), [3.0, 3.0, 3.0, 4.0 + 4.0 + 5.0, 2.0, pages]);
}

/// A fork, a copy on write, an unmap of a part and an exit each split a huge page, or end its one entry.
#[test]
fn huge_pages_end_where_a_part_of_them_changes() {
    let splits = |events: &[Event]| {
        let counts = with_huge_pages("64KiB", events);
        ["os.faults", "translation.walks", "translation.huge-pages.splits"]
            .map(|name| counts.get(name).copied().unwrap_or(0.0))
    };
    let two = [store(1), store(2)];
    let with = |events: &[Event]| splits(&[&two[..], events].concat());
    assert_eq!(with(&[]), [1.0, 1.0, 0.0]);
    // The pages of a part are unmapped: the run is split, page 2 keeps its frame, and page 1 is a new page.
    let unmap = Event::Unmap { page: 1, pages: 1 };
    assert_eq!(with(&[unmap, store(2), store(1)]), [2.0, 3.0, 1.0]);
    // The child writes to page 1, gets a page of the usual size, and maps pages of this size. The parent still maps the
    // huge page.
    let child = [
        Event::Fork(1),
        Event::Switch(1),
        store(1),
        Event::Data { op: Op::Load, page: 2, offset: 0, size: 8 },
    ];
    assert_eq!(with(&child), [2.0, 3.0, 0.0]);
    let back = [Event::Switch(0), Event::Data { op: Op::Load, page: 2, offset: 0, size: 8 }];
    assert_eq!(with(&[&child[..], &back[..]].concat()), [2.0, 4.0, 0.0]);
    // Protecting a part ends the one entry, and the run stays whole.
    let protect = Event::Protect { page: 1, pages: 1 };
    assert_eq!(with(&[protect, store(1), store(2)]), [1.0, 3.0, 0.0]);
    assert_eq!(with(&[Event::Exit]), [1.0, 1.0, 1.0]);
}

/// A page that joins a huge page causes no fault. Faults have the causes that they have without huge pages.
#[test]
fn faults_of_huge_pages_have_causes() {
    let of = |size, setting: &str, events: &[Event]| {
        let counts = with_huge_pages_and(size, setting, events);
        ["first", "unmapped", "copied", "evicted"]
            .map(|cause| counts.get(&format!("translation.faults.{cause}")).copied().unwrap_or(0.0))
    };
    let (free, old) = ("placement.fragmentation=0", "placement.fragmentation=100");
    let map = Event::Map { page: 0, pages: 40, segment: None, shared: false };
    // The huge page of pages 48 to 63 lies outside every map.
    let pages = [0, 1, 2, 17, 18, 35, 36, 48, 49, 50].map(store);
    // The child shares page 1, and then copies it.
    let load = Event::Data { op: Op::Load, page: 1, offset: 0, size: 8 };
    let fork = [Event::Fork(1), Event::Switch(1), load, store(1)];
    let events = [&[map][..], &pages, &fork].concat();
    assert_eq!(of("4KiB", free, &events), [7.0, 3.0, 1.0, 0.0]);
    assert_eq!(of("64KiB", free, &events), [4.0, 1.0, 1.0, 0.0]);
    // No run of frames is free, so every page has a fault.
    assert_eq!(of("64KiB", old, &events), [7.0, 3.0, 1.0, 0.0]);
}

/// Huge pages do not depend on the place of the tables.
#[test]
fn huge_pages_are_the_same_under_every_placement_of_tables() {
    let map = Event::Map { page: 0, pages: 40, segment: None, shared: false };
    let events: Vec<Event> =
        std::iter::once(map).chain((0..80u16).map(|number| store((number * 7 % 40) as u8))).collect();
    let of = |rule: &str| {
        let mut counts = with_huge_pages_and("64KiB", &format!("translation.placement={rule}"), &events);
        let depends = [".cycles", ".cpi", ".tlb-miss"];
        counts.retain(|name, _| {
            ["os.", "tlb.", "translation."].iter().any(|of| name.starts_with(of))
                && !depends.iter().any(|of| name.contains(of))
        });
        counts
    };
    let [random, fixed, policy] = ["random", "fixed", "policy"].map(of);
    assert_eq!(random["translation.huge-pages"], 2.0);
    assert_eq!((&random, &random), (&fixed, &policy));
}

#[test]
fn a_policy_of_ones_own_has_no_huge_pages() {
    let machine = huge("64KiB", "placement.fragmentation=0");
    let make: binhop_sim::PolicyMaker<'_> = &|_| unreachable!("the machine is refused");
    let source = Box::new(Fixed::new(batch(&[Event::Switch(1)]), 7));
    let problem =
        simulate(&machine, source, &RunOptions::default(), Some(make), &mut |_| Ok(())).unwrap_err();
    assert!(problem.rule.contains("huge pages need runs"), "{problem}");
}
