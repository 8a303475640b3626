//! These tests check that everything that makes binhop fast leaves every result as it is, to the bit: sharing a front
//! among seeds, skipping sure hits, threads, batches, running seeds together or alone.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::common::{
    Event, Fixed, SMALL, batch, behind_warm_up, event, inclusive, machine, reference, run, short_and_long,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_select::filter::filter_record_batch;
use binhop_base::Bytes;
use binhop_hw::{FastPath, FastPathSet};
use binhop_sim::{Machine, Outcome, RunOptions, explain, simulate_all};
use binhop_trace::Op;
use binhop_trace::event::EventBatch;
use proptest::prelude::*;

fn options(seeds: std::ops::Range<u64>) -> RunOptions {
    RunOptions { seeds: seeds.collect(), warmup: 40, interval: Some(300), ..RunOptions::default() }
}

fn assert_equal(a: &RecordBatch, b: &RecordBatch, what: &str) {
    if a != b {
        let row = |batch: &RecordBatch, row| -> Vec<_> {
            batch.columns().iter().map(|column| column.slice(row, 1)).collect()
        };
        let rows = (a.num_rows(), b.num_rows());
        let other = (0..rows.0.min(rows.1)).map(|i| (row(a, i), row(b, i))).find(|(a, b)| a != b);
        panic!("{what}: {other:?}, {rows:?} rows");
    }
}

fn assert_same(a: &Outcome, b: &Outcome, what: &str) {
    assert_equal(&a.results, &b.results, &format!("results: {what}"));
    assert_equal(&a.series.whole().unwrap(), &b.series.whole().unwrap(), &format!("series: {what}"));
    assert_equal(&a.processes.whole().unwrap(), &b.processes.whole().unwrap(), &format!("processes: {what}"));
}

fn compare(number: usize, events: &[Event]) {
    compare_on(&machine(number), events);
}

fn compare_on(machine: &Machine, events: &[Event]) {
    let path = some_path(events.len());
    let together = options(0..3);
    let events = behind_warm_up(together.warmup, events);
    let fast = run(machine, &events, 1000, &together);
    let plain = run(machine, &events, 1000, &RunOptions { share: false, ..together.clone() });
    assert_same(&fast, &plain, "shared and collapsed, or not");
    let threads = run(machine, &events, 1000, &RunOptions { threads: 2, ..together.clone() });
    assert_same(&fast, &threads, "one thread or two");
    let slower = run(machine, &events, 1000, &without(&together, path));
    assert_same(&fast, &slower, &format!("with {} or without", path.name()));
    let small = run(machine, &events, 7, &together);
    assert_same(&fast, &small, "whatever the batches");
    for seed in 0..3 {
        let alone = run(machine, &events, 1000, &options(seed..seed + 1));
        let of = |table: &RecordBatch| of_seed(table, seed);
        assert_equal(&alone.results, &of(&fast.results), "results: alone or together");
        assert_equal(
            &alone.series.whole().unwrap(),
            &of(&fast.series.whole().unwrap()),
            "series: alone or together",
        );
        assert_equal(
            &alone.processes.whole().unwrap(),
            &of(&fast.processes.whole().unwrap()),
            "processes: alone or together",
        );
    }
}

/// Returns the options without one fast path.
fn without(options: &RunOptions, path: FastPath) -> RunOptions {
    RunOptions { without: FastPathSet::NONE.with(path), ..options.clone() }
}

/// Chooses a fast path for each number, so that many cases cover all of them.
fn some_path(number: usize) -> FastPath {
    FastPath::ALL[number % FastPath::ALL.len()]
}

/// Returns the rows of one seed.
fn of_seed(table: &RecordBatch, seed: u64) -> RecordBatch {
    let seeds = table.column_by_name("seed").unwrap().as_primitive::<UInt64Type>();
    filter_record_batch(table, &seeds.values().iter().map(|&number| Some(number == seed)).collect()).unwrap()
}

/// `CHANGES` lists settings of level 2, pool, policy and memory. [`family`] applies the settings that a machine
/// accepts.
const CHANGES: &[&str] = &[
    "cache.l2.size=64KiB",
    "cache.l2.ways=4",
    "cache.l2.ways=8",
    "cache.l2.line=128B",
    "cache.l2.replacement=random",
    "placement.pool=4KiB",
    "placement.policy=first",
    "memory.size=2MiB",
    "cache.l1d.ways=1",
];

/// Returns a machine, changed versions of it, and an unrelated machine.
fn family(number: usize) -> Vec<Machine> {
    let base = machine(number);
    let changed = |settings: &[String]| Machine::parse(&base.resolved(), &settings[0], settings).ok();
    let mut family: Vec<Machine> =
        CHANGES.iter().filter_map(|change| changed(&[(*change).to_string()])).collect();
    assert!(family.len() > CHANGES.len() / 2, "{}", base.name());
    // These are the same sets with more ways: an LRU stack, where the replacement and the front allow a
    // stack.
    let level2 = base.tree().config().caches.iter().find(|cache| cache.name == "l2").unwrap();
    family.extend([1, 2, 4].into_iter().filter_map(|times| {
        let size = format!("cache.l2.size={}", Bytes(times * level2.size.0));
        let ways = format!("cache.l2.ways={}", times * u64::from(level2.ways));
        changed(&[size, ways, "cache.l2.replacement=lru".to_string()])
    }));
    family.extend([base, machine((number + 1) % SMALL.len())]);
    family
}

fn compare_family(number: usize, events: &[Event]) {
    let machines = family(number);
    let options = options(0..2);
    let events = behind_warm_up(options.warmup, events);
    let together = |options: &RunOptions| {
        let source = Box::new(Fixed::new(events.clone(), 1000));
        simulate_all(&machines, source, options, None, &mut |_| Ok(())).unwrap()
    };
    let outcomes = together(&options);
    let threads = together(&RunOptions { threads: 2, ..options.clone() });
    let unshared = together(&RunOptions { share: false, ..options.clone() });
    let slower =
        FastPath::ALL.iter().map(|&path| (path, together(&without(&options, path)))).collect::<Vec<_>>();
    assert_eq!(outcomes.len(), machines.len());
    for (number, machine) in machines.iter().enumerate() {
        let alone = run(machine, &events, 1000, &options);
        let what = format!("{} alone or with others", machine.name());
        assert_same(&alone, &outcomes[number], &what);
        assert_eq!((&alone.notes, &alone.machine), (&outcomes[number].notes, &outcomes[number].machine));
        assert_same(&alone, &threads[number], &format!("{what}, two threads"));
        assert_same(&alone, &unshared[number], &format!("{what}, stages shared or not"));
        for (path, outcomes) in &slower {
            assert_same(&alone, &outcomes[number], &format!("{what}, with {} or without", path.name()));
        }
    }
}

/// A page that was evicted returns, and its line misses, although no other request of its slot came between.
#[test]
fn a_line_that_left_with_its_page_is_no_known_hit() {
    let level2 = |size: &str| {
        let toml = format!(
            r#"memory = {{ size = "40KiB", page = "4KiB" }}
               placement = {{ policy = "first", pool = "4KiB" }}
               [cache.l1]
               serves = "all"
               size = "8KiB"
               line = "32B"
               next = "l2"
               [cache.l2]
               size = "{size}"
               line = "32B"
               replacement = "fifo"
               next = "memory""#
        );
        Machine::parse(&toml, size, &[]).unwrap()
    };
    // The smaller level 2 has as many lines as a page, so each line number has a slot of its own.
    let machines = [level2("4KiB"), level2("8KiB")];
    assert!(explained(&machines, 1, true).contains("fast paths: two-phase, chain, known-hits\n"));
    // The eleventh page takes the frame of page 0.
    let load = |page: u8| Event::Data { op: Op::Load, page, offset: u16::from(page) * 64, size: 4 };
    let events: Vec<Event> = (0..11).chain([0]).map(load).collect();
    let source = Box::new(Fixed::new(batch(&events), 1000));
    let options = RunOptions { seeds: vec![0], ..RunOptions::default() };
    let outcomes = simulate_all(&machines, source, &options, None, &mut |_| Ok(())).unwrap();
    for outcome in outcomes {
        assert_eq!(values(&outcome, "l2.load.misses"), [12.0]);
    }
}

/// Lanes are bits in bundles of up to 64, and threads share the bundles.
#[test]
fn many_lanes_in_bundles_are_each_lane_alone() {
    let machine = machine(SMALL.len() - 1);
    let plan = explained(std::slice::from_ref(&machine), 70, true);
    assert!(
        plan.contains("up to 64 are simulated together, one bit for each\n  backs: in the bits"),
        "{plan}"
    );
    assert!(plan.contains("  fast paths: lane-bits\n"), "{plan}");
    let events = data_in_many_pages();
    let options = options(0..70);
    let bits = run(&machine, &events, 1000, &options);
    let lanes = run(&machine, &events, 1000, &without(&options, FastPath::LaneBits));
    assert_same(&bits, &lanes, "in bits or not");
    let threads = run(&machine, &events, 1000, &RunOptions { threads: 3, ..options });
    assert_same(&bits, &threads, "one thread or three");
}

/// Returns loads and stores in 41 pages, with some fetches and switches between them.
fn data_in_many_pages() -> EventBatch {
    batch(&(0..6000).map(some_event).collect::<Vec<_>>())
}

/// Returns an event of [`data_in_many_pages`].
fn some_event(at: u64) -> Event {
    match at % 97 {
        13 => Event::Switch((at % 4) as u8),
        // Six instructions of a page.
        5 | 50 => Event::Fetch { page: (at % 41) as u8, offset: (at * 36 % 4000) as u16, count: 6 },
        _ => Event::Data {
            op: if at.is_multiple_of(3) { Op::Store } else { Op::Load },
            page: (at * at % 41) as u8,
            offset: (at * 52 % 4096) as u16,
            size: 4,
        },
    }
}

/// Returns a small machine with these settings changed.
fn changed(number: usize, settings: &[&str]) -> Machine {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_string()).collect();
    Machine::parse(&machine(number).resolved(), "back", &settings).unwrap()
}

/// Simulates machines together, with backs in bits and without, on one thread and on three.
fn assert_bits_change_nothing(machines: &[Machine], events: &EventBatch, options: RunOptions) {
    let outcomes = |options: &RunOptions| {
        let source = Box::new(Fixed::new(events.clone(), 1000));
        simulate_all(machines, source, options, None, &mut |_| Ok(())).unwrap()
    };
    let bits = outcomes(&options);
    let in_bits = [FastPath::LaneBits, FastPath::BackBits, FastPath::FrontBits];
    let off = in_bits.into_iter().fold(FastPathSet::NONE, FastPathSet::with);
    let lanes = outcomes(&RunOptions { without: off, ..options.clone() });
    let threads = outcomes(&RunOptions { threads: 3, ..options });
    assert_eq!([bits.len(), lanes.len(), threads.len()], [machines.len(); 3]);
    for (bits, (lanes, threads)) in bits.iter().zip(lanes.iter().zip(&threads)) {
        assert_same(bits, lanes, "in bits or not");
        assert_same(bits, threads, "one thread or three");
    }
}

/// Several machines share one front. Lanes of some machines have backs in bits, and lanes of the other machines have no
/// such back. No stack takes the backs of a lane that has a back in bits.
#[test]
fn lanes_with_backs_in_bits_stand_beside_lanes_without() {
    let events = data_in_many_pages();
    let set = |settings: &[&str]| changed(1, settings);
    let (lru, plru) = ("cache.l2.replacement=lru", "cache.l2.replacement=plru");
    let one = set(&["cache.l2.ways=4", lru]);
    let more = set(&["cache.l2.size=32KiB", "cache.l2.ways=8", lru]);
    let other = set(&["cache.l2.ways=4", plru]);
    let elsewhere = set(&["cache.l2.ways=4", plru, "placement.policy=bin-hopping"]);
    for machines in
        [vec![one.clone(), elsewhere.clone()], vec![elsewhere, one.clone()], vec![one, more, other]]
    {
        assert_bits_change_nothing(&machines, &events, options(0..5));
    }
}

/// Behind a shared front, the backs of many lanes are bits: in memory that is ample, and until a page is evicted. Of
/// two machines, one has a level 3, and one has a back that is no bit.
#[test]
fn backs_of_many_lanes_in_bundles_are_each_lane_alone() {
    let events = data_in_many_pages();
    for (number, back) in [(1, "random"), (1, "lru"), (2, "fifo"), (2, "lru")] {
        let set = |settings: &[&str]| changed(number, settings);
        let (ways, replacement) = ("cache.l2.ways=4", &*format!("cache.l2.replacement={back}"));
        let level3 = ["cache.l2.next=l3", "cache.l3.size=64KiB", "cache.l3.line=128B", "cache.l3.ways=2"];
        let random = ["cache.l3.replacement=random", "cache.l3.next=memory"];
        let cost: &[&str] = if number == 2 { &["cost.l3=31"] } else { &[] };
        let in_bits = set(&[&[ways, replacement], &level3[..], &random, cost].concat());
        let plan = explained(std::slice::from_ref(&in_bits), 70, true);
        assert!(
            plan.contains(", back-bits") && plan.contains("  backs: in the bits of their lanes, until"),
            "{plan}"
        );
        let machines = [in_bits, set(&["cache.l2.ways=4", "cache.l2.replacement=plru"])];
        assert_bits_change_nothing(&machines, &events, options(0..70));
    }
}

/// Lanes of several placements stand in one bundle if their caches are equal: level 1 in bits, and backs in bits alone.
#[test]
fn lanes_of_several_placements_in_one_bundle_are_each_lane_alone() {
    let events = data_in_many_pages();
    for number in [SMALL.len() - 1, 1] {
        let set = |settings: &[&str]| changed(number, &[&["cache.l2.ways=2"], settings].concat());
        let machines = [
            set(&["cache.l2.replacement=random"]),
            set(&["cache.l2.replacement=random", "placement.policy=bin-hopping"]),
            set(&["cache.l2.replacement=fifo", "placement.policy=bin-hopping"]),
            set(&["cache.l2.replacement=random", "placement.policy=sequential"]),
        ];
        for seeds in [0..5_u64, 0..40] {
            let plan = explained(&machines, seeds.end, true);
            assert!(plan.contains("one bit for each\n") && plan.contains("backs: in the bits"), "{plan}");
            assert_bits_change_nothing(&machines, &events, options(seeds));
        }
    }
}

/// Of two machines with one front, one has stream buffers behind the front, so that no lane is a bit.
#[test]
fn a_back_with_stream_buffers_beside_another_back() {
    let set = |settings: &[String]| Machine::load("kh90", settings).unwrap();
    let (plain, streams) = (set(&[]), set(&["stream-buffers.l2.buffers=4".to_string()]));
    let load = |page: u8| Event::Data { op: Op::Load, page, offset: u16::from(page) * 64, size: 4 };
    let events = batch(&(0..40).chain(0..40).map(load).collect::<Vec<_>>());
    let options = RunOptions { seeds: vec![0, 1], ..RunOptions::default() };
    for machines in [[plain.clone(), streams.clone()], [streams, plain]] {
        let source = Box::new(Fixed::new(events.clone(), 1000));
        let together = simulate_all(&machines, source, &options, None, &mut |_| Ok(())).unwrap();
        for (machine, outcome) in machines.iter().zip(&together) {
            assert_same(&run(machine, &events, 1000, &options), outcome, "alone or together");
        }
    }
}

/// Returns the value of a metric, by seed.
fn values(outcome: &Outcome, metric: &str) -> Vec<f64> {
    let column = |name: &str| outcome.results.column_by_name(name).unwrap();
    let (names, values) =
        (column("metric").as_string::<i32>(), column("value").as_primitive::<Float64Type>());
    (0..names.len()).filter(|&row| names.value(row) == metric).map(|row| values.value(row)).collect()
}

/// Two lines conflict in level 1 and not in level 2. Each line is loaded twice, then one line is fetched. Two
/// misses reach memory (100 cycles). Three more accesses reach the inclusive level 2 (10 cycles) or memory.
/// One instruction runs.
#[test]
fn waits_for_an_inclusive_cache_are_counted_where_its_front_is_shared() {
    let toml = r#"memory = { size = "1MiB", page = "4KiB" }
        placement = { policy = "random", pool = "1MiB" }
        [cache.l1]
        serves = "all"
        size = "128B"
        line = "32B"
        next = "l2"
        [cache.l2]
        size = "4KiB"
        line = "32B"
        inclusive = true
        next = "memory"
        [cost]
        l2 = 10
        memory = 100"#;
    let machine = Machine::parse(toml, "inclusive", &[]).unwrap();
    let load = |offset| Event::Data { op: Op::Load, page: 0, offset, size: 4 };
    let fetch = Event::Fetch { page: 0, offset: 0x40, count: 1 };
    let events = batch(&[load(0), load(0x80), load(0), load(0x80), fetch]);
    let cycles = |seeds: std::ops::Range<u64>, share| {
        let options = RunOptions { seeds: seeds.collect(), share, ..RunOptions::default() };
        values(&run(&machine, &events, 1000, &options), "cycles")
    };
    assert_eq!(cycles(0..1, true), [321.0]);
    assert_eq!(cycles(0..2, false), [321.0, 321.0]);
    assert_eq!(cycles(0..2, true), [321.0, 321.0]);
}

#[test]
fn the_plan_says_what_is_shared_and_why_not() {
    let explained = |number: usize| explained(&family(number), 2, true);
    let scarce = explained(1);
    assert!(scarce.contains("the trace is decoded once"), "{scarce}");
    assert!(scarce.contains("level 1 does not depend on placement"), "{scarce}");
    assert!(scarce.contains("2 stacks of"), "{scarce}");
    assert!(explained(0).contains("indexed by physical address bits above the page offset"));
    assert!(explained(4).contains("a write buffer or an inclusive cache answers every request"));
    assert!(explained(4).contains("a write buffer's stalls depend on each placement's misses"));
    // `explain` prints the decision on each fast path, and the reasons.
    assert!(scarce.contains("  fast paths: chain, known-hits, lru-stack\n"), "{scarce}");
    let why = "  fast path two-phase is not taken: level 1 is neither direct-mapped, nor LRU of 2, 4 or 8 ways, nor \
               LRU of 8 ways beside 9 to 16 for data\n  \
               fast path direct-mapped is not taken: the back is not direct-mapped";
    assert!(scarce.contains(why), "{scarce}");
    let at_once = explained(4);
    assert!(at_once.contains("fast paths: none\n  fast path two-phase is not taken: a write"), "{at_once}");
    let off = self::explained(&family(1), 2, false);
    assert!(off.contains("fast paths: none\n  fast path two-phase is not taken: switched off\n"), "{off}");
    // One machine under one seed has nothing to share. Three machines that differ only behind the front make
    // one placement for each seed.
    assert!(self::explained(&family(0)[..1], 1, true).contains("one seed: nothing to share"));
    let ways = |ways: u32| Machine::parse(&machine(0).resolved(), "ways", &[format!("cache.l2.ways={ways}")]);
    let level2 = [1, 2, 4].map(|number| ways(number).unwrap());
    let lines = self::explained(&level2, 5, true);
    assert!(lines.contains("= 5 lanes; each page placement is made once for its 3 backs"), "{lines}");
}

/// Returns the sharing plan in words, with the machines' numbers as names.
fn explained(machines: &[Machine], seeds: u64, share: bool) -> String {
    let names: Vec<String> = (0..machines.len()).map(|number| format!("number {number}")).collect();
    let options = RunOptions { seeds: (0..seeds).collect(), share, ..RunOptions::default() };
    explain(machines, &names, &options, None).unwrap().join("\n")
}

#[test]
fn the_plan_names_each_machine_of_a_front_and_why_it_is_apart() {
    let level2 = |ways: u32| {
        Machine::parse(&machine(0).resolved(), "ways", &[format!("cache.l2.ways={ways}")]).unwrap()
    };
    let lines = explained(&[level2(1), level2(2), machine(3), level2(4), level2(8)], 2, true);
    let fronts: Vec<&str> = lines.lines().filter(|line| line.starts_with("front ")).collect();
    assert_eq!(
        fronts,
        [
            "front 1 of preparation 1: 4 machines (number 0; number 1; number 3; and 1 more)",
            "front 1 of preparation 2: 1 machine (number 2)",
        ]
    );
    let apart = "preparation 2: 1 machine that preparation 1 does not suit. They differ in ";
    assert!(lines.contains(apart), "{lines}");
    // The following lines are about a policy of the caller's own, and about machines that do not suit it.
    let options = RunOptions::default();
    let lines = explain(&[machine(0)], &[String::new()], &options, Some("Mine")).unwrap();
    assert_eq!(lines[1], "policy: Mine places pages, in place of each machine's own policy");
    let identity = SMALL.iter().position(|(name, _)| *name == "physical = virtual").unwrap();
    assert!(explain(&[machine(identity)], &[String::new()], &options, Some("Mine")).is_err());
}

/// Returns machines whose lanes share a front until a frame changes hands: because memory is scarce, or because frames
/// of dead pages are used again at once. Level 1 then continues in bits.
fn with_level_1_that_continues_in_bits(scarce: bool) -> [Machine; 3] {
    let first: &[&str] = match scarce {
        true => &["memory.size=96KiB", "placement.pool=32KiB"],
        false => &["placement.policy=buddy", "placement.fragmentation=50"],
    };
    let set = |settings: &[&str]| changed(2, &[first, settings].concat());
    let elsewhere = if scarce { "placement.policy=first" } else { "placement.fragmentation=0" };
    let lru = ["cache.l2.ways=4", "cache.l2.replacement=lru", elsewhere];
    [set(&["cache.l2.ways=4"]), set(&["cache.l2.ways=2", "cache.l2.replacement=srrip"]), set(&lru)]
}

/// More lanes than a bundle holds share a front, and lose pages.
#[test]
fn level_1_of_many_lanes_continues_in_bits_where_the_sharing_ends() {
    for scarce in [false, true] {
        let machines = with_level_1_that_continues_in_bits(scarce);
        let plan = explained(&machines, 70, true);
        assert!(plan.contains("front-bits\n"), "{plan}");
        let unmap = |page: u8| {
            [Event::Unmap { page, pages: 2 }, Event::Data { op: Op::Load, page, offset: 0, size: 4 }]
        };
        let data = some_event;
        let part = |number: u64| (number * 500..(number + 1) * 500).map(data).chain(unmap(number as u8 * 3));
        let events = batch(&(0..8).flat_map(part).collect::<Vec<_>>());
        assert_bits_change_nothing(&machines, &events, options(0..70));
    }
}

short_and_long! { many_ends_of_sharing: 12, 300;
    fn level_1_continues_in_bits(scarce in any::<bool>(), seeds in 3..8_u64, events in prop::collection::vec(event(), 1..1200)) {
        let options = options(0..seeds);
        let events = behind_warm_up(options.warmup, &events);
        assert_bits_change_nothing(&with_level_1_that_continues_in_bits(scarce), &events, options);
    }
}

short_and_long! { many_families: 2, 24;
    fn machines_together_or_alone(number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..800)) {
        compare_family(number, &events);
    }

    fn machines_together_or_alone_under_scarce_memory(number in 0..SMALL.len(), events in prop::collection::vec(reference(), 1..1500)) {
        compare_family(number, &events);
    }
}

short_and_long! { many_machines: 6, 48;
    fn every_machine_every_event(number in 0..SMALL.len(), events in prop::collection::vec(event(), 1..1500)) {
        compare(number, &events);
    }

    fn inclusive_caches_and_every_event(machine in inclusive(), events in prop::collection::vec(event(), 1..1500)) {
        compare_on(&machine, &events);
    }

    fn inclusive_caches_and_long_runs_of_references(machine in inclusive(), events in prop::collection::vec(reference(), 1..4000)) {
        compare_on(&machine, &events);
    }

    fn long_runs_of_references_under_scarce_memory(number in 0..SMALL.len(), events in prop::collection::vec(reference(), 1..4000)) {
        compare(number, &events);
    }
}
