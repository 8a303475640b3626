//! These tests measure the cost of address spaces in allocated bytes. Time and memory must grow with the
//! rows of a trace and not faster, whatever the rows do. All counts are exact: each test runs on one thread, and
//! compares a trace with a trace of twice the rows.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
#[path = "../../binhop-trace/tests/counting/mod.rs"]
mod counting;

use binhop_base::Bytes;
use binhop_sim::paging::{PagingOptions, paging};
use binhop_sim::{Machine, RunOptions, simulate};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use common::Fixed;
use counting::{Cost, cost, turn};

/// Makes a machine with this policy.
fn machine(policy: &str) -> Machine {
    machine_of("64MiB", "1MiB", policy)
}

/// Returns a machine with this memory, this pool and this policy.
fn machine_of(memory: &str, pool: &str, policy: &str) -> Machine {
    let text = format!(
        r#"
memory = {{ page = "4KiB", size = "{memory}" }}
placement = {{ policy = "{policy}", pool = "{pool}" }}
[cache.l1]
serves = "all"
size = "1KiB"
line = "32B"
next = "memory"
"#
    );
    Machine::parse(&text, "small", &[]).unwrap()
}

/// Returns the cost of simulating these events, and of counting their page faults.
fn costs(events: &EventBatch, policy: &str) -> [Cost; 2] {
    let machine = machine(policy);
    let simulated = cost(|| {
        let source = Box::new(Fixed::new(events.clone(), 1 << 16));
        simulate(&machine, source, &RunOptions::default(), None, &mut |_| Ok(())).unwrap();
    });
    let options = PagingOptions {
        page: Bytes(4096),
        sizes: vec![Bytes(64 << 20)],
        colors: vec![1],
        length: None,
        pid_hash: false,
        ahead: false,
    };
    let paged = cost(|| {
        paging(Box::new(Fixed::new(events.clone(), 1 << 16)), &options, &mut |_| Ok(())).unwrap();
    });
    [simulated, paged]
}

/// Checks that twice the rows cost at most 2.3 times as much. Doubling vectors and deeper trees explain the
/// excess over 2.
fn assert_linear(name: &str, rows: u64, events: impl Fn(u64) -> EventBatch) {
    let (once, twice) = (costs(&events(rows), "random"), costs(&events(2 * rows), "random"));
    for (pass, (once, twice)) in ["simulation", "paging"].into_iter().zip(once.into_iter().zip(twice)) {
        for (what, once, twice) in [("asked", once.asked, twice.asked), ("peak", once.peak, twice.peak)] {
            println!("{name}, {pass}: {what} {once} B for {rows}, {twice} B for twice");
            assert!(twice * 10 <= once * 23, "{name}, {pass}: {what} {once} B, then {twice} B");
        }
    }
}

fn map(events: &mut EventBuilder, page: u64, pages: u32, segment: Option<u64>) {
    events.push_args(Op::Map, page << 12, 3, pages, [segment, Some(0)]);
}

fn load(events: &mut EventBuilder, page: u64) {
    events.push(Op::Load, page << 12, 8, 1);
}

/// Forks a child of `parent` and switches to it.
fn fork(events: &mut EventBuilder, child: u64, parent: u64) {
    events.push_args(Op::Fork, child, 0, 0, [Some(parent), None]);
    events.push(Op::Switch, child, 0, 0);
}

#[test]
fn live_segments_touched_one_by_one() {
    let _turn = turn();
    assert_linear("segments", 4000, |rows| {
        let mut events = EventBuilder::default();
        for number in 0..rows {
            map(&mut events, 2 * number, 1, Some(number));
            load(&mut events, 2 * number);
        }
        events.finish()
    });
}

#[test]
fn protections_of_single_pages_and_of_everything() {
    let _turn = turn();
    assert_linear("protect", 4000, |rows| {
        let mut events = EventBuilder::default();
        map(&mut events, 0, rows as u32, Some(1));
        for number in 0..rows {
            load(&mut events, number);
            events.push(Op::Protect, (number ^ 1) << 12, 1, 1);
            events.push(Op::Protect, 0, 3, rows as u32);
        }
        events.finish()
    });
}

#[test]
fn forks_one_after_the_other_and_of_each_other() {
    let _turn = turn();
    assert_linear("children of one", 4000, |rows| {
        let mut events = EventBuilder::default();
        (0..rows).for_each(|page| events.push(Op::Store, page << 12, 8, 1));
        for child in 1..=rows {
            fork(&mut events, child, 0);
            load(&mut events, child % rows);
            events.push(Op::Switch, 0, 0, 0);
            events.push(Op::Exit, child, 0, 0);
        }
        events.finish()
    });
    assert_linear("a chain", 4000, |rows| {
        let mut events = EventBuilder::default();
        for child in 1..=rows {
            fork(&mut events, child, child - 1);
            events.push(Op::Store, child << 12, 8, 1);
        }
        events.finish()
    });
}

#[test]
fn mappings_of_many_live_segments_at_one_page() {
    let _turn = turn();
    assert_linear("one page", 4000, |rows| {
        let mut events = EventBuilder::default();
        (0..rows).for_each(|number| map(&mut events, number + 1, 1, Some(number)));
        for number in (0..rows).chain(0..rows) {
            map(&mut events, 0, 1, Some(number));
            load(&mut events, 0);
        }
        events.finish()
    });
}

#[test]
fn maps_that_children_inherit_are_kept_once() {
    let _turn = turn();
    let events = |maps: u64, forks: u64| {
        let mut events = EventBuilder::default();
        for number in 0..maps {
            map(&mut events, 2 * number, 1, Some(number));
            events.push(Op::Store, (2 * number + 1) << 12, 8, 1);
        }
        for child in 1..=forks {
            fork(&mut events, child, 0);
            // Each child changes a map and touches a page of its own.
            map(&mut events, 2 * (child % maps.max(1)), 1, None);
            events.push(Op::Store, 1 << 12, 8, 1);
        }
        events.finish()
    };
    let (maps, forks) = (500, 2000);
    let costs = |maps, forks| costs(&events(maps, forks), "random");
    let (both, maps, forks) = (costs(maps, forks), costs(maps, 1), costs(1, forks));
    for ((both, maps), forks) in both.into_iter().zip(maps).zip(forks) {
        println!("maps and forks: {both:?}; maps: {maps:?}; forks: {forks:?}");
        // A change copies a path of the shared tree, which has some nodes more than a tree of one map. Maps
        // that are not shared would take hundreds of times as much.
        assert!(both.peak <= 3 * (maps.peak + forks.peak), "{both:?} of {maps:?} and {forks:?}");
        assert!(both.asked <= 3 * (maps.asked + forks.asked), "{both:?} of {maps:?} and {forks:?}");
    }
}

#[test]
fn address_spaces_that_come_once() {
    let _turn = turn();
    let events = |rows: u64| {
        let mut events = EventBuilder::default();
        for asid in 0..rows {
            events.push(Op::Switch, asid, 0, 0);
            load(&mut events, 5);
        }
        events.finish()
    };
    assert_linear("asids", 20_000, events);
    // The bytes of each space hold the state of its page, its counts, and its rows in the report. No counter
    // is kept that nobody asks for.
    let [simulated, paged] = costs(&events(40_000), "random").map(|cost| cost.peak / 40_000);
    assert!(simulated <= 1500, "{simulated} B for each space");
    assert!(paged <= 600, "{paged} B for each space");
}

#[test]
fn segments_are_listed_for_policies_that_ask_in_bounded_memory() {
    let _turn = turn();
    // Such a policy asks for lists of n segments for n placements. A block does not hold all of them.
    let events = |rows: u64| {
        let mut events = EventBuilder::default();
        for number in 0..rows {
            map(&mut events, 2 * number, 1, Some(number));
            load(&mut events, 2 * number);
        }
        events.finish()
    };
    let [once, _] = costs(&events(2000), "hierarchical");
    let [twice, _] = costs(&events(4000), "hierarchical");
    println!("lists: {once:?}, then {twice:?}");
    assert!(twice.peak * 10 <= once.peak * 23, "{once:?}, then {twice:?}");
}

#[test]
fn faults_where_few_frames_lie_outside_the_pool() {
    let _turn = turn();
    // Only 16 frames lie outside the pool, so the residency horizon moves at nearly every fault.
    let machine = machine_of("256KiB", "192KiB", "random");
    let cost = |pages: u64| {
        let mut events = EventBuilder::default();
        (0..pages).chain(0..pages).for_each(|page| load(&mut events, page));
        let events = events.finish();
        cost(|| {
            let source = Box::new(Fixed::new(events, 1 << 16));
            simulate(&machine, source, &RunOptions::default(), None, &mut |_| Ok(())).unwrap();
        })
    };
    let (once, twice) = (cost(5000), cost(10_000));
    println!("few frames outside the pool: {once:?}, then {twice:?}");
    assert!(twice.asked * 10 <= once.asked * 23, "{once:?}, then {twice:?}");
}

#[test]
fn short_processes_one_after_the_other() {
    let _turn = turn();
    let events = |processes: u64, pages: u64| {
        let mut events = EventBuilder::default();
        for child in 1..=processes {
            fork(&mut events, child, 0);
            (0..pages).for_each(|page| events.push(Op::Store, page << 12, 8, 1));
            events.push(Op::Exit, child, 0, 0);
            events.push(Op::Switch, 0, 0, 0);
        }
        events.finish()
    };
    let processes = 20_000;
    let peaks = |processes, pages| costs(&events(processes, pages), "random").map(|cost| cost.peak as u64);
    let (few, many) = (peaks(processes, 2), peaks(processes, 22));
    let [simulated, paged] = [0, 1].map(|pass| (many[pass] - few[pass]) / (20 * processes));
    println!("a page of an ended process: {simulated} B simulated, {paged} B in the count of faults");
    // The bytes hold the tables by page number, with doubling vectors at their largest, and a bit for each
    // line. The difference also depends on what the smaller run takes for its processes at its peak. When
    // shares of processes went to the disk, the smaller run fell from 27 MB to 17 MB and the larger run from
    // 73 MB to 70 MB. So the difference rose from 115 B to 133 B, although no table took more.
    assert!(simulated <= 140, "{simulated} B for each page of an ended process");
    assert!(paged <= 115, "{paged} B for each page of an ended process");
}

/// Returns the maximum of the bytes that a run holds, and all bytes that it allocates, under so many seeds.
fn metered(machine: &Machine, events: &EventBatch, seeds: u64, interval: Option<u64>) -> Cost {
    let options = RunOptions { seeds: (0..seeds).collect(), interval, ..RunOptions::default() };
    cost(|| {
        let source = Box::new(Fixed::new(events.clone(), 1 << 12));
        simulate(machine, source, &options, None, &mut |_| Ok(())).unwrap();
    })
}

/// Makes fetches of sixteen instructions, and changes between user and kernel.
fn marked(rows: u64) -> EventBatch {
    let mut events = EventBuilder::default();
    for row in 0..rows {
        events.push(Op::Fetch, row * 64 % 8192, 64, 16);
        load(&mut events, row % 8);
        events.push(if row % 2 == 0 { Op::KernelEnter } else { Op::KernelLeave }, 0, 0, 0);
    }
    events.finish()
}

#[test]
fn a_mark_allocates_nothing_in_a_lane_and_intervals_take_no_memory() {
    let _turn = turn();
    let (rows, lanes) = (20_000, 8);
    let [once, twice] = [rows, 2 * rows].map(marked);
    // Both kinds of front are tested: a front for each lane, and a front that all lanes share.
    for (name, settings) in [("kh90", &[][..]), ("zen-4k", &["cache.l3.size=1MiB".to_string()])] {
        let machine = Machine::load(name, settings).unwrap();
        let more = |seeds| {
            let [once, twice] = [&once, &twice].map(|events| metered(&machine, events, seeds, Some(16)));
            [twice.asked - once.asked, twice.peak.saturating_sub(once.peak)]
        };
        let ([asked, peak], [asked_by_all, peak_of_all]) = (more(2), more(2 + lanes));
        println!(
            "{name}: {rows} intervals more: 2 lanes {asked} B, {peak} B; {}: {asked_by_all} B, {peak_of_all} B",
            2 + lanes
        );
        // Each lane has 40,000 marks. They leave at most a place in a list for each 8 KiB on the disk.
        let each = asked_by_all.saturating_sub(asked) / lanes as usize;
        assert!(each <= 4096, "{name}: {each} B asked for by a lane");
        assert!(peak_of_all <= 16 << 10, "{name}: {peak_of_all} B for {rows} intervals more");
    }
}

#[test]
fn processes_take_no_memory_in_each_lane() {
    let _turn = turn();
    // The processes run once and exit, on one page that all of them share.
    let events = |processes: u64| {
        let mut events = EventBuilder::default();
        events.push_args(Op::Map, 5 << 12, 3 | 8, 1, [Some(1), Some(0)]);
        load(&mut events, 5);
        for asid in 1..=processes {
            events.push(Op::Switch, asid, 0, 0);
            events.push_args(Op::Map, 5 << 12, 3 | 8, 1, [Some(1), Some(0)]);
            load(&mut events, 5);
            events.push(Op::Exit, asid, 0, 0);
        }
        events.finish()
    };
    let (processes, lanes) = (20_000, 8);
    let [once, twice] = [processes, 2 * processes].map(events);
    let machine = machine("random");
    let more = |seeds| {
        let [once, twice] = [&once, &twice].map(|events| metered(&machine, events, seeds, None).peak);
        twice - once
    };
    // A single lane shares nothing, so the test has several lanes.
    let (of_two, of_all) = (more(2), more(2 + lanes));
    println!("{processes} processes more: 2 lanes {of_two} B, {} lanes {of_all} B", 2 + lanes);
    let each = of_all.saturating_sub(of_two) / lanes as usize;
    assert!(each <= 2 << 10, "{each} B in each lane for {processes} processes more");
}

/// Makes processes that live to the end, each with one page of its own.
#[test]
fn a_process_that_lives_costs_little() {
    let _turn = turn();
    let events = |processes: u64| {
        let mut events = EventBuilder::default();
        for asid in 1..=processes {
            events.push(Op::Switch, asid, 0, 0);
            load(&mut events, 5);
        }
        events.finish()
    };
    let (processes, lanes) = (1 << 15, 8);
    let [once, twice] = [processes, 2 * processes].map(events);
    let machine = machine("random");
    let more = |seeds| {
        let [once, twice] = [&once, &twice].map(|events| metered(&machine, events, seeds, None).peak);
        println!("{seeds} lanes: {once} B, then {twice} B");
        (twice - once) as u64
    };
    let (of_two, of_all) = (more(2), more(2 + lanes));
    let in_a_lane = (of_all - of_two) / (lanes * processes);
    let outside = of_two / processes - 2 * in_a_lane;
    println!("a process with one page: {outside} B, and {in_a_lane} B in each lane");
    // The tables have just doubled: address spaces, pages and mappings by number, and the indexes to them.
    assert!(outside <= 460 && in_a_lane <= 55, "{outside} B, and {in_a_lane} B in each lane");
}
