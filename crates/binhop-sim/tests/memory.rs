//! Compares the estimated memory of a run with the memory that it takes. A run never takes more than its
//! estimate, and each seed takes at least half of its estimate, or a stated part.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
#[path = "../../binhop-trace/tests/counting/mod.rs"]
mod counting;

use binhop_sim::{Machine, RunOptions, SwitchOptions, estimated_memory, simulate_all};
use binhop_trace::event::EventBuilder;
use binhop_trace::{EventBatch, Op};
use common::Fixed;
use counting::{cost, turn};

/// Returns references to this many pages, repeated, by two processes.
fn events(pages: u64) -> EventBatch {
    let mut rows = EventBuilder::default();
    for round in 0..4u64 {
        rows.push(Op::Switch, round % 2, 0, 0);
        for page in 0..pages {
            rows.push(Op::Load, ((page * 7 % pages) << 12) + page * 64 % 4096, 8, 1);
            rows.push(Op::Store, (page << 12) + page * 192 % 4096, 8, 1);
            rows.push(Op::Fetch, (page % 64) << 12, 16, 4);
        }
    }
    rows.finish()
}

fn options(seeds: u64, interval: Option<u64>) -> RunOptions {
    RunOptions { seeds: (0..seeds).collect(), interval, ..RunOptions::default() }
}

/// Returns the most bytes that a run holds at any time.
fn peak(machines: &[Machine], events: &EventBatch, options: &RunOptions) -> u64 {
    let source = Box::new(Fixed::new(events.clone(), 1000));
    cost(|| drop(simulate_all(machines, source, options, None, &mut |_| Ok(())).unwrap())).peak as u64
}

fn machine(name: &str, settings: &[&str]) -> Machine {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_string()).collect();
    Machine::load(name, &settings).unwrap()
}

/// Compares the measured and the estimated bytes of each seed and of the whole run.
fn compare(name: &str, settings: &[&str], pages: u64, interval: Option<u64>) {
    compare_all(&[machine(name, settings)], &format!("{name} {settings:?}"), pages, interval);
}

/// Does what [`compare`] does for `zen-4k`, where few bins of level 3 have more pages than ways. The estimate assumes
/// that as many bins as possible have more. So a seed takes at least two fifths of it.
fn compare_with_few_crowded_bins(settings: &[&str], pages: u64, interval: Option<u64>) {
    let machines = [machine("zen-4k", settings)];
    compare_part(&machines, &format!("zen-4k {settings:?}"), (pages, interval), [2, 5]);
}

/// Compares the bytes of a run of several machines with pages of one size.
fn compare_all(machines: &[Machine], name: &str, pages: u64, interval: Option<u64>) {
    compare_part(machines, name, (pages, interval), [1, 2]);
}

/// Compares the bytes of a run of several machines with pages of one size. A seed takes at least the part
/// `numerator` / `denominator` of its estimate.
fn compare_part(
    machines: &[Machine],
    name: &str,
    (pages, interval): (u64, Option<u64>),
    [numerator, denominator]: [u64; 2],
) {
    let _turn = turn();
    let events = events(pages);
    // Each of two processes has pages of its own, unless physical = virtual.
    let intervals = interval.map_or(0, |each| 16 * pages / each);
    let spaces = if machines[0].safe_frames().is_some() { 2 } else { 1 };
    let growth = [spaces * (pages << 12 >> machines[0].memory().page.log2()), 2, intervals];
    // Behind a shared front, two lanes are not simulated in bits, and three are. So what a seed takes is the difference
    // of the two larger runs. More lanes have wider words, which count as the seeds' own.
    let seeds = [2, 3, 11];
    let measured = seeds.map(|seeds| peak(machines, &events, &options(seeds, interval)));
    let estimated =
        seeds.map(|seeds| estimated_memory(machines, &options(seeds, interval), seeds as usize, growth));
    let of_a_seed = [measured, estimated].map(|[_, few, many]| (many - few) / (seeds[2] - seeds[1]));
    let what = format!("{name}, {pages} pages: {measured:?}, {estimated:?}, a seed {of_a_seed:?}");
    println!("{what}");
    assert!(
        measured.iter().zip(&estimated).all(|(taken, most)| taken <= most),
        "more than estimated: {what}"
    );
    assert!(of_a_seed[0] <= of_a_seed[1], "a seed takes more than estimated: {what}");
    let enough = numerator * of_a_seed[1] <= denominator * of_a_seed[0];
    assert!(enough, "a seed takes less than {numerator}/{denominator} of what is estimated: {what}");
}

#[test]
fn machines_of_today_take_what_is_estimated() {
    compare("zen-4k", &[], 2000, None);
    compare("skylake", &[], 2000, None);
}

#[test]
fn small_machines_under_many_pages_take_what_is_estimated() {
    compare("two-level", &[], 30_000, None);
    compare("kh90", &["memory.size=64MiB", "placement.pool=1MiB"], 20_000, None);
    compare("kh90", &["cache.l2.ways=4", "memory.size=64MiB", "placement.pool=1MiB"], 20_000, None);
    // Level 1 continues in bits where pages are evicted.
    compare("skylake", &["memory.size=64MiB", "placement.pool=1MiB"], 20_000, None);
}

/// Lanes of one preparation end to share where a page may be evicted from the smallest memory.
#[test]
fn machines_of_several_memories_take_what_is_estimated() {
    let memory = |size: &str| machine("softvm", &[&format!("memory.size={size}")]);
    compare_all(&[memory("1GiB"), memory("16MiB")], "softvm with two memories", 2000, None);
}

#[test]
fn policies_with_state_take_what_is_estimated() {
    for policy in ["hierarchical", "buddy", "page-coloring-equal"] {
        let policy = format!("placement.policy={policy}");
        compare("zen-4k", &[&policy], 2000, None);
    }
    compare_with_few_crowded_bins(&["placement.policy=colored-lists"], 2000, None);
}

/// Each thread draws a whole order of frames for a moment, of which a lane keeps a part.
#[test]
fn the_orders_that_threads_draw_are_estimated() {
    let machine = machine("zen-4k", &["memory.size=64GiB", "placement.pool=1MiB"]);
    let options = RunOptions { threads: 32, ..options(64, None) };
    let bytes = estimated_memory(&[machine], &options, 64, [1, 1, 0]);
    assert!(bytes > 32 * (64 << 20), "{bytes} B");
}

/// Many lists of four frames are all in use.
#[test]
#[ignore = "takes several seconds: 40,000 pages"]
fn many_colors_take_what_is_estimated() {
    let colors = ["placement.policy=colored-lists", "placement.colors=16384", "memory.size=256MiB"];
    compare("two-level", &colors, 40_000, None);
}

#[test]
fn intervals_and_replacements_take_what_is_estimated() {
    compare_with_few_crowded_bins(&[], 1000, Some(100));
    compare("zen-4k", &["cache.l3.replacement=srrip", "cache.l2.replacement=plru"], 1000, None);
}

/// Compares `kh90` with a form of page table, where pages are evicted.
fn compare_table(table: &str, entry: u32) {
    let (table, entry) = (format!("translation.table={table}"), format!("translation.entry={entry}B"));
    let settings = ["translation=on", "memory.size=64MiB", "placement.pool=1MiB", &table, &entry];
    compare("kh90", &settings, 20_000, None);
}

#[test]
fn translation_takes_what_is_estimated() {
    let radix = ["translation=on", "translation.reserve=8MiB"];
    compare("skylake", &radix, 2000, None);
}

#[test]
#[ignore = "takes a quarter of a minute: the other forms of page tables"]
fn every_form_of_page_table_takes_what_is_estimated() {
    compare_table("hashed", 16);
    compare_table("mips", 4);
    compare_table("inverted", 16);
}

#[test]
fn huge_pages_take_what_is_estimated() {
    compare("zen-4k", HUGE, 2000, None);
}

#[test]
#[ignore = "takes seconds: 20,000 pages in a memory that they fill"]
fn huge_pages_that_fill_memory_take_what_is_estimated() {
    compare("zen-4k", &[HUGE, &["memory.size=64MiB"]].concat(), 20_000, None);
}

const HUGE: &[&str] = &["translation=on", "placement.policy=buddy", "translation.huge-pages=2MiB"];

/// The pages that each process of [`processes`] has.
const PAGES_OF_A_PROCESS: u64 = 60;

/// Returns references of processes that take turns. In each turn a process accesses every 128 bytes of its pages, which
/// are the lines of level 2 on `mb90-2b`, and runs for a million instructions. So its curves are as long as curves get.
fn processes(processes: u64, turns: u64) -> EventBatch {
    let mut rows = EventBuilder::default();
    for turn in 0..turns * processes {
        rows.push_args(Op::Switch, 1 + turn % processes, 1, 0, [Some(2), None]);
        for page in 0..PAGES_OF_A_PROCESS {
            for line in 0..32u64 {
                let address = page << 12 | line << 7;
                if page % 4 == 0 {
                    rows.push(Op::Fetch, address, 16, 2300);
                } else {
                    rows.push(if line % 4 == 0 { Op::Store } else { Op::Load }, address, 8, 1);
                }
            }
        }
    }
    rows.finish()
}

/// Returns the bytes that a run of processes with switches takes on `mb90-2b`, and what is estimated.
fn with_switches(number: u64, turns: u64, seeds: u64) -> (u64, u64) {
    let machine = Machine::load("mb90-2b", &[]).unwrap();
    let events = processes(number, turns);
    let options = RunOptions {
        seeds: (0..seeds).collect(),
        switches: Some(SwitchOptions::default()),
        ..RunOptions::default()
    };
    let growth = [number * PAGES_OF_A_PROCESS, number, 0];
    let estimated = estimated_memory(std::slice::from_ref(&machine), &options, seeds as usize, growth);
    (peak(std::slice::from_ref(&machine), &events, &options), estimated)
}

#[test]
fn private_caches_take_what_is_estimated() {
    let _turn = turn();
    for (processes, turns) in [(30, 3), (120, 2)] {
        let [few, many] = [1, 5].map(|seeds| with_switches(processes, turns, seeds));
        let of_a_seed = [(many.0 - few.0) / 4, (many.1 - few.1) / 4];
        let what = format!("{processes} processes: {few:?}, {many:?}, a seed {of_a_seed:?}");
        println!("{what}");
        assert!(few.0 <= few.1 && many.0 <= many.1, "more than estimated: {what}");
        assert!(of_a_seed[0] <= of_a_seed[1], "a seed takes more than estimated: {what}");
        assert!(of_a_seed[1] <= 2 * of_a_seed[0], "a seed takes less than half of what is estimated: {what}");
    }
}

/// Asserts what MB90's largest design may take: 300 processes at 32 placements, less than 2 GB.
fn assert_less_than_2_gb(bytes: u64) {
    println!("300 processes at 32 placements: {bytes} bytes");
    assert!(bytes < 2_000_000_000, "{bytes}");
}

#[test]
fn placements_of_300_processes_take_less_than_a_32nd_of_2_gb_each() {
    let _turn = turn();
    let [few, many] = [1, 3].map(|seeds| with_switches(300, 2, seeds).0);
    assert_less_than_2_gb(few + 31 * (many - few) / 2);
}

#[test]
#[ignore = "a measurement: takes a minute"]
fn three_hundred_processes_at_32_placements_take_less_than_2_gb() {
    let _turn = turn();
    assert_less_than_2_gb(with_switches(300, 2, 32).0);
}

/// Returns accesses to pages that two processes share at two addresses each. Each access is the first of its line and
/// waits for lanes to look for copies.
fn aliases(pages: u64) -> EventBatch {
    let mut rows = EventBuilder::default();
    for asid in 0..2 {
        rows.push(Op::Switch, asid, 0, 0);
        for start in [0, 1 << 30] {
            rows.push_args(Op::Map, start, 1 | 2 | 8, pages as u32, [Some(7), Some(0)]);
        }
    }
    for round in 0..4 {
        rows.push(Op::Switch, round % 2, 0, 0);
        for page in 0..pages {
            for line in 0..64 {
                let addr = page << 12 | line << 6;
                rows.push(Op::Store, addr, 8, 1);
                rows.push(Op::Load, 1 << 30 | addr, 8, 1);
            }
        }
    }
    rows.finish()
}

/// The accesses that lanes watch for synonyms take no more than what is estimated for them, beside what physical tags
/// take.
#[test]
fn watched_accesses_take_what_is_estimated() {
    let _turn = turn();
    let tagged = |tag: &str| ["l1i", "l1d", "l2i", "l2d"].map(|cache| format!("cache.{cache}.tag={tag}"));
    let by_asid = Machine::load("jm97", &tagged("asid")).unwrap();
    let index = ["l2i", "l2d"].map(|cache| format!("cache.{cache}.index=physical"));
    let physical = Machine::load("jm97", &[&tagged("physical")[..], &index].concat()).unwrap();
    let pages = 100;
    let events = aliases(pages);
    let of = |machine: &Machine| {
        let options = options(1, None);
        let growth = [4 * pages, 2, 0];
        let estimated = estimated_memory(std::slice::from_ref(machine), &options, 1, growth);
        [peak(std::slice::from_ref(machine), &events, &options), estimated]
    };
    let [watched, plain] = [of(&by_asid), of(&physical)];
    let of_watches = [0, 1].map(|at| watched[at].saturating_sub(plain[at]));
    println!("{of_watches:?} B: {watched:?}, {plain:?}");
    assert!(of_watches[0] > 100_000, "nothing is watched: {of_watches:?}");
    assert!(of_watches[0] <= of_watches[1], "more than estimated: {of_watches:?}");
    assert!(watched[0] <= watched[1], "more than estimated");
}

/// Maps pages in regions of 256 MiB, one in each or all in one, in two address spaces, and loads from each page.
fn regions(pages: u64, sparse: bool, shared: bool) -> EventBatch {
    let mut rows = EventBuilder::default();
    for asid in 0..2 {
        rows.push(Op::Switch, asid, 0, 0);
        for page in 0..pages {
            let start = if sparse { page << 28 } else { page << 12 };
            if shared {
                rows.push_args(Op::Map, start, 1 | 2 | 8, 1, [Some(page), Some(0)]);
            }
            rows.push(Op::Load, start, 8, 1);
        }
    }
    rows.finish()
}

/// Global tags take no more than what is estimated for them, beside what tags by address space take.
#[test]
fn segments_take_what_is_estimated() {
    let _turn = turn();
    let machine = |tag: &str| {
        let tags = ["l1i", "l1d", "l2i", "l2d"].map(|cache| format!("cache.{cache}.tag={tag}"));
        Machine::load("jm97", &tags).unwrap()
    };
    for (sparse, shared) in [(false, false), (false, true), (true, false), (true, true)] {
        let pages = 10_000;
        let events = regions(pages, sparse, shared);
        let of = |tag: &str| {
            let (machine, options) = (machine(tag), options(1, None));
            let growth = [2 * pages, 2, 0];
            let estimated = estimated_memory(std::slice::from_ref(&machine), &options, 1, growth);
            [peak(std::slice::from_ref(&machine), &events, &options), estimated]
        };
        let [global, asid] = [of("global"), of("asid")];
        let of_segments = [0, 1].map(|at| global[at].saturating_sub(asid[at]) / (2 * pages));
        println!("sparse {sparse}, shared {shared}: {of_segments:?} B a page: {global:?}, {asid:?}");
        assert!(of_segments[0] <= of_segments[1], "sparse {sparse}, shared {shared}: {of_segments:?}");
        assert!(global[0] <= global[1], "more than estimated");
    }
}
